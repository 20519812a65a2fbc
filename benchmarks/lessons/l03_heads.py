"""`python -m benchmarks.lessons.l03_heads`: lesson 03's experiments, with more seeds and steps.

The code is the lesson's own, loaded from its evidence: two look-ups with one head and with two,
and what stands in front of a head or behind it. Six parts are here alone: scores that stay 0,
fewer than eight numbers for each token, the path's own story with one trained head, letters in the
place of random numbers, words that a matrix or a network reads off a mixture, and the course's
translator without some of its encoder's heads.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import permutations

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.lessons.lesson_code import lesson_code
from benchmarks.lessons.rows import measure_rows
from transformer_lab import (
    BOS,
    MultiHeadAttention,
    Run,
    load_multi30k,
    load_run,
    scaled_dot_product_attention,
)

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


class FirstFeatures(MultiHeadAttention):
    """One head, of whose answer the first features count."""

    def __init__(self, kept: int):
        super().__init__(16, 1)
        self.kept = kept

    def forward(self, query, key, value):
        return super().forward(query, key, value)[..., : self.kept]


def look_up(code: dict, data: Callable, make: Callable, seed: int, steps: int) -> dict:
    """Train once; return R² of the first token's numbers and of the second's."""
    torch.manual_seed(seed)
    model = make()
    rate = 0.003 if isinstance(model, code["AsksFirst"]) else 0.02  # two layers take small steps
    code["train_on"](data, model, seed, steps, rate)
    first, last = (round(score, 4) for score in code["explained"](data, model))
    return {"first": first, "last": last}


def short_vectors(code: dict, kind: str, numbers: int, seed: int, steps: int) -> dict:
    """Train one head on tokens with fewer numbers each than the lesson's eight."""
    data = partial(code["two_marks" if kind == "by mark" else "two_names"], n=numbers)
    return look_up(code, data, partial(FirstFeatures, 2 * numbers), seed, steps)


class OwnStory(nn.Module):
    """The path's sentence of four words, read by one head with four matrices and nothing else."""

    def __init__(self):
        super().__init__()
        self.w_q, self.w_k = (nn.Linear(5, 1, bias=False) for _ in range(2))
        self.w_v, self.w_o = nn.Linear(5, 5, bias=False), nn.Linear(5, 2, bias=False)

    def forward(self, numbers):
        """Return the giver's number and the receiver's (B, 2) for the four words' (B, 4)."""
        places = torch.eye(4).expand(len(numbers), 4, 4)
        x = torch.cat([places, numbers[..., None]], dim=-1)  # a word: its place, its number
        asks = x[:, 1:2]  # the verb
        heard, _ = scaled_dot_product_attention(self.w_q(asks), self.w_k(x), self.w_v(x))
        return self.w_o(heard)[:, 0]


def own_story(seed: int, steps: int) -> dict:
    """Train the head; return both R², and what it answers to the path's two stories."""
    torch.manual_seed(seed)
    model = OwnStory()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)

    def drawn(count):
        numbers = 5 + 3 * torch.randn(count, 4)
        numbers[:, 1] = 0  # the verb hands over nothing
        return numbers, numbers[:, [0, 2]]

    for _ in range(steps):
        numbers, wanted = drawn(256)
        loss = F.mse_loss(model(numbers), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    numbers, wanted = drawn(8000)
    with torch.no_grad():
        left = ((model(numbers) - wanted) ** 2).mean(0) / wanted.var(0)
        stories = model(torch.tensor([[2.0, 0, 4, 9], [4.0, 0, 2, 9]]))
    giver, receiver = (round(1 - part.item(), 4) for part in left)
    answers = [[round(number, 2) for number in story] for story in stories.tolist()]
    return {
        "giver": giver,
        "receiver": receiver,
        "mary_gives": answers[0],
        "susan_gives": answers[1],
    }


def marked_letters(count: int, seed: int):
    """Return tokens (count, 6, 16), one letter of four on each, and the letters at ▲ and ●."""
    generator = torch.Generator().manual_seed(seed)
    letters = torch.randint(4, (count, 6), generator=generator)
    places = torch.rand(count, 6, generator=generator).argsort(1)[:, :2]
    features = F.one_hot(letters, 4), F.one_hot(places, 6).mT, torch.zeros(count, 6, 10)
    return torch.cat(features, dim=-1), letters.gather(1, places)


def choices(scores: torch.Tensor, wanted: torch.Tensor, vocabulary: int) -> tuple:
    """Return scores (B, choices, answers) and the right answers (B, choices).

    2·V scores name two words one by one; V² scores name them as a pair, in one choice.
    """
    if scores.shape[1] == vocabulary**2:
        return scores[:, None], wanted[:, :1] * vocabulary + wanted[:, 1:]
    return scores.view(-1, 2, vocabulary), wanted


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
    "keys see marks only, a score a pair": (
        partial(Hiding, keys=MARKS),
        partial(nn.Linear, 16, 16),
    ),
}


