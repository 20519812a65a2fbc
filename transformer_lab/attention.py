"""Attention: the equation (lesson 02), the heads (lesson 03), and a fused path equal to them."""

import math

import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from transformer_lab.cache import KVCache
from transformer_lab.support.validation import require_attention, require_fitting, require_heads


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
    require_attention(query, key, value, mask)
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    if mask is None:
        weights = scores.softmax(dim=-1)
    else:
        # A row of −inf alone would be NaN after the softmax; filling again makes it zero.
        weights = scores.masked_fill(~mask, -math.inf).softmax(dim=-1).masked_fill(~mask, 0.0)
    return weights @ value, weights


def split_heads(x: Float[Tensor, "B L d_model"], num_heads: int) -> Float[Tensor, "B H L d_k"]:
    """Give each head its own d_k = d_model / H features of every token."""
    B, L, d_model = x.shape
    x = x.view(B, L, num_heads, d_model // num_heads)  # (B, L, H, d_k)
    return x.transpose(1, 2)  # (B, H, L, d_k)


def merge_heads(x: Float[Tensor, "B H L d_k"]) -> Float[Tensor, "B L H*d_k"]:
    """Put the heads of every token side by side again: the inverse of `split_heads`."""
    B, H, L, d_k = x.shape
    return x.transpose(1, 2).reshape(B, L, H * d_k)


class MultiHeadAttention(nn.Module):
    """Concat(head₁ … head_h) W^O, headᵢ = Attention(Q W_Qᵢ, K W_Kᵢ, V W_Vᵢ) (paper, 3.2.2).

    The h projections of a kind lie side by side in one linear layer: `w_q`, `w_k`, `w_v`; `w_o`
    mixes the heads. d_k = d_v = d_model / num_heads. The equation has no biases, so there are none
    unless `bias=True`, as in `nn.MultiheadAttention`. Raises `ValueError` if d_k is not whole.
    """

    def __init__(self, d_model: int, num_heads: int, bias: bool = False):
        super().__init__()
        require_heads(d_model, num_heads)
        self.num_heads = num_heads
        self.d_k = d_model // num_heads
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
        cache: KVCache | None = None,
        return_weights: bool = False,
    ) -> (
        Float[Tensor, "B Lq d_model"]
        | tuple[Float[Tensor, "B Lq d_model"], Float[Tensor, "B H Lq Lk"]]
    ):
        """Return (B, Lq, d_model); with `return_weights`, also the weights (B, H, Lq, Lk).

        `mask` is boolean, True = may attend, and broadcasts to (B, H, Lq, Lk). With a `cache`, Lk
        counts the cached keys too. Raises `ValueError` for keys, values or a mask that do not fit.
        """
        q = split_heads(self.w_q(query), self.num_heads)
        k, v = self._keys_and_values(key, value, cache)
        if return_weights:
            heads, weights = scaled_dot_product_attention(q, k, v, mask)
            return self.w_o(merge_heads(heads)), weights
        require_fitting(q, k, v, mask)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.w_o(merge_heads(heads))

    def _keys_and_values(self, key: Tensor, value: Tensor, cache: KVCache | None):
        if cache is not None and cache.complete:
            return cache.read()  # `key` and `value` have not changed since the first step
        k = split_heads(self.w_k(key), self.num_heads)
        v = split_heads(self.w_v(value), self.num_heads)
        if cache is None:
            return k, v
        cache.append(k, v)
        return cache.read()
