"""What a teacher reads: a row for each task, a page for each student, and class.html."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from course.checking.child import PASSED
from course.grading.remarks import told
from transformer_lab.support.files import write_atomically

MOST_DIAGNOSES = 6  # for each task


@dataclass
class Row:
    """What came out of one task of one student."""

    student: str
    lesson: str
    task: str
    state: str
    points: float | int
    seconds: float
    flags: list[str] = field(default_factory=list)
    why: str = ""
    message: str = ""
    possible: float | int = 0
    by_hand: float | int = 0
    comment: str = ""
    right: int = 0  # of `parts`, where a wrong answer has separate ones
    parts: int = 0

    @property
    def share(self) -> str:
        """Return how much of a wrong answer is right, "4 of 5"; "" where it is all or nothing."""
        return f"{self.right} of {self.parts}" if self.parts else ""


def write_pages(
    folder: Path,
    rows: Sequence[Row],
    notes: Mapping[str, Any],
    pairs: Sequence[tuple[str, str, Mapping[str, float]]],
) -> None:
    """Write the pages; `notes` are "warning", "about", "flagged", "remarks" and "late".

    `notes["late"][student][lesson]` has the days that a lesson came late, and the points lost.
    """
    by_student = defaultdict(list)
    for row in rows:
        by_student[row.student].append(row)
    pages = page_names(by_student)
    for student, mine in by_student.items():
        lessons = told(mine, notes.get("remarks", {}).get(student, {}))
        late = notes.get("late", {}).get(student, {})
        page = _render("feedback.html", student=student, lessons=lessons, **_sums(mine, late))
        write_atomically(folder / "feedback" / pages[student], page)
    totals = {
        student: _sums(mine, notes.get("late", {}).get(student, {}))
        for student, mine in by_student.items()
    }
    page = _render(
        "class.html", lessons=_summary(rows), totals=totals, pages=pages, pairs=pairs, **notes
    )
    write_atomically(folder / "class.html", page)


def page_names(students: Sequence[str] | Mapping[str, Any]) -> dict[str, str]:
    """Return a file name for each student, no two the same on any file system."""
    names: dict[str, str] = {}
    for student in students:
        base = re.sub(r"[^\w-]+", "_", student).strip("_")[:50] or "student"
        name, number = base, 2
        while f"{name}.html".casefold() in {each.casefold() for each in names.values()}:
            name, number = f"{base}-{number}", number + 1
        names[student] = f"{name}.html"
    return names


def _sums(rows: Sequence[Row], late: Mapping[str, Any]) -> dict[str, Any]:
    lost = sum(each.points for each in late.values())
    return {
        "late": late,
        "points": sum(row.points for row in rows) - lost,
        "possible": sum(row.possible for row in rows),
        "passed": sum(row.state == PASSED for row in rows),
        "tasks": len(rows),
    }


def _by_lesson(rows: Sequence[Row]) -> dict[str, list[Row]]:
    lessons = defaultdict(list)
    for row in rows:
        lessons[row.lesson].append(row)
    return lessons


def _summary(rows: Sequence[Row]) -> dict[str, list[dict[str, Any]]]:
    """Return for each lesson its tasks: who passed, and what those were told who did not."""
    lessons: dict[str, list[dict[str, Any]]] = {}
    for lesson, mine in _by_lesson(rows).items():
        tasks = list(dict.fromkeys(row.task for row in mine))
        lessons[lesson] = [_of_task(task, [r for r in mine if r.task == task]) for task in tasks]
    return lessons


def _of_task(task: str, rows: Sequence[Row]) -> dict[str, Any]:
    students = defaultdict(list)
    for row in rows:
        if row.state != PASSED:
            students[row.state, _general(row.why)].append(row.student)
    most = sorted(students.items(), key=lambda each: -len(each[1]))
    states = Counter(row.state for row in rows)
    return {
        "task": task,
        "passed": states.pop(PASSED, 0),
        "count": len(rows),
        "states": states.most_common(),
        "diagnoses": [(*kind, names) for kind, names in most[:MOST_DIAGNOSES]],
        "more": len(most[MOST_DIAGNOSES:]),
    }


def _general(why: str) -> str:
    """Leave the numbers out, which differ from answer to answer."""
    if "at [" not in why:
        return why
    return re.sub(r"-?\d+(\.\d+)?(e[+-]?\d+)?(, -?\d+)*", "…", why)


def _render(template: str, **values: Any) -> bytes:
    import jinja2

    loader = jinja2.FileSystemLoader(Path(__file__).with_name("templates"))
    environment = jinja2.Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template(template).render(**values).encode("utf-8", "replace")


def row_of(values: Mapping[str, Any]) -> Row:
    """Return the row that `dataclasses.asdict` has made a dict of."""
    return Row(**{each.name: values[each.name] for each in fields(Row)})
