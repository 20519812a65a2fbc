"""Damaged, foreign or hostile run folders: `ValueError` in one sentence, nothing executed."""

import json
import os
import pickle
import random
import shutil
import struct
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from transformer_lab import (
    ModelConfig,
    TrainConfig,
    Transformer,
    fit,
    load,
    load_run,
    save,
    train_tokenizer,
)
from transformer_lab.runs import METRICS, PRETRAINED, TOKENIZER
from transformer_lab.support.files import read_tensors, write_tensors
from transformer_lab.training import STATE

# A user has no run-time shape checks: what is tested is the package's own refusal.
pytestmark = pytest.mark.usefixtures("without_shape_checks")

TEXTS = ["a b c d e f", "1 2 3 4 5 6"]


@pytest.fixture(scope="module")
def good(tmp_path_factory) -> Path:
    """A whole run folder."""
    folder = tmp_path_factory.mktemp("run")
    tokenizer = train_tokenizer(TEXTS, kind="characters")
    size = tokenizer.vocab_size
    config = ModelConfig(
        source_vocab_size=size,
        target_vocab_size=size,
        d_model=8,
        num_heads=2,
        d_ff=12,
        num_encoder_layers=1,
        num_decoder_layers=1,
        max_length=16,
        tie_embeddings=True,
    )
    save(Transformer(config), folder)
    tokenizer.save(folder / TOKENIZER)
    (folder / METRICS).write_text('{"data": "dates", "beam": 1, "length_penalty": 0.6}')
    return folder


@pytest.fixture
def run(good, tmp_path) -> Path:
    """A copy of the whole folder, to be damaged."""
    return Path(shutil.copytree(good, tmp_path / "run"))


def refuses(folder: Path, loader=load_run) -> str:
    """Return the sentence with which a folder is refused: soon, taking no memory, in one line."""
    start = time.perf_counter()
    with pytest.raises(ValueError) as caught, little_memory():
        loader(folder)
    assert time.perf_counter() - start < 5
    message = str(caught.value)
    assert "\n" not in message.strip() and len(message) < 600
    return message


@contextmanager
def little_memory(megabytes: int = 400):
    """Assert that no more was in use at any time than at the start, and so much (on Linux)."""

    def status(field: str) -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) // 1024 for line in lines if line.startswith(field))

    if not os.access("/proc/self/clear_refs", os.W_OK):
        yield
        return
    Path("/proc/self/clear_refs").write_text("5")  # let the high-water mark start from here
    start = status("VmRSS")
    try:
        yield
    finally:
        assert status("VmHWM") - start < megabytes


def test_what_takes_memory_is_seen_to():
    with pytest.raises(AssertionError), little_memory(100):
        torch.ones(64_000_000)


def change_config(folder: Path, **changes) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))


def test_the_whole_folder_loads(run):
    assert isinstance(load_run(run).translate("a b"), str)


@pytest.mark.parametrize("name", ["weights.safetensors", "config.json", TOKENIZER, METRICS])
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0",
        b"<html>404</html>",
        b"[]",
        b"null",
        random.Random(0).randbytes(2000),
        b"{" * 100_000,
        b'{"a": 1}',
    ],
    ids=["empty", "zero", "html", "list", "null", "random", "nested", "other"],
)
def test_foreign_content_is_refused_and_the_file_is_named(run, name, content):
    (run / name).write_bytes(content)
    assert name in refuses(run)


