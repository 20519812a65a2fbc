"""Sentences of one's own: a file of pairs is read, split, kept in the run and scored from there."""

import gzip
import os
import random
import shutil
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from transformer_lab import load_run, train
from transformer_lab.data import load_pairs, pairs, reading
from transformer_lab.data.pairs import keep_splits, kept_splits, split_pairs
from transformer_lab.data.reading import read_pairs
from transformer_lab.presets import fitted_settings
from transformer_lab.runs import find_preset
from transformer_lab.scoring import score
from transformer_lab.support.files import read_json, read_tensors
from transformer_lab.training import STATE

TINY = {"d_model": 16, "num_heads": 2, "d_ff": 16, "num_encoder_layers": 1, "num_decoder_layers": 1}
SHORT = TINY | {"steps": 6, "checkpoint_every": 2, "average": 2, "max_tokens": 200}
DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
NUMBERS = [(" ".join(DIGITS[int(d)] for d in str(n)), str(n)) for n in range(100, 160)]


def text_of(some_pairs) -> str:
    return "".join(f"{source}\t{target}\n" for source, target in some_pairs)


def weights_of(folder: Path) -> dict:
    return read_tensors(folder / "weights.safetensors")[0]


@pytest.fixture
def file(tmp_path) -> Path:
    """A file of sixty numbers in words."""
    path = tmp_path / "numbers.tsv"
    path.write_text(text_of(NUMBERS))
    return path


# ---- Reading


def test_a_file_reads_the_same_gzipped_with_a_bom_and_with_the_line_ends_of_windows(tmp_path):
    text = " a dog\tein Hund\nétés\tÄpfel \n"
    path = tmp_path / "any name"
    for content in (
        text.encode(),
        text.rstrip("\n").encode(),
        text.encode("utf-8-sig"),
        text.replace("\n", "\r\n").encode("utf-8-sig"),
        (text + "\n\r\n").encode(),
        gzip.compress(text.encode()),
    ):
        path.write_bytes(content)
        assert read_pairs(path) == ([("a dog", "ein Hund"), ("étés", "Äpfel")], [])


def test_only_a_newline_ends_a_line(tmp_path):
    (tmp_path / "odd").write_text("a\u2028b\tc\x85d\ne\x0cf\tg\x1eh\n", newline="\n")
    assert read_pairs(tmp_path / "odd")[0] == [("a b", "c d"), ("e f", "g h")]


BAD_LINES = "no tab\n\na\tb\tc\n\tempty\nempty\t \n" + "x" * 1001 + "\tlong\n"


def test_up_to_one_line_in_a_hundred_may_be_bad_and_is_counted(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text(text_of(NUMBERS[:50]) + BAD_LINES + text_of([("a", "b")] * 544))
    good, (note,) = read_pairs(path)
    assert good == NUMBERS[:50] + [("a", "b")] * 544
    assert "6 of 600 lines that are not: 2 without a tab (line 51, 52)" in note
    assert "1 with more than one tab (line 53), 2 with an empty side (line 54, 55)" in note
    assert "1 with a side above 1,000 characters (line 56); they are left out" in note
    path.write_text(text_of(NUMBERS[:50]) + BAD_LINES + text_of([("a", "b")] * 543))
    with pytest.raises(ValueError, match=r"6 of 599 lines.*line 51, 52.*skip_bad leaves them out"):
        read_pairs(path)
    assert read_pairs(path, skip_bad=True)[0] == NUMBERS[:50] + [("a", "b")] * 543


def test_of_many_bad_lines_the_first_five_are_shown(tmp_path):
    (tmp_path / "words").write_text("word\n" * 1200)
    with pytest.raises(ValueError, match=r"1,200 without a tab \(line 1, 2, 3, 4, 5, …\)"):
        read_pairs(tmp_path / "words")


@pytest.mark.parametrize("skip_bad", [False, True])
def test_nobody_is_told_to_leave_out_every_line(tmp_path, skip_bad):
    (tmp_path / "columns").write_text("a\tb\tby whom\n" * 20)
    with pytest.raises(ValueError, match="no pair is left") as caught:
        read_pairs(tmp_path / "columns", skip_bad=skip_bad)
    assert "skip_bad" not in str(caught.value)


def test_a_gzip_bomb_is_not_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "MAX_BYTES", 1000)
    (tmp_path / "bomb").write_bytes(gzip.compress(b"0" * 1_000_000))
    with pytest.raises(ValueError, match="must hold at most 1,000 bytes, got more"):
        read_pairs(tmp_path / "bomb")


