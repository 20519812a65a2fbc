"""The lessons' own prose: a small corpus, from the course's own notebooks, for language models."""

import json
import os
import re
from pathlib import Path

from transformer_lab.support.files import as_path
from transformer_lab.support.validation import require

LESSONS = range(12)  # 12 and 13, which learn from the others, stay out
TEST_LESSONS = (5, 10)  # held out: no word of theirs is learnt from
NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"

FORMULA = "\0"  # stands for one until its sentence is left out
# What Markdown cells hold beside prose, and what stays of it; the order matters.
NO_PROSE = (
    (r"^(```|~~~).*?^\1[ \t]*$", ""),  # blocks of code; words of it within a line stay
    (r"<!--.*?-->|<(details|svg|table|pre)\b.*?</\1>|(?<!`)</?\w[^<>]*>", ""),  # HTML
    (r"`([^`\n]+)`", lambda match: match[1].replace("$", "").replace("|", "/")),
    (r"\$\$.*?\$\$", ""),
    (r"\$[^$\n]+\$", FORMULA),
    (r"^[ \t]*\|[^\n]*$", ""),  # tables
    (r"!\[[^\]]*\]\([^)]*\)", ""),  # pictures
    (r"\[([^\]]*)\]\([^)\s]*\)", r"\1"),  # links: their words, not where they lead
    (r"^[ \t]*(#+|[-*>]|\d+\.)[ \t]+", ""),  # headings, lists, quotations
    (r"(\*\*|\*|__)(?=\S)([^\n]+?)(?<=\S)\1", r"\2"),  # bold and slanted
)
SENTENCE_ENDS = re.compile(r"(?<=[.!?])[ \t]+")


def lesson_prose(folder: str | os.PathLike = NOTEBOOKS) -> dict[int, str]:
    """Return the prose of lessons 00 to 11 by number, one paragraph, heading or item a line.

    Left out are code, HTML, tables, pictures, where links lead, and sentences that hold a formula.
    The text changes with the lessons: so does every number that is measured on it.
    Raises `ValueError` unless `folder` holds the notebooks of these lessons, each of them once.
    """
    folder = as_path(folder, "folder")
    # JupyterLab calls a copy "02_name-Copy1.ipynb": it is no lesson.
    found = [path for path in folder.glob("*.ipynb") if re.fullmatch(r"\d\d_\w+", path.stem)]
    paths = {int(path.name[:2]): path for path in found}
    missing = sorted(set(LESSONS) - set(paths))
    require(
        not missing,
        f"folder must hold the course's lessons 00 to {LESSONS[-1]}, which an installed package "
        f"does not bring along, got {folder} without {missing}",
    )
    names = sorted(path.name for path in found)
    require(len(found) == len(paths), f"{folder} must hold each lesson once, got {names}")
    return {number: _prose_of(paths[number]) for number in LESSONS}


def _prose_of(path: Path) -> str:
    try:
        cells = json.loads(path.read_bytes())["cells"]
        texts = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
    except (ValueError, LookupError, TypeError) as error:
        raise ValueError(f"{path} must be a notebook with its cells, got {error!r}") from None
    lines = [line for text in texts for line in prose(text).splitlines()]
    return "".join(f"{line}\n" for line in lines)


def prose(markdown: str) -> str:
    """Return what of a Markdown text is prose, without blank lines."""
    for pattern, kept in NO_PROSE:
        markdown = re.sub(pattern, kept, markdown, flags=re.MULTILINE | re.DOTALL)
    lines = (_without_formulas(" ".join(line.split())) for line in markdown.splitlines())
    return "\n".join(line for line in lines if line)


def _without_formulas(line: str) -> str:
    return " ".join(part for part in SENTENCE_ENDS.split(line) if FORMULA not in part)
