"""Write glossary.md, the terms of the course in English and Chinese, from glossary.toml.

python teaching/glossary.py           # write it
python teaching/glossary.py --check   # only say whether it is up to date
"""

import argparse
import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
MADE = HERE / "glossary.md"
HEAD = """# Glossary

{count} terms as the course uses them, in English, simplified (简) and traditional (繁) Chinese, and
the lesson to which each belongs. A note says where usage is not uniform.
"""


def read(path: Path = HERE / "glossary.toml") -> list[dict]:
    """Return the terms, in the order of the alphabet."""
    terms = tomllib.loads(path.read_text("utf-8"))["term"]
    return sorted(terms, key=lambda term: term["en"].lower())


def lessons() -> dict[str, str]:
    """Return the lessons that are there: number to name."""
    paths = sorted((HERE.parent / "notebooks").glob("[0-9]*.ipynb"))
    return {path.stem[:2]: path.stem for path in paths}


def table(terms: list[dict]) -> str:
    """Return glossary.md: one table."""
    names = lessons()
    rows = ["| English | 简 | 繁 | what it is | lesson |", "|---|---|---|---|---|"]
    for term in terms:
        meaning = term["is"] + (f" *{term['note']}*" if "note" in term else "")
        number = term["lesson"]
        where = f"[{number}](../notebooks/{names[number]}.ipynb)" if number in names else number
        cells = (term["en"], term["hans"], term["hant"], meaning, where)
        rows.append(f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |")
    return HEAD.format(count=len(terms)) + "\n" + "\n".join(rows) + "\n"


def page_of_book(terms: list[dict]) -> str:
    """Return the book's page: a definition for each term, which links can lead to."""
    names, parts = lessons(), []
    for term in terms:
        chinese = f'<span lang="zh-Hans">{term["hans"]}</span>'
        if term["hant"] != term["hans"]:
            chinese += f' · <span lang="zh-Hant">{term["hant"]}</span>'
        number = term["lesson"]
        where = f"[lesson {number}](notebooks/{names[number]}.ipynb)" if number in names else ""
        lines = [term["is"], f"{chinese}{' · ' * bool(where)}{where}"]
        if "note" in term:
            lines.append(f"*{term['note']}*")
        parts.append("\n\n  ".join([f"{term['en']}\n  {lines[0]}", *lines[1:]]) + "\n")
    text = "\n".join(parts)
    return f"{HEAD.format(count=len(terms))}\n`````{{glossary}}\n{text}`````\n"


def main() -> int:
    parser = argparse.ArgumentParser(description="Write glossary.md from glossary.toml.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if it is stale")
    made = table(read())
    if not parser.parse_args().check:
        MADE.write_text(made, "utf-8")
    elif not MADE.is_file() or MADE.read_text("utf-8") != made:
        print("teaching/glossary.md is stale: python teaching/glossary.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
