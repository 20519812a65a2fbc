"""What lesson 13 measures for longer: comparisons are fair, and stopped scripts go on."""

import json
from functools import partial

import pytest
import torch

from benchmarks.lessons import l13_newer as newer
from benchmarks.lessons import l15_distance as distance
from benchmarks.lessons.rows import measure_rows


def test_a_script_goes_on_where_it_was_stopped(tmp_path):
    done = []

    def run(number):
        if number == 2 and len(done) == 2:
            raise KeyboardInterrupt
        done.append(number)
        return {"square": number * number}

    def plan(smoke):
        return [{"number": number} for number in range(4)]

    arguments = ["--output", str(tmp_path)]
    with pytest.raises(KeyboardInterrupt):
        measure_rows("some", "about", arguments, plan, run)
    done.append("again")
    measure_rows("some", "about", arguments, plan, run)
    assert done == [0, 1, "again", 2, 3]
    rows = json.loads((tmp_path / "some.json").read_text())["rows"]
    assert [row["square"] for row in rows] == [0, 1, 4, 9]


def test_a_setting_may_have_several_rows_and_what_is_not_planned_any_more_goes(tmp_path, capsys):
    measured = []

    def measure(name):
        measured.append(name)
        stored = json.loads(path.read_text())["rows"]
        assert [row for row in stored if row["name"] == "kept"] == [kept]  # until its turn comes
        return [{"seed": 0}, {"seed": 1}]

    def plan(smoke):
        return (({"name": name}, partial(measure, name)) for name in ("new", "kept"))

    path, kept = tmp_path / "some.json", {"name": "kept", "seed": 0}
    path.write_text(json.dumps({"rows": [{"name": "old"}, kept]}))
    options = {"notes": lambda smoke: {"sizes": 3}, "table": len}
    for _ in range(2):
        measure_rows("some", "about", ["--output", str(tmp_path)], plan, **options)
    result = json.loads(path.read_text())
    assert measured == ["new"] and result["sizes"] == 3
    assert result["rows"] == [{"name": "new", "seed": 0}, {"name": "new", "seed": 1}, kept]
    assert capsys.readouterr().out.count("wrote") == 2  # the new rows, without the old one


@pytest.mark.parametrize("script", [distance, newer])
def test_the_script_runs_at_toy_size(script, tmp_path):
    script.main(["--smoke", "--output", str(tmp_path)])
    (path,) = tmp_path.iterdir()
    result = json.loads(path.read_text())
    assert result["smoke"] and len(result["rows"]) == len(script.plan(True))


def test_the_five_edits_are_compared_at_equal_parameters():
    sizes = {
        sum(p.numel() for p in newer.build(variant, 0).blocks[0].parameters() if p.dim() > 1)
        for variant in newer.VARIANTS
    }
    assert len(sizes) == 1  # matrices: a norm has β or it has not


def test_every_model_has_three_seeds_and_two_more_rates_to_be_compared_with():
    planned = newer.plan(False)
    assert len(planned) == len({tuple(row.items()) for row in planned})
    for name in newer.VARIANTS:
        mine = [row for row in planned if row["variant"] == name]
        assert [row["seed"] for row in mine if row["rate"] == newer.RATES[1]] == [0, 1, 2]
        assert {row["rate"] for row in mine if row["seed"] == 0} == set(newer.RATES)
    for name in newer.AT_ONE_RATE:
        mine = [row for row in planned if row["variant"] == name]
        assert [row["seed"] for row in mine] == ([0] if name in newer.ONE_SEED else [0, 1, 2])
        assert {row["rate"] for row in mine} == {newer.RATES[1]}
    for name, rate in newer.DEEP.items():
        mine = [row for row in planned if row["variant"] == name]
        assert [(row["seed"], row["rate"]) for row in mine] == [(seed, rate) for seed in (0, 1, 2)]


def test_the_deep_models_differ_in_the_place_of_the_norm_or_in_the_rate():
    names = ("32 layers", "32 layers, small rate", "32 layers, pre-norm")
    road, small, free = (newer.build(name, 0) for name in names)
    assert all(len(model.blocks) == 32 for model in (road, small, free))
    for other in (small, free):  # the last norm of pre-LN aside
        pairs = zip(road.blocks.parameters(), other.blocks.parameters(), strict=True)
        assert all(torch.equal(one, theirs) for one, theirs in pairs)
    assert newer.DEEP["32 layers"] == newer.DEEP["32 layers, pre-norm"]


@pytest.mark.parametrize(
    ("plain", "control", "road"),
    [("32 layers", newer.PASS, 1.0), ("32 layers, pre-norm", newer.DAMP, 2.0**-32)],
)
def test_the_controls_differ_from_the_deep_models_on_the_way_back_alone(plain, control, road):
    assert newer.DEEP[plain] == newer.DEEP[control]
    plain, control = (newer.build(name, 0) for name in (plain, control))
    tokens = torch.arange(1, 13).repeat(2, 1)
    assert torch.equal(plain(tokens), control(tokens))
    assert newer.way(control)["road"] == pytest.approx(road, rel=0.01)
    assert newer.way(plain)["road"] != pytest.approx(road, rel=0.01)


def test_numbers_for_distances_begin_as_a_model_without_positions_and_see_the_distance_alone():
    none, learned = (newer.build(name, 0) for name in ("no positions", newer.DISTANCE))
    tokens = torch.arange(1, 13).repeat(2, 1)
    torch.testing.assert_close(none(tokens), learned(tokens), atol=1e-4, rtol=1e-4)
    attention = learned.blocks[0].attention
    with torch.no_grad():
        attention.numbers[:, 3] = 50.0  # each reads what stands three back, if there is one
        values = torch.randn(1, 12, 48)
        attention.attention.w_q.weight.zero_()
        mixed = attention(values)
        expected = attention.attention.w_o(attention.attention.w_v(values))
    torch.testing.assert_close(mixed[:, 3:], expected[:, :-3], atol=1e-4, rtol=1e-4)


def earlier_logits_that_move(model):
    """Return the largest change of an earlier logit when the last of twelve tokens changes."""
    tokens = torch.arange(1, 13).repeat(2, 1)
    tokens[1, -1] = 20
    one, other = model(tokens).detach()
    assert not torch.equal(one[-1], other[-1])
    return (one - other)[:-1].abs().max().item()


@pytest.mark.parametrize("variant", (*newer.VARIANTS, *newer.AT_ONE_RATE, *newer.DEEP))
def test_no_logit_of_the_language_model_depends_on_a_later_token_but_for_the_bug(variant):
    moved = earlier_logits_that_move(newer.build(variant, 0, d_model=16))
    assert moved > 1e-4 if variant == "norm over tokens" else moved < 1e-5
