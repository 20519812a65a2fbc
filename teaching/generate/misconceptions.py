"""misconceptions.md: five mistakes to expect in each lesson, with what the student has been told.

Which five, and what to ask, is written in misconceptions.toml; the mistake itself is an answer of
tests/answers/, which is handed to its check as a student would hand it in.
"""

import sys
import tomllib
from pathlib import Path

from teaching.generate.course import ROOT, TEACHING, lessons, tasks
from transformer_lab.checking import CheckFailed, check

WRITTEN = TEACHING / "misconceptions.toml"
OUT = TEACHING / "misconceptions.md"
INTRO = """# Mistakes to expect

Five a lesson. The message is what the student has on the screen when you arrive: begin from it.
What follows is why the mistake is likely, and a question that helps more than the answer. All of
them, and more than a thousand others, are in `tests/answers/`. Made by `python teaching/make.py`;
edit `misconceptions.toml`.
"""


def pages() -> dict[Path, str]:
    """Return the page. Raises `ValueError` for a mistake that is not in the catalogue."""
    written = tomllib.loads(WRITTEN.read_text("utf-8"))
    parts = [_lesson(number, entries) for number, entries in written.items() if number in tasks()]
    return {OUT: "\n".join([INTRO, *parts])}


def _lesson(number: str, entries: list[dict]) -> str:
    lesson = lessons()[number]
    parts = [f"## {number} · {lesson.title}\n"]
    for entry in entries:
        answer = _answer(lesson.stem, entry["mistake"])
        quoted = "\n".join(f"> {line}  " for line in message_of(answer).split("\n"))
        why = " ".join(answer.answer.__doc__.split())
        parts.append(
            f"**`{answer.task}`**\n\n{quoted}\n\nWhy it happens: {why}\n\nAsk: {entry['ask']}\n"
        )
    return "\n".join(parts)


def _answer(stem: str, name: str):
    _add_catalogue()
    from catalogue import answers

    for answer in answers():
        if answer.lesson == stem and answer.answer.__name__ == name and answer.words:
            return answer
    raise ValueError(f"no wrong answer {name!r} in tests/answers for {stem}")


def message_of(answer) -> str:
    """Return the diagnosis that a wrong answer gets, without the line that repeats the call."""
    from catalogue import solutions

    number = answer.lesson[:2]
    others = {name: solutions(answer.lesson)[name] for t in tasks()[number] for name in t.names}
    try:
        exec(
            f"check({answer.task}=answer, lesson={number!r})",
            {**others, "check": check, "answer": answer.answer},
        )
    except CheckFailed as failure:
        return str(failure).split("\n", 1)[-1].strip()
    raise ValueError(f"{answer} passes its check")


def _add_catalogue() -> None:
    folder = str(ROOT / "tests" / "answers")
    if folder not in sys.path:
        sys.path.insert(0, folder)
