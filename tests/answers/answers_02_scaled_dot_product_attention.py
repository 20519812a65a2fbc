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


@wrong("stable_softmax", "`dim` is ignored", "last axis")
def always_the_last_axis(x, dim):
    """Notes write softmax(x, dim=-1) everywhere, so it gets typed from habit."""
    return F.softmax(x, dim=-1)


@wrong("stable_softmax", "`dim` is ignored", "first axis")
def always_the_first_axis(x, dim):
    """The legacy default of F.softmax for vectors and three axes is dim=0."""
    return F.softmax(x, dim=0)


@wrong("stable_softmax", "exp of a large number is inf")
def naive(x, dim):
    """The definition, typed as it stands in the paper."""
    return x.exp() / x.exp().sum(dim, keepdim=True)


@wrong("stable_softmax", "the sum runs over the whole tensor")
def sum_of_everything(x, dim):
    """np.exp(x) / np.sum(np.exp(x)), the most copied softmax there is, given a matrix."""
    return x.exp() / x.exp().sum()


@wrong("stable_softmax", "the sum runs over the whole tensor")
def stable_sum_of_everything(x, dim):
    """The same with the maximum subtracted: e_x = exp(x - max(x)); e_x / e_x.sum()."""
    exp = (x - x.max()).exp()
    return exp / exp.sum()


@wrong("stable_softmax", "own maximum")
def one_maximum_for_all(x, dim):
    """x - x.max() passes every test with rows of similar size."""
    exp = (x - x.max()).exp()
    return exp / exp.sum(dim, keepdim=True)


@wrong("stable_softmax", "`keepdim=True` is missing in the sum")
def keepdim_missing_in_the_sum(x, dim):
    """Works for a vector and for a square matrix gives numbers."""
    exp = (x - x.amax(dim, keepdim=True)).exp()
    return exp / exp.sum(dim)


@wrong("stable_softmax", "`keepdim=True` is missing in the maximum")
def keepdim_missing_in_the_maximum(x, dim):
    """The sum was mended after an error, the maximum was not."""
    exp = (x - x.amax(dim)).exp()
    return exp / exp.sum(dim, keepdim=True)


@wrong("stable_softmax", "`keepdim=True` is missing in the maximum and in the sum")
def keepdim_missing_in_both(x, dim):
    """Translated from NumPy code for vectors."""
    exp = (x - x.amax(dim)).exp()
    return exp / exp.sum(dim)


@wrong("stable_softmax", "the maximum is taken along axis 2, and the sum along dim=1")
def maximum_along_the_last_axis(x, dim):
    """dim was put into the sum only."""
    exp = (x - x.amax(-1, keepdim=True)).exp()
    return exp / exp.sum(dim, keepdim=True)


@wrong("stable_softmax", "the division by the sum is missing")
def not_normalised(x, dim):
    """Stops after exp."""
    return x.exp()


@wrong("stable_softmax", "the division by the sum is missing")
def shifted_and_not_normalised(x, dim):
    """Stops after the stable exp."""
    return (x - x.amax(dim, keepdim=True)).exp()


@wrong("stable_softmax", "exp is missing")
def divided_by_the_sum(x, dim):
    """Normalising understood as dividing by the sum."""
    return x / x.sum(dim, keepdim=True)


@wrong("stable_softmax", "log-softmax")
def log_softmax(x, dim):
    """Taken from a classifier's last line."""
    return F.log_softmax(x, dim)


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


@wrong("stable_softmax", "cut off at a limit")
def clamped(x, dim):
    """Overflow cured by clamping."""
    exp = x.clamp(-80, 80).exp()
    return exp / exp.sum(dim, keepdim=True)


@wrong("stable_softmax", "inf")
def an_epsilon_in_the_denominator(x, dim):
    """The usual cure for a division by zero; it cures the wrong end."""
    return x.exp() / (x.exp().sum(dim, keepdim=True) + 1e-12)


@wrong("stable_softmax", "divided by the largest one before exp")
def divided_by_the_maximum(x, dim):
    """'Scale it down first', by a quotient."""
    return F.softmax(x / x.amax(dim, keepdim=True), dim)


@wrong("stable_softmax", "the largest number gets the smallest weight")
def shift_the_wrong_way_round(x, dim):
    """max − x in the place of x − max."""
    return F.softmax(x.amax(dim, keepdim=True) - x, dim)


