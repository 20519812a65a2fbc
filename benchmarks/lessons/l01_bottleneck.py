"""`python -m benchmarks.lessons.l01_bottleneck`: the controls of lesson 01, three seeds each.

The code is the lesson's own, loaded from its notebook. Strings written backwards by networks with
one vector (as a start, fed at every step, of twice the size, from an encoder that reads one way)
and by networks that look back (also without the vector, with an encoder that reads from the left
only or the right only, without a tanh, at the letters' own vectors, and at the right place without
any score); more steps; strings of one length only; strings copied; a
loss that counts every place alike; dates.
Runs that l01_bottleneck.json has already are kept: without the file, all are made.
"""

import itertools
from collections.abc import Callable, Iterator
from functools import cache, partial

import torch

from benchmarks.lessons.lesson_code import lesson_code
from benchmarks.lessons.rows import measure_rows
from transformer_lab import date_pairs

USED = (
    *("FixedVector", "FedVector", "LooksBack", "LooksBackByProduct", "StartsFromZeros", "NoTanh"),
    *("START", "TOLD", "learn", "looks_after", "weight_on_the_right_letter", "right_letters"),
    *("right_with_filling", "reversals", "some_strings"),
)
SEEDS, STEPS, MORE_STEPS, MANY_STEPS, BATCH = range(3), 500, 1500, 5000, 160
LENGTHS = (2, 4, 8, 12, 16, 20, 24, 48)
SIGNS = " ,-./0123456789abcdefghijklmnopqrstuvwxyz"
STRINGS = (
    *("FixedVector", "FedVector", "LooksBack", "FixedVector of 64", "OneWay"),
    *("StartsFromZeros", "LooksBackOneWay", "LooksBackFromRight", "NoTanh"),
    *("LooksBackAtLetters", "NailedDown"),
)
DATES = ("FixedVector", "FedVector", "LooksBack", "LooksBackByProduct")
ONE_VECTOR, WIDTHS = ("FixedVector", "OneWay"), ("FixedVector", "FixedVector of 64")


@cache
def lesson() -> dict:
    """Return what is used of the lesson, and five more networks."""
    code = lesson_code("01", *USED)
    return code | {
        "OneWay": one_way(code["FixedVector"]),
        "LooksBackOneWay": one_way(code["LooksBack"]),
        "LooksBackFromRight": one_way(code["LooksBack"], from_right=True),
        "LooksBackAtLetters": at_letters(code["LooksBack"]),
        "NailedDown": nailed_down(code["LooksBack"]),
    }


def one_way(network: type, from_right: bool = False) -> type:
    """Return the network with an encoder that reads from the left only, or from the right only."""

    class OneWay(network):
        def __init__(self, size, signs=26):
            super().__init__(size, signs)
            self.encoder = torch.nn.GRU(size, size, batch_first=True)

        def encode(self, source):
            source = source.flip(1) if from_right else source
            memory, last = self.encoder(self.letters(source))
            return memory.flip(1) if from_right else memory, last[0]

    return OneWay


def at_letters(network: type) -> type:
    """Return the network with the letters' own vectors in place of the encoder's states."""

    class AtLetters(network):
        def encode(self, source):
            return self.letters(source), super().encode(source)[1]

    return AtLetters


def nailed_down(network: type) -> type:
    """Return the network with its whole weight on the right letter, without any score."""

    class NailedDown(network):
        def look(self, states, memory):
            weights = torch.eye(memory.shape[1]).flip(1)[: states.shape[1]]
            return weights @ memory, weights.expand(len(memory), -1, -1)

    return NailedDown


def build(code: dict, kind: str, seed: int, **options) -> torch.nn.Module:
    """Return a new network; a kind is a class of the lesson, and a size if it is not 32."""
    name, _, size = kind.partition(" of ")
    torch.manual_seed(seed)
    return code[name](int(size or 32), **options)


def strings(code: dict, kind: str, seed: int, steps: int) -> dict:
    """Train on strings of 2 to 24 letters; return what comes back, and where the network looks."""
    model = build(code, kind, seed)
    code["learn"](model, steps=steps, seed=seed)
    found = scores(model, partial(code["right_letters"], model))
    found |= fingers(code, model) if kind.startswith("LooksBack") else {}
    return found | (looks(code, model) if kind == "LooksBack" else {})


