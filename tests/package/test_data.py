"""Batches, bucketing by length, dates and Multi30k."""

import os
import random
import re
from collections import Counter
from dataclasses import FrozenInstanceError
from datetime import date, timedelta
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from transformer_lab.config import BOS, EOS, PAD
from transformer_lab.data import Batch, batches_by_tokens, date_pairs, load_multi30k
from transformer_lab.data.dates import FIRST_DAY, LAST_DAY, _days
from transformer_lab.data.multi30k import MULTI30K_SPLITS


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


# ---------------------------------------------------------------------------------- batches

PAIRS = [([7, 8, EOS], [9, EOS]), ([6, EOS], [4, 5, 6, EOS])]


def test_a_batch_pads_and_puts_bos_before_the_targets():
    batch = Batch.from_pairs(PAIRS)
    assert batch.source.tolist() == [[7, 8, EOS], [6, EOS, PAD]]
    assert batch.target.tolist() == [[BOS, 9, EOS, PAD, PAD], [BOS, 4, 5, 6, EOS]]
    assert batch.source.dtype == batch.target.dtype == torch.int64


def test_the_decoder_reads_each_target_one_step_before_it_predicts_it():
    batch = Batch.from_pairs(PAIRS)
    assert batch.target_in.tolist() == [[BOS, 9, EOS, PAD], [BOS, 4, 5, 6]]
    assert batch.target_out.tolist() == [[9, EOS, PAD, PAD], [4, 5, 6, EOS]]


def test_num_tokens_counts_what_must_be_predicted():
    assert Batch.from_pairs(PAIRS).num_tokens == 2 + 4


def test_a_batch_moves_to_a_device_whole():
    moved = Batch.from_pairs(PAIRS).to("meta")
    assert moved.source.is_meta and moved.target.is_meta


def test_a_batch_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        Batch.from_pairs(PAIRS).source = torch.zeros(2, 3, dtype=torch.int64)


# ----------------------------------------------------------------------------- batch sizes

LENGTHS = st.lists(st.integers(1, 30), max_size=60)
PAIR_LENGTHS = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), max_size=60)
GENERATORS = st.none() | st.integers(0, 100).map(seeded)


def width(length) -> int:
    return max(length) if isinstance(length, tuple) else length


@given(LENGTHS | PAIR_LENGTHS, st.integers(30, 200), GENERATORS)
def test_every_sentence_is_in_one_batch_and_no_batch_is_too_large(lengths, max_tokens, generator):
    batches = batches_by_tokens(lengths, max_tokens, generator=generator)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        assert batch and len(batch) * max(width(lengths[i]) for i in batch) <= max_tokens


@given(LENGTHS | PAIR_LENGTHS, st.integers(30, 200), GENERATORS)
def test_batches_hold_neighbours_in_length(lengths, max_tokens, generator):
    batches = batches_by_tokens(lengths, max_tokens, generator=generator)
    spans = sorted((min(lengths[i] for i in b), max(lengths[i] for i in b)) for b in batches)
    for (_, longest), (shortest, _) in pairwise(spans):
        assert longest <= shortest, "two batches may share a length, not a range of lengths"


@given(LENGTHS, st.integers(30, 200))
def test_no_batch_ends_before_it_is_full(lengths, max_tokens):
    for batch, following in pairwise(batches_by_tokens(lengths, max_tokens)):
        assert (len(batch) + 1) * lengths[following[0]] > max_tokens


def test_without_a_generator_batches_are_sorted_and_ties_keep_their_order():
    assert batches_by_tokens([3, 1, 3, 2, 1], 6) == [[1, 4, 3], [0, 2]]
    assert batches_by_tokens([(2, 9), (2, 1), (1, 5)], 10) == [[2, 1], [0]]
    assert batches_by_tokens([], 10) == []


def test_the_generators_seed_alone_decides_the_order():
    lengths = [random.Random(0).randint(5, 9) for _ in range(200)]
    state = torch.get_rng_state()
    first = batches_by_tokens(lengths, 50, generator=seeded(1))
    assert torch.equal(state, torch.get_rng_state()), "the global random state is not touched"
    torch.manual_seed(7)
    assert first == batches_by_tokens(lengths, 50, generator=seeded(1))
    assert first != batches_by_tokens(lengths, 50, generator=seeded(2))


