"""The checks of exercise 01. A mistake's text ends the sentence "This is the answer when …"."""

import math

import torch
import torch.nn.functional as F

from course.checking import expect
from course.checking.diagnosis import expect_no_memory, expect_predictions

SQUEEZED = (
    "squeeze() removes every axis of length 1, also that of a batch of one. Name the axis that has "
    "to go."
)

# ---- predicted_contexts


def test_the_five_contexts_are_predicted(predicted_contexts):
    lines = "Write down the scores, then the weights, then the weighted sum."
    hints = {
        "a": {
            0: "A score of 0 is not a weight of 0. What does the softmax make of equal scores?",
            60: "No state wins when all scores are equal. Which weights does the softmax give?",
            90: "The weights add up to 1: it is an average, not a sum.",
            None: lines,
        },
        "b": {
            20: "The score is not largest where q equals the key; it grows with q + k.",
            10: "tanh(−1) is negative, and v is positive: this state has the smallest score.",
            30: "The scores lie 762 apart. What does the softmax make of that?",
            None: lines,
        },
        "c": {
            60: "Is 1001 still more than 1000 after the tanh? Write down the three tanh.",
            10: "Is 1001 still more than 1000 after the tanh? Write down the three tanh.",
            20: "Is 1001 still more than 1000 after the tanh? Write down the three tanh.",
            90: "The weights add up to 1: it is an average, not a sum.",
            None: lines,
        },
        "d": {
            10: "All three scores are negative. Which of them is the largest?",
            20: "Nothing here measures a distance to the query. Which score is the largest?",
            30: "There is no tanh in d, so nothing saturates. How far apart are the scores?",
            None: "What is added to all scores, the softmax does not see. Which is the largest?",
        },
        "e": {
            30: "Padding that fetches 0 still takes its share of the weight. How many weights are "
            "there?",
            22.5: "There are two states of padding, so five weights in all.",
            0: "A score of 0 is not a weight of 0. What does the softmax make of equal scores?",
            None: lines,
        },
    }
    right = {"a": 30, "b": 60, "c": 30, "d": 60, "e": 18}
    expect_predictions(predicted_contexts(), right, hints)


# ---- additive_scores


def given(B=2, Lk=5, d_q=3, d_k=4, d_a=6, size=1.0):
    """Random query, keys, W_q, W_k and v; all sizes differ unless told otherwise."""
    shapes = (B, d_q), (B, Lk, d_k), (d_q, d_a), (d_k, d_a), (d_a,)
    query, keys, W_q, W_k, v = (torch.randn(shape) for shape in shapes)
    return size * query, size * keys, 0.7 * W_q, 0.7 * W_k, v + v.sign() / 2


def square(size=4):
    """The same with equal sizes, where a wrong axis gives numbers and not an error."""
    return given(size, size, size, size, size)


def scored(query, keys, W_q, W_k, v):
    return torch.tanh((query @ W_q)[:, None] + keys @ W_k) @ v


