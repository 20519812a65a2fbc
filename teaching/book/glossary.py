"""The book's glossary: the terms of the course, in English and other languages (glossary.toml)."""

import tomllib

from course.lessons import ROOT, lessons

WRITTEN = ROOT / "teaching" / "glossary.toml"
# Beside English: the key in glossary.toml, the tag that tells browsers the language, its name.
LANGUAGES = {
    "hans": ("zh-Hans", "simplified Chinese"),
    "hant": ("zh-Hant", "traditional Chinese"),
}
HEAD = """# Glossary

{count} terms as the course uses them, in {languages}, and the lesson to which each belongs. A note
says where usage is not uniform.
"""


def read() -> list[dict]:
    """Return the terms, in the order of the alphabet."""
    terms = tomllib.loads(WRITTEN.read_text("utf-8"))["term"]
    return sorted(terms, key=lambda term: term["en"].lower())


def page(terms: list[dict]) -> str:
    """Return the page: a definition for each term, which links can lead to."""
    parts = []
    for term in terms:
        tags = {}  # of each word, the first: where two languages agree, it is written once
        for key, (tag, _) in LANGUAGES.items():
            tags.setdefault(term[key], tag)
        words = " · ".join(f'<span lang="{tag}">{word}</span>' for word, tag in tags.items())
        number = term["lesson"]
        lesson = lessons().get(number)
        where = f"[lesson {number}](notebooks/{lesson.name}.ipynb)" if lesson else ""
        lines = [term["is"], f"{words}{' · ' * bool(where)}{where}"]
        if "note" in term:
            lines.append(f"*{term['note']}*")
        parts.append("\n\n  ".join([f"{term['en']}\n  {lines[0]}", *lines[1:]]) + "\n")
    text = "\n".join(parts)
    names = ["English", *(name for _, name in LANGUAGES.values())]
    languages = f"{', '.join(names[:-1])} and {names[-1]}"
    return f"{HEAD.format(count=len(terms), languages=languages)}\n`````{{glossary}}\n{text}`````\n"
