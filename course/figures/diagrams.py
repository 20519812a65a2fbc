"""Data-flow diagrams for the lessons: boxes and arrows, drawn by code on matplotlib.

>>> diagram = Diagram(6, 1.2, title="The scores compare every query with every key")
>>> diagram.box("query", 0.8, 0.6, "query\\n(Lq, d_k)", role="query")
>>> diagram.box("scores", 3.4, 0.6, "scores\\n(Lq, Lk)")
>>> diagram.arrow("query", "scores", "× keyᵀ")
"""

import math
from collections.abc import Sequence
from itertools import pairwise

from transformer_lab.palette import BASELINE, FAINT, LIT, PAPER, ROLE_COLORS
from transformer_lab.support.validation import require


class Diagram:
    """A drawing of `width` × `height` inches in which one unit is one inch, the origin below left.

    `axes` is the matplotlib Axes, for whatever else is to be drawn. Raises `ValueError` for a size
    that is not positive or wider than 8 inches (800 pixels, the widest figure of the course).
    """

    def __init__(self, width: float | int, height: float | int, title: str = ""):
        require(
            0 < width <= 8 and height > 0,
            f"width must be in (0, 8] inches and height positive, got {width} and {height}",
        )
        import matplotlib.pyplot as plt

        figure = plt.figure(figsize=(width, height + (0.4 if title else 0)))
        self.axes = figure.add_axes((0, 0, 1, height / figure.get_figheight()))
        self.axes.set(xlim=(0, width), ylim=(0, height), title=title)
        self.axes.axis("off")
        self._boxes = {}

    def box(
        self,
        name: str,
        x: float | int,
        y: float | int,
        text: str | None = None,
        *,
        role: str = "plain",
        width: float | int = 1.2,
        height: float | int = 0.5,
        **style,
    ) -> None:
        """Draw a box centred at (x, y) that says `text` (or its name) in the colour of `role`.

        Arrows refer to it by `name`; `style` goes to matplotlib's text. Raises `ValueError` for a
        name that is taken or a role that is not one of `ROLE_COLORS`.
        """
        from matplotlib.patches import FancyBboxPatch

        require(name not in self._boxes, f"every box needs a name of its own, got {name!r} twice")
        color = _color(role)
        # A filled tint under dark text is readable in grey; the edge carries the colour.
        patch = FancyBboxPatch(
            *((x - width / 2, y - height / 2), width, height),
            boxstyle="round,pad=0,rounding_size=0.08",
            facecolor=(color, 0.13),
            edgecolor=color,
            linewidth=1.5,
        )
        self.axes.add_patch(patch)
        self.note(x, y, name if text is None else text, **style)
        self._boxes[name] = ((x, y), patch)

    def matrix(
        self,
        name: str,
        x: float | int,
        y: float | int,
        values: Sequence,
        *,
        role: str = "plain",
        rows: Sequence[str] = (),
        columns: Sequence[str] = (),
        lit: Sequence[int] = (),
        cell: tuple = (0.5, 0.3),
        digits: int | None = None,
    ) -> None:
        """Draw a table of numbers or texts centred at (x, y), in the colour of `role`.

        `rows` and `columns` are written at its left and above it, the rows numbered in `lit` are
        marked, and numbers have `digits` after the point, or as many as they need. Arrows refer to
        the table by `name`. Raises `ValueError` for rows of different lengths, and for labels that
        do not fit.
        """
        from matplotlib.patches import Rectangle

        values = [list(row) for row in values]
        shape, (wide, high) = (len(values), len(values[0]) if values else 0), cell
        require(
            shape[1] > 0 and all(len(row) == shape[1] for row in values),
            f"values must be a table with rows of one length, got {values!r:.60}",
        )
        for what, labels, count in (("rows", rows, shape[0]), ("columns", columns, shape[1])):
            require(
                len(labels) in (0, count), f"{what} must be {count} texts or none, got {labels!r}"
            )
        require(name not in self._boxes, f"every box needs a name of its own, got {name!r} twice")
        color = _color(role)
        left, top = x - shape[1] * wide / 2, y + shape[0] * high / 2
        for i, row in enumerate(values):
            face = LIT if i in lit else (color, 0.13)
            for j, value in enumerate(row):
                corner = (left + j * wide, top - (i + 1) * high)
                self.axes.add_patch(Rectangle(corner, wide, high, fc=face, ec=PAPER))
                weight = "bold" if i in lit else "normal"
                text = _number(value, digits)
                self.note(corner[0] + wide / 2, corner[1] + high / 2, text, fontweight=weight)
        size = (shape[1] * wide, shape[0] * high)
        frame = Rectangle((left, top - size[1]), *size, fill=False, ec=color, lw=1.5)
        self._boxes[name] = ((x, y), self.axes.add_patch(frame))
        for i, label in enumerate(rows):
            self.note(left - 0.08, top - (i + 0.5) * high, label, ha="right", color=color)
        for j, label in enumerate(columns):
            self.note(left + (j + 0.5) * wide, top + 0.13, label, color=color)

    def shares(
        self,
        x: float | int,
        y: float | int,
        weights: Sequence,
        labels: Sequence[str],
        *,
        width: float | int = 2.0,
        row: float = 0.26,
    ) -> None:
        """Draw weights that sum to 1 as bars, one under the other, centred at (x, y).

        A full bar of `width` inches is all of the attention. Raises `ValueError` for weights that
        are no shares, and for labels that do not fit.
        """
        from matplotlib.patches import Rectangle

        weights = [float(weight) for weight in weights]
        require(
            all(weight >= 0 for weight in weights) and math.isclose(sum(weights), 1, abs_tol=1e-3),
            f"weights must be shares that sum to 1, got {weights}",
        )
        require(len(labels) == len(weights), f"labels must be {len(weights)} texts, got {labels!r}")
        left, top = x - width / 2, y + len(weights) * row / 2
        for i, (weight, label) in enumerate(zip(weights, labels, strict=True)):
            middle = top - (i + 0.5) * row
            corner, high = (left, middle - 0.35 * row), 0.7 * row
            self.axes.add_patch(Rectangle(corner, width, high, fill=False, ec=FAINT))
            bar = Rectangle(corner, weight * width, high, fc=ROLE_COLORS["weights"])
            self.axes.add_patch(bar)
            self.note(left - 0.08, middle, label, ha="right", parse_math=False)
            self.note(left + width + 0.08, middle, f"{100 * weight:.0f} %", ha="left")

    def arrow(
        self,
        start: str,
        end: str,
        text: str = "",
        *,
        via: tuple = (),
        role: str = "plain",
    ) -> None:
        """Draw an arrow from box `start` to box `end`, around the corners `via` if there are any.

        `text` stands at the middle of the longest part. Raises `ValueError` for unknown boxes.
        """
        for name in (start, end):
            require(name in self._boxes, f"no box {name!r}; there are {sorted(self._boxes)}")
        points = [self._boxes[start][0], *via, self._boxes[end][0]]
        parts = list(pairwise(points))
        for number, (a, b) in enumerate(parts):
            patch_a = self._boxes[start][1] if number == 0 else None
            patch_b = self._boxes[end][1] if number == len(parts) - 1 else None
            self._part(a, b, patch_a, patch_b, _color(role))
        if text:
            (xa, ya), (xb, yb) = max(parts, key=lambda part: math.dist(*part))
            self.note((xa + xb) / 2, (ya + yb) / 2, text, background="white")

    def note(
        self, x: float | int, y: float | int, text: str, *, background: str = "none", **style
    ) -> None:
        """Write `text` centred at (x, y); `style` goes to matplotlib's text."""
        box = {"facecolor": background, "edgecolor": "none", "pad": 1.5}
        self.axes.text(
            x, y, text, **{"ha": "center", "va": "center", "fontsize": 9, "bbox": box} | style
        )

    def _part(self, a, b, patch_a, patch_b, color: str) -> None:
        """Draw one straight part: it ends at the edges of its boxes, and the last has a head."""
        style = {
            "arrowstyle": "-|>" if patch_b else "-",
            "color": color,
            "linewidth": 1.3,
            "shrinkA": 2 if patch_a else 0,
            "shrinkB": 2 if patch_b else 0,
            "patchA": patch_a,
            "patchB": patch_b,
        }
        self.axes.annotate("", xy=b, xytext=a, arrowprops=style)


