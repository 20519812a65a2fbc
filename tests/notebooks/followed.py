"""Follow a notebook cell by cell, with trainings cut short, on a machine that seems to have a GPU.

    python -m tests.notebooks.followed notebooks/10_trained_for_real.ipynb

Ends with the traceback of the first cell in which tensors of two places meet. The sizes of
everything are the lesson's, the numbers those of models that have hardly learned: a cell may stop
because they are not good enough, and it goes on with the next one. Few may.
"""

import ast
import contextlib
import os
import re
import sys
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from unittest import mock

import matplotlib
from IPython.core.interactiveshell import InteractiveShell

import transformer_lab
from course.checking.notebooks import read_cells
from tests.imitated_gpu import imitated_gpu
from transformer_lab import Run, runs

TURNS = 12  # of a loop that trains, at its beginning, and at its end
STEPS = 6  # of `fit`
DATES = 2_000
WRITTEN = 12  # tokens of a translation, which a model that has learned nothing does not end
IN_TWO_PLACES = re.compile(r"same device|device type tensor to numpy|device type for generator")
MAY_STOP = 0.1  # of the cells of code


# ---- What is cut short


def turns_of(steps: Iterable, named: Collection[int]) -> Iterator:
    """Return the first and the last steps of a loop, and those that its body names."""
    if not isinstance(steps, range) or len(steps) <= 2 * TURNS:
        return islice(steps, 2 * TURNS)
    return iter(sorted({*steps[:TURNS], *steps[-TURNS:], *(i for i in named if i in steps)}))


class CutShort(ast.NodeTransformer):
    """Lets each loop that trains turn only some times, and what was learned be as it may."""

    def __init__(self):
        self.steps = {"backward", "train_step"}  # whoever calls one of these in a loop, trains

    def visit_Assert(self, node: ast.Assert) -> ast.Expr:
        return ast.copy_location(ast.Expr(node.test), node)

    def visit_FunctionDef(self, function: ast.FunctionDef) -> ast.FunctionDef:
        self.generic_visit(function)
        loops = [each for each in ast.walk(function) if isinstance(each, ast.For | ast.While)]
        if self.trains(function) and not any(map(self.trains, loops)):
            self.steps.add(function.name)
        return function

    def visit_For(self, loop: ast.For) -> ast.For:
        self.generic_visit(loop)
        inner = [each for part in loop.body for each in ast.walk(part)]
        loops = [each for each in inner if isinstance(each, ast.For | ast.While)]
        if self.trains(loop) and not any(map(self.trains, loops)):
            numbers = {each.value for each in inner if isinstance(each, ast.Constant)}
            named = sorted(each for each in numbers if type(each) is int)
            call = ast.parse(f"__turns_of__(..., {named})", mode="eval").body
            call.args[0] = loop.iter
            loop.iter = call
        return loop

    def trains(self, node: ast.AST) -> bool:
        names = {getattr(each, "attr", getattr(each, "id", "")) for each in ast.walk(node)}
        return bool(names & self.steps)


def fit_shortly(model, pairs, config, *args, on_record=None, fit=transformer_lab.fit, **options):
    """Train for some steps, with a checkpoint after each, that count as all."""
    steps = min(config.steps, STEPS)

    def counted(history: list[dict]) -> list[dict]:
        return [each | {"step": each["step"] * config.steps // steps} for each in history]

    if on_record:
        options["on_record"] = lambda history: on_record(counted(history))
    short = replace(config, steps=steps, checkpoint_every=1, average=min(config.average, steps))
    return counted(fit(model, pairs, short, *args, **options))


def decode_shortly(run, sources, beam, penalty, max_length=None, decode=Run._decode):
    """Return the beginning of the first sentence's translation for all that came with it."""
    limit = min(WRITTEN, max_length or WRITTEN)
    return [*decode(run, sources[:1], beam, penalty, limit)] * len(sources)


@contextlib.contextmanager
def all_cut_short() -> Iterator[None]:
    """Let what the package trains and translates take seconds."""
    with (
        mock.patch.object(transformer_lab, "fit", fit_shortly),
        mock.patch.object(runs, "fit", fit_shortly),
        mock.patch.object(runs, "NUM_TRAINING_DATES", DATES),
        mock.patch.object(Run, "_decode", decode_shortly),
    ):
        yield


# ---- Cell by cell


def follow(notebook: Path) -> str:
    """Return where two places met, or which cells stopped if they are many; else ""."""
    matplotlib.use("agg")
    shell = InteractiveShell.instance(colors="nocolor", history_length=0)
    shell.history_manager.enabled = False
    shell.ast_transformers.append(CutShort())
    shell.user_ns["__turns_of__"] = turns_of
    os.chdir(notebook.parent)
    cells = [(n, text) for n, (kind, text) in enumerate(read_cells(notebook), 1) if kind == "code"]
    stopped = []
    for number, source in cells:
        result = shell.run_cell(source, store_history=False)
        if IN_TWO_PLACES.search(str(result.error_in_exec)):
            return f"{notebook.name} stops in cell {number}:\n{source}"
        stopped += [] if result.success else [number]
    print(f"{notebook.name}: of {len(cells)} cells {len(stopped)} stopped: {stopped}")
    return f"these cells stop: {stopped}" if len(stopped) > MAY_STOP * len(cells) else ""


def main() -> int:
    """Follow the notebook that the command line names; return 1 if a cell fails."""
    with all_cut_short(), imitated_gpu():
        where = follow(Path(sys.argv[1]).resolve())
    print(where)
    return bool(where)


if __name__ == "__main__":
    sys.exit(main())
