"""Questions for paper, with numbers by seed: for the worksheets and for the examination.

A question is a function from a random generator to a `Question`. What it was asked of stands in
`given`, what comes out in `numbers`: a test computes the second from the first in another way.
"""

import itertools
import math
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Question:
    """`text` and `answer` are Markdown; `credit` says what gets how many points."""

    title: str
    text: str
    answer: str
    credit: tuple[tuple[int, str], ...]
    given: dict[str, Any] = field(default_factory=dict)
    numbers: dict[str, Any] = field(default_factory=dict)

    @property
    def points(self) -> int:
        return sum(points for points, _ in self.credit)


_makers: dict[str, Callable[[random.Random], Question]] = {}


def question(maker: Callable[[random.Random], Question]) -> Callable:
    """Enter a maker; its name begins with the lesson, as q02_one_query."""
    _makers[maker.__name__.removeprefix("q")] = maker
    return maker


def names(lesson: str = "") -> list[str]:
    """Return the names of all questions, or of a lesson's."""
    return [name for name in _makers if name.startswith(lesson)]


def make(name: str, seed: int) -> Question:
    """Return a question with the numbers of a seed."""
    return _makers[name](random.Random(f"{name} {seed}"))


def row(values, digits: int = 3) -> str:
    """Return numbers as [0.090, 0.245], whole ones without a point."""
    return f"[{', '.join(number(v, digits) for v in values)}]"


def number(value, digits: int = 3) -> str:
    if isinstance(value, int):
        return str(value).replace("-", "−")
    return f"{value:.{digits}f}".replace("-", "−")


def softmax(scores):
    exps = [math.exp(score - max(scores)) for score in scores]
    return [e / sum(exps) for e in exps]


# ---- 01


@question
def q01_context(r):
    exps, values = r.sample([1, 2, 3, 4, 5, 6], 3), r.sample(range(0, 100, 10), 3)
    total = sum(exps)
    context = sum(e * v for e, v in zip(exps, values, strict=True)) / total
    padded = sum(e * v for e, v in zip(exps, values, strict=True)) / (total + 2)
    scores = ", ".join(f"ln {e}" for e in exps)
    return Question(
        "A context on paper",
        f"Three encoder states have the scores {scores} and the values {row(values)}, each one "
        "number.\n\n(a) Which weights? (b) Which context? "
        "(c) The sentence is padded with two states "
        "of score 0 and value 0, which nobody masks. Which context now?",
        f"(a) The exponentials are {row(exps)}, their sum is {total}: weights "
        f"{', '.join(f'{e}/{total}' for e in exps)}. "
        f"(b) {number(context)}. (c) Each pad adds e⁰ = 1 "
        f"to the sum: {number(padded)}.",
        (
            (2, "exponentials and their sum"),
            (2, "weighted sum of the values"),
            (2, "e⁰ = 1 twice in the denominator; 1 if the pads get weight 0"),
        ),
        {"exps": exps, "values": values},
        {"context": context, "padded": padded},
    )


@question
def q01_lead(r):
    others, share = r.choice([2, 3, 4]), r.choice([80, 90, 95])
    lead = math.log(share / ((100 - share) / others))
    return Question(
        "How far ahead",
        f"One key gets the weight 0.{share}, and {others} "
        "others share the rest equally. By how much is its "
        "score ahead of theirs?",
        f"The ratio of two weights is e to the difference of their scores: ln({share / 100:.2f} / "
        f"{(100 - share) / 100 / others:.4f}) = {number(lead)}.",
        ((2, "ratio of weights = e^(difference)"), (2, "the number")),
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
        "to wait for each other in (a) the states of a "
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
        "context, to the nearest tenth, for (a) v = 0; (b) v = 1000? "
        "(c) Somebody forgot the tanh. What can q then change?",
        f"(a) equal scores, the mean: {number(mean, 1)}. (b) the largest key has all the weight: "
        f"{number(float(best), 1)}. (c) Nothing: v·q is added to "
        "every score, and the softmax cancels what all scores have "
        "in common.",
        (
            (1, "the mean"),
            (2, "the value of the largest key"),
            (2, "cancels; 1 for “nothing” without a reason"),
        ),
        {"q": q, "keys": keys, "values": values},
        {"mean": mean, "best": best},
    )


