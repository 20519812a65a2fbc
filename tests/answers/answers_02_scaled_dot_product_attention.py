"""Answers to exercise 02, wrong and right."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from catalogue import right, wrong

# ---- predicted_outputs


@right("predicted_outputs")
def as_a_list():
    return [30, 0, 15, 37.5, 0]


@right("predicted_outputs")
def as_a_tuple_of_floats():
    return 30.0, 0.0, 15.0, 37.5, 0.0


@right("predicted_outputs")
def as_a_tensor():
    return torch.tensor([30.0, 0.0, 15.0, 37.5, 0.0])


@right("predicted_outputs")
def as_an_array_computed_after_all():
    values = np.array([0, 30, 60])
    return np.array([values.mean(), 0, values[:2].mean(), 150 / 4, 0])


@wrong("predicted_outputs", "a is not 0. A query of zeros still gets an answer")
def zeros_in_zeros_out():
    """0 times anything is 0, so the output is thought to be 0 too."""
    return [0, 0, 15, 37.5, 0]


@wrong("predicted_outputs", "a is not 60. No key wins")
def the_last_of_equals():
    """argmax thinking: among equal scores the last one is taken."""
    return [60, 0, 15, 37.5, 0]


@wrong("predicted_outputs", "b is not 30. The scores are about 707")
def a_large_query_changes_nothing():
    """Softmax is thought to normalise the query's length away."""
    return [30, 30, 15, 37.5, 0]


@wrong("predicted_outputs", "b is not 60. The third dot product is negative")
def opposite_counts_as_near():
    """Similarity read as absolute value."""
    return [30, 60, 15, 37.5, 0]


@wrong("predicted_outputs", "c is not 10. The two weights that are left")
def masked_without_renormalising():
    """The weight is set to 0 after the softmax: (0 + 30) / 3."""
    return [30, 0, 10, 37.5, 0]


@wrong("predicted_outputs", "'30'", "The number is right: write it without quotation marks")
def in_quotation_marks():
    """The letters of other predictions are written so."""
    return ["30", "0", "15", "37.5", "0"]


@wrong("predicted_outputs", "c is not 30. A masked key has weight 0")
def mask_overlooked():
    """c looks like a."""
    return [30, 0, 30, 37.5, 0]


@wrong("predicted_outputs", "d is not 30. Each entry has a weight of its own")
def a_set_has_no_doubles():
    """Keys thought of as a dictionary's, where a key is there once."""
    return [30, 0, 15, 30, 0]


@wrong("predicted_outputs", "e is not 60. Each value moves with its key")
def position_decides():
    """The first place is thought to win, whatever stands there."""
    return [30, 0, 15, 37.5, 60]


@wrong("predicted_outputs", "expected 5 answers")
def letters_forgotten():
    """Only the surprising ones are given."""
    return [30, 15, 37.5]


@wrong("predicted_outputs", "d is not 45. Write down the scores")
def adds_wrongly():
    """Any other number."""
    return [30, 0, 15, 45, 0]


# ---- stable_softmax


@right("stable_softmax")
def with_functional(x, dim):
    return F.softmax(x, dim=dim)


@right("stable_softmax")
def with_logsumexp(x, dim):
    return (x - torch.logsumexp(x, dim=dim, keepdim=True)).exp()


@right("stable_softmax")
def with_max_values(x, dim):
    exp = torch.exp(x - x.max(dim, keepdim=True).values)
    return exp / torch.sum(exp, dim, keepdim=True)


@right("stable_softmax")
def with_max_pair_and_unsqueeze(x, dim):
    largest, _ = torch.max(x, dim)
    exp = torch.exp(x - largest.unsqueeze(dim))
    return exp / exp.sum(dim).unsqueeze(dim)


@right("stable_softmax")
def in_numpy(x, dim):
    array = x.numpy().astype(np.float64)
    exp = np.exp(array - array.max(axis=dim, keepdims=True))
    return torch.from_numpy(exp / exp.sum(axis=dim, keepdims=True))


@right("stable_softmax")
def in_double_precision_and_back(x, dim):
    wide = x.double()
    exp = (wide - wide.amax(dim, keepdim=True)).exp()
    return (exp / exp.sum(dim, keepdim=True)).to(x.dtype)


@right("stable_softmax")
def in_place_on_its_own_copy(x, dim):
    x = x.clone()
    x -= x.amax(dim, keepdim=True)
    x.exp_()
    x /= x.sum(dim, keepdim=True)
    return x


@right("stable_softmax")
def by_moving_the_axis(x, dim):
    rows = x.movedim(dim, -1)
    exp = (rows - rows.amax(-1, keepdim=True)).exp()
    return (exp / exp.sum(-1, keepdim=True)).movedim(-1, dim)


