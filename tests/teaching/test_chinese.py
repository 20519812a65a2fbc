"""The Chinese pages: each row leads somewhere, says what the lesson says, and nothing is stale."""

import re

import pytest

from course.lessons import lessons
from teaching.book import chinese

ROWS = chinese.rows()


def test_nothing_is_translated_from_an_older_english_text():
    todo = [f"lesson {number}: {text}" for number, text in chinese.stale()]
    todo += [f"{claim.number}: {row['verdict']}" for row, claim in chinese.stale_rows()]
    assert not todo, f"python teaching/book/chinese.py prints these {len(todo)}:\n" + todo[0]


def test_no_translation_is_of_a_text_that_is_gone():
    for number, lesson in lessons().items():
        here = {chinese.mark(t) for texts in chinese.texts_of(lesson).values() for t in texts}
        assert set(chinese.translations(number)) <= here, f"lesson {number}"


def test_a_changed_word_makes_a_translation_stale(monkeypatch):
    lesson = lessons()["02"]
    before = [*chinese.stale()]
    monkeypatch.setattr(lesson.path, "text", lesson.path.text.replace("opening the best", "taking"))
    (new,) = [number for number, text in chinese.stale() if (number, text) not in before]
    assert new == "02"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["says"][:12])
def test_a_row_leads_to_a_section_and_says_its_verdict(row):
    assert set(row["notes"]) <= set(chinese.read()["notes"]) and row["notes"]
    assert chinese.place(row).count("](") == 1
    claims = {c.number: (c.verdict, n) for n, each in lessons().items() for c in each.claims}
    if "claim" in row:
        assert (row["is"], row["at"][:2]) == claims[row["claim"]]
    assert row["is"] in chinese.VERDICTS
    assert "|" not in row["says"] + row["verdict"]
    assert re.search(r"[\u4e00-\u9fff]", row["verdict"])


def test_every_claim_of_the_course_has_a_row():
    claims = {claim.number for lesson in lessons().values() for claim in lesson.claims}
    assert claims == {row["claim"] for row in ROWS if "claim" in row}


def test_what_is_written_is_simplified_and_what_is_made_traditional():
    """GB 2312 has no traditional characters, and Big5 no simplified ones."""
    for path, page in chinese.pages().items():
        code = {"hans": "gb2312", "hant": "big5"}[path.parts[0]]
        characters = {c for c in page if "\u4e00" <= c <= "\u9fff"}
        other = [c for c in characters if not c.encode(code, "ignore")]
        assert not other, f"{path}: {other}"


@pytest.mark.parametrize(
    ("hans", "hant"),
    [
        ("循环神经网络的参数", "循環神經網路的參數"),
        ("掩码语言模型的概率", "遮罩語言模型的機率"),
        ("激活函数和优化器", "激活函數和最佳化器"),
        ("默认的信息", "預設的資訊"),
    ],
)
def test_terms_are_those_that_go_with_the_characters(hans, hant):
    assert chinese.traditional(hans) == hant
