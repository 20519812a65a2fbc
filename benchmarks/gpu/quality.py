"""Quality of the Multi30k model, what was tried for it, and how soon it is reached."""

import statistics
import time
from dataclasses import asdict, replace

from benchmarks.gpu.engine import Trainer, Way, train
from benchmarks.gpu.lab import RECIPES, SIDE_BY_SIDE, TESTS, Lab
from benchmarks.gpu.power import watts
from benchmarks.quality import PAPER_ALPHA
from benchmarks.reporting.report import SEED
from transformer_lab import Run

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
    """Train `tok` with three seeds and `raw` with one, as the search chose, and score each test.

    They are trained side by side, so their seconds are not those of one alone.
    """
    name, preset, objective = lab.recipe()
    wanted = [*(("tok", None, seed) for seed in SEEDS), ("raw", None, 0)]
    with watts(lab.device) as power:
        runs = lab.train(wanted)
    rows = []
    for (variant, _, seed), run in zip(wanted, runs, strict=True):
        longest = max((row["scoring_seconds"] for row in rows), default=0.0)
        if lab.has(1.2 * longest, what := f"scores of {variant}, seed {seed}"):
            row = lab.attempt(what, _scored, lab, variant, seed, *run)
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
    found = {"rows": rows, "recipe": recipe, "watts": power}
    return {"summary": summary, "tables": tables} | found


def _scored(lab: Lab, variant: str, seed: int, run: Run, history: list[dict]) -> dict:
    start = time.perf_counter()
    scores = {split: lab.bleu(run, split) for split in ("val", *TESTS)}
    paper = {split: lab.bleu(run, split, alpha=PAPER_ALPHA) for split in ("val", "test2016")}
    last = history[-1]
    return {
        "variant": variant,
        "seed": seed,
        "seconds": last["seconds"],
        "side_by_side": last["side_by_side"],
        "setup_seconds": last["setup_seconds"],
        "scoring_seconds": time.perf_counter() - start,
        "scores": scores,
        "scores_paper_alpha": paper,
        "history": history,
    }


def _mean(rows: list[dict], variant: str, test: str) -> str:
    values = [row["scores"][test]["bleu"] for row in rows if row["variant"] == variant]
    if len(values) < 2:
        return "".join(f"{value:.2f}" for value in values)
    return f"{statistics.mean(values):.2f} ± {statistics.stdev(values):.2f}"


def _signatures(rows: list[dict]) -> str:
    found = {row["variant"]: row["scores"]["test2016"]["signature"] for row in rows}
    return "; ".join(f"{variant}: {signature}" for variant, signature in found.items())


def search(lab: Lab) -> dict:
    """Train each recipe once, some side by side; choose the highest BLEU on the validation set."""
    names, rows, longest = list(RECIPES)[: 2 if lab.smoke else None], [], 0.0
    for i in range(0, len(names), SIDE_BY_SIDE):
        some, start = names[i : i + SIDE_BY_SIDE], time.perf_counter()
        what = ", ".join(f'recipe "{name}"' for name in some)
        if lab.has(longest, what):
            rows += lab.attempt(what, _try, lab, some) or []
            longest = max(longest, time.perf_counter() - start)
    best = max(rows, key=lambda row: row["validation"])
    cells = [
        [row["recipe"], f"{row['steps']:,}", f"{row['loss']:.2f}"]
        + [f"{row[key]:.2f}" for key in ("validation", "validation_paper_alpha")]
        for row in sorted(rows, key=lambda row: -row["validation"])
    ]
    columns = ["recipe", "steps", "last loss", "BLEU", f"with α = {PAPER_ALPHA}"]
    title = (
        f"What was tried on the validation set, one seed each, {SIDE_BY_SIDE} side by side; "
        f'chosen: "{best["recipe"]}" (the last losses of R-Drop hold its divergence, too)'
    )
    tables = [{"title": title, "columns": columns, "rows": cells}]
    return {"summary": [], "tables": tables, "rows": rows, "chosen": best["recipe"]}


def _try(lab: Lab, names: list[str]) -> list[dict]:
    rows = []
    runs = lab.train([("tok", name, SEED) for name in names])
    for name, (run, history) in zip(names, runs, strict=True):
        settings, objective = RECIPES[name]
        row = {"recipe": name, "settings": settings, "objective": objective.__name__}
        row |= {"steps": history[-1]["step"], "loss": history[-1]["loss"]}
        row |= {"seconds": history[-1]["seconds"], "history": history}
        row["validation"] = lab.bleu(run, "val")["bleu"]
        row["validation_paper_alpha"] = lab.bleu(run, "val", alpha=PAPER_ALPHA)["bleu"]
        rows.append(row)
    return rows


def time_to_quality(lab: Lab) -> dict:
    """Find the first checkpoint that reaches the goal, then measure what each rung gives."""
    goal = 0.0 if lab.smoke else GOAL
    with watts(lab.device) as power:
        trained = _train_alone(lab)
    reached, tried = _first_to_reach(lab, goal, *trained)
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
        "watts": power,
        "reached": reached,
        "tried": tried,
        "ladder": rungs,
    }


def _train_alone(lab: Lab) -> tuple[Trainer, float, list[dict], list[dict]]:
    """Train once, with nothing beside it; return trainer, set-up in seconds, history, snapshots."""
    _, preset, objective = lab.recipe()
    trainer = lab.trainer(lab.task("tok"), preset, lab.way(), objective=objective)
    setup, plan = lab.prepare(trainer), preset.training
    return trainer, setup, *train(trainer, plan.steps, plan.checkpoint_every)


def _first_to_reach(
    lab: Lab, goal: float, trainer: Trainer, setup: float, history: list[dict], snapshots: list
) -> tuple[dict | None, list[dict]]:
    """Score the checkpoints in order, outside the measured time, until one reaches the goal."""
    task, preset = lab.task("tok"), lab.recipe()[1]
    tried, last = [], len(history) - 1  # the first half is far below the goal
    for i in range(last, last // 2, -max(1, last // 15))[::-1]:
        if not lab.has(40 if lab.device.type == "cuda" else 0, f"checkpoint {i + 1}"):
            break
        run = lab.run_of(task, preset, trainer, snapshots[: i + 1])
        bleu = lab.bleu(run, "test2016")["bleu"]
        tried.append(history[i] | {"bleu": bleu, "total_seconds": setup + history[i]["seconds"]})
        if bleu >= goal:
            return tried[-1], tried
    return None, tried


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
    warm_up, steps = (1, 2) if lab.smoke else (20, 150)
    train(trainer, warm_up, every=warm_up)
    before = trainer.tokens
    history, _ = train(trainer, warm_up + steps, every=warm_up + steps)
    speed = (trainer.tokens - before) / history[-1]["seconds"]
    return {"name": name, "tokens_per_second": speed, "setup_seconds": setup, "way": asdict(way)}
