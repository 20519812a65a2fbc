"""The controls of lesson 01 run at toy size, with the lesson's own code."""

import json

from benchmarks.lessons import l01_bottleneck as bottleneck


def measured(folder):
    bottleneck.main(["--smoke", "--output", str(folder)])
    return json.loads((folder / "l01_bottleneck.json").read_text())


def test_the_controls_are_measured_and_written(tmp_path, capsys):
    result = measured(tmp_path)
    assert result["smoke"] and {"hardware", "versions", "commit"} <= set(result)
    kinds = {(row["experiment"], row["kind"]) for row in result["rows"]}
    assert kinds == {("strings", kind) for kind in bottleneck.STRINGS} | {
        ("dates", kind) for kind in bottleneck.DATES
    } | {
        (experiment, kind)
        for experiment in ("copies", "long", "long_copies", "even")
        for kind in bottleneck.ONE_VECTOR
    } | {("copies", kind) for kind in ("LooksBackOneWay", "LooksBackFromRight")} | {
        ("eight", "FixedVector")
    }
    looks = [row for row in result["rows"] if "looks_after" in row]
    assert [row["kind"] for row in looks] == ["LooksBack"]
    for shares in looks[0]["looks_after"].values():
        assert len(shares) == 16 and abs(sum(shares) - 1) < 0.01
    assert "| dates, unseen days | LooksBackByProduct | 2 |" in capsys.readouterr().out


def test_what_is_stored_is_not_measured_again(tmp_path):
    first = measured(tmp_path)
    first["rows"][0]["exact"]["2"] = 0.25
    del first["rows"][-1]
    (tmp_path / "l01_bottleneck.json").write_text(json.dumps(first))
    second = measured(tmp_path)
    assert second["rows"][:-1] == first["rows"] and second["rows"][-1]["experiment"] == "dates"
