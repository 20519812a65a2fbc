"""Slides follow their lessons: no number that the lesson does not have."""

import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

from teaching.slides import deck

sys.path.insert(0, str(Path(__file__).parent))
import slide_code

TABLES = sorted(deck.HERE.glob("*.toml"))
LESSON = deck.Lesson("02_scaled_dot_product_attention")
GOOD = {"question": "Which?", "answer": "23.64", "reveal": ["02-014"], "notes": ["02-013"]}


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.stem)
def test_each_slide_has_something_to_say(table):
    entries = tomllib.loads(table.read_text("utf-8"))["slide"]
    assert all(entry.get("notes") or "say" in entry for entry in entries)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.stem)
def test_no_slide_shows_what_the_lab_asks_for(table):
    content = tomllib.loads(table.read_text("utf-8"))
    assert slide_code.leaks(content["slide"], deck.Lesson(content["lesson"])) == set()


def test_an_answer_under_other_names_is_seen():
    lesson = SimpleNamespace(name="03_multi_head_attention", source=lambda name: MERGE)
    assert slide_code.leaks([{"code": ["cell"]}], lesson) == {(2, "merge_heads")}
    assert slide_code.leaks([{"code": ["cell:1-2"]}], lesson) == set()


MERGE = """def together(parts):
    b, h, n, d = parts.shape
    return parts.transpose(1, 2).reshape(b, n, h * d)  # swapped back
"""


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"answer": "23.65"}, "no cell of the slide has ['23.65']"),
        ({"question": "Why 7?"}, "no cell of the slide has ['7']"),
        ({"show": ["02-999"]}, "no cell '02-999'"),
        ({"show": ["02-013"]}, "no output to show"),
        ({"code": ["02-014:3-99"]}, "no lines 3-99"),
        ({"claim": "C99"}, "no claim C99"),
        ({"say": "02-014"}, "no box to say"),
        ({"anwser": "23.64"}, "got ['anwser']"),
        ({"answer": ""}, "must have question and answer"),
    ],
)
def test_what_no_longer_fits_the_lesson_is_refused(change, words):
    deck.slide(GOOD, LESSON)
    with pytest.raises(ValueError) as caught:
        deck.slide(GOOD | change, LESSON)
    assert words in str(caught.value)


def test_lines_from_within_a_function_lose_their_margin_and_asserts():
    lesson = SimpleNamespace(name="one", source=lambda name: "if a:\n    b\n    assert b\n    c")
    assert deck.code_of("cell:2-4", lesson) == '<pre class="code large">b\nc</pre>'
