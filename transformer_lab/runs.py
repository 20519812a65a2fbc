"""From a preset to a run folder, and from a run folder to translations: the whole path."""

import os
import platform
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, fields, replace
from pathlib import Path

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transformer_lab.config import EOS, UNK, ModelConfig, TrainConfig, require_setting
from transformer_lab.data import batches_by_tokens, date_pairs, load_multi30k, load_pairs, pad
from transformer_lab.data.pairs import holds_splits, keep_splits, kept_splits
from transformer_lab.data.reading import Columns, Files, TextPairs, one_line
from transformer_lab.decoding import LENGTH_PENALTY, beam_search, greedy_decode, require_search
from transformer_lab.maps import attention_maps
from transformer_lab.model import Transformer
from transformer_lab.presets import ABOUT, PRESETS, TASKS, Preset, fitted_settings
from transformer_lab.saving import WEIGHTS_FILE, load, parameters_of, save
from transformer_lab.scoring import require_tokenize, score
from transformer_lab.support.files import as_folder, locked, read_json, require_writable, write_json
from transformer_lab.support.threads import sharing_cores
from transformer_lab.support.validation import (
    did_you_mean,
    require,
    require_function,
    require_type,
    shown,
)
from transformer_lab.tokenizer import AnyTokenizer, Tokenizer, require_tokenizer, train_tokenizer
from transformer_lab.training import CHECKPOINTS, STATE, fit, rank_and_size

OWN = "own"  # the task of a model that was not trained by `train`
TOKENIZER, HISTORY, METRICS = "tokenizer.json", "history.json", "metrics.json"
VOCABULARY = ("source_vocab_size", "target_vocab_size")
NUM_TRAINING_DATES, NUM_TEST_DATES = 40_000, 2_000
LONGEST = 10_000  # characters; a text above it, which no model reads, could take minutes to compose
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
    data: Files | None = None,
    valid: Files | None = None,
    test: Files | None = None,
    columns: Columns | None = None,
    reverse: bool = False,
    skip_bad: bool = False,
    on_note: Callable[[str], None] | None = warnings.warn,
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
    if they are given, with `columns`, `reverse` and `skip_bad`, as `load_pairs` does; `on_note` is
    called with what it notes. The run keeps the splits: it goes on without the file, and is fitted
    to them as `fitted_settings` says.
    `more_pairs`, such as translations that another model made, are learned too, in the vocabulary
    of the task's own; a run that goes on must be given them again. `start` is a trained run whose
    weights and vocabulary are where this one begins, in place of random weights.
    The model is trained, and left, on `device`: unless that is named, dates on the CPU, and
    everything else on a GPU if there is one, which is printed.
    Raises `ValueError` for an unknown preset or setting, for vocabulary sizes that differ or that
    are not free (of dates, or with a `start`), for a `max_length` below that of the data, for a bad
    file, for a `device` that is not there, for a `start` of other sizes, or if `output` holds
    something else, such as a run on other pairs or with another `start`.
    """
    folder, more_pairs = as_folder(output), _checked_pairs(more_pairs)
    require(isinstance(start, Run | None), f"start must be a Run or None, got {start!r:.60}")
    require_function(on_note, "on_note")
    require_function(on_record, "on_record")
    files: dict = {"data": data, "valid": valid, "test": test}
    files |= {"columns": columns, "reverse": reverse, "skip_bad": skip_bad}
    files = {name: value for name, value in files.items() if value not in (None, False)}
    require_trainable(preset, folder, files, settings)
    device = usable_device(device or _device_for(preset))
    if preset in ("base", "big") and on_note and rank_and_size()[0] == 0:
        on_note(f"{preset} is {ABOUT[preset]}")
    preset, splits = _prepare(preset, settings, start, folder, files, on_note)
    tokenizer = start.tokenizer if start else _train_tokenizer(preset, splits["train"])
    if preset.data == "pairs":  # as its files are
        more_pairs = [(one_line(source), one_line(target)) for source, target in more_pairs]
    splits = splits | {"train": splits["train"] + more_pairs}
    encoded = {name: encode_pairs(tokenizer, pairs) for name, pairs in splits.items()}
    longest = max(len(ids) for pairs in encoded.values() for pair in pairs for ids in pair)
    limit = preset.model.max_length
    require(longest <= limit, f"max_length must be at least {longest} for this data, got {limit}")
    sizes: dict = dict.fromkeys(VOCABULARY, tokenizer.vocab_size)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(preset.training.seed)
        model = Transformer(replace(preset.model, **sizes)).to(device)
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
    run = Run(folder, model, tokenizer, preset.data, preset.beam, preset.length_penalty)
    if rank_and_size()[0] == 0:
        notes = {"seed": preset.training.seed, "training": asdict(preset.training)}
        with locked(folder / CHECKPOINTS):
            run.finish(history, notes, progress=progress)
    return run


def require_trainable(preset: str | Preset, folder: Path, files: dict, settings: dict) -> None:
    """Raise `ValueError` for what needs no data to be refused; `files` are the user's, by name."""
    is_pairs = "pairs" in (preset, getattr(preset, "data", None))
    _require_known(settings)
    sizes = {field.name for field in fields(ModelConfig)} if preset == "pairs" else set()
    # The sizes of a model for pairs depend on the pairs; they are looked at with them.
    find_preset(preset, {name: settings[name] for name in settings if name not in sizes})
    _require_run_folder(folder)
    given = ", ".join(sorted(files))
    require(
        is_pairs or not files,
        f"{given.partition(',')[0]} must go with the preset pairs, got the preset {preset!r:.60}",
    )
    require(
        not is_pairs or "data" in files or (holds_splits(folder) and not files),
        f"the preset pairs needs data=FILE, a file with a source, a tab and a target in each line, "
        f"got {given or 'none'}",
    )
    require(
        "data" not in files or holds_splits(folder) or not (folder / STATE).exists(),
        f"{folder} must be new, empty or a run on pairs, got a run on something else",
    )
    require_writable(folder)


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