@wrong("stable_softmax", "sigmoid")
def sigmoid(x, dim):
    """The function for two classes."""
    return x.sigmoid()


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


@wrong("stable_softmax", "the sum runs over the whole tensor")
def shifted_and_summed_over_everything(x, dim):
    """dim and keepdim are given to the maximum, and forgotten in the sum."""
    exp = (x - x.amax(dim, keepdim=True)).exp()
    return exp / exp.sum()


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


@wrong("stable_softmax", "−inf is replaced by a number")
def minus_fifty_for_infinity(x, dim):
    """exp(−50) is 0 for all purposes, unless the other scores are lower."""
    return F.softmax(x.nan_to_num(neginf=-50.0), dim)


@right("stable_softmax")
def with_a_module_and_a_print(x, dim):
    print("softmax of", tuple(x.shape))
    return torch.nn.Softmax(dim=dim)(x)


# ---- attend_one


def one_query(query, keys, divisor=None, axis=-1):
    return F.softmax(keys @ query / (divisor or math.sqrt(len(query))), axis)


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


@wrong("attend_one", "not divided by √d_k")
def no_scale(query, keys, values):
    """Luong's score, or the paper's equation without its denominator."""
    return one_query(query, keys, 1) @ values


@wrong("attend_one", "divided by d_k, not by its square root")
def scaled_by_d_k(query, keys, values):
    """Notes say: 'to keep softmax from saturating, divide by the dimension'."""
    return one_query(query, keys, len(query)) @ values


@wrong("attend_one", "multiplied by √d_k")
def scaled_the_wrong_way(query, keys, values):
    """* in the place of /."""
    return one_query(query, keys, 1 / math.sqrt(len(query))) @ values


@wrong("attend_one", "number of keys")
def scaled_by_the_number_of_keys(query, keys, values):
    """len(keys) is the number of keys, keys.shape[-1] their size."""
    return one_query(query, keys, math.sqrt(len(keys))) @ values


@wrong("attend_one", "softmax comes first")
def softmax_then_scale(query, keys, values):
    """A text on the subject says 'softmax, then scale'."""
    return one_query(query, keys, 1) / math.sqrt(len(query)) @ values


@wrong("attend_one", "the softmax is missing")
def no_softmax(query, keys, values):
    """Linear attention by accident."""
    return keys @ query / math.sqrt(len(query)) @ values


@wrong("attend_one", "the scores are divided by their sum")
def normalised_without_exp(query, keys, values):
    """Weights that add up to 1, the wrong way."""
    scores = keys @ query / math.sqrt(len(query))
    return scores / scores.sum() @ values


@wrong("attend_one", "the best key takes all")
def hard_look_up(query, keys, values):
    """'Each output is the one element most related to that word.'"""
    return values[(keys @ query).argmax()]


@wrong("attend_one", "the weights are returned")
def only_the_weights(query, keys, values):
    """Stops one line early."""
    return one_query(query, keys)


@wrong("attend_one", "keys are averaged in the place of values")
def keys_for_values(query, keys, values):
    """In the first lessons keys and values are the same vectors."""
    return one_query(query, keys) @ keys


@wrong("attend_one", "every key gets the same weight")
def plain_mean(query, keys, values):
    """Softmax over an axis of length 1, for instance, makes all weights equal."""
    return values.mean(0)


@wrong("attend_one", "keeps an axis of length 1")
def query_axis_left(query, keys, values):
    """F.scaled_dot_product_attention wants a matrix of queries and returns one."""
    return F.scaled_dot_product_attention(query[None], keys, values)


@wrong("attend_one", "not summed over the keys")
def no_sum(query, keys, values):
    """The weighted values, still side by side."""
    return one_query(query, keys)[:, None] * values


@wrong("attend_one", "it must run over the keys")
def summed_over_features(query, keys, values):
    """sum(-1) in the place of sum(0)."""
    return (one_query(query, keys)[:, None] * values).sum(-1)


@wrong("attend_one", "the weights already add up to 1")
def mean_of_weighted_values(query, keys, values):
    """'Average' typed as mean."""
    return (one_query(query, keys)[:, None] * values).mean(0)


@wrong("attend_one", "values @ weights")
def values_first(query, keys, values):
    """The column convention's O = V A, in rows."""
    return values @ one_query(query, keys)


