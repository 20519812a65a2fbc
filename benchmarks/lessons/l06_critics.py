"""`python -m benchmarks.lessons.l06_critics`: lesson 06's critics, with more seeds and steps.

The models, their layers and the reviews are the lesson's own, loaded from its notebook. Which
layer, how many, how large a rate, at once or after a climb of 100 steps: three seeds each, which
draw the weights and the reviews. Stored are, for every 20 steps, the mean loss and the share of
verdicts that were right, each batch judged before the model is trained on it.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.lessons.l06_layers import climbing, train_together
from benchmarks.lessons.lesson_code import lesson_code
from benchmarks.lessons.rows import measure_rows

SEEDS, SHOWN = range(3), 20
LAYERS = {  # by name: the lesson's class, and whether a last norm stands at the top
    "post-LN": ("PaperEncoderLayer", False),
    "pre-LN": ("PreEncoderLayer", True),
    "hurried pre-LN": ("HurriedLayer", True),
    "attention alone": ("OnlyAttention", False),
    "attention alone, Xavier": ("OnlyAttention", False),
}
RATES = (0.001, 0.003, 0.005, 0.006, 0.01)
# Which layer, how many, the rates, the lengths of the climb, and how many steps.
PLANS = (
    ("post-LN", 6, RATES, (1, 100), 600),
    ("pre-LN", 6, RATES, (1, 100), 600),
    ("hurried pre-LN", 6, (0.001, 0.005, 0.006), (1,), 600),
    ("pre-LN", 6, (0.03,), (1, 100), 600),
    ("attention alone", 12, (0.001, 0.003), (1,), 400),
    ("attention alone, Xavier", 12, (0.003,), (1,), 400),
)

lesson = partial(lesson_code, "06", "Critic", "reviews", *{name for name, _ in LAYERS.values()})


def new_critic(code: dict, name: str, depth: int, seed: int) -> nn.Module:
    """Return the lesson's critic with this many layers of the kind, drawn with this seed."""
    layer, last_norm = LAYERS[name]
    torch.manual_seed(seed)
    layers = [code[layer]() for _ in range(depth)]
    if name.endswith("Xavier"):
        for linear in (part for layer in layers for part in layer.modules()):
            if isinstance(linear, nn.Linear):
                nn.init.xavier_uniform_(linear.weight)
    return code["Critic"](layers + [nn.LayerNorm(32)] * last_norm)


def loss_and_right(call: Callable, words: Tensor, praise: Tensor) -> tuple[Tensor, Tensor]:
    """Return the loss and the share of right verdicts on a batch of reviews."""
    logits = call(words)
    right = (logits.argmax(dim=-1) == praise).float().mean()
    return F.cross_entropy(logits.flatten(0, 1), praise.flatten()), right


def plan(smoke: bool) -> Iterator[tuple[dict, Callable]]:
    """Yield each layer, depth and rate, and what trains all these critics side by side."""
    for name, depth, rates, *choices in PLANS:
        for rate in rates:
            setting = {"layer": name, "depth": depth, "rate": rate}
            yield setting, partial(measure, name, depth, rate, *choices, smoke)


def measure(
    name: str, depth: int, rate: float, warmups: tuple, steps: int, smoke: bool
) -> list[dict]:
    """Return a row for each climb and seed."""
    code, (seeds, steps) = lesson(), (range(1), 2) if smoke else (SEEDS, steps)
    drawn = {}
    for seed in seeds:
        torch.manual_seed(1000 + seed)
        batches = [code["reviews"](32) for _ in range(steps)]
        drawn[seed] = [torch.stack(each) for each in zip(*batches, strict=True)]
    runs = list(product(warmups, seeds))
    critics = [new_critic(code, name, depth, seed) for _, seed in runs]
    words, praise = (torch.stack([drawn[seed][i] for _, seed in runs]) for i in (0, 1))
    climb = climbing([rate] * len(runs), [warmup for warmup, _ in runs])
    numbers = train_together(critics, loss_and_right, (words, praise), climb)
    means = [
        [[round(part.mean().item(), 3) for part in run.split(SHOWN)] for run in each]
        for each in numbers
    ]
    return [
        {"warmup": warmup, "seed": seed, "losses": losses, "right": right}
        for (warmup, seed), losses, right in zip(runs, *means, strict=True)
    ]


def notes(smoke: bool) -> dict:
    return {"steps per loss": SHOWN}


def main(arguments: list[str] | None = None) -> None:
    """Train what l06_critics.json does not have yet."""
    measure_rows("l06_critics", __doc__, arguments, plan, notes=notes)


if __name__ == "__main__":
    main()
