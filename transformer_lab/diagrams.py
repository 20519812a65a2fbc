"""Data-flow diagrams for the lessons: boxes and arrows, drawn by code on matplotlib.

>>> diagram = Diagram(6, 1.2, title="The scores compare every query with every key")
>>> diagram.box("query", 0.8, 0.6, "query\\n(Lq, d_k)", role="query")
>>> diagram.box("scores", 3.4, 0.6, "scores\\n(Lq, Lk)")
>>> diagram.arrow("query", "scores", "× keyᵀ")
"""

import math
from itertools import pairwise

from transformer_lab.support.validation import require

# The course's colours (Okabe and Ito: told apart by colour-blind readers too).
ROLE_COLORS = {"query": "#0072B2", "key": "#D55E00", "value": "#009E73", "plain": "#444444"}


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
    ) -> None:
        """Draw a box centred at (x, y) that says `text` (or its name) in the colour of `role`.

        Arrows refer to it by `name`. Raises `ValueError` for a name that is taken or a role
        that is not one of `ROLE_COLORS`.
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
        self.note(x, y, name if text is None else text)
        self._boxes[name] = ((x, y), patch)

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


def _color(role: str) -> str:
    require(role in ROLE_COLORS, f"role must be one of {sorted(ROLE_COLORS)}, got {role!r}")
    return ROLE_COLORS[role]
