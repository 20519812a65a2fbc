"""What a question for paper is, and how its numbers are written."""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Question:
    """`text` and `answer` are Markdown; `credit` says what gets how many points."""

    title: str
    text: str
    answer: str
    credit: tuple[tuple[int, str], ...]
    given: dict[str, Any] = field(default_factory=dict)
    numbers: dict[str, Any] = field(default_factory=dict)

    @property
    def points(self) -> int:
        return sum(points for points, _ in self.credit)


_makers: dict[str, Callable[[random.Random], Question]] = {}


def question(maker: Callable[[random.Random], Question]) -> Callable:
    """Enter a maker; its name begins with the lesson, as q02_one_query."""
    _makers[maker.__name__.removeprefix("q")] = maker
    return maker


def names(lesson: str = "") -> list[str]:
    """Return the names of all questions, or of a lesson's."""
    return [name for name in _makers if name.startswith(lesson)]


def make(name: str, seed: int | str) -> Question:
    """Return a question with the numbers of a seed."""
    return _makers[name](random.Random(f"{name} {seed}"))


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
