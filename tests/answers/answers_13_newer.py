"""Answers to exercise 13, wrong and right."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from catalogue import right, solutions, wrong

GivenNorm = solutions("13_newer")["RMSNorm"]  # for its __init__

# ---- predicted_sizes


NUMBERS = (1024, 12_288, 0.2, 4 * math.cos(3), 2.5, 655_360)


@right("predicted_sizes")
def as_a_list():
    return list(NUMBERS)


@right("predicted_sizes")
def as_a_tensor():
    return torch.tensor(NUMBERS, dtype=torch.float64)


@right("predicted_sizes")
def in_a_tuple():
    return tuple(np.array(NUMBERS))


@right("predicted_sizes")
def rounded_on_paper():
    return [1024, 12288, 0.2, -3.96, 2.5, 655360]


def but(**changes):
    return list((dict(zip("abcdef", NUMBERS, strict=True)) | changes).values())


@wrong("predicted_sizes", "a is not 1536", "three matrices")
def as_wide_as_before():
    """The same width."""
    return but(a=1536)


@wrong("predicted_sizes", "a is not 768", "not four")
def half_as_wide():
    """As if the gate doubled everything."""
    return but(a=768)


@wrong("predicted_sizes", "b is not 49152", "keep nothing")
def cache_of_all_heads():
    """Without the groups."""
    return but(b=2 * 24 * 16 * 64)


@wrong("predicted_sizes", "b is not 6144", "*and* values")
def cache_of_keys_alone():
    """One of the two."""
    return but(b=24 * 4 * 64)


@wrong("predicted_sizes", "c is not -1", "LayerNorm")
def as_layer_norm():
    """With the mean subtracted."""
    return but(c=-1)


@wrong("predicted_sizes", "c is not 0.1414", "*mean* of the squares")
def by_the_length():
    """1 / √50."""
    return but(c=1 / math.sqrt(50))


@wrong("predicted_sizes", "d is not 4", "before they are turned")
def not_turned():
    """As if both stood at place 0."""
    return but(d=4)


@wrong("predicted_sizes", "d is not 3.99", "radians")
def in_degrees():
    """A pocket calculator's first setting."""
    return but(d=3.9945)


@wrong("predicted_sizes", "d is not -2.191", "difference")
def angles_added_up():
    """12 + 9."""
    return but(d=4 * math.cos(21))


@wrong("predicted_sizes", "d is not 3.96", "below 0")
def without_the_sign():
    """The size of the number alone."""
    return but(d=3.96)


@wrong("predicted_sizes", "e is not 4", "counted from 3")
def sum_not_made_smaller():
    """2 + 1 + 1."""
    return but(e=4)


@wrong("predicted_sizes", "e is not 10", "*smaller*")
def sum_made_larger():
    """2 · 2² + 2."""
    return but(e=10)


@wrong("predicted_sizes", "e is not 2.27", "Powers of two")
def powers_of_e():
    """The usual softmax."""
    return but(e=2 * math.exp(-2) + 2)


@wrong("predicted_sizes", "f is not 1048576", "2 heads")
def as_if_all_had_eight_heads():
    """4 · 512²."""
    return but(f=4 * 512**2)


@wrong("predicted_sizes", "f is not 393216", "fourth matrix")
def without_the_output():
    """W_O is forgotten."""
    return but(f=512**2 + 2 * 512 * 128)


# ---- RMSNorm


@right("RMSNorm")
class WithRsqrt(GivenNorm):
    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.gamma


@right("RMSNorm")
class WithTheLength(GivenNorm):
    def forward(self, x):
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        return self.gamma * (x / torch.sqrt(length**2 / x.shape[-1] + self.eps))


@right("RMSNorm")
class WithEinsum(GivenNorm):
    def forward(self, x):
        square = torch.einsum("...d,...d->...", x, x) / x.shape[-1]
        return torch.einsum("...d,...,d->...d", x, (square + self.eps) ** -0.5, self.gamma)


@right("RMSNorm")
class TokenByToken(GivenNorm):
    def forward(self, x):
        rows = x.reshape(-1, x.shape[-1])
        done = [self.gamma * row / (row @ row / len(row) + self.eps).sqrt() for row in rows]
        return torch.stack(done).reshape(x.shape)


