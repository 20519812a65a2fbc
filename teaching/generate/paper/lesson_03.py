"""Questions for paper on lesson 03."""

from teaching.generate.paper.question import Question, number, question


@question
def q03_letters(r):
    right = wrong = None
    while right == wrong:  # a letter that the wrong view moves
        t, j = r.randrange(3), r.randrange(4)
        flat = t * 4 + j
        right, wrong = (j // 2 + 1, t + 1), (flat // 6 + 1, flat % 6 // 2 + 1)
    letter = "abc"[t] + str(j + 1)
    return Question(
        "Where the letters go",
        "Three tokens a, b, c with four features each (a1 … a4, "
        "and so on) are split for two heads. In which head, and "
        f"in which of its three rows, stands {letter} (a) when "
        "heads are split as they should be; (b) when one writes "
        "`x.reshape(2, 3, 2)` and no more? (c) All of token c changes. "
        "How many of the six rows change, and in which heads, in (a) "
        "and in (b)?",
        f"(a) head {right[0]}, row {right[1]}. (b) Number {flat + 1} "
        f"of twelve in memory: head {wrong[0]}, row {wrong[1]}. (c) Two "
        "rows both times; in (a) one in each head, in (b) both in head 2.",
        ((2, "right split"), (2, "memory order"), (2, "one in each head against both in one")),
        {"token": t, "feature": j},
        {"right": right, "wrong": wrong},
    )


@question
def q03_counts(r):
    h, d_k, n = r.choice([2, 4, 8]), r.choice([4, 8, 16]), r.choice([10, 50, 100])
    d = h * d_k
    return Question(
        "What heads cost",
        f"d<sub>model</sub> = {d}, {h} heads, {n} words, no biases. "
        "(a) How many parameters has the attention? (b) How many "
        f"attention weights are computed? (c) Both again for one head of size {d}.",
        f"(a) 4 · {d}² = {4 * d * d}. (b) {h} · {n}² = "
        f"{h * n * n}. (c) {4 * d * d}, the same, and {n * n}.",
        ((2, "4 d²"), (1, "h n²"), (2, "same parameters, fewer weights")),
        {"h": h, "d": d, "n": n},
        {"parameters": 4 * d * d, "weights": h * n * n, "one": n * n},
    )


@question
def q03_mixture(r):
    a, b = r.choice([(1, 1), (1, 2), (1, 3), (2, 3), (3, 4)])
    p = a / (a + b)
    first = a * a / (a * a + b * b)
    return Question(
        "One mixture",
        "Two independent numbers a and b, mean 0, variance 1. One "
        f"head returns z = {a}/{a + b} · a + {b}/{a + b} · b. Which "
        "share of the variance of a, and of b, does the best linear "
        "guess from z explain? What is their sum, whichever share p of the weight a has?",
        f"R² is the squared correlation: {a * a}/{a * a + b * b} = "
        f"{number(first)} and {number(1 - first)}; the sum is 1 for any p.",
        ((2, "squared correlation"), (2, "both numbers"), (2, "sum 1 in general")),
        {"p": p},
        {"first": first, "second": 1 - first},
    )


@question
def q03_strides(r):
    tokens, heads, d_k = r.choice([3, 5]), r.choice([2, 4]), r.choice([2, 3])
    d = heads * d_k
    return Question(
        "Strides",
        f"x holds {tokens} tokens of {d} features, row by row in memory. "
        f"Seen as ({heads} heads, {tokens} tokens, {d_k} features), as "
        "attention needs it: how far is a step to the "
        "next head, token, feature? And in the wrong view, "
        f"`x.view({heads}, {tokens}, {d_k})`?",
        f"Right: {d_k}, {d}, 1. Wrong: {tokens * d_k}, {d_k}, 1: from "
        "“token” to “token” it walks along the features of one word.",
        ((2, "right"), (2, "wrong"), (1, "what the wrong step means")),
        {"tokens": tokens, "heads": heads, "d_k": d_k},
        {"right": (d_k, d, 1), "wrong": (tokens * d_k, d_k, 1)},
    )
