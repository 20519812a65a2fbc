"""`python -m benchmarks.lessons.l02_scaling`: lesson 02's race, with more rates, seeds and steps.

Sixteen queries learn to find sixteen keys, with each divisor of the scores and with additive
scores, from two lengths of the first queries and of the first u. Two of the undivided runs that are
stopped go on for twenty times as long. The scores and the first numbers are the lesson's own,
loaded from its notebook; all rates and seeds run side by side, each with its own Adam.
"""

import math
from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor

from benchmarks.lessons.lesson_code import lesson_code
from benchmarks.lessons.rows import measure_rows

SIZES, SEEDS, LIMIT = (4, 16, 64, 256), range(5), 2000
RATES = (0.005, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8)
LONGER = "÷ 1, twenty times as long"  # at d_k = 64
LONG = {"limit": 20 * LIMIT, "rates": RATES[:2], "seeds": range(3)}

# Name: the kind of score, and the powers of d_k by which the first queries and u are multiplied.
RUNNERS = {
    "÷ 1": ("÷ 1", 0, -0.5),
    "÷ √d_k": ("÷ √d_k", 0, -0.5),
    "÷ d_k": ("÷ d_k", 0, -0.5),
    "additive": ("additive", 0, -0.5),
    "additive, u not divided": ("additive", 0, 0),
    "÷ 1, short queries": ("÷ 1", -0.5, -0.5),
    "÷ √d_k, long queries": ("÷ √d_k", 0.5, -0.5),
}
LEFT_OUT = {("additive, u not divided", 256)}  # it would take as long as the rest together

lesson = partial(lesson_code, "02", "draw", "DIVISORS", "score_all", "learn")


def adam(parameters: list[Tensor], rate: Tensor):
    """Yield before each step of Adam; `rate` has one entry for each run, the first axis."""
    moments = [(torch.zeros_like(p), torch.zeros_like(p)) for p in parameters]
    step = 0
    while True:
        yield step
        step += 1
        for p, (mean, square) in zip(parameters, moments, strict=True):
            mean.lerp_(p.grad, 0.1)
            square.lerp_(p.grad**2, 0.001)
            size = (square / (1 - 0.999**step)).sqrt() + 1e-8
            lengths = rate.view(-1, *[1] * (p.ndim - 1)) / (1 - 0.9**step)
            p.data -= lengths * mean / size
            p.grad = None


def race(code: dict, runner: tuple, d_k: int, runs: list[tuple], limit: int) -> list:
    """Return for each run (rate, seed) what the lesson's `learn` returns; see `RUNNERS`."""
    kind, query_power, u_power = runner
    sizes = (16, d_k), (16, d_k), (d_k,)
    drawn = zip(*(code["draw"](seed, *sizes) for _, seed in runs), strict=True)
    query, key, u = map(torch.stack, drawn)
    parameters = [p.requires_grad_() for p in (d_k**query_power * query, key, d_k**u_power * u)]
    score = torch.vmap(partial(code["score_all"], kind))
    noise = [torch.Generator().manual_seed(1000 + seed) for _, seed in runs]
    found = [None] * len(runs)
    rates = torch.tensor([rate for rate, _ in runs], dtype=torch.float64)
    for step in adam(parameters, rates):
        weights = score(*parameters).softmax(dim=-1)
        share = weights.detach().diagonal(dim1=-2, dim2=-1)
        for run in range(len(runs)):
            if found[run] is None and (step == limit or share[run].mean() > 0.9):
                found[run] = _result(step, share[run], weights[run].detach().amax(dim=-1))
        if None not in found:
            return found
        values = [torch.randn(16, 16, generator=g, dtype=torch.float64) for g in noise]
        values = torch.stack(values)
        (weights @ values - values).square().mean(dim=(1, 2)).sum().backward()
        if parameters[2].grad is None:  # the products do not use u
            parameters[2].grad = torch.zeros_like(parameters[2])


def _result(step: int, share: Tensor, best: Tensor) -> dict:
    return {
        "steps": step if share.mean() > 0.9 else None,
        "right": round((share == best).double().mean().item(), 3),
        "largest": round(best.mean().item(), 3),
    }


def plan(smoke: bool) -> Iterator[tuple[dict, Callable]]:
    """Yield each runner and size, and what runs all its rates and seeds side by side."""
    sizes, limit = (SIZES[:1], 3) if smoke else (SIZES, LIMIT)
    for name in RUNNERS:
        for d_k in sizes:
            if (name, d_k) not in LEFT_OUT:
                yield {"runner": name, "d_k": d_k}, partial(measure, name, d_k, limit)
    longer = LONG | ({"limit": limit} if smoke else {})
    yield {"runner": LONGER, "d_k": 64}, partial(measure, "÷ 1", 64, **longer)


def measure(name: str, d_k: int, limit: int, rates=RATES, seeds=SEEDS) -> list[dict]:
    """Return a row for each rate and seed; `steps` is None where it was stopped."""
    runs = [(rate, seed) for rate in rates for seed in seeds]
    found = race(lesson(), RUNNERS[name], d_k, runs, limit)
    return [
        {"rate": rate, "seed": seed, "limit": limit} | row
        for (rate, seed), row in zip(runs, found, strict=True)
    ]


def steps_of(row: dict) -> float:
    """Return the steps of a run, infinity if it was stopped."""
    return math.inf if row["steps"] is None else row["steps"]


def best_rate(rows: list[dict], runner: str, d_k: int) -> list[dict]:
    """Return the seeds of the rate with the fewest stopped runs, then with the lowest median."""
    of_setting = [row for row in rows if (row["runner"], row["d_k"]) == (runner, d_k)]

    def cost(rate: float) -> tuple:
        steps = sorted(steps_of(row) for row in of_setting if row["rate"] == rate)
        return steps.count(math.inf), steps[len(steps) // 2]

    best = min({row["rate"] for row in of_setting}, key=cost)
    return [row for row in of_setting if row["rate"] == best]


def table(rows: list[dict]) -> str:
    """Return the steps at each runner's best rate as Markdown: median, lowest to highest."""
    lines = [
        "| runner | d_k | rate | steps, median | lowest to highest | stopped |",
        "|---" * 6 + "|",
    ]
    for runner, d_k in dict.fromkeys((row["runner"], row["d_k"]) for row in rows):
        runs = best_rate(rows, runner, d_k)
        steps = sorted(map(steps_of, runs))
        middle, spread = steps[len(steps) // 2], f"{steps[0]} to {steps[-1]}"
        stopped = f"{steps.count(math.inf)} of {len(steps)}"
        lines.append(f"| {runner} | {d_k} | {runs[0]['rate']} | {middle} | {spread} | {stopped} |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    """Run what l02_scaling.json does not have yet, print the table."""
    measure_rows("l02_scaling", __doc__, arguments, plan, table=table)


if __name__ == "__main__":
    main()
