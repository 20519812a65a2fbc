"""What decoding step by step keeps, so that no token is computed twice (lesson 09)."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from transformer_lab.config import PAD
from transformer_lab.masks import decoder_mask, padding_mask
from transformer_lab.support.validation import require, require_cacheable


class KVCache:
    """The keys (B, H, L, d_k) and values (B, H, L, d_v) that one attention has already computed.

    In self-attention they grow by the new tokens of each call. With `fixed=True`
    (cross-attention) they are those of the first call, after which the attention adds no more: the
    encoder's output does not change.
    Raises `ValueError` for shapes that do not fit what is here.
    """

    def __init__(self, *, fixed: bool = False):
        self.fixed = fixed
        self.length = 0  # of the keys so far; the stores may have room for more
        self._keys: Tensor | None = None
        self._values: Tensor | None = None

    @property
    def complete(self) -> bool:
        """Whether there is nothing left to add."""
        return self.fixed and self.length > 0

    def append(self, keys: Float[Tensor, "B H L d_k"], values: Float[Tensor, "B H L d_v"]) -> None:
        """Add the keys and values of new tokens after those that are here."""
        require_cacheable(keys, values, self._keys, self._values)
        start, self.length = self.length, self.length + keys.shape[2]
        self._keys = _room_for(self._keys, keys, self.length, exact=self.fixed)
        self._values = _room_for(self._values, values, self.length, exact=self.fixed)
        self._keys[:, :, start : self.length] = keys
        self._values[:, :, start : self.length] = values

    def cut(self, length: int) -> None:
        """Forget all but the first `length` keys and values."""
        self.length = min(length, self.length)
        if self.length == 0:
            self._keys = self._values = None

    def read(self) -> tuple[Float[Tensor, "B H L d_k"], Float[Tensor, "B H L d_v"]]:
        """Return all keys and values so far."""
        require(self.length > 0, "a cache can be read once it holds keys and values, got none yet")
        return self._keys[:, :, : self.length], self._values[:, :, : self.length]

    def select(self, rows: Int[Tensor, "rows"]) -> None:
        """Keep these rows of the batch, in this order (rows may repeat)."""
        if self.length > 0:  # unlike keys[rows], `index_select` counts no row from the end
            self._keys, self._values = (each.index_select(0, rows) for each in self.read())


def _room_for(store: Tensor | None, new: Tensor, length: int, *, exact: bool) -> Tensor:
    """Return `store`, or a larger copy: with doubling, a token costs the same at any length."""
    if store is not None and store.shape[2] >= length:
        return store
    B, H, _, size = new.shape
    grown = new.new_empty(B, H, length if exact else max(16, 2 * length), size)
    if store is not None:
        grown[:, :, : store.shape[2]] = store
    return grown


class DecoderCache:
    """What the decoder has computed for the tokens so far: two `KVCache`s per layer.

    It also remembers the tokens: their number is the position of the next one, and padding among
    them stays hidden.
    """

    def __init__(self, num_layers: int):
        self.layers = [(KVCache(), KVCache(fixed=True)) for _ in range(num_layers)]
        self.tokens: Tensor | None = None
        self.has_padding = False

    @property
    def length(self) -> int:
        """The number of tokens so far."""
        return 0 if self.tokens is None else self.tokens.shape[1]

    @contextmanager
    def adding(self, target: Int[Tensor, "B Lt"]) -> Iterator[Bool[Tensor, "..."] | None]:
        """Append new tokens, and give the mask of what they may see, while the layers read them.

        If that ends in an error, the tokens are taken out again: the first layers may have kept
        their keys, and the others not.
        """
        length = self.length
        self.append(target)
        try:
            yield self.mask(target.shape[1])
        except BaseException:  # Ctrl-C too
            self.cut(length)
            raise

    def append(self, target: Int[Tensor, "B Lt"]) -> None:
        """Remember new tokens."""
        if self.tokens is not None:
            require(
                target.shape[0] == self.tokens.shape[0],
                f"the cache holds {self.tokens.shape[0]} sentences, got {target.shape[0]}",
            )
            self.tokens = torch.cat((self.tokens, target), dim=1)
        else:
            self.tokens = target
        self.has_padding = self.has_padding or bool((target == PAD).any())

    def cut(self, length: int) -> None:
        """Forget all but the first `length` tokens; with none left, the encoder's output too."""
        for own, of_memory in self.layers:
            own.cut(length)
            if length == 0:
                of_memory.cut(0)
        self.tokens = self.tokens[:, :length] if length else None
        self.has_padding = length > 0 and bool((self.tokens == PAD).any())

    def mask(self, queries: int) -> Bool[Tensor, "..."] | None:
        """Return what the last `queries` tokens may see; None where that is everything."""
        if queries > 1:
            return decoder_mask(self.tokens)[:, :, -queries:]
        return padding_mask(self.tokens) if self.has_padding else None

    def select(self, rows: Int[Tensor, "rows"]) -> None:
        """Keep these sentences, in this order (rows may repeat)."""
        for caches in self.layers:
            for cache in caches:
                cache.select(rows)
        if self.tokens is not None:
            self.tokens = self.tokens.index_select(0, rows)
