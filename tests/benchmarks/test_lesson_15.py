"""What lesson 15 measures for longer, at toy size."""

import json

import pytest
import torch

import transformer_lab as lab
from benchmarks.lessons import l15_batch as batch
from benchmarks.lessons import l15_distance as distance
from benchmarks.lessons import l15_divide as divide


@pytest.mark.parametrize("script", [batch, distance, divide])
def test_the_script_runs_at_toy_size(script, tmp_path):
    script.main(["--smoke", "--output", str(tmp_path)])
    (path,) = tmp_path.iterdir()
    result = json.loads(path.read_text())
    assert result["smoke"] and len(result["rows"]) == len(script.plan(True))


def test_a_number_is_to_be_written_backwards_and_short_ones_come_first():
    numbers = divide.lesson()["numbers"]
    pairs = numbers(20, torch.Generator().manual_seed(0))
    assert [len(source) for source, _ in pairs] == sorted(len(source) for source, _ in pairs)
    for source, target in pairs:
        assert source[-1] == target[-1] == lab.EOS
        assert source[:-1] == target[-2::-1] and set(source[:-1]) <= set(range(4, 14))


def test_two_parts_divided_by_all_tokens_report_the_loss_of_the_whole_batch():
    """After one step nothing has been learned yet that could differ."""
    one, two = (divide.run("all tokens", parts, "sorted", 0, 1)["reported"] for parts in (1, 2))
    means = divide.run("mean of means", 2, "sorted", 0, 1)["reported"]
    assert one == pytest.approx(two, abs=2e-4) and abs(means - one) > 1e-3


def test_a_training_that_is_stopped_says_so():
    row = batch.run(size=8, seed=0, rate=0.001, limit=10)
    assert row["steps"] == 10 and not row["reached"]