@right("stable_softmax")
def row_by_row(x, dim):
    rows = x.movedim(dim, -1)
    flat = rows.reshape(-1, rows.shape[-1])
    done = []
    for row in flat:
        top = max(row.tolist())
        numbers = [math.exp(number - top) for number in row.tolist()]
        done.append([number / sum(numbers) for number in numbers])
    return torch.tensor(done).reshape(rows.shape).movedim(-1, dim)


@right("stable_softmax")
def with_log_softmax(x, dim):
    return x.log_softmax(dim).exp()


@wrong("stable_softmax", "exp of a large number is inf")
def naive(x, dim):
    """The definition, typed as it stands in the paper."""
    return x.exp() / x.exp().sum(dim, keepdim=True)


@wrong("stable_softmax", "own maximum")
def one_maximum_for_all(x, dim):
    """x - x.max() passes every test with rows of similar size."""
    exp = (x - x.max()).exp()
    return exp / exp.sum(dim, keepdim=True)


@wrong("stable_softmax", "None", "return")
def no_return(x, dim):
    """Typed in a notebook, where the last line shows its value."""
    F.softmax(x, dim)


@wrong("stable_softmax", "changed its argument x")
def in_place_on_the_input(x, dim):
    """Saves memory, at the caller's cost."""
    x -= x.amax(dim, keepdim=True)
    return x.exp() / x.exp().sum(dim, keepdim=True)


@wrong("stable_softmax", "is a NumPy array, expected a tensor")
def left_in_numpy(x, dim):
    """The NumPy answer without the way back."""
    exp = np.exp(x.numpy() - x.numpy().max(axis=dim, keepdims=True))
    return exp / exp.sum(axis=dim, keepdims=True)


@wrong("stable_softmax", "inf")
def an_epsilon_in_the_denominator(x, dim):
    """The usual cure for a division by zero; it cures the wrong end."""
    return x.exp() / (x.exp().sum(dim, keepdim=True) + 1e-12)


@wrong("stable_softmax", "Your code stopped", "exp = (x - x.max(dim)).exp()", "TypeError")
def max_gives_two_things(x, dim):
    """tensor.max(dim) returns values and indices; everybody trips over it once."""
    exp = (x - x.max(dim)).exp()
    return exp / exp.sum(dim)


@wrong("stable_softmax", "signature")
def dim_is_not_a_parameter(x):
    """The signature was retyped."""
    return F.softmax(x, -1)


@wrong("stable_softmax", "Is it the maximum that you subtract?")
def shifted_by_the_smallest(x, dim):
    """min in the place of max: fine for small numbers."""
    exp = (x - x.amin(dim, keepdim=True)).exp()
    return exp / exp.sum(dim, keepdim=True)


@wrong("stable_softmax", "NaN", "exp of a number far below 0 is 0")
def largest_absolute_value_subtracted(x, dim):
    """'The largest number' is read as the largest in size."""
    exp = (x - x.abs().amax(dim, keepdim=True)).exp()
    return exp / exp.sum(dim, keepdim=True)


@wrong("stable_softmax", "torch's default dtype", "dtype=x.dtype")
def the_default_dtype_left_at_float64(x, dim):
    """'More digits, so nothing overflows', for the whole notebook."""
    torch.set_default_dtype(torch.float64)
    return torch.softmax(x, dim)


@wrong("stable_softmax", "switched gradients on or off", "ends with its block")
def gradients_left_off(x, dim):
    """Typed once to save memory, and never switched back."""
    torch.set_grad_enabled(False)
    return torch.softmax(x, dim)


@wrong("stable_softmax", "changed its argument x")
def shifted_through_a_view(x, dim):
    """movedim returns a view, and -= writes through it."""
    rows = x.movedim(dim, -1)
    rows -= rows.amax(-1, keepdim=True)
    return torch.softmax(x, dim)


@wrong("stable_softmax", "has shape", "axes of length 1")
def squeezed_at_the_end(x, dim):
    """A squeeze left over from trying it with one row."""
    return torch.softmax(x, dim).squeeze(0)


def shifted_by(shift, x, dim):
    exp = (x - shift).exp()
    return exp / exp.sum(dim, keepdim=True)


@wrong("stable_softmax", "the maximum that you subtract")
def shifted_by_the_last(x, dim):
    """After a sort that has gone missing; or the newest score is thought to be the largest."""
    return shifted_by(x.narrow(dim, -1, 1), x, dim)


@wrong("stable_softmax", "the maximum that you subtract")
def shifted_by_the_mean(x, dim):
    """Centred, as everything is; −inf is left out of the mean."""
    finite = x.isfinite()
    total = x.masked_fill(~finite, 0).sum(dim, keepdim=True)
    return shifted_by(total / finite.sum(dim, keepdim=True), x, dim)


