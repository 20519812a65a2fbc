"""Beam search, one step at a time, on a language that is a tree of chances (lesson 09)."""

import math
from collections.abc import Mapping, Sequence

from course.explorables.pens import Drawing
from transformer_lab.palette import FAINT, INK, PAPER, QUIET
from transformer_lab.support.validation import require

TITLE = "Beam search, one step at a time"
SCRIPTS, STYLES = ("beam.js",), ()
# The language of eight sentences: what has been said -> the chances of the next word.
TREE = {
    (): {"the": 0.6, "a": 0.4},
    ("the",): {"old": 0.55, "new": 0.45},
    ("a",): {"dog": 0.9, "cat": 0.1},
    ("the", "old"): {"dog": 0.6, "cat": 0.4},
    ("the", "new"): {"dog": 0.7, "cat": 0.3},
    ("a", "dog"): {"barks": 0.8, "sleeps": 0.2},
    ("a", "cat"): {"barks": 0.1, "sleeps": 0.9},
}
ROW, BOX, GAP = 44, (64, 36), 40  # the still picture's tree, in pixels
Words = tuple[str, ...]


def numbers(
    tree: Mapping[Words, Mapping[str, float]] = TREE,
    widths: Sequence[int] = (1, 2, 3),
    width: int = 1,
) -> dict:
    """Return what is shown at first: a tree, and the widths of the beam to choose from.

    `tree` maps what has been said, a tuple of words, to the chances of the next word; a sentence
    ends where nothing follows. Raises `ValueError` if the chances after some words are no chances.
    """
    require(() in tree, f"tree must say what the first word may be, under (), got {[*tree]!r:.80}")
    for said, chances in tree.items():
        total = sum(chances.values())
        require(
            all(chance > 0 for chance in chances.values()) and math.isclose(total, 1, abs_tol=1e-6),
            f"the chances after {said} must be positive and add up to 1, got {dict(chances)}",
        )
    require(width in widths, f"width must be one of {[*widths]}, got {width}")

    def below(said: Words) -> dict:
        chances = tree.get(said, {}).items()
        return {word: [round(chance, 6), below((*said, word))] for word, chance in chances}

    return {"tree": below(()), "widths": [*widths], "width": width}


def search(tree: Mapping, width: int) -> list[tuple[list, list]]:
    """Return for each step all candidates, (words, probability), and those that are kept."""
    living, ended, steps = [((), 1.0, tree)], 0, []
    while living and ended < width:
        candidates = [
            ((*words, word), chance * share, more)
            for words, chance, below in living
            for word, (share, more) in below.items()
        ]
        candidates.sort(key=lambda one: one[1], reverse=True)
        living = [one for one in candidates[:width] if one[2]]
        ended += len(candidates[:width]) - len(living)
        ranked = [one[:2] for one in candidates]
        steps.append((ranked, ranked[:width]))
    return steps


def picture(shown: dict) -> tuple[str, str]:
    """Return the still picture as SVG, greedy and a beam of two, and what is seen on it."""
    tree = shown["tree"]
    sentences = _sentences(tree)
    size = 12 + max(len(words) for words in sentences) * (GAP + BOX[0])
    drawing = Drawing(2 * size + 24, 104 + ROW * len(sentences))
    drawing.text((size + 12, 20), TITLE, size=16, anchor="middle", font_weight="bold")
    legend = "filled: kept; crossed out: tried and dropped; pale: never looked at"
    drawing.text((size + 12, 44), legend, QUIET, anchor="middle")
    found = {}
    for place, width in enumerate((1, 2)):
        steps = search(tree, width)
        left = place * (size + 24)
        title = "a beam of 1 (greedy)" if width == 1 else f"a beam of {width}"
        drawing.text((left + size / 2, 72), title, anchor="middle")
        state = {words: "dropped" for candidates, _ in steps for words, _ in candidates}
        state |= {words: "kept" for _, kept in steps for words, _ in kept}
        drawing.circle((left + 4, 90 + ROW * len(sentences) / 2), 4, fill=INK)
        _tree(drawing, left, tree, state)
        found[width] = _best(steps, sentences)
    said = (
        f"A tree of {len(sentences)} sentences, twice. With a beam of one the search ends with "
        f"{_named(found[1])}; with a beam of two it ends with {_named(found[2])}. The most "
        f"probable sentence is {_named(max(sentences.items(), key=lambda one: one[1]))}."
    )
    return drawing.svg(), said


def _sentences(below: Mapping, said: Words = (), chance: float = 1.0) -> dict[Words, float]:
    """Return every sentence of a tree and its probability."""
    if not below:
        return {said: chance}
    parts = (
        _sentences(more, (*said, word), chance * share) for word, (share, more) in below.items()
    )
    return {words: p for part in parts for words, p in part.items()}


def _best(steps: list, sentences: Mapping) -> tuple[Words, float]:
    ended = [one for _, kept in steps for one in kept if one[0] in sentences]
    return max(ended, key=lambda one: one[1])


def _named(found: tuple[Words, float]) -> str:
    return f'"{" ".join(found[0])}", {found[1]:.3f}'


def _tree(drawing: Drawing, left: int, tree: Mapping, state: Mapping) -> None:
    """Draw the tree; `state` says of the words that were looked at whether they were kept."""
    rows = {words: row for row, words in enumerate(_sentences(tree))}

    def middle(said: Words) -> float:
        inside = [row for words, row in rows.items() if words[: len(said)] == said]
        return 90 + ROW * (inside[0] + inside[-1] + 1) / 2

    def draw(said: Words, chance: float, below: Mapping) -> None:
        x, y = left + 4 + len(said) * (GAP + BOX[0]), middle(said)
        for word, (share, more) in below.items():
            words = (*said, word)
            kept, seen = state.get(words) == "kept", words in state
            color, end = INK if seen else FAINT, (x + GAP, middle(words))
            drawing.line((x, y), end, color if kept or not seen else QUIET, 3 if kept else 1)
            beside = (end[0] - 3, end[1] + (14 if y < end[1] else -6))
            drawing.text(beside, f"{share:g}", QUIET, 13, "end")
            corner = (end[0], end[1] - BOX[1] / 2)
            look = {} if kept or not seen else {"stroke_dasharray": "3 3"}
            drawing.rectangle(corner, BOX, rx=5, fill=INK if kept else PAPER, stroke=color, **look)
            look = {} if kept or not seen else {"text_decoration": "line-through"}
            ink, center = PAPER if kept else INK if seen else QUIET, end[0] + BOX[0] / 2
            drawing.text((center, end[1] - 3), word, ink, 13, "middle", **look)
            drawing.text((center, end[1] + 13), f"{chance * share:.3f}", ink, 13, "middle")
            draw(words, chance * share, more)

    draw((), 1.0, tree)
