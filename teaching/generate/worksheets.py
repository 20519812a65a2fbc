"""Worksheets: two pages a lesson, up to four questions, and a key; other numbers by seed."""

from pathlib import Path

from course.lessons import lessons
from teaching.generate import paper
from teaching.generate.printed import EXACT, answered, asked, page

SEED = 0


def pages(seed: int = SEED) -> dict[Path, str]:
    """Return the worksheets and keys of a seed."""
    made = {}
    for lesson in sorted({name[:2] for name in paper.names()}):
        head = f"Worksheet {lesson} · {lessons()[lesson].title}"
        questions = [paper.make(name, seed) for name in paper.names(lesson)]
        folder = Path("worksheets")
        made[folder / f"{lesson}.html"] = page(head, _sheets(head, seed, questions))
        made[folder / f"{lesson}_key.html"] = page(f"Key · {head}", _key(head, seed, questions))
    return made


def _sheets(head: str, seed: int, questions: list) -> str:
    half = (len(questions) + 1) // 2
    first = "".join(asked(i, q, 62) for i, q in enumerate(questions[:half], 1))
    second = "".join(asked(i, q, 70) for i, q in enumerate(questions[half:], half + 1))
    who = f'<p class="who"><span>Name</span><span>Without a computer · numbers {seed}</span></p>\n'
    return f'<h1>{head}</h1>\n{who}<p>{EXACT}</p>\n{first}<div class="sheet">\n{second}</div>\n'


def _key(head: str, seed: int, questions: list) -> str:
    total = sum(question.points for question in questions)
    rest = "".join(answered(i, question) for i, question in enumerate(questions, 1))
    who = f'<p class="who"><span>Numbers {seed}</span><span>{total} points</span></p>\n'
    return f"<h1>Key · {head}</h1>\n{who}{rest}"
