"""What lesson 00 says of one run is measured for more, at toy size, with the lesson's own code."""

import json

from benchmarks.lessons import start_here
from transformer_lab import Run


def test_the_short_run_is_measured_and_written(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(Run, "evaluate", lambda *_, **__: {})  # 2,000 more dates
    start_here.main(["--smoke", "--output", str(tmp_path)])
    result = json.loads((tmp_path / "start_here.json").read_text())
    assert result["smoke"] and {"hardware", "versions", "commit"} <= set(result)
    (row,) = result["rows"]
    shares = {name: share for name, share in row.items() if name not in ("seed", "steps")}
    assert len(shares) == 14 and all(0 <= share <= 1 for share in shares.values())
    assert "| exact match |" in capsys.readouterr().out


def test_right_digits_in_a_wrong_order_are_told_from_chance():
    truths = ["2041-09-26", "2019-02-13", "1987-03-03", "1953-08-04"]
    answers = ["2014-09-26", "2019-02-31", "1987-04-03", "1953-08-04"]
    model, chance = start_here.swapped(truths, answers).values()
    assert model == 2 / 3
    # In place of the wrong parts, others' wrong ones: 2019-09-26, 2019-02-03, 1987-09-03, …
    assert chance == 0


def test_a_part_that_is_right_by_chance_is_no_wrong_part():
    truths = ["2019-02-13", "2041-09-13", "1987-03-31", "1953-08-04"]
    answers = ["2019-02-30", *truths[1:]]
    # The second has the same day, which would be right; of the other two one has 31 for 13.
    assert start_here.swapped(truths, answers) == {
        "wrong answers with the right digits": 0,
        "the same if wrong parts were by chance": 1 / 2,
    }