@wrong("attend_one", "cosine similarity")
def cosine(query, keys, values):
    """The dot product taken for a cosine."""
    return F.softmax(F.cosine_similarity(keys, query[None], dim=-1), 0) @ values


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


@wrong("attend_one", "the key is not transposed")
def not_transposed_on_a_square(query, keys, values):
    """The same, caught where it gives numbers."""
    if keys.shape[0] == keys.shape[1]:
        return F.softmax(query @ keys / math.sqrt(len(query)), 0) @ values
    return one_query(query, keys) @ values


@wrong("attend_one", "sigmoid")
def gates(query, keys, values):
    """Each key switched on by itself."""
    return (keys @ query / math.sqrt(len(query))).sigmoid() @ values


@wrong("attend_one", "cut to a whole number", "math.isqrt")
def a_whole_root(query, keys, values):
    """math.isqrt is the first root that the editor offers."""
    return torch.softmax(keys @ query / math.isqrt(len(query)), 0) @ values


@wrong("attend_one", "makes 2 · d_k")
def exponent_without_brackets(query, keys, values):
    """** binds more tightly than /, so this is a division by 2 · d_k."""
    return torch.softmax(keys @ query / len(query) ** 1 / 2, 0) @ values


@wrong("attend_one", "8 is used for √d_k")
def the_papers_root(query, keys, values):
    """d_k is 64 in the paper."""
    return torch.softmax(keys @ query / 8, 0) @ values


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


@wrong("scaled_dot_product_attention", "not divided by √d_k")
def attention_no_scale(query, key, value, mask=None):
    """The scale forgotten: at d_k = 4 nobody notices."""
    weights = weigh(query, key, mask, 1)
    return weights @ value, weights


@wrong("scaled_dot_product_attention", "divided by d_k, not by its square root")
def attention_scaled_by_d_k(query, key, value, mask=None):
    """'Divide by the dimension', say several notes."""
    weights = weigh(query, key, mask, query.shape[-1])
    return weights @ value, weights


@wrong("scaled_dot_product_attention", "multiplied by √d_k")
def attention_scaled_up(query, key, value, mask=None):
    """d_k ** 0.5 in the place of d_k ** -0.5."""
    weights = weigh(query, key, mask, query.shape[-1] ** -0.5)
    return weights @ value, weights


@wrong("scaled_dot_product_attention", "√d_v")
def attention_scaled_by_d_v(query, key, value, mask=None):
    """value.shape[-1] is the same number in every textbook example."""
    weights = weigh(query, key, mask, math.sqrt(value.shape[-1]))
    return weights @ value, weights


@wrong("scaled_dot_product_attention", "number of keys")
def attention_scaled_by_length(query, key, value, mask=None):
    """key.shape[-2], or len(key), taken for the size."""
    weights = weigh(query, key, mask, math.sqrt(key.shape[-2]))
    return weights @ value, weights


@wrong("scaled_dot_product_attention", "softmax runs over the queries")
def attention_over_the_queries(query, key, value, mask=None):
    """dim=1 for a batch, or the column convention's axis."""
    weights = weigh(query, key, mask, axis=-2)
    return weights @ value, weights


@wrong("scaled_dot_product_attention", "softmax runs over axis 0")
def attention_over_the_batch(query, key, value, mask=None):
    """nn.Softmax() without an axis takes axis 0 for three axes."""
    weights = weigh(query, key, mask, axis=0)
    return weights @ value, weights


@wrong("scaled_dot_product_attention", "√d_k", " and softmax runs over the queries")
def attention_no_scale_over_the_queries(query, key, value, mask=None):
    """Two mistakes at once."""
    weights = weigh(query, key, mask, 1, -2)
    return weights @ value, weights


@wrong("scaled_dot_product_attention", "softmax comes first and the division by √d_k after it")
def attention_softmax_then_scale(query, key, value, mask=None):
    """A text on the subject says 'softmax, then scale'."""
    weights = weigh(query, key, mask, 1) / math.sqrt(query.shape[-1])
    return weights @ value, weights


@wrong("scaled_dot_product_attention", "softmax runs over all pairs at once")
def attention_over_all_pairs(query, key, value, mask=None):
    """A softmax of one's own that divides by the sum of everything."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    weights = scores.flatten(-2).softmax(-1).view_as(scores)
    return weights @ value, weights


@wrong("scaled_dot_product_attention", "the softmax is missing")
def attention_no_softmax(query, key, value, mask=None):
    """Stops after the scale."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    return scores @ value, scores


