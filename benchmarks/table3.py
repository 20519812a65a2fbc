"""`python -m benchmarks.table3`: a small Table 3 (paper, 6.2) on Multi30k, with intervals.

One thing at a time is changed in a base model; all see each sentence five times. As in the paper
the score is BLEU on the validation set. Two seeds; the difference to the base is the mean over the
seeds, its interval a paired bootstrap. What is trained is kept: the script goes on where it was
stopped, and `--seeds 0` beside `--seeds 1` are two processes that do not get in each other's way.
"""

import argparse
import statistics
from pathlib import Path

import torch

from benchmarks.intervals import counts_of, drawn, interval
from benchmarks.reporting import report
from benchmarks.reporting.report import RESULTS, markdown
from transformer_lab import Run, train
from transformer_lab.data.batches import batches_by_tokens
from transformer_lab.runs import (
    METRICS,
    encode_pairs,
    find_preset,
    load_run,
    load_task,
    score,
)
from transformer_lab.saving import set_parameters
from transformer_lab.support.files import read_json, read_tensors, write_json
from transformer_lab.tokenizer import train_tokenizer
from transformer_lab.training import CHECKPOINTS, average_checkpoints

SEEDS, EPOCHS, DATA = (0, 1), 5, "multi30k-tok"
OUTPUTS = "outputs.json"
BASE_TOKENS = 519_315  # target tokens of the training split in the vocabulary of the base
BASE = {
    "d_model": 128,
    "num_heads": 4,
    "d_ff": 256,
    "num_encoder_layers": 3,
    "num_decoder_layers": 3,
    "source_vocab_size": 4000,
    "target_vocab_size": 4000,
    "dropout": 0.1,
    "activation_dropout": False,
    "pre_norm": True,
    "optimizer": "adam",
    "weight_decay": 0.0,
    "schedule": "paper",
    "warmup": 400,
    "rate_factor": 0.8,
    "max_tokens": 1500,
    "average": 5,
    "precision": "float32",
    "compile": False,
}


def _layers(count: int) -> dict:
    return {"num_encoder_layers": count, "num_decoder_layers": count}


def _vocabulary(size: int) -> dict:
    return {"source_vocab_size": size, "target_vocab_size": size}


# What differs from the base, by factor and by the name of the row.
TRAINED = {
    "heads, d_k = 128 / heads": {"1": {"num_heads": 1}, "16": {"num_heads": 16}},
    "layers in each stack": {str(n): _layers(n) for n in (1, 2, 6)},
    "d_model and d_ff": {
        "64 and 128": {"d_model": 64, "d_ff": 128},
        "256 and 512": {"d_model": 256, "d_ff": 512},
    },
    "dropout": {"0": {"dropout": 0.0}, "0.3": {"dropout": 0.3}}
    | {"0.1, hidden numbers too": {"activation_dropout": True}},
    "label smoothing": {"0": {"label_smoothing": 0.0}},
    "embeddings and last linear": {"three matrices": {"tie_embeddings": False}},
    "LayerNorm": {"after each sub-layer": {"pre_norm": False}},
    "learning rate": {"straight down to 0": {"schedule": "linear"}},
    "pieces": {f"{size:,}": _vocabulary(size) for size in (1000, 10_000)}
    | {"66: characters": _vocabulary(66) | {"max_length": 512}},
}
DECODED = {  # the base, with another beam, length penalty, or number of snapshots
    "beam": {"1": (1, 0.6), "2": (2, 0.6), "20": (20, 0.6)},
    "length penalty": {"0": (5, 0.0), "1.5": (5, 1.5)},
    "snapshots in the mean": {"1": (5, 0.6, 1)},
}
TOY = {"d_model": 16, "num_heads": 1, "d_ff": 16} | _layers(1) | _vocabulary(300)