# ---- 02


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
    output = [sum(w * v[i] for w, v in zip(weights, values, strict=True)) for i in (0, 1)]
    return Question(
        "One query on paper",
        f"Query {row(query)}; keys {row(keys[0])}, "
        f"{row(keys[1])}, {row(keys[2])}; values {row(values[0])}, "
        f"{row(values[1])}, {row(values[2])}. Compute scaled "
        "dot-product attention: scores, scaled scores, "
        "weights, output, to three decimals. (e¹ = 2.718, e² "
        "= 7.389; the same number may be taken off all scores.)",
        f"Scores {row(scores)}; divided by √4 = 2: "
        f"{row([s / 2 for s in scores], 1)}; weights {row(weights)}; output "
        f"{row(output)}.",
        (
            (2, "three dot products"),
            (1, "÷ 2"),
            (2, "softmax over the keys; 1 if it does not add up to 1"),
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
        "+1 or −1 by a coin. (a) Variance and spread of q·k? "
        "(b) The spread after dividing by √d<sub>k</sub>, and "
        "after dividing by d<sub>k</sub>? (c) What is wrong with the "
        "second as d<sub>k</sub> grows?",
        f"(a) Each product has variance 1 and they add up: {d}; "
        f"spread {root}. (b) 1, and 1/{root}. (c) All scores become "
        "nearly equal, so attention starts as a plain mean that hardly depends on the query.",
        ((2, "variances add up"), (2, "both spreads"), (1, "nearly equal weights")),
        {"d_k": d},
        {"variance": d, "spread": root, "scaled": 1.0, "by_d": 1 / root},
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
            (2, "shift invariance; 1 for showing it by algebra only for this case"),
        ),
        {"w": w, "dw": dw},
        {"ds": ds},
    )


# ---- 03


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
        "In how many of the six rows does something change, in (a) "
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
        f"weights are computed? (c) Both again for one head of size {d}.",
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
        "guess from z explain? What is their sum, for any head?",
        f"R² is the squared correlation: {a * a}/{a * a + b * b} = "
        f"{number(first)} and {number(1 - first)}; the sum is 1 for any "
        "weights.",
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


# ---- 04


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
        ((2, "a"), (2, "b"), (2, "c; 0 if the weight is said to be 0")),
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
        "which factor is the output smaller than it should be, if the "
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
        f"token {row_} to the first? (b) `tril(1)` instead of `tril()`: "
        "the same weight? (c) `tril(-1)`: what is wrong with the first "
        "row, and what does it return if the mask is filled in with "
        "−10⁹?",
        f"(a) 1/{row_}. (b) 1/{row_ + 1}: it sees the next token, too. "
        f"(c) It has no key; all scores are equal, so uniform, 1/{n} "
        "each.",
        ((1, "a"), (2, "b with its reason"), (2, "c: empty and uniform")),
        {"n": n, "row": row_},
        {"causal": 1 / row_, "one_off": 1 / (row_ + 1), "empty": 1 / n},
    )


# ---- 05


@question
def q05_encoding(r):
    t = r.choice([1, 2, 3])
    pe = [math.sin(t), math.cos(t), math.sin(t / 100), math.cos(t / 100)]
    return Question(
        "A code on paper",
        f"d<sub>model</sub> = 4. (a) The two rates? (b) PE(0)? (c) PE({t}), "
        f"in radians, to three decimals; sin {t} = {number(pe[0])}, cos {t} = "
        f"{number(pe[1])}, and for small x, sin x ≈ x. (d) The length of PE(t), for any t?",
        "(a) 1 and 1/10000^(2/4) = 0.01. (b) [0, 1, 0, 1]. "
        f"(c) {row(pe)}. (d) sin² + cos² = 1 in each pair: √2.",
        ((1, "rates"), (1, "PE(0)"), (2, "PE(t)"), (1, "length")),
        {"t": t},
        {"pe": pe},
    )


