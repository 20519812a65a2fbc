"""`python -m benchmarks.lessons.layers`: rows of digits, with more seeds, rates and steps.

The model and the rows are the lesson's own, loaded from its notebook: an encoder learns to reverse
six digits. What stands around the sub-layers, how many layers, how large a learning rate, with or
without a warm-up, and from which first weights, Xavier's or `nn.Linear`'s default: three seeds
each, which draw the weights and the rows. Models of one shape are trained side by side
(`torch.func.vmap`), each exactly as the lesson's `train_model` does.
"""

from functools import partial
from itertools import product

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from benchmarks.lessons.lesson_code import lesson_code
from benchmarks.reporting import report

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
    model.source_embedding._check_range = lambda tokens: None  # vmap cannot ask for a value
    return model


def train_together(models: list, rows: Tensor, rates: list, warmups: list) -> Tensor:
    """Train models of one shape on rows (models, steps, B, L) with Adam; return all losses."""
    parameters, buffers = stack_module_state(models)
    parameters = {name: p.detach().requires_grad_() for name, p in parameters.items()}
    first, second = ([torch.zeros_like(p) for p in parameters.values()] for _ in range(2))
    rates, warmups = torch.tensor(rates), torch.tensor(warmups)
    history = []

    def loss_of(parameters, buffers, row):
        logits = functional_call(models[0], (parameters, buffers), (row,))
        return F.cross_entropy(logits.flatten(0, 1), row.flip(1).flatten())

    for step in range(1, rows.shape[1] + 1):
        with sdpa_kernel(SDPBackend.MATH):  # vmap would take the fused kernel one by one
            losses = vmap(loss_of)(parameters, buffers, rows[:, step - 1])
        gradients = torch.autograd.grad(
            losses.sum(), list(parameters.values()), materialize_grads=True
        )
        rate = rates * (step / warmups).clamp(max=1) / (1 - 0.9**step)
        with torch.no_grad():
            for p, g, m, v in zip(parameters.values(), gradients, first, second, strict=True):
                m.lerp_(g, 0.1)
                v.mul_(0.98).addcmul_(g, g, value=0.02)
                root = (v / (1 - 0.98**step)).sqrt() + 1e-8
                p.sub_(rate.view(-1, *[1] * (p.dim() - 1)) * m / root)
        history.append(losses.detach())
    return torch.stack(history, dim=1)


def measure(*, smoke: bool = False) -> list[dict]:
    """Return a row for each setting and seed: what it is, and the mean loss of every 20 steps."""
    code, rows = lesson(), []
    seeds, steps = (range(1), 2) if smoke else (SEEDS, STEPS)
    digits = [[x for (x,), _ in code["rows_of_digits"](steps, seed)] for seed in seeds]
    digits = torch.stack([torch.stack(batches) for batches in digits])
    for frame, layers, rates, warmups, starts in PLANS:
        runs = list(product(rates, warmups, starts, seeds))
        models = [new_model(code, frame, layers, start, seed) for *_, start, seed in runs]
        settings = list(zip(*runs, strict=True))
        rows_of_all = digits.repeat(len(runs) // len(seeds), 1, 1, 1)
        losses = train_together(models, rows_of_all, *settings[:2])
        for (rate, warmup, start, seed), each in zip(runs, losses, strict=True):
            means = [round(part.mean().item(), 3) for part in each.split(SHOWN)]
            row = {"frame": frame, "layers": layers, "rate": rate, "warmup": warmup}
            row |= {"start": start, "seed": seed}
            rows.append(row | {"losses": means})
            print(*row.values(), *means[9::10], flush=True)
    return rows


def main(arguments: list[str] | None = None) -> None:
    """Measure and write layers.json."""
    options = report.read_options("layers", __doc__, arguments)
    result = report.describe_run("layers", smoke=options.smoke)
    result |= {"steps": 2 if options.smoke else STEPS, "steps per loss": SHOWN}
    result["rows"] = measure(smoke=options.smoke)
    if options.output:
        report.write(options.output / "layers.json", result)


if __name__ == "__main__":
    main()