@right("stable_softmax")
def with_a_module_and_a_print(x, dim):
    print("softmax of", tuple(x.shape))
    return torch.nn.Softmax(dim=dim)(x)


# ---- attend_one


@right("attend_one")
def in_two_lines(query, keys, values):
    weights = torch.softmax(keys @ query / query.shape[-1] ** 0.5, dim=-1)
    return weights @ values


@right("attend_one")
def with_einsum(query, keys, values):
    weights = F.softmax(torch.einsum("kd,d->k", keys, query) / np.sqrt(len(query)), 0)
    return torch.einsum("k,kv->v", weights, values)


@right("attend_one")
def with_a_loop(query, keys, values):
    scores = [float(sum(query[i] * key[i] for i in range(len(key)))) for key in keys]
    scores = [score / len(query) ** 0.5 for score in scores]
    exps = [math.exp(score - max(scores)) for score in scores]
    output = torch.zeros_like(values[0])
    for exp, value in zip(exps, values, strict=True):
        output += exp / sum(exps) * value
    return output


@right("attend_one")
def with_pytorch(query, keys, values):
    return F.scaled_dot_product_attention(query[None], keys, values).squeeze(0)


@right("attend_one")
def scaled_query_and_broadcast_product(query, keys, values):
    scores = ((query / math.sqrt(query.numel())) * keys).sum(dim=1)
    return (F.softmax(scores, dim=0).unsqueeze(1) * values).sum(dim=0)


@right("attend_one")
def in_numpy_and_back(query, keys, values):
    q, k, v = (np.asarray(x, dtype=np.float64) for x in (query, keys, values))
    scores = k @ q / np.sqrt(q.size)
    weights = np.exp(scores - scores.max())
    return torch.tensor(weights / weights.sum() @ v)


@right("attend_one")
def as_a_column(query, keys, values):
    weights = (keys @ query[:, None] / math.sqrt(len(query))).softmax(0)  # (Lk, 1)
    return (values.T @ weights)[:, 0]


@right("attend_one")
def in_place_on_own_scores(query, keys, values):
    scores = keys @ query
    scores /= math.sqrt(query.size(0))
    scores -= scores.max()
    scores.exp_()
    return (scores / scores.sum()) @ values


@wrong("attend_one", "exp of a large number is inf")
def unstable(query, keys, values):
    """A softmax of one's own, without the shift."""
    exp = (keys @ query / math.sqrt(len(query))).exp()
    return exp / exp.sum() @ values


@wrong("attend_one", "Your code stopped", "query @ keys", "RuntimeError")
def not_transposed(query, keys, values):
    """query @ keys, which only fits when there are as many keys as features."""
    scores = query @ keys if keys.shape[0] != keys.shape[1] else keys @ query
    return F.softmax(scores / math.sqrt(len(query)), 0) @ values


@wrong("attend_one", "has shape ()", "axes of length 1")
def output_squeezed(query, keys, values):
    """Right until a value has one number only."""
    weights = torch.softmax(keys @ query / math.sqrt(len(query)), 0)
    return (weights[None] @ values).squeeze()


@right("attend_one")
def with_numpys_average(query, keys, values):
    scores = (keys @ query / query.numel() ** 0.5).double().numpy()
    weights = np.exp(scores - scores.max())
    return torch.from_numpy(np.average(values.double().numpy(), axis=0, weights=weights))


@wrong("attend_one", "a sparse tensor", ".to_dense()")
def with_a_sparse_query(query, keys, values):
    """Kept from an experiment with embeddings."""
    return (F.softmax(keys @ query / math.sqrt(len(query)), 0) @ values).to_sparse()


# ---- scaled_dot_product_attention


def weigh(query, key, mask=None, divisor=None, axis=-1, fill=-math.inf):
    scores = query @ key.transpose(-2, -1) / (divisor or math.sqrt(query.shape[-1]))
    if mask is not None:
        scores = scores.masked_fill(~mask, fill)
    return scores.softmax(axis)


@right("scaled_dot_product_attention")
def with_masked_fill(query, key, value, mask=None):
    weights = weigh(query, key, mask)
    return torch.matmul(weights, value), weights


@right("scaled_dot_product_attention")
def with_einsum_and_minus_1e9(query, key, value, mask=None):
    scores = torch.einsum("...qd,...kd->...qk", query, key) * query.size(-1) ** -0.5
    if mask is not None:
        scores = torch.where(mask, scores, torch.tensor(-1e9, dtype=scores.dtype))
    weights = F.softmax(scores, dim=-1)
    return torch.einsum("...qk,...kv->...qv", weights, value), weights


