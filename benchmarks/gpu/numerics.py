"""What half the bits, torch.compile and CUDA graphs change in the numbers: next to nothing."""

import statistics
import time
from dataclasses import replace

import torch

from benchmarks.gpu.engine import Trainer, Way, train
from benchmarks.gpu.lab import Lab, Task
from benchmarks.reporting.report import SEED
from transformer_lab import Preset
from transformer_lab.model import parameters_of

SEEDS = (0, 1, 2)
STEPS = 2000
TOLERANCE = {"float32": 1e-3, "bfloat16": 5e-2}  # of the longest gradient, as ‖a − b‖ / ‖b‖


def numerics(lab: Lab) -> dict:
    """Train in both precisions with the same seeds; then compare one step in each way."""
    task, preset = lab.task("tok"), _short(lab)
    ways = lab.attempt("one step in each way", compare_ways, lab, task, preset) or []
    rows = []
    for seed in SEEDS[: 2 if lab.smoke else None]:
        for precision in ("bfloat16", "float32"):
            longest = max((row["total_seconds"] for row in rows), default=0.0)
            what = f"{precision}, seed {seed}"
            if lab.has(longest, what):
                row = lab.attempt(what, _trained, lab, task, preset, precision, seed)
                rows += [row] if row else []
    noise = _noise(rows)
    title = f"The same {preset.training.steps} steps in both precisions (test2016, tok, greedy)"
    columns = ["precision", "seed", "last loss", "BLEU"]
    cells = [
        [row["precision"], row["seed"], f"{row['curve'][-1]['loss']:.4f}", f"{row['bleu']:.2f}"]
        for row in rows
    ]
    tables = [
        {"title": title, "columns": columns, "rows": cells},
        {
            "title": "One step from the same weights: ‖gradient − eager gradient‖ / ‖eager‖",
            "columns": ["way", "precision", "loss, relative", "gradient, relative", "within"],
            "rows": [
                [w["way"], w["precision"], f"{w['loss']:.1e}", f"{w['gradient']:.1e}", w["within"]]
                for w in ways
            ],
        },
    ]
    return {
        "summary": _summary(noise),
        "tables": tables,
        "rows": rows,
        "noise": noise,
        "ways": ways,
    }


def _short(lab: Lab) -> Preset:
    _, preset = lab.recipe()
    steps = min(STEPS, preset.training.steps)
    training = replace(preset.training, steps=steps, warmup=min(1000, preset.training.warmup))
    return replace(preset, training=training)


def _trained(lab: Lab, task: Task, preset: Preset, precision: str, seed: int) -> dict:
    start = time.perf_counter()
    way = lab.way(bfloat16=precision == "bfloat16")
    trainer = lab.trainer(task, preset, way, seed)
    lab.prepare(trainer)
    curve, snapshots = train(trainer, preset.training.steps, max(1, preset.training.steps // 20))
    run = lab.run_of(task, preset, trainer, snapshots[-3:])
    bleu = lab.bleu(run, "test2016", beam=1)["bleu"]
    seconds = time.perf_counter() - start
    names = ("precision", "seed", "curve", "bleu", "total_seconds")
    return dict(zip(names, (precision, seed, curve, bleu, seconds), strict=True))


def _noise(rows: list[dict]) -> dict:
    """Return how far the precisions are apart, and the seeds, in BLEU and in the last loss."""
    values = {(r["precision"], r["seed"]): (r["bleu"], r["curve"][-1]["loss"]) for r in rows}
    both = [seed for seed in SEEDS if {("float32", seed), ("bfloat16", seed)} <= set(values)]
    if len(both) < 2:
        return {}
    noise = {}
    for i, name in enumerate(("bleu", "loss")):
        low, high = ([values[p, seed][i] for seed in both] for p in ("bfloat16", "float32"))
        noise[name] = {
            "mean_difference": statistics.mean(low) - statistics.mean(high),
            "spread_of_seeds": max(statistics.stdev(low), statistics.stdev(high)),
        }
    return noise


def _summary(noise: dict) -> list[list[str]]:
    if not noise:
        return []
    bleu = noise["bleu"]
    measured = (
        f"BLEU {bleu['mean_difference']:+.2f}; seeds differ by {bleu['spread_of_seeds']:.2f} "
        f"(standard deviation)"
    )
    return [["bfloat16 against float32 training, GPU", measured, "within seed noise"]]


def compare_ways(lab: Lab, task: Task, preset: Preset) -> list[dict]:
    """Compare loss and gradient of one step, without dropout, with those of plain eager PyTorch."""
    adam = replace(preset.training, optimizer="adam")  # `step_of` reads what it remembers
    preset = replace(preset, model=replace(preset.model, dropout=0.0), training=adam)
    longest = [max(map(len, pair)) for pair in task.pairs]  # one length: one shape to compile
    usual = statistics.mode(longest)
    pairs = [pair for pair, length in zip(task.pairs, longest, strict=True) if length == usual]
    task = replace(task, pairs=pairs)
    rows = []
    for precision in ("float32", "bfloat16"):
        half = precision == "bfloat16"
        plain = lab.way(bfloat16=half, graphs=False, sdpa=False, fused_adam=False)
        expected = step_of(lab.trainer(task, preset, plain))
        ways = {
            "SDPA": lab.way(bfloat16=half, graphs=False),
            "CUDA graphs": lab.way(bfloat16=half),
            "torch.compile": lab.way(bfloat16=half, graphs=False, compiled=True),
            "torch.compile, CUDA graphs": lab.way(bfloat16=half, compiled=True),
        }
        for name, way in ways.items():
            if lab.has(0, f"{name}, {precision}"):
                row = lab.attempt(name, _compare, lab, task, preset, way, expected)
                rows += [{"way": name, "precision": precision} | row] if row else []
    return rows


def step_of(trainer: Trainer) -> tuple[float, torch.Tensor]:
    """Return the loss of the first step, and its gradient as one long vector."""
    trainer.prepare()
    trainer.take_step()
    (adam,) = trainer.optimizers
    # Adam's first moment after one step is (1 − β₁) times the gradient, whatever the way.
    moments = [adam.state[p]["exp_avg"] for p in parameters_of(trainer.model).values()]
    gradient = torch.cat([m.flatten() for m in moments]) / (1 - trainer.config.beta1)
    return trainer.mean_loss(), gradient


def _compare(lab: Lab, task: Task, preset: Preset, way: Way, expected: tuple) -> dict:
    loss, gradient = step_of(lab.trainer(task, preset, way, SEED))
    apart = float((gradient - expected[1]).norm() / expected[1].norm())
    tolerance = TOLERANCE["bfloat16" if way.bfloat16 else "float32"]
    loss_apart = abs(loss - expected[0]) / expected[0]
    within = "yes" if max(apart, loss_apart) <= tolerance else "no"
    return {"loss": loss_apart, "gradient": apart, "within": within}
