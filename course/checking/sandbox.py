"""How a check calls the learner's code: in a clean room, on clones, its errors explained."""

import contextlib
import copy
import functools
import inspect
import linecache
import random
import sys
import sysconfig
import traceback
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import course
import transformer_lab
from course.checking import slips
from course.checking.diagnosis import CALLS, CheckFailed, describe, plain

COURSE, LIBRARY = (Path(each.__file__).parent for each in (course, transformer_lab))
NOT_WRITTEN = "not written yet"  # what a stub raises, as NotImplementedError
RUNNING: list[str] = []  # the watched call that is under way
PRINTING: list[str] = []  # the calls that printed something and returned nothing


class NotWritten(Exception):
    """A stub was called; `task` is its name."""

    def __init__(self, task: str):
        super().__init__(f"{task}: {NOT_WRITTEN}")
        self.task = task


def run_check(test: Callable[..., None], objects: Mapping[str, Any]) -> None:
    """Call one check; whatever goes wrong comes out as `CheckFailed` or `NotWritten`."""
    __tracebackhide__ = True
    CALLS.clear()
    PRINTING.clear()
    with _clean_room():
        try:
            test(**{name: _watch(name, target) for name, target in objects.items()})
        except (NotWritten, KeyboardInterrupt):  # or somebody pressed Ctrl-C
            raise
        except BaseException as error:
            failure = error if isinstance(error, CheckFailed) else _explained(error)
            if PRINTING and isinstance(failure, CheckFailed) and "None" in failure.why:
                failure = CheckFailed(slips.PRINTED, failure.call)
            raise failure from None


@contextmanager
def _clean_room() -> Iterator[None]:
    """Seed 0, gradients on, float32, no warnings; afterwards everything is as it was."""
    of_python, of_numpy, of_torch = random.getstate(), np.random.get_state(), torch.get_rng_state()
    dtype = torch.get_default_dtype()
    try:
        random.seed(0)
        np.random.seed(0)
        torch.default_generator.manual_seed(0)  # torch.manual_seed would seed GPUs too
        torch.set_default_dtype(torch.float32)
        with torch.enable_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        random.setstate(of_python)
        np.random.set_state(of_numpy)
        torch.set_rng_state(of_torch)
        torch.set_default_dtype(dtype)


def _explained(error: BaseException) -> Exception:
    """Turn an error into a message that shows the learner's line, not ours."""
    frames = list(traceback.walk_tb(error.__traceback__))
    if isinstance(error, NotImplementedError) and str(error) == NOT_WRITTEN:
        return NotWritten(frames[-1][0].f_code.co_qualname.split(".")[0])
    call = CALLS[-1][0] if CALLS else ""
    if isinstance(error, AssertionError) and _is_ours(frames[-1][0].f_code.co_filename):
        return CheckFailed(str(error).split("\nassert ")[0], call)  # pytest adds the comparison
    text = f"{type(error).__name__}: {str(error)[:300]}"
    hint = "".join(f"\n{note}" for note in getattr(error, "__notes__", ()))
    theirs = [(frame, line) for frame, line in frames if _is_the_learners(frame)]
    if theirs:
        frame, line = theirs[-1]
        source = linecache.getline(frame.f_code.co_filename, line, frame.f_globals).strip()
        why = f"Your code stopped at this line:\n    {source}\n{text}{hint}"
        advice = slips.advice(error, source, [frame for frame, _ in theirs])
        unexplained = bool(slips.SIZES.search(text))
        return CheckFailed(why, call, advice=advice, unexplained=unexplained)
    try:
        came = describe(CALLS[-1][1]) if CALLS else "nothing"
    except Exception:
        came = f"a {type(CALLS[-1][1]).__name__}"
    return CheckFailed(f"The check could not use what came back ({came}). {text}", call)


def _is_the_learners(frame: types.FrameType) -> bool:
    file = frame.f_code.co_filename
    return not _is_ours(file) and not is_library(file)


