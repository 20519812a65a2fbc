"""`python -m benchmarks.lessons.l04_masks`: lesson 04's masks on captions, and who writes well.

The translator writes 200 random captions of test2016 as it should, and without the decoder's
causal mask; one token at a time with a cache and no mask; and with pads in the source that no mask
hides, in the encoder, in cross-attention or in both. The lesson's letter model learns with the mask
and without, longer, on words that are cut anywhere, on such words with an end mark or a random
letter behind the cut, and on words without the fifth letter. Last, one attention learns to say how
much of a word is the letter 1, with its pads hidden and open; three seeds each.
"""

import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.lessons.lesson_code import lesson_code
from benchmarks.lessons.rows import measure_rows
from transformer_lab import BOS, EOS, PAD, MultiHeadAttention, causal_mask, load_run, padding_mask
from transformer_lab.runs import Run, load_task

lesson = partial(lesson_code, "04", "said_twice", "LetterModel", "letter_loss", "learn")

SEEDS = range(3)
LETTERS = {  # the mask, the steps, and which words are trained on
    "masked": ("always", 250, "whole"),
    "unmasked": ("never", 250, "whole"),
    "unmasked, longer": ("never", 750, "whole"),
    "unmasked, cut anywhere": ("never", 750, "cut"),
    "masked, cut anywhere": ("always", 750, "cut"),
    "unmasked, cut, end mark": ("never", 2000, "ended"),
    "masked, cut, end mark": ("always", 2000, "ended"),
    "unmasked, cut, random letter": ("never", 750, "blurred"),
    "unmasked, no fifth letter": ("never", 500, "eight"),
}
WAYS = {  # whether the decoder's future is hidden, by a cache or not; pads behind the source
    "masked": {},
    "no causal mask": {"causal": False},
    "cached, one token at a time": {"cached": True},
    "5 pads, hidden": {"pads": 5},
    **{
        f"{pads} pads, open{where}": {"pads": pads, "opened": opened}
        for pads in (5, 20)
        for where, opened in (
            ("", ("encoder", "cross-attention")),
            (" in the encoder", ("encoder",)),
            (" in cross-attention", ("cross-attention",)),
        )
    },
}
CAPTIONS = 200
END = 9  # in place of a letter
ROOM = 40  # tokens that a translation may have
LENGTHS = (8, 28, 208)  # of a padded word: as in training, and with more pads
LONGEST = (7, 9, 11, 14, 99)  # words of an English caption, to its row in the table


def words_for(code: dict, kind: str) -> Callable[[], Tensor]:
    """Return what draws 32 words: whole, to 8, or cut to 2 to 9; then as they are or one more."""

    def draw() -> Tensor:
        words = code["said_twice"](32)
        if kind in ("cut", "ended", "blurred"):
            words = words[:, : int(torch.randint(2, 10, ()))]
        if kind == "blurred":
            return torch.cat([words, torch.randint(10, (32, 1))], dim=1)
        return words[:, :8] if kind == "eight" else ended(words) if kind == "ended" else words

    return draw


def ended(words: Tensor) -> Tensor:
    """Return words of nine letters instead of ten, with `END` behind each."""
    return F.pad(words % END, (0, 1), value=END)


@torch.no_grad()
def written(model: nn.Module, words: Tensor) -> Tensor:
    """Return what the model writes behind the first four letters, four more: (B, 4)."""
    letters = words[:, :4]
    for _ in range(4):
        letters = torch.cat([letters, model(letters)[:, -1:].argmax(dim=-1)], dim=1)
    return letters[:, 4:]


@torch.no_grad()
def examine(model: nn.Module, words: Tensor, letter_loss: Callable) -> dict:
    """Return the loss in one pass and letter by letter, and the share of right letters, 5 to 8.

    "true" are right behind the true letters up to there, "own" behind the model's own.
    """
    length = words.shape[1]
    last = [model(words[:, :n])[:, -1] for n in range(1, length)]  # each beginning, alone
    losses = [F.cross_entropy(logits, words[:, n]) for n, logits in enumerate(last, 1)]
    true = [(last[n - 1].argmax(-1) == words[:, n]).double().mean() for n in range(4, 8)]
    own = (written(model, words) == words[:, 4:8]).double().mean(0)
    return {
        "loss": round(letter_loss(model, words).item(), 4),
        "loss_letter_by_letter": round(torch.stack(losses).mean().item(), 4),
        "true": [round(share.item(), 4) for share in true],
        "own": [round(share, 4) for share in own.tolist()],
    }


