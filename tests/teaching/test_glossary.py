"""The glossary: complete, unambiguous, and the same in its data file and in glossary.md."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def glossary():
    file = ROOT / "teaching" / "glossary.py"
    spec = importlib.util.spec_from_file_location("glossary", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def terms(glossary):
    return glossary.read()


def test_glossary_md_is_made_from_the_data(glossary, terms):
    assert glossary.MADE.read_text("utf-8") == glossary.table(terms)


def test_no_word_means_two_terms(terms):
    forms = [form.lower() for term in terms for form in (term["en"], *term.get("also", []))]
    assert len(terms) >= 150
    assert sorted(forms) == sorted(set(forms))


def test_the_data_stand_in_the_order_of_the_alphabet(terms):
    text = (ROOT / "teaching" / "glossary.toml").read_text("utf-8")
    assert re.findall(r'^en = "(.+)"$', text, re.MULTILINE) == [term["en"] for term in terms]


def test_each_term_has_both_scripts_a_lesson_and_one_sentence(terms):
    known = {"en", "also", "hans", "hant", "lesson", "is", "common", "note"}
    for term in terms:
        assert set(term) <= known, term["en"]
        assert re.fullmatch("0[0-9]|1[0-3]", term["lesson"]), term["en"]
        assert re.fullmatch(r"(?:[^.]|\.(?=\S))+\.", term["is"]), term["en"]
        assert all(re.search("[\u4e00-\u9fff]", term[script]) for script in ("hans", "hant"))


def test_no_term_mixes_the_scripts(terms):
    """GB 2312 has no traditional characters, and Big5 no simplified ones."""
    for term in terms:
        term["hans"].encode("gb2312")
        term["hant"].encode("big5")
