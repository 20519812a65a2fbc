"""Killed at any moment, a run goes on as if nothing had happened, and no file is half a file.

The runs happen in children that are forked, so that only one process has to import torch.
"""

import importlib
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
import torch

from transformer_lab import runs
from transformer_lab.config import ModelConfig, TrainConfig
from transformer_lab.model import Transformer
from transformer_lab.presets import Preset
from transformer_lab.saving import parameters_of, save
from transformer_lab.support import files
from transformer_lab.support.files import read_tensors, write_json
from transformer_lab.training import STATE, loop

KILLS = 20
TRAINING = TrainConfig(steps=60, max_tokens=40, warmup=20, checkpoint_every=2, average=3, seed=1)
SHORT = replace(TRAINING, steps=2, checkpoint_every=1, average=1)
CONFIG = ModelConfig(
    source_vocab_size=20,
    target_vocab_size=20,
    d_model=8,
    num_heads=2,
    d_ff=16,
    num_encoder_layers=1,
    num_decoder_layers=1,
    dropout=0.2,
    max_length=16,
    tie_embeddings=True,
)


# What `train` and `load_run` import late, which would take each child half of its time.
LATE = ("filelock", "safetensors.torch", "tokenizers", "tqdm.auto")
PAIRS = [(f"{i}{i}", f"{i}-{i}") for i in range(10, 40)]


def toy_task(data: str, seed: int = 0) -> dict:
    return {"train": PAIRS[:26], "val": PAIRS[26:28], "test": PAIRS[28:]}


def train(folder: Path, training: TrainConfig = TRAINING) -> None:
    """Train a small run through all of `train`: checkpoints, weights, tokenizer, metrics."""
    preset = Preset(data="dates", model=CONFIG, training=training)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "load_task", toy_task)
        runs.train(preset, folder, device="cpu", progress=False)


def in_a_child(work, *arguments, kill_after: float | None = None) -> bool:
    """Do some work in a child process; kill it after some seconds. Say whether it was done."""
    child = os.fork()
    if child == 0:
        try:
            work(*arguments)
            os._exit(0)
        finally:
            os._exit(1)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    assert status in (0, signal.SIGKILL), "the child found something wrong"
    return status == 0


def train_until(folder: Path, operation: int) -> None:
    """Train, and be killed just before that operation on a file."""
    operations = count(1)

    def counted(function):
        def call(*arguments, **options):
            if next(operations) == operation:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments, **options)

        return call

    for name in ("mkdir", "fsync", "replace", "unlink"):
        setattr(os, name, counted(getattr(os, name)))
    files.open = counted(open)
    train(folder, SHORT)


def train_on_pairs(folder: Path, file: Path | None, last: int | None = None) -> None:
    """Train on pairs of one's own, from a file or from what the run has kept of it; be killed
    before the step `last`."""
    learning_rate = loop.learning_rate  # what each step begins with

    def killed_or_given(step, d_model, config):
        if step == last:
            os.kill(os.getpid(), signal.SIGKILL)
        return learning_rate(step, d_model, config)

    loop.learning_rate = killed_or_given
    settings = {"d_model": 8, "num_heads": 2, "d_ff": 16, "steps": 8, "checkpoint_every": 2}
    runs.train("pairs", folder, data=file, device="cpu", progress=False, **settings)


def check_files(folder: Path) -> None:
    """Every file with a final name is whole; `load_run` gives a run or one clear sentence."""
    for path in folder.rglob("*.safetensors"):
        if not path.name.startswith("."):
            read_tensors(path)
    try:
        assert isinstance(runs.load_run(folder).translate("11"), str)
    except ValueError as error:
        assert "\n" not in str(error) and "is missing" in str(error)


def assert_ended_as(folder: Path, whole: Path) -> None:
    wanted, _ = read_tensors(whole / "weights.safetensors")
    found, _ = read_tensors(folder / "weights.safetensors")
    assert all(torch.equal(found[name], wanted[name]) for name in wanted), folder.name
    names = [{str(p.relative_to(f)) for p in f.rglob("*")} for f in (folder, whole)]
    assert names[0] == names[1], "something was lost, or left over"


