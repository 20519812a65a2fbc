"""`transformer-course grade`: a folder of submissions becomes marks, one page for each student."""

import argparse
import hashlib
import json
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from course.checking.child import MISSING, PASSED
from course.checking.course import check_files, course_folder
from course.checking.isolation import MEANS, Walls, walls
from course.checking.judge import Limits, Outcome, judge_notebook
from course.checking.notebooks import read_cells
from course.checking.progress import Task, tasks_in
from course.checking.sandbox import COURSE, LIBRARY
from course.grading.by_hand import MANUAL, late, read_due, read_manual, with_points_by_hand
from course.grading.marks import Row, row_of, write_pages
from course.grading.once import counted_once
from course.grading.remarks import remarks
from course.grading.similarity import similar_pairs, source_of
from course.grading.static_look import look
from course.grading.students import Student, read_class
from course.grading.submissions import (
    UNREADABLE,
    Lesson,
    Submission,
    find_submissions,
)
from course.grading.tables import LMS, Late, for_lms, marks_of, of_marks, of_tasks
from transformer_lab.support.files import locked, remove_leftovers, write_atomically, write_json
from transformer_lab.support.threads import usable_cores
from transformer_lab.support.validation import require

MARKS = "marks.json"
DECIMALS = 1  # of the points of an answer that is right in parts; teaching/rubric.yaml says so
NOTE = (
    "Passed means that the checks accepted the answer. Code and checks share one Python inside the "
    "sandbox, so this is no proof against somebody who means to cheat: see grading.md."
)


