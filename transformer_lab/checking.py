"""How exercises are checked: in a notebook by `check`, in pytest by the same tests.

A test is a plain function in tests/exercises/test_NN_name.py whose parameters are named like the
tasks that it needs. `check` supplies them from the notebook's memory and pytest from a notebook
file. A test calls the learner's function as usual and hands the result to `expect`, with the
answers that known mistakes would give. What the learner sees is the call, and then the reason.
"""

import ast
import difflib
import functools
import importlib.util
import json
import linecache
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from transformer_lab.diagnosis import CheckFailed, MessageOnly, close, describe, expect
from transformer_lab.watching import NOT_WRITTEN, NotWritten, is_library, run_check

__all__ = ["CannotCheck", "CheckFailed", "check", "close", "expect", "load_notebook"]


class CannotCheck(MessageOnly, ValueError):
    """`check` was asked for something that it cannot do."""


# ---- In a notebook


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


# ---- Finding and running the checks


def course_folder() -> Path:
    """Return the folder that holds tests/exercises: the package's own, or one around here."""
    for folder in (Path(__file__).resolve().parent.parent, Path.cwd(), *Path.cwd().parents):
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


# ---- Notebooks without a kernel


def load_notebook(path: str | Path) -> dict[str, Any]:
    """Return what a notebook defines: its imports, functions, classes and UPPERCASE constants.

    Nothing else is run. What cannot be loaded (a cell with a syntax error, a missing import) is
    listed under "__problems__", and the rest is there. Raises `ValueError` if the file is not a
    notebook.
    """
    path = Path(path)
    namespace: dict[str, Any] = {"__name__": path.stem, "__problems__": []}
    for number, (kind, source) in enumerate(read_cells(path), 1):
        if kind == "code":
            _load_cell(source, f"{path.name}, cell {number}", namespace)
    return namespace


def read_cells(path: Path) -> list[tuple[str, str]]:
    """Return the type and the source of each cell; `ValueError` if the file is not a notebook."""
    try:
        cells = json.loads(path.read_text("utf-8"))["cells"]
        return [(cell["cell_type"], "".join(cell["source"])) for cell in cells]
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        raise ValueError(f"{path} is not a notebook: {error}") from None


def _load_cell(source: str, where: str, namespace: dict[str, Any]) -> None:
    linecache.cache[where] = (len(source), None, source.splitlines(keepends=True), where)
    try:
        statements = _parse(source).body
    except SyntaxError as error:
        namespace["__problems__"].append(f"{where}, line {error.lineno}: {error.msg}")
        return
    except (ValueError, MemoryError, RecursionError) as error:  # no text, or too deeply nested
        namespace["__problems__"].append(f"{where}: {type(error).__name__}: {error}")
        return
    for statement in filter(_is_definition, statements):
        try:
            exec(compile(ast.Module([statement], []), where, "exec"), namespace)
        except (Exception, SystemExit) as error:
            problem = f"{where}, line {statement.lineno}: {type(error).__name__}: {error}"
            namespace["__problems__"].append(problem)


def _parse(source: str) -> ast.Module:
    """Parse a cell; only if that fails, without its magic lines."""
    try:
        return ast.parse(source)
    except SyntaxError:
        lines = source.splitlines()
        return ast.parse("\n".join("" if line.lstrip()[:1] in "%!?" else line for line in lines))


def _is_definition(statement: ast.stmt) -> bool:
    """Imports, functions, classes, UPPERCASE = anything, and name = lambda."""
    if isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        names = [node.id for target in targets for node in ast.walk(target) if hasattr(node, "id")]
        is_constant = bool(names) and all(name.isupper() for name in names)
        return is_constant or isinstance(statement.value, ast.Lambda)
    kinds = ast.Import | ast.ImportFrom | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    return isinstance(statement, kinds)


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


def task_from(namespace: dict[str, Any], task: str) -> Any:
    """Return what a loaded notebook defines as `task`; raises `CheckFailed` if nothing."""
    if task in namespace:
        return namespace[task]
    problems = "; ".join(namespace["__problems__"])
    because = f" Not loaded: {problems}." if problems else ""
    raise CheckFailed(f"{namespace['__name__']}.ipynb defines no {task}.{because}")