def test_a_generator_shuffles_equal_lengths_and_the_batches():
    lengths = [5] * 40 + [6] * 40
    generator = seeded(0)
    first, second = (batches_by_tokens(lengths, 30, generator=generator) for _ in range(2))
    assert {frozenset(batch) for batch in first} != {frozenset(batch) for batch in second}
    longest = [max(lengths[i] for i in batch) for batch in first]
    assert longest != sorted(longest)


# ------------------------------------------------------------------------------------ dates

MONTHS = "january february march april may june july august september october november december"
DAYS = "monday tuesday wednesday thursday friday saturday sunday"


def read(written: str) -> str:
    """The ISO date in an English or all-numeric form, read without the package's help."""
    words = re.findall(r"[a-z]+|\d+", written.casefold())
    numbers = [int(word) for word in words if word.isdigit()]
    if len(numbers) == 3:
        assert len(words) == 3, f"{written} is not numbers alone"
        day, month, year = numbers
    else:
        (day, year), names = numbers, [word for word in words if not word.isdigit()]
        month = [name.startswith(names[-1]) for name in MONTHS.split()].index(True) + 1
        if len(names) == 2:
            assert DAYS.split()[date(year, month, day).weekday()].startswith(names[0])
    return date(year, month, day).isoformat()


@pytest.mark.parametrize("split", ["train", "test"])
def test_every_written_date_means_its_iso_date(split):
    for written, iso in date_pairs(5000, 0, split=split):
        assert read(written) == iso, written


def test_written_forms_are_many():
    def shape(written):  # "FRI, APR 5, 1963" and "MON, MAY 4, 1998" have one shape
        return re.sub(r"\d+", "0", re.sub(r"[a-z]+", "a", re.sub(r"[A-Z]+", "A", written)))

    pairs = date_pairs(5000, 0)
    shapes = Counter(shape(written) for written, _ in pairs)
    assert len(shapes) == 6 * 3 + 3, "six forms with names in three cases, and three in numbers"
    assert {"0/0/0", "0-0-0", "0.0.0", "a 0 a 0", "A 0, 0", "0 Aa 0", "Aa, Aa 0, 0"} <= set(shapes)
    numeric = sum(count for shape, count in shapes.items() if not re.search("[aA]", shape))
    assert 0.2 < numeric / len(pairs) < 0.3
    cases = Counter((w.islower(), w.isupper()) for w, _ in pairs if re.search("[a-zA-Z]", w))
    assert min(cases.values()) > 1000


def test_days_cover_two_centuries_evenly():
    days = [date.fromisoformat(iso) for _, iso in date_pairs(20_000, 3)]
    assert {day.year for day in days} == set(range(1900, 2101))
    assert min(Counter(day.month for day in days).values()) > 1200
    assert {day.day for day in days} == set(range(1, 32))


def test_every_day_is_for_training_or_for_testing_a_tenth_of_them():
    train, test = (set(_days(split)) for split in ("train", "test"))
    whole = (LAST_DAY - FIRST_DAY).days + 1
    assert train | test == {FIRST_DAY + timedelta(days) for days in range(whole)}
    assert not train & test
    assert 0.09 < len(test) / whole < 0.11
    for split, days in (("train", train), ("test", test)):
        assert {date.fromisoformat(iso) for _, iso in date_pairs(2000, 0, split=split)} <= days


def test_dates_depend_on_the_seed_alone():
    random.seed(0)
    first = date_pairs(100, 5)
    random.seed(1)
    assert date_pairs(100, 5) == first == date_pairs(200, 5)[:100]
    assert date_pairs(100, 6) != first


@pytest.mark.usefixtures("without_shape_checks")  # which draw random numbers of their own
def test_dates_leave_the_random_state_alone():
    state = random.getstate()
    date_pairs(100, 5)
    assert random.getstate() == state


@pytest.mark.parametrize(
    ("locale", "word"),
    [("de", "februar"), ("fr", "février"), ("pt_BR", "fevereiro"), ("ja", "2月")],
)
def test_other_locales_write_their_own_months(locale, word):
    pairs = date_pairs(2000, 0, locale=locale)
    assert any(word in written.lower() and iso[5:7] == "02" for written, iso in pairs)
    assert not any(word in written.lower() and iso[5:7] == "03" for written, iso in pairs)
    for written, iso in pairs:
        assert str(int(iso[:4])) in written
        if not any(map(str.isalpha, written)):
            assert read(written) == iso, "numbers alone are day first in every locale"


