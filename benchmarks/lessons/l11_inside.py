"""`python -m benchmarks.lessons.l11_inside`: what is inside the shipped models (lesson 11).

Three long experiments: heads taken away one after the other (three date models), five ways to
explain an answer against replaced characters (the same three), and the translator without what one
kind of attention reads (one model, 300 captions). A head that is taken away gives its mean over
training dates: in the decoder and its cross-attention for each written place, in the encoder for
each place in each way of writing a date. The translator's captions have no such ways, so in its
encoder it is one mean for all places. Its means come from validation captions.
"""

import math
import random
import re
import statistics
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.lessons.rows import measure_rows
from transformer_lab import (
    BOS,
    EOS,
    PAD,
    Batch,
    MultiHeadAttention,
    Run,
    Transformer,
    attention_maps,
    date_pairs,
    load_multi30k,
    load_run,
    padding_mask,
    split_heads,
)
from transformer_lab.runs import PRETRAINED, encode_pairs, score

LONG = {"seeds": 3, "pruned": 200, "known": 3000, "orders": 3, "explained": 100}
LONG |= {"variants": 6, "captions": 300}
SMOKE = {"seeds": 1, "pruned": 8, "known": 300, "orders": 1, "explained": 4}
SMOKE |= {"variants": 1, "captions": 4}
RESAMPLES = 1000
FEW = 10  # sentences; a place that fewer reach has no mean of its own
FORMS = "for each place, in the encoder for each way of writing, of training dates"
SMALLEST = 0.1  # the least effect of a character that makes a digit count as moved
UNRANKED = ("control: how it was written", "control: the experiment, repeated")
# Asked of other seeds too.
OF_OTHERS = ("attention, last layer", "rollout", "attention × norm, last layer")
ROWS = [0, 1, 2, 3, 5, 6, 8, 9]  # the digits of an ISO date, among what is predicted
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


def batch_of(run: Run, pairs: list[tuple[str, str]]) -> Batch:
    return Batch.from_pairs(encode_pairs(run.tokenizer, pairs))


# ---- How a date was written


def fields(text: str) -> list[re.Match]:
    """Return where day, month and year stand in a written date."""
    words = list(re.finditer(r"[A-Za-z]+|\d+", text))
    numbers = [word for word in words[:-1] if word[0].isdigit()]
    named = [word for word in words if word[0][:3].lower() in MONTHS]
    return [numbers[0], (named or numbers[1:])[0], words[-1]]


def sources_of(text: str) -> Tensor:
    """Return which characters make each of the eleven predictions: (11, len(text)), boolean."""
    truth = torch.zeros(11, len(text), dtype=torch.bool)
    for field, rows in zip(fields(text), ((8, 9), (5, 6), (0, 1, 2, 3)), strict=True):
        if not field[0].isdigit():
            truth[list(rows), field.start() : field.end()] = True
            continue
        for row, place in zip(
            rows[::-1], range(field.end() - 1, field.start() - 1, -1), strict=False
        ):
            truth[row, place] = True
    return truth


def place_in_form(text: str) -> list[tuple]:
    """Return for each character, and the end: how the date is written, and the place in this form.

    The letters of a name from the third on are one place, because its length would tell the month;
    *may* alone, a long name and a short one, goes by the year's last digit.
    """
    day, month, year = fields(text)
    kinds = {day.start(): "day", month.start(): "month", year.start(): "year"}
    words = list(re.finditer(r"[A-Za-z]+|\d+", text))
    names = [word[0].lower() for word in words if word[0].isalpha()]
    long = any(len(name) > 3 for name in names)
    if names == ["may"]:
        long = int(text[-1]) % 2 == 1
    order = re.sub(r"[A-Za-z]+|\d+", lambda word: kinds.get(word.start(), "weekday"), text)
    form, places, end = (order, len(names), long, text.isupper(), text.islower()), [], 0
    for n, word in enumerate(words):
        places += [(n, "before", k) for k in range(word.start() - end)]
        places += [(n, min(k, 2) if word[0].isalpha() else k) for k in range(len(word[0]))]
        end = word.end()
    return [(form, place) for place in [*places, "end"]]


