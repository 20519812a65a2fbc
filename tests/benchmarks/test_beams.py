"""The beams of lesson 09 are measured with the rule that the lesson teaches."""

import numpy as np
import torch

from benchmarks.lessons import l09_beams as beams
from transformer_lab import load_run
from transformer_lab.config import BOS, EOS, PAD


def test_a_finished_hypothesis_goes_before_an_unfinished_one():
    hypotheses = torch.tensor([[BOS, 5, 6, 7], [BOS, 5, EOS, PAD], [BOS, EOS, PAD, PAD]])
    log_p = torch.tensor([-0.1, -2.0, -3.0])
    assert beams.best_of(hypotheses, log_p, 0.6) == [BOS, 5, EOS]
    assert beams.best_of(hypotheses[:1], log_p[:1], 0.6) == [BOS, 5, 6, 7]


def test_the_beams_are_measured_on_given_pairs():
    pairs = [("A woman is reading.", "Eine Frau liest."), ("Two dogs run.", "Zwei Hunde rennen.")]
    rows, draws = beams.rows_of(load_run(), "two", pairs, (1, 2), (0.0, 1.0))
    assert [(row["beam"], row["alpha"]) for row in rows] == [(1, 0.0), (1, 1.0), (2, 0.0), (2, 1.0)]
    greedy, wide = rows[0], rows[2]
    assert greedy["more_than_greedy"] == 0 and wide["log_p"] >= greedy["log_p"] - 1e-3
    assert greedy["bleu"] > 50 and 0.5 < greedy["length"] < 1.5
    assert all(row["unfinished"] == row["empty"] == 0 for row in rows)
    assert greedy["difference"] == greedy["low"] == greedy["high"] == 0 and len(draws) == len(rows)
    assert all(row["kept"] == 2 and row["kept_bleu"] == row["bleu"] for row in rows)


def test_a_difference_from_greedy_is_that_of_the_same_captions():
    references = [f"the {word} dog runs home" for word in ("old", "new", "big", "red")]
    shorter = ["the old dog runs", "the new dog runs home", "", "the red dog runs home"]
    assert not beams.paired_draws(references, references, references, 0).any()
    draws = beams.paired_draws(shorter, references, references, 0)
    assert (draws <= 0).all() and draws.min() < draws.max() == 0  # the two whole ones alone


def test_captions_whose_output_is_empty_are_left_out_of_both():
    references = ["a b c d e", "f g h i j", "k l m n o"]
    greedy = ["a b c d e", "f g h i j", "x y z u v"]
    row = beams.without_empty(["a b c d e", "f g h i j", ""], greedy, references)
    assert row["kept"] == 2 and row["kept_bleu"] == row["kept_greedy_bleu"] == 100
    assert row["kept_factor"] == row["kept_greedy_factor"] == 1


def test_the_mean_of_the_sets_averages_each_draw():
    rows = [[{"alpha": 0.6, "beam": 4, "difference": d}] for d in (-1.0, 2.0)]
    (mean,) = beams.means_of(rows, [[np.array([-2.0, 0.0])], [np.array([2.0, 4.0])]])
    assert mean == {"alpha": 0.6, "beam": 4, "difference": 0.5, "low": 0.05, "high": 1.95}
