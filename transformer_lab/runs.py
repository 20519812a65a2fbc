"""From a preset to a run folder, and from a run folder to translations: the whole path."""

import os
import platform
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transformer_lab.config import EOS
from transformer_lab.data import batches_by_tokens, date_pairs, load_multi30k, load_pairs, pad
from transformer_lab.data.pairs import TextPairs, holds_splits, keep_splits, kept_splits
from transformer_lab.decoding import beam_search, greedy_decode, require_search
from transformer_lab.model import (
    Transformer,
    attention_maps,
    load,
    parameters_of,
    save,
)
from transformer_lab.presets import PRESETS, TASKS, Preset, fitted_settings
from transformer_lab.support.files import as_folder, locked, read_json, write_json
from transformer_lab.support.validation import require, require_type, shown
from transformer_lab.tokenizer import Tokenizer, train_tokenizer
from transformer_lab.training import CHECKPOINTS, STATE, fit, rank_and_size

TOKENIZER, HISTORY, METRICS = "tokenizer.json", "history.json", "metrics.json"
VOCABULARY = ("source_vocab_size", "target_vocab_size")
NUM_TRAINING_DATES, NUM_TEST_DATES = 40_000, 2_000
BLEU_OPTIONS = {"multi30k-tok": {"tokenize": "none", "force": True}}  # its words are tokenised
PRETRAINED = Path(__file__).parent / "pretrained"


def load_task(data: str, seed: int = 0) -> dict[str, TextPairs]:
    """Return the splits of a task by name: "train", "val", and the test sets.

    `data` is "dates", "multi30k-raw" or "multi30k-tok"; `ValueError` for any other: pairs of a
    user's own are in the run that has kept them.
    """
    tasks = [task for task in TASKS if task != "pairs"]
    require(data in tasks, f"data must be one of {tasks}, got {data!r}")
    if data == "dates":
        return {
            "train": date_pairs(NUM_TRAINING_DATES, seed),
            "val": date_pairs(500, 1, split="test"),
            "test": date_pairs(NUM_TEST_DATES, 2, split="test"),
        }
    return load_multi30k(data.removeprefix("multi30k-"))


def train(
    preset: str | Preset,
    output: str | os.PathLike,
    *,
    data: str | os.PathLike | None = None,
    valid: str | os.PathLike | None = None,
    test: str | os.PathLike | None = None,
    skip_bad: bool = False,
    on_note: Callable[[str], None] = warnings.warn,
    more_pairs: Sequence[tuple[str, str]] = (),
    start: "Run | None" = None,
    device: str | None = None,
    on_record: Callable[[list[dict]], None] | None = None,
    progress: bool = True,
    **settings,
) -> "Run":
    """Train a preset and keep everything in the folder `output`; an interrupted run goes on.

    `settings` replace those of the preset's `ModelConfig` and `TrainConfig`, such as `d_model`,
    `steps` or `seed`. The preset "pairs" reads the user's own file `data`, and `valid` and `test`
    if they are given, as `load_pairs` does; `on_note` is called with what it notes. The run keeps
    the splits: it goes on without the file, and is fitted to them as `fitted_settings` says.
    `more_pairs`, such as translations that another model made, are learned too, in the vocabulary
    of the task's own; a run that goes on must be given them again. `start` is a trained run whose
    weights and vocabulary are where this one begins, in place of random weights.
    Raises `ValueError` for an unknown preset or setting, for vocabulary sizes that differ or that
    are not free (of dates, or with a `start`), for a `max_length` below that of the data, for a bad
    file, for a `device` that is not there, for a `start` of other sizes, or if `output` holds
    something else, such as a run on other pairs or with another `start`.
    """
    folder, device = as_folder(output), usable_device(device or default_device())
    _require_run_folder(folder)
    files = {"data": data, "valid": valid, "test": test, "skip_bad": skip_bad}
    files = {name: value for name, value in files.items() if value not in (None, False)}
    preset, splits = _prepare(preset, settings, folder, files, on_note)
    require(isinstance(start, Run | None), f"start must be a Run or None, got {start!r:.60}")
    _require_vocabulary(preset, settings, start)
    tokenizer = start.tokenizer if start else _train_tokenizer(preset, splits["train"])
    splits = splits | {"train": splits["train"] + _checked_pairs(more_pairs)}
    encoded = {name: encode_pairs(tokenizer, pairs) for name, pairs in splits.items()}
    longest = max(len(ids) for pairs in encoded.values() for pair in pairs for ids in pair)
    limit = preset.model.max_length
    require(longest <= limit, f"max_length must be at least {longest} for this data, got {limit}")
    sizes = dict.fromkeys(VOCABULARY, tokenizer.vocab_size)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(preset.training.seed)
        model = Transformer(replace(preset.model, **sizes))
    if start:
        _require_same_sizes(start, model)
    model.to(device)
    history = fit(
        model,
        encoded["train"],
        preset.training,
        valid_pairs=encoded["val"],
        start=parameters_of(start.model) if start else None,
        folder=folder,
        on_record=on_record,
        progress=progress,
    )
    run = Run(folder, model, tokenizer, preset.data, preset.beam, preset.alpha)
    if rank_and_size()[0] == 0:
        notes = {"seed": preset.training.seed, "training": asdict(preset.training)}
        with locked(folder / CHECKPOINTS):
            run.save(history, notes, progress=progress)
    return run