def _number(value: object, digits: int | None) -> str:
    if isinstance(value, str):
        return value
    return format(float(value), ".3g" if digits is None else f".{digits}f").replace("-", "−")


def _color(role: str) -> str:
    require(role in ROLE_COLORS, f"role must be one of {sorted(ROLE_COLORS)}, got {role!r}")
    return ROLE_COLORS[role]


# What `architecture` can light, and the ends of an attention from left to right (paper, Figure 2).
PARTS = (
    *("embedding", "positional encoding", "encoder layer", "decoder layer", "self-attention"),
    *("masked self-attention", "cross-attention", "feed-forward", "add & norm", "generator"),
)
ENDS = {"V": (-0.5, "value"), "K": (0.0, "key"), "Q": (0.5, "query")}


def architecture(highlight: tuple = ()) -> Diagram:
    """Draw the paper's Figure 1, with its dropout (5.4) and the ends of each attention.

    The boxes of the parts in `highlight` are lit. Raises `ValueError` for what is not in `PARTS`.
    """
    unknown = sorted(set(highlight) - set(PARTS))
    require(not unknown, f"highlight must hold parts among {PARTS}, got {unknown}")
    drawing = _Architecture(set(highlight))
    both = ("cross-attention", "feed-forward")
    memory = drawing.column("encoder", 2.3, -1, "source", ("self-attention", both[1]))
    drawing.column(
        "decoder", 5.5, 1, "target so far (shifted right)", ("masked self-attention", *both)
    )
    drawing.memory((2.3, memory), 3.9)
    for name, below in (("linear", "decoder norm 3"), ("softmax", "linear"), ("p", "softmax")):
        x, y = drawing.middle(below)
        text = "next piece" if name == "p" else name
        drawing.part(name, x, y + (0.65 if name == "linear" else 0.55), text, "generator")
        drawing.arrow(below, name)
    return drawing


