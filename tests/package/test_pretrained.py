"""The model that comes with the course, and how it is made."""

import os
import re

import pytest
import torch

from benchmarks import ship
from transformer_lab import cli, load_multi30k, load_run
from transformer_lab.runs import PRETRAINED, score
from transformer_lab.saving import parameters_of
from transformer_lab.support.files import read_json, read_tensors

SENTENCES = {  # and words of which the translation must have one
    "A man in a red hat is reading a book.": "Buch liest",
    "Two dogs are running through the snow.": "Hunde Schnee",
    "A little girl is playing in the water.": "Mädchen Wasser",
    "A woman is sitting on a bench.": "Frau Bank",
    "Three men are playing football on a field.": "Männer Fußball",
    "A boy in a blue shirt is jumping.": "Junge Hemd",
    "People are standing in front of a building.": "Gebäude",
    "A young woman is talking on the phone.": "telefoniert Telefon",
    "A brown dog catches a ball.": "Hund Ball",
    "A man is riding a bicycle down the street.": "Straße Fahrrad",
}


@pytest.fixture(scope="module")
def run():
    return load_run()


def test_ten_sentences_are_translated(run):
    outputs = run.translate(list(SENTENCES))
    for output, words in zip(outputs, SENTENCES.values(), strict=True):
        assert any(word.lower() in output.lower() for word in words.split()), output
        assert output.endswith(".") and 3 <= len(output.split()) <= 16


def test_the_command_line_uses_it_where_no_run_is_given(run, capsys):
    sentence = next(iter(SENTENCES))
    assert cli.main(["translate", sentence]) == 0
    assert capsys.readouterr().out == run.translate(sentence) + "\n"


@pytest.mark.skipif("TRANSFORMER_LAB_DATA" not in os.environ, reason="needs the Multi30k files")
def test_its_bleu_on_100_test_sentences_is_about_what_its_metrics_say(run):
    pairs = load_multi30k("raw")["test2016"][:100]
    outputs = run.translate([source for source, _ in pairs])
    bleu = score(run.data, outputs, [target for _, target in pairs])["bleu"]
    measured = read_json(PRETRAINED / "metrics.json")["scores"]["test2016"]["bleu"]
    assert measured >= 34 and abs(bleu - measured) < 6


def test_it_is_small_and_says_what_it_is():
    folder = PRETRAINED
    sizes = {path.name: path.stat().st_size for path in folder.iterdir() if path.is_file()}
    files = {"config.json", "tokenizer.json", "weights.safetensors", "metrics.json", "CARD.md"}
    assert set(sizes) == files | {"SHA256SUMS"} and sum(sizes.values()) <= 12_000_000
    card, metrics = (folder / "CARD.md").read_text(), read_json(folder / "metrics.json")
    assert card == ship.card(load_run(folder), metrics)
    assert "non-commercial research and education" in card
    on = "a CPU, without a GPU" if metrics["hardware"]["device"] == "cpu" else "a GPU"
    assert on in re.sub(r"\s+", " ", card)
    for values in metrics["scores"].values():
        assert f"{values['bleu']:.2f}" in card and values["signature"] in card


def test_shipping_a_run_gives_the_same_model_in_half_the_bits(tmp_path, monkeypatch):
    folder = PRETRAINED
    run, stored = load_run(folder), read_json(folder / "metrics.json")
    monkeypatch.setattr(type(run), "evaluate", lambda self, **options: stored["scores"])
    out = tmp_path / "out"
    metrics = ship.ship(run, out, progress=False)
    assert metrics == stored
    tensors, _ = read_tensors(out / "weights.safetensors")
    assert {str(tensor.dtype) for tensor in tensors.values()} == {"torch.float16"}
    # Weights that are written now hold their checksum; those in the package have it beside them.
    torch.testing.assert_close(
        tensors, read_tensors(folder / "weights.safetensors")[0], rtol=0, atol=0
    )
    for name in ("config.json", "tokenizer.json", "metrics.json", "CARD.md"):
        assert (folder / name).read_bytes() == (out / name).read_bytes(), name
    monkeypatch.setattr(ship, "LIMIT", 1000)
    with pytest.raises(ValueError, match="at most 1,000 bytes"):
        ship.ship(run, out, progress=False)


def test_what_is_scored_is_what_is_shipped(tmp_path, monkeypatch):
    run, scored = load_run(), {}
    with torch.no_grad():
        for parameter in run.model.parameters():
            parameter.mul_(1.0001)  # float32 again

    def evaluate(self, **options):
        scored.update({name: p.detach().clone() for name, p in parameters_of(self.model).items()})
        return read_json(PRETRAINED / "metrics.json")["scores"]

    monkeypatch.setattr(type(run), "evaluate", evaluate)
    ship.ship(run, tmp_path, progress=False)
    shipped = parameters_of(load_run(tmp_path).model)
    assert all(torch.equal(tensor, shipped[name]) for name, tensor in scored.items())
