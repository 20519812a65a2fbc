"""The checks of exercise 13. A mistake's text ends the sentence "This is the answer when …"."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from course.checking import CheckFailed, expect
from course.checking.diagnosis import (
    CALLS,
    expect_learning,
    expect_no_memory,
    expect_predictions,
    random_weights,
)
from course.checking.sandbox import RUNNING

FORBIDDEN = {"RMSNorm": ("nn.RMSNorm", "F.rms_norm")}  # as the task says

OVERFLOW = "exp of a large number is inf, and inf/inf is NaN. PyTorch's own function avoids it."

# ---- predicted_sizes


def test_the_six_sizes_are_predicted(predicted_sizes):
    hints = {
        "a": {
            1536: "SwiGLU has three matrices, the other network two.",
            2304: "More matrices for the same number of parameters: fewer units, not more.",
            768: "It has three matrices, not four.",
            512: "Three matrices for *two*, not for one.",
            1024 * 384: "That is a number of parameters. How many units are that?",
            None: "Set 3 · d_model · units equal to 2 · d_model · 1536.",
        },
        "b": {
            6144: "Keys *and* values are kept.",
            49_152: "Heads of queries keep nothing: count the heads of keys and values.",
            24_576: "Count again: keys and values, the layers, their heads, d_k; each once.",
            512: "That is one layer. Each has keys and values of its own.",
            3072: "16 heads of queries do not divide anything here: 2 · layers · heads · d_k.",
            None: "2 · layers · heads of keys and values · d_k.",
        },
        "c": {
            -1: "That is LayerNorm: the mean is not subtracted here.",
            1 / math.sqrt(50): "The *mean* of the squares, and not their sum.",
            1 / 25: "Take the root of the mean square.",
            0.25: "That divides by the mean of the numbers. Square them first.",
            1.4: "That is the second number.",
            None: "Squares, their mean, the root; divide 1 by it.",
        },
        "d": {
            4: "That is before they are turned. The query is turned by 12, the key by 9.",
            math.cos(3): "That is the cosine. Both arrows have the length 2.",
            4 * math.cos(math.radians(3)): "The angles are in radians, and not in degrees.",
            4 * math.cos(21): "The angle between them is the difference, and not the sum.",
            4 * math.cos(12): "The key is turned, too.",
            4 * math.cos(9): "The query is turned, too.",
            2 * math.cos(3): "The length of the query, times that of the key, times the cosine.",
            3.96: "A cosine of 3 radians is below 0: the two point almost against each other.",
            None: "Length times length times the cosine of the angle between them.",
        },
        "e": {
            4: "The old powers were counted from 3. Counted from 5 they are smaller.",
            0.5: "That is the old sum, counted from 5. Two new powers come to it.",
            10: "The old sum becomes *smaller* when it is counted from a larger score.",
            2: "There are two new scores of 5, and each gives 2⁰ = 1.",
            1.5: "There are two new scores of 5, and each gives 2⁰ = 1.",
            3: "The largest score rises by 2, not by 1: so the old sum is divided by 2².",
            0.25: "That is the factor for the old sum.",
            2 * math.exp(-2) + 2: "Powers of two, in place of e.",
            None: "The old sum times 2^(3 − 5), and 2⁰ for each new score.",
        },
        "f": {
            4 * 512 * 512: "Keys and values have 2 heads: their matrices have 2 · 64 columns.",
            2 * 512 * 512 + 512 * 128: "Keys *and* values have a matrix each.",
            512 * 512 + 2 * 512 * 128: "There is a fourth matrix, that of the output.",
            512 * 512 + 3 * 512 * 128: "The matrix of the output takes all 8 heads of the queries.",
            4 * 512 * 128: "Only keys and values have 2 heads.",
            2 * 512 * 512: "Those are queries and output. Keys and values have matrices, too.",
            2 * 512 * 128: "Those are keys and values. Queries and output have matrices, too.",
            None: "512 · 512 twice, for queries and output, and 512 · (2 · 64) twice.",
        },
    }
    right = {"a": 1024, "b": 12_288, "c": 0.2, "d": 4 * math.cos(3), "e": 2.5, "f": 655_360}
    expect_predictions(predicted_sizes(), right, hints, within=5e-3)


# ---- RMSNorm


def rms_norm(x, gamma, eps):
    return gamma * x / (x.square().mean(-1, keepdim=True) + eps).sqrt()


def rms_mistakes(x, gamma, eps):
    d = x.shape[-1]
    square = x.square().mean(-1, keepdim=True)
    root = (square + eps).sqrt()
    centred = x - x.mean(-1, keepdim=True)
    variance = centred.square().mean(-1, keepdim=True)

    def over(*axes):
        return gamma * x / (x.square().mean(axes, keepdim=True) + eps).sqrt()

    def without_keepdim():
        return gamma * x / (x.square().mean(-1) + eps).sqrt()

    unbiased = square * d / (d - 1) if d > 1 else square * torch.nan
    return {
        "the mean is subtracted first: that is LayerNorm.": (
            gamma * centred / (variance + eps).sqrt()
        ),
        "the mean is subtracted above the fraction line.": gamma * centred / root,
        "x is divided by its standard deviation: the mean is subtracted below the line.": (
            gamma * x / (variance + eps).sqrt()
        ),
        "x is divided by `x.std()`: the mean is subtracted in it, and ε stands outside.": lambda: (
            gamma * x / (x.std(-1, keepdim=True) + eps)
        ),
        "x is divided by the root of `x.var()`: the mean is subtracted in it.": lambda: (
            gamma * x / (x.var(-1, keepdim=True) + eps).sqrt()
        ),
        "ε is added to the root: it stands inside.": gamma * x / (square.sqrt() + eps),
        "ε is missing, or it is not self.eps.": gamma * x / square.sqrt(),
        "ε is squared under the root.": gamma * x / (square + eps**2).sqrt(),
        "ε is a lower limit: it is added to the mean square.": (
            gamma * x / square.clamp(min=eps).sqrt()
        ),
        "the root is missing.": gamma * x / (square + eps),
        "the squares are added up: it is their mean.": (
            gamma * x / (x.square().sum(-1, keepdim=True) + eps).sqrt()
        ),
        "the length of x is divided by, without ε: it is the root of the *mean* square + ε.": (
            lambda: gamma * F.normalize(x, dim=-1)
        ),
        "the mean of the squares divides by d − 1: it is over d.": (
            gamma * x / (unbiased + eps).sqrt()
        ),
        "the mean is squared: square the numbers first, and then take the mean.": (
            gamma * x / (x.mean(-1, keepdim=True).square() + eps).sqrt()
        ),
        "the absolute values are averaged, and not the squares.": (
            gamma * x / (x.abs().mean(-1, keepdim=True) + eps)
        ),
        "x is multiplied by the root: divide by it.": gamma * x * root,
        "γ is missing.": x / root,
        "γ is added: it multiplies.": gamma + x / root,
        "γ is divided by.": x / root / gamma,
        "1 is added to γ.": (1 + gamma) * x / root,
        "γ is multiplied under the root, too.": gamma * x / ((gamma * x).square().mean(
            -1, keepdim=True
        ) + eps).sqrt(),
        "x is added: the residual belongs around the sub-layer.": x + gamma * x / root,
        "the mean runs over the tokens: the features are the last axis.": lambda: over(-2),
        "the mean runs over the batch.": lambda: over(0),
        "the mean runs over all tokens of a sentence together.": lambda: over(-2, -1),
        "the mean runs over everything: each token has its own.": (
            lambda: over(*range(x.ndim))
        ),
        "each feature is divided by another token's root: keepdim=True is missing.": (
            without_keepdim
        ),
    }  # fmt: skip


def made_rms(RMSNorm, d_model, eps, dtype=torch.float32):
    module = RMSNorm(d_model, eps).to(dtype)
    return module, random_weights(module, {"gamma": (d_model,)})["gamma"]


def tokens_of(*shape):
    """Tokens, each with a mean and a spread of its own."""
    return torch.randn(shape) * (0.5 + torch.rand(*shape[:-1], 1)) + torch.randn(*shape[:-1], 1)


def check_rms(RMSNorm, x, eps=0.5):
    module, gamma = made_rms(RMSNorm, x.shape[-1], eps, x.dtype)
    wide = x.double(), gamma.double()
    mistakes = {
        text: (lambda wrong=wrong: (wrong() if callable(wrong) else wrong).to(x.dtype))
        for text, wrong in rms_mistakes(*wide, eps).items()
    }
    nan = "Is it 0/0? Where all features are 0 the mean square is 0: ε keeps it from that."
    expect(module(x), rms_norm(*wide, eps).to(x.dtype), mistakes, nan=nan)


def test_each_token_is_divided_by_its_own_root(RMSNorm):
    for shape, eps in (((2, 3, 5), 0.5), ((4, 2, 6), 2.0)):
        check_rms(RMSNorm, tokens_of(*shape), eps)


def test_rms_norm_when_all_sizes_are_equal(RMSNorm):
    check_rms(RMSNorm, tokens_of(4, 4, 4))


def test_rms_norm_takes_any_axes_before_the_features(RMSNorm):
    for shape in ((5,), (3, 5), (2, 3, 4, 5), (1, 3, 4), (2, 3, 64)):
        check_rms(RMSNorm, tokens_of(*shape))


def test_rms_norm_of_small_tokens_and_of_zeros(RMSNorm):
    check_rms(RMSNorm, 0.001 * tokens_of(2, 3, 4), eps=1e-6)
    check_rms(RMSNorm, torch.zeros(2, 3, 4))


def test_rms_norm_in_half_and_double_precision(RMSNorm):
    for dtype in (torch.float16, torch.float64):
        check_rms(RMSNorm, tokens_of(2, 3, 5).to(dtype))


def test_gamma_starts_with_ones(RMSNorm):
    made_rms(RMSNorm, 4, 1e-6)  # says what is amiss with the names
    call = "RMSNorm(4), as `__init__` was given"
    expect(RMSNorm(4).gamma.data, torch.ones(4), names=("gamma",), call=call)


def test_rms_norm_does_the_same_in_both_modes_and_begins_anew(RMSNorm):
    module, gamma = made_rms(RMSNorm, 5, 0.5)
    for training in (True, False):
        module.train(training)
        x = tokens_of(2, 3, 5)
        call = f"RMSNorm.forward(x (2, 3, 5)), {'train' if training else 'eval'} mode"
        expect(module(x), rms_norm(x, gamma, 0.5), rms_mistakes(x, gamma, 0.5), call=call)
        given = ((tokens_of(2, 3, 5),) for _ in range(2))
        expect_no_memory(module, lambda x: rms_norm(x, gamma, 0.5), *given)


def test_rms_norm_learns(RMSNorm):
    module, _ = made_rms(RMSNorm, 5, 0.5, torch.float64)
    expect_learning(module, lambda x: rms_norm(x, module.gamma, 0.5), x=tokens_of(2, 3, 5).double())


# ---- swiglu


def gated(x, w_gate, w_up, w_down):
    return (F.silu(x @ w_gate) * (x @ w_up)) @ w_down


def gated_mistakes(x, w_gate, w_up, w_down):
    x, w_gate, w_up, w_down = (each.double() for each in (x, w_gate, w_up, w_down))
    gate, up = x @ w_gate, x @ w_up
    silu = F.silu(gate)
    return {
        "gate and up are exchanged: silu belongs to the gate.": (gate * F.silu(up)) @ w_down,
        "the gate goes through σ alone (GLU): silu(z) is z · σ(z).": (
            (gate.sigmoid() * up) @ w_down
        ),
        "the gate goes through ReLU (ReGLU), and not through silu.": (gate.relu() * up) @ w_down,
        "the gate goes through GELU (GEGLU), and not through silu.": (F.gelu(gate) * up) @ w_down,
        "the gate goes through the tanh form of GELU, and not through silu.": (
            (F.gelu(gate, approximate="tanh") * up) @ w_down
        ),
        "the gate goes through tanh, and not through silu.": (gate.tanh() * up) @ w_down,
        "the gate goes through a softmax, and not through silu.": (gate.softmax(-1) * up) @ w_down,
        "silu is missing.": (gate * up) @ w_down,
        "both branches go through silu: only the gate does.": (silu * F.silu(up)) @ w_down,
        "silu is taken of the product: only the gate goes through it.": F.silu(gate * up) @ w_down,
        "the branches are added: they are multiplied.": (silu + up) @ w_down,
        "w_up is not used.": silu @ w_down,
        "w_gate is not used.": F.silu(up) @ w_down,
        "w_gate stands for w_up, too.": (silu * gate) @ w_down,
        "silu is taken of the result, too.": F.silu((silu * up) @ w_down),
        "silu is taken twice.": (F.silu(silu) * up) @ w_down,
        "x is added: the residual belongs around the sub-layer.": (silu * up) @ w_down + x,
        "w_down is missing.": silu * up,
        "w_down is transposed.": lambda: (silu * up) @ w_down.T,
        "w_gate and w_up are transposed: in the row convention it is x @ W.": lambda: (
            (F.silu(x @ w_gate.T) * (x @ w_up.T)) @ w_down
        ),
        "all three matrices are transposed: in the row convention it is x @ W.": lambda: (
            (F.silu(x @ w_gate.T) * (x @ w_up.T)) @ w_down.T
        ),
    }


def network_of(B, L, d, f, dtype=torch.float32):
    shapes = (B, L, d), (d, f), (d, f), (f, d)
    return [torch.randn(shape).to(dtype) / (1 if len(shape) == 3 else 2) for shape in shapes]


def in_dtype(mistakes, dtype):
    return {
        text: (lambda wrong=wrong: (wrong() if callable(wrong) else wrong).to(dtype))
        for text, wrong in mistakes.items()
    }


def check_gated(swiglu, given):
    expected = gated(*(each.double() for each in given)).to(given[0].dtype)
    mistakes = in_dtype(gated_mistakes(*given), given[0].dtype)
    expect(swiglu(*given), expected, mistakes, nan=OVERFLOW)


def test_the_gated_network(swiglu):
    for sizes in ((2, 3, 4, 6), (3, 2, 5, 4), (2, 4, 4, 4), (1, 1, 3, 8)):
        check_gated(swiglu, network_of(*sizes))


def test_the_gated_network_in_half_and_double_precision(swiglu):
    for dtype in (torch.float16, torch.float64):
        check_gated(swiglu, network_of(2, 3, 4, 6, dtype))


def test_the_gated_network_of_large_numbers(swiglu):
    x, *weights = network_of(2, 3, 4, 6, torch.float64)
    check_gated(swiglu, (1000 * x, *weights))


def test_the_gated_network_begins_anew(swiglu):
    expect_no_memory(swiglu, gated, network_of(2, 3, 4, 6), network_of(2, 3, 4, 6))


# ---- grouped_query_attention


def grouped(query, key, value, mask=None, *, spread=None, scale=None, dim=-1, fill=None):
    """Attention of lesson 02; `spread` gives the groups to the heads."""
    shared = query.shape[1] // key.shape[1]
    spread = spread or (lambda x: x.repeat_interleave(shared, 1))
    key, value = spread(key), spread(value)
    scores = query @ key.mT / (math.sqrt(query.shape[-1]) if scale is None else scale)
    if fill is not None:
        return fill(scores, mask, value)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    return scores.softmax(dim) @ value


def grouped_mistakes(query, key, value, mask):
    q, k, v = (x.double() for x in (query, key, value))
    (H, G), d = (q.shape[1], k.shape[1]), q.shape[-1]
    shared = H // G

    def wrong(**how):
        return lambda: grouped(q, k, v, mask, **how)

    def apart(spread_k, spread_v):
        scores = q @ spread_k(k).mT / math.sqrt(d)
        scores = scores if mask is None else scores.masked_fill(~mask, -math.inf)
        return scores.softmax(-1) @ spread_v(v)

    def set_to(low):
        return wrong(fill=lambda s, m, v: s.masked_fill(~m, low).softmax(-1) @ v)

    def five_axes(scores, m, values):
        scores = scores.unflatten(1, (G, shared)).masked_fill(~m, -math.inf)
        return scores.softmax(-1).flatten(1, 2) @ values

    def tile(x):
        return x.repeat(1, shared, 1, 1)

    def right(x):
        return x.repeat_interleave(shared, 1)

    def flip(x):
        return right(x.flip(1))

    causal = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril()
    mistakes = {
        "the groups are dealt round, 0, 1, 0, 1, …: head h reads group h // (H/G), so each group "
        "is repeated one after the other (repeat_interleave, not repeat).": wrong(spread=tile),
        "the keys are dealt round, 0, 1, 0, 1, …, and the values are not.": (
            lambda: apart(tile, right)
        ),
        "the values are dealt round, 0, 1, 0, 1, …, and the keys are not.": (
            lambda: apart(right, tile)
        ),
        "all heads read group 0.": wrong(spread=lambda x: x[:, :1].expand(-1, H, -1, -1)),
        "all heads read the mean of the groups.": wrong(
            spread=lambda x: x.mean(1, keepdim=True).expand(-1, H, -1, -1)
        ),
        "the groups are read from last to first.": wrong(spread=flip),
        "the scores are not divided by √d.": wrong(scale=1.0),
        "the scores are divided by d: take the root.": wrong(scale=d),
        "the scores are divided by √(d · H/G): d is the size of one head.": wrong(
            scale=math.sqrt(d * shared)
        ),
        "the scores are multiplied by √d.": wrong(scale=1 / math.sqrt(d)),
        "the scores are divided by the root of the number of heads.": wrong(scale=math.sqrt(H)),
        "the scores are divided by the root of the number of keys.": wrong(
            scale=math.sqrt(k.shape[2])
        ),
        "softmax runs over the queries.": wrong(dim=-2),
        "softmax runs over the heads.": wrong(dim=1),
        "the queries of a group are averaged.": lambda: grouped(
            q.unflatten(1, (G, shared)).mean(2).repeat_interleave(shared, 1), k, v, mask
        ),
        "the heads of the queries are split into (H/G, G), which puts them into another order: "
        "(G, H/G).": lambda: grouped(
            q.unflatten(1, (shared, G)).transpose(1, 2).flatten(1, 2), k, v, mask
        ),
        "a causal mask is put on: only `mask` says what is hidden.": lambda: grouped(
            q, k, v, causal if mask is None else causal & mask
        ),
        "keys and values are exchanged.": lambda: grouped(q, v, k, mask),
        "the values are not weighted: the weights are returned.": wrong(
            fill=lambda s, m, v: (s if m is None else s.masked_fill(~m, -math.inf)).softmax(-1)
        ),
    }
    if mask is None:
        return mistakes
    return mistakes | {
        "a number such as −100 or −10,000 is added to forbidden scores, and these can be larger: "
        "fill in −inf.": wrong(fill=lambda s, m, v: (s - 1e4 * ~m).softmax(-1) @ v),
        "the mask is not used.": lambda: grouped(q, k, v),
        "the mask is turned round: True = may attend.": lambda: grouped(q, k, v, ~mask),
        "forbidden weights are set to 0 after the softmax, and nothing is renormalised.": wrong(
            fill=lambda s, m, v: s.softmax(-1).masked_fill(~m, 0) @ v
        ),
        "the mask is added to the scores as 0 and 1.": wrong(
            fill=lambda s, m, v: (s + m).softmax(-1) @ v
        ),
        "forbidden scores are set to a number such as −100 or −10,000, and allowed ones can be "
        "lower: fill in −inf.": set_to(-1e4),
        "forbidden scores are set to the lowest number of float16, and allowed ones can be lower: "
        "fill in −inf.": set_to(-65_504),
        "forbidden scores are set to 0: that is e⁰ = 1 in the softmax.": set_to(0),
        "the scores have five axes, (B, G, H/G, Lq, Lk), and the mask four, so its batch is laid "
        "on the groups: make (B, H, Lq, Lk) of the scores first.": wrong(fill=five_axes),
    }


def heads_of(B, H, G, Lq, Lk, d, dtype=torch.float32):
    shapes = (B, H, Lq, d), (B, G, Lk, d), (B, G, Lk, d)
    return [torch.randn(shape).to(dtype) for shape in shapes]


def some_mask(*shape):
    mask = torch.rand(shape) < 0.6
    mask[..., 0] = True
    return mask


SIZES = ((2, 6, 2, 3, 5, 4), (3, 4, 4, 2, 3, 5), (2, 8, 1, 3, 4, 6), (2, 6, 3, 4, 4, 4))
SIZES += ((1, 4, 2, 1, 5, 3), (1, 1, 1, 2, 3, 4))  # one sentence, one query, one head


def check_grouped(attend, given, mask=None):
    wide = [x.double() for x in given]
    expected = grouped(*wide, mask).to(given[0].dtype)
    mistakes = in_dtype(grouped_mistakes(*given, mask), given[0].dtype)
    arguments = given if mask is None else [*given, mask]
    expect(attend(*arguments), expected, mistakes, nan=OVERFLOW)


def test_each_head_reads_its_group(grouped_query_attention):
    for sizes in SIZES:
        check_grouped(grouped_query_attention, heads_of(*sizes))


def test_masks_of_grouped_attention(grouped_query_attention):
    for sizes in SIZES:
        B, H, _, Lq, Lk, _ = sizes
        # One of (Lk,) is left out: PyTorch's own function does not take it.
        for shape in ((1, 1, Lq, Lk), (B, 1, 1, Lk), (B, H, Lq, Lk), (Lq, Lk), (H, Lq, Lk)):
            check_grouped(grouped_query_attention, heads_of(*sizes), some_mask(*shape))


def test_grouped_attention_in_half_and_double_precision(grouped_query_attention):
    for dtype in (torch.float16, torch.float64):
        check_grouped(grouped_query_attention, heads_of(2, 6, 2, 3, 5, 4, dtype))
    check_grouped(grouped_query_attention, heads_of(2, 6, 2, 3, 5, 4, dtype), some_mask(3, 5))


def test_grouped_attention_with_large_scores(grouped_query_attention):
    query, key, value = heads_of(2, 6, 2, 3, 5, 4, torch.float64)
    given = 1e6 * query, key, value
    check_grouped(grouped_query_attention, given)
    check_grouped(grouped_query_attention, given, some_mask(2, 1, 3, 5))


def test_a_score_of_0_is_not_masked(grouped_query_attention):
    query, key, value = heads_of(2, 6, 2, 3, 5, 4)
    query[:, :, 0], mask = 0, some_mask(2, 1, 3, 5)
    nan = "Some scores are 0 and not masked: ask the mask, and not the scores, where −inf belongs."
    expect(
        grouped_query_attention(query, key, value, mask),
        grouped(query, key, value, mask),
        grouped_mistakes(query, key, value, mask),
        nan=nan,
    )


def test_grouped_attention_begins_anew(grouped_query_attention):
    sizes = SIZES[0]
    expect_no_memory(grouped_query_attention, grouped, heads_of(*sizes), heads_of(*sizes))


# ---- online_softmax_attention


def online(query, key_blocks, value_blocks):
    scores = query @ torch.cat(key_blocks).T / math.sqrt(query.shape[1])
    return scores.softmax(-1) @ torch.cat(value_blocks)


def in_one_pass(query, keys, values, *, scale=None, shrink="both", divide="once", known=None):
    """The loop of the task, with one thing changed."""
    scale = math.sqrt(query.shape[1]) if scale is None else scale
    total, weighted, largest = 0, 0, None
    for key, value in zip(keys, values, strict=True):
        scores = query @ key.T / scale
        new = scores.amax(-1, keepdim=True)
        if largest is not None and known != "block":
            new = torch.maximum(new, largest)
        if known == "first" and largest is not None:
            new = largest
        factor = torch.ones_like(new) if largest is None else (largest - new).exp()
        if shrink == "upside down":
            factor = 1 / factor
        power = (scores - new).exp()
        total = total * (factor if shrink in ("both", "total", "upside down") else 1)
        weighted = weighted * (factor if shrink in ("both", "weighted", "upside down") else 1)
        total, mixed = total + power.sum(-1, keepdim=True), power @ value
        if shrink == "late":
            total, mixed = total * factor, (weighted + mixed) * factor - weighted
        weighted, largest = weighted + (mixed / total if divide == "each" else mixed), new
    return weighted / total if divide == "once" else weighted


def online_mistakes(query, keys, values):
    q, keys, values = query.double(), [k.double() for k in keys], [v.double() for v in values]
    d = q.shape[1]

    def wrong(**how):
        return lambda: in_one_pass(q, keys, values, **how)

    def each(of_scores, k=keys, v=values, dim=-1):
        return [
            of_scores(q @ key.T / math.sqrt(d), dim) @ value
            for key, value in zip(k, v, strict=True)
        ]

    def whole(change, dim=-1):
        scores = q @ torch.cat(keys).T / math.sqrt(d)
        return change(scores).softmax(dim) @ torch.cat(values)

    apart = [each(torch.softmax, [k], [v])[0] for k, v in zip(keys, values, strict=True)]
    count = torch.tensor([len(key) for key in keys], dtype=torch.double)[:, None, None]
    last = torch.stack(apart)
    return {
        "neither sum is made smaller when a larger score comes: multiply both by "
        "exp(old largest − new largest). (If `largest` is set to the new one before the "
        "factor is computed, the factor is 1.)": wrong(shrink="none"),
        "the sum of the powers is not made smaller when a larger score comes.": wrong(
            shrink="weighted"
        ),
        "the weighted values are not made smaller when a larger score comes: they need the factor, "
        "too.": wrong(shrink="total"),
        "the factor is upside down: it is exp(old largest − new largest), at most 1.": wrong(
            shrink="upside down"
        ),
        "what the new block brings is multiplied by the factor, too: it is counted from the new "
        "largest score already.": wrong(shrink="late"),
        "each block has a softmax of its own, and the results are averaged.": lambda: last.mean(0),
        "each block has a softmax of its own, and the results are added up.": lambda: last.sum(0),
        "each block has a softmax of its own, and their mean is weighted by the number of "
        "keys.": lambda: (last * count).sum(0) / count.sum(),
        "only the last block is left.": lambda: last[-1],
        "only the first block is read.": lambda: last[0],
        "the last block is left out.": lambda: in_one_pass(q, keys[:-1], values[:-1]),
        "nothing is divided by the sum of the powers at the end.": wrong(divide="never"),
        "each block's values are divided by the sum so far: divide once, at the end.": wrong(
            divide="each"
        ),
        "the scores are not divided by √d.": wrong(scale=1.0),
        "the scores are divided by d: take the root.": wrong(scale=d),
        "the scores are multiplied by √d.": wrong(scale=1 / math.sqrt(d)),
        "the scores are divided by the root of the number of queries.": wrong(
            scale=math.sqrt(len(q))
        ),
        "the scores are divided by the root of the width of the values.": wrong(
            scale=math.sqrt(values[0].shape[1])
        ),
        "softmax runs over the queries.": lambda: whole(lambda s: s, dim=0),
        "a causal mask is put on: each query reads all keys.": lambda: whole(
            lambda s: s.masked_fill(torch.ones_like(s).tril() == 0, -math.inf)
        ),
        "the values are added up, and not weighted.": lambda: (
            torch.cat(values).sum(0).expand(len(q), -1)
        ),
        "the weights are the same for all keys.": lambda: (
            torch.cat(values).mean(0).expand(len(q), -1)
        ),
        "the keys of a block are weighted by the value's numbers: queries and keys make the "
        "scores.": lambda: in_one_pass(q, values, keys),
    }


FLOWS = (
    "exp of a large number is inf: subtract the largest score *so far* first. Or 0/0: a score of "
    "−10,000 is the largest if no other came, so begin with −inf and not with 0, and each query "
    "has a largest score of its own."
)


def blocks_of(Lq, sizes, d, d_v, dtype=torch.float32):
    """A query, and blocks of keys and values; later keys have larger scores."""
    query = torch.randn(Lq, d)
    keys = [torch.randn(b, d) * (1 + i) ** 0.5 for i, b in enumerate(sizes)]
    values = [torch.randn(b, d_v) for b in sizes]
    return query.to(dtype), [k.to(dtype) for k in keys], [v.to(dtype) for v in values]


def check_online(attend, query, keys, values):
    wide = query.double(), [k.double() for k in keys], [v.double() for v in values]
    mistakes = in_dtype(online_mistakes(query, keys, values), query.dtype)
    expect(attend(query, keys, values), online(*wide).to(query.dtype), mistakes, nan=FLOWS)


def test_attention_block_by_block(online_softmax_attention):
    for Lq, sizes, d, d_v in ((3, (4, 2, 5), 6, 7), (2, (3, 3, 3), 5, 4), (4, (4, 4), 4, 4)):
        check_online(online_softmax_attention, *blocks_of(Lq, sizes, d, d_v))


def test_one_block_one_key_one_query(online_softmax_attention):
    for Lq, sizes, d, d_v in ((3, (5,), 4, 2), (1, (2, 4, 3), 4, 2), (3, (1, 1, 1, 1), 2, 3)):
        check_online(online_softmax_attention, *blocks_of(Lq, sizes, d, d_v))


def test_blocks_in_half_and_double_precision(online_softmax_attention):
    for dtype in (torch.float16, torch.float64):
        check_online(online_softmax_attention, *blocks_of(3, (4, 2, 5), 6, 7, dtype))


def test_the_largest_score_comes_first_or_last(online_softmax_attention):
    query, keys, values = blocks_of(3, (2, 3, 2, 4), 4, 5)
    for order in ((0, 1, 2, 3), (3, 2, 1, 0), (1, 3, 0, 2)):
        given = [keys[i] for i in order], [values[i] for i in order]
        check_online(online_softmax_attention, query, *given)


def test_scores_of_ten_thousand_and_of_minus_ten_thousand(online_softmax_attention):
    query, keys, values = blocks_of(2, (3, 2, 4), 4, 5, torch.float64)
    query = query.abs() + 0.5
    for size in (1e4, -1e4):
        near = [size + key for key in keys]
        check_online(online_softmax_attention, query / query.sum(1, keepdim=True), near, values)
    mixed = query * torch.tensor([[1e4], [-1e4]])
    check_online(online_softmax_attention, mixed, keys, values)


class Widest(TorchDispatchMode):
    """Notes the largest tensor that is made."""

    def __init__(self):
        super().__init__()
        self.shape = ()

    def __torch_dispatch__(self, function, types, arguments=(), named=None):
        result = function(*arguments, **(named or {}))
        for each in result if isinstance(result, (tuple, list)) else [result]:
            if isinstance(each, Tensor) and each.numel() > math.prod(self.shape or (0,)):
                self.shape = tuple(each.shape)
        return result


def test_nothing_is_made_that_holds_all_keys_or_all_scores(online_softmax_attention):
    query, keys, values = blocks_of(4, [3] * 60, 4, 5)
    with Widest() as widest:
        came = online_softmax_attention(query, keys, values)
    expect(came, online(query, keys, values), online_mistakes(query, keys, values), nan=FLOWS)
    if math.prod(widest.shape) >= 4 * 60:  # the largest that a block needs is 4 · 3 · 5
        raise CheckFailed(
            f"The numbers are right. But with 4 queries and 60 blocks of 3 keys a tensor of shape "
            f"{widest.shape} was made: it grows with the number of keys. Keep of past blocks only "
            "the largest score, the sum of the powers and the weighted values.",
            CALLS[-1][0],
        )


class Read(list):
    """A list that notes the order in which its items are read."""

    def __init__(self, items):
        super().__init__(items)
        self.order = []

    def __iter__(self):
        for i in range(len(self)):
            yield self[i]

    def __getitem__(self, i):
        if isinstance(i, int) and RUNNING:  # and not when the call is quoted
            self.order.append(i % len(self))
        return super().__getitem__(i)


def test_each_block_is_read_once(online_softmax_attention):
    query, keys, values = blocks_of(1, (2, 3, 2, 3), 4, 5)
    keys = Read(keys)
    came = online_softmax_attention(query, keys, values)
    turns = [i for i in keys.order if i in (1, 2)]
    turns = [i for i, before in zip(turns, [None, *turns], strict=False) if i != before]
    expect(came, online(query, list(keys), values), online_mistakes(query, keys, values), nan=FLOWS)
    if len(turns) > 2:
        raise CheckFailed(
            "The numbers are right. But with a single query the blocks of keys were gone through "
            "more than once, as if first for the largest score and then for the powers. One pass "
            "does both: when a larger score comes, make the sums smaller.",
            CALLS[-1][0],
        )


def test_each_pass_begins_anew(online_softmax_attention):
    first, second = blocks_of(3, (4, 2, 5), 6, 7), blocks_of(3, (4, 2, 5), 6, 7)
    expect_no_memory(online_softmax_attention, online, first, second)


# ---- repaired_rotate


def rotate(x, past, base=10_000.0):
    return turned(x, past + torch.arange(x.shape[1]), base)


def turned(x, place, base, *, exponent=-2.0, speed=None, angle=None, sign=1):
    d = x.shape[2]
    if speed is None:
        speed = base ** (exponent * torch.arange(d // 2, dtype=torch.double) / d)
    if angle is None:
        angle = place.double()[:, None] * speed.double()
    even, odd = x[..., 0::2].double(), x[..., 1::2].double()
    cos, sin = angle.double().cos(), sign * angle.double().sin()
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2).to(x.dtype)


def rotate_mistakes(x, past, base):
    L, d = x.shape[1:]
    place, half = past + torch.arange(L), x.dtype in (torch.float16, torch.bfloat16)
    speed = base ** (-2.0 * torch.arange(d // 2, dtype=torch.double) / d)
    own = torch.arange(L)
    low = {"place": place.to(x.dtype), "speed": speed.to(x.dtype)}
    old_speed = base ** (-torch.arange(0, d, 2).to(x.dtype) / d)
    halves = torch.cat((x[..., 0::2], x[..., 1::2]), -1)
    first, second = x[..., : d // 2], x[..., d // 2 :]
    paired = torch.stack((first, second), -1).flatten(-2)
    mistakes = {
        "every call begins with place 0: the first token stands at `past`.": lambda: turned(
            x, own, base
        ),
        "all tokens of a call get the same place, `past`.": lambda: turned(
            x, torch.full((L,), past), base
        ),
        "places are one too large: the first token stands at `past`.": lambda: turned(
            x, place + 1, base
        ),
        "places are one too small: the first token stands at `past`.": lambda: turned(
            x, place - 1, base
        ),
        "`past` is added to the angles: it belongs to the places, before they are multiplied.": (
            lambda: turned(x, place, base, angle=own.double()[:, None] * speed + past)
        ),
        "the pairs are turned the other way.": lambda: turned(x, place, base, sign=-1),
        "the exponent is −i/d, and not −2i/d, for pair i.": lambda: turned(
            x, place, base, exponent=-1.0
        ),
        "the exponent is −4i/d: `arange(0, d, 2)` is 2i already.": lambda: turned(
            x, place, base, exponent=-4.0
        ),
        "the exponent has no minus: later pairs turn more slowly.": lambda: turned(
            x, place, base, exponent=2.0
        ),
        "`base` is not used, but 10,000.": lambda: turned(x, place, 10_000.0),
        "all pairs turn alike, by the place.": lambda: turned(x, place, 1.0),
        "x is not turned.": x,
        "the result has all first numbers of the pairs, and then all second ones: stack the two "
        "and flatten.": lambda: torch.cat(
            (rotate(x, past, base)[..., 0::2], rotate(x, past, base)[..., 1::2]), -1
        ),
        "the pairs are (i, i + d/2), as in Llama's code: here they are neighbours.": lambda: (
            torch.cat([rotate(paired, past, base)[..., i::2] for i in (0, 1)], -1)
        ),
        "x is cut into halves and not into neighbours when it is read, and put together as "
        "neighbours.": lambda: rotate(paired, past, base),
        "the numbers of x are put into another order before they are turned.": lambda: rotate(
            halves, past, base
        ),
    }
    if half:
        mistakes |= {
            "places, speeds and angles are computed in the dtype of x, which has too few digits "
            "for them.": lambda: turned(x, place, base, angle=low["place"][:, None] * old_speed),
            "the places are rounded to the dtype of x.": lambda: turned(x, low["place"], base),
            "the speeds are rounded to the dtype of x.": lambda: turned(
                x, place, base, speed=low["speed"]
            ),
            "the angles are rounded to the dtype of x.": lambda: turned(
                x, place, base, angle=(place[:, None] * speed).to(x.dtype)
            ),
            "places and speeds are rounded to the dtype of x.": lambda: turned(
                x, place, base, angle=low["place"].double()[:, None] * low["speed"].double()
            ),
            "the angles are computed in bfloat16.": lambda: turned(
                x, place, base, angle=place.bfloat16()[:, None] * speed.bfloat16()
            ),
        }
    return mistakes


def check_rotate(repaired_rotate, x, past, base, hint=None):
    came = repaired_rotate(x, past, base)
    double = isinstance(came, Tensor) and came.dtype == torch.float64  # float32 is good enough
    shown = came.float() if double else came
    expect(shown, rotate(x, past, base), rotate_mistakes(x, past, base), hint=hint)
    if came.dtype != x.dtype:
        raise CheckFailed(
            f"The numbers are right. But x is {x.dtype}, and the result {came.dtype}: go back to "
            "the dtype of x at the end, or a cache would grow.",
            CALLS[-1][0],
        )


def test_each_rotation_begins_anew(repaired_rotate):  # first: angles may be kept
    first, second = ((torch.randn(2, 3, 6), past) for past in (2, 5))
    expect_no_memory(repaired_rotate, rotate, first, second)


def test_a_text_read_at_once(repaired_rotate):
    for shape, base in (((2, 5, 6), 10_000.0), ((3, 4, 4), 500.0), ((1, 3, 2), 10_000.0)):
        check_rotate(repaired_rotate, torch.randn(shape), 0, base)


def test_a_token_after_others(repaired_rotate):
    for shape, past in (((2, 1, 6), 7), ((2, 3, 4), 5), ((1, 1, 8), 40), ((3, 2, 6), 1)):
        for base in (10_000.0, 500.0):
            check_rotate(repaired_rotate, torch.randn(shape), past, base)


def test_the_base_is_10_000_if_none_is_given(repaired_rotate):
    x = torch.randn(2, 3, 6)
    expect(repaired_rotate(x, 2), rotate(x, 2), rotate_mistakes(x, 2, 10_000.0))


def test_piece_by_piece_is_the_same_as_at_once(repaired_rotate):
    x = torch.randn(2, 6, 4)
    pieces = [(0, x[:, :3]), (3, x[:, 3:4]), (4, x[:, 4:])]
    answers = [repaired_rotate(piece, past) for past, piece in pieces]
    for (past, piece), answer in zip(pieces, answers, strict=True):
        call = f"repaired_rotate(x (2, {piece.shape[1]}, 4), {past})"
        mistakes = rotate_mistakes(piece, past, 10_000.0)
        expect(answer, rotate(piece, past), mistakes, call=call)


def test_late_places_in_half_precision(repaired_rotate):
    for dtype in (torch.bfloat16, torch.float16):
        for past, base in ((3001, 10_000.0), (1025, 500.0)):
            x = torch.randn(2, 7, 8).to(dtype)
            few = (
                f"Places, speeds and angles must not be rounded to {str(dtype)[6:]}: compute them "
                "in float32 or float64."
            )
            check_rotate(repaired_rotate, x, past, base, hint=lambda _, few=few: few)


def test_rotation_in_double_precision(repaired_rotate):
    check_rotate(repaired_rotate, torch.randn(2, 5, 6).double(), 3, 500.0)

