"""Questions for paper on lesson 01."""

import math

from teaching.generate.paper.question import Question, number, question, row


@question
def q01_context(r):
    exps, values = r.sample([1, 2, 3, 4, 5, 6], 3), r.sample(range(0, 100, 10), 3)
    total = sum(exps)
    mixed = sum(e * v for e, v in zip(exps, values, strict=True))
    context, padded = mixed / total, mixed / (total + 2)
    scores = ", ".join(f"ln {e}" for e in exps)
    return Question(
        "A context on paper",
        f"Three encoder states have the scores {scores} and the values {row(values)}, each one "
        "number. (a) Which weights? (b) Which context? "
        "(c) The sentence is padded with two states "
        "of score 0 and value 0, which nobody masks. Which context now?",
        f"(a) The exponentials are {row(exps)}, their sum is {total}: weights "
        f"{', '.join(f'{e}/{total}' for e in exps)}. (b) {mixed}/{total} = {number(context)}. "
        f"(c) Each pad adds e⁰ = 1 to the sum: {mixed}/{total + 2} = {number(padded)}.",
        (
            (2, "exponentials and their sum"),
            (2, "weighted sum of the values"),
            (2, "e⁰ = 1 twice in the denominator", (1, "saying that pads must get weight 0")),
        ),
        {"exps": exps, "values": values},
        {"context": context, "padded": padded},
    )


@question
def q01_lead(r):
    others, share = r.choice([2, 3, 4]), r.choice([80, 90, 95])
    ratio = share * others // (100 - share)
    lead = math.log(ratio)
    return Question(
        "How far ahead",
        f"One key gets the weight 0.{share}, and {others} "
        "others share the rest equally. By how much is its "
        "score ahead of theirs?",
        "The ratio of two weights is e to the difference of their scores: "
        f"0.{share} is {ratio} times 0.{100 - share:02}/{others}. ln {ratio} = {number(lead)}.",
        ((2, "ratio of weights = e^(difference)"), (2, "the logarithm")),
        {"others": others, "share": share},
        {"lead": lead},
    )


@question
def q01_waiting(r):
    n = r.choice([12, 20, 50, 100])
    steps = [n, n + 1, 1, n]
    return Question(
        "Who has to wait",
        f"A sentence has {n} places. How many steps have "
        "to be taken one after the other in (a) the states of a "
        "recurrent reader; (b) a look back whose query is a "
        "recurrent state that took as many steps; (c) one layer of "
        "self-attention in training; (d) the same layer in writing?",
        f"(a) {steps[0]}, (b) {steps[1]}, the states and then "
        f"the look, (c) {steps[2]}, (d) {steps[3]}: each word "
        "waits for the one before, in a Transformer too.",
        ((1, "a"), (1, "b"), (1, "c"), (1, "d")),
        {"places": n},
        {"steps": steps},
    )


@question
def q01_additive(r):
    q, keys = r.choice([-1, 0, 1]), r.sample([-2, -1, 0, 1, 2], 3)
    values = r.sample(range(0, 100, 10), 3)
    best = values[keys.index(max(keys))]
    mean = sum(values) / 3
    return Question(
        "Additive scores",
        "Everything is one number wide: e<sub>j</sub> = "
        f"v · tanh(q + k<sub>j</sub>), keys {row(keys)}, "
        f"values {row(values)}, q = {number(q)}. What is the "
        "context, to the nearest tenth, for (a) v = 0; (b) v = 1000, which is as good as infinite? "
        "(c) Somebody forgot the tanh. What can q then change?",
        f"(a) equal scores, the mean: {number(mean, 1)}. (b) the largest key has all the weight: "
        f"{number(float(best), 1)}. (c) Nothing: v·q is added to "
        "every score, and the softmax cancels what all scores have "
        "in common.",
        (
            (1, "the mean"),
            (2, "the value of the largest key"),
            (2, "cancels", (1, "“nothing” without a reason")),
        ),
        {"q": q, "keys": keys, "values": values},
        {"mean": mean, "best": best},
    )
