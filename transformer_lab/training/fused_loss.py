"""The loss of `loss.py` for training: the same number, without ever holding all the logits.

Nothing here has to be read to understand training. What differs between CPU and GPU, and between
compiled and not, is in this file alone.
"""

import functools

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transformer_lab.config import PAD
from transformer_lab.support.validation import require

CHUNK, GPU_CHUNK = 256, 4096  # tokens whose logits are held at once


def fused_sequence_loss(
    states: Float[Tensor, "B L d_model"],
    weight: Float[Tensor, "V d_model"],
    targets: Int[Tensor, "B L"],
    label_smoothing: float = 0.0,
    *,
    compiled: bool = False,
) -> Float[Tensor, ""]:
    """Return `sequence_loss(states @ weight.T, targets, label_smoothing)`, summed, not averaged.

    That is the mean loss of `loss.py` times the number of real tokens (paper, 5.4). `compiled`
    lets `torch.compile` make the part between the two matrix products on a GPU. Raises `ValueError`
    for targets out of range (on a GPU, CUDA itself refuses them).
    """
    states, targets = states.flatten(0, 1), targets.flatten().long()
    if targets.device.type == "cpu":  # a GPU would have to wait until it is known where it is
        real = targets != PAD
        states, targets = states[real], targets[real]
        _require_words(targets, len(weight))
    return FusedLoss.apply(states, weight, targets, label_smoothing, compiled)


def _require_words(targets: Int[Tensor, "N"], vocab_size: int) -> None:
    if len(targets) == 0:
        return
    low, high = (int(bound) for bound in targets.aminmax())
    right = low >= 0 and high < vocab_size
    require(right, f"targets must be ids from 0 to {vocab_size - 1}, got {low} to {high}")


def losses_and_gradient(
    logits: Float[Tensor, "N V"], targets: Int[Tensor, "N"], label_smoothing: float
) -> tuple[Float[Tensor, "N 1"], Float[Tensor, "N V"]]:
    """Return −Σ q log p of each token, and its gradient p − q with respect to the logits.

    The gradient is made in the place of float32 `logits`, which are gone afterwards.
    """
    dtype, V, targets = logits.dtype, logits.shape[-1], targets[:, None]
    logits = logits.float()
    chosen = logits.gather(-1, targets)
    mean = logits.mean(dim=-1, keepdim=True)
    highest = logits.amax(dim=-1, keepdim=True)
    exponentials = logits.sub_(highest).exp_()  # at most 1
    total = exponentials.sum(dim=-1, keepdim=True)
    log_z = highest + total.log()
    losses = log_z - (1 - label_smoothing) * chosen - label_smoothing * mean
    grad = exponentials.div_(total).sub_(label_smoothing / V)  # p − ε / V
    if torch.compiler.is_compiling():  # then it is part of a pass that is made anyway
        columns = torch.arange(V, device=targets.device)
        grad = grad - (1 - label_smoothing) * (columns == targets)
    else:
        grad.scatter_add_(-1, targets, torch.full_like(chosen, label_smoothing - 1))
    return losses, grad.to(dtype)


@functools.cache
def _compiled_losses_and_gradient():
    return torch.compile(losses_and_gradient, dynamic=True)  # fewer passes over the logits


class FusedLoss(torch.autograd.Function):
    """The summed `sequence_loss` of logits = states Wᵀ, without ever holding all the logits.

    For each chunk of tokens the logits are made, used for the loss, turned in place into their
    gradient p − q, multiplied on to the states and the weights, and dropped. On a CPU a chunk stays
    in the cache, on a GPU a large vocabulary fits in memory. Rows whose target is PAD count
    nothing; where it is known which rows those are, it is cheaper to leave them out before.
    """

    @staticmethod
    def forward(ctx, states, weight, targets, label_smoothing, compiled=False):
        matrix = weight.to(states.dtype)  # states may be bfloat16
        loss = states.new_zeros((), dtype=torch.float32)
        grad_states, grad_weight = torch.empty_like(states), torch.zeros_like(weight)
        on_cpu = states.device.type == "cpu"
        chunk = CHUNK if on_cpu else GPU_CHUNK
        logits = states.new_empty(min(chunk, len(states)), len(weight))  # of one chunk at a time
        use_compiled = compiled and not on_cpu
        chunk_loss = _compiled_losses_and_gradient() if use_compiled else losses_and_gradient
        for h, y, grad_h in zip(
            states.split(chunk), targets.split(chunk), grad_states.split(chunk), strict=True
        ):
            real = (y != PAD)[:, None]
            torch.mm(h, matrix.T, out=logits[: len(h)])
            losses, grad = chunk_loss(logits[: len(h)], y, label_smoothing)
            loss += (losses * real).sum()
            torch.mm(grad, matrix, out=grad_h)
            grad_h.mul_(real)
            if grad.dtype == weight.dtype:
                grad_weight.addmm_(grad.T, h * real)
            else:  # bfloat16 products, added up in float32
                grad_weight += grad.T @ (h * real)
        ctx.save_for_backward(grad_states, grad_weight)
        return loss

    @staticmethod
    def backward(ctx, grad_loss):
        grad_states, grad_weight = ctx.saved_tensors
        return grad_states.mul_(grad_loss), grad_weight.mul_(grad_loss), None, None, None
