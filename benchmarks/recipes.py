"""`python -m benchmarks.recipes`: what keeps a small Transformer from learning its pairs by heart.

About a quarter of the training pairs, each seen fifty times, about as often as in a run on all: so
the gap between training and validation is there, at a quarter of the cost. One thing at a time is
changed; the validation set alone is scored. A way that was stopped goes on where it stood.
"""

import argparse
import functools
import itertools
import json
import random
from dataclasses import asdict
from pathlib import Path
from unittest import mock

import torch
from torch import Tensor, nn

from benchmarks.reporting import report
from benchmarks.reporting.report import RESULTS, markdown
from transformer_lab import (
    EOS,
    PAD,
    UNK,
    Objective,
    Run,
    Tokenizer,
    TrainConfig,
    Transformer,
    train,
    train_tokenizer,
)
from transformer_lab.data.batches import batches_by_tokens
from transformer_lab.data.pairs import TextPairs
from transformer_lab.runs import (
    HISTORY,
    METRICS,
    encode_pairs,
    find_preset,
    load_run,
    load_task,
    score,
)
from transformer_lab.support.files import read_json, write_json
from transformer_lab.tokenizer import SPACE
from transformer_lab.training import fit, validate
from transformer_lab.training.fused_loss import GPU_CHUNK

PAIRS, EPOCHS, DATA = 8000, 50, "multi30k-tok"
BASE = {
    "source_vocab_size": 10_000,
    "target_vocab_size": 10_000,
    "d_model": 128,
    "num_heads": 4,
    "d_ff": 256,
    "num_encoder_layers": 4,
    "num_decoder_layers": 4,
    "dropout": 0.3,
    "pre_norm": True,
    "activation_dropout": True,
    "optimizer": "adam",
    "weight_decay": 0.0,
    "schedule": "linear",
    "warmup": 500,
    "rate_factor": 0.6,
    "max_tokens": 1500,
    "average": 8,
    "precision": "float32",
    "compile": False,
}
# Name, beam, length penalty.
DECODED = (("bleu_greedy", 1, 0.6), ("bleu_beam_5", 5, 0.6), ("bleu_alpha_1.5", 5, 1.5))
ROWS = 64  # targets whose logits are held at once
PLAIN = {"activation_dropout": False}
WAYS_TO_CUT = 16
WIDE = {"d_model": 256, "num_heads": 8, "d_ff": 512}
# What two cores can do in two hours: with R-Drop a step takes twice as long.
SHORT = {"steps": 4500, "checkpoint_every": 150}
TOY = {"d_model": 16, "num_heads": 1, "d_ff": 16, "steps": 4, "checkpoint_every": 1, "warmup": 2}
TOY |= {"source_vocab_size": 300, "target_vocab_size": 300}


class WordDropout(Objective):
    """Words that are read, not those to predict, become `<unk>` with a probability of 0.1."""

    def __init__(self, model: Transformer, config: TrainConfig):
        super().__init__(model, config)
        self.states = WithGaps(self.states)


class WithGaps(nn.Module):
    """The decoder's states for sentences with gaps in them."""

    def __init__(self, states: nn.Module, probability: float = 0.1):
        super().__init__()
        self.states, self.model, self.probability = states, states.model, probability

    def forward(self, source: Tensor, target_in: Tensor) -> Tensor:
        """Return the states, (B, Lt, d_model), of sources (B, Ls) and targets (B, Lt)."""
        return self.states(self.with_gaps(source), self.with_gaps(target_in))

    def with_gaps(self, ids: Tensor) -> Tensor:
        """Return the ids with some of the words unknown; `<pad>`, `<bos>` and `<eos>` stay."""
        gap = (torch.rand(ids.shape, device=ids.device) < self.probability) & (ids > UNK)
        return torch.where(gap, UNK, ids)


