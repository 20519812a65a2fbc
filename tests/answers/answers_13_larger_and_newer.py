"""Answers to exercise 13, wrong and right."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from catalogue import right, solutions, wrong

GivenNorm = solutions("13_larger_and_newer")["RMSNorm"]  # for its __init__

# ---- predicted_sizes

SIZES = (1024, 12_288, 0.2, 25, 1.6, 3.5)


@right("predicted_sizes")
def as_a_list():
    return list(SIZES)


@right("predicted_sizes")
def as_a_tensor():
    return torch.tensor(SIZES, dtype=torch.float64)


@right("predicted_sizes")
def computed():
    rms = np.sqrt(np.mean(np.square([1, 7])))
    mean = (10 * 2 + 30 * 4) / (10 + 30)
    return (2 * 1536 / 3, 2 * 24 * 4 * 64, 1 / rms, 1 + 6 * 4, 4 * 0.4, mean)


def but(**changes):
    return list((dict(zip("abcdef", SIZES, strict=True)) | changes).values())


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


@wrong("predicted_sizes", "d is not 30", "counted before")
def width_times_layers():
    """5 · 6."""
    return but(d=30)


@wrong("predicted_sizes", "e is not 0.4", "E is missing")
def without_the_number_of_experts():
    """share · p alone."""
    return but(e=0.4)


@wrong("predicted_sizes", "e is not 1.12", "shares are counts")
def squares_of_probabilities():
    """4 · (0.16 + 3 · 0.04)."""
    return but(e=1.12)


@wrong("predicted_sizes", "f is not 3.", "mean of the means")
def mean_of_two_means():
    """The bug of the last task."""
    return but(f=3)


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


# ---- top1_route


@right("top1_route")
def with_gather(x, router_weight):
    probabilities = torch.softmax(x @ router_weight, -1)
    expert = probabilities.argmax(-1)
    return expert, probabilities.gather(-1, expert[:, None]).squeeze(-1)


@right("top1_route")
def with_topk(x, router_weight):
    gate, expert = (x @ router_weight).softmax(-1).topk(1, dim=-1)
    return expert[:, 0], gate[:, 0]


@right("top1_route")
def with_logsumexp(x, router_weight):
    scores = torch.einsum("nd,de->ne", x, router_weight)
    best = scores.max(-1)
    return best.indices, (best.values - scores.logsumexp(-1)).exp()


@right("top1_route")
def token_by_token(x, router_weight):
    chosen, gates = [], []
    for token in x:
        probabilities = (token @ router_weight).softmax(0)
        chosen.append(int(probabilities.argmax()))
        gates.append(probabilities[chosen[-1]])
    return torch.tensor(chosen), torch.stack(gates)


@wrong("top1_route", "the gate is 1", "`gate / gate.detach()`")
def gate_of_one_that_learns(x, router_weight):
    """The lesson's control: the value 1 with a gradient."""
    expert, gate = with_gather(x, router_weight)
    return expert, gate / gate.detach()


@wrong("top1_route", "cut off from the weights")
def gate_without_gradient(x, router_weight):
    """The router would never learn."""
    gate, expert = (x @ router_weight).softmax(-1).detach().max(-1)
    return expert, gate


@right("top1_route")
def sorted_in_double(x, router_weight):
    scores = torch.einsum("nd,de->ne", x.double(), router_weight.double())
    best = scores.softmax(-1).sort(-1, descending=True)
    return [best.indices[:, 0], best.values[:, 0]]


@wrong("top1_route", "exp of a large number")
def route_by_exp(x, router_weight):
    """The formula of the softmax as it stands."""
    power = (x @ router_weight).exp()
    return power.argmax(-1), power.amax(-1) / power.sum(-1)


@wrong("top1_route", "cut off from the weights")
def gates_in_a_new_tensor(x, router_weight):
    """The usual answer to "does not require grad"."""
    gate, expert = (x @ router_weight).softmax(-1).max(-1)
    return expert, torch.tensor(gate.tolist(), dtype=x.dtype, requires_grad=True)


# ---- balance_loss


def shares(probabilities, expert):
    return F.one_hot(expert, probabilities.shape[-1]).to(probabilities.dtype).mean(0)


@right("balance_loss")
def with_bincount(probabilities, expert):
    N, E = probabilities.shape
    share = torch.bincount(expert, minlength=E).to(probabilities.dtype) / N
    return E * share @ probabilities.mean(0)


@right("balance_loss")
def with_a_loop(probabilities, expert):
    N, E = probabilities.shape
    total = 0
    for e in range(E):
        total = total + (expert == e).sum() / N * probabilities[:, e].sum() / N
    return E * total


@right("balance_loss")
def looked_up(probabilities, expert):
    """The mean probability of the expert that each token went to, averaged over the tokens."""
    return probabilities.shape[-1] * probabilities.mean(0)[expert].mean()


@right("balance_loss")
def balance_in_double(probabilities, expert):
    wide = probabilities.double()
    share = (expert[:, None] == torch.arange(wide.shape[1])).double().mean(0)
    return (torch.einsum("e,ne->", share, wide) * wide.shape[1] / len(wide)).to(probabilities.dtype)


@right("balance_loss")
def shares_as_a_list(probabilities, expert):
    N, E = probabilities.shape
    share = torch.tensor([(expert == e).sum().item() / N for e in range(E)])
    return E * (share @ probabilities.mean(0))