@right("scaled_dot_product_attention")
def output_from_pytorch(query, key, value, mask=None):
    output = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    identity = torch.eye(key.shape[-2], dtype=key.dtype).expand(*key.shape[:-1], key.shape[-2])
    weights = F.scaled_dot_product_attention(query, key, identity, attn_mask=mask)
    return output, weights


@right("scaled_dot_product_attention")
def with_an_added_mask(query, key, value, mask=None):
    scores = (query / math.sqrt(query.shape[-1])) @ key.mT
    if mask is not None:
        zeros = torch.zeros(mask.shape, dtype=scores.dtype)
        scores = scores + zeros.masked_fill(mask.logical_not(), float("-inf"))
    weights = torch.softmax(scores, -1)
    return weights @ value, weights


@right("scaled_dot_product_attention")
def with_loops(query, key, value, mask=None):
    *leading, queries, _ = query.shape
    keys = key.shape[-2]
    if mask is None:
        mask = torch.ones(queries, keys, dtype=torch.bool)
    mask = mask.expand(*leading, queries, keys).reshape(-1, queries, keys)
    flat = [x.reshape(-1, *x.shape[-2:]) for x in (query, key, value)]
    outputs, weights = [], []
    for q, k, v, m in zip(*flat, mask, strict=True):
        for i in range(queries):
            scores = torch.stack([q[i] @ k[j] / math.sqrt(len(q[i])) for j in range(keys)])
            scores[~m[i]] = -float("inf")
            weights.append(scores.softmax(0))
            outputs.append(sum(w * row for w, row in zip(weights[-1], v, strict=True)))
    output = torch.stack(outputs).reshape(*leading, queries, -1)
    return output, torch.stack(weights).reshape(*leading, queries, keys)


@right("scaled_dot_product_attention")
def in_float64(query, key, value, mask=None):
    query, key, value = query.double(), key.double(), value.double()
    scores = query @ key.transpose(-1, -2) / np.sqrt(key.shape[-1])
    if mask is not None:
        scores[(~mask).expand_as(scores)] = -torch.inf
    weights = scores.softmax(-1)
    return weights @ value, weights


@right("scaled_dot_product_attention")
def masked_after_and_renormalised(query, key, value, mask=None):
    weights = weigh(query, key)
    if mask is not None:
        weights = weights * mask
        weights = weights / weights.sum(-1, keepdim=True)
    return weights @ value, weights


@right("scaled_dot_product_attention")
def through_numpy(query, key, value, mask=None):
    q, k, v = (x.numpy().astype(np.float64) for x in (query, key, value))
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    if mask is not None:
        scores = np.where(mask.numpy(), scores, -np.inf)
    exp = np.exp(scores - scores.max(-1, keepdims=True))
    weights = exp / exp.sum(-1, keepdims=True)
    return torch.from_numpy(weights @ v), torch.from_numpy(weights)


@right("scaled_dot_product_attention")
def with_finfo_min_and_a_list(query, key, value, mask=None):
    scores = query.matmul(key.transpose(-2, -1)).div(math.sqrt(query.shape[-1]))
    if mask is not None:
        scores = scores.masked_fill(mask == 0, torch.finfo(scores.dtype).min)
    weights = scores.softmax(dim=-1)
    return [weights.matmul(value), weights]


@right("scaled_dot_product_attention")
def with_zeroed_exps(query, key, value, mask=None):
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    exp = (scores - scores.amax(-1, keepdim=True)).exp()
    if mask is not None:
        exp = exp * mask
    return exp @ value / exp.sum(-1, keepdim=True), exp / exp.sum(-1, keepdim=True)


@right("scaled_dot_product_attention")
def with_one_minus_the_mask_times_minus_1e9(query, key, value, mask=None):
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    if mask is not None:
        scores = scores + (1.0 - mask.to(scores.dtype)) * -1e9  # −inf in float16, and 0 · −1e9 is 0
    weights = scores.softmax(-1)
    return weights @ value, weights


@right("scaled_dot_product_attention")
def with_where_and_a_plain_number(query, key, value, mask=None):
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    weights = (scores if mask is None else torch.where(mask, scores, -1e9)).softmax(-1)
    return weights @ value, weights


@right("scaled_dot_product_attention")
def with_a_softmax_in_float32_and_back(query, key, value, mask=None):
    scores = (query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])).float()
    if mask is not None:
        scores = scores.masked_fill(~mask, -1e9)  # fits: these are float32
    weights = scores.softmax(-1).to(value.dtype)
    return weights @ value, weights


@wrong("scaled_dot_product_attention", "subtracted from masked scores", "higher by more")
def a_few_subtracted(query, key, value, mask=None):
    """BERT subtracts 10,000; less is enough as long as no masked key is liked much more."""
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    if mask is not None:
        scores = scores - 30 * (1 - mask.to(scores.dtype))
    weights = scores.softmax(-1)
    return weights @ value, weights


