"""The beams of lesson 09 are measured with the rule that the lesson teaches."""

import torch

from benchmarks.lessons import beams
from transformer_lab import load_run
from transformer_lab.config import BOS, EOS, PAD


def test_a_finished_hypothesis_goes_before_an_unfinished_one():
    hypotheses = torch.tensor([[BOS, 5, 6, 7], [BOS, 5, EOS, PAD], [BOS, EOS, PAD, PAD]])
    log_p = torch.tensor([-0.1, -2.0, -3.0])
    assert beams.best_of(hypotheses, log_p, 0.6) == [BOS, 5, EOS]
    assert beams.best_of(hypotheses[:1], log_p[:1], 0.6) == [BOS, 5, 6, 7]


def test_the_beams_are_measured_on_given_pairs():
    pairs = [("A woman is reading.", "Eine Frau liest."), ("Two dogs run.", "Zwei Hunde rennen.")]
    rows = beams.rows_of(load_run(), "two", pairs, (1, 2), (0.0, 1.0))
    assert [(row["beam"], row["alpha"]) for row in rows] == [(1, 0.0), (1, 1.0), (2, 0.0), (2, 1.0)]
    greedy, wide = rows[0], rows[2]
    assert greedy["more_than_greedy"] == 0 and wide["log_p"] >= greedy["log_p"] - 1e-3
    assert greedy["bleu"] > 50 and 0.5 < greedy["length"] < 1.5
    assert all(row["unfinished"] == row["empty"] == 0 for row in rows)