def eight(code: dict, kind: str, seed: int, steps: int, length: int = 8) -> dict:
    """Train on strings of one length only, eight letters unless it is given."""
    model = build(code, kind, seed)
    code["learn"](model, lambda generator: code["reversals"](BATCH, length, generator), steps, seed)
    return scores(model, partial(code["right_letters"], model))


def long(code: dict, kind: str, seed: int, steps: int) -> dict:
    """Train on strings of 24 letters only: each place of the output has one share of the loss."""
    return eight(code, kind, seed, steps, length=24)


def copies(code: dict, kind: str, seed: int, steps: int, length: int | None = None) -> dict:
    """Train on strings that are written as they are read, of 2 to 24 letters if not of `length`."""
    model = build(code, kind, seed)

    def as_read(strings: tuple) -> tuple:
        return with_reads(strings[0], strings[0], code["START"])

    def batch(generator: torch.Generator) -> tuple:
        if length:
            return as_read(code["reversals"](BATCH, length, generator))
        return as_read(code["some_strings"](generator))

    @torch.no_grad()
    def right_letters(length: int, count: int = 500) -> torch.Tensor:
        generator = torch.Generator().manual_seed(length)
        source, reads, wanted = as_read(code["reversals"](count, length, generator))
        return model(source, reads).argmax(-1) == wanted

    code["learn"](model, batch, steps, seed)
    return scores(model, right_letters)


def long_copies(code: dict, kind: str, seed: int, steps: int) -> dict:
    """Train on copies of 24 letters only."""
    return copies(code, kind, seed, steps, length=24)


def even(code: dict, kind: str, seed: int, steps: int) -> dict:
    """Train on strings of 2 to 24 letters, each place's loss divided by its share of the whole.

    A string of n letters gives each of its places 1 / n, and all lengths are drawn equally often.
    """
    model = build(code, kind, seed)
    shares = torch.tensor([sum(1 / n for n in range(max(t, 2), 25)) for t in range(1, 25)])
    code["learn"](model, steps=steps, seed=seed, shares=shares)
    return scores(model, partial(code["right_letters"], model))


def scores(model: torch.nn.Module, right_letters: Callable) -> dict:
    """Return shares by length, and by place for 8 and 24 letters."""
    right = {n: right_letters(n) for n in LENGTHS}
    return {
        "parameters": sum(p.numel() for p in model.parameters()),
        "exact": {n: rounded(r.all(1).float().mean()) for n, r in right.items()},
        "letters": {n: rounded(r.float().mean()) for n, r in right.items()},
        "places": {n: rounded(right[n].float().mean(0)) for n in (8, 24)},
    }


def fingers(code: dict, model: torch.nn.Module) -> dict:
    """Return the mean weight on the letter that has to be written, and on its right neighbour."""
    weight_on = code["weight_on_the_right_letter"]
    return {
        name: {n: round(weight_on(model, n, beside), 4) for n in LENGTHS}
        for name, beside in (("on_right_letter", 0), ("on_the_one_beside", 1))
    }


def looks(code: dict, model: torch.nn.Module) -> dict:
    """Return where it looks after lies, and what filling does."""
    ways = {
        "neither": (False, False),
        "decoder looks": (False, True),
        "encoder reads": (True, False),
        "both": (True, True),
    }
    return {
        "looks_after": {
            name: rounded(code["looks_after"](model, told)) for name, told in code["TOLD"].items()
        },
        "filling": {
            name: {n: round(code["right_with_filling"](model, n, *way), 4) for n in (1, 2, 6)}
            for name, way in ways.items()
        },
    }


def rounded(numbers: torch.Tensor) -> float | list[float]:
    """Return a number or a list of numbers with four decimals."""
    return torch.round(numbers.double(), decimals=4).tolist()


def dates(code: dict, kind: str, seed: int, steps: int, rate: float = 0.015) -> dict:
    """Train on dates written in many ways; return what is right of 2,000 unseen and seen days."""
    model = build(code, kind, seed, signs=len(SIGNS))
    train, *asked = date_sets()
    code["learn"](model, lambda generator: some_dates(train, generator), steps, seed, rate)
    unseen, seen = (right_signs(model, tables) for tables in asked)
    return {
        "parameters": sum(p.numel() for p in model.parameters()),
        "exact_match": rounded(unseen.all(1).float().mean()),
        "exact_match_seen": rounded(seen.all(1).float().mean()),
        "places": rounded(unseen.float().mean(0)),
    }