def kill_by_the_clock(folder: Path) -> None:
    start = time.perf_counter()
    assert in_a_child(train, folder / "whole")
    seconds = time.perf_counter() - start
    rng, places = random.Random(2017), [folder / "run 1"]
    for _ in range(KILLS):
        ended = in_a_child(train, places[-1], kill_after=rng.uniform(0, seconds / 4))
        if places[-1].exists():
            check_files(places[-1])
        if ended:  # start again, so that each kill hits a run at work
            places.append(folder / f"run {len(places) + 1}")
    assert in_a_child(train, places[-1])
    for place in places:
        assert_ended_as(place, folder / "whole")


def kill_at_every_operation(folder: Path) -> int:
    assert in_a_child(train, folder / "whole", SHORT)
    for operation in count(1):
        place = folder / f"killed before {operation}"
        if in_a_child(train_until, place, operation):
            return operation - 1
        if place.exists():
            check_files(place)
        assert in_a_child(train, place, SHORT)
        assert_ended_as(place, folder / "whole")


def kill_a_run_whose_file_is_gone(folder: Path) -> None:
    folder.mkdir()
    file, killed = folder / "pairs.tsv", folder / "killed"
    file.write_text("".join(f"{source}\t{target}\n" for source, target in PAIRS))
    assert in_a_child(train_on_pairs, folder / "whole", file)
    assert not in_a_child(train_on_pairs, killed, file, 6), "it was not killed"
    check_files(killed)
    file.unlink()
    assert in_a_child(train_on_pairs, killed, None)
    assert_ended_as(killed, folder / "whole")


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    for name in LATE:
        importlib.import_module(name)
    torch.optim.AdamW([torch.zeros(1)])  # imports much of torch: once, and not in each child
    start = time.perf_counter()
    kill_by_the_clock(folder / "clock")
    operations = kill_at_every_operation(folder / "operations")
    assert operations > 30
    kill_a_run_whose_file_is_gone(folder / "pairs")
    print(f"{KILLS} kills, then {operations}, in {time.perf_counter() - start:.0f} s")


def test_a_run_that_is_killed_at_any_moment_ends_with_the_same_weights(tmp_path):
    """Twenty times at a random moment, then once before every operation on a file; and on pairs
    of one's own, whose file is deleted before the run goes on."""
    run = subprocess.run([sys.executable, __file__, tmp_path], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert f"{KILLS} kills, then" in run.stdout


def test_an_unfinished_write_is_no_file(tmp_path, monkeypatch):
    with torch.random.fork_rng():
        model = Transformer(CONFIG).eval()
    save(model, tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def full_disk(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full_disk)
    with torch.no_grad():
        parameters_of(model)["source_embedding.table"].zero_()
    with pytest.raises(OSError, match=r"No space left on device: '\S*/config.json'$"):
        save(model, tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_a_file_may_be_read_by_whom_the_umask_says(tmp_path, umask):
    before = os.umask(umask)
    try:
        write_json(tmp_path / "file.json", {})
    finally:
        os.umask(before)
    assert (tmp_path / "file.json").stat().st_mode & 0o777 == 0o666 & ~umask


def test_a_missing_snapshot_is_named(tmp_path):
    train(tmp_path, SHORT)
    next((tmp_path / "checkpoints").glob("step-*")).unlink()
    with pytest.raises(ValueError, match=r"step-\d+.safetensors is missing"):
        train(tmp_path, SHORT)


def test_a_run_made_longer_and_killed_before_its_scores_is_not_whole(tmp_path, monkeypatch):
    train(tmp_path, SHORT)
    monkeypatch.setattr(runs.Run, "evaluate", None)  # the weights are written, nothing is scored
    with pytest.raises(TypeError):
        train(tmp_path, replace(SHORT, steps=4))
    with pytest.raises((OSError, ValueError), match=r"metrics\.json"):
        runs.load_run(tmp_path)
    monkeypatch.undo()
    train(tmp_path, replace(SHORT, steps=4))
    assert runs.load_run(tmp_path)


def test_a_damaged_state_is_named(tmp_path):
    train(tmp_path, SHORT)
    (tmp_path / STATE).write_bytes((tmp_path / STATE).read_bytes()[:-1])
    with pytest.raises(ValueError, match=STATE):
        train(tmp_path, SHORT)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
