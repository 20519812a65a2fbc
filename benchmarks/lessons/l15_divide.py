"""`python -m benchmarks.lessons.l15_divide`: what does it cost to divide by the number of parts?

The task and the model of lesson 15: numbers, written backwards, in batches of 32. A batch is taken
in two parts or in eight, which are divided by the tokens of all parts, or by their own tokens and
the number of parts. It comes sorted by length or, as a control, with the same numbers shuffled, so
that the parts differ less. Three seeds; for each run the loss per token by the length of the
number, after 300 steps.
"""

from functools import cache, partial

import torch

import transformer_lab as lab
from benchmarks.lessons.lesson_code import lesson_code
from benchmarks.lessons.rows import measure_rows

SEEDS, STEPS, LENGTHS = range(6), 300, (2, 4, 6, 8, 10, 12, 14, 16)
WAYS = (  # how it is divided, in how many parts, in which order the numbers lie
    ("all tokens", 2, "sorted"),
    ("mean of means", 2, "sorted"),
    ("mean of means", 8, "sorted"),
    ("mean of means", 2, "shuffled"),
    ("all tokens", 2, "shuffled"),  # differs from sorted by rounding only: this is chance
)
lesson = cache(partial(lesson_code, "15", "numbers", "new_model", "loss_of"))


def plan(smoke: bool) -> list[dict]:
    """Return the settings."""
    ways, seeds, steps = (WAYS[:2], (0,), 2) if smoke else (WAYS, SEEDS, STEPS)
    return [
        {"divided": divided, "parts": parts, "order": order, "seed": seed, "steps": steps}
        for seed in seeds
        for divided, parts, order in ways
    ]


def run(divided: str, parts: int, order: str, seed: int, steps: int) -> dict:
    """Train; return the last losses that are reported, and the loss by length."""
    numbers, new_model, loss_of = (lesson()[n] for n in ("numbers", "new_model", "loss_of"))
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    model, dice = new_model(), torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003, betas=(0.9, 0.98))
    cards, reported = torch.Generator().manual_seed(seed), []
    for _ in range(steps):
        pairs = numbers(32, dice)
        if order == "shuffled":
            pairs = [pairs[i] for i in torch.randperm(32, generator=cards)]
        size = 32 // parts
        batches = [lab.Batch.from_pairs(pairs[i : i + size]) for i in range(0, 32, size)]
        whole = sum(batch.num_tokens for batch in batches)
        optimizer.zero_grad()
        losses = []
        for batch in batches:
            divisor = whole if divided == "all tokens" else batch.num_tokens * parts
            losses.append(loss_of(model, batch) / divisor)
            losses[-1].backward()
        optimizer.step()
        reported.append(sum(loss.item() for loss in losses))
    last = reported[-20:]
    by_length = {length: unseen_loss(model, length) for length in LENGTHS}
    return {"reported": round(sum(last) / len(last), 4), "by_length": by_length}


@torch.no_grad()
def unseen_loss(model: lab.Transformer, length: int) -> float:
    """Return the loss per token on 200 unseen numbers of this length."""
    dice = torch.Generator().manual_seed(99)
    batch = lab.Batch.from_pairs(lesson()["numbers"](200, dice, length, length))
    return round(lesson()["loss_of"](model, batch).item() / batch.num_tokens, 4)


def main(arguments: list[str] | None = None) -> None:
    """Train everything that l15_divide.json does not have yet."""
    measure_rows("l15_divide", __doc__, arguments, plan, run)


if __name__ == "__main__":
    main()
