"""The longer version of lesson 05's experiments runs at toy size, with the lesson's own code."""

import json

from benchmarks.lessons import l05_positions as positions


def test_the_positions_are_measured_and_written(tmp_path, capsys):
    positions.main(["--smoke", "--output", str(tmp_path)])
    result = json.loads((tmp_path / "l05_positions.json").read_text())
    assert result["smoke"] and {"hardware", "versions", "commit"} <= set(result)
    kinds = {(row["experiment"], row.get("question"), row["kind"]) for row in result["rows"]}
    assert kinds == {("dates", None, kind) for kind in positions.DATES} | {
        (name, question, kind)
        for name, (_, kinds, questions, *_) in positions.GAMES.items()
        for question in questions
        for kind in kinds
    }
    for row in result["rows"]:
        scores = [row[name] for name in positions.SCORES if name in row]
        assert len(scores) == (1 if row["experiment"] == "dates" else 4)
        assert all(0 <= score <= 1 for score in scores)
        assert ("table_steps" in row) == (
            (row["experiment"], row["kind"]) == ("dates", "learned table")
        )
    assert "| game who bit me? | rotary | beyond |" in capsys.readouterr().out
