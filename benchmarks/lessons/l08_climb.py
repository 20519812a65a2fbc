"""`python -m benchmarks.lessons.l08_climb`: does a rate have to climb, and what else helps (08)?

The preset's model takes 400 steps at a level rate, at once or after a climb of 60 steps, at three
rates. At the two larger ones, the steps at once are tried again with one thing changed each:
pre-LN, Norm(3.5 x + f(x)), RAdam in the place of Adam; at the largest also the loss times 100 and
0.01. At 0.01 the encoder alone and the decoder alone start at once, too, while the other climbs.
Batches are drawn as in the lesson: 64 pairs by chance. Three seeds draw the weights and the
batches. Stored are the losses, each the mean of ten steps; how far apart the memory's words are,
before the first step, after 1, after 10 and at the end, and for some runs the decoder's places;
and, at the end, the loss on unseen dates with their own sources and with those of other dates: only
who reads them minds.
"""

import random
import statistics
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from benchmarks.lessons.l08_exposure import Dates
from benchmarks.lessons.l08_warmup import unseen_losses
from benchmarks.lessons.rows import measure_rows
from transformer_lab import PRESETS, Batch, Transformer, sequence_loss
from transformer_lab.layers import AddNorm

LONG = {"seeds": 3, "count": 40_000, "tests": 1000, "steps": 400}
SMOKE = {"seeds": 1, "count": 300, "tests": 8, "steps": 20}

CLIMB, LARGE = 60, 0.0175  # steps; five times the crest of the preset's rate
LOOKED_AT = (0, 1, 10)  # steps after which the words are compared, and the last one

CHANGES: dict[str, dict] = {
    "pre-LN": {"pre_norm": True},
    "Norm(3.5 x + f(x))": {"residual": 3.5},
    "RAdam": {"optimizer": torch.optim.RAdam},
}
# What is trained: a rate, the steps of its climb, and what is changed beside that.
RUNS: dict[str, dict] = {
    **{
        f"{rate} {name}": {"rate": rate, "climb": climb}
        for rate in (0.0035, 0.01, LARGE)
        for name, climb in (("climbing", CLIMB), ("at once", 1))
    },
    "0.01 at once": {"rate": 0.01, "climb": 1, "decoder": True},
    "loss × 100": {"scale": 100.0},
    "loss × 0.01": {"scale": 0.01},
    "0.01 encoder at once": {"rate": 0.01, "climb": (1, CLIMB), "decoder": True},
    "0.01 decoder at once": {"rate": 0.01, "climb": (CLIMB, 1), "decoder": True},
    **CHANGES,
    **{f"0.01 {name}": {"rate": 0.01} | changed for name, changed in CHANGES.items()},
}


class WeightedAddNorm(AddNorm):
    """Norm(w x + f(x)): the paper's frame, with a weight on the residual."""

    weight = 1.0

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        return self.norm(self.weight * x + self.dropout(sublayer(x)))


def new_model(dates: Dates, seed: int, pre_norm: bool, residual: float) -> Transformer:
    """Return the preset's model with this seed, in pre-LN or with a weight on its residuals."""
    size = dates.tokenizer.vocab_size
    sizes = {"source_vocab_size": size, "target_vocab_size": size, "pre_norm": pre_norm}
    torch.manual_seed(seed)
    model = Transformer(replace(PRESETS["dates"].model, **sizes))
    if residual != 1.0:
        for module in model.modules():
            if isinstance(module, AddNorm):
                module.__class__, module.weight = WeightedAddNorm, residual
    return model


@torch.no_grad()
def words_apart(model: nn.Module, source: Tensor) -> float:
    """Return the distance of the memory's words from their mean, over their length, on average."""
    memory, mask = model.encode(source)
    real = mask.reshape(source.shape).unsqueeze(-1)
    middle = (memory * real).sum(1, keepdim=True) / real.sum(1, keepdim=True)
    away, length = (((memory - m) * real).norm(dim=(1, 2)) for m in (middle, 0.0))
    return float(f"{(away / length).mean().item():.2g}")


@torch.no_grad()
def decoder_apart(model: Transformer, exam: Batch) -> float:
    """Return the same for what the decoder hands to the last matrix, behind the true beginnings."""
    memory, mask = model.encode(exam.source)
    states = model.decode_states(exam.target_in, memory, mask)  # all dates are equally long
    away, length = (x.norm(dim=(1, 2)) for x in (states - states.mean(1, keepdim=True), states))
    return float(f"{(away / length).mean().item():.2g}")


def halves(model: nn.Module) -> list[list[nn.Parameter]]:
    """Return the parameters of the encoder, its embedding among them, and all others."""
    named = [(name.startswith(("encoder", "source")), p) for name, p in model.named_parameters()]
    return [[p for encoder, p in named if encoder == which] for which in (True, False)]


def measure(
    dates: Dates,
    steps: int,
    seed: int,
    rate: float = LARGE,
    climb: int | tuple[int, int] = 1,  # or that of the encoder and that of the decoder
    scale: float = 1.0,
    pre_norm: bool = False,
    residual: float = 1.0,
    optimizer: Callable = torch.optim.Adam,
    decoder: bool = False,
) -> dict:
    """Train once, with the lesson's loop but for what is changed."""
    model = new_model(dates, seed, pre_norm, residual)
    groups = [{"params": half} for half in halves(model)]
    climbs = climb if isinstance(climb, tuple) else (climb, climb)
    taker = optimizer(groups, betas=(0.9, 0.98), eps=1e-9)
    draw = random.Random(seed)
    losses, apart = [], {0: words_apart(model, dates.exam.source)}
    apart_there = {0: decoder_apart(model, dates.exam)}
    for step in range(1, steps + 1):
        for group, its_climb in zip(taker.param_groups, climbs, strict=True):
            group["lr"] = rate * min(1, step / its_climb)
        batch = Batch.from_pairs(draw.sample(dates.pairs, 64))
        loss = sequence_loss(model(batch.source, batch.target_in), batch.target_out)
        taker.zero_grad()
        (scale * loss).backward()
        taker.step()
        losses.append(loss.item())
        if step in (*LOOKED_AT, steps):
            apart[step] = words_apart(model, dates.exam.source)
            apart_there[step] = decoder_apart(model, dates.exam)
    tens = [statistics.mean(losses[i : i + 10]) for i in range(0, steps, 10)]
    return {
        "losses": [round(loss, 4) for loss in tens],
        "apart": {str(step): far for step, far in apart.items()},
        **({"decoder apart": {str(n): far for n, far in apart_there.items()}} if decoder else {}),
        **unseen_losses(model.eval(), dates),
    }


def plan(smoke: bool) -> Iterator[tuple[dict, Callable]]:
    """Yield each run and seed, and what trains it."""
    sizes = SMOKE if smoke else LONG
    dates = Dates(sizes["count"], sizes["tests"])
    for seed in range(sizes["seeds"]):
        for name, changed in RUNS.items():
            setting = {"name": name, "seed": seed}
            yield setting, partial(measure, dates, sizes["steps"], seed, **changed)


def notes(smoke: bool) -> dict:
    return {"sizes": SMOKE if smoke else LONG}


def main(arguments: list[str] | None = None) -> None:
    """Train what l08_climb.json does not have yet."""
    measure_rows("l08_climb", __doc__, arguments, plan, notes=notes)


if __name__ == "__main__":
    main()