def slow_dates(code: dict, kind: str, seed: int, steps: int) -> dict:
    """Train on dates with a rate of 0.005 at most."""
    return dates(code, kind, seed, steps, rate=0.005)


@torch.no_grad()
def right_signs(model: torch.nn.Module, tables: list) -> torch.Tensor:
    """Return which of the ten signs of each date are right, fed the right ones before."""
    batches = (with_reads(*table) for table in tables)
    return torch.cat(
        [model(source, reads).argmax(-1) == wanted for source, reads, wanted in batches]
    )


@cache
def date_sets() -> tuple[list, list, list]:
    """Return 20,000 dates to train on, 2,000 unseen days, and the first 2,000 of the training."""
    seen, unseen = date_pairs(20_000, seed=0), date_pairs(2_000, seed=1, split="test")
    return tuple(map(date_tables, (seen, unseen, seen[:2_000])))


def date_tables(pairs: list[tuple[str, str]]) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Return ids of texts and of dates, two tables for each length of text."""
    groups = {}
    for text, date in pairs:
        ids = ([SIGNS.index(sign) for sign in part.lower()] for part in (text, date))
        groups.setdefault(len(text), []).append(tuple(ids))
    return [tuple(map(torch.tensor, zip(*group, strict=True))) for group in groups.values()]


def some_dates(tables: list, generator: torch.Generator) -> tuple:
    """Return a batch of dates whose texts have one length."""
    sizes = torch.tensor([float(len(texts)) for texts, _ in tables])
    texts, wanted = tables[torch.multinomial(sizes, 1, generator=generator)]
    rows = torch.randint(len(texts), (BATCH,), generator=generator)
    return with_reads(texts[rows], wanted[rows])


def with_reads(source: torch.Tensor, wanted: torch.Tensor, start: int = len(SIGNS)) -> tuple:
    """Return a batch as the lesson's `learn` wants it: source, what is read, what is wanted."""
    first = torch.full((len(source), 1), start)
    return source, torch.cat([first, wanted[:, :-1]], dim=1), wanted


def plan(smoke: bool) -> Iterator[tuple[dict, Callable]]:
    """Yield experiment, kind, seed and steps of a training, and what trains."""
    few = 2 if smoke else STEPS
    every = [(strings, STRINGS, few), (eight, ("FixedVector",), few)]
    every += [(one, ONE_VECTOR, few) for one in (copies, long, long_copies, even)]
    every += [(copies, ("LooksBackOneWay", "LooksBackFromRight"), few), (dates, DATES, few)]
    if not smoke:
        every += [(of_dates, WIDTHS, MORE_STEPS) for of_dates in (dates, slow_dates)]
        every += [(strings, STRINGS[:2], MORE_STEPS), (strings, STRINGS[:1], MANY_STEPS)]
        every += [(strings, ("LooksBackOneWay",), MORE_STEPS), (eight, ("FixedVector",), 1100)]
    for experiment, kinds, steps in every:
        for kind, seed in itertools.product(kinds, range(1) if smoke else SEEDS):
            setting = {"kind": kind, "seed": seed, "steps": steps}
            name = {"experiment": experiment.__name__}
            yield name | setting, partial(with_lesson, experiment, **setting)


def with_lesson(experiment: Callable, **setting) -> dict:
    """Return what an experiment with the lesson's code has found."""
    return experiment(lesson(), **setting)


def table(rows: list[dict]) -> str:
    """Return the exact match of each seed as Markdown."""
    lines = ["| experiment | kind | steps | exact match of each seed |", "|---" * 4 + "|"]
    groups = {}
    for row in rows:
        name = row["experiment"], row["kind"], str(row["steps"])
        shares = row.get("exact") or {"unseen days": row["exact_match"]}
        for where, share in shares.items():
            groups.setdefault((*name, where), []).append(f"{share:.2f}")
    for (experiment, kind, steps, where), found in groups.items():
        lines.append(f"| {experiment}, {where} | {kind} | {steps} | {', '.join(found)} |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    """Train what l01_bottleneck.json does not have yet, print the table."""
    measure_rows("l01_bottleneck", __doc__, arguments, plan, table=table)


if __name__ == "__main__":
    main()
