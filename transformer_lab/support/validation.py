"""What a user passes in, refused if it cannot work: one sentence, what was expected and what came.

Arguments are checked where users enter: attention, the model's `encode` and `decode`, training,
decoding, files, the command line. Inside, PyTorch speaks; only what it would pass over in silence,
such as a mask of numbers, is checked there too.

On the model's own path a message is made only once the check has failed: while `torch.compile`
reads along, a size that is written into a message is a size that it compiles for, and no other.
"""

import sys
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

import torch
from torch import Tensor

INTEGERS = (torch.int64, torch.int32)  # what `nn.Embedding` looks up


def require(condition: bool, message: str) -> None:
    """Raise `ValueError(message)` unless `condition` holds."""
    if not condition:
        raise ValueError(message)


def did_you_mean(name: Any, known: Iterable[str]) -> str:
    """Return a question that ends a message about a name, if a known one is like it, else ""."""
    close = get_close_matches(str(name), list(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""


def shape_and_type(value: Any) -> str:
    """Say what came: a tensor's shape and kind, anything else's type."""
    if isinstance(value, Tensor):
        return f"shape {tuple(value.shape)} of {value.dtype}"
    return type(value).__name__


def shown(value: Any) -> str:
    """Say what came in one short line: a tensor as above, anything else as Python writes it."""
    if isinstance(value, Tensor):
        return shape_and_type(value)
    return f"{' '.join(repr(value).split()):.60}"


def is_number(value: Any) -> bool:
    """Whether `value` is a finite number that a float can hold, and no boolean."""
    right = isinstance(value, int | float) and type(value) is not bool
    return right and abs(value) <= sys.float_info.max


def require_type(value: Any, kind: type, name: str) -> None:
    """Raise `ValueError` unless `value` is a `kind`."""
    require(
        isinstance(value, kind), f"{name} must be a {kind.__name__}, got {shape_and_type(value)}"
    )


def require_function(value: Any, name: str) -> None:
    """Raise `ValueError` unless `value` can be called, or is None."""
    right = value is None or callable(value)
    require(right, f"{name} must be a function, got {shown(value)}")


def require_sizes(*, at_least: int = 1, **sizes: Any) -> None:
    """Raise `ValueError` unless all of them are whole numbers from `at_least`."""
    for name, size in sizes.items():
        if not (type(size) is int and size >= at_least):
            raise ValueError(f"{name} must be a whole number from {at_least}, got {shown(size)}")


def require_ids(ids: Any, name: str, axes: str = "B L") -> None:
    """Raise `ValueError` unless `ids` is an integer tensor with `axes`, such as "B L"."""
    names = axes.split()
    if not (isinstance(ids, Tensor) and ids.dim() == len(names)):
        shape = ", ".join(names)
        raise ValueError(f"{name} must be a tensor of shape ({shape}), got {shape_and_type(ids)}")
    if ids.dtype not in INTEGERS:
        raise ValueError(f"{name} must hold integer ids (int64 or int32), got {ids.dtype}")


def require_tokens(tokens: Any, name: str, vocab_size: int) -> None:
    """Raise `ValueError` unless these are ids (B, L) below `vocab_size`, at least one of them."""
    require_ids(tokens, name)
    if tokens.numel() == 0:
        raise ValueError(f"{name} must hold at least one token, got {shape_and_type(tokens)}")
    # On a GPU this would wait for the device at every step; there CUDA itself refuses the id.
    if torch.compiler.is_compiling() or tokens.device.type != "cpu":
        return
    lowest, highest = map(int, tokens.aminmax())
    if lowest < 0 or highest >= vocab_size:
        came = f"{lowest} to {highest}"
        raise ValueError(f"{name} must hold ids from 0 to {vocab_size - 1}, got {came}")


def require_floats(x: Any, name: str, axes: str, last: int | None = None) -> None:
    """Raise `ValueError` unless `x` is a floating-point tensor with `axes`, such as "B L d_model".

    "..." in front stands for any number of axes. `last` is the size that the last axis must have.
    """
    count = axes.count(" ") + 1
    right = (
        isinstance(x, Tensor)
        and x.is_floating_point()
        and (x.dim() == count or (axes[0] == "." and x.dim() >= count - 1))
        and (last is None or x.size(-1) == last)
    )
    if not right:
        shape = axes.replace(" ", ", ") + ("" if last is None else f"={last}")
        raise ValueError(
            f"{name} must be floating-point of shape ({shape}), got {shape_and_type(x)}"
        )


def require_heads(d_model: Any, num_heads: Any) -> None:
    """Raise `ValueError` unless `num_heads` heads of equal size make up `d_model`."""
    require_sizes(d_model=d_model, num_heads=num_heads)
    if d_model % num_heads:
        raise ValueError(f"num_heads must divide d_model={d_model}, got num_heads={num_heads}")


def require_attention(query: Any, key: Any, value: Any, mask: Any) -> None:
    """Raise `ValueError` unless these are tensors that attention can take; names the axis."""
    require_floats(query, "query", "... Lq d_k")
    require_floats(key, "key", "... Lk d_k")
    require_floats(value, "value", "... Lk d_v")
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(
            f"query and key must have the same last axis (d_k), got {query.shape[-1]} and "
            f"{key.shape[-1]}"
        )
    for x in (key, value):
        if x.dtype != query.dtype or x.device != query.device:
            raise ValueError(
                f"query, key and value must be of the same type and on one device, got "
                f"{query.dtype} on {query.device} and {x.dtype} on {x.device}"
            )
    require_fitting(query, key, value, mask)


def require_fitting(query: Tensor, key: Tensor, value: Tensor, mask: Any) -> None:
    """Raise `ValueError` for leading axes, lengths or a mask that PyTorch might stretch to fit.

    It also adds a mask of numbers to the scores, where 1 and 0 would do next to nothing.
    """
    if key.shape[:-1] != value.shape[:-1] or query.shape[:-2] != key.shape[:-2]:
        raise ValueError(
            f"query, key and value must have the same leading axes, and key and value the same "
            f"length Lk, got {tuple(query.shape)}, {tuple(key.shape)} and {tuple(value.shape)}"
        )
    if mask is None:
        return
    if not (isinstance(mask, Tensor) and mask.dtype == torch.bool):
        raise ValueError(f"mask must be boolean, True = may attend, got {shape_and_type(mask)}")
    scores = (*query.shape[:-1], key.shape[-2])
    fits = mask.dim() <= len(scores)
    for size, wanted in zip(mask.shape[::-1], scores[::-1], strict=False):
        fits = fits and (size == 1 or size == wanted)
    if not fits:
        raise ValueError(f"mask must broadcast to the scores {scores}, got {shape_and_type(mask)}")


def require_cacheable(
    keys: Any, values: Any, held_keys: Tensor | None, held_values: Tensor | None
) -> None:
    """Raise `ValueError` unless keys and values fit each other and those that a cache holds."""
    require_floats(keys, "keys", "B H L d_k")
    require_floats(values, "values", "B H L d_v")
    old_keys = keys if held_keys is None else held_keys
    old_values = values if held_values is None else held_values
    B, H = old_keys.shape[:2]
    for name, new, old in (("keys", keys, old_keys), ("values", values, old_values)):
        shape = (B, H, keys.size(2), old.size(-1))
        if new.shape != shape or new.dtype != old.dtype:
            wanted = f"shape {shape} of {old.dtype}"
            raise ValueError(f"{name} must be of {wanted}, got {shape_and_type(new)}")
