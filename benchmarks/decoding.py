"""Greedy decoding: with the cache against without, many sentences at once against one by one."""

import time

import torch

from benchmarks.reporting.report import SEED
from benchmarks.reporting.timing import row, take_turns
from transformer_lab import ModelConfig, Transformer, greedy_decode
from transformer_lab.config import BOS, EOS, UNK

LENGTHS = {256: "≥ 5", 1024: "≥ 12"}
SENTENCES, WORDS = 64, 20


def build_model(smoke: bool) -> Transformer:
    """Return 3+3 layers, d_model 256, vocabulary 10,000, with random weights that never write EOS.

    EOS's row of the generator is the mean of all rows: its logit is the mean of the logits, and
    that is never the largest.
    """
    vocabulary, d_model, layers = (50, 16, 1) if smoke else (10_000, 256, 3)
    torch.manual_seed(SEED)
    config = ModelConfig(
        source_vocab_size=vocabulary,
        target_vocab_size=vocabulary,
        d_model=d_model,
        num_heads=d_model // 32 or 1,
        d_ff=4 * d_model,
        num_encoder_layers=layers,
        num_decoder_layers=layers,
        max_length=1100,
    )
    model = Transformer(config).eval()
    with torch.no_grad():
        model.generator.weight[EOS] = model.generator.weight.mean(dim=0)
    return model


def sources(model: Transformer, count: int) -> torch.Tensor:
    """Return `count` random source sentences of the usual length, ending in EOS."""
    generator = torch.Generator().manual_seed(SEED)
    vocabulary = model.config.source_vocab_size
    ids = torch.randint(UNK + 1, vocabulary, (count, WORDS), generator=generator)
    ids[:, -1] = EOS
    return ids


@torch.inference_mode()
def seconds_per_quarter(model: Transformer, source: torch.Tensor, length: int) -> list[float]:
    """Decode `length` tokens with a cache; return the seconds that each quarter of them took."""
    memory, mask = model.encode(source)
    cache, token, quarters = model.new_cache(), torch.tensor([[BOS]]), []
    for _ in range(4):
        start = time.perf_counter()
        for _ in range(length // 4):
            logits = model.decode(token, memory, mask, cache=cache)[:, -1]
            token = logits.argmax(dim=-1, keepdim=True)
        quarters.append(time.perf_counter() - start)
    return quarters


def measure(*, smoke: bool = False) -> list[dict]:
    """Return the ratios: cache by length, flatness of the cached time, batch of 64."""
    model = build_model(smoke)
    one, many = sources(model, 1), sources(model, SENTENCES)
    greedy_decode(model, one, max_length=20)  # warm up
    rows = []
    for length, target in ({8: "", 16: ""} if smoke else LENGTHS).items():
        variants = {
            "cached": lambda n=length: greedy_decode(model, one, max_length=n + 1),
            "uncached": lambda n=length: greedy_decode(
                model, one, max_length=n + 1, use_cache=False
            ),
        }
        seconds = take_turns(variants, rounds=2 if smoke else 4 if length > 500 else 12)
        name = f"one sentence, {length} tokens: cache against none"
        rows.append(row(name, seconds["uncached"], seconds["cached"], target=target, **seconds))
    return [*rows, _flatness(model, one, smoke), _batching(model, many, smoke)]


def _flatness(model: Transformer, source: torch.Tensor, smoke: bool) -> dict:
    quarters = [seconds_per_quarter(model, source, 16 if smoke else 1024) for _ in range(3)]
    first, last = [q[0] for q in quarters], [q[3] for q in quarters]
    name = "time per token with the cache: last quarter against the first"
    return row(name, last, first, target="≤ 1.3", quarters=quarters)


def _batching(model: Transformer, source: torch.Tensor, smoke: bool) -> dict:
    length = 8 if smoke else 32

    def one_by_one() -> None:
        for sentence in source.split(1):
            greedy_decode(model, sentence, max_length=length)

    variants = {
        "at once": lambda: greedy_decode(model, source, max_length=length),
        "one by one": one_by_one,
    }
    seconds = take_turns(variants, rounds=2 if smoke else 3)
    name = f"{SENTENCES} sentences of {WORDS} tokens: at once against one by one"
    return row(name, seconds["one by one"], seconds["at once"], target="≥ 10", **seconds)
