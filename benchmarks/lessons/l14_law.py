"""`python -m benchmarks.lessons.l14_law`: loss against size, text and operations, for lesson 14.

The small language model of lesson 14 with plain networks, in five widths (two layers, heads of 8),
each in runs of several lengths. Every run has a schedule of its own: the rate rises for a tenth of
its steps and then falls to 0 at its end. Validation captions chose each width's learning rate, one
of three, with seed 0 and 250 steps; three seeds. And for one width a run of 1,000 steps on a
sixteenth and a 64th of the captions: as many operations, and fewer different letters.
"""

from functools import cache, partial

import torch

from benchmarks.lessons.lesson_code import lesson_code
from benchmarks.lessons.rows import measure_rows

# Width: lengths of its runs. Narrow models run longer, to reach the operations of wider ones.
LENGTHS = {
    8: (250, 500, 1000, 2000),
    16: (250, 500, 1000, 2000),
    32: (250, 500, 1000, 2000),
    48: (250, 500, 1000),
    96: (250,),
}
PARTS, WIDTH, STEPS = (16, 64), 48, 1000
RATES, TUNED, SEEDS = (6e-3, 1.2e-2, 2.4e-2), 250, range(3)
LETTERS_A_STEP = 16 * 64
NAMES = ("LanguageModel", "relu_network", "TEXT", "bits", "learn")
lesson = cache(partial(lesson_code, "14", *NAMES))


def plan(smoke: bool) -> list[dict]:
    """Return a setting for each width, length of the run, part of the text and seed."""
    if smoke:
        return [{"d_model": 8, "steps": 2, "part": p, "seed": 0} for p in (1, 4)]
    grid = [(width, steps, 1) for width, lengths in LENGTHS.items() for steps in lengths]
    grid += [(WIDTH, STEPS, part) for part in PARTS]
    return [
        {"d_model": width, "steps": steps, "part": part, "seed": seed}
        for width, steps, part in grid
        for seed in SEEDS
    ]


@cache
def train(d_model: int, steps: int, part: int, seed: int, rate: float) -> dict:
    """Train once; return its losses and counts."""
    code = lesson()
    torch.manual_seed(seed)
    network = partial(code["relu_network"], d_model, 4 * d_model)
    model = code["LanguageModel"](d_model, network)
    text = code["TEXT"].train
    text = text[: len(text) // part]
    for _ in code["learn"](model, steps, rate, seed, text=text):
        pass
    return {
        "valid": round(code["bits"](model), 4),
        "test": round(code["bits"](model, code["TEXT"].test), 4),
        "fitted": round(code["bits"](model, text), 4),
        "parameters": sum(p.numel() for p in model.parameters()),
        "letters_read": steps * LETTERS_A_STEP,
        "different_letters": len(text),
    }


def run(d_model: int, steps: int, part: int, seed: int) -> dict:
    """Train once at the width's rate."""
    tried = min(steps, TUNED)
    losses = {rate: train(d_model, tried, 1, 0, rate)["valid"] for rate in RATES}
    rate = min(losses, key=losses.get)
    by_rate = {str(rate): loss for rate, loss in losses.items()}
    return {"rate": rate, "valid_by_rate": by_rate} | train(d_model, steps, part, seed, rate)


def main(arguments: list[str] | None = None) -> None:
    """Train everything that l14_law.json does not have yet."""
    measure_rows("l14_law", __doc__, arguments, plan, run)


if __name__ == "__main__":
    main()