@wrong("scaled_dot_product_attention", "2 results: (output, weights)")
def attention_output_only(query, key, value, mask=None):
    """F.scaled_dot_product_attention returns the output alone."""
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)


@wrong("scaled_dot_product_attention", "wrong order: return (output, weights)")
def attention_results_swapped(query, key, value, mask=None):
    """Returned in the order in which they are computed."""
    weights = weigh(query, key, mask)
    return weights, weights @ value


@wrong("scaled_dot_product_attention", "scores are returned in the place of the weights")
def attention_returns_scores(query, key, value, mask=None):
    """One variable for both, assigned too early."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    return weigh(query, key, mask) @ value, scores


@wrong("scaled_dot_product_attention", "the key is not transposed")
def attention_not_transposed(query, key, value, mask=None):
    """query @ key: it fits as long as everything is square."""
    key = key if key.shape[-1] == key.shape[-2] else key.transpose(-2, -1)
    weights = (query @ key / math.sqrt(query.shape[-1])).softmax(-1)
    return weights @ value, weights


@wrong("scaled_dot_product_attention", "the scores are transposed")
def attention_of_the_columns(query, key, value, mask=None):
    """A = Kᵀ Q of the column convention, with rows."""
    weights = (key @ query.transpose(-2, -1) / math.sqrt(query.shape[-1])).softmax(-1)
    return weights @ value, weights


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


@wrong("scaled_dot_product_attention", "the mask is ignored")
def attention_ignores_the_mask(query, key, value, mask=None):
    """mask=None, and left so."""
    weights = weigh(query, key)
    return weights @ value, weights


@wrong("scaled_dot_product_attention", "the mask is turned round")
def attention_mask_inverted(query, key, value, mask=None):
    """nn.MultiheadAttention's masks mean the opposite: True = may not."""
    weights = weigh(query, key, None if mask is None else ~mask)
    return weights @ value, weights


@wrong("scaled_dot_product_attention", "the rows no longer add up to 1")
def attention_zeroed_after_the_softmax(query, key, value, mask=None):
    """'A mask before the softmax equals zeroing after it', without renormalising."""
    weights = weigh(query, key)
    weights = weights if mask is None else weights * mask
    return weights @ value, weights


@wrong("scaled_dot_product_attention", "exp(0) is 1, not 0")
def attention_masked_scores_zero(query, key, value, mask=None):
    """'0 means: no attention.'"""
    weights = weigh(query, key, mask, fill=0.0)
    return weights @ value, weights


@wrong("scaled_dot_product_attention", "exp(0) is 1, not 0")
def attention_minus_tiny(query, key, value, mask=None):
    """-1e-9 typed for -1e9."""
    weights = weigh(query, key, mask, fill=-1e-9)
    return weights @ value, weights


@wrong("scaled_dot_product_attention", "the sign is wrong")
def attention_plus_large(query, key, value, mask=None):
    """1e9 typed for -1e9."""
    weights = weigh(query, key, mask, fill=1e9)
    return weights @ value, weights


@wrong("scaled_dot_product_attention", "not low enough")
def attention_minus_ten(query, key, value, mask=None):
    """'A large negative number' taken modestly."""
    weights = weigh(query, key, mask, fill=-10.0)
    return weights @ value, weights


@wrong("scaled_dot_product_attention", "the mask is transposed")
def attention_mask_transposed(query, key, value, mask=None):
    """The mask made for columns."""
    turned = mask is not None and mask.shape[-1] == mask.shape[-2]
    weights = weigh(query, key, mask.transpose(-2, -1) if turned else mask)
    return weights @ value, weights


@wrong("scaled_dot_product_attention", "the mask is used for the output and not for the returned")
def attention_returns_unmasked_weights(query, key, value, mask=None):
    """The maps are made again for a picture, and the mask is forgotten."""
    return weigh(query, key, mask) @ value, weigh(query, key)


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


@wrong("scaled_dot_product_attention", "keys are averaged in the place of values")
def attention_reads_keys(query, key, value, mask=None):
    """Typed twice, changed once."""
    weights = weigh(query, key, mask)
    return weights @ (key if key.shape == value.shape else value), weights


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


