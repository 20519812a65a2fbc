"""`python -m benchmarks.lessons.l08_warmup`: what the first steps of a rate do (lesson 08).

The preset's model takes 150 steps: at three rates with a climb and without one; and with one or
five steps of a large rate, at the start or from step 31, where Adam's steps are a fifth as long, so
at five times the rate as well. Three seeds draw the weights and the order of the batches. At the
end some of the models which have left the plateau are asked for unseen dates twice, with their own
sources and with those of other dates: only who reads them minds.
"""

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch.nn.utils import parameters_to_vector

from benchmarks.lessons.l08_exposure import Dates, ramp, train_at
from benchmarks.lessons.rows import measure_rows
from transformer_lab import Transformer, noam_rate, sequence_loss

LONG = {"seeds": 3, "count": 40_000, "tests": 1000, "steps": 150}
SMOKE = {"seeds": 1, "count": 300, "tests": 8, "steps": 3}

CREST, LARGE = ramp(150), 0.35 * noam_rate(1, 64, 1)  # 0.0036 and 0.0438
MIDDLE = 0.4 * LARGE  # 0.0175
RATES: dict[str, Callable[[int], float]] = {
    "ramp": ramp,
    "crest at once": lambda step: CREST,
    "ramp to 0.0175": lambda step: MIDDLE * min(1, step / 60),
    "0.0175 at once": lambda step: MIDDLE,
    "ramp to 0.0438": lambda step: LARGE / CREST * ramp(step),
    "warm-up of 1 step": lambda step: 0.35 * noam_rate(step, 64, 1),
    "one large step": lambda step: LARGE if step <= 1 else CREST,
    "five large steps": lambda step: LARGE if step <= 5 else CREST,
    "one at step 31": lambda step: LARGE if step == 31 else CREST,
    "five from step 31": lambda step: LARGE if 31 <= step <= 35 else CREST,
    "one at step 31, × 5": lambda step: 5 * LARGE if step == 31 else CREST,
    "five from step 31, × 5": lambda step: 5 * LARGE if 31 <= step <= 35 else CREST,
}
MOVES = {"one large step": 1, "one at step 31": 31}  # the step whose length is measured
ASKED = ("ramp", "crest at once", "one large step")  # those that leave the plateau


@torch.no_grad()
def unseen_losses(model: Transformer, dates: Dates) -> dict:
    """Return the loss on unseen dates, and with each source replaced by that of another date."""
    exam = dates.exam
    sources = {"own sources": exam.source, "sources shuffled": exam.source.roll(1, dims=0)}
    return {
        name: round(sequence_loss(model(source, exam.target_in), exam.target_out).item(), 4)
        for name, source in sources.items()
    }


def move(dates: Dates, rate: Callable[[int], float], seed: int, step: int) -> float:
    """Return how far a step moves the weights, root mean square, as a share of its rate."""
    before, after = (
        parameters_to_vector(train_at(dates, rate, seed, steps)[0].parameters())
        for steps in (step - 1, step)
    )
    return round((after - before).square().mean().sqrt().item() / rate(step), 4)


def plan(smoke: bool) -> Iterator[tuple[dict, Callable]]:
    """Yield each rate and seed, and what trains with them."""
    sizes = SMOKE if smoke else LONG
    dates = Dates(sizes["count"], sizes["tests"])
    for name in RATES:
        for seed in range(sizes["seeds"]):
            yield {"name": name, "seed": seed}, partial(measure, dates, name, seed, sizes["steps"])


def measure(dates: Dates, name: str, seed: int, steps: int) -> dict:
    """Train once; losses are means of ten steps."""
    model, losses = train_at(dates, RATES[name], seed, steps)
    row = {"losses": losses}
    if name in MOVES:
        row["move"] = move(dates, RATES[name], seed, MOVES[name])
    return row | (unseen_losses(model, dates) if name in ASKED else {})


def notes(smoke: bool) -> dict:
    return {"sizes": SMOKE if smoke else LONG}


def main(arguments: list[str] | None = None) -> None:
    """Train what l08_warmup.json does not have yet."""
    measure_rows("l08_warmup", __doc__, arguments, plan, notes=notes)


if __name__ == "__main__":
    main()
