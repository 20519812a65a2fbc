"""`python -m benchmarks.lessons.heads`: the experiments of lesson 03, with more seeds and steps.

The code is the lesson's own, loaded from its notebook: two look-ups with one head and with two,
and what stands in front of a head or behind it. Two parts are here alone: scores that stay 0, and
letters in the place of random numbers.
"""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.lessons.lesson_code import lesson_code
from benchmarks.reporting import report

SEEDS, STEPS = range(5), 1500

lesson = partial(
    lesson_code,
    "03",
    *("MultiHead", "KeysSeeMarks", "WithNetwork", "WrongView", "SharedSlices"),
    *("two_marks", "two_names", "train_on", "explained"),
)


def with_equal_weights(network: Callable) -> nn.Module:
    """Return the network in front of a head whose scores stay 0."""
    model = network("in front")
    nn.init.zeros_(model.w_q.weight).requires_grad_(False)
    return model


def kinds(code: dict) -> dict[str, tuple[Callable, Callable]]:
    """Return the data and the maker of the model for each kind of run, as in the lesson."""
    heads, network = code["MultiHead"], code["WithNetwork"]
    marks, names = code["two_marks"], code["two_names"]
    torch.manual_seed(0)
    rotation, _ = torch.linalg.qr(torch.randn(16, 16))
    return {
        "one head": (marks, partial(heads, 16, 1)),
        "keys see marks only": (marks, partial(code["KeysSeeMarks"], 16, 1)),
        "network behind": (marks, partial(network, "behind")),
        "network in front": (marks, partial(network, "in front")),
        "the same, scores of 0": (marks, partial(with_equal_weights, network)),
        "two heads": (marks, partial(heads, 16, 2)),
        "by name: one head": (names, partial(heads, 16, 1)),
        "by name: network behind": (names, partial(network, "behind")),
        "by name: network in front": (names, partial(network, "in front")),
        "by name: two heads": (names, partial(heads, 16, 2)),
        "wrong view": (marks, partial(code["WrongView"], 16, 2)),
        "shared slices": (marks, partial(code["SharedSlices"], 16, 2)),
        "shared slices, turned": (marks, partial(code["SharedSlices"], 16, 2, rotation)),
    }


def look_ups(code: dict, seeds: range, steps: int) -> list[dict]:
    """Return R² of the first eight numbers and of the last eight for each kind and seed."""
    rows = []
    for kind, (data, make) in kinds(code).items():
        for seed in seeds:
            torch.manual_seed(seed)
            model = make()
            code["train_on"](data, model, seed, steps)
            first, last = (round(score, 4) for score in code["explained"](data, model))
            row = {"experiment": "look-ups", "kind": kind, "seed": seed, "steps": steps}
            rows.append(row | {"first": first, "last": last})
    return rows


def marked_letters(count: int, seed: int):
    """Return tokens (count, 6, 16), one letter of four on each, and the letters at ▲ and ●."""
    generator = torch.Generator().manual_seed(seed)
    letters = torch.randint(4, (count, 6), generator=generator)
    places = torch.rand(count, 6, generator=generator).argsort(1)[:, :2]
    features = F.one_hot(letters, 4), F.one_hot(places, 6).mT, torch.zeros(count, 6, 10)
    return torch.cat(features, dim=-1), letters.gather(1, places)


def letters(code: dict, seeds: range, steps: int) -> list[dict]:
    """Return how often one head and a matrix name both letters, for each seed."""
    rows = []
    for seed in seeds:
        torch.manual_seed(seed)
        attention, read_out = code["MultiHead"](16, 1), nn.Linear(16, 8)
        parameters = [*attention.parameters(), *read_out.parameters()]
        optimizer = torch.optim.Adam(parameters, lr=0.02)

        def logits(tokens, attention=attention, read_out=read_out):
            query = torch.ones(len(tokens), 1, 16)
            return read_out(attention(query, tokens, tokens)).view(-1, 2, 4)

        for step in range(steps):
            tokens, wanted = marked_letters(128, 10_000 * seed + step)
            loss = F.cross_entropy(logits(tokens).flatten(0, 1), wanted.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        tokens, wanted = marked_letters(8000, 1_000_000)
        right = (logits(tokens).argmax(-1) == wanted).all(-1).float().mean().item()
        row = {"experiment": "letters", "kind": "one head", "seed": seed, "steps": steps}
        rows.append(row | {"both_right": round(right, 4)})
    return rows


def measure(*, smoke: bool = False) -> list[dict]:
    """Return the rows of all experiments."""
    code = lesson()
    seeds, steps = (range(1), 2) if smoke else (SEEDS, STEPS)
    return look_ups(code, seeds, steps) + letters(code, seeds, steps)


def table(rows: list[dict]) -> str:
    """Return the sums of R², lowest and highest over the seeds, as Markdown."""
    lines = ["| kind | sum of R², lowest | highest | seeds |", "|---" * 4 + "|"]
    rows = [row for row in rows if row["experiment"] == "look-ups"]
    for kind in dict.fromkeys(row["kind"] for row in rows):
        sums = [row["first"] + row["last"] for row in rows if row["kind"] == kind]
        lines.append(f"| {kind} | {min(sums):.2f} | {max(sums):.2f} | {len(sums)} |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    """Measure, write heads.json, print the table."""
    options = report.read_options("heads", __doc__, arguments)
    result = report.describe_run("heads", smoke=options.smoke)
    result["rows"] = measure(smoke=options.smoke)
    if options.output:
        report.write(options.output / "heads.json", result)
    print(table(result["rows"]))


if __name__ == "__main__":
    main()
