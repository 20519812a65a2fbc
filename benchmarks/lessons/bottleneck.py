"""`python -m benchmarks.lessons.bottleneck`: the controls of lesson 01, three seeds each.

The code is the lesson's own, loaded from its notebook. Strings written backwards by networks with
one vector (as a start, fed at every step, of twice the size, from an encoder that reads one way)
and by one that looks back; more steps; strings of one length only; strings copied; and dates.
Runs that bottleneck.json has already are kept: without the file, all are made.
"""

import itertools
from collections.abc import Callable, Iterator
from functools import cache, partial

import torch

from benchmarks.lessons.lesson_code import lesson_code
from benchmarks.reporting import report
from transformer_lab import date_pairs
from transformer_lab.support.files import read_json

USED = (
    *("FixedVector", "FedVector", "LooksBack", "LooksBackByProduct", "START", "TOLD", "learn"),
    *("looks_after", "weight_on_the_right_letter", "right_letters", "right_with_filling"),
    *("reversals", "some_strings"),
)
SEEDS, STEPS, MORE_STEPS, STEPS_ON_EIGHT = range(3), 700, 2100, 1500
LENGTHS = (2, 4, 8, 12, 16, 20, 24, 48)
SIGNS = " ,-./0123456789abcdefghijklmnopqrstuvwxyz"
STRINGS = ("FixedVector", "FedVector", "LooksBack", "FixedVector of 64", "OneWay")
DATES = ("FixedVector", "FedVector", "LooksBack", "LooksBackByProduct")


def lesson() -> dict:
    """Return what is used of the lesson, and one more network."""
    code = lesson_code("01", *USED)

    class OneWay(code["FixedVector"]):
        """The encoder reads from the left only; its last state is the vector."""

        def __init__(self, size, signs=26):
            super().__init__(size, signs)
            self.encoder = torch.nn.GRU(size, size, batch_first=True)

        def encode(self, source):
            return self.encoder(self.letters(source))

    return code | {"OneWay": OneWay}


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
    return found | (looks(code, model) if kind == "LooksBack" else {})


def eight(code: dict, kind: str, seed: int, steps: int, length: int = 8) -> dict:
    """Train on strings of one length only, eight letters unless it is given."""
    model = build(code, kind, seed)
    code["learn"](model, lambda generator: code["reversals"](128, length, generator), steps, seed)
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
            return as_read(code["reversals"](128, length, generator))
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


def scores(model: torch.nn.Module, right_letters: Callable) -> dict:
    """Return shares by length, and by place for 8 and 24 letters."""
    right = {n: right_letters(n) for n in LENGTHS}
    return {
        "parameters": sum(p.numel() for p in model.parameters()),
        "exact": {n: rounded(r.all(1).float().mean()) for n, r in right.items()},
        "letters": {n: rounded(r.float().mean()) for n, r in right.items()},
        "places": {n: rounded(right[n].float().mean(0)) for n in (8, 24)},
    }


def looks(code: dict, model: torch.nn.Module) -> dict:
    """Return the weight on the right letter, where it looks after lies, and what filling does."""
    ways = {
        "neither": (False, False),
        "decoder looks": (False, True),
        "encoder reads": (True, False),
        "both": (True, True),
    }
    return {
        "on_right_letter": {
            n: rounded(torch.tensor(code["weight_on_the_right_letter"](model, n))) for n in LENGTHS
        },
        "looks_after": {
            str(lies): rounded(code["looks_after"](model, told))
            for lies, told in code["TOLD"].items()
        },
        "filling": {
            name: {n: round(code["right_with_filling"](model, n, *way), 4) for n in (1, 2, 6)}
            for name, way in ways.items()
        },
    }


def rounded(numbers: torch.Tensor) -> float | list[float]:
    """Return a number or a list of numbers with four decimals."""
    return torch.round(numbers.double(), decimals=4).tolist()