@question
def q05_offset(r):
    a, step, c = r.randint(2, 9), r.randint(2, 9), r.randint(20, 90)
    d = r.choice([32, 64, 128, 512])
    return Question(
        "Offsets",
        f"(a) PE({a}) · PE({a + step}) = PE({c}) · PE(p). Which p above "
        f"{c}? Which p below? (b) PE(t) · PE(t) for d<sub>model</sub> = "
        f"{d}? (c) Is the *score* of a head, after W<sub>Q</sub> "
        "and W<sub>K</sub>, a function of the offset alone?",
        "(a) The product depends on the offset only, and is even in it: "
        f"{c + step} and {c - step}. (b) {d // 2}. (c) No, not for arbitrary "
        "matrices, and the words come in as well; rotary makes it so.",
        ((2, "both p"), (1, "d/2"), (2, "no, with a reason")),
        {"a": a, "step": step, "c": c, "d": d},
        {"above": c + step, "below": c - step, "norm": d // 2},
    )


@question
def q05_bag(r):
    t, v = r.randint(3, 9), r.choice([2, 3, 6])
    return Question(
        "A mask is a position",
        f"No positions. `<BOS>` has the value {v}, all other words 0; all "
        f"scores are equal; causal mask. (a) What does the output at place {t} "
        "hold, counted from 0? (b) And without the mask, in a text "
        f"of {t + 3} tokens? (c) What follows for encoder and decoder?",
        f"(a) {v}/{t + 1}, the mean of {t + 1} values. (b) {v}/{t + 3} at every "
        "place. (c) A decoder can tell places apart without a code, an encoder "
        "cannot.",
        ((2, "a"), (1, "b"), (2, "c")),
        {"t": t, "v": v},
        {"masked": v / (t + 1), "free": v / (t + 3)},
    )


@question
def q05_rotate(r):
    x, y = r.sample([-3, -2, -1, 1, 2, 3], 2)
    quarter = [(x, y), (-y, x), (-x, -y), (y, -x)]
    k = r.choice([1, 2, 3])
    return Question(
        "Turn instead of adding",
        f"One pair of features, [{number(x)}, {number(y)}], whose hand turns "
        "by a quarter (90°, anticlockwise, (a, b) → (−b, a)) in each step. "
        f"(a) The pair at position {k}? (b) A key with the same features stands "
        f"at position {k + 4}. What is the score q·k there, and why is it "
        "that of position 0 with itself? (c) Are values turned?",
        f"(a) {row(quarter[k % 4])}. (b) Four quarters are a full turn, so the "
        f"offset turns nothing: {x * x + y * y}. (c) No: where decides who is "
        "looked at, what is read stays the word.",
        ((2, "a"), (2, "b"), (1, "c")),
        {"pair": (x, y), "k": k},
        {"turned": quarter[k % 4], "score": x * x + y * y},
    )


# ---- 06


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
        "return zeros is given [3, 9, 11, 17]. And post-LN? (Mean 10, "
        "root 5.)",
        f"(a) {s}^{n} = {number(s**n, 4)}. (b) {number(1 + s, 1)}^{n} = "
        f"{number((1 + s) ** n, 3)}. (c) Pre-LN: [3, 9, 11, 17]; post-LN: "
        "[−1.4, −0.2, 0.2, 1.4] each time it normalises.",
        ((1, "a"), (2, "b"), (2, "c")),
        {"s": s, "n": n},
        {"plain": s**n, "residual": (1 + s) ** n},
    )


# ---- 07


@question
def q07_merges(r):
    words = r.sample(["low", "lower", "new", "newer", "wide", "wider", "slow", "old", "older"], 4)
    counts = dict(zip(words, r.sample([2, 3, 5, 6, 7], 4), strict=True))
    merges = learn_merges(counts, 3)
    told = ", ".join(f"{word} ×{n}" for word, n in counts.items())
    return Question(
        "Merging by hand",
        f"Words and how often they occur: {told}. Write each word as characters, "
        "the last with `</w>`. Which are the first three merges of BPE? "
        "(Ties go to the pair that comes first in the alphabet.)",
        "; ".join(f"{a} + {b}, {n} times" for (a, b), n in merges) + ".",
        (
            (2, "counts with the words' frequencies"),
            (1, "first merge"),
            (1, "second, counted again"),
            (1, "third"),
        ),
        {"counts": counts},
        {"merges": [pair for pair, _ in merges]},
    )


