"""From a lesson and the text of its slides (NN.md) to slides: one HTML file that needs no network.

README.md says how the text is written. Here it is read (`read`), and what it quotes from the lesson
is set: figures as they are, printed columns as tables, formulas as MathML. What does not fit the
lesson is a `ValueError` with file, line, what came and what was expected, a line for each fault.
"""

import base64
import importlib.metadata
import json
import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from html import escape
from pathlib import Path
from textwrap import dedent

import mistune
from latex2mathml.converter import convert

from course.lessons import lessons
from transformer_lab.support.validation import did_you_mean, require

HERE, FOLDER = Path(__file__).parent, Path("slides")
ROOT = HERE.parents[1]
LESSONS = ROOT / "notebooks"
# What a line in braces may say: where it may stand, and what it does.
QUOTES = {
    "show": "what cells have drawn or printed",
    "code": "the source of a cell, or lines of it: 02-014:3-5",
    "say": 'the box "In short" of a cell',
    "from": "nothing to see: cells that have the slide's numbers",
    "notes": "the prose of cells, for the speaker",
}
QUOTE = re.compile(r"\{(\w+) +([^{}]+)\}")
CLAIM = re.compile(r"\{claim (\w+)\}")
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
SAY = re.compile(r"^> \*\*In short\.\*\*(.*)$", re.MULTILINE)
STORED = re.compile(r"^\[benchmarks/results/.*\]\n?", re.MULTILINE)  # where a number was measured
COLUMN, ARROW = re.compile(r" {2,}| (?:->|→) "), re.compile(r" (?:->|→) ")
FONT = "STIXTwoMath-Regular.ttf"  # under the SIL Open Font License, as the file says itself
TALL = 0.5  # a picture that is higher for its width has the answer at its side
LARGE, LEAST, WIDEST = 30, 24, 1148  # a letter's size in pixels, and how wide text may be
LETTER = 0.602  # how wide one is, for its size
MOST = int(WIDEST / LEAST / LETTER)  # columns


def formula(text: str, display: str) -> str:
    """Return LaTeX as MathML, with the spaces that the converter leaves to others."""
    html = convert(text, display=display)
    html = html.replace("<mo>&#x0221E;</mo>", "<mi>&#x0221E;</mi>")  # ∞ is no operator
    html = html.replace("<mo>&#x02016;</mo>", '<mo stretchy="false">&#x02016;</mo>')
    html = html.replace("<mo>&#x23DF;</mo>", '<mo class="brace">&#x23DF;</mo>')
    html = re.sub(r"</mn><mrow><mo>&#x0002C;</mo></mrow><mn>", ",", html)  # 73{,}414
    return re.sub(
        r"<mi>(?:ln|log|sin|cos|tanh)</mi>(?!<mo)", r'\g<0><mspace width="0.17em"/>', html
    )


class Renderer(mistune.HTMLRenderer):
    """Markdown of a lesson as HTML: formulas as MathML, links within the lesson as plain words."""

    def inline_math(self, text: str) -> str:
        return formula(text, "inline")

    def block_math(self, text: str) -> str:
        return formula(text, "block")

    def link(self, text: str, url: str, title: str | None = None) -> str:
        return super().link(text, url, title) if url.startswith("https:") else text


markdown = mistune.Markdown(
    Renderer(escape=True), plugins=[mistune.plugins.import_plugin(p) for p in ("math", "table")]
)


# ---- the lesson


def evidence_cells(name: str) -> list[dict]:
    """The cells of a lesson's evidence, where it has one."""
    path = LESSONS / "evidence" / f"{name}.ipynb"
    return json.loads(path.read_text("utf-8"))["cells"] if path.exists() else []


def headings(cells: list[dict], before: str = "") -> dict[str, str]:
    """Return for each cell, by its id, the last heading of a section, at or above it."""
    found, heading = {}, ""
    for cell in cells:
        titles = re.findall(r"^##+ (.*)$", "".join(cell["source"]), re.MULTILINE)
        if cell["cell_type"] == "markdown" and titles:
            heading = before + titles[0]
        found[cell["id"]] = heading
    return found


