"""What the GPU benchmarks share: the device, the data, the recipe, trained models, the clock."""

import time
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.gpu.engine import Trainer, Way, train_together
from benchmarks.quality import ADAM
from benchmarks.recipes import GentleRDrop, RDrop
from benchmarks.reporting.report import RESULTS, SEED
from transformer_lab import (
    PRESETS,
    ModelConfig,
    Objective,
    Preset,
    Run,
    Transformer,
    average_checkpoints,
    date_pairs,
    load_multi30k,
    train_tokenizer,
)
from transformer_lab.model import load_parameters
from transformer_lab.runs import TextPairs, encode_pairs, find_preset, score
from transformer_lab.support.files import read_json
from transformer_lab.tokenizer import Tokenizer

SEARCH = "gpu_search.json"
TESTS = ("test2016", "test2017", "mscoco")

# What differs from the preset, which two CPU cores chose and took to its end: settings, and another
# objective. One of them is chosen, by BLEU on the validation set.
PRESET = "multi30k-tok"
TWICE = {"max_tokens": 4096, "rate_factor": 2.2}
WIDE = {"d_model": 256, "num_heads": 8, "d_ff": 512}
RECIPES: dict[str, tuple[dict, type[Objective]]] = {
    "preset": ({}, Objective),
    "4,096 tokens": (TWICE, Objective),
    "4,096 tokens, R-Drop": (TWICE, RDrop),
    "4,096 tokens, R-Drop, d_model 256": (TWICE | WIDE, RDrop),
    "4,096 tokens, a gentle R-Drop, d_model 256": (TWICE | WIDE, GentleRDrop),
    "4,096 tokens, d_model 256, dropout 0.4": (TWICE | WIDE | {"dropout": 0.4}, Objective),
    "4,096 tokens, R-Drop, d_model 256, dropout 0.2": (TWICE | WIDE | {"dropout": 0.2}, RDrop),
    "4,096 tokens, R-Drop, d_model 256, 3+3 layers": (
        TWICE | WIDE | {"num_encoder_layers": 3, "num_decoder_layers": 3},
        RDrop,
    ),
    "8,192 tokens, R-Drop": ({"max_tokens": 8192, "rate_factor": 3.0}, RDrop),
    "4,096 tokens, Adam": (TWICE | ADAM | {"rate_factor": 1.3}, Objective),
    "4,096 tokens, R-Drop, smoothing 0.2": (TWICE | {"label_smoothing": 0.2}, RDrop),
    "4,096 tokens, dropout 0.4": (TWICE | {"dropout": 0.4}, Objective),
}
SIDE_BY_SIDE = 4  # trainings at once, in the search

TOY = {"d_model": 16, "num_heads": 2, "d_ff": 32, "dropout": 0.1, "max_length": 64}
TOY |= {"num_encoder_layers": 1, "num_decoder_layers": 1, "max_tokens": 512, "warmup": 10}
TOY |= {"steps": 12, "checkpoint_every": 4, "average": 2}


@dataclass(frozen=True)
class Task:
    """Sentences as text and as ids, with the tokenizer learnt from the training split."""

    data: str
    splits: dict[str, TextPairs]
    tokenizer: Tokenizer
    pairs: list


