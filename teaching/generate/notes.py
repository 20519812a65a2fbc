"""What is made in the teaching notes: links, the lab's timetable, the slides that are not shown.

`[02 §5]` in the text becomes a link to that section. The timetable comes from the week's row of the
first plan. A row of the lecture names its slides, as `2–6, 9`, or `04: 2–5; 05: 1` where the week
has two lessons; what no row names is listed under the table.
"""

import functools
import json
import re
from pathlib import Path

from course.lessons import ROOT, lessons
from teaching.generate import plan
from teaching.slides import deck

TEACHING = ROOT / "teaching"
MARK = "\n<!-- links: made by python teaching/make.py -->\n"
PLACE = re.compile(r"\[(\d\d) ([^\]]+)\](?![(:])")
ROW = re.compile(r"^\| (\d+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
UNSEEN = re.compile(r"^Not shown: .*$", re.MULTILINE)
TABLE = re.compile(r"(?<=^## The lab\n\n)\|.*?\|\n(?=\n)", re.MULTILINE | re.DOTALL)
COMPARE, COLLECT, LAB = 5, 5, 90  # minutes


def pages() -> dict[Path, str]:
    """Return each week's notes with what is made in them; links to lessons to come stay plain."""
    made = {}
    for path in sorted((TEACHING / "notes").glob("week_*.md")):
        week = int(path.stem.removeprefix("week_"))
        text = TABLE.sub(lambda _, week=week: timetable(week), path.read_text("utf-8"))
        made[path] = with_links(with_unseen(text, plan.lessons_of(week)))
    return made


def with_links(text: str) -> str:
    """Return notes with a line for each link; `ValueError` for a section that is not there."""
    body = text.split(MARK)[0].rstrip("\n") + "\n"
    places = sorted({place for place in PLACE.findall(body) if place[0] in lessons()})
    links = [f"[{n} {place}]: {lessons()[n].link(place, '../..')}" for n, place in places]
    return body + MARK + "\n" + "".join(f"{link}\n" for link in links)


# ---- the lab


def timetable(week: int) -> str:
    """Return when each task of the lab ends; `ValueError` for a lab that is too long."""
    rows = []
    for name, minutes in plan.work(week, "lab"):
        paper = name.startswith("`predicted_")
        rows.append((f"{name}, on paper" if paper else name, minutes))
        if paper:
            rows.append(("the sheets compared, then `check`", COMPARE))
    rows.append(("save; `transformer-course progress`; what goes home", COLLECT))
    lines, end = ["| until min | what | min |", "|---|---|---|"], 0
    for name, minutes in rows:
        end = None if end is None or minutes is None else end + minutes
        until, takes = ("–" if number is None else number for number in (end, minutes))
        lines.append(f"| {until} | {name} | {takes} |")
    if end is not None and end > LAB:
        raise ValueError(f"the lab of week {week} takes {end} minutes, at most {LAB}")
    home = [f"{name} ({minutes or '–'})" for name, minutes in plan.work(week, "home")]
    lines.append(f"| home | {', '.join(home) or 'nothing new'} | |")
    return "\n".join(lines) + "\n"


# ---- the slides


def count(lesson: str) -> int:
    """Return how many slides a lesson has, the first and the last one too; 0 without a text."""
    text = TEACHING / "slides" / f"{lesson}.md"
    return len(deck.read(text)) + 2 if text.exists() else 0


def slides_of(cell: str, of: list[str]) -> list[tuple[str, int]]:
    """Return lesson and number of each slide in a row's cell.

    Raises `ValueError` for a slide that is not there.
    """
    found = []
    for part in cell.split(";") if cell.strip() != "–" else []:
        lesson, _, spans = part.rpartition(":")
        lesson = lesson.strip() or of[0]
        for span in spans.split(","):
            first, _, last = span.strip().partition("–")
            found += [(lesson, n) for n in range(int(first), int(last or first) + 1)]
    if missing := [slide for slide in found if not 0 < slide[1] <= count(slide[0])]:
        raise ValueError(f"no slide {missing[0][1]} of lesson {missing[0][0]}")
    return found


def sections(lesson: str, number: int) -> set[str]:
    """Return the anchors of all headings under which the cells of a slide stand."""
    if not 1 < number < count(lesson):
        return set()
    above = headings(lessons()[lesson].name)
    slide = deck.read(TEACHING / "slides" / f"{lesson}.md")[number - 2]
    cells = slide.cells("show", "code", "from", "notes")
    return {a for cell in cells for a in above.get(cell.partition(":")[0], ())}


@functools.cache
def headings(stem: str) -> dict[str, set[str]]:
    """Return for each cell of a lesson the anchors of the headings that hold it."""
    cells = json.loads((ROOT / "notebooks" / f"{stem}.ipynb").read_text("utf-8"))["cells"]
    found, path = {}, {}
    for cell in [*cells, *deck.evidence_cells(stem)]:
        found[cell["id"]] = set(path.values())
        if cell["cell_type"] == "markdown":
            for marks, title in re.findall(r"^(#+) +(.+?) *$", "".join(cell["source"]), re.M):
                path = {level: a for level, a in path.items() if level < len(marks)}
                path[len(marks)] = title.replace(" ", "-")
        found[cell["id"]] |= set(path.values())
    return found


def with_unseen(text: str, of: list[str]) -> str:
    """Return notes with the list of slides that stand in no row of the lecture."""
    seen = {slide for row in ROW.findall(text) for slide in slides_of(row[1], of)}
    parts = []
    for lesson in of:
        numbers = [n for n in range(1, count(lesson) + 1) if (lesson, n) not in seen]
        if numbers:
            parts.append(f"{lesson}: {spans(numbers)}" if len(of) > 1 else spans(numbers))
    return UNSEEN.sub(f"Not shown: slides {'; '.join(parts) or '–'}.", text)


def spans(numbers: list[int]) -> str:
    """Return rising numbers as `2–4, 9`."""
    runs = []
    for n in numbers:
        if runs and n == runs[-1][-1] + 1:
            runs[-1].append(n)
        else:
            runs.append([n])
    return ", ".join(f"{run[0]}–{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
