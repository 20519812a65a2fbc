"""The checks of exercise 13. A mistake's text ends the sentence "This is the answer when …"."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from course.checking import CheckFailed, expect
from course.checking.diagnosis import (
    CUT,
    expect_learning,
    expect_no_memory,
    expect_predictions,
    random_weights,
)

FORBIDDEN = {"RMSNorm": ("nn.RMSNorm", "F.rms_norm")}  # as the task says

UNLEARNT = "No gradient hangs on the result"
WITHOUT = (
    "Do without .detach(), .numpy(), .data, .item(), .tolist(), torch.tensor() and torch.no_grad()."
)
OVERFLOW = "exp of a large number is inf, and inf/inf is NaN. PyTorch's own function avoids it."


def gradient(answer, leaf, why, call):
    """Return the gradient of the sum of `answer`, or say why none comes through."""
    came = None
    if isinstance(answer, Tensor) and answer.requires_grad:
        (came,) = torch.autograd.grad(answer.sum(), leaf, allow_unused=True)
    if came is None:
        raise CheckFailed(why, call)
    return came


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
            30: "Each layer adds 4 places: the place itself was counted before.",
            24: "The place itself counts, too.",
            5: "That is one layer.",
            5**6: "Without dilation the reach grows by the same amount in each layer.",
            4096: "Without dilation the reach grows by the same amount in each layer.",
            31: "Width 5 means itself and four before it.",
            None: "One layer sees 5 places, two layers 9.",
        },
        "e": {
            0.4: "E is missing.",
            1: "That is the loss when all is even. Here one expert gets everything.",
            4: "That would be with probability 1. The router gives expert 0 only 0.4.",
            1.12: "The shares are counts: expert 0 gets every token, so its share is 1.",
            0.28: "The shares are counts: expert 0 gets every token. And E is missing.",
            None: "The share of expert 0 is 1, of the others 0.",
        },
        "f": {
            3: "That is the mean of the means: a token of the first counts three times as much.",
            6: "Those are the two means, added up.",
            140: "That is the sum of all losses. Divide by the tokens.",
            2.5: "The weights are exchanged: which process has 30 tokens?",
            70: "Divide by the number of tokens, not of processes.",
            None: "Add up all losses, add up all tokens, divide.",
        },
    }
    right = {"a": 1024, "b": 12_288, "c": 0.2, "d": 25, "e": 1.6, "f": 3.5}
    expect_predictions(predicted_sizes(), right, hints)


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


# ---- top1_route


def route(x, weight):
    gate, expert = (x @ weight).softmax(-1).max(-1)
    return expert, gate


def route_mistakes(x, weight):
    scores = x.double() @ weight.double()
    p = scores.softmax(-1)
    gate, expert = p.max(-1)
    E = p.shape[1]

    def gates(g):
        return lambda: (expert, (g() if callable(g) else g).to(x.dtype))

    worst = p.min(-1)
    over_tokens = scores.softmax(0)
    raw = scores.max(-1).values
    scaled = (scores / math.sqrt(x.shape[1])).softmax(-1).amax(-1)
    top2 = scores.topk(min(2, E), -1).values.softmax(-1)[:, 0]
    return {
        "expert and gate are exchanged: the expert comes first.": lambda: (
            gate.to(x.dtype),
            expert,
        ),
        "the gate is 1. So it always is with a softmax after the choice, of one number: take it "
        "over all experts first. (`gate / gate.detach()` is 1, too, and not the probability.)": (
            gates(torch.ones_like(gate))
        ),
        "the softmax is taken after the choice, and over the tokens. Take it over all experts "
        "first.": gates(raw.softmax(0)),
        "the gate is the score: it is its softmax probability.": gates(raw),
        "the gate goes through σ: it is a softmax over the experts.": gates(raw.sigmoid()),
        "the softmax runs over the two best experts: it runs over all.": gates(top2),
        "the softmax runs over the tokens, for the gate alone.": gates(
            over_tokens.gather(1, expert[:, None])[:, 0]
        ),
        "the softmax runs over the tokens: dim=-1 is that of the experts.": lambda: (
            over_tokens.argmax(-1),
            over_tokens.amax(-1).to(x.dtype),
        ),
        "the best token of each expert is chosen: each *token* chooses its expert.": lambda: (
            p.argmax(0),
            p.amax(0).to(x.dtype),
        ),
        "the *least* probable expert is chosen.": lambda: (worst.indices, worst.values.to(x.dtype)),
        "the softmax is taken twice.": gates(p.softmax(-1).amax(-1)),
        "the gate is the logarithm of the probability.": gates(gate.log()),
        "the scores are divided by √d: a router does not.": gates(scaled),
        "the gate is the mean probability, 1/E.": gates(torch.full_like(gate, 1 / E)),
        "the gates of all experts are returned: only the chosen one's is asked for.": gates(p),
        "router_weight is transposed.": lambda: tuple(
            each if i == 0 else each.to(x.dtype)
            for i, each in enumerate(route(x.double(), weight.double().T))
        ),
        "experts are counted from 1.": lambda: (expert + 1, gate.to(x.dtype)),
        "the axis of the experts is kept: (N,) is asked for.": lambda: (
            expert[:, None],
            gate[:, None].to(x.dtype),
        ),
    }


def tokens_and_router(N, d, E, dtype=torch.float32):
    return torch.randn(N, d).to(dtype), torch.randn(d, E).to(dtype)


def check_route(top1_route, x, weight, hint=None):
    expert, gate = route(x.double(), weight.double())
    names = "The expert", "The gate"
    given = expert, gate.to(x.dtype)
    mistakes = route_mistakes(x, weight)
    expect(top1_route(x, weight), given, mistakes, names=names, nan=OVERFLOW, hint=hint)


def test_each_token_has_its_expert_and_its_gate(top1_route):
    for sizes in ((7, 5, 3), (4, 6, 2), (5, 5, 5), (1, 3, 4)):
        check_route(top1_route, *tokens_and_router(*sizes))


def test_a_route_in_other_dtypes(top1_route):
    check_route(top1_route, *tokens_and_router(6, 4, 3, torch.float64))
    x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.5, -1.0]]).half()
    check_route(top1_route, x, torch.tensor([[1.0, -1.0, 0.0], [0.0, 2.0, -1.0]]).half())


def test_a_route_with_large_scores(top1_route):
    x, weight = tokens_and_router(6, 4, 3, torch.float64)
    check_route(top1_route, 1000 * x, weight, hint=lambda _: OVERFLOW)


def test_the_router_learns_through_the_gate(top1_route):
    x, weight = tokens_and_router(6, 4, 3, torch.float64)
    weight.requires_grad_()
    answer = top1_route(x, weight)
    check_route(lambda *_: answer, x, weight.detach())
    came = gradient(answer[1], weight, CUT, "top1_route(x, router_weight)")
    (wanted,) = torch.autograd.grad(route(x, weight)[1].sum(), weight)
    expect(came, wanted, names=("The gradient of router_weight",), call="top1_route(x, …)")


def test_each_route_begins_anew(top1_route):
    expect_no_memory(top1_route, route, tokens_and_router(6, 4, 3), tokens_and_router(6, 4, 3))


# ---- balance_loss


def balance(probabilities, expert):
    E = probabilities.shape[-1]
    share = F.one_hot(expert, E).to(probabilities.dtype).mean(0)
    return E * (share * probabilities.mean(0)).sum()


def balance_mistakes(probabilities, expert):
    p = probabilities.double()
    N, E = p.shape
    mean, counts = p.mean(0), F.one_hot(expert, E).double().sum(0)
    share = counts / N
    own = F.one_hot(p.argmax(-1), E).double().mean(0)
    right = E * (share * mean).sum()
    present = counts > 0
    chosen = p.gather(1, expert[:, None])[:, 0]
    return {
        "E is missing; or the mean over the experts is taken, and not the sum.": right / E,
        "the tokens of each expert are counted, and not divided by N; or the probabilities are "
        "added up over the tokens, and not averaged.": right * N,
        "it is multiplied by N, the number of tokens, and not by E; or the counts are not divided "
        "by N and E is missing.": right * N / E,
        "neither is divided by N.": right * N * N,
        "the mean over the experts is taken: it is E times the sum.": right / E / E,
        "it is multiplied by E²: once is enough.": right * E,
        "only experts that have a token count for E: E is their number in all.": (
            right / E * present.sum()
        ),
        "the share is taken twice: the second factor is the mean probability.": (
            E * (share**2).sum()
        ),
        "the mean probability is taken twice: the first factor is the share of the tokens.": (
            E * (mean**2).sum()
        ),
        "the share comes from the largest probability: `expert` says where each token went.": (
            E * (own * mean).sum()
        ),
        "each token is multiplied with its own probability of its expert, or the probability of "
        "an expert is averaged over its own tokens alone: it is the mean over all tokens.": (
            E * chosen.mean()
        ),
        "each token is multiplied with its own probability of its expert, and E is missing.": (
            chosen.mean()
        ),
        "the logarithm of the probabilities is taken.": E * (share * mean.log()).sum(),
        "it is the entropy of the shares.": torch.special.entr(share).sum(),
        "it is the entropy of the mean probabilities.": torch.special.entr(mean).sum(),
        "1 is subtracted: the smallest value is 1 here.": right - 1,
        "the products are not added up.": E * share * mean,
        "the shares and the probabilities are added.": E * (share + mean).sum(),
        "the largest share is taken.": share.amax(),
        "it is a constant: E times the sum of the shares.": share.sum() * E,
        "it is the variance of the shares.": share.var(),
    }


def routed(N, E, absent=True):
    """Probabilities, and experts that are not always the most probable; the last has no token."""
    probabilities = (1.5 * torch.randn(N, E, dtype=torch.double)).softmax(-1).float()
    expert = torch.randint(E - absent, (N,))
    return probabilities, expert


def check_balance(balance_loss, probabilities, expert):
    expected = balance(probabilities.double(), expert).to(probabilities.dtype)
    mistakes = in_dtype(balance_mistakes(probabilities, expert), probabilities.dtype)
    expect(balance_loss(probabilities, expert), expected, mistakes)


def test_the_balance_of_experts(balance_loss):
    for N, E in ((9, 4), (6, 3), (5, 5), (11, 2)):
        for absent in (True, False):
            check_balance(balance_loss, *routed(N, E, absent))


def test_the_balance_when_all_is_even_and_when_one_has_all(balance_loss):
    check_balance(balance_loss, torch.full((8, 4), 0.25), torch.arange(8) % 4)
    check_balance(balance_loss, torch.eye(4)[[2] * 6], torch.full((6,), 2))


def test_the_balance_has_a_gradient(balance_loss):
    probabilities, expert = routed(8, 4)
    probabilities.requires_grad_()
    answer = balance_loss(probabilities, expert)
    check_balance(lambda *_: answer, probabilities.detach(), expert)
    call = "balance_loss(probabilities, expert)"
    came = gradient(answer, probabilities, f"{UNLEARNT}, so it balances nothing. {WITHOUT}", call)
    (wanted,) = torch.autograd.grad(balance(probabilities, expert), probabilities)
    expect(came, wanted, names=("The gradient of probabilities",), call=call)


def test_each_balance_is_computed_anew(balance_loss):
    expect_no_memory(balance_loss, balance, routed(8, 4), routed(8, 4))


# ---- repaired_shares


def shares_of(losses, real, size):
    return torch.stack([losses[r::size][real[r::size]].sum() for r in range(size)]) / real.sum()


def shares_mistakes(losses, real, size):
    clean = losses.double().masked_fill(~real, 0)
    B, L = losses.shape
    whole = real.sum()

    def own(rank):
        return clean[rank::size].sum(), real[rank::size].sum()

    def each(part):
        return torch.stack(
            [torch.as_tensor(part(*own(r)), dtype=torch.double) for r in range(size)]
        )

    def means(loss, count):
        return loss / count if count else loss

    right = each(lambda loss, count: loss / whole)
    chunk, first = B // size, slice(0, B // size)
    chunks = [slice(r * chunk, (r + 1) * chunk) for r in range(size)]
    tensor_split = [part.sum() for part in clean.tensor_split(size)]
    torch_chunks = [part.sum() for part in clean.chunk(size)]
    dropped = clean[: chunk * size]
    same = clean[first].sum()
    row_means = clean.sum(1) / real.sum(1).clamp(min=1)
    cut = losses.double() * (torch.arange(L) < real.sum(1, keepdim=True))
    above_0 = losses > 0
    dealt = losses[real].double()

    def by_sentences(rank):
        mean = means(*own(rank))
        return mean * len(clean[rank::size]) / B

    return {
        "nothing has changed: every process reads the same sentences, and divides by their tokens "
        "and by the number of processes.": lambda: (same / real[first].sum() / size).repeat(size),
        "each sentence is averaged first: then a token of a short one counts more.": (
            torch.stack([row_means[r::size].sum() for r in range(size)]) / B
        ),
        "each process takes the mean over its own tokens, and the means are averaged: divide by "
        "the tokens of the whole batch.": each(lambda loss, count: means(loss, count) / size),
        "each process takes the mean over its own tokens: divide by the tokens of the whole "
        "batch.": each(means),
        "nothing is divided: the sum of these is the summed loss.": right * whole,
        "it is divided by the number of processes, too: the contributions are added up.": (
            right / size
        ),
        "it is multiplied by the number of processes: that is for gradients that are averaged; "
        "here they are added up.": right * size,
        "it is divided by all places, padding among them.": right * whole / (B * L),
        "it is divided by the number of sentences.": right * whole / B,
        "it is divided by the places of each process's own sentences.": each(lambda loss, _: loss)
        / torch.tensor([len(clean[r::size]) * L for r in range(size)]).clamp(min=1),
        "every process reads the same sentences: rank takes rank, rank + size, …": lambda: (
            same / whole
        ).repeat(size),
        "every process reads the same sentences, and averages over their tokens.": lambda: (
            same / real[first].sum()
        ).repeat(size),
        "every process reads all sentences.": (clean.sum() / whole).repeat(size),
        "every process reads all sentences, and the result is divided by their number.": (
            (clean.sum() / whole / size).repeat(size)
        ),
        "the sentences are handed out in blocks: process rank takes rank, rank + size, …": (
            torch.stack(tensor_split) / whole
        ),
        "the sentences are handed out in blocks, as torch.chunk cuts them: process rank takes "
        "rank, rank + size, …": lambda: torch.stack(torch_chunks) / whole,
        "the sentences are handed out in blocks, and what is left over is read by nobody.": (
            torch.stack([clean[part].sum() for part in chunks]) / whole
        ),
        "the sentences that are left over are read by nobody.": (
            torch.stack([dropped[r::size].sum() for r in range(size)]) / whole
        ),
        "one number is returned, the sum over the processes.": right.sum(),
        "the processes are in the wrong order.": right.flip(0),
        "padded places are not left out; anything may stand there, so that `losses > 0` does not "
        "tell them.": torch.stack([losses[r::size].double().sum() for r in range(size)]) / whole,
        "each row is cut behind as many places as it has real ones: pads may stand anywhere.": (
            torch.stack([cut[r::size].sum() for r in range(size)]) / whole
        ),
        "`losses > 0` is taken for `real`: anything may stand at padded places.": (
            shares_of(losses.double(), above_0, size)
        ),
        "single tokens are dealt out, and not sentences.": (
            torch.stack([dealt[r::size].sum() for r in range(size)]) / whole
        ),
        "single tokens are dealt out, and not sentences; and `losses > 0` is taken for `real`.": (
            torch.stack([losses[above_0][r::size].double().sum() for r in range(size)]) / whole
        ),
        "the mean of each process is weighted by its sentences: weight it by its real tokens.": (
            torch.stack([by_sentences(r) for r in range(size)])
        ),
    }


def shared_batch(B, L, dtype=torch.float32, padding=300.0):
    """Losses of sentences of very different lengths; at padded places stands something large."""
    lengths = torch.randint(1, L + 1, (B,))
    real = torch.arange(L) < lengths[:, None]
    losses = (0.5 + 2 * torch.rand(B, L)).masked_fill(~real, padding)
    return losses.to(dtype), real


NAN_SHARES = (
    "0/0: a process without a real token contributes 0. Or inf · 0: choose the real places by "
    "indexing, or with torch.where, and do not multiply."
)


def check_shares(repaired_shares, losses, real, size):
    expected = shares_of(losses.double(), real, size).to(losses.dtype)
    mistakes = in_dtype(shares_mistakes(losses, real, size), losses.dtype)
    expect(repaired_shares(losses, real, size), expected, mistakes, nan=NAN_SHARES)


def test_the_contributions_of_all_processes(repaired_shares):
    for B, L, size in ((7, 5, 2), (8, 4, 4), (5, 6, 3), (3, 3, 1), (6, 6, 2)):
        check_shares(repaired_shares, *shared_batch(B, L), size)
    losses, real = torch.rand(7, 5) + 0.5, torch.rand(7, 5) < 0.5  # pads at any place
    real[:, -1] = True
    check_shares(repaired_shares, losses.masked_fill(~real, 300.0), real, 2)


def test_a_process_without_a_real_token(repaired_shares):
    losses, real = shared_batch(6, 4)
    real[1::3] = False
    check_shares(repaired_shares, losses, real, 3)
    check_shares(repaired_shares, *shared_batch(2, 4), 3)  # fewer sentences than processes
    for empty in range(4):  # beside another sentence in the same process
        losses, real = shared_batch(4, 3)
        real[empty] = False
        check_shares(repaired_shares, losses, real, 2)


def test_what_stands_at_padded_places_does_not_count(repaired_shares):
    for padding in (math.inf, math.nan, -math.inf):
        check_shares(repaired_shares, *shared_batch(6, 5, padding=padding), 2)


def test_contributions_in_float64(repaired_shares):
    check_shares(repaired_shares, *shared_batch(7, 5, torch.float64), 2)


def test_a_gradient_reaches_the_losses(repaired_shares):
    losses, real = shared_batch(7, 5)
    losses.requires_grad_()
    answer, call = repaired_shares(losses, real, 2), "repaired_shares(losses, real, 2)"
    came = gradient(answer, losses, f"{UNLEARNT}, so nothing can be learnt. {WITHOUT}", call)
    expect(came, real / real.sum(), names=("The gradient of the losses",), call=call)


def test_each_contribution_is_computed_anew(repaired_shares):
    first, second = ((*shared_batch(6, 5), 2) for _ in range(2))
    expect_no_memory(repaired_shares, shares_of, first, second)
