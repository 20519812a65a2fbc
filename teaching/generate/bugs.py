"""Which bug made this table? Tables by seed, each with one planted mistake, for the examination."""

import math
import random
from collections.abc import Callable

import numpy as np

from teaching.generate.paper import Question

CREDIT = (
    (2, "what in the table cannot be"),
    (2, "the bug"),
    (2, "a test of one line that needs no reference"),
)
WORDS = ("BOS", "the", "cat", "sat")
_makers: dict[str, Callable[[random.Random], Question]] = {}


def bug(maker: Callable) -> Callable:
    _makers[maker.__name__] = maker
    return maker


def names() -> list[str]:
    return list(_makers)


def make(name: str, seed: int) -> Question:
    """Return a question with the numbers of a seed."""
    return _makers[name](random.Random(f"{name} {seed}"))


def whole(r: random.Random, *shape: int) -> np.ndarray:
    """Return small whole numbers, no two rows alike."""
    while True:
        x = np.array([r.randint(-2, 3) for _ in range(math.prod(shape))], float).reshape(shape)
        if len(np.unique(x, axis=0)) == len(x) and x.std(axis=0).min() > 0:
            return x


def softmax(scores: np.ndarray, axis: int = -1) -> np.ndarray:
    exps = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return exps / exps.sum(axis=axis, keepdims=True)


def table(x: np.ndarray, rows=WORDS, columns=WORDS, digits: int = 3) -> str:
    """Return numbers as a Markdown table with words on both sides."""
    lines = [f"|  | {' | '.join(columns)} |", f"|---|{'---:|' * len(columns)}"]
    for name, values in zip(rows, x, strict=True):
        lines.append(f"| **{name}** | {' | '.join(f'{v:.{digits}f}' for v in values)} |")
    return "\n".join(lines).replace("-0.000", "0.000")


def asked(title: str, told: str, shown: str, answer: str, **given) -> Question:
    """Return a question about a table."""
    wanted = (
        "What in it cannot be? Which bug made it? Which test of one line finds it without a "
        "reference?"
    )
    text = f"{told}\n\n{shown}\n\n{wanted}"
    return Question(title, text, answer, CREDIT, given, {"table": shown})


@bug
def over_queries(r):
    scores = whole(r, 4, 4) / 2
    return asked(
        "Table 1",
        "Weights of a self-attention without a mask; rows ask, columns are read.",
        table(softmax(scores, axis=0)),
        "The *columns* add up to 1, the rows do not: the softmax runs "
        "over the queries. Test: values of 1 must give outputs of 1.",
        scores=scores,
    )


@bug
def scaled_after(r):
    scores = whole(r, 4, 4)
    return asked(
        "Table 2",
        "Weights of a self-attention without a mask, d<sub>k</sub> = 4.",
        table(softmax(scores) / 2),
        "Each row adds up to 0.5 = 1/√4: the division by √d<sub>k</sub> "
        "stands behind the softmax. Test: values of 1 must give outputs of 1.",
        scores=scores,
    )


@bug
def transposed_mask(r):
    scores = whole(r, 4, 4) / 2
    masked = np.where(np.triu(np.ones((4, 4), bool)), scores, -np.inf)
    return asked(
        "Table 3",
        "Weights of a decoder's self-attention, causal; rows ask, columns are read.",
        table(softmax(masked)),
        "The first word reads the last, and the last only itself: the causal "
        "mask is transposed. Test: change the last word; the outputs of "
        "the others must stay.",
        scores=scores,
    )


@bug
def one_off(r):
    scores = whole(r, 4, 4) / 2
    masked = np.where(np.tril(np.ones((4, 4), bool), 1), scores, -np.inf)
    return asked(
        "Table 4",
        "Weights of a decoder's self-attention, causal; rows ask, columns are read.",
        table(softmax(masked)),
        "Each row but the last has one entry too many: `tril(1)`, so that every word "
        "sees the next, which is the answer. Test: change the last word; the "
        "outputs before it must stay.",
        scores=scores,
    )


@bug
def not_renormalised(r):
    scores = whole(r, 4, 4) / 2
    weights = softmax(scores) * np.array([1, 1, 1, 0])
    return asked(
        "Table 5",
        "Weights of an encoder's self-attention; the last column is a pad.",
        table(weights, columns=("I", "love", "cats", "pad"), rows=("I", "love", "cats", "pad")),
        "The pad's column is 0, as it should be, and the rows add up to "
        "less than 1: zeroed after the softmax and not renormalised. Test: "
        "values of 1; or a second pad, and the outputs must stay.",
        scores=scores,
    )


@bug
def score_zero(r):
    scores = whole(r, 4, 4) / 2
    scores[:, 3] = 0
    return asked(
        "Table 6",
        "Weights of an encoder's self-attention; the last column is a pad, which the mask forbids.",
        table(
            softmax(scores), columns=("I", "love", "cats", "pad"), rows=("I", "love", "cats", "pad")
        ),
        "Rows add up to 1, and the pad gets weight in each: its *score* was set to 0 "
        "(or multiplied by the mask), and e⁰ = 1. *The mask was forgotten* gets the same points: "
        "weights cannot tell the two apart. Test: append pads; the outputs must "
        "stay.",
        scores=scores,
    )


@bug
def wrong_norm(r):
    x = whole(r, 4, 4)
    y = (x - x.mean(axis=0)) / x.std(axis=0)
    return asked(
        "Table 7",
        "Four words of four features after a LayerNorm with γ = 1 and β = 0.",
        table(y, columns=("f1", "f2", "f3", "f4")),
        "The *columns* have mean 0, the rows have not: mean and variance are "
        "taken over the words. Test: change one word; the others must stay.",
        x=x,
    )


@bug
def position_zero(r):
    d, steps = 4, r.choice([4, 5])
    rates = 1 / 10000 ** (np.arange(0, d, 2) / d)
    angles = np.arange(steps)[:, None] * rates
    codes = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(steps, d)
    moved = np.abs(codes - codes[0]).max(axis=1, keepdims=True)
    return asked(
        "Table 8",
        "How far the input of the decoder's first layer differs, "
        "with a cache against without one, at each place.",
        table(moved, rows=[f"place {t}" for t in range(steps)], columns=("largest difference",)),
        "The first place is right and all others differ: each new token comes alone "
        "and gets position 0. Test: one token twice, its two inputs must differ; or cached = "
        "uncached, on states.",
        steps=steps,
    )
