"""Lesson 04's masks on real captions: the script translates as the lesson does, many at once."""

import json

import pytest
import torch

from benchmarks.lessons import l04_masks as masks
from benchmarks.lessons.lesson_code import lesson_code
from transformer_lab import load_run

ENGLISH = ["A woman gives a boy a red ball.", "Two dogs play in the snow.", "A cat is sitting."]


@pytest.mark.parametrize("causal", [True, False])
def test_captions_are_translated_as_in_the_lesson(causal):
    translate = lesson_code("04", "translate")["translate"]
    found = masks.translate_all(load_run(), ENGLISH, causal=causal)
    assert found == [translate(sentence, masked=causal) for sentence in ENGLISH]


def test_a_cache_and_hidden_pads_change_nothing_and_open_pads_do():
    run = load_run()
    masked = masks.translate_all(run, ENGLISH)
    assert masks.translate_all(run, ENGLISH, cached=True) == masked
    assert masks.translate_all(run, ENGLISH, pads=5) == masked
    assert masks.translate_all(run, ENGLISH, **masks.WAYS["20 pads, open"]) != masked


def test_captions_are_counted_by_their_length():
    pairs = [(" ".join("a" * words), "x y") for words in (3, 7, 8, 15)]
    row = masks.compare(pairs, ["x y"] * 4, ["x y", "x", "x z", "x y"])
    assert (row["captions"], row["differ"], row["shorter"], row["length"]) == (4, 2, 1, 7 / 8)
    counts = [(each["to"], each["captions"], each["differ"]) for each in row["by_length"]]
    assert counts == [(7, 2, 1), (9, 1, 1), (11, 0, 0), (14, 0, 0), (99, 1, 0)]


def test_words_are_whole_or_cut_to_every_length():
    code = masks.lesson()
    torch.manual_seed(0)
    assert {masks.words_for(code, "cut")().shape[1] for _ in range(100)} == set(range(2, 10))
    for _ in range(20):
        words = masks.words_for(code, "ended")()
        assert 3 <= words.shape[1] <= 10 and (words[:, -1] == masks.END).all()
        assert (words[:, :-1] != masks.END).all()
    assert masks.words_for(code, "whole")().shape == (32, 9)
    assert masks.words_for(code, "eight")().shape == (32, 8)


def test_letters_and_pads_are_measured_and_written(tmp_path, monkeypatch):
    monkeypatch.setattr(masks, "WAYS", {})  # the captions need a corpus
    masks.main(["--smoke", "--output", str(tmp_path)])
    rows = json.loads((tmp_path / "l04_masks.json").read_text())["rows"]
    letters = [row for row in rows if row["experiment"] == "letters"]
    assert [row["kind"] for row in letters] == list(masks.LETTERS)
    assert all(0 <= share <= 1 for row in letters for share in row["true"] + row["own"])
    hidden, opened = (row["by_length"] for row in rows if row["experiment"] == "pads")
    assert all(each["to_pads"] == 0 for each in hidden)
    assert all(0.2 < each["to_pads"] <= 1 for each in opened)  # two steps have taught nothing


def test_a_padded_word_says_how_much_of_it_is_one_letter():
    torch.manual_seed(0)
    words, shares = masks.padded_words(50, 12)
    for word, share in zip(words.tolist(), shares.tolist(), strict=True):
        letters = [letter for letter in word if letter]
        assert 3 <= len(letters) <= 8 and word == letters + [0] * (12 - len(letters))
        assert share == pytest.approx(letters.count(1) / len(letters))