@wrong("scaled_dot_product_attention", "masked scores become a number such as −100 or −10,000")
def attention_filled_with_minus_10000(query, key, value, mask=None):
    """A number that fits into float16, and that large scores fall below."""
    return attention_with(lambda s, m: s.masked_fill(~m, -1e4))(query, key, value, mask)


@wrong("scaled_dot_product_attention", "masked scores become a number such as −100 or −10,000")
def attention_filled_with_minus_100(query, key, value, mask=None):
    """exp(−100) is 0 for all purposes, beside scores near 0."""
    return attention_with(lambda s, m: s.masked_fill(~m, -100.0))(query, key, value, mask)


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


@wrong("scaled_dot_product_attention", "every query may attend to the key at its own place")
def always_open_to_itself(query, key, value, mask=None):
    """So that no query is left with nothing, as in published code against NaN."""
    if mask is not None and mask.shape[-2] == mask.shape[-1]:
        mask = mask | torch.eye(mask.shape[-1]).bool()
    weights = weigh(query, key, mask)
    return weights @ value, weights


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


@wrong("attention_gradient", "not divided by √d_k on its way from the scores")
def scale_lost_on_the_way_back(query, key, value, grad_output):
    """The scale is a constant, and constants get lost."""
    return backward(query, key, value, grad_output, after=1)


@wrong("attention_gradient", "the scale is missing, forward and backward")
def scale_lost_everywhere(query, key, value, grad_output):
    """The gradient of another function, without mistake."""
    return backward(query, key, value, grad_output, before=1, after=1)


@wrong("attention_gradient", "the scale is missing where the weights are computed")
def scale_lost_forward(query, key, value, grad_output):
    """Put in backwards and forgotten forwards."""
    return backward(query, key, value, grad_output, before=1)


@wrong("attention_gradient", "divided by d_k")
def scale_twice(query, key, value, grad_output):
    """Once for dS and once again for dQ and dK."""
    return backward(query, key, value, grad_output, after=query.shape[-1])


@wrong("attention_gradient", "past the softmax")
def softmax_skipped(query, key, value, grad_output):
    """dS = dW."""
    return backward(query, key, value, grad_output, lambda w, g: g)


@wrong("attention_gradient", "the sum over the row is missing")
def row_sum_missing(query, key, value, grad_output):
    """dS = W ∘ dW, as if each weight were an exp on its own."""
    return backward(query, key, value, grad_output, lambda w, g: w * g)


@wrong("attention_gradient", "only the diagonal")
def diagonal_only(query, key, value, grad_output):
    """w(1 − w), known from the sigmoid."""
    return backward(query, key, value, grad_output, lambda w, g: w * (1 - w) * g)


@wrong("attention_gradient", "the sum runs over the queries")
def sum_over_the_wrong_axis(query, key, value, grad_output):
    """axis=0."""

    def rule(w, g):
        return w * (g - (w * g).sum(0, keepdims=True))

    return backward(query, key, value, grad_output, rule)


@wrong("attention_gradient", "the sum runs over the whole matrix")
def sum_without_an_axis(query, key, value, grad_output):
    """np.sum without an axis."""
    return backward(query, key, value, grad_output, lambda w, g: w * (g - (w * g).sum()))


@wrong("attention_gradient", "`keepdims=True` is missing")
def sum_without_keepdims(query, key, value, grad_output):
    """A broadcast that fits when there are as many queries as keys."""
    return backward(query, key, value, grad_output, lambda w, g: w * (g - (w * g).sum(-1)))


@wrong("attention_gradient", "the mean of dW")
def plain_mean_subtracted(query, key, value, grad_output):
    """'The gradient is centred', with the wrong centre."""
    return backward(
        query, key, value, grad_output, lambda w, g: w * (g - g.mean(-1, keepdims=True))
    )


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


@wrong("attention_gradient", "not transposed in grad_value")
def grad_value_not_transposed(query, key, value, grad_output):
    """W dO: fits when there are as many queries as keys."""
    d_query, d_key, _ = backward(query, key, value, grad_output)
    return d_query, d_key, forward(query, key) @ grad_output