class Lesson:
    """A lesson's notebook and its evidence, as far as slides need them."""

    def __init__(self, number: str):
        require(number in lessons(), f"got the number {number!r}, expected that of a lesson")
        self.name = lessons()[number].name
        cells = json.loads((LESSONS / f"{self.name}.ipynb").read_text("utf-8"))["cells"]
        evidence = evidence_cells(self.name)
        self.cells = {cell["id"]: cell for cell in [*cells, *evidence]}
        self.heads = headings(cells) | headings(evidence, "Evidence: ")
        self.prose = "\n\n".join("".join(c["source"]) for c in cells if c["cell_type"] != "code")

    def cell(self, name: str) -> dict:
        close = did_you_mean(name, self.cells)
        require(
            name in self.cells, f"got {name!r}, expected the id of a cell of {self.name}{close}"
        )
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
        require(row is not None, f"got {number!r}, expected a claim of {self.name}, as C27")
        return row[1], row[2]

    def section(self, title: str) -> str:
        """What stands under a heading (a regular expression), up to the next one."""
        found = re.search(rf"^## {title}$\n(.*?)(?=^#|\Z)", self.prose, re.MULTILINE | re.DOTALL)
        require(found is not None, f"{self.name} has no section {title!r}")
        return found[1].strip()

    def box(self, name: str) -> str:
        """What a cell tells the reader to be able to say."""
        found = SAY.search(self.source(name))
        require(found is not None, f'got {name!r}, expected a cell with a box "In short"')
        return found[1].strip()


# ---- the text of the slides


@dataclass(frozen=True)
class Part:
    """A quotation or, where `word` is "", a paragraph of Markdown; and its line in the file."""

    line: int
    word: str
    text: str


@dataclass(frozen=True)
class Slide:
    """What stands in the text: the question, what is seen with it, and what with the answer."""

    line: int
    question: str
    above: list[Part] = field(default_factory=list)
    below: list[Part] = field(default_factory=list)

    def cells(self, *words: str) -> list[str]:
        """The ids of the cells that it quotes in one of these ways, with lines as 02-014:3-5."""
        parts = [part for part in [*self.above, *self.below] if part.word in words]
        return [name for part in parts for name in part.text.split()]


@contextmanager
def place(path: Path, line: int) -> Iterator[None]:
    """Put file and line before what a `ValueError` says."""
    try:
        yield
    except ValueError as error:
        shown = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
        raise ValueError(f"{shown}:{line}: {error}") from None


def read(path: Path) -> list[Slide]:
    """Return the slides of a text; `ValueError` for a line that means nothing."""
    slides, parts, before = [], [], ""
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        with place(path, number):
            if re.match("##( |$)", line):
                question = line.removeprefix("##").strip()
                require(bool(question), "got '##' alone, expected a question: '## Why the root?'")
                slides.append(Slide(number, question))
                parts = slides[-1].above
            elif not slides:
                continue  # the title, and what the writer tells other writers
            elif line == "---":
                require(parts is not slides[-1].below, "got a second '---', expected one a slide")
                parts = slides[-1].below
            elif line.startswith("{"):
                parts.append(Part(number, *quoted(line)))
            elif line and before and parts and not parts[-1].word:
                parts[-1] = Part(parts[-1].line, "", f"{parts[-1].text}\n{line}")
            elif line:
                parts.append(Part(number, "", line))
            before = line
    return slides


def quoted(line: str) -> tuple[str, str]:
    """Return the word of a line such as {show 02-014}, and what follows it."""
    known = ", ".join(f"{{{word} …}}" for word in QUOTES)
    found = QUOTE.fullmatch(line.strip())
    close = did_you_mean(found[1], QUOTES) if found else ""
    expected = f"expected one of {known}, alone in its line"
    require(found is not None and found[1] in QUOTES, f"got {line.strip()!r}, {expected}{close}")
    return found[1], found[2]


# ---- from text to slides