@wrong("balance_loss", "No gradient hangs on the result")
def as_a_float(probabilities, expert):
    """A number to print, not to train with."""
    loss = probabilities.shape[-1] * (shares(probabilities, expert) * probabilities.mean(0)).sum()
    return torch.tensor(loss.item(), dtype=probabilities.dtype)


@right("balance_loss")
def every_pair_of_tokens(probabilities, expert):
    N, E = probabilities.shape
    went = torch.eye(E, dtype=probabilities.dtype)[expert]
    return torch.einsum("ne,me->", went, probabilities) * E / N**2


@wrong("balance_loss", "No gradient hangs on the result")
def balance_in_a_new_tensor(probabilities, expert):
    """The usual answer to "does not require grad"."""
    return torch.tensor(looked_up(probabilities, expert).item(), requires_grad=True)


# ---- repaired_shares


@right("repaired_shares")
def with_where(losses, real, size):
    clean = torch.where(real, losses, 0)
    return torch.stack([clean[rank::size].sum() for rank in range(size)]) / real.sum()


@right("repaired_shares")
def with_index_add(losses, real, size):
    sentence, place = real.nonzero(as_tuple=True)
    found = torch.zeros(size, dtype=losses.dtype)
    return found.index_add(0, sentence % size, losses[sentence, place]) / len(sentence)


@wrong("repaired_shares", "NaN", "0/0")
def an_empty_sentence_beside_a_full_one(losses, real, size):
    """Empty processes are left out, and empty sentences of a process are not."""
    found = []
    for rank in range(size):
        total = losses.new_zeros(())
        if real[rank::size].any():
            for i in range(rank, len(losses), size):
                total = total + losses[i][real[i]].mean() * real[i].sum()
        found.append(total / real.sum())
    return torch.stack(found)


@wrong("repaired_shares", "No gradient hangs on the result")
def shares_with_numpy(losses, real, size):
    """What the others get is a number."""
    values, where = losses.detach().numpy().astype(np.float64), real.numpy()
    sums = [values[rank::size][where[rank::size]].sum() for rank in range(size)]
    return torch.from_numpy(np.array(sums) / where.sum())


@wrong("repaired_shares", "No gradient hangs on the result")
def sentence_by_sentence(losses, real, size):
    """Plain Python."""
    totals = [0.0] * size
    for number, (loss, there) in enumerate(zip(losses.tolist(), real.tolist(), strict=True)):
        totals[number % size] += sum(x for x, is_real in zip(loss, there, strict=True) if is_real)
    return torch.tensor(totals) / real.sum()


@wrong("repaired_shares", "No gradient hangs on the result")
def shares_by_item(losses, real, size):
    """As for a log."""
    return torch.tensor([share.item() for share in with_where(losses, real, size)])


@wrong("repaired_shares", "No gradient hangs on the result")
def shares_detached(losses, real, size):
    """What goes over the wire has no graph, so it is cut off before."""
    return with_where(losses, real, size).detach()


@right("repaired_shares")
def token_after_token(losses, real, size):
    totals = [losses.new_zeros(()) for _ in range(size)]
    for number, place in real.nonzero().tolist():
        totals[number % size] = totals[number % size] + losses[number, place]
    return torch.stack(totals) / real.sum()


@right("repaired_shares")
def with_einsum(losses, real, size):
    rows = losses.masked_fill(~real, 0).sum(1)
    mine = torch.arange(len(losses))[:, None] % size == torch.arange(size)
    return torch.einsum("b,br->r", rows, mine.to(rows.dtype)) / real.sum()


def own(losses, real, rank, size):
    return losses[rank::size][real[rank::size]].sum(), real[rank::size].sum()


@wrong("repaired_shares", "0/0")
def means_with_nan(losses, real, size):
    """A process without tokens divides by nothing."""
    parts = [own(losses, real, rank, size) for rank in range(size)]
    whole = real.sum()
    return torch.stack([loss / count * (count / whole) for loss, count in parts])


@wrong("repaired_shares", "weighted by its sentences")
def weighted_by_sentences(losses, real, size):
    """The usual weight, when a batch is counted in sentences."""
    parts = [own(losses, real, rank, size) for rank in range(size)]
    many = torch.tensor([len(losses[rank::size]) for rank in range(size)])
    return torch.stack([loss / count.clamp(min=1) for loss, count in parts]) * many / len(losses)


@wrong("repaired_shares", "do not multiply")
def multiplied_by_the_mask(losses, real, size):
    """inf · 0 is NaN."""
    clean = losses * real
    return torch.stack([clean[rank::size].sum() for rank in range(size)]) / real.sum()


@right("repaired_shares")
def filled_rank_by_rank(losses, real, size):
    result = torch.zeros(size, dtype=losses.dtype)
    for rank in range(size):
        mine = range(rank, len(losses), size)
        result[rank] = losses[mine].masked_select(real[mine]).sum() / real.count_nonzero()
    return result


@wrong("repaired_shares", "pads may stand anywhere")
def shares_by_lengths(losses, real, size):
    """The mask is turned into lengths, as if all pads stood behind the text."""
    counts = real.sum(1).tolist()
    rows = torch.stack([row[:n].sum() for row, n in zip(losses, counts, strict=True)])
    return torch.stack([rows[rank::size].sum() for rank in range(size)]) / real.sum()