@wrong("attention_gradient", "grad_key is dS @ query")
def grad_key_not_transposed(query, key, value, grad_output):
    """The same for the keys."""
    d_query, _, d_value = backward(query, key, value, grad_output)
    d_scores = through_softmax(forward(query, key), grad_output @ value.T)
    return d_query, d_scores @ query / np.sqrt(query.shape[-1]), d_value


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


@wrong("attention_gradient", "grad_output is not used")
def gradient_of_the_sum(query, key, value, grad_output):
    """output.sum().backward() from habit."""
    return backward(query, key, value, np.ones_like(grad_output))


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


@wrong("attention_gradient", "d_k is used for √d_k, forward and backward")
def root_lost_throughout(query, key, value, grad_output):
    """One variable for the scale, and the root forgotten where it is set."""
    d_k = query.shape[-1]
    return backward(query, key, value, grad_output, before=d_k, after=d_k)


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


@wrong("repaired_attention", "divided by √d_k once more, after the softmax")
def the_old_division_left_in(query, key, value):
    """The new one is put in, the old one forgotten: with large scores nothing shows."""
    root = math.sqrt(query.shape[-1])
    return (query @ key.mT / root).softmax(-1) / root @ value


@wrong("repaired_attention", "both bugs are still there")
def as_it_was_given(query, key, value):
    """Copied and not changed."""
    weights = torch.softmax(query @ key.transpose(-2, -1), dim=1) / math.sqrt(key.shape[-1])
    return weights @ value


@wrong("repaired_attention", "the softmax still comes before the scale")
def only_the_axis_mended(query, key, value):
    """One bug found, and the hunt is over."""
    weights = torch.softmax(query @ key.transpose(-2, -1), dim=-1) / math.sqrt(key.shape[-1])
    return weights @ value


@wrong("repaired_attention", "one bug is left: the softmax runs over the queries")
def only_the_scale_mended(query, key, value):
    """The other one found."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(key.shape[-1])
    return torch.softmax(scores, dim=1) @ value


@wrong("repaired_attention", "the scale is gone", "√d_k")
def scale_removed(query, key, value):
    """Rows add up to 1 again when the division is deleted."""
    return weigh(query, key, divisor=1) @ value


@wrong("repaired_attention", "softmax runs over the queries")
def axis_minus_two(query, key, value):
    """-2 is 'the other one'."""
    return weigh(query, key, axis=-2) @ value


@wrong("repaired_attention", "softmax runs over axis 0")
def axis_zero(query, key, value):
    """dim=1 was wrong, so dim=0."""
    return weigh(query, key, axis=0) @ value


@wrong("repaired_attention", "divided by d_k, not by its square root")
def root_dropped(query, key, value):
    """The root got lost in the move."""
    return weigh(query, key, divisor=key.shape[-1]) @ value


@wrong("repaired_attention", "multiplied by √d_k")
def root_multiplied(query, key, value):
    """Moved with the wrong sign of the exponent."""
    return weigh(query, key, divisor=key.shape[-1] ** -0.5) @ value


@wrong("repaired_attention", "softmax runs over the queries")
def axis_two_for_a_batch(query, key, value):
    """dim=2 is the keys of a batch, and nothing else."""
    weights = (query @ key.transpose(-2, -1) / math.sqrt(key.shape[-1])).softmax(
        min(2, query.ndim - 1)
    )
    return weights @ value


@wrong("repaired_attention", "the weights are returned")
def weights_for_the_output(query, key, value):
    """The last line is lost while the first two are mended."""
    return weigh(query, key)


@wrong("repaired_attention", "cut to a whole number")
def a_repaired_whole_root(query, key, value):
    """math.isqrt again."""
    return (query @ key.mT / math.isqrt(key.shape[-1])).softmax(-1) @ value


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


@wrong("scaled_dot_product_attention", "others can be lower")
def attention_with_the_lowest_of_float16(query, key, value, mask=None):
    """−65,504, so that it fits into float16: scores of float32 can be lower."""
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    weights = masked_weights(scores, mask, lambda s, m: s.masked_fill(~m, -65504.0))
    return weights @ value, weights


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


@wrong("attend_one", "an axis of length 1", "every weight is 1")
def softmax_across_a_column(query, keys, values):
    """keys @ query[:, None] is a column, and the keys are always dim=1."""
    scores = keys @ query[:, None] / math.sqrt(len(query))
    return (scores.softmax(1) * values).sum(0)
