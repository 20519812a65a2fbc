"""What lesson 00 says of one run is measured for more, at toy size, with the lesson's own code."""

import json

import pytest

from benchmarks.lessons import l00_start_here as start_here
from transformer_lab import Run

NO_SHARES = ("model", "seed", "steps", "losses")


def test_the_short_run_and_its_controls_are_measured_and_written(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(Run, "evaluate", lambda *_, **__: {})  # 2,000 more dates
    start_here.main(["--smoke", "--output", str(tmp_path)])
    result = json.loads((tmp_path / "l00_start_here.json").read_text())
    assert result["smoke"] and {"hardware", "versions", "commit"} <= set(result)
    rows = {row["model"]: row for row in result["rows"]}
    assert set(rows) == {"short", "sources shuffled", "trained"}
    shares = {
        model: {name: share for name, share in row.items() if name not in NO_SHARES}
        for model, row in rows.items()
    }
    assert all(0 <= share <= 1 for each in shares.values() for share in each.values())
    untrained = {name for name in shares["short"] if name.startswith("untrained, ")}
    assert set(shares["short"]) - untrained == set(shares["trained"]) and len(untrained) == 3
    assert rows["trained"]["exact match"] > 0.9 > rows["short"]["exact match"]
    assert "| short | exact match |" in capsys.readouterr().out


@pytest.fixture(scope="module")
def evidence():
    """The lesson's own functions."""
    return start_here.lesson()


def test_loading_the_lessons_code_trains_nothing(evidence):
    assert "run" not in evidence


@pytest.mark.parametrize(
    ("form", "change", "before", "after"),
    [
        (
            "weekday in full",
            "another of the same length",
            "FRIDAY, 1 MAY 2019",
            "SUNDAY, 1 MAY 2019",
        ),
        (
            "weekday in full",
            "another of another length",
            "Monday 1 May 2019",
            "Thursday 1 May 2019",
        ),
        ("weekday in full", "the same backwards", "monday 1 may 2019", "yadnom 1 may 2019"),
        ("weekday in full", "none", "Monday, May 1, 2019", "May 1, 2019"),
        ("numbers alone", "zeros added", "5.2.2019", "05.02.2019"),
        ("numbers alone", "a space for the first sign", "15/2/2019", "15 2/2019"),
        ("other names", "two spaces behind", "tue 5 may 2019", "tue 5 may 2019  "),
    ],
)
def test_a_change_changes_what_it_says(evidence, form, change, before, after):
    assert evidence["form_of"](before) == form
    assert evidence["CHANGES"][form][change](before) == after


def test_right_digits_in_a_wrong_order_are_told_from_chance(evidence):
    truths = ["2041-09-26", "2019-02-13", "1987-03-03", "1953-08-04"]
    answers = ["2014-09-26", "2019-02-31", "1987-04-03", "1953-08-04"]
    model, chance = evidence["swapped"](truths, answers).values()
    assert model == 2 / 3
    # In place of the wrong parts, others' wrong ones: 2019-09-26, 2019-02-03, 1987-09-03, …
    assert chance == 0


def test_a_part_that_is_right_by_chance_is_no_wrong_part(evidence):
    truths = ["2019-02-13", "2041-09-13", "1987-03-31", "1953-08-04"]
    answers = ["2019-02-30", *truths[1:]]
    # The second has the same day, which would be right; of the other two one has 31 for 13.
    assert evidence["swapped"](truths, answers) == {
        "wrong answers with the right digits": 0,
        "the same if wrong parts were by chance": 1 / 2,
    }
