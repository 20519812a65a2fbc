"""Which bug made this table? Tables by seed, each with one planted mistake, for the examination.

A maker belongs to a kind, and a paper draws one of its kind. Neither title nor sentence says which:
the same numbers could stand there without the mistake.
"""

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
TITLE = "Which bug made this table?"
WANTED = (
    "What in it cannot be? Which bug made it? Which test of one line finds it without a reference?"
)
SENTENCES = (
    ("the", "cat", "sat", "down"),
    ("we", "like", "old", "songs"),
    ("two", "dogs", "ran", "home"),
    ("she", "reads", "long", "books"),
    ("rain", "fell", "all", "night"),
    ("his", "train", "was", "late"),
)
_makers: dict[str, dict[str, Callable[[random.Random], Question]]] = {}


def bug(kind: str) -> Callable:
    def enter(maker: Callable[[random.Random], Question]) -> Callable:
        _makers.setdefault(kind, {})[maker.__name__] = maker
        return maker

    return enter


def names(kind: str = "") -> list[str]:
    """Return the names of all bugs, or of a kind's."""
    return [name for each, found in _makers.items() if kind in ("", each) for name in found]


def make(name: str, seed: int | str) -> Question:
    """Return a question with the numbers of a seed."""
    (maker,) = (found[name] for found in _makers.values() if name in found)
    return maker(random.Random(f"{name} {seed}"))


def whole(r: random.Random, *shape: int) -> np.ndarray:
    """Return small whole numbers, no two rows alike."""
    while True:
        x = np.array([r.randint(-2, 3) for _ in range(math.prod(shape))], float).reshape(shape)
        if len(np.unique(x, axis=0)) == len(x) and x.std(axis=0).min() > 0:
            return x


def softmax(scores: np.ndarray, axis: int = -1) -> np.ndarray:
    exps = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return exps / exps.sum(axis=axis, keepdims=True)


def table(x: np.ndarray, rows, columns, digits: int = 3) -> str:
    """Return numbers as a Markdown table with words on both sides."""
    lines = [f"|  | {' | '.join(columns)} |", f"|---|{'---:|' * len(columns)}"]
    for name, values in zip(rows, x, strict=True):
        lines.append(f"| **{name}** | {' | '.join(f'{v:.{digits}f}' for v in values)} |")
    return "\n".join(lines).replace("-0.000", "0.000")


def asked(told: str, shown: str, answer: str, **given) -> Question:
    """Return a question about a table."""
    text = f"{told}\n\n{shown}\n\n{WANTED}"
    return Question(TITLE, text, answer, CREDIT, given, {"table": shown})


def weights(r: random.Random, told: str, of: Callable, answer: str, pad: bool = False) -> Question:
    """Return a question about the weights that a bug makes `of` scores."""
    words = list(r.choice(SENTENCES))
    if pad:
        words[-1] = "pad"
    scores = whole(r, 4, 4) / 2
    shown = table(of(scores.copy()), words, words)
    return asked(f"Weights of {told}; rows ask, columns are read.", shown, answer, scores=scores)


# ---- rows: what the softmax is asked for, in an encoder's sentence without a pad

PLAIN = "an encoder's self-attention, in evaluation, for a sentence without pads"


@bug("rows")
def over_queries(r):
    return weights(
        r,
        PLAIN,
        lambda scores: softmax(scores, axis=0),
        "The *columns* add up to 1, the rows do not: the softmax runs over the queries. "
        "Test: values of 1 must give outputs of 1.",
    )


@bug("rows")
def scaled_after(r):
    return weights(
        r,
        f"{PLAIN}, d<sub>k</sub> = 4",
        lambda scores: softmax(2 * scores) / 2,
        "Each row adds up to 0.5 = 1/√4: the division by √d<sub>k</sub> stands behind the softmax. "
        "Test: values of 1 must give outputs of 1.",
    )


@bug("rows")
def not_divided(r):
    return weights(
        r,
        PLAIN,
        np.exp,
        "Entries above 1, and rows that add up to something else each time: the exponentials are "
        "not divided by their sum. Test: values of 1 must give outputs of 1.",
    )


@bug("rows")
def dropout_on(r):
    def dropped(scores):
        kept = np.ones((4, 4))
        for row in r.sample(range(4), 3):
            kept[row, r.randrange(4)] = 0
        return softmax(scores) * kept / 0.75

    return weights(
        r,
        PLAIN,
        dropped,
        "Zeros where nothing is forbidden, and rows that do not add up to 1 (above it where "
        "nothing was dropped): dropout on the weights is still on, the model was not put into "
        "evaluation. Test: two passes over one sentence must give the same.",
    )


@bug("rows")
def causal_encoder(r):
    return weights(
        r,
        PLAIN,
        lambda scores: softmax(np.where(np.tril(np.ones((4, 4))) > 0, scores, -np.inf)),
        "Rows add up to 1, but no word of the encoder reads one behind it, and the first reads "
        "only itself: a causal mask where none belongs. Test: change the last word; the outputs "
        "of all others must move.",
    )


# ---- masks: causal ones, and pads

DECODER = "a decoder's self-attention, with its causal mask"
PADDED = "an encoder's self-attention, with its padding mask; the last word is a pad"


