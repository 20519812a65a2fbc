"""The controls of lesson 01 run at toy size, with the lesson's own code."""

import json

import pytest

from benchmarks.lessons import bottleneck


def measured(folder):
    bottleneck.main(["--smoke", "--output", str(folder)])
    return json.loads((folder / "bottleneck.json").read_text())


def test_the_controls_are_measured_and_written(tmp_path, capsys):
    result = measured(tmp_path)
    assert result["smoke"] and {"hardware", "versions", "commit"} <= set(result)
    kinds = {(row["experiment"], row["kind"]) for row in result["rows"]}
    assert kinds == {("strings", kind) for kind in bottleneck.STRINGS} | {
        ("dates", kind) for kind in bottleneck.DATES
    } | {
        ("eight", "FixedVector"),
        ("copies", "OneWay"),
        ("long", "OneWay"),
        ("long_copies", "OneWay"),
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
    (tmp_path / "bottleneck.json").write_text(json.dumps(first))
    second = measured(tmp_path)
    assert second["rows"][:-1] == first["rows"] and second["rows"][-1]["experiment"] == "dates"


def test_a_row_is_written_as_soon_as_it_is_measured(tmp_path, monkeypatch):
    file, first = tmp_path / "bottleneck.json", measured(tmp_path)
    rows = first["rows"]
    file.write_text(json.dumps(first | {"rows": rows[3:]}))

    def measure(stored, *, smoke):
        yield rows[0]
        raise KeyboardInterrupt

    monkeypatch.setattr(bottleneck, "measure", measure)
    with pytest.raises(KeyboardInterrupt):
        measured(tmp_path)
    assert json.loads(file.read_text())["rows"] == [rows[0], *rows[3:]]