def score_mistakes(query, keys, W_q, W_k, v):
    """Every way in which the equation may be misread, or meet the wrong axis."""
    q, k = query @ W_q, keys @ W_k
    right, both = scored(query, keys, W_q, W_k, v), q[:, None] + k
    product = (q[:, None] * k).sum(-1)
    axis = "the query lacks an axis"
    return {
        f"{axis}: key j of every sentence met the query of sentence j. Use unsqueeze(1).": (
            lambda: torch.tanh(q + k) @ v
        ),
        "the query's new axis stands behind its features. It has to stand in the keys' place: "
        "unsqueeze(1).": lambda: torch.tanh(q[:, :, None] + k) @ v,
        "every sentence is asked with the query of sentence 0.": (
            lambda: torch.tanh(q[0] + k) @ v if len(q) > 1 else None
        ),
        "every sentence is asked with the query of the last one.": (
            lambda: torch.tanh(q[-1] + k) @ v if len(q) > 1 else None
        ),
        "the queries of all sentences are added up.": lambda: torch.tanh(q.sum(0) + k) @ v,
        "the mean of all sentences' queries is used.": lambda: torch.tanh(q.mean(0) + k) @ v,
        "the tanh is missing: then the query adds the same to every score, and has no say.": (
            lambda: both @ v
        ),
        "the tanh stands outside the product with v. It belongs to the vector, before v.": (
            lambda: torch.tanh(both @ v)
        ),
        "query and key go through a tanh of their own, and are added after it: then the query adds "
        "the same to every score, and has no say.": (
            lambda: (torch.tanh(q)[:, None] + torch.tanh(k)) @ v
        ),
        "only the query goes through the tanh: it is tanh of the sum.": (
            lambda: (torch.tanh(q)[:, None] + k) @ v
        ),
        "only the keys go through the tanh: it is tanh of the sum.": (
            lambda: (q[:, None] + torch.tanh(k)) @ v
        ),
        "the tanh is taken twice.": lambda: torch.tanh(torch.tanh(both)) @ v,
        "the sum runs over the keys; it must run over the features.": (
            lambda: (torch.tanh(both) * v).sum(1)
        ),
        "the query is not used.": lambda: torch.tanh(k) @ v,
        "the keys are not used: all keys of a sentence score the same.": (
            lambda: (torch.tanh(q) @ v)[:, None].expand_as(right)
        ),
        "the softmax has been taken already. Scores are wanted, the weights come later.": (
            lambda: right.softmax(1)
        ),
        "a softmax has been taken over the sentences. Scores are wanted, without any softmax.": (
            lambda: right.softmax(0)
        ),
        "the logarithm of the weights is returned (log-softmax); scores are wanted.": (
            lambda: right.log_softmax(1)
        ),
        "the scores are divided by √d_a. That belongs to the dot product of lesson 02.": (
            lambda: right / math.sqrt(len(v))
        ),
        "the scores are divided by √d_k. That belongs to the dot product of lesson 02.": (
            lambda: right / math.sqrt(keys.shape[-1])
        ),
        "the projections are multiplied, not added, before the tanh.": (
            lambda: torch.tanh(q[:, None] * k) @ v
        ),
        "the projections are multiplied, not added, and there is no tanh.": (
            lambda: (q[:, None] * k) @ v
        ),
        "the score is a dot product of the projections; v and tanh are not used.": lambda: product,
        "the score is a scaled dot product of the projections; v and tanh are not used.": (
            lambda: product / math.sqrt(len(v))
        ),
        "the keys are subtracted from the query, not added.": (
            lambda: torch.tanh(q[:, None] - k) @ v
        ),
        "the query is subtracted from the keys, not added.": (
            lambda: torch.tanh(k - q[:, None]) @ v
        ),
        "v is left out: the features are only added up.": lambda: torch.tanh(both).sum(-1),
        "v is left out, and the features are averaged.": lambda: torch.tanh(both).mean(-1),
        "the features are averaged after v; the product with v adds them up.": (
            lambda: right / len(v)
        ),
        "the product with v is not added up over the features.": lambda: torch.tanh(both) * v,
        "v stands in front, `v @ …`, and so meets the keys' axis. It has to meet the last one.": (
            lambda: v @ torch.tanh(both)
        ),
        "v meets the keys' axis, not the last one.": (
            lambda: (torch.tanh(both) * v[:, None]).sum(-1)
        ),
        "the product with v is missing: tanh gives d_a numbers per key, and v makes one of them.": (
            lambda: torch.tanh(both)
        ),
        "v is multiplied before the tanh.": lambda: torch.tanh(both * v).sum(-1),
        "ReLU is used in the place of tanh.": lambda: F.relu(both) @ v,
        "the sigmoid is used in the place of tanh.": lambda: torch.sigmoid(both) @ v,
        "GELU is used in the place of tanh.": lambda: F.gelu(both) @ v,
        "the sine is used in the place of tanh.": lambda: torch.sin(both) @ v,
        "W_q is transposed: rows are projected by `query @ W_q`.": (
            lambda: scored(query, keys, W_q.T, W_k, v)
        ),
        "W_k is transposed: rows are projected by `keys @ W_k`.": (
            lambda: scored(query, keys, W_q, W_k.T, v)
        ),
        "W_q and W_k are transposed: rows are projected by `query @ W_q`. (nn.Linear stores the "
        "transpose; here you have the matrix of the equation.)": (
            lambda: scored(query, keys, W_q.T, W_k.T, v)
        ),
        "`W_q @ query` takes the batch of queries for one matrix. They are rows: `query @ W_q`.": (
            lambda: torch.tanh((W_q @ query)[:, None] + k) @ v
        ),
        "W_q and W_k are swapped: the query has to be projected by W_q.": (
            lambda: scored(query, keys, W_k, W_q, v)
        ),
        "the query is projected by W_k as well: W_q is not used.": (
            lambda: scored(query, keys, W_k, W_k, v)
        ),
        "the keys are projected by W_q as well: W_k is not used.": (
            lambda: scored(query, keys, W_q, W_q, v)
        ),
        "nothing is projected: query and keys are added as they are.": (
            lambda: torch.tanh(query[:, None] + keys) @ v
        ),
        "the scores are added up over the keys.": lambda: right.sum(1),
        "the scores are averaged over the keys.": lambda: right.mean(1),
        "the keys are averaged before they are scored: every key needs a score of its own.": (
            lambda: torch.tanh(q + k.mean(1)) @ v
        ),
        "the scores are transposed: row i belongs to sentence i.": lambda: right.T,
        "the score keeps the feature axis, as an axis of length 1: squeeze(-1) removes it.": (
            lambda: right.unsqueeze(-1)
        ),
        "an axis of length 1 is left for the query: one query asked, so it has to go.": (
            lambda: right.unsqueeze(1)
        ),
        SQUEEZED: right.squeeze(),
        "only the first sentence is scored.": lambda: right[0],
        "the order of the keys is turned round.": lambda: right.flip(1),
        "the sign is wrong.": lambda: -right,
        "every query meets the keys of every sentence.": (
            lambda: torch.tanh(q[:, None, None] + k) @ v
        ),
        "every query meets the keys of every sentence, with the keys' sentence first.": (
            lambda: torch.tanh(q + k[:, :, None]) @ v
        ),
    }


