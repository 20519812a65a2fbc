"""The command line: `transformer-lab train`, `translate`, `evaluate`, `progress`, `grade`."""

import argparse
import json
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import MISSING, Field, fields
from importlib.metadata import version
from pathlib import Path

import torch
import torch.distributed as dist

from transformer_lab import plots
from transformer_lab.checking import progress
from transformer_lab.config import ModelConfig, TrainConfig
from transformer_lab.data.pairs import kept_splits
from transformer_lab.grading import grade
from transformer_lab.presets import PRESETS
from transformer_lab.runs import (
    METRICS,
    PRETRAINED,
    Run,
    default_device,
    load_run,
    train,
    usable_device,
)
from transformer_lab.support.files import read_json
from transformer_lab.support.validation import require
from transformer_lab.training import STATE

NAME = "transformer-lab"
FIGURES = (".png", ".svg", ".pdf", ".jpg", ".jpeg")
EXAMPLES = {"dates": "friday 15 february 2019", "multi30k": "A man is reading a book."}


def main(arguments: list[str] | None = None) -> int:
    """Do what the command line asks; return the exit status."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal may lack some of our signs
            stream.reconfigure(errors="replace")
    parser = _parser()
    arguments = sys.argv[1:] if arguments is None else arguments
    options = parser.parse_args(_with_explain_apart(arguments))
    if options.command is None:
        parser.print_help()
        return 2
    try:
        status = options.command(options)
        print(end="", flush=True)
        return status
    except KeyboardInterrupt:
        _say(f"\n{NAME}: stopped. {_how_to_go_on(options)}")
        return 130
    except BrokenPipeError:  # whoever read our output has seen enough, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (ValueError, OSError, torch.OutOfMemoryError) as error:
        return _refuse(str(error))
    except RuntimeError as error:  # memory that is not a GPU's has no error of its own
        _, full, what = str(error).partition("can't allocate memory: ")
        if not full:
            raise
        return _refuse(f"there is not enough memory: {what}")


def _refuse(problem: str) -> int:
    _say(f"{NAME}: error: {' '.join(problem.split())}")
    return 2


def _say(text: str) -> None:
    """Write to stderr, once if there are several processes; stdout is for results alone."""
    if _is_first() and sys.stderr is not None:  # without one, `print` would write to stdout
        print(text, file=sys.stderr, flush=True)


def _how_to_go_on(options: argparse.Namespace) -> str:
    if options.command is grade.run:
        return "The same command goes on: what is done is kept."
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
    _add_progress(commands)
    _add_grade(commands)
    return parser


def _add(commands, name: str, what: str, examples: str) -> argparse.ArgumentParser:
    return commands.add_parser(
        name,
        help=what,
        description=f"{what[0].upper()}{what[1:]}.",
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def _add_train(commands) -> None:
    presets = "\n".join(f"  {name:13} {_in_a_line(name)}" for name in PRESETS)
    parser = _add(
        commands,
        "train",
        "train a model and keep it in a folder; an interrupted training goes on",
        f"presets:\n{presets}\n\n"
        f"examples:\n"
        f"  {NAME} train dates --output runs/dates\n"
        f"  {NAME} train multi30k --output runs/small --d-model 128 --num-heads 4 --seed 1\n"
        f"  {NAME} train pairs --data sentences.tsv --output runs/mine\n"
        f"  torchrun --nproc-per-node 2 -m transformer_lab train dates --output runs/two\n\n"
        f"Ctrl-C stops it. The same command goes on from the last checkpoint.",
    )
    parser.usage = f"{NAME} train PRESET --output RUN [options]"
    parser.add_argument("preset", choices=PRESETS, metavar="PRESET", help=", ".join(PRESETS))
    parser.add_argument("--output", required=True, metavar="RUN", help="folder for the run")
    _add_device(parser)
    _add_pairs(parser)
    about = "What is not given is as in the preset; that of pairs is fitted to the data."
    group = parser.add_argument_group("training", about)
    _add_settings(group, TrainConfig)
    group = parser.add_argument_group("model", about)
    group.add_argument(
        "--vocab-size",
        type=int,
        metavar="V",
        help="tokens that byte-pair encoding may have, the special ones included; dates take none",
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
        "each line. The run keeps them, so that it goes on without the file.",
    )
    group.add_argument("--data", metavar="FILE", help="the pairs to learn from")
    for name in ("valid", "test"):
        group.add_argument(f"--{name}", metavar="FILE", help="else a tenth of --data is held out")
    group.add_argument(
        "--skip-bad", action="store_true", help="leave out bad lines, also if they are many"
    )


def _in_a_line(name: str) -> str:
    if name == "pairs":
        return "sentences of your own, from --data FILE; sizes and steps are fitted to them"
    model, training = PRESETS[name].model, PRESETS[name].training
    return (
        f"{PRESETS[name].data}: {model.num_encoder_layers}+{model.num_decoder_layers} layers, "
        f"d_model {model.d_model}, {model.num_heads} heads, {training.steps:,} steps"
    )


def _optional(config: type) -> list[Field]:
    """Return the settings that a preset has a value for; the sizes of vocabularies are found."""
    return [each for each in fields(config) if each.default is not MISSING]


def _add_settings(group, config: type) -> None:
    """Add an option for each setting of a configuration: --d-model for d_model."""
    for each in _optional(config):
        if each.type is bool:
            kind = {"action": argparse.BooleanOptionalAction}
        else:
            metavar = {int: "N", float: "X", str: "NAME"}[each.type]
            kind = {"type": each.type, "metavar": metavar}
        flag, what = f"--{each.name.replace('_', '-')}", each.metadata["what"]
        group.add_argument(flag, default=argparse.SUPPRESS, help=what, **kind)


def _add_translate(commands) -> None:
    parser = _add(
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
    parser = _add(
        commands,
        "evaluate",
        "score a trained model on sentences that it has never seen",
        f"The score is exact match for dates, BLEU (sacreBLEU) for Multi30k, and for sentences of\n"
        f"your own these two and chrF, on those that were held out.\n\n"
        f"example:\n  {NAME} evaluate --run runs/dates",
    )
    _add_run(parser)
    parser.add_argument("--json", action="store_true", help="print the scores as JSON")
    parser.set_defaults(command=_evaluate)


def _add_progress(commands) -> None:
    parser = _add(
        commands,
        "progress",
        "show which exercises you have solved, and which comes next",
        f"The exit status is 0 once all are solved.\n\nexample:\n  {NAME} progress",
    )
    progress.add_arguments(parser)
    parser.set_defaults(command=lambda options: progress.progress(options.target, options.json))


def _add_grade(commands) -> None:
    parser = _add(
        commands,
        "grade",
        "grade a folder of submissions, each in a sandbox: marks, feedback pages, a class page",
        "Submissions: a folder for each student, flat files, nbgrader's tree, Moodle's or\n"
        "Canvas's downloads. Ctrl-C stops it; the same command goes on. Flags cost no points.\n\n"
        "Code and checks share one Python inside the sandbox: this finds mistakes and the usual\n"
        "tricks, and is no proof against somebody who means to cheat. For high stakes there is\n"
        "the paper exam. More in transformer_lab/grading/grading.md.\n\n"
        f"example:\n  {NAME} grade submissions --lesson 02 --lesson 03 --output marks",
    )
    grade.add_arguments(parser)
    parser.set_defaults(command=grade.run)


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--run",
        default=PRETRAINED,
        metavar="RUN",
        help="folder of a trained model; without it, the one that comes with the course, which "
        "translates captions of photographs from English into German",
    )
    parser.add_argument(
        "--beam", type=int, metavar="K", help="hypotheses kept while writing; 1 is greedy decoding"
    )
    parser.add_argument(
        "--alpha", type=float, metavar="X", help="length penalty of the beam: more prefers longer"
    )
    _add_device(parser)


def _add_device(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--device", metavar="NAME", help="cpu, cuda, …; a GPU if there is one, unless given"
    )


def _with_explain_apart(arguments: list[str]) -> list[str]:
    """Let --explain take what follows only if it names a figure, and else leave it a sentence."""
    apart = list(arguments)
    for i, argument in enumerate(arguments):
        following = arguments[i + 1 : i + 2]
        if argument == "--explain" and not "".join(following).lower().endswith(FIGURES):
            apart[i] = "--explain="
    return apart


# ---- What they do


def _train(options: argparse.Namespace) -> int:
    names = {each.name for each in (*_optional(ModelConfig), *_optional(TrainConfig))}
    settings = {name: value for name, value in vars(options).items() if name in names}
    if options.vocab_size is not None:
        require(options.preset != "dates", "dates are read in characters: they take no vocab-size")
        settings |= dict.fromkeys(("source_vocab_size", "target_vocab_size"), options.vocab_size)
    own = {name: getattr(options, name) for name in ("data", "valid", "test", "skip_bad")}
    settings |= {name: value for name, value in own.items() if value}
    if options.preset == "pairs":
        settings["on_note"] = lambda note: _say(f"{NAME}: note: {note}")
    with _processes(options.device) as device:
        _say(f"{options.preset} on {device}: reading the data, then training. Ctrl-C stops it.")
        run = train(options.preset, options.output, device=device, progress=_is_first(), **settings)
    if _is_first():
        _print_scores(read_json(run.folder / METRICS)["scores"])
        print(f"Try it:\n  {NAME} translate --run {shlex.quote(options.output)} {_example(run)}")
    return 0


def _example(run: Run) -> str:
    """Return a sentence that the run can translate, quoted for a shell."""
    if run.data == "pairs":
        return shlex.quote(kept_splits(run.folder)["test"][0][0])
    return f'"{EXAMPLES["dates" if run.data == "dates" else "multi30k"]}"'


@contextmanager
def _processes(device: str | None) -> Iterator[str]:
    """Join the processes that torchrun started, if it did; give the device of this one."""
    device = device or default_device()
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


def _is_first() -> bool:
    """Whether this is the only process, or the first that torchrun started."""
    return "LOCAL_RANK" not in os.environ or os.environ.get("RANK", "0") == "0"


def _load(options: argparse.Namespace) -> Run:
    run = load_run(options.run)
    run.model.to(usable_device(options.device or default_device()))
    return run


def _translate(options: argparse.Namespace) -> int:
    run, count = _load(options), 0
    for sentences in _read(options.sentences):
        wanted = [sentence for sentence in sentences if sentence.strip()]
        outputs = iter(run.translate(wanted, beam=options.beam, alpha=options.alpha, progress=True))
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
        _say("Type a sentence and press Enter. Ctrl-D ends it.")
        for line in sys.stdin:
            yield [line.rstrip("\r\n")]
    else:
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
    weights, written, read = run.cross_attention(sentence, beam=options.beam, alpha=options.alpha)
    weights = weights[-1].mean(dim=0)
    if not options.explain:
        blocks = " ░▒▓█"
        encoding = getattr(sys.stderr, "encoding", None) or "ascii"
        shades = blocks if blocks.encode(encoding, "ignore").decode(encoding) == blocks else " .:+#"
        _say(f"\n{plots.attention_text(weights, written, read, shades)}\n")
        _say(f"Rows are written, columns read; darker is more attention: {shades}\n")
        return
    import matplotlib
    import matplotlib.pyplot as plt

    matplotlib.use("agg")  # a file needs no display
    path = Path(options.explain)
    if number > 1:
        path = path.with_stem(f"{path.stem}-{number}")
    axes = {"query_axis": "written", "key_axis": "read"}
    ax = plots.plot_attention(weights, written, read, title="What each piece looked at", **axes)
    ax.figure.savefig(path, dpi=150)
    plt.close(ax.figure)  # else it is kept, one for each sentence
    _say(f"The attention is drawn in {path}.")


def _evaluate(options: argparse.Namespace) -> int:
    scores = _load(options).evaluate(beam=options.beam, alpha=options.alpha, progress=True)
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
