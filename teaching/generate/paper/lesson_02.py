"""Questions for paper on lesson 02."""

import math

from teaching.generate.paper.question import Question, number, question, row, softmax


@question
def q02_one_query(r):
    while True:
        query = [r.randint(0, 2) for _ in range(4)]
        keys = [[r.randint(0, 2) for _ in range(4)] for _ in range(3)]
        scores = [sum(a * b for a, b in zip(query, key, strict=True)) for key in keys]
        if sorted(s - min(scores) for s in scores) in ([0, 2, 4], [0, 2, 2], [0, 0, 2]):
            break
    values = [[r.randint(0, 3), r.randint(0, 3)] for _ in range(3)]
    weights = softmax([score / 2 for score in scores])
    away = sorted((score - min(scores)) // 2 for score in scores)
    output = [sum(w * v[i] for w, v in zip(weights, values, strict=True)) for i in (0, 1)]
    return Question(
        "One query on paper",
        f"Query {row(query)}; keys {row(keys[0])}, "
        f"{row(keys[1])}, {row(keys[2])}; values {row(values[0])}, "
        f"{row(values[1])}, {row(values[2])}. Compute scaled "
        "dot-product attention: scores, scaled scores, "
        "weights, output, to three decimals. (The same number may be taken off all scores; "
        f"the softmax of {row(away)} is {row(softmax(away))}.)",
        f"Scores {row(scores)}; divided by √4 = 2: "
        f"{row([s / 2 for s in scores], 1)}; weights {row(weights)}; output "
        f"{row(output)}.",
        (
            (2, "three dot products"),
            (1, "÷ 2"),
            (2, "softmax over the keys", (1, "a softmax that does not add up to 1")),
            (1, "weighted sum"),
        ),
        {"query": query, "keys": keys, "values": values},
        {"weights": weights, "output": output},
    )


@question
def q02_root(r):
    d = r.choice([9, 16, 25, 36, 64, 100])
    root = math.isqrt(d)
    return Question(
        "Why the root",
        f"Queries and keys have {d} independent entries, each "
        "+1 or −1 by a coin. (a) Variance and standard deviation of q·k? "
        "(b) The standard deviation after dividing by √d<sub>k</sub>, and "
        "after dividing by d<sub>k</sub>? (c) What is wrong with the "
        "second as d<sub>k</sub> grows?",
        f"(a) Each product has variance 1 and they add up: {d}; "
        f"standard deviation {root}. (b) 1, and 1/{root}. (c) All scores become "
        "nearly equal, so attention starts as a plain mean that hardly depends on the query.",
        ((2, "variances add up"), (2, "both standard deviations"), (1, "nearly equal weights")),
        {"d_k": d},
        {"variance": d, "deviation": root, "scaled": 1.0, "by_d": 1 / root},
    )


@question
def q02_temperature(r):
    gap, ratio = r.choice([1, 2, 3]), r.choice([2, 3, 5, 10])
    T = gap / math.log(ratio)
    return Question(
        "Temperature",
        f"Two keys have scores that differ by {gap}. At which "
        f"temperature has the better one {ratio} times the weight of "
        "the other? What happens to a tie as T → 0?",
        f"The ratio is e^({gap}/T) = {ratio}, so T = {gap} / ln {ratio} "
        f"= {number(T)}. A tie stays a tie: each half of it keeps "
        "an equal share.",
        ((2, "ratio of the weights"), (1, "the number"), (1, "the tie")),
        {"gap": gap, "ratio": ratio},
        {"T": T},
    )


@question
def q02_softmax_backward(r):
    parts = r.choice([(1, 3), (1, 1), (3, 1), (1, 4), (2, 3)])
    w = [part / sum(parts) for part in parts]
    dw = [r.randint(-3, 3), r.randint(-3, 3)]
    if dw[0] == dw[1]:
        dw[0] += 1
    mean = sum(a * b for a, b in zip(w, dw, strict=True))
    ds = [a * (b - mean) for a, b in zip(w, dw, strict=True)]
    return Question(
        "Back through the softmax",
        f"One query, two keys, weights w = {row(w, 2)}; the "
        f"loss has the gradient dw = {row(dw)} with respect to "
        "them. Compute ds, the gradient with respect to "
        "the scores. Why must its entries add up to 0?",
        f"The mixture is Σ dw·w = {number(mean, 2)}; ds = w ∘ (dw − "
        f"mixture) = {row(ds)}. They add up to 0 because adding the same "
        "number to all scores changes no weight.",
        (
            (2, "the mixture"),
            (2, "ds"),
            (
                2,
                "shift invariance, or Σ ds = m − m Σ w = 0",
                (1, "adding up these numbers only"),
            ),
        ),
        {"w": w, "dw": dw},
        {"ds": ds},
    )
