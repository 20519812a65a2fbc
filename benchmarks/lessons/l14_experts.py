"""`python -m benchmarks.lessons.l14_experts`: eight experts beside one network, for lesson 14.

The small language model of lesson 14 on captions, letter by letter, with one network in each of its
two layers, or with eight experts of the same width, of which a token uses one. Three seeds, runs of
500 steps; one network and eight experts ran for 2,000 steps too. Validation captions choose the
learning rate with seed 0: one of three for these two kinds, the upper two of them for the others,
and for 2,000 steps the chosen one or half of it.

`by letter` sends each token to an expert by its letter, which nobody has learnt, with a gate of 1.
`gate forgotten` does not multiply by the gate at all: only the balance loss moves the router.
"""

from functools import cache, partial

import torch
import torch.nn.functional as F

from benchmarks.lessons.lesson_code import lesson_code
from benchmarks.lessons.rows import measure_rows

RATES, SEEDS, WEIGHT = (6e-3, 1.2e-2, 2.4e-2), range(3), 0.02
LOOKS = (0, 25, 50, 100, 200, 500, 1000, 2000)
SIZES, SMOKE = {"d_model": 48, "steps": 500}, {"d_model": 16, "steps": 2}
PLANS = {
    "dense": {"experts": 1, "share": 1},
    "8 experts": {"experts": 8, "share": 1, "balance": True},
    "8 experts, no balance loss": {"experts": 8, "share": 1},
    "8 experts, gate forgotten": {"experts": 8, "share": 1, "balance": True, "gate": "forgotten"},
    "8 experts, by letter": {"experts": 8, "share": 1, "gate": "letter"},
    "dense, 8 times as wide": {"experts": 1, "share": 8},
}
LONG = ("8 experts", "dense")
COMMON = " etaoinshrdlcumwfgypbvk.A"
NAMES = ("LanguageModel", "Experts", "FromMemory", "relu_network", "balance_loss")
lesson = cache(partial(lesson_code, "14", *NAMES, "TEXT", "windows_of", "bits", "learn"))


def plan(smoke: bool) -> list[dict]:
    """Return a setting for each model, length of the run and seed."""
    if smoke:
        return [{"variant": name, "seed": 0} | SMOKE for name in PLANS]
    lengths = ((500, PLANS), (2000, LONG))
    return [
        {"variant": name, "seed": seed} | SIZES | {"steps": steps}
        for steps, names in lengths
        for name in names
        for seed in SEEDS
    ]


class ByLetter(torch.nn.Module):
    """Stands in a router's place: the expert of a token depends on its letter alone."""

    def __init__(self, num_experts: int):
        super().__init__()
        self.num_experts, self.tokens = num_experts, None

    def forward(self, x):
        # Letters in the order of their numbers, dealt round; after the softmax the gate is 1.
        return 50.0 * F.one_hot(self.tokens.flatten() % self.num_experts, self.num_experts)


def build(variant: str, seed: int, d_model: int):
    """Return a new model of this kind."""
    settings = PLANS[variant]
    count, width, gate = settings["experts"], settings["share"] * 4 * d_model, settings.get("gate")

    def network():
        if count == 1:
            return lesson()["relu_network"](d_model, width)
        kind = lesson()["FromMemory" if gate == "forgotten" else "Experts"]
        experts = kind(d_model, width, count)
        if gate == "letter":
            experts.router = ByLetter(count)
        return experts

    torch.manual_seed(seed)
    model = lesson()["LanguageModel"](d_model, network)
    routers = [part for part in model.modules() if isinstance(part, ByLetter)]

    def tell(module, inputs):
        for router in routers:
            router.tokens = inputs[0]

    model.register_forward_pre_hook(tell)
    return model


def mixtures_of(model) -> list:
    """Return the mixtures of a model, layer by layer; a dense one has none."""
    return [block.network for block in model.blocks if hasattr(block.network, "experts")]


@torch.no_grad()
def look(model) -> dict:
    """Return the use of the experts on validation captions, and how they sort the letters."""
    read = lesson()["windows_of"](lesson()["TEXT"].valid)[:, :-1]
    model(read)
    mixtures = mixtures_of(model)
    routes = [route(read.flatten(), m.chosen, len(m.experts)) for m in mixtures]
    use = [[round(s, 4) for s in shares(m.chosen, len(m.experts))] for m in mixtures]
    return {"use": use} | {key: [each[key] for each in routes] for key in ("sorted", "true_to_one")}


