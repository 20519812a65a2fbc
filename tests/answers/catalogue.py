"""The catalogue of answers: wrong ones that a check must catch, right ones that it must accept.

A mistake that shows in the value of one call stands among the `mistakes` of the checks, and
`test_mistakes.py` hands it in from there. Here stand those whose form matters: a loop, another
dtype, an input that is changed, state that is kept between calls, a message of its own.

To add one, write it into the `answers_NN_name.py` of its lesson:

    @wrong("stable_softmax", "changed its argument x")
    def in_place_on_the_input(x, dim):
        '''Saves memory, at the caller's cost.'''
        x -= x.amax(dim, keepdim=True)
        return x.exp() / x.exp().sum(dim, keepdim=True)

    @right("stable_softmax")
    def with_logsumexp(x, dim):
        return (x - x.logsumexp(dim, keepdim=True)).exp()

`wrong` names the task, and then the words that the learner's message must contain; the docstring
says where the mistake was seen or why it is likely. A task that is a class is answered by a class.
Whatever else the checks need comes from the lesson's solutions.
"""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from course.checking import course_folder, load_notebook
from course.checking.progress import tasks_in

HERE = Path(__file__).parent
NAMES = [  # of all tasks, each with its lesson
    (path.stem, name)
    for path in sorted((course_folder() / "solutions").glob("[0-9][0-9]_*.ipynb"))
    for task in tasks_in(path)
    for name in task.names
]


@dataclass(frozen=True)
class Answer:
    """An answer to a task; `words` is None for a right one."""

    lesson: str
    task: str
    answer: Callable
    words: tuple[str, ...] | None

    def __str__(self) -> str:
        return f"{self.lesson[:2]}-{self.task}-{self.answer.__name__}"


_found: list[Answer] = []


def wrong(task: str, *words: str) -> Callable:
    """Enter a wrong answer, and words that must be in its message."""
    return lambda answer: _enter(answer, task, words)


def right(task: str) -> Callable:
    """Enter a right answer."""
    return lambda answer: _enter(answer, task, None)


def _enter(answer: Callable, task: str, words: tuple[str, ...] | None) -> Callable:
    if words is not None and not (words and answer.__doc__):
        raise ValueError(f"{answer.__name__}: a wrong answer needs words and a docstring")
    lesson = answer.__module__.removeprefix("answers_")
    _found.append(Answer(lesson, task, answer, words))
    return answer


@cache
def solutions(lesson: str) -> dict[str, Any]:
    """Return what the solutions of a lesson define, such as a class whose `__init__` was given."""
    return load_notebook(course_folder() / "solutions" / f"{lesson}.ipynb")


@cache
def answers() -> tuple[Answer, ...]:
    """Return every answer of every lesson."""
    for file in sorted(HERE.glob("answers_*.py")):
        spec = importlib.util.spec_from_file_location(file.stem, file)
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    return tuple(_found)