def letters(kind: str, seed: int, steps: int) -> dict:
    """Return how often one head, and what reads it, name both letters."""
    torch.manual_seed(seed)
    head, read_out = (make() for make in LETTERS[kind])
    optimizer = torch.optim.Adam([*head.parameters(), *read_out.parameters()], lr=0.02)

    def scored(count, seed):
        tokens, wanted = marked_letters(count, seed)
        scores = read_out(head(torch.ones(count, 1, 16), tokens, tokens))
        return choices(scores.flatten(1), wanted, vocabulary=4)

    for step in range(steps):
        scores, wanted = scored(128, 10_000 * seed + step)
        loss = F.cross_entropy(scores.flatten(0, 1), wanted.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    scores, wanted = scored(8000, 1_000_000)
    right = (scores.argmax(-1) == wanted).all(-1).float().mean().item()
    return {"both_right": round(right, 4)}


WORDS = {  # what reads the mixture of V words: one score for each word and place, or for each pair
    "matrix": lambda V: nn.Linear(64, 2 * V),
    "network": lambda V: nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 2 * V)),
    "matrix, a score a pair": lambda V: nn.Linear(64, V**2),
}


def mixed_words(vectors: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return two random words each (count, 2), and ¾ of the first vector and ¼ of the second."""
    words = torch.randint(len(vectors), (count, 2))
    return words, torch.tensor([0.75, 0.25]) @ vectors[words]


def read_off(kind: str, vocabulary: int, seed: int, steps: int) -> dict:
    """Return how often two words are named, given ¾ of one vector and ¼ of the other."""
    torch.manual_seed(seed)
    vectors = torch.randn(vocabulary, 64)
    read_out = WORDS[kind](vocabulary)
    optimizer = torch.optim.Adam(read_out.parameters(), lr=0.003)

    def drawn(count):
        words, mixture = mixed_words(vectors, count)
        return words, *choices(read_out(mixture), words, vocabulary)

    for _ in range(steps):
        _, scores, wanted = drawn(256)
        loss = F.cross_entropy(scores.flatten(0, 1), wanted.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    words, scores, wanted = drawn(5000)
    right = scores.argmax(-1) == wanted
    shares = {"both_right": right.all(-1)}
    if right.shape[1] == 2:  # one by one: each of the two, and both where the two are not the same
        differ = words[:, 0] != words[:, 1]
        shares |= {"first_right": right[:, 0], "second_right": right[:, 1]}
        shares |= {"both_right_if_different": right.all(-1)[differ]}
    return {name: round(share.float().mean().item(), 4) for name, share in shares.items()}


def nearest_pair(vocabulary: int, seed: int) -> dict:
    """Return how often the pair of the best linear score m·p − |p|²/2 is right, for mixture m.

    p is ¾ of one vector and ¼ of another, for all V² pairs. The best score has the p nearest to m.
    """
    torch.manual_seed(seed)
    vectors = torch.randn(vocabulary, 64)
    words, mixture = mixed_words(vectors, 2000)
    best = []
    for first in vectors:
        pairs = 0.75 * first + 0.25 * vectors  # (V, 64)
        best.append((mixture @ pairs.T - pairs.square().sum(-1) / 2).max(-1))
    values = torch.stack([found.values for found in best])  # (V, 2000)
    first = values.argmax(0)
    second = torch.stack([found.indices for found in best])[first, torch.arange(2000)]
    right = (torch.stack([first, second], dim=1) == words).all(-1)
    return {"both_right": round(right.float().mean().item(), 4)}


CAPTIONS = (
    "A {} gives a {} a red ball.",
    "A {} gives a {} a flower.",
    "A {} in a red shirt gives a {} a red ball.",
    "A {} in a red dress gives a {} a flower.",  # the path's own
)
GERMAN = {  # who gives, and who receives: an adjective may stand between
    "man": ("Ein Mann", r"einem (\w+ )?Mann\b"),
    "woman": ("Eine Frau", r"einer (\w+ )?Frau\b"),
    "boy": ("Ein Junge", r"einem (\w+ )?Jungen\b"),
    "girl": ("Ein Mädchen", r"einem (\w+ )?\w*[Mm]ädchen\b"),  # or a Blumenmädchen
}
PAIRS = list(permutations(GERMAN, 2))
MEANS = (  # what every place is told instead
    "all, others' mean instead",
    "all, these captions' mean instead",
    "all, a mean for each place instead",
    "all, the same, of two other people",
)
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


def averaged(run: Run, captions: Iterable[str], for_each_place: bool = False) -> Run:
    """Let each of the encoder's attentions tell every word the same: its mean over `captions`.

    With `for_each_place` there is a mean for the first word, one for the second, and so on; then
    all captions must have as many pieces as those that are translated.
    """
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
        told = heard[attention]  # each (places, width)
        mean = torch.stack(told).mean(0) if for_each_place else torch.cat(told).mean(0)
        attention.register_forward_hook(lambda _, __, out, mean=mean: mean.expand_as(out))
    return run


def translations(kind: str, caption: str) -> list[str]:
    """Translate a caption with every giver and receiver, with a part of the encoder silenced."""
    of_form = [caption.format(*pair) for pair in PAIRS]
    if kind == MEANS[0]:
        run = averaged(load_run(), [english for english, _ in load_multi30k()["val"][:200]])
    elif kind == MEANS[1]:
        run = averaged(load_run(), [form.format(*pair) for form in CAPTIONS for pair in PAIRS])
    elif kind == MEANS[2]:
        run = averaged(load_run(), of_form, for_each_place=True)
    elif kind == MEANS[3]:  # nothing in these means can come from the two people of the caption
        found = []
        for pair, english in zip(PAIRS, of_form, strict=True):
            others = [caption.format(*other) for other in PAIRS if not set(other) & set(pair)]
            found.append(averaged(load_run(), others, for_each_place=True).translate(english))
        return found
    else:
        run = silenced(load_run(), SILENCED[kind])
    return run.translate(of_form)


def translated(kind: str, caption: str) -> dict:
    """Count the right translations of a caption with every giver and receiver, return the rest."""
    lost = {
        caption.format(giver, receiver): text
        for (giver, receiver), text in zip(PAIRS, translations(kind, caption), strict=True)
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
    for kind in WORDS:
        for vocabulary in (50, 1000)[: 1 if "pair" in kind else None]:  # a million pairs are many
            for seed in seeds[:3]:
                setting = {"kind": kind, "vocabulary": vocabulary, "seed": seed, "steps": steps}
                yield {"experiment": "words"} | setting, partial(read_off, **setting)
    for vocabulary in (50, 1000)[: 1 if smoke else None]:
        for seed in seeds[:3]:
            setting = {"vocabulary": vocabulary, "seed": seed}
            kind = {"experiment": "words", "kind": "nearest pair, by formula"}
            yield kind | setting, partial(nearest_pair, **setting)
    for seed in seeds[:3]:
        setting = {"seed": seed, "steps": steps if smoke else 4000}
        yield {"experiment": "own story"} | setting, partial(own_story, **setting)
    for kind, (data, make) in kinds(code).items():
        for seed in seeds:
            setting = {"experiment": "look-ups", "kind": kind, "seed": seed, "steps": steps}
            yield setting, partial(look_up, code, data, make, seed, steps)
    for kind in ("by mark", "by name"):
        for numbers in (1, 2):
            for seed in seeds:
                setting = {"kind": kind, "numbers": numbers, "seed": seed, "steps": steps}
                yield (
                    {"experiment": "short vectors"} | setting,
                    partial(short_vectors, code, **setting),
                )
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
