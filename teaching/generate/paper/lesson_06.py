"""Questions for paper on lesson 06."""

from teaching.generate.paper.question import Question, number, question, row


@question
def q06_layer_norm(r):
    small, large, root = r.choice([(1, 7, 5), (7, 17, 13), (2, 14, 10), (7, 23, 17)])
    mean = r.choice([0, 10, 20, 30])
    x = [mean - large, mean - small, mean + small, mean + large]
    gamma, beta = r.choice([(1, 0), (2, 10), (5, 1)])
    y = [gamma * (v - mean) / root + beta for v in x]
    return Question(
        "LayerNorm on four numbers",
        f"x = {row(x)}, every γ = {gamma}, every β = {beta}, ε = 0. (a) Mean, "
        "variance, root? (b) The result? (c) The result for 10·x, and for "
        "x + 1000? (d) Another word of the sentence changes. What happens here?",
        f"(a) {mean}, {root * root}, {root}. (b) {row(y)}. (c) The same, both. (d) Nothing.",
        ((2, "a, divided by 4 and not 3"), (2, "b"), (1, "c"), (1, "d")),
        {"x": x, "gamma": gamma, "beta": beta},
        {"y": y},
    )


@question
def q06_ffn(r):
    b1 = [0, r.choice([0, 1]), -1]
    W2 = [[r.choice([-1, 0, 1, 3]) for _ in range(2)] for _ in range(3)]
    while True:  # one number at least on each side of the ReLU's corner
        x = [r.choice([-2, -1, 1, 2]) for _ in range(2)]
        W1 = [[r.choice([-1, 0, 1, 2]) for _ in range(3)] for _ in range(2)]
        pre = [sum(x[i] * W1[i][j] for i in range(2)) + b1[j] for j in range(3)]
        if min(pre) < 0 < max(pre):
            break
    hidden = [max(0, value) for value in pre]
    y = [sum(hidden[j] * W2[j][k] for j in range(3)) for k in range(2)]
    return Question(
        "A feed-forward network",
        f"W₁ has the rows {row(W1[0])} and {row(W1[1])}, b₁ = {row(b1)}; W₂ has "
        f"the rows {row(W2[0])}, {row(W2[1])}, {row(W2[2])}, b₂ = 0. A word is "
        f"x = {row(x)}. (a) The hidden numbers, before and after the ReLU? "
        "(b) The result? (c) Another word of the sentence changes. What "
        "happens here?",
        f"(a) {row(pre)} → {row(hidden)}. (b) {row(y)}. (c) Nothing: each position by itself.",
        ((2, "a"), (2, "b"), (1, "c")),
        {"x": x, "W1": W1, "b1": b1, "W2": W2},
        {"hidden": hidden, "y": y},
    )


@question
def q06_collapse(r):
    own, n = r.choice([(3, 4), (2, 3), (4, 5), (9, 10)]), r.choice([2, 3, 4, 5])
    p = own[0] / own[1]
    left = (2 * p - 1) ** n
    return Question(
        "Words become alike",
        "Two words hold 0 and 1. In each layer a word gives the weight "
        f"{own[0]}/{own[1]} to itself and the rest to the other; there is no residual "
        f"connection. (a) Their difference after one layer, and after {n}? "
        "(b) The same with the residual, each layer adding what it read: the "
        "difference and the sum of the two words after one layer?",
        f"(a) {number(2 * p - 1)}, and to the power {n}: {number(left, 4)}. (b) "
        f"The difference is {number(2 * p)}, the sum 2: it grows faster than the "
        "difference, so beside their size the words still come closer.",
        ((2, "factor 2p − 1"), (1, "its power"), (2, "1 + (2p − 1), and the sum doubled")),
        {"p": p, "n": n},
        {"one": 2 * p - 1, "left": left, "residual": 2 * p, "sum": 2},
    )


@question
def q06_slopes(r):
    s, n = r.choice([0.1, 0.2, 0.5]), r.choice([2, 3, 4])
    return Question(
        "Slopes",
        f"Each of {n} functions f has the slope {s} wherever it is used. "
        "What is the slope of the whole stack (a) y = f(x), repeated; "
        "(b) y = x + f(x), repeated? (c) A pre-LN layer whose sub-layers "
        "return zeros is given [3, 9, 11, 17]. What comes out? And in post-LN? (Mean 10, "
        "root 5.)",
        f"(a) {s}^{n} = {number(s**n, 4)}. (b) {number(1 + s, 1)}^{n} = "
        f"{number((1 + s) ** n, 4)}. (c) Pre-LN: [3, 9, 11, 17]; post-LN: "
        "[−1.4, −0.2, 0.2, 1.4] each time it normalises.",
        ((1, "a"), (2, "b"), (2, "c")),
        {"s": s, "n": n},
        {"plain": s**n, "residual": (1 + s) ** n},
    )
