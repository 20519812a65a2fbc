"""What GPU, half the bits, fused kernels, torch.compile and CUDA graphs change in the numbers."""

import statistics
import time
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from benchmarks.gpu.engine import Trainer, Way, train
from benchmarks.gpu.lab import Lab, Task
from transformer_lab import Objective, Preset
from transformer_lab.config import PAD
from transformer_lab.saving import parameters_of

SEEDS = (0, 1, 2)
STEPS = 2000
TOLERANCE = {"float32": 1e-3, "bfloat16": 5e-2}  # of loss and gradient, as ‖g − g*‖ / ‖g*‖


def numerics(lab: Lab) -> dict:
    """Train in both precisions with the same seeds; then compare one step in each way."""
    task, preset = lab.task("tok"), _short(lab)
    ways = lab.attempt("one step in each way", compare_ways, lab, task, preset) or []
    rows = []
    for seed in SEEDS[: 2 if lab.smoke else None]:
        for precision in ("bfloat16", "float32"):
            longest = max((row["total_seconds"] for row in rows), default=0 if lab.smoke else 20)
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
            "title": "One step from the same weights: how far loss and gradient g are from another "
            "way's g*, as ‖g − g*‖ / ‖g*‖",
            "columns": ["way", "precision", "from", "loss", "gradient", "within"],
            "rows": [
                [
                    *(w["way"], w["precision"], w["from"], f"{w['loss']:.1e}"),
                    *(f"{w['gradient']:.1e}", w["within"]),
                ]
                for w in ways
            ],
        },
    ]
    return {
        "summary": _summary(ways, noise),
        "tables": tables,
        "rows": rows,
        "noise": noise,
        "ways": ways,
    }


def _short(lab: Lab) -> Preset:
    preset, _ = lab.recipe()
    steps = min(STEPS, preset.training.steps)
    training = replace(preset.training, steps=steps, warmup=min(1000, preset.training.warmup))
    return replace(preset, training=training)


def _trained(lab: Lab, task: Task, preset: Preset, precision: str, seed: int) -> dict:
    start = time.perf_counter()
    way = lab.way(bfloat16=precision == "bfloat16")
    trainer = lab.trainer(task, preset, way, seed)
    lab.prepare(trainer)
    curve, snapshots = train(trainer, preset.training.steps, max(1, preset.training.steps // 20))
    bleu = lab.bleu(lab.run_of(task, preset, snapshots[-3:]), "test2016", beam=1)["bleu"]
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


def _summary(ways: list[dict], noise: dict) -> list[list[str]]:
    lines = []
    if ways:
        plain = {way["precision"]: way["gradient"] for way in ways if way["way"] == "plain"}
        apart = ", ".join(f"{gradient:.0e} in {name}" for name, gradient in plain.items())
        within = sum(way["within"] == "yes" for way in ways)
        measured = f"{apart} (relative); {within} of {len(ways)} ways within their bounds"
        lines.append(["one step's gradient, GPU against CPU", measured, "all of them"])
    if noise:
        bleu = noise["bleu"]
        measured = (
            f"BLEU {bleu['mean_difference']:+.2f}; seeds differ by {bleu['spread_of_seeds']:.2f} "
            f"(standard deviation)"
        )
        lines.append(["bfloat16 against float32 training, GPU", measured, "within seed noise"])
    return lines


class DenseLoss(Objective):
    """The loss as PyTorch has it, on all logits at once."""

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Return the summed loss, (), of sources (B, Ls) and targets (B, Lt)."""
        logits = self.states.model(source, target[:, :-1]).flatten(0, 1)
        settings = {"ignore_index": PAD, "label_smoothing": self.label_smoothing}
        return cross_entropy(logits, target[:, 1:].flatten(), reduction="sum", **settings)


def compare_ways(lab: Lab, task: Task, preset: Preset) -> list[dict]:
    """Compare loss and gradient of one step, without dropout, from one way to the next.

    The plain way, eager and in the paper's steps, is held against the CPU in float32 with PyTorch's
    own loss; the others against the plain way in their precision.
    """
    adam = replace(preset.training, optimizer="adam")  # `step_of` reads what it remembers
    preset = replace(preset, model=replace(preset.model, dropout=0.0), training=adam)
    longest = [max(map(len, pair)) for pair in task.pairs]  # one length: one shape to compile
    usual = statistics.mode(longest)
    pairs = [pair for pair, length in zip(task.pairs, longest, strict=True) if length == usual]
    task = replace(task, pairs=pairs)
    simple = {"graphs": False, "sdpa": False, "fused_adam": False}
    on_cpu = replace(lab, device=torch.device("cpu"))
    plain = lab.way(bfloat16=False, **simple)
    reference = step_of(on_cpu.trainer(task, preset, plain, objective=DenseLoss))
    rows = []
    for precision in ("float32", "bfloat16"):
        half = precision == "bfloat16"
        ways = {
            "plain": lab.way(bfloat16=half, **simple),
            "SDPA": lab.way(bfloat16=half, graphs=False),
            "CUDA graphs": lab.way(bfloat16=half),
            "torch.compile": lab.way(bfloat16=half, graphs=False, compiled=True),
            "torch.compile, CUDA graphs": lab.way(bfloat16=half, compiled=True),
        }
        expected, origin = reference, "CPU, float32"
        for name, way in ways.items():
            if not lab.has(0, f"{name}, {precision}"):
                continue
            if (step := lab.attempt(name, _step, lab, task, preset, way)) is None:
                continue
            row = {"way": name, "precision": precision, "from": origin}
            rows.append(row | _apart(step, expected, precision))
            if name == "plain":
                expected, origin = step, "plain"
    return rows


def step_of(trainer: Trainer) -> tuple[float, Tensor]:
    """Return the loss of the first step, and its gradient as one long vector."""
    trainer.prepare()
    trainer.take_step()
    (adam,) = trainer.optimizers
    # Adam's first moment after one step is (1 − β₁) times the gradient, whatever the way.
    moments = [adam.state[p]["exp_avg"] for p in parameters_of(trainer.model).values()]
    gradient = torch.cat([m.flatten() for m in moments]) / (1 - trainer.config.beta1)
    return trainer.mean_loss(), gradient


def _step(lab: Lab, task: Task, preset: Preset, way: Way) -> tuple[float, Tensor]:
    return step_of(lab.trainer(task, preset, way))


def _apart(step: tuple, expected: tuple, precision: str) -> dict:
    (loss, gradient), (loss_before, gradient_before) = step, expected
    gradient_before = gradient_before.to(gradient.device)
    apart = float((gradient - gradient_before).norm() / gradient_before.norm())
    loss_apart = abs(loss - loss_before) / loss_before
    within = "yes" if max(apart, loss_apart) <= TOLERANCE[precision] else "no"
    return {"loss": loss_apart, "gradient": apart, "within": within}