@right("RMSNorm")
class InDoublePrecision(GivenNorm):
    def forward(self, x):
        wide = x.double()
        root = (wide.square().mean(-1) + self.eps).sqrt()[..., None]
        return (self.gamma.double() * wide / root).to(x.dtype)


@wrong("RMSNorm", "uses nn.RMSNorm", "do without")
class WithTheLibrary(GivenNorm):
    """What it will be compared with."""

    def forward(self, x):
        norm = torch.nn.RMSNorm(x.shape[-1], eps=self.eps, dtype=x.dtype)
        norm.weight = self.gamma
        return norm(x)


@wrong("RMSNorm", "uses F.rms_norm", "do without")
class WithTheFunction(GivenNorm):
    """The same as a function."""

    def forward(self, x):
        return F.rms_norm(x, x.shape[-1:], self.gamma, self.eps)


@wrong("RMSNorm", "gets no gradient")
class GammaCutOff(GivenNorm):
    """γ.data, as in code that copies weights."""

    def forward(self, x):
        return self.gamma.data * x / (x.square().mean(-1, keepdim=True) + self.eps).sqrt()


@right("RMSNorm")
class WithAHelper(torch.nn.Module):
    def __init__(self, d_model, eps=1e-6):
        super().__init__()
        self.gamma = torch.nn.Parameter(torch.ones(d_model))
        self.d_model, self.eps = d_model, eps

    def root(self, x):
        return ((x * x).sum(-1) / self.d_model + self.eps).sqrt().unsqueeze(-1)

    def forward(self, x):
        return x / self.root(x) * self.gamma


@wrong("RMSNorm", "eval mode", "numbers differ")
class NormalisedInTrainingOnly(GivenNorm):
    """As dropout does: nothing in eval mode."""

    def forward(self, x):
        root = (x.square().mean(-1, keepdim=True) + self.eps).sqrt()
        return self.gamma * x / root if self.training else x


@wrong("RMSNorm", "eval mode", "numbers differ")
class WithARunningMean(GivenNorm):
    """As batch normalisation does: in eval mode by a mean over past batches."""

    seen = 1.0

    def forward(self, x):
        square = x.square().mean(-1, keepdim=True)
        if self.training:
            self.seen = 0.9 * self.seen + 0.1 * square.mean().item()
        else:
            square = self.seen
        return self.gamma * x / (square + self.eps) ** 0.5


# ---- swiglu


@right("swiglu")
def with_sigmoid(x, w_gate, w_up, w_down):
    gate = x @ w_gate
    return (gate * gate.sigmoid() * (x @ w_up)) @ w_down


@right("swiglu")
def with_one_product(x, w_gate, w_up, w_down):
    gate, up = (x @ torch.cat((w_gate, w_up), dim=1)).chunk(2, dim=-1)
    return torch.nn.SiLU()(gate).mul(up).matmul(w_down)


@right("swiglu")
def with_linear(x, w_gate, w_up, w_down):
    return F.linear(F.silu(F.linear(x, w_gate.T)) * F.linear(x, w_up.T), w_down.T)


@right("swiglu")
def with_numpy(x, w_gate, w_up, w_down):
    x, g, u, d = (each.numpy().astype(np.float64) for each in (x, w_gate, w_up, w_down))
    gate = x @ g
    return torch.from_numpy((gate / (1 + np.exp(-gate)) * (x @ u)) @ d)


@right("swiglu")
def unit_by_unit(x, w_gate, w_up, w_down):
    result = torch.zeros_like(x)
    for gate, up, down in zip(w_gate.T, w_up.T, w_down, strict=True):
        z = x @ gate
        result = result + (z / (1 + torch.exp(-z)) * (x @ up))[..., None] * down
    return result


@wrong("swiglu", "exp of a large number")
def silu_by_hand(x, w_gate, w_up, w_down):
    """σ written as eᶻ / (1 + eᶻ)."""
    power = torch.exp(x @ w_gate)
    return (x @ w_gate * power / (1 + power) * (x @ w_up)) @ w_down


# ---- grouped_query_attention


