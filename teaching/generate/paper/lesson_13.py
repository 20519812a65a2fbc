"""Questions for paper on lesson 13."""

import math

from teaching.generate.paper.question import Question, number, question, row


@question
def q13_groups(r):
    H, G, d, n = r.choice([(8, 2, 64, 100), (16, 4, 64, 1000), (32, 8, 128, 1000)])
    asked = r.randrange(H)
    return Question(
        "Grouped queries",
        f"{H} query heads share {G} heads of keys and values, size {d}. (a) Which of them "
        f"does query head {asked} read, counted from 0? (b) How many numbers does a layer's "
        f"cache hold for {n} tokens, and how many without sharing? (c) What is not saved?",
        f"(a) {asked} // {H // G} = {asked // (H // G)}. (b) 2 · {G} · {d} · {n} = "
        f"{2 * G * d * n}, and {2 * H * d * n}. "
        "(c) The scores: every query head still computes its own.",
        ((2, "a"), (2, "b"), (1, "c")),
        {"H": H, "G": G, "d": d, "n": n, "asked": asked},
        {"group": asked // (H // G), "shared": 2 * G * d * n, "all": 2 * H * d * n},
    )


@question
def q13_rms(r):
    scale = r.choice([1, 2])
    x = r.choice([(1, -1, 7, 7), (2, 4, -4, 8), (1, 3, -3, 9), (1, 5, 5, -7)])
    x = [scale * v for v in r.sample(x, 4)]
    root = math.isqrt(sum(v * v for v in x) // len(x))
    y = [v / root for v in x]
    return Question(
        "RMSNorm",
        f"x = {row(x)}, γ = 1, ε = 0. (a) The root of the mean square? (b) "
        "RMSNorm(x)? (c) What happens to x + 1000 here, and what in LayerNorm?",
        f"(a) {number(root)}. (b) {row(y)}. (c) Here all numbers become "
        "nearly 1; LayerNorm takes the mean off first and does not notice.",
        ((2, "a"), (1, "b"), (2, "c")),
        {"x": x},
        {"y": y},
    )


@question
def q13_online(r):
    first = [r.choice([1, 2]), 3]
    values = r.sample(range(1, 9), 3)
    rise = r.choice([1, 2])
    later = 3 + rise
    powers = [2 ** (s - 3) for s in first]
    total, mixed = sum(powers), powers[0] * values[0] + powers[1] * values[1]
    sums = [total / 2**rise + 1, mixed / 2**rise + values[2]]
    output = sums[1] / sums[0]
    return Question(
        "Attention in one pass",
        f"Attention with powers of two in place of e. The first block has the scores {row(first)} "
        f"and the values {row(values[:2])}, the second the score {later} and the value "
        f"{values[2]}. (a) What is kept of the first block: the largest score, the sum of powers, "
        "the weighted sum of values? (b) The two sums after the second block? (c) The output? (d) "
        "What does one save in this way, and what not?",
        f"(a) 3, {number(total)}, {number(mixed)}. (b) The old sums are divided by {2**rise}: "
        f"{number(sums[0], 4)} and {number(sums[1], 4)}. (c) {number(output)}. (d) The table of "
        "all scores, which need not be stored; the products are as many as before.",
        ((2, "a"), (2, "b"), (1, "c"), (1, "d")),
        {"scores": [*first, later], "values": values},
        {"kept": [total, mixed], "sums": sums, "output": output},
    )