def pages() -> dict[Path, str | bytes]:
    """Return the slides of each lesson that has a text, and what all of them need.

    Raises `ValueError` with a line for each fault.
    """
    made, faults = {}, []
    for path in sorted(HERE.glob("[0-9][0-9].md")):
        try:
            made[FOLDER / f"{path.stem}.html"] = page_of(path)
        except ValueError as error:
            faults.append(str(error))
    require(not faults, "\n".join(faults))
    needed = {name: (HERE / name).read_text("utf-8") for name in ("slides.css", "slides.js")}
    font = importlib.metadata.distribution("ziamath").locate_file(f"ziamath/fonts/{FONT}")
    needed[FONT] = font.read_bytes()
    return made | {FOLDER / name: text for name, text in needed.items()}


@cache
def page_of(path: Path) -> str:
    """Return the HTML of a lesson's slides; `ValueError` if the text does not fit the lesson."""
    with place(path, 1):
        lesson = Lesson(path.stem)
    title = re.search(r"^# (.*)$", lesson.prose, re.MULTILINE)[1]
    slides, faults = [first_slide(title, lesson)], []
    for slide in read(path):
        try:
            slides.append(html_of(slide, lesson, path))
        except ValueError as error:
            faults.append(str(error))
    require(not faults, "\n".join(faults))
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


def html_of(slide: Slide, lesson: Lesson, path: Path) -> str:
    """Return one slide; `ValueError` with its line for what the lesson does not have."""
    question, above, below = slide.question, slide.above, slide.below
    if found := CLAIM.fullmatch(question):
        with place(path, slide.line):
            claim, verdict = lesson.claim(found[1])
        question, below = f"Myth or fact? {claim}", [*below, Part(slide.line, "", verdict)]
    with place(path, slide.line):
        answered = any(part.word not in ("from", "notes") for part in below)
        require(answered, "got a question alone, expected a line '---' and its answer below")
    require_numbers(slide, lesson, path)
    first, then = seen(above, lesson, path, "given"), seen(below, lesson, path, "answer")
    parts = [
        f"<h2>{inline(question)}</h2>",
        f'<div class="body">{first}<div class="fragment">{then}</div></div>',
    ]
    home = [*slide.cells("notes"), *slide.cells("say"), ""][0]
    parts.append(f'<p class="section">{inline(lesson.heads.get(home, ""))}</p>')
    prose = [markdown(spoken(lesson.source(name))) for name in slide.cells("notes")]
    aside = '<aside class="notes" tabindex="0" aria-label="Speaker\'s notes">'
    parts.append(f"{aside}{''.join(prose)}</aside>")
    return "\n".join(part for part in parts if part)


def seen(parts: list[Part], lesson: Lesson, path: Path, kind: str) -> str:
    """Return what the class sees of some parts: on a stage what is to be looked at, words below."""
    html, stage, words = [], [], []

    def clear() -> None:
        if stage:
            html.append(f'<div class="stage">{"".join(stage)}</div>')
        if words:
            html.append(f'<div class="{kind}">{"".join(words)}</div>')
        stage.clear()
        words.clear()

    for part in parts:
        with place(path, part.line):
            names = part.text.split()
            if part.word in ("from", "notes"):
                for name in names:
                    lesson.cell(name)
            elif part.word == "say":
                words += [markdown(lesson.box(name)) for name in names]
            elif not part.word and not part.text.startswith(("$$", "|")):
                words.append(markdown(part.text))
            else:
                if words:
                    clear()
                stage += staged(part, lesson)
    clear()
    return "".join(html)


def staged(part: Part, lesson: Lesson) -> list[str]:
    """Return figures, printed text, code, or a formula or table of the text itself."""
    names = part.text.split()
    if part.word == "show":
        return [html for name in names for html in shown(name, lesson)]
    if part.word == "code":
        return [code_of(name, lesson) for name in names]
    return [markdown(part.text)]


def spoken(prose: str) -> str:
    """The prose of a cell without headings and tables."""
    return "\n".join(line for line in prose.splitlines() if not line.startswith(("#", "|")))


