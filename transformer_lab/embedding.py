"""From token ids to vectors: what a token is (lesson 07), and where it stands (lesson 05)."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from transformer_lab.support.dropout import Dropout
from transformer_lab.support.validation import require, require_sizes


def sinusoidal_encoding(length: int, d_model: int) -> Float[Tensor, "L d_model"]:
    """Return PE(t, 2i) = sin(t / 10000^(2i / d_model)), PE(t, 2i + 1) = cos(the same) (paper, 3.5).

    t counts from 0 to length − 1, i from 0 to d_model / 2 − 1.
    Raises `ValueError` for a negative length or an odd d_model.
    """
    require_sizes(length=length, at_least=0)
    require_sizes(d_model=d_model)
    require(d_model % 2 == 0, f"d_model must be even, got {d_model}")
    position = torch.arange(length, dtype=torch.float64)[:, None]
    rate = 10000.0 ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    angle = position * rate  # (L, d_model / 2)
    return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1).float()


class PositionalEncoding(nn.Module):
    """Add the sinusoids to the embeddings, then drop out (paper, 3.5 and 5.4)."""

    table: Tensor

    def __init__(self, d_model: int, max_length: int = 512, dropout: float = 0.1):
        super().__init__()
        self.dropout = Dropout(dropout)
        self.register_buffer("table", sinusoidal_encoding(max_length, d_model), persistent=False)

    def forward(
        self, x: Float[Tensor, "B L d_model"], offset: int = 0
    ) -> Float[Tensor, "B L d_model"]:
        """Return x + PE, where the first token stands at position `offset`.

        Raises `ValueError` for positions beyond `max_length`.
        """
        require_sizes(offset=offset, at_least=0)
        end, max_length = offset + x.shape[1], len(self.table)
        if end > max_length:  # beyond the table PyTorch gives nothing for one token, and no error
            raise ValueError(f"a sentence of {end} tokens is longer than max_length={max_length}")
        return self.dropout(x + self.table[offset:end])


class TokenEmbedding(nn.Module):
    """Look each token up in a table, times √d_model (paper, 3.4).

    The table starts with variance 1 / d_model, so that what comes out has variance 1.
    """

    def __init__(self, vocab_size: int, d_model: int):
        super().__init__()
        require_sizes(vocab_size=vocab_size, d_model=d_model)
        self.scale = math.sqrt(d_model)
        self.table = nn.Parameter(torch.randn(vocab_size, d_model) / self.scale)

    def forward(self, tokens: Int[Tensor, "B L"]) -> Float[Tensor, "B L d_model"]:
        """Return √d_model × the rows of the table."""
        return F.embedding(tokens, self.table) * self.scale
