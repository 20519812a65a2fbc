"""The longer version of lesson 03's experiments runs at toy size, with the lesson's own code."""

import json
import re

import torch

from benchmarks.lessons import l03_heads as heads


def test_the_heads_are_measured_and_written(tmp_path, capsys):
    heads.main(["--smoke", "--output", str(tmp_path)])
    result = json.loads((tmp_path / "l03_heads.json").read_text())
    assert result["smoke"] and {"hardware", "versions", "commit"} <= set(result)
    names = ("look-ups", "short vectors", "own story", "letters", "words", "silenced")
    rows = {name: [] for name in names}
    for row in result["rows"]:
        rows[row["experiment"]].append(row)
    assert {row["kind"] for row in rows["look-ups"]} == set(heads.kinds(heads.lesson()))
    look_ups = rows["look-ups"] + rows["short vectors"]
    assert all(row["first"] <= 1 and row["last"] <= 1 for row in look_ups)
    assert all(len(row["mary_gives"]) == 2 for row in rows["own story"])
    assert all(0 <= row["both_right"] <= 1 for row in rows["letters"] + rows["words"])
    right = {row["kind"]: row["right"] for row in rows["silenced"]}
    assert right["nothing"] == right["layer 4"] == 12 > right["all"]
    assert all(right[kind] == 12 for kind in heads.MEANS[2:])  # a mean for each place loses nobody
    assert "| network in front |" in capsys.readouterr().out


def test_two_words_are_named_one_by_one_or_as_a_pair():
    wanted = torch.tensor([[0, 2], [1, 1]])
    scores, right = heads.choices(torch.zeros(2, 6), wanted, vocabulary=3)
    assert scores.shape == (2, 2, 3) and right.equal(wanted)  # one by one
    scores, right = heads.choices(torch.zeros(2, 9), wanted, vocabulary=3)
    assert scores.shape == (2, 1, 9) and right.tolist() == [[2], [4]]  # first · V + second
    assert heads.nearest_pair(vocabulary=5, seed=0)["both_right"] == 1


def test_a_flower_girl_in_the_dative_is_a_girl_who_receives():
    assert re.search(heads.GERMAN["girl"][1], "Ein Mann gibt einem Blumenmädchen eine Blume.")
    assert not re.search(heads.GERMAN["girl"][1], "Ein Junge zeigt ein Blumenmädchen.")
