"""The measure of quality at toy size: each test set with its interval, beside what was tried."""

import json

from benchmarks import quality, recipes
from transformer_lab import PRESETS, runs
from transformer_lab.runs import find_preset


def test_a_preset_is_scored_with_intervals_beside_what_was_tried(captions, tmp_path, monkeypatch):
    splits = {"train": captions, "val": captions[:3], "test2016": captions[:4]}
    for module in (runs, quality):
        monkeypatch.setattr(module, "load_task", lambda *_: splits)
    toy = recipes.TOY | recipes._pieces(60) | {"num_encoder_layers": 1, "num_decoder_layers": 1}
    monkeypatch.setitem(PRESETS, "multi30k-tok", find_preset("multi30k-tok", toy))
    monkeypatch.setitem(quality.SEEDS, "multi30k-tok", (0, 1))
    asked, translate = [], runs.Run.translate

    def recorded(self, texts, *, length_penalty=None, **others):
        asked.append((length_penalty, texts))
        return translate(self, texts, length_penalty=length_penalty, **others)

    monkeypatch.setattr(runs.Run, "translate", recorded)
    monkeypatch.setitem(quality.SEEDS, "multi30k-tok-adam", (0,))
    options = ["--runs", str(tmp_path / "runs"), "--output", str(tmp_path)]
    quality.main(["multi30k-tok", "multi30k-tok-adam", "--precision", "bfloat16", *options])
    for name, optimizer in (("multi30k-tok", "muon"), ("multi30k-tok-adam", "adam")):
        (row, *_) = json.loads((tmp_path / f"{name}.json").read_text())["rows"]
        trained = row["training"]["optimizer"], row["training"]["precision"]
        assert trained == (optimizer, "bfloat16")
    found = json.loads((tmp_path / "multi30k-tok.json").read_text())
    assert [row["seed"] for row in found["rows"]] == [0, 1]
    score = found["rows"][0]["scores"]["test2016"]
    assert score["low"] <= score["bleu"] <= score["high"] and "tok:none" in score["signature"]
    assert found["published"]["test2016"] == 41.02
    assert {"the published shape", "R-Drop"} <= {row.get("way") for row in found["tried"]}
    assert any("run" in row for row in found["tried"])
    penalties = [
        length_penalty for length_penalty, texts in asked if len(texts) == len(splits["test2016"])
    ]
    assert penalties.count(0.6) == 3 and penalties.count(None) >= 3  # each seed, in both ways
    for row in found["rows"]:
        assert set(row["scores_paper_alpha"]) == set(row["scores"]) == {"test2016"}


def test_the_wide_run_is_trained_with_r_drop_at_its_own_width(captions, tmp_path, monkeypatch):
    splits = {"train": captions, "val": captions[:3], "test2016": captions[:4]}
    for module in (runs, quality):
        monkeypatch.setattr(module, "load_task", lambda *_: splits)
    asked, forward = [], recipes.RDrop.forward

    def recorded(self, *batch):
        asked.append(self.states.model.config)
        return forward(self, *batch)

    monkeypatch.setattr(recipes.RDrop, "forward", recorded)
    few = recipes._pieces(60) | {"num_encoder_layers": 1, "num_decoder_layers": 1, "steps": 2}
    (row,) = quality.measure("multi30k-tok-rdrop", tmp_path, smoke=True, **few)
    sizes = asked[0].d_model, asked[0].num_heads, asked[0].d_ff
    assert len(asked) == 2 and sizes == (256, 8, 512)
    assert row["training"]["steps"] == 2 and row["training"]["optimizer"] == "muon"