def numbered(pairs: list[tuple[str, str]], numbers: dict) -> Tensor:
    """Return the number of each place in its form, and −1 for padding: (B, Ls)."""
    rows = [
        torch.tensor([numbers.setdefault(place, len(numbers)) for place in place_in_form(text)])
        for text, _ in pairs
    ]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=-1)


# ---- Heads taken away


def attentions(model: Transformer) -> dict[str, MultiHeadAttention]:
    named = model.named_modules()
    return {name: module for name, module in named if isinstance(module, MultiHeadAttention)}


@torch.no_grad()
def mean_outputs(model: Transformer, batch: Batch, each_place: bool = True) -> list[Tensor]:
    """Return the mean output of each head of each attention, over the real places.

    (H, d_k) in the encoder; in the decoder and its cross-attention, where a place of the answer
    holds much the same in every sentence, (Lt, H, d_k): a mean for each place, unless `each_place`
    is false. Places that fewer than `FEW` sentences reach take the mean of the last that more do.
    """
    means, handles = [], []
    for name, module in attentions(model).items():
        encoder = name.startswith("encoder")
        real = (batch.source if encoder else batch.target_in) != 0

        def record(w_o, inputs, real=real, heads=module.num_heads, encoder=encoder):
            outputs = inputs[0].unflatten(-1, (heads, -1))  # (B, L, H, d_k)
            if encoder or not each_place:
                means.append(outputs[real].mean(dim=0))
                return
            count = real.sum(dim=0)
            reached = int((count >= min(FEW, len(real))).sum())
            sums = (outputs * real[..., None, None]).sum(dim=0)
            at_place = sums / count.clamp(min=1)[:, None, None]
            at_place[reached:] = at_place[reached - 1]
            means.append(at_place)

        handles.append(module.w_o.register_forward_pre_hook(record))
    model(batch.source, batch.target_in)
    for handle in handles:
        handle.remove()
    return means


@torch.no_grad()
def usual_outputs(run: Run, pairs: list[tuple[str, str]], count: int) -> list[Tensor]:
    """Return what each head puts out on average, at each place of these dates.

    The means are those of `count` training dates: (B, Ls, H, d_k) in the encoder, for each place in
    each form; (Lt, H, d_k) in the decoder and its cross-attention, for each place.
    """
    known = date_pairs(count, 11)
    batch = batch_of(run, known)
    means = mean_outputs(run.model, batch)
    numbers: dict = {}
    theirs = numbered(known, numbers)
    seen = len(numbers)
    ours = numbered(pairs, numbers)
    ours = ours.masked_fill(ours >= seen, -1)  # a form that no training date has: of the last one
    for i, (name, module) in enumerate(attentions(run.model).items()):
        if name.startswith("encoder"):
            kept = []
            handle = module.w_o.register_forward_pre_hook(lambda _, x, kept=kept: kept.append(x[0]))
            run.model.encode(batch.source)
            handle.remove()
            outputs = kept[0].unflatten(-1, (module.num_heads, -1))
            table = torch.stack([outputs[theirs == n].mean(dim=0) for n in range(seen)])
            means[i] = table[ours]
    return means


@contextmanager
def gated(model: Transformer, gates: Tensor, means: list[Tensor]):
    """Within, each head gives mean + gate · (output − mean); gates (attentions, H).

    A mean is (H, d_k), (L, H, d_k) with one for each place, or (B, L, H, d_k).
    """
    handles = []
    for attention, gate, mean in zip(attentions(model).values(), gates, means, strict=True):

        def mix(w_o, inputs, gate=gate, mean=mean):
            heads = inputs[0].unflatten(-1, mean.shape[-2:])  # (B, L, H, d_k)
            if mean.dim() == 3:  # one for each place; after the last one, the last
                mean = mean[torch.arange(heads.shape[1]).clamp(max=len(mean) - 1)]
            return (mean + gate[:, None] * (heads - mean)).flatten(-2)

        handles.append(attention.w_o.register_forward_pre_hook(mix))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@torch.no_grad()
def right_and_loss(model: Transformer, batch: Batch, gates: Tensor, means: list[Tensor]):
    """Return the share of dates right in every character, and the loss, with these gates."""
    with gated(model, gates, means):
        logits = model(batch.source, batch.target_in)
    right = (logits.argmax(dim=-1) == batch.target_out).all(dim=1).double().mean().item()
    return right, F.cross_entropy(logits.transpose(1, 2), batch.target_out).item()