def letters(code: dict, kind: str, seed: int, steps: int) -> dict:
    """Train once and examine it on 1,000 words that are drawn afterwards."""
    mask, _, words = LETTERS[kind]
    model = code["learn"](mask, seed, steps, words_for(code, words))
    torch.manual_seed(10_000)
    fresh = code["said_twice"](1000)
    fresh = fresh[:, :8] if words == "eight" else ended(fresh) if words == "ended" else fresh
    return examine(model, fresh, code["letter_loss"])


@torch.no_grad()
def write(
    run: Run,
    source: Tensor,
    *,
    causal: bool = True,
    cached: bool = False,
    pads: int = 0,
    opened: tuple[str, ...] = (),
) -> list[str]:
    """Translate sentences of one length, ids (B, Ls), greedily; `WAYS` has what can be varied."""
    model, ended = run.model, torch.zeros(len(source), dtype=torch.bool)
    source = F.pad(source, (0, pads), value=PAD)
    real = padding_mask(source)
    ours, theirs = (None if w in opened else real for w in ("encoder", "cross-attention"))
    memory = model.encoder(model.positions(model.source_embedding(source)), ours)
    german, cache = torch.full((len(source), 1), BOS), model.new_cache() if cached else None
    while not ended.all() and german.shape[1] < ROOM:
        first = german.shape[1] - 1 if cached else 0  # a cache is handed the newest token alone
        x = model.positions(model.target_embedding(german[:, first:]), first)
        future = causal_mask(german.shape[1]) if causal and not cached else None
        x = model.decoder(x, memory, future, theirs, cache)
        newest = model.generator(x[:, -1:]).argmax(dim=-1)
        german = torch.cat([german, newest], dim=1)
        ended |= newest[:, 0] == EOS
    return [run.tokenizer.decode(up_to_the_end(ids)) for ids in german.tolist()]


def up_to_the_end(ids: list[int]) -> list[int]:
    return ids[: ids.index(EOS)] if EOS in ids else ids


def translate_all(run: Run, english: list[str], **way) -> list[str]:
    """Return the translations, in order; sentences of one length are translated together."""
    together, found = defaultdict(list), [""] * len(english)
    encoded = [run.tokenizer.encode(sentence) for sentence in english]
    for i, ids in enumerate(encoded):
        together[len(ids)].append(i)
    for rows in together.values():
        texts = write(run, torch.tensor([encoded[i] for i in rows]), **way)
        for i, text in zip(rows, texts, strict=True):
            found[i] = text
    return found


def count_words(texts: list[str]) -> int:
    return sum(len(text.split()) for text in texts)


def compare(pairs: list, masked: list[str], found: list[str]) -> dict:
    """Return how many translations differ from the masked ones, by length, and BLEU."""
    from sacrebleu.metrics import BLEU

    references = [reference for _, reference in pairs]
    differ = [a != b for a, b in zip(masked, found, strict=True)]
    shorter = [len(b.split()) < len(a.split()) for a, b in zip(masked, found, strict=True)]
    lost = [len(b.split()) <= len(a.split()) - 3 for a, b in zip(masked, found, strict=True)]
    row = {"captions": len(pairs), "differ": sum(differ), "shorter": sum(shorter)}
    row["shorter by three words"] = sum(lost)
    row["length"] = round(count_words(found) / count_words(references), 4)
    row["bleu"] = round(BLEU().corpus_score(found, [references]).score, 2)
    lengths, by_length = [len(english.split()) for english, _ in pairs], []
    for low, high in pairwise((0, *LONGEST)):
        these = [moved for moved, words in zip(differ, lengths, strict=True) if low < words <= high]
        by_length.append({"to": high, "captions": len(these), "differ": sum(these)})
    return row | {"by_length": by_length}