@pytest.mark.parametrize("name", ["weights.safetensors", "config.json", TOKENIZER])
def test_every_truncation_is_refused(run, name):
    whole = (run / name).read_bytes().rstrip()
    for end in {0, 1, 7, 8, 9, 100, len(whole) // 2, len(whole) - 1}:
        (run / name).write_bytes(whole[:end])
        refuses(run)


def flip(path: Path, at: int, bits: int = 0b100) -> None:
    """Change some bits of a byte of the numbers, `at` bytes before the end of the file."""
    content = bytearray(path.read_bytes())
    content[-at] ^= bits
    path.write_bytes(content)


@pytest.mark.parametrize("at", [1, 4, 700])
def test_a_flipped_bit_in_the_weights_is_refused(run, at):
    flip(run / "weights.safetensors", at)
    assert "its checksum is wrong" in refuses(run)


@pytest.mark.parametrize("name", [".", "dates_0", "dates_1", "dates_2"])
def test_a_flipped_bit_in_weights_that_come_with_the_course_is_refused(name, tmp_path):
    folder = shutil.copytree(PRETRAINED / name, tmp_path / "copy")
    load_run(folder)
    flip(folder / "weights.safetensors", 1234)
    assert "its checksum is wrong" in refuses(folder)


def test_new_weights_may_replace_those_that_came_with_a_sum(tmp_path):
    folder = shutil.copytree(PRETRAINED / "dates_0", tmp_path / "copy")
    save(load(folder), folder)
    load_run(folder)


@pytest.mark.parametrize("name", ["weights.safetensors", "config.json", TOKENIZER, METRICS])
def test_a_missing_file_is_named(run, name):
    (run / name).unlink()
    assert name in refuses(run)


@pytest.mark.parametrize("name", ["weights.safetensors", "config.json", TOKENIZER, METRICS])
@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo], ids=["directory", "fifo"])
def test_what_is_no_file_is_refused_and_does_not_hang(run, name, make):
    (run / name).unlink()
    make(run / name)
    refuses(run)


class Bomb:
    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


@pytest.mark.parametrize("write", [pickle.dump, torch.save], ids=["pickle", "torch"])
@pytest.mark.parametrize("name", ["weights.safetensors", "config.json", TOKENIZER])
def test_a_pickle_is_refused_and_not_executed(run, tmp_path, name, write):
    with open(run / name, "wb") as file:
        write(Bomb(tmp_path / "executed"), file)
    refuses(run)
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize(
    "changes",
    [
        {"d_model": 10**6},
        {"source_vocab_size": 10**7, "target_vocab_size": 10**7},
        {"d_ff": 10**6},
        {"max_length": 10**6, "d_model": 1000},
        {"num_encoder_layers": 256},
        {"num_encoder_layers": 10**9},
        {"d_model": 10**30},
        {"d_model": "8"},
        {"d_model": 8.0},
        {"d_model": None},
        {"d_model": -8},
        {"d_model": True},
        {"dropout": "nan"},
        {"dropout": 10**400},
        {"dropout": "x" * 10_000},
        {"x" * 10_000: 1},
        {f"unknown_{i}": i for i in range(1000)},
        {"tie_embeddings": 1},
        {"num_heads": 3},
        {"unknown": 1},
        {"__class__": "os.system"},
    ],
    ids=lambda changes: str(changes)[:50],
)
def test_a_config_that_lies_is_refused_without_taking_its_memory(run, changes):
    change_config(run, **changes)
    refuses(run, load)


def test_a_table_of_positions_as_large_as_a_config_may_ask_for_is_no_danger(run):
    """`max_length` is in no weight, so a config may lie about it: up to a bound."""
    change_config(run, max_length=10**6)  # 1,000,000 × 8 numbers
    with little_memory():
        assert load(run).config.max_length == 10**6
    change_config(run, max_length=2**22)
    assert "max_length" in refuses(run, load)


def test_of_a_setting_that_comes_twice_the_last_counts(run):
    text = (run / "config.json").read_text()
    (run / "config.json").write_text(text.replace("{", '{"max_length": "no", ', 1))
    assert load(run).config.max_length == 16


def forge(path: Path, header: dict, size: int = 64) -> None:
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(size))


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F32", "shape": [2**40, 2**20], "data_offsets": [0, 64]},
        {"dtype": "F32", "shape": [16], "data_offsets": [0, 2**60]},
        {"dtype": "F32", "shape": [-16], "data_offsets": [0, 64]},
        {"dtype": "F32", "shape": [16], "data_offsets": [64, 0]},
        {"dtype": "OBJECT", "shape": [16], "data_offsets": [0, 64]},
    ],
    ids=["huge", "beyond the end", "negative", "backwards", "object"],
)
def test_a_forged_header_is_refused(run, entry):
    forge(run / "weights.safetensors", {"source_embedding.table": entry})
    refuses(run, load)


def test_a_header_longer_than_the_file_is_refused(run):
    (run / "weights.safetensors").write_bytes(struct.pack("<Q", 2**62) + b"{}")
    refuses(run, load)


