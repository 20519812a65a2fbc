"""The loss: cross-entropy with label smoothing, plainly, and without holding all the logits."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from transformer_lab.config import PAD
from transformer_lab.inputs import INTEGERS, check_floats, describe, is_number, require

CHUNK, GPU_CHUNK = 256, 4096  # tokens whose logits are held at once


def sequence_loss(
    logits: Float[Tensor, "*B V"], targets: Int[Tensor, "*B"], label_smoothing: float = 0.0
) -> Float[Tensor, ""]:
    """Return the mean over the real tokens of −Σ q log p, with q = (1 − ε) one-hot + ε / V.

    Padding (PAD in `targets`) is left out (paper, 5.4, "Label Smoothing"). Raises `ValueError` for
    shapes that do not fit, ids out of range, or nothing but padding.
    """
    check_floats(logits, "logits", "... V")
    shape, V = tuple(logits.shape[:-1]), logits.shape[-1]
    require(
        isinstance(targets, Tensor) and targets.dtype in INTEGERS and targets.shape == shape,
        f"targets must be integer ids of shape {shape}, as the logits, got {describe(targets)}",
    )
    require(
        is_number(label_smoothing) and 0 <= label_smoothing < 1,
        f"label_smoothing must be from 0 to below 1, got {label_smoothing!r}",
    )
    real = targets != PAD
    logits, targets = logits[real], targets[real].long()
    require(targets.numel() > 0, f"targets must hold a word, got nothing but padding (id {PAD})")
    require(
        bool((targets >= 0).all() and (targets < V).all()),
        f"targets must be ids from 0 to {V - 1}, got {int(targets.min())} to {int(targets.max())}",
    )
    return nn.functional.cross_entropy(logits, targets, label_smoothing=label_smoothing)


def losses_and_gradient(
    logits: Float[Tensor, "N V"], targets: Int[Tensor, "N"], label_smoothing: float
) -> tuple[Float[Tensor, "N 1"], Float[Tensor, "N V"]]:
    """Return −Σ q log p of each token, and its gradient p − q with respect to the logits.

    The gradient is made in the place of float32 `logits`, which are gone afterwards.
    """
    dtype, V, targets = logits.dtype, logits.shape[-1], targets[:, None]
    logits = logits.float()
    log_z = logits.logsumexp(dim=-1, keepdim=True)
    chosen = logits.gather(-1, targets)
    mean = logits.mean(dim=-1, keepdim=True)
    losses = log_z - (1 - label_smoothing) * chosen - label_smoothing * mean
    grad = logits.sub_(log_z).exp_().sub_(label_smoothing / V)  # p − ε / V
    if torch.compiler.is_compiling():  # then it is part of a pass that is made anyway
        columns = torch.arange(V, device=targets.device)
        grad = grad - (1 - label_smoothing) * (columns == targets)
    else:
        grad.scatter_add_(-1, targets, torch.full_like(chosen, label_smoothing - 1))
    return losses, grad.to(dtype)


class FusedLoss(torch.autograd.Function):
    """The summed `sequence_loss` of logits = states Wᵀ, without ever holding all the logits.

    For each chunk of tokens the logits are made, used for the loss, turned in place into their
    gradient p − q, multiplied on to the states and the weights, and dropped. On a CPU a chunk stays
    in the cache, on a GPU a large vocabulary fits in memory. Rows whose target is PAD count
    nothing; where it is known which rows those are, it is cheaper to leave them out before.
    """

    @staticmethod
    def forward(ctx, states, weight, targets, label_smoothing, chunk_loss=losses_and_gradient):
        matrix = weight.to(states.dtype)  # states may be bfloat16
        loss = states.new_zeros((), dtype=torch.float32)
        grad_states, grad_weight = torch.empty_like(states), torch.zeros_like(weight)
        chunk = CHUNK if states.device.type == "cpu" else GPU_CHUNK
        for h, y, grad_h in zip(
            states.split(chunk), targets.split(chunk), grad_states.split(chunk), strict=True
        ):
            real = (y != PAD)[:, None]
            losses, grad = chunk_loss(h @ matrix.T, y, label_smoothing)
            loss += (losses * real).sum()
            torch.mm(grad, matrix, out=grad_h)
            grad_h.mul_(real)
            grad_weight += grad.T @ (h * real)
        ctx.save_for_backward(grad_states, grad_weight)
        return loss

    @staticmethod
    def backward(ctx, grad_loss):
        grad_states, grad_weight = ctx.saved_tensors
        return grad_states.mul_(grad_loss), grad_weight.mul_(grad_loss), None, None, None
