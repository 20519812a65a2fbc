"""Where the course keeps its checks, and how the checks of a task are run.

A check is a plain function in tests/exercises/test_NN_name.py whose parameters are named like the
tasks that it needs. It calls the learner's function as usual and hands the result to `expect`, with
the answers that known mistakes would give.
"""

import ast
import functools
import importlib.util
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from transformer_lab.checking.diagnosis import CheckFailed, MessageOnly
from transformer_lab.checking.sandbox import PACKAGE, NotWritten, run_check


class CannotCheck(MessageOnly, ValueError):
    """`check` was asked for something that it cannot do."""


def course_folder() -> Path:
    """Return the folder that holds tests/exercises: the package's own, or one around here."""
    for folder in (PACKAGE.resolve().parent, Path.cwd(), *Path.cwd().parents):
        if (folder / "tests" / "exercises").is_dir():
            return folder
    raise CannotCheck(
        "The checks are in the course's folder tests/exercises, and neither the package nor "
        f"{Path.cwd()} is inside it. Install with `pip install -e .` in the course's folder."
    )


def check_files() -> list[Path]:
    """Return the files of checks, one for each lesson."""
    return sorted((course_folder() / "tests" / "exercises").glob("test_[0-9][0-9]_*.py"))


def checks_in(file: Path) -> dict[str, tuple[str, ...]]:
    """Return each check of a file with its parameters, in order, without importing it."""
    return _checks_in(file, file.stat().st_mtime_ns)


@functools.cache
def _checks_in(file: Path, _changed: int) -> dict[str, tuple[str, ...]]:
    return {
        node.name: tuple(argument.arg for argument in node.args.args)
        for node in ast.parse(file.read_text("utf-8")).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def run_checks(file: Path, objects: Mapping[str, Any], asked: Collection[str]) -> None:
    """Run each check that is about a task in `asked` and that `objects` can supply.

    Raises `CheckFailed` at the first wrong answer, `NotWritten` at a stub.
    """
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
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
    if not ran:
        raise CheckFailed(f"To check {', '.join(asked)}, write {', '.join(sorted(missing))} too.")


def target_folder(target: str | Path) -> Path:
    """Return the folder of notebooks that is meant: a path, or a name in the course's folder.

    Raises `ValueError` if there is none, or no exercise in it.
    """
    folder = next((f for f in (course_folder() / target, Path(target)) if f.is_dir()), None)
    if folder is None:
        raise CannotCheck(f"There is no folder {target}; expected solutions, exercises or a path.")
    names = [file.stem.removeprefix("test_") for file in check_files()]
    if not any((folder / f"{name}.ipynb").exists() for name in names):
        raise CannotCheck(f"{folder} holds no exercise, such as {names[0]}.ipynb.")
    return folder