@right("grouped_query_attention")
def with_the_library(query, key, value, mask=None):
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, enable_gqa=True)


@right("grouped_query_attention")
def with_a_fifth_axis(query, key, value, mask=None):
    B, H, Lq, d = query.shape
    G, Lk = key.shape[1:3]
    scores = torch.einsum("bgsqd,bgkd->bgsqk", query.unflatten(1, (G, -1)), key) / math.sqrt(d)
    if mask is not None:
        scores = scores.masked_fill(~mask.expand(B, H, Lq, Lk).unflatten(1, (G, -1)), -math.inf)
    return torch.einsum("bgsqk,bgkd->bgsqd", scores.softmax(-1), value).flatten(1, 2)


@right("grouped_query_attention")
def head_by_head(query, key, value, mask=None):
    H, G = query.shape[1], key.shape[1]
    full = None if mask is None else mask.expand(query.shape[0], H, query.shape[2], key.shape[2])
    heads = []
    for head in range(H):
        group = head * G // H
        scores = query[:, head] @ key[:, group].mT * query.shape[-1] ** -0.5
        if full is not None:
            scores = scores.where(full[:, head], -torch.inf)
        heads.append(scores.softmax(-1) @ value[:, group])
    return torch.stack(heads, dim=1)


@right("grouped_query_attention")
def with_an_index(query, key, value, mask=None):
    which = torch.arange(query.shape[1]) // (query.shape[1] // key.shape[1])
    scores = query @ key[:, which].transpose(2, 3) / math.sqrt(key.shape[-1])
    bias = 0 if mask is None else torch.zeros_like(scores).masked_fill(~mask, -math.inf)
    return (scores + bias).softmax(-1) @ value[:, which]


@right("grouped_query_attention")
def grouped_in_double(query, key, value, mask=None):
    shared = query.shape[1] // key.shape[1]
    k, v = (x.double()[:, :, None].expand(-1, -1, shared, -1, -1) for x in (key, value))
    return F.scaled_dot_product_attention(
        query.double(), k.flatten(1, 2), v.flatten(1, 2), attn_mask=mask
    ).to(query.dtype)


def attend(query, key, value, mask, scale=None, dim=-1):
    scores = query @ key.mT / (math.sqrt(query.shape[-1]) if scale is None else scale)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    return scores.softmax(dim) @ value


def spread(query, key, value):
    shared = query.shape[1] // key.shape[1]
    return [x.repeat_interleave(shared, 1) for x in (key, value)]


@right("grouped_query_attention")
def group_by_group(query, key, value, mask=None):
    groups = key.shape[1]
    scores = torch.cat([q @ k.mT for q, k in both_split(query, key, groups)], 1)
    scores = scores / query.shape[-1] ** 0.5
    if mask is not None:
        scores = torch.where(mask, scores, torch.finfo(scores.dtype).min)
    weights = scores.softmax(-1)
    return torch.cat([w @ v for w, v in both_split(weights, value, groups)], 1)


def both_split(heads, shared, groups):
    return zip(heads.chunk(groups, 1), shared.chunk(groups, 1), strict=True)


@wrong("grouped_query_attention", "exp of a large number")
def exp_without_the_maximum(query, key, value, mask=None):
    """The formula of the softmax as it stands."""
    key, value = spread(query, key, value)
    power = (query @ key.mT / query.shape[-1] ** 0.5).exp()
    power = power if mask is None else power * mask
    return power / power.sum(-1, keepdim=True) @ value


def filled(query, key, value, mask, low):
    key, value = spread(query, key, value)
    scores = query @ key.mT / query.shape[-1] ** 0.5
    scores = scores if mask is None else scores.masked_fill(~mask, low)
    return scores.softmax(-1) @ value


@right("grouped_query_attention")
def minus_a_billion(query, key, value, mask=None):
    return filled(query, key, value, mask, -1e9)


def on_five_axes(query, key, value, hide):
    query = query.unflatten(1, (key.shape[1], -1))
    scores = torch.einsum("bgsqd,bgkd->bgsqk", query, key) / query.shape[-1] ** 0.5
    return torch.einsum("bgsqk,bgkd->bgsqd", hide(scores).softmax(-1), value).flatten(1, 2)


