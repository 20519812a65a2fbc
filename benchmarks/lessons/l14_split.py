"""`python -m benchmarks.lessons.l14_split`: a trained network cut into experts, and what is kept.

The feed-forward networks of the translator and of the three readers of dates, cut into 8 groups of
units, of which a token uses 1, 2 or 4; with the code of lesson 14. Groups are of units that fire
together, or random (three cuts); they are chosen by an oracle, which has computed all units, by a
linear router that was fitted on other sentences, or once and for all (the groups with the most
effort on those sentences). `single` lets the oracle choose as many single units. The translator is
scored by its loss on 300 validation captions and by BLEU on 100 of test2016 (beam 1), the readers
by exact match on 300 unseen dates.
"""

from functools import cache, partial

import sacrebleu
import torch

from benchmarks.lessons.lesson_code import lesson_code
from benchmarks.lessons.rows import measure_rows
from transformer_lab import Batch, date_pairs, load_multi30k, load_run, validate
from transformer_lab.runs import PRETRAINED, encode_pairs

EXPERTS, KEEPS = 8, (1, 2, 4)
MODELS = ("translator", "reader 0", "reader 1", "reader 2")
WAYS = (
    ("firing together", "oracle"),
    ("random", "oracle"),
    ("firing together", "learnt"),
    ("random", "learnt"),
    ("firing together", "always the same"),
    ("single", "oracle"),
)
WAYS += tuple((f"random, cut {seed}", router) for seed in (1, 2) for router in ("oracle", "learnt"))
NAMES = ("networks_of", "hidden_numbers", "cofiring_groups", "random_groups", "learnt_router")
lesson = cache(partial(lesson_code, "14", *NAMES, "effort", "as_experts"))


def plan(smoke: bool) -> list[dict]:
    """Return the settings: each model whole, without its networks, then each way of routing."""
    models = MODELS[1:2] if smoke else MODELS
    settings = [(*way, keep) for way in WAYS for keep in KEEPS]
    settings = settings[:4:3] if smoke else settings
    whole = [("whole", "whole", EXPERTS), ("nothing", "nothing", 0)]
    return [
        {"model": model, "groups": groups, "router": router, "keep": keep}
        for model in models
        for groups, router, keep in whole + settings
    ]


@cache
def task_of(name: str) -> tuple:
    """Return a run, the batch that groups and routers are fitted on, and two kinds of tests."""
    if name == "translator":
        run, data = load_run(), load_multi30k()
        fitted, seen, written = data["train"][:300], data["val"][:300], data["test2016"][:100]
    else:
        run = load_run(PRETRAINED / name.replace("reader ", "dates_"))
        fitted, seen = date_pairs(400, seed=7), date_pairs(300, seed=8, split="test")
        written = seen
    encoded = encode_pairs(run.tokenizer, fitted)
    return run, Batch.from_pairs(encoded), encode_pairs(run.tokenizer, seen), written


@cache
def hidden_of(name: str) -> list:
    """Return what goes into each network and its units, on the batch that all is fitted on."""
    run, batch, *_ = task_of(name)
    return lesson()["hidden_numbers"](run.model, batch)


@cache
def cut(name: str, kind: str) -> list:
    """Return the groups of each network."""
    if kind == "single":
        return [torch.arange(hidden.shape[1])[:, None] for _, hidden in hidden_of(name)]
    if kind == "firing together":
        return [lesson()["cofiring_groups"](hidden, EXPERTS) for _, hidden in hidden_of(name)]
    seed = int(kind.removeprefix("random").removeprefix(", cut ") or 0)
    return [lesson()["random_groups"](hidden, EXPERTS, seed) for _, hidden in hidden_of(name)]


@cache
def routers_of(name: str, kind: str, router: str) -> list | None:
    """Return what chooses the groups of each network; None is the oracle."""
    if router == "oracle":
        return None
    torch.manual_seed(0)
    networks, fitted = lesson()["networks_of"](task_of(name)[0].model), []
    for network, groups, (x, hidden) in zip(
        networks, cut(name, kind), hidden_of(name), strict=True
    ):
        if router == "learnt":
            fitted.append(lesson()["learnt_router"](network, x, hidden, groups))
        else:
            mean = lesson()["effort"](network, hidden, groups).mean(dim=0)
            fitted.append(lambda x, mean=mean: mean.expand(*x.shape[:-1], -1))
    return fitted


def run(model: str, groups: str, router: str, keep: int) -> dict:
    """Score one model cut in one way."""
    trained, _, seen, written = task_of(model)
    if groups == "whole":
        return scores(trained, seen, written)
    kind = "random" if groups == "nothing" else groups
    parts = cut(model, kind)
    units = keep * parts[0].numel() // EXPERTS if groups == "single" else keep
    routers = None if groups == "nothing" else routers_of(model, groups, router)
    with lesson()["as_experts"](trained.model, parts, units, routers):
        return scores(trained, seen, written)


def scores(trained, seen: list, written: list) -> dict:
    """Return loss and accuracy per token after the truth, and BLEU or exact match in writing."""
    found = validate(trained.model, seen)
    sources, references = zip(*written, strict=True)
    outputs = trained.translate(list(sources), beam=1)
    right = sum(map(str.__eq__, outputs, references)) / len(references)
    bleu = sacrebleu.corpus_bleu(outputs, [list(references)]).score
    shown = {"loss": found["loss"], "accuracy": found["accuracy"], "exact": right, "bleu": bleu}
    return {name: round(score, 4) for name, score in shown.items()}


def main(arguments: list[str] | None = None) -> None:
    """Score everything that l14_split.json does not have yet."""
    measure_rows("l14_split", __doc__, arguments, plan, run)


if __name__ == "__main__":
    main()
