"""The encoder's and the decoder's layer (paper, section 3.1, Figure 1; lesson 06)."""

from collections.abc import Callable

from jaxtyping import Bool, Float
from torch import Tensor, nn

from transformer_lab.attention import MultiHeadAttention
from transformer_lab.cache import KVCache
from transformer_lab.support.dropout import Dropout
from transformer_lab.support.validation import require_sizes


class FeedForward(nn.Module):
    """FFN(x) = max(0, x W₁ + b₁) W₂ + b₂, at each position the same (paper, 3.3).

    Not in the paper: in training the hidden numbers are dropped out too, as in `nn.Transformer`,
    unless `dropout=0`.
    """

    def __init__(self, d_model: int, d_ff: int, dropout: float = 0.1):
        super().__init__()
        require_sizes(d_model=d_model, d_ff=d_ff)
        self.linear_1 = nn.Linear(d_model, d_ff)
        self.linear_2 = nn.Linear(d_ff, d_model)
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "*B d_model"]) -> Float[Tensor, "*B d_model"]:
        return self.linear_2(self.dropout(self.linear_1(x).relu()))


class AddNorm(nn.Module):
    """LayerNorm(x + Dropout(Sublayer(x))) (paper, 3.1 and 5.4); x + Dropout(Sublayer(LayerNorm(x)))
    with `pre_norm=True`.
    """

    def __init__(self, d_model: int, dropout: float = 0.1, pre_norm: bool = False):
        super().__init__()
        require_sizes(d_model=d_model)
        self.norm = nn.LayerNorm(d_model)
        self.dropout = Dropout(dropout)
        self.pre_norm = pre_norm

    def forward(
        self, x: Float[Tensor, "*B d_model"], sublayer: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "*B d_model"]:
        if self.pre_norm:
            return x + self.dropout(sublayer(self.norm(x)))
        return self.norm(x + self.dropout(sublayer(x)))


class EncoderLayer(nn.Module):
    """Self-attention, then the feed-forward network, each inside an AddNorm."""

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        d_ff: int,
        dropout: float = 0.1,
        pre_norm: bool = False,
        activation_dropout: bool = True,
    ):
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, num_heads)
        self.feed_forward = FeedForward(d_model, d_ff, dropout if activation_dropout else 0.0)
        self.add_norm_1 = AddNorm(d_model, dropout, pre_norm)
        self.add_norm_2 = AddNorm(d_model, dropout, pre_norm)

    def forward(
        self, x: Float[Tensor, "B Ls d_model"], mask: Bool[Tensor, "..."] | None = None
    ) -> Float[Tensor, "B Ls d_model"]:
        x = self.add_norm_1(x, lambda h: self.self_attention(h, h, h, mask))
        return self.add_norm_2(x, self.feed_forward)


class DecoderLayer(nn.Module):
    """Masked self-attention, attention to the encoder's output, then the feed-forward network."""

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        d_ff: int,
        dropout: float = 0.1,
        pre_norm: bool = False,
        activation_dropout: bool = True,
    ):
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, num_heads)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.feed_forward = FeedForward(d_model, d_ff, dropout if activation_dropout else 0.0)
        self.add_norm_1 = AddNorm(d_model, dropout, pre_norm)
        self.add_norm_2 = AddNorm(d_model, dropout, pre_norm)
        self.add_norm_3 = AddNorm(d_model, dropout, pre_norm)

    def forward(
        self,
        x: Float[Tensor, "B Lt d_model"],
        memory: Float[Tensor, "B Ls d_model"],
        target_mask: Bool[Tensor, "..."] | None = None,
        memory_mask: Bool[Tensor, "..."] | None = None,
        *,
        cache: tuple[KVCache, KVCache] | None = None,
    ) -> Float[Tensor, "B Lt d_model"]:
        self_cache, cross_cache = (None, None) if cache is None else cache
        x = self.add_norm_1(
            x, lambda h: self.self_attention(h, h, h, target_mask, cache=self_cache)
        )
        x = self.add_norm_2(
            x, lambda h: self.cross_attention(h, memory, memory, memory_mask, cache=cross_cache)
        )
        return self.add_norm_3(x, self.feed_forward)
