"""Captions letter by letter: what is a letter, and what comes back."""

import pytest
import torch

from transformer_lab import PAD
from transformer_lab.data import caption_letters, letters


@pytest.fixture
def corpus(monkeypatch):
    sets = {"train": ["A dog.", "Two cats"], "val": ["A cat!"], "test2016": ["A hat\u2026"]}
    pairs = {name: [(text, "deutsch") for text in texts] for name, texts in sets.items()}
    monkeypatch.setattr(letters, "load_multi30k", lambda folder: pairs)
    return caption_letters()


def test_captions_come_back_with_a_line_break_around_each(corpus):
    assert corpus.decode(corpus.train) == "\nA dog.\nTwo cats\n"
    assert corpus.decode(corpus.valid) == "\nA cat!\n"
    assert corpus.decode(corpus.test) == "\nA hat\u2026\n"


def test_every_letter_of_the_three_sets_has_a_number_and_zero_is_left_to_pad(corpus):
    assert corpus.decode(torch.arange(1, corpus.vocab_size)) == corpus.alphabet
    assert {"!", "\u2026", "\n"} < set(corpus.alphabet)
    assert corpus.decode(torch.tensor([PAD, 1, PAD])) == corpus.alphabet[0]


def test_a_text_goes_there_and_back(corpus):
    assert corpus.decode(corpus.encode("Two dogs")) == "Two dogs"
    assert corpus.encode("").dtype == torch.long


def test_a_letter_that_no_caption_has_is_named(corpus):
    with pytest.raises(ValueError, match="letters of the captions, got 'Zz'"):
        corpus.encode("Too cats, z Z".replace(",", ""))