@bug("masks")
def transposed_mask(r):
    return weights(
        r,
        DECODER,
        lambda scores: softmax(np.where(np.triu(np.ones((4, 4))) > 0, scores, -np.inf)),
        "The first word reads the last, and the last only itself: the causal mask is transposed. "
        "Test: change the last word; the outputs of the others must stay.",
    )


@bug("masks")
def one_off(r):
    return weights(
        r,
        DECODER,
        lambda scores: softmax(np.where(np.tril(np.ones((4, 4)), 1) > 0, scores, -np.inf)),
        "Each row but the last has one entry too many: `tril(1)`, so that every word sees the "
        "next, which is the answer. Test: change the last word; the outputs before it must stay.",
    )


@bug("masks")
def not_renormalised(r):
    return weights(
        r,
        PADDED,
        lambda scores: softmax(scores) * np.array([1, 1, 1, 0]),
        "The pad's column is 0, as it should be, and the rows add up to less than 1: zeroed after "
        "the softmax and not renormalised. Test: values of 1; or a second pad, and the outputs "
        "must stay.",
        pad=True,
    )


@bug("masks")
def score_zero(r):
    def zeroed(scores):
        scores[:, 3] = 0
        return softmax(scores)

    return weights(
        r,
        PADDED,
        zeroed,
        "Rows add up to 1, and the pad gets weight in each: its *score* was set to 0 (or "
        "multiplied by the mask), and e⁰ = 1. **Or instead**, for the same points, *the mask was "
        "forgotten*: weights cannot tell the two apart. Test: append pads; the outputs must stay.",
        pad=True,
    )


@bug("masks")
def masked_queries(r):
    def of(scores):
        scores[3] = -1e9
        return softmax(scores)

    return weights(
        r,
        PADDED,
        of,
        "The pad's *row* is uniform and its column is open, so that all words read it: the mask "
        "lies on the queries, (B, 1, L, 1), and not on the keys, (B, 1, 1, L). Test: append pads; "
        "the outputs must stay.",
        pad=True,
    )


# ---- layers: what stands around the attention


@bug("layers")
def wrong_norm(r):
    x = whole(r, 4, 4)
    y = (x - x.mean(axis=0)) / x.std(axis=0)
    return asked(
        "Four words of four features after a LayerNorm with γ = 1 and β = 0.",
        table(y, r.choice(SENTENCES), ("f1", "f2", "f3", "f4")),
        "The *columns* have mean 0, the rows have not: mean and variance are taken over the words. "
        "Test: change one word; the others must stay.",
        x=x,
    )


@bug("layers")
def not_centred(r):
    while (x := whole(r, 4, 4)).std(axis=1).min() < 0.8:
        pass
    x += r.choice([4, 5, 6])
    y = x / x.std(axis=1, keepdims=True)
    return asked(
        "Four words of four features after a LayerNorm with γ = 1 and β = 0.",
        table(y, r.choice(SENTENCES), ("f1", "f2", "f3", "f4")),
        "No row has mean 0: divided by the standard deviation, and the mean was not taken off "
        "(it is no RMSNorm either: the mean square is not 1). Test: add 1,000 to every feature; "
        "the output must stay.",
        x=x,
    )


@bug("layers")
def position_zero(r):
    d, steps = r.choice([4, 6, 8]), r.choice([4, 5, 6])
    moved = np.abs(codes(steps, d) - codes(steps, d)[0]).max(axis=1, keepdims=True)
    return asked(
        f"How far the input of the decoder's first layer (d<sub>model</sub> = {d}) differs, "
        "with a cache against without one, at each place.",
        table(moved, [f"place {t}" for t in range(steps)], ("largest difference",)),
        "The first place is right and all others differ: each new token comes alone and gets "
        "position 0. Test: one token twice, its two inputs must differ; or cached = uncached, on "
        "states.",
        steps=steps,
        d=d,
    )


@bug("layers")
def cosine_missing(r):
    d, steps = 4, r.choice([4, 5, 6])
    first = r.choice([0, 1])
    pe = codes(steps, d, cosine=np.sin)[first:]
    return asked(
        f"The paper's positional encoding, d<sub>model</sub> = {d}.",
        table(pe, [f"place {t}" for t in range(first, steps)], ("0", "1", "2", "3")),
        "The two numbers of a pair are the same at every place, while sin² + cos² must be 1: the "
        "odd features have the sine as well. Test: PE(0) = [0, 1, 0, 1]; or each row has the "
        "length √(d/2).",
        steps=steps,
        first=first,
    )


@bug("layers")
def network_mixes(r):
    place = r.randrange(4)
    while True:
        moved = np.array([[r.randint(50, 900) / 1000] for _ in range(4)])
        if len({float(v) for v in moved[:, 0]}) == 4:
            break
    words = r.choice(SENTENCES)
    return asked(
        f"The word *{words[place]}* is nudged in the input of a feed-forward network. How far "
        "each word's output moves.",
        table(moved, words, ("largest difference",)),
        "All words move, while a position-wise network may move the nudged one alone: a linear "
        "layer (or a norm) in it runs over the words instead of the features, say after a "
        "transpose too many. Test: change one word; the outputs of the others must stay.",
        moved=moved,
    )


def codes(steps: int, d: int, cosine=np.cos) -> np.ndarray:
    """Return the paper's positional encoding, or one with something else for the cosine."""
    angles = np.arange(steps)[:, None] / 10000 ** (np.arange(0, d, 2) / d)
    return np.stack([np.sin(angles), cosine(angles)], axis=-1).reshape(steps, d)