def check_scores(additive_scores, *tensors):
    expect(additive_scores(*tensors), scored(*tensors), score_mistakes(*tensors))


def test_scores_when_all_sizes_are_equal(additive_scores):
    check_scores(additive_scores, *square())


def test_scores_that_can_be_checked_by_hand(additive_scores):
    query = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
    keys = torch.tensor([[[1.0], [-1.0], [0.0]], [[2.0], [0.0], [-2.0]]])
    W_q, W_k = torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([[1.0, -1.0]])
    v = torch.tensor([1.0, 10.0])
    # Sentence 0, key 0: tanh(1 + 1, 0 − 1) · (1, 10); sentence 1, key 2: tanh(−2, 2 + 2) · (1, 10).
    inner = torch.tensor([[[2.0, -1], [0, 1], [1, 0]], [[2, 0], [0, 2], [-2, 4]]])
    tensors = query, keys, W_q, W_k, v
    expect(additive_scores(*tensors), inner.tanh() @ v, score_mistakes(*tensors))


def test_scores_when_all_sizes_differ(additive_scores):
    for sizes in ({}, {"B": 3, "Lk": 2, "d_q": 5, "d_k": 1, "d_a": 4}, {"B": 1}, {"Lk": 1}):
        check_scores(additive_scores, *given(**sizes))


def test_scores_stay_finite_for_large_states(additive_scores):
    check_scores(additive_scores, *given(size=300.0))


def test_scores_in_half_and_double_precision(additive_scores):
    for dtype in (torch.float64, torch.float16):
        tensors = [x.to(dtype) for x in given()]
        expected = scored(*(x.double() for x in tensors)).to(dtype)
        expect(additive_scores(*tensors), expected, score_mistakes(*(x.float() for x in tensors)))


# ---- context_vector


def read(weights, values):
    return (weights[:, None] @ values)[:, 0]