DAMAGED = {"its first bytes": b"\x1f\x8b", "cut short": gzip.compress(b"a\tb\n" * 99)[:-9]}


@pytest.mark.parametrize("damage", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_archive_is_named(tmp_path, damage):
    (tmp_path / "pairs.gz").write_bytes(damage)
    with pytest.raises(ValueError, match=r"pairs\.gz must be a file that can be read, got"):
        read_pairs(tmp_path / "pairs.gz")


def test_what_never_ends_is_not_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match=r"pipe must be a file .* got no file"):
        read_pairs(tmp_path / "pipe")


# ---- Splitting

LETTERS = st.text("abcdefg", min_size=1, max_size=2)
ANY_PAIRS = st.lists(st.tuples(LETTERS, LETTERS), min_size=1, max_size=300)


@given(ANY_PAIRS)
def test_every_pair_is_in_one_split_with_all_that_have_its_source(some_pairs):
    splits = split_pairs(some_pairs, ["val", "test"])
    assert sorted(pair for split in splits.values() for pair in split) == sorted(some_pairs)
    sources = [{source for source, _ in split} for split in splits.values()]
    assert sum(map(len, sources)) == len({source for source, _ in some_pairs})


@given(ANY_PAIRS, st.randoms(use_true_random=False))
def test_the_order_of_the_lines_does_not_change_the_splits(some_pairs, rng):
    shuffled = rng.sample(some_pairs, len(some_pairs))
    ours, theirs = (split_pairs(lines, ["test"]) for lines in (some_pairs, shuffled))
    assert {n: sorted(p) for n, p in ours.items()} == {n: sorted(p) for n, p in theirs.items()}


@pytest.mark.parametrize(("count", "held_out"), [(10, 1), (60, 6), (9999, 999), (30_000, 1000)])
def test_a_tenth_is_held_out_twice_and_at_most_a_thousand(count, held_out):
    splits = split_pairs([(str(i), "x") for i in range(count)], ["val", "test"])
    sizes = {name: len(split) for name, split in splits.items()}
    assert sizes == {"train": count - 2 * held_out, "val": held_out, "test": held_out}


def test_the_same_file_gives_the_same_splits_on_every_machine(file):
    splits, notes = load_pairs(file)
    assert list(splits) == ["train", "val", "test"] and notes == []
    assert [target for _, target in splits["test"]] == ["105", "110", "114", "128", "130", "133"]


def test_files_that_are_given_are_taken_as_they_are_and_what_they_repeat_is_counted(file, tmp_path):
    (tmp_path / "valid").write_text(text_of([("new", "1"), NUMBERS[7]]))
    (tmp_path / "test").write_text(text_of([NUMBERS[7], NUMBERS[8], ("new", "2")] * 2))
    splits, notes = load_pairs(file, valid=tmp_path / "valid", test=tmp_path / "test")
    assert splits["train"] == NUMBERS and splits["val"] == [("new", "1"), NUMBERS[7]]
    assert splits["test"] == [NUMBERS[7], NUMBERS[8], ("new", "2")] * 2
    val, test, both = notes
    assert val.startswith("1 of the 2 pairs of val also stand in train")
    assert test.startswith("4 of the 6 pairs of test also stand in train")
    assert both.startswith("2 of the 6 pairs of test also stand in val")


def test_only_what_is_not_given_is_split_off(file, tmp_path):
    (tmp_path / "test").write_text("new\t1\n")
    splits, notes = load_pairs(file, test=tmp_path / "test")
    assert [len(splits[name]) for name in ("train", "val", "test")] == [54, 6, 1]
    assert notes == []


