"""The command line: `transformer-lab train`, `translate`, `evaluate`."""

import argparse
import json
import os
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import MISSING, Field, asdict, fields
from importlib.metadata import version
from pathlib import Path

import torch
import torch.distributed as dist

from transformer_lab import plots
from transformer_lab.config import ModelConfig, TrainConfig
from transformer_lab.data.pairs import kept_splits
from transformer_lab.presets import ABOUT, PRESETS
from transformer_lab.runs import (
    METRICS,
    PRETRAINED,
    Run,
    default_device,
    find_preset,
    load_run,
    require_trainable,
    train,
    usable_device,
    where_it_runs,
)
from transformer_lab.support.command_line import (
    add_command,
    is_first_process,
    run_command,
    say,
)
from transformer_lab.support.files import as_folder, read_json, require_writable
from transformer_lab.support.validation import require
from transformer_lab.training import STATE

NAME = "transformer-lab"
FIGURES = (".png", ".svg", ".pdf", ".jpg", ".jpeg")
FILE_NAME = re.compile(r"\S+\.[A-Za-z]\w{0,4}")  # and no sentence
EXAMPLES = {"dates": "friday 15 february 2019", "multi30k": "A man is reading a book."}


def main(arguments: list[str] | None = None) -> int:
    """Do what the command line asks; return the exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    arguments = _with_preset_first(_with_explain_apart(arguments))
    return run_command(_parser(), arguments, _how_to_go_on)


def _how_to_go_on(options: argparse.Namespace) -> str:
    if options.command is not _train:
        return ""
    if (Path(options.output) / STATE).exists():
        return f"The same command goes on from the last checkpoint in {options.output}."
    return "There was no checkpoint yet; the same command starts again."


# ---- The commands and their options


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=NAME,
        description="Train the model of 'Attention Is All You Need', small, and translate with it.",
        epilog="For a first result, in about a minute:\n"
        f"  {NAME} train dates --output runs/dates\n"
        f'  {NAME} translate --run runs/dates "{EXAMPLES["dates"]}"',
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=version(NAME))
    parser.set_defaults(command=None)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    _add_train(commands)
    _add_translate(commands)
    _add_evaluate(commands)
    return parser


def _add_train(commands) -> None:
    presets = "\n".join(f"  {name:13} {ABOUT[name]}" for name in ABOUT)
    parser = add_command(
        commands,
        "train",
        "train a model and keep it in a folder; an interrupted training goes on",
        f"presets:\n{presets}\n\n"
        f"examples:\n"
        f"  {NAME} train dates --output runs/dates\n"
        f"  {NAME} train multi30k --output runs/small --d-model 128 --num-heads 4 --seed 1\n"
        f"  {NAME} train pairs --data sentences.tsv --output runs/mine\n"
        f"  {NAME} train pairs --data train.en.gz train.de.gz --output runs/mine --reverse\n"
        f"  torchrun --nproc-per-node 2 -m transformer_lab train dates --output runs/two\n\n"
        f"Ctrl-C stops it. The same command goes on from the last checkpoint.",
    )
    parser.usage = f"{NAME} train PRESET --output RUN [options]"
    parser.add_argument("preset", type=_preset, metavar="PRESET", help="see the list below")
    parser.add_argument("--output", required=True, metavar="RUN", help="folder for the run")
    _add_device(parser)
    _add_pairs(parser)
    about = (
        "What is not given is as in the preset, in brackets for dates and multi30k; for pairs it "
        "is fitted to the data."
    )
    group = parser.add_argument_group("training", about)
    _add_settings(group, TrainConfig)
    group = parser.add_argument_group("model", about)
    group.add_argument(
        "--vocab-size",
        type=int,
        metavar="V",
        help="tokens that byte-pair encoding may have, the special ones included; dates take none "
        f"(multi30k {PRESETS['multi30k'].model.target_vocab_size})",
    )
    _add_settings(group, ModelConfig)
    group.add_argument(
        "--post-norm",
        dest="pre_norm",
        action="store_false",
        default=argparse.SUPPRESS,
        help="normalise after each residual sum, as in the paper",
    )
    parser.set_defaults(command=_train)


def _add_pairs(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "sentences of your own",
        "For the preset pairs: UTF-8 text, gzipped or not, with a source, a tab and a target in "
        "each line, or CSV in a file named .csv. Two files hold the sources and the targets, line "
        "by line. The run keeps the pairs, so that it goes on without the file.",
    )
    files: dict = {"nargs": "+", "metavar": ("FILE", "TARGETS")}
    group.add_argument("--data", help="the pairs to learn from, in one file or in two", **files)
    for name in ("valid", "test"):
        about = "else a tenth of the sources of --data is held out, at most 1,000"
        group.add_argument(f"--{name}", help=about, **files)
    group.add_argument(
        "--columns",
        metavar="S,T",
        help="columns of the source and the target, from 1, such as 2,4 (1,2 of two columns, and "
        "of three if the last is an attribution)",
    )
    group.add_argument(
        "--reverse", action="store_true", help="learn the other direction, from target to source"
    )
    group.add_argument(
        "--skip-bad",
        action="store_true",
        help="leave out bad lines, also if they are more than one in a hundred",
    )


def _preset(name: str) -> str:
    try:
        find_preset(name, {})
    except ValueError as error:  # argparse says no more than its type of any other
        raise argparse.ArgumentTypeError(str(error)) from None
    return name


def _optional(config: type) -> list[Field]:
    """Return the settings that a preset has a value for; the sizes of vocabularies are found."""
    return [each for each in fields(config) if each.default is not MISSING]


def _add_settings(group, config: type) -> None:
    """Add an option for each setting of a configuration: --d-model for d_model."""
    for each in _optional(config):
        kind: dict
        if each.type is bool:
            kind = {"action": argparse.BooleanOptionalAction}
        else:
            metavar = {int: "N", float: "X", str: "NAME"}[each.type]  # type: ignore
            kind = {"type": each.type, "metavar": metavar}
        flag, what = f"--{each.name.replace('_', '-')}", each.metadata["what"]
        about = f"{what} ({_defaults(each.name)})"
        group.add_argument(flag, default=argparse.SUPPRESS, help=about, **kind)


def _defaults(name: str) -> str:
    """Return what the presets that most people begin with have for a setting."""
    values = {}
    for preset in ("dates", "multi30k"):
        settings = asdict(PRESETS[preset].model) | asdict(PRESETS[preset].training)
        values[preset] = str(settings[name])
    if values["dates"] == values["multi30k"]:
        return values["dates"]
    return ", ".join(f"{preset} {value}" for preset, value in values.items())


def _add_translate(commands) -> None:
    parser = add_command(
        commands,
        "translate",
        "translate sentences with a trained model, one line of output for each",
        f"examples:\n"
        f'  {NAME} translate "{EXAMPLES["multi30k"]}"\n'
        f'  {NAME} translate --run runs/dates "{EXAMPLES["dates"]}" "3 Mar 1987"\n'
        f"  {NAME} translate --run runs/multi30k --beam 5 < captions.en > captions.de\n"
        f'  {NAME} translate --run runs/dates --explain map.png "{EXAMPLES["dates"]}"',
    )
    _add_run(parser)
    parser.add_argument(
        "--explain",
        nargs="?",
        const="",
        metavar="FILE",
        help="also show what each written piece looked at; with a FILE such as map.png, draw it",
    )
    parser.add_argument(
        "sentences", nargs="*", metavar="SENTENCE", help="without any, lines are read from stdin"
    )
    parser.set_defaults(command=_translate)


def _add_evaluate(commands) -> None:
    parser = add_command(
        commands,
        "evaluate",
        "score a trained model on sentences that it has never seen",
        f"The score is exact match for dates, BLEU (sacreBLEU) for Multi30k, and for sentences of\n"
        f"your own these two and chrF, on those that were held out.\n\n"
        f"example:\n  {NAME} evaluate --run runs/dates",
    )
    _add_run(parser)
    parser.add_argument(
        "--tokenize",
        metavar="NAME",
        help="sacreBLEU's tokenizer for BLEU, such as flores200, which needs sentencepiece and "
        "downloads its model (13a; none for multi30k-tok; zh for pairs with targets in Chinese, "
        "ja-mecab, if it is installed, in Japanese, char for other scripts without spaces)",
    )
    parser.add_argument("--json", action="store_true", help="print the scores as JSON")
    parser.set_defaults(command=_evaluate)


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--run",
        default=PRETRAINED,
        metavar="RUN",
        help="folder of a trained model; without it, the one that comes with the course, which "
        "translates captions of photographs from English into German",
    )
    parser.add_argument(
        "--beam",
        type=int,
        metavar="K",
        help="hypotheses kept while writing; 1 is greedy decoding (as its preset has it)",
    )
    parser.add_argument(
        "--length-penalty",
        type=float,
        metavar="X",
        help="length penalty of the beam: more prefers longer (as its preset has it)",
    )
    _add_device(parser)


def _add_device(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--device",
        metavar="NAME",
        help="cpu, cuda, …; unless given, dates on the CPU and all else on a GPU if there is one",
    )


def _with_explain_apart(arguments: list[str]) -> list[str]:
    """Let --explain take what follows only if it looks like a file; else it stays a sentence."""
    apart = list(arguments)
    for i, argument in enumerate(arguments):
        following = "".join(arguments[i + 1 : i + 2])
        is_file = following.lower().endswith(FIGURES) or FILE_NAME.fullmatch(following)
        if argument == "--explain" and not is_file:
            apart[i] = "--explain="
    return apart


def _with_preset_first(arguments: list[str]) -> list[str]:
    """Let the preset stand after --data FILE, where it would be taken for one more file."""
    if arguments[:1] != ["train"] or not arguments[1:] or arguments[1][:1] != "-":
        return arguments
    option, files = "", 0
    for i, argument in enumerate(arguments):
        if argument.startswith("-"):
            option, files = argument, 0
        elif option in ("--data", "--valid", "--test") and files and argument in PRESETS:
            return ["train", argument, *arguments[1:i], *arguments[i + 1 :]]
        else:
            files += 1
    return arguments


def _require_figure(name: str) -> None:
    """Raise `ValueError` unless a figure can be drawn into a file of this name."""
    path = Path(name)
    require(
        path.suffix.lower() in FIGURES,
        f"--explain draws a figure into a file that ends in {', '.join(FIGURES[:-1])} or "
        f"{FIGURES[-1]}, got {name}; if that is a sentence, write --explain= before it",
    )
    require(path.parent.is_dir(), f"{name} cannot be written: there is no folder {path.parent}")
    require_writable(path)


# ---- What they do


def _train(options: argparse.Namespace) -> int:
    names = {each.name for each in (*_optional(ModelConfig), *_optional(TrainConfig))}
    settings = {name: value for name, value in vars(options).items() if name in names}
    if options.vocab_size is not None:
        require(
            options.preset != "dates",
            "--vocab-size must be left out for dates, which are read in characters",
        )
        settings |= dict.fromkeys(("source_vocab_size", "target_vocab_size"), options.vocab_size)
    of_pairs = ("data", "valid", "test", "columns", "reverse", "skip_bad")
    files = {name: getattr(options, name) for name in of_pairs if getattr(options, name)}
    with _processes(options.device or default_device(PRESETS[options.preset].data)) as device:
        folder = as_folder(options.output)
        require_trainable(options.preset, folder, files, settings)
        before = _finished(folder)
        say(f"{options.preset} on {device}: reading the data, then training. Ctrl-C stops it.")
        run = train(
            options.preset,
            options.output,
            device=device,
            progress=_can_draw(),
            on_note=lambda note: say(f"{NAME}: note: {note}"),
            **files,
            **settings,
        )
    if is_first_process():
        if before.get("steps") == _finished(run.folder)["steps"]:
            say(f"This training was finished before, so nothing was trained. {_longer(before)}")
        _print_scores(read_json(run.folder / METRICS)["scores"])
        print(f"Try it:\n  {NAME} translate --run {shlex.quote(options.output)} {_example(run)}")
    return 0


def _finished(folder: Path) -> dict:
    """Return the metrics of a finished run; empty if there is none in the folder."""
    return read_json(folder / METRICS) if (folder / METRICS).exists() else {}


def _longer(metrics: dict) -> str:
    """Say how a finished run can be made a longer one."""
    steps = metrics["steps"]
    if metrics.get("training", {}).get("schedule", "paper") != "paper":
        return f"Its rate has fallen to 0 after {steps:,} steps; a longer one needs another folder."
    return f"It has {steps:,} steps; to go on, ask for more, such as --steps {2 * steps}."


def _example(run: Run) -> str:
    """Return a sentence that the run can translate, quoted for a shell."""
    if run.data == "pairs":
        return shlex.quote(kept_splits(run.folder)["test"][0][0])
    return f'"{EXAMPLES["dates" if run.data == "dates" else "multi30k"]}"'


@contextmanager
def _processes(device: str) -> Iterator[str]:
    """Join the processes that torchrun started, if it did; give the device of this one."""
    local_rank = os.environ.get("LOCAL_RANK")
    if local_rank is None:
        yield usable_device(device)
        return
    if device == "cuda":
        count, wanted = torch.cuda.device_count(), int(os.environ["LOCAL_WORLD_SIZE"])
        require(count >= wanted, f"{wanted} processes need as many GPUs, there are {count}")
        device = f"cuda:{local_rank}"
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.startswith("cuda") else "gloo")
    try:
        yield usable_device(device)
    finally:
        dist.destroy_process_group()


def _can_draw() -> bool:
    """Whether a progress bar has somebody to see it."""
    return is_first_process() and sys.stderr is not None


def _load(options: argparse.Namespace) -> Run:
    run = load_run(options.run)
    device = usable_device(options.device or default_device(run.data))
    if device != "cpu" and not options.device:
        say(where_it_runs(device))
    run.model.to(device)
    return run


def _translate(options: argparse.Namespace) -> int:
    if options.explain:
        _require_figure(options.explain)
    run, count = _load(options), 0
    for sentences in _read(options.sentences):
        wanted = [sentence for sentence in sentences if sentence.strip()]
        for sentence in wanted:
            if unknown := run.unknown_characters(sentence):
                never = f"the model has never seen {' '.join(unknown)}"
                say(f"{NAME}: note: {never}, in: {sentence:.60}")
        outputs = iter(
            run.translate(
                wanted,
                beam=options.beam,
                length_penalty=options.length_penalty,
                progress=_can_draw(),
            )
        )
        for sentence in sentences:
            print(next(outputs) if sentence.strip() else "", flush=True)
            if options.explain is not None and sentence.strip():
                count += 1
                _explain(run, sentence, options, count)
    return 0


def _read(sentences: list[str]) -> Iterator[list[str]]:
    """Yield the sentences to translate at once: all of them, or each that somebody types."""
    if sentences or sys.stdin is None:
        yield sentences
    elif sys.stdin.isatty():
        say("Type a sentence and press Enter. Ctrl-D ends it.")
        for line in sys.stdin:
            yield [line.rstrip("\r\n")]
    else:
        if hasattr(sys.stdin, "reconfigure"):
            sys.stdin.reconfigure(newline="\n")  # a carriage return ends no line
        try:
            lines = [line.rstrip("\r\n") for line in sys.stdin]
        except UnicodeDecodeError as error:
            byte = error.object[error.start]
            raise ValueError(f"stdin must be {error.encoding}, got the byte 0x{byte:02x}") from None
        if lines:
            lines[0] = lines[0].removeprefix("\ufeff")  # the mark that some editors begin with
        yield lines


def _explain(run: Run, sentence: str, options: argparse.Namespace, number: int) -> None:
    """Show the last layer's cross-attention, the mean over its heads, as text or in a file."""
    weights, written, read = run.cross_attention(
        sentence, beam=options.beam, length_penalty=options.length_penalty
    )
    weights = weights[-1].mean(dim=0)
    if not options.explain:
        blocks = " ░▒▓█"
        encoding = getattr(sys.stderr, "encoding", None) or "ascii"
        shades = blocks if blocks.encode(encoding, "ignore").decode(encoding) == blocks else " .:+#"
        say(f"\n{plots.attention_text(weights, written, read, shades)}\n")
        say(f"Rows are written, columns read; darker is more attention: {shades}\n")
        return
    import matplotlib
    import matplotlib.pyplot as plt

    matplotlib.use("agg")  # a file needs no display
    path = Path(options.explain)
    if number > 1:
        path = path.with_stem(f"{path.stem}-{number}")
    axes: dict = {"query_axis": "written", "key_axis": "read"}
    ax = plots.plot_attention(weights, written, read, title="What each piece looked at", **axes)
    ax.figure.savefig(path, dpi=150)
    plt.close(ax.figure)  # else it is kept, one for each sentence
    say(f"The attention is drawn in {path}.")


def _evaluate(options: argparse.Namespace) -> int:
    scores = _load(options).evaluate(
        beam=options.beam,
        length_penalty=options.length_penalty,
        tokenize=options.tokenize,
        progress=_can_draw(),
    )
    if options.json:
        print(json.dumps(scores, indent=2))
    else:
        _print_scores(scores)
    return 0


def _print_scores(scores: dict) -> None:
    for name, values in scores.items():
        if "chrf" in values:
            print(
                f"{name}: {values['exact_match']:.2%} exactly right, BLEU {values['bleu']:.2f}, "
                f"chrF {values['chrf']:.2f}  ({values['signature']}; {values['chrf_signature']})"
            )
        elif "bleu" in values:
            print(f"{name}: BLEU {values['bleu']:.2f}  ({values['signature']})")
        else:
            print(f"{name}: {values['exact_match']:.2%} exactly right, of dates never seen")