def _require_same_sizes(start: "Run", model: ModelConfig) -> None:
    """Raise `ValueError` unless the weights of `start` fit the model; its vocabulary is taken."""
    wanted, sizes = asdict(model), asdict(start.model.config)
    free = {"dropout", "activation_dropout", "max_length", *VOCABULARY}
    for name in sorted(wanted.keys() - free):
        require(
            sizes[name] == wanted[name],
            f"start must be a run with {name}={wanted[name]!r}, got {sizes[name]!r} in "
            f"{start.folder}",
        )


def _prepare(
    preset: str | Preset,
    settings: dict,
    start: "Run | None",
    folder: Path,
    files: dict,
    on_note: Callable[[str], None] | None,
) -> tuple[Preset, dict[str, TextPairs]]:
    """Return the preset with these settings, and the splits of its task, which are read last."""
    _require_known(settings)
    own, splits, fitted = "pairs" in (preset, getattr(preset, "data", None)), {}, {}
    if own:
        splits = _own_splits(folder, files, on_note)
        fitted = fitted_settings(splits["train"]) if preset == "pairs" else {}
    found = find_preset(preset, fitted | settings)
    _require_vocabulary(found, settings, start)
    if start:
        _require_same_sizes(start, found.model)
    return found, splits if own else load_task(found.data, found.training.seed)


def _require_known(settings: dict) -> None:
    """Raise `ValueError` unless each is a setting, of its type and within its limits."""
    known = {each.name: each for kind in (ModelConfig, TrainConfig) for each in fields(kind)}
    unknown = sorted(set(settings) - set(known))
    require(
        not unknown,
        f"neither ModelConfig nor TrainConfig has a setting {', '.join(unknown)}"
        f"{did_you_mean(unknown[0], known) if unknown else ''}",
    )
    for name, value in settings.items():
        require_setting(known[name], value)


def _checked_pairs(more_pairs: Sequence[tuple[str, str]]) -> TextPairs:
    checked = list(more_pairs) if isinstance(more_pairs, Iterable) else [more_pairs]
    for pair in checked:
        is_pair = isinstance(pair, tuple) and [*map(type, pair)] == [str, str]
        require(is_pair, f"more_pairs must hold pairs of texts, as tuples, got {shown(pair)}")
    return checked


def _own_splits(
    folder: Path, files: dict, on_note: Callable[[str], None] | None
) -> dict[str, TextPairs]:
    """Return the splits of the user's files, or those that the run in `folder` has kept of them."""
    if "data" not in files:
        return kept_splits(folder)
    is_first = rank_and_size()[0] == 0
    splits, notes = load_pairs(**files)
    for note in notes if is_first and on_note else ():
        on_note(note)
    with locked(folder / CHECKPOINTS) if is_first else nullcontext():
        keep_splits(folder, splits, write=is_first)
    return splits


def default_device(data: str) -> str:
    """Return "cuda" if there is a GPU that PyTorch can use, else "cpu".

    Models of dates stay on the CPU: they are small, and who looks into one has no device in mind.
    """
    return "cuda" if data != "dates" and torch.cuda.is_available() else "cpu"


