"""What a question for paper is, and how its numbers are written."""

import itertools
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Question:
    """`text` and `answer` are Markdown; `credit` says what gets how many points.

    An entry of `credit` is (points, what for), or (points, what for, (fewer, what for)): who has
    the last and not the first gets these points in their place, never both.
    """

    title: str
    text: str
    answer: str
    credit: tuple[tuple, ...]
    given: dict[str, Any] = field(default_factory=dict)
    numbers: dict[str, Any] = field(default_factory=dict)

    @property
    def points(self) -> int:
        return sum(points for points, *_ in self.credit)

    @property
    def clashes(self) -> bool:
        """Whether two of its numbers are the same by chance, so that one answers two parts."""
        return any(_same(a, b) for a, b in itertools.combinations(self.numbers.values(), 2))


def _same(a: Any, b: Any) -> bool:
    numbers = isinstance(a, int | float) and isinstance(b, int | float)
    return abs(a - b) < 2e-3 if numbers else a == b  # as they are printed


_makers: dict[str, Callable[[random.Random], Question]] = {}


def question(maker: Callable[[random.Random], Question]) -> Callable:
    """Enter a maker; its name begins with the lesson, as q02_one_query."""
    _makers[maker.__name__.removeprefix("q")] = maker
    return maker


def names(lesson: str = "") -> list[str]:
    """Return the names of all questions, or of a lesson's."""
    return [name for name in _makers if name.startswith(lesson)]


def make(name: str, seed: int | str) -> Question:
    """Return a question with the numbers of a seed, no two of them the same by chance."""
    r = random.Random(f"{name} {seed}")
    while (made := _makers[name](r)).clashes:
        pass
    return made


def row(values, digits: int = 3) -> str:
    """Return numbers as [0.090, 0.245], whole ones without a point."""
    return f"[{', '.join(number(v, digits) for v in values)}]"


def number(value, digits: int = 3) -> str:
    if isinstance(value, int):
        return str(value).replace("-", "−")
    return f"{value:.{digits}f}".replace("-", "−")


def softmax(scores):
    exps = [math.exp(score - max(scores)) for score in scores]
    return [e / sum(exps) for e in exps]
