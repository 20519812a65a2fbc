"""A place as a row of clocks (lesson 05): two words move, the angles between them stay."""

import math
from collections.abc import Sequence

from course.explorables.pens import Drawing, Number, Point
from transformer_lab.palette import FAINT, INK, LIT, QUIET, SERIES
from transformer_lab.support.validation import require

TITLE = "Two words move together: the angles between their hands stay"
SCRIPTS, STYLES = ("clocks.js",), ()
RADIUS = 54


def numbers(
    rates: Sequence[float | int] = (1.0, 0.1, 0.01, 0.001),
    position: int = 3,
    distance: int = 2,
    last: int = 300,
    farthest: int = 20,
) -> dict:
    """Return what is shown at first: a clock for each rate, in radians per position.

    The first word stands at `position` and can be moved from 0 to `last`; the second one stands
    `distance` further on, which can be changed from 0 to `farthest`. The rates are those of
    d_model = 8 in section 3.5 of the paper. Raises `ValueError` for what lies outside.
    """
    rates = [float(rate) for rate in rates]
    require(
        0 < len(rates) <= 8 and min(rates) > 0,
        f"rates must be 1 to 8 positive numbers, got {rates}",
    )
    require(0 <= position <= last, f"position must be from 0 to {last}, got {position}")
    require(0 <= distance <= farthest, f"distance must be from 0 to {farthest}, got {distance}")
    return {
        "rates": [int(rate) if rate == int(rate) else round(rate, 6) for rate in rates],
        "position": int(position),
        "distance": int(distance),
        "last": int(last),
        "farthest": int(farthest),
    }


def angles(shown: dict) -> list[float]:
    """Return the angle between the two words' hands on each clock, in degrees below 360."""
    return [math.degrees(rate * shown["distance"]) % 360 for rate in shown["rates"]]


def picture(shown: dict) -> tuple[str, str]:
    """Return the still picture as SVG, and what is seen on it in a sentence."""
    rates, first, apart = shown["rates"], shown["position"], shown["distance"]
    rows = math.ceil(len(rates) / 4)
    drawing = Drawing(660, 56 + 204 * rows)
    drawing.text((330, 20), TITLE, size=16, anchor="middle", font_weight="bold")
    words = f"with a dot: a word at place {first}; red: one {apart} further on"
    drawing.text((330, 44), words, anchor="middle")
    for number, (rate, angle) in enumerate(zip(rates, angles(shown), strict=True)):
        center = (88 + 162 * (number % 4), 144 + 204 * (number // 4))
        _clock(drawing, center, rate * first, math.radians(angle))
        hand = f"({math.sin(rate * first):.2f}, {math.cos(rate * first):.2f})".replace("-", "−")
        for below, text, color in (
            (-68, f"clock {number}, rate {rate:g}", QUIET),
            (76, hand, INK),
            (96, f"between: {angle:.1f}°", INK),
        ):
            drawing.text((center[0], center[1] + below), text, color, anchor="middle")
    turned = ", ".join(f"{angle:.1f}" for angle in angles(shown))
    said = (
        f"{len(rates)} clocks, from the fastest to the slowest. Each has a hand with a dot for the "
        f"word at place {first} and a red one for the word {apart} further on. The angles "
        f"between the two are {turned} degrees, wherever the words stand."
    )
    return drawing.svg(), said


def _clock(drawing: Drawing, center: Point, start: Number, angle: float) -> None:
    """Draw a face with the hands of two words, and the angle from the first to the second."""

    def tip(turned: Number, length: Number = RADIUS) -> tuple[float, float]:
        return center[0] + length * math.sin(turned), center[1] - length * math.cos(turned)

    drawing.circle(center, RADIUS, fill="none", stroke=QUIET, stroke_width=1.5)
    for hour in range(12):
        drawing.line(tip(hour * math.pi / 6, RADIUS - 5), tip(hour * math.pi / 6), FAINT)
    steps = [start + angle * step / 40 for step in range(41)]
    drawing.polygon([center, *(tip(step, RADIUS - 14) for step in steps)], fill=LIT)
    drawing.arrow(center, tip(start + angle), SERIES[1], 3)
    drawing.arrow(center, tip(start), INK, 3)
    drawing.circle(tip(start), 6, fill=INK)