def pruning(run: Run, sizes: dict) -> dict:
    """Return the exact match after 0, 1, … heads are gone, in three orders."""
    pairs = date_pairs(sizes["pruned"], 2, split="test")
    batch = batch_of(run, pairs)
    means = usual_outputs(run, pairs, sizes["known"])
    whole = torch.ones(len(means), means[0].shape[-2])

    def measure(gates: Tensor):
        return right_and_loss(run.model, batch, gates, means)

    def without(gates: Tensor, head: int) -> Tensor:
        gates = gates.clone()
        gates.view(-1)[head] = 0
        return gates

    def curve(order: list[int]) -> list[float]:
        gates, points = whole, [measure(whole)[0]]
        for head in order:
            gates = without(gates, head)
            points.append(measure(gates)[0])
        return points

    known = batch_of(run, date_pairs(sizes["known"], 11))
    one_mean = mean_outputs(run.model, known, each_place=False)
    of_all_places = [
        right_and_loss(run.model, batch, without(whole, head), one_mean)[0]
        for head in range(whole.numel())
    ]
    alone = [measure(without(whole, head)) for head in range(whole.numel())]
    gates, greedy = whole, []
    for _ in range(whole.numel()):
        left = [head for head in range(whole.numel()) if head not in greedy]
        losses = {head: measure(without(gates, head))[1] for head in left}
        greedy.append(min(left, key=losses.get))
        gates = without(gates, greedy[-1])
    draw = random.Random(0)
    shuffled = [draw.sample(range(whole.numel()), whole.numel()) for _ in range(sizes["orders"])]
    return {
        "names": list(attentions(run.model)),
        "alone": [right for right, _ in alone],
        "alone, one mean for all places": of_all_places,
        "loss alone": [loss for _, loss in alone],
        "greedy order": greedy,
        "greedy": curve(greedy),
        "by harm alone": curve(sorted(range(whole.numel()), key=lambda head: alone[head][1])),
        "random orders": [curve(order) for order in shuffled],
    }


# ---- Five ways to explain, and the intervention