@dataclass(frozen=True)
class Course:
    """A lesson of the course as it is graded."""

    name: str
    checks: Path
    tasks: tuple[Task, ...]
    reference: tuple[tuple[str, str], ...] = ()  # the cells of its solution; none, handed out


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `transformer-course grade`."""
    parser.add_argument("submissions", metavar="SUBMISSIONS", help="folder with what was handed in")
    parser.add_argument(
        "--lesson", action="append", required=True, metavar="NN", help="as 02; may be repeated"
    )
    parser.add_argument("--output", required=True, metavar="DIR", help="folder for the marks")
    parser.add_argument(
        "--class",
        dest="class_list",
        metavar="LIST.csv",
        help="who is in the class: columns id, name, email, group, extra days",
    )
    parser.add_argument("--lms", choices=LMS, help="also write the table that its gradebook takes")
    parser.add_argument(
        "--due",
        action="append",
        default=[],
        metavar="[NN=]DATE",
        help="from when on days late cost points, as the rubric says; 2026-12-01T18:00",
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=usable_cores(),
        metavar="N",
        help="notebooks at a time (default: the cores that may be used)",
    )
    parser.add_argument(
        "--seconds", type=int, default=60, metavar="S", help="what a task may take (default 60)"
    )
    parser.add_argument(
        "--memory",
        type=float,
        default=4.0,
        metavar="GB",
        help="what a notebook may use (default 4)",
    )
    parser.add_argument(
        "--isolation", default="auto", choices=("auto", *MEANS), help="the best that works, or …"
    )


def command(options: argparse.Namespace) -> int:
    """Do what the command line asks."""
    return grade(
        options.submissions,
        options.lesson,
        options.output,
        class_list=options.class_list,
        lms=options.lms,
        due=options.due,
        jobs=options.jobs,
        seconds=options.seconds,
        memory=options.memory,
        isolation=options.isolation,
    )


def grade(
    submissions: str | Path,
    lessons: Sequence[str],
    output: str | Path,
    *,
    class_list: str | Path | None = None,
    lms: str | None = None,
    due: Sequence[str] = (),
    jobs: int = 2,
    seconds: int = 60,
    memory: float = 4.0,
    isolation: str = "auto",
) -> int:
    """Grade every student's notebooks and write the marks into `output`; return 0.

    `seconds` are for each task, `memory` in GB for a notebook. The marks are those of `lessons`;
    what was graded before with the same notebook, checks and limits is not run again.
    Raises `ValueError` for a lesson that does not exist, and for a class list, points by hand or a
    date that cannot be meant so.
    """
    require(jobs >= 1, f"jobs must be at least 1, got {jobs}")
    require(seconds >= 1, f"seconds must be at least 1, got {seconds}")
    require(memory >= 0.5, f"memory must be at least 0.5 GB, got {memory}")
    source, folder = Path(submissions), Path(output)
    course = [_lesson(each) for each in dict.fromkeys(str(each).zfill(2) for each in lessons)]
    known, own = [_known_by(each) for each in course], [folder, folder / "feedback"]
    when = read_due(due, [each.name for each in course])
    people = read_class(Path(class_list)) if class_list else []
    require(lms != "moodle" or people, "--lms moodle needs --class: Moodle goes by its addresses")
    found, strays = find_submissions(source, known, own, people)
    who = {each.student: each.who for each in found}
    possible = {", ".join(task.names): task.points for each in course for task in each.tasks}
    by_hand = read_manual(folder / MANUAL, who, possible, _other_tasks(course))
    hidden = [course_folder() / "solutions", course_folder() / "tests", source, folder]
    size = int(memory * 2**30)
    with (
        locked(folder),
        walls(course_folder(), (COURSE, LIBRARY), hidden, size, isolation) as around,
    ):
        remove_leftovers(folder)
        if around.warning:
            print(f"\n{around.warning}\n", file=sys.stderr)
        for note in strays:
            print(f"note: {note}", file=sys.stderr)
        class_ = _Class(course, folder, around, Limits(seconds=seconds, memory=size))
        rows = with_points_by_hand(class_.grade(found, jobs), by_hand)
        days = {(each.student, each.lesson): late(each, when.get(each.lesson)) for each in found}
        lost = _write_tables(folder, rows, who, days, lms)
        _write(folder, rows, found, course, around, lost)
    _print(rows, folder)
    return 0


def _lesson(number: str) -> Course:
    files = [file for file in check_files() if file.stem[5:7] == str(number).zfill(2)]
    tasks = _tasks(files[0].stem[5:7]) if files else []
    if not tasks:
        known = ", ".join(file.stem[5:7] for file in check_files())
        raise ValueError(f"there is no lesson {number!r} with exercises; there is {known}")
    name = files[0].stem.removeprefix("test_")
    solution = course_folder() / "solutions" / f"{name}.ipynb"
    reference = tuple(read_cells(solution)) if solution.exists() else ()
    return Course(name, files[0], tuple(tasks), reference)


def _tasks(number: str) -> list[Task]:
    places = [course_folder() / where for where in ("solutions", "exercises")]
    found = (path for folder in places for path in folder.glob(f"{number}_*.ipynb"))
    return next((tasks_in(path) for path in found), [])


def _other_tasks(course: Sequence[Course]) -> list[str]:
    """Return the names of the tasks of all other lessons."""
    graded = {each.checks for each in course}
    others = [each.stem[5:7] for each in check_files() if each not in graded]
    tasks = (task for number in others for task in _tasks(number))
    return [name for task in tasks for name in task.names]


def _known_by(course: Course) -> Lesson:
    """Return what a notebook of the lesson is recognised by."""
    places = [course_folder() / where for where in ("exercises", "solutions")]
    path = next(each / f"{course.name}.ipynb" for each in places if each.is_dir())
    text = next(source for kind, source in read_cells(path) if kind == "markdown")
    names = tuple(name for task in course.tasks for name in task.names)
    return Lesson(course.name, names, text.splitlines()[0])


# ---- Running


@dataclass
class _Class:
    """Grades submissions, and keeps what is done in `folder`."""

    course: Sequence[Course]
    folder: Path
    walls: Walls
    limits: Limits

    def grade(self, found: Sequence[Submission], jobs: int) -> list[Row]:
        """Return the rows of all submissions, in order; what is done is kept if this is stopped."""
        from tqdm import tqdm

        kept = _kept(self.folder / MARKS)
        done = {key: kept[key] for each in found if (key := self._key(each)) in kept}
        todo = [each for each in found if self._key(each) not in done]
        with ThreadPoolExecutor(jobs) as pool, _stopping(pool) as stop:
            waiting = {pool.submit(self._rows, each, stop): each for each in todo}
            bar = tqdm(total=len(found), initial=len(done), desc="grading", unit="notebook")
            for future in as_completed(waiting):
                done[self._key(waiting[future])] = future.result()
                self._keep(kept | done)  # also what another lesson's grading has done
                bar.update()
            bar.close()
        # How a notebook was found depends on which lessons are graded: it is not kept.
        return [
            replace(row, flags=[*map(_writable, each.flags), *row.flags])
            for each in found
            for row in done[self._key(each)]
        ]

    def _rows(self, submission: Submission, stop: threading.Event) -> list[Row]:
        lesson = next(each for each in self.course if each.name == submission.lesson)
        names = [task.names for task in lesson.tasks]
        flags = ["no isolation"] if self.walls.warning else []
        if submission.problem:
            state = MISSING if submission.path is None else UNREADABLE
            blank = Row(submission.student, lesson.name, "", state, 0, 0.0, flags)
            blank.why = blank.message = f"{submission.problem[0].upper()}{submission.problem[1:]}."
            return [_row(blank, task) for task in lesson.tasks]
        flags += look(submission.cells, [name for each in names for name in each])
        around = submission.cells, lesson.name, lesson.checks
        outcomes, notes = judge_notebook(*around, names, self.walls, self.limits, stop)

        def judge_with(own: Sequence[str], given: Sequence[str]) -> Outcome:
            job = *around, [own], self.walls, self.limits, stop, given, lesson.reference
            return judge_notebook(*job)[0][0]

        again = judge_with if lesson.reference else None
        outcomes = counted_once(outcomes, submission.cells, lesson.checks, names, again)
        return [
            _row(
                Row(
                    *(submission.student, lesson.name, "", _writable(outcome.state), 0),
                    *(outcome.seconds, [*map(_writable, flags + notes)]),
                    *(_writable(outcome.why), _writable(outcome.message)),
                    *(0, 0, "", outcome.right, outcome.parts),
                ),
                task,
            )
            for task, outcome in zip(lesson.tasks, outcomes, strict=True)
        ]

    def _key(self, submission: Submission) -> str:
        """Return a name for what the rows depend on: notebook, checks, limits, points."""
        parts = [
            *(submission.student, submission.lesson, submission.digest, submission.problem),
            *(str(self.limits), self.walls.means, self._course_as_it_is[submission.lesson]),
        ]
        return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()

    @cached_property
    def _course_as_it_is(self) -> dict[str, str]:
        """Return for each lesson the text of all that may decide its marks."""
        code = (path for package in (COURSE, LIBRARY) for path in package.rglob("*.py"))
        package = "\0".join(path.read_text("utf-8") for path in sorted(code))
        return {
            each.name: f"{each.checks.read_text('utf-8')}{package}{each.tasks}{each.reference}"
            for each in self.course
        }

    def _keep(self, done: dict[str, list[Row]]) -> None:
        kept = {key: [asdict(row) for row in rows] for key, rows in done.items()}
        write_json(self.folder / MARKS, {"kept": kept})


def _row(row: Row, task: Task) -> Row:
    points: float | int = task.points if row.state == PASSED else 0
    if row.right:
        points = round(task.points * row.right / row.parts, DECIMALS)
    return replace(row, task=", ".join(task.names), points=points, possible=task.points)


@contextmanager
def _stopping(pool: ThreadPoolExecutor) -> Iterator[threading.Event]:
    """Give an event that ends the children, if the block is left by Ctrl-C or an error."""
    stop = threading.Event()
    try:
        yield stop
    except BaseException:
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)
        raise


def _writable(text: str) -> str:
    """Return text with a question mark for each half of a character: no file can hold one."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _kept(path: Path) -> dict[str, list[Row]]:
    """Return what an earlier run has done; nothing of a file that is damaged."""
    try:
        kept = json.loads(path.read_bytes())["kept"]
        return {key: [row_of(values) for values in rows] for key, rows in kept.items()}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {}