def context_mistakes(weights, values):
    """Wrong axes, weights made twice or not used, and sums that stop half way."""
    right, shares = read(weights, values), weights[:, :, None] * values
    B, Lk, _ = values.shape
    best = weights.argmax(1)
    return {
        SQUEEZED: right.squeeze(),
        "the weights lack an axis: `weights * values` multiplies feature by feature. A weight "
        "belongs to a whole row of values: weights.unsqueeze(2).": (
            lambda: (weights * values).sum(1)
        ),
        "the weights lack an axis in `weights * values`, and the sum runs over the features.": (
            lambda: (weights * values).sum(2)
        ),
        "the weights have their new axis in front of the keys, so they meet the features. It has "
        "to stand behind: weights.unsqueeze(2).": lambda: (weights[:, None] * values).sum(1),
        "the new axis of the weights stands in front of the keys, and the sum runs over the "
        "features.": lambda: (weights[:, None] * values).sum(2),
        "every sentence's weights meet every sentence's values: `weights @ values` takes the whole "
        "batch of weights for one matrix. Use (weights.unsqueeze(1) @ values).squeeze(1).": (
            lambda: weights @ values
        ),
        "the weights of every sentence meet the values of every sentence, and one of the two is "
        "added up.": lambda: (weights @ values).sum(1),
        "the weighted values are not added up over the keys.": lambda: shares,
        "the sum runs over the features; it must run over the keys.": lambda: shares.sum(2),
        "the sum runs over the sentences; it must run over the keys.": lambda: shares.sum(0),
        "the sum runs over everything but the features: sentences are mixed.": (
            lambda: shares.sum((0, 1))
        ),
        "the mean over the keys is taken; the weights already add up to 1, so take the sum.": (
            lambda: right / Lk
        ),
        "the weights are not used: it is the mean of the values.": lambda: values.mean(1),
        "the weights are not used: it is the sum of the values.": lambda: values.sum(1),
        "a softmax is taken of the weights. They are weights already and add up to 1.": (
            lambda: read(weights.softmax(1), values)
        ),
        "a softmax over the sentences is taken of the weights.": (
            lambda: read(weights.softmax(0), values)
        ),
        "the best key takes all; every key has a share.": (lambda: values[torch.arange(B), best]),
        "the best key's value is returned times its weight; every key has a share.": (
            lambda: shares[torch.arange(B), best]
        ),
        "only the last key's share is kept: the shares of all keys have to be added up.": (
            lambda: shares[:, -1]
        ),
        "only the first key's share is kept: the shares of all keys have to be added up.": (
            lambda: shares[:, 0]
        ),
        "the last key is left out.": lambda: shares[:, :-1].sum(1),
        "the first key is left out.": lambda: shares[:, 1:].sum(1),
        "an axis of length 1 is left for the query: squeeze(1) removes it.": (
            lambda: right.unsqueeze(1)
        ),
        "an axis of length 1 is left behind the features: squeeze(-1) removes it.": (
            lambda: right.unsqueeze(-1)
        ),
        "the result is transposed: row i belongs to sentence i.": lambda: right.T,
        "the weights of sentence 0 are used for all.": (
            lambda: read(weights[:1].expand(B, Lk), values) if B > 1 else None
        ),
        "the values of sentence 0 are used for all.": (
            lambda: weights @ values[0] if B > 1 else None
        ),
        "the weights are transposed: row i belongs to sentence i.": (
            lambda: read(weights.T, values)
        ),
        "the order of the weights is turned round.": lambda: read(weights.flip(1), values),
        "the weights are squared.": lambda: read(weights**2, values),
        "exp is taken of the weights; that belongs to the scores, inside the softmax.": (
            lambda: read(weights.exp(), values)
        ),
        "only the first sentence's context is returned.": lambda: right[0],
    }


def weights_and_values(B=2, Lk=5, d_v=3):
    return (1.5 * torch.randn(B, Lk)).softmax(1), torch.randn(B, Lk, d_v)


def test_a_context_begins_anew_in_each_call(context_vector):
    expect_no_memory(context_vector, read, weights_and_values(4, 4, 4), weights_and_values(4, 4, 4))


def check_context(context_vector, *tensors):
    expect(context_vector(*tensors), read(*tensors), context_mistakes(*tensors))


def test_context_when_all_sizes_are_equal(context_vector):
    check_context(context_vector, *weights_and_values(4, 4, 4))


def test_context_that_can_be_checked_by_hand(context_vector):
    weights = torch.tensor([[0.5, 0.25, 0.25], [0.0, 0.0, 1.0]])
    values = torch.tensor([[[4.0, 0], [0, 8], [4, 4]], [[1, 1], [2, 2], [30, 40]]])
    expected = torch.tensor([[3.0, 3.0], [30.0, 40.0]])
    expect(context_vector(weights, values), expected, context_mistakes(weights, values))


def test_context_when_all_sizes_differ(context_vector):
    for sizes in ((2, 5, 3), (3, 2, 6), (1, 4, 2), (2, 1, 3), (3, 4, 1)):
        check_context(context_vector, *weights_and_values(*sizes))


def test_context_in_half_and_double_precision(context_vector):
    for dtype in (torch.float64, torch.float16):
        weights, values = (x.to(dtype) for x in weights_and_values())
        expected = read(weights.double(), values.double()).to(dtype)
        expect(context_vector(weights, values), expected, context_mistakes(weights, values))


