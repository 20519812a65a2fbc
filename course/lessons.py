"""What each lesson says of itself: title, time, outcomes, claims and tasks stand in its notebooks.

A lesson is `notebooks/NN_name.ipynb`, its tasks are `solutions/NN_name.ipynb`, and where there is a
`notebooks/evidence/NN_name.ipynb`, this has *Myth or fact?*. In the text of the first stand

    # 02 · Scaled dot-product attention
    **Time:** about 75 minutes
    What you will be able to do               in bold or as a heading, and a list after it

and in its metadata, under "transformer_lab", what only tables need: `question`, which the lesson
answers, `outcome`, what one can do afterwards, in a line, and `paper`, which says for sections of
the paper in which sections of the lesson they are: {"3.2.1": "§1, §3"}.
"""

import functools
import json
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from course.checking.progress import Task, tasks_in
from course.checking.sandbox import COURSE

ROOT = COURSE.resolve().parent
CLAIM = re.compile(
    r"^\| (?P<number>C\d+) \| (?P<claim>[^|]+) "
    r"\| \*\*(?P<verdict>\w+)[^*|]*\*\*[:,]? ?(?P<why>[^|]*) \| (?P<settled>[^|]+) \|$",
    re.MULTILINE,
)
OUTCOMES = re.compile(
    r"^(?:## |\*\*)What you will be able to do(?:\*\*)?\n\n((?:- .*\n)+)", re.MULTILINE
)
TIME = re.compile(r"(?:\*\*Time:\*\*|Takes) about (\d+) minutes")


@dataclass(frozen=True)
class Claim:
    """A row of *Myth or fact?*: `verdict` is fact, myth, depends or answer, `why` what follows it.

    `anchor` is the section of the notebook `path` that settles it, None if publications do.
    """

    number: str
    lesson: str
    text: str
    verdict: str
    why: str
    path: Path
    anchor: str | None


class Notebook:
    """A notebook as far as its text goes."""

    def __init__(self, path: Path):
        content = json.loads(path.read_text("utf-8"))
        self.path, self.metadata = path, content["metadata"].get("transformer_lab", {})
        self.cells = [(cell["cell_type"], "".join(cell["source"])) for cell in content["cells"]]
        self.text = "\n\n".join(source for kind, source in self.cells if kind == "markdown") + "\n"
        self.headings = re.findall(r"^#{1,4} +(.+?) *$", self.text, re.MULTILINE)

    @functools.cached_property
    def sections(self) -> dict[str, list[str]]:
        """The code under each heading, and under the smaller ones below it, by its anchor."""
        found, above = {}, {}
        for kind, source in self.cells:
            if kind == "code":
                for anchor in above.values():
                    found[anchor].append(source)
                continue
            for marks, title in re.findall(r"^(#{1,4}) +(.+?) *$", source, re.MULTILINE):
                above = {level: a for level, a in above.items() if level < len(marks)}
                above[len(marks)] = anchor_of(title)
                found.setdefault(anchor_of(title), [])
        return found

    def anchor(self, place: str) -> str:
        """Return the anchor of a section: "§3" by its number, or a word of its heading.

        Raises `ValueError` if no heading fits.
        """
        wanted = re.escape(place.removeprefix("§"))
        ends = [rf"{wanted}\b"] if place.startswith("§") else [rf"{wanted}$", rf".*\b{wanted}\b"]
        for end in ends:
            for heading in self.headings[1:]:
                if re.match(end, heading, re.IGNORECASE):
                    return anchor_of(heading)
        raise ValueError(f"lesson {self.path.stem[:2]} has no section {place!r}")

    def has(self, place: str) -> bool:
        try:
            return bool(self.anchor(place))
        except ValueError:
            return False


def anchor_of(heading: str) -> str:
    """Return the anchor of a heading as JupyterLab makes it."""
    return heading.strip().replace(" ", "-")


@dataclass(frozen=True)
class Lesson:
    """A lesson, by its name, as 02_scaled_dot_product_attention, and its notebooks."""

    name: str
    path: Notebook
    evidence: Notebook | None
    tasks: tuple[Task, ...]

    @property
    def number(self) -> str:
        return self.name[:2]

    @property
    def title(self) -> str:
        return self.path.headings[0].split("·")[-1].strip()

    @property
    def minutes(self) -> int:
        """How long a first reading takes."""
        found = TIME.search(self.path.text)
        return int(self._there(found and found[1], "words '**Time:** about 75 minutes'"))

    @property
    def outcomes(self) -> list[str]:
        found = OUTCOMES.search(self.path.text)
        return re.findall(r"^- (.+)$", self._there(found, "list of outcomes")[1], re.MULTILINE)

    @property
    def question(self) -> str:
        """Which question the lesson answers."""
        return self._there(self.path.metadata.get("question"), "'question' in its metadata")

    @property
    def outcome(self) -> str:
        """What one can do afterwards, in one line."""
        return self._there(self.path.metadata.get("outcome"), "'outcome' in its metadata")

    @property
    def paper(self) -> dict[str, list[str]]:
        """Sections of the paper, and in which sections of the lesson each is."""
        stated = self.path.metadata.get("paper", {})
        return {section: places.split(", ") for section, places in stated.items()}

    @property
    def claims(self) -> list[Claim]:
        """The rows of *Myth or fact?*, from the evidence if that has any."""
        notebooks = [notebook for notebook in (self.evidence, self.path) if notebook]
        home = next((n for n in notebooks if CLAIM.search(n.text)), self.path)
        return [self._claim(row, home.path) for row in CLAIM.finditer(home.text)]

    def link(self, place: str, up: str) -> str:
        """Return the address of a section, from a folder that is `up` from the root.

        Raises `ValueError` if neither the lesson nor its evidence has it.
        """
        home = self.path
        if self.evidence and not self.path.has(place) and self.evidence.has(place):
            home = self.evidence
        return f"<{up}/{home.path.relative_to(ROOT).as_posix()}#{home.anchor(place)}>"

    def _claim(self, row: re.Match, home: Path) -> Claim:
        link = re.search(r"\]\(([^)#\s]*)#([^)\s]+)\)", row["settled"])
        path = (home.parent / link[1]).resolve() if link and link[1] else home
        what = (row["number"], self.name, row["claim"], row["verdict"], row["why"])
        return Claim(*what, path, unquote(link[2]) if link else None)

    def _there(self, found, what: str):
        if not found:
            raise ValueError(f"{self.path.path.name} has no {what}: see course/lessons.py")
        return found


@functools.cache
def lessons() -> dict[str, Lesson]:
    """Return the lessons that are there, by their two digits."""
    found = {}
    for path in sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb")):
        evidence, solution = path.parent / "evidence" / path.name, ROOT / "solutions" / path.name
        found[path.stem[:2]] = Lesson(
            path.stem,
            Notebook(path),
            Notebook(evidence) if evidence.exists() else None,
            tuple(tasks_in(solution)) if solution.exists() else (),
        )
    return found


@functools.cache
def tasks() -> dict[str, tuple[Task, ...]]:
    """Return the tasks of each lesson that has some, by its two digits."""
    return {number: lesson.tasks for number, lesson in lessons().items() if lesson.tasks}