def test_a_file_of_holes_that_claims_a_terabyte_is_refused(run):
    """All is in order but that no model of the config has it; the disk holds next to nothing."""
    path, numbers = run / "weights.safetensors", 2**38
    entry = {"dtype": "F32", "shape": [numbers], "data_offsets": [0, 4 * numbers]}
    forge(path, {"source_embedding.table": entry}, size=0)
    try:
        os.truncate(path, path.stat().st_size + 4 * numbers)
    except OSError:
        pytest.skip("this disk has no files with holes of that size")
    assert "weights.safetensors" in refuses(run, load)


def test_a_header_with_any_bit_flipped_is_refused_or_harmless(run):
    path = run / "weights.safetensors"
    whole, rng = path.read_bytes(), random.Random(0)
    header = 8 + struct.unpack("<Q", whole[:8])[0]
    refused = 0
    for _ in range(300):
        damaged = bytearray(whole)
        damaged[rng.randrange(header)] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        try:
            assert isinstance(load(run), Transformer)
        except ValueError as error:
            assert "weights.safetensors" in str(error) and "\n" not in str(error)
            refused += 1
    assert refused > 200


def changed_weights(folder: Path, change) -> None:
    path = folder / "weights.safetensors"
    save_file(change(load_file(path)), path)


@pytest.mark.parametrize(
    "change",
    [
        lambda t: {n: x for n, x in t.items() if "norm" not in n},
        lambda t: t | {"../../evil": torch.zeros(2)},
        lambda t: t | {"extra": torch.zeros(2)},
        lambda t: t | {"empty": torch.zeros(0)},
        lambda t: {n: x.reshape(-1) for n, x in t.items()},
        lambda t: {n: x.long() for n, x in t.items()},
        lambda t: {n: torch.full_like(x, torch.nan) for n, x in t.items()},
        lambda t: {n: torch.full_like(x, torch.inf) for n, x in t.items()},
    ],
    ids=["missing", "path", "extra", "empty", "shape", "integers", "nan", "infinite"],
)
def test_weights_that_are_not_this_models_are_refused(run, change):
    changed_weights(run, change)
    assert "weights.safetensors" in refuses(run, load)


