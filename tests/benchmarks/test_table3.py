"""The small Table 3 at toy size: what is trained is kept, and what survives is told."""

import json

import numpy as np
import pytest
import torch
from sacrebleu.metrics import BLEU
from safetensors.torch import load_file

from benchmarks import intervals, table3
from transformer_lab import runs


@pytest.fixture
def small(monkeypatch, captions):
    """A few captions, two factors in the place of all."""
    splits = {"train": captions, "val": captions[:6], "test2016": captions[:4]}
    for module in (runs, table3):
        monkeypatch.setattr(module, "load_task", lambda *_: splits)
    monkeypatch.setattr(table3, "TRAINED", {"dropout": {"0": {"dropout": 0.0}}})
    decoded = {"beam": {"1": (1, 0.6)}, "snapshots": {"1": (5, 0.6, 1)}}
    monkeypatch.setattr(table3, "DECODED", decoded)
    monkeypatch.setattr(table3, "TOY", table3.TOY | table3._vocabulary(60))


def test_every_row_is_measured_and_nothing_is_trained_twice(small, tmp_path, capsys, monkeypatch):
    options = ["--smoke", "--runs", str(tmp_path / "runs"), "--output", str(tmp_path)]
    table3.main([*options, "--seeds", "1"])
    assert not (tmp_path / "table3.json").exists()  # one seed has no spread
    table3.main(options)
    rows = json.loads((tmp_path / "table3.json").read_text())["rows"]
    assert [(row["factor"], row["setting"]) for row in rows] == [
        *(("base", ""), ("dropout", "0"), ("beam", "1"), ("snapshots", "1"))
    ]
    assert all([s["seed"] for s in row["seeds"]] == [0, 1] for row in rows)
    assert {path.parent.name for path in (tmp_path / "runs").glob("*/*")} == {"smoke"}  # no toy
    assert rows[0]["difference"] == 0 and not rows[0]["survives"]
    monkeypatch.setattr(table3, "train", None)
    table3.main(options)
    assert "| beam | 1 |" in capsys.readouterr().out


@pytest.mark.parametrize("snapshots", [1, 2])
def test_fewer_snapshots_are_the_last(small, tmp_path, snapshots):
    run = table3.trained("base", {}, 0, tmp_path, smoke=True)
    table3.translated(run, ["a dog"], 1, 0.6, snapshots)
    last = sorted((run.folder / "checkpoints").iterdir())[-snapshots:]
    name = "encoder.layers.0.feed_forward.linear_1.weight"
    mean = sum(load_file(path)[name] for path in last) / snapshots
    torch.testing.assert_close(run.model.get_parameter(name).data, mean)
    assert list(json.loads((run.folder / table3.OUTPUTS).read_text())) == [
        f"beam 1, alpha 0.6, snapshots {snapshots}"
    ]


def test_what_survives_is_outside_its_interval_and_apart_in_every_seed():
    def scores(*values):
        return [{"seed": i, "bleu": v, "draws": np.full(9, v)} for i, v in enumerate(values)]

    base = scores(30.0, 31.0)
    assert table3.row("x", "", scores(33.0, 32.0), base)["survives"]
    assert not table3.row("x", "", scores(30.5, 33.0), base)["survives"]  # a seed is in between
    noisy = [s | {"draws": np.linspace(-9, 9, 9) + s["bleu"]} for s in scores(33.0, 32.0)]
    assert not table3.row("x", "", noisy, base)["survives"]


def test_the_interval_is_that_of_sacrebleu():
    rng = np.random.default_rng(0)
    words = ["the", "a", "red", "dog", "runs", "sees", "man"]
    references = [" ".join(rng.choice(words, 9)) for _ in range(60)]
    outputs = [" ".join(w if rng.random() < 0.8 else "x" for w in r.split()) for r in references]
    counts = intervals.counts_of("multi30k-raw", outputs, references)
    theirs = BLEU().corpus_score(outputs, [references], n_bootstrap=1000)
    assert intervals.bleu_of(counts.sum(axis=0)) == pytest.approx(theirs.score)
    around = intervals.interval(intervals.drawn(counts))
    half = float(str(theirs).split("± ")[1].split(")")[0])
    assert (around["high"] - around["low"]) / 2 == pytest.approx(half, rel=0.1)