# ---- repaired_context


def additive_context(query, keys, lengths, W_q, W_k, v):
    scores = scored(query, keys, W_q, W_k, v)
    weights = scores.masked_fill(~real_states(keys, lengths), -math.inf).softmax(1)
    return read(weights, keys), weights


def real_states(keys, lengths):
    return torch.arange(keys.shape[1]) < lengths[:, None]


def repair_mistakes(query, keys, lengths, W_q, W_k, v):
    """The two bugs, alone and together, and what goes wrong with the mask."""
    q, k = query @ W_q, keys @ W_k
    scores, linear = scored(query, keys, W_q, W_k, v), (q[:, None] + k) @ v
    apart = (torch.tanh(q)[:, None] + torch.tanh(k)) @ v
    real = real_states(keys, lengths)
    places = torch.arange(keys.shape[1])

    def using(weights):
        return read(weights, keys), weights

    def soft(numbers, mask=real, fill=-math.inf, axis=1):
        return using(numbers.masked_fill(~mask, fill).softmax(axis))

    open_weights, right = scores.softmax(1), soft(scores)
    return {
        "both bugs are still there: the score lacks its tanh, and padding gets weight.": (
            lambda: using(linear.softmax(1))
        ),
        "one bug is left: without a tanh the query adds the same to every score, and has no say.": (
            lambda: soft(linear)
        ),
        "one bug is left: states that are only padding still get weight.": (
            lambda: using(open_weights)
        ),
        "the tanh is taken of the score, after v. It belongs to the vector, before v.": (
            lambda: soft(torch.tanh(linear))
        ),
        "the tanh is taken of the score, after v, and padding still gets weight.": (
            lambda: using(torch.tanh(linear).softmax(1))
        ),
        "query and key go through a tanh of their own: the query still has no say. It is tanh of "
        "the sum.": lambda: soft(apart),
        "query and key go through a tanh of their own, so that the query still has no say, and "
        "padding still gets weight.": lambda: using(apart.softmax(1)),
        "the query lacks an axis: key j of every sentence met the query of sentence j.": (
            lambda: soft(torch.tanh(q + k) @ v)
        ),
        "masked scores become 0 (or a tiny number): but exp(0) is 1, not 0. Fill with −inf.": (
            lambda: soft(scores, fill=0.0)
        ),
        **{
            f"masked scores become {fill}: not low enough, some weight leaks. Fill with −inf.": (
                lambda fill=fill: soft(scores, fill=float(fill))
            )
            for fill in (-1, -2, -5, -10, -20)
        },
        "masked scores become +inf, or very large: the sign is wrong.": (
            lambda: soft(scores, fill=1e9)
        ),
        "weights are set to 0 after the softmax, so that the rest no longer adds up to 1.": (
            lambda: using(open_weights * real)
        ),
        "the keys of the padding are set to 0; their scores are not −inf, so they keep a weight.": (
            lambda: using(scored(query, keys * real[..., None], W_q, W_k, v).softmax(1))
        ),
        "the values of the padding are set to 0, and the padding keeps its weight.": (
            lambda: (read(open_weights, keys * real[..., None]), open_weights)
        ),
        "the mask is turned round: padding is read, real states are not.": (
            lambda: soft(scores, ~real, -1e9)
        ),
        "the mask is one too short: the last real state of each sentence is lost.": (
            lambda: soft(scores, places < lengths[:, None] - 1)
        ),
        "the mask is one too long: the first state of padding is still read.": (
            lambda: soft(scores, places <= lengths[:, None])
        ),
        "the mask is shifted: it starts behind the first state.": (
            lambda: soft(scores, (places > 0) & (places <= lengths[:, None]))
        ),
        "the mask is made for padding on the left; here it is on the right.": (
            lambda: soft(scores, places >= keys.shape[1] - lengths[:, None])
        ),
        "every sentence gets the mask of the longest one.": (
            lambda: soft(scores, (places < lengths.max()).expand_as(real))
        ),
        "every sentence gets the mask of the shortest one.": (
            lambda: soft(scores, (places < lengths.min()).expand_as(real))
        ),
        "every sentence gets the mask of sentence 0.": (
            lambda: soft(scores, real[:1].expand_as(real))
        ),
        "the mask is transposed: row i belongs to sentence i.": lambda: soft(scores, real.T),
        "the softmax runs over the sentences; the keys are dim=1.": (
            lambda: soft(scores, fill=-1e9, axis=0)
        ),
        "the softmax runs over the sentences, and padding still gets weight.": (
            lambda: using(scores.softmax(0))
        ),
        "the softmax is taken twice.": lambda: soft(right[1]),
        "the mask is used for the returned weights and not for the context.": (
            lambda: (read(open_weights, keys), right[1])
        ),
        "the mask is used for the context and not for the returned weights.": (
            lambda: (right[0], open_weights)
        ),
        "the scores are returned in the place of the weights.": lambda: (right[0], scores),
        "the softmax is missing.": lambda: using(scores * real),
        "the score is a dot product of the projections; Bahdanau's is v · tanh of their sum.": (
            lambda: soft((q[:, None] * k).sum(-1))
        ),
        "ReLU is used in the place of tanh.": lambda: soft(F.relu(q[:, None] + k) @ v),
        "the scores are divided by √d_a: additive scores have no scale.": (
            lambda: soft(scores / math.sqrt(len(v)))
        ),
        "the context is made of the projected keys, keys @ W_k; it is made of the keys.": (
            lambda: (read(right[1], k), right[1])
        ),
        "the context keeps an axis of length 1: squeeze(1) removes it.": (
            lambda: (right[0].unsqueeze(1), right[1])
        ),
    }


