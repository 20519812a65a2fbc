"""From a lesson and a table of its cells (NN.toml) to slides: one HTML file that needs no network.

A slide asks one question; its answer comes at the next key. In NN.toml a `[[slide]]` has

    question, answer   in Markdown; every number in them must stand in the slide's cells
    show, reveal       ids of cells whose stored outputs are seen with the question, the answer
    code               ids of cells whose source is seen; "id:1-4" takes these lines of it
    notes              ids of cells whose prose are the speaker's notes
    claim              in the place of question and answer: a claim of the lesson, and its verdict
    say                in the place of the answer: a cell that has a box "Say it" or the like
"""

import json
import re
import tomllib
from functools import cache
from html import escape
from pathlib import Path
from textwrap import dedent

import mistune
from latex2mathml.converter import convert

from course.lessons import lessons
from transformer_lab.support.validation import require

HERE, FOLDER = Path(__file__).parent, Path("slides")
LESSONS = HERE.parents[1] / "notebooks"
KEYS = {"question", "answer", "show", "reveal", "code", "notes", "claim", "say"}
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
SAY = re.compile(r"^> \*\*In short\.\*\*(.*)$", re.MULTILINE)
WIDE = 84  # columns; wider text is set smaller
NARROW, FEW = 68, 8  # columns and lines; what is no more than both is set larger


class Renderer(mistune.HTMLRenderer):
    """Markdown of a lesson as HTML: formulas as MathML, links within the lesson as plain words."""

    def inline_math(self, text: str) -> str:
        return convert(text)

    def block_math(self, text: str) -> str:
        return convert(text, display="block")

    def link(self, text: str, url: str, title: str | None = None) -> str:
        return super().link(text, url, title) if url.startswith("https:") else text


markdown = mistune.Markdown(
    Renderer(escape=True), plugins=[mistune.plugins.import_plugin(p) for p in ("math", "table")]
)


def evidence_cells(name: str) -> list[dict]:
    """The cells of a lesson's evidence, where it has one."""
    path = LESSONS / "evidence" / f"{name}.ipynb"
    return json.loads(path.read_text("utf-8"))["cells"] if path.exists() else []


class Lesson:
    """A lesson's notebook and its evidence, as far as slides need them."""

    def __init__(self, name: str):
        self.name = name
        path = LESSONS / f"{name}.ipynb"
        require(path.exists(), f"lesson must be the name of a notebook, got {name!r}")
        cells = json.loads(path.read_text("utf-8"))["cells"]
        self.cells = {cell["id"]: cell for cell in [*cells, *evidence_cells(name)]}
        self.prose = "\n\n".join("".join(c["source"]) for c in cells if c["cell_type"] != "code")

    def cell(self, name: str) -> dict:
        require(name in self.cells, f"{self.name} has no cell {name!r}: renew its table of slides")
        return self.cells[name]

    def source(self, name: str) -> str:
        return "".join(self.cell(name)["source"])

    def outputs(self, name: str) -> str:
        """The text that a cell has printed, and the text form of what it has shown."""
        texts = []
        for output in self.cell(name).get("outputs", []):
            data = output.get("data", {})
            texts.append("".join(output.get("text", data.get("text/plain", ""))))
        return "\n".join(texts)

    def claim(self, number: str) -> tuple[str, str]:
        """A claim and its verdict, from the table "Myth or fact?"."""
        evidence = lessons()[self.name[:2]].evidence
        prose = self.prose + (evidence.text if evidence else "")
        row = re.search(rf"^\| {number} \| (.*?) \| (.*?) \|", prose, re.MULTILINE)
        require(row is not None, f"{self.name} has no claim {number}")
        return row[1], row[2]

    def section(self, title: str) -> str:
        """What stands under a heading (a regular expression), up to the next one."""
        found = re.search(rf"^## {title}$\n(.*?)(?=^#|\Z)", self.prose, re.MULTILINE | re.DOTALL)
        require(found is not None, f"{self.name} has no section {title!r}")
        return found[1].strip()

    def box(self, name: str) -> str:
        """What a cell tells the reader to be able to say: a box, or a paragraph."""
        found = SAY.search(self.source(name))
        require(found is not None, f"cell {name} of {self.name} has no box to say")
        return found[1].strip()


def pages() -> dict[Path, str]:
    """Return the slides of each lesson that has a table, and what all of them need."""
    slides = {table.stem: page_of(table) for table in sorted(HERE.glob("*.toml"))}
    needed = {name: (HERE / name).read_text("utf-8") for name in ("slides.css", "slides.js")}
    return {FOLDER / f"{name}.html": html for name, html in slides.items()} | {
        FOLDER / name: text for name, text in needed.items()
    }


@cache
def page_of(table: Path) -> str:
    """Return the HTML of a lesson's slides; `ValueError` if the table no longer fits the lesson."""
    content = tomllib.loads(table.read_text("utf-8"))
    lesson = Lesson(content["lesson"])
    title = re.search(r"^# (.*)$", lesson.prose, re.MULTILINE)[1]
    slides = [first_slide(title, lesson)]
    slides += [slide(entry, lesson) for entry in content["slide"]]
    slides.append(last_slide(lesson))
    sections = "\n".join(numbered(i, html, len(slides)) for i, html in enumerate(slides, 1))
    return TEMPLATE.format(title=escape(title), slides=sections)


