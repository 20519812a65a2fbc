"""Quality of the Multi30k model, what was tried for it, and how soon it is reached."""

import statistics
import time
from dataclasses import asdict, replace

from benchmarks.gpu.engine import Way, train
from benchmarks.gpu.lab import RECIPES, TESTS, Lab
from benchmarks.reporting.report import SEED

SEEDS = (0, 1, 2)
PUBLISHED = 41.02  # text-only Transformer-Tiny, test2016 (LividWo/Revisit-MMT)
GOAL = 41.0
LADDER = {  # each rung keeps what the rungs above it have
    "eager float32, sentences in any order": {},
    "sentences of about one length together": {"bucketed": True},
    "bfloat16": {"bfloat16": True},
    "fused attention (SDPA)": {"sdpa": True},
    "fused AdamW": {"fused_adam": True},
    "CUDA graphs": {"graphs": True},
    "data on the device": {"resident": True},
    "torch.compile of each layer": {"compiled": True},  # last, as its set-up takes longest
}


def quality(lab: Lab) -> dict:
    """Train `tok` with three seeds and `raw` with one, as the search chose, and score each test."""
    name, preset, objective = lab.recipe()
    rows = []
    for variant, seed in [*(("tok", seed) for seed in SEEDS), ("raw", 0)]:
        longest = max((row["total_seconds"] for row in rows), default=0.0)
        run = f"{variant}, seed {seed}"
        if lab.has(1.1 * longest, run):
            row = lab.attempt(run, _scored, lab, variant, seed)
            rows += [row] if row else []
    summary = []
    for variant in ("tok", "raw"):
        means = [_mean(rows, variant, test) for test in TESTS]
        count = sum(row["variant"] == variant for row in rows)
        if count:
            what = f"Multi30k En→De, {variant}, beam {preset.beam}, GPU, BLEU on {', '.join(TESTS)}"
            target = f"≥ 41.5 on test2016 (published: {PUBLISHED})" if variant == "tok" else ""
            summary.append([f"{what}; seeds: {count}", "; ".join(means), target])
    columns = ["variant", "seed", "training, s", "validation", *TESTS]
    cells = [
        [row["variant"], row["seed"], f"{row['seconds']:.1f}"]
        + [f"{row['scores'][split]['bleu']:.2f}" for split in ("val", *TESTS)]
        for row in rows
    ]
    title = f'BLEU, recipe "{name}"; ' + _signatures(rows)
    tables = [{"title": title, "columns": columns, "rows": cells}]
    recipe = {"name": name, "objective": objective.__name__} | asdict(preset)
    return {"summary": summary, "tables": tables, "rows": rows, "recipe": recipe}


def _scored(lab: Lab, variant: str, seed: int) -> dict:
    start = time.perf_counter()
    run, history = lab.trained(variant, seed)
    scores = {split: lab.bleu(run, split) for split in ("val", *TESTS)}
    row = {
        "variant": variant,
        "seed": seed,
        "seconds": history[-1]["seconds"],
        "setup_seconds": history[-1]["setup_seconds"],
        "total_seconds": time.perf_counter() - start,
        "scores": scores,
        "history": history,
    }
    print(variant, seed, scores, flush=True)
    return row


def _mean(rows: list[dict], variant: str, test: str) -> str:
    values = [row["scores"][test]["bleu"] for row in rows if row["variant"] == variant]
    if len(values) < 2:
        return "".join(f"{value:.2f}" for value in values)
    return f"{statistics.mean(values):.2f} ± {statistics.stdev(values):.2f}"


def _signatures(rows: list[dict]) -> str:
    found = {row["variant"]: row["scores"]["test2016"]["signature"] for row in rows}
    return "; ".join(f"{variant}: {signature}" for variant, signature in found.items())


def search(lab: Lab) -> dict:
    """Train each recipe once; choose the one with the highest BLEU on the validation set."""
    rows = []
    for name in list(RECIPES)[: 2 if lab.smoke else None]:
        longest = max((row["total_seconds"] for row in rows), default=0.0)
        if lab.has(longest, f'recipe "{name}"'):
            row = lab.attempt(f'recipe "{name}"', _try, lab, name)
            rows += [row] if row else []
    best = max(rows, key=lambda row: row["validation"])
    cells = [
        [row["recipe"], row["steps"], f"{row['seconds']:.1f}", f"{row['validation']:.2f}"]
        for row in sorted(rows, key=lambda row: -row["validation"])
    ]
    columns = ["recipe", "steps", "training, s", "BLEU, validation"]
    title = "What was tried: one seed each, the choice made on the validation set"
    tables = [{"title": title, "columns": columns, "rows": cells}]
    return {"summary": [], "tables": tables, "rows": rows, "chosen": best["recipe"]}


