"""The sums of minutes in PLAN.md, from the headings of the solutions; a lab that is too long fails.

A cell of a table ends in `· **75 min**`. What stands in front of it, names of tasks in backticks
and other work such as "set-up (20 min)", is added up.
"""

import re
from pathlib import Path

from course.lessons import ROOT, tasks

PLAN = ROOT / "teaching" / "PLAN.md"
SUM = re.compile(r"\*\*[\d–]+ min\*\*")


def pages() -> dict[Path, str]:
    """Return PLAN.md with the sums as they must be."""
    return {PLAN: with_sums(PLAN.read_text("utf-8"))}


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
    there = {
        name: task for n in lessons_of(week) for task in tasks().get(n, []) for name in task.names
    }
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

    Raises `ValueError` for a name that is no task of the row's lessons, a lab above the limit in
    its table's head, a task twice in one plan, or one that the first plan leaves out.
    """
    first, *others = re.split(r"(?m)^(?=## Plan )", text)
    return first + "".join(_plan(part, whole=i == 0) for i, part in enumerate(others))


def _plan(part: str, *, whole: bool) -> str:
    lines, head, limit, seen = [], [], 0, []
    for line in part.split("\n"):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if "lessons" in cells:
            head = cells
            (limit,) = (int(n) for n in re.findall(r"lab, at most (\d+) min", line))
        elif head and len(cells) == len(head) and not set(line) <= set("|- "):
            numbers = re.findall(r"\d\d", cells[head.index("lessons")])
            for i, cell in enumerate(cells):
                if SUM.search(cell):
                    minutes = _minutes(cell, numbers, seen)
                    if head[i].startswith("lab") and (minutes or 0) > limit:
                        raise ValueError(f"a lab of {minutes} minutes, at most {limit}: {cell}")
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