def require_numbers(slide: Slide, lesson: Lesson, path: Path) -> None:
    """Raise `ValueError` unless the cells of a slide have every number that its own words have."""
    names = [name.partition(":")[0] for name in slide.cells("show", "code", "from", "notes")]
    known = [name for name in names if name in lesson.cells]  # the others are a fault of their own
    text = " ".join(lesson.source(name) + " " + lesson.outputs(name) for name in known)
    there = numbers_in(text)
    words = [Part(slide.line, "", CLAIM.sub("", slide.question)), *slide.above, *slide.below]
    for part in words:
        for number, line in enumerate(part.text.splitlines() if not part.word else [], part.line):
            missing = sorted(numbers_in(line) - there)
            came, cells = ", ".join(missing), ", ".join(names) or "none"
            with place(path, number):
                require(not missing, f"got {came}, expected numbers of the slide's cells ({cells})")


def numbers_in(text: str) -> set[str]:
    """The numbers of a text; 73,414 is one, also as LaTeX writes it, with `{,}`."""
    return set(NUMBER.findall(text.replace("{,}", ",")))


def inline(text: str) -> str:
    return markdown(text).strip().removeprefix("<p>").removesuffix("</p>")


# ---- what is quoted from the lesson


def shown(name: str, lesson: Lesson) -> list[str]:
    """What a cell has left: its pictures; if it has drawn none, its text."""
    cell = lesson.cell(name)
    outputs = cell.get("outputs", [])
    alt = escape(cell["metadata"].get("alt", ""), quote=True)
    data = [output.get("data", {}) for output in outputs]
    pictures = [picture_of("".join(d["image/png"]), alt) for d in data if "image/png" in d]
    texts = [STORED.sub("", "".join(output.get("text", ""))).rstrip() for output in outputs]
    require(any(pictures + texts), f"got {name!r}, expected a cell that draws or prints")
    return pictures or [printed(text) for text in texts if text]


def picture_of(data: str, alt: str) -> str:
    """Return a picture, marked if it is tall."""
    data = "".join(data.split())
    wide, high = struct.unpack(">2I", base64.b64decode(data)[16:24])
    tall = ' class="tall"' if high > TALL * wide else ""
    return f'<img{tall} alt="{alt}" src="data:image/png;base64,{data}">'


def printed(text: str) -> str:
    """Return printed text as a table if its lines have columns, else as it is.

    Two spaces or an arrow part columns; after an arrow a line may have fewer than others.
    """
    rows = [COLUMN.split(line.strip()) for line in text.splitlines()]
    counts = {len(row) for row in rows}
    if min(counts) == 1 or (len(counts) > 1 and not all(map(ARROW.search, text.splitlines()))):
        return text_of(text, "output")
    cells = ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows]
    return f'<table class="output">{"".join(f"<tr>{row}</tr>" for row in cells)}</table>'


def text_of(text: str, kind: str) -> str:
    """Return text in letters of one width, as large as its longest line allows."""
    columns = max(map(len, text.splitlines()))
    size = min(LARGE, int(WIDEST / columns / LETTER))
    require(size >= LEAST, f"got a line of {columns} columns, expected at most {MOST}")
    return f'<pre class="{kind}" style="font-size: {size}px">{escape(text)}</pre>'


def code_of(name: str, lesson: Lesson) -> str:
    """The source of a cell, or some lines of it, without asserts: they are for who runs it."""
    name, _, span = name.partition(":")
    lines = lesson.source(name).splitlines()
    if span:
        first, _, last = span.partition("-")
        whole = first.isdigit() and last.isdigit() and 0 < int(first) <= int(last) <= len(lines)
        require(whole, f"got lines {span!r} of {name}, expected some of 1-{len(lines)}")
        lines = lines[int(first) - 1 : int(last)]
    lines = [line for line in lines if not line.lstrip().startswith("assert ")]
    lines = dedent("\n".join(lines)).strip("\n").splitlines()
    return text_of("\n".join(comment_above(line) for line in lines), "code")


def comment_above(line: str) -> str:
    """Return a line that is too wide with the comment at its end in a line of its own."""
    code, mark, comment = line.partition("  # ")
    margin = line[: len(line) - len(line.lstrip())]
    return f"{margin}# {comment}\n{code}" if mark and len(line) > MOST else line
