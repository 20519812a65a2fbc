"""`python -m benchmarks.lessons.l06_layers`: rows of digits, with more seeds, rates and steps.

The model and the rows are the lesson's own, loaded from its notebook: an encoder learns to reverse
six digits. What stands around the sub-layers, how many layers, how large a learning rate, with or
without a warm-up, and from which first weights, Xavier's or `nn.Linear`'s default: three seeds
each, which draw the weights and the rows. Models of one shape are trained side by side
(`torch.func.vmap`), each exactly as the lesson's `train_model` does. `l06_critics`
trains with `train_together`, too.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import product
from unittest import mock

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from benchmarks.lessons.lesson_code import lesson_code
from benchmarks.lessons.rows import measure_rows

SEEDS, STEPS, SHOWN = range(3), 2000, 20
RATES, WARMUPS = (0.001, 0.003, 0.01), (1, 50)
FRAMES = {
    "post-LN": (),
    "pre-LN": (),
    "no norm": ("norm",),
    "no residual": ("residual",),
    "attention alone": ("feed-forward", "residual", "norm"),
    "attention and residual": ("feed-forward", "norm"),
}
STARTS = ("Xavier", "default")
# What stands around the sub-layers, how many layers, the rates, the lengths of the warm-up, and
# how the first weights are drawn.
PLANS = (
    ("post-LN", 6, RATES, WARMUPS, STARTS),
    ("pre-LN", 6, RATES, WARMUPS, STARTS),
    ("attention alone", 6, RATES, WARMUPS[1:], STARTS),
    ("no residual", 6, RATES, WARMUPS[1:], STARTS),
    ("no norm", 6, RATES, WARMUPS[1:], STARTS),
    ("attention and residual", 6, RATES[1:2], WARMUPS[1:], STARTS),
    ("attention alone", 1, RATES, WARMUPS[1:], STARTS[:1]),
    ("no residual", 2, RATES, WARMUPS[1:], STARTS[:1]),
    ("no norm", 2, RATES, WARMUPS[1:], STARTS[:1]),
    ("post-LN", 2, RATES, WARMUPS[1:], STARTS[:1]),
    ("pre-LN", 2, RATES, WARMUPS[1:], STARTS[:1]),
)

lesson = partial(lesson_code, "06", "Reverser", "rows_of_digits", "train_model", "without", "draw")


def new_model(code: dict, frame: str, layers: int, start: str, seed: int) -> nn.Module:
    """Return the lesson's model with the weights of this seed; Xavier's are its own."""
    torch.manual_seed(seed)
    model = code["Reverser"](layers, pre_norm=frame == "pre-LN")
    model = code["without"](model, *FRAMES[frame]) if FRAMES[frame] else model
    if start != "Xavier":
        code["draw"](model.encoder, start).float()
    return model


def train_together(
    models: list,
    loss_of: Callable,
    batches: tuple[Tensor, ...],
    rate_at: Callable[[int], Tensor],
) -> Tensor:
    """Train models of one shape side by side with Adam; return (numbers, models, steps).

    `loss_of(call, *batch)` returns the numbers of one model, `call`: the first is its loss, others
    are recorded with it. Each tensor of `batches` is (models, steps, ...), and `rate_at(step)` has
    a number for each model.
    """
    parameters, buffers = stack_module_state(models)
    parameters = {name: p.detach().requires_grad_() for name, p in parameters.items()}
    first, second = ([torch.zeros_like(p) for p in parameters.values()] for _ in range(2))
    history = []

    def one_loss(parameters, buffers, *batch):
        def call(*inputs):
            return functional_call(models[0], (parameters, buffers), inputs)

        return loss_of(call, *batch)

    for step in range(1, batches[0].shape[1] + 1):
        # vmap would take the fused kernel one by one, and cannot ask for the highest id.
        unchecked = mock.patch("transformer_lab.model.require_tokens")
        with sdpa_kernel(SDPBackend.MATH), unchecked:
            numbers = vmap(one_loss)(parameters, buffers, *(b[:, step - 1] for b in batches))
        gradients = torch.autograd.grad(
            numbers[0].sum(), list(parameters.values()), materialize_grads=True
        )
        rate = rate_at(step) / (1 - 0.9**step)
        with torch.no_grad():
            for p, g, m, v in zip(parameters.values(), gradients, first, second, strict=True):
                m.lerp_(g, 0.1)
                v.mul_(0.98).addcmul_(g, g, value=0.02)
                root = (v / (1 - 0.98**step)).sqrt() + 1e-8
                p.sub_(rate.view(-1, *[1] * (p.dim() - 1)) * m / root)
        history.append(torch.stack(numbers).detach())
    return torch.stack(history, dim=2)


def reversal_loss(call: Callable, row: Tensor) -> tuple[Tensor]:
    """Return the mean loss of saying the row's digits backwards."""
    return (F.cross_entropy(call(row).flatten(0, 1), row.flip(1).flatten()),)


def climbing(rates: Iterable, warmups: Iterable) -> Callable[[int], Tensor]:
    """Return the rate of each model at a step: it climbs evenly to its height."""
    rates, warmups = torch.tensor(list(rates)), torch.tensor(list(warmups))
    return lambda step: rates * (step / warmups).clamp(max=1)


def plan(smoke: bool) -> Iterator[tuple[dict, Callable]]:
    """Yield each frame and depth, and what trains all its models side by side."""
    for frame, layers, *choices in PLANS:
        yield {"frame": frame, "layers": layers}, partial(measure, frame, layers, *choices, smoke)


def measure(
    frame: str, layers: int, rates: tuple, warmups: tuple, starts: tuple, smoke: bool
) -> list[dict]:
    """Return a row for each setting and seed: what it is, and the mean loss of every 20 steps."""
    code, (seeds, steps) = lesson(), (range(1), 2) if smoke else (SEEDS, STEPS)
    digits = [[x for (x,), _ in code["rows_of_digits"](steps, seed)] for seed in seeds]
    digits = torch.stack([torch.stack(batches) for batches in digits])
    runs = list(product(rates, warmups, starts, seeds))
    models = [new_model(code, frame, layers, start, seed) for *_, start, seed in runs]
    settings = list(zip(*runs, strict=True))
    rows_of_all = digits.repeat(len(runs) // len(seeds), 1, 1, 1)
    climb = climbing(*settings[:2])
    (losses,) = train_together(models, reversal_loss, (rows_of_all,), climb)
    return [
        {"rate": rate, "warmup": warmup, "start": start, "seed": seed}
        | {"losses": [round(part.mean().item(), 3) for part in each.split(SHOWN)]}
        for (rate, warmup, start, seed), each in zip(runs, losses, strict=True)
    ]


def notes(smoke: bool) -> dict:
    return {"steps": 2 if smoke else STEPS, "steps per loss": SHOWN}


def main(arguments: list[str] | None = None) -> None:
    """Train what l06_layers.json does not have yet."""
    measure_rows("l06_layers", __doc__, arguments, plan, notes=notes)


if __name__ == "__main__":
    main()
