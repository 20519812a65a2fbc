"""What the GPU benchmarks share: the device, the data, the recipe, trained models, the clock."""

import time
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.gpu.engine import Trainer, Way, train
from benchmarks.quality import ADAM
from benchmarks.reporting.report import RESULTS, SEED
from transformer_lab import (
    PRESETS,
    ModelConfig,
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

# What differs from the preset, which is the recipe that runs on two CPU cores chose and took to its
# end. One of them is chosen, by BLEU on the validation set.
PRESET = "multi30k-tok"
RECIPES = {
    "preset": {},
    "15,000 steps": {"steps": 15_000},
    "rate × 1.5": {"rate_factor": 2.4},
    "4,096 tokens, rate × 1.4": {"max_tokens": 4096, "rate_factor": 2.2},
    "8,192 tokens, rate × 2, 4,000 steps": {"max_tokens": 8192, "rate_factor": 3.2, "steps": 4000},
    "Adam": ADAM,
    "dropout 0.2": {"dropout": 0.2},
    "dropout 0.4": {"dropout": 0.4},
    "smoothing 0.2": {"label_smoothing": 0.2},
    "d_model 192, 6 heads, d_ff 512, dropout 0.4": {
        "d_model": 192,
        "num_heads": 6,
        "d_ff": 512,
        "dropout": 0.4,
    },
    "3+3 layers, d_model 256, d_ff 1,024, dropout 0.4": {
        "num_encoder_layers": 3,
        "num_decoder_layers": 3,
        "d_model": 256,
        "num_heads": 8,
        "d_ff": 1024,
        "dropout": 0.4,
    },
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

    `smoke` is toy sizes and toy data; compiling then stops before machine code is made.
    """

    device: torch.device
    output: Path | None = None
    smoke: bool = False
    deadline: float = float("inf")
    left_out: list[str] = field(default_factory=list)

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

    def recipe(self, name: str | None = None) -> tuple[str, Preset]:
        """Return a recipe by name; else the search's best on the validation set, or the preset."""
        if name is None:
            folders = (self.output, *(() if self.smoke else (RESULTS,)))
            found = [f / SEARCH for f in folders if f and (f / SEARCH).exists()]
            name = read_json(found[0])["chosen"] if found else "preset"
        settings = RECIPES[name] | (TOY if self.smoke else {})
        return name, find_preset(PRESET, settings)

    def trainer(self, task: Task, preset: Preset, way: Way, seed: int = SEED) -> Trainer:
        """Return a trainer of a new model on the task; the seed decides all that is random."""
        sizes = dict.fromkeys(("source_vocab_size", "target_vocab_size"), task.tokenizer.vocab_size)
        model = new_model(replace(preset.model, **sizes), seed).to(self.device)
        return Trainer(model, task.pairs, replace(preset.training, seed=seed), way)

    def prepare(self, trainer: Trainer) -> float:
        """Prepare the trainer; where graphs cannot be recorded, do without, and say so."""
        seconds = self.attempt("recording CUDA graphs", trainer.prepare)
        if seconds is None:
            trainer.records = False
            trainer.recorded.clear()
            seconds = trainer.prepare()
        return seconds

    @cache  # noqa: B019
    def trained(self, variant: str, seed: int) -> tuple[Run, list[dict]]:
        """Train the chosen recipe to its end; return the run, averaged, and its history."""
        task, (_, preset) = self.task(variant), self.recipe()
        trainer = self.trainer(task, preset, self.way(), seed)
        setup = self.prepare(trainer)
        every = preset.training.checkpoint_every
        history, snapshots = train(trainer, preset.training.steps, every)
        history[-1]["setup_seconds"] = round(setup, 3)
        return self.run_of(task, preset, trainer, snapshots), history

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
