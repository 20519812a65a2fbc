"""Sums of minutes in PLAN.md, from the headings of the solutions, and the hours in SYLLABUS.md.

A cell of a table ends in `· **75 min**`. What stands in front of it, names of tasks in backticks
and other work such as "set-up (20 min)", is added up. A lab or a home that is longer or shorter
than the head of its column says is refused. At home there may be tasks of earlier lessons, too.
"""

import math
import re
from pathlib import Path

from course.lessons import ROOT, lessons, tasks
from teaching.generate import paper

SYLLABUS = ROOT / "teaching" / "SYLLABUS.md"
LOAD = re.compile(
    r"(?<=<!-- hours: made by make teaching -->\n\n)\|.*?(?=\n<!-- end of the hours -->)", re.DOTALL
)
CONTACT, PROJECT, EXAMINATION = 3, 25, 15  # hours: a week; all of it; its preparation and itself
POINT = 1.5  # minutes for a point of a worksheet
ECTS = 28  # hours; it is 25 to 30
PLAN = ROOT / "teaching" / "PLAN.md"
SUM = re.compile(r"\*\*[\d–]+ min\*\*")


def pages() -> dict[Path, str]:
    """Return PLAN.md and SYLLABUS.md with the sums as they must be."""
    syllabus = LOAD.sub(lambda _: hours(), SYLLABUS.read_text("utf-8"))
    return {PLAN: with_sums(PLAN.read_text("utf-8")), SYLLABUS: syllabus}


def hours() -> str:
    """Return the table of a student's hours, for seven weeks and for ten."""
    columns = [_hours(weeks) for weeks in (7, 10)]
    lines = ["| hours for | 7 weeks, 00 to 09 | 10 weeks, 00 to 13 |", "|---|---:|---:|"]
    for name, short in columns[0].items():
        lines.append(f"| {name} | {short} | {columns[1][name]} |")
    short, long = (sum(column.values()) for column in columns)
    lines.append(f"| **all of it** | **{short}** | **{long}** |")
    points = f"**{round(short / ECTS)}** | **{round(long / ECTS)}**"
    lines.append(f"| **ECTS**, at 25 to 30 hours | {points} |")
    return "\n".join(lines) + "\n"


def _hours(weeks: int) -> dict[str, int]:
    every = range(1, weeks + 1)
    of = [number for week in every for number in lessons_of(week)]
    home = sum(minutes or 0 for week in every for _, minutes in work(week, "home"))
    sheets = sum(paper.make(name, 0).points for n in of for name in paper.names(n)) * POINT
    return {
        "lectures and labs": CONTACT * weeks,
        "the lessons, read and run": round(sum(lessons()[n].minutes for n in of) / 60),
        "tasks at home": round(home / 60),
        "worksheets": round(sheets / 60),
        "the project": PROJECT,
        "the examination, and getting ready for it": EXAMINATION,
    }


def row(week: int) -> dict[str, str]:
    """Return a week's row of the first plan, by the first word of each column."""
    first = PLAN.read_text("utf-8").split("## Plan ")[1]
    table = [line.strip("|").split(" | ") for line in first.split("\n") if line.startswith("| ")]
    head = [cell.strip().split(",")[0] for cell in table[0]]
    (cells,) = (cells for cells in table[1:] if cells[0].strip().startswith(f"[{week}]"))
    return dict(zip(head, (cell.strip() for cell in cells), strict=True))


def lessons_of(week: int) -> list[str]:
    """Return the two digits of each lesson of a week in the first plan."""
    return re.findall(r"\d\d", row(week)["lessons"])


def work(week: int, column: str) -> list[tuple[str, int | None]]:
    """Return what the lab or the home of a week holds, with its minutes, None if still to come."""
    cell = SUM.split(row(week)[column])[0].strip(" ·")
    weeks = range(1, week + 1) if column == "home" else [week]
    of = [number for each in weeks for number in lessons_of(each)]
    there = {name: task for n in of for task in tasks().get(n, []) for name in task.names}
    found = {}
    for part in re.split(r", (?=`)|, (?=[^`]*\(\d+ min\))", cell):
        if given := re.fullmatch(r"(.*) \((\d+) min\)", part):
            found[given[1]] = int(given[2])
        elif name := re.fullmatch(r"`(\w+)`", part):
            task = there.get(name[1])
            together = task.names if task else (name[1],)
            found[", ".join(f"`{each}`" for each in together)] = task and task.minutes
    return list(found.items())


def with_sums(text: str) -> str:
    """Return a plan with its sums renewed.

    Raises `ValueError` for a name that is no task of the row's lessons, minutes beyond the limits
    in its table's head, a task twice in one plan, or one that the first plan leaves out.
    """
    first, *others = re.split(r"(?m)^(?=## Plan )", text)
    return first + "".join(_plan(part, whole=i == 0) for i, part in enumerate(others))


def _plan(part: str, *, whole: bool) -> str:
    lines, head, limits, met, seen = [], [], {}, [], []
    for line in part.split("\n"):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if "lessons" in cells:
            head = cells
            found = [re.search(r"(?:(\d+) to|at most) (\d+) min", cell) for cell in cells]
            limits = {i: (int(m[1] or 0), int(m[2])) for i, m in enumerate(found) if m}
        elif head and len(cells) == len(head) and not set(line) <= set("|- "):
            numbers = re.findall(r"\d\d", cells[head.index("lessons")])
            met += numbers
            for i, cell in enumerate(cells):
                if SUM.search(cell):
                    name = head[i].split(",")[0]
                    minutes = _minutes(cell, met if name == "home" else numbers, seen)
                    low, high = limits.get(i, (0, math.inf))
                    if minutes is not None and not low <= minutes <= high:
                        told = f"{low} to {high}" if low else f"at most {high}"
                        raise ValueError(f"a {name} of {minutes} minutes, {told}: {cell}")
                    cells[i] = SUM.sub(f"**{'–' if minutes is None else minutes} min**", cell)
            line = f"| {' | '.join(cells)} |"
        lines.append(line)
    if twice := {name for name in seen if seen.count(name) > 1}:
        raise ValueError(f"tasks that stand twice in a plan: {sorted(twice)}")
    every = {(number, name) for number, ts in tasks().items() for t in ts for name in t.names}
    if whole and (missing := every - set(seen)):
        raise ValueError(f"tasks that stand nowhere in the first plan: {sorted(missing)}")
    return "\n".join(lines)


def _minutes(cell: str, lessons: list[str], seen: list[tuple[str, str]]) -> int | None:
    """Return the minutes of a cell, None if a lesson with its tasks is still to come."""
    there = {name: (n, task) for n in lessons for task in tasks().get(n, []) for name in task.names}
    names = re.findall(r"`(\w+)`", cell)
    unknown = [name for name in names if name not in there]
    if unknown and all(number in tasks() for number in lessons):
        raise ValueError(f"no task {unknown} in the solutions of lessons {lessons}")
    seen += [(there[name][0], name) for name in names if name in there]
    if unknown:
        return None
    different = {task.title: task.minutes for _, task in (there[name] for name in names)}
    return sum(different.values()) + sum(int(n) for n in re.findall(r"\((\d+) min\)", cell))
