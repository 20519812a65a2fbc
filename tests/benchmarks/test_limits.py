"""What a step is held against, and what is counted of it, at toy size."""

import json

import torch

from benchmarks import limits
from benchmarks.decoding import build_model


def test_each_step_is_held_against_its_limit(tmp_path, capsys):
    limits.main(["--smoke", "--output", str(tmp_path), "--threads", "1"])
    rows = json.loads((tmp_path / "limits.json").read_text())["rows"]
    assert [row["unit"] for row in rows] == ["GFLOP/s", "GB/s"]
    for row in rows:
        assert row["share"] > 0 and row["rate"] > 0 and row["limit"] > 0
        assert abs(sum(row["parts"].values()) - 1) < 1e-6 and min(row["parts"].values()) >= 0
    assert "| Python and the rest |" in capsys.readouterr().out


def test_a_copy_is_counted_among_the_copies():
    assert limits._kind("copy_") == limits._kind("cat") == "look-ups and copies"


def test_a_decoding_step_reads_each_weight_once_and_repeats_itself():
    model = build_model(smoke=True)
    step, num_bytes = limits.decoding_step(model, 8)
    d, d_ff, words = 16, 64, 50
    weights = 6 * d * d + 2 * d * d_ff + words * d  # one layer: 4 products of its own, 2 of cross
    assert num_bytes == 4 * (weights + 2 * d * (8 + 20))
    seen = []
    handle = model.decoder.layers[0].self_attention.w_k.register_forward_hook(
        lambda module, inputs, output: seen.append(inputs[0].clone())
    )
    step()
    step()
    handle.remove()
    torch.testing.assert_close(seen[0], seen[1])
