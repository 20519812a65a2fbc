"""`python -m benchmarks.lessons.l13_newer`: five differences since 2017, alone and together.

The language model of lesson 13 on the lessons' own prose: as in 2017, with each switch alone, and
with all five, at equal parameters (LayerNorm's β aside) and equal numbers of characters. Four
learning rates for each, chosen by the validation lesson with seed 0; then two more seeds. The loss
that counts is that of the held-out lessons. Two controls: the model of 2017 without any positions,
and the runs that differ most with more steps, one seed.
"""

import hashlib
from functools import cache, partial

import torch

from benchmarks.lessons.lesson_code import lesson_code
from benchmarks.lessons.rows import measure_rows

RATES, SEEDS = (3e-3, 6e-3, 1.2e-2, 2.4e-2), (0, 1, 2)
SIZES = {"d_model": 48, "steps": 250}
LONGER = {"d_model": 48, "steps": 600}
SMOKE = {"d_model": 48, "steps": 2}
NAMES = ("LanguageModel", "OF_2017", "OF_NOW", "TRAIN", "VALID", "TEST", "bits", "learn")
lesson = cache(partial(lesson_code, "13", *NAMES))


def variants() -> dict[str, dict]:
    """Return the switches of each model by name."""
    old, new = lesson()["OF_2017"], lesson()["OF_NOW"]
    alone = {name: old | {name: True} for name in old}
    return {"2017": old} | alone | {"all five": new, "no positions": old}


def plan(smoke: bool) -> list[dict]:
    """Return a setting for each model and seed."""
    sizes, seeds = (SMOKE, SEEDS[:1]) if smoke else (SIZES, SEEDS)
    plans = [{"variant": name, "seed": seed} | sizes for name in variants() for seed in seeds]
    longer = [] if smoke else ("2017", "rotary", "all five", "no positions")
    return plans + [{"variant": name, "seed": 0} | LONGER for name in longer]


def corpus_mark() -> str:
    """Return what changes when the text that is learnt from does."""
    return hashlib.sha256(lesson()["TRAIN"].numpy().tobytes()).hexdigest()[:8]


@cache
def train(variant: str, seed: int, rate: float, d_model: int, steps: int):
    """Return a trained model, and the CPU seconds and loss of its steps."""
    torch.manual_seed(seed)
    model = lesson()["LanguageModel"](d_model, variants()[variant])
    if variant == "no positions":
        model.positions = torch.nn.Identity()
    return model, [*lesson()["learn"](model, lesson()["TRAIN"], steps, rate, seed)]


@cache
def best_rate(variant: str, d_model: int, steps: int) -> tuple[float, dict]:
    """Return the rate with the lowest loss of the validation lesson, and all losses."""
    losses = {}
    for rate in RATES:
        model, _ = train(variant, 0, rate, d_model, steps)
        losses[rate] = round(lesson()["bits"](model, lesson()["VALID"]), 4)
    return min(losses, key=losses.get), losses


def run(variant: str, seed: int, d_model: int, steps: int) -> dict:
    """Train once at the chosen rate."""
    rate, losses = best_rate(variant, d_model, steps)
    model, history = train(variant, seed, rate, d_model, steps)
    every = max(1, steps // 20)
    curve = [
        [step, round(history[step - 1][0], 2), round(mean(history[step - every : step]), 3)]
        for step in range(every, steps + 1, every)
    ]
    return {
        "rate": rate,
        "valid_by_rate": {str(rate): loss for rate, loss in losses.items()},
        "valid": round(lesson()["bits"](model, lesson()["VALID"]), 4),
        "test": round(lesson()["bits"](model, lesson()["TEST"]), 4),
        "parameters": sum(p.numel() for p in model.parameters()),
        "curve": curve,  # step, CPU seconds, bits per character of the training
        "corpus": corpus_mark(),
    }


def mean(steps: list[tuple[float, float]]) -> float:
    """Return the mean loss of some steps."""
    return sum(loss for _, loss in steps) / len(steps)


def main(arguments: list[str] | None = None) -> None:
    """Train everything that l13_newer.json does not have yet."""
    measure_rows("l13_newer", __doc__, arguments, plan, run)


if __name__ == "__main__":
    main()
