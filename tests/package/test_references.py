"""The package gives the numbers of PyTorch's own modules, and of the paper."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from transformer_lab import (
    PRESETS,
    DecoderLayer,
    EncoderLayer,
    ModelConfig,
    MultiHeadAttention,
    PositionalEncoding,
    TokenEmbedding,
    Transformer,
    causal_mask,
    decoder_mask,
    noam_rate,
    padding_mask,
    scaled_dot_product_attention,
    sequence_loss,
    sinusoidal_encoding,
)
from transformer_lab.config import num_parameters
from transformer_lab.training.fused_loss import CHUNK, FusedLoss, losses_and_gradient

B, H, LQ, LK, D = 3, 2, 5, 7, 8  # all different, so that no axis can stand in for another


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def randn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=seeded(seed), requires_grad=True)


def clones(*tensors: torch.Tensor) -> list[torch.Tensor]:
    return [t.detach().clone().requires_grad_() for t in tensors]


def random_mask(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.rand(shape, generator=seeded(seed)) < 0.6


def randomise(module: nn.Module, seed: int = 0) -> None:
    """Make every parameter random, the biases and LayerNorms too: zeros and ones hide mistakes."""
    generator = seeded(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3 + 0.1)


# -------------------------------------------------------------- the same weights in nn.Transformer


def partners(ours: nn.Module, theirs: nn.Module):
    """Yield (parameter of ours, the parameter of PyTorch's that holds it, which of its rows)."""
    everything = slice(None)
    if isinstance(ours, MultiHeadAttention):
        d_model = ours.w_q.in_features
        for i, linear in enumerate((ours.w_q, ours.w_k, ours.w_v)):
            rows = slice(i * d_model, (i + 1) * d_model)
            yield linear.weight, theirs.in_proj_weight, rows
            if linear.bias is not None:
                yield linear.bias, theirs.in_proj_bias, rows
        yield from partners(ours.w_o, theirs.out_proj)
    elif isinstance(ours, EncoderLayer | DecoderLayer):
        yield from partners(ours.self_attention, theirs.self_attn)
        yield from partners(ours.feed_forward.linear_1, theirs.linear1)
        yield from partners(ours.feed_forward.linear_2, theirs.linear2)
        yield from partners(ours.add_norm_1.norm, theirs.norm1)
        yield from partners(ours.add_norm_2.norm, theirs.norm2)
        if isinstance(ours, DecoderLayer):
            yield from partners(ours.cross_attention, theirs.multihead_attn)
            yield from partners(ours.add_norm_3.norm, theirs.norm3)
    elif isinstance(ours, Transformer):
        for mine, other in ((ours.encoder, theirs.encoder), (ours.decoder, theirs.decoder)):
            for layer, their_layer in zip(mine.layers, other.layers, strict=True):
                yield from partners(layer, their_layer)
            if other.norm is not None:
                yield from partners(mine.norm, other.norm)
    else:  # a linear layer or a LayerNorm
        yield ours.weight, theirs.weight, everything
        if ours.bias is not None:
            yield ours.bias, theirs.bias, everything


def share_weights(ours: nn.Module, theirs: nn.Module) -> None:
    """Give theirs our weights; the biases of attention, which the model does not have, are 0."""
    randomise(ours)
    copied = 0
    with torch.no_grad():
        for mine, other, rows in partners(ours, theirs):
            other[rows] = mine
            copied += mine.numel()
    zeros = ("in_proj_bias", "out_proj.bias")
    without = [p for n, p in theirs.named_parameters() if n.endswith(zeros) and not p.any()]
    left = sum(p.numel() for p in without)
    assert copied + left == sum(p.numel() for p in theirs.parameters()), "a weight was forgotten"


def assert_same_gradients(ours: nn.Module, theirs: nn.Module) -> None:
    for mine, other, rows in partners(ours, theirs):
        assert_close(mine.grad, other.grad[rows], rtol=1e-4, atol=1e-5)


def backward(*outputs: torch.Tensor) -> None:
    """Go back from a different random direction for every number."""
    for output in outputs:
        (output * torch.randn(output.shape, generator=seeded(9))).sum().backward()


# --------------------------------------------------------------------------------------- attention

MASKS = {
    "no mask": None,
    "causal": causal_mask(LK)[-LQ:],
    "padding": padding_mask(torch.tensor([[5] * n + [0] * (LK - n) for n in (7, 4, 1)])),
    "any": random_mask(B, H, LQ, LK),
    "one for all heads": random_mask(B, 1, LQ, LK),
}


@pytest.mark.parametrize("name", MASKS)
def test_the_equation_is_what_pytorch_computes(name):
    inputs = randn(B, H, LQ, D), randn(B, H, LK, D, seed=1), randn(B, H, LK, 3, seed=2)
    output, weights = scaled_dot_product_attention(*inputs, MASKS[name])
    theirs = clones(*inputs)
    expected = F.scaled_dot_product_attention(*theirs, attn_mask=MASKS[name])
    assert_close(output, expected, rtol=1e-5, atol=1e-5)
    assert_close(weights @ inputs[2], output)
    backward(output, expected)
    for mine, other in zip(inputs, theirs, strict=True):
        assert_close(mine.grad, other.grad, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("leading", [(), (4,), (2, 3, 2)])
def test_attention_takes_any_leading_axes(leading):
    inputs = randn(*leading, LQ, D), randn(*leading, LK, D, seed=1), randn(*leading, LK, 3, seed=2)
    output, _ = scaled_dot_product_attention(*inputs)
    assert_close(output, F.scaled_dot_product_attention(*inputs), rtol=1e-5, atol=1e-5)


def test_the_weights_are_probabilities_over_the_allowed_keys():
    mask = MASKS["any"]
    _, weights = scaled_dot_product_attention(
        randn(B, H, LQ, D), randn(B, H, LK, D, seed=1), randn(B, H, LK, D, seed=2), mask
    )
    assert (weights[~mask] == 0).all() and (weights[mask] > 0).all()
    assert_close(weights.sum(-1), mask.any(-1).float())


@pytest.mark.parametrize("rows", ["some", "all"])
def test_a_query_with_nothing_to_attend_to_gives_zeros_and_no_nan_in_either_path(rows):
    mask = MASKS["any"].clone()
    mask[:, :, 2 if rows == "some" else slice(None)] = False
    inputs = randn(B, LQ, D), randn(B, LK, D, seed=1), randn(B, LK, D, seed=2)
    attention = MultiHeadAttention(D, H)
    randomise(attention)
    gradients = []
    for return_weights in (True, False):
        attention.zero_grad()
        ours = clones(*inputs)
        output = attention(*ours, mask, return_weights=return_weights)
        output = output[0] if return_weights else output
        assert (output[:, 2] == 0).all()
        backward(output)
        gradients.append([t.grad for t in ours] + [p.grad for p in attention.parameters()])
    for plain, fused in zip(*gradients, strict=True):
        assert plain.isfinite().all()
        assert_close(plain, fused, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", MASKS)
def test_the_equation_and_the_fused_path_are_equal(name):
    attention = MultiHeadAttention(D, H, bias=True)
    randomise(attention)
    inputs = randn(B, LQ, D), randn(B, LK, D, seed=1), randn(B, LK, D, seed=2)
    plain, weights = attention(*inputs, MASKS[name], return_weights=True)
    fused = attention(*inputs, MASKS[name])
    assert weights.shape == (B, H, LQ, LK)
    assert_close(fused, plain, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("masked", [False, True])
def test_multi_head_attention_is_pytorchs(masked):
    ours, theirs = (
        MultiHeadAttention(D, H, bias=True),
        nn.MultiheadAttention(D, H, batch_first=True),
    )
    share_weights(ours, theirs)
    mask = causal_mask(LK)[-LQ:] & padding_mask(torch.tensor([[5] * 6 + [0], [5] * 7, [5] * 7]))
    forbidden = ~mask.expand(B, H, LQ, LK).flatten(0, 1)  # their True means: may not attend
    inputs = randn(B, LQ, D), randn(B, LK, D, seed=1), randn(B, LK, D, seed=2)
    copies = clones(*inputs)
    output, weights = ours(*inputs, mask if masked else None, return_weights=True)
    expected, expected_weights = theirs(
        *copies, attn_mask=forbidden if masked else None, average_attn_weights=False
    )
    assert_close(output, expected, rtol=1e-5, atol=1e-5)
    assert_close(weights, expected_weights, rtol=1e-5, atol=1e-5)
    backward(output, expected)
    assert_same_gradients(ours, theirs)
    for mine, other in zip(inputs, copies, strict=True):
        assert_close(mine.grad, other.grad, rtol=1e-4, atol=1e-5)


# ------------------------------------------------------------------------- layers and the model

SOURCE = torch.tensor([[4, 5, 6, 7, 8, 2, 0], [9, 9, 4, 2, 0, 0, 0], [10, 8, 7, 6, 5, 4, 2]])
TARGET = torch.tensor([[1, 5, 6, 7, 8], [1, 4, 2, 0, 0], [1, 8, 4, 2, 0]])


def their_layer(kind: type, pre_norm: bool) -> nn.Module:
    return kind(D, H, 12, dropout=0.0, norm_first=pre_norm, batch_first=True)


@pytest.mark.parametrize("pre_norm", [False, True])
def test_the_encoder_layer_is_pytorchs(pre_norm):
    ours = EncoderLayer(D, H, 12, 0.0, pre_norm)
    theirs = their_layer(nn.TransformerEncoderLayer, pre_norm)
    share_weights(ours, theirs)
    x, copy = clones(*[randn(B, LK, D)] * 2)
    output = ours(x, padding_mask(SOURCE))
    expected = theirs(copy, src_key_padding_mask=SOURCE == 0)
    assert_close(output, expected, rtol=1e-5, atol=1e-5)
    backward(output, expected)
    assert_same_gradients(ours, theirs)
    assert_close(x.grad, copy.grad, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("pre_norm", [False, True])
def test_the_decoder_layer_is_pytorchs(pre_norm):
    ours = DecoderLayer(D, H, 12, 0.0, pre_norm)
    theirs = their_layer(nn.TransformerDecoderLayer, pre_norm)
    share_weights(ours, theirs)
    inputs = randn(B, LQ, D), randn(B, LK, D, seed=1)
    copies = clones(*inputs)
    output = ours(*inputs, decoder_mask(TARGET), padding_mask(SOURCE))
    expected = theirs(
        *copies,
        tgt_mask=~causal_mask(LQ),
        tgt_key_padding_mask=TARGET == 0,
        memory_key_padding_mask=SOURCE == 0,
    )
    assert_close(output, expected, rtol=1e-5, atol=1e-5)
    backward(output, expected)
    assert_same_gradients(ours, theirs)
    for mine, other in zip(inputs, copies, strict=True):
        assert_close(mine.grad, other.grad, rtol=1e-4, atol=1e-5)


def their_transformer(c: ModelConfig) -> nn.Transformer:
    """Return PyTorch's, with the last LayerNorms of a pre-norm model and, as in the paper, none of
    a post-norm one; left alone, nn.Transformer puts them on both.
    """
    norms = [nn.LayerNorm(c.d_model) if c.pre_norm else None for _ in range(2)]
    encoder_layer = their_layer(nn.TransformerEncoderLayer, c.pre_norm)
    decoder_layer = their_layer(nn.TransformerDecoderLayer, c.pre_norm)
    return nn.Transformer(
        c.d_model,
        c.num_heads,
        custom_encoder=nn.TransformerEncoder(
            encoder_layer, c.num_encoder_layers, norms[0], enable_nested_tensor=False
        ),
        custom_decoder=nn.TransformerDecoder(decoder_layer, c.num_decoder_layers, norms[1]),
        batch_first=True,
    )


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("pre_norm", [False, True])
def test_the_whole_model_is_pytorchs(tiny, pre_norm, tied):
    ours = tiny(
        target_vocab_size=11,
        num_encoder_layers=3,
        num_decoder_layers=2,
        pre_norm=pre_norm,
        tie_embeddings=tied,
    )
    theirs = their_transformer(ours.config)
    share_weights(ours, theirs)
    randomise(ours.generator, seed=5)
    states = theirs(
        embed(ours.source_embedding.table, SOURCE),
        embed(ours.target_embedding.table, TARGET),
        tgt_mask=~causal_mask(LQ),
        src_key_padding_mask=SOURCE == 0,
        tgt_key_padding_mask=TARGET == 0,
        memory_key_padding_mask=SOURCE == 0,
    )
    logits, expected = ours(SOURCE, TARGET), states @ ours.generator.weight.T
    assert logits.shape == (B, LQ, 11)
    assert_close(logits, expected, rtol=1e-5, atol=1e-5)
    shared = [ours.source_embedding.table, ours.target_embedding.table, ours.generator.weight]
    backward(logits)
    gradients = [table.grad.clone() for table in shared]
    for table in shared:
        table.grad = None
    backward(expected)
    assert_same_gradients(ours, theirs)
    for table, gradient in zip(shared, gradients, strict=True):
        assert_close(gradient, table.grad, rtol=1e-4, atol=1e-4)


def embed(table: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """√d_model × the rows, plus the sinusoids, from the formula of the paper's section 3.5."""
    d_model = table.shape[1]
    code = [
        [
            (math.sin if i % 2 == 0 else math.cos)(t / 10000 ** (i // 2 * 2 / d_model))
            for i in range(d_model)
        ]
        for t in range(tokens.shape[1])
    ]
    return table[tokens] * d_model**0.5 + torch.tensor(code)


def test_positions_are_the_papers_formula():
    table = torch.zeros(11, D)
    assert_close(embed(table, SOURCE)[0], sinusoidal_encoding(LK, D))
    assert_close(PositionalEncoding(D, 30, 0.0)(torch.zeros(1, 4, D), offset=3)[0],
                 embed(table, SOURCE)[0, 3:7])  # fmt: skip


def test_embeddings_are_rows_times_the_root_of_d_model_and_start_with_variance_one():
    torch.manual_seed(0)
    embedding = TokenEmbedding(2000, 64)
    output = embedding(torch.arange(2000)[None])
    assert_close(output, embedding.table[None] * 8)
    assert abs(output.var().item() - 1) < 0.02


# -------------------------------------------------------------------------- the paper's numbers


@pytest.mark.parametrize("name, paper, tolerance", [("base", 65e6, 0.04), ("big", 213e6, 0.01)])
def test_the_papers_models_have_the_papers_size(name, paper, tolerance):
    config = PRESETS[name].model
    count = num_parameters(config)
    assert abs(count / paper - 1) < tolerance, f"{count / 1e6:.2f} M"
    assert config.tie_embeddings


@pytest.mark.parametrize("pre_norm", [False, True])
@pytest.mark.parametrize("tied", [False, True])
def test_the_number_of_parameters_is_known_without_making_the_model(tiny, pre_norm, tied):
    model = tiny(
        target_vocab_size=11 if tied else 7,
        num_encoder_layers=3,
        num_decoder_layers=2,
        pre_norm=pre_norm,
        tie_embeddings=tied,
    )
    assert num_parameters(model.config) == sum(p.numel() for p in model.parameters())


def test_the_learning_rate_is_the_papers_formula():
    for d_model in (64, 512):
        for warmup in (1, 10, 4000):
            for step in (1, 2, 9, 10, 11, 3999, 4000, 4001, 100_000):
                # Up to `warmup` a straight line, then falling as 1 / √step.
                climbing = step / (warmup * math.sqrt(warmup * d_model))
                falling = 1 / math.sqrt(step * d_model)
                expected = climbing if step < warmup else falling
                assert noam_rate(step, d_model, warmup) == pytest.approx(expected, rel=1e-12)
    assert max(range(1, 9000), key=lambda step: noam_rate(step, 512)) == 4000


# ----------------------------------------------------------------------------------------- the loss


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.7])
def test_the_loss_is_the_cross_entropy_with_the_smoothed_target(epsilon):
    V = 6
    logits, targets = randn(2, 4, V), torch.tensor([[3, 5, 2, 0], [4, 2, 0, 0]])
    log_p = logits.log_softmax(-1)
    losses = []
    for b, t in (targets != 0).nonzero().tolist():
        q = torch.full((V,), epsilon / V)
        q[targets[b, t]] += 1 - epsilon
        losses.append(-(q * log_p[b, t]).sum())
    expected = torch.stack(losses).mean()
    assert_close(sequence_loss(logits, targets, epsilon), expected)
    pytorchs = F.cross_entropy(
        logits.flatten(0, 1), targets.flatten(), ignore_index=0, label_smoothing=epsilon
    )
    assert_close(sequence_loss(logits, targets, epsilon), pytorchs)


@pytest.mark.parametrize("epsilon", [0.0, 0.1])
@pytest.mark.parametrize("N", [1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 40])
def test_the_loss_in_chunks_is_the_loss_in_one(N, epsilon):
    V = 13
    states, weight = randn(N, D), randn(V, D, seed=1)
    targets = torch.randint(1, V, (N,), generator=seeded(2))
    states_2, weight_2 = clones(states, weight)
    fused = FusedLoss.apply(states, weight, targets, epsilon)
    plain = sequence_loss(states_2 @ weight_2.T, targets, epsilon) * N
    assert_close(fused, plain, rtol=1e-5, atol=1e-5)
    (fused * 0.3).backward()
    (plain * 0.3).backward()
    assert_close(states.grad, states_2.grad, rtol=1e-5, atol=1e-5)
    assert_close(weight.grad, weight_2.grad, rtol=1e-5, atol=1e-4)


def test_the_loss_in_chunks_takes_bfloat16_states():
    states, weight = randn(300, D), randn(13, D, seed=1)
    targets = torch.randint(1, 13, (300,), generator=seeded(2))
    states_2, weight_2 = clones(states, weight)
    low = states.detach().bfloat16().requires_grad_()
    fused = FusedLoss.apply(low, weight, targets, 0.1)
    plain = sequence_loss(states_2 @ weight_2.T, targets, 0.1) * 300
    (fused / 300).backward()
    (plain / 300).backward()
    assert fused.dtype == weight.grad.dtype == torch.float32 and low.grad.dtype == torch.bfloat16
    assert_close(fused, plain, rtol=5e-3, atol=0)
    assert_close(low.grad.float(), states_2.grad, rtol=0.05, atol=1e-4)
    assert_close(weight.grad, weight_2.grad, rtol=0.05, atol=2e-3)


def test_padding_counts_nothing_in_the_loss_in_chunks():
    """On a GPU the rows of padding stay, for nobody there can wait to hear which they are."""
    states, weight = randn(CHUNK + 30, D), randn(13, D, seed=1)
    targets = torch.randint(0, 13, (CHUNK + 30,), generator=seeded(2))
    real = targets != 0
    assert 0 < real.sum() < len(real)
    states_2, weight_2 = clones(states, weight)
    whole = FusedLoss.apply(states, weight, targets, 0.1)
    chosen = FusedLoss.apply(states_2[real], weight_2, targets[real], 0.1)
    assert_close(whole, chosen)
    (whole * 0.3).backward()
    (chosen * 0.3).backward()
    assert_close(states.grad, states_2.grad, rtol=1e-5, atol=1e-6)
    assert_close(weight.grad, weight_2.grad, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_compiled_loss_is_the_loss(dtype, without_shape_checks):
    torch.compiler.reset()
    compiled = torch.compile(losses_and_gradient, backend="eager", fullgraph=True)
    targets = torch.randint(0, 13, (20,), generator=seeded(2))
    logits = 3 * randn(20, 13).detach().to(dtype)
    for ours, expected in zip(
        compiled(logits.clone(), targets, 0.1),
        losses_and_gradient(logits.clone(), targets, 0.1),
        strict=True,
    ):
        assert_close(ours, expected)
