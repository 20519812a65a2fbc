"""`python -m benchmarks.lessons.warmup`: what the first steps of a learning rate do (lesson 08).

The preset's model takes 150 steps at six learning rates that differ in their first steps. Three
seeds draw the weights and the order of the batches.
"""

from collections.abc import Callable, Iterator

from benchmarks.lessons.exposure import Dates, ramp, train_at
from benchmarks.reporting import report
from transformer_lab import noam_rate

LONG = {"seeds": 3, "count": 40_000, "steps": 150}
SMOKE = {"seeds": 1, "count": 300, "steps": 3}

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
            yield {"name": name, "seed": seed, "losses": losses}


def main(arguments: list[str] | None = None) -> None:
    """Measure everything; `warmup.json` is written anew after each model."""
    options = report.read_options("warmup", __doc__, arguments)
    sizes = SMOKE if options.smoke else LONG
    result = report.describe_run("warmup", smoke=options.smoke) | {"sizes": sizes, "rows": []}
    for row in rates(sizes):
        result["rows"].append(row)
        if options.output:
            report.write(options.output / "warmup.json", result)


if __name__ == "__main__":
    main()