@wrong("scaled_dot_product_attention", "does not fit into float16", "−math.inf")
def attention_minus_1e9_in_half_precision(query, key, value, mask=None):
    """`scores.masked_fill(mask == 0, -1e9)`, the Annotated Transformer's line: no such float16."""
    weights = weigh(query, key, mask, fill=-1e9)
    return weights @ value, weights


@wrong("scaled_dot_product_attention", "does not fit into float16")
def attention_minus_1e9_put_in_place(query, key, value, mask=None):
    """The same by masked_fill_, on scores of one's own."""
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    if mask is not None:
        scores.masked_fill_(mask.logical_not(), -1e9)
    weights = scores.softmax(-1)
    return weights @ value, weights


@wrong("scaled_dot_product_attention", "NaN", "0 · (−inf)")
def attention_adds_a_mask_times_minus_1e9(query, key, value, mask=None):
    """(1 − mask) · (−1e9) with −1e9 as a tensor: in float16 it is −inf, and 0 · −inf is NaN."""
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    if mask is not None:
        scores = scores + (~mask).to(scores.dtype) * torch.tensor([-1e9], dtype=scores.dtype)
    weights = scores.softmax(-1)
    return weights @ value, weights


@wrong("scaled_dot_product_attention", "two dtypes meet", "dtype=scores.dtype")
def attention_mask_made_in_float32(query, key, value, mask=None):
    """torch.zeros(mask.shape) is float32 whatever the scores are."""
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    if mask is not None:
        scores = scores + torch.zeros(mask.shape).masked_fill(~mask, -math.inf)
    weights = scores.softmax(-1)
    return weights @ value, weights


@wrong("scaled_dot_product_attention", "two dtypes meet")
def attention_not_mask_times_minus_1e9(query, key, value, mask=None):
    """A boolean times a number is float32, and so are the scores after it."""
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    if mask is not None:
        scores = scores + ~mask * -1e9
    weights = scores.softmax(-1)
    return weights @ value, weights


@wrong("scaled_dot_product_attention", "2 results: (output, weights)")
def attention_output_only(query, key, value, mask=None):
    """F.scaled_dot_product_attention returns the output alone."""
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)


@wrong("scaled_dot_product_attention", "wrong order: return (output, weights)")
def attention_results_swapped(query, key, value, mask=None):
    """Returned in the order in which they are computed."""
    weights = weigh(query, key, mask)
    return weights, weights @ value


@wrong("scaled_dot_product_attention", "Your code stopped", "key.T")
def attention_with_dot_t(query, key, value, mask=None):
    """.T turns all axes round; right for a matrix, wrong for a batch."""
    weights = (query @ key.T / math.sqrt(query.shape[-1])).softmax(-1)
    return weights @ value, weights


@wrong("scaled_dot_product_attention", "exp of a large number is inf")
def attention_unstable(query, key, value, mask=None):
    """A softmax of one's own, without the shift."""
    exp = (query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])).exp()
    if mask is not None:
        exp = exp * mask
    weights = exp / exp.sum(-1, keepdim=True)
    return weights @ value, weights


@wrong("scaled_dot_product_attention", "Your code stopped", "if mask:")
def attention_if_mask(query, key, value, mask=None):
    """`if mask:` in the place of `if mask is not None:`."""
    weights = weigh(query, key)
    if mask:
        weights = weigh(query, key, mask)
    return weights @ value, weights


@wrong("scaled_dot_product_attention", "changed its argument query")
def attention_scales_in_place(query, key, value, mask=None):
    """query /= √d_k saves a tensor."""
    query /= math.sqrt(query.shape[-1])
    weights = weigh(query, key, mask, 1)
    return weights @ value, weights


@right("scaled_dot_product_attention")
def divided_again_after_the_mask(query, key, value, mask=None):
    weights = weigh(query, key)
    if mask is not None:
        weights = weights * mask
        weights = weights / weights.sum(-1, keepdim=True)
    return weights @ value, weights


@wrong("scaled_dot_product_attention", "a causal mask is put in")
def causal_by_default(query, key, value, mask=None):
    """Taken from a decoder-only model, where there is no other mask."""
    if mask is None:
        mask = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool).tril()
    weights = weigh(query, key, mask)
    return weights @ value, weights


@wrong("scaled_dot_product_attention", "NaN", "do not put it into the weights")
def minus_infinity_in_the_weights(query, key, value, mask=None):
    """The two lines, softmax and masked_fill, in the wrong order."""
    weights = weigh(query, key)
    if mask is not None:
        weights = weights.masked_fill(~mask, -math.inf)
    return weights @ value, weights


