"""Slips of the pen that anybody makes in any task, and the advice for each.

An error that stops the code tells most of them. A product the wrong way round gives numbers where
all sizes are equal: there each product is put right in turn, to see which of them makes the check
pass.
"""

import ast
import builtins
import difflib
import inspect
import re
import textwrap
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

IN_SIGNATURES = {
    "Callable": "from collections.abc import Callable",
    **{name: f"from jaxtyping import {name}" for name in ("Bool", "Float", "Int", "Int64")},
}
IMPORTS = {
    "torch": "import torch",
    "F": "import torch.nn.functional as F",
    "nn": "from torch import nn",
    "Tensor": "from torch import Tensor",
    "math": "import math",
    "np": "import numpy as np",
    **IN_SIGNATURES,
}
SIZES = re.compile(r"cannot be multiplied|must match the size|batch2 tensor|size mismatch|matmul")
AMBIGUOUS = re.compile(r"(Boolean|truth) value of .* is ambiguous")
PRINTED = (
    "It prints its result and returns nothing: write `return` in the place of `print`. What is "
    "printed can be seen, and not be computed with."
)


def advice(error: BaseException, line: str, frames: Sequence[types.FrameType]) -> str:
    """Return what to do about an error that stopped `line` of the learner's code, "" if unknown.

    `frames` are those of the learner's functions, the innermost last.
    """
    variables = {name: value for frame in frames for name, value in frame.f_locals.items()}
    text = str(error)
    if put_back := missing_import(error):
        return put_back
    if isinstance(error, NameError | AttributeError) and (
        near := _did_you_mean(error, [*variables, *frames[-1].f_globals, *dir(builtins)])
    ):
        return f"Did you mean: {near!r}?"
    if type(error) is NameError:
        return "Everything it uses must be imported, or defined in the same notebook."
    if AMBIGUOUS.search(text):
        asked = re.search(r"\b(?:el)?if (?:not )?(\w[\w.]*)\s*:|\bif (\w[\w.]*) else", line)
        name = (asked[1] or asked[2]) if asked else "mask"
        return (
            f"It holds many numbers, so it is neither true nor false. If the question is whether "
            f"there is one, write `if {name} is not None:`."
        )
    if "return_types" in text or any(map(_is_pair, frames[-1].f_locals.values())):
        return (
            "`x.max(dim)` gives a pair: the largest numbers, and where they stand. Take its "
            "`.values`, or write `x.amax(dim)`. (It is the same with min.)"
        )
    if SIZES.search(text):
        return _about_sizes(line, variables.values())
    return ""


def missing_import(error: BaseException) -> str:
    """Return what to do about a name that the first cell imports, "" if it is none of them."""
    if not isinstance(error, NameError) or error.name not in IMPORTS:
        return ""
    return (
        "The imports stand in the first cell of the notebook. Run it; if it is gone, put back: "
        f"`{IMPORTS[error.name]}`."
    )


def _did_you_mean(error: NameError | AttributeError, names: Sequence[str]) -> str:
    """Return the name that was meant, as Python's own traceback does, or ""."""
    if not error.name:
        return ""
    known = dir(error.obj) if isinstance(error, AttributeError) else names
    return next(iter(difflib.get_close_matches(error.name, known, 1, cutoff=0.7)), "")


def _is_pair(value: Any) -> bool:
    return type(value).__module__ == "torch.return_types" and len(value) == 2


def _about_sizes(line: str, values: Iterable[Any]) -> str:
    if re.search(r"\.T\b", line) and any(getattr(value, "ndim", 0) > 2 for value in values):
        return BATCH_TURNED
    if "@" in line:
        return (
            "`a @ b` needs the last axis of a to be as long as the last but one of b. Are the two "
            "sides the wrong way round, or does one of them lack `.transpose(-2, -1)`?"
        )
    return ""


BATCH_TURNED = (
    "`.T` turns *all* axes round, also those of the batch. `.transpose(-2, -1)`, or `.mT`, swaps "
    "the last two and leaves the batch where it is."
)


# ---- Which product is it?


def slip_in(target: Any, passes: Callable[[Any], bool]) -> str:
    """Return which one product in the code of `target` is wrong, "" if it is none of them.

    It is the one with which, put right, the check `passes`.
    """
    for what, repaired in _put_right(target):
        if passes(repaired):
            return what
    return ""


def _put_right(target: Any) -> Iterator[tuple[str, Any]]:
    """Yield the target with one product put right, and what was wrong with that."""
    if not inspect.isclass(target):
        yield from _function_put_right(target)
        return
    for name, method in vars(target).items():
        if not name.startswith("_"):
            for what, repaired in _function_put_right(method):
                yield what, type(target)(target.__name__, (target,), {name: repaired})


def _function_put_right(function: Any) -> Iterator[tuple[str, Callable]]:
    if not inspect.isfunction(function) or function.__closure__:
        return
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, SyntaxError, TypeError):  # its source is not to be had, or is no statement
        return
    if not isinstance(tree.body[0], ast.FunctionDef):
        return
    tree.body[0].decorator_list = []
    for what in _changes(tree):
        namespace = dict(function.__globals__)
        exec(compile(ast.fix_missing_locations(tree), "<put right>", "exec"), namespace)
        yield what, namespace[function.__name__]


def _changes(tree: ast.Module) -> Iterator[str]:
    """Put one product after the other right, in the tree itself; each is wrong again after it."""
    for node in list(ast.walk(tree)):
        before = ast.unparse(node) if isinstance(node, ast.expr) else ""
        match node:
            case ast.BinOp(op=ast.MatMult()):
                node.left, node.right = node.right, node.left
                yield f"The two sides of @ are the wrong way round in `{before}`."
                node.left, node.right = node.right, node.left
            case ast.BinOp(op=ast.Mult()):
                node.op = ast.MatMult()
                yield f"`{before}` multiplies number by number. A product of matrices is `@`."
                node.op = ast.Mult()
            case ast.Attribute(attr="T"):
                node.attr = "mT"
                yield f"In `{before}`: {BATCH_TURNED}"
                node.attr = "T"
