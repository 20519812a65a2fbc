"""Quality of the Multi30k model, what was tried for it, and how soon it is reached."""

import statistics
import time
from dataclasses import asdict, replace

from benchmarks.gpu.engine import Way, train
from benchmarks.gpu.ensemble import ensemble
from benchmarks.gpu.lab import QUICK, RECIPES, SMALL, TESTS, USUAL, Lab
from benchmarks.reporting.report import SEED
from transformer_lab import Run
from transformer_lab.decoding import LENGTH_PENALTY

SEEDS = (0, 1, 2)
PUBLISHED = 41.02  # text-only Transformer-Tiny, test2016 (LividWo/Revisit-MMT)
GOAL = 41.0
TARGETS = {"tok": f"test2016 ≥ 41.5 (published: {PUBLISHED})", "raw": "test2016 ≥ 39"}
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


def quality(lab: Lab, name: str = USUAL) -> dict:
    """Train `tok` with three seeds and `raw` with one, and score each test.

    The three of `tok` are scored together, too, as an ensemble.
    """
    preset, objective = lab.recipe(name)
    rows = []
    for variant, seed in [*(("tok", seed) for seed in SEEDS), ("raw", 0)]:
        longest = max((row["total_seconds"] for row in rows), default=0.0)
        run = f"{variant}, seed {seed}"
        if lab.has(1.1 * longest, run):
            row = lab.attempt(run, _scored, lab, variant, seed, name)
            rows += [row] if row else []
    together = lab.attempt("the ensemble", _together, lab, rows, name) or []
    recipe = {"name": name, "objective": objective.__name__} | asdict(preset)
    return _tables(rows, together, recipe) | {"rows": rows, "ensemble": together, "recipe": recipe}


def best(lab: Lab) -> dict:
    """Do the same with the recipe that the search chose."""
    return quality(lab, lab.chosen())


def _tables(rows: list[dict], together: list[dict], recipe: dict) -> dict:
    summary = []
    for variant in ("tok", "raw", "tok, ensemble"):
        some = [row for row in rows + together if row["variant"] == variant]
        if some:
            seeds = ", ".join(str(row["seed"]) for row in some)
            name = "" if recipe["name"] == USUAL else f"{recipe['name']}, "
            what = f"Multi30k En→De, {variant}, {name}beam {recipe['beam']}, GPU, seeds: {seeds}"
            target = TARGETS.get(variant, "")
            summary.append([what, _means(some), target])
    columns = ["variant", "seed", "length penalty", "training, s", "validation", *TESTS]
    cells = [
        [row["variant"], row["seed"], length_penalty, f"{row['seconds']:.1f}"]
        + [_bleu(row[key][split]) for split in ("val", *TESTS)]
        for row in rows + together
        for key, length_penalty in (
            ("scores", recipe["length_penalty"]),
            ("scores_paper_alpha", LENGTH_PENALTY),
        )
        if key in row
    ]
    title = f'BLEU, recipe "{recipe["name"]}"; ' + _signatures(rows)
    tables = [{"title": title, "columns": columns, "rows": cells}]
    return {"summary": summary, "tables": tables}


def _scored(lab: Lab, variant: str, seed: int, name: str) -> dict:
    start = time.perf_counter()
    run, history = lab.trained(variant, seed, name)
    row = {
        "variant": variant,
        "seed": seed,
        "seconds": history[-1]["seconds"],
        "setup_seconds": history[-1]["setup_seconds"],
        **_scores(lab, run),
        "history": history,
    }
    return row | {"total_seconds": time.perf_counter() - start}


def _together(lab: Lab, rows: list[dict], name: str) -> list[dict]:
    """Return the scores of the ensemble, if there are several models of `tok`."""
    rows = [row for row in rows if row["variant"] == "tok"]
    if len(rows) < 2:
        return []
    together = ensemble([lab.trained("tok", row["seed"], name)[0] for row in rows])
    seeds = ", ".join(str(row["seed"]) for row in rows)
    row = {"variant": "tok, ensemble", "seed": seeds, "seconds": sum(r["seconds"] for r in rows)}
    return [row | _scores(lab, together)]