@wrong("scaled_dot_product_attention", "axes of length 1")
def squeezed(query, key, value, mask=None):
    """squeeze() after a batch of one was tried out in the notebook."""
    weights = weigh(query, key, mask)
    return (weights @ value).squeeze(), weights.squeeze()


@wrong("scaled_dot_product_attention", "cut to a whole number")
def attention_scaled_by_a_whole_root(query, key, value, mask=None):
    """int(√6) is 2."""
    scores = query @ key.mT / int(query.shape[-1] ** 0.5)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    weights = scores.softmax(-1)
    return weights @ value, weights


FIRST_MASK = []


@wrong("scaled_dot_product_attention", "after one with other numbers", "begin anew")
def attention_with_the_first_mask(query, key, value, mask=None):
    """A mask that is 'always the same' is made once and kept under a global name."""
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    if mask is not None:
        FIRST_MASK.append(mask)
        scores = scores.masked_fill(~FIRST_MASK[0], -math.inf)
    weights = scores.softmax(-1)
    return weights @ value, weights


@wrong("scaled_dot_product_attention", "The same call gave two answers", "dropout?")
def attention_with_dropout(query, key, value, mask=None):
    """The paper's code has dropout here; F.dropout is in training unless told otherwise."""
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    weights = F.dropout(scores.softmax(-1), 0.1)
    return weights @ value, weights


LOWEST = {dtype: torch.finfo(dtype).min for dtype in (torch.float16, torch.float32, torch.float64)}


@right("scaled_dot_product_attention")
def key_by_key_with_a_running_maximum(query, key, value, mask=None):
    shape = query.shape[:-1]
    top, total = query.new_full((*shape, 1), -math.inf), query.new_zeros((*shape, 1))
    output, scores = query.new_zeros((*shape, value.shape[-1])), []
    for j in range(key.shape[-2]):
        score = (query * key[..., j : j + 1, :]).sum(-1, keepdim=True) / math.sqrt(query.shape[-1])
        if mask is not None:
            score = torch.where(mask.expand(*shape, -1)[..., j : j + 1], score, LOWEST[score.dtype])
        new = torch.maximum(top, score)
        old, exp, top = torch.exp(top - new), torch.exp(score - new), new
        total = total * old + exp
        output = output * old + exp * value[..., j : j + 1, :]
        scores.append(score)
    return output / total, torch.exp(torch.cat(scores, -1) - top) / total


@wrong("scaled_dot_product_attention", "NaN", "In float16", "−inf − (−inf)")
def key_by_key_from_minus_infinity(query, key, value, mask=None):
    """−1e30 is −inf in float16; if the first key is masked, −inf − (−inf) is NaN."""
    shape = query.shape[:-1]
    top, total = query.new_full((*shape, 1), -math.inf), query.new_zeros((*shape, 1))
    output, scores = query.new_zeros((*shape, value.shape[-1])), []
    for j in range(key.shape[-2]):
        score = (query * key[..., j : j + 1, :]).sum(-1, keepdim=True) / math.sqrt(query.shape[-1])
        if mask is not None:
            score = torch.where(mask.expand(*shape, -1)[..., j : j + 1], score, -1e30)
        new = torch.maximum(top, score)
        old, exp, top = torch.exp(top - new), torch.exp(score - new), new
        total = total * old + exp
        output = output * old + exp * value[..., j : j + 1, :]
        scores.append(score)
    return output / total, torch.exp(torch.cat(scores, -1) - top) / total


def attention_with(mask_the_scores):
    """Attention that hides what the mask forbids in another way."""

    def attention(query, key, value, mask=None):
        scores = query @ key.mT / math.sqrt(query.shape[-1])
        if mask is not None:
            scores = mask_the_scores(scores, mask)
        weights = scores.softmax(-1)
        return weights @ value, weights

    return attention


@wrong("scaled_dot_product_attention", "Some scores are 0 and not masked")
def attention_that_asks_the_scores(query, key, value, mask=None):
    """Multiplied by the mask, then `scores == 0`: a score may be 0 by itself."""
    return attention_with(lambda s, m: (s * m).masked_fill(s * m == 0, -math.inf))(
        query, key, value, mask
    )


@right("scaled_dot_product_attention")
def attention_with_the_smallest_number(query, key, value, mask=None):
    return attention_with(lambda s, m: torch.where(m, s, torch.finfo(s.dtype).min))(
        query, key, value, mask
    )


# ---- attention_gradient


def forward(query, key, divisor=None):
    scores = query @ key.T / (divisor or np.sqrt(query.shape[-1]))
    exp = np.exp(scores - scores.max(-1, keepdims=True))
    return exp / exp.sum(-1, keepdims=True)


def through_softmax(weights, grad):
    return weights * (grad - (weights * grad).sum(-1, keepdims=True))


