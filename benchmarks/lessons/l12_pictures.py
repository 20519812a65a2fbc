"""`python -m benchmarks.lessons.l12_pictures`: captions of drawn scenes, with four controls.

The captioner of lesson 12 for three seeds, scored on pictures drawn as those of the training, on
things never seen together and on things never seen at the right. A short training stands beside
its controls, each as long: pictures shuffled among the captions; positions in one dimension (a
sinusoid along the patches) and none. With things never seen together: two and three things apart,
where related things differ in colour. Of the longer one, where each word looks, against the middle
of the picture, any patch, each head, and the model before it was trained; and how it does on a
thing at a place where it was never seen, by the phrase in which it is named.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial

import torch

from benchmarks.lessons.lesson_code import lesson_code
from benchmarks.lessons.rows import measure_rows
from transformer_lab import sinusoidal_encoding, train_tokenizer
from transformer_lab.data.scenes import SIDE, SPLITS, scenes

NAMES = ("learn", "Captioner", "caption_config", "pictures_and_captions", "next_token_loss")
NAMES += ("all_right", "looks", "by_phrase", "matched")
ARMS = ("longer", "as it is", "pictures shuffled", "positions 1-D", "no positions")
LONG = {"scenes": 8000, "tests": 400, "rows": 64, "patch": 4, "rate": 3e-3, "seeds": 3}
LONG |= {"right": 1000, "others": 8000, "matched": 1500}
LONG |= {"steps": 600, "control_steps": 250, "every": 50}
SMOKE = LONG | {"scenes": 20, "tests": 10, "rows": 4, "seeds": 1, "steps": 2, "control_steps": 1}
SMOKE |= {"every": 1, "right": 20, "others": 100, "matched": 20}


def changed(code: dict, arm: str, model, images: torch.Tensor) -> torch.Tensor:
    """Make the model and the pictures of the training those of an arm; return the pictures."""
    if arm in ("positions 1-D", "no positions"):
        across = SIDE // model.patch
        codes = sinusoidal_encoding(across**2, model.config.d_model).view(across, across, -1)
        model.column.data.zero_().requires_grad_(False)
        model.row = torch.nn.Parameter(codes * (arm == "positions 1-D"), requires_grad=False)
    return images[torch.randperm(len(images))] if arm == "pictures shuffled" else images


def train_once(code: dict, data: dict, arm: str, sizes: dict, seed: int) -> dict:
    """Train one captioner; return its shares of exact captions by step, and where it looks."""
    torch.manual_seed(seed)
    model = code["Captioner"](code["caption_config"](data["tokenizer"]), SIDE, sizes["patch"])
    images, tokens = data["train"]
    images, exact = changed(code, arm, model, images), {}
    untrained = looks_at(code, model, data) if arm == "longer" else {}

    def loss():
        drawn = torch.randint(len(images), (sizes["rows"],))
        read = tokens[drawn]
        return code["next_token_loss"](model(images[drawn], read), read, read != 0)

    def watch(step: int) -> None:
        if step % sizes["every"] == 0:
            exact[step] = score(code, model.eval(), data["tests"])
            model.train()

    start = time.process_time()
    steps = sizes["steps" if arm == "longer" else "control_steps"]
    code["learn"](model, loss, steps, sizes["rate"], watch)
    row = {"arm": arm, "seed": seed, "steps": steps, "exact": exact}
    row["cpu_seconds"] = round(time.process_time() - start, 1)
    if arm in ("longer", "as it is"):
        row["matched"] = score(code, model, data["matched"])
    if arm == "longer":
        row |= {"looks": looks_at(code, model, data), "looks_untrained": untrained}
        row["by_phrase"] = score(code, model, data["phrases"])
    return row


@torch.no_grad()
def score(code: dict, model, tests: dict) -> dict:
    """Return the share of exact captions of each split."""
    return {
        split: code["all_right"](model(images, tokens), tokens, tokens != 0).double().mean().item()
        for split, (images, tokens, _) in tests.items()
    }


def looks_at(code: dict, model, data: dict) -> dict:
    """Return how often the words that name a thing look at it, on the pictures of "test"."""
    images, tokens, drawn = data["tests"]["test"]
    return code["looks"](model.eval(), images, tokens, drawn)


def matched_scenes(code: dict, drawn: int, split: str, count: int) -> list:
    """Return pictures with so many things, whose related ones differ in colour in any split."""
    some = scenes(drawn, 2, split=split)
    return [scene for scene in some if len(scene.pixels) == count and code["matched"](scene)]


def plan(smoke: bool) -> Iterator[tuple[dict, Callable]]:
    """Yield each training, seed by seed, and what trains; the pictures are the same for all."""
    code, sizes = lesson_code("12", *NAMES), SMOKE if smoke else LONG
    train = scenes(sizes["scenes"], 0)
    tokenizer = train_tokenizer([scene.caption for scene in train], 100)
    data = {"tokenizer": tokenizer, "train": code["pictures_and_captions"](train, tokenizer)}
    drawn = {split: scenes(sizes["tests"], 1, split=split) for split in SPLITS if split != "train"}
    data["tests"] = {
        split: (*code["pictures_and_captions"](some, tokenizer), some)
        for split, some in drawn.items()
    }
    data["matched"] = {
        f"{split}, {count} things": (*code["pictures_and_captions"](some, tokenizer), some)
        for split in ("test", "together")
        for count in (2, 3)
        if (some := matched_scenes(code, sizes["matched"], split, count))
    }
    related = scenes(sizes["right"], 2, split="right") + scenes(sizes["others"], 2, split="test")
    data["phrases"] = {
        f"{name}, {'behind left of' if behind else 'otherwise'}": (
            *code["pictures_and_captions"](some, tokenizer),
            some,
        )
        for (name, behind), some in code["by_phrase"](related).items()
        if some
    }
    for seed in range(sizes["seeds"]):
        for arm in ARMS:
            yield {"arm": arm, "seed": seed}, partial(train_once, code, data, arm, sizes, seed)


def notes(smoke: bool) -> dict:
    return {"sizes": SMOKE if smoke else LONG}


def main(arguments: list[str] | None = None) -> None:
    """Train what l12_pictures.json does not have yet."""
    measure_rows("l12_pictures", __doc__, arguments, plan, notes=notes)


if __name__ == "__main__":
    main()
