"""The longer version of lesson 03's experiments runs at toy size, with the lesson's own code."""

import json

from benchmarks.lessons import l03_heads as heads


def test_the_heads_are_measured_and_written(tmp_path, capsys):
    heads.main(["--smoke", "--output", str(tmp_path)])
    result = json.loads((tmp_path / "l03_heads.json").read_text())
    assert result["smoke"] and {"hardware", "versions", "commit"} <= set(result)
    rows = {name: [] for name in ("look-ups", "letters", "words", "silenced")}
    for row in result["rows"]:
        rows[row["experiment"]].append(row)
    assert {row["kind"] for row in rows["look-ups"]} == set(heads.kinds(heads.lesson()))
    assert all(row["first"] <= 1 and row["last"] <= 1 for row in rows["look-ups"])
    assert all(0 <= row["both_right"] <= 1 for row in rows["letters"] + rows["words"])
    right = {row["kind"]: row["right"] for row in rows["silenced"]}
    assert right["nothing"] == right["layer 4"] == 12 > right["all"]
    assert "| network in front |" in capsys.readouterr().out
