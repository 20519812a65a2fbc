"""The tables of the marks: marks.csv, tasks.csv, and what Moodle and Canvas take."""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from course.grading.marks import Row
from course.grading.students import Student

LMS = ("moodle", "canvas")
OF_TASKS = (
    *("student", "id", "lesson", "task", "state", "right", "points", "possible", "by hand"),
    *("comment", "seconds", "flags"),
)


@dataclass(frozen=True)
class Late:
    """How many days late a lesson came, and what that cost."""

    days: int
    points: float | int


@dataclass(frozen=True)
class Mark:
    """What a student has in each lesson, after what lateness has cost."""

    student: str
    who: Student
    lessons: Mapping[str, float | int]
    possible: float | int
    late: Mapping[str, Late]


def marks_of(
    rows: Sequence[Row],
    who: Mapping[str, Student],
    late: Mapping[tuple[str, str], tuple[int, float | int]],
) -> list[Mark]:
    """Return a mark for each student, in the order of the rows.

    `late` has for a student and a lesson the days, and the share of the points that they cost.
    """
    marks = []
    lessons = dict.fromkeys(row.lesson for row in rows)
    for student in dict.fromkeys(row.student for row in rows):
        mine = [row for row in rows if row.student == student]
        points = {
            each: round(sum(row.points for row in mine if row.lesson == each), 2)
            for each in lessons
        }
        lost = {
            each: Late(late[student, each][0], round(points[each] * late[student, each][1], 2))
            for each in lessons
            if late.get((student, each), (0, 0))[0]
        }
        after = {
            each: round(points[each] - (lost[each].points if each in lost else 0), 2)
            for each in lessons
        }
        person = who.get(student, Student(student))
        marks.append(Mark(student, person, after, sum(row.possible for row in mine), lost))
    return marks


def of_marks(marks: Sequence[Mark]) -> bytes:
    """Return marks.csv: a row for each student."""
    lessons = [*marks[0].lessons] if marks else []
    head = ["student", "id", "email", "group", *lessons, "total", "possible", "days late"]
    return _csv(
        [head]
        + [
            [
                *(mark.student, mark.who.label, mark.who.email, mark.who.group),
                *(f"{mark.lessons[each]:g}" for each in lessons),
                *(f"{_total(mark):g}", f"{mark.possible:g}"),
                "; ".join(
                    f"{lesson[:2]}: {each.days} (−{each.points:g})"
                    for lesson, each in mark.late.items()
                ),
            ]
            for mark in marks
        ]
    )


def of_tasks(rows: Sequence[Row], who: Mapping[str, Student]) -> bytes:
    """Return tasks.csv: a row for each student's task."""
    table = [list(OF_TASKS)]
    for row in rows:
        values = asdict(row) | {
            "id": who.get(row.student, Student("")).label,
            "right": row.share,
            "points": f"{row.points:g}",
            "possible": f"{row.possible:g}",
            "by hand": f"{row.by_hand:g}" if row.by_hand or row.comment else "",
            "flags": "; ".join(row.flags),
            "seconds": f"{row.seconds:.1f}",
        }
        table.append([values[name] for name in OF_TASKS])
    return _csv(table)


def for_lms(kind: str, marks: Sequence[Mark], possible: Mapping[str, float | int]) -> bytes:
    """Return the table that Moodle's or Canvas's gradebook imports, a column for each lesson.

    Moodle asks which column says who is who, and finds people by the e-mail address or the ID
    number. A row in which that one is empty could go to the student above it, so whoever lacks one
    of the two is left out. Canvas finds them by its own ID, the SIS user ID
    or the login, and takes the points that are possible from a second row.
    """
    lessons = [*possible]
    if kind == "moodle":
        marks = [mark for mark in marks if mark.who.id and mark.who.email]
    points = [[f"{mark.lessons[each]:g}" for each in lessons] for mark in marks]
    if kind == "moodle":
        table = [["Full name", "ID number", "Email address", *lessons]]
        people = [[mark.who.name, mark.who.id, mark.who.email] for mark in marks]
    else:
        table = [
            ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", *lessons],
            ["Points Possible", "", "", "", "", *(f"{each:g}" for each in possible.values())],
        ]
        people = [
            [
                *(mark.who.name, mark.who.number if mark.who.canvas else "", mark.who.id),
                *(mark.who.email, mark.who.group),
            ]
            for mark in marks
        ]
    table += [[*who, *mine] for who, mine in zip(people, points, strict=True)]
    return _csv(table, "utf-8")  # neither wants a mark of the byte order


def _total(mark: Mark) -> float | int:
    return round(sum(mark.lessons.values()), 2)


def _csv(rows: Sequence[Sequence[Any]], encoding: str = "utf-8-sig") -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows([harmless(value) for value in row] for row in rows)
    return text.getvalue().encode(encoding, "replace")


def harmless(value: Any) -> Any:
    """Keep a spreadsheet from taking a text for a formula, also where it splits at semicolons."""
    if not isinstance(value, str) or re.fullmatch(r"-?\d+(\.\d+)?", value):
        return value
    return re.sub(r'(^|[;\t][\s"]*)(?=[=+\-@＝＋－＠\t\r])', r"\1'", value)
