"""`python -m benchmarks.lessons.l10_captions`: a short training on captions, two without sources.

The short run of lesson 10 for three seeds; the same with the sources of the training pairs shuffled
among them; and with empty ones, in training and in the test. The last two can learn German, and
nothing of what they should say: what they reach is the part of the loss that needs no source.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from functools import partial

import torch

from benchmarks.lessons.rows import measure_rows
from transformer_lab import (
    EOS,
    PRESETS,
    Preset,
    TrainConfig,
    Transformer,
    fit,
    train_tokenizer,
    validate,
)
from transformer_lab.runs import encode_pairs, load_task

SHORT = replace(
    PRESETS["multi30k"],
    model=replace(
        PRESETS["multi30k"].model,
        source_vocab_size=2000,
        target_vocab_size=2000,
        d_model=128,
        num_heads=4,
        d_ff=256,
        num_encoder_layers=2,
        num_decoder_layers=2,
        dropout=0.1,
    ),
    training=TrainConfig(steps=750, max_tokens=600, warmup=200, checkpoint_every=50, average=3),
)
LONG, SMOKE = {"seeds": 3, "steps": 750}, {"seeds": 1, "steps": 2}
UNSEEN = 200  # captions of the validation set


def short_run(preset: Preset, train: list, valid: list, *, vocabulary: int) -> dict:
    """Train on encoded pairs; return the losses on unseen ones by step, and that of the mean."""
    sizes = {"source_vocab_size": vocabulary, "target_vocab_size": vocabulary}
    torch.manual_seed(preset.training.seed)
    model = Transformer(replace(preset.model, **sizes))
    history = fit(model, train, preset.training, valid_pairs=valid, progress=False)
    losses = {r["step"]: round(r["valid_loss"], 4) for r in history if "valid_loss" in r}
    return {
        "losses": losses,
        "averaged": round(validate(model, valid)["loss"], 4),
        "tokens": history[-1]["tokens"],
        "seconds": history[-1]["seconds"],
    }


def empty(pairs: list) -> list:
    """Return the pairs with nothing but EOS as source."""
    return [([EOS], target) for _, target in pairs]


def without_sources(pairs: list, seed: int) -> list:
    """Return the pairs with their sources shuffled among them."""
    sources = [source for source, _ in pairs]
    random.Random(seed).shuffle(sources)
    return [(source, target) for source, (_, target) in zip(sources, pairs, strict=True)]


def plan(smoke: bool) -> Iterator[tuple[dict, Callable]]:
    """Yield one run after the other: own sources, shuffled ones, empty ones, seed by seed."""
    sizes = SMOKE if smoke else LONG
    splits = load_task(SHORT.data)
    texts = [text for pair in splits["train"] for text in pair]
    tokenizer = train_tokenizer(texts, SHORT.model.target_vocab_size)
    train = encode_pairs(tokenizer, splits["train"])
    valid = encode_pairs(tokenizer, splits["val"][:UNSEEN])
    for seed in range(sizes["seeds"]):
        training = replace(SHORT.training, seed=seed, steps=sizes["steps"])
        preset = replace(SHORT, training=training)
        runs = {"own": (train, valid), "shuffled": (without_sources(train, seed), valid)}
        runs["empty"] = empty(train), empty(valid)
        for name, pairs in runs.items():
            run = partial(short_run, preset, *pairs, vocabulary=tokenizer.vocab_size)
            yield {"sources": name, "seed": seed}, run


def notes(smoke: bool) -> dict:
    settings = {"model": asdict(SHORT.model), "training": asdict(SHORT.training)}
    return {"sizes": SMOKE if smoke else LONG, "settings": settings}


def main(arguments: list[str] | None = None) -> None:
    """Train what l10_captions.json does not have yet."""
    measure_rows("l10_captions", __doc__, arguments, plan, notes=notes)


if __name__ == "__main__":
    main()
