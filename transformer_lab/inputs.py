"""Checks of what a user passes in: a mistake is one sentence, what was expected and what came.

On the model's own path a message is made only once the check has failed: while `torch.compile`
reads along, a size that is written into a message is a size that it compiles for, and no other.
"""

import sys

import torch
from torch import Tensor

INTEGERS = (torch.int64, torch.int32)  # what `nn.Embedding` looks up


def require(condition: bool, message: str) -> None:
    """Raise `ValueError(message)` unless `condition` holds."""
    if not condition:
        raise ValueError(message)


def describe(value: object) -> str:
    """Say what came: a tensor's shape and kind, anything else's type."""
    if isinstance(value, Tensor):
        return f"shape {tuple(value.shape)} of {value.dtype}"
    return type(value).__name__


def is_number(value: object) -> bool:
    """Whether `value` is a finite number that a float can hold, and no boolean."""
    right = isinstance(value, int | float) and type(value) is not bool
    return right and abs(value) <= sys.float_info.max


def check_type(value: object, kind: type, name: str) -> None:
    """Raise `ValueError` unless `value` is a `kind`."""
    require(isinstance(value, kind), f"{name} must be a {kind.__name__}, got {describe(value)}")


def check_sizes(*, at_least: int = 1, **sizes: object) -> None:
    """Raise `ValueError` unless all of them are whole numbers from `at_least`."""
    for name, size in sizes.items():
        if not (type(size) is int and size >= at_least):
            raise ValueError(f"{name} must be a whole number from {at_least}, got {size!r}")


def check_ids(ids: object, name: str, axes: str = "B L") -> None:
    """Raise `ValueError` unless `ids` is an integer tensor with `axes`, such as "B L"."""
    names = axes.split()
    if not (isinstance(ids, Tensor) and ids.dim() == len(names)):
        shape = ", ".join(names)
        raise ValueError(f"{name} must be a tensor of shape ({shape}), got {describe(ids)}")
    if ids.dtype not in INTEGERS:
        raise ValueError(f"{name} must hold integer ids (int64 or int32), got {ids.dtype}")


def check_floats(x: object, name: str, axes: str, **last: int) -> None:
    """Raise `ValueError` unless `x` is a floating-point tensor with `axes`, such as "B L".

    "..." in front stands for any number of axes. `last` is one more axis, with its size.
    """
    names = [*axes.split(), *last]
    right = (
        isinstance(x, Tensor)
        and x.is_floating_point()
        and (x.dim() == len(names) or (names[0] == "..." and x.dim() >= len(names) - 1))
        and all(x.shape[-1] == size for size in last.values())
    )
    if not right:
        shape = ", ".join([*axes.split(), *(f"{axis}={size}" for axis, size in last.items())])
        raise ValueError(f"{name} must be floating-point of shape ({shape}), got {describe(x)}")
