"""`python -m benchmarks.lessons.l05_positions`: lesson 05's experiments, with more seeds and steps.

The code is that of the lesson's evidence, loaded from its notebook: dates with four kinds of
positions, and with `<bos>` hidden from a decoder that has none; the game in which everybody bites
the next, with two questions and texts longer than those that were trained on (`game`); and what
could overturn it: training texts all of full length, or such that begin at a random place, and a
larger reader. What of the larger one it is that helps rotary is tried part by part: heads alone,
a `whole` encoder (residuals, norms and networks), its heads, its layers, both.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product

from benchmarks.lessons.lesson_code import lesson_code
from benchmarks.lessons.rows import measure_rows

DATES = ("clocks", "learned table", "encoder only", "encoder only, <bos> hidden", "none")
ADDED = ("clocks", "learned table")
WAYS = ("rotary", *ADDED)
BITTEN, BEGAN = "who bit me?", "who began?"
WHOLE = {"whole": True}
# What is changed, the kinds of positions, the questions, seeds and steps.
GAMES = {
    "game": ({}, (*WAYS, "none", "T5's bias"), (BITTEN, BEGAN), 5, 600),
    "full_length": ({"shortest": 7}, ADDED, (BITTEN,), 5, 600),
    "random_start": ({"latest": 16}, ADDED, (BITTEN,), 5, 600),
    "two_layers": (WHOLE | {"layers": 2, "heads": 4}, WAYS, (BITTEN, BEGAN), 3, 1000),
    "heads": ({"heads": 4}, ("rotary",), (BEGAN,), 3, 600),
    "whole": (WHOLE, ("rotary",), (BEGAN,), 3, 1000),
    "whole_heads": (WHOLE | {"heads": 4}, ("rotary",), (BEGAN,), 3, 1000),
    "whole_layers": (WHOLE | {"layers": 2}, ("rotary",), (BEGAN,), 3, 1000),
}
SCORES = ("exact_match", "as_trained", "inside", "beyond", "from_16")

NAMES = ("date_model", "exact_match", "missed_years", "train_dates", "share_right", "train_chains")
lesson = partial(lesson_code, "05", *NAMES)


def dates(code: dict, kind: str, seed: int, steps: int) -> dict:
    """Return the exact match on 2,000 unseen days, all written as 07/04/1957.

    Of a learned table also the shortest and the longest step between the rows 0 to 10, and with
    `<bos>` hidden the years that go wrong.
    """
    model = code["train_dates"](code["date_model"](kind, seed), seed, steps)
    row = {"exact_match": code["exact_match"](model, count=2000)}
    if kind == "encoder only, <bos> hidden":
        row["missed_years"] = code["missed_years"](model, count=2000)
    if kind == "learned table":
        lengths = model.positions.table[:11].diff(dim=0).norm(dim=1)
        row["table_steps"] = [round(length.item(), 4) for length in (lengths.min(), lengths.max())]
    return row


def game(code: dict, kind: str, seed: int, steps: int, question: str, **changed) -> dict:
    """Return the share of right answers from place 2 on, trained on 3 to 15 words.

    `as_trained` is that of texts of 15 words, `from_16` of such that begin at place 16; the rest
    is of texts of 31: `inside` at the places 2 to 14, `beyond` at 16 to 30, `places` at each.
    """
    reader = code["train_chains"](kind, seed, steps, question, **changed)
    right, as_trained, from_16 = (
        code["share_right"](reader, question, *test) for test in ((31,), (15,), (15, 16))
    )
    parts = {"as_trained": as_trained, "inside": right[:7], "beyond": right[7:], "from_16": from_16}
    shares = {name: round(part.mean().item(), 4) for name, part in parts.items()}
    return shares | {"places": [round(share, 4) for share in right.tolist()]}


def plan(smoke: bool) -> Iterator[tuple[dict, Callable]]:
    """Yield experiment, kind, seed and steps of a training, and what trains."""
    code = lesson()
    for kind, seed in product(DATES, range(1 if smoke else 5)):
        setting = {"kind": kind, "seed": seed, "steps": 2 if smoke else 600}
        yield {"experiment": "dates"} | setting, partial(dates, code, **setting)
    for name, (changed, kinds, questions, seeds, steps) in GAMES.items():
        for question, kind, seed in product(questions, kinds, range(1 if smoke else seeds)):
            setting = {"question": question, "kind": kind, "seed": seed}
            setting |= {"steps": 2 if smoke else steps}
            yield {"experiment": name} | setting, partial(game, code, **setting, **changed)


def table(rows: list[dict]) -> str:
    """Return mean and range over the seeds as Markdown."""
    lines = ["| experiment | kind | score | mean | lowest to highest | seeds |", "|---" * 6 + "|"]
    parts = {}
    for row in rows:
        what = f"{row['experiment']} {row.get('question', '')}".strip()
        parts.setdefault((what, row["kind"]), []).append(row)
    for (what, kind), of_kind in parts.items():
        for score in [key for key in SCORES if key in of_kind[0]]:
            values = [row[score] for row in of_kind]
            mean, extremes = sum(values) / len(values), f"{min(values):.3f} to {max(values):.3f}"
            lines.append(f"| {what} | {kind} | {score} | {mean:.3f} | {extremes} | {len(values)} |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    """Train what l05_positions.json does not have yet, print the table."""
    measure_rows("l05_positions", __doc__, arguments, plan, table=table)


if __name__ == "__main__":
    main()
