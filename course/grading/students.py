"""Who is who: what is unique in a folder's or a file's name, and the class list of `--class`.

A name is for reading, and two people may have the same one. Canvas writes a person's number into
the name of a file. Moodle writes one there, too, and gives the same person another for each
assignment: so one name with two of Moodle's numbers is two people if a lesson came from both.
"""

import csv
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

SEPARATORS = ",;\t"
EMAIL = re.compile(r"[\w.+-]+@[\w-]+(\.[\w-]+)+")


@dataclass(frozen=True)
class Student:
    """A person; `number` is Canvas's or Moodle's, out of the name of what was handed in."""

    name: str
    id: str = ""
    email: str = ""
    group: str = ""
    extra_days: int = 0
    number: str = ""
    canvas: bool = False  # the number is the person's own, and the same in every assignment

    @property
    def label(self) -> str:
        """Return what tells two people of one name apart."""
        return self.id or self.number


def read_table(
    path: Path, needed: Sequence[str], others: Sequence[str] = ()
) -> list[tuple[str, dict[str, str]]]:
    """Return (where, values by column) for each row of a CSV that a teacher wrote.

    Commas, semicolons or tabs separate its columns, which may come in any order; "E-Mail" is
    "email". Raises `ValueError` for a file that cannot be read or lacks a column.
    """
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} cannot be read as a CSV in UTF-8: {error}") from None
    head = text.split("\n", 1)[0]
    rows = csv.reader(text.splitlines(), delimiter=max(SEPARATORS, key=head.count))
    columns = [each.strip().casefold().replace("-", "") for each in next(rows, [])]
    if lost := [each for each in needed if each not in columns]:
        raise ValueError(
            f"{path} has the columns {', '.join(columns) or '(none)'} and no {lost[0]}: expected "
            f"{', '.join(needed)}" + (f", and perhaps {', '.join(others)}" if others else "")
        )
    return [
        (
            f"{path}, line {number}",
            dict.fromkeys(others, "")
            | {column: value.strip() for column, value in zip(columns, row, strict=False)}
            | {column: "" for column in columns[len(row) :]},
        )
        for number, row in enumerate(rows, 2)
        if any(map(str.strip, row))
    ]


def read_class(path: Path) -> list[Student]:
    """Return the students of a class list; `ValueError` if two have one id, or a cell is wrong."""
    students: list[Student] = []
    lines: dict[str, str] = {}
    for where, row in read_table(path, ("id", "name"), ("email", "group", "extra days")):
        days = row["extra days"] or "0"
        for column in ("id", "name"):
            if not row[column]:
                raise ValueError(f"{where}: the {column} is empty; every student needs one")
        if row["id"] in lines:
            raise ValueError(
                f"{where}: the id {row['id']} stands in {lines[row['id']]} already; expected "
                "another one for every student"
            )
        if not days.isdecimal():
            raise ValueError(f"{where}: expected a whole number of extra days, got {days!r}")
        lines[row["id"]] = f"line {where.rsplit(' ', 1)[1]}"
        students.append(Student(row["name"], row["id"], row["email"], row["group"], int(days)))
    return students


def in_class(found: Student, people: Sequence[Student]) -> tuple[Student, str]:
    """Return who of the class it is, or the student as found, and why."""
    for same in (_same_id, _same_name):
        fitting = [each for each in people if same(found, each)]
        if len(fitting) > 1:
            fitting = [each for each in fitting if each.id == found.number]
            if not fitting:
                return (
                    found,
                    "several in the class list have this name: write the id beside it",
                )
        if len(fitting) == 1:
            return replace(fitting[0], number=found.number, canvas=found.canvas), ""
    fitting = [each for each in people if found.number and each.id == found.number]
    if len(fitting) == 1:
        return replace(fitting[0], number=found.number, canvas=found.canvas), ""
    return found, "not in the class list"


def _same_id(found: Student, other: Student) -> bool:
    """Return whether the name that was found holds the other's id or e-mail address as a word."""
    name, address = found.name.casefold(), other.email.casefold()
    if match := EMAIL.search(name):
        return match[0] == address
    ids = re.search(rf"(?<!\w){re.escape(other.id.casefold())}(?!\w)", name.replace("_", " "))
    return bool(ids) or (bool(address) and name == address.split("@")[0])


def _same_name(found: Student, other: Student) -> bool:
    """Return whether the names are the same, perhaps with the family's first, or in one word."""
    words = _words(other.name)
    turned = {"".join(words[n:] + words[:n]) for n in range(len(words))}
    return "".join(_words(found.name)) in turned


def _words(name: str) -> list[str]:
    return re.findall(r"[^\W_]+", unicodedata.normalize("NFC", name).casefold())


def missing(people: Iterable[Student], there: Iterable[Student]) -> list[Student]:
    """Return who is in the class list and has handed in nothing."""
    ids = {each.id for each in there}
    return [each for each in people if each.id not in ids]