@right("grouped_query_attention")
def five_axes_and_a_mask_of_four_after_all(query, key, value, mask=None):
    def hide(scores):
        flat = scores.flatten(1, 2)
        flat = flat if mask is None else flat.masked_fill(~mask, -math.inf)
        return flat.view_as(scores)

    return on_five_axes(query, key, value, hide)


def attend_with(mask_the_scores, query, key, value, mask):
    """Grouped attention that hides what the mask forbids in another way."""
    shared = query.shape[1] // key.shape[1]
    key, value = (x.repeat_interleave(shared, 1) for x in (key, value))
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    if mask is not None:
        scores = mask_the_scores(scores, mask)
    return scores.softmax(-1) @ value


@wrong("grouped_query_attention", "such as −100 or −10,000 is added")
def adds_minus_10000(query, key, value, mask=None):
    """(1.0 − mask) · −10000.0, as BERT's code has it."""
    return attend_with(lambda s, m: s + (1.0 - m.to(s.dtype)) * -10000.0, query, key, value, mask)


@wrong("grouped_query_attention", "Some scores are 0 and not masked")
def asks_the_scores(query, key, value, mask=None):
    """Multiplied by the mask, then `scores == 0`: a score may be 0 by itself."""
    return attend_with(
        lambda s, m: (s * m).masked_fill(s * m == 0, -math.inf), query, key, value, mask
    )


@right("grouped_query_attention")
def filled_with_the_smallest_number(query, key, value, mask=None):
    return attend_with(
        lambda s, m: s.masked_fill(~m, torch.finfo(s.dtype).min), query, key, value, mask
    )


@wrong("grouped_query_attention", "axes of length 1")
def mask_of_two_axes_or_four(query, key, value, mask=None):
    """Two axes are put in front of the mask, as if it had two or four."""
    if mask is not None and mask.ndim < 4:
        mask = mask[None, None]
    return attend(query, *spread(query, key, value), mask)


@wrong("grouped_query_attention", "axes of length 1")
def heads_squeezed(query, key, value, mask=None):
    """squeeze(0): right for many sentences."""
    return with_an_index(query, key, value, mask).squeeze(0)


@wrong("grouped_query_attention", "axes of length 1")
def one_head_squeezed(query, key, value, mask=None):
    """squeeze(1): a single head loses its axis."""
    return with_an_index(query, key, value, mask).squeeze(1)


# ---- online_softmax_attention


@right("online_softmax_attention")
def as_a_loop_over_queries(query, key_blocks, value_blocks):
    rows = []
    for q in query:
        m, z, out = torch.tensor(-torch.inf), 0.0, torch.zeros(value_blocks[0].shape[1])
        for key, value in zip(key_blocks, value_blocks, strict=True):
            s = key @ q / math.sqrt(len(q))
            new = max(m, s.max())
            p = torch.exp(s - new)
            z = z * torch.exp(m - new) + p.sum()
            out = out * torch.exp(m - new) + p @ value
            m = new
        rows.append(out / z)
    return torch.stack(rows).to(query.dtype)


@right("online_softmax_attention")
def key_by_key(query, key_blocks, value_blocks):
    m = torch.full((len(query),), -math.inf, dtype=torch.float64)
    z, out = torch.zeros_like(m), torch.zeros(len(query), 1, dtype=torch.float64)
    for block in range(len(key_blocks)):
        for k, v in zip(key_blocks[block].double(), value_blocks[block].double(), strict=True):
            s = query.double() @ k / query.shape[1] ** 0.5
            new = torch.where(s > m, s, m)
            z = z * (m - new).exp() + (s - new).exp()
            out = out * (m - new).exp()[:, None] + (s - new).exp()[:, None] * v
            m = new
    return (out / z[:, None]).to(query.dtype)


@right("online_softmax_attention")
def with_logsumexp(query, key_blocks, value_blocks):
    """Keeps the result so far and the logarithm of its sum, as FlashAttention-2 hands on."""
    out, lse = None, None
    for key, value in zip(key_blocks, value_blocks, strict=True):
        s = torch.einsum("qd,kd->qk", query, key) * query.size(1) ** -0.5
        here = s.logsumexp(1, keepdim=True)
        mine = (s - here).exp() @ value
        if out is None:
            out, lse = mine, here
            continue
        both = torch.logaddexp(lse, here)
        out, lse = (lse - both).exp() * out + (here - both).exp() * mine, both
    return out


