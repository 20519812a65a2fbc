"""`python -m benchmarks.quality dates multi30k multi30k-tok`: train presets, score their test sets.

`SEEDS` says with how many seeds each is trained. A run folder that was interrupted goes on; one
that is whole is scored again. BLEU comes with a bootstrap interval. `multi30k-tok-adam` is
`multi30k-tok` with Adam. Those that end in `-diverse` or `-longer` are no presets either: they go
on from one, and `benchmarks/diverse.py` says with what; nor is `multi30k-tok-rdrop`: twice as wide,
with R-Drop (`benchmarks/recipes.py`).
"""

import argparse
import statistics
from pathlib import Path

import torch

from benchmarks.diverse import train_diverse, train_longer
from benchmarks.intervals import counts_of, drawn, interval
from benchmarks.recipes import train_wide
from benchmarks.reporting import report
from benchmarks.reporting.report import RESULTS
from transformer_lab import Run, train
from transformer_lab.decoding import LENGTH_PENALTY
from transformer_lab.runs import METRICS, load_task, score
from transformer_lab.support.files import read_json

ONE, TWO, THREE = (0,), (0, 1), (0, 1, 2)
SEEDS = {"dates": THREE, "multi30k": ONE, "multi30k-raw": ONE}
SEEDS |= {"multi30k-tok": THREE, "multi30k-tok-adam": THREE, "multi30k-diverse": THREE}
SEEDS |= {"multi30k-longer": TWO, "multi30k-tok-rdrop": THREE}
TRAINERS = {"multi30k-diverse": train_diverse, "multi30k-longer": train_longer}
TRAINERS |= {"multi30k-tok-rdrop": train_wide}
# The recipe of before Muon.
ADAM = {"optimizer": "adam", "weight_decay": 0.0, "warmup": 1000, "rate_factor": 0.9}
TRIED = "recipes.json"
# Text only, test2016, tokenised, lower case, beam 5.
TINY = {"name": "Transformer-Tiny", "test2016": 41.02}
COMPARED = ("multi30k-tok", "multi30k-tok-adam", "multi30k-diverse", "multi30k-longer")
COMPARED += ("multi30k-tok-rdrop",)
PUBLISHED = dict.fromkeys(COMPARED, TINY)


def measure(preset: str, runs: Path, *, smoke: bool = False, **settings) -> list[dict]:
    """Return the metrics of each seed's run; the run folders lie in `runs`."""
    rows = []
    for seed in SEEDS[preset][: 1 if smoke else None]:
        folder, own = runs / f"{preset}-{seed}", settings | {"seed": seed, "progress": not smoke}
        if preset in TRAINERS:
            run = TRAINERS[preset](folder, **own)
        else:
            own |= ADAM if preset.endswith("-adam") else {}
            run = train(preset.removesuffix("-adam"), folder, **own)
        row = {"seed": seed} | read_json(folder / METRICS)
        if preset != "dates":
            row["scores"] = scores_with_intervals(run)
            if run.length_penalty != LENGTH_PENALTY:
                row["scores_paper_alpha"] = scores_with_intervals(run, LENGTH_PENALTY)
        rows.append(row)
    return rows


def scores_with_intervals(run: Run, length_penalty: float | None = None) -> dict:
    """Return the scores of each test set, and the interval of its BLEU.

    `length_penalty` is the run's own unless given.
    """
    found, splits = {}, load_task(run.data)
    for name in sorted(set(splits) - {"train", "val"}):
        sources, references = zip(*splits[name], strict=True)
        outputs = run.translate(sources, length_penalty=length_penalty)
        found[name] = score(run.data, outputs, references)
        found[name] |= interval(drawn(counts_of(run.data, outputs, references)))
    return found


def means(rows: list[dict], scores: str = "scores") -> dict:
    """Return the mean over the seeds and their range, for each test set."""
    found = {}
    for name in rows[0][scores]:
        values = [next(iter(row[scores][name].values())) for row in rows]
        found[name] = {"mean": statistics.mean(values), "low": min(values), "high": max(values)}
    return found


def main(arguments: list[str] | None = None) -> None:
    """Measure the presets named on the command line, one after the other."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality", description=__doc__)
    parser.add_argument("presets", nargs="+", choices=SEEDS)
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder of the runs (runs)")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder for the results")
    parser.add_argument("--threads", type=int, help="CPU threads (as many as PyTorch takes)")
    parser.add_argument("--precision", help="float32 or bfloat16 (the preset's)")
    options = parser.parse_args(arguments)
    if options.threads:
        torch.set_num_threads(options.threads)
    for preset in options.presets:
        result = report.describe_run(preset, smoke=False)
        settings = {"precision": options.precision} if options.precision else {}
        result["rows"] = measure(preset, options.runs, **settings)
        result["means"] = means(result["rows"])
        if "scores_paper_alpha" in result["rows"][0]:
            result["means_paper_alpha"] = means(result["rows"], "scores_paper_alpha")
        if preset in PUBLISHED:
            result["published"] = PUBLISHED[preset]
            log = read_json(RESULTS / TRIED)  # of the validation set alone
            result["tried"] = log["tried"] + log["rows"]
        report.write(options.output / f"{preset}.json", result)
        for means_of in ("means", "means_paper_alpha"):
            for name, over_seeds in result.get(means_of, {}).items():
                print(f"{preset}, {means_of}, {name}: {over_seeds}")


if __name__ == "__main__":
    main()
