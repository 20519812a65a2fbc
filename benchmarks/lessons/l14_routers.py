"""`python -m benchmarks.lessons.l14_routers`: what a router has learnt, for lesson 14.

**Strangers.** Lesson 14's model with eight experts and the balance loss, 500 steps at the lesson's
rate, three seeds. How do the routers send the letters of validation captions, before the training
and after it? And how would routers send them that are newly drawn and have learnt nothing, if they
saw what goes into the routers of the trained model? Twenty such strangers for each layer; the same
twenty once more with a constant added to each expert's score, so that all get an equal share.

**By letter.** The fixed route of `l14_experts`, which no router has learnt, for 2,000 steps; the
rate is chosen as there.

**Controls.** The fixed route differs from the learnt one in two things, the route and the gate, so
here they are exchanged one at a time, for 500 steps at the lesson's rate. The fixed route, with its
experts multiplied by a gate that a layer learns, and no balance loss (at half and at twice the rate
too); a new router with a gate of 1 and no balance loss, which gets no gradient and never moves; and
a learnt router whose gate is divided by its own value, so that it is 1 and still has a slope.

**Put back.** The trained model once more, with the router of its first day put back into it.
"""

from functools import cache, partial

import torch
from torch import nn

from benchmarks.lessons import l14_experts as experts
from benchmarks.lessons.rows import measure_rows

RATE, STRANGERS = 1.2e-2, 20  # the lesson's rate
SEEDS = range(3)
CONTROLS = ("by letter, a learnt gate", "a new router, gate 1", "a learnt router, gate 1")
LENGTHS = {"strangers": 500, "by letter": 2000} | dict.fromkeys((*CONTROLS, "put back"), 500)


def plan(smoke: bool) -> list[dict]:
    """Return a setting for each model and seed."""
    if smoke:
        return [{"question": name, "seed": 0} | experts.SMOKE for name in LENGTHS]
    settings = [(name, steps, {}) for name, steps in LENGTHS.items()]
    settings += [(CONTROLS[0], 500, {"rate": rate}) for rate in (RATE / 2, 2 * RATE)]
    return [
        {"question": name, "seed": seed, "d_model": 48, "steps": steps}
        | ({"rate": RATE} if name in CONTROLS else {})
        | more
        for name, steps, more in settings
        for seed in SEEDS
    ]


@torch.no_grad()
def read(model) -> tuple[torch.Tensor, list[torch.Tensor], list[torch.Tensor]]:
    """Return letters (N,), and for each layer what its router sees (N, d), whom it chooses (N,)."""
    windows = experts.lesson()["windows_of"](experts.lesson()["TEXT"].valid)[:, :-1]
    seen, mixtures = [], experts.mixtures_of(model)
    handles = [
        mixture.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].flatten(0, -2)))
        for mixture in mixtures
    ]
    model(windows)
    for handle in handles:
        handle.remove()
    return windows.flatten(), seen, [mixture.chosen for mixture in mixtures]


def evened(scores: torch.Tensor, steps: int = 400) -> torch.Tensor:
    """Return the choices (N,) by scores (N, E) once each expert has been made equally busy."""
    offset, size, even = torch.zeros(scores.shape[1]), scores.std(), 1 / scores.shape[1]
    for step in range(steps):
        chosen = (scores - offset).argmax(dim=1)
        share = chosen.bincount(minlength=scores.shape[1]) / len(chosen)
        offset += size * (1.0 if step < steps / 2 else 0.2) * (share - even)
    return (scores - offset).argmax(dim=1)


def strangers(seed: int, d_model: int, steps: int) -> list[dict]:
    """Return a row for each layer: its own router before and after, and strangers after."""
    code, model = experts.lesson(), experts.build("8 experts", seed, d_model)
    mixtures = experts.mixtures_of(model)

    letters, _, chosen = read(model)
    before = [experts.route(letters, some) for some in chosen]
    for _ in code["learn"](model, steps, RATE, seed, extra=partial(experts.balance, mixtures)):
        pass
    letters, seen, chosen = read(model)
    rows = []
    for layer, (x, own) in enumerate(zip(seen, chosen, strict=True), 1):
        scores = [x @ router.T for router in new_routers(d_model)]
        rows.append(
            {
                "layer": layer,
                "before": before[layer - 1],
                "after": experts.route(letters, own),
                "strangers": [experts.route(letters, some.argmax(dim=1)) for some in scores],
                "strangers_evened": [experts.route(letters, evened(some)) for some in scores],
                "valid": round(code["bits"](model), 4),
            }
        )
    return rows


