"""The comparison of recipes at toy size: every way is trained, kept, and what it says it is."""

import json

import pytest
import torch
from torch import nn

from benchmarks import recipes
from transformer_lab import BOS, EOS, PAD, UNK, runs, train


@pytest.fixture
def small(monkeypatch, captions):
    """A few captions, and the three ways that have an objective each."""
    splits = {"train": captions, "val": captions[:3], "test2016": captions[:2]}
    for module in (runs, recipes):
        monkeypatch.setattr(module, "load_task", lambda *_: splits)
    monkeypatch.setattr(recipes, "TOY", recipes.TOY | recipes._pieces(60))
    three = list(recipes.WAYS.items())[:3]
    monkeypatch.setattr(recipes, "WAYS", dict(three))


def test_every_way_is_measured_and_nothing_is_trained_twice(small, tmp_path, monkeypatch):
    options = ["--smoke", "--runs", str(tmp_path / "runs"), "--output", str(tmp_path)]
    recipes.main([*options, "--seeds", "0"])
    rows = json.loads((tmp_path / "recipes.json").read_text())["rows"]
    by_way = {row["way"]: row["valid_loss"] for row in rows}
    assert set(by_way) == {"the published shape", "R-Drop", "word dropout 0.1"}
    assert len(set(by_way.values())) == 3  # another objective was trained, not its name alone
    monkeypatch.setattr(recipes, "fit", None)
    train("multi30k-tok", tmp_path / "whole", progress=False, **recipes.TOY)
    recipes.main([*options, "--seeds", "0", "--tried", str(tmp_path / "whole")])
    found = json.loads((tmp_path / "recipes.json").read_text())
    assert found["rows"] == rows and found["tried"][0]["run"] == "whole"
    assert found["tried"][0]["training"]["steps"] == found["tried"][0]["step"] == 4


def test_two_answers_have_the_loss_and_the_gradients_of_its_formula():
    torch.manual_seed(0)
    N = recipes.ROWS + 5  # more than one chunk
    states = torch.randn(2 * N, 8, dtype=torch.double, requires_grad=True)
    matrix = torch.randn(50, 8, dtype=torch.double, requires_grad=True)
    targets = torch.randint(4, 50, (N,))
    p, q = (states @ matrix.T).log_softmax(-1).chunk(2)
    entropy = nn.functional.cross_entropy(
        states @ matrix.T, targets.repeat(2), label_smoothing=0.1, reduction="sum"
    )
    divergence = ((p.exp() - q.exp()) * (p - q)).sum() / 2
    expected = entropy / 2 + 5 * divergence
    loss = recipes.TwoAnswers.apply(states, matrix, targets, 0.1, 5.0)
    torch.testing.assert_close(loss, expected)
    ours, theirs = (torch.autograd.grad(x, (states, matrix)) for x in (loss, expected))
    torch.testing.assert_close(ours, theirs)


def test_a_gap_is_never_in_the_place_of_padding_or_an_end():
    states = nn.Module()
    states.model = nn.Module()
    gaps = recipes.WithGaps(states, probability=1.0)
    ids = torch.tensor([[BOS, 7, 9, EOS, PAD]])
    assert gaps.with_gaps(ids).tolist() == [[BOS, UNK, UNK, EOS, PAD]]
