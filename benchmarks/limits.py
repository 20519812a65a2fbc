"""`python -m benchmarks.limits`: where the time goes, and how far each step is from its limit.

A training step is held against the rate of this machine's own products of matrices, a decoding step
against the rate at which this machine reads as many weights, in products of a matrix with a vector.
Both limits are measured in the same process, in turns with what is held against them.
"""

import argparse
import statistics
from collections import defaultdict
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile, record_function

from benchmarks.decoding import build_model, sources
from benchmarks.flops import training_flops
from benchmarks.reporting import report
from benchmarks.reporting.report import RESULTS, markdown
from benchmarks.reporting.timing import take_turns
from benchmarks.training import SIZES, SMOKE_SIZES, SMOOTHING, random_batches
from transformer_lab import ModelConfig, Objective, TrainConfig, Transformer, train_step
from transformer_lab.config import BOS, PAD

# What PyTorch's operations are counted under; what runs between them is "Python and the rest".
KINDS = {
    "products of matrices": ("mm", "addmm", "bmm", "baddbmm"),
    "attention": ("flash_attention", "softmax"),
    "LayerNorm": ("layer_norm",),
    "dropout, scaling": ("random", "bernoulli", "div_", "mul", "ge"),
    "Adam": ("adamw",),
    "look-ups and copies": ("embedding", "index", "copy_", "cat", "slice", "gather", "scatter"),
}
CALLS = 20


def training_step(config: ModelConfig):
    """Return a function that takes one step, and the operations of it (backward included)."""
    (batch,) = random_batches(1, config.target_vocab_size)
    objective = Objective(Transformer(config), TrainConfig(label_smoothing=SMOOTHING))
    optimizer = torch.optim.AdamW(objective.parameters(), lr=1e-4, fused=True)
    read, written = ((ids != PAD).sum(1).tolist() for ids in (batch.source, batch.target_in))
    return lambda: train_step(objective, batch, optimizer), training_flops(config, read, written)


def decoding_step(model: Transformer, length: int):
    """Return a function that writes a token behind `length` others, and the bytes that it reads.

    They are those of each weight that is multiplied, once, and of the cached keys and values.
    """
    source = sources(model, 1)
    with torch.inference_mode():
        memory, mask = model.encode(source)
        cache = model.new_cache()
        model.decode(torch.full((1, length), BOS), memory, mask, cache=cache)
    numbers = sum(p.numel() for p in products(model)) + model.generator.weight.numel()
    cached = length + source.shape[1]
    numbers += 2 * model.config.d_model * cached * model.config.num_decoder_layers

    @torch.inference_mode()
    def step() -> None:
        model.decode(torch.full((1, 1), BOS), memory, mask, cache=cache)
        cache.tokens = cache.tokens[:, :length]  # the next step writes the same token again
        for own, _ in cache.layers:
            own.length = length

    return step, 4 * numbers


def products(model: Transformer) -> list[Tensor]:
    """Return the weights that a decoding step multiplies; those of cross-attention's keys and
    values were multiplied once, with the first token.
    """
    skipped = ("cross_attention.w_k", "cross_attention.w_v")
    return [
        module.weight
        for name, module in model.decoder.named_modules()
        if isinstance(module, nn.Linear) and not name.endswith(skipped)
    ]


def matrix_product(size: int):
    """Return a function that multiplies two square matrices, and its operations."""
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(size, size, generator=generator) for _ in range(2))
    return lambda: a @ b, 2 * size**3


