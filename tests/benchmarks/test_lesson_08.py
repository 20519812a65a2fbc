"""The longer experiments of lesson 08 run at toy size, and measure what they say."""

import json

import pytest
import torch

from benchmarks.lessons import l08_climb as climb
from benchmarks.lessons import l08_exposure as exposure
from benchmarks.lessons import l08_smoothing as smoothing
from benchmarks.lessons import l08_warmup as warmup


@pytest.fixture(scope="module")
def dates():
    return exposure.Dates(count=300, tests=40)


def test_exposure_runs_and_writes_what_it_measured(tmp_path):
    exposure.main(["--smoke", "--output", str(tmp_path)])
    result = json.loads((tmp_path / "l08_exposure.json").read_text())
    assert result["smoke"] and {"hardware", "versions", "commit", "sizes"} <= set(result)
    (row,) = result["rows"]
    assert {"truth", "random", "own"} == set(row["after a digit"]["at the third digit"])
    assert len(row["planted"]["dash"]) == 8 and len(row["by place"]["forced"]) == 11


def test_warm_up_runs_and_writes_what_it_measured(tmp_path):
    warmup.main(["--smoke", "--output", str(tmp_path)])
    result = json.loads((tmp_path / "l08_warmup.json").read_text())
    assert [row["name"] for row in result["rows"]] == list(warmup.RATES)
    assert {row["name"] for row in result["rows"] if "sources shuffled" in row} == {*warmup.ASKED}
    moves = {row["name"]: row["move"] for row in result["rows"] if "move" in row}
    # Adam's first step has the full length of the rate, a later one a part of it.
    assert 0.9 < moves["one large step"] < 1.001 and 0 < moves["one at step 31"] < 0.9


def test_the_climb_runs_and_writes_what_it_measured(tmp_path, monkeypatch):
    names = ("0.01 climbing", "loss × 100", "0.01 decoder at once", "0.01 pre-LN", "RAdam")
    monkeypatch.setattr(climb, "RUNS", {name: climb.RUNS[name] for name in names})
    climb.main(["--smoke", "--output", str(tmp_path)])
    rows = json.loads((tmp_path / "l08_climb.json").read_text())["rows"]
    assert [row["name"] for row in rows] == list(names)
    for row in rows:
        assert list(row["apart"]) == ["0", "1", "10", "20"] and len(row["losses"]) == 2
        assert {"own sources", "sources shuffled"} <= set(row)
        assert ("decoder apart" in row) == (row["name"] == "0.01 decoder at once")


def test_the_halves_are_the_encoder_and_the_rest(dates):
    model = dates.model(0)
    encoder, rest = ({id(p) for p in half} for half in climb.halves(model))
    assert {id(p) for p in model.encoder.parameters()} < encoder
    assert {id(p) for p in model.decoder.parameters()} <= rest
    assert encoder | rest == {id(p) for p in model.parameters()} and not encoder & rest


def test_the_runs_of_the_climb_differ_in_what_their_names_say():
    runs = climb.RUNS
    assert runs["0.0035 climbing"] == {"rate": 0.0035, "climb": 60}
    assert runs["0.01 at once"] == {"rate": 0.01, "climb": 1, "decoder": True}
    assert runs["0.01 encoder at once"]["climb"] == (1, climb.CLIMB)
    assert runs["0.01 decoder at once"]["climb"] == (climb.CLIMB, 1)
    assert runs["loss × 100"] == {"scale": 100.0} and runs["loss × 0.01"] == {"scale": 0.01}
    assert runs["0.01 Norm(3.5 x + f(x))"] == {"rate": 0.01, "residual": 3.5}
    assert pytest.approx(5 * 0.0035) == climb.LARGE


def test_a_weighted_residual_is_norm_of_weight_times_x_plus_f(dates):
    plain, weighted = (climb.new_model(dates, 0, False, weight) for weight in (1.0, 3.5))
    frames = [m for m in weighted.modules() if isinstance(m, climb.AddNorm)]
    assert len(frames) == 2 * 2 + 2 * 3 and all(m.weight == 3.5 for m in frames)
    x = torch.randn(2, 3, 64)
    torch.testing.assert_close(frames[0](x, torch.sin), frames[0].norm(3.5 * x + torch.sin(x)))
    for a, b in zip(plain.parameters(), weighted.parameters(), strict=True):
        assert torch.equal(a, b)  # only the frame differs
    pre = climb.new_model(dates, 0, True, 1.0)
    assert all(m.pre_norm for m in pre.modules() if isinstance(m, climb.AddNorm))


def test_words_are_apart_by_their_distance_from_their_mean_pads_left_out():
    class Fixed:
        def __init__(self, memory):
            self.memory = memory

        def encode(self, source):
            return self.memory, (source != 0)[:, None, None]

    source = torch.tensor([[5, 5, 0]])
    assert climb.words_apart(Fixed(torch.tensor([[[1.0, 0], [1, 0], [9, 9]]])), source) == 0
    opposite = climb.words_apart(Fixed(torch.tensor([[[1.0, 0], [-1, 0], [9, 9]]])), source)
    assert opposite == pytest.approx(1)


