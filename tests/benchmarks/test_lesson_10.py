"""What lesson 10 measures for longer, on toys whose answers are known; how results are shown."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.lessons import l10_captions as captions
from benchmarks.lessons import l10_optimism as optimism
from course.figures.notebook import stored_result
from transformer_lab.support.files import write_json

PAIRS = [([4 + i % 5, 9, 2], [10 + i % 5, 2]) for i in range(60)]


def tiny_preset():
    sizes = {"d_model": 16, "num_heads": 2, "d_ff": 32, "dropout": 0.0}
    sizes |= {"num_encoder_layers": 1, "num_decoder_layers": 1}
    training = replace(captions.SHORT.training, steps=60, max_tokens=60, checkpoint_every=20)
    return replace(
        captions.SHORT,
        model=replace(captions.SHORT.model, **sizes),
        training=replace(training, warmup=10),
    )


def test_shuffled_sources_are_the_same_sources_with_other_targets():
    shuffled = captions.without_sources(PAIRS, 0)
    assert sorted(source for source, _ in shuffled) == sorted(source for source, _ in PAIRS)
    assert [target for _, target in shuffled] == [target for _, target in PAIRS]
    assert shuffled != PAIRS and shuffled != captions.without_sources(PAIRS, 1)


def test_a_model_without_its_sources_learns_the_targets_alone():
    preset = tiny_preset()
    own = captions.short_run(preset, PAIRS, PAIRS[:10], vocabulary=20)
    blind = captions.short_run(
        preset, captions.without_sources(PAIRS, 0), PAIRS[:10], vocabulary=20
    )
    assert set(own["losses"]) == {20, 40, 60}
    assert own["losses"][60] < blind["losses"][60] - 0.2  # ln 5 / 2 = 0.8 is what the source says


def counts(right):
    """The counts of sentences of ten words of which all or nothing is right: (sentences, 10)."""
    row = [10, 10, 10, 9, 8, 7, 10, 9, 8, 7]  # lengths, matches, totals
    return np.array([row[:2] + [x * y for y in row[2:6]] + row[6:] for x in right])


def test_a_checkpoint_that_is_really_better_gains_on_both_halves():
    rng = np.random.default_rng(0)
    good, bad = rng.random(200) < 0.9, rng.random(200) < 0.5
    found = optimism.flattery(np.array([counts(bad), counts(good)]), 50, 0)
    assert found["gain_shown"] > 10 and found["gain_real"] > 10


def test_luck_gains_on_the_half_that_chose_alone():
    rng = np.random.default_rng(0)
    alike = np.array([counts(rng.random(200) < 0.5) for _ in range(20)])
    found = optimism.flattery(alike, 200, 0)
    assert found["gain_shown"] > 2 and found["gain_real"] < found["gain_shown"] / 2


def test_counts_add_up_to_the_score():
    outputs, references = ["a b c d e", "f g h i"], ["a b c d x", "f g h i"]
    found = optimism.bleu_of(optimism.counts_of(outputs, references))
    expected = optimism.BLEU().corpus_score(outputs, [references]).score
    assert found == pytest.approx(expected)


def test_a_stored_result_names_its_file_and_where_it_comes_from(tmp_path, capsys):
    content = {"hardware": {"cpu": "a CPU"}, "threads": 2, "versions": {"torch": "2.13"}}
    content |= {"date": "2026-11-22T10:00", "commit": "0123456789", "rows": [1]}
    write_json(tmp_path / "some.json", content)
    assert stored_result("some.json", folder=tmp_path)["rows"] == [1]
    shown = capsys.readouterr().out
    for words in ("benchmarks/results/some.json", "a CPU", "2 threads", "2026-11-22", "01234567"):
        assert words in shown
    assert str(tmp_path) not in shown


def test_a_result_that_is_not_there_is_said_to_be_missing(tmp_path, capsys):
    assert stored_result("some.json", "python -m some", tmp_path) is None
    shown = capsys.readouterr().out
    assert "some.json is not there yet; python -m some makes it" in shown


@pytest.mark.parametrize("folder", ["notebooks", "notebooks/evidence", "work/mine/deeper"])
def test_a_result_is_found_from_wherever_in_the_course_the_notebook_lies(
    folder, tmp_path, monkeypatch, capsys
):
    (tmp_path / "benchmarks/results").mkdir(parents=True)
    write_json(tmp_path / "benchmarks/results/some.json", {"rows": [1]})
    (tmp_path / folder).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / folder)
    assert stored_result("some.json")["rows"] == [1]
    assert capsys.readouterr().out.startswith("[benchmarks/results/some.json")


def test_outside_of_a_course_the_results_beside_the_package_are_read(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert stored_result("dates.json")["rows"]


def test_a_damaged_result_is_an_error(tmp_path):
    (tmp_path / "some.json").write_text("{")
    with pytest.raises(ValueError, match=r"some\.json is not valid JSON"):
        stored_result("some.json", folder=tmp_path)
