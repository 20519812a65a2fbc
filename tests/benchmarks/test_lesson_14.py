"""What lesson 14 measures for longer: what is compared is what it says it is."""

import json

import pytest
import torch

from benchmarks.lessons import l14_experts as experts
from benchmarks.lessons import l14_law as law
from benchmarks.lessons import l14_routers as routers
from benchmarks.lessons import l14_split as split


@pytest.mark.parametrize("script", [experts, law, routers])
def test_the_script_runs_at_toy_size(script, tmp_path):
    script.main(["--smoke", "--output", str(tmp_path)])
    (path,) = tmp_path.iterdir()
    result = json.loads(path.read_text())
    assert result["smoke"]
    for setting in script.plan(True):
        assert any(setting.items() <= row.items() for row in result["rows"])


@pytest.mark.parametrize("variant", experts.PLANS)
def test_no_logit_depends_on_a_later_token(variant):
    tokens = torch.arange(1, 13).repeat(2, 1)
    tokens[1, -1] = 20
    one, other = experts.build(variant, 0, 16)(tokens).detach()
    assert not torch.equal(one[-1], other[-1])
    torch.testing.assert_close(one[:-1], other[:-1])


def test_equal_operations_and_equal_parameters_are_what_they_say():
    rows = {
        name: experts.run(name, 0, 16, 1)
        for name in ("dense", "8 experts", "dense, 8 times as wide")
    }
    dense, eight, wide = rows.values()
    assert eight["network_flops"] == dense["network_flops"]
    assert (
        eight["network_parameters"] == wide["network_parameters"] == 8 * dense["network_parameters"]
    )


def test_a_fixed_router_knows_the_letter_alone_and_its_gate_is_1():
    model = experts.build("8 experts, by letter", 0, 16)
    model(torch.tensor([[3, 11, 4, 3]]))
    for mixture in experts.mixtures_of(model):
        assert mixture.chosen.tolist() == [3, 3, 4, 3]
        torch.testing.assert_close(mixture.probabilities.amax(dim=-1), torch.ones(4))


@pytest.mark.parametrize(
    ("variant", "learns"),
    [("8 experts", True), ("8 experts, gate forgotten", False)],
)
def test_a_router_learns_through_its_gate_alone(variant, learns):
    model = experts.build(variant, 0, 16)
    model(torch.arange(1, 13)[None]).square().sum().backward()
    for mixture in experts.mixtures_of(model):
        slope = mixture.router.weight.grad
        assert (slope is not None and slope.abs().sum() > 0) == learns


def test_part_of_the_text_is_its_beginning():
    rows = [law.run(8, 2, part, 0) for part in (1, 4)]
    assert rows[1]["different_letters"] == rows[0]["different_letters"] // 4
    assert rows[0]["letters_read"] == rows[1]["letters_read"] == 2 * 1024


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


def test_a_route_by_the_letter_is_all_told_by_the_letter_and_one_by_chance_is_not():
    letters = torch.arange(8).repeat(500)
    chance = torch.randint(8, (4000,), generator=torch.Generator().manual_seed(0))
    told, luck = (experts.route(letters, some)["by_letter"] for some in (letters, chance))
    assert told == pytest.approx(1) and luck < 0.02


def test_strangers_that_are_evened_are_equally_busy():
    scores = torch.randn(4000, 8, generator=torch.Generator().manual_seed(0)) + torch.arange(8) / 4
    shares = routers.evened(scores).bincount(minlength=8) / 4000
    assert scores.argmax(dim=1).bincount(minlength=8).max() > 0.2 * 4000
    torch.testing.assert_close(shares, torch.full((8,), 1 / 8), atol=0.01, rtol=0)


@pytest.mark.parametrize(
    ("question", "learns"), zip(routers.CONTROLS, (True, False, True), strict=True)
)
def test_a_control_s_router_learns_if_its_gate_has_a_slope(question, learns):
    model = experts.lesson()["LanguageModel"](16, lambda: routers.kinds()[question](16, 64, 8))
    tokens = torch.tensor([[3, 11, 4, 3]])
    for mixture in experts.mixtures_of(model):
        mixture.letters = tokens
    model(tokens).square().sum().backward()
    for mixture in experts.mixtures_of(model):
        assert (mixture.router.weight.grad is not None) == learns
        if question == "by letter, a learnt gate":
            assert mixture.chosen.tolist() == [3, 3, 4, 3]
