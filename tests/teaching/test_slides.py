"""Slides follow their lessons: what their text quotes is there, and so is every number."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from teaching.slides import deck

sys.path.insert(0, str(Path(__file__).parent))
import slide_code

TEXTS = sorted(deck.HERE.glob("[0-9][0-9].md"))


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text.stem)
def test_each_slide_has_something_to_say(text):
    slides = deck.read(text)
    assert slides and all(slide.cells("notes", "say") for slide in slides)


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text.stem)
def test_no_slide_shows_what_the_lab_asks_for(text):
    assert slide_code.leaks(deck.read(text), deck.Lesson(text.stem)) == set()


def test_an_answer_under_other_names_is_seen():
    lesson = SimpleNamespace(name="03_multi_head_attention", source=lambda name: MERGE)
    whole, part = (
        deck.Slide(1, "?", [deck.Part(2, "code", cell)]) for cell in ("cell", "cell:1-2")
    )
    assert slide_code.leaks([whole], lesson) == {(2, "merge_heads")}
    assert slide_code.leaks([part], lesson) == set()


MERGE = """def together(parts):
    b, h, n, d = parts.shape
    return parts.transpose(1, 2).reshape(b, n, h * d)  # swapped back
"""

GOOD = """# Slides of lesson 02

## Which drawer answers?

{code 02-014:1-2}

---

The answer is 23.64.

{show 02-014}
{notes 02-013}
"""


def test_what_stands_above_the_line_is_seen_first_and_in_the_order_of_the_text(tmp_path):
    text = tmp_path / "02.md"
    text.write_text(GOOD)
    slide = deck.page_of(text).split("<section")[2]
    marks = ("<h2>Which", 'class="code"', '"fragment"', "The answer", 'class="output"', "<aside")
    places = [slide.index(mark) for mark in marks]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("{show 02-014}", "{show 02-999}", 11, "got '02-999', expected the id of a cell"),
        ("{notes 02-013}", "{notes 02-0l3}", 12, "got '02-0l3', expected the id of a cell"),
        ("{show 02-014}", "{shwo 02-014}", 11, "got '{shwo 02-014}', expected one of {show …}"),
        ("{show 02-014}", "{shwo 02-014}", 11, "did you mean show?"),
        ("{show 02-014}", "{show 02-014", 11, "alone in its line"),
        ("{show 02-014}", "{show 02-013}", 11, "expected a cell that draws or prints"),
        ("{show 02-014}", "{say 02-014}", 11, "expected a cell with a box"),
        ("02-014:1-2", "02-014:3-99", 5, "got lines '3-99' of 02-014"),
        ("02-014:1-2", "02-014:3", 5, "got lines '3' of 02-014"),
        ("23.64", "23.65", 9, "got 23.65, expected numbers of the slide's cells"),
        ("Which drawer", "Why 7?", 3, "got 7, expected numbers"),
        ("## Which drawer answers?", "##", 3, "expected a question"),
        ("## Which drawer answers?", "## {claim C99}", 3, "expected a claim of 02"),
        ("---", "", 3, "expected a line '---' and its answer below"),
        ("The answer", "---", 9, "expected one a slide"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_line(tmp_path, old, new, line, words):
    text = tmp_path / "02.md"
    text.write_text(GOOD)
    deck.page_of(text)
    deck.page_of.cache_clear()
    text.write_text(GOOD.replace(old, new, 1))
    if old == "The answer":
        text.write_text(GOOD.replace(old, "---\n" + old, 1))
    with pytest.raises(ValueError) as caught:
        deck.page_of(text)
    first = str(caught.value).splitlines()[0]
    assert first.startswith(f"{text}:{line}: ") and words in first


def test_all_faults_of_a_text_are_told_at_once(tmp_path):
    text = tmp_path / "02.md"
    slide = GOOD.partition("\n\n")[2]
    text.write_text(GOOD.replace("23.64", "1234") + slide.replace("02-014}", "02-998}"))
    with pytest.raises(ValueError) as caught:
        deck.page_of(text)
    assert len(str(caught.value).splitlines()) == 2


def test_a_line_that_would_have_to_be_small_is_refused():
    assert "font-size: 24px" in deck.text_of("x" * deck.MOST, "code")
    with pytest.raises(ValueError, match=f"got a line of {deck.MOST + 1} columns"):
        deck.text_of("x" * (deck.MOST + 1), "code")


def test_formulas_have_the_spaces_that_one_writes():
    assert "<mn>73,414</mn>" in deck.formula(r"\ln 73{,}414", "inline")
    assert "<mi>ln</mi><mspace" in deck.formula(r"\ln 10", "inline")
    assert "<mspace" not in deck.formula(r"\ln(x)", "inline")
    assert "<mi>&#x0221E;</mi>" in deck.formula(r"-\infty", "inline")


def test_a_number_that_latex_parts_is_one_number():
    assert deck.numbers_in("73{,}414 and 1.02") == deck.numbers_in("73,414, 1.02")


def test_columns_that_are_printed_become_a_table_and_other_lines_do_not():
    assert deck.printed("one head   0.74\ntwo heads  1.00").count("<td>") == 4
    assert deck.printed("a  b\nc").startswith('<pre class="output"')


def test_lines_from_within_a_function_lose_their_margin_and_asserts():
    lesson = SimpleNamespace(source=lambda name: "if a:\n    b\n    assert b\n    c")
    assert deck.code_of("cell:2-4", lesson).endswith(">b\nc</pre>")


def test_a_comment_that_does_not_fit_beside_its_line_stands_above_it():
    line = f"    x = {'y' * 40}  # {'z' * 40}"
    assert deck.comment_above(line) == f"    # {'z' * 40}\n    x = {'y' * 40}"
    assert deck.comment_above("x = y  # z") == "x = y  # z"
