"""`python -m benchmarks.lessons.l00_start_here`: lesson 00's short run, for five seeds.

Beside it the same training with the sources shuffled, which can learn the calendar and not to read,
and the three date models that are shipped, which were trained for longer. The code is the lesson's
own, loaded from its evidence.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from tempfile import TemporaryDirectory

import torch

from benchmarks.lessons.lesson_code import lesson_code
from benchmarks.lessons.rows import measure_rows
from transformer_lab import (
    PRESETS,
    Run,
    TrainConfig,
    Transformer,
    date_pairs,
    fit,
    load_run,
    train,
    train_tokenizer,
)
from transformer_lab.runs import PRETRAINED, encode_pairs, load_task

SEEDS, CONTROL_SEEDS = range(5), range(3)
TOY = {"steps": 4, "checkpoint_every": 1, "d_model": 8, "num_heads": 1, "num_decoder_layers": 1}
DATES, NONSENSE = 1000, 500

lesson = partial(
    lesson_code,
    "00",
    *("SETTINGS", "right_parts", "swapped", "weight_on_own_part", "changed_answers", "nonsense"),
)


def plan(smoke: bool) -> Iterator[tuple[dict, Callable]]:
    """Yield each model, and what trains and asks it."""
    settings = TOY if smoke else lesson()["SETTINGS"]
    count = 40 if smoke else DATES
    for seed in range(1) if smoke else SEEDS:
        yield {"model": "short", "seed": seed}, partial(short, seed, settings, count)
    for seed in range(1) if smoke else CONTROL_SEEDS:
        yield {"model": "sources shuffled", "seed": seed}, partial(shuffled, seed, settings)
        yield {"model": "trained", "seed": seed}, partial(trained, seed, count)


def short(seed: int, settings: dict, count: int) -> dict:
    """Train as the lesson does; return the shares that it speaks of, over so many dates."""
    history: list = []
    with TemporaryDirectory() as folder:
        options = {"progress": False, "on_record": history.append, "seed": seed}
        run = train("dates", folder, **options, **settings)
    losses = {
        record["step"]: record["valid_loss"] for record in history[-1] if "valid_loss" in record
    }
    row = {"steps": settings["steps"]} | asked(run, count)
    torch.manual_seed(seed)
    untrained = Run(None, Transformer(run.model.config).eval(), run.tokenizer, "dates", 1)
    maps = lesson()["weight_on_own_part"](untrained, date_pairs(count, seed=3, split="test"))
    row |= {f"untrained, {k}": round(share, 4) for k, share in maps.items() if "even" not in k}
    return row | {"losses": {str(step): round(loss, 4) for step, loss in losses.items()}}


def trained(seed: int, count: int) -> dict:
    """Ask a model that is shipped the same."""
    return asked(load_run(PRETRAINED / f"dates_{seed}"), count)


def asked(run: Run, count: int) -> dict:
    """Return what the lesson's evidence asks a model, as shares."""
    code, pairs = lesson(), date_pairs(count, seed=3, split="test")
    texts, truths = [text for text, _ in pairs], [iso for _, iso in pairs]
    answers = run.translate(texts)
    row = {}
    for form, named in (("by name", True), ("in numbers", False)):
        chosen = [i for i, text in enumerate(texts) if any(map(str.isalpha, text)) == named]
        right = code["right_parts"]([truths[i] for i in chosen], [answers[i] for i in chosen])
        row |= {f"{part} right, {form}": right[part] for part in ("year", "month", "day")}
    row |= {"exact match": code["right_parts"](truths, answers)["exact"]}
    row |= code["swapped"](truths, answers)
    moved = run.translate(["  " + text for text in texts])
    for name, given in (("as written", answers), ("two spaces in front", moved)):
        errors = kinds_of_error(truths, given)
        row |= {f"{name}: {kind}": share for kind, share in errors.items()}
    row |= code["weight_on_own_part"](run, pairs)
    changed = code["changed_answers"](run, count=4 * count)
    row |= {f"changed, {form}: {name}": share for (form, name), share in changed.items()}
    row |= code["nonsense"](run, count=NONSENSE if count == DATES else count)
    return {name: round(share, 4) for name, share in row.items()}


def kinds_of_error(truths: list[str], answers: list[str]) -> dict:
    """Return the shares of wrong answers with the right digits, and of the other wrong ones."""
    both = [pair for pair in zip(truths, answers, strict=True) if pair[0] != pair[1]]
    same = sum(sorted(truth) == sorted(answer) for truth, answer in both)
    return {
        "wrong, right digits": same / len(truths),
        "wrong, other digits": (len(both) - same) / len(truths),
    }


def shuffled(seed: int, settings: dict) -> dict:
    """Train with each source beside another's target; return the losses on unseen days by step."""
    splits, preset = load_task("dates", seed), PRESETS["dates"]
    texts = [text for pair in splits["train"] for text in pair]
    tokenizer = train_tokenizer(texts, kind="characters")
    pairs, unseen = (encode_pairs(tokenizer, splits[name]) for name in ("train", "val"))
    sources = [source for source, _ in pairs]
    random.Random(seed).shuffle(sources)
    targets = [target for _, target in pairs]
    sizes = {"source_vocab_size": tokenizer.vocab_size, "target_vocab_size": tokenizer.vocab_size}
    known = {field: settings[field] for field in ("steps", "checkpoint_every")}
    config: TrainConfig = replace(preset.training, seed=seed, average=1, **known)
    torch.manual_seed(seed)
    model = Transformer(replace(preset.model, **sizes))
    mixed = [*zip(sources, targets, strict=True)]
    history = fit(model, mixed, config, valid_pairs=unseen, progress=False)
    losses = {str(r["step"]): round(r["valid_loss"], 4) for r in history if "valid_loss" in r}
    return {"steps": settings["steps"], "losses": losses}


def table(rows: list[dict]) -> str:
    """Return mean and range over the seeds of each model as Markdown."""
    lines = ["| model | share | mean | lowest to highest | seeds |", "|---" * 5 + "|"]
    for model in dict.fromkeys(row["model"] for row in rows):
        chosen = [row for row in rows if row["model"] == model]
        for name in [key for key in chosen[0] if key not in ("model", "seed", "steps", "losses")]:
            values = [row[name] for row in chosen]
            mean, ends = sum(values) / len(values), f"{min(values):.3f} to {max(values):.3f}"
            lines.append(f"| {model} | {name} | {mean:.3f} | {ends} | {len(values)} |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    """Measure what l00_start_here.json does not have yet, print the table."""
    measure_rows("l00_start_here", __doc__, arguments, plan, table=table)


if __name__ == "__main__":
    main()
