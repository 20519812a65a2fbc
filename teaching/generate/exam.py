"""The examination: numbered places, from which a teacher chooses, and what is drawn for each.

A place is a question for paper with numbers to be drawn, or a kind of table, proof or claim of
which one is drawn. With a secret that is a paper, with its key; without one, an example of every
place, which everybody can see.
"""

import functools
import random
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from course.lessons import ROOT
from teaching.generate import bugs, paper, printed, secret, worksheets
from teaching.generate.paper import Question

WRITTEN = ROOT / "teaching" / "exam" / "questions.toml"
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
KINDS = {
    "bugs": ("rows", "masks", "layers"),
    "proofs": ("attention", "masks", "positions", "training"),
    "claims": ("attention", "order", "training"),
}
TRIES = 500
POINTS = {"bugs": 6, "proofs": 5, "claims": 6}  # of a question, whichever is drawn

Seed = Callable[[str], str]  # from a label


@dataclass(frozen=True)
class Place:
    """A number of the examination; `name` is that of a question for paper, or of a kind."""

    number: int
    room: str
    name: str


PLACES = tuple(
    Place(number, room, name)
    for number, (room, name) in enumerate(
        [
            *(("paper", name) for name in PAPER),
            *((room, kind) for room, kinds in KINDS.items() for kind in kinds),
        ],
        1,
    )
)


def example(label: str) -> str:
    """Return a seed that everybody has."""
    return f"example {label}"


# ---- what is drawn


def draw(place: Place, *seeds: Seed, pools: Path | None = None) -> Question:
    """Return the question that the last seed draws for a place.

    It is none that the seeds before it drew, in their order, and none of the worksheet that
    everybody has. Raises `ValueError` if none is left.
    """
    found = pool(place, pools)
    drawn = [paper.make(place.name, worksheets.SEED)] if place.room == "paper" else []
    for seed in seeds:
        labels = (f"{place.number} {n}" for n in range(TRIES))
        tries = (_drawn(found, seed, label) for label in labels)
        fresh = (new for new in tries if not any(alike(new, old) for old in drawn))
        if not (new := next(fresh, None)):
            raise ValueError(f"all that can be drawn for question {place.number} was drawn before")
        drawn.append(new)
    return drawn[-1]


def _drawn(found: list[Callable[[str], Question]], seed: Seed, label: str) -> Question:
    maker = random.Random(seed(f"which {label}")).choice(found)
    return maker(seed(f"numbers {label}"))


def alike(one: Question, other: Question) -> bool:
    """Return whether who knows one question knows the other."""
    return one.text == other.text or one.answer == other.answer


def pool(place: Place, pools: Path | None = None) -> list[Callable[[str], Question]]:
    """Return the makers of all questions that can stand at a place."""
    if place.room == "paper":
        return [lambda seed: paper.make(place.name, seed)]
    found = []
    if place.room == "bugs":
        found += [lambda seed, name=name: bugs.make(name, seed) for name in bugs.names(place.name)]
    for file in [WRITTEN, *sorted(pools.glob("*.toml") if pools else [])]:
        found += [
            lambda _, question=question: question
            for question in written(file)[place.room]
            if question.given["kind"] == place.name
        ]
    return found


def written(file: Path) -> dict[str, list[Question]]:
    """Return the questions in a file, by their room.

    Raises `ValueError` for a file or a question that is not as those of the course are.
    """
    try:
        return _rooms(file, file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"{file} is no file of questions: {error}") from None


@functools.cache
def _rooms(file: Path, text: str) -> dict[str, list[Question]]:
    entries = tomllib.loads(text)
    if unknown := set(entries) - set(KINDS):
        raise ValueError(f"{file} has {sorted(unknown)}; rooms are {', '.join(KINDS)}")
    return {
        room: [_written(entry, room, f"{file}, {room} {n}") for n, entry in enumerate(found, 1)]
        for room, found in ({room: [] for room in KINDS} | entries).items()
    }


def _written(entry: dict, room: str, where: str) -> Question:
    try:
        text, credit = entry["text"], tuple(map(_credit, entry["credit"]))
        title = ROOMS["bugs"] if room == "bugs" else entry["title"]
        question = Question(title, text, entry["answer"], credit, {"kind": entry["kind"]})
        points = question.points
    except (KeyError, TypeError, ValueError, IndexError):
        raise ValueError(
            f"{where} needs kind, title, text, answer, and credit = [[points, what for], …]"
        ) from None
    if entry["kind"] not in KINDS[room]:
        raise ValueError(f"{where}: kinds are {', '.join(KINDS[room])}, not {entry['kind']!r}")
    if points != POINTS[room]:
        raise ValueError(f"{where} has {points} points, not {POINTS[room]}")
    return question


def _credit(entry: list) -> tuple:
    points, what, *fewer = entry
    return (int(points), what, *(tuple(each) for each in fewer))


# ---- pages


def pages() -> dict[Path, str]:
    """Return an example of every place, and its key."""
    made = {}
    for name, show in (("questions", printed.asked), ("key", printed.answered)):
        head = f"Examination, {'an example of every question' if name == 'questions' else 'key'}"
        rooms = []
        for room, title in ROOMS.items():
            parts = [show(p.number, draw(p, example)) for p in PLACES if p.room == room]
            kind = ' class="sheet"' if rooms else ""
            rooms.append(f"<div{kind}>\n<h1>{title}</h1>\n{''.join(parts)}</div>\n")
        intro = printed.markdown(
            "An examination takes ten or eleven of these numbers, from all four rooms, "
            "about 60 points in 90 minutes. For each paper they are drawn again: other numbers, "
            f"another table, proof or claim of the kind. {printed.EXACT}"
        )
        made[Path("exam", f"{name}.html")] = printed.page(
            head, f"<h1>{head}</h1>\n{intro}{''.join(rooms)}"
        )
    return made


def sheet(
    numbers: list[int],
    minutes: int,
    title: str,
    *secrets: bytes,
    pools: Path | None = None,
) -> dict[Path, str]:
    """Return a whole paper of the last secret, unlike those of the secrets before it, and its key.

    Raises `ValueError` for a number that is not there, or stands twice.
    """
    places = {place.number: place for place in PLACES}
    if unknown := [n for n in numbers if n not in places]:
        raise ValueError(f"there is no question {unknown[0]}: they are 1 to {len(PLACES)}")
    if len(set(numbers)) < len(numbers):
        raise ValueError("a number stands twice in --paper")
    if pools and not any(pools.glob("*.toml")):
        raise ValueError(f"there is no file of questions, such as mine.toml, in {pools}")
    if pools and pools.resolve().is_relative_to(ROOT):
        raise ValueError(f"{pools} lies in the course, which students have: choose one outside")
    seeds = [functools.partial(secret.seed, key) for key in secrets]
    questions = [draw(places[n], *seeds, pools=pools) for n in numbers]
    return {
        Path("paper.html"): printed.paper(title, minutes, questions),
        Path("key.html"): printed.key(title, minutes, questions),
    }