def _require_vocabulary(preset: Preset, settings: dict, start: "Run | None") -> None:
    """Raise `ValueError` if the vocabulary cannot have the sizes that the settings ask for."""
    sizes = {name: getattr(preset.model, name) for name in VOCABULARY}
    asked = {name: settings[name] for name in VOCABULARY if name in settings}
    if preset.data == "dates":
        require(not asked, f"dates are read in characters: their number is found, got {asked}")
        return
    require(len({*sizes.values()}) == 1, f"both languages must share one vocabulary, got {sizes}")
    if start:
        size = start.tokenizer.vocab_size
        fits = {*asked.values()} <= {size}
        require(fits, f"the vocabulary must be that of start, of {size} pieces, got {asked}")


def _require_same_sizes(start: "Run", model: Transformer) -> None:
    """Raise `ValueError` unless the weights of `start` fit the model."""
    wanted, sizes = asdict(model.config), asdict(start.model.config)
    for name in sorted(wanted.keys() - {"dropout", "activation_dropout", "max_length"}):
        require(
            sizes[name] == wanted[name],
            f"start must be a run with {name}={wanted[name]!r}, got {sizes[name]!r} in "
            f"{start.folder}",
        )


def _prepare(
    preset: str | Preset, settings: dict, folder: Path, files: dict, on_note: Callable[[str], None]
) -> tuple[Preset, dict[str, TextPairs]]:
    """Return the preset with these settings, and the splits of its task."""
    if "pairs" in (preset, getattr(preset, "data", None)):
        splits = _own_splits(folder, files, on_note)
        fitted = fitted_settings(splits["train"]) if preset == "pairs" else {}
        return find_preset(preset, fitted | settings), splits
    given = sorted(files)
    require(not given, f"{given} must go with the preset pairs, got the preset {preset!r:.60}")
    preset = find_preset(preset, settings)
    return preset, load_task(preset.data, preset.training.seed)


def _checked_pairs(more_pairs: Sequence[tuple[str, str]]) -> TextPairs:
    checked = list(more_pairs) if isinstance(more_pairs, Iterable) else [more_pairs]
    for pair in checked:
        is_pair = isinstance(pair, tuple) and [*map(type, pair)] == [str, str]
        require(is_pair, f"more_pairs must hold pairs of texts, as tuples, got {shown(pair)}")
    return checked


