"""The tables of lessons in README.md and in lesson 00; its head says what a table holds.

It stands between `<!-- lessons: made by make teaching -->` and `<!-- end of the lessons -->`.
"""

import json
import re
from pathlib import Path

from course.lessons import ROOT, Lesson, lessons

BEGIN, END = "<!-- lessons: made by make teaching -->\n\n", "\n<!-- end of the lessons -->"
TABLE = re.compile(rf"(?<={BEGIN})(\|.*\|)\n(?:\|.*\n)*(?={END})")
COLUMNS = {
    "time": lambda lesson: f"{lesson.minutes} min",
    "afterwards you can": lambda lesson: lesson.outcome,
    "the question it answers": lambda lesson: lesson.question,
}


def pages() -> dict[Path, str]:
    """Return README.md and lesson 00 with their tables as they must be."""
    readme, first = ROOT / "README.md", lessons()["00"].path.path
    notebook = json.loads(text := first.read_text("utf-8"))
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if (new := renewed(source, "", of=list(lessons().values())[1:])) != source:
            cell["source"] = new.splitlines(keepends=True)
            text = json.dumps(notebook, ensure_ascii=False, indent=1, sort_keys=True) + "\n"
    return {readme: renewed(readme.read_text("utf-8"), "notebooks/"), first: text}


def renewed(text: str, folder: str, of: list[Lesson] | None = None) -> str:
    """Return a text with the rows of its table; `folder` is the way from it to the lessons.

    Raises `ValueError` for a column that is not known.
    """
    return TABLE.sub(lambda found: table(found[1], folder, of or list(lessons().values())), text)


def table(head: str, folder: str, of: list[Lesson]) -> str:
    first, *others = (name.strip() for name in head.strip("|").split("|"))
    if first != "lesson" or not set(others) <= set(COLUMNS):
        raise ValueError(f"a table of lessons has columns lesson, {', '.join(COLUMNS)}; got {head}")
    rows = [head, "|---" * (1 + len(others)) + "|"]
    for lesson in of:
        link = f"[{lesson.number} {lesson.title}]({folder}{lesson.name}.ipynb)"
        rows.append(f"| {' | '.join([link, *(COLUMNS[name](lesson) for name in others)])} |")
    return "\n".join(rows) + "\n"
