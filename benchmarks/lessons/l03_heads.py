"""`python -m benchmarks.lessons.l03_heads`: lesson 03's experiments, with more seeds and steps.

The code is the lesson's own, loaded from its evidence: two look-ups with one head and with two,
and what stands in front of a head or behind it. Four parts are here alone: scores that stay 0,
letters in the place of random numbers, words that a matrix or a network reads off a mixture, and
the course's translator without some of its encoder's heads.
"""

import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import permutations

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.lessons.lesson_code import lesson_code
from benchmarks.lessons.rows import measure_rows
from transformer_lab import BOS, MultiHeadAttention, Run, load_multi30k, load_run

SEEDS, STEPS = range(5), 1500
EVERYTHING, MARKS = slice(None), slice(4, 6)  # of the letters' features

lesson = partial(
    lesson_code,
    "03",
    *("MultiHead", "KeysSeeMarks", "WithNetwork", "AsksFirst", "WrongView", "SharedSlices"),
    *("two_marks", "two_names", "train_on", "explained"),
)


def with_equal_weights(network: Callable) -> nn.Module:
    """Return the network in front of a head whose scores stay 0."""
    model = network("in front")
    nn.init.zeros_(model.w_q.weight).requires_grad_(False)
    return model


def kinds(code: dict) -> dict[str, tuple[Callable, Callable]]:
    """Return the data and the maker of the model for each kind of run, as in the lesson."""
    heads, network = code["MultiHead"], code["WithNetwork"]
    marks, names = code["two_marks"], code["two_names"]
    torch.manual_seed(0)
    rotation, _ = torch.linalg.qr(torch.randn(16, 16))
    return {
        "one head": (marks, partial(heads, 16, 1)),
        "keys see marks only": (marks, partial(code["KeysSeeMarks"], 16, 1)),
        "network behind": (marks, partial(network, "behind")),
        "network in front": (marks, partial(network, "in front")),
        "the same, scores of 0": (marks, partial(with_equal_weights, network)),
        "two heads": (marks, partial(heads, 16, 2)),
        "by name: one head": (names, partial(heads, 16, 1)),
        "by name: network behind": (names, partial(network, "behind")),
        "by name: network in front": (names, partial(network, "in front")),
        "by name: asks the verb first": (names, code["AsksFirst"]),
        "by name: two heads": (names, partial(heads, 16, 2)),
        "by name: wrong view": (names, partial(code["WrongView"], 16, 2)),
        "by name: wrong view, 4 heads": (names, partial(code["WrongView"], 16, 4)),
        "wrong view": (marks, partial(code["WrongView"], 16, 2)),
        "shared slices": (marks, partial(code["SharedSlices"], 16, 2)),
        "shared slices, turned": (marks, partial(code["SharedSlices"], 16, 2, rotation)),
    }


def look_up(code: dict, data: tuple, make: Callable, seed: int, steps: int) -> dict:
    """Train once; return R² of the first eight numbers and of the last eight."""
    torch.manual_seed(seed)
    model = make()
    rate = 0.003 if isinstance(model, code["AsksFirst"]) else 0.02  # two layers take small steps
    code["train_on"](data, model, seed, steps, rate)
    first, last = (round(score, 4) for score in code["explained"](data, model))
    return {"first": first, "last": last}


def marked_letters(count: int, seed: int):
    """Return tokens (count, 6, 16), one letter of four on each, and the letters at ▲ and ●."""
    generator = torch.Generator().manual_seed(seed)
    letters = torch.randint(4, (count, 6), generator=generator)
    places = torch.rand(count, 6, generator=generator).argsort(1)[:, :2]
    features = F.one_hot(letters, 4), F.one_hot(places, 6).mT, torch.zeros(count, 6, 10)
    return torch.cat(features, dim=-1), letters.gather(1, places)