class RDrop(Objective):
    """Each batch twice, with other dropout, and a cost for two answers that differ [1].

    [1] Liang et al. 2021, R-Drop: Regularized Dropout for Neural Networks. Its weight for
    translation is 5 beside the sum of the two losses, so 2.5 beside their mean.
    """

    weight = 2.5

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Return the summed loss, (), of sources (B, Ls) and targets (B, Lt)."""
        states = self.states(source.repeat(2, 1), target[:, :-1].repeat(2, 1)).flatten(0, 1)
        targets, matrix = target[:, 1:].flatten(), self.states.model.generator.weight
        if targets.device.type == "cpu":  # a GPU would have to wait until it is known where it is
            real = targets != PAD
            states, targets = states[real.repeat(2)], targets[real]
        settings = self.label_smoothing, self.weight, self.compiled
        return TwoAnswers.apply(states, matrix, targets, *settings)


def costs_and_gradients(
    logits: tuple[Tensor, Tensor],
    targets: Tensor,
    smoothing: float,
    weight: float,
    dtype: torch.dtype,
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Return the cost of each token, (N, 1), and its gradient with respect to both logits (N, V).

    With p and q the probabilities and r = log p − log q, the symmetric divergence is ½ Σ (p − q) r,
    and its gradient with respect to the first logits ½ (p (r − Σ p r) + p − q).
    """
    V, targets = logits[0].shape[-1], targets[:, None]
    log_p, log_q = (x.log_softmax(-1, dtype=dtype) for x in logits)
    p, q, r = log_p.exp(), log_q.exp(), log_p - log_q
    cost, gradients = 0.0, []
    for log_own, own, other, apart in ((log_p, p, q, r), (log_q, q, p, -r)):
        divergence = (own * apart).sum(-1, keepdim=True)  # Kullback and Leibler's, from the other
        mean, chosen = log_own.mean(-1, keepdim=True), log_own.gather(-1, targets)
        likely = (1 - smoothing) * chosen + smoothing * mean
        cost = cost + (weight * divergence - likely) / 2
        gradient = weight * ((apart - divergence + 1) * own - other) + own - smoothing / V
        if torch.compiler.is_compiling():  # then it is part of a pass that is made anyway
            columns = torch.arange(V, device=targets.device)
            gradient = gradient - (1 - smoothing) * (columns == targets)
        else:
            gradient.scatter_add_(-1, targets, torch.full_like(chosen, smoothing - 1))
        gradients.append((gradient / 2).to(logits[0].dtype))
    return cost, tuple(gradients)


@functools.cache
def _compiled_costs_and_gradients():
    return torch.compile(costs_and_gradients, dynamic=True)  # fewer passes over the logits


class TwoAnswers(torch.autograd.Function):
    """The mean loss of two answers, and `weight` times the symmetric divergence of the two.

    In chunks, and without the rows whose target is PAD, as `FusedLoss`.
    """

    @staticmethod
    def forward(ctx, states, words, targets, smoothing, weight, compiled=False):
        """Return the sum over the targets (N,) for states (2 N, d_model)."""
        on_cpu, matrix = states.device.type == "cpu", words.to(states.dtype)  # perhaps bfloat16
        compute = costs_and_gradients
        if compiled and not on_cpu:
            compute = _compiled_costs_and_gradients()
        loss = words.new_zeros(())
        to_states, to_words = torch.empty_like(states), torch.zeros_like(words)
        chunks = (x.split(ROWS if on_cpu else GPU_CHUNK) for x in (*states.chunk(2), targets))
        places = (x.split(ROWS if on_cpu else GPU_CHUNK) for x in to_states.chunk(2))
        for *both, y, place, other_place in zip(*chunks, *places, strict=True):
            real = (y != PAD)[:, None]
            logits = tuple(h @ matrix.T for h in both)
            cost, gradients = compute(logits, y, smoothing, weight, words.dtype)
            loss += (cost * real).sum()
            for h, gradient, out in zip(both, gradients, (place, other_place), strict=True):
                torch.mul(gradient @ matrix, real, out=out)
                to_words += gradient.T @ (h * real)
        ctx.save_for_backward(to_states, to_words)
        return loss

    @staticmethod
    def backward(ctx, grad_loss):
        """Return the gradients with respect to states and matrix."""
        to_states, to_words = ctx.saved_tensors
        return to_states * grad_loss, to_words * grad_loss, None, None, None, None


def train_wide(folder: Path, **settings) -> Run:
    """Return the run in `folder`: `multi30k-tok` with R-Drop at twice the width, 4,500 steps."""
    with mock.patch("transformer_lab.training.loop.Objective", RDrop):
        return train(DATA, folder, **WIDE | SHORT | settings)


def _pieces(count: int) -> dict:
    return {"source_vocab_size": count, "target_vocab_size": count}


