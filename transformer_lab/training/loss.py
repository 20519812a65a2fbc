"""The loss, plainly: cross-entropy with label smoothing over the real tokens (paper, 5.4)."""

from jaxtyping import Float, Int
from torch import Tensor, nn

from transformer_lab.config import PAD
from transformer_lab.support.validation import (
    INTEGERS,
    is_number,
    require,
    require_floats,
    shape_and_type,
    shown,
)


def sequence_loss(
    logits: Float[Tensor, "*B V"], targets: Int[Tensor, "*B"], label_smoothing: float = 0.0
) -> Float[Tensor, ""]:
    """Return the mean over the real tokens of −Σ q log p, with q = (1 − ε) one-hot + ε / V.

    Padding (PAD in `targets`) is left out (paper, 5.4, "Label Smoothing"). Raises `ValueError` for
    shapes that do not fit, ids out of range, or nothing but padding.
    """
    require_floats(logits, "logits", "... V")
    shape, V = tuple(logits.shape[:-1]), logits.shape[-1]
    if not (isinstance(targets, Tensor) and targets.dtype in INTEGERS and targets.shape == shape):
        came = shape_and_type(targets)
        raise ValueError(f"targets must be integer ids of shape {shape}, as the logits, got {came}")
    require(
        is_number(label_smoothing) and 0 <= label_smoothing < 1,
        f"label_smoothing must be from 0 to below 1, got {shown(label_smoothing)}",
    )
    real = targets != PAD
    logits, targets = logits[real], targets[real].long()
    require(targets.numel() > 0, f"targets must hold a word, got nothing but padding (id {PAD})")
    if not bool(((targets >= 0) & (targets < V)).all()):
        came = f"{int(targets.min())} to {int(targets.max())}"
        raise ValueError(f"targets must be ids from 0 to {V - 1}, got {came}")
    return nn.functional.cross_entropy(logits, targets, label_smoothing=label_smoothing)