@right("online_softmax_attention")
def with_a_softmax_of_each_block(query, key_blocks, value_blocks):
    """Two results are mixed by the share that each sum has."""
    out, largest, total = 0, torch.full((len(query), 1), -1e30).to(query.dtype).double(), 0
    for key, value in zip(key_blocks, value_blocks, strict=True):
        s = (query.double() @ key.double().mT) / query.shape[-1] ** 0.5
        new = torch.maximum(largest, s.max(1, keepdim=True).values)
        old = total * torch.exp(largest - new)
        here = torch.exp(s - new).sum(1, keepdim=True)
        out = (old * out + here * (s.softmax(1) @ value.double())) / (old + here)
        total, largest = old + here, new
    return out.to(query.dtype)


@right("online_softmax_attention")
def the_ones_ride_along(query, key_blocks, value_blocks):
    """A column of ones beside the values: its weighted sum is the sum of the powers."""
    largest, sums = -math.inf, 0
    for i, key in enumerate(key_blocks):
        value = F.pad(value_blocks[i], (0, 1), value=1.0)
        scores = F.linear(query, key) / math.sqrt(key.shape[1])
        new = scores.amax(1, keepdim=True).clamp(min=largest)
        sums = sums * torch.exp(largest - new) + torch.exp(scores - new) @ value
        largest = new
    return sums[:, :-1] / sums[:, -1:]


@right("online_softmax_attention")
def from_the_last_block_to_the_first(query, key_blocks, value_blocks):
    return the_ones_ride_along(query, key_blocks[::-1], value_blocks[::-1])


@right("online_softmax_attention")
def online_with_numpy(query, key_blocks, value_blocks):
    q = query.numpy().astype(np.float64)
    m, z, out = np.full((len(q), 1), -np.inf), 0, 0
    for key, value in zip(key_blocks, value_blocks, strict=True):
        s = q @ key.numpy().astype(np.float64).T / np.sqrt(q.shape[1])
        new = np.maximum(m, s.max(1, keepdims=True))
        z = z * np.exp(m - new) + np.exp(s - new).sum(1, keepdims=True)
        out = out * np.exp(m - new) + np.exp(s - new) @ value.numpy()
        m = new
    return torch.from_numpy(out / z)


def one_pass(query, key_blocks, value_blocks, shrink, end=lambda out, z: out / z):
    """The loop with a factor for both sums that `shrink` computes."""
    m, z, out = torch.full((len(query), 1), -math.inf, dtype=query.dtype), 0, 0
    for key, value in zip(key_blocks, value_blocks, strict=True):
        s = query @ key.T / query.shape[1] ** 0.5
        new = torch.maximum(m, s.amax(1, keepdim=True))
        for_z, for_out = shrink(m, new)
        p = (s - new).exp()
        z, out, m = z * for_z + p.sum(1, keepdim=True), out * for_out + p @ value, new
    return end(out, z)


@wrong("online_softmax_attention", "neither sum is made smaller", "the factor is 1")
def largest_updated_too_soon(query, key_blocks, value_blocks):
    """`largest = new` stands above the line with the factor."""
    return one_pass(query, key_blocks, value_blocks, lambda m, new: ((new - new).exp(),) * 2)


@wrong("online_softmax_attention", "the sum of the powers is not made smaller")
def only_the_values(query, key_blocks, value_blocks):
    """One of two lines forgotten."""
    return one_pass(query, key_blocks, value_blocks, lambda m, new: (1, (m - new).exp()))


@wrong("online_softmax_attention", "the weighted values are not made smaller")
def only_the_sum(query, key_blocks, value_blocks):
    """The other of two lines forgotten."""
    return one_pass(query, key_blocks, value_blocks, lambda m, new: ((m - new).exp(), 1))


