"""`python -m benchmarks.lessons.l12_finetune`: few labels, from nothing and from what was learnt.

An encoder names the last digit of a written date's day. It is trained on few labelled dates, and
begins from random weights, from weights that filled gaps in many dates without a label, from
weights that filled gaps in the same dates with their characters shuffled, or from weights that
named the next character of the same dates, under a causal mask. And fresh weights and those that
named next characters are fine-tuned under a causal mask as well, so that the latter keep theirs.
Fresh weights, with either mask, and those that filled gaps are also trained further and faster.
Three seeds draw weights, gaps and which dates have a label; in a seed all have the same labelled
dates.
"""

import copy
import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import product

import torch

from benchmarks.lessons.lesson_code import lesson_code
from benchmarks.lessons.rows import measure_rows
from transformer_lab import PAD

BEGINS = ("nothing", "gaps", "shuffled gaps", "next characters")
MASKED = {"nothing, causal mask": "nothing", "next characters, mask kept": "next characters"}
FURTHER = {"steps": 600, "rate": 3e-3}
LONG = {"seeds": 3, "labels": (200, 400), "gap_steps": 1000, "gap_rows": 64, "steps": 200}
LONG |= {"rows": 32, "rate": 1e-3}
SMOKE = LONG | {"seeds": 1, "labels": (20,), "gap_steps": 2, "steps": 2}


@cache
def pretrained(smoke: bool, begin: str, seed: int) -> torch.nn.Module:
    """Return a model as it begins: it has seen nothing, or dates as `begin` says."""
    code, sizes = lesson(), SMOKE if smoke else LONG
    torch.manual_seed(seed)
    model, texts = code["gap_model"](), code["labelled_dates"]("train")[0]
    if begin == "nothing":
        return model

    def loss():
        tokens = texts[torch.randint(len(texts), (sizes["gap_rows"],))]
        if begin == "next characters":
            return code["next_token_loss"](model(tokens), tokens, tokens != PAD)
        tokens = code["shuffled"](tokens) if begin == "shuffled gaps" else tokens
        return code["gap_loss"](model, tokens)

    code["learn"](model, loss, sizes["gap_steps"], 3e-3)
    return model


def name_digits(smoke: bool, begin: str, labels: int, seed: int, **further) -> dict:
    """Train on so many labelled dates; return the share of unseen dates named rightly."""
    code, sizes = lesson(), (SMOKE if smoke else LONG) | further
    start = time.process_time()
    before = pretrained(smoke, MASKED.get(begin, begin), seed)
    model = code["Labeller"](copy.deepcopy(before), 10, causal=begin in MASKED)
    texts, digits = code["labelled_dates"]("train")
    torch.manual_seed(1000 + seed)
    torch.nn.init.normal_(model.output.weight, std=0.1)
    some = torch.randperm(len(texts))[:labels]  # the same for each beginning

    def loss():
        drawn = some[torch.randint(labels, (sizes["rows"],))]
        return torch.nn.functional.cross_entropy(model(texts[drawn]), digits[drawn])

    code["learn"](model, loss, sizes["steps"], sizes["rate"])
    texts, digits = code["labelled_dates"]("test")
    with torch.no_grad():
        right = (model(texts).argmax(dim=-1) == digits).double().mean().item()
    return {"right": round(right, 4), "cpu_seconds": round(time.process_time() - start, 1)}


@cache
def lesson() -> dict:
    names = ("gap_model", "labelled_dates", "gap_loss", "shuffled", "Labeller", "learn")
    return lesson_code("12", *names, "next_token_loss")


def plan(smoke: bool) -> Iterator[tuple[dict, Callable]]:
    """Yield each training and what trains."""
    sizes = SMOKE if smoke else LONG
    if not smoke:  # first, because a setting without its steps would claim these rows as well
        longer = ("nothing", "gaps", "nothing, causal mask")
        for seed, begin, labels in product(range(sizes["seeds"]), longer, sizes["labels"]):
            setting = {"begin": begin, "labels": labels, "seed": seed} | FURTHER
            yield setting, partial(name_digits, smoke, **setting)
    for begins in (BEGINS, tuple(MASKED)):
        for seed, begin, labels in product(range(sizes["seeds"]), begins, sizes["labels"]):
            setting = {"begin": begin, "labels": labels, "seed": seed}
            yield setting, partial(name_digits, smoke, begin, labels, seed)


def notes(smoke: bool) -> dict:
    tests = len(lesson()["labelled_dates"]("test")[0])
    return {"sizes": SMOKE if smoke else LONG, "tests": tests}


def main(arguments: list[str] | None = None) -> None:
    """Train what l12_finetune.json does not have yet."""
    measure_rows("l12_finetune", __doc__, arguments, plan, notes=notes)


if __name__ == "__main__":
    main()
