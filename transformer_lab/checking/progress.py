"""`transformer-lab progress`: every task with its stars, its minutes and how far you are.

A task is a heading in a notebook of solutions/, with the names that it asks for in backticks, and
a line of ratings under it:

    ## Task 2 · One query asks: `attend_one`

    Difficulty ★★☆☆☆ · importance ★★★★★ · 10 minutes
"""

import argparse
import json
import re
import sys
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from transformer_lab.checking.course import check_files, course_folder, target_folder
from transformer_lab.checking.engine import Limits, judge_notebook
from transformer_lab.checking.isolation import NoWalls
from transformer_lab.checking.notebooks import read_cells
from transformer_lab.checking.sandbox import NOT_WRITTEN, PACKAGE
from transformer_lab.support.threads import usable_cores

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
    walls = NoWalls(PACKAGE, folder)
    with ThreadPoolExecutor(usable_cores()) as pool, _stop_on_leaving() as stop:
        lessons = [pool.submit(_lesson, file, folder, walls, stop) for file in check_files()]
        return [task for lesson in lessons for task in lesson.result()]


def _lesson(file: Path, folder: Path, walls: NoWalls, stop: threading.Event) -> list[Task]:
    """Return the tasks of a lesson; a child process has tried them."""
    name = f"{file.stem.removeprefix('test_')}.ipynb"
    source, notebook = course_folder() / "solutions" / name, folder / name
    # Where a teacher hands the course out without solutions, the exercises have the headings.
    headings = next((path for path in (source, notebook) if path.exists()), None)
    tasks = tasks_in(headings) if headings else []
    if not notebook.exists():
        for task in tasks:
            task.state, task.why = "missing", f"there is no {task.lesson}.ipynb"
        return tasks
    cells, names = read_cells(notebook), [task.names for task in tasks]
    limits = Limits(seconds=PATIENCE)
    outcomes, _ = judge_notebook(cells, notebook.stem, file, names, walls, limits, stop)
    for task, outcome in zip(tasks, outcomes, strict=True):
        task.state, task.why = outcome.state, outcome.why
    return tasks


@contextmanager
def _stop_on_leaving() -> Iterator[threading.Event]:
    """Give an event that is set when the block is left, so that no child outlives a Ctrl-C."""
    stop = threading.Event()
    try:
        yield stop
    finally:
        stop.set()


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
    tasks = measure(target)
    if as_json:
        print(json.dumps([asdict(task) for task in tasks], indent=1))
    else:
        _print("\n".join([*_table(tasks), "", *_summary(tasks)]))
    return 0 if all(task.state == "passed" for task in tasks) else 1


def _table(tasks: Iterable[Task]) -> Iterable[str]:
    marks = {"passed": "✓", NOT_WRITTEN: "·", "missing": "·"}
    lesson = ""
    for task in tasks:
        if task.lesson != lesson:
            lesson = task.lesson
            yield f"\n{lesson}"
            yield f"  {'task':34}{'difficulty':12}{'importance':12}minutes  state"
        stars = [f"{'★' * n:☆<5}" for n in (task.difficulty, task.importance)]
        state = f"{marks.get(task.state, '✗')} {task.state}" + (f": {task.why}" if task.why else "")
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
