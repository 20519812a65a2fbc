"""`python -m benchmarks.lessons.l07_embeddings`: lesson 07's runs on embeddings and their controls.

The code is the lesson's own, loaded from its notebook. Five seeds each, which draw the weights and
the batches: the factor that multiplies the words, with tables that learn and with frozen ones
(three of the seeds for three times the steps as well); frozen words and positions, each times a
factor of its own; different factors from the same start; tied, untied, and three copies of one;
tables from a model trained before. For three seeds, with one tied table: the factor, and some of
the lesson's bugs.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

import torch

from benchmarks.lessons.lesson_code import lesson_code
from benchmarks.lessons.rows import measure_rows

SEEDS, LONGER = range(5), range(3)
FACTORS, STARTS = (1, 4, 8, 64), (1, 4, 8, 16, 64)
# Of the words and of the positions. A word has length 1 and a position √32 before them, so the sums
# are as long as with 8 and 1; the second and the third have the balance of 8 and 1, the third the
# length of 64 and 1.
BOTH = ((1.7, 1.7), (1, 1 / 8), (64, 8), (8, 1 / 8))

BUGS = "no positions", "no √d_model", "no LayerNorm", "no mask for the memory", "no causal mask"

lesson = partial(lesson_code, "07", "small_model", "losses_of", "EXAMPLES", "MUTANTS")


def tables_of(model) -> list[torch.nn.Parameter]:
    """Return the tables of both embeddings."""
    return [model.source_embedding.table, model.target_embedding.table]


def place_only(examples: list) -> float:
    """Return the loss of a model that knows only how often a token stands at each place."""
    loss, count = 0.0, 0
    for place in range(max(len(target) for _, target in examples)):
        found = Counter(target[place] for _, target in examples if len(target) > place)
        total = sum(found.values())
        loss -= sum(n * math.log(n / total) for n in found.values())
        count += total
    return loss / count


def trained(code: dict, model, name: str, kind: str, seed: int, at: dict) -> list[dict]:
    """Train; return a row for each number of steps in `at`, under its experiment.

    The length is that of the tables' rows at the end of the run, after the most steps.
    """
    losses = code["losses_of"](model, max(at))
    length = sum(table.norm(dim=1).mean().item() for table in tables_of(model)) / 2
    return [
        {
            **{"experiment": experiment or kind, "name": name, "seed": seed, "steps": steps},
            **{"loss": round(sum(losses[max(0, steps - 20) : steps]) / min(20, steps), 4)},
            "length": round(length, 4),
        }
        for steps, experiment in at.items()
    ]


def sized(model, factor: float):
    """Let the tables start `factor` times as large."""
    with torch.no_grad():
        for table in tables_of(model):
            table.mul_(factor)
    return model


def placed(model, factor: float):
    """Let the positions be `factor` times as long."""
    model.positions.table.mul_(factor)
    return model


def frozen(model):
    """Let the tables of the embeddings stay as they start."""
    for table in tables_of(model):
        table.requires_grad_(False)
    return model


def copied(model):
    """Make three matrices of a tied model's one, equal at first: the bugs of the lesson."""
    one = model.target_embedding.table
    model.source_embedding.table, model.generator.weight = (
        torch.nn.Parameter(one.detach().clone()) for _ in range(2)
    )
    return model


def with_tables(model, first: list, seed: int, *, shuffled: bool):
    """Copy tables into a model, their rows in a random order if `shuffled`."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for table, other in zip(tables_of(model), first, strict=True):
            order = torch.arange(len(other))
            if shuffled:
                order = torch.randperm(len(other), generator=generator)
            table.copy_(other[order])
    return model


def rows_of(code: dict, seed: int, steps: int, first: list) -> list[dict]:
    """Return the rows of all experiments for one seed."""
    small, rows, at = code["small_model"], [], {steps: None}
    for factor in FACTORS:
        name = str(factor)
        for kind, tables in (("learnt", lambda model: model), ("frozen", frozen)):
            more = {3 * steps: f"{kind}, longer"} if seed in LONGER else {}
            rows += trained(code, tables(small(factor, seed)), name, kind, seed, at | more)
    for words, places in BOTH:
        name, model = f"{words:g} and {places:g}", placed(small(words, seed), places)
        rows += trained(code, frozen(model), name, "frozen, both", seed, at)
    for factor in STARTS:
        model = sized(small(factor, seed), 8 / factor)
        rows += trained(code, model, f"{factor} × {8 / factor:g}", "same start", seed, at)
    longer = {n * steps: f"after {n * steps}" for n in (1, 2, 3)}
    tying = {"tied": small(8, seed, tied=True), "copied": copied(small(8, seed, tied=True))}
    for name, model in (tying | {"untied": small(8, seed)}).items():
        rows += trained(code, model, name, "tying", seed, longer)
    for name in ("own", "trained", "shuffled"):
        model = small(8, seed)
        if name != "own":
            model = with_tables(model, first, seed, shuffled=name == "shuffled")
        rows += trained(code, model, name, "first tables", seed, at)
    return rows


def tied_rows(code: dict, factor: float, seed: int, steps: int) -> list[dict]:
    """Return the row of a tied model with a factor of its own."""
    model = code["small_model"](factor, seed, tied=True)
    return trained(code, model, str(factor), "tied, longer", seed, {steps: None})


def bug_rows(code: dict, bug: str, seed: int, steps: int) -> list[dict]:
    """Return the rows of a tied model with one of the lesson's bugs: first loss, and last."""
    model = code["small_model"](8, seed, tied=True)
    code["MUTANTS"][bug](model)
    return trained(code, model, bug, "bugs", seed, {1: "bugs, first loss", steps: None})


def plan(smoke: bool) -> Iterator[tuple[dict, Callable]]:
    """Yield what is run for one seed, and what runs it.

    A setting takes all rows that it fits, so those of one run come before those of a whole seed.
    """
    code, steps = lesson(), 2 if smoke else 120
    for seed in LONGER[:1] if smoke else LONGER:
        for factor in FACTORS:
            setting = {"tied": factor, "seed": seed}
            yield setting, partial(tied_rows, code, factor, seed, 3 * steps)
        for bug in BUGS:
            yield {"bug": bug, "seed": seed}, partial(bug_rows, code, bug, seed, 3 * steps)
    before = code["small_model"](8, 100)
    code["losses_of"](before, 2 if smoke else 300)
    first = [table.detach().clone() for table in tables_of(before)]
    for seed in SEEDS[:1] if smoke else SEEDS:
        yield {"seed": seed}, partial(rows_of, code, seed, steps, first)


def notes(smoke: bool) -> dict:
    """Return the score of the model that knows only the place."""
    return {"place_only": round(place_only(lesson()["EXAMPLES"]), 4)}


def table(rows: list[dict]) -> str:
    """Return lowest and highest loss as Markdown."""
    lines = ["| experiment | which | loss, lowest to highest | seeds |", "|---" * 4 + "|"]
    for key in dict.fromkeys((row["experiment"], row["name"]) for row in rows):
        runs = [row["loss"] for row in rows if (row["experiment"], row["name"]) == key]
        spread = f"{min(runs):.2f} to {max(runs):.2f}"
        lines.append(f"| {key[0]} | {key[1]} | {spread} | {len(runs)} |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    """Train what l07_embeddings.json does not have yet, print the table."""
    measure_rows("l07_embeddings", __doc__, arguments, plan, notes=notes, table=table)


if __name__ == "__main__":
    main()
