"""`python -m benchmarks.lessons.l13_newer`: five edits since 2017, alone and together.

The language model of lesson 13 on captions, letter by letter: as in 2017, with each edit alone,
with all five, and as in 2017 without any positions, or with its sinusoids where rotary positions
enter: in each layer, for queries and keys alone. At one rate these sinusoids are also made louder,
and one model has no positions but a learned number for each head and distance, which is added to
the scores. As in the paper, the table of the embedding makes the logits too; the seven models of
the edits are trained once more with a table of their own for the logits ("untied"), as in Llama.
All have equally many numbers in the matrices of a layer and read equally many letters, at a rate
that falls as in the paper, so that the first steps of a long run are a short run. Three seeds at
the middle of three rates; the other two, for 500 steps at most and seed 0, say by the loss on the
validation captions whether it is the best (for 2017 they go on to the end). One more model has all
five edits, and the bug of the lesson: a norm whose mean runs over the tokens, too. And two have six
layers, with the norm on the road and beside it: what is left in them of the word that came in is
measured as in the lesson's evidence. Five more have 32 layers and 100 steps, all of them on the
climb of the rate: with the norm on the road at two rates, and with the norm beside it at the larger
of the two; and at that rate two whose forward pass is that of these, but not the way back: on the
one road the norms hand the gradient down as if they were not there, on the other, which is free,
the gradient is divided by √2 at each sub-layer. How much gradient reaches the first layer, and how
far apart the places are behind the last, is measured on the way, and at the end how far the weights
of each layer have moved.
"""

import time
from functools import cache, partial

import torch
import torch.nn.functional as F

from benchmarks.lessons.lesson_code import lesson_code
from benchmarks.lessons.rows import measure_rows
from transformer_lab import PositionalEncoding, TokenEmbedding, merge_heads, split_heads

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
DISTANCE = "a number for each distance"
LOUD = "sinusoids in each layer, times "
VOLUMES = {2: 500, 3: 2000, 5: 500}  # steps of each
AT_ONE_RATE |= {DISTANCE: 2000} | {f"{LOUD}{volume}": steps for volume, steps in VOLUMES.items()}
ONE_SEED = (f"{LOUD}2", f"{LOUD}5")
PASS, DAMP = "32 layers, norms let the gradient pass", "32 layers, pre-norm, gradient damped"
DEEP = {"32 layers": 0.006, "32 layers, small rate": 0.001, "32 layers, pre-norm": 0.006}  # rates
DEEP |= {PASS: 0.006, DAMP: 0.006}
DEEP_STEPS, DEEP_LOOKS = 100, (1, 5, 10, 20, 50, 100)
NAMES = ("LanguageModel", "OF_2017", "OF_TODAY", "LETTERS", "WindowNorm", "bits", "learn", "write")
lesson = cache(partial(lesson_code, "13", *NAMES))
evidence = cache(partial(lesson_code, "13", "word_left", "gradient_left", "apart"))


def settings(variant: str) -> dict:
    """Return what makes the blocks of a variant."""
    old, variant = lesson()["OF_2017"], variant.removesuffix(UNTIED)
    return {
        "2017": old,
        "no positions": old,
        "sinusoids in each layer": old,
        DISTANCE: old,
        **{f"{LOUD}{volume}": old for volume in VOLUMES},
        "six layers": old | {"num_layers": 6},
        "32 layers": old | {"num_layers": 32},
        "32 layers, small rate": old | {"num_layers": 32},
        "32 layers, pre-norm": old | {"num_layers": 32, "pre_norm": True},
        PASS: old | {"num_layers": 32},
        DAMP: old | {"num_layers": 32, "pre_norm": True},
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


class Sinusoids(torch.nn.Module):
    """The sinusoids of the paper, so and so many times as loud, added to what comes in."""

    def __init__(self, d_model: int, volume: float = 1.0):
        super().__init__()
        self.places, self.volume = PositionalEncoding(d_model, dropout=0.0), volume

    def forward(self, x):
        return x + self.volume * self.places(torch.zeros_like(x))


class Distances(torch.nn.Module):
    """An attention whose scores get a learned number for each head and distance."""

    def __init__(self, attention, longest: int = 64):
        super().__init__()
        self.attention = attention
        self.numbers = torch.nn.Parameter(torch.zeros(attention.num_heads, longest))

    def forward(self, x):
        parts, place = self.attention, torch.arange(x.shape[1])
        q, k, v = (split_heads(w(x), parts.num_heads) for w in (parts.w_q, parts.w_k, parts.w_v))
        back = place[:, None] - place
        added = self.numbers[:, back.clamp(min=0)].masked_fill(back < 0, -torch.inf)
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=added)
        return parts.w_o(merge_heads(mixed))


