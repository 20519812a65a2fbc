"""`python -m benchmarks.lessons.l06_ablation`: what each part of a layer is worth, on dates.

The long version of two experiments of lesson 06: take a part out of every layer and train, at
three depths; put the norm before or after, with and without warm-up, at the largest of them. Three
seeds each: they draw the weights and the order of the batches. Everything else is the same.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import torch

from benchmarks.lessons.rows import measure_rows
from transformer_lab import (
    PRESETS,
    AddNorm,
    Batch,
    Objective,
    Tokenizer,
    Transformer,
    batches_by_tokens,
    date_pairs,
    greedy_decode,
    train_step,
    train_tokenizer,
    validate,
)
from transformer_lab.runs import encode_pairs

SEEDS = (0, 1, 2)
PARTS = {
    "full": {},
    "no feed-forward": {"feed_forward": False},
    "no residual": {"residual": False},
    "no norm": {"norm": False},
    "attention only": {"feed_forward": False, "residual": False, "norm": False},
}
NORMS = {
    f"{name}-LN, {'warm-up' if warmup > 1 else 'no warm-up'}": {"pre_norm": pre, "warmup": warmup}
    for name, pre in (("post", False), ("pre", True))
    for warmup in (1, 100)
}
LONG = {"layers": (1, 2, 4), "steps": 600, "rate": 2e-3, "count": 20_000, "tests": 500}
SMOKE = {"layers": (1,), "steps": 3, "rate": 2e-3, "count": 200, "tests": 8}


class Frame(AddNorm):
    """An AddNorm (post-LN) without its residual, its norm, or either."""

    def __init__(self, d_model: int, residual: bool, norm: bool):
        super().__init__(d_model, dropout=0.0)
        self.residual = residual
        if not norm:
            self.norm = torch.nn.Identity()

    def forward(self, x, sublayer):
        return self.norm(x + sublayer(x) if self.residual else sublayer(x))


class Skip(torch.nn.Module):
    """Stands in the place of a sub-layer's frame, and leaves the sub-layer out."""

    def forward(self, x, sublayer):
        return x


def ablate(
    model: Transformer, *, feed_forward: bool = True, residual: bool = True, norm: bool = True
) -> Transformer:
    """Take parts out of every layer of the model, in place."""
    for layer in (*model.encoder.layers, *model.decoder.layers):
        frames = [name for name, _ in layer.named_children() if name.startswith("add_norm")]
        for name in frames:
            setattr(layer, name, Frame(model.config.d_model, residual, norm))
        if not feed_forward:
            setattr(layer, frames[-1], Skip())
            layer.feed_forward = None
    return model


def train_once(
    tokenizer: Tokenizer,
    sizes: dict,
    seed: int,
    *,
    layers: int,
    pre_norm: bool = False,
    warmup: int = 100,
    **parts: bool,
) -> dict:
    """Train one model, and return its scores on unseen dates."""
    preset = PRESETS["dates"]
    config = replace(
        preset.model,
        source_vocab_size=tokenizer.vocab_size,
        target_vocab_size=tokenizer.vocab_size,
        num_encoder_layers=layers,
        num_decoder_layers=layers,
        pre_norm=pre_norm,
    )
    torch.manual_seed(seed)
    model = ablate(Transformer(config), **parts) if parts else Transformer(config)
    training = replace(preset.training, steps=sizes["steps"], seed=seed)
    pairs = encode_pairs(tokenizer, date_pairs(sizes["count"], seed=0))
    batches = endless_batches(pairs, training.max_tokens, seed)
    objective = Objective(model, training)
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    start = time.perf_counter()
    for step in range(1, sizes["steps"] + 1):
        for group in optimizer.param_groups:
            group["lr"] = sizes["rate"] * min(1.0, step / warmup)
        train_step(objective, next(batches), optimizer, clip_norm=training.clip_norm)
    seconds = round(time.perf_counter() - start, 1)
    tests = encode_pairs(tokenizer, date_pairs(sizes["tests"], 2, split="test"))
    scores = validate(model, tests) | {"exact_match": exact_match(model, tests)}
    return {"seed": seed, "seconds": seconds} | scores


def endless_batches(pairs: list, max_tokens: int, seed: int) -> Iterator[Batch]:
    """Yield batches, each epoch in a new order."""
    generator = torch.Generator().manual_seed(seed)
    lengths = [(len(target) + 1, len(source)) for source, target in pairs]
    while True:
        for indices in batches_by_tokens(lengths, max_tokens, generator=generator):
            yield Batch.from_pairs([pairs[i] for i in indices])


def exact_match(model: Transformer, pairs: list) -> float:
    """Return the share of dates that greedy decoding writes without a mistake."""
    model.eval()
    batch = Batch.from_pairs(pairs)
    length = batch.target.shape[1]
    written = greedy_decode(model, batch.source, max_length=length)
    written = torch.nn.functional.pad(written, (0, length - written.shape[1]))
    return (written == batch.target).all(dim=1).double().mean().item()


def plan(smoke: bool) -> Iterator[tuple[dict, Callable]]:
    """Yield each model, and what trains it from its seeds."""
    sizes = SMOKE if smoke else LONG
    tokenizer = train_tokenizer(
        [text for pair in date_pairs(sizes["count"], seed=0) for text in pair], kind="characters"
    )
    every = [("parts", layers, *part) for layers in sizes["layers"] for part in PARTS.items()]
    every += [("norms", sizes["layers"][-1], *norm) for norm in NORMS.items()]
    for experiment, layers, name, settings in every:
        model = {"experiment": experiment, "name": name, "layers": layers, "settings": settings}
        yield model, partial(measure, tokenizer, sizes, layers, settings, smoke)


def measure(tokenizer, sizes: dict, layers: int, settings: dict, smoke: bool) -> dict:
    """Return the scores of each seed."""
    seeds = SEEDS[:1] if smoke else SEEDS
    options = settings | {"layers": layers}
    return {"runs": [train_once(tokenizer, sizes, seed, **options) for seed in seeds]}


def notes(smoke: bool) -> dict:
    return {"seeds": SEEDS, "sizes": SMOKE if smoke else LONG}


def table(rows: list[dict]) -> str:
    return "\n".join(map(line, rows))


def line(row: dict) -> str:
    """Return lowest, median and highest accuracy and exact match of a row."""
    text = f"{row['layers']}+{row['layers']} layers, {row['name']:22}"
    for score in ("accuracy", "exact_match"):
        values = sorted(run[score] for run in row["runs"])
        text += f"  {score.replace('_', ' ')} {statistics.median(values):6.1%}"
        text += f" ({values[0]:.1%} to {values[-1]:.1%})"
    return text


def main(arguments: list[str] | None = None) -> None:
    """Train what l06_ablation.json does not have yet, print its lines."""
    measure_rows("l06_ablation", __doc__, arguments, plan, notes=notes, table=table)


if __name__ == "__main__":
    main()