def _is_ours(file: str) -> bool:
    in_checks = Path(file).parent.parts[-2:] in (("tests", "exercises"), (COURSE.name, "checks"))
    return in_checks or Path(file).is_relative_to(COURSE / "checking")


def is_library(file: str) -> bool:
    """Return whether a file of code belongs to Python, an installed package or this one."""
    where = Path(file)
    installed = any(part.endswith("-packages") for part in where.parts)  # with pip's --user too
    known = installed or any(map(where.is_relative_to, _library_folders()))
    return known or file.startswith(("<frozen", "<@beartype"))


@functools.cache
def _library_folders() -> list[str | Path]:
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    return [*map(sysconfig.get_path, names), COURSE, LIBRARY]


# ---- Watching the learner's calls


def _watch(name: str, target: Any) -> Any:
    """Return `target` so wrapped that its calls are noted and its inputs are clones."""
    if inspect.isclass(target):
        return _watch_class(name, target)
    if not callable(target):
        raise CheckFailed(f"{name} is {describe(target)}; it should be a function or a class.")

    def watched(*args: Any, **kwargs: Any) -> Any:
        if RUNNING:  # the learner's code calls a method of its own: that is its own business
            return target(*args, **kwargs)
        bound = _bind(name, target, args, kwargs)
        given = bound.arguments
        bound.arguments = {label: _clone(value) for label, value in given.items()}
        call = _call_text(name, given)
        before = _settings(name, given)
        CALLS.append((call, None))
        RUNNING.append(name)
        try:
            with contextlib.redirect_stdout(_Heard(sys.stdout)) as heard:
                result = plain(target(*bound.args, **bound.kwargs))
        finally:
            RUNNING.pop()
        if result is None and heard.something:
            PRINTING.append(name)
        if odd := _odd_tensor(result):
            raise CheckFailed(f"It returned {odd}", call)
        CALLS[-1] = (call, result)
        for label, value in given.items():
            if not _identical(bound.arguments[label], value):
                raise CheckFailed(
                    f"The call changed its argument {label}. Work on a copy: `x = x - 1` makes a "
                    "new tensor, `x -= 1` changes the one that belongs to the caller.",
                    call,
                )
        after = _settings(name, given)
        for key, value in before.items():
            if key in after and not _same_setting(after[key], value):
                raise CheckFailed(SPOILT[key[0]].format(*key[1:]), call)
        return result

    return functools.wraps(target)(watched)


class _Heard:
    """Passes on what is printed, and remembers that something was."""

    def __init__(self, out: Any):
        self.out, self.something = out, False

    def write(self, text: str) -> int:
        self.something = True
        return self.out.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.out, name)


def _odd_tensor(result: Any) -> str:
    """Say what kind of tensor is in a result, if it is one that cannot be compared."""
    if isinstance(result, (list, tuple)):
        return next(filter(None, map(_odd_tensor, result)), "")
    ordinary = "expected an ordinary one:"
    if not isinstance(result, Tensor):
        return ""
    if isinstance(result, torch.masked.MaskedTensor):
        return f"a MaskedTensor, {ordinary} .to_tensor(0) makes it one."
    if result.is_nested:
        return f"a nested tensor, {ordinary} torch.stack makes one of parts of the same shape."
    if result.is_quantized:
        return f"a quantized tensor, {ordinary} .dequantize() makes it one."
    if result.layout != torch.strided:
        return f"a sparse tensor, {ordinary} .to_dense() makes it one."
    if result.is_meta:
        return f"a tensor without numbers, {ordinary} make it on another device than meta."
    return ""


def _watch_class(name: str, target: type) -> type:
    """Return a subclass whose own public methods are watched, and none of `nn.Module`'s."""
    own = {
        method: _watch(f"{name}.{method}", function)
        for method, function in inspect.getmembers(target, inspect.isfunction)
        if method[0] != "_"
        and getattr(nn.Module, method, None) is not function
        and not isinstance(inspect.getattr_static(target, method), staticmethod)
    }
    return type(target)(target.__name__, (target,), own)


