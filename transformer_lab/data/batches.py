"""From sentences to batches: padded, shifted, and grouped so that little of them is padding."""

import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Int64
from torch import Tensor

from transformer_lab.config import BOS, PAD
from transformer_lab.support.validation import (
    require,
    require_ids,
    require_sizes,
    require_type,
    shape_and_type,
    shown,
)


@dataclass(frozen=True)
class Batch:
    """Source sentences `ids EOS PAD…` and their targets `BOS ids EOS PAD…`, as (B, L) int64.

    The decoder reads `target_in` and must predict `target_out`, the same tokens one step later
    ("shifted right", paper, section 3.1). Raises `ValueError` for other shapes or types.
    """

    source: Int64[Tensor, "B Ls"]
    target: Int64[Tensor, "B Lt"]

    def __post_init__(self):
        require_ids(self.source, "source")
        require_ids(self.target, "target")
        require(
            len(self.source) == len(self.target) > 0,
            f"source and target must hold the same number of sentences, at least one, "
            f"got {len(self.source)} and {len(self.target)}",
        )

    @classmethod
    def from_pairs(cls, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> "Batch":
        """Pad (source ids, target ids), both ending in EOS, and put BOS before each target.

        Raises `ValueError` if there is no pair, or one that is not two lists of ids.
        """
        right = isinstance(pairs, Sequence)
        require(right, f"pairs must be a list of pairs of ids, got {shape_and_type(pairs)}")
        require(len(pairs) > 0, "a batch must have at least one pair of sentences, got none")
        for index, pair in enumerate(pairs):
            is_pair = isinstance(pair, list | tuple) and len(pair) == 2
            if not (is_pair and all(map(_are_ids, pair))):
                raise ValueError(
                    f"pair {index} must be two lists of whole numbers, with at least EOS in each, "
                    f"got {pair!r:.60}"
                )
        sources, targets = zip(*pairs, strict=True)
        return cls(pad(sources), pad([[BOS, *target] for target in targets]))

    @property
    def target_in(self) -> Int64[Tensor, "B L"]:
        """What the decoder reads: every target token but the last."""
        return self.target[:, :-1]

    @property
    def target_out(self) -> Int64[Tensor, "B L"]:
        """What the decoder must predict: every target token but BOS."""
        return self.target[:, 1:]

    @property
    def num_tokens(self) -> int:
        """Number of tokens to predict, padding left out."""
        return int((self.target_out != PAD).sum())

    def to(self, device: torch.device | str) -> "Batch":
        """The same batch on `device`; the way to a GPU does not make Python wait."""
        wait = torch.device(device).type == "cpu"  # a copy there must be complete before it is read
        source = self.source.to(device, non_blocking=not wait)
        return Batch(source, self.target.to(device, non_blocking=not wait))


def _are_ids(ids: object) -> bool:
    return isinstance(ids, list | tuple) and len(ids) > 0 and all(type(i) is int for i in ids)


def pad(rows: Sequence[Sequence[int]]) -> Int64[Tensor, "B L"]:
    """Return the ids of several sentences as one tensor, filled up with PAD on the right."""
    longest = max(len(row) for row in rows)
    return torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in rows])


def batches_by_tokens(
    lengths: Iterable[int | tuple[int, ...]],
    max_tokens: int,
    *,
    generator: torch.Generator | None = None,
) -> list[list[int]]:
    """Group sentences of similar length so that `len(batch) * longest <= max_tokens`.

    `lengths` holds one number per sentence, or a tuple such as (target length, source length):
    then sentences are sorted by its first entry, ties by the next, and the largest entry counts
    as the length. Returns lists of indices, each index once. A `generator` draws the order among
    equal lengths and the order of the batches; without it both are sorted.
    Raises `ValueError` for a length below 1 or above `max_tokens`, and for what is no length.
    """
    require_sizes(max_tokens=max_tokens, at_least=0)
    if generator is not None:
        require_type(generator, torch.Generator, "generator")
    lengths, widths = _lengths_and_widths(lengths)
    for index, width in enumerate(widths):
        if not 1 <= width <= max_tokens:
            raise ValueError(
                f"every length must be from 1 to max_tokens={max_tokens}, "
                f"got {width} for sentence {index}"
            )
    order = list(range(len(widths)))
    if generator is not None:
        order = torch.randperm(len(widths), generator=generator).tolist()
    batches, longest = [], 0
    for index in sorted(order, key=lengths.__getitem__):  # stable: ties stay in drawn order
        longest = max(longest, widths[index])
        if not batches or (len(batches[-1]) + 1) * longest > max_tokens:
            batches.append([])
            longest = widths[index]
        batches[-1].append(index)
    if generator is not None:
        drawn = torch.randperm(len(batches), generator=generator).tolist()
        batches = [batches[i] for i in drawn]
    return batches


def _lengths_and_widths(lengths: Iterable) -> tuple[list, list[int]]:
    """Return what sentences are sorted by, and how wide each is: its length, or its largest."""
    try:
        listed = list(lengths)
        widths = [operator.index(max(each) if isinstance(each, tuple) else each) for each in listed]
        alike = len({isinstance(each, tuple) for each in listed}) < 2
    except (TypeError, ValueError):
        alike = False
    if not alike:
        raise ValueError(
            f"lengths must be a list of whole numbers, or of tuples of them, got {shown(lengths)}"
        )
    return listed, widths
