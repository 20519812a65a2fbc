"""What the GPU benchmarks share: the device, the data, the recipe, trained models, the clock."""

import time
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.gpu.engine import Trainer, Way, train
from benchmarks.gpu.power import watts
from benchmarks.intervals import counts_of, drawn, interval
from benchmarks.recipes import WIDE, RDrop
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
from transformer_lab.runs import TextPairs, encode_pairs, find_preset, score
from transformer_lab.saving import set_parameters
from transformer_lab.support.files import read_json
from transformer_lab.tokenizer import Tokenizer

SEARCH = "gpu_search.json"
TESTS = ("test2016", "test2017", "mscoco")

# What differs from the preset, which two CPU cores chose and took to its end: settings, and another
# objective. A step with twice the tokens takes a GPU half as long again.
PRESET, USUAL = "multi30k-tok", "4,096 tokens, 9,000 steps"
TWICE = {"max_tokens": 4096, "rate_factor": 2.2, "steps": 9000}
LONG = {"steps": 18_000, "checkpoint_every": 500}
SHORT = {"steps": 5000, "checkpoint_every": 200}
NARROWER = {"d_model": 192, "num_heads": 6, "d_ff": 512}  # 5.3 million weights, 10.5 MB
QUICK, SMALL = "R-Drop, d_model 256, 5,000 steps", "R-Drop, d_model 192, 18,000 steps"
RECIPES: dict[str, tuple[dict, type[Objective]]] = {
    USUAL: (TWICE, Objective),
    "R-Drop": (TWICE, RDrop),
    "d_model 256": (TWICE | WIDE, Objective),
    "R-Drop, d_model 256": (TWICE | WIDE, RDrop),
    "R-Drop, d_model 256, dropout 0.4": (TWICE | WIDE | {"dropout": 0.4}, RDrop),
    "R-Drop, d_model 256, 18,000 steps": (TWICE | WIDE | LONG, RDrop),
    QUICK: (TWICE | WIDE | SHORT, RDrop),
    SMALL: (TWICE | NARROWER | LONG, RDrop),
}

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

    `output` is for results, `folder` for trained models, `wanted` the recipes to search (all).
    `smoke` is toy sizes and toy data; compiling then stops before machine code is made.
    """

    device: torch.device
    output: Path | None = None
    smoke: bool = False
    folder: Path | None = None
    wanted: list[str] = field(default_factory=list)
    deadline: float = float("inf")
    left_out: list[str] = field(default_factory=list)
    runs: dict[Path, tuple[list, list]] = field(default_factory=dict)

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

    def chosen(self) -> str:
        """Return the name of the search's best recipe on the validation set; else the usual one."""
        folders = (self.output, *(() if self.smoke else (RESULTS,)))
        found = [f / SEARCH for f in folders if f and (f / SEARCH).exists()]
        return read_json(found[0])["chosen"] if found else USUAL

    def recipe(self, name: str = USUAL) -> tuple[Preset, type[Objective]]:
        """Return a recipe by name: its preset and its objective."""
        settings, objective = RECIPES[name]
        return find_preset(PRESET, settings | (TOY if self.smoke else {})), objective

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

    def trained(self, variant: str, seed: int, name: str = USUAL) -> tuple[Run, list[dict]]:
        """Return what `train` gives, as a run, averaged, and its history.

        What was trained before, also by another call with this folder, is not trained again.
        """
        task, (preset, objective) = self.task(variant), self.recipe(name)
        path = self._file(variant, seed, name)
        if path not in self.runs and self.folder and path.exists():
            found, history, mean = torch.load(path, map_location=self.device)
            if found == _identity(preset, objective):  # the recipe may have changed since
                self.runs[path] = history, mean
        if path not in self.runs:
            self.train(variant, seed, name)
        history, mean = self.runs[path]
        return self.run_of(task, preset, mean), history

    def train(self, variant: str, seed: int, name: str = USUAL) -> tuple[list, list]:
        """Train a recipe to its end, keep its mean, and return its history and all snapshots."""
        task, (preset, objective) = self.task(variant), self.recipe(name)
        way = self.way(compiled=objective is RDrop)  # it makes up for the time to compile
        trainer = self.trainer(task, preset, way, seed, objective)
        plan = preset.training
        with watts(self.device) as power:
            setup = self.prepare(trainer)
            history, snapshots = train(trainer, plan.steps, plan.checkpoint_every)
        history[-1] |= {"setup_seconds": round(setup, 3), "watts": power}
        path, mean = self._file(variant, seed, name), [averaged(snapshots, plan.average)]
        self.runs[path] = history, mean
        if self.folder:
            self.folder.mkdir(parents=True, exist_ok=True)
            torch.save((_identity(preset, objective), history, mean), path)
        return history, snapshots

    def _file(self, variant: str, seed: int, name: str) -> Path:
        plain = "".join(c if c.isalnum() else "-" for c in name)
        return (self.folder or Path()) / f"{variant}-{seed}-{plain}.pt"

    def run_of(self, task: Task, preset: Preset, snapshots: list) -> Run:
        """Return the run whose weights are the mean of the last snapshots."""
        sizes = dict.fromkeys(("source_vocab_size", "target_vocab_size"), task.tokenizer.vocab_size)
        model = new_model(replace(preset.model, **sizes), SEED).to(self.device)
        set_parameters(model, averaged(snapshots, preset.training.average), "the average")
        return Run(
            Path(), model.eval(), task.tokenizer, task.data, preset.beam, preset.length_penalty
        )

    def bleu(self, run: Run, split: str, **options) -> dict:
        """Translate a split and score it as its task is scored: BLEU, interval, signature."""
        variant = run.data.removeprefix("multi30k-")
        sources, references = zip(*self.task(variant).splits[split], strict=True)
        outputs = run.translate(sources, **options)
        around = interval(drawn(counts_of(run.data, outputs, references)))
        return score(run.data, outputs, references) | around


def _identity(preset: Preset, objective: type[Objective]) -> str:
    return f"{preset}, {objective.__name__}"


def new_model(config: ModelConfig, seed: int) -> Transformer:
    """Return a model whose first weights follow from the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Transformer(config)


def averaged(snapshots: list[dict[str, Tensor]], count: int) -> dict[str, Tensor]:
    """Return the mean of the last `count` snapshots (paper, 6.1)."""
    return average_checkpoints(snapshots[-count:])
