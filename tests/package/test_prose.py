"""The lessons' own prose as a corpus: what stays of a Markdown cell, and which lessons it has."""

import json
import re
import shutil

import pytest

from transformer_lab.data import TEST_LESSONS, lesson_prose
from transformer_lab.data.prose import NOTEBOOKS, prose

KEPT = [
    ("## 3 A row of clocks", "3 A row of clocks"),
    ("- **Prove** it, *slowly*.\n- Go on.", "Prove it, slowly.\nGo on."),
    ("4 * 5 and 6 * 7", "4 * 5 and 6 * 7"),
    ("See [lesson 02](02_attention.ipynb#x), §6.", "See lesson 02, §6."),
    ("A token `<eos>`, and `a_b`.", "A token <eos>, and a_b."),
    ("It costs `$5` and `$6`.", "It costs 5 and 6."),
    ("One.\n\n\nTwo   words.\n", "One.\nTwo words."),
]
LEFT_OUT = [
    "```python\nloss = 1\n```",
    "~~~\nx\n~~~",
    "| a | b |\n|---|---|\n| 1 | 2 |",
    "$$x = 1\n\\\\ y$$",
    "Let $x$ be it.",
    "<details><summary>Hint</summary>\n\nIt is 3.\n\n</details>",
    "<!-- nothing -->",
    '<img src="a.svg" alt="a">',
    "![a picture](a.png)",
]


@pytest.mark.parametrize("markdown, text", KEPT)
def test_prose_loses_its_markup_alone(markdown, text):
    assert prose(markdown) == text


@pytest.mark.parametrize("markdown", LEFT_OUT)
def test_what_is_no_prose_is_left_out_and_its_neighbours_are_not(markdown):
    assert prose(markdown) == ""
    assert prose(f"Before.\n\n{markdown}\n\nAfter.") == "Before.\nAfter."


def test_a_sentence_with_a_formula_goes_alone():
    text = "It falls. With $k = 1.5$ it rises. Why? Since $a$ does, and $b$. The end."
    assert prose(text) == "It falls. Why? The end."


def test_the_corpus_is_lessons_00_to_11_and_prose_throughout():
    texts = lesson_prose()
    assert list(texts) == [*range(12)] and set(TEST_LESSONS) < set(texts)
    assert all(re.match(f"{number:02} . ", text) for number, text in texts.items())
    assert all(len(text) > 5_000 and text.endswith("\n") for text in texts.values())
    whole = "".join(texts.values())
    assert not re.search(r"[$|`\0]|\]\(|</?(?:details|summary|img|div)|\n\n|\n#|\*\*", whole)
    letters = sum(character.isalpha() or character == " " for character in whole)
    assert letters > 0.9 * len(whole)


def test_the_same_lessons_give_the_same_text_wherever_they_lie(tmp_path):
    for path in NOTEBOOKS.glob("*.ipynb"):
        shutil.copy(path, tmp_path)
    assert lesson_prose(tmp_path) == lesson_prose()


def test_a_folder_without_the_lessons_is_refused(tmp_path, without_shape_checks):
    with pytest.raises(ValueError, match="folder must be a path, got int"):
        lesson_prose(7)
    with pytest.raises(ValueError, match=r"lessons 00 to 11, .* got .* without \[0, 1, 2"):
        lesson_prose(tmp_path)
    (tmp_path / "00_start_here.ipynb").write_text('{"cells": []}')
    with pytest.raises(ValueError, match=r"without \[1, 2"):
        lesson_prose(tmp_path)


def test_a_copy_beside_a_lesson_is_no_lesson(tmp_path):
    for number in range(12):
        write(tmp_path / f"{number:02}_lesson.ipynb", f"Lesson {number}.")
    lessons = lesson_prose(tmp_path)
    for copy in ("02_lesson-Copy1", "02_lesson (1)", "02_lesson copy", "100_years"):
        write(tmp_path / f"{copy}.ipynb", "Mine.")
    assert lesson_prose(tmp_path) == lessons
    write(tmp_path / "02_mine.ipynb", "Mine.")
    with pytest.raises(ValueError, match=r"each lesson once, got .*02_lesson.ipynb', '02_mine"):
        lesson_prose(tmp_path)


@pytest.mark.parametrize("text", ["{}", "[]", "no JSON", '{"cells": [{}]}', '{"cells": 3}'])
def test_what_is_no_notebook_is_refused_by_its_name(tmp_path, text):
    for number in range(12):
        (tmp_path / f"{number:02}_lesson.ipynb").write_text(text)
    with pytest.raises(ValueError, match=r"00_lesson.ipynb must be a notebook"):
        lesson_prose(tmp_path)


def write(path, text):
    path.write_text(json.dumps({"cells": [{"cell_type": "markdown", "source": [text]}]}))