class Hiding(MultiHeadAttention):
    """One head whose keys, and values, are made from some of the features alone."""

    def __init__(self, keys: slice = EVERYTHING, values: slice = EVERYTHING):
        super().__init__(16, 1)
        self.seen = torch.zeros(2, 16)
        self.seen[0, keys] = self.seen[1, values] = 1

    def forward(self, query, key, value):
        return super().forward(query, key * self.seen[0], value * self.seen[1])


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 8))


LETTERS = {  # what is seen, and what reads the head's answer
    "one head": (Hiding, partial(nn.Linear, 16, 8)),
    "keys see marks only": (partial(Hiding, keys=MARKS), partial(nn.Linear, 16, 8)),
    "values without marks": (partial(Hiding, values=slice(4)), partial(nn.Linear, 16, 8)),
    "keys see marks only, network behind": (partial(Hiding, keys=MARKS), network),
}


def letters(kind: str, seed: int, steps: int) -> dict:
    """Return how often one head, and what reads it, name both letters."""
    torch.manual_seed(seed)
    attention, read_out = (make() for make in LETTERS[kind])
    optimizer = torch.optim.Adam([*attention.parameters(), *read_out.parameters()], lr=0.02)

    def logits(tokens):
        query = torch.ones(len(tokens), 1, 16)
        return read_out(attention(query, tokens, tokens)).view(-1, 2, 4)

    for step in range(steps):
        tokens, wanted = marked_letters(128, 10_000 * seed + step)
        loss = F.cross_entropy(logits(tokens).flatten(0, 1), wanted.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    tokens, wanted = marked_letters(8000, 1_000_000)
    right = (logits(tokens).argmax(-1) == wanted).all(-1).float().mean().item()
    return {"both_right": round(right, 4)}


def read_off(kind: str, vocabulary: int, seed: int, steps: int) -> dict:
    """Return how often both of two words are named, given ¾ of one vector and ¼ of the other."""
    torch.manual_seed(seed)
    vectors = torch.randn(vocabulary, 64)
    behind = [nn.Linear(64, 256), nn.ReLU()] if kind == "network" else []
    read_out = nn.Sequential(*behind, nn.Linear(256 if behind else 64, 2 * vocabulary))
    optimizer = torch.optim.Adam(read_out.parameters(), lr=0.003)

    def drawn(count):
        words = torch.randint(vocabulary, (count, 2))
        mixture = torch.tensor([0.75, 0.25]) @ vectors[words]  # (count, 64)
        return words, read_out(mixture).view(count, 2, vocabulary)

    for _ in range(steps):
        words, scores = drawn(256)
        loss = F.cross_entropy(scores.flatten(0, 1), words.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    words, scores = drawn(5000)
    return {"both_right": round((scores.argmax(-1) == words).all(-1).float().mean().item(), 4)}


CAPTIONS = (
    "A {} gives a {} a red ball.",
    "A {} gives a {} a flower.",
    "A {} in a red shirt gives a {} a red ball.",
)
GERMAN = {  # who gives, and who receives: an adjective may stand between
    "man": ("Ein Mann", r"einem (\w+ )?Mann\b"),
    "woman": ("Eine Frau", r"einer (\w+ )?Frau\b"),
    "boy": ("Ein Junge", r"einem (\w+ )?Jungen\b"),
    "girl": ("Ein Mädchen", r"einem (\w+ )?Mädchen\b"),
}
PAIRS = list(permutations(GERMAN, 2))
MEANS = ("all, others' mean instead", "all, these captions' mean instead")
SILENCED = {  # of the encoder: {layer: heads}, counted from 1
    "nothing": {},
    "heads 1 and 6 of layer 4": {4: (1, 6)},
    "layer 4": {4: range(1, 7)},
    "all": {layer: range(1, 7) for layer in range(1, 5)},
}


def silenced(run: Run, heads: dict) -> Run:
    """Take the messages of some of the encoder's heads out of a run: their part of W_O is 0."""
    for layer, numbers in heads.items():
        attention = run.model.encoder.layers[layer - 1].self_attention
        for number in numbers:
            part = slice((number - 1) * attention.d_k, number * attention.d_k)
            attention.w_o.weight.data[:, part] = 0
    return run


def averaged(run: Run, captions: list[str]) -> Run:
    """Let each of the encoder's attentions tell every word the same: its mean over `captions`."""
    attentions = [layer.self_attention for layer in run.model.encoder.layers]
    heard: dict[nn.Module, list] = {attention: [] for attention in attentions}
    hooks = [
        attention.register_forward_hook(lambda module, _, out: heard[module].append(out[0]))
        for attention in attentions
    ]
    with torch.no_grad():
        for caption in captions:
            run.model(torch.tensor([run.tokenizer.encode(caption)]), torch.tensor([[BOS]]))
    for attention, hook in zip(attentions, hooks, strict=True):
        hook.remove()
        mean = torch.cat(heard[attention]).mean(0)
        attention.register_forward_hook(lambda _, __, out, mean=mean: mean.expand_as(out))
    return run


def translated(kind: str, caption: str) -> dict:
    """Translate a caption with every giver and receiver; count what is right, return the rest."""
    if kind == MEANS[0]:
        run = averaged(load_run(), [english for english, _ in load_multi30k()["val"][:200]])
    elif kind == MEANS[1]:
        of_all = [form.format(*pair) for form in CAPTIONS for pair in PAIRS]
        run = averaged(load_run(), of_all)
    else:
        run = silenced(load_run(), SILENCED[kind])
    german = run.translate([caption.format(*pair) for pair in PAIRS])
    lost = {
        caption.format(giver, receiver): text
        for (giver, receiver), text in zip(PAIRS, german, strict=True)
        if not (text.startswith(GERMAN[giver][0]) and re.search(GERMAN[receiver][1], text))
    }
    return {"right": len(PAIRS) - len(lost), "of": len(PAIRS), "lost": lost}


def plan(smoke: bool) -> Iterator[tuple[dict, Callable]]:
    """Yield the settings of a training, or of a translation, and what does it."""
    code = lesson()
    seeds, steps = (range(1), 2) if smoke else (SEEDS, STEPS)
    for kind in (*SILENCED, *MEANS[smoke:]):  # a smoke test reads no data
        for caption in CAPTIONS[: 1 if smoke else None]:
            setting = {"kind": kind, "caption": caption}
            yield {"experiment": "silenced"} | setting, partial(translated, **setting)
    for kind in ("matrix", "network"):
        for vocabulary in (50, 1000):
            for seed in seeds[:3]:
                setting = {"kind": kind, "vocabulary": vocabulary, "seed": seed, "steps": steps}
                yield {"experiment": "words"} | setting, partial(read_off, **setting)
    for kind, (data, make) in kinds(code).items():
        for seed in seeds:
            setting = {"experiment": "look-ups", "kind": kind, "seed": seed, "steps": steps}
            yield setting, partial(look_up, code, data, make, seed, steps)
    for kind in LETTERS:
        for seed in seeds:
            setting = {"experiment": "letters", "kind": kind, "seed": seed, "steps": steps}
            yield setting, partial(letters, kind, seed, steps)


def table(rows: list[dict]) -> str:
    """Return the sums of R², lowest and highest over the seeds, as Markdown."""
    lines = ["| kind | sum of R², lowest | highest | seeds |", "|---" * 4 + "|"]
    rows = [row for row in rows if row["experiment"] == "look-ups"]
    for kind in dict.fromkeys(row["kind"] for row in rows):
        sums = [row["first"] + row["last"] for row in rows if row["kind"] == kind]
        lines.append(f"| {kind} | {min(sums):.2f} | {max(sums):.2f} | {len(sums)} |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    """Train what l03_heads.json does not have yet, print the table."""
    measure_rows("l03_heads", __doc__, arguments, plan, table=table)


if __name__ == "__main__":
    main()
