"""Questions for paper on lesson 08."""

import math

from teaching.generate.paper.question import Question, number, question


@question
def q08_loss(r):
    powers, pads = [r.choice([1, 2, 3]) for _ in range(3)], r.choice([1, 2, 3])
    total = sum(powers)
    out = {
        "right": total / 3,
        "pads_counted": (total + pads) / (3 + pads),
        "pads_in_divisor": total / (3 + pads),
    }
    chances = ", ".join(f"1/{2**p}" for p in powers)
    return Question(
        "The loss in eighths",
        f"The right words of a sentence get the probabilities {chances}; behind "
        f"them {'stands 1 pad' if pads == 1 else f'stand {pads} pads'}, "
        "where the model gives 1/2 to the "
        "pad. Write every loss as a multiple of ln 2: (a) as it should be; "
        "(b) pads counted as words; (c) pads left out of the sum and not of the "
        "divisor. (d) Which test finds (b) and (c)?",
        f"(a) {total}/3 = {number(out['right'])}. (b) {total + pads}/{3 + pads} "
        f"= {number(out['pads_counted'])}. (c) {total}/{3 + pads} = "
        f"{number(out['pads_in_divisor'])}. (d) Append pads: the loss must not move.",
        ((2, "a"), (2, "b"), (1, "c"), (1, "d")),
        {"powers": powers, "pads": pads},
        out,
    )


@question
def q08_mean_of_means(r):
    short, long = r.choice([2, 3, 4]), r.choice([8, 10, 12, 16])
    a, b = r.choice([2, 3]), 1
    out = {"means": (a + b) / 2, "tokens": (short * a + long * b) / (short + long)}
    return Question(
        "A batch in two parts",
        f"Memory is short: a batch is processed in two parts, {short} tokens with a loss "
        f"of {a} each and {long} tokens with a loss of {b} each. (a) The mean of the two "
        "means? (b) The mean over tokens? (c) In (a), how many times as much "
        "as a token of the long part does one of the short part weigh? (d) The cure, in one "
        "sentence?",
        f"(a) {number(out['means'])}. (b) {number(out['tokens'])}. (c) "
        f"{number(long / short, 2)} times. (d) Sum the losses of both parts, divide once by the "
        "number of real tokens.",
        ((1, "a"), (2, "b"), (1, "c"), (1, "d")),
        {"short": short, "long": long, "a": a, "b": b},
        out | {"ratio": long / short},
    )


@question
def q08_smoothing(r):
    V, eps = r.choice([4, 5, 8, 10]), r.choice([0.1, 0.2])
    high, low = 1 - eps + eps / V, eps / V
    floor = -high * math.log(high) - (V - 1) * low * math.log(low)
    return Question(
        "Label smoothing",
        f"ε = {eps} over {V} words, shared out over all of them. (a) What does the "
        "target give to the right word, and to each other? (b) Which loss has a "
        "model that gives exactly that? "
        "(c) Why can two losses with different ε not be compared?",
        f"(a) {number(high, 4)} and {number(low, 4)}. (b) The entropy of the target: "
        f"−{number(high, 4)} ln {number(high, 4)} − "
        f"{V - 1} · {number(low, 4)} ln {number(low, 4)} = {number(floor)}. "
        "(c) Each has a floor of its own.",
        ((2, "a"), (2, "b"), (1, "c")),
        {"V": V, "eps": eps},
        {"high": high, "low": low, "floor": floor},
    )


@question
def q08_rate(r):
    warmup, half = r.choice([(100, 50), (400, 200), (4000, 2000), (1000, 500)])
    after = warmup**3 // half**2
    lengths = r.sample([2, 3, 4, 5, 6, 7, 8, 9], 5)
    batches, filled = [], sorted(lengths)
    for length in filled:
        if batches and (len(batches[-1]) + 1) * length <= 12:
            batches[-1].append(length)
        else:
            batches.append([length])
    places = sum(len(batch) * max(batch) for batch in batches)
    return Question(
        "A rate and a batch",
        f"(a) The paper's schedule with a warm-up of {warmup} steps: at which step "
        f"after the crest is the rate that of step {half}? (b) Sentences of lengths "
        f"{', '.join(map(str, lengths))} are sorted and filled, as many as fit, into "
        "batches with count × longest ≤ 12. Which batches? How many places are padding?",
        f"(a) Before: step · warmup^(−3/2); after: step^(−1/2). Equal at warmup³ / {half}² "
        f"= {after}. (b) {batches}: {places} places for {sum(lengths)} tokens, "
        f"{places - sum(lengths)} of padding.",
        ((3, "a"), (2, "b: the batches"), (1, "padding")),
        {"warmup": warmup, "half": half, "lengths": lengths},
        {"after": after, "batches": batches, "padding": places - sum(lengths)},
    )