def _device_for(preset: str | Preset) -> str:
    """Return where a preset is trained if no device was named; say so if that is a GPU."""
    device = default_device(preset.data if isinstance(preset, Preset) else PRESETS[preset].data)
    if device != "cpu" and rank_and_size()[0] == 0:
        print(where_it_runs(device))
    return device


def where_it_runs(device: str) -> str:
    """Return the line that says where a model goes if nobody has named a device."""
    return f"The model runs on {device} ({describe_hardware(torch.device(device))['name']})."


def usable_device(device: str) -> str:
    """Return the device; `ValueError` if PyTorch cannot use it here."""
    try:
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError, TypeError) as error:
        have = ["cpu", *(name for name in ("cuda", "mps") if getattr(torch, name).is_available())]
        meant = did_you_mean({"gpu": "cuda"}.get(device, device), have)
        problem = str(error).splitlines()[0].partition("Expected one of")[0]  # a very long list
        raise ValueError(
            f"device must be one that this machine has ({', '.join(have)}), got {device!r}{meant}"
            f"{problem and f': {problem}'}"
        ) from None
    return device


def find_preset(preset: str | Preset, settings: dict) -> Preset:
    """Return the preset with these settings replaced; `ValueError` for an unknown one."""
    _require_known(settings)
    if isinstance(preset, str):
        require(
            preset in PRESETS,
            f"preset must be one of {', '.join(PRESETS)}, got {preset!r:.60}"
            f"{did_you_mean(preset, PRESETS)}",
        )
        preset = PRESETS[preset]
    require_type(preset, Preset, "preset")
    sizes = {name: settings[name] for name in settings if hasattr(preset.model, name)}
    others = {name: settings[name] for name in settings if hasattr(preset.training, name)}
    return replace(
        preset, model=replace(preset.model, **sizes), training=replace(preset.training, **others)
    )


def _require_run_folder(folder: Path) -> None:
    names = {path.name for path in folder.iterdir()} if folder.exists() else set()
    known = {CHECKPOINTS, STATE, TOKENIZER, HISTORY, METRICS}
    require(
        not names or bool(names & known),
        f"{folder} must be new, empty or an earlier run, got a folder with "
        f"{', '.join(sorted(names)[:3])}",
    )


def _train_tokenizer(preset: Preset, pairs: TextPairs) -> Tokenizer:
    """Learn the vocabulary from the training split alone."""
    texts = [text for pair in pairs for text in pair]
    if preset.data == "dates":
        return train_tokenizer(texts, kind="characters")
    return train_tokenizer(texts, preset.model.target_vocab_size)


def encode_pairs(tokenizer: AnyTokenizer, pairs: TextPairs) -> list[tuple[list[int], list[int]]]:
    """Turn pairs of sentences into pairs of token ids, each ending in EOS."""
    sources = tokenizer.encode_batch([source for source, _ in pairs])
    targets = tokenizer.encode_batch([target for _, target in pairs])
    return list(zip(sources, targets, strict=True))


