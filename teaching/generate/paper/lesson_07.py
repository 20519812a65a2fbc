"""Questions for paper on lesson 07."""

import itertools
import math
from collections import Counter

from teaching.generate.paper.question import Question, number, question


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
        "; ".join(f"`{a}` + `{b}`, {n} times" for (a, b), n in merges) + ".",
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
        f"on each side, post-LN, a joint vocabulary of {V}, all three tables tied; no "
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
        "logits? (f) The third token that the decoder reads changes. At how "
        "many places can the logits change?",
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
