"""misconceptions.md: five mistakes to expect in each lesson, with what the student has been told.

misconceptions.toml has them; that the lesson's checks still say so is looked up in their texts.
"""

import ast
import functools
import tomllib
from pathlib import Path

from course.lessons import ROOT, lessons

WRITTEN = ROOT / "teaching" / "misconceptions.toml"
OUT = Path("misconceptions.md")
INTRO = """# Mistakes to expect

Five a lesson. The message is what the student has on the screen when you arrive: begin from it.
What follows is why the mistake is likely, and a question that helps more than the answer. All that
the checks know are in `tests/exercises/`. Made by `make teaching`; edit `misconceptions.toml`.
"""
TELLING = 15  # letters; a shorter text could be said of anything


def pages() -> dict[Path, str]:
    """Return the page. Raises `ValueError` for a message that no check of the lesson has."""
    written = tomllib.loads(WRITTEN.read_text("utf-8"))
    return {OUT: "\n".join([INTRO, *(_lesson(*lesson) for lesson in written.items())])}


def _lesson(number: str, mistakes: list[dict]) -> str:
    lesson = lessons()[number]
    parts = [f"## {number} · {lesson.title}\n"]
    for mistake in mistakes:
        if not is_said(lesson.name, mistake["told"]):
            raise ValueError(f"no check of {lesson.name} says {mistake['told']!r}")
        parts.append(
            f"**`{mistake['task']}`**\n\n> {mistake['told']}\n\n"
            f"Why it happens: {mistake['why']}\n\nAsk: {mistake['ask']}\n"
        )
    return "\n".join(parts)


def is_said(lesson: str, told: str) -> bool:
    """Return whether a text of a lesson's checks, or a part between its numbers, is in `told`."""
    return any(text in told.removeprefix("This is the answer when ") for text in texts_of(lesson))


@functools.cache
def texts_of(lesson: str) -> set[str]:
    """Return the texts in a lesson's checks, and in what all checks say."""
    files = [ROOT / "tests" / "exercises" / f"test_{lesson}.py"]
    files += (ROOT / "course" / "checking").glob("*.py")
    nodes = (node for file in files for node in ast.walk(ast.parse(file.read_text("utf-8"))))
    texts = {n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    return {text.strip() for text in texts if len(text.strip()) >= TELLING}