class Run:
    """A trained model with its tokenizer: what `train` makes and `load_run` reads back."""

    def __init__(
        self,
        folder: Path | None,
        model: Transformer,
        tokenizer: AnyTokenizer,
        data: str,
        beam: int,
        length_penalty: float = LENGTH_PENALTY,
    ):
        self.folder, self.model, self.tokenizer = folder, model, tokenizer
        self.data, self.beam, self.length_penalty = data, beam, length_penalty

    def translate(
        self,
        texts: str | Sequence[str],
        *,
        beam: int | None = None,
        length_penalty: float | None = None,
        max_length: int | None = None,
        progress: bool = False,
    ) -> str | list[str]:
        """Return the translation of one sentence, or of each in a list, which goes in batches.

        `beam` and `length_penalty` are the preset's unless given; a beam of 1 is greedy decoding.
        A sentence is written until EOS, or `max_length` tokens (unless given, 2 × the longest
        source of its batch + 12, of a user's own pairs 3 × + 50, at most the model's). A letter
        and its accent may come as one character or as two, but for a model from `from_model`.
        Raises `ValueError` for a sentence with more tokens than the model's `max_length`.
        """
        if isinstance(texts, str):
            return self.translate(
                [texts], beam=beam, length_penalty=length_penalty, max_length=max_length
            )[0]
        from tqdm.auto import tqdm

        beam, length_penalty = self._search(beam, length_penalty)
        sources = self._encode(texts)
        outputs = [""] * len(sources)
        limit = max(2000, self.model.config.max_length)
        batches = batches_by_tokens([len(ids) for ids in sources], limit)
        looks = {"delay": 1, "leave": False, "disable": not progress or sys.stderr is None}
        with sharing_cores():
            for indices in tqdm(batches, "translating", **looks):
                batch = [sources[i] for i in indices]
                written = self._decode(batch, beam, length_penalty, max_length)
                for i, tokens in zip(indices, written, strict=True):
                    outputs[i] = self.tokenizer.decode(tokens)
        return outputs

    def _encode(self, texts: Sequence[str]) -> list[list[int]]:
        texts = self._spelled(texts)
        sources = self.tokenizer.encode_batch(texts)
        limit = self.model.config.max_length
        for text, ids in zip(texts, sources, strict=True):
            too_long = f"a sentence of {len(ids)} tokens is longer than max_length={limit}"
            require(len(ids) <= limit, f"{too_long}: {text[:40]!r}…")
        return sources

    def _spelled(self, texts: Sequence[str]) -> Sequence[str]:
        """Return each text in `one_line`, as what a run learned from is; one's own model gets all
        as it came. What is no text stays too: the tokenizer says so."""
        if isinstance(texts, Iterator):
            texts = list(texts)
        if self.data == OWN or not isinstance(texts, Sequence):
            return texts
        return [one_line(t) if isinstance(t, str) and len(t) < LONGEST else t for t in texts]

    def _search(self, beam: int | None, length_penalty: float | None) -> tuple[int, float]:
        """Return what is given, or else the run's own."""
        beam = self.beam if beam is None else beam
        length_penalty = self.length_penalty if length_penalty is None else length_penalty
        require_search(beam, length_penalty)
        return beam, length_penalty

    def _decode(
        self,
        sources: list[list[int]],
        beam: int,
        length_penalty: float,
        max_length: int | None = None,
    ) -> Int[Tensor, "B L"]:
        source = pad(sources).to(next(self.model.parameters()).device)
        # A translation is rarely twice as long as its source; an untrained model never stops.
        # A word of the source may be a dozen letters in a script whose letters are pieces.
        if max_length is None:
            times, more = (3, 50) if self.data == "pairs" else (2, 12)
            max_length = min(self.model.config.max_length, times * source.shape[1] + more)
        if beam == 1:
            return greedy_decode(self.model, source, max_length=max_length).cpu()
        return beam_search(
            self.model, source, beam=beam, max_length=max_length, length_penalty=length_penalty
        ).cpu()

    def cross_attention(
        self, text: str, *, beam: int | None = None, length_penalty: float | None = None
    ) -> tuple[Float[Tensor, "N H Lq Lk"], list[str], list[str]]:
        """Translate a sentence; return what each decoder layer and head looked at, and the pieces.

        Row q of the weights belongs to the q-th written piece, column k to the k-th that was read.
        """
        beam, length_penalty = self._search(beam, length_penalty)
        (source,) = self._encode([text])
        (tokens,) = self._decode([source], beam, length_penalty)
        ends = (tokens == EOS).nonzero()
        tokens = tokens[: int(ends[0]) + 1] if len(ends) else tokens
        device = next(self.model.parameters()).device
        pair = torch.tensor([source], device=device), tokens[None, :-1].to(device)
        maps = attention_maps(self.model, *pair)
        weights = torch.cat([w for name, w in maps.items() if name.endswith("cross_attention")])
        return weights.cpu(), self.tokenizer.tokens(tokens[1:]), self.tokenizer.tokens(source)

    def evaluate(
        self,
        *,
        beam: int | None = None,
        length_penalty: float | None = None,
        tokenize: str | None = None,
        progress: bool = False,
    ) -> dict:
        """Score the test sets, as `score` does; of a user's own pairs, those that were held out."""
        require(
            self.data != OWN, "a run has test sets only if train made it: use score(…) for others"
        )
        require_tokenize(self.data, tokenize)
        beam, length_penalty = self._search(beam, length_penalty)
        splits = kept_splits(self.folder) if self.data == "pairs" else load_task(self.data)
        scores = {}
        for name in sorted(set(splits) - {"train", "val"}):
            sources, references = zip(*splits[name], strict=True)
            outputs = self.translate(
                sources, beam=beam, length_penalty=length_penalty, progress=progress
            )
            scores[name] = score(self.data, outputs, references, tokenize=tokenize)
        return scores

    @classmethod
    def from_model(
        cls,
        model: Transformer,
        tokenizer: AnyTokenizer,
        *,
        beam: int = 1,
        length_penalty: float = LENGTH_PENALTY,
    ) -> "Run":
        """Return a run of a model that was trained in another way, by `fit` or a loop of your own.

        It can translate, explain and be saved. The tokenizer may be one of your own that has what
        `transformer_lab.tokenizer.AnyTokenizer` lists. Raises `ValueError` unless it has, unless
        the model reads and writes its pieces, or for a beam or penalty that cannot work.
        """
        require_type(model, Transformer, "model")
        require_tokenizer(tokenizer)
        _require_same_vocabulary(model, tokenizer, "the tokenizer")
        require_search(beam, length_penalty)
        return cls(None, model.eval(), tokenizer, OWN, beam, length_penalty)

    def save(self, folder: str | os.PathLike) -> None:
        """Write a run of `from_model` into a folder, from which `load_run` reads it back.

        Raises `ValueError` for a run that `train` made, which is in its folder already, or if
        `folder` holds something else than such a run.
        """
        require(self.data == OWN, f"a run that train made is saved already, in {self.folder}")
        folder = as_folder(folder)
        names = {path.name for path in folder.iterdir()} if folder.exists() else set()
        replaces = METRICS in names and read_json(folder / METRICS).get("data") == OWN
        came = ", ".join(sorted(names)[:3])
        require(
            not names or replaces,
            f"{folder} must be new, empty or a run that was saved before, got a folder with {came}",
        )
        (folder / METRICS).unlink(missing_ok=True)
        save(self.model, folder)
        self.tokenizer.save(folder / TOKENIZER)
        search = {"beam": self.beam, "length_penalty": self.length_penalty}
        write_json(folder / METRICS, {"data": OWN, **search})
        self.folder = folder

    def unknown_characters(self, text: str) -> list[str]:
        """Return the characters of a text that the model has never seen; it reads each as UNK."""
        characters = list(dict.fromkeys(self._spelled([text])[0]))
        encoded = self.tokenizer.encode_batch(characters)
        return [c for c, ids in zip(characters, encoded, strict=True) if UNK in ids]

    def finish(self, history: list[dict], notes: dict, *, progress: bool = False) -> None:
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
            "length_penalty": self.length_penalty,
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


