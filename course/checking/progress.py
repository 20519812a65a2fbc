"""`transformer-course progress`: every task with its stars, its minutes and how far you are.

A task is a heading in a notebook of solutions/, with the names that it asks for in backticks, and
a line of ratings under it:

    ## Task 2 · One query asks: `attend_one`

    Difficulty ★★☆☆☆ · importance ★★★★★ · 10 minutes

and, if it is to have other points than these make, ` · 4 points` after them.
"""

import argparse
import json
import re
import sys
import textwrap
import threading
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from course.checking.course import WORK, check_files, course_folder, exercise_in, target_folder
from course.checking.isolation import NoWalls
from course.checking.judge import Limits, judge_notebook
from course.checking.notebooks import read_cells, read_notebook
from course.checking.sandbox import COURSE, LIBRARY, NOT_WRITTEN
from course.stamps import hashes_of, original_of
from transformer_lab.support.threads import usable_cores

HEADING = re.compile(
    r"^## Task (?P<number>\d+) · (?P<title>[^\n]*`\w+`[^\n]*)\n+"
    r"Difficulty (?P<difficulty>★{1,5})☆* · importance (?P<importance>★{1,5})☆* · "
    r"(?P<minutes>\d+) minutes(?: · (?P<points>\d+) points)?$",
    re.MULTILINE,
)
PATIENCE = 120  # seconds for the checks of a task; they take a few


@dataclass
class Task:
    """One task of the exercises; `why` is the first line of what is wrong.

    Its points, where it is graded, are minutes × stars of difficulty / 10, unless it says others.
    """

    lesson: str
    number: int
    names: tuple[str, ...]
    title: str
    difficulty: int
    importance: int
    minutes: int
    points: int
    state: str = ""
    why: str = ""


def tasks_in(path: Path) -> list[Task]:
    """Return the tasks whose headings stand in a notebook."""
    sources = [source for kind, source in read_cells(path) if kind == "markdown"]
    return [_task(path.stem, found) for source in sources for found in HEADING.finditer(source)]


def _task(lesson: str, found: re.Match) -> Task:
    difficulty, minutes = len(found["difficulty"]), int(found["minutes"])
    return Task(
        lesson=lesson,
        number=int(found["number"]),
        names=tuple(re.findall(r"`(\w+)`", found["title"])),
        title=found["title"],
        difficulty=difficulty,
        importance=len(found["importance"]),
        minutes=minutes,
        points=int(found["points"] or max(1, round(minutes * difficulty / 10))),
    )


def measure(target: str | Path = WORK, lessons: Collection[str] = ()) -> list[Task]:
    """Return every task, or those of `lessons` ("02"), with its state in the notebooks of `target`.

    Raises `ValueError` for a lesson that has no exercises.
    """
    folder = target_folder(target)
    files = {file.stem[5:7]: file for file in check_files()}
    wanted = [number.zfill(2) for number in lessons] or [*files]
    if unknown := [number for number in wanted if number not in files]:
        raise ValueError(f"there is no lesson {unknown[0]}; there is {', '.join(files)}")
    walls = NoWalls((COURSE, LIBRARY), folder)
    with ThreadPoolExecutor(usable_cores()) as pool, _stop_on_leaving() as stop:
        lessons = [pool.submit(_lesson, files[each], folder, walls, stop) for each in wanted]
        return [task for lesson in lessons for task in lesson.result()]


def _lesson(file: Path, folder: Path, walls: NoWalls, stop: threading.Event) -> list[Task]:
    """Return the tasks of a lesson; a child process has tried them."""
    lesson = file.stem.removeprefix("test_")
    notebook = exercise_in(folder, lesson)
    # Where a teacher hands the course out without solutions, the exercises have the headings.
    places = [course_folder() / where / f"{lesson}.ipynb" for where in ("solutions", "exercises")]
    headings = next((path for path in (*places, notebook) if path.exists()), None)
    tasks = tasks_in(headings) if headings else []
    for task in tasks:
        task.lesson = lesson
    if not notebook.exists():
        for task in tasks:
            task.state, task.why = "missing", f"there is no {notebook.name}"
        return tasks
    cells, names = read_cells(notebook), [task.names for task in tasks]
    if original_of(made := read_notebook(notebook)) == hashes_of(made):  # nothing to try
        for task in tasks:
            task.state = NOT_WRITTEN
        return tasks
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
    """Add the options of `transformer-course progress`."""
    parser.add_argument("lessons", nargs="*", metavar="NN", help="only these lessons, such as 02")
    parser.add_argument(
        "--target",
        default=WORK,
        metavar="DIR",
        help="where your notebooks are: work (default), exercises, solutions or any folder",
    )
    parser.add_argument("--json", action="store_true", help="print the tasks as JSON")


def progress(
    target: str | Path = WORK, as_json: bool = False, lessons: Collection[str] = ()
) -> int:
    """Print the table (or JSON); return 0 if every task is passed, else 1."""
    tasks = measure(target, lessons)
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
        row = f"{task.number} {', '.join(task.names):32}{stars[0]:12}{stars[1]:12}{task.minutes:7}"
        yield f"  {row}  {marks.get(task.state, '✗')} {task.state}"
        if task.why:
            yield textwrap.fill(task.why, 88, initial_indent=" " * 6, subsequent_indent=" " * 6)


def _summary(tasks: list[Task]) -> Iterable[str]:
    left = [task for task in tasks if task.state != "passed"]
    yield f"{len(tasks) - len(left)} of {len(tasks)} passed."
    if left:
        yield (
            f"About {duration(sum(task.minutes for task in left))} to go. Next: task "
            f"{left[0].number} of {left[0].lesson}, {', '.join(left[0].names)}."
        )


def duration(minutes: int) -> str:
    """Return minutes as one says them: "40 min", "2 h", "19 h 23 min"."""
    hours, rest = divmod(minutes, 60)
    return " ".join([f"{hours} h"] * (hours > 0) + [f"{rest} min"] * (rest > 0 or not hours))


def _print(text: str) -> None:
    """Print even where the terminal has no stars."""
    encoding = sys.stdout.encoding or "utf-8"
    print(text.strip("\n").encode(encoding, "replace").decode(encoding))