def test_no_name_in_a_file_leads_outside_the_folder(run, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    changed_weights(run, lambda t: t | {"../../evil": torch.zeros(2)})
    refuses(run)
    (run / METRICS).write_text('{"data": "../../etc/passwd", "beam": 1}')
    refuses(run)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_tokenizer_of_another_run_is_refused(run):
    train_tokenizer(["other words"], kind="characters").save(run / TOKENIZER)
    assert "pieces" in refuses(run)


@pytest.mark.parametrize(
    "content",
    [
        {"pieces": "abc", "merges": None},
        {"pieces": ["a", "a"], "merges": None},
        {"pieces": ["a", ""], "merges": None},
        {"pieces": ["a", 1], "merges": None},
        {"pieces": ["<eos>"], "merges": None},
        {"pieces": ["\ud800"], "merges": None},
        {"pieces": ["a", "b"], "merges": ["a b"]},
        {"pieces": ["a", "b", "ab"], "merges": ["a b c"]},
        {"pieces": ["a", "b", "ab"], "merges": [["a", "b"]]},
        {"pieces": ["a", "b", "ab"], "merges": 5},
        {"pieces": {"a": 4}, "merges": None},
        {"merges": None},
    ],
    ids=str,
)
def test_a_tokenizer_that_makes_no_sense_is_refused(run, content):
    (run / TOKENIZER).write_text(json.dumps(content))
    assert TOKENIZER in refuses(run)


def test_settings_of_many_megabytes_are_not_read(run):
    with open(run / TOKENIZER, "ab") as file:
        file.truncate(2**40)
    assert "too large" in refuses(run)


@pytest.mark.parametrize(
    "content",
    [
        {"data": "dates"},
        {"beam": 1},
        {"data": "dates", "beam": "5"},
        {"data": "dates", "beam": 0},
        {"data": "dates", "beam": 2.0},
        {"data": "dates", "beam": 10**6},
        {"data": "dates", "beam": 10**30},
        {"data": "dates", "beam": 1},
        {"data": "dates", "beam": 1, "length_penalty": -1},
        {"data": "dates", "beam": 1, "length_penalty": "0.6"},
        {"data": "x" * 10_000, "beam": 1},
        {"data": ["dates"], "beam": 1},
        {"data": {"dates": 1}, "beam": 1},
    ],
    ids=lambda content: str(content)[:50],
)
def test_metrics_that_do_not_say_what_was_trained_are_refused(run, content):
    (run / METRICS).write_text(json.dumps(content))
    assert METRICS in refuses(run)


@pytest.mark.parametrize("name", ["weights.safetensors", "config.json", TOKENIZER, METRICS])
@pytest.mark.parametrize("target", ["/dev/zero", "nowhere", "itself"])
def test_a_link_that_leads_to_no_file_is_refused(run, name, target):
    (run / name).unlink()
    (run / name).symlink_to(name if target == "itself" else target)
    refuses(run)


def test_a_link_to_a_good_file_is_as_good(run, good):
    (run / "weights.safetensors").unlink()
    (run / "weights.safetensors").symlink_to(good / "weights.safetensors")
    load(run)


# ------------------------------------------------------------------------------- half-trained runs

PAIRS = [([4, 5, 2], [5, 2]), ([6, 2], [6, 7, 2])]
TRAINING = TrainConfig(steps=2, max_tokens=20, warmup=2, checkpoint_every=1, average=2)


@pytest.fixture
def training_run(run) -> Path:
    """A folder in which a run of two steps has ended."""
    folder = run / "training"
    fit(load(run), PAIRS, TRAINING, folder=folder, progress=False)
    return folder


@pytest.mark.parametrize("name", [STATE, "checkpoints/step-00000001.safetensors"])
def test_a_flipped_bit_in_a_training_is_refused(training_run, name):
    flip(training_run / name, 5)
    assert "its checksum is wrong" in refuses(training_run, go_on(training_run))


def go_on(folder: Path):
    model = load(folder.parent)
    return lambda _: fit(model, PAIRS, TRAINING, folder=folder, progress=False)


@pytest.mark.parametrize(
    "changes",
    [
        {"snapshots": []},
        {"snapshots": [1]},
        {"snapshots": [float("inf")]},
        {"snapshots": ["../../weights", 2]},
        {"snapshots": [10**9, 2]},
        {"snapshots": [10**400, 2]},
        {"snapshots": [1, 1, 2]},
        {"snapshots": [-1, 2]},
        {"snapshots": None},
        {"history": 3},
        {"history": []},
        {"history": ["garbage"]},
        {"history": [{}]},
        {"history": [{"step": 10**30, "tokens": 1, "seconds": 1}]},
        {"history": [{"step": float("inf"), "tokens": 1, "seconds": 1}]},
        {"history": [{"step": 2, "tokens": None, "seconds": 1}]},
        {"history": [{"step": 2, "tokens": 1, "seconds": "long"}]},
        {"history": [{"step": -1, "tokens": 1, "seconds": 1}], "snapshots": [-1]},
        {"identity": [1, 2]},
        {"identity": None},
        {"identity": {}},
    ],
    ids=lambda changes: str(changes)[:50],
)
def test_a_training_state_that_makes_no_sense_is_refused(training_run, changes):
    tensors, notes = read_tensors(training_run / STATE)
    write_tensors(training_run / STATE, tensors, notes | changes)
    refuses(training_run, go_on(training_run))


@pytest.mark.parametrize("notes", [[], "text", 3, None], ids=str)
def test_a_training_state_with_foreign_notes_is_refused(training_run, notes):
    tensors, _ = read_tensors(training_run / STATE)
    write_tensors(training_run / STATE, tensors, notes)
    assert STATE in refuses(training_run, go_on(training_run))


@pytest.mark.parametrize(
    "change",
    [
        lambda t: {},
        lambda t: t | {"99.exp_avg": torch.zeros(3)},
        lambda t: t | {"no number": torch.zeros(3)},
        lambda t: {n: x.reshape(-1) for n, x in t.items()},
        lambda t: {n: torch.full_like(x, torch.nan) for n, x in t.items()},
    ],
    ids=["none", "another", "name", "shapes", "nan"],
)
def test_another_optimisers_state_is_refused(training_run, change):
    tensors, notes = read_tensors(training_run / STATE)
    write_tensors(training_run / STATE, change(tensors), notes)
    assert STATE in refuses(training_run, go_on(training_run))


@pytest.mark.parametrize("place", [STATE, "checkpoints/step-00000001.safetensors"])
@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo], ids=["directory", "fifo"])
def test_a_checkpoint_that_is_no_file_is_refused_and_does_not_hang(training_run, place, make):
    (training_run / place).unlink()
    make(training_run / place)
    refuses(training_run, go_on(training_run))
