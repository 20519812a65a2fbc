"""`python -m benchmarks.lessons.language`: language models of the lessons' own prose.

The n-gram models and the language model of lesson 12, on the same characters: orders 1 to 7, each
with the discount that is best on a validation lesson; the Transformer for three seeds, which draw
its first weights and what it reads, with its bits per character as it learns, and what it writes
in the end. All are scored on two lessons that nothing was learnt or chosen from.
"""

import time
from collections.abc import Iterator

import torch

from benchmarks.lessons.lesson_code import lesson_code
from benchmarks.reporting import report

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


def main(arguments: list[str] | None = None) -> None:
    """Measure everything; `language.json` is written anew after each model."""
    options = report.read_options("language", __doc__, arguments)
    sizes = SMOKE if options.smoke else LONG
    names = (
        "LanguageModel",
        "KneserNey",
        "bits_of",
        "prose_as_ids",
        "language_config",
        "model_bits",
        "go_on",
    )
    code = lesson_code("12", *names, "language_model_loss", "learn")
    texts, characters = code["prose_as_ids"]()
    result = report.describe_run("language", smoke=options.smoke) | {"sizes": sizes}
    result["characters"] = dict(zip(("train", "valid", "test"), map(len, texts), strict=True))
    result |= {"alphabet": len(characters) - 3, "grams": [], "models": []}
    result["grams"] = list(count_grams(code, texts, sizes))
    for seed in range(sizes["seeds"]):
        result["models"].append(train_once(code, texts, characters, sizes, seed))
        print(result["models"][-1], flush=True)
        if options.output:
            report.write(options.output / "language.json", result)


if __name__ == "__main__":
    main()