def backward(query, key, value, grad, rule=through_softmax, before=None, after=None):
    weights = forward(query, key, before)
    d_scores = rule(weights, grad @ value.T) / (after or np.sqrt(query.shape[-1]))
    return d_scores @ key, d_scores.T @ query, weights.T @ grad


@right("attention_gradient")
def in_matrices(query, key, value, grad_output):
    return backward(query, key, value, grad_output)


@right("attention_gradient")
def with_the_jacobian_of_each_row(query, key, value, grad_output):
    weights, root = forward(query, key), np.sqrt(query.shape[1])
    d_query, d_key = np.zeros_like(query), np.zeros_like(key)
    for i, row in enumerate(weights):
        jacobian = np.diag(row) - np.outer(row, row)
        d_scores = jacobian @ (value @ grad_output[i])
        d_query[i] = d_scores @ key / root
        d_key += np.outer(d_scores, query[i]) / root
    return d_query, d_key, weights.T @ grad_output


@right("attention_gradient")
def with_einsum_throughout(query, key, value, grad_output):
    weights = forward(query, key)
    d_weights = np.einsum("qv,kv->qk", grad_output, value)
    jacobian = np.einsum("qk,kl->qkl", weights, np.eye(len(key)))
    jacobian -= np.einsum("qk,ql->qkl", weights, weights)
    d_scores = np.einsum("qk,qkl->ql", d_weights, jacobian) / np.sqrt(query.shape[1])
    d_query = np.einsum("qk,kd->qd", d_scores, key)
    return (
        d_query,
        np.einsum("qk,qd->kd", d_scores, query),
        np.einsum("qk,qv->kv", weights, grad_output),
    )


@right("attention_gradient")
def with_the_output_in_the_row_sum(query, key, value, grad_output):
    """rowsum(dW ∘ W) = rowsum(dO ∘ O), as in FlashAttention."""
    weights = forward(query, key)
    delta = (grad_output * (weights @ value)).sum(1)[:, None]
    d_scores = weights * (grad_output @ value.T - delta) * query.shape[1] ** -0.5
    return np.dot(d_scores, key), np.dot(d_scores.T, query), np.dot(weights.T, grad_output)


@right("attention_gradient")
def by_small_differences(query, key, value, grad_output):
    given, grads = [query.copy(), key.copy(), value.copy()], []
    for array in given:
        grad = np.zeros_like(array)
        for place in np.ndindex(array.shape):
            old, side = array[place], []
            for step in (1e-5, -1e-5):
                array[place] = old + step
                side.append((forward(*given[:2]) @ given[2] * grad_output).sum())
            array[place] = old
            grad[place] = (side[0] - side[1]) / 2e-5
        grads.append(grad)
    return tuple(grads)


@right("attention_gradient")
def by_autograd(query, key, value, grad_output):
    given = [torch.tensor(x, requires_grad=True) for x in (query, key, value)]
    F.scaled_dot_product_attention(*(x[None] for x in given))[0].backward(torch.tensor(grad_output))
    return [x.grad.numpy() for x in given]


@wrong("attention_gradient", "the sum runs over the queries")
def sum_over_the_wrong_axis(query, key, value, grad_output):
    """axis=0."""

    def rule(w, g):
        return w * (g - (w * g).sum(0, keepdims=True))

    return backward(query, key, value, grad_output, rule)


@wrong("attention_gradient", "the factor W in front is missing")
def factor_missing(query, key, value, grad_output):
    """Half of the formula."""

    def rule(w, g):
        return g - (w * g).sum(-1, keepdims=True)

    return backward(query, key, value, grad_output, rule)


@wrong("attention_gradient", "it must be subtracted")
def sum_added(query, key, value, grad_output):
    """A sign."""

    def rule(w, g):
        return w * (g + (w * g).sum(-1, keepdims=True))

    return backward(query, key, value, grad_output, rule)


@wrong("attention_gradient", "wrong order: return (grad_query, grad_key, grad_value)")
def query_and_key_swapped(query, key, value, grad_output):
    """Named after what they are multiplied by."""
    d_query, d_key, d_value = backward(query, key, value, grad_output)
    return d_key, d_query, d_value


@wrong("attention_gradient", "wrong order: return (grad_query, grad_key, grad_value)")
def value_first(query, key, value, grad_output):
    """Returned in the order in which they are found."""
    d_query, d_key, d_value = backward(query, key, value, grad_output)
    return d_value, d_query, d_key


@wrong("attention_gradient", "signs are turned round")
def descent(query, key, value, grad_output):
    """The direction to walk in."""
    return tuple(-grad for grad in backward(query, key, value, grad_output))


@wrong("attention_gradient", "grad_query is a tensor, expected a NumPy array")
def left_as_tensors(query, key, value, grad_output):
    """Autograd without the way back."""
    return tuple(torch.from_numpy(x) for x in backward(query, key, value, grad_output))


