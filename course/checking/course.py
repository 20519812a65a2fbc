"""Where the course keeps its checks, and how the checks of a task are run.

A check is a plain function in tests/exercises/test_NN_name.py whose parameters are named like the
tasks that it needs. It calls the learner's function as usual and hands the result to `expect`, with
the answers that known mistakes would give. In a course that was made to be handed out, the files of
checks lie in checks/ here, and are installed with it.
"""

import ast
import contextlib
import functools
import os
import types
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from course.checking import slips
from course.checking.diagnosis import CheckFailed, MessageOnly
from course.checking.own_work import require_own_work
from course.checking.sandbox import COURSE, NotWritten, run_check

# What a learner works in, with the names that keep it apart and in order in the side bar of work/.
KINDS = {"notebooks": "a_lesson", "exercises": "b_exercises", "notebooks/evidence": "c_evidence"}
WORK = "work"


class CannotCheck(MessageOnly, ValueError):
    """`check` was asked for something that it cannot do."""


def course_folder() -> Path:
    """Return the folder that holds tests/exercises: the package's own, or one around here.

    Where the checks are in the package, it is the folder in which package and exercises/ lie side
    by side, or else the one around here that holds exercises/, or else the current one.
    """
    home = COURSE.resolve().parent
    around = (home, Path.cwd(), *Path.cwd().parents)
    for folder in around:
        if (folder / "tests" / "exercises").is_dir():
            return folder
    if (COURSE / "checks").is_dir():
        return next((folder for folder in around if (folder / "exercises").is_dir()), Path.cwd())
    raise CannotCheck(
        "The checks are in the course's folder tests/exercises, and neither the package nor "
        f"{Path.cwd()} is inside it. Install with `pip install -e .` in the course's folder."
    )


def work_folder() -> Path:
    """Return the learner's own folder work/, which need not exist.

    It is one with notebooks that is here or around here, or else the one in the course's folder, or
    else, where that cannot be written, the one here.
    """
    here = Path.cwd()
    for folder in (here / WORK, here, *here.parents):
        if folder.name == WORK and any(folder.glob("[0-9][0-9][abc]_*.ipynb")):
            return folder
    courses = course_folder() / WORK
    return courses if courses.is_dir() or os.access(courses.parent, os.W_OK) else here / WORK


def name_in_work(kind: str, lesson: str) -> str:
    """Return the name in work/ of a notebook: "02b_exercises_x.ipynb" for exercises/02_x.ipynb."""
    return f"{lesson[:2]}{KINDS[kind]}{lesson[2:]}.ipynb"


def exercise_in(folder: Path, lesson: str) -> Path:
    """Return where the exercise of a lesson is, or would be: under its name in work/ or its own."""
    in_work = folder / name_in_work("exercises", lesson)
    return in_work if in_work.exists() else folder / f"{lesson}.ipynb"


def check_files() -> list[Path]:
    """Return the files of checks, one for each lesson."""
    folder = COURSE / "checks"
    if not folder.is_dir():
        folder = course_folder() / "tests" / "exercises"
    return sorted(folder.glob("test_[0-9][0-9]_*.py"))


