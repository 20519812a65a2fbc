"""Questions for paper on lesson 04."""

from teaching.generate.paper.question import Question, number, question


@question
def q04_three_ways(r):
    a, b, c = r.sample([1, 2, 3, 4, 5, 6, 7], 3)
    s = a + b + c
    out = {
        "minus_infinity": b / (a + b),
        "zeroed": (a + b) / s,
        "score_zero": 1 / (a + b + 1),
    }
    return Question(
        "Three ways to forbid",
        f"One query has the scores [ln {a}, ln {b}, ln {c}]; the third "
        "key is forbidden. (a) Its score is set to −∞: which weight "
        "has the second key? (b) Its weight is set to 0 after the "
        "softmax, no more: what do the weights add up to? (c) Its score is "
        "set to 0: which weight has the *third* key?",
        f"(a) {b}/{a + b} = {number(out['minus_infinity'])}. (b) "
        f"{a + b}/{s} = {number(out['zeroed'])}. (c) e⁰ = 1: 1/{a + b + 1} = "
        f"{number(out['score_zero'])}.",
        ((2, "a"), (2, "b"), (2, "c, not 0")),
        {"exps": (a, b, c)},
        out,
    )


@question
def q04_pairs(r):
    length = r.choice([5, 6, 7, 8])
    real = length - r.choice([1, 2, 3])
    causal, both = length * (length + 1) // 2, sum(min(i, real) for i in range(1, length + 1))
    return Question(
        "Allowed pairs",
        f"A sentence of {real} tokens is padded on the right to {length}. "
        f"How many of the {length * length} pairs (query, key) are allowed "
        "(a) by the causal mask; (b) by the padding mask; (c) by "
        "both? (d) Does (c) give any *real* token other keys than (a)?",
        f"(a) {causal}. (b) {length} · {real} = {length * real}. (c) "
        f"{both}. (d) No: for a real token the pads lie in the future.",
        ((1, "a"), (1, "b: keys are masked, not queries"), (2, "c"), (2, "d with its reason")),
        {"length": length, "real": real},
        {"causal": causal, "padding": length * real, "both": both},
    )


@question
def q04_share(r):
    exps, pads = [r.choice([1, 2, 3, 4, 5]) for _ in range(3)], r.choice([2, 5, 10])
    total = sum(exps)
    share = pads / (total + pads)
    return Question(
        "What pads take",
        f"A query's scores with three words are {', '.join(f'ln {e}' for e in exps)}; "
        f"{pads} pads are zero vectors, and nobody masks "
        "them. (a) Which share of the weight do they take? (b) By "
        "which factor is the right output multiplied, if the "
        "pads' values are zero? (c) The batch gets a longer sentence. What changes for this one?",
        f"(a) {pads}/({total} + {pads}) = {number(share)}. (b) "
        f"{total}/{total + pads} = {number(1 - share)}. (c) It gets more pads: its "
        "output depends on its neighbours.",
        ((2, "a"), (2, "b"), (1, "c")),
        {"exps": exps, "pads": pads},
        {"share": share, "factor": 1 - share},
    )


@question
def q04_rows(r):
    n, row_ = r.choice([4, 5, 6]), r.choice([2, 3])
    return Question(
        "Rows of a mask",
        f"{n} tokens, all scores equal. (a) Causal mask: which weight gives "
        f"token {row_} to the first? (b) `tril(1)`, one diagonal more: "
        "the same weight? (c) `tril(-1)`, one less: what is wrong with the "
        "first row, and what does it return if the mask is filled in with "
        "−10⁹?",
        f"(a) 1/{row_}. (b) 1/{row_ + 1}: it sees the next token, too. "
        f"(c) It has no key; all scores are equal, so uniform, 1/{n} "
        "each.",
        ((1, "a"), (2, "b with its reason", (1, "b without")), (2, "c: empty and uniform")),
        {"n": n, "row": row_},
        {"causal": 1 / row_, "one_off": 1 / (row_ + 1), "empty": 1 / n},
    )