def learn_merges(counts, how_many):
    """Return the first merges and how often each pair occurred."""
    words = {word: (*word[:-1], f"{word[-1]}</w>") for word in counts}
    merges = []
    for _ in range(how_many):
        pairs = Counter()
        for word, symbols in words.items():
            for pair in itertools.pairwise(symbols):
                pairs[pair] += counts[word]
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append((best, pairs[best]))
        for word, symbols in words.items():
            glued, i = [], 0
            while i < len(symbols):
                both = symbols[i : i + 2] == best
                glued.append("".join(best) if both else symbols[i])
                i += 2 if both else 1
            words[word] = tuple(glued)
    return merges


@question
def q07_count(r):
    d, N, V = r.choice([8, 16, 32]), r.choice([1, 2, 3]), r.choice([50, 100, 1000])
    d_ff = 4 * d
    attention, network, norms = 3 * 4 * d * d * N, 2 * (2 * d * d_ff + d_ff + d) * N, 5 * 2 * d * N
    return Question(
        "Counting parameters",
        f"d<sub>model</sub> = {d}, d<sub>ff</sub> = {d_ff}, {N} layer{'s' * (N > 1)} "
        f"on each side, a joint vocabulary of {V}, all three tables tied; no "
        "biases in attention, none in the last linear. How many parameters "
        "are in (a) the table, (b) attention, (c) the feed-forward networks, "
        "(d) the LayerNorms? (e) How many does tying save?",
        f"(a) {V * d}. (b) 3 · 4 d² · {N} = {attention}. (c) 2 (2 d d_ff + d_ff "
        f"+ d) · {N} = {network}. (d) 5 · 2 d · {N} = {norms}. (e) Two tables: "
        f"{2 * V * d}.",
        (
            (1, "a"),
            (2, "b: three attentions for a pair of layers"),
            (2, "c, biases included"),
            (1, "d"),
            (1, "e"),
        ),
        {"d": d, "N": N, "V": V, "d_ff": d_ff},
        {"table": V * d, "attention": attention, "network": network, "norms": norms},
    )


@question
def q07_shapes(r):
    B, Ls, Lt, h, d_k, V = (
        r.choice([2, 3]),
        r.choice([5, 6, 7]),
        r.choice([3, 4]),
        r.choice([2, 4]),
        r.choice([8, 16]),
        r.choice([30, 50]),
    )
    shapes = [(B, Ls, h * d_k), (B, 1, 1, Ls), (B, h, Lt, Ls), (B, h, Lt, Lt), (B, Lt, V)]
    return Question(
        "The shape diary",
        f"{B} sources of length {Ls}, {B} targets of length {Lt}, {h} heads, "
        f"d<sub>model</sub> = {h * d_k}, vocabulary {V}. Which shape has (a) the memory; "
        "(b) the source's padding mask; (c) the weights of the decoder's "
        "attention to the memory; (d) those of its self-attention; (e) the "
        "logits? (f) The third target token changes. At how many places can the logits change?",
        f"(a) {shapes[0]}; (b) {shapes[1]}; (c) {shapes[2]}; (d) "
        f"{shapes[3]}; (e) {shapes[4]}. (f) From the third on: {Lt - 2}.",
        ((1, "a"), (1, "b"), (1, "c"), (1, "d"), (1, "e"), (1, "f")),
        {"B": B, "Ls": Ls, "Lt": Lt, "h": h, "d_k": d_k, "V": V},
        {"shapes": shapes, "moved": Lt - 2},
    )


