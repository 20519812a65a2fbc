"""The long ablation of lesson 06 runs at toy size, and takes out what it says."""

import json

import pytest
import torch

from benchmarks.lessons import l06_ablation as ablation
from transformer_lab import ModelConfig, Transformer


def test_the_ablation_runs_and_writes_what_it_measured(tmp_path):
    ablation.main(["--smoke", "--output", str(tmp_path)])
    result = json.loads((tmp_path / "l06_ablation.json").read_text())
    assert result["smoke"] and {"hardware", "versions", "commit", "seeds"} <= set(result)
    assert len(result["rows"]) == len(ablation.PARTS) + len(ablation.NORMS)
    for row in result["rows"]:
        for run in row["runs"]:
            assert 0 <= run["exact_match"] <= 1 and 0 <= run["accuracy"] <= 1


def model_and_ids():
    torch.manual_seed(0)
    sizes = {"d_model": 16, "num_heads": 2, "d_ff": 32, "dropout": 0.0}
    config = ModelConfig(source_vocab_size=9, target_vocab_size=9, max_length=8, **sizes)
    return Transformer(config), torch.randint(4, 9, (2, 5)), torch.randint(4, 9, (2, 4))


def test_with_all_parts_the_model_is_the_package_s():
    model, source, target = model_and_ids()
    expected = model(source, target)
    torch.testing.assert_close(ablation.ablate(model)(source, target), expected)


@pytest.mark.parametrize("parts", [p for p in ablation.PARTS.values() if p])
def test_a_part_is_taken_out_of_every_layer(parts):
    model, source, target = model_and_ids()
    whole = model(source, target)
    layers = [*model.encoder.layers, *model.decoder.layers]
    ablation.ablate(model, **parts)
    assert not torch.allclose(model(source, target), whole)
    for layer in layers:
        names = {name.split(".")[0] for name, _ in layer.named_parameters()}
        assert ("feed_forward" in names) == parts.get("feed_forward", True)
        assert ("add_norm_1" in names) == parts.get("norm", True)
        x = torch.randn(2, 5, 16)
        silent = layer.add_norm_1(x, torch.zeros_like)
        if not parts.get("residual", True):
            torch.testing.assert_close(silent, torch.zeros_like(x))