@wrong("online_softmax_attention", "nothing is divided")
def never_divided(query, key_blocks, value_blocks):
    """The last line forgotten."""
    factors = lambda m, new: ((m - new).exp(),) * 2  # noqa: E731
    return one_pass(query, key_blocks, value_blocks, factors, lambda out, z: out)


@wrong("online_softmax_attention", "exp of a large number is inf")
def powers_without_a_maximum(query, key_blocks, value_blocks):
    """Sums of powers need no second pass: until they overflow."""
    z, out = 0, 0
    for key, value in zip(key_blocks, value_blocks, strict=True):
        p = (query @ key.T / query.shape[1] ** 0.5).exp()
        z, out = z + p.sum(1, keepdim=True), out + p @ value
    return out / z


@wrong("online_softmax_attention", "begin with −inf and not with 0")
def largest_begins_with_0(query, key_blocks, value_blocks):
    """As for losses and counts."""
    m, z, out = torch.zeros_like(query[:, :1]), 0, 0
    for key, value in zip(key_blocks, value_blocks, strict=True):
        s = query @ key.T / query.shape[1] ** 0.5
        new = torch.maximum(m, s.amax(1, keepdim=True))
        p, shrink = (s - new).exp(), (m - new).exp()
        z, out, m = z * shrink + p.sum(1, keepdim=True), out * shrink + p @ value, new
    return out / z


@wrong("online_softmax_attention", "each query has a largest score of its own")
def one_maximum_for_all_queries(query, key_blocks, value_blocks):
    """s.max() without an axis."""
    m, z, out = torch.tensor(-math.inf), 0, 0
    for key, value in zip(key_blocks, value_blocks, strict=True):
        s = query @ key.T / query.shape[1] ** 0.5
        new = torch.maximum(m, s.max())
        p, shrink = (s - new).exp(), (m - new).exp()
        z, out, m = z * shrink + p.sum(1, keepdim=True), out * shrink + p @ value, new
    return out / z


@wrong("online_softmax_attention", "grows with the number of keys")
def all_keys_together(query, key_blocks, value_blocks):
    """torch.cat, and the attention of lesson 02."""
    key, value = torch.cat(key_blocks), torch.cat(value_blocks)
    return (query @ key.T / query.shape[1] ** 0.5).softmax(-1) @ value


@wrong("online_softmax_attention", "grows with the number of keys")
def with_the_library_and_cat(query, key_blocks, value_blocks):
    """PyTorch's own FlashAttention needs the keys in one piece."""
    return F.scaled_dot_product_attention(query, torch.cat(key_blocks), torch.cat(value_blocks))


@wrong("online_softmax_attention", "grows with the number of keys")
def all_scores_kept(query, key_blocks, value_blocks):
    """Scores block by block, and one softmax over them."""
    scores = [query @ key.T / query.shape[1] ** 0.5 for key in key_blocks]
    weights = torch.cat(scores, 1).softmax(-1).split([len(k) for k in key_blocks], 1)
    return sum(w @ v for w, v in zip(weights, value_blocks, strict=True))


@wrong("online_softmax_attention", "gone through more than once")
def two_passes(query, key_blocks, value_blocks):
    """First the largest score of all, then the powers."""
    scale = query.shape[1] ** 0.5
    m = torch.full((len(query), 1), -math.inf, dtype=query.dtype)
    for key in key_blocks:
        m = torch.maximum(m, (query @ key.T / scale).amax(1, keepdim=True))
    z, out = 0, 0
    for key, value in zip(key_blocks, value_blocks, strict=True):
        p = (query @ key.T / scale - m).exp()
        z, out = z + p.sum(1, keepdim=True), out + p @ value
    return out / z


@wrong("online_softmax_attention", "the results are averaged")
def mean_of_blocks(query, key_blocks, value_blocks):
    """A softmax is a mean, and so is the mean of them."""
    each = [
        (query @ key.T / query.shape[1] ** 0.5).softmax(-1) @ value
        for key, value in zip(key_blocks, value_blocks, strict=True)
    ]
    return sum(each) / len(each)