def _own_splits(folder: Path, files: dict, on_note: Callable[[str], None]) -> dict[str, TextPairs]:
    """Return the splits of the user's files, or those that the run in `folder` has kept of them."""
    kept, is_first = holds_splits(folder), rank_and_size()[0] == 0
    if "data" not in files:
        require(
            kept and not files,
            f"the preset pairs must have data, a file with a source, a tab and a target in each "
            f"line, got {sorted(files) or 'none'}",
        )
        return kept_splits(folder)
    require(
        kept or not (folder / STATE).exists(),
        f"{folder} must be new, empty or a run on pairs, got a run on something else",
    )
    splits, notes = load_pairs(**files)
    for note in notes if is_first else ():
        on_note(note)
    with locked(folder / CHECKPOINTS) if is_first else nullcontext():
        keep_splits(folder, splits, write=is_first)
    return splits


def default_device() -> str:
    """Return "cuda" if there is a GPU that PyTorch can use, else "cpu"."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def usable_device(device: str) -> str:
    """Return the device; `ValueError` if PyTorch cannot use it here."""
    try:
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError, TypeError) as error:
        problem = str(error).splitlines()[0]
        raise ValueError(f"device {device!r} cannot be used on this machine: {problem}") from None
    return device


def find_preset(preset: str | Preset, settings: dict) -> Preset:
    """Return the preset with these settings replaced; `ValueError` for an unknown one."""
    if isinstance(preset, str):
        require(preset in PRESETS, f"preset must be one of {sorted(PRESETS)}, got {preset!r}")
        preset = PRESETS[preset]
    require_type(preset, Preset, "preset")
    sizes = {name: settings[name] for name in settings if hasattr(preset.model, name)}
    others = {name: settings[name] for name in settings if hasattr(preset.training, name)}
    unknown = sorted(set(settings) - set(sizes) - set(others))
    require(not unknown, f"neither ModelConfig nor TrainConfig has a setting {unknown}")
    return replace(
        preset, model=replace(preset.model, **sizes), training=replace(preset.training, **others)
    )


def _require_run_folder(folder: Path) -> None:
    names = {path.name for path in folder.iterdir()} if folder.exists() else set()
    known = {CHECKPOINTS, STATE, TOKENIZER, HISTORY, METRICS}
    require(
        not names or bool(names & known),
        f"{folder} must be new, empty or an earlier run, got a folder with {sorted(names)[:3]}",
    )


def _train_tokenizer(preset: Preset, pairs: TextPairs) -> Tokenizer:
    """Learn the vocabulary from the training split alone."""
    texts = [text for pair in pairs for text in pair]
    if preset.data == "dates":
        return train_tokenizer(texts, kind="characters")
    return train_tokenizer(texts, preset.model.target_vocab_size)


def encode_pairs(tokenizer: Tokenizer, pairs: TextPairs) -> list[tuple[list[int], list[int]]]:
    """Turn pairs of sentences into pairs of token ids, each ending in EOS."""
    sources = tokenizer.encode_batch([source for source, _ in pairs])
    targets = tokenizer.encode_batch([target for _, target in pairs])
    return list(zip(sources, targets, strict=True))


class Run:
    """A trained model with its tokenizer: what `train` makes and `load_run` reads back."""

    def __init__(
        self,
        folder: Path,
        model: Transformer,
        tokenizer: Tokenizer,
        data: str,
        beam: int,
        alpha: float = 0.6,
    ):
        self.folder, self.model, self.tokenizer = folder, model, tokenizer
        self.data, self.beam, self.alpha = data, beam, alpha

    def translate(
        self,
        texts: str | Sequence[str],
        *,
        beam: int | None = None,
        alpha: float | None = None,
        max_length: int | None = None,
        progress: bool = False,
    ) -> str | list[str]:
        """Return the translation of one sentence, or of each in a list, which goes in batches.

        `beam` and `alpha`, the length penalty, are the preset's unless given; a beam of 1 is
        greedy decoding. A sentence is written until EOS, or `max_length` tokens (unless given, 2 ×
        the longest source of its batch + 12, at most the model's).
        Raises `ValueError` for a sentence with more tokens than the model's `max_length`.
        """
        if isinstance(texts, str):
            return self.translate([texts], beam=beam, alpha=alpha, max_length=max_length)[0]
        from tqdm.auto import tqdm

        sources = self._encode(texts)
        outputs = [""] * len(sources)
        limit = max(2000, self.model.config.max_length)
        batches = batches_by_tokens([len(ids) for ids in sources], limit)
        for indices in tqdm(batches, "translating", delay=1, leave=False, disable=not progress):
            batch = [sources[i] for i in indices]
            for i, tokens in zip(
                indices, self._decode(batch, beam, max_length, alpha), strict=True
            ):
                outputs[i] = self.tokenizer.decode(tokens)
        return outputs

    def _encode(self, texts: Sequence[str]) -> list[list[int]]:
        sources = self.tokenizer.encode_batch(texts)
        limit = self.model.config.max_length
        for text, ids in zip(texts, sources, strict=False):  # an iterator is used up by now
            too_long = f"a sentence of {len(ids)} tokens is longer than max_length={limit}"
            require(len(ids) <= limit, f"{too_long}: {text[:40]!r}…")
        return sources

    def _decode(
        self,
        sources: list[list[int]],
        beam: int | None,
        max_length: int | None,
        alpha: float | None = None,
    ) -> Int[Tensor, "B L"]:
        beam = self.beam if beam is None else beam
        alpha = self.alpha if alpha is None else alpha
        require_search(beam, alpha)
        source = pad(sources).to(next(self.model.parameters()).device)
        # A translation is rarely twice as long as its source; an untrained model never stops.
        if max_length is None:
            max_length = min(self.model.config.max_length, 2 * source.shape[1] + 12)
        if beam == 1:
            return greedy_decode(self.model, source, max_length=max_length).cpu()
        return beam_search(self.model, source, beam=beam, max_length=max_length, alpha=alpha).cpu()

    def cross_attention(
        self, text: str, *, beam: int | None = None, alpha: float | None = None
    ) -> tuple[Float[Tensor, "N H Lq Lk"], list[str], list[str]]:
        """Translate a sentence; return what each decoder layer and head looked at, and the pieces.

        Row q of the weights belongs to the q-th written piece, column k to the k-th that was read.
        """
        (source,) = self._encode([text])
        (tokens,) = self._decode([source], beam, None, alpha)
        ends = (tokens == EOS).nonzero()
        tokens = tokens[: int(ends[0]) + 1] if len(ends) else tokens
        device = next(self.model.parameters()).device
        pair = torch.tensor([source], device=device), tokens[None, :-1].to(device)
        maps = attention_maps(self.model, *pair)
        weights = torch.cat([w for name, w in maps.items() if name.endswith("cross_attention")])
        return weights.cpu(), self.tokenizer.tokens(tokens[1:]), self.tokenizer.tokens(source)

    def evaluate(
        self, *, beam: int | None = None, alpha: float | None = None, progress: bool = False
    ) -> dict:
        """Score the test sets, as `score` does; of a user's own pairs, those that were held out."""
        splits = kept_splits(self.folder) if self.data == "pairs" else load_task(self.data)
        scores = {}
        for name in sorted(set(splits) - {"train", "val"}):
            sources, references = zip(*splits[name], strict=True)
            outputs = self.translate(sources, beam=beam, alpha=alpha, progress=progress)
            scores[name] = score(self.data, outputs, references)
        return scores

    def save(self, history: list[dict], notes: dict, *, progress: bool = False) -> None:
        """Write the model, the tokenizer, the history, and last the metrics: then it is whole.

        A run that was whole before keeps the machine and the versions that it was trained with.
        """
        last = history[-1] if history else {"seconds": 0.0, "step": 0}
        length = {"seconds": last["seconds"], "steps": last["step"]}
        earlier = _trained_with(self.folder, length)
        (self.folder / METRICS).unlink(missing_ok=True)  # those of a shorter run
        save(self.model, self.folder)
        self.tokenizer.save(self.folder / TOKENIZER)
        write_json(self.folder / HISTORY, history)
        metrics = {
            "data": self.data,
            "beam": self.beam,
            "alpha": self.alpha,
            "scores": self.evaluate(progress=progress),
            "parameters": sum(p.numel() for p in self.model.parameters()),
            **length,
            "hardware": describe_hardware(next(self.model.parameters()).device),
            "versions": {"python": platform.python_version(), "torch": torch.__version__},
        }
        write_json(self.folder / METRICS, metrics | earlier | notes)


def _trained_with(folder: Path, length: dict) -> dict:
    """Return machine and versions of the run in `folder`, if it is whole and just as long."""
    try:
        metrics = read_json(folder / METRICS)
    except ValueError:
        return {}
    if any(metrics.get(name) != value for name, value in length.items()):
        return {}
    return {name: metrics[name] for name in ("hardware", "versions") if name in metrics}


def score(data: str, hypotheses: Sequence[str], references: Sequence[str]) -> dict:
    """Return {"exact_match"} for dates; {"bleu", "signature"} for Multi30k; for pairs all of these
    and {"chrf", "chrf_signature"}. Exact match is a share, from 0 to 1, the others go to 100.

    BLEU is sacreBLEU's, cased and with its 13a tokenisation. Of `tok` it takes the words as they
    are (`tokenize=none`), and of pairs no longer n-grams than the references have (`eff:yes`).
    """
    scores = {}
    if data in ("dates", "pairs"):
        hits = sum(h == r for h, r in zip(hypotheses, references, strict=True))
        scores["exact_match"] = hits / len(references)
    if data != "dates":
        scores |= _sacrebleu_scores(data, list(hypotheses), [list(references)])
    return scores


def _sacrebleu_scores(data: str, hypotheses: list[str], references: list[list[str]]) -> dict:
    from sacrebleu.metrics import BLEU, CHRF

    bleu = BLEU(**BLEU_OPTIONS.get(data, {"effective_order": data == "pairs"}))
    scores = {"bleu": bleu.corpus_score(hypotheses, references).score}
    scores["signature"] = str(bleu.get_signature())
    if data == "pairs":
        chrf = CHRF()
        scores["chrf"] = chrf.corpus_score(hypotheses, references).score
        scores["chrf_signature"] = str(chrf.get_signature())
    return scores


def describe_hardware(device: torch.device) -> dict:
    """Return the device, the processor's name and the number of threads."""
    name = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        name = lines[0].split(": ", 1)[1] if lines else name
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
    return {"device": device.type, "name": name, "threads": torch.get_num_threads()}


def load_run(folder: str | os.PathLike = PRETRAINED) -> Run:
    """Return the finished run in `folder`, or else the one that comes with the course: captions
    from English into German. Raises `ValueError`, in one sentence, if the run is not whole.
    """
    folder = as_folder(folder)
    metrics = read_json(folder / METRICS)
    data, beam, alpha = metrics.get("data"), metrics.get("beam"), metrics.get("alpha", 0.6)
    require(data in TASKS, f"{folder / METRICS} does not say what was trained: data={data!r:.60}")
    try:
        require_search(beam, alpha)
    except ValueError as error:
        raise ValueError(f"{folder / METRICS}: {error}") from None
    model, tokenizer = load(folder), Tokenizer.load(folder / TOKENIZER)
    sizes = {model.config.source_vocab_size, model.config.target_vocab_size}
    require(
        sizes == {tokenizer.vocab_size},
        f"{folder}: the tokenizer must have as many pieces as the model, {sorted(sizes)}, "
        f"got {tokenizer.vocab_size}",
    )
    return Run(folder, model, tokenizer, data, beam, alpha)
