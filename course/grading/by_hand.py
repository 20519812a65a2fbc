"""What a person adds to the marks: points by hand, and what lateness costs."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, time
from pathlib import Path
from typing import Any

import yaml

from course.checking.course import course_folder
from course.grading.marks import Row
from course.grading.students import Student, read_table
from course.grading.submissions import Submission

MANUAL = "manual.csv"
CANVAS_LATE = "_LATE_"
A_DAY = 86_400  # seconds


def rubric() -> dict[str, Any]:
    """Return `teaching/rubric.yaml`; nothing where the course was handed out without it."""
    path = course_folder() / "teaching" / "rubric.yaml"
    return yaml.safe_load(path.read_text("utf-8")) if path.exists() else {}


# ---- manual.csv


@dataclass(frozen=True)
class ByHand:
    """A line of manual.csv; `more` are the points that reading adds to what a task can have."""

    where: str
    points: float | int
    comment: str
    more: int


def read_manual(
    path: Path,
    who: Mapping[str, Student],
    possible: Mapping[str, float | int],
    others: Sequence[str] = (),
) -> dict[tuple[str, str], ByHand]:
    """Return the lines of manual.csv by student and task; nothing where there is no such file.

    Its student is a name as in marks.csv, an id or an e-mail address. `possible` has the points of
    each task, named as in its row; `others` are tasks of lessons that are not graded now. Raises
    `ValueError` for a line that fits nobody, nothing, or more points than the task has.
    """
    if not path.exists():
        return {}
    extra = _points_for_reading()
    lines: dict[tuple[str, str], ByHand] = {}
    for where, line in read_table(path, ("student", "task", "points"), ("comment",)):
        student, name = _student(line["student"], who, where), line["task"]
        points = _number(line["points"], where)
        task = next((each for each in possible if name in (each, *each.split(", "))), None)
        if task is None:
            if name in others:
                continue
            known = "; ".join(possible)
            raise ValueError(f"{where}: there is no task {name!r}; expected one of {known}")
        if (student, task) in lines:
            raise ValueError(f"{where}: {student} has points for {task} already; expected one line")
        more = max((extra.get(each, 0) for each in task.split(", ")), default=0)
        most = possible[task] + more
        if abs(points) > most:
            raise ValueError(
                f"{where}: got {points:g} points for {task}; expected at most {most:g}, to add or "
                "to take away"
            )
        lines[student, task] = ByHand(where, points, line["comment"], more)
    return lines


def with_points_by_hand(rows: Sequence[Row], lines: Mapping[tuple[str, str], ByHand]) -> list[Row]:
    """Return the rows with the points and comments of manual.csv added.

    A task that the rubric has read by hand has more points for everybody once somebody's is read.
    Raises `ValueError` where both together are less than none or more than the task has.
    """
    more = {task: line.more for (_, task), line in lines.items()}
    added = []
    for row in rows:
        line = lines.get((row.student, row.task), ByHand("", 0, "", 0))
        points, most = row.points + line.points, row.possible + more.get(row.task, 0)
        if not 0 <= points <= most:
            raise ValueError(
                f"{line.where}: {line.points:g} points beside {row.points:g} from the checks make "
                f"{points:g}; expected from 0 to {most:g} for {row.task}"
            )
        by_hand = {"by_hand": line.points, "comment": line.comment}
        added.append(replace(row, points=points, possible=most, **by_hand))
    return added


def _student(text: str, who: Mapping[str, Student], where: str) -> str:
    """Return the student that is meant by a name, an id, or an e-mail address."""
    found = [name for name, each in who.items() if text and text in (name, each.id, each.email)]
    if len(found) != 1:
        raise ValueError(
            f"{where}: {'nobody' if not found else 'more than one'} is {text!r}; expected a name "
            "as in marks.csv, an id or an e-mail address"
        )
    return found[0]


def _number(text: str, where: str) -> float:
    try:
        number = float(text.replace(",", "."))
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{where}: expected a number of points, got {text!r}")
    return number


def _points_for_reading() -> dict[str, int]:
    """Return for each task that is read by hand how many points all criteria together give."""
    manual = rubric().get("manual", {})
    most = sum(max(levels) for levels in manual.get("criteria", {}).values() if levels)
    return dict.fromkeys(manual.get("tasks", {}).values(), most)


# ---- Lateness


def read_due(texts: Sequence[str], lessons: Sequence[str]) -> dict[str, datetime]:
    """Return when each lesson was due, from "2026-12-01", "2026-12-01 18:00", "02=2026-12-01".

    A date without a time ends with the day. Raises `ValueError` for anything else.
    """
    due: dict[str, datetime] = {}
    for text in texts:
        number, _, date = text.rpartition("=")
        mine = [each for each in lessons if not number or each[:2] == number.zfill(2)]
        try:
            when = datetime.fromisoformat(date)
            if when.tzinfo or not mine:
                raise ValueError
        except ValueError:
            raise ValueError(
                f"--due {text!r}: expected a date such as 2026-12-01, or 2026-12-01T18:00, or one "
                f"for a lesson that is graded, such as {lessons[0][:2]}=2026-12-01"
            ) from None
        if len(date) <= len("2026-12-01"):
            when = datetime.combine(when, time.max)
        due |= dict.fromkeys(mine, when)
    return due


def late(submission: Submission, due: datetime | None) -> tuple[int, float]:
    """Return how many days late it came, and the share of its points that this costs.

    The time is the file's, as it was unpacked; Canvas writes LATE into its name, too. The rubric
    has the free days and what each further one costs, the class list who has extra days.
    """
    if due is None or submission.path is None:
        return 0, 0.0
    seconds = submission.path.lstat().st_mtime - due.timestamp()
    days = max(math.ceil(seconds / A_DAY), int(CANVAS_LATE in submission.path.name))
    if days <= 0:
        return 0, 0.0
    rules = rubric().get("late", {"free_days": 0, "percent_a_day": 10})
    counted = max(0, days - rules["free_days"] - submission.who.extra_days)
    return days, min(1.0, counted * rules["percent_a_day"] / 100)
