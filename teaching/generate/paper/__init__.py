"""Questions for paper, with numbers by seed: for the worksheets and for the examination.

A question is a function from a random generator to a `Question`. What it was asked of stands in
`given`, what comes out in `numbers`: a test computes the second from the first in another way.
"""

from teaching.generate.paper import (
    lesson_01,
    lesson_02,
    lesson_03,
    lesson_04,
    lesson_05,
    lesson_06,
    lesson_07,
    lesson_08,
    lesson_09,
    lessons_10_to_13,
)
from teaching.generate.paper.question import Question, make, names

__all__ = [
    "Question",
    "lesson_01",
    "lesson_02",
    "lesson_03",
    "lesson_04",
    "lesson_05",
    "lesson_06",
    "lesson_07",
    "lesson_08",
    "lesson_09",
    "lessons_10_to_13",
    "make",
    "names",
]