@question
def q07_twice(r):
    V = r.choice([5, 10, 20, 50])
    loss = math.log(math.e + V - 1) - 1
    d = r.choice([32, 72, 128, 288])
    return Question(
        "Two numbers of size",
        "(a) A model is certain and right, but its probabilities go through "
        f"the softmax once more: 1 for the right one of {V} words, 0 for the "
        f"others. Which loss is reported? (b) d<sub>model</sub> = {d}, and the "
        "rows of the table have variance 1/d<sub>model</sub>. How long is a word "
        "before and after the factor √d<sub>model</sub>, and how long is a position?",
        f"(a) ln(e + {V - 1}) − 1 = {number(loss)}, and nothing between "
        f"0 and 1 makes it smaller. (b) 1, {number(math.sqrt(d), 1)}, and "
        f"√(d/2) = {math.isqrt(d // 2)}.",
        ((2, "a"), (2, "b, both"), (1, "√(d/2)")),
        {"V": V, "d": d},
        {"loss": loss, "word": math.sqrt(d), "position": math.sqrt(d / 2)},
    )


# ---- 08


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
        "means? (b) The mean over tokens? (c) In (a), how many times more "
        "does a token of the short part weigh? (d) The cure, in one sentence?",
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
        f"ε = {eps} over {V} words, ε spread over all of them. (a) What does the "
        "target give to the right word, and to each other? (b) Which loss has a "
        "model that gives exactly that? An expression is enough. "
        "(c) Why can two losses with different ε not be compared?",
        f"(a) {number(high)} and {number(low)}. (b) The entropy of the target: "
        f"−{number(high)} ln {number(high)} − {V - 1} · {number(low)} ln {number(low)} = "
        f"{number(floor)}. (c) Each has a floor of its own.",
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


# ---- 09


@question
def q09_tree(r):
    while True:
        first = r.choice([0.55, 0.6, 0.65])
        a = r.choice([0.4, 0.45, 0.55, 0.6])
        b = r.choice([0.8, 0.9, 0.95])
        greedy, other = first * max(a, 1 - a), (1 - first) * b
        if other > greedy + 0.01:
            break
    rest = 1 - first
    return Question(
        "Greedy and a beam",
        f"Every sentence has two words. The first is *the* ({first:g}) or *a* ({rest:g}). "
        f"After *the* comes *cat* ({a:g}) or *dog* ({1 - a:g}), after *a* comes "
        f"*bird* ({b:g}) or *fish* ({1 - b:g}). (a) Which sentence does greedy write, "
        "and with which probability? (b) Which is the most probable? (c) What does a beam of two "
        "hold after each step? (d) At which step does "
        "greedy make its mistake, and could it have seen it?",
        f"(a) *the {'cat' if a >= 0.5 else 'dog'}*, {number(greedy)}. (b) "
        f"*a bird*, {number(other)}. (c) *the*, *a*; then *a bird* and *the "
        f"{'cat' if a >= 0.5 else 'dog'}*. (d) At the first, "
        "where *the* was the better word: not to be seen there.",
        ((1, "a"), (1, "b"), (2, "c"), (2, "d")),
        {"first": first, "a": a, "b": b},
        {"greedy": greedy, "best": other},
    )


