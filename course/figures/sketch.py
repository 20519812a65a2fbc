"""Pens for the drawings of the lessons: a canvas in inches, words, boxes, arrows, tables of cells.

`diagrams.py` draws data flow with named boxes; this is for everything that is drawn by hand.

>>> ax = canvas(3, 1, "Gave looks at Mary")
>>> box(ax, 0.6, 0.4, "Mary", KEY)
>>> box(ax, 2.4, 0.4, "gave", QUERY)
>>> arrow(ax, (1.9, 0.4), (1.1, 0.4), WEIGHT)
"""

from collections.abc import Callable, Sequence
from typing import Any

from transformer_lab.palette import INK, PLAIN

Number = float | int
Point = tuple[Number, Number]


def canvas(width: Number, height: Number, title: str = ""):
    """Return Axes of `width` × `height` inches: one unit is one inch, the origin below left."""
    import matplotlib.pyplot as plt

    ax = plt.subplots(figsize=(width, height), layout="constrained")[1]
    ax.set(xlim=(0, width), ylim=(0, height), aspect="equal")
    ax.set_title(title, fontsize=12)
    ax.axis("off")
    return ax


def label(ax, x: Number, y: Number, text: Any, size: Number = 11, **style) -> None:
    """Write centred at (x, y); `style` goes to matplotlib's text."""
    ax.text(x, y, str(text), **{"ha": "center", "va": "center", "fontsize": size} | style)


def box(
    ax,
    x: Number,
    y: Number,
    text: Any = "",
    color: str = PLAIN,
    width: Number = 1.0,
    height: Number = 0.42,
    fill: Number = 0.14,
    **style,
) -> None:
    """Draw a rounded box centred at (x, y) with text in it; `fill` is the strength of its tint."""
    from matplotlib.patches import FancyBboxPatch

    corner, look = (x - width / 2, y - height / 2), "round,pad=0,rounding_size=0.07"
    colors = {"fc": (color, fill), "ec": color}
    ax.add_patch(FancyBboxPatch(corner, width, height, boxstyle=look, lw=1.4, **colors))
    label(ax, x, y, text, **style)


def arrow(
    ax,
    start: Point,
    end: Point,
    color: str = PLAIN,
    width: Number = 1.5,
    bend: Number = 0.0,
    style: str = "-|>",
) -> None:
    """Draw an arrow from point to point; `bend` curves it, to the right if it is positive."""
    from matplotlib.patches import FancyArrowPatch

    look = {"arrowstyle": style, "mutation_scale": 13, "shrinkA": 0, "shrinkB": 0}
    curve = f"arc3,rad={bend}"
    ax.add_patch(FancyArrowPatch(start, end, color=color, lw=width, connectionstyle=curve, **look))


def cells(
    ax,
    x: Number,
    y: Number,
    table: Sequence[Sequence],
    color: str | Callable[[int, int], str] = PLAIN,
    cell: Number = 0.5,
    size: Number = 12,
) -> None:
    """Draw a table with its upper left corner at (x, y), a square of `cell` inches for each entry.

    `color` may be a function of row and column.
    """
    from matplotlib.patches import Rectangle

    for r, row in enumerate(table):
        for c, value in enumerate(row):
            tint = color(r, c) if callable(color) else color
            corner = (x + c * cell, y - (r + 1) * cell)
            ax.add_patch(Rectangle(corner, cell, cell, fc=(tint, 0.16), ec=tint, lw=1.2))
            label(ax, corner[0] + cell / 2, corner[1] + cell / 2, value, size, color=INK)