def settings_of(changes: dict, seed: int, *, smoke: bool) -> dict:
    """Return the settings of a run that sees each sentence `EPOCHS` times."""
    settings = BASE | {"seed": seed} | changes | (TOY if smoke else {})
    if smoke:
        return settings | {"steps": 4, "checkpoint_every": 1}
    pairs = load_task(DATA)["train"]
    texts = [text for pair in pairs for text in pair]
    tokenizer = train_tokenizer(texts, settings["target_vocab_size"])
    lengths = [(len(target) + 1, len(source)) for source, target in encode_pairs(tokenizer, pairs)]
    # Pieces are shorter in a small vocabulary: as many batches, of more tokens.
    settings["max_tokens"] = round(BASE["max_tokens"] * sum(n for n, _ in lengths) / BASE_TOKENS)
    steps = EPOCHS * len(batches_by_tokens(lengths, settings["max_tokens"]))
    return settings | {"steps": steps, "checkpoint_every": steps // 16}


def trained(name: str, changes: dict, seed: int, runs: Path, *, smoke: bool) -> Run:
    """Return the run of this name and seed; train it, or go on, unless it is whole."""
    folder = runs / f"{name}-{seed}"
    if (folder / METRICS).exists():
        return load_run(folder)
    preset = find_preset(DATA, settings_of(changes, seed, smoke=smoke))
    return train(preset, folder, progress=False)


def translated(
    run: Run, sources: list[str], beam: int, length_penalty: float, snapshots: int | None = None
) -> list[str]:
    """Return the translations of the validation set, from the run's folder if they are there.

    With `snapshots`, by the mean of that many of the last, in the place of all that were kept.
    """
    path = run.folder / OUTPUTS
    known = read_json(path) if path.exists() else {}
    name = f"beam {beam}, alpha {length_penalty}" + (
        f", snapshots {snapshots}" if snapshots else ""
    )
    if name not in known:
        if snapshots:
            paths = sorted((run.folder / CHECKPOINTS).glob("step-*"))[-snapshots:]
            mean = average_checkpoints([read_tensors(path)[0] for path in paths])
            set_parameters(run.model, mean, f"snapshots of {run.folder}")
        known[name] = run.translate(sources, beam=beam, length_penalty=length_penalty)
        write_json(path, known)
    return known[name]


def measure(runs: Path, seeds: tuple[int, ...], *, smoke: bool = False) -> list[dict]:
    """Return a row for each setting, the base first."""
    sources, references = zip(*load_task(DATA)["val"][: 20 if smoke else None], strict=True)
    plan = [("base", "", {}, (5, 0.6))]
    plan += [(f, name, c, (5, 0.6)) for f, group in TRAINED.items() for name, c in group.items()]
    plan += [(f, name, {}, how) for f, group in DECODED.items() for name, how in group.items()]
    found = [(factor, name, []) for factor, name, *_ in plan]
    for seed in seeds:
        for (factor, name, changes, how), (*_, scores) in zip(plan, found, strict=True):
            title = f"{factor} {name}".strip() if changes else "base"
            run = trained(title, changes, seed, runs, smoke=smoke)
            outputs = translated(run, list(sources), *how)
            notes = read_json(run.folder / METRICS)
            scores.append(
                {
                    "seed": seed,
                    "bleu": score(DATA, outputs, references)["bleu"],
                    "parameters": notes["parameters"],
                    "seconds": notes["seconds"],
                    "draws": drawn(counts_of(DATA, outputs, references)),
                }
            )
            print(f"seed {seed}, {title}, decoded {how}: {scores[-1]['bleu']:.2f}", flush=True)
    return [row(factor, name, scores, found[0][2]) for factor, name, scores in found]


def row(factor: str, name: str, scores: list[dict], base: list[dict]) -> dict:
    """Return the mean, the difference to the base, and whether it survives.

    It does if its interval leaves out 0 and no seed of the one reaches a seed of the other.
    """
    ours, theirs = ([s["bleu"] for s in each] for each in (scores, base))
    differences = sum(s["draws"] - b["draws"] for s, b in zip(scores, base, strict=True))
    around = interval(differences / len(scores))
    apart = max(ours) < min(theirs) or min(ours) > max(theirs)
    return {
        "factor": factor,
        "setting": name,
        "base": factor == "base",
        "seeds": [{k: v for k, v in each.items() if k != "draws"} for each in scores],
        "bleu": round(statistics.mean(ours), 2),
        "difference": round(statistics.mean(ours) - statistics.mean(theirs), 2),
        **around,
        "survives": apart and not around["low"] <= 0 <= around["high"],
    }


def table(result: dict) -> str:
    """Return the rows as Markdown."""
    lines = []
    for each in result["rows"]:
        difference = f"{each['difference']:+.2f} ({each['low']:+.2f} to {each['high']:+.2f})"
        seeds = ", ".join(f"{s['bleu']:.2f}" for s in each["seeds"])
        verdict = "yes" if each["survives"] else "no"
        name = [each["factor"], each["setting"], seeds]
        lines.append([*name, *(("", "") if each["base"] else (difference, verdict))])
    return markdown(
        ["factor", "setting", "BLEU of each seed", "against the base, 95 %", "survives"], lines
    )


def main(arguments: list[str] | None = None) -> None:
    """Train what is missing, write table3.json once both seeds are there, print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.table3", description=__doc__)
    parser.add_argument("--runs", type=Path, default=Path("runs/table3"), help="folder of the runs")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS, help="train these alone")
    parser.add_argument("--output", type=Path, help=f"folder for the result ({RESULTS.name}/)")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads (1)")
    parser.add_argument("--smoke", action="store_true", help="toy sizes; writes only to --output")
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    options.runs /= "smoke" if options.smoke else ""  # no toy is taken for a real run
    output = options.output or (None if options.smoke else RESULTS)
    result = report.describe_run("table3", smoke=options.smoke)
    result |= {"data": f"{DATA}, validation set", "epochs": EPOCHS, "settings": BASE}
    result["rows"] = measure(options.runs, tuple(options.seeds), smoke=options.smoke)
    if output and set(options.seeds) == set(SEEDS):
        report.write(output / "table3.json", result)
    print(table(result))


if __name__ == "__main__":
    main()
