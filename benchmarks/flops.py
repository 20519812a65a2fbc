"""The arithmetic of a training step, counted in the open, and the peak that it is held against.

Only products of matrices are counted, 2·m·n·k for (m × k) times (k × n), and only for real tokens:
what is spent on padding is no work. Attention is counted as full rectangles, though the causal mask
throws half of them away. Backward costs twice what forward does: one product for the gradient of
each factor.
"""

import torch

from benchmarks.reporting.timing import seconds_per_call
from transformer_lab import ModelConfig


def forward_flops(
    c: ModelConfig, source_lengths: list[int], target_lengths: list[int]
) -> dict[str, int]:
    """Return the operations of one forward pass over these sentences, by part of the model."""
    d, sources, targets = c.d_model, sum(source_lengths), sum(target_lengths)
    pairs = list(zip(source_lengths, target_lengths, strict=True))
    projections = 4 * d * d  # W_Q, W_K, W_V, W_O of a self-attention, for each token
    crossed = 2 * d * d  # in cross-attention W_K and W_V see the source, W_Q and W_O the target
    feed_forward = 2 * d * c.d_ff
    encoder = sources * (projections + feed_forward)
    decoder = targets * (projections + crossed + feed_forward) + sources * crossed
    # Q Kᵀ and A V: Lq × Lk × d_k for each head, and the heads' d_k add up to d_model.
    own = sum(2 * d * n * n for n in source_lengths)
    others = sum(2 * d * (m * m + m * n) for n, m in pairs)
    return {
        "encoder": 2 * c.num_encoder_layers * encoder,
        "decoder": 2 * c.num_decoder_layers * decoder,
        "attention": 2 * (c.num_encoder_layers * own + c.num_decoder_layers * others),
        "words": 2 * targets * d * c.target_vocab_size,
    }


def training_flops(c: ModelConfig, source_lengths: list[int], target_lengths: list[int]) -> int:
    """Return the operations of one training step: forward once, backward twice that."""
    return 3 * sum(forward_flops(c, source_lengths, target_lengths).values())


def matmul_peak(device: torch.device, size: int = 8192) -> float:
    """Return the operations per second of a bfloat16 product of two random square matrices."""
    generator = torch.Generator(device).manual_seed(0)
    a, b = (
        torch.randn(size, size, device=device, generator=generator).bfloat16() for _ in range(2)
    )
    return 2 * size**3 / seconds_per_call(lambda: a @ b, device, calls=20)
