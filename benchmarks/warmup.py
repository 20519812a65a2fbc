"""`python -m benchmarks.warmup`: what the first steps of a learning rate do (lesson 08).

Rates: the preset's model for 150 steps at six learning rates that differ in their first steps.
Deep: four layers of post-LN at a smaller rate, with a warm-up of 100 steps and with none, as
`benchmarks.ablation` trains them at 0.002. Three seeds each: they draw the weights and the order
of the batches.
"""

from collections.abc import Callable, Iterator
from itertools import chain

from benchmarks import report
from benchmarks.ablation import train_once
from benchmarks.exposure import Dates, ramp, train_at
from transformer_lab import noam_rate

LONG = {"seeds": 3, "count": 40_000, "steps": 150}
LONG |= {"layers": 4, "rates": (1e-3,), "deep": {"steps": 600, "count": 20_000, "tests": 500}}
SMOKE = {"seeds": 1, "count": 300, "steps": 3}
SMOKE |= {"layers": 1, "rates": (1e-3,), "deep": {"steps": 2, "count": 200, "tests": 8}}

CREST, LARGE = ramp(150), 0.35 * noam_rate(1, 64, 1)  # 0.0036 and 0.0438
RATES: dict[str, Callable[[int], float]] = {
    "ramp": ramp,
    "crest at once": lambda step: CREST,
    "one large step": lambda step: LARGE if step <= 1 else CREST,
    "five large steps": lambda step: LARGE if step <= 5 else CREST,
    "warm-up of 1 step": lambda step: 0.35 * noam_rate(step, 64, 1),
    "ramp to the large step": lambda step: LARGE / CREST * ramp(step),
}


def rates(sizes: dict) -> Iterator[dict]:
    """Train at each of the six rates; losses are means of ten steps."""
    dates = Dates(sizes["count"], tests=8)
    for name, rate in RATES.items():
        for seed in range(sizes["seeds"]):
            _, losses = train_at(dates, rate, seed, sizes["steps"])
            yield {"experiment": "rates", "name": name, "seed": seed, "losses": losses}


def deep(sizes: dict) -> Iterator[dict]:
    """Train deep post-LN models at each rate, without and with warm-up."""
    tokenizer = Dates(sizes["deep"]["count"], tests=8).tokenizer
    for rate in sizes["rates"]:
        for warmup in (1, 100):
            for seed in range(sizes["seeds"]):
                settings = sizes["deep"] | {"rate": rate}
                run = {"layers": sizes["layers"], "warmup": warmup}
                scores = train_once(tokenizer, settings, seed, **run)
                yield {"experiment": "deep", "rate": rate} | run | scores


def main(arguments: list[str] | None = None) -> None:
    """Measure everything; `warmup.json` is written anew after each model."""
    options = report.read_options("warmup", __doc__, arguments)
    sizes = SMOKE if options.smoke else LONG
    result = report.describe_run("warmup", smoke=options.smoke) | {"sizes": sizes, "rows": []}
    for row in chain(rates(sizes), deep(sizes)):
        result["rows"].append(row)
        if options.output:
            report.write(options.output / "warmup.json", result)


if __name__ == "__main__":
    main()
