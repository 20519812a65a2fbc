"""`python -m benchmarks.lessons.l14_experts`: experts at equal operations and at equal size.

The language model of lesson 13 (pre-norm, RMSNorm, rotary positions; ReLU networks), with a dense
feed-forward network or a top-1 mixture in each of its two layers. `share` is the width of a network
that a token passes through, in units of the plain one; `experts` how many of them there are. Four
learning rates for each, chosen by the validation lesson with seed 0; then five more seeds. `fixed`
sends each token to an expert by its letter, which nobody has learnt, with a gate of 1; `by place`
by its place in the text, which says nothing of the letter. `gate of 1` learns the router, but
divides the output by the gate's value: only its gradient is left.
"""

from functools import cache, partial

import torch
import torch.nn.functional as F

from benchmarks.lessons.l13_newer import corpus_mark, mean
from benchmarks.lessons.lesson_code import lesson_code
from benchmarks.lessons.rows import measure_rows

RATES, SEEDS, WEIGHT = (3e-3, 6e-3, 1.2e-2, 2.4e-2), range(6), 0.02
SIZES = {"d_model": 48, "steps": 250}
SMOKE = {"d_model": 16, "steps": 2}
PLANS = {
    "dense": {"experts": 1, "share": 1.0},
    "8 experts": {"experts": 8, "share": 1.0, "balance": WEIGHT},
    "8 experts, no balance loss": {"experts": 8, "share": 1.0, "balance": 0.0},
    "8 experts, fixed": {"experts": 8, "share": 1.0, "balance": 0.0, "fixed": "letter"},
    "8 experts, by place": {"experts": 8, "share": 1.0, "balance": 0.0, "fixed": "place"},
    "8 experts, gate of 1": {"experts": 8, "share": 1.0, "balance": WEIGHT, "undamped": True},
    "dense, 8 times as wide": {"experts": 1, "share": 8.0},
    "8 experts of an eighth": {"experts": 8, "share": 0.125, "balance": WEIGHT},
    "dense, an eighth as wide": {"experts": 1, "share": 0.125},
    # As many as "8 experts of an eighth" with their router, whose map is as large as four units.
    "dense, as many operations": {"experts": 1, "share": 28 / 192},
}
NAMES = ("LanguageModel", "OF_NOW", "Experts", "relu_network", "listening", "balance_loss")
lesson = cache(partial(lesson_code, "13", *NAMES, "TRAIN", "VALID", "TEST", "bits", "learn"))


def plan(smoke: bool) -> list[dict]:
    """Return a setting for each model and seed."""
    sizes, seeds = (SMOKE, SEEDS[:1]) if smoke else (SIZES, SEEDS)
    return [{"variant": name, "seed": seed} | sizes for name in PLANS for seed in seeds]


class Fixed(torch.nn.Module):
    """Stands in a router's place: the expert of a token depends on its letter or place alone."""

    def __init__(self, num_experts: int, by: str):
        super().__init__()
        self.num_experts, self.by, self.tokens = num_experts, by, None

    def forward(self, x):
        # Letters in the order of their code points, or places, dealt round; the gate is 1.
        places = torch.arange(self.tokens.shape[1]).expand_as(self.tokens)
        dealt = self.tokens if self.by == "letter" else places
        return 50.0 * F.one_hot(dealt.flatten() % self.num_experts, self.num_experts)


def undamped(module: torch.nn.Module, inputs: tuple, output: torch.Tensor) -> torch.Tensor:
    """Return the output of experts divided by their gates, which stay in the gradient."""
    probabilities = module.router(inputs[0].flatten(0, -2)).softmax(dim=-1)
    return output / probabilities.amax(dim=-1).detach().view(*output.shape[:-1], 1)


def build(variant: str, seed: int, d_model: int):
    """Return a new model of this kind."""
    settings = PLANS[variant]
    count, width = settings["experts"], round(settings["share"] * 4 * d_model)

    def network():
        if count == 1:
            return lesson()["relu_network"](d_model, width)
        experts = lesson()["Experts"](d_model, width, count)
        if settings.get("fixed"):
            experts.router = Fixed(count, settings["fixed"])
        if settings.get("undamped"):
            experts.register_forward_hook(undamped)
        return experts

    torch.manual_seed(seed)
    switches = lesson()["OF_NOW"] | {"swiglu": False, "grouped": False}
    model = lesson()["LanguageModel"](d_model, switches, make_network=network)
    fixed = [part for part in model.modules() if isinstance(part, Fixed)]

    def tell(module, inputs):
        for router in fixed:
            router.tokens = inputs[0]

    model.register_forward_pre_hook(tell)
    return model


@cache
def train(variant: str, seed: int, rate: float, d_model: int, steps: int):
    """Return a trained model, its history, and the use of its experts on the validation lesson."""
    code, model = lesson(), build(variant, seed, d_model)
    weight = PLANS[variant].get("balance", 0.0)
    with code["listening"](model) as heard:

        def extra():
            return weight * sum(code["balance_loss"](p, p.argmax(dim=-1)) for p in heard)

        history = [*code["learn"](model, code["TRAIN"], steps, rate, seed, extra=extra)]
        valid = round(code["bits"](model, code["VALID"]), 4)
        use = [F.one_hot(p.argmax(dim=-1), p.shape[-1]).float().mean(dim=0).tolist() for p in heard]
    return model, history, valid, [[round(share, 4) for share in layer] for layer in use]


def run(variant: str, seed: int, d_model: int, steps: int) -> dict:
    """Train once at the rate with the lowest loss of the validation lesson at seed 0."""
    losses = {rate: train(variant, 0, rate, d_model, steps)[2] for rate in RATES}
    rate = min(losses, key=losses.get)
    model, history, valid, use = train(variant, seed, rate, d_model, steps)
    width = round(PLANS[variant]["share"] * 4 * d_model)
    return {
        "rate": rate,
        "valid_by_rate": {str(rate): loss for rate, loss in losses.items()},
        "valid": valid,
        "test": round(lesson()["bits"](model, lesson()["TEST"]), 4),
        "train": round(mean(history[-steps // 10 :]), 4),
        "seconds": round(history[-1][0], 2),
        "network_parameters": 2 * d_model * width * PLANS[variant]["experts"],
        "network_flops": 4 * d_model * width,  # for a token, in each layer; no router
        "use": use,
        "corpus": corpus_mark(),
    }


def main(arguments: list[str] | None = None) -> None:
    """Train everything that l14_experts.json does not have yet."""
    measure_rows("l14_experts", __doc__, arguments, plan, run)


if __name__ == "__main__":
    main()