def route(letters: torch.Tensor, chosen: torch.Tensor, count: int = 8) -> dict:
    """Return how strictly letters (N,) are kept together by the chosen experts (N,).

    `sorted` is the share of the tokens that go where most tokens of their letter go; `true_to_one`
    counts the letters, of the 25 commonest, of which one expert gets at least four in five;
    `by_letter` is the share of the choice, in bits, that the letter decides; `busiest` the share of
    the tokens that the busiest expert gets.
    """
    table = (letters * count + chosen).bincount(minlength=1000 * count).view(-1, count).double()
    common = table[lesson()["TEXT"].encode(COMMON)]
    most = common.amax(dim=1) / common.sum(dim=1).clamp(min=1)
    both = table / table.sum()
    uncertain = bits_of(both.sum(dim=0))
    told = uncertain + bits_of(both.sum(dim=1)) - bits_of(both.flatten())
    return {
        "sorted": round(table.amax(dim=1).sum().item() / len(chosen), 4),
        "true_to_one": int((most >= 0.8).sum()),
        "by_letter": round(told / uncertain, 4) if uncertain else 0.0,
        "busiest": round(table.sum(dim=0).max().item() / len(chosen), 4),
    }


def bits_of(probabilities: torch.Tensor) -> float:
    """Return the entropy in bits."""
    some = probabilities[probabilities > 0]
    return -(some * some.log2()).sum().item()


def balance(mixtures: list) -> torch.Tensor:
    """Return what is added to the loss so that all experts of a model get work."""
    losses = (lesson()["balance_loss"](m.probabilities, m.chosen) for m in mixtures)
    return WEIGHT * sum(losses)


def shares(chosen: torch.Tensor, count: int) -> list[float]:
    """Return the share of the tokens that each expert gets."""
    return (chosen.bincount(minlength=count) / len(chosen)).tolist()


@cache
def train(variant: str, seed: int, rate: float, d_model: int, steps: int) -> dict:
    """Train once; return the losses, and the use of the experts on the way."""
    code, model = lesson(), build(variant, seed, d_model)
    mixtures = mixtures_of(model)
    extra = partial(balance, mixtures) if "balance" in PLANS[variant] else None
    looks = {0: look(model)}
    for step in code["learn"](model, steps, rate, seed, extra=extra):
        if step in LOOKS or step == steps:
            looks[step] = look(model)
    return {
        "valid": round(code["bits"](model), 4),
        "test": round(code["bits"](model, code["TEXT"].test), 4),
        "looks": looks if mixtures else {},
        "parameters": sum(p.numel() for p in model.parameters()),
    }


def validated(variant: str, d_model: int, steps: int, rates: tuple) -> dict:
    """Return the validation loss of seed 0 at each of these rates."""
    return {rate: train(variant, 0, rate, d_model, steps)["valid"] for rate in rates}


def run(variant: str, seed: int, d_model: int, steps: int) -> dict:
    """Train once at the rate with the lowest validation loss at seed 0."""
    rates = RATES if variant in LONG else RATES[1:]
    losses = validated(variant, d_model, min(steps, SIZES["steps"]), rates)
    if steps > SIZES["steps"]:
        best = min(losses, key=losses.get)
        losses = validated(variant, d_model, steps, (best / 2, best))
    rate = min(losses, key=losses.get)
    width = PLANS[variant]["share"] * 4 * d_model
    return {
        "rate": rate,
        "valid_by_rate": {str(rate): loss for rate, loss in losses.items()},
        "network_parameters": 2 * d_model * width * PLANS[variant]["experts"],
        "network_flops": 4 * d_model * width,  # for a token, in each layer; no router
    } | train(variant, seed, rate, d_model, steps)


def main(arguments: list[str] | None = None) -> None:
    """Train everything that l14_experts.json does not have yet."""
    measure_rows("l14_experts", __doc__, arguments, plan, run)


if __name__ == "__main__":
    main()