# ---- What a run keeps


def test_what_is_kept_comes_back_to_the_letter(tmp_path):
    odd = [("a\u2028b \r c", "\ufeffx\x85"), ("語", "🙂 ▁")]
    splits = {"train": odd, "val": odd[:1], "test": odd[1:]}
    keep_splits(tmp_path, splits)
    assert kept_splits(tmp_path) == splits


def test_other_pairs_are_refused_and_the_kept_ones_stay(tmp_path):
    splits = {"train": NUMBERS[:8], "val": NUMBERS[8:9], "test": NUMBERS[9:10]}
    keep_splits(tmp_path, splits)
    with pytest.raises(ValueError, match=r"other pairs, got a file that changes \['test'\]"):
        keep_splits(tmp_path, splits | {"test": NUMBERS[10:11]})
    assert kept_splits(tmp_path) == splits


def test_a_writer_that_dies_leaves_nothing_that_counts_as_kept(tmp_path, monkeypatch):
    replaced = []

    def die_at_the_last(*paths):
        replaced.append(paths)
        if len(replaced) == 4:
            raise OSError(28, "No space left on device")
        real(*paths)

    real = os.replace
    monkeypatch.setattr(os, "replace", die_at_the_last)
    splits = {"train": NUMBERS[:8], "val": NUMBERS[8:9], "test": NUMBERS[9:10]}
    with pytest.raises(OSError, match="No space"):
        keep_splits(tmp_path, splits)
    assert not pairs.holds_splits(tmp_path)
    others = splits | {"test": NUMBERS[10:11]}
    keep_splits(tmp_path, others)
    assert kept_splits(tmp_path) == others


@pytest.mark.parametrize("name", ["train.tsv", "val.tsv", "test.tsv", "splits.json"])
@pytest.mark.parametrize("damage", ["changed", "cut", "missing", "pipe", "random"])
def test_kept_pairs_that_were_touched_are_refused_by_name(tmp_path, name, damage):
    keep_splits(tmp_path, {"train": NUMBERS[:8], "val": NUMBERS[8:9], "test": NUMBERS[9:10]})
    path = tmp_path / "pairs" / name
    whole = path.read_bytes()
    path.unlink()
    if damage == "pipe":
        os.mkfifo(path)
    elif damage != "missing":
        path.write_bytes(
            {
                "changed": whole.replace(b"1", b"2"),
                "cut": whole[:-3],
                "random": random.Random(0).randbytes(200),
            }[damage]
        )
    with pytest.raises(ValueError, match=r"\.tsv|splits\.json") as caught:
        kept_splits(tmp_path)
    assert "\n" not in str(caught.value)


# ---- Sizes


def fitted_to(some_pairs) -> tuple[int, dict]:
    """Return the number of merges, and the other settings that are fitted."""
    settings = fitted_settings(some_pairs)
    sizes = {settings.pop("source_vocab_size"), settings.pop("target_vocab_size")}
    letters = set("".join(source + target for source, target in some_pairs)) - {" "}
    return sizes.pop() - (4 + 1 + len(letters)), settings


def test_short_pairs_are_read_in_characters_and_long_ones_in_pieces_by_a_wider_model():
    long = [(f"{'some words ' * 5}{i}", f"{'andere Worte ' * 5}{i}") for i in range(10_000)]
    assert fitted_to(NUMBERS) == (0, {})
    merges, settings = fitted_to(long[:800])
    assert merges == 400 and settings["d_model"] == 128
    merges, settings = fitted_to(long)
    assert merges == 4000 and settings["d_model"] == 192


def test_what_is_fitted_makes_a_model():
    for pair in ((text, text) for text in ("short", "long " * 20)):
        sizes = find_preset("pairs", fitted_settings([pair] * 10_000)).model
        assert sizes.d_model % sizes.num_heads == 0


