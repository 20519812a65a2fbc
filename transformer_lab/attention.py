"""Attention: the paper's equation in plain lines, and the fused path that is proven equal to it."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from transformer_lab.inputs import check_floats, check_ids, check_sizes, describe, require


def scaled_dot_product_attention(
    query: Float[Tensor, "*B Lq d_k"],
    key: Float[Tensor, "*B Lk d_k"],
    value: Float[Tensor, "*B Lk d_v"],
    mask: Bool[Tensor, "..."] | None = None,
) -> tuple[Float[Tensor, "*B Lq d_v"], Float[Tensor, "*B Lq Lk"]]:
    """Return softmax(Q Kᵀ / √d_k) V and the weights (paper, 3.2.1, equation 1).

    `mask` is boolean, True = may attend, and broadcasts to (*B, Lq, Lk). A query that may attend
    to nothing gets weights and output zero. Raises `ValueError` for shapes that do not fit.
    """
    check_attention(query, key, value, mask)
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    if mask is None:
        weights = scores.softmax(dim=-1)
    else:
        # A row of −inf alone would be NaN after the softmax; filling again makes it zero.
        weights = scores.masked_fill(~mask, -math.inf).softmax(dim=-1).masked_fill(~mask, 0.0)
    return weights @ value, weights


def split_heads(x: Float[Tensor, "B L d_model"], num_heads: int) -> Float[Tensor, "B H L d_k"]:
    """Give each head its own d_k = d_model / H features of every token.

    Raises `ValueError` if the heads do not divide d_model.
    """
    check_floats(x, "x", "B L d_model")
    d_k = _size_per_head(x.shape[-1], num_heads)
    x = x.unflatten(-1, (num_heads, d_k))  # (B, L, H, d_k)
    return x.transpose(1, 2)  # (B, H, L, d_k)


def _size_per_head(d_model: int, num_heads: int) -> int:
    check_sizes(d_model=d_model, num_heads=num_heads)
    if d_model % num_heads:
        raise ValueError(f"num_heads must divide d_model={d_model}, got num_heads={num_heads}")
    return d_model // num_heads


def merge_heads(x: Float[Tensor, "B H L d_k"]) -> Float[Tensor, "B L H*d_k"]:
    """Put the heads of every token side by side again: the inverse of `split_heads`.

    Raises `ValueError` unless `x` is (B, H, L, d_k).
    """
    check_floats(x, "x", "B H L d_k")
    return x.transpose(1, 2).flatten(2)


class MultiHeadAttention(nn.Module):
    """Concat(head₁ … head_h) W_O, headᵢ = Attention(Q W_Qᵢ, K W_Kᵢ, V W_Vᵢ) (paper, 3.2.2).

    The h projections of a kind lie side by side in one linear layer: `w_q`, `w_k`, `w_v`; `w_o`
    mixes the heads. d_k = d_v = d_model / num_heads. Raises `ValueError` if that is not whole.
    """

    def __init__(self, d_model: int, num_heads: int, bias: bool = False):
        super().__init__()
        self.num_heads = num_heads
        self.d_k = _size_per_head(d_model, num_heads)
        self.w_q = nn.Linear(d_model, d_model, bias=bias)
        self.w_k = nn.Linear(d_model, d_model, bias=bias)
        self.w_v = nn.Linear(d_model, d_model, bias=bias)
        self.w_o = nn.Linear(d_model, d_model, bias=bias)

    def forward(
        self,
        query: Float[Tensor, "B Lq d_model"],
        key: Float[Tensor, "B Lk d_model"],
        value: Float[Tensor, "B Lk d_model"],
        mask: Bool[Tensor, "..."] | None = None,
        *,
        cache: "KVCache | None" = None,
        return_weights: bool = False,
    ) -> (
        Float[Tensor, "B Lq d_model"]
        | tuple[Float[Tensor, "B Lq d_model"], Float[Tensor, "B H Lq Lk"]]
    ):
        """Return (B, Lq, d_model); with `return_weights`, also the weights (B, H, Lq, Lk).

        `mask` is boolean, True = may attend, and broadcasts to (B, H, Lq, Lk). With a `cache`, Lk
        counts the cached keys too. Raises `ValueError` for shapes that do not fit.
        """
        for name, x in (("query", query), ("key", key), ("value", value)):
            check_floats(x, name, "B L", d_model=self.w_q.in_features)
        q = split_heads(self.w_q(query), self.num_heads)
        k, v = self._keys_and_values(key, value, cache)
        if return_weights:
            heads, weights = scaled_dot_product_attention(q, k, v, mask)
            return self.w_o(merge_heads(heads)), weights
        check_attention(q, k, v, mask)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.w_o(merge_heads(heads))

    def _keys_and_values(self, key: Tensor, value: Tensor, cache: "KVCache | None"):
        if cache is not None and cache.complete:
            return cache.read()
        k = split_heads(self.w_k(key), self.num_heads)
        v = split_heads(self.w_v(value), self.num_heads)
        if cache is None:
            return k, v
        cache.append(k, v)
        return cache.read()


class KVCache:
    """The keys (B, H, L, d_k) and values (B, H, L, d_v) that one attention has already computed.

    In self-attention they grow by the new tokens of each call. With `fixed=True`
    (cross-attention) they are those of the first call: the encoder's output does not change.
    Raises `ValueError` for shapes that do not fit what is here.
    """

    def __init__(self, *, fixed: bool = False):
        self.fixed = fixed
        self.length = 0
        self._keys: Tensor | None = None
        self._values: Tensor | None = None

    @property
    def complete(self) -> bool:
        """Whether there is nothing left to add."""
        return self.fixed and self.length > 0

    def append(self, keys: Float[Tensor, "B H L d_k"], values: Float[Tensor, "B H L d_v"]) -> None:
        """Add the keys and values of new tokens behind those that are here."""
        self._check(keys, values)
        start, self.length = self.length, self.length + keys.shape[2]
        self._keys = _room_for(self._keys, keys, self.length, self.fixed)
        self._values = _room_for(self._values, values, self.length, self.fixed)
        self._keys[:, :, start : self.length] = keys
        self._values[:, :, start : self.length] = values

    def read(self) -> tuple[Float[Tensor, "B H L d_k"], Float[Tensor, "B H L d_v"]]:
        """Return all keys and values so far."""
        require(self.length > 0, "a cache can be read once it holds keys and values, got none yet")
        return self._keys[:, :, : self.length], self._values[:, :, : self.length]

    def select(self, rows: Int[Tensor, "rows"]) -> None:
        """Keep these rows of the batch, in this order (rows may repeat)."""
        check_ids(rows, "rows", "rows")
        if self.length:
            try:
                self._keys, self._values = self._keys[rows], self._values[rows]
            except IndexError:
                last = len(self._keys) - 1
                raise ValueError(f"rows must be from 0 to {last}, got {rows.tolist()}") from None

    def _check(self, keys: Tensor, values: Tensor) -> None:
        check_floats(keys, "keys", "B H L d_k")
        check_floats(values, "values", "B H L d_v")
        held = self.read() if self.length else (keys, values)
        B, H = held[0].shape[:2]
        for name, new, old in (("keys", keys, held[0]), ("values", values, held[1])):
            shape = (B, H, keys.shape[2], old.shape[3])
            if new.shape != shape:
                raise ValueError(f"{name} must be of shape {shape}, got {describe(new)}")


def _room_for(store: Tensor | None, new: Tensor, length: int, exact: bool) -> Tensor:
    """Return `store`, or a larger copy: with doubling, a token costs the same at any length."""
    if store is not None and store.shape[2] >= length:
        return store
    B, H, _, size = new.shape
    grown = new.new_empty(B, H, length if exact else max(16, 2 * length), size)
    if store is not None:
        grown[:, :, : store.shape[2]] = store
    return grown


def check_attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> None:
    """Raise `ValueError` unless the shapes fit attention; the message names the axis."""
    check_floats(query, "query", "... Lq d_k")
    check_floats(key, "key", "... Lk d_k")
    check_floats(value, "value", "... Lk d_v")
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(
            f"query and key must have the same last axis (d_k), got {query.shape[-1]} and "
            f"{key.shape[-1]}"
        )
    if key.shape[:-1] != value.shape[:-1] or query.shape[:-2] != key.shape[:-2]:
        raise ValueError(
            f"query, key and value must have the same leading axes, and key and value the same "
            f"length Lk, got {tuple(query.shape)}, {tuple(key.shape)} and {tuple(value.shape)}"
        )
    if mask is not None:
        check_mask(mask, (*query.shape[:-1], key.shape[-2]))


def check_mask(mask: Tensor, scores_shape: tuple[int, ...]) -> None:
    """Raise `ValueError` unless `mask` is boolean and broadcasts to the scores' shape."""
    if not (isinstance(mask, Tensor) and mask.dtype == torch.bool):
        raise ValueError(f"mask must be boolean, True = may attend, got {describe(mask)}")
    fits = mask.dim() <= len(scores_shape) and all(
        size == 1 or size == wanted
        for size, wanted in zip(mask.shape[::-1], scores_shape[::-1], strict=False)
    )
    if not fits:
        raise ValueError(f"mask must broadcast to the scores {scores_shape}, got {describe(mask)}")
