"""`transformer-lab progress`: every task with its stars, its minutes and how far you are.

A task is a heading in a notebook of solutions/, with the names that it asks for in backticks, and
a line of ratings under it:

    ## Task 2 · One query asks: `attend_one`

    Difficulty ★★☆☆☆ · importance ★★★★★ · 10 minutes
"""

import _thread
import argparse
import io
import json
import re
import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict, dataclass
from pathlib import Path

from transformer_lab.checking.course import (
    check_files,
    course_folder,
    run_checks,
    target_folder,
)
from transformer_lab.checking.diagnosis import CheckFailed
from transformer_lab.checking.notebooks import load_notebook, read_cells, task_from
from transformer_lab.checking.sandbox import NOT_WRITTEN, NotWritten

HEADING = re.compile(
    r"^## Task (?P<number>\d+) · (?P<title>[^\n]*`\w+`[^\n]*)\n+"
    r"Difficulty (?P<difficulty>★{1,5})☆* · importance (?P<importance>★{1,5})☆* · "
    r"(?P<minutes>\d+) minutes$",
    re.MULTILINE,
)
PATIENCE = 120  # seconds for the checks of a task; they take a few


@dataclass
class Task:
    """One task of the exercises; `why` is the first line of what is wrong."""

    lesson: str
    number: int
    names: tuple[str, ...]
    title: str
    difficulty: int
    importance: int
    minutes: int
    state: str = ""
    why: str = ""


def tasks_in(path: Path) -> list[Task]:
    """Return the tasks whose headings stand in a notebook."""
    sources = [source for kind, source in read_cells(path) if kind == "markdown"]
    return [
        Task(
            lesson=path.stem,
            number=int(found["number"]),
            names=tuple(re.findall(r"`(\w+)`", found["title"])),
            title=found["title"],
            difficulty=len(found["difficulty"]),
            importance=len(found["importance"]),
            minutes=int(found["minutes"]),
        )
        for source in sources
        for found in HEADING.finditer(source)
    ]


def measure(target: str | Path) -> list[Task]:
    """Return every task with its state in the notebooks of `target`."""
    folder = target_folder(target)
    tasks = []
    for file in check_files():
        name = f"{file.stem.removeprefix('test_')}.ipynb"
        source, notebook = course_folder() / "solutions" / name, folder / name
        namespace = _load(notebook) if notebook.exists() else None
        # Where a teacher hands the course out without solutions, the exercises have the headings.
        headings = next((path for path in (source, notebook) if path.exists()), None)
        for task in tasks_in(headings) if headings else ():
            task.state, task.why = _state(task, file, namespace)
            tasks.append(task)
    return tasks


def _load(notebook: Path) -> dict:
    try:
        with _patience():
            return load_notebook(notebook)
    except CheckFailed as failure:
        return {"__name__": notebook.stem, "__problems__": [failure.why]}


@contextmanager
def _patience() -> Iterator[None]:
    """Raise `CheckFailed` if the learner's code, a loop without end perhaps, takes too long."""
    over = threading.Event()

    def interrupt() -> None:
        over.set()
        _thread.interrupt_main()

    timer = threading.Timer(PATIENCE, interrupt)
    timer.start()
    # A job in the background ignores SIGINT, unless it says otherwise.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        if not over.is_set():  # somebody pressed Ctrl-C
            raise
        raise CheckFailed(
            f"It was still running after {PATIENCE} seconds, and was stopped."
        ) from None
    finally:
        timer.cancel()
        signal.signal(signal.SIGINT, before)


def _state(task: Task, file: Path, namespace: dict | None) -> tuple[str, str]:
    if namespace is None:
        return "missing", f"there is no {task.lesson}.ipynb"
    try:
        for name in task.names:
            task_from(namespace, name)
        with _patience():
            run_checks(file, namespace, task.names)
    except NotWritten as stub:
        return NOT_WRITTEN, "" if stub.task in task.names else f"needs {stub.task}"
    except CheckFailed as failure:
        first, *others = failure.why.splitlines()
        # "Your code stopped at this line:" says nothing without the line.
        return "wrong", " ".join([first, *map(str.strip, others)]) if first[-1:] == ":" else first
    return "passed", ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `transformer-lab progress`."""
    parser.add_argument(
        "--target",
        default="exercises",
        metavar="DIR",
        help="where your notebooks are: exercises (default), solutions or any folder",
    )
    parser.add_argument("--json", action="store_true", help="print the tasks as JSON")


def progress(target: str | Path = "exercises", as_json: bool = False) -> int:
    """Print the table (or JSON); return 0 if every task is passed, else 1."""
    with redirect_stdout(io.StringIO()):  # what the learner's code prints is no part of it
        tasks = measure(target)
    if as_json:
        print(json.dumps([asdict(task) for task in tasks], indent=1))
    else:
        _print("\n".join([*_table(tasks), "", *_summary(tasks)]))
    return 0 if all(task.state == "passed" for task in tasks) else 1


def _table(tasks: Iterable[Task]) -> Iterable[str]:
    marks = {"passed": "✓", "wrong": "✗", NOT_WRITTEN: "·", "missing": "·"}
    lesson = ""
    for task in tasks:
        if task.lesson != lesson:
            lesson = task.lesson
            yield f"\n{lesson}"
            yield f"  {'task':34}{'difficulty':12}{'importance':12}minutes  state"
        stars = [f"{'★' * n:☆<5}" for n in (task.difficulty, task.importance)]
        state = f"{marks[task.state]} {task.state}" + (f": {task.why}" if task.why else "")
        row = f"{task.number} {', '.join(task.names):32}{stars[0]:12}{stars[1]:12}{task.minutes:7}"
        yield f"  {row}  {state}"


def _summary(tasks: list[Task]) -> Iterable[str]:
    left = [task for task in tasks if task.state != "passed"]
    yield f"{len(tasks) - len(left)} of {len(tasks)} passed."
    if left:
        yield (
            f"About {sum(task.minutes for task in left)} minutes to go. Next: task "
            f"{left[0].number} of {left[0].lesson}, {', '.join(left[0].names)}."
        )


def _print(text: str) -> None:
    """Print even where the terminal has no stars."""
    encoding = sys.stdout.encoding or "utf-8"
    print(text.strip("\n").encode(encoding, "replace").decode(encoding))