NOTHING_LEFT = (
    "A softmax over nothing but −inf gives NaN: it has to run over the keys, dim=1, and every "
    "sentence has a real state. And 0 · (−inf) is NaN: do not multiply by −inf, fill it in with "
    "masked_fill or torch.where."
)


def check_repair(repaired_context, lengths, *tensors, nan=NOTHING_LEFT):
    query, keys, *others = tensors
    arguments = query, keys, torch.tensor(lengths), *others
    names = ("context", "weights")
    answer = repaired_context(*arguments)
    mistakes = repair_mistakes(*arguments)
    expect(answer, additive_context(*arguments), mistakes, names=names, nan=nan)


def test_repaired_context_when_all_sizes_are_equal(repaired_context):
    check_repair(repaired_context, [3, 2, 3, 2], *square())


def test_repaired_context_when_all_sizes_differ(repaired_context):
    check_repair(repaired_context, [5, 2], *given())
    check_repair(repaired_context, [4, 7, 3], *given(3, 7))


def test_sentences_of_one_state_and_of_full_length(repaired_context):
    check_repair(repaired_context, [1, 5, 3], *given(3))
    check_repair(repaired_context, [3], *given(1, 3))


def test_large_numbers_in_the_padding_do_not_matter(repaired_context):
    query, keys, *others = given()
    keys[1, 2:] *= 1000
    check_repair(repaired_context, [5, 2], query, keys, *others)


def test_padding_gets_no_weight_when_real_scores_are_far_below_0(repaired_context):
    *tensors, v = given(3)
    check_repair(repaired_context, [2, 3, 5], *tensors, -8 * v)


def test_padding_gets_no_weight_when_real_scores_are_near_minus_600(repaired_context):
    query, keys, W_q, W_k, v = (x.double() for x in given(3))
    query[:, 0], W_q[:, 0], W_q[0, 0], W_k[:, 0], v[0] = 1, 0, 30, 0, -600  # tanh(30) is 1
    arguments = query, keys, torch.tensor([2, 3, 5]), W_q, W_k, v
    scores, real = scored(query, keys, W_q, W_k, v), real_states(keys, arguments[2])
    leaking = scores.masked_fill(~real, -50).softmax(1)
    mistakes = {
        "masked scores become a number such as −50 or −100, and those of real states can be "
        "lower. Fill with −inf.": (read(leaking, keys), leaking),
    }
    answer, names = repaired_context(*arguments), ("context", "weights")
    expect(answer, additive_context(*arguments), mistakes, names=names, nan=NOTHING_LEFT)


def test_a_real_state_with_a_score_of_0_keeps_its_weight(repaired_context):
    *tensors, v = given(3)
    nan = "A real state may have a score of 0: ask `lengths` where −inf belongs, not the scores."
    check_repair(repaired_context, [2, 3, 5], *tensors, 0 * v, nan=nan)


def test_repaired_context_in_double_precision(repaired_context):
    check_repair(repaired_context, [5, 2], *(x.double() for x in given()))
