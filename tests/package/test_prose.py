"""The lessons' own prose as a corpus: what stays of a Markdown cell, and which lessons it has."""

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