class Passing(torch.nn.Module):
    """A norm through which the gradient passes as if it were not there."""

    def __init__(self, norm):
        super().__init__()
        self.norm = norm

    def forward(self, x):
        return self.norm(x).detach() + (x - x.detach())


def damped(block, x):
    """Do what a pre-LN block does, but divide the gradient of the road by √2 at each sub-layer."""
    for part, norm in ((block.attention, block.norm_1), (block.network, block.norm_2)):
        road = x.detach() + (x - x.detach()) / 2**0.5
        x = road + part(norm(x))
    return x


def build(variant: str, seed: int, d_model: int = 48):
    """Return an untrained model."""
    torch.manual_seed(seed)
    model = lesson()["LanguageModel"](d_model, **settings(variant))
    if variant in ("no positions", DISTANCE) or variant.startswith("sinusoids in each layer"):
        model.positions = torch.nn.Identity()
    if variant.startswith("sinusoids in each layer"):
        volume = float(variant.removeprefix(LOUD)) if variant.startswith(LOUD) else 1.0
        places = Sinusoids(d_model, volume)
        for attention in (block.attention for block in model.blocks):
            attention.w_q = torch.nn.Sequential(places, attention.w_q)
            attention.w_k = torch.nn.Sequential(places, attention.w_k)
    for block in model.blocks:
        if variant == DISTANCE:
            block.attention = Distances(block.attention)
        if variant == PASS:
            block.norm_1, block.norm_2 = Passing(block.norm_1), Passing(block.norm_2)
        if variant == DAMP:
            block.forward = partial(damped, block)
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
        if seed == 0 or name not in ONE_SEED
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


def way(model) -> dict:
    """Return how much gradient comes down, by the road and in all, and how far apart places are."""
    windows = lesson()["LETTERS"].test[: 16 * 65].view(16, 65)
    down = {
        name: evidence()["gradient_left"](model, windows, by_road)
        for name, by_road in (("road", True), ("all", False))
    }
    found = down | {"apart": evidence()["apart"](model, windows)}
    return {name: float(f"{number:.3g}") for name, number in found.items()}


def weights(model) -> list:
    """Return the matrices of each layer in one row of numbers."""
    return [
        torch.cat([p.detach().flatten() for p in block.parameters() if p.dim() > 1])
        for block in model.blocks
    ]


def run(variant: str, seed: int, rate: float, steps: int) -> dict:
    """Train once: losses by step, and what the model writes on the way."""
    model, letters, start = build(variant, seed), lesson()["LETTERS"], time.process_time()
    found = {"parameters": sum(p.numel() for p in model.parameters())}
    found |= {"valid": {}, "test": {}, "writes": {}}
    spent, first = 0.0, weights(model)
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
        if variant in DEEP and step in DEEP_LOOKS:
            found.setdefault("way", {})[str(step)] = way(model)
        if variant in DEEP and step == steps:
            moved = zip(first, weights(model), strict=True)
            far = [(now - then).abs().mean().item() for then, now in moved]
            found["moved"] = [float(f"{number:.3g}") for number in far]
        if step in WRITES:
            found["writes"][str(step)] = lesson()["write"](model, lines=3)
        start = time.process_time()
    return found | {"seconds": round(spent, 1)}


def main(arguments: list[str] | None = None) -> None:
    """Train everything that l13_newer.json does not have yet."""
    measure_rows("l13_newer", __doc__, arguments, plan, run)


if __name__ == "__main__":
    main()