def test_smoothing_runs_and_writes_what_it_measured(tmp_path):
    smoothing.main(["--smoke", "--output", str(tmp_path)])
    rows = json.loads((tmp_path / "l08_smoothing.json").read_text())["rows"]
    assert [row["epsilon"] for row in rows] == [0.0, 0.1]
    asked = {"loss", "loss, divided", "first choice", "tokens right", "dates right"}
    assert all(asked <= set(row) for row in rows)


def test_the_best_divisor_is_the_one_by_which_logits_are_too_large():
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(4000, 5, generator=generator)
    truth = torch.multinomial(logits.softmax(-1)[:, 1:], 1, generator=generator)[:, 0] + 1
    logits = logits[:, 1:]
    logits = torch.cat([torch.full((4000, 1), -1e9), logits], dim=1)  # nobody says the pad
    assert smoothing.best_divisor(1.5 * logits, truth) == pytest.approx(1.5, abs=0.1)


def test_only_a_model_that_reads_its_sources_minds_shuffled_ones(dates):
    def deaf(source, target):
        return torch.zeros(*target.shape, dates.tokenizer.vocab_size)

    assert len(set(warmup.unseen_losses(deaf, dates).values())) == 1
    assert len(set(warmup.unseen_losses(dates.model(0).eval(), dates).values())) == 2


def test_the_rates_differ_in_their_first_steps_only_as_they_say():
    rates = {name: [rate(step) for step in range(1, 301)] for name, rate in warmup.RATES.items()}
    crest, large = warmup.CREST, warmup.LARGE
    assert max(rates["ramp"]) == rates["ramp"][149] == pytest.approx(crest)
    assert large == pytest.approx(150**0.5 * crest)
    assert rates["one large step"] == [large] + 299 * [crest]
    assert rates["five large steps"] == 5 * [large] + 295 * [crest]
    assert rates["warm-up of 1 step"][149] == pytest.approx(crest)
    assert max(rates["ramp to 0.0438"]) == pytest.approx(large) == pytest.approx(0.0438, rel=2e-3)
    assert max(rates["ramp to 0.0175"]) == rates["0.0175 at once"][0] == rates["ramp to 0.0175"][59]
    assert rates["0.0175 at once"][0] == pytest.approx(0.0175, rel=2e-3)
    assert rates["one at step 31"] == 30 * [crest] + [large] + 269 * [crest]
    assert rates["five from step 31"] == 30 * [crest] + 5 * [large] + 265 * [crest]
    assert rates["one at step 31, × 5"] == 30 * [crest] + [5 * large] + 269 * [crest]
    assert rates["five from step 31, × 5"] == 30 * [crest] + 5 * [5 * large] + 265 * [crest]


def test_other_digits_are_neither_of_the_two(dates):
    digits = torch.tensor([3, 7]) + dates.zero
    others = exposure.other_digits(dates, digits, digits.flip(0))
    for row in range(2):
        kept = [int(digit[row]) - dates.zero for digit, keep in others if keep[row]]
        assert kept == [0, 1, 2, 4, 5, 6, 8, 9]


def test_a_model_that_is_right_makes_no_mistakes_behind_the_truth(dates, monkeypatch):
    monkeypatch.setattr(exposure, "said", lambda model, batch, read=None: batch.target_out)
    asked = exposure.after_a_digit(None, dates)
    assert asked["dates"] == 0 and asked["all"] == {"truth": 0.0, "random": 0.0, "own": 0.0}
    truth = dates.exam.target_out  # it knows every third digit, and is right behind anything
    differ = truth[:, exposure.THIRD] != truth[:, exposure.FOURTH]
    assert asked["third digit right"] == differ.sum() > 0
    assert asked["exchanged"] == {"truth": 1.0, "random": 1.0, "own": 1.0}


def test_the_control_reads_the_fourth_digit_where_the_third_stood(dates, monkeypatch):
    """Who repeats what stands before it is right behind the exchange alone."""

    def echo(model, batch, read=None):
        return batch.target_out if read is None else read

    monkeypatch.setattr(exposure, "said", echo)
    asked = exposure.after_a_digit(None, dates)
    assert asked["exchanged"] == {"truth": 0.0, "random": 0.0, "own": 1.0}


def test_the_truth_can_be_planted(dates):
    torch.manual_seed(0)
    model = dates.model(0).eval()
    truth = dates.exam.target_out
    written = exposure.go_on(model, dates.exam, exposure.THIRD, truth[:, exposure.THIRD])
    assert torch.equal(written[:, : exposure.FOURTH], truth[:, : exposure.FOURTH])