@question
def q09_cache(r):
    n, N, d = r.choice([8, 10, 12, 20]), r.choice([2, 6, 12]), r.choice([128, 256, 512])
    return Question(
        "What a cache saves and costs",
        f"{n} tokens are written one after the other. (a) How many tokens go through the "
        f"decoder without a cache, and with one? (b) {N} layers, d<sub>model</sub> = "
        f"{d}, two bytes a number: how many bytes does a cache keep for each target token "
        "(self-attention)? (c) Why does it need no causal "
        "mask? (d) What must it know that the shape of its input "
        "does not say?",
        f"(a) 1 + 2 + … + {n} = {n * (n + 1) // 2}, and {n}. (b) 2 · {N} · {d} "
        f"· 2 = {4 * N * d}. (c) It holds the past and nothing else. (d) The "
        "position of the newest token.",
        ((2, "a"), (2, "b"), (1, "c"), (1, "d")),
        {"n": n, "N": N, "d": d},
        {"without": n * (n + 1) // 2, "bytes": 4 * N * d},
    )


@question
def q09_chance(r):
    chances = r.choice(
        [[0.5, 0.3, 0.1, 0.06, 0.04], [0.4, 0.3, 0.15, 0.1, 0.05], [0.6, 0.2, 0.1, 0.07, 0.03]]
    )
    p, T = r.choice([0.65, 0.75, 0.88, 0.93]), 0.5
    kept, total = 0, 0.0
    while total < p - 1e-9:
        total, kept = total + chances[kept], kept + 1
    cold = chances[0] ** 2 / sum(c * c for c in chances)
    return Question(
        "Chance",
        f"The chances of the next sign are {row(chances, 2)}. (a) How many signs does "
        f"top-p with p = {p:g} keep? (b) Which chance has the first "
        f"of them then? (c) And, without a cut, at temperature {T:g}? "
        "(d) Why does it matter whether one cuts before or after dividing by the temperature?",
        f"(a) {kept}: the sign that crosses the line belongs to the set. (b) "
        f"{chances[0]:g}/{total:g} = {number(chances[0] / total)}. (c) Squares, renormalised: "
        f"{number(cold)}. (d) Temperature changes which signs reach "
        "p together; hot, the tail is heavy and more of it stays.",
        ((2, "a"), (1, "b"), (2, "c"), (1, "d")),
        {"chances": chances, "p": p, "T": T},
        {"kept": kept, "first": chances[0] / total, "cold": cold},
    )


@question
def q09_penalty(r):
    short, long = r.choice([1, 7]), r.choice([13, 19])
    log_short, log_long = -r.choice([3, 4]), -r.choice([5, 6])
    scores = [log_short / ((5 + short) / 6), log_long / ((5 + long) / 6)]
    better = "first" if scores[0] > scores[1] else "second"
    return Question(
        "Lengths",
        f"Two finished hypotheses: log P = {number(log_short)} with n = {short}, log P "
        f"= {number(log_long)} with n = {long}. (a) Which wins "
        "with α = 0? (b) Their scores with α = 1, and who "
        "wins? (c) Somebody *multiplies* by the penalty. What is "
        "preferred then? (d) May an unfinished prefix with log P = −1 win?",
        f"(a) The first. (b) Divisors {(5 + short) // 6} and {(5 + long) // 6}: "
        f"{number(scores[0])} and {number(scores[1])}; the {better}. (c) Short "
        "sentences, more than without any penalty. (d) No: the probability "
        "of a prefix is shared by all sentences that begin with it.",
        ((1, "a"), (2, "b"), (1, "c"), (2, "d")),
        {"n": (short, long), "log_p": (log_short, log_long)},
        {"scores": scores},
    )


# ---- 10 to 13


@question
def q10_bleu(r):
    hypothesis, reference = r.choice(
        [
            ("the cat the cat on the mat", "the cat sat on the mat"),
            ("a man in a red a hat", "a man in a red hat"),
            ("two dogs run in snow in snow", "two dogs run in the snow"),
        ]
    )
    words = [text.split() for text in (hypothesis, reference)]
    counts = [[Counter(itertools.pairwise(w) if n == 2 else w) for w in words] for n in (1, 2)]
    matches = [sum((ours & theirs).values()) for ours, theirs in counts]
    totals = [len(words[0]), len(words[0]) - 1]
    return Question(
        "Clipped matches",
        f"Reference: *{reference}*. Output: *{hypothesis}*. (a) Clipped matches "
        "of words and of pairs, each out of how many? (b) Which output of one "
        "word has the word precision 1, and what in BLEU makes it worthless? "
        "(c) Why are the counts added up over the corpus before dividing?",
        f"(a) {matches[0]} of {totals[0]} words, {matches[1]} of {totals[1]} pairs. (b) "
        "Any word of the reference; the brevity penalty (and the pairs that it has "
        "not). (c) A mean of sentence scores weighs short sentences "
        "like long ones, and is 0 wherever a sentence has no match.",
        ((2, "words"), (2, "pairs"), (1, "shortness"), (1, "corpus")),
        {"hypothesis": hypothesis, "reference": reference},
        {"matches": matches, "totals": totals},
    )


@question
def q11_entropy(r):
    n, k = r.choice([4, 8, 16]), r.choice([2, 4])
    return Question(
        "How broad is a row",
        f"(a) The entropy, in nats, of a row of {n} equal weights; of a row with {k} "
        "equal weights and zeros; of a single 1? (b) Two rows have the same entropy, "
        "but one is 8 keys long and the other 64. Are they equally sharp? "
        "(c) What is 0 · ln 0 here, and what does a program make of it?",
        f"(a) ln {n} = {number(math.log(n))}, ln {k} = {number(math.log(k))}, 0. (b) No: "
        "divide by ln of the number of keys. (c) 0; a program makes NaN, unless told.",
        ((2, "a"), (2, "b"), (1, "c")),
        {"n": n, "k": k},
        {"uniform": math.log(n), "some": math.log(k)},
    )


@question
def q11_other_weights(r):
    values = r.choice([(0, 1, 2), (0, 2, 4), (1, 3, 5)])
    middle = values[1]
    return Question(
        "Other weights, the same output",
        f"Three keys with the values {row(values)}, one number each; the weights are 1/3 "
        "each. (a) The output? (b) Two other rows of weights with the same output? (c) When "
        "is there no other row, in terms of L<sub>k</sub> "
        "and d<sub>v</sub>? (d) What follows for maps?",
        f"(a) {middle}. (b) [1/2, 0, 1/2], [0, 1, 0], and every mixture of the two. (c) "
        "If L<sub>k</sub> ≤ d<sub>v</sub> + 1 and the values are in general position. (d) The "
        "output does not determine the weights; a map alone is no explanation.",
        ((1, "a"), (2, "b"), (2, "c"), (1, "d")),
        {"values": values},
        {"output": middle},
    )


@question
def q12_prefix(r):
    prefix, length = r.choice([2, 3]), r.choice([5, 6, 7])
    allowed = prefix * prefix + sum(range(prefix + 1, length + 1))
    return Question(
        "The prefix mask",
        f"A text of {length} tokens, of which the first {prefix} are given: they see each "
        f"other, the rest sees all before it and itself. "
        f"(a) How many of the {length * length} pairs are "
        "allowed? (b) How many are with a plain causal mask? (c) Which rows differ?",
        f"(a) {prefix}² + … = {allowed}. (b) {length * (length + 1) // 2}. "
        "(c) Those of the prefix, but for its last.",
        ((2, "a"), (1, "b"), (2, "c")),
        {"prefix": prefix, "length": length},
        {"allowed": allowed, "causal": length * (length + 1) // 2},
    )


@question
def q12_patches(r):
    side, patch, channels = r.choice([(8, 4, 3), (12, 4, 3), (12, 3, 1), (16, 4, 3)])
    count, size = (side // patch) ** 2, channels * patch * patch
    return Question(
        "Patches",
        f"A picture of {side} × {side} with {channels} channel{'s' * (channels > 1)} is "
        f"cut into patches of {patch} × {patch}. (a) How many tokens, "
        "of how many numbers? (b) In which patch, counted row by "
        f"row from 0, is the pixel in row {patch}, column 0? "
        "(c) How does one see that the memory order is wrong?",
        f"(a) {count} tokens of {size}. (b) {side // patch}. (c) Put the picture together again.",
        ((2, "a"), (2, "b"), (1, "c")),
        {"side": side, "patch": patch, "channels": channels},
        {"count": count, "size": size, "index": side // patch},
    )


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
    x = [
        v * r.choice([1, 2, 10]) for v in r.choice([(3, -4, 5, -5), (1, 1, -1, 1), (2, -2, 4, -4)])
    ]
    root = math.sqrt(sum(v * v for v in x) / len(x))
    y = [v / root for v in x]
    return Question(
        "RMSNorm",
        f"x = {row(x)}, γ = 1, ε = 0. (a) The root of the mean square? (b) "
        "RMSNorm(x)? (c) What happens to x + 1000 here, and what in LayerNorm?",
        f"(a) {number(root)}. (b) {row(y)}. (c) Here nearly all numbers "
        "become 1; LayerNorm takes the mean off first and does not notice.",
        ((2, "a"), (1, "b"), (2, "c")),
        {"x": x},
        {"y": y},
    )
