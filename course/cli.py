"""The course's command line: `transformer-course lab`, `update`, `progress` and `grade`."""

import argparse
import sys
from importlib.metadata import version

try:
    from course import workplace
    from course.checking import progress
    from course.grading import grade
except ModuleNotFoundError as missing:
    what = f'there is no {missing.name}: install "transformer-lab[course]", not the package alone'
    raise SystemExit(f"transformer-course: {what}") from None
from transformer_lab.support.command_line import add_command, run_command

NAME = "transformer-course"


def main(arguments: list[str] | None = None) -> int:
    """Do what the command line asks; return the exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    flags: list[str] = []
    if arguments[:1] == ["lab"] and arguments[1:] not in (["--help"], ["-h"]):
        arguments, flags = arguments[:1], arguments[1:]  # they are JupyterLab's
    return run_command(_parser(flags), arguments, _how_to_go_on)


def _how_to_go_on(options: argparse.Namespace) -> str:
    is_grade = options.command is grade.command
    return "The same command goes on: what is done is kept." if is_grade else ""


def _parser(flags: list[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=NAME, description="Work through the Transformer course, and teach it."
    )
    parser.add_argument("--version", action="version", version=version("transformer-lab"))
    parser.set_defaults(command=None)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    _add_lab(commands, flags)
    _add_update(commands)
    _add_progress(commands)
    _add_grade(commands)
    return parser


def _add_lab(commands, flags: list[str]) -> None:
    parser = add_command(
        commands,
        "lab",
        "copy what is missing into work/, which is yours, and open JupyterLab there",
        "What is in work/ already stays as it is. All flags are passed on to JupyterLab.\n\n"
        f"example:\n  {NAME} lab --port=9000",
    )
    parser.set_defaults(command=lambda options: workplace.lab(flags))


def _add_update(commands) -> None:
    parser = add_command(
        commands,
        "update",
        "take corrected lessons and exercises over into work/, and copy what is missing",
        "Whatever you wrote stays: answers, notes, cells of your own. Where a task has moved to\n"
        "another sheet, your answer is put there too. A notebook that changes is first copied\n"
        "into a dated folder beside it. The exit status is 1 if one cannot be brought up to\n"
        f"date.\n\nexample:\n  git pull\n  {NAME} update",
    )
    parser.add_argument("--dry-run", action="store_true", help="only say what would change")
    parser.set_defaults(command=workplace.update)


def _add_progress(commands) -> None:
    parser = add_command(
        commands,
        "progress",
        "show which exercises you have solved, and which comes next",
        f"The exit status is 0 once all are solved.\n\nexample:\n  {NAME} progress 02",
    )
    progress.add_arguments(parser)
    parser.set_defaults(
        command=lambda options: progress.progress(options.target, options.json, options.lessons)
    )


def _add_grade(commands) -> None:
    parser = add_command(
        commands,
        "grade",
        "grade a folder of submissions, each in a sandbox: marks, feedback pages, a class page",
        "Submissions: a folder for each student, flat files, nbgrader's tree, Moodle's or\n"
        "Canvas's downloads. Ctrl-C stops it; the same command goes on. Flags cost no points.\n\n"
        "Code and checks share one Python inside the sandbox: this finds mistakes and the usual\n"
        "tricks, and is no proof against somebody who means to cheat. For high stakes there is\n"
        "the paper exam. More in course/grading/grading.md.\n\n"
        f"example:\n  {NAME} grade submissions --lesson 02 --lesson 03 --output marks",
    )
    grade.add_arguments(parser)
    parser.set_defaults(command=grade.command)