TEMPLATE = """<!doctype html>
<!-- Made by python teaching/make.py from the lesson: do not edit. -->
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}: slides</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="slides.css">
</head>
<body>
<main>
{slides}
</main>
<nav aria-label="Slides">
<button type="button" id="back">← back</button>
<button type="button" id="next">next →</button>
<button type="button" id="notes" aria-pressed="false">notes (N)</button>
<button type="button" id="speaker">notes in a window (S)</button>
<button type="button" id="print">print (P)</button>
</nav>
<script src="slides.js"></script>
</body>
</html>
"""


def numbered(number: int, html: str, count: int) -> str:
    label = f"slide {number} of {count}"
    head = f'<section class="slide" id="{number}" tabindex="-1" aria-label="{label}">'
    return f'{head}\n{html}\n<p class="number">{number}</p>\n</section>'


def first_slide(title: str, lesson: Lesson) -> str:
    outcomes = lesson.section("What you will be able to do").split("\n\n")[0]
    return f"<h1>{inline(title)}</h1>\n{markdown(outcomes)}"


def last_slide(lesson: Lesson) -> str:
    summary = lesson.section("(?:Summary(?: in five lines)?|To say aloud)").split("\n\n")[0]
    return f'<h2>To keep</h2>\n<div class="answer">{markdown(summary)}</div>'


def slide(entry: dict, lesson: Lesson) -> str:
    """Return one slide; `ValueError` for unknown keys and for numbers that no cell of it has."""
    unknown = sorted(set(entry) - KEYS)
    require(not unknown, f"{lesson.name}: a slide has keys {sorted(KEYS)}, got {unknown}")
    question, answer = entry.get("question"), entry.get("answer")
    if "claim" in entry:
        claim, answer = lesson.claim(entry["claim"])
        question = f"Myth or fact? {claim}"
    if "say" in entry:
        answer = lesson.box(entry["say"])
    whole = bool(question and answer)
    require(whole, f"{lesson.name}: a slide must have question and answer: {entry}")
    require_numbers(entry, lesson)
    parts = [f"<h2>{inline(question)}</h2>"]
    code = [code_of(name, lesson) for name in entry.get("code", [])]
    parts.append(stage(code + shown(entry.get("show", []), lesson)))
    revealed = stage(shown(entry.get("reveal", []), lesson))
    revealed += f'<div class="answer">{markdown(answer)}</div>'
    parts.append(f'<div class="fragment">{revealed}</div>')
    prose = [markdown(spoken(lesson.source(name))) for name in entry.get("notes", [])]
    aside = '<aside class="notes" tabindex="0" aria-label="Speaker\'s notes">'
    parts.append(f"{aside}{''.join(prose)}</aside>")
    return "\n".join(part for part in parts if part)


def spoken(prose: str) -> str:
    """The prose of a cell without headings and tables."""
    return "\n".join(line for line in prose.splitlines() if not line.startswith(("#", "|")))


def require_numbers(entry: dict, lesson: Lesson) -> None:
    """Raise `ValueError` unless the cells of a slide have every number that its own words have."""
    names = [name for key in ("show", "reveal", "code", "notes") for name in entry.get(key, [])]
    cells = [name.partition(":")[0] for name in names]
    seen = " ".join(lesson.source(name) + " " + lesson.outputs(name) for name in cells)
    words = f"{entry.get('question', '')} {entry.get('answer', '')}"
    missing = sorted(set(NUMBER.findall(words)) - set(NUMBER.findall(seen)))
    require(not missing, f"{lesson.name}: no cell of the slide has {missing}: {words[:60]!r}")


def inline(text: str) -> str:
    return markdown(text).strip().removeprefix("<p>").removesuffix("</p>")


def stage(parts: list[str]) -> str:
    return f'<div class="stage">{"".join(parts)}</div>' if parts else ""


def shown(names: list[str], lesson: Lesson) -> list[str]:
    """The stored outputs of cells: pictures, and text."""
    parts = []
    for name in names:
        cell = lesson.cell(name)
        before = len(parts)
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if "image/png" in data:
                alt = escape(cell["metadata"].get("alt", ""), quote=True)
                picture = "".join(data["image/png"].split())
                parts.append(f'<img alt="{alt}" src="data:image/png;base64,{picture}">')
            elif "text" in output:
                parts.append(text_of("".join(output["text"])))
        require(len(parts) > before, f"cell {name} of {lesson.name} has no output to show")
    return parts


def text_of(text: str, kind: str = "output") -> str:
    lines = text.rstrip().splitlines()
    columns = max(map(len, lines))
    size = " wide" if columns > WIDE else ""
    if columns <= NARROW and len(lines) <= FEW:
        size = " large"
    return f'<pre class="{kind}{size}">{escape(text.rstrip())}</pre>'


def code_of(name: str, lesson: Lesson) -> str:
    """The source of a cell, or some lines of it, without asserts: they are for who runs it."""
    name, _, span = name.partition(":")
    lines = lesson.source(name).splitlines()
    if span:
        first, last = map(int, span.split("-"))
        require(0 < first <= last <= len(lines), f"{lesson.name}: {name} has no lines {span}")
        lines = lines[first - 1 : last]
    lines = [line for line in lines if not line.lstrip().startswith("assert ")]
    return text_of(dedent("\n".join(lines)), "code")
