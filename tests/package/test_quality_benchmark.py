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
    options = ["multi30k-tok", "--runs", str(tmp_path / "runs"), "--output", str(tmp_path)]
    quality.main(options)
    found = json.loads((tmp_path / "multi30k-tok.json").read_text())
    assert [row["seed"] for row in found["rows"]] == [0, 1]
    score = found["rows"][0]["scores"]["test2016"]
    assert score["low"] <= score["bleu"] <= score["high"] and "tok:none" in score["signature"]
    assert found["published"]["test2016"] == 41.02
    assert {"the published shape", "R-Drop"} <= {row.get("way") for row in found["tried"]}
    assert any("run" in row for row in found["tried"])
    paper = found["rows"][0]["scores_paper_alpha"]["test2016"]
    run = runs.load_run(tmp_path / "runs/multi30k-tok-0")
    sources, references = zip(*splits["test2016"], strict=True)
    outputs = run.translate(list(sources), alpha=0.6)
    assert paper["bleu"] == runs.score("multi30k-tok", outputs, references)["bleu"]
    assert found["means_paper_alpha"]["test2016"]["low"] <= paper["bleu"]
