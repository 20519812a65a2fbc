"""What lesson 13 measures for longer: comparisons are fair, and stopped scripts go on."""

import json
from functools import partial

import pytest
import torch

from benchmarks.lessons import l13_newer as newer
from benchmarks.lessons import l14_experts as experts
from benchmarks.lessons import l14_law as law
from benchmarks.lessons import l14_split as split
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


@pytest.mark.parametrize("script", [distance, newer, experts, law])
def test_the_script_runs_at_toy_size(script, tmp_path):
    script.main(["--smoke", "--output", str(tmp_path)])
    (path,) = tmp_path.iterdir()
    result = json.loads(path.read_text())
    assert result["smoke"] and len(result["rows"]) == len(script.plan(True))


def test_the_five_differences_are_compared_at_equal_parameters():
    model = newer.lesson()["LanguageModel"]
    sizes = {
        sum(p.numel() for p in model(48, switches).blocks.parameters() if p.dim() > 1)
        for switches in newer.variants().values()
    }
    assert len(sizes) == 1  # matrices: a norm has β or it has not


def earlier_logits_that_move(model):
    """Return the largest change of an earlier logit when the last of twelve tokens changes."""
    tokens = torch.arange(1, 13).repeat(2, 1)
    tokens[1, -1] = 20
    one, other = model(tokens).detach()
    assert not torch.equal(one[-1], other[-1])
    return (one - other)[:-1].abs().max().item()


@pytest.mark.parametrize("variant", newer.variants())
def test_no_logit_of_the_language_model_depends_on_a_later_token(variant):
    torch.manual_seed(0)
    model = newer.lesson()["LanguageModel"](16, newer.variants()[variant])
    assert earlier_logits_that_move(model) < 1e-5


@pytest.mark.parametrize("variant", experts.PLANS)
def test_nor_does_one_with_experts(variant):
    assert earlier_logits_that_move(experts.build(variant, 0, 16)) < 1e-5


def test_equal_operations_and_equal_parameters_are_what_they_say():
    plans = experts.PLANS
    wide, narrow, dense = (plans[name] for name in ("8 experts", "8 experts of an eighth", "dense"))
    assert wide["share"] == dense["share"]
    assert narrow["share"] * narrow["experts"] == dense["share"] * dense["experts"]


def test_a_fixed_router_knows_the_letter_alone():
    model = experts.build("8 experts, fixed", 0, 16)
    (first, second) = (block.network.router for block in model.blocks)
    model(torch.tensor([[3, 11, 4, 3]]))
    chosen = first(None).argmax(dim=-1)
    assert chosen.tolist() == [3, 3, 4, 3] == second(None).argmax(dim=-1).tolist()
    model = experts.build("8 experts, by place", 0, 16)
    model(torch.tensor([[3, 11, 4], [3, 3, 3]]))
    chosen = model.blocks[1].network.router(None).argmax(dim=-1)
    assert chosen.tolist() == [0, 1, 2, 0, 1, 2]


def test_all_groups_together_are_the_whole_network_and_none_is_nothing():
    whole, nothing, all_of_them = (
        split.run("reader 0", groups, router, keep)
        for groups, router, keep in (
            ("whole", "whole", 8),
            ("nothing", "nothing", 0),
            ("firing together", "learnt", 8),
        )
    )
    assert all_of_them == pytest.approx(whole, abs=1e-3)
    assert nothing["exact"] < 0.1 < whole["exact"]


def test_groups_hold_each_unit_once_and_three_random_cuts_differ():
    for kind in ("firing together", "random", "random, cut 1", "single"):
        for groups in split.cut("reader 0", kind):
            assert sorted(groups.flatten().tolist()) == list(range(256))
    cuts = [split.cut("reader 0", kind)[0] for kind in ("random", "random, cut 1", "random, cut 2")]
    assert len({tuple(groups.flatten().tolist()) for groups in cuts}) == 3


def test_units_that_fire_together_come_into_one_group():
    on = torch.eye(4).repeat_interleave(2, dim=1).repeat(5, 1)  # units 0 and 1, 2 and 3, …
    groups = split.lesson()["cofiring_groups"](on, 4)
    assert sorted(sorted(group) for group in groups.tolist()) == [[0, 1], [2, 3], [4, 5], [6, 7]]