def test_a_locale_can_be_named_with_a_hyphen():
    assert date_pairs(50, 0, locale="pt-BR") == date_pairs(50, 0, locale="pt_BR")


# --------------------------------------------------------------------------------- Multi30k


@pytest.mark.skipif("TRANSFORMER_LAB_DATA" not in os.environ, reason="needs the Multi30k files")
@pytest.mark.parametrize("variant", ["raw", "tok"])
def test_multi30k_has_its_published_sizes(variant, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    pairs = load_multi30k(variant)
    sizes = {"train": 29_000, "val": 1014, "test2016": 1000, "test2017": 1000, "mscoco": 461}
    assert {split: len(rows) for split, rows in pairs.items()} == sizes
    assert list(pairs) == list(MULTI30K_SPLITS)
    assert all("\n" not in text for rows in pairs.values() for pair in rows for text in pair)
    english, german = pairs["train"][0]
    assert english.lower().startswith("two young") and german.lower().startswith("zwei junge")
    assert list(tmp_path.iterdir()) == [], "nothing is written when the files are there"


# -------------------------------------------------------------------------------- bad input


IDS = torch.ones(2, 3, dtype=torch.int64)

BAD = {
    "no pairs": (lambda: Batch.from_pairs([]), "at least one pair of sentences, got none"),
    "empty source": (lambda: Batch.from_pairs([([2], [2]), ([], [2])]), "pair 1 must be"),
    "empty target": (lambda: Batch.from_pairs([([2], [])]), "pair 0 must be .* at least EOS"),
    "three sentences": (lambda: Batch.from_pairs([([2], [2], [2])]), "pair 0 must be"),
    "sentences not in pairs": (lambda: Batch.from_pairs([[5, 2]]), "pair 0 must be"),
    "texts": (lambda: Batch.from_pairs([("ab", "cd")]), "pair 0 must be"),
    "fractions as ids": (lambda: Batch.from_pairs([([1.5], [2])]), "pair 0 must be"),
    "rank": (lambda: Batch(IDS[0], IDS), r"source must be .* got shape \(3,\)"),
    "dtype": (
        lambda: Batch(IDS, IDS.float()),
        "target must hold integer ids .* got torch.float32",
    ),
    "sentences": (lambda: Batch(IDS, IDS[:1]), "same number of sentences.* got 2 and 1"),
    "empty batch": (lambda: Batch(IDS[:0], IDS[:0]), "at least one, got 0 and 0"),
    "sentence too long": (lambda: batches_by_tokens([3, 9], 8), "got 9 for sentence 1"),
    "too long by one entry": (lambda: batches_by_tokens([(3, 9)], 8), "got 9 for sentence 0"),
    "length zero": (
        lambda: batches_by_tokens([3, 0], 8),
        "from 1 to .* got 0 for sentence 1",
    ),
    "no tokens": (lambda: batches_by_tokens([3], 0), "from 1 to max_tokens=0, got 3"),
    "count zero": (lambda: date_pairs(0, 0), "count must be .* from 1, got 0"),
    "count not whole": (lambda: date_pairs(1.5, 0), r"count must be a whole .* got 1\.5"),
    "no seed": (lambda: date_pairs(1, None), "seed must be .* from 0, got None"),
    "negative seed": (lambda: date_pairs(1, -1), "seed must be .* from 0, got -1"),
    "split": (lambda: date_pairs(1, 0, split="val"), "split must be .* got 'val'"),
    "locale": (lambda: date_pairs(1, 0, locale="xx"), "locale must be .* got 'xx'"),
    "locale in words": (lambda: date_pairs(1, 0, locale="a b"), "locale must .* got 'a b'"),
    "no locale": (lambda: date_pairs(1, 0, locale=None), "locale must be .* got 'None'"),
    "empty locale": (lambda: date_pairs(1, 0, locale=""), "locale must be .* got ''"),
}


@pytest.mark.usefixtures("without_shape_checks")  # which would come first
@pytest.mark.parametrize(("call", "message"), BAD.values(), ids=BAD)
def test_bad_input_is_named_in_one_sentence(call, message):
    with pytest.raises(ValueError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
