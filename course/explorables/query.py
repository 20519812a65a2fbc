"""One look-up in the plane (lesson 02): turn the query, and the mixture of the values moves."""

import math
from collections.abc import Sequence
from typing import Any

import torch

from course.explorables.pens import Drawing, Plane
from transformer_lab.palette import KEY, QUERY, QUIET, VALUE, WEIGHT
from transformer_lab.support.validation import require

TITLE = "Turn the query, and the mixture moves"
SCRIPTS, STYLES = ("query.js",), ()


def numbers(
    words: Sequence[str] = ("the", "river", "bank"),
    query: Any = (1.0, 1.0),
    keys: Any = ((0.0, 0.0), (2.0, 0.0), (0.5, 0.5)),
    values: Any = ((0.0, 0.0), (2.0, 0.0), (0.5, 0.5)),
    names: Sequence[str] = ("water", "money"),
    asker: str = "bank",
    reach: float | int = 3,
) -> dict:
    """Return what is shown at first: a query (2), and a key and a value (L, 2) of each word.

    `names` are those of the two entries, `asker` is the word that the query belongs to, and its
    entries may be moved from −`reach` to `reach`. Raises `ValueError` for other shapes.
    """
    words = [*words]
    tables = {"query": query, "keys": keys, "values": values}
    for name, table in tables.items():
        tensor = torch.as_tensor(table, dtype=torch.float64)
        shape = (2,) if name == "query" else (len(words), 2)
        require(
            tuple(tensor.shape) == shape,
            f"{name} must have shape {shape} for {len(words)} words, got {tuple(tensor.shape)}",
        )
        tables[name] = tensor.mul(1e6).round().div(1e6).tolist()
    return {**tables, "words": words, "names": [*names], "asker": asker, "reach": reach}


def look_up(query: Sequence, keys: Sequence, values: Sequence) -> tuple[list, list, list]:
    """Return scores and weights (L), and the mixture (2)."""
    query, keys, values = (
        torch.tensor(each, dtype=torch.float64) for each in (query, keys, values)
    )
    scores = keys @ query
    weights = scores.softmax(dim=0)
    return scores.tolist(), weights.tolist(), (weights @ values).tolist()


def picture(shown: dict) -> tuple[str, str]:
    """Return the still picture as SVG, and what is seen on it in a sentence."""
    words, query, keys, values = (shown[name] for name in ("words", "query", "keys", "values"))
    scores, weights, output = look_up(query, keys, values)
    drawing = Drawing(660, 370)
    drawing.text((330, 20), TITLE, size=16, anchor="middle", font_weight="bold")

    drawing.text((165, 46), "the query among the keys", QUERY, anchor="middle")
    reach = (-shown["reach"], shown["reach"])
    plane = Plane(drawing, (15, 56), 300, reach, reach, shown["names"])
    for word, key in zip(words, keys, strict=True):
        (x, y), length = plane.to(key), math.hypot(*key)
        # Beside the arrow stands its word.
        aside, up = (-key[1] / length, key[0] / length) if length else (-0.7, -0.7)
        anchor = "end" if aside < -0.3 else "start" if aside > 0.3 else "middle"
        drawing.arrow(plane.to((0, 0)), (x, y), KEY, 5)
        drawing.circle((x, y), 4, fill=KEY)
        drawing.text((x + 12 * aside, y - 14 * up + 4), word, KEY, anchor=anchor)
    drawing.arrow(plane.to((0, 0)), plane.to(query), QUERY)
    drawing.circle(plane.to(query), 7, fill=QUERY)

    drawing.text((495, 46), "the star is the mixture of the values", VALUE, anchor="middle")
    ranges = [
        (min(0, *entries) - 0.7, max(0, *entries) + 0.7) for entries in zip(*values, strict=True)
    ]
    plane = Plane(drawing, (345, 56), 300, *ranges, shown["names"])
    look = {"fill": VALUE, "fill_opacity": 0.15, "stroke": VALUE}
    drawing.polygon([plane.to(value) for value in values], **look)
    middle = sum(value[1] for value in values) / len(values)
    for word, weight, value in zip(words, weights, values, strict=True):
        x, y = plane.to(value)
        drawing.circle((x, y), 3 + 17 * weight**0.5, fill=VALUE)
        drawing.text((x, y + (-24 if value[1] > middle else 36)), word, VALUE, anchor="middle")
    drawing.star(plane.to(output), 11)

    low = plane.to((0, ranges[1][0]))[1] + 34
    for row, (word, score, weight) in enumerate(zip(words, scores, weights, strict=True)):
        y = low + 28 * row
        drawing.text((345, y), word)
        drawing.text((465, y), f"score {score:.2f}".replace("-", "−"), QUIET, anchor="end")
        drawing.text((560, y), f"weight {weight:.2f}", WEIGHT, anchor="end")
        drawing.rectangle((570, y - 13), (75 * weight, 16), fill=WEIGHT)
    return drawing.svg(), _said(shown, weights, output)


def _said(shown: dict, weights: list, output: list) -> str:
    def pair(point):
        return " and ".join(f"{n} {x:.2f}" for n, x in zip(shown["names"], point, strict=True))

    shares = zip(shown["words"], weights, strict=True)
    return (
        f"Left, the blue query of {shown['asker']}, {pair(shown['query'])}, among the orange keys. "
        f"Right, the triangle of the green values, and in it a star at {pair(output)}: what "
        f"{shown['asker']} gets. The weights: "
        + ", ".join(f"{word} {weight:.2f}" for word, weight in shares)
        + "."
    )
