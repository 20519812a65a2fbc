"""`python -m benchmarks.lessons.ablation`: what each part of a layer is worth, on the date model.

The long version of two experiments of lesson 06: take a part out of every layer and train, at
three depths; put the norm before or after, with and without warm-up, at the largest of them. Three
seeds each: they draw the weights and the order of the batches. Everything else is the same.
"""

import statistics
import time
from collections.abc import Iterator
from dataclasses import replace

import torch

from benchmarks.reporting import report
from transformer_lab import (
    PRESETS,
    AddNorm,
    Batch,
    Objective,
    Tokenizer,
    Transformer,
    batches_by_tokens,
    date_pairs,
    evaluate,
    greedy_decode,
    train_step,
    train_tokenizer,
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
    scores = evaluate(model, tests) | {"exact_match": exact_match(model, tests)}
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


def measure(*, smoke: bool = False) -> list[dict]:
    """Return a row for each model: what it is, and the scores of its seeds."""
    sizes = SMOKE if smoke else LONG
    seeds = SEEDS[:1] if smoke else SEEDS
    tokenizer = train_tokenizer(
        [text for pair in date_pairs(sizes["count"], seed=0) for text in pair], kind="characters"
    )
    plans = [
        {"experiment": "parts", "name": name, "layers": layers} | {"settings": parts}
        for layers in sizes["layers"]
        for name, parts in PARTS.items()
    ] + [
        {"experiment": "norms", "name": name, "layers": sizes["layers"][-1]} | {"settings": norms}
        for name, norms in NORMS.items()
    ]
    for plan in plans:
        settings = plan["settings"] | {"layers": plan["layers"]}
        plan["runs"] = [train_once(tokenizer, sizes, seed, **settings) for seed in seeds]
        print(line(plan), flush=True)
    return plans


def line(row: dict) -> str:
    """Return lowest, median and highest accuracy and exact match of a row."""
    text = f"{row['layers']}+{row['layers']} layers, {row['name']:22}"
    for score in ("accuracy", "exact_match"):
        values = sorted(run[score] for run in row["runs"])
        text += f"  {score.replace('_', ' ')} {statistics.median(values):6.1%}"
        text += f" ({values[0]:.1%} to {values[-1]:.1%})"
    return text


def main(arguments: list[str] | None = None) -> None:
    """Train everything and write `ablation.json`."""
    options = report.read_options("ablation", __doc__, arguments)
    result = report.describe_run("ablation", smoke=options.smoke)
    result |= {"seeds": SEEDS, "sizes": SMOKE if options.smoke else LONG}
    result["rows"] = measure(smoke=options.smoke)
    if options.output:
        report.write(options.output / "ablation.json", result)


if __name__ == "__main__":
    main()
