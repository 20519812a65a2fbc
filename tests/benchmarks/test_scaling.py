"""The longer version of lesson 02's race runs at toy size, and is the lesson's race."""

import json

from benchmarks.lessons import l02_scaling as scaling


def test_the_race_is_run_and_written(tmp_path, capsys):
    scaling.main(["--smoke", "--output", str(tmp_path)])
    result = json.loads((tmp_path / "l02_scaling.json").read_text())
    assert result["smoke"] and {"hardware", "versions", "commit"} <= set(result)
    assert {row["runner"] for row in result["rows"]} == {*scaling.RUNNERS, scaling.LONGER}
    assert all(row["steps"] is None and 0 <= row["right"] <= 1 for row in result["rows"])
    assert "| additive | 4 |" in capsys.readouterr().out


def test_runs_side_by_side_are_the_lessons_runs():
    code = scaling.lesson()
    for kind, power in (("÷ √d_k", 0), ("additive", 0), ("÷ 1", -0.5)):
        runs = [(0.02, 0), (0.05, 1)]
        alone = [code["learn"](kind, 16, seed, rate, 100, 16**power) for rate, seed in runs]
        together = scaling.race(code, (kind, power, -0.5), 16, runs, 100)
        assert [run["steps"] for run in alone] == [run["steps"] for run in together]
        assert any(run["steps"] for run in alone)


def test_a_rate_that_stops_no_run_is_better_than_a_fast_one_that_does():
    tried = {0.005: (5, 6, None), 0.02: (90, 80, 70), 0.05: (95, 75, 74), 0.1: (None, None, 1)}
    rows = [
        {"runner": "÷ 1", "d_k": 4, "rate": rate, "seed": seed, "steps": steps}
        for rate, of_rate in tried.items()
        for seed, steps in enumerate(of_rate)
    ]
    assert [row["steps"] for row in scaling.best_rate(rows, "÷ 1", 4)] == [95, 75, 74]
