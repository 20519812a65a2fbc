"""Every wrong answer is caught with its diagnosis, and every right one is accepted."""

import inspect
import sys
import time
import timeit
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from make_exercises import made_exercises
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parent))
from catalogue import NAMES, answers, solutions

from course.checking import CheckFailed, check
from course.checking.notebooks import load_cells

MADE = made_exercises()
WRONG = [answer for answer in answers() if answer.words is not None]
RIGHT = [answer for answer in answers() if answer.words is None]
# What a message says when the check itself gave up: no learner can do anything with it.
GAVE_UP = ("The check could not use", "Traceback", "transformer_lab/", "course/", "tests/exercises")


@cache
def seconds_allowed():
    """Return the time that a check may take: 2 s, on a slow machine that of 400,000 small steps."""
    x = torch.ones(8, 8)
    times = timeit.repeat(lambda: (x @ x).softmax(-1), timer=time.process_time, number=2000)
    return max(2, min(times) / 2000 * 400_000)


def message_of(lesson, task, answer):
    """Return what the learner is told about an answer, "" if it passes; it may not take long."""
    message, seconds = told(lesson, task, answer)
    if seconds > seconds_allowed():  # the first check of a process also loads what it needs
        message, seconds = told(lesson, task, answer)
    assert seconds < seconds_allowed(), "a check takes too long"
    return message


def told(lesson, task, answer):
    """Return what the learner is told about an answer, and the processor's time that it took."""
    others = {n: solutions(lesson)[n] for other, n in NAMES if other == lesson}
    # The call's globals are the learner's notebook, for tests that need two tasks.
    notebook = {**others, "check": check, "answer": answer}
    message, start = "", time.process_time()  # not the clock: other tests run beside this one
    try:
        exec(f"check({task}=answer, lesson={lesson[:2]!r})", notebook)
    except CheckFailed as failure:
        message = str(failure)
    return message, time.process_time() - start


@pytest.mark.parametrize("answer", WRONG, ids=str)
def test_a_wrong_answer_is_caught_with_its_diagnosis(answer):
    message = message_of(answer.lesson, answer.task, answer.answer)
    assert message, "this wrong answer passes"
    for words in answer.words:
        assert words in message
    assert not any(words in message for words in GAVE_UP)


@pytest.mark.parametrize("answer", RIGHT, ids=str)
def test_a_right_answer_is_accepted(answer):
    assert message_of(answer.lesson, answer.task, answer.answer) == ""


@pytest.mark.parametrize(("lesson", "task"), NAMES)
def test_a_task_is_answered_rightly_in_three_ways(lesson, task):
    rights = [a for a in RIGHT if (a.lesson, a.task) == (lesson, task)]
    assert len(rights) >= 3


def test_the_catalogue_answers_only_tasks_that_exist():
    assert {(answer.lesson, answer.task) for answer in answers()} <= set(NAMES)


@pytest.mark.parametrize(("lesson", "task"), NAMES)
def test_a_stub_is_not_written_yet_and_nothing_else(lesson, task, capsys):
    cells = MADE[f"{lesson}.ipynb"]["cells"]  # as made: in exercises/ somebody may have answered
    exercise = load_cells([(c["cell_type"], "".join(c["source"])) for c in cells], lesson)
    assert message_of(lesson, task, exercise[task]) == ""
    assert capsys.readouterr().out == f"{task}: not written yet\n"


# ---- Answers that are wrong for every task


def own_error(*_):
    raise KeyError("my own mistake")


JUNK = {
    "nothing": (lambda *_: None, "None"),
    "a number": (lambda *_: 7, ""),
    "a string": (lambda *_: "softmax", ""),
    "an object": (lambda *_: object(), ""),
    "a pair of None": (lambda *_: (None, None), ""),
    "an empty list": (lambda *_: [], ""),
    "an empty tensor": (lambda *_: torch.zeros(0), ""),
    "a tensor of NaN": (lambda *_: torch.tensor(float("nan")), ""),
    "a flat array": (lambda *_: np.zeros(3), ""),
    "a list of strings": (lambda *_: ["a", "b", "c"], ""),
    "five tensors": (lambda *_: [torch.zeros(2)] * 5, ""),
    "an error": (own_error, 'raise KeyError("my own mistake")'),
    "too few parameters": (lambda: None, "cannot be called like this"),
}


def with_methods(solution, change):
    """Return a function changed by `change`, or a class with each of its methods so changed."""
    if not inspect.isclass(solution):
        return change(solution)
    methods = {
        name: change(method)
        for name, method in vars(solution).items()
        if inspect.isfunction(method) and name[0] != "_"
    }
    return type(solution.__name__, (solution,), methods)


@pytest.mark.parametrize(("lesson", "task"), NAMES)
@settings(max_examples=3)
@given(kind=st.sampled_from(list(JUNK)))
def test_junk_gets_a_message_and_no_traceback(lesson, task, kind):
    junk, words = JUNK[kind]
    solution = solutions(lesson)[task]
    assume(kind != "too few parameters" or inspect.signature(solution).parameters)
    message = message_of(lesson, task, with_methods(solution, lambda _: junk))
    assert words in message and len(message) > 20
    assert not any(words in message for words in GAVE_UP)


def changing_its_input(function):
    def answer(*given):
        result = function(*given)
        for value in given:
            if isinstance(value, (Tensor, np.ndarray)):
                value[...] = ~value if value.dtype in (torch.bool, np.bool_) else value + 1
        return result

    return answer


@pytest.mark.parametrize(("lesson", "task"), NAMES)
def test_an_answer_that_changes_its_input_is_told_so(lesson, task):
    solution, seen = solutions(lesson)[task], []
    message_of(lesson, task, with_methods(solution, lambda _: lambda *given: seen.extend(given)))
    if not any(isinstance(value, (Tensor, np.ndarray)) for value in seen):
        pytest.skip("no tensor or array goes in")
    message = message_of(lesson, task, with_methods(solution, changing_its_input))
    assert "changed its argument" in message