def dates(code: dict, kind: str, seed: int, steps: int) -> dict:
    """Train on dates written in many ways; return the exact match on 2,000 unseen days."""
    model = build(code, kind, seed, signs=len(SIGNS))
    train, test = date_sets()
    code["learn"](model, lambda generator: some_dates(train, generator), steps, seed)
    with torch.no_grad():
        right = [
            model(source, reads).argmax(-1).eq(wanted).all(1)
            for source, reads, wanted in (with_reads(*table) for table in test)
        ]
    count = sum(p.numel() for p in model.parameters())
    return {"parameters": count, "exact_match": rounded(torch.cat(right).float().mean())}


@cache
def date_sets() -> tuple[list, list]:
    """Return 20,000 dates to train on and 2,000 unseen days."""
    seen, unseen = date_pairs(20_000, seed=0), date_pairs(2_000, seed=1, split="test")
    return date_tables(seen), date_tables(unseen)


def date_tables(pairs: list[tuple[str, str]]) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Return ids of texts and of dates, two tables for each length of text."""
    groups = {}
    for text, date in pairs:
        ids = ([SIGNS.index(sign) for sign in part.lower()] for part in (text, date))
        groups.setdefault(len(text), []).append(tuple(ids))
    return [tuple(map(torch.tensor, zip(*group, strict=True))) for group in groups.values()]


def some_dates(tables: list, generator: torch.Generator) -> tuple:
    """Return a batch of 64 dates whose texts have one length."""
    sizes = torch.tensor([float(len(texts)) for texts, _ in tables])
    texts, wanted = tables[torch.multinomial(sizes, 1, generator=generator)]
    rows = torch.randint(len(texts), (64,), generator=generator)
    return with_reads(texts[rows], wanted[rows])


def with_reads(source: torch.Tensor, wanted: torch.Tensor, start: int = len(SIGNS)) -> tuple:
    """Return a batch as the lesson's `learn` wants it: source, what is read, what is wanted."""
    first = torch.full((len(source), 1), start)
    return source, torch.cat([first, wanted[:, :-1]], dim=1), wanted


def plan(*, smoke: bool) -> Iterator[tuple[Callable, tuple, int]]:
    """Yield experiment, kinds and number of steps."""
    yield strings, STRINGS, 2 if smoke else STEPS
    yield eight, ("FixedVector",), 2 if smoke else STEPS_ON_EIGHT
    for one_way in (copies, long, long_copies):
        yield one_way, ("OneWay",), 2 if smoke else STEPS
    yield dates, DATES, 2 if smoke else STEPS
    if not smoke:
        yield strings, STRINGS[:2], MORE_STEPS
        yield dates, DATES[:1], MORE_STEPS


def measure(rows: list[dict] | None = None, *, smoke: bool = False) -> Iterator[dict]:
    """Yield a row for each experiment, kind, seed and number of steps; those in `rows` as they are.

    Loads the lesson only once something has to be trained.
    """
    code, names = None, ("experiment", "kind", "seed", "steps")
    known = {tuple(row[name] for name in names): row for row in rows or []}
    for experiment, kinds, steps in plan(smoke=smoke):
        for kind, seed in itertools.product(kinds, range(1) if smoke else SEEDS):
            which = experiment.__name__, kind, seed, steps
            if which not in known:
                code = code or lesson()
                known[which] = dict(zip(names, which, strict=True))
                known[which] |= experiment(code, kind, seed, steps)
            yield known[which]


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
    """Measure, write bottleneck.json after every run, print the table."""
    options = report.read_options("bottleneck", __doc__, arguments)
    result = report.describe_run("bottleneck", smoke=options.smoke) | {"rows": []}
    path = options.output and options.output / "bottleneck.json"
    stored = read_json(path)["rows"] if path and path.exists() else []
    for row in measure(stored, smoke=options.smoke):
        result["rows"].append(row)
        if path and row not in stored:
            later = [each for each in stored if each not in result["rows"]]
            report.write(path, result | {"rows": result["rows"] + later})
    if path and result["rows"] != stored:  # what is no longer planned goes
        report.write(path, result)
    print(table(result["rows"]))


if __name__ == "__main__":
    main()