# ---- Writing


def _write_tables(
    folder: Path,
    rows: Sequence[Row],
    who: Mapping[str, Student],
    days: Mapping[tuple[str, str], tuple[int, float | int]],
    lms: str | None,
) -> dict[str, Mapping[str, Late]]:
    """Write the tables; return for each student what came late."""
    marks = marks_of(rows, who, days)
    write_atomically(folder / "marks.csv", of_marks(marks))
    write_atomically(folder / "tasks.csv", of_tasks(rows, who))
    if lms:
        first = [row for row in rows if row.student == rows[0].student]
        possible: dict[str, float | int] = {}
        for row in first:
            possible[row.lesson] = possible.get(row.lesson, 0) + row.possible
        write_atomically(folder / f"{lms}.csv", for_lms(lms, marks, possible))
    return {mark.student: mark.late for mark in marks}


def _write(
    folder: Path,
    rows: Sequence[Row],
    found: Sequence[Submission],
    course: Sequence[Course],
    around: Walls,
    lost: Mapping[str, Mapping[str, Late]],
) -> None:
    pairs = similar_pairs(_passed_answers(rows, found, course))
    flagged: dict[str, list[str]] = {}
    for row in rows:
        mine = flagged.setdefault(row.student, [])
        mine += [flag for flag in row.flags if flag not in mine and flag != "no isolation"]
    notes: dict[str, Any] = {
        "warning": around.warning,
        "about": f"Isolation: {around.means}. {NOTE}",
        "flagged": {student: flags for student, flags in flagged.items() if flags},
        "remarks": {},
        "late": lost,
    }
    names = {each.name: [name for task in each.tasks for name in task.names] for each in course}
    for each in found:
        said = remarks(each.cells, each.lesson, names[each.lesson])
        notes["remarks"].setdefault(each.student, {})[each.lesson] = said
    write_pages(folder, rows, notes, pairs)
    kept = {key: [asdict(row) for row in mine] for key, mine in _kept(folder / MARKS).items()}
    marks: dict[str, Any] = {
        "isolation": around.means,
        "warning": around.warning,
        "about": NOTE,
        "rows": [asdict(row) for row in rows],
        "alike": [{"students": [one, other], "tasks": tasks} for one, other, tasks in pairs],
        "kept": kept,
    }
    write_json(folder / MARKS, marks)


def _passed_answers(
    rows: Sequence[Row], found: Sequence[Submission], course: Sequence[Course]
) -> dict[str, dict[str, str]]:
    passed = {(row.student, row.lesson, row.task) for row in rows if row.state == PASSED}
    names = {each.name: [task.names for task in each.tasks] for each in course}
    answers: dict[str, dict[str, str]] = {}
    for each in found:
        for task in names[each.lesson]:
            if (each.student, each.lesson, ", ".join(task)) in passed:
                source = source_of(each.cells, task)
                answers.setdefault(task[0], {})[each.student] = source
    return answers


def _print(rows: Sequence[Row], folder: Path) -> None:
    students = {row.student for row in rows}
    passed = sum(row.state == PASSED for row in rows)
    print(f"{len(students)} students, {passed} of {len(rows)} tasks passed.")
    print(json.dumps(_states(rows), ensure_ascii=False))
    print(f"Written to {folder}: marks.csv, tasks.csv, marks.json, class.html, feedback/. {NOTE}")


def _states(rows: Sequence[Row]) -> dict[str, int]:
    found: dict[str, int] = {}
    for row in rows:
        found[row.state] = found.get(row.state, 0) + 1
    return found