# ---- Runs


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A folder with a finished run, and without the file that it was made from."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "numbers.tsv").write_text(text_of(NUMBERS))
    train("pairs", folder / "run", data=folder / "numbers.tsv", progress=False, **SHORT)
    (folder / "numbers.tsv").unlink()
    return folder / "run"


def test_a_run_is_whole_by_itself(whole, file):
    run = load_run(whole)
    assert isinstance(run.translate("one two three"), str)
    held_out = load_pairs(file)[0]["test"]
    outputs = run.translate([source for source, _ in held_out])
    scores = score("pairs", outputs, [target for _, target in held_out])
    assert run.evaluate() == {"test": scores} == read_json(whole / "metrics.json")["scores"]


def test_pairs_are_scored_by_exact_match_bleu_and_chrf_with_signatures():
    right, half = ["ein Hund", "7"], ["ein Hund", "8"]
    scores = score("pairs", right, right)
    assert scores["exact_match"] == 1 and scores["chrf"] == 100
    assert scores["bleu"] == pytest.approx(100), "no reference is as long as four words"
    assert "eff:yes|tok:13a" in scores["signature"] and "nc:6" in scores["chrf_signature"]
    assert score("pairs", half, right)["exact_match"] == 0.5


def test_a_run_is_never_scored_on_pairs_that_it_did_not_hold_out(whole, tmp_path):
    folder = shutil.copytree(whole, tmp_path / "run")
    shutil.copy(folder / "pairs/train.tsv", folder / "pairs/test.tsv")
    with pytest.raises(ValueError, match=r"test\.tsv must be as the run wrote it"):
        load_run(folder).evaluate()


def test_a_longer_run_goes_on_with_the_file_packed_moved_or_gone(whole, tmp_path):
    moved = tmp_path / "moved.gz"
    moved.write_bytes(gzip.compress(text_of(NUMBERS).encode()))
    weights = []
    for data in (moved, None):
        folder = shutil.copytree(whole, tmp_path / f"run {data is None}")
        train("pairs", folder, data=data, progress=False, **SHORT | {"steps": 8})
        weights.append(weights_of(folder))
        assert read_json(folder / "metrics.json")["steps"] == 8
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_a_changed_file_is_refused_when_the_run_goes_on(whole, tmp_path):
    (tmp_path / "more.tsv").write_text(text_of([*NUMBERS, ("nine", "9")]))
    with pytest.raises(ValueError, match="was started with other pairs, got a file that changes"):
        train("pairs", whole, data=tmp_path / "more.tsv", progress=False, **SHORT)


def test_a_run_on_something_else_is_left_alone(file, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / STATE).write_bytes(b"of dates")
    with pytest.raises(ValueError, match="a run on pairs, got a run on something else"):
        train("pairs", tmp_path / "run", data=file, progress=False)
    assert [path.name for path in (tmp_path / "run").iterdir()] == [STATE]


def test_notes_are_warnings_unless_someone_listens(file, tmp_path):
    notes = []
    for name in ("valid", "test"):
        (tmp_path / name).write_text(text_of([(name, "1"), NUMBERS[0]]))
    files = {"data": file, "valid": tmp_path / "valid", "test": tmp_path / "test"}
    settings = {"progress": False} | SHORT | {"steps": 1}
    with pytest.warns(UserWarning) as warned:
        train("pairs", tmp_path / "loud", **files, **settings)
    train("pairs", tmp_path / "run", on_note=notes.append, **files, **settings)
    assert [str(warning.message) for warning in warned] == notes
    assert [note.split(":")[0] for note in notes] == [
        "1 of the 2 pairs of val also stand in train",
        "1 of the 2 pairs of test also stand in train",
        "1 of the 2 pairs of test also stand in val",
    ]


def test_what_is_given_counts_more_than_what_fits(whole, file, tmp_path):
    size = load_run(whole).tokenizer.vocab_size + 3
    given = SHORT | {"steps": 1, "source_vocab_size": size, "target_vocab_size": size}
    run = train("pairs", tmp_path / "run", data=file, progress=False, **given)
    assert run.tokenizer.vocab_size == size and run.model.config.d_model == 16