def _try(lab: Lab, name: str) -> dict:
    start = time.perf_counter()
    run, history = lab.trained("tok", SEED, name)
    settings, objective = RECIPES[name]
    row = {
        "recipe": name,
        "settings": settings,
        "objective": objective.__name__,
        "steps": history[-1]["step"],
        "seconds": history[-1]["seconds"],
        "loss": history[-1]["loss"],
        "validation": lab.bleu(run, "val")["bleu"],
        "total_seconds": time.perf_counter() - start,
    }
    print(row, flush=True)
    return row


def time_to_quality(lab: Lab) -> dict:
    """Find the first checkpoint that reaches the goal, then measure what each rung gives."""
    goal = 0.0 if lab.smoke else GOAL
    reached, tried = _first_to_reach(lab, goal)
    rungs = _ladder(lab)
    missed = f"not reached by step {tried[-1]['step']:,}" if tried else "not measured"
    seconds = f"{reached['total_seconds']:.1f} s" if reached else missed
    title = "Training speed, one thing added after the other (real tokens, source and target)"
    cells = [
        [rung["name"], f"{rung['tokens_per_second']:,.0f}", f"{rung['setup_seconds']:.0f}"]
        for rung in rungs
    ]
    tables = [
        {
            "title": f"BLEU on test2016 (tok, beam 5) of the mean of the last checkpoints; "
            f"first at {goal} or more: {seconds}",
            "columns": ["step", "seconds, recording the graphs included", "BLEU"],
            "rows": [[t["step"], f"{t['total_seconds']:.1f}", f"{t['bleu']:.2f}"] for t in tried],
        },
        {"title": title, "columns": ["step", "tokens/s", "set-up, s"], "rows": cells},
    ]
    what = f"Multi30k: seconds of training to BLEU {GOAL} on test2016, GPU"
    summary = [[what, seconds, "≤ 60 s"]]
    return {
        "summary": summary,
        "tables": tables,
        "reached": reached,
        "tried": tried,
        "ladder": rungs,
    }


def _first_to_reach(lab: Lab, goal: float) -> tuple[dict | None, list[dict]]:
    """Train once; then score checkpoints, from the last back to one that misses the goal.

    Training is measured, scoring is not.
    """
    task, preset = lab.task("tok"), lab.recipe()[1]
    history, snapshots = lab.train("tok", SEED)
    reached, tried, last = None, [], len(history) - 1
    for i in range(last, last // 2, -max(1, last // 30)):
        if not lab.has(25 if lab.device.type == "cuda" else 0, f"checkpoint {i + 1}"):
            break
        bleu = lab.bleu(lab.run_of(task, preset, snapshots[: i + 1]), "test2016")["bleu"]
        seconds = history[-1]["setup_seconds"] + history[i]["seconds"]
        tried.insert(0, history[i] | {"bleu": bleu, "total_seconds": seconds})
        print(tried[0], flush=True)
        if bleu < goal:
            break
        reached = tried[0]
    return reached, tried


def _ladder(lab: Lab) -> list[dict]:
    switches = dict.fromkeys((name for rung in LADDER.values() for name in rung), False)
    rungs = []
    for name, more in LADDER.items():
        switches |= more
        needed = 50 if switches["compiled"] and lab.device.type == "cuda" else 0  # to compile
        if lab.has(needed, f'rung "{name}"'):
            rung = lab.attempt(f'rung "{name}"', _rung, lab, name, lab.way(**switches))
            rungs += [rung] if rung else []
    return rungs


def _rung(lab: Lab, name: str, way: Way) -> dict:
    """Return the tokens per second of one way to train, after its set-up and some steps."""
    _, preset, objective = lab.recipe()
    preset = replace(preset, training=replace(preset.training, warmup=2000))
    trainer = lab.trainer(lab.task("tok"), preset, way, objective=objective)
    setup = trainer.prepare()
    warm_up, steps = (1, 2) if lab.smoke else (20, 60)
    train(trainer, warm_up, every=warm_up)
    before = trainer.tokens
    history, _ = train(trainer, warm_up + steps, every=warm_up + steps)
    speed = (trainer.tokens - before) / history[-1]["seconds"]
    return {"name": name, "tokens_per_second": speed, "setup_seconds": setup, "way": asdict(way)}