def load_run(
    folder: str | os.PathLike = PRETRAINED, *, tokenizer: AnyTokenizer | None = None
) -> Run:
    """Return the finished run in `folder`, or else the one that comes with the course: captions
    from English into German. A `tokenizer` of your own is given again, as only you can read it.
    Raises `ValueError`, in one sentence, if the run is not whole.
    """
    folder = as_folder(folder)
    if tokenizer is not None:
        require_tokenizer(tokenizer)
    if not (folder / METRICS).exists():
        raise ValueError(_no_model_in(folder))
    metrics = read_json(folder / METRICS)
    data, beam, length_penalty = map(metrics.get, ("data", "beam", "length_penalty"))
    require(
        data in (*TASKS, OWN),
        f"{folder / METRICS} does not say what was trained: data={data!r:.60}",
    )
    try:
        require_search(beam, length_penalty)
    except ValueError as error:
        raise ValueError(f"{folder / METRICS}: {error}") from None
    model = load(folder)
    tokenizer = Tokenizer.load(folder / TOKENIZER) if tokenizer is None else tokenizer
    _require_same_vocabulary(model, tokenizer, f"{folder}: the tokenizer")
    return Run(folder, model, tokenizer, data, beam, length_penalty)


def _require_same_vocabulary(model: Transformer, tokenizer: AnyTokenizer, name: str) -> None:
    sizes = {model.config.source_vocab_size, model.config.target_vocab_size}
    require(
        sizes == {tokenizer.vocab_size},
        f"{name} must have as many pieces as the model, {sorted(sizes)}, "
        f"got {tokenizer.vocab_size}",
    )


def _no_model_in(folder: Path) -> str:
    """Say that `folder` holds no finished run, what it holds, and which runs are near."""
    missing = f"no trained model in {folder} ({METRICS} is missing)"
    if (folder / STATE).exists():
        return f"{missing}: its training has not ended; train it again as before, and it goes on"
    if (folder / WEIGHTS_FILE).exists():
        return (
            f"{missing}: it holds a model alone; load({str(folder)!r}) reads that, and "
            f"Run.from_model(model, tokenizer) makes a run of it"
        )
    around = (folder, folder.parent, Path("runs"))
    found = [path.parent for place in around for path in place.glob(f"*/{METRICS}")]
    near = {path.resolve(): str(path) for path in found}  # each once
    names = ", ".join(sorted(near.values())[:5])
    return f"{missing}; there is one in {names}" if near else f"{missing}, and none near it"
