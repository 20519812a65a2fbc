"""The benchmarks run at toy size, and what they compare is the same work."""

import json

import torch

from benchmarks import __main__, decoding, training
from transformer_lab import Transformer, greedy_decode
from transformer_lab.config import EOS


def test_the_benchmarks_run_and_write_what_they_measured(tmp_path):
    __main__.main(["--smoke", "--output", str(tmp_path), "--threads", "1"])
    for part in ("training", "decoding"):
        result = json.loads((tmp_path / f"{part}.json").read_text())
        assert result["smoke"] and result["threads"] == 1
        assert {"hardware", "versions", "seed", "commit"} <= set(result)
        for row in result["rows"]:
            assert 0 < row["ratio"]["low"] <= row["ratio"]["median"] <= row["ratio"]["high"]


def test_reference_and_package_have_the_same_number_of_parameters():
    config = training.SMOKE_SIZES["1+1 layers, d_model 16"]
    ours = sum(p.numel() for p in Transformer(config).parameters())
    reference = training.Reference(config)
    theirs = sum(p.numel() for p in reference.parameters())
    # PyTorch adds biases in 3 attentions (4 × d_model each) and a last LayerNorm on each side.
    assert theirs - ours == 3 * 4 * 16 + 2 * 2 * 16


def test_the_losses_of_the_reference_agree():
    torch.manual_seed(0)
    states, generator = torch.randn(3, 5, 8), torch.nn.Linear(8, 11, bias=False)
    targets = torch.randint(1, 11, (3, 5))
    targets[1, 3:] = 0
    dense = training.dense_loss(states, generator, targets)
    for loss_of in (training.loss_of_real_tokens, training.chunked_loss):
        torch.testing.assert_close(loss_of(states, generator, targets), dense)


def test_the_model_for_timing_never_ends_a_sentence():
    model = decoding.build_model(smoke=True)
    tokens = greedy_decode(model, decoding.sources(model, 4), max_length=40)
    assert tokens.shape == (4, 40) and not (tokens == EOS).any()
