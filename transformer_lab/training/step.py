"""One step of training (paper, section 5): the objective, and a step down its gradient."""

from contextlib import AbstractContextManager, nullcontext

import torch
import torch.distributed as dist
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from transformer_lab.config import PAD, TrainConfig
from transformer_lab.data.batches import Batch
from transformer_lab.model import Transformer
from transformer_lab.support.validation import (
    is_number,
    require,
    require_type,
    shape_and_type,
    shown,
)
from transformer_lab.training.fused_loss import fused_sequence_loss


class Objective(nn.Module):
    """The model and its summed loss as one module: what is trained, compiled and distributed.

    Objective(source, target) is `sequence_loss(model(source, target[:, :-1]), target[:, 1:], ε)`,
    but the sum over the real tokens, not their mean: each prefix predicts the next token.
    """

    def __init__(self, model: Transformer, config: TrainConfig):
        super().__init__()
        require_type(model, nn.Module, "model")
        require_type(config, TrainConfig, "config")
        self.states = DecoderStates(model, bfloat16=config.precision == "bfloat16")
        self.label_smoothing, self.compiled = config.label_smoothing, config.compile
        if config.compile:
            self.states.compile(dynamic=True)  # for batches of any size

    def forward(
        self, source: Int[Tensor, "B Ls"], target: Int[Tensor, "B Lt"]
    ) -> Float[Tensor, ""]:
        states, words = self.states(source, target[:, :-1]), self.states.model.generator.weight
        return fused_sequence_loss(
            states, words, target[:, 1:], self.label_smoothing, compiled=self.compiled
        )


class DecoderStates(nn.Module):
    """The decoder's states in the precision of training: what `torch.compile` can read."""

    def __init__(self, model: Transformer, *, bfloat16: bool):
        super().__init__()
        self.model, self.in_bfloat16 = model, bfloat16

    def forward(
        self, source: Int[Tensor, "B Ls"], target_in: Int[Tensor, "B Lt"]
    ) -> Float[Tensor, "B Lt d_model"]:
        device = source.device.type
        with torch.autocast(device, torch.bfloat16, enabled=self.in_bfloat16), self.kernels(device):
            states = self.model.decode_states(target_in, *self.model.encode(source))
        # The last LayerNorm gives float32; the product with all the words is the largest there is.
        return states.bfloat16() if self.in_bfloat16 else states

    def kernels(self, device: str) -> AbstractContextManager:
        """Choose attention in plain steps for bfloat16 on a CPU, where PyTorch's fused one goes
        backward ten times slower than in float32; else leave the choice to PyTorch.
        """
        plain = self.in_bfloat16 and device == "cpu"
        return sdpa_kernel(SDPBackend.MATH) if plain else nullcontext()


def train_step(
    objective: nn.Module, batch: Batch, optimizer: torch.optim.Optimizer, *, clip_norm: float = 0.0
) -> Float[Tensor, ""]:
    """Take one step down the gradient of the mean loss per token; return that loss.

    The batch may lie on the CPU, and best does: to count its tokens there, nothing has to wait.
    Of a data-parallel run, each process computes its share of the sentences and divides by the
    number of tokens of the whole batch, so that n processes do what one would; each returns its
    part of the loss, and the parts add up to it. Raises `ValueError` if there is no token to
    predict, and for arguments of another kind.
    """
    require_type(objective, nn.Module, "objective")
    require_type(batch, Batch, "batch")
    require_type(optimizer, torch.optim.Optimizer, "optimizer")
    right = is_number(clip_norm) and clip_norm >= 0  # below 0, a step would go up
    require(right, f"clip_norm must be a number from 0, got {shown(clip_norm)}")
    num_tokens = batch.num_tokens
    require(num_tokens > 0, "batch.target must hold a word to predict, got padding only")
    rank, size = rank_and_size()
    share = _share(batch, rank, size).to(next(objective.parameters()).device)
    optimizer.zero_grad()
    loss = objective(share.source, share.target) / num_tokens
    if loss.dim() != 0:
        raise ValueError(
            f"objective must give the summed loss, as Objective(model, config) does, got "
            f"{shape_and_type(loss)}"
        )
    (loss * size).backward()  # data-parallel gradients are means over processes; we want the sum
    if clip_norm:
        nn.utils.clip_grad_norm_(objective.parameters(), clip_norm)
    optimizer.step()
    return loss.detach()


def rank_and_size() -> tuple[int, int]:
    """Return this process's number and how many train together."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return 0, 1


def _share(batch: Batch, rank: int, size: int) -> Batch:
    """Return every `size`-th sentence; a process without any gets one whose target is padding."""
    if size == 1:
        return batch
    if rank < len(batch.source):
        return Batch(batch.source[rank::size], batch.target[rank::size])
    return Batch(batch.source[:1], torch.full_like(batch.target[:1], PAD))