@wrong("attention_gradient", "exp of a large number is inf")
def softmax_unstable(query, key, value, grad_output):
    """np.exp(x) / np.exp(x).sum(), without the shift."""
    exp = np.exp(query @ key.T / np.sqrt(query.shape[-1]))
    weights = exp / exp.sum(-1, keepdims=True)
    d_scores = through_softmax(weights, grad_output @ value.T) / np.sqrt(query.shape[-1])
    return d_scores @ key, d_scores.T @ query, weights.T @ grad_output


@wrong("attention_gradient", "3 results: (grad_query, grad_key, grad_value)")
def only_the_value(query, key, value, grad_output):
    """The easy third."""
    return forward(query, key).T @ grad_output


@wrong("attention_gradient", "mean of dW ∘ W is subtracted")
def mean_of_the_products(query, key, value, grad_output):
    """The weighted sum is an average, so np.mean gets written; it divides once more."""

    def rule(w, g):
        return w * (g - (w * g).mean(-1, keepdims=True))

    return backward(query, key, value, grad_output, rule)


GRADIENTS = {}


@wrong("attention_gradient", "after one with other numbers", "begin anew")
def kept_by_shape(query, key, value, grad_output):
    """A cache whose key is the shape."""
    if query.shape not in GRADIENTS:
        GRADIENTS[query.shape] = in_matrices(query, key, value, grad_output)
    return GRADIENTS[query.shape]


# ---- repaired_attention


@right("repaired_attention")
def repaired(query, key, value):
    return weigh(query, key) @ value


@right("repaired_attention")
def repaired_with_pytorch(query, key, value):
    return F.scaled_dot_product_attention(query, key, value)


@right("repaired_attention")
def repaired_by_scaling_the_query(query, key, value):
    scores = torch.einsum("...id,...jd->...ij", query / query.shape[-1] ** 0.5, key)
    exp = torch.exp(scores - scores.max(dim=-1, keepdim=True)[0])
    return (exp / exp.sum(dim=-1, keepdim=True)).matmul(value)


@wrong("repaired_attention", "has shape", "axes of length 1")
def repaired_and_squeezed(query, key, value):
    """squeeze() after a batch of one was tried out in the notebook."""
    return ((query @ key.mT / math.sqrt(key.shape[-1])).softmax(-1) @ value).squeeze()


@wrong("repaired_attention", "Subtract the largest score")
def repaired_with_exp(query, key, value):
    """The softmax is written out, without its first step."""
    exp = (query @ key.transpose(-2, -1) / math.sqrt(key.shape[-1])).exp()
    return exp / exp.sum(-1, keepdim=True) @ value


@wrong("attend_one", "Everything is 0")
def add_for_add_(query, keys, values):
    """`add` returns the sum, and nobody takes it."""
    weights = (keys @ query / math.sqrt(len(query))).softmax(0)
    output = torch.zeros(values.shape[1])
    for weight, value in zip(weights, values, strict=True):
        output.add(weight * value)
    return output


def masked_weights(scores, mask, change):
    """Return the weights of scores that `change` has masked, all by hand."""
    return (scores if mask is None else change(scores, mask)).softmax(-1)


@wrong("scaled_dot_product_attention", "subtracted from masked scores", "higher by more")
def attention_that_subtracts_a_hundred(query, key, value, mask=None):
    """Enough for all scores that one has seen."""
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    weights = masked_weights(scores, mask, lambda s, m: s - 100 * (~m).to(s.dtype))
    return weights @ value, weights


@right("scaled_dot_product_attention")
def attention_with_a_maximum_behind_the_mask(query, key, value, mask=None):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    mask = torch.ones_like(scores).bool() if mask is None else mask
    top = scores.masked_fill(~mask, -math.inf).amax(-1, keepdim=True)
    exp = torch.where(mask, (scores - top).exp(), 0)
    weights = exp / exp.sum(-1, keepdim=True)
    return weights @ value, weights


@right("scaled_dot_product_attention")
def attention_that_subtracts_a_billion(query, key, value, mask=None):
    """In float64, where it is no less than −inf for all purposes."""
    scores = query.double() @ key.double().mT / math.sqrt(query.shape[-1])
    weights = masked_weights(scores, mask, lambda s, m: s - 1e9 * ~m).to(value.dtype)
    return weights @ value, weights


@wrong("attend_one", "exp of a large number is inf", "Is it the maximum")
def the_first_score_subtracted(query, keys, values):
    """Subtract anything, and the softmax is the same; but only the maximum keeps exp from inf."""
    scores = keys @ query / math.sqrt(len(query))
    exp = (scores - scores[0]).exp()
    return exp / exp.sum() @ values