@cache
def new_routers(d_model: int) -> list[torch.Tensor]:
    """Return weights (8, d_model) as a new router has them, twenty times."""
    torch.manual_seed(1000)
    return [nn.Linear(d_model, 8, bias=False).weight.detach() for _ in range(STRANGERS)]


@cache
def kinds() -> dict:
    """Return the class of each control's experts."""

    class Gated(experts.lesson()["Experts"]):
        def forward(self, x):
            tokens = x.flatten(0, -2)
            self.probabilities = self.router(tokens).softmax(dim=-1)
            self.choose(tokens)
            gate = self.gate(self.probabilities.gather(1, self.chosen[:, None]))
            output = torch.zeros_like(tokens)
            for number, expert in enumerate(self.experts):
                mine = self.chosen == number
                output[mine] = gate[mine] * expert(tokens[mine])
            return output.view_as(x)

        def choose(self, tokens):
            self.chosen = self.probabilities.argmax(dim=-1)

        def gate(self, probability):
            return probability / probability.detach()  # 1, with the slope of the logarithm

    class ByLetter(Gated):
        letters = None  # what the model reads now

        def choose(self, tokens):
            self.chosen = self.letters.flatten() % len(self.experts)

        def gate(self, probability):
            return probability

    return dict(zip(CONTROLS, (ByLetter, experts.lesson()["FromMemory"], Gated), strict=True))


def control(question: str, seed: int, d_model: int, steps: int, rate: float) -> dict:
    """Train one of the controls once."""
    code, kind = experts.lesson(), kinds()[question]
    torch.manual_seed(seed)
    model = code["LanguageModel"](d_model, partial(kind, d_model, 4 * d_model, 8))
    mixtures = experts.mixtures_of(model)

    def tell(module, inputs):
        for mixture in mixtures:
            mixture.letters = inputs[0]

    model.register_forward_pre_hook(tell)
    extra = partial(experts.balance, mixtures) if question == "a learnt router, gate 1" else None
    for _ in code["learn"](model, steps, rate, seed, extra=extra):
        pass
    return {
        "valid": round(code["bits"](model), 4),
        "test": round(code["bits"](model, code["TEXT"].test), 4),
        "busiest": [round(max(experts.shares(m.chosen, 8)), 4) for m in mixtures],
        "probability": [round(chosen_probability(m), 4) for m in mixtures],
    }


def chosen_probability(mixture) -> float:
    """Return the mean probability that a mixture's router gives to the chosen expert."""
    return mixture.probabilities.gather(1, mixture.chosen[:, None]).mean().item()


def put_back(seed: int, d_model: int, steps: int) -> list[dict]:
    """Return a row for each layer: the trained router, and the first day's in its place."""
    code, model = experts.lesson(), experts.build("8 experts", seed, d_model)
    mixtures = experts.mixtures_of(model)
    first = [mixture.router.weight.detach().clone() for mixture in mixtures]

    for _ in code["learn"](model, steps, RATE, seed, extra=partial(experts.balance, mixtures)):
        pass
    letters, seen, chosen = read(model)
    return [
        {
            "layer": layer,
            "after": experts.route(letters, own),
            "put_back": experts.route(letters, (x @ router.T).argmax(dim=1)),
        }
        for layer, (x, own, router) in enumerate(zip(seen, chosen, first, strict=True), 1)
    ]


def run(question: str, seed: int, d_model: int, steps: int, rate: float = RATE) -> list[dict]:
    """Return the rows of one question and seed."""
    if question in CONTROLS:
        return [control(question, seed, d_model, steps, rate)]
    if question in ("strangers", "put back"):
        return (strangers if question == "strangers" else put_back)(seed, d_model, steps)
    return [experts.run("8 experts, by letter", seed, d_model, steps)]


def main(arguments: list[str] | None = None) -> None:
    """Measure everything that l14_routers.json does not have yet."""
    measure_rows("l14_routers", __doc__, arguments, plan, run)


if __name__ == "__main__":
    main()