def replaced(text: str, place: int, draw: random.Random, count: int) -> list[str]:
    """Return the text with another sign of the same kind at a place, `count` times."""
    sign = text[place]
    kinds = ("0123456789", "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    kind = next((kind for kind in kinds if sign in kind), " -./,").replace(sign, "")
    signs = draw.sample(kind, min(count, len(kind)))
    return [text[:place] + other + text[place + 1 :] for other in signs]


@torch.no_grad()
def effects(run: Run, text: str, iso: str, count: int, draw: str = "") -> dict[str, Tensor]:
    """Return how far each prediction moves when each character is replaced: (11, len(text)).

    Total variation of the probabilities: its mean over the replacements, and its largest value.
    Another `draw` replaces by other characters.
    """
    draw = random.Random(text + draw)
    variants = [replaced(text, place, draw, count) for place in range(len(text))]
    batch = batch_of(run, [(text, iso), *((v, iso) for group in variants for v in group)])
    chances = run.model(batch.source, batch.target_in).softmax(dim=-1)
    moved = (chances[1:] - chances[:1]).abs().sum(dim=-1) / 2
    groups = moved.split([len(group) for group in variants])
    return {
        "mean": torch.stack([group.mean(dim=0) for group in groups], dim=1),
        "largest": torch.stack([group.amax(dim=0) for group in groups], dim=1),
    }


def explanations(run: Run, text: str, iso: str) -> dict[str, Tensor]:
    """Return what five ways say of each character's part in each prediction: (11, len(text))."""
    model, batch = run.model, batch_of(run, [(text, iso)])
    maps = attention_maps(model, batch.source, batch.target_in)
    by_kind = {
        kind: [w[0] for name, w in maps.items() if re.match(kind, name)]
        for kind in ("encoder.*", "decoder.*self", "decoder.*cross")
    }
    cross = by_kind["decoder.*cross"]
    found = {
        "attention, last layer": cross[-1].mean(dim=0),
        "attention, all layers": torch.stack(cross).mean(dim=(0, 1)),
        "rollout": rollout(*by_kind.values()),
        "attention × norm, last layer": by_norm(model, batch, cross[-1]),
        "gradient × input": gradient_times_input(model, batch),
    }
    return {name: share[:, : len(text)] for name, share in found.items()}


def rollout(encoder: list[Tensor], own: list[Tensor], cross: list[Tensor]) -> Tensor:
    """Return each prediction's share of each source piece, half of it by the residual each time.

    Abnar and Zuidema's rollout, carried on through the decoder; each w is (H, Lq, Lk).
    """
    read = torch.eye(encoder[0].shape[-1])
    for w in encoder:
        read = (w.mean(dim=0) + torch.eye(len(read))) / 2 @ read
    share = torch.zeros(own[0].shape[-1], len(read))  # at first the target holds no source
    for w_own, w_cross in zip(own, cross, strict=True):
        share = (w_own.mean(dim=0) @ share + share) / 2
        share = (w_cross.mean(dim=0) @ read + share) / 2
    return share


@torch.no_grad()
def by_norm(model: Transformer, batch: Batch, weights: Tensor) -> Tensor:
    """Return the length of what each source piece adds through the last cross-attention.

    Its heads' vectors are added up first: ‖Σ_h w v W_O‖, (Lt, Ls).
    """
    memory, _ = model.encode(batch.source)
    attention = model.decoder.layers[-1].cross_attention
    values = split_heads(attention.w_v(memory), attention.num_heads)[0]  # (H, Lk, d_v)
    out = attention.w_o.weight.unflatten(1, (attention.num_heads, -1))  # (d_model, H, d_v)
    added = torch.einsum("hqk,hkv,mhv->qkm", weights, values, out)
    return added.norm(dim=-1)


def gradient_times_input(model: Transformer, batch: Batch) -> Tensor:
    """Return |∂ log p / ∂ embedding · embedding| of each prediction and source piece."""
    embedded = model.source_embedding(batch.source).detach().requires_grad_()
    mask = padding_mask(batch.source)
    memory = model.encoder(model.positions(embedded), mask)
    chances = model.decode(batch.target_in, memory, mask).log_softmax(dim=-1)
    answers = chances.gather(-1, batch.target_out[..., None])[0, :, 0]
    rows = [torch.autograd.grad(answer, embedded, retain_graph=True)[0][0] for answer in answers]
    return (torch.stack(rows) * embedded[0]).sum(dim=-1).abs().detach()


def rank_correlation(a: Tensor, b: Tensor) -> Tensor:
    """Return Spearman's correlation of each row of `a` with that of `b`."""
    a, b = (x.argsort(dim=-1).argsort(dim=-1).double() for x in (a, b))
    a, b = (x - x.mean(dim=-1, keepdim=True) for x in (a, b))
    return (a * b).sum(dim=-1) / (a.norm(dim=-1) * b.norm(dim=-1))


def interval(values: list[list[float]]) -> dict:
    """Return the mean over all numbers, and 95 % of its bootstrap, whole dates resampled."""
    sums = torch.tensor([[sum(v), len(v)] for v in values], dtype=torch.double)
    drawn = torch.randint(
        len(sums), (RESAMPLES, len(sums)), generator=torch.Generator().manual_seed(0)
    )
    totals = sums[drawn].sum(dim=1)
    means = (totals[:, 0] / totals[:, 1].clamp(min=1)).sort().values
    mean = (sums[:, 0].sum() / sums[:, 1].sum()).item()
    return {"mean": mean, "low": means[RESAMPLES // 40].item(), "high": means[-25].item()}


def differences(one: dict, other: dict, chosen: list[list[bool]]) -> list[list[float]]:
    """Return, for each date, how much more often the one names the top character of each digit
    that is chosen.
    """
    dates = zip(one["mean"]["top"], other["mean"]["top"], chosen, strict=True)
    return [[a - b for a, b, c in zip(*digits, strict=True) if c] for digits in dates]


def chosen_hits(one: dict, chosen: list[list[bool]]) -> list[list[float]]:
    """Return, for each date, how often the one names the top character of the chosen digits."""
    dates = zip(one["mean"]["top"], chosen, strict=True)
    return [[hit for hit, c in zip(*digits, strict=True) if c] for digits in dates]


def explained(runs: list[Run], seed: int, sizes: dict) -> dict:
    """Return how often each way names the character whose replacement moves a digit most, and by
    how much it is ahead of another model's, and of how the date was written, on the same digits:
    all, those copied from one character, those of a month that was written as a name.
    """
    run, others = runs[seed], {i: other for i, other in enumerate(runs) if i != seed}
    hits: dict = {}
    moved = {"all": [], "month by name": [], "month in figures": []}
    digits = {"ahead": [], "ahead, copied": [], "ahead, from a name": []}
    for text, iso in date_pairs(sizes["explained"], 5, split="test"):
        found = explanations(run, text, iso)
        for i, other in others.items():
            theirs = explanations(other, text, iso)
            found |= {f"control: {name}, of seed {i}": theirs[name] for name in OF_OTHERS}
        found["control: how it was written"] = sources_of(text).double()
        again = effects(run, text, iso, sizes["variants"], draw=" again")["mean"]
        found["control: the experiment, repeated"] = again
        named = fields(text)[1][0].isalpha()
        for summary, effect in effects(run, text, iso, sizes["variants"]).items():
            effect = effect[ROWS]
            keep = effect.amax(dim=-1) >= SMALLEST
            if summary == "mean":
                moved["all"].append(keep.double().tolist())
                kind = "month by name" if named else "month in figures"
                moved[kind].append(keep[4:6].double().tolist())
                made_of = sources_of(text)[ROWS].sum(dim=-1)[keep]
                for among, chosen in zip(
                    digits.values(), (made_of >= 0, made_of == 1, made_of > 1), strict=True
                ):
                    among.append(chosen.tolist())
            top = effect.argmax(dim=-1, keepdim=True)
            for name, share in found.items():
                share = share[ROWS]
                # Of several that are equally large, each counts its part.
                best = (share == share.amax(dim=-1, keepdim=True)).double()
                hit = (best / best.sum(dim=-1, keepdim=True)).gather(-1, top)[:, 0]
                scores = hits.setdefault(name, {}).setdefault(summary, {"top": [], "rank": []})
                scores["top"].append(hit[keep].tolist())
                if summary == "mean" and name not in UNRANKED:
                    scores["rank"].append(rank_correlation(share, effect)[keep].tolist())
            chance = torch.full((int(keep.sum()),), 1 / len(text)).tolist()
            hits.setdefault("control: chance", {}).setdefault(summary, {"top": [], "rank": []})[
                "top"
            ].append(chance)
    table = {
        name: {
            f"{score}, {summary}": interval(values)
            for summary, scores in by_summary.items()
            for score, values in scores.items()
            if values
        }
        for name, by_summary in hits.items()
    }
    rivals = {f"of seed {i}": f"control: {{}}, of seed {i}" for i in others}
    rivals["how it was written"] = "control: how it was written"
    tops = {
        among: {
            name: interval(chosen_hits(hits[name], chosen))
            for name in hits
            if name != "control: chance"
        }
        for among, chosen in digits.items()
    }
    ahead = {
        among: {
            name: {
                rival: interval(differences(hits[name], hits[key.format(name)], chosen))
                for rival, key in rivals.items()
            }
            for name in OF_OTHERS
        }
        for among, chosen in digits.items()
    }
    return {
        "ways": table,
        "top": {among.removeprefix("ahead").strip(", ") or "all": t for among, t in tops.items()},
        **ahead,
        "moved": {name: interval(v) for name, v in moved.items() if v},
    }


# ---- The translator without one kind of attention

KINDS = {
    "whole": ("nothing", True),
    "no cross-attention": ("decoder.*cross", True),
    "no decoder self-attention": ("decoder.*self", True),
    "no decoder self-attention, one mean": ("decoder.*self", False),
    "no encoder self-attention": ("encoder", True),
}
LIMIT = 60  # pieces of a translation


@torch.no_grad()
def written_greedily(run: Run, sources: list[str]) -> list[str]:
    """Return greedy translations, all places anew at each step: a mean for each place knows it."""
    ids = [torch.tensor(run.tokenizer.encode(source)) for source in sources]
    memory, mask = run.model.encode(torch.nn.utils.rnn.pad_sequence(ids, batch_first=True))
    written = torch.full((len(sources), 1), BOS)
    ended = torch.zeros(len(sources), dtype=torch.bool)
    while written.shape[1] < LIMIT and not ended.all():
        states = run.model.decode_states(written, memory, mask)[:, -1]
        token = run.model.generator(states).argmax(dim=-1)
        written = torch.cat([written, token.masked_fill(ended, PAD)[:, None]], dim=1)
        ended = ended | (token == EOS)
    return [run.tokenizer.decode(row) for row in written]


class Bigrams:
    """German captions by counts of pairs of words, mixed with counts of words: no source at all."""

    def __init__(self, sentences: list[str]):
        words = [["<s>", *sentence.split(), "</s>"] for sentence in sentences]
        self.ones = Counter(word for sentence in words for word in sentence[1:])
        self.twos = Counter(pair for sentence in words for pair in pairwise(sentence))
        self.firsts = Counter(word for sentence in words for word in sentence[:-1])
        self.total = sum(self.ones.values())

    def cost(self, sentence: str) -> tuple[float, int]:
        """Return −ln p of a sentence, and the number of its words and its end."""
        words = ["<s>", *sentence.split(), "</s>"]
        cost = 0.0
        for first, second in pairwise(words):
            alone = (self.ones[second] + 0.5) / (self.total + 0.5 * (len(self.ones) + 1))
            pair = self.twos[first, second] / self.firsts[first] if self.firsts[first] else 0.0
            cost -= math.log(0.75 * pair + 0.25 * alone)
        return cost, len(words) - 1


def translated(sizes: dict) -> Iterator[dict]:
    """Yield a row for each kind of attention that is taken away, and for two controls."""
    run, data = load_run(), load_multi30k("raw")
    pairs = data["test2016"][: sizes["captions"]]
    sources, references = (list(side) for side in zip(*pairs, strict=True))
    bigrams = Bigrams([german for _, german in data["train"]])
    common = {word for word, _ in bigrams.ones.most_common(50)}
    known = batch_of(run, data["val"][: max(8, sizes["captions"])])
    means_of = {each: mean_outputs(run.model, known, each) for each in (True, False)}
    written = {}
    for name, (pattern, each_place) in KINDS.items():
        means = means_of[each_place]
        gates = torch.ones(len(means), len(means[0]))
        for row, module in enumerate(attentions(run.model)):
            gates[row] = 0.0 if re.match(pattern, module) else 1.0
        with gated(run.model, gates, means):
            written[name] = written_greedily(run, sources)
    written["control: the next caption's translation"] = [
        *written["whole"][1:],
        written["whole"][0],
    ]
    written["control: the words of the whole, shuffled"] = [
        " ".join(random.Random(i).sample(text.split(), len(text.split())))
        for i, text in enumerate(written["whole"])
    ]
    for name, outputs in written.items():
        found, repeats, costs = [], [], []
        for output, reference in zip(outputs, references, strict=True):
            words = output.split()
            wanted = [word for word in reference.split() if word not in common]
            found.append([float(word in words) for word in wanted])
            repeats.append([float(a == b) for a, b in pairwise(words)])
            cost, count = bigrams.cost(output)
            costs.append([cost / count] * count)
        yield {
            "experiment": "translator",
            "name": name,
            "bleu": score(run.data, outputs, references)["bleu"],
            "content words found": interval(found),
            "words repeated at once": interval(repeats),
            "cost of a word for bigrams": interval(costs),
            "different outputs": len(set(outputs)),
            "words": statistics.mean(len(output.split()) for output in outputs),
            "examples": outputs[:4],
        }


def plan(smoke: bool) -> Iterator[tuple[dict, Callable]]:
    """Yield each experiment and reader, and what asks."""
    sizes = SMOKE if smoke else LONG
    runs = [load_run(PRETRAINED / f"dates_{seed}") for seed in range(sizes["seeds"])]
    for seed, run in enumerate(runs):
        yield {"experiment": "explanations", "seed": seed}, partial(explained, runs, seed, sizes)
        setting = {"experiment": "pruning", "means": FORMS, "seed": seed}
        yield setting, partial(pruning, run, sizes)
    yield {"experiment": "translator"}, lambda: list(translated(sizes))


def notes(smoke: bool) -> dict:
    return {"sizes": SMOKE if smoke else LONG}


def main(arguments: list[str] | None = None) -> None:
    """Measure what l11_inside.json does not have yet."""
    measure_rows("l11_inside", __doc__, arguments, plan, notes=notes)


if __name__ == "__main__":
    main()
