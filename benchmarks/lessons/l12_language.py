"""`python -m benchmarks.lessons.l12_language`: language models of captions, letter by letter.

The language model of lesson 12 and the counted tables of its evidence, on the same letters: a
larger model that trains longer, whose captions the lesson shows; the lesson's own size for three
seeds, which draw its first weights and what it reads; orders 1 to 7 of counted letters, each with
the discount that is best on the validation captions. All are scored on captions that nothing was
learnt or chosen from.
"""

import time
from collections.abc import Callable, Iterator
from functools import cache, partial

import torch

from benchmarks.lessons.lesson_code import lesson_code
from benchmarks.lessons.rows import measure_rows
from transformer_lab.data import caption_letters

LONG = {
    "orders": (1, 2, 3, 4, 5, 6, 7),
    "discounts": (0.6, 0.7, 0.8, 0.9),
    **{"seeds": 3, "steps": 1500, "rows": 16, "every": 250, "score": 20_000, "written": 400},
    "small": {"length": 64, "layers": 2, "d_model": 64, "rate": 6e-3},
    "larger": {"length": 64, "layers": 3, "d_model": 128, "rate": 3e-3},
}
SMOKE = LONG | {"orders": (1, 2), "discounts": (0.7, 0.8), "seeds": 1, "steps": 2, "every": 2}
SMOKE |= {"rows": 2, "score": 500, "written": 20}
SMOKE |= {name: {"length": 16, "layers": 1, "d_model": 8, "rate": 1e-3} for name in ("small",)}
SMOKE |= {"larger": SMOKE["small"]}


def count_grams(code: dict, letters, sizes: dict, order: int) -> dict:
    """Return the best discount of an order on the validation text, and its bits."""
    model, tried = code["KneserNey"](letters.train, order), {}
    for model.discount in sizes["discounts"]:
        tried[model.discount] = code["bits_of"](model, letters.valid[: sizes["score"]])
    model.discount = min(tried, key=tried.get)
    bits = {"valid": tried[model.discount], "test": code["bits_of"](model, letters.test)}
    return {"discount": model.discount} | rounded(bits)


def train_once(code: dict, letters, sizes: dict, name: str, seed: int) -> dict:
    """Return the bits of one training, as it goes on (validation) and in the end; and a sample."""
    size = sizes[name]
    torch.manual_seed(seed)
    config = code["sizes"](letters.vocab_size, size["length"], size["layers"], size["d_model"])
    model, curve = code["LanguageModel"](config), {}

    def watch(step: int) -> None:
        if step % sizes["every"] == 0:
            valid = letters.valid[: sizes["score"]]
            curve[step] = round(code["model_bits"](model, valid, size["length"]), 4)

    def loss():
        tokens = code["pieces"](letters.train, sizes["rows"], size["length"])
        return code["next_token_loss"](model(tokens), tokens, tokens != 0)

    start = time.process_time()
    code["learn"](model, loss, sizes["steps"], size["rate"], watch)
    seconds = round(time.process_time() - start, 1)
    known = letters.train[: len(letters.test)]
    bits = {
        part: code["model_bits"](model, text, size["length"])
        for part, text in (("train", known), ("valid", letters.valid), ("test", letters.test))
    }
    torch.manual_seed(1)  # as the lesson draws
    writes = letters.decode(code["go_on"](model, letters.encode("\n"), sizes["written"]))
    numbers = sum(p.numel() for p in model.parameters())
    row = {"parameters": numbers, "cpu_seconds": seconds, "curve": curve}
    return row | rounded(bits) | {"writes": writes}


def rounded(numbers: dict) -> dict:
    return {name: round(number, 4) for name, number in numbers.items()}


@cache
def lesson() -> tuple[dict, object]:
    """Return the lesson's code and the captions."""
    names = ("LanguageModel", "sizes", "pieces", "next_token_loss", "learn", "go_on")
    return lesson_code("12", *names, "KneserNey", "bits_of", "model_bits"), caption_letters()


def plan(smoke: bool) -> Iterator[tuple[dict, Callable]]:
    """Yield each model and what trains it, then each order and what counts it."""
    sizes = SMOKE if smoke else LONG
    models = [("larger", 0), *(("small", seed) for seed in range(sizes["seeds"]))]
    for name, seed in models:
        yield {"model": name, "seed": seed}, partial(train_once, *lesson(), sizes, name, seed)
    for order in sizes["orders"]:
        yield {"model": "counted", "order": order}, partial(count_grams, *lesson(), sizes, order)


def notes(smoke: bool) -> dict:
    """Return the sizes, and how many letters there are."""
    letters = lesson()[1]
    counts = {name: len(getattr(letters, name)) for name in ("train", "valid", "test")}
    return {"sizes": SMOKE if smoke else LONG, "letters": counts, "alphabet": len(letters.alphabet)}


def main(arguments: list[str] | None = None) -> None:
    """Train and count what l12_language.json does not have yet."""
    measure_rows("l12_language", __doc__, arguments, plan, notes=notes)


if __name__ == "__main__":
    main()
