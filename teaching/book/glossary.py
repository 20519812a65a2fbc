"""The book's glossary: the terms of the course, in English and other languages (glossary.toml)."""

import re
import tomllib
from collections.abc import Iterator
from urllib.parse import quote

from course.lessons import ROOT, Notebook, anchor_of, lessons

WRITTEN = ROOT / "teaching" / "glossary.toml"
# Beside English: the key in glossary.toml, the tag that tells browsers the language, its name.
LANGUAGES = {
    "hans": ("zh-Hans", "simplified Chinese"),
    "hant": ("zh-Hant", "traditional Chinese"),
}
HEAD = """# Glossary

{count} terms as the course uses them, in {languages}, and the place in a lesson that tells of each.
A note says where usage is not uniform.
"""


def read() -> list[dict]:
    """Return the terms, in the order of the alphabet."""
    terms = tomllib.loads(WRITTEN.read_text("utf-8"))["term"]
    return sorted(terms, key=lambda term: term["en"].lower())


def form_of(term: dict) -> str:
    """Return a pattern for a term in a text, in its plural too."""
    forms = sorted((term["en"], *term.get("also", [])), key=len, reverse=True)
    return rf"(?<![\w-])(?:{'|'.join(map(re.escape, forms))})(?:e?s)?(?![\w-])"


def place(term: dict) -> tuple[Notebook, str] | None:
    """Return the notebook that tells of a term, and the heading: in its lesson, else in the first.

    A path comes before the evidence, a place in bold before the first place. None if none does.
    """
    own = lessons()[term["lesson"]]
    by_kind = [own.path, own.evidence]
    by_kind += [lesson.path for lesson in lessons().values()]
    by_kind += [lesson.evidence for lesson in lessons().values()]
    for notebook in filter(None, by_kind):
        for pattern in (rf"\*\*{form_of(term)}[^*]*\*\*", form_of(term)):
            for heading, line in _lines(notebook):
                if re.search(pattern, line, re.IGNORECASE):
                    return notebook, heading
    return None


def _lines(notebook: Notebook) -> Iterator[tuple[str, str]]:
    """Yield each line of a notebook's texts, and the heading that it is under."""
    heading = notebook.headings[0]
    for line in notebook.text.splitlines():
        if title := re.match(r"#{1,4} +(.+?) *$", line):
            heading = title[1]
        yield heading, line


def page(terms: list[dict]) -> str:
    """Return the page: a definition for each term, which links can lead to."""
    parts = []
    for term in terms:
        tags = {}  # of each word, the first: where two languages agree, it is written once
        for key, (tag, _) in LANGUAGES.items():
            tags.setdefault(term[key], tag)
        words = " · ".join(f'<span lang="{tag}">{word}</span>' for word, tag in tags.items())
        lines = [term["is"], f"{words}{_link(term)}"]
        if "note" in term:
            lines.append(f"*{term['note']}*")
        parts.append("\n\n  ".join([f"{term['en']}\n  {lines[0]}", *lines[1:]]) + "\n")
    text = "\n".join(parts)
    names = ["English", *(name for _, name in LANGUAGES.values())]
    languages = f"{', '.join(names[:-1])} and {names[-1]}"
    return f"{HEAD.format(count=len(terms), languages=languages)}\n`````{{glossary}}\n{text}`````\n"


def _link(term: dict) -> str:
    """Return a link to the section that tells of a term, or nothing."""
    found = place(term)
    if not found:
        return ""
    notebook, heading = found
    kind = "evidence of lesson" if notebook.path.parent.name == "evidence" else "lesson"
    address = notebook.path.relative_to(ROOT).as_posix()
    anchor = quote(anchor_of(heading), safe="?,·:")
    return f" · [{kind} {notebook.path.stem[:2]}](<{address}#{anchor}>)"
