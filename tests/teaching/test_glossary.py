"""The glossary: complete and unambiguous."""

import re

import pytest

from course.lessons import lessons
from teaching.book import glossary


@pytest.fixture(scope="module")
def terms():
    return glossary.read()


def test_no_word_means_two_terms(terms):
    forms = [form.lower() for term in terms for form in (term["en"], *term.get("also", []))]
    assert len(terms) >= 150
    assert sorted(forms) == sorted(set(forms))


def test_the_data_stand_in_the_order_of_the_alphabet(terms):
    text = glossary.WRITTEN.read_text("utf-8")
    assert re.findall(r'^en = "(.+)"$', text, re.MULTILINE) == [term["en"] for term in terms]


def test_each_term_has_every_language_a_lesson_and_one_sentence(terms):
    known = {"en", "also", *glossary.LANGUAGES, "lesson", "is", "common", "note"}
    for term in terms:
        assert set(glossary.LANGUAGES) <= set(term) <= known, term["en"]
        assert term["lesson"] in lessons(), term["en"]
        assert re.fullmatch(r"(?:[^.]|\.(?=\S))+\.", term["is"]), term["en"]
        assert all(re.search("[\u4e00-\u9fff]", term[script]) for script in ("hans", "hant"))


def test_another_language_is_a_key_in_each_term_and_a_line_in_the_list(terms, monkeypatch):
    monkeypatch.setitem(glossary.LANGUAGES, "fr", ("fr", "French"))
    page = glossary.page([term | {"fr": f"le {term['en']}"} for term in terms])
    assert "in English, simplified Chinese, traditional Chinese and French" in page
    assert all(f'<span lang="fr">le {term["en"]}</span>' in page for term in terms)


def test_a_word_that_two_languages_share_is_written_once(terms):
    same = next(term for term in terms if term["hans"] == term["hant"])
    assert glossary.page([same]).count(same["hans"]) == 1


def test_no_term_mixes_the_scripts(terms):
    """GB 2312 has no traditional characters, and Big5 no simplified ones."""
    for term in terms:
        term["hans"].encode("gb2312")
        term["hant"].encode("big5")
