"""`python -m benchmarks.quality dates multi30k`: train a preset and score it on its test sets.

The dates are trained with three seeds, Multi30k with one. A run folder that was interrupted goes
on; one that is whole is scored again.
"""

import argparse
from pathlib import Path

from benchmarks.reporting import report
from benchmarks.reporting.report import RESULTS
from transformer_lab import train
from transformer_lab.runs import METRICS
from transformer_lab.support.files import read_json

SEEDS = {"dates": (0, 1, 2), "multi30k": (0,)}


def measure(preset: str, runs: Path, *, smoke: bool = False, **settings) -> list[dict]:
    """Return the metrics of each seed's run; the run folders lie in `runs`."""
    rows = []
    for seed in SEEDS[preset][: 1 if smoke else None]:
        folder = runs / f"{preset}-{seed}"
        train(preset, folder, seed=seed, progress=not smoke, **settings)
        rows.append({"seed": seed} | read_json(folder / METRICS))
    return rows


def main(arguments: list[str] | None = None) -> None:
    """Measure the presets named on the command line, one after the other."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality", description=__doc__)
    parser.add_argument("presets", nargs="+", choices=SEEDS)
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder of the runs (runs)")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder for the results")
    options = parser.parse_args(arguments)
    for preset in options.presets:
        result = report.describe_run(preset, smoke=False)
        result["rows"] = measure(preset, options.runs)
        report.write(options.output / f"{preset}.json", result)
        for row in result["rows"]:
            scores = {name: next(iter(score.values())) for name, score in row["scores"].items()}
            print(f"{preset}, seed {row['seed']}: {row['seconds']:.0f} s, {scores}")


if __name__ == "__main__":
    main()
