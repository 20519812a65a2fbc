"""Answers to exercise 01, wrong and right."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from catalogue import right, wrong
from torch import nn

# ---- predicted_contexts


@right("predicted_contexts")
def as_a_list():
    return [30, 60, 30, 60, 18]


@right("predicted_contexts")
def as_a_tuple_of_floats():
    return 30.0, 60.0, 30.0, 60.0, 18.0


@right("predicted_contexts")
def as_a_tensor():
    return torch.tensor([30.0, 60, 30, 60, 18])


@right("predicted_contexts")
def computed_after_all():
    keys, values = torch.tensor([-1.0, 0, 1, 0, 0]), torch.tensor([10.0, 20, 60, 0, 0])

    def context(v, q, count=3, squash=torch.tanh):
        return ((v * squash(q + keys[:count])).softmax(0) @ values[:count]).item()

    return [
        context(0, 5),
        context(1000, 0),
        context(1000, 1000),
        context(1000, -1000, squash=lambda x: x),
        context(0, 0, 5),
    ]


@wrong("predicted_contexts", "a is not 0. A score of 0 is not a weight of 0")
def no_score_no_answer():
    """v = 0, so the whole is thought to be 0."""
    return [0, 60, 30, 60, 18]


@wrong("predicted_contexts", "a is not 90", "average")
def a_sum_for_an_average():
    """All weights are thought to be 1."""
    return [90, 60, 30, 60, 18]


@wrong("predicted_contexts", "b is not 20", "grows with q + k")
def nearest_key_wins():
    """The additive score is read as a distance: q = 0 is nearest to k = 0."""
    return [30, 20, 30, 60, 18]


@wrong("predicted_contexts", "b is not 10", "tanh(−1) is negative")
def first_state_wins():
    """A sign lost."""
    return [30, 10, 30, 60, 18]


@wrong("predicted_contexts", "c is not 60", "Write down the three tanh")
def saturation_overlooked():
    """1001 is still the largest number."""
    return [30, 60, 60, 60, 18]


@wrong("predicted_contexts", "d is not 30", "There is no tanh in d")
def saturation_where_there_is_none():
    """d is read like c, with the other sign."""
    return [30, 60, 30, 30, 18]


@wrong("predicted_contexts", "d is not 10", "All three scores are negative")
def a_negative_query_turns_the_order_round():
    """The query is thought to choose; without the tanh it cannot."""
    return [30, 60, 30, 10, 18]


@wrong("predicted_contexts", "e is not 30", "takes its share")
def padding_is_harmless():
    """A value of 0 adds nothing to the sum, so the padding is thought to do nothing."""
    return [30, 60, 30, 60, 30]


@wrong("predicted_contexts", "e is not 22.5", "two states of padding")
def one_pad_only():
    """Miscounted."""
    return [30, 60, 30, 60, 22.5]


@wrong("predicted_contexts", "c is not 31. Write down the scores")
def adds_wrongly():
    """Any other number."""
    return [30, 60, 31, 60, 18]


@wrong("predicted_contexts", "expected 5 answers")
def letters_forgotten():
    """Two questions have the same answer, so it is given once."""
    return [30, 60, 18]


# ---- additive_scores


def both_projections(query, keys, W_q, W_k):
    return (query @ W_q).unsqueeze(1), keys @ W_k


@right("additive_scores")
def with_none_index(query, keys, W_q, W_k, v):
    return torch.tanh((query @ W_q)[:, None, :] + keys @ W_k).matmul(v)


@right("additive_scores")
def with_einsum(query, keys, W_q, W_k, v):
    asked = torch.einsum("bq,qa->ba", query, W_q)
    offered = torch.einsum("bkd,da->bka", keys, W_k)
    return torch.einsum("bka,a->bk", torch.tanh(asked[:, None] + offered), v)


@right("additive_scores")
def with_repeated_query_and_concatenation(query, keys, W_q, W_k, v):
    repeated = query.unsqueeze(1).repeat(1, keys.shape[1], 1)
    joined = torch.cat([repeated, keys], dim=-1) @ torch.cat([W_q, W_k], dim=0)
    return (torch.tanh(joined) * v).sum(dim=-1)


@right("additive_scores")
def with_two_loops(query, keys, W_q, W_k, v):
    scores = torch.empty(keys.shape[:2], dtype=query.dtype)
    for b in range(len(keys)):
        for j in range(keys.shape[1]):
            scores[b, j] = torch.dot(v, torch.tanh(query[b] @ W_q + keys[b, j] @ W_k))
    return scores


@right("additive_scores")
def with_modules(query, keys, W_q, W_k, v):
    to_a, from_k = (nn.Linear(*W.shape, bias=False).to(W.dtype) for W in (W_q, W_k))
    with torch.no_grad():
        to_a.weight.copy_(W_q.T)
        from_k.weight.copy_(W_k.T)
        return F.linear(torch.tanh(to_a(query).unsqueeze(1) + from_k(keys)), v[None]).squeeze(-1)


@right("additive_scores")
def in_numpy(query, keys, W_q, W_k, v):
    query, keys, W_q, W_k, v = (x.numpy().astype(np.float64) for x in (query, keys, W_q, W_k, v))
    return torch.from_numpy(np.tanh((query @ W_q)[:, np.newaxis] + keys @ W_k) @ v)


@right("additive_scores")
def with_plain_numbers(query, keys, W_q, W_k, v):
    columns = range(len(v))
    asked, offered, read = (query @ W_q).tolist(), (keys @ W_k).tolist(), v.tolist()
    return torch.tensor(
        [
            [sum(read[a] * math.tanh(asked[b][a] + key[a]) for a in columns) for key in sentence]
            for b, sentence in enumerate(offered)
        ]
    )


@right("additive_scores")
def with_batched_product_and_double_precision(query, keys, W_q, W_k, v):
    query, keys, W_q, W_k, v = (x.double() for x in (query, keys, W_q, W_k, v))
    asked, offered = both_projections(query, keys, W_q, W_k)
    inner = torch.tanh(asked + offered)
    return torch.bmm(inner, v[None, :, None].expand(len(keys), -1, -1)).squeeze(2)


@right("additive_scores")
def with_vmap(query, keys, W_q, W_k, v):
    return torch.vmap(lambda q, k: torch.tanh(q @ W_q + k @ W_k) @ v)(query, keys)


@right("additive_scores")
def with_the_tanh_from_exponentials_of_a_negative_number(query, keys, W_q, W_k, v):
    x = (query @ W_q).unsqueeze(1) + keys @ W_k
    small = torch.exp(-2 * x.abs())
    return (x.sign() * (1 - small) / (1 + small)) @ v


@wrong("additive_scores", "NaN")
def tanh_by_hand_overflows(query, keys, W_q, W_k, v):
    """(e^x − e^−x)/(e^x + e^−x) is inf/inf for large x."""
    asked, offered = both_projections(query, keys, W_q, W_k)
    x = asked + offered
    return ((x.exp() - (-x).exp()) / (x.exp() + (-x).exp())) @ v


@wrong("additive_scores", "changed its argument")
def adds_in_place(query, keys, W_q, W_k, v):
    """+= on the keys, to save memory."""
    W_k *= 1.0 + 1e-3
    asked, offered = both_projections(query, keys, W_q, W_k)
    return torch.tanh(asked + offered) @ v


@wrong("additive_scores", "is a NumPy array, expected a tensor")
def left_in_numpy(query, keys, W_q, W_k, v):
    """The NumPy answer without the way back."""
    return in_numpy(query, keys, W_q, W_k, v).numpy()


# ---- context_vector


@right("context_vector")
def with_batched_product(weights, values):
    return torch.bmm(weights.unsqueeze(1), values).squeeze(1)


@right("context_vector")
def with_einsum_over_keys(weights, values):
    return torch.einsum("bk,bkv->bv", weights, values)


@right("context_vector")
def with_a_loop_over_keys(weights, values):
    context = torch.zeros_like(values[:, 0])
    for j in range(values.shape[1]):
        context += weights[:, j : j + 1] * values[:, j]
    return context


@right("context_vector")
def sentence_by_sentence(weights, values):
    return torch.stack([w @ v for w, v in zip(weights, values, strict=True)])


@right("context_vector")
def with_values_transposed(weights, values):
    return (values.transpose(1, 2) @ weights[..., None])[..., 0]


@right("context_vector")
def normalised_once_more(weights, values):
    weights = weights / weights.sum(1, keepdim=True)
    return torch.sum(weights[:, :, None] * values, 1)


@right("context_vector")
def in_numpy_and_back(weights, values):
    return torch.from_numpy((weights.numpy()[:, :, None] * values.numpy()).sum(axis=1))


@right("context_vector")
def with_tensordot_and_diagonal(weights, values):
    table = torch.tensordot(weights.double(), values.double(), dims=([1], [1]))  # (B, B, d_v)
    return table.diagonal().T


@wrong("context_vector", "only the last key's share is kept")
def overwritten_in_the_loop(weights, values):
    """= for +=."""
    for j in range(values.shape[1]):
        context = weights[:, j, None] * values[:, j]
    return context


@wrong("context_vector", "The result is None")
def no_return(weights, values):
    """Typed in a notebook, where the last line shows its value."""
    torch.bmm(weights.unsqueeze(1), values).squeeze(1)


@wrong("context_vector", "changed its argument values")
def multiplied_in_place(weights, values):
    """*= on the values."""
    values *= weights.unsqueeze(2)
    return values.sum(1)


# ---- repaired_context


def soft_read(scores, keys):
    weights = scores.softmax(1)
    return (weights.unsqueeze(1) @ keys).squeeze(1), weights


def additive(query, keys, W_q, W_k, v):
    return torch.tanh((query @ W_q).unsqueeze(1) + keys @ W_k) @ v


def is_real(keys, lengths):
    return torch.arange(keys.shape[1]) < lengths.unsqueeze(1)


@right("repaired_context")
def with_where(query, keys, lengths, W_q, W_k, v):
    scores = additive(query, keys, W_q, W_k, v)
    return soft_read(torch.where(is_real(keys, lengths), scores, -torch.inf), keys)


@right("repaired_context")
def with_a_large_negative_number(query, keys, lengths, W_q, W_k, v):
    scores = additive(query, keys, W_q, W_k, v)
    return soft_read(scores.masked_fill(is_real(keys, lengths) == 0, -1e9), keys)


@right("repaired_context")
def each_sentence_alone(query, keys, lengths, W_q, W_k, v):
    contexts, table = [], torch.zeros(keys.shape[:2], dtype=keys.dtype)
    for b, length in enumerate(lengths.tolist()):
        weights = F.softmax(torch.tanh(query[b] @ W_q + keys[b, :length] @ W_k) @ v, dim=0)
        table[b, :length] = weights
        contexts.append(weights @ keys[b, :length])
    return torch.stack(contexts), table


@right("repaired_context")
def renormalised_after_the_softmax(query, keys, lengths, W_q, W_k, v):
    weights = additive(query, keys, W_q, W_k, v).softmax(1) * is_real(keys, lengths)
    weights = weights / weights.sum(1, keepdim=True)
    return torch.einsum("bk,bkd->bd", weights, keys), weights


@right("repaired_context")
def with_logsumexp(query, keys, lengths, W_q, W_k, v):
    scores = additive(query, keys, W_q, W_k, v)
    scores = scores.masked_fill(~is_real(keys, lengths), -math.inf)
    weights = (scores - scores.logsumexp(1, keepdim=True)).exp()
    return torch.einsum("bk,bkd->bd", weights, keys), weights


@right("repaired_context")
def a_list_of_two_in_numpy(query, keys, lengths, W_q, W_k, v):
    query, keys, W_q, W_k, v = (x.double().numpy() for x in (query, keys, W_q, W_k, v))
    scores = np.tanh((query @ W_q)[:, None] + keys @ W_k) @ v
    scores = np.where(np.arange(keys.shape[1]) < lengths.numpy()[:, None], scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    context = np.einsum("bk,bkd->bd", weights, keys)
    return [torch.from_numpy(context), torch.from_numpy(weights)]


@wrong("repaired_context", "NaN", "over the keys, dim=1")
def over_the_batch_with_infinity(query, keys, lengths, W_q, W_k, v):
    """dim=0 with −inf: where no sentence has a real state, all scores are −inf."""
    scores = additive(query, keys, W_q, W_k, v)
    weights = scores.masked_fill(~is_real(keys, lengths), -math.inf).softmax(0)
    return (weights.unsqueeze(1) @ keys).squeeze(1), weights


@wrong("repaired_context", "2 results: (context, weights)")
def only_the_context(query, keys, lengths, W_q, W_k, v):
    """The weights are forgotten."""
    return with_where(query, keys, lengths, W_q, W_k, v)[0]


@wrong("repaired_context", "wrong order: return (context, weights)")
def the_wrong_way_round(query, keys, lengths, W_q, W_k, v):
    """Weights first."""
    return with_where(query, keys, lengths, W_q, W_k, v)[::-1]


@right("repaired_context")
def with_exp_times_the_mask(query, keys, lengths, W_q, W_k, v):
    exp = additive(query, keys, W_q, W_k, v).exp() * is_real(keys, lengths)
    weights = exp / exp.sum(1, keepdim=True)
    return (weights.unsqueeze(2) * keys).sum(1), weights


@wrong("repaired_context", "ask `lengths` where −inf belongs")
def masked_where_the_score_is_0(query, keys, lengths, W_q, W_k, v):
    """Multiplied by the mask, then `scores == 0`: with v = 0 all of them are."""
    scores = additive(query, keys, W_q, W_k, v) * is_real(keys, lengths)
    return soft_read(scores.masked_fill(scores == 0, -math.inf), keys)


@wrong("repaired_context", "0 · (−inf) is NaN", "masked_fill")
def multiplied_by_minus_infinity(query, keys, lengths, W_q, W_k, v):
    """The additive mask as a product: where nothing is masked it is 0 · (−inf)."""
    mask = ~is_real(keys, lengths) * -math.inf
    return soft_read(additive(query, keys, W_q, W_k, v) + mask, keys)


ROOM = {}


@wrong("context_vector", "Make a new one in each call")
def the_same_room(weights, values):
    """A buffer saves memory, and every context that was kept becomes the last one."""
    shape = values.shape[0], values.shape[2]
    room = ROOM.setdefault((shape, values.dtype), torch.empty(shape, dtype=values.dtype))
    return torch.sum(weights.unsqueeze(2) * values, dim=1, out=room)


def context_filled_with(fill):
    def answer(query, keys, lengths, W_q, W_k, v):
        scores = torch.tanh((query @ W_q)[:, None] + keys @ W_k) @ v
        real = torch.arange(keys.shape[1]) < lengths[:, None]
        weights = scores.masked_fill(~real, fill).softmax(1)
        return (weights[:, None] @ keys)[:, 0], weights

    return answer


@right("repaired_context")
def padding_at_minus_a_billion(*given):
    return context_filled_with(-1e9)(*given)