class _Architecture(Diagram):
    """Figure 1 from below: two columns of sub-layers, each with its residual line around it."""

    def __init__(self, lit: set):
        super().__init__(7.8, 8.1, title="The Transformer (after the paper's Figure 1)")
        self.lit = lit

    def middle(self, name: str) -> tuple[float, float]:
        return self._boxes[name][0]

    def part(self, name: str, x: float, y: float, text: str, *parts: str, width: float = 1.9):
        """Draw a box, lit if one of its parts is to be lit."""
        self.box(name, x, y, text, width=width, height=0.4)
        if self.lit & set(parts):
            self._boxes[name][1].set(facecolor=LIT, edgecolor="black", linewidth=2.5)

    def wire(self, *points: tuple, into: str, role: str = "plain") -> None:
        """Draw a line around corners that ends at the edge of box `into`."""
        for number, (a, b) in enumerate(pairwise(points), 2):
            patch = self._boxes[into][1] if number == len(points) else None
            self._part(a, b, None, patch, _color(role))

    def end(self, letter: str, box: str, *points: tuple) -> None:
        """Draw the wire to an end of an attention, in the colour of its role."""
        (x, y), (shift, role) = self.middle(box), ENDS[letter]
        self.wire(*points, (x + shift, points[-1][1]), (x + shift, y), into=box, role=role)
        style = {"color": _color(role), "fontweight": "bold"}
        self.note(x + shift - 0.12, y - 0.29, letter, **style)

    def column(self, name: str, x: float, side: int, text: str, sublayers: tuple) -> float:
        """Draw the encoder or the decoder; return the height at which its layers end."""
        self.note(x, 0.12, text)
        self.part(f"{name} embedding", x, 0.6, "embedding", "embedding")
        self.part(f"{name} +", x, 1.15, "+", "positional encoding", width=0.4)
        beside, words = x + 1.45 * side, "positional\nencoding"
        self.part(*(f"{name} positions", beside, 1.15, words, "positional encoding"), width=0.9)
        self.wire((x, 0.2), (x, 0.6), into=f"{name} embedding")
        self.arrow(f"{name} embedding", f"{name} +")
        self.arrow(f"{name} positions", f"{name} +")
        self.note(x - 0.4 * side, 1.45, "dropout", fontsize=8)
        self._part((x, 1.35), (x, 1.6), None, None, _color("plain"))
        top = 1.6
        for number, sublayer in enumerate(sublayers, 1):
            self.sublayer(name, number, sublayer, x, side, top)
            top = self.middle(f"{name} norm {number}")[1] + 0.2
        self.layer(f"{name} layer", x, side, top + 0.15)
        return top

    def sublayer(self, name: str, number: int, text: str, x: float, side: int, low: float) -> None:
        """Draw a sub-layer and its Add & Norm from height `low` on, and the residual around it."""
        box, norm, layer = f"{name} {text}", f"{name} norm {number}", f"{name} layer"
        attends = "attention" in text
        y = low + (0.85 if attends else 0.55)
        self.part(box, x, y, text, text, layer)
        self.part(norm, x, y + 0.6, "add & norm", "add & norm", layer)
        self.arrow(box, norm)
        self.note(x - 0.4 * side, y + 0.3, "dropout", fontsize=8)
        fork, around = (x, low + 0.1), x + 1.2 * side
        self._part((x, low), (x, low + 0.22), None, None, _color("plain"))
        self.wire(fork, (around, fork[1]), (around, y + 0.6), (x, y + 0.6), into=norm)
        if not attends:
            self.wire(fork, (x, y), into=box)
        for letter in {"cross-attention": "Q", "feed-forward": ""}.get(text, "VKQ"):
            self.end(letter, box, (x, low + 0.22))

    def memory(self, start: tuple, lane: float) -> None:
        """Draw keys and values from the encoder's end to the decoder's second attention."""
        (x, y), (_, into) = start, self.middle("decoder cross-attention")
        for letter, shift in (("V", -0.06), ("K", 0.06)):
            up, down = y + 0.45 - shift, into - 0.48 - shift
            corners = (x + shift, up), (lane - shift, up), (lane - shift, down)
            self.end(letter, "decoder cross-attention", (x + shift, y), *corners)
        self.note(3.1, y + 0.66, "memory")

    def layer(self, name: str, x: float, side: int, top: float) -> None:
        """Draw the frame around a layer, behind everything."""
        from matplotlib.patches import FancyBboxPatch

        left = x - (1.35 if side < 0 else 1.15)
        style = {"boxstyle": "round,pad=0,rounding_size=0.12", "zorder": 0, "edgecolor": BASELINE}
        lit = {"facecolor": (LIT, 0.25)} if name in self.lit else {"facecolor": "0.96"}
        self.axes.add_patch(FancyBboxPatch((left, 1.55), 2.5, top - 1.55, **style, **lit))
        self.note(x + 1.75 * side, top - 0.25, "× N", fontsize=12)
        self.note(x + 1.75 * side, top - 0.6, name.replace(" ", "\n"), fontsize=8)
