"""`python -m benchmarks.lessons.l15_batch`: how many steps does a larger batch save?

The task and the model of lesson 15: numbers, written backwards. For each size of the batch the
model trains until its loss on 300 unseen numbers is below 0.3 nats a token, with three seeds and
some learning rates each. What counts is the rate with the fewest steps, since every size
deserves its own. A run that has not got there at the limit says so.
"""

from functools import cache, partial

import torch

import transformer_lab as lab
from benchmarks.lessons.lesson_code import lesson_code
from benchmarks.lessons.rows import measure_rows

SEEDS, TARGET, CLIMB = (0, 1, 2), 0.3, 20
RATES = {  # sentences in a batch: the rates that are tried
    4: (0.002, 0.004),
    16: (0.004, 0.008),
    64: (0.004, 0.008, 0.016),
    256: (0.008, 0.016, 0.032),
    1024: (0.008, 0.016),
}
lesson = cache(partial(lesson_code, "15", "numbers", "new_model", "loss_of"))


def plan(smoke: bool) -> list[dict]:
    """Return the settings: a size of the batch, a seed, a rate."""
    if smoke:
        return [{"size": 8, "seed": 0, "rate": 0.001, "limit": 3}]
    return [
        {"size": size, "seed": seed, "rate": rate, "limit": 300 + 12_000 // size}
        for seed in SEEDS
        for size, rates in RATES.items()
        for rate in rates
    ]


def run(size: int, seed: int, rate: float, limit: int) -> dict:
    """Train until the target or the limit; return the steps, and the target tokens read."""
    numbers, new_model, loss_of = (lesson()[n] for n in ("numbers", "new_model", "loss_of"))
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    model = new_model()
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98))
    unseen = lab.Batch.from_pairs(numbers(300, torch.Generator().manual_seed(1000)))
    dice, every, tokens = torch.Generator().manual_seed(seed), max(5, 200 // size), 0
    for step in range(1, limit + 1):
        optimizer.param_groups[0]["lr"] = rate * min(1, step / CLIMB)
        batch = lab.Batch.from_pairs(numbers(size, dice))
        tokens += batch.num_tokens
        loss = loss_of(model, batch) / batch.num_tokens
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % every == 0:
            with torch.no_grad():
                reached = loss_of(model, unseen).item() / unseen.num_tokens
            if reached < TARGET:
                return {"steps": step, "tokens": tokens, "reached": True}
    return {"steps": limit, "tokens": tokens, "reached": False}


def main(arguments: list[str] | None = None) -> None:
    """Train everything that l15_batch.json does not have yet."""
    measure_rows("l15_batch", __doc__, arguments, plan, run)


if __name__ == "__main__":
    main()