def _scores(lab: Lab, run: Run) -> dict:
    """Return BLEU of validation and test sets at the recipe's length penalty and the paper's."""
    found = {}
    for key, length_penalty in (
        ("scores", run.length_penalty),
        ("scores_paper_alpha", LENGTH_PENALTY),
    ):
        found[key] = {
            split: lab.bleu(run, split, length_penalty=length_penalty) for split in ("val", *TESTS)
        }
        print({split: round(score["bleu"], 2) for split, score in found[key].items()}, flush=True)
    return found


def _bleu(score: dict) -> str:
    around = f", {score['low']:.1f} to {score['high']:.1f}" if "low" in score else ""
    return f"{score['bleu']:.2f}{around}"


def _means(rows: list[dict]) -> str:
    """Return the mean over the rows of each test, and of test2016 at the paper's penalty."""
    parts = [f"{test} {_mean([row['scores'][test]['bleu'] for row in rows])}" for test in TESTS]
    if all("scores_paper_alpha" in row for row in rows):
        paper = [row["scores_paper_alpha"]["test2016"]["bleu"] for row in rows]
        parts.append(f"test2016 at length penalty {LENGTH_PENALTY} {_mean(paper)}")
    return f"BLEU: {'; '.join(parts)}"


def _mean(values: list[float]) -> str:
    spread = f" ({min(values):.2f} to {max(values):.2f})" if len(values) > 1 else ""
    return f"{statistics.mean(values):.2f}{spread}"


def _signatures(rows: list[dict]) -> str:
    found = {row["variant"]: row["scores"]["test2016"]["signature"] for row in rows}
    return "; ".join(f"{variant}: {signature}" for variant, signature in found.items())


def search(lab: Lab) -> dict:
    """Train each recipe once; choose the one with the highest BLEU on the validation set."""
    rows = []
    for name in lab.wanted or list(RECIPES)[: 2 if lab.smoke else None]:
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
    title = (
        "What was tried: one seed each, the choice made on the validation set (with R-Drop the "
        "training is compiled, without it is not)"
    )
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
        "setup_seconds": history[-1]["setup_seconds"],
        "loss": history[-1]["loss"],
        "validation": lab.bleu(run, "val")["bleu"],
        "validation_paper_alpha": lab.bleu(run, "val", length_penalty=LENGTH_PENALTY)["bleu"],
        "total_seconds": time.perf_counter() - start,
    }
    print(row, flush=True)
    return row


def small(lab: Lab) -> dict:
    """Train cased text with a wider model that fits into 12 MB; keep the run, to be shipped."""
    preset, objective = lab.recipe(SMALL)
    rows = [_scored(lab, "raw", SEED, SMALL)]
    if lab.folder:
        run, history = lab.trained("raw", SEED, SMALL)
        run.folder = lab.folder / "small"
        plan = asdict(preset.training) | {"precision": "bfloat16", "compile": True}  # its `Way`
        run.finish(history, {"seed": SEED, "training": plan, "objective": objective.__name__})
    recipe = {"name": SMALL, "objective": objective.__name__} | asdict(preset)
    return _tables(rows, [], recipe) | {"rows": rows, "recipe": recipe}


def time_to_quality(lab: Lab) -> dict:
    """Find each seed's first checkpoint that reaches the goal; training is timed, scoring not."""
    goal, tried = 0.0 if lab.smoke else GOAL, []
    for seed in SEEDS:
        longest = max((row["whole_seconds"] for row in tried), default=0.0)
        if lab.has(1.2 * longest, f"seed {seed}"):
            start = time.perf_counter()
            found = _last_checkpoints(lab, goal, seed)
            whole = time.perf_counter() - start
            tried += [{"seed": seed} | record | {"whole_seconds": whole} for record in found]
    return _reached(tried, lab.recipe(QUICK)[0].length_penalty, goal)


