"""Lesson 06's rows of digits, longer: run at toy size, and trained as the lesson does."""

import json

import pytest
import torch

from benchmarks.lessons import l06_critics as critics
from benchmarks.lessons import l06_layers as layers


@pytest.fixture(scope="module")
def code():
    return layers.lesson()


def test_the_layers_are_measured_and_written(tmp_path):
    layers.main(["--smoke", "--output", str(tmp_path)])
    result = json.loads((tmp_path / "l06_layers.json").read_text())
    assert result["smoke"] and {"hardware", "versions", "commit"} <= set(result)
    plans = sum(len(r) * len(w) * len(s) for *_, r, w, s in layers.PLANS)
    assert len(result["rows"]) == plans
    assert all(0 < loss < 1000 for row in result["rows"] for loss in row["losses"])


@pytest.mark.parametrize("frame", layers.FRAMES)
def test_side_by_side_is_one_after_the_other(code, frame):
    settings = [(0.01, 1, "Xavier", 0), (0.003, 2, "default", 1)]
    models = [layers.new_model(code, frame, 2, *drawn) for _, _, *drawn in settings]
    rows = torch.stack(
        [torch.stack([x for (x,), _ in code["rows_of_digits"](4, s)]) for s in (0, 1)]
    )
    rates, warmups, *_ = zip(*settings, strict=True)
    climb = layers.climbing(rates, warmups)
    (together,) = layers.train_together(models, layers.reversal_loss, (rows,), climb)
    for (rate, warmup, start, seed), losses in zip(settings, together, strict=True):
        alone = layers.new_model(code, frame, 2, start, seed)
        batches = code["rows_of_digits"](4, seed)
        expected = code["train_model"](alone, batches, rate, warmup)
        torch.testing.assert_close(losses, expected, atol=1e-4, rtol=1e-4)


def test_the_critics_run_at_toy_size(tmp_path):
    critics.main(["--smoke", "--output", str(tmp_path)])
    rows = json.loads((tmp_path / "l06_critics.json").read_text())["rows"]
    assert {row["layer"] for row in rows} == set(critics.LAYERS)
    assert all(0 <= share <= 1 for row in rows for share in row["right"])


def test_each_model_has_its_own_rate(code):
    rows = torch.stack([torch.stack([x for (x,), _ in code["rows_of_digits"](3)])] * 2)
    models = [layers.new_model(code, "post-LN", 2, "Xavier", 0) for _ in range(2)]
    rates = layers.climbing([0.01, 0.0], [1, 1])
    (losses,) = layers.train_together(models, layers.reversal_loss, (rows,), rates)
    still = [layers.reversal_loss(models[1], row)[0].detach() for row in rows[1]]
    torch.testing.assert_close(losses[1], torch.stack(still), atol=1e-4, rtol=1e-4)
    assert (losses[0, 1:] - losses[1, 1:]).abs().min() > 1e-3
