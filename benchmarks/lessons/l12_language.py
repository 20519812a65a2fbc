"""`python -m benchmarks.lessons.l12_language`: language models of the lessons' own prose.

The n-gram models and the language model of lesson 12, on the same characters: orders 1 to 7, each
with the discount that is best on a validation lesson; the Transformer for three seeds, which draw
its first weights and what it reads, with its bits per character as it learns, and what it writes
in the end. All are scored on two lessons that nothing was learnt or chosen from.
"""

import time
from collections.abc import Callable, Iterator
from functools import cache, partial

import torch

from benchmarks.lessons.lesson_code import lesson_code
from benchmarks.lessons.rows import measure_rows

LONG = {
    "orders": (1, 2, 3, 4, 5, 6, 7),
    "discounts": (0.6, 0.7, 0.8, 0.9),
    **{"seeds": 3, "steps": 3000, "rows": 32, "length": 64, "rate": 4e-3},
    **{"d_model": 64, "num_encoder_layers": 2, "dropout": 0.0, "every": 250},
    **{"begins": "The decoder ", "written": 200},
}
SMOKE = LONG | {"orders": (1, 2), "discounts": (0.7, 0.8), "seeds": 1, "steps": 2, "every": 2}
SMOKE |= {"rows": 2, "length": 16, "d_model": 8}


def count_grams(code: dict, texts: list, sizes: dict) -> Iterator[dict]:
    """Yield a row for each order: its best discount on the validation text, and its bits."""
    train, valid, test = texts
    for order in sizes["orders"]:
        start = time.process_time()
        model = code["KneserNey"](train, order)
        seconds = time.process_time() - start
        tried = {}
        for model.discount in sizes["discounts"]:
            tried[model.discount] = code["bits_of"](model, valid)
        model.discount = min(tried, key=tried.get)
        bits = {"valid": tried[model.discount], "test": code["bits_of"](model, test)}
        yield {"order": order, "discount": model.discount, "seconds": seconds} | rounded(bits)


def train_once(code: dict, texts: list, characters: list, sizes: dict, seed: int) -> dict:
    """Return the bits of one training, as it goes on (validation) and in the end; and a sample."""
    train, valid, test = texts
    wanted = {name: sizes[name] for name in ("d_model", "num_encoder_layers", "dropout")}
    torch.manual_seed(seed)
    model = code["LanguageModel"](code["language_config"](characters, sizes["length"], **wanted))
    curve = {}

    def watch(step: int) -> None:
        if step % sizes["every"] == 0:
            curve[step] = round(code["model_bits"](model, valid, sizes["length"]), 4)

    def loss():
        return code["language_model_loss"](model, train, sizes["rows"], sizes["length"])

    start = time.process_time()
    code["learn"](model, loss, sizes["steps"], sizes["rate"], watch)
    seconds = round(time.process_time() - start, 1)
    bits = {
        name: code["model_bits"](model, t, sizes["length"])
        for name, t in (("train", train[: len(test)]), ("valid", valid), ("test", test))
    }
    torch.manual_seed(1)  # as the lesson draws
    begins, count, length = (sizes[name] for name in ("begins", "written", "length"))
    writes = code["go_on"](model, characters, begins, count, length=length)
    numbers = sum(p.numel() for p in model.parameters())
    row = {"seed": seed, "parameters": numbers, "cpu_seconds": seconds, "curve": curve}
    return row | rounded(bits) | {"writes": writes}


def rounded(numbers: dict) -> dict:
    return {name: round(number, 4) for name, number in numbers.items()}


@cache
def lesson() -> tuple[dict, list, list]:
    """Return the lesson's code, its three texts as ids, and the characters."""
    names = ("LanguageModel", "KneserNey", "bits_of", "prose_as_ids", "language_config")
    names += ("model_bits", "go_on", "language_model_loss", "learn")
    code = lesson_code("12", *names)
    return code, *code["prose_as_ids"]()


def plan(smoke: bool) -> Iterator[tuple[dict, Callable]]:
    """Yield each seed, and what trains from it."""
    sizes = SMOKE if smoke else LONG
    for seed in range(sizes["seeds"]):
        yield {"seed": seed}, partial(train_once, *lesson(), sizes, seed)


def notes(smoke: bool) -> dict:
    """Return the sizes, and what counted n-grams reach."""
    (code, texts, characters), sizes = lesson(), SMOKE if smoke else LONG
    counts = dict(zip(("train", "valid", "test"), map(len, texts), strict=True))
    result = {"sizes": sizes, "characters": counts, "alphabet": len(characters) - 3}
    return result | {"grams": list(count_grams(code, texts, sizes))}


def main(arguments: list[str] | None = None) -> None:
    """Train what l12_language.json does not have yet."""
    measure_rows("l12_language", __doc__, arguments, plan, notes=notes, into="models")


if __name__ == "__main__":
    main()