def cut_in_many_ways(tokenizer: Tokenizer, pairs: TextPairs) -> list[tuple[list, list]]:
    """Return each pair 16 times, its words cut at random: BPE-dropout [1].

    [1] Provilkov et al. 2020, BPE-Dropout: at each step of cutting, a merge is left out with a
    probability of 0.1.
    """
    rng, words = random.Random(6), {}
    split = tokenizer._bpe.pre_tokenizer.pre_tokenize_str
    ids = {piece: i for i, piece in enumerate(tokenizer.pieces)}
    ranks = {pair: rank for rank, pair in enumerate(tokenizer.merges)}

    def encode(text: str) -> list[int]:
        found = []
        for word, _ in split(SPACE + text.replace(" ", SPACE)):
            if word not in words:
                words[word] = [cut(word, ranks, rng) for _ in range(WAYS_TO_CUT)]
            found += rng.choice(words[word])
        return [*map(ids.__getitem__, found), EOS]

    return [tuple(map(encode, pair)) for _ in range(WAYS_TO_CUT) for pair in pairs]


def both_directions(tokenizer: Tokenizer, pairs: TextPairs) -> list[tuple[list, list]]:
    """Return each pair, and the other way round: the words that are read say which way it goes."""
    return encode_pairs(tokenizer, pairs + [(target, source) for source, target in pairs])


def cut(word: str, ranks: dict, rng: random.Random, probability: float = 0.1) -> list[str]:
    """Return the pieces of a word, merged in the order of `ranks`, now and then leaving one out."""
    pieces = list(word)
    while True:
        merges = [
            (ranks[pair], place)
            for place, pair in enumerate(itertools.pairwise(pieces))
            if pair in ranks and rng.random() >= probability
        ]
        if not merges:
            return pieces
        _, place = min(merges)
        pieces[place : place + 2] = [pieces[place] + pieces[place + 1]]


ABOUT = {
    "way": "On a quarter of the pairs: validation set, beam 5, the paper's length penalty",
    "run": "On all pairs: the same, of the presets and of what else was tried",
}
# What is changed, by the name of the row: settings, the objective, how the pairs are encoded.
WAYS = {
    "the published shape": ({}, Objective),
    "R-Drop": ({}, RDrop),
    "word dropout 0.1": ({}, WordDropout),
    "nothing dropped inside the networks": (PLAIN, Objective),
    "…, and twice the rate": (PLAIN | {"rate_factor": 1.2}, Objective),
    "…, and dropout 0.2": (PLAIN | {"dropout": 0.2}, Objective),
    "…, and LayerNorm after each sub-layer": (PLAIN | {"pre_norm": False}, Objective),
    "…, and word dropout 0.1": (PLAIN, WordDropout),
    "…, and German to English too": (PLAIN, Objective, both_directions),
    "…, and both of these": (PLAIN, WordDropout, both_directions),
    "BPE-dropout 0.1": ({}, Objective, cut_in_many_ways),
    "dropout 0.2": ({"dropout": 0.2}, Objective),
    "dropout 0.4": ({"dropout": 0.4}, Objective),
    "the paper's schedule": ({"schedule": "paper"}, Objective),
    "the paper's schedule, twice the rate": ({"schedule": "paper", "rate_factor": 1.2}, Objective),
    "4,000 pieces": (_pieces(4000), Objective),
    "LayerNorm after each sub-layer": ({"pre_norm": False}, Objective),
    "3 + 3 layers of width 192": (
        {"d_model": 192, "num_heads": 6, "d_ff": 512}
        | {"num_encoder_layers": 3, "num_decoder_layers": 3},
        Objective,
    ),
}


def measure(name: str, seed: int, runs: Path, *, device: str = "cpu", smoke: bool = False) -> dict:
    """Train one way, or go on, and return its row; one that is there already is returned."""
    changes, objective, *encode = WAYS[name]
    folder = runs / f"{name} {seed}"
    if (path := folder / "row.json").exists():
        return read_json(path)
    train_pairs = load_task(DATA)["train"]
    settings = BASE | {"seed": seed} | changes | (TOY if smoke else {})
    texts = [text for pair in train_pairs for text in pair]
    tokenizer = train_tokenizer(texts, settings["target_vocab_size"])
    chosen = random.Random(5).sample(train_pairs, min(PAIRS, len(train_pairs)))
    pairs = encode_pairs(tokenizer, chosen)
    if not smoke:
        lengths = [(len(target) + 1, len(source)) for source, target in pairs]
        settings["steps"] = EPOCHS * len(batches_by_tokens(lengths, settings["max_tokens"]))
        settings["checkpoint_every"] = settings["steps"] // 20
    if encode:
        pairs = encode[0](tokenizer, chosen)
    preset = find_preset(DATA, settings | _pieces(tokenizer.vocab_size))
    torch.manual_seed(seed)
    model = Transformer(preset.model).to(device)
    with mock.patch("transformer_lab.training.loop.Objective", objective):
        history = fit(model, pairs, preset.training, folder=folder, progress=False)
    row = {"way": name, "seed": seed, "changes": changes, "objective": objective.__name__}
    row["device"] = device
    row |= _effort(history) | scores_of(Run(folder, model, tokenizer, DATA, 5), chosen)
    write_json(path, row)
    return row


