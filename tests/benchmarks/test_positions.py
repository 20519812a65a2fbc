"""The longer version of lesson 05's experiments runs at toy size, with the lesson's own code."""

import json

from benchmarks.lessons import positions


def test_the_positions_are_measured_and_written(tmp_path, capsys):
    positions.main(["--smoke", "--output", str(tmp_path)])
    result = json.loads((tmp_path / "positions.json").read_text())
    assert result["smoke"] and {"hardware", "versions", "commit"} <= set(result)
    kinds = {(row["experiment"], row["kind"]) for row in result["rows"]}
    assert kinds == {("dates", kind) for kind in positions.DATES} | {
        (task, kind)
        for task in ("letters", "first_letter", "full_length", "random_start")
        for kind in (positions.LETTERS if "letter" in task else positions.ADDED)
    }
    for row in result["rows"]:
        scores = [row[name] for name in positions.SCORES if name in row]
        assert len(scores) in (1, 4) and all(0 <= score <= 1 for score in scores)
    assert "| letters | rotary | beyond |" in capsys.readouterr().out
