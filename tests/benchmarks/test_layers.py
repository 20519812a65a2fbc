"""Lesson 06's rows of digits, longer: run at toy size, and trained as the lesson does."""

import json

import pytest
import torch

from benchmarks.lessons import layers


@pytest.fixture(scope="module")
def code():
    return layers.lesson()


def test_the_layers_are_measured_and_written(tmp_path):
    layers.main(["--smoke", "--output", str(tmp_path)])
    result = json.loads((tmp_path / "layers.json").read_text())
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
    together = layers.train_together(models, rows, rates, warmups)
    for (rate, warmup, start, seed), losses in zip(settings, together, strict=True):
        alone = layers.new_model(code, frame, 2, start, seed)
        batches = code["rows_of_digits"](4, seed)
        expected = code["train_model"](alone, batches, rate, warmup)
        torch.testing.assert_close(losses, expected, atol=1e-4, rtol=1e-4)
