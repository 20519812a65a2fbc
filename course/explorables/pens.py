"""Pens for the still pictures: SVG as text, which is small and the same on every machine.

>>> drawing = Drawing(100, 50)
>>> drawing.arrow((10, 25), (90, 25), KEY)
>>> drawing.svg()
"""

import math
from collections.abc import Sequence
from html import escape
from typing import Any

from transformer_lab.palette import FAINT, INK, PAPER, QUIET

Number = float | int
Point = Sequence[Number]


class Drawing:
    """A picture of `width` × `height` pixels; the origin is above left, and y grows downwards."""

    def __init__(self, width: int, height: int):
        self.width, self.height, self.parts = width, height, []
        self.rectangle((0, 0), (width, height), fill=PAPER)

    def svg(self) -> str:
        """Return the picture as SVG."""
        size = f'width="{self.width}" height="{self.height}"'
        view = f'viewBox="0 0 {self.width} {self.height}"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {view} font-family="sans-serif">'
        return "\n".join([head, *self.parts, "</svg>"])

    def line(self, start: Point, end: Point, color: str = INK, width: Number = 1, **look) -> None:
        (x1, y1), (x2, y2) = start, end
        look = {"stroke": color, "stroke_width": width} | look
        self._add("line", x1=x1, y1=y1, x2=x2, y2=y2, **look)

    def polygon(self, points: Sequence[Point], **look) -> None:
        text = " ".join(f"{_number(x)},{_number(y)}" for x, y in points)
        self._add("polygon", points=text, **look)

    def circle(self, center: Point, radius: Number, **look) -> None:
        self._add("circle", cx=center[0], cy=center[1], r=radius, **look)

    def rectangle(self, corner: Point, size: Point, **look) -> None:
        x, y, width, height = *corner, *size
        self._add("rect", x=x, y=y, width=width, height=height, **look)

    def text(
        self,
        at: Point,
        words: Any,
        color: str = INK,
        size: Number = 14,
        anchor: str = "start",
        **look,
    ) -> None:
        """Write on a line that begins at the point `at`, or has it in the middle, or ends there."""
        look = {"fill": color, "font_size": size, "text_anchor": anchor} | look
        self._add("text", words, x=at[0], y=at[1], **look)

    def arrow(self, start: Point, end: Point, color: str, width: Number = 2.5) -> None:
        length = math.dist(start, end)
        if length < 1:
            return
        dx, dy = (end[0] - start[0]) / length, (end[1] - start[1]) / length
        neck, half = length - min(length, 5 + 3 * width), width / 2
        side = [(0, half), (neck, half), (neck, 2 * half + 3)]
        outline = [*side, (length, 0), *((along, -aside) for along, aside in reversed(side))]
        x, y = start
        points = [(x + a * dx - b * dy, y + a * dy + b * dx) for a, b in outline]
        self.polygon(points, fill=color)

    def star(self, center: Point, radius: Number, color: str = INK) -> None:
        radii = [radius, 0.4 * radius] * 5
        angles = [n * math.pi / 5 for n in range(10)]
        corners = zip(radii, angles, strict=True)
        self.polygon(
            [(center[0] + r * math.sin(a), center[1] - r * math.cos(a)) for r, a in corners],
            fill=color,
        )

    def _add(self, tag: str, content: Any = None, **attributes) -> None:
        texts = (
            f'{name.replace("_", "-")}="{_number(value)}"' for name, value in attributes.items()
        )
        start = f"<{tag} {' '.join(texts)}"
        self.parts.append(
            f"{start}/>" if content is None else f"{start}>{escape(str(content))}</{tag}>"
        )


def _number(value: Any) -> str:
    """A tenth of a pixel is enough, and further digits would differ from machine to machine."""
    return escape(value) if isinstance(value, str) else f"{round(float(value), 1):g}"


class Plane:
    """Axes for points x, y in two ranges, `width` pixels wide, with their corner at `corner`."""

    def __init__(
        self,
        drawing: Drawing,
        corner: Point,
        width: Number,
        x: Point,
        y: Point,
        names: Sequence[str],
    ):
        self.corner, self.x, self.y = corner, x, y
        self.unit = width / (x[1] - x[0])
        for at in range(math.ceil(x[0]), math.floor(x[1]) + 1):
            drawing.line(self.to((at, y[0])), self.to((at, y[1])), FAINT if at else QUIET)
            if at and x[0] < at < x[1]:
                left, top = self.to((at, 0))
                drawing.text((left, top + 16), f"{at}".replace("-", "−"), QUIET, 13, "middle")
        for at in range(math.ceil(y[0]), math.floor(y[1]) + 1):
            drawing.line(self.to((x[0], at)), self.to((x[1], at)), FAINT if at else QUIET)
        (right, bottom), (left, top) = self.to((x[1], y[0])), self.to((x[0], y[1]))
        drawing.text((right - 4, bottom - 6), f"{names[0]} →", QUIET, 13, "end")
        drawing.text((left + 4, top + 16), f"{names[1]} ↑", QUIET, 13)

    def to(self, point: Point) -> tuple[float, float]:
        """Return where a point is in the drawing."""
        (left, top), (x, y) = self.corner, point
        return left + (x - self.x[0]) * self.unit, top + (self.y[1] - y) * self.unit