@dataclass(eq=False)
class Lab:
    """The machine and the clock of one call; `left_out` says what could not be measured, and why.

    `smoke` is toy sizes and toy data; compiling then stops before machine code is made.
    """

    device: torch.device
    output: Path | None = None
    smoke: bool = False
    deadline: float = float("inf")
    left_out: list[str] = field(default_factory=list)
    runs: dict[tuple, tuple[Run, list[dict]]] = field(default_factory=dict)

    def way(self, **switches) -> Way:
        """Return all that makes training fast but torch.compile, unless asked for."""
        return Way(**switches, compile_with="eager" if self.smoke else "inductor")

    def left(self) -> float:
        """Return the seconds that are left of this part's time."""
        return self.deadline - time.perf_counter()

    def has(self, seconds: float, what: str) -> bool:
        """Whether there is time for `what`; if not, say so in the results."""
        if self.left() >= seconds:
            return True
        self.left_out.append(f"{what}: no time was left for it")
        return False

    def attempt(self, what: str, measure, *arguments):
        """Return what `measure` returns; None, and a line in the results, if the machine refuses.

        One thing that does not work on a GPU must not cost the results of all the others.
        """
        try:
            return measure(*arguments)
        except Exception as error:  # compiled code asserts, too; the others must go on
            lines = str(error).strip().splitlines() or [""]
            self.left_out.append(f"{what}: {type(error).__name__}: {lines[0]}")
            return None

    @cache  # noqa: B019 - there is one lab in a process
    def task(self, variant: str) -> Task:
        """Return Multi30k, "tok" or "raw"; at toy size, some dates."""
        if self.smoke:
            splits = {"train": date_pairs(120, 0), "val": date_pairs(8, 1, split="test")}
            splits |= {name: date_pairs(8, 2, split="test") for name in TESTS}
        else:
            splits = load_multi30k(variant)
        texts = [text for pair in splits["train"] for text in pair]
        vocabulary = PRESETS[PRESET].model.target_vocab_size
        tokenizer = train_tokenizer(texts, 120 if self.smoke else vocabulary)
        pairs = encode_pairs(tokenizer, splits["train"])
        return Task(f"multi30k-{variant}", splits, tokenizer, pairs)

    def recipe(self, name: str | None = None) -> tuple[str, Preset, type[Objective]]:
        """Return a recipe by name; else the search's best on the validation set, or the preset."""
        if name is None:
            folders = (self.output, *(() if self.smoke else (RESULTS,)))
            found = [f / SEARCH for f in folders if f and (f / SEARCH).exists()]
            name = read_json(found[0])["chosen"] if found else "preset"
        settings, objective = RECIPES[name]
        return name, find_preset(PRESET, settings | (TOY if self.smoke else {})), objective

    def trainer(
        self,
        task: Task,
        preset: Preset,
        way: Way,
        seed: int = SEED,
        objective: type[Objective] = Objective,
    ) -> Trainer:
        """Return a trainer of a new model on the task; the seed decides all that is random."""
        sizes = dict.fromkeys(("source_vocab_size", "target_vocab_size"), task.tokenizer.vocab_size)
        model = new_model(replace(preset.model, **sizes), seed).to(self.device)
        return Trainer(model, task.pairs, replace(preset.training, seed=seed), way, objective)

    def prepare(self, trainer: Trainer) -> float:
        """Prepare the trainer; where graphs cannot be recorded, do without, and say so."""
        seconds = self.attempt("recording CUDA graphs", trainer.prepare)
        if seconds is None:
            trainer.records = False
            trainer.recorded.clear()
            seconds = trainer.prepare()
        return seconds

    def train(self, wanted: list[tuple[str, str | None, int]]) -> list[tuple[Run, list[dict]]]:
        """Train (variant, recipe, seed) to their ends, side by side; return averages and histories.

        What was trained before is there already.
        """
        new = [each for each in dict.fromkeys(wanted) if each not in self.runs]
        jobs = []
        for variant, name, seed in new:
            task, (_, preset, objective) = self.task(variant), self.recipe(name)
            trainer = self.trainer(task, preset, self.way(), seed, objective)
            jobs.append((task, preset, trainer, self.prepare(trainer)))
        plans = [
            (trainer, preset.training.steps, preset.training.checkpoint_every)
            for _, preset, trainer, _ in jobs
        ]
        for each, (task, preset, trainer, setup), (history, snapshots) in zip(
            new, jobs, train_together(plans, self.deadline) if plans else (), strict=True
        ):
            history[-1] |= {"setup_seconds": round(setup, 3), "side_by_side": len(plans)}
            self.runs[each] = self.run_of(task, preset, trainer, snapshots), history
        return [self.runs[each] for each in wanted]

    def run_of(self, task: Task, preset: Preset, trainer: Trainer, snapshots: list) -> Run:
        """Return the run whose weights are the mean of the last snapshots."""
        model = new_model(trainer.model.config, SEED).to(self.device)
        load_parameters(model, averaged(snapshots, preset.training.average), "the average")
        return Run(Path(), model.eval(), task.tokenizer, task.data, preset.beam, preset.alpha)

    def bleu(self, run: Run, split: str, **options) -> dict:
        """Translate a split and score it as its task is scored: {"bleu", "signature"}."""
        variant = run.data.removeprefix("multi30k-")
        sources, references = zip(*self.task(variant).splits[split], strict=True)
        return score(run.data, run.translate(sources, **options), references)


def new_model(config: ModelConfig, seed: int) -> Transformer:
    """Return a model whose first weights follow from the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Transformer(config)


def averaged(snapshots: list[dict[str, Tensor]], count: int) -> dict[str, Tensor]:
    """Return the mean of the last `count` snapshots (paper, 6.1)."""
    return average_checkpoints(snapshots[-count:])
