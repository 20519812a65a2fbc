"""`python -m benchmarks.lessons.l08_smoothing`: what a smoothed target costs and brings (08).

The preset's model learns for 600 steps without label smoothing and with ε = 0.1, three seeds each.
On unseen dates, teacher-forced: the loss without smoothing; the same after all logits have been
divided by the one number that suits best (chosen on one half of the dates, used on the other); how
much the model trusts its first choice; and how often it is right.
"""

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor

from benchmarks.lessons.l06_ablation import endless_batches
from benchmarks.lessons.l08_exposure import Dates, ramp
from benchmarks.lessons.rows import measure_rows
from transformer_lab import PRESETS, Transformer, sequence_loss

LONG = {"seeds": 3, "count": 40_000, "tests": 2000, "steps": 600}
SMOKE = {"seeds": 1, "count": 300, "tests": 8, "steps": 3}
EPSILONS = (0.0, 0.1)
DIVISORS = torch.linspace(0.2, 2.0, 91)


def train_smoothed(dates: Dates, seed: int, steps: int, epsilon: float) -> Transformer:
    """Return the preset's model after `steps` steps with this much smoothing."""
    model = dates.model(seed)
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    batches = endless_batches(dates.pairs, PRESETS["dates"].training.max_tokens, seed)
    for step in range(1, steps + 1):
        optimizer.param_groups[0]["lr"] = ramp(step)
        batch = next(batches)
        optimizer.zero_grad()
        logits = model(batch.source, batch.target_in)
        sequence_loss(logits, batch.target_out, epsilon).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return model.eval()


def best_divisor(logits: Tensor, truth: Tensor) -> float:
    """Return the number by which to divide the logits for the smallest loss."""
    losses = [sequence_loss(logits / divisor, truth).item() for divisor in DIVISORS]
    return round(DIVISORS[losses.index(min(losses))].item(), 2)


@torch.no_grad()
def measure(dates: Dates, seed: int, steps: int, epsilon: float) -> dict:
    """Train once, and ask for unseen dates."""
    with torch.enable_grad():
        model = train_smoothed(dates, seed, steps, epsilon)
    exam = dates.exam
    logits, truth = model(exam.source, exam.target_in), exam.target_out
    half = len(truth) // 2
    divisor = best_divisor(logits[:half], truth[:half])
    sure, said = logits.softmax(dim=-1).max(dim=-1)
    right = said == truth
    found = {
        "loss": sequence_loss(logits[half:], truth[half:]),
        "loss, divided": sequence_loss(logits[half:] / divisor, truth[half:]),
        "first choice": sure.mean(),
        "tokens right": right.double().mean(),
        "dates right": right.all(dim=1).double().mean(),
    }
    return {"divisor": divisor} | {name: round(x.item(), 5) for name, x in found.items()}


def plan(smoke: bool) -> Iterator[tuple[dict, Callable]]:
    """Yield each seed and ε, and what trains with them."""
    sizes = SMOKE if smoke else LONG
    dates = Dates(sizes["count"], sizes["tests"])
    for seed in range(sizes["seeds"]):
        for epsilon in EPSILONS:
            setting = {"epsilon": epsilon, "seed": seed}
            yield setting, partial(measure, dates, seed, sizes["steps"], epsilon)


def notes(smoke: bool) -> dict:
    return {"sizes": SMOKE if smoke else LONG}


def main(arguments: list[str] | None = None) -> None:
    """Train what l08_smoothing.json does not have yet."""
    measure_rows("l08_smoothing", __doc__, arguments, plan, notes=notes)


if __name__ == "__main__":
    main()