def checks_in(file: Path) -> dict[str, tuple[str, ...]]:
    """Return each check of a file with its parameters, in order, without importing it."""
    return {
        node.name: tuple(argument.arg for argument in node.args.args)
        for node in _parsed(file, file.stat().st_mtime_ns)[0].body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


@functools.cache
def _parsed(file: Path, _changed: int) -> tuple[ast.Module, types.CodeType]:
    """Return a file of checks as a tree and compiled, which takes longer than most checks."""
    tree = ast.parse(file.read_text("utf-8"))
    return tree, compile(tree, file, "exec")


def new_module(file: Path) -> types.ModuleType:
    """Run a file of checks in a module of its own: nothing is left in it from another check."""
    module = types.ModuleType(file.stem)
    module.__file__ = str(file)
    exec(_parsed(file, file.stat().st_mtime_ns)[1], vars(module))
    return module


def run_checks(file: Path, objects: Mapping[str, Any], asked: Collection[str]) -> None:
    """Run each check that is about a task in `asked` and that `objects` can supply.

    A file's FORBIDDEN names, for a task, what its text says to do without. Raises `CheckFailed` at
    the first wrong answer, `NotWritten` at a stub.
    """
    try:
        _run_checks(file, objects, asked)
    except CheckFailed as failure:
        slip = _slip(file, objects, asked) if failure.unexplained else ""
        if not slip:
            raise
        raise CheckFailed(failure.why, failure.call, advice=slip) from None


def _slip(file: Path, objects: Mapping[str, Any], asked: Collection[str]) -> str:
    """Say which product in the answers is wrong, if all checks pass without that slip."""

    def passes(name: str, repaired: Any) -> bool:
        try:
            with contextlib.redirect_stdout(None):
                _run_checks(file, {**objects, name: repaired}, asked)
            return True
        except (CheckFailed, NotWritten):
            return False

    found = (slips.slip_in(objects[name], functools.partial(passes, name)) for name in asked)
    return next(filter(None, found), "")


def _run_checks(file: Path, objects: Mapping[str, Any], asked: Collection[str]) -> None:
    module = new_module(file)
    as_written = dict(vars(module))
    ran, missing = False, set()
    for check_name, needs in checks_in(file).items():
        if not set(needs) & set(asked):
            continue
        if set(needs) - set(objects):
            missing |= set(needs) - set(objects)
            continue
        try:
            run_check(getattr(module, check_name), {name: objects[name] for name in needs})
            ran = True
        except NotWritten as stub:
            if stub.task in asked or stub.task not in needs:
                raise
            missing.add(stub.task)  # the other half of a pair: its checks have to wait
    if any(vars(module).get(name) is not value for name, value in as_written.items()):
        raise CheckFailed("The checks themselves were changed while they ran.")
    if not ran:
        raise CheckFailed(f"To check {', '.join(asked)}, write {', '.join(sorted(missing))} too.")
    forbidden = getattr(module, "FORBIDDEN", {})
    for task in set(asked) & set(objects):  # a wrong answer was told its mistake, and ends above
        require_own_work(task, objects[task], forbidden.get(task, ()))


def target_folder(target: str | Path = WORK) -> Path:
    """Return the folder of notebooks that is meant: here first, then in the course's folder.

    "work" is the learner's own, and as long as there is none, exercises. "exercises" also stands
    for the current folder, if exercises lie in it. Raises `ValueError` if there is no such folder,
    or no exercise in it, or if only the course's own exercises are there and nobody can have
    written in them.
    """
    lessons = [file.stem.removeprefix("test_") for file in check_files()]
    folders = [Path(target), course_folder() / target]
    if str(target) == WORK:
        folders = [work_folder(), Path("exercises"), course_folder() / "exercises"]
    if str(target) in (WORK, "exercises"):
        folders.insert(-1, Path())
    for folder in folders:
        if any(exercise_in(folder, lesson).exists() for lesson in lessons):
            return _own(folder.resolve(), str(target))
    empty = next((folder for folder in folders[::-1] if folder.is_dir()), None)
    if empty is None:
        raise CannotCheck(f"There is no folder {target}; expected solutions, exercises or a path.")
    raise CannotCheck(f"{empty.resolve()} holds no exercise, such as {lessons[-1]}.ipynb.")


def _own(folder: Path, target: str) -> Path:
    """Return the folder, unless it is meant to be the learner's and is the course's, read-only."""
    courses = (course_folder() / "exercises").resolve()
    mine = target in (WORK, "exercises")
    if mine and folder == courses and not os.access(folder, os.W_OK):
        raise CannotCheck(
            f"{folder} belongs to the course and cannot be written. Go to a folder of your own, "
            f"let `transformer-course update` copy the notebooks into {WORK}/ there, and ask again."
        )
    return folder
