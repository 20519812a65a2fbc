"""All masks are made here (lesson 04): boolean, True = may attend, broadcast to (B, H, Lq, Lk).

Why a mask that came from elsewhere is refused: `require_fitting` in `support/validation.py`.
"""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from transformer_lab.config import PAD
from transformer_lab.support.validation import require_ids, require_sizes


def padding_mask(tokens: Int[Tensor, "B L"], pad_id: int = PAD) -> Bool[Tensor, "B 1 1 L"]:
    """Let every query see the real tokens and none of the padding, whatever the head.

    Raises `ValueError` unless `tokens` are integer ids of shape (B, L).
    """
    require_ids(tokens, "tokens")
    return (tokens != pad_id)[:, None, None, :]


def causal_mask(length: int, device: torch.device | str | None = None) -> Bool[Tensor, "L L"]:
    """Let query i see keys 0 … i: "prevent leftward information flow" (paper, 3.2.3).

    Raises `ValueError` unless `length` is a whole number, 0 or more.
    """
    require_sizes(length=length, at_least=0)
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()


def decoder_mask(tokens: Int[Tensor, "B L"], pad_id: int = PAD) -> Bool[Tensor, "B 1 L L"]:
    """Let query i see the real tokens among keys 0 … i: both masks at once.

    Raises `ValueError` unless `tokens` are integer ids of shape (B, L).
    """
    return padding_mask(tokens, pad_id) & causal_mask(tokens.shape[1], tokens.device)
