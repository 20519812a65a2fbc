"""Whether an answer is the learner's own: not the package's, nor what the task leaves out.

The code is read, not run: which functions, classes and methods do the answer, and its helpers in
the same notebook, name?
"""

import dis
import inspect
import sys
from collections.abc import Collection, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

from torch import Tensor

import transformer_lab
from course.checking.diagnosis import CheckFailed


def require_own_work(task: str, answer: Any, forbidden: Collection[str] = ()) -> None:
    """Raise `CheckFailed` if `answer` is, or uses, the package's answer or a forbidden name.

    `forbidden` holds names as "nn.LayerNorm" or "F.layer_norm"; their last part is what counts,
    as a function, a class or a method of anything.
    """
    theirs, used = getattr(transformer_lab, task, None), list(_used_by(answer))
    made_of = [*getattr(answer, "__mro__", ()), getattr(answer, "func", None)]  # or a partial
    if theirs is not None and any(each is theirs for each in [answer, *made_of, *used]):
        raise CheckFailed(f"This is transformer_lab.{task} itself: the task is to write it.")
    own = getattr(answer, "__module__", None)
    names = {each.__name__ for each in used if _is_named(each) and each.__module__ != own}
    methods = {each for each in used if isinstance(each, str) and hasattr(Tensor, each)}
    for name in forbidden:
        if name.split(".")[-1] in names | methods:
            raise CheckFailed(f"It uses {name}, and the task is to do without.")


def _is_named(each: Any) -> bool:
    return hasattr(each, "__name__") and hasattr(each, "__module__")


def _used_by(answer: Any) -> Iterator[Any]:
    """Yield what the answer's code names: objects where they can be found, else attribute names."""
    waiting, seen = _functions_of(answer), set()
    while waiting:
        function = waiting.pop()
        if function.__code__ in seen:
            continue
        seen.add(function.__code__)
        for each in _named_in(function.__code__, function.__globals__):
            yield each
            if getattr(each, "__globals__", None) is function.__globals__:
                waiting += _functions_of(each)


def _functions_of(answer: Any) -> list[FunctionType]:
    answer = inspect.unwrap(answer) if callable(answer) else answer
    if inspect.isclass(answer):
        own = [vars(answer)[name] for name in vars(answer)]
        return [each for each in own if inspect.isfunction(each)]
    return [answer] if inspect.isfunction(answer) else []


def _named_in(code: CodeType, namespace: dict[str, Any]) -> Iterator[Any]:
    """Follow names and dots through the instructions of a function: nn, then nn.LayerNorm."""
    found: Any = None
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            found = namespace.get(step.argval)
        elif step.opname == "IMPORT_NAME":
            found = sys.modules.get(step.argval)
        elif step.opname in ("LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM"):
            if isinstance(found, ModuleType):
                inside = getattr(found, step.argval, None)
                yield inside if inside is not None else step.argval
                found = found if step.opname == "IMPORT_FROM" else inside
                continue
            yield step.argval
            found = None
            continue
        else:
            if step.opname not in ("PUSH_NULL", "PRECALL", "CACHE", "STORE_FAST"):
                found = None
            continue
        if found is not None:
            yield found
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _named_in(constant, namespace)
