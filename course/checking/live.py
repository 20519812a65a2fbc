"""`check`: what a learner calls in a notebook, on what the notebook's memory holds."""

import difflib
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from course.checking.course import CannotCheck, check_files, checks_in, run_checks
from course.checking.diagnosis import CheckFailed, describe
from course.checking.sandbox import NOT_WRITTEN, NotWritten, is_library


def check(*objects: Any, lesson: str | None = None, graded: bool = False, **named: Any) -> None:
    """Run the course's checks on your functions or classes: `check(stable_softmax)`.

    Whatever else a check needs is taken from the notebook. `check(name=object)` checks an object
    under a task's name, `lesson="02"` chooses between lessons, and with `graded=True` a task that
    is not written yet fails. Raises `CheckFailed` for a wrong answer, `CannotCheck` (a
    `ValueError`) if there is no such task.
    """
    notebook = _caller()
    asked = {_task_name(each, notebook): each for each in objects} | named
    file = _file_for(asked, lesson)
    label = ", ".join(asked)
    try:
        run_checks(file, {**notebook, **asked}, asked)
    except NotWritten as stub:
        message = str(stub) if stub.task in asked else f"{label} needs {stub.task}: {NOT_WRITTEN}"
        if graded:
            raise CheckFailed(message) from None
        print(message)
    else:
        print(f"✓ {label}: all checks passed.")


def _caller() -> dict[str, Any]:
    """Return what is defined where `check` was called."""
    frame = sys._getframe()
    while frame.f_back and is_library(
        frame.f_code.co_filename
    ):  # this file, and a type checker's if there is one
        frame = frame.f_back
    return frame.f_globals


def _task_name(target: Any, notebook: Mapping[str, Any]) -> str:
    """Return the task that `target` answers, by its own name or by its name in the notebook."""
    if not callable(target):
        raise CannotCheck(f"check takes a function or a class, got {describe(target)}.")
    tasks = set().union(*map(_tasks_in, check_files()))
    names = [getattr(target, "__name__", "?"), *(n for n in notebook if notebook[n] is target)]
    return next((name for name in names if name in tasks), names[0])


def _file_for(asked: Collection[str], lesson: str | None) -> Path:
    """Return the one file of checks that knows all these tasks."""
    lesson = None if lesson is None else str(lesson).zfill(2)
    files = {f: _tasks_in(f) for f in check_files() if lesson in (None, f.stem[5:7])}
    fitting = [file for file, tasks in files.items() if asked and set(asked) <= tasks]
    if len(fitting) == 1:
        return fitting[0]
    label = ", ".join(asked) or "without a name"
    if fitting:
        lessons = " and ".join(file.stem[5:7] for file in fitting)
        raise CannotCheck(f"{label} is a task of lessons {lessons}: add lesson=, as in check(…).")
    tasks = sorted(set().union(*files.values()))
    near = [name for each in asked for name in difflib.get_close_matches(each, tasks)] or tasks
    where = f" in lesson {lesson}" if lesson else ""
    raise CannotCheck(f"There is no task {label}{where}. There is: {', '.join(near) or 'none'}.")


def _tasks_in(file: Path) -> set[str]:
    return {name for names in checks_in(file).values() for name in names}
