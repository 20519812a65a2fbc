"""`python -m benchmarks.lessons.l14_law`: loss against size and against data, for lesson 13.

The language model with all five differences, of six widths, on all of the training text; and one
width on a quarter and a sixteenth of it; each head has d_k = 8. The rule is the same for all runs:
so many steps, so many characters in each, five learning rates, three seeds, and for all seeds the
rate with the best mean on the validation lesson. So all sizes see equally many characters, and none
is trained until it stops getting better. The loss that counts is the best of those along the way:
with little text later ones may be worse, when it is learnt by heart.
"""

from functools import cache, partial
from statistics import mean

import torch

from benchmarks.lessons.l13_newer import corpus_mark
from benchmarks.lessons.lesson_code import lesson_code
from benchmarks.lessons.rows import measure_rows

WIDTHS, PARTS, WIDTH, SEEDS = (8, 16, 24, 32, 48, 80), (1, 4, 16), 32, (0, 1, 2)
RATES, STEPS, LOOKS = (6e-3, 1.5e-2, 3.75e-2, 9.4e-2, 0.235), 400, 5
NAMES = ("LanguageModel", "OF_NOW", "TRAIN", "VALID", "TEST", "bits", "learn")
lesson = cache(partial(lesson_code, "13", *NAMES))


def plan(smoke: bool) -> list[dict]:
    """Return a setting for each width, part of the text and seed."""
    sizes = [(width, 1) for width in WIDTHS] + [(WIDTH, part) for part in PARTS[1:]]
    if smoke:
        return [{"d_model": d, "part": p, "seed": 0, "steps": 10} for d, p in ((8, 1), (8, 4))]
    return [
        {"d_model": width, "part": part, "seed": seed, "steps": STEPS}
        for seed in SEEDS
        for width, part in sizes
    ]


@cache
def train(d_model: int, part: int, seed: int, rate: float, steps: int) -> dict:
    """Train once; return the losses along the way."""
    code = lesson()
    torch.manual_seed(seed)
    model = code["LanguageModel"](d_model, code["OF_NOW"], num_heads=d_model // 8)
    text = code["TRAIN"][: len(code["TRAIN"]) // part]
    looks = {"valid": [], "test": []}
    for step, _ in enumerate(code["learn"](model, text, steps, rate, seed), 1):
        if step % (steps // LOOKS) == 0:
            looks["valid"].append(round(code["bits"](model, code["VALID"]), 4))
            looks["test"].append(round(code["bits"](model, code["TEST"]), 4))
    return looks | {
        "characters": len(text),
        "parameters": sum(p.numel() for p in model.blocks.parameters()),
        "all_parameters": sum(p.numel() for p in model.parameters()),
        "fitted": round(code["bits"](model, text), 4),
    }


def run(d_model: int, part: int, seed: int, steps: int) -> dict:
    """Train at the best rate; `best` is the test loss where the validation loss is lowest."""
    lowest = {
        rate: mean(min(train(d_model, part, s, rate, steps)["valid"]) for s in SEEDS)
        for rate in RATES
    }
    rate = min(lowest, key=lowest.get)
    row = train(d_model, part, seed, rate, steps)
    best = min(range(len(row["valid"])), key=row["valid"].__getitem__)
    by_rate = {str(rate): round(loss, 4) for rate, loss in lowest.items()}
    shown = {"rate": rate, "valid_by_rate": by_rate}
    return shown | {"best": row["test"][best], "corpus": corpus_mark()} | row


def main(arguments: list[str] | None = None) -> None:
    """Train everything that l14_law.json does not have yet."""
    measure_rows("l14_law", __doc__, arguments, plan, run)


if __name__ == "__main__":
    main()
