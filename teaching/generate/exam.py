"""The examination: forty questions to choose from, and the key. Numbers on paper come by seed.

They are other numbers than those of the worksheets of the same seed, which the class has seen.
"""

import itertools
import tomllib
from pathlib import Path

from course.lessons import ROOT
from teaching.generate import bugs, paper
from teaching.generate.paper import Question
from teaching.generate.printed import answered, asked, markdown, page

HERE = ROOT / "teaching" / "exam"
SEED = 0
# Of the questions for paper, two from each of the lessons 02 to 09.
PAPER = (
    *("02_one_query", "02_root", "03_letters", "03_counts", "04_three_ways", "04_pairs"),
    *("05_offset", "05_bag", "06_layer_norm", "06_collapse", "07_count", "07_shapes"),
    *("08_loss", "08_mean_of_means", "09_tree", "09_cache"),
)
ROOMS = {
    "paper": "Attention on paper",
    "bugs": "Which bug made this table?",
    "proofs": "Short proofs",
    "claims": "Claims, with reasons",
}


def questions(seed: int = SEED) -> dict[str, list[Question]]:
    """Return the questions of each room."""
    written = tomllib.loads((HERE / "questions.toml").read_text("utf-8"))
    return {
        "paper": [unlike_the_worksheet(name, seed) for name in PAPER],
        "bugs": [bugs.make(name, seed) for name in bugs.names()],
        "proofs": [_written(entry) for entry in written["proof"]],
        "claims": [_written(entry) for entry in written["claim"]],
    }


def unlike_the_worksheet(name: str, seed: int) -> Question:
    """Return a question whose text is not that of the worksheet with this seed."""
    seen = paper.make(name, seed).text
    tries = (paper.make(name, f"{seed} exam {n}") for n in itertools.count())
    return next(question for question in tries if question.text != seen)


def _written(entry: dict) -> Question:
    credit = tuple((points, what) for points, what in entry["credit"])
    return Question(entry["title"], entry["text"], entry["answer"], credit)


def pages(seed: int = SEED) -> dict[Path, str]:
    """Return the paper with all questions, and its key."""
    made = {}
    for name, show in (("questions", asked), ("key", answered)):
        n, rooms = 0, []
        for room, found in questions(seed).items():
            parts = []
            for question in found:
                n += 1
                parts.append(show(n, question))
            kind = ' class="sheet"' if rooms else ""
            rooms.append(f"<div{kind}>\n<h1>{ROOMS[room]}</h1>\n{''.join(parts)}</div>\n")
        head = f"Examination, {'all questions' if name == 'questions' else 'key'} · numbers {seed}"
        intro = markdown(
            "Choose ten or eleven, about 60 points for 90 minutes, from "
            "all four rooms; the rubric has the shares. A number that "
            "follows rightly from a wrong one gets its points."
        )
        made[Path("exam", f"{name}.html")] = page(head, f"<h1>{head}</h1>\n{intro}{''.join(rooms)}")
    return made
