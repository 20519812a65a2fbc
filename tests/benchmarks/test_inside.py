"""The long experiments of lesson 11 run at toy size, and measure what they say."""

import json

import pytest
import torch

from benchmarks.lessons import l11_date_models as date_models
from benchmarks.lessons import l11_inside as inside
from transformer_lab import date_pairs, load_run
from transformer_lab.runs import PRETRAINED
from transformer_lab.support.files import read_json


@pytest.fixture(scope="module")
def reader():
    return load_run(PRETRAINED / "dates_0")


def test_the_date_models_are_small_and_score_what_they_say():
    folders = [PRETRAINED / f"dates_{seed}" for seed in date_models.SEEDS]
    sizes = [path.stat().st_size for folder in folders for path in folder.iterdir()]
    assert sum(sizes) <= date_models.LIMIT
    pairs = date_pairs(300, 4, split="test")
    for folder in folders:
        metrics = read_json(folder / "metrics.json")
        assert metrics["scores"] == metrics["scores in float32"]
        outputs = load_run(folder).translate([text for text, _ in pairs])
        right = sum(a == b for a, (_, b) in zip(outputs, pairs, strict=True)) / len(pairs)
        assert metrics["scores"]["test"]["exact_match"] >= 0.995 and right >= 0.99


def test_the_truth_of_a_date_is_how_it_was_written():
    def characters(text):
        return [
            "".join(c for c, t in zip(text, row, strict=True) if t)
            for row in inside.sources_of(text).tolist()
        ]

    months = characters("Sunday, 2 MAY 1954")
    assert months == ["1", "9", "5", "4", "", "MAY", "MAY", "", "", "2", ""]
    assert characters("03/10/2017") == ["2", "0", "1", "7", "", "1", "0", "", "0", "3", ""]
    assert characters("Mar 14, 2001")[5:10] == ["Mar", "Mar", "", "1", "4"]


def test_gates_of_one_change_nothing_and_gates_of_zero_leave_the_mean(reader):
    batch = inside.batch_of(reader, date_pairs(20, 3, split="test"))
    means = inside.mean_outputs(reader.model, batch)
    with torch.no_grad():
        plain = reader.model(batch.source, batch.target_in)
        with inside.gated(reader.model, torch.ones(6, 4), means):
            whole = reader.model(batch.source, batch.target_in)
        again = reader.model(batch.source, batch.target_in)
    torch.testing.assert_close(whole, plain, rtol=1e-3, atol=1e-3)
    assert torch.equal(again, plain)  # the hooks are gone
    with inside.gated(reader.model, torch.zeros(6, 4), means):
        left = inside.mean_outputs(reader.model, batch)
    assert len(left) == len(means) == 6


def test_a_mean_for_each_place_takes_away_no_place(reader):
    """Without the decoder's self-attention a date is right as long as its places are kept."""
    batch = inside.batch_of(reader, date_pairs(40, 3, split="test"))
    gates = torch.ones(6, 4)
    gates[[2, 4]] = 0  # decoder 1 and 2
    right = {}
    for each_place in (True, False):
        means = inside.mean_outputs(reader.model, batch, each_place)
        shapes = [(11, 4, 16) if i > 1 and each_place else (4, 16) for i in range(6)]
        assert [tuple(mean.shape) for mean in means] == shapes
        right[each_place] = inside.right_and_loss(reader.model, batch, gates, means)[0]
    assert right[True] > 0.95 and right[False] < 0.1


def test_the_form_of_a_date_does_not_tell_its_month():
    forms = inside.place_in_form
    assert forms("friday 15 march 2019") == forms("monday 15 april 2018")
    assert set(forms("5 June 2019")) == set(forms("5 September 2019"))
    assert forms("3 Mar 1987")[0] != forms("3 MAR 1987")[0] != forms("March 3, 1987")[0]
    numbers = {}
    rows = inside.numbered([("3.3.1987", ""), ("13.3.1987", "")], numbers)
    assert rows.shape == (2, 10) and (rows[0] == -1).sum() == 1 and rows[1].min() >= 0


def test_the_usual_outputs_of_the_encoder_are_those_of_the_form(reader):
    pairs = [("friday 15 march 2019", "2019-03-15"), ("monday 15 april 2018", "2018-04-15")]
    means = inside.usual_outputs(reader, pairs, 300)
    assert [mean.dim() for mean in means] == [4, 4, 3, 3, 3, 3]
    assert torch.equal(means[0][0], means[0][1]) and not means[0].isnan().any()


def test_a_place_that_few_sentences_reach_has_the_mean_of_the_last_that_more_do(reader):
    long, short = ("2019-02-15", "2019-02-15"), ("2019-02-15", "2019")
    batch = inside.batch_of(reader, [long, *[short] * inside.FEW])
    for mean in inside.mean_outputs(reader.model, batch)[2:]:
        assert len(mean) == 11 and torch.equal(mean[6:], mean[5:6].expand(5, -1, -1))
        assert not torch.equal(mean[5], mean[4])


def test_a_replaced_character_is_another_of_its_kind():
    import random

    for place, kind in ((0, str.isupper), (1, str.islower), (7, str.isdigit)):
        for text in inside.replaced("Friday 15", place, random.Random(0), 4):
            assert kind(text[place]) and text[place] != "Friday 15"[place]
            assert (
                text[:place] + text[place + 1 :] == "Friday 15"[:place] + "Friday 15"[place + 1 :]
            )


def test_effects_are_of_the_character_that_is_copied(reader):
    text, iso = "friday 15 february 2019", "2019-02-15"
    effect = inside.effects(reader, text, iso, count=4)["mean"]
    assert effect[3].argmax() == text.index("9") and effect[9].argmax() == text.index("5")


def test_every_way_explains_every_character(reader):
    text, iso = "3 Mar 1987", "1987-03-03"
    ways = inside.explanations(reader, text, iso)
    assert len(ways) == 5
    for share in ways.values():
        assert share.shape == (11, len(text)) and share.min() >= 0 and share.isfinite().all()


def test_another_seed_that_is_the_same_model_explains_as_well_as_the_own_one(reader):
    ways = inside.explained([reader, reader], 0, inside.SMOKE)["ways"]
    other = inside.load_run(PRETRAINED / "dates_1")
    theirs = inside.explained([reader, other], 0, inside.SMOKE)["ways"]
    for name in inside.OF_OTHERS:
        assert ways[f"control: {name}, of seed 1"] == ways[name] == theirs[name]
        assert theirs[f"control: {name}, of seed 1"] != ways[name]


def test_it_runs_and_writes_what_it_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(inside, "translated", lambda sizes: iter(()))  # needs the captions
    inside.main(["--smoke", "--output", str(tmp_path)])
    result = json.loads((tmp_path / "l11_inside.json").read_text())
    kinds = [row["experiment"] for row in result["rows"]]
    assert result["smoke"] and kinds == ["explanations", "pruning"]
    ways = result["rows"][0]["ways"]
    assert 0 <= ways["rollout"]["top, mean"]["low"] <= ways["rollout"]["top, mean"]["high"] <= 1
    assert len(result["rows"][1]["greedy"]) == 25
