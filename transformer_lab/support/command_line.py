"""What both command lines share: a command's help, and errors that are one sentence."""

import argparse
import errno
import os
import re
import sys
from collections.abc import Callable, Sequence

import torch

from transformer_lab.support.validation import did_you_mean


def add_command(commands, name: str, what: str, more: str) -> argparse.ArgumentParser:
    """Add a command that does `what`; `more` stands at the end of its help."""
    parser = commands.add_parser(
        name,
        help=what,
        description=f"{what[0].upper()}{what[1:]}.",
        epilog=more,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(parser=parser)
    return parser


def run_command(
    parser: argparse.ArgumentParser,
    arguments: Sequence[str],
    how_to_go_on: Callable[[argparse.Namespace], str],
) -> int:
    """Do what the arguments ask and return the exit status.

    A command is a function `command(options)`. Its errors are said in one line; `how_to_go_on`
    says what to do after a Ctrl-C, or when the disk is full.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal may lack some of our characters
            stream.reconfigure(errors="replace")
    _refuse_unknown_command(parser, arguments)
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        _refuse_unknown(getattr(options, "parser", parser), unknown[0])
    if options.command is None:
        parser.print_help()
        return 2
    try:
        status = options.command(options)
        print(end="", flush=True)
        return status
    except KeyboardInterrupt:
        say(f"\n{parser.prog}: stopped. {how_to_go_on(options)}")
        return 130
    except BrokenPipeError:  # the reader of our output has seen enough, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (ValueError, torch.OutOfMemoryError) as error:
        return _refuse(parser.prog, as_typed(str(error), options.parser))
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        room = f". Make room on the disk. {how_to_go_on(options)}" if full else ""
        return _refuse(parser.prog, f"{error}{room}")
    except RuntimeError as error:  # memory that is not a GPU's has no error of its own
        _, found, what = str(error).partition("can't allocate memory: ")
        if not found:
            raise
        return _refuse(parser.prog, f"there is not enough memory: {what}")


def _refuse_unknown_command(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> None:
    """End the program, as argparse does, with the command that may have been meant."""
    name = next(iter(arguments), "-")
    commands = parser._subparsers._group_actions[0].choices
    if not name.startswith("-") and name not in commands:
        there = ", ".join(commands)
        parser.error(f"no command {name}; there is {there}{did_you_mean(name, commands)}")


def _refuse_unknown(parser: argparse.ArgumentParser, unknown: str) -> None:
    """End the program, as argparse does, with the option that may have been meant."""
    known = parser._option_string_actions
    parser.error(f"unrecognized argument {unknown}{did_you_mean(unknown.partition('=')[0], known)}")


def as_typed(message: str, parser: argparse.ArgumentParser) -> str:
    """Return a message of the package with its settings named as the options that set them.

    A name without an underscore may be a word, so it is one only before " must" or "=".
    """
    for action in parser._actions:
        if flag := next(iter(action.option_strings), ""):
            after = "" if "_" in action.dest else "(?= must|=)"
            message = re.sub(rf"(?<![\w./-]){action.dest}\b{after}", flag, message)
    return message


def _refuse(name: str, problem: str) -> int:
    say(f"{name}: error: {' '.join(problem.split())}")
    return 2


def say(text: str) -> None:
    """Write to stderr, once if there are several processes; stdout is for results alone."""
    if is_first_process() and sys.stderr is not None:  # without one, `print` writes to stdout
        print(text, file=sys.stderr, flush=True)


def is_first_process() -> bool:
    """Return whether this is the only process, or the first that torchrun started."""
    return "LOCAL_RANK" not in os.environ or os.environ.get("RANK", "0") == "0"