def reading(num_bytes: int, width: int):
    """Return a function that multiplies `num_bytes` of weights with a vector, in ten products."""
    generator = torch.Generator().manual_seed(0)
    rows = max(1, num_bytes // (40 * width))
    weights = [torch.randn(rows, width, generator=generator) for _ in range(10)]
    vector = torch.randn(width, generator=generator)

    def read() -> None:
        for weight in weights:
            weight @ vector

    return read, 40 * rows * width


def against(step, work: float, limit, limit_work: float, *, smoke: bool) -> dict:
    """Return seconds of a step, the rates of step and limit, and the share, measured in turns."""
    calls = 2 if smoke else CALLS

    def many(function):
        return lambda: [function() for _ in range(calls)]

    turns = {"step": many(step), "limit": many(limit)}
    take_turns(turns, rounds=1)  # warm up
    seconds = take_turns(turns, rounds=3 if smoke else 9)
    rates = {
        name: statistics.median(amount * calls / s for s in seconds[name])
        for name, amount in (("step", work), ("limit", limit_work))
    }
    return {
        "seconds": statistics.median(seconds["step"]) / calls,
        "rate": rates["step"],
        "limit": rates["limit"],
        "share": rates["step"] / rates["limit"],
    }


def parts(step, *, smoke: bool) -> dict[str, float]:
    """Return the share of a step's time by kind of operation."""
    calls = 2 if smoke else CALLS
    with profile(activities=[ProfilerActivity.CPU]) as found, record_function("whole"):
        for _ in range(calls):
            step()
    events = found.key_averages()
    (whole,) = [event.cpu_time_total for event in events if event.key == "whole"]
    spent = defaultdict(float)
    for event in events:
        if event.key.startswith("aten::"):
            spent[_kind(event.key.removeprefix("aten::"))] += event.self_cpu_time_total
    spent = {kind: time / whole for kind, time in spent.items()}
    return spent | {"Python and the rest": 1 - sum(spent.values())}


def _kind(operation: str) -> str:
    for kind, names in KINDS.items():
        if any(operation == name or (len(name) > 4 and name in operation) for name in names):
            return kind
    return "other operations"


def measure(*, smoke: bool = False) -> list[dict]:
    """Return a row for each step."""
    rows = []
    for size, config in (SMOKE_SIZES if smoke else SIZES).items():
        step, flops = training_step(config)
        limit, product = matrix_product(64 if smoke else 2048)
        row = {"step": f"training, {size}", "unit": "GFLOP/s"}
        row |= against(step, flops, limit, product, smoke=smoke)
        rows.append(row | {"parts": parts(step, smoke=smoke)})
    model = build_model(smoke)
    for length in (8,) if smoke else (128, 896):
        step, num_bytes = decoding_step(model, length)
        limit, read = reading(num_bytes, model.config.d_model)
        row = {"step": f"a token behind {length}, cached", "unit": "GB/s"}
        row |= against(step, num_bytes, limit, read, smoke=smoke)
        rows.append(row | {"parts": parts(step, smoke=smoke)})
    return rows


def table(result: dict) -> str:
    """Return the shares, and below them where the time goes, as Markdown."""
    rows = result["rows"]
    shares = [
        [
            row["step"],
            f"{1e3 * row['seconds']:.2f}",
            f"{row['rate'] / 1e9:.1f} {row['unit']}",
            f"{row['limit'] / 1e9:.1f} {row['unit']}",
            f"{row['share']:.0%}",
        ]
        for row in rows
    ]
    kinds = list(dict.fromkeys(kind for row in rows for kind in row["parts"]))
    spent = [[kind, *(f"{row['parts'].get(kind, 0):.0%}" for row in rows)] for kind in kinds]
    return "\n\n".join(
        [
            markdown(["step", "ms", "rate", "this machine's limit", "share"], shares),
            markdown(["share of the time", *(row["step"] for row in rows)], spent),
        ]
    )


def main(arguments: list[str] | None = None) -> None:
    """Measure, write limits.json, print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.limits", description=__doc__)
    parser.add_argument("--output", type=Path, help=f"folder for the result ({RESULTS.name}/)")
    parser.add_argument("--threads", type=int, default=2, help="CPU threads (2)")
    parser.add_argument("--smoke", action="store_true", help="toy sizes; writes only to --output")
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    output = options.output or (None if options.smoke else RESULTS)
    result = report.describe_run("limits", smoke=options.smoke)
    result["rows"] = measure(smoke=options.smoke)
    if output:
        report.write(output / "limits.json", result)
    print(table(result))


if __name__ == "__main__":
    main()
