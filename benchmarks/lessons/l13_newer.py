"""`python -m benchmarks.lessons.l13_newer`: five edits since 2017, alone and together.

The language model of lesson 13 on captions, letter by letter: as in 2017, with each edit alone,
with all five, and as in 2017 without any positions, or with its sinusoids where rotary positions
enter: in each layer, for queries and keys alone. As in the paper, the table of the embedding makes
the logits too; the seven models of the edits are trained once more with a table of their own for
the logits ("untied"), as in Llama. All have equally many numbers in the matrices of a layer and
read equally many letters, at a rate that falls as in the paper, so that the first steps of a long
run are a short run. Three seeds at the middle of three rates; the other two, for 500
steps at most and seed 0, say by the loss on the validation captions whether it is the best (for
2017 they go on to the end). One more model has all five edits, and the bug of the lesson: a norm
whose mean runs over the tokens, too. And two have six layers, with the norm on the road and beside
it: what is left in them of the word that came in is measured as in the lesson's evidence. Three
more have 32 layers and 100 steps, all of them on the climb of the rate: with the norm on the road
at two rates, and with the norm beside it at the larger of the two.
"""

import time
from functools import cache, partial

import torch

from benchmarks.lessons.lesson_code import lesson_code
from benchmarks.lessons.rows import measure_rows
from transformer_lab import PositionalEncoding, TokenEmbedding

RATES, SEEDS = (0.006, 0.012, 0.024), (0, 1, 2)
LOOKS = (50, 100, 150, 200, 250, 300, 400, 500, 750, 1000, 1250, 1500, 1750, 2000)
WRITES = (250, 500, 1000, 2000)
SMOKE = 2
VARIANTS = {  # steps of each
    "2017": 2000,
    "all five": 2000,
    "rotary": 2000,
    "norm over tokens": 500,
    "pre-norm": 500,
    "RMSNorm": 500,
    "SwiGLU": 500,
    "grouped": 500,
    "no positions": 2000,
    "sinusoids in each layer": 2000,
    "six layers": 400,
    "six layers, pre-norm": 400,
}
UNTIED = ", untied"
EDITS = ("2017", "rotary", "SwiGLU", "all five", "pre-norm", "RMSNorm", "grouped")
AT_ONE_RATE = {name + UNTIED: 500 for name in EDITS}  # steps of each
DEEP = {"32 layers": 0.006, "32 layers, small rate": 0.001, "32 layers, pre-norm": 0.006}  # rates
DEEP_STEPS = 100
NAMES = ("LanguageModel", "OF_2017", "OF_TODAY", "LETTERS", "WindowNorm", "bits", "learn", "write")
lesson = cache(partial(lesson_code, "13", *NAMES))
evidence = cache(partial(lesson_code, "13", "word_left"))


def settings(variant: str) -> dict:
    """Return what makes the blocks of a variant."""
    old, variant = lesson()["OF_2017"], variant.removesuffix(UNTIED)
    return {
        "2017": old,
        "no positions": old,
        "sinusoids in each layer": old,
        "six layers": old | {"num_layers": 6},
        "32 layers": old | {"num_layers": 32},
        "32 layers, small rate": old | {"num_layers": 32},
        "32 layers, pre-norm": old | {"num_layers": 32, "pre_norm": True},
        "six layers, pre-norm": old | {"num_layers": 6, "pre_norm": True},
        "all five": lesson()["OF_TODAY"],
        "norm over tokens": lesson()["OF_TODAY"],
        "rotary": old | {"base": 10_000.0},
        "pre-norm": old | {"pre_norm": True},
        "RMSNorm": old | {"rms": True},
        "SwiGLU": old | {"swiglu": True, "d_ff": 128},
        "grouped": old | {"kv_heads": 2, "d_ff": 228},
    }[variant]


def untie(model) -> None:
    """Give the logits a table of their own, which starts like that of the embedding."""
    table = model.embedding.table
    model.logits = TokenEmbedding(*table.shape)  # made last: all else starts as in the tied model

    def forward(tokens):
        x = model.norm(model.blocks(model.positions(model.embedding(tokens))))
        return x @ model.logits.table.T

    model.forward = forward


def build(variant: str, seed: int, d_model: int = 48):
    """Return an untrained model."""
    torch.manual_seed(seed)
    model = lesson()["LanguageModel"](d_model, **settings(variant))
    if variant in ("no positions", "sinusoids in each layer"):
        model.positions = torch.nn.Identity()
    if variant == "sinusoids in each layer":
        places = PositionalEncoding(d_model, dropout=0.0)
        for attention in (block.attention for block in model.blocks):
            attention.w_q = torch.nn.Sequential(places, attention.w_q)
            attention.w_k = torch.nn.Sequential(places, attention.w_k)
    if variant.endswith(UNTIED):
        untie(model)
    if variant == "norm over tokens":
        for block in model.blocks:
            block.norm_1, block.norm_2 = (lesson()["WindowNorm"](d_model) for _ in range(2))
        model.norm = lesson()["WindowNorm"](d_model)
    return model


def plan(smoke: bool) -> list[dict]:
    """Return a setting for each model, seed and rate, what the lesson shows first."""
    if smoke:
        rates = dict.fromkeys((*VARIANTS, *AT_ONE_RATE), RATES[1]) | DEEP
        return [{"variant": v, "seed": 0, "rate": rates[v], "steps": SMOKE} for v in rates]
    planned = [
        {"variant": name, "seed": seed, "rate": RATES[1], "steps": steps}
        for seed in SEEDS
        for name, steps in VARIANTS.items()
    ]
    planned += [
        {"variant": name, "seed": seed, "rate": RATES[1], "steps": steps}
        for seed in SEEDS
        for name, steps in AT_ONE_RATE.items()
    ]
    planned += [
        {"variant": name, "seed": seed, "rate": rate, "steps": DEEP_STEPS}
        for seed in SEEDS
        for name, rate in DEEP.items()
    ]
    return planned + [
        {
            "variant": name,
            "seed": 0,
            "rate": rate,
            "steps": steps if name == "2017" else min(steps, 500),
        }
        for name, steps in VARIANTS.items()
        for rate in (RATES[0], RATES[2])
    ]


def run(variant: str, seed: int, rate: float, steps: int) -> dict:
    """Train once: losses by step, and what the model writes on the way."""
    model, letters, start = build(variant, seed), lesson()["LETTERS"], time.process_time()
    found = {"parameters": sum(p.numel() for p in model.parameters())}
    found |= {"valid": {}, "test": {}, "writes": {}}
    spent = 0.0
    for step in lesson()["learn"](model, steps, rate, seed):
        spent += time.process_time() - start
        if step in LOOKS or step == steps:
            texts = ("valid", "test") if step in WRITES or step == steps else ("test",)
            for text in texts:
                loss = lesson()["bits"](model, getattr(letters, text))
                found[text][str(step)] = round(loss, 4)
        if variant.startswith("six layers") and (step == 150 or step == steps):
            left = evidence()["word_left"](model, letters.test[: 16 * 64].view(16, 64))
            found.setdefault("left", {})[str(step)] = [round(share, 4) for share in left]
        if step in WRITES:
            found["writes"][str(step)] = lesson()["write"](model, lines=3)
        start = time.process_time()
    return found | {"seconds": round(spent, 1)}


def main(arguments: list[str] | None = None) -> None:
    """Train everything that l13_newer.json does not have yet."""
    measure_rows("l13_newer", __doc__, arguments, plan, run)


if __name__ == "__main__":
    main()