@wrong("online_softmax_attention", "only the last block is left")
def begins_anew_in_each_block(query, key_blocks, value_blocks):
    """The sums are set to 0 inside of the loop."""
    for key, value in zip(key_blocks, value_blocks, strict=True):
        s = query @ key.T / query.shape[1] ** 0.5
        p = (s - s.amax(1, keepdim=True)).exp()
        out, z = p @ value, p.sum(1, keepdim=True)
    return out / z


@wrong("online_softmax_attention", "not divided by √d")
def without_the_root(query, key_blocks, value_blocks):
    """The line of the scores, copied without its end."""
    return the_ones_ride_along(query * query.shape[1] ** 0.5, key_blocks, value_blocks)


# ---- repaired_rotate


@right("repaired_rotate")
def as_complex_numbers(x, past, base=10_000.0):
    B, L, d = x.shape
    pairs = torch.view_as_complex(x.float().reshape(B, L, d // 2, 2).contiguous())
    place = torch.arange(L) + past
    angle = torch.outer(place.float(), 1.0 / base ** (torch.arange(0, d, 2).float() / d))
    turned = torch.view_as_real(pairs * torch.polar(torch.ones_like(angle), angle))
    return turned.flatten(2).to(x.dtype)


@right("repaired_rotate")
def pair_by_pair(x, past, base=10_000.0):
    result = torch.empty_like(x)
    for t in range(x.shape[1]):
        for i in range(x.shape[2] // 2):
            angle = (past + t) * base ** (-2 * i / x.shape[2])
            a, b = x[:, t, 2 * i].float(), x[:, t, 2 * i + 1].float()
            result[:, t, 2 * i] = a * math.cos(angle) - b * math.sin(angle)
            result[:, t, 2 * i + 1] = a * math.sin(angle) + b * math.cos(angle)
    return result


@right("repaired_rotate")
def with_matrices(x, past, base=10_000.0):
    d, place = x.shape[2], torch.arange(past, past + x.shape[1], dtype=torch.float64)
    angle = place[:, None] / base ** (torch.arange(d // 2) * 2 / d)
    cos, sin = angle.cos(), angle.sin()
    turn = torch.stack((torch.stack((cos, sin), -1), torch.stack((-sin, cos), -1)), -2)
    pairs = x.double().unflatten(-1, (-1, 2))
    return torch.einsum("blip,lipq->bliq", pairs, turn).flatten(2).type_as(x)


@right("repaired_rotate")
def with_halves_in_between(x, past, base=10_000.0):
    """The trick of Llama's code: pairs far apart, and another order before and after."""
    d = x.shape[2]
    y = x.unflatten(2, (d // 2, 2)).transpose(2, 3).flatten(2).float()  # firsts, then seconds
    place = torch.arange(x.shape[1], dtype=torch.float32)[:, None] + past
    angle = (place * torch.exp(-math.log(base) * torch.arange(0, d, 2) / d)).repeat(1, 2)
    other = torch.cat((-y[..., d // 2 :], y[..., : d // 2]), -1)
    y = y * angle.cos() + other * angle.sin()
    return y.unflatten(2, (2, d // 2)).transpose(2, 3).flatten(2).to(x.dtype)


@right("repaired_rotate")
def angles_in_numpy(x, past, base=10_000.0):
    L, d = x.shape[1:]
    angle = np.arange(past, past + L)[:, None] * np.power(base, -np.arange(0, d, 2) / d)
    cos, sin = (torch.from_numpy(f(angle)).repeat_interleave(2, -1) for f in (np.cos, np.sin))
    wide = x.double()
    other = torch.stack((-wide[..., 1::2], wide[..., ::2]), -1).flatten(2)
    return (wide * cos + other * sin).to(x.dtype)


def turned(x, angle):
    even, odd = x[..., 0::2], x[..., 1::2]
    both = even * angle.cos() - odd * angle.sin(), even * angle.sin() + odd * angle.cos()
    return torch.stack(both, -1).flatten(-2).to(x.dtype)


def speeds(x, base, dtype=torch.float64):
    return base ** (-torch.arange(0, x.shape[-1], 2).to(dtype) / x.shape[-1])


@wrong("repaired_rotate", "every call begins with place 0")
def both_bugs_left(x, past, base=10_000.0):
    """As it was."""
    place = torch.arange(x.shape[1]).to(x.dtype)
    return turned(x, place[:, None] * speeds(x, base, x.dtype))


@wrong("repaired_rotate", "every call begins with place 0")
def only_the_dtype_mended(x, past, base=10_000.0):
    """One bug of two."""
    return turned(x, torch.arange(x.shape[1])[:, None] * speeds(x, base))


@wrong("repaired_rotate", "dtype of x, which has too few digits")
def only_the_places_mended(x, past, base=10_000.0):
    """The other bug of two."""
    place = torch.arange(past, past + x.shape[1]).to(x.dtype)
    return turned(x, place[:, None] * speeds(x, base, x.dtype))


@wrong("repaired_rotate", "the angles are rounded to the dtype of x")
def rounded_before_the_cosine(x, past, base=10_000.0):
    """All is computed precisely, and then rounded one line too early."""
    place = torch.arange(past, past + x.shape[1])
    return turned(x, (place[:, None] * speeds(x, base)).to(x.dtype))


@wrong("repaired_rotate", "the places are rounded")
def places_in_the_dtype_of_x(x, past, base=10_000.0):
    """`type_as(x)` on the places alone, as in Megatron's code of 2023."""
    place = torch.arange(past, past + x.shape[1]).type_as(x)
    return turned(x, place[:, None].double() * speeds(x, base))


@wrong("repaired_rotate", "the speeds are rounded")
def speeds_in_the_dtype_of_x(x, past, base=10_000.0):
    """A buffer that `model.bfloat16()` rounds."""
    place = torch.arange(past, past + x.shape[1])
    return turned(x, place[:, None].double() * speeds(x, base).to(x.dtype).double())


@wrong("repaired_rotate", "the same place, `past`")
def one_place_for_all(x, past, base=10_000.0):
    """Right when one token comes at a time."""
    return turned(x, torch.full((x.shape[1], 1), past) * speeds(x, base))


@wrong("repaired_rotate", "one too large")
def counted_from_1(x, past, base=10_000.0):
    """The new token is token number past + 1."""
    place = torch.arange(past + 1, past + 1 + x.shape[1])
    return turned(x, place[:, None] * speeds(x, base))


@wrong("repaired_rotate", "added to the angles")
def past_added_to_the_angle(x, past, base=10_000.0):
    """A bracket too few."""
    return turned(x, torch.arange(x.shape[1])[:, None] * speeds(x, base) + past)


@wrong("repaired_rotate", "`base` is not used")
def base_written_in(x, past, base=10_000.0):
    """The number stands in the code, too."""
    place = torch.arange(past, past + x.shape[1])
    return turned(x, place[:, None] * speeds(x, 10_000.0))


@wrong("repaired_rotate", "go back to the dtype of x")
def stays_double(x, past, base=10_000.0):
    """Precise, and four times as large."""
    return as_complex_numbers(x.double(), past, base)


@wrong("repaired_rotate", "−i/d")
def wrong_exponent(x, past, base=10_000.0):
    """`arange(d / 2)` in the place of `arange(0, d, 2)`."""
    place = torch.arange(past, past + x.shape[1])
    speed = base ** (-torch.arange(x.shape[2] // 2, dtype=torch.float64) / x.shape[2])
    return turned(x, place[:, None] * speed)


@wrong("repaired_rotate", "as in Llama's code")
def as_in_llama(x, past, base=10_000.0):
    """rotate_half: the pairs are (i, i + d/2)."""
    place = torch.arange(past, past + x.shape[1])
    angle = (place[:, None] * speeds(x, base)).repeat(1, 2)
    first, second = x.chunk(2, -1)
    return (x * angle.cos() + torch.cat((-second, first), -1) * angle.sin()).to(x.dtype)


@wrong("repaired_rotate", "kept from call to call")
def kept_under_the_length(x, past, base=10_000.0, table={}):  # noqa: B006
    """The angles of the first call are kept, and found again whatever `past` is.

    https://github.com/lucidrains/rotary-embedding-torch/issues/11
    """
    if x.shape not in table:
        place = torch.arange(past, past + x.shape[1])
        table[x.shape] = place[:, None] * speeds(x, base)
    return turned(x, table[x.shape])