def tried(folder: Path) -> dict:
    """Return the row of a run on all pairs, from its folder."""
    run, notes = load_run(folder), read_json(folder / METRICS)
    row = {"run": folder.name, "seed": notes["seed"], "model": asdict(run.model.config)}
    row |= {"training": notes["training"], "parameters": notes["parameters"]}
    row |= _effort(json.loads((folder / HISTORY).read_text()))
    return row | scores_of(run, load_task(DATA)["train"])


def _effort(history: list[dict]) -> dict:
    return {key: history[-1][key] for key in ("step", "tokens", "seconds")}


def scores_of(run: Run, train_pairs: TextPairs) -> dict:
    """Return losses on 1,000 training pairs and on the validation set, and BLEU on the latter."""
    valid = load_task(DATA)["val"]
    row = {}
    for name, pairs in (("train", train_pairs[:1000]), ("valid", valid)):
        encoded = encode_pairs(run.tokenizer, pairs)
        row |= {f"{name}_{key}": x for key, x in validate(run.model, encoded).items()}
    # Pieces are of another length in another vocabulary: a sentence is not.
    tokens = sum(len(target) for _, target in encoded)
    row["nats_per_sentence"] = row["valid_loss"] * tokens / len(valid)
    sources, references = zip(*valid, strict=True)
    for name, beam, length_penalty in DECODED:
        outputs = run.translate(list(sources), beam=beam, length_penalty=length_penalty)
        row[name] = score(DATA, outputs, references)["bleu"]
    return row


def table(result: dict) -> str:
    """Return the ways on a quarter of the pairs, then the runs on all of them, the best first."""
    ways = sorted(result["rows"], key=lambda row: list(WAYS).index(row["way"]))
    runs = sorted(result["tried"], key=lambda row: -row["bleu_beam_5"])
    names = ["train_loss", "nats_per_sentence", "bleu_beam_5", "bleu_alpha_1.5"]
    columns = ["seed", "steps", "training loss", "nats per sentence", "BLEU", "at penalty 1.5"]
    texts = []
    for kind, rows in (("way", ways), ("run", runs)):
        lines = [
            [row[kind], row["seed"], f"{row['step']:,}", *(f"{row[name]:.2f}" for name in names)]
            for row in rows
        ]
        texts.append(f"{ABOUT[kind]}\n\n{markdown([kind, *columns], lines)}")
    return "\n\n".join(texts)


def main(arguments: list[str] | None = None) -> None:
    """Measure the ways that are asked for; recipes.json holds all that are in the folder."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recipes", description=__doc__)
    add = parser.add_argument
    add("--ways", nargs="*", choices=WAYS, default=list(WAYS), help="only these (all)")
    add("--seeds", type=int, nargs="+", default=(0, 1), help="seeds (0 and 1)")
    add("--runs", type=Path, default=Path("runs/recipes"), help="their folder (runs/recipes)")
    add("--tried", type=Path, nargs="+", default=(), help="run folders of recipes on all pairs")
    add("--output", type=Path, help=f"folder for the result ({RESULTS.name}/)")
    add("--threads", type=int, default=1, help="CPU threads (1)")
    add("--device", default="cpu", help="cpu or cuda (cpu)")
    add("--smoke", action="store_true", help="toy sizes; writes only to --output")
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    options.runs /= "smoke" if options.smoke else ""  # no toy is taken for a real run
    for seed in options.seeds:
        for name in options.ways:
            how = {"device": options.device, "smoke": options.smoke}
            print(measure(name, seed, options.runs, **how), flush=True)
    output = options.output or (None if options.smoke else RESULTS)
    if output:
        result = report.describe_run("recipes", smoke=options.smoke)
        result |= {"data": f"{DATA}, validation set", "pairs": PAIRS, "epochs": EPOCHS}
        result |= {"settings": BASE, "tried": [tried(folder) for folder in options.tried]}
        rows = sorted(options.runs.glob("*/row.json"))
        report.write(output / "recipes.json", result | {"rows": list(map(read_json, rows))})


if __name__ == "__main__":
    main()
