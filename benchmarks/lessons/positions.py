"""`python -m benchmarks.lessons.positions`: lesson 05's two experiments, with more seeds and steps.

The code is the lesson's own, loaded from its notebook: dates with four kinds of positions; texts
longer than those that were trained on, with two tasks (`letters`: which letter stood two places
before, `first_letter`: which stands at place 0); and two controls of the first of them, in which
all training texts are of full length, or begin at a random place.
"""

from collections.abc import Callable
from functools import partial

from benchmarks.lessons.lesson_code import lesson_code
from benchmarks.reporting import report

SEEDS, STEPS = range(5), 600
DATES = ("sinusoids", "learned table", "encoder only", "none")
ADDED = ("sinusoids", "learned table")
LETTERS = ("rotary", "sinusoids", "learned table", "none")
SCORES = ("exact_match", "as_trained", "inside", "beyond", "from_16")

lesson = partial(lesson_code, "05", "date_model", "exact_match", "train_dates", "train_letters")


def dates(code: dict, kind: str, seed: int, steps: int) -> dict:
    """Return the exact match on 2,000 unseen days, all written as 07/04/1957."""
    model = code["train_dates"](code["date_model"](kind, seed), seed, steps)
    return {"exact_match": code["exact_match"](model, count=2000)}


def letters(code: dict, kind: str, seed: int, steps: int, **changed) -> dict:
    """Return the share of right letters from place 2 on, trained on 3 to 16 letters.

    `as_trained` is that of texts of 16 letters, `from_16` of such that begin at place 16; the rest
    is of texts of 32: `inside` at the places 2 to 15, `beyond` at 16 to 31, `places` at each.
    """
    _, (right, as_trained, from_16) = code["train_letters"](kind, seed, steps, **changed)
    parts = {"as_trained": as_trained, "inside": right[:14], "beyond": right[14:]}
    parts["from_16"] = from_16
    places = [round(share, 4) for share in right.tolist()]
    return {name: round(part.mean().item(), 4) for name, part in parts.items()} | {"places": places}


def first_letter(code: dict, kind: str, seed: int, steps: int) -> dict:
    """Return the same for the letter at place 0, whose distance grows with the text."""
    return letters(code, kind, seed, steps, task="first")


def full_length(code: dict, kind: str, seed: int, steps: int) -> dict:
    """Return the same as `letters`, where each training text has 16 letters."""
    return letters(code, kind, seed, steps, shortest=16)


def random_start(code: dict, kind: str, seed: int, steps: int) -> dict:
    """Return the same as `letters`, where a training text begins at any place from 0 to 16."""
    return letters(code, kind, seed, steps, latest=16)


def runs_of(part: Callable, kinds: tuple, seeds: range, steps: int, code: dict) -> list[dict]:
    """Return one row for each kind and seed."""
    rows = []
    for kind in kinds:
        for seed in seeds:
            name = {"experiment": part.__name__, "kind": kind, "seed": seed, "steps": steps}
            rows.append(name | part(code, kind, seed, steps))
    return rows


def measure(*, smoke: bool = False) -> list[dict]:
    """Return the rows of all experiments."""
    code = lesson()
    seeds, steps = (range(1), 2) if smoke else (SEEDS, STEPS)
    rows = runs_of(dates, DATES, seeds, steps, code)
    for task in (letters, first_letter):
        rows += runs_of(task, LETTERS, seeds, steps, code)
    for control in (full_length, random_start):
        rows += runs_of(control, ADDED, seeds, steps, code)
    return rows


def table(rows: list[dict]) -> str:
    """Return mean and range over the seeds as Markdown."""
    lines = ["| experiment | kind | score | mean | lowest to highest | seeds |", "|---" * 6 + "|"]
    for name, kind in dict.fromkeys((row["experiment"], row["kind"]) for row in rows):
        of_kind = [row for row in rows if (row["experiment"], row["kind"]) == (name, kind)]
        for score in [key for key in SCORES if key in of_kind[0]]:
            values = [row[score] for row in of_kind]
            mean, spread = sum(values) / len(values), f"{min(values):.3f} to {max(values):.3f}"
            lines.append(f"| {name} | {kind} | {score} | {mean:.3f} | {spread} | {len(values)} |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    """Measure, write positions.json, print the table."""
    options = report.read_options("positions", __doc__, arguments)
    result = report.describe_run("positions", smoke=options.smoke)
    result["rows"] = measure(smoke=options.smoke)
    if options.output:
        report.write(options.output / "positions.json", result)
    print(table(result["rows"]))


if __name__ == "__main__":
    main()