# What a call must leave as it was, and what is said if it does not.
SPOILT = {
    "dtype": "The call changed torch's default dtype, for every tensor that is made after it. Name "
    "the dtype where you make a tensor: torch.zeros(3, dtype=x.dtype).",
    "gradients": "The call switched gradients on or off for everything after it. `with "
    "torch.no_grad():` ends with its block, torch.set_grad_enabled(…) does not.",
    "mode": "The call changed the mode of {0}, train or eval, and left it so: dropout would be off "
    "in the training that follows, or on in use. Leave the mode alone, or put it back at the end: "
    "`was = model.training`, `model.train(was)`.",
    "learns": "The call changed requires_grad of {0}.{1}: what is frozen never learns.",
    "parameter": "The call put another parameter in the place of {0}.{1}. The optimizer holds the "
    "one that `__init__` made, and would train a number that nobody reads.",
    "numbers": "The call changed the numbers that are stored in {0}.{1}. Only the optimizer may "
    "change a parameter; work with new tensors.",
    "names": "The call gave the module a new parameter, or took one away: the optimizer and the "
    "checkpoints know nothing of it. Parameters are made in `__init__`.",
}


def _settings(name: str, given: Mapping[str, Any]) -> dict[tuple, Any]:
    """Return torch's settings, and those of each module among the arguments.

    A module must also keep its parameters in its own `forward` or `step`; other methods and
    functions may be there in order to change them.
    """
    settings = {("dtype",): torch.get_default_dtype(), ("gradients",): torch.is_grad_enabled()}
    uses_itself = name.endswith((".forward", ".step"))
    for label, module in given.items():
        own = label == "self"
        if not isinstance(module, nn.Module) or (own and not uses_itself):
            continue
        for part_name, part in module.named_modules():
            settings["mode", f"{label}.{part_name}".rstrip(".")] = part.training
        parameters = dict(module.named_parameters(remove_duplicate=False))
        for where, parameter in parameters.items():
            settings["learns", label, where] = parameter.requires_grad
            if own:
                settings["parameter", label, where] = parameter
                settings["numbers", label, where] = parameter.detach().clone()
        if own:
            settings[("names",)] = list(parameters)
    return settings


def _same_setting(one: Any, other: Any) -> bool:
    return one is other if isinstance(other, nn.Parameter) else _identical(one, other)


def _bind(name: str, target: Any, args: tuple, kwargs: dict) -> inspect.BoundArguments:
    """Put the arguments under the names of the learner's own signature."""
    try:
        signature = inspect.signature(target)
    except ValueError:  # a built-in has none
        signature = inspect.signature(lambda *_, **__: None)
    try:
        return signature.bind(*args, **kwargs)
    except TypeError as error:
        shown = str(signature).replace("(self, ", "(")
        raise CheckFailed(
            f"{name}{shown} cannot be called like this: {error}. Keep the signature as given.",
            _call_text(name, dict(enumerate(args["." in name :])) | kwargs),
        ) from None


def _call_text(name: str, given: Mapping[Any, Any]) -> str:
    parts = [
        f"{label} {describe(value)}" if isinstance(label, str) and label != "_" else describe(value)
        for label, value in given.items()
        if label != "self"
    ]
    return f"{name}({', '.join(parts)})"


def _clone(value: Any) -> Any:
    if isinstance(value, Tensor) and not isinstance(value, nn.Parameter):
        return value.clone()
    if isinstance(value, np.ndarray):
        return value.copy()
    if type(value) in (list, tuple):
        return type(value)(map(_clone, value))
    if isinstance(value, dict):
        twin = copy.copy(value)
        twin.update((key, _clone(each)) for key, each in value.items())
        return twin
    return value


def _identical(one: Any, other: Any) -> bool:
    if isinstance(one, (Tensor, np.ndarray)):
        same = one.shape == other.shape and one.dtype == other.dtype
        return bool(same and ((one == other) | ((one != one) & (other != other))).all())
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(_identical, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_identical(one[k], other[k]) for k in one)
    return one is other or bool(one == other)
