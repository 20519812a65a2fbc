"""`python -m benchmarks.lessons.l11_date_models`: the three date models that lesson 11 opens.

Each is the preset "dates" with a seed of its own, which draws the weights and the data. They are
stored as float16 in `transformer_lab/pretrained/dates_0` to `dates_2`, and scored as they are
stored; `metrics.json` keeps the score before that too.
"""

import argparse
from pathlib import Path

import torch

from benchmarks.ship import KEPT
from transformer_lab import load_run, train
from transformer_lab.runs import METRICS, PRETRAINED, TOKENIZER
from transformer_lab.saving import WEIGHTS_FILE, parameters_of, save, set_parameters
from transformer_lab.support.files import read_json, write_json, write_tensors

SEEDS = (0, 1, 2)
LIMIT = 1_500_000  # bytes, of all files together


def ship(run_folder: Path, folder: Path) -> dict:
    """Write a finished date run to `folder` with half the bits; return its metrics."""
    run, notes = load_run(run_folder), read_json(run_folder / METRICS)
    half = {name: tensor.detach().half() for name, tensor in parameters_of(run.model).items()}
    set_parameters(run.model, half, "the run")  # what is scored is what is shipped
    metrics = {"data": run.data, "beam": run.beam, "weights": "float16"}
    metrics |= {name: notes[name] for name in KEPT}
    metrics |= {"scores": run.evaluate(), "scores in float32": notes["scores"]}
    save(run.model, folder)
    write_tensors(folder / WEIGHTS_FILE, half)
    run.tokenizer.save(folder / TOKENIZER)
    write_json(folder / METRICS, metrics)
    return metrics


def main(arguments: list[str] | None = None) -> None:
    """Train what is not trained yet, and ship it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lessons.l11_date_models")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder of the runs")
    parser.add_argument("--output", type=Path, default=PRETRAINED, help="(the package's own)")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    for seed in SEEDS:
        name = f"dates_{seed}"
        if not (options.runs / name / METRICS).exists():
            train("dates", options.runs / name, seed=seed, progress=False)
        metrics = ship(options.runs / name, options.output / name)
        print(name, metrics["scores in float32"], "→", metrics["scores"])
    files = [path for seed in SEEDS for path in (options.output / f"dates_{seed}").iterdir()]
    size = sum(path.stat().st_size for path in files)
    if size > LIMIT:
        raise SystemExit(f"the models must take at most {LIMIT:,} bytes together, got {size:,}")


if __name__ == "__main__":
    main()
