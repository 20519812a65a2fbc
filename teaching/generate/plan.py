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
ECTS = 25, 30  # hours for a point, from and to
PLAN = ROOT / "teaching" / "PLAN.md"
SUM = re.compile(r"\*\*[\d–]+ min\*\*")


def pages() -> dict[Path, str]:
    """Return PLAN.md and SYLLABUS.md with the sums as they must be."""
    syllabus = LOAD.sub(lambda _: hours(), SYLLABUS.read_text("utf-8"))
    return {PLAN: with_sums(PLAN.read_text("utf-8")), SYLLABUS: syllabus}


TERMS = (  # the head of a column of hours, the plan that it follows, and its weeks
    ("7 weeks, 00 to 09", 1, 7),
    ("11 weeks, 00 to 15", 1, 11),
    ("15 weeks, 00 to 15", 4, 15),
)


def hours() -> str:
    """Return the table of a student's hours, for terms of several lengths."""
    columns = [_hours(of, weeks) for _, of, weeks in TERMS]
    heads = ["hours for", *(head for head, *_ in TERMS)]
    lines = [_line(heads), "|---|" + "---:|" * len(TERMS)]
    lines += [_line([name, *(column[name] for column in columns)]) for name in columns[0]]
    sums = [sum(column.values()) for column in columns]
    lines.append(_line(["**all of it**", *(f"**{each}**" for each in sums)]))
    points = [f"**{_points(each)}**" for each in sums]
    return "\n".join([*lines, _line(["**ECTS**, at 25 to 30 hours", *points])]) + "\n"


def _points(hours: int) -> str:
    """Return the ECTS points of so many hours, two numbers where they lie between."""
    fewest, most = (hours / each for each in (ECTS[1], ECTS[0]))
    fit = range(math.ceil(fewest), math.floor(most) + 1)
    return str(fit[len(fit) // 2]) if fit else f"{math.floor(fewest)} to {math.ceil(most)}"


def _line(cells: list) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def _hours(of: int, weeks: int) -> dict[str, int]:
    every = range(1, weeks + 1)
    read = [number for week in every for number in lessons_of(week, of)]
    home = sum(minutes or 0 for week in every for _, minutes in work(week, "home", of))
    sheets = sum(paper.make(name, 0).points for n in read for name in paper.names(n)) * POINT
    return {
        "lectures and labs": CONTACT * weeks,
        "the lessons, read and run": round(sum(lessons()[n].minutes for n in read) / 60),
        "tasks at home": round(home / 60),
        "worksheets": round(sheets / 60),
        "the project": PROJECT,
        "the examination, and getting ready for it": EXAMINATION,
    }


def row(week: int, of: int = 1) -> dict[str, str]:
    """Return a week's row of a plan by weeks, by the first word of each column."""
    part = PLAN.read_text("utf-8").split("## Plan ")[of]
    table = [line.strip("|").split(" | ") for line in part.split("\n") if line.startswith("| ")]
    head = [cell.strip().split(",")[0] for cell in table[0]]
    (cells,) = (cells for cells in table[1:] if cells[0].strip().startswith(f"[{week}]"))
    return dict(zip(head, (cell.strip() for cell in cells), strict=True))


def lessons_of(week: int, of: int = 1) -> list[str]:
    """Return the two digits of each lesson of a week in a plan."""
    return re.findall(r"\d\d", row(week, of)["lessons"])


def work(week: int, column: str, of: int = 1) -> list[tuple[str, int | None]]:
    """Return what the lab or the home of a week holds, with its minutes, None if still to come."""
    cell = SUM.split(row(week, of)[column])[0].strip(" ·")
    weeks = range(1, week + 1) if column == "home" else [week]
    read = [number for each in weeks for number in lessons_of(each, of)]
    there = {name: task for n in read for task in tasks().get(n, []) for name in task.names}
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
    in its table's head, a task twice in one plan, or one that a plan of all lessons leaves out.
    """
    first, *others = re.split(r"(?m)^(?=## Plan )", text)
    last = re.compile(rf"(?m)^\|[^|]+\|[^|]*\b{max(lessons())} \|")
    return first + "".join(_plan(part, whole=bool(last.search(part))) for part in others)


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
        raise ValueError(f"tasks that a plan of all lessons leaves out: {sorted(missing)}")
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