def _last_checkpoints(lab: Lab, goal: float, seed: int) -> list[dict]:
    """Train once; then score checkpoints, from the last back to one that misses the goal."""
    task, (preset, _) = lab.task("tok"), lab.recipe(QUICK)
    history, snapshots = lab.train("tok", seed, QUICK)
    tried, last = [], len(history) - 1
    for i in range(last, last // 2, -max(1, last // 12)):
        if not lab.has(10 if lab.device.type == "cuda" else 0, f"seed {seed}, checkpoint {i + 1}"):
            break
        run = lab.run_of(task, preset, snapshots[: i + 1])
        record = history[i] | {"bleu": lab.bleu(run, "test2016")["bleu"]}
        paper = lab.bleu(run, "test2016", length_penalty=LENGTH_PENALTY)
        record["bleu_paper_alpha"] = paper["bleu"]
        record["setup_seconds"] = history[-1]["setup_seconds"]
        tried.insert(0, record)
        print(record, flush=True)
        if max(record["bleu"], record["bleu_paper_alpha"]) < goal:
            break
    return tried


def _reached(tried: list[dict], length_penalty: float, goal: float) -> dict:
    penalties = {"bleu": f"{length_penalty}", "bleu_paper_alpha": f"{LENGTH_PENALTY}"}
    seeds = sorted({t["seed"] for t in tried})
    reached = {}
    for key, penalty in penalties.items():
        firsts = [
            next((t["seconds"] for t in tried if t["seed"] == seed and t[key] >= goal), None)
            for seed in seeds
        ]
        reached[penalty] = ", ".join("not" if s is None else f"{s:.0f} s" for s in firsts)
    columns = ["seed", "step", "training, s", "set-up, s"]
    table = {
        "title": f'BLEU on test2016 (tok, beam 5), recipe "{QUICK}": the mean of the last '
        f"checkpoints, back to one below {goal}, or to the first that was scored",
        "columns": columns + [f"BLEU, length penalty {each}" for each in penalties.values()],
        "rows": [
            [t["seed"], t["step"], f"{t['seconds']:.1f}", f"{t['setup_seconds']:.1f}"]
            + [f"{t[key]:.2f}" for key in penalties]
            for t in tried
        ],
    }
    recipe = f"Multi30k En→De, tok, {QUICK}, beam 5, GPU, seeds: {', '.join(map(str, seeds))}"
    measured = "; ".join(f"{seconds} at length penalty {a}" for a, seconds in reached.items())
    measured = f"first scored so after {measured}"
    setup = [t["setup_seconds"] for t in tried]
    measured += f"; before that {min(setup):.0f} to {max(setup):.0f} s of set-up"
    ends = {t["seed"]: t for t in tried}.values()  # the last checkpoint of each seed
    final = "; ".join(
        f"test2016 {_mean([t[key] for t in ends])} at length penalty {penalty}"
        for key, penalty in penalties.items()
    )
    seconds = max(t["seconds"] for t in ends)
    summary = [
        [f"{recipe}: training to BLEU {GOAL} on test2016", measured, "≤ 60 s"],
        [f"The same, at its end, after {seconds:.0f} s of training", f"BLEU: {final}", "≥ 41.5"],
    ]
    return {"summary": summary, "tables": [table], "reached": reached, "tried": tried}


def ladder(lab: Lab) -> dict:
    """Measure what each thing adds to the speed of training."""
    rungs = _rungs(lab)
    table = {
        "title": "Training speed, one thing added after the other (real tokens, source and target)",
        "columns": ["step", "tokens/s", "set-up, s"],
        "rows": [
            [r["name"], f"{r['tokens_per_second']:,.0f}", f"{r['setup_seconds']:.0f}"]
            for r in rungs
        ],
    }
    return {"summary": [], "tables": [table], "rows": rungs}


def _rungs(lab: Lab) -> list[dict]:
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
    preset, objective = lab.recipe()
    preset = replace(preset, training=replace(preset.training, warmup=2000))
    trainer = lab.trainer(lab.task("tok"), preset, way, objective=objective)
    setup = trainer.prepare()
    warm_up, steps = (1, 2) if lab.smoke else (20, 60)
    train(trainer, warm_up, every=warm_up)
    before = trainer.tokens
    history, _ = train(trainer, warm_up + steps, every=warm_up + steps)
    speed = (trainer.tokens - before) / history[-1]["seconds"]
    return {"name": name, "tokens_per_second": speed, "setup_seconds": setup, "way": asdict(way)}
