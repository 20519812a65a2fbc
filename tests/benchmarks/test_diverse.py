"""More pairs out of the same pairs, at toy size: who translates what, and what is learned of it."""

from dataclasses import replace

import pytest
import torch

from benchmarks import diverse, quality, recipes
from transformer_lab import runs, train
from transformer_lab.runs import load_run
from transformer_lab.support.files import read_json


@pytest.fixture
def small(monkeypatch, captions):
    """Captions for Multi30k, a preset of toy size; returned are the pairs that `fit` is given."""
    splits, learned = {"train": captions, "val": captions[:3], "test2016": captions[:4]}, []
    for module in (runs, quality, diverse):
        monkeypatch.setattr(module, "load_task", lambda *_: splits)
    toy = runs.find_preset("multi30k-tok", recipes.TOY | recipes._pieces(60))
    for preset in ("multi30k-tok", "multi30k-raw"):
        monkeypatch.setitem(runs.PRESETS, preset, replace(toy, data=preset))
    monkeypatch.setattr(diverse, "STEPS", 2)
    fit = runs.fit

    def recorded(model, pairs, *others, **settings):
        learned.append(pairs)
        return fit(model, pairs, *others, **settings)

    monkeypatch.setattr(runs, "fit", recorded)
    return learned


def test_a_pupil_learns_the_pairs_and_what_its_teachers_made_of_them(small, captions, tmp_path):
    (row,) = quality.measure("multi30k-diverse", tmp_path, smoke=True)
    assert row["seed"] == 0 and row["scores"]["test2016"]["bleu"] >= 0
    *forward, both, pupil = small
    assert [len(pairs) for pairs in forward] == [40, 40, 40] and len(both) == 80
    tokenizer = load_run(tmp_path / "multi30k-diverse-0").tokenizer
    read, german = {source for source, _ in captions}, {target for _, target in captions}
    texts = [tuple(map(tokenizer.decode, pair)) for pair in pupil]
    assert texts[:40] == captions and not set(captions) & set(texts[40:])
    assert len(texts) == len(set(texts)) > 40
    for source, target in texts[40:]:  # one side is a caption, the other one was written
        assert source in read or target in german


def test_the_teachers_have_the_precision_of_the_pupil(small, tmp_path):
    folder = tmp_path / "multi30k-diverse-0"
    diverse.train_diverse(folder, seed=0, precision="bfloat16", progress=False)
    found = [read_json(path)["training"]["precision"] for path in tmp_path.glob("*/metrics.json")]
    assert found == ["bfloat16"] * 5
    with pytest.raises(ValueError, match="tok-0 must be a run in float32, got one in bfloat16"):
        diverse.train_longer(tmp_path / "longer", seed=0, progress=False)
    assert not (tmp_path / "longer").exists()


def test_what_is_there_is_not_made_again(small, tmp_path, monkeypatch):
    folder = tmp_path / "multi30k-diverse-0"
    first = diverse.train_diverse(folder, seed=0, progress=False)
    translations = sorted(tmp_path.glob("*/translations.txt"))
    assert len(translations) == 4
    monkeypatch.setattr(diverse.Run, "translate", lambda self, texts, **_: ["x" for _ in texts])
    again = diverse.train_diverse(folder, seed=0, progress=False)
    assert small[-1] == small[4] and len(small) == 6  # the pupil alone
    for name, weight in first.model.state_dict().items():
        assert weight.equal(again.model.state_dict()[name])


@pytest.fixture
def starts(monkeypatch):
    """The names of the runs that others begin at."""
    found, check = [], runs._require_same_sizes

    def recorded(start, model):
        found.append(start.folder.name)
        check(start, model)

    monkeypatch.setattr(runs, "_require_same_sizes", recorded)
    return found


def test_each_pupil_begins_as_the_teacher_of_its_seed(small, starts, tmp_path):
    diverse.train_diverse(tmp_path / "multi30k-diverse-1", seed=1, progress=False)
    assert starts == ["multi30k-tok-0", "multi30k-tok-1"]  # the model of both directions, the pupil


def test_the_control_goes_on_from_the_same_teacher_with_the_pairs_alone(small, starts, tmp_path):
    (row,) = quality.measure("multi30k-longer", tmp_path, smoke=True, precision="bfloat16")
    teacher, longer = small
    assert starts == ["multi30k-tok-0"] and teacher == longer and len(longer) == 40
    assert row["training"]["steps"] == diverse.STEPS


def test_a_run_can_begin_where_another_has_ended(small, captions, tmp_path):
    first = train("multi30k-tok", tmp_path / "first", progress=False)
    still = {"rate_factor": 1e-12, "weight_decay": 0.0, "progress": False}
    more = [("a purple dog", "ein lila hund")]
    second = train("multi30k-tok", tmp_path / "x", start=first, more_pairs=more, seed=7, **still)
    assert second.tokenizer is first.tokenizer
    for name, weight in second.model.named_parameters():
        torch.testing.assert_close(weight, first.model.get_parameter(name))
    with pytest.raises(ValueError, match="a run with num_heads=2, got 1"):
        train("multi30k-tok", tmp_path / "y", start=first, num_heads=2, progress=False)
    with pytest.raises(ValueError, match="holds a run with other start settings"):
        train("multi30k-tok", tmp_path / "first", start=first, progress=False)


def test_more_pairs_are_learned_in_the_words_of_the_task(captions, small, tmp_path):
    more = [("a purple dog", "ein lila hund")]
    with_more = train("multi30k-tok", tmp_path / "more", more_pairs=more, progress=False)
    without = train("multi30k-tok", tmp_path / "without", progress=False)
    assert with_more.tokenizer.pieces == without.tokenizer.pieces
    assert [len(pairs) for pairs in small] == [41, 40]
    with pytest.raises(ValueError, match="other"):  # and not a run on other pairs, goes on
        train("multi30k-tok", tmp_path / "more", steps=6, progress=False)