@cache
def translated(count: int, way: str) -> tuple[list, list[str]]:
    """Return `count` captions, drawn once for all, and how they are translated."""
    run = load_run()
    pairs = random.Random(0).sample(load_task(run.data)["test2016"], count)
    return pairs, translate_all(run, [english for english, _ in pairs], **WAYS[way])


def captions(count: int, way: str) -> dict:
    """Return how the translations of one way differ from the masked ones, and the first four."""
    pairs, found = translated(count, way)
    masked = translated(count, "masked")[1]
    examples = [
        {"english": english, "masked": a, "found": b}
        for (english, _), a, b in zip(pairs, masked, found, strict=True)
        if a != b
    ]
    return compare(pairs, masked, found) | {"first": examples[:4]}


def padded_words(count: int, length: int) -> tuple[Tensor, Tensor]:
    """Return words of 3 to 8 letters from 1 to 4, filled up with 0, and each one's share of 1s."""
    sizes = torch.randint(3, 9, (count, 1))
    words = torch.randint(1, 5, (count, length)) * (torch.arange(length) < sizes)
    return words, (words == 1).sum(dim=1) / sizes[:, 0]


class Share(nn.Module):
    """Say how much of a word is the letter 1: one attention, from the word's first letter."""

    def __init__(self, hidden: bool):
        super().__init__()
        self.hidden, self.table = hidden, nn.Embedding(5, 16)
        self.attention, self.read = MultiHeadAttention(16, 2), nn.Linear(16, 1)

    def forward(self, words: Tensor) -> tuple[Tensor, Tensor]:
        """Return the share (B,), and the weight that goes to pads (B,), mean over the heads."""
        x, mask = self.table(words), padding_mask(words) if self.hidden else None
        found, weights = self.attention(x[:, :1], x, x, mask, return_weights=True)
        to_pads = (weights * (words == PAD)[:, None, None]).sum(dim=-1)
        return self.read(found)[:, 0, 0], to_pads.mean(dim=(1, 2))


def pads(kind: str, seed: int, steps: int) -> dict:
    """Train on words filled up to 8; return the mean error with more pads, and the pads' weight."""
    torch.manual_seed(seed)
    model = Share(kind == "hidden")
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(steps):
        words, wanted = padded_words(64, LENGTHS[0])
        loss = F.mse_loss(model(words)[0], wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.manual_seed(10_000)
    rows = []
    for length in LENGTHS:
        words, wanted = padded_words(1000, length)
        with torch.no_grad():
            found, to_pads = model(words)
        row = {"length": length, "error": (found - wanted).abs().mean().item()}
        row["mean_always"] = (wanted.mean() - wanted).abs().mean().item()
        row["to_pads"] = to_pads.mean().item()
        rows.append({name: round(number, 4) for name, number in row.items()})
    return {"by_length": rows}


def plan(smoke: bool) -> Iterator[tuple[dict, Callable]]:
    """Yield a setting and what measures it."""
    code = lesson()
    for kind, (_, steps, _) in LETTERS.items():
        for seed in range(1) if smoke else SEEDS:
            setting = {"experiment": "letters", "kind": kind, "seed": seed}
            setting["steps"] = 2 if smoke else steps
            yield setting, partial(letters, code, kind, seed, setting["steps"])
    count = 3 if smoke else CAPTIONS
    for way in WAYS:
        setting = {"experiment": "captions", "run": "the translator", "way": way}
        yield setting, partial(captions, count, way)
    for kind in ("hidden", "open"):
        for seed in range(1) if smoke else SEEDS:
            steps = 2 if smoke else 500
            setting = {"experiment": "pads", "kind": kind, "seed": seed, "steps": steps}
            yield setting, partial(pads, kind, seed, steps)


def main(arguments: list[str] | None = None) -> None:
    """Measure what l04_masks.json does not have yet."""
    measure_rows("l04_masks", __doc__, arguments, plan)


if __name__ == "__main__":
    main()
