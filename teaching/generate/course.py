"""What the lessons and the solutions say of themselves: headings, outcomes, claims, tasks.

Lessons are found by their names, so one that is still to come is simply not there.
"""

import functools
import json
import re
from dataclasses import dataclass
from pathlib import Path

from transformer_lab.checking.progress import Task, tasks_in

TEACHING = Path(__file__).resolve().parents[1]
ROOT = TEACHING.parent
CLAIM = re.compile(
    r"^\| (?P<number>C\d+) \| (?P<claim>[^|]+) \| (?P<verdict>[^|]+) \| (?P<settled>[^|]+) \|$",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Claim:
    """A row of *Myth or fact?*: `verdict` is fact, myth, depends or answer, `why` what follows it.

    `anchor` is the section that settles it, None if publications do.
    """

    number: str
    lesson: str
    text: str
    verdict: str
    why: str
    anchor: str | None


@dataclass(frozen=True)
class Lesson:
    """A lesson by what its text says; `stem` is as 02_scaled_dot_product_attention."""

    stem: str
    sources: tuple[tuple[str, str], ...]  # the kind and the text of each cell

    @property
    def number(self) -> str:
        return self.stem[:2]

    @property
    def title(self) -> str:
        return self.headings[0].split("·")[-1].strip()

    @property
    def text(self) -> str:
        return "\n".join(source for kind, source in self.sources if kind == "markdown")

    @property
    def headings(self) -> list[str]:
        return re.findall(r"^#{1,4} +(.+?) *$", self.text, re.MULTILINE)

    @property
    def outcomes(self) -> list[str]:
        room = re.search(
            r"## What you will be able to do\n+(.*?)\n\n(?!- )", self.text + "\n\n", re.S
        )
        return re.findall(r"^- (.+)$", room[1], re.MULTILINE) if room else []

    @property
    def claims(self) -> list[Claim]:
        found = []
        for row in CLAIM.finditer(self.text):
            verdict, why = re.fullmatch(r"\*\*(\w+)[^*]*\*\*[:,]? ?(.*)", row["verdict"]).groups()
            anchor = re.search(r"\(#([^)\s]+)\)", row["settled"])
            found.append(
                Claim(row["number"], self.stem, row["claim"], verdict, why, anchor and anchor[1])
            )
        return found

    def anchor(self, place: str) -> str:
        """Return the anchor of a section: "§3" by its number, or a word of its heading.

        Raises `ValueError` if no heading fits.
        """
        wanted = re.escape(place.removeprefix("§"))
        patterns = (
            [rf"{wanted}\b"] if place.startswith("§") else [rf"{wanted}$", rf".*\b{wanted}\b"]
        )
        for pattern in patterns:
            for heading in self.headings[1:]:
                if re.match(pattern, heading, re.IGNORECASE):
                    return heading.replace(" ", "-")
        raise ValueError(f"lesson {self.number} has no section {place!r}")

    def link(self, place: str, up: str = "..") -> str:
        """Return the address of a section, from a folder that is `up` from the root."""
        return f"<{up}/notebooks/{self.stem}.ipynb#{self.anchor(place)}>"


@functools.cache
def lessons() -> dict[str, Lesson]:
    """Return the lessons that are there, by their two digits."""
    found = {}
    for path in sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb")):
        cells = json.loads(path.read_text("utf-8"))["cells"]
        sources = tuple((cell["cell_type"], "".join(cell["source"])) for cell in cells)
        found[path.stem[:2]] = Lesson(path.stem, sources)
    return found


@functools.cache
def tasks() -> dict[str, list[Task]]:
    """Return the tasks of each lesson that has solutions, by its two digits."""
    paths = sorted((ROOT / "solutions").glob("[0-9][0-9]_*.ipynb"))
    return {path.stem[:2]: tasks_in(path) for path in paths}
