"""`python -m benchmarks.lessons.l12_one_text`: dates without an encoder, and with an encoder alone.

The three long experiments of lesson 12 on dates, three seeds each. An encoder-decoder, and a
language model with as many parameters that reads source and target as one text: with a prefix
mask or a causal one; with either, and all targets at the same place. Gaps, filled from both sides
or from the past. The day of the week of an ISO date: of all dates, with and without the day on
which its year began, and of few alone.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial

import torch

from benchmarks.lessons.l06_ablation import endless_batches
from benchmarks.lessons.lesson_code import lesson_code
from benchmarks.lessons.rows import measure_rows
from transformer_lab import date_pairs, train_tokenizer
from transformer_lab.runs import encode_pairs

NAMES = ("learn", "date_models", "read_as", "fill_gaps", "WeekdayReader", "weekday_texts")
ARMS = ("encoder–decoder", "prefix mask", "causal mask", "prefix mask, fixed place")
ARMS += ("causal mask, fixed place",)
LONG = {"count": 20_000, "tests": 500, "max_tokens": 800, "steps": 1200, "rate": 2e-3, "every": 300}
LONG |= {"seeds": 3, "label_steps": 800, "label_rows": 64, "label_tests": 1000, "gap_steps": 240}
SMOKE = LONG | {"count": 100, "tests": 8, "steps": 2, "every": 1, "seeds": 1, "label_steps": 2}
SMOKE |= {"label_tests": 8, "gap_steps": 2}
FEW = 500  # so few dates that each is met a hundred times


def translate(code: dict, arm: str, sizes: dict, seed: int) -> dict:
    """Train one arm; return the share of unseen dates that it gets wholly right, by step."""
    pairs = date_pairs(sizes["count"], seed=0)
    tokenizer = train_tokenizer([text for pair in pairs for text in pair], kind="characters")
    torch.manual_seed(seed)
    models = dict(
        zip(("encoder–decoder", "one text"), code["date_models"](tokenizer.vocab_size), strict=True)
    )
    model = models["encoder–decoder" if arm == ARMS[0] else "one text"]
    read = code["read_as"](arm)
    batches = endless_batches(encode_pairs(tokenizer, pairs), sizes["max_tokens"], seed)
    tests = endless_batches(
        encode_pairs(tokenizer, date_pairs(sizes["tests"], 2, split="test")), 10**9, 0
    )
    test, exact = next(tests), {}

    def watch(step: int) -> None:
        if step % sizes["every"] == 0:
            with torch.no_grad():
                exact[step] = read(model.eval(), test)[1].double().mean().item()
            model.train()

    start = time.process_time()
    code["learn"](
        model, lambda: read(model, next(batches))[0], sizes["steps"], sizes["rate"], watch
    )
    return {
        **{"experiment": "translate", "arm": arm, "seed": seed, "exact": exact},
        "parameters": sum(p.numel() for p in model.parameters()),
        "cpu_seconds": round(time.process_time() - start, 1),
    }


def label(code: dict, hint: bool, few: bool, sizes: dict, seed: int) -> dict:
    """Train an encoder to name the weekday of a date; return its shares of right answers."""
    texts, days, tests = code["weekday_texts"](hint)
    torch.manual_seed(seed)
    model = code["WeekdayReader"](int(texts.max()) + 1, 7)
    train = (~tests).nonzero()[:, 0]
    train = train[torch.randperm(len(train))[:FEW]] if few else train

    def loss():
        drawn = train[torch.randint(len(train), (sizes["label_rows"],))]
        return torch.nn.functional.cross_entropy(model(texts[drawn]), days[drawn])

    code["learn"](model, loss, sizes["label_steps"], 2e-3)
    shares = {}
    for name, which in (("known", train), ("unseen", tests.nonzero()[:, 0])):
        some = which[torch.randperm(len(which))[: sizes["label_tests"]]]
        with torch.no_grad():
            shares[name] = (model(texts[some]).argmax(-1) == days[some]).double().mean().item()
    return {"experiment": "weekday", "hint": hint, "dates": len(train), "seed": seed} | shares


def gaps(code: dict, both_ways: bool, sizes: dict, seed: int) -> dict:
    """Fill gaps from both sides or from the past; return the shares of right characters."""
    shares, common = code["fill_gaps"](both_ways, seed, sizes["gap_steps"])
    return {"letters": shares[0], "others": shares[1], "commonest": common}


def plan(smoke: bool) -> Iterator[tuple[dict, Callable]]:
    """Yield each training, seed by seed, and what trains."""
    code, sizes = lesson_code("12", *NAMES), SMOKE if smoke else LONG
    for seed in range(sizes["seeds"]):
        for arm in ARMS:
            setting = {"experiment": "translate", "arm": arm, "seed": seed}
            yield setting, partial(translate, code, arm, sizes, seed)
        for both_ways in (True, False):
            setting = {"experiment": "gaps", "both_ways": both_ways, "seed": seed}
            yield setting, partial(gaps, code, both_ways, sizes, seed)
        for hint, few in ((False, False), (True, False), (False, True)):
            dates = FEW if few else int((~code["weekday_texts"](hint)[2]).sum())
            setting = {"experiment": "weekday", "hint": hint, "dates": dates, "seed": seed}
            yield setting, partial(label, code, hint, few, sizes, seed)


def notes(smoke: bool) -> dict:
    return {"sizes": SMOKE if smoke else LONG}


def main(arguments: list[str] | None = None) -> None:
    """Train what l12_one_text.json does not have yet."""
    measure_rows("l12_one_text", __doc__, arguments, plan, notes=notes)


if __name__ == "__main__":
    main()
