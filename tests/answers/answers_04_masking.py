"""Answers to exercise 04, wrong and right."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from catalogue import right, solutions, wrong
from torch import nn

LESSON = "04_masking"
Given = solutions(LESSON)["RepairedSelfAttention"]  # for its __init__

# ---- predicted_weights


@right("predicted_weights")
def as_fractions():
    return [2 / 3, 3 / 8, 1 / 4, 1 / 3, 12, 1 / 5]


@right("predicted_weights")
def rounded_in_a_tuple():
    return 0.667, 0.375, 0.25, 0.33, 12.0, 0.2


@right("predicted_weights")
def as_a_tensor():
    return torch.tensor([0.6667, 0.375, 0.25, 0.3333, 12, 0.2])


@right("predicted_weights")
def as_numpy_numbers():
    return [np.float64(2 / 3), np.float32(0.375), torch.tensor(0.25), 1 / 3, np.int64(12), 0.2]


@wrong("predicted_weights", "a is not 0.25", "before the mask")
def the_old_weight():
    """The other weights are thought to stay as they were."""
    return [2 / 8, 3 / 8, 1 / 4, 1 / 3, 12, 1 / 5]


@wrong("predicted_weights", "a is not 0.5", "exponential of 0")
def infinity_as_zero():
    """−∞ taken for a score of 0."""
    return [1 / 2, 3 / 8, 1 / 4, 1 / 3, 12, 1 / 5]


@wrong("predicted_weights", "b is not 1", "It has lost 5/8")
def rows_always_add_up():
    """A softmax always adds up to 1, but nothing is a softmax any more."""
    return [2 / 3, 1, 1 / 4, 1 / 3, 12, 1 / 5]


@wrong("predicted_weights", "c is not 0", "what is e to the power of 0")
def zero_score_is_zero_weight():
    """The mistake that the task is about."""
    return [2 / 3, 3 / 8, 0, 1 / 3, 12, 1 / 5]


@wrong("predicted_weights", "c is not 0.625", "without any mask")
def nothing_happens():
    """5/8 as before."""
    return [2 / 3, 3 / 8, 5 / 8, 1 / 3, 12, 1 / 5]


@wrong("predicted_weights", "d is not 0.25", "may not see the fourth")
def no_mask_in_d():
    """All four keys counted."""
    return [2 / 3, 3 / 8, 1 / 4, 1 / 4, 12, 1 / 5]


@wrong("predicted_weights", "d is not 0.5", "see itself, too")
def the_diagonal_forgotten():
    """Only the two tokens before it."""
    return [2 / 3, 3 / 8, 1 / 4, 1 / 2, 12, 1 / 5]


@wrong("predicted_weights", "e is not 15", "causal mask alone")
def pads_forgotten():
    """1 + 2 + 3 + 4 + 5."""
    return [2 / 3, 3 / 8, 1 / 4, 1 / 3, 15, 1 / 5]


@wrong("predicted_weights", "e is not 6", "queries of the pads")
def queries_masked_too():
    """Pads as queries are thought to be masked."""
    return [2 / 3, 3 / 8, 1 / 4, 1 / 3, 6, 1 / 5]


@wrong("predicted_weights", "f is not 0", "same number now")
def minus_a_billion_is_nothing():
    """True in a row with something allowed, not in this one."""
    return [2 / 3, 3 / 8, 1 / 4, 1 / 3, 12, 0]


@wrong("predicted_weights", "f is not nan", "differences only")
def nan_in_f():
    """NaN comes with −∞, not with −1e9."""
    return [2 / 3, 3 / 8, 1 / 4, 1 / 3, 12, math.nan]


@wrong("predicted_weights", "expected 6 answers")
def one_forgotten():
    """f is left out."""
    return [2 / 3, 3 / 8, 1 / 4, 1 / 3, 12]


# ---- causal_mask


@right("causal_mask")
def with_tril(length):
    return torch.tril(torch.ones(length, length, dtype=torch.bool))


@right("causal_mask")
def with_triu_turned_round(length):
    return ~torch.ones(length, length).triu(diagonal=1).bool()


@right("causal_mask")
def with_two_ranges(length):
    position = torch.arange(length)
    return position[None, :] <= position[:, None]


@right("causal_mask")
def pair_by_pair(length):
    return torch.tensor([[j <= i for j in range(length)] for i in range(length)])


@right("causal_mask")
def from_numpy(length):
    return torch.from_numpy(np.tri(length, dtype=bool))


@right("causal_mask")
def from_pytorchs_own(length):
    return nn.Transformer.generate_square_subsequent_mask(length) == 0


@wrong("causal_mask", "whole numbers")
def whole_numbers(length):
    """A comparison is missing."""
    return torch.ones(length, length, dtype=torch.long).tril()


@wrong("causal_mask", "a NumPy array", "expected a tensor")
def in_numpy(length):
    """Not brought back to torch."""
    return np.tri(length, dtype=bool)


@wrong("causal_mask", "(64, 64), expected (1100, 1100)")
def cut_out_of_one_of_size_64(length):
    """A buffer of the size that the example needed."""
    return torch.ones(64, 64, dtype=torch.bool).tril()[:length, :length]


@wrong("causal_mask", "torch's default dtype")
def with_another_default_dtype(length):
    """Changed for the mask, and left so for everything."""
    torch.set_default_dtype(torch.float64)
    return torch.ones(length, length).tril() > 0


@right("causal_mask")
def with_cumsum(length):
    return torch.eye(length).cumsum(0).bool()


# ---- padding_mask


@right("padding_mask")
def with_none(tokens, pad_id):
    return (tokens != pad_id)[:, None, None, :]


@right("padding_mask")
def with_unsqueeze(tokens, pad_id):
    return tokens.ne(pad_id).unsqueeze(1).unsqueeze(2)


@right("padding_mask")
def turned_round_twice(tokens, pad_id):
    return ~(tokens == pad_id).view(tokens.shape[0], 1, 1, -1)


@right("padding_mask")
def id_by_id(tokens, pad_id):
    rows = [[[[i != pad_id for i in row]]] for row in tokens.tolist()]
    return torch.tensor(rows)


@right("padding_mask")
def in_numpy_and_back(tokens, pad_id):
    return torch.from_numpy(tokens.numpy() != pad_id).reshape(len(tokens), 1, 1, tokens.shape[1])


@wrong("padding_mask", "shape")
def squeezed(tokens, pad_id):
    """squeeze() takes an axis of length 1 away, and the batch may have that length."""
    return (tokens != pad_id).squeeze()[:, None, None]


@wrong("padding_mask", "0 and 1 and not booleans")
def as_numbers(tokens, pad_id):
    """.float() out of habit."""
    return (tokens != pad_id).float()[:, None, None, :]


PADDING = {}


@wrong("padding_mask", "after one with other numbers", "begin anew")
def kept_by_shape(tokens, pad_id):
    """Made once for each shape, though the pads stand elsewhere in each batch."""
    if tokens.shape not in PADDING:
        PADDING[tokens.shape] = (tokens != pad_id)[:, None, None]
    return PADDING[tokens.shape]


@wrong("padding_mask", "changed its argument tokens")
def pads_set_to_zero_first(tokens, pad_id):
    """Then .bool() does the rest, and the caller has other tokens."""
    tokens[tokens == pad_id] = 0
    return tokens.bool()[:, None, None]


@wrong("padding_mask", "uint8")
def in_one_byte(tokens, pad_id):
    """Ids in uint8, to save memory: 259 is 3 there."""
    return (tokens.to(torch.uint8) != pad_id)[:, None, None]


@wrong("padding_mask", "float16")
def in_half_precision(tokens, pad_id):
    """Ids as float16, which rounds those above 2048."""
    return (tokens.half() != pad_id)[:, None, None]


# ---- decoder_mask


@right("decoder_mask")
def from_nothing(tokens, pad_id):
    L = tokens.shape[1]
    return torch.ones(L, L).tril().bool() & (tokens != pad_id)[:, None, None]


@right("decoder_mask")
def with_a_product_of_booleans(tokens, pad_id):
    position = torch.arange(tokens.shape[1])
    past = position <= position[:, None]
    return past[None, None] * (tokens != pad_id)[:, None, None, :]


@right("decoder_mask")
def as_the_opposite_of_or(tokens, pad_id):
    future = torch.ones(tokens.shape[1], tokens.shape[1]).triu(1) > 0
    return ~((tokens == pad_id)[:, None, None, :] | future)


@right("decoder_mask")
def tril_of_a_stretched_mask(tokens, pad_id):
    L = tokens.shape[1]
    return (tokens != pad_id)[:, None, None, :].expand(-1, -1, L, -1).tril()


@right("decoder_mask")
def in_three_loops(tokens, pad_id):
    B, L = tokens.shape
    mask = torch.zeros(B, 1, L, L, dtype=torch.bool)
    for b in range(B):
        for i in range(L):
            for j in range(i + 1):
                mask[b, 0, i, j] = tokens[b, j] != pad_id
    return mask


@wrong("decoder_mask", "Your code stopped", "must match the size")
def decoder_mask_of_a_fixed_size(tokens, pad_id):
    """A buffer that was large enough for every text of the notebook."""
    L = tokens.shape[1]
    past = torch.ones(10, 10, dtype=torch.bool).tril()
    return (tokens != pad_id)[:, None, None] & past[:L, :L]


@wrong("decoder_mask", "only the causal mask", "pads can be seen")
def no_padding(tokens, pad_id):
    """Padding forgotten, the batch kept."""
    B, L = tokens.shape
    return torch.ones(B, 1, L, L, dtype=torch.bool).tril()


@wrong("decoder_mask", "only the causal mask", "batch is missing")
def causal_alone(tokens, pad_id):
    """The causal mask as it is."""
    return torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool).tril()


@wrong("decoder_mask", "joined by *or*")
def joined_by_or(tokens, pad_id):
    """& and | exchanged, as it would be right with True = forbidden."""
    past = torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool).tril()
    return (tokens != pad_id)[:, None, None, :] | past


@wrong("decoder_mask", "turned round")
def forbidden_pairs(tokens, pad_id):
    """True = forbidden throughout."""
    future = torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool).triu(1)
    return (tokens == pad_id)[:, None, None, :] | future


@wrong("decoder_mask", "causal mask is transposed")
def with_the_upper_triangle(tokens, pad_id):
    """triu in the place of tril."""
    past = torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool).triu()
    return (tokens != pad_id)[:, None, None, :] & past


@wrong("decoder_mask", "the axis for the heads is missing")
def without_the_heads(tokens, pad_id):
    """(B, L, L), as in code for one head."""
    L = tokens.shape[1]
    return (tokens != pad_id)[:, None, :] & torch.ones(L, L, dtype=torch.bool).tril()


@wrong("decoder_mask", "id 0 is taken for padding")
def with_a_fixed_pad(tokens, pad_id):
    """pad_id is not used."""
    L = tokens.shape[1]
    return (tokens != 0)[:, None, None, :] & torch.ones(L, L, dtype=torch.bool).tril()


@wrong("decoder_mask", "0 and 1 and not booleans")
def as_a_product_of_numbers(tokens, pad_id):
    """float times float."""
    L = tokens.shape[1]
    return (tokens != pad_id)[:, None, None, :].float() * torch.ones(L, L).tril()


@wrong("decoder_mask", "Your code stopped", "real & past")
def broadcast_of_the_batch(tokens, pad_id):
    """(B, L) & (L, L): raises unless B equals L."""
    real = tokens != pad_id
    past = torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool).tril()
    return real & past


@wrong("decoder_mask", "the axis for the heads is missing")
def squeezed_for_one_sentence(tokens, pad_id):
    """squeeze(0) after a batch of one was tried out in the notebook."""
    L = tokens.shape[1]
    past = torch.ones(L, L, dtype=torch.bool).tril()
    return ((tokens != pad_id)[:, None, None] & past).squeeze(0)


# ---- masked_softmax


@right("masked_softmax")
def filled_twice(scores, mask):
    return scores.masked_fill(~mask, -torch.inf).softmax(-1).masked_fill(~mask, 0)


@right("masked_softmax")
def with_where(scores, mask):
    weights = F.softmax(torch.where(mask, scores, -math.inf), dim=-1)
    return torch.where(mask, weights, 0.0)


@right("masked_softmax")
def with_nan_to_num(scores, mask):
    return scores.masked_fill(mask.logical_not(), float("-inf")).softmax(dim=-1).nan_to_num(0.0)


@right("masked_softmax")
def with_the_lowest_number(scores, mask):
    low = torch.finfo(scores.dtype).min
    return scores.masked_fill(~mask, low).softmax(-1) * mask


@right("masked_softmax")
def by_hand_with_a_safe_division(scores, mask):
    shut = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    exp = (shut - shut.amax(-1, keepdim=True)).exp() * mask
    return exp / exp.sum(-1, keepdim=True).clamp(min=1e-6)


@right("masked_softmax")
def only_rows_with_something(scores, mask):
    mask = mask.expand(scores.shape)
    some = mask.any(-1, keepdim=True)
    weights = scores.masked_fill(~mask & some, -math.inf).softmax(-1)
    return weights * some


@right("masked_softmax")
def row_by_row(scores, mask):
    mask = mask.expand(scores.shape).reshape(-1, scores.shape[-1])
    rows = scores.reshape(-1, scores.shape[-1])
    weights = []
    for row, allowed in zip(rows, mask, strict=True):
        line = torch.zeros_like(row)
        if allowed.any():
            line = line.masked_scatter(allowed, row[allowed].softmax(0))
        weights.append(line)
    return torch.stack(weights).view(scores.shape)


@right("masked_softmax")
def in_float64(scores, mask):
    wide = scores.double().masked_fill(~mask, -math.inf)
    return torch.exp(wide - wide.logsumexp(-1, keepdim=True)).masked_fill(~mask, 0).type_as(scores)


@wrong("masked_softmax", "gives 0/0", "fill once more")
def nan_in_empty_rows(scores, mask):
    """The usual line, without a thought for empty rows."""
    return scores.masked_fill(~mask, -math.inf).softmax(-1)


@wrong("masked_softmax", "all its keys are alike")
def uniform_with_finfo(scores, mask):
    """finfo.min, as in many libraries today."""
    return scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(-1)


@wrong("masked_softmax", "Your code stopped", "-1e9", "overflow")
def a_billion_in_half(scores, mask):
    """−1e9 does not fit into float16."""
    return scores.masked_fill(~mask, -1e9).softmax(-1) * mask


@wrong("masked_softmax", "A query with nothing to look at gives 0/0")
def renormalised_after(scores, mask):
    """The other route of the lesson."""
    weights = scores.softmax(-1) * mask
    return weights / weights.sum(-1, keepdim=True)


@wrong("masked_softmax", "A forbidden score", "much larger than the allowed scores")
def renormalised_with_care_for_empty_rows(scores, mask):
    """The other route of the lesson; empty rows are caught, large forbidden scores are not."""
    weights = scores.softmax(-1) * mask
    divided = weights / weights.sum(-1, keepdim=True)
    return torch.where(mask.any(-1, keepdim=True), divided, torch.zeros_like(divided))


@wrong("masked_softmax", "the gradient of the scores is NaN")
def added_minus_infinity(scores, mask):
    """scores + bias: right weights, and NaN on the way back."""
    bias = torch.zeros(mask.shape, dtype=scores.dtype).masked_fill(~mask, -math.inf)
    return (scores + bias).softmax(-1).masked_fill(~mask, 0)


@wrong("masked_softmax", "cut off from the scores")
def detached(scores, mask):
    """Through NumPy."""
    low = np.where(mask.numpy(), scores.detach().numpy(), -np.inf)
    top = np.nan_to_num(low.max(-1, keepdims=True), neginf=0)
    exp = np.exp((low - top).astype(np.float64))
    weights = exp / np.maximum(exp.sum(-1, keepdims=True), 1e-300)
    return torch.from_numpy(weights).to(scores.dtype)


def by_hand(scores, mask, total_of):
    exp = scores.masked_fill(~mask, -math.inf).exp()
    return exp / total_of(exp.sum(-1, keepdim=True))


@wrong("masked_softmax", "exponential of a large score is inf")
def by_hand_without_the_maximum(scores, mask):
    """The formula as it stands in the paper; empty rows are taken care of."""
    return by_hand(scores, mask, lambda total: total.masked_fill(total == 0, 1))


@wrong("masked_softmax", "exponential of a large score is inf")
def by_hand_with_a_clamped_sum(scores, mask):
    """clamp(min=1e-9) against 0/0: exp of scores near −300 is 0, and so is the row."""
    return by_hand(scores, mask, lambda total: total.clamp(min=1e-9))


@wrong("masked_softmax", "exponential of a large score is inf")
def exponentials_times_the_mask(scores, mask):
    """exp, mask, divide, with 1e-9 against 0/0."""
    exp = scores.exp() * mask
    return exp / (exp.sum(-1, keepdim=True) + 1e-9)


@wrong("masked_softmax", "not low enough: allowed scores lie below it", "scores (3, 4) float16")
def minus_ten_thousand_in_half(scores, mask):
    """float16 does not hold −1e9: a smaller number is found, and allowed scores lie below it."""
    low = -1e4 if scores.dtype == torch.float16 else -math.inf
    return scores.masked_fill(~mask, low).softmax(-1).masked_fill(~mask, 0)


@wrong("masked_softmax", "not low enough: allowed scores lie below it", "scores (3, 4) float16")
def half_of_the_lowest_number(scores, mask):
    """A margin, so that nothing becomes −inf on the way."""
    low = max(-1e9, torch.finfo(scores.dtype).min / 2)
    return scores.masked_fill(~mask, low).softmax(-1).masked_fill(~mask, 0)


@wrong("masked_softmax", "not low enough: allowed scores lie below it", "scores (3, 4) float16")
def the_largest_number_subtracted(scores, mask):
    """scores − max: beside a large forbidden score that is not the lowest number."""
    shut = scores - (~mask).to(scores.dtype) * torch.finfo(scores.dtype).max
    return shut.softmax(-1) * mask


@wrong("masked_softmax", "add .to(scores.dtype)")
def left_in_double(scores, mask):
    """Widened to double for everything but float16, which would have been noticed."""
    weights = scores.double().masked_fill(~mask, -math.inf).softmax(-1).masked_fill(~mask, 0)
    return weights.half() if scores.dtype == torch.float16 else weights


@wrong("masked_softmax", "a MaskedTensor", ".to_tensor(0)")
def with_a_masked_tensor(scores, mask):
    """PyTorch has a type for this."""
    mask = mask.expand_as(scores).contiguous()
    return torch.masked.masked_tensor(scores.detach(), mask).softmax(-1)


@wrong("masked_softmax", "a nested tensor", "torch.stack")
def with_a_nested_tensor(scores, mask):
    """Rows of different lengths, one for the keys that each query may see."""
    return torch.nested.nested_tensor([row[row > 0] for row in soft_rows(scores, mask)])


def soft_rows(scores, mask):
    return list(filled_twice(scores, mask).flatten(0, -2))


@wrong("masked_softmax", "changed its argument")
def filled_in_place(scores, mask):
    """masked_fill_ changes the caller's scores."""
    scores = scores.detach()
    return scores.masked_fill_(~mask, -math.inf).softmax(-1).masked_fill(~mask, 0)


@wrong("masked_softmax", "add .to(scores.dtype)")
def left_in_float32(scores, mask):
    """Widened for the softmax, as is good for float16, and not brought back."""
    weights = scores.masked_fill(~mask, -math.inf).softmax(-1, dtype=torch.float32)
    return weights.masked_fill(~mask, 0)


@wrong("masked_softmax", "has shape", "axes of length 1")
def squeezed_weights(scores, mask):
    """A squeeze left over from one head."""
    return scores.masked_fill(~mask, -math.inf).softmax(-1).masked_fill(~mask, 0).squeeze()


@wrong("masked_softmax", "switched gradients on or off")
def with_gradients_left_off(scores, mask):
    """set_grad_enabled in the place of no_grad."""
    torch.set_grad_enabled(False)
    return scores.masked_fill(~mask, -math.inf).softmax(-1).masked_fill(~mask, 0)


@right("masked_softmax")
def nan_replaced_behind_autograds_back(scores, mask):
    weights = scores.masked_fill(~mask, -math.inf).softmax(-1)
    weights.data[weights.data.isnan()] = 0
    return weights


# ---- leaks_future


def seeded(model, tokens):
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(1)
        return model(tokens)


@right("leaks_future")
def one_token_at_a_time(model, tokens):
    before = seeded(model, tokens)
    for t in range(1, tokens.shape[1]):
        changed = tokens.clone()
        changed[:, t] = (changed[:, t] + 1) % before.shape[-1]
        if not torch.allclose(seeded(model, changed)[:, :t], before[:, :t], equal_nan=True):
            return True
    return False


@right("leaks_future")
def the_whole_future_at_once(model, tokens):
    before = seeded(model, tokens)
    found = []
    for t in range(tokens.shape[1] - 1):
        changed = tokens.clone()
        changed[:, t + 1 :] = (changed[:, t + 1 :] + before.shape[-1] // 2) % before.shape[-1]
        found.append(not torch.equal(seeded(model, changed)[:, t], before[:, t]))
    return any(found)


@right("leaks_future")
def with_random_ids(model, tokens):
    before = seeded(model, tokens)
    generator = torch.Generator().manual_seed(2)
    for t in range(1, tokens.shape[1]):
        shift = torch.randint(1, before.shape[-1], (len(tokens),), generator=generator)
        changed = tokens.clone()
        changed[:, t] = (tokens[:, t] + shift) % before.shape[-1]
        after = seeded(model, changed)
        same = torch.isclose(after, before, atol=1e-5) | (after.isnan() & before.isnan())
        if not same[:, :t].all():
            return True
    return False


@right("leaks_future")
def in_numpy_from_the_back(model, tokens):
    before = seeded(model, tokens).numpy()
    leak = False
    for t in reversed(range(1, tokens.shape[1])):
        ids = tokens.numpy().copy()
        ids[:, t] = np.where(ids[:, t] == 0, 1, 0)
        after = seeded(model, torch.from_numpy(ids)).numpy()
        leak |= not np.allclose(after[:, :t], before[:, :t], equal_nan=True)
    return np.bool_(leak)


@right("leaks_future")
def sentence_by_sentence_and_token_by_token(model, tokens):
    before = seeded(model, tokens)
    for b in range(len(tokens)):
        for t in range(1, tokens.shape[1]):
            changed = tokens.clone()
            changed[b, t] = before.shape[-1] - 1 if changed[b, t] == 0 else changed[b, t] - 1
            if not torch.allclose(seeded(model, changed)[b, :t], before[b, :t], equal_nan=True):
                return True
    return False


@right("leaks_future")
def as_a_table_of_differences(model, tokens):
    before = seeded(model, tokens).double().nan_to_num(neginf=-1e6)
    L = tokens.shape[1]
    table = torch.zeros(L, L)
    for t in range(L):
        changed = tokens.clone()
        changed[:, t] = (changed[:, t] + 1) % before.shape[-1]
        after = seeded(model, changed).double().nan_to_num(neginf=-1e6)
        table[:, t] = (after - before).abs().amax(dim=(0, 2))
    return (table.triu(1) > 1e-6).any()


@wrong("leaks_future", "not the words that they choose")
def by_the_predicted_words(model, tokens):
    """argmax: the words that the logits choose."""

    def words(ids):
        torch.manual_seed(0)
        return model(ids).argmax(-1)

    before, V = words(tokens), model(tokens).shape[-1]
    for t in range(1, tokens.shape[1]):
        for shift in range(1, V):
            changed = tokens.clone()
            changed[:, t] = (changed[:, t] + shift) % V
            if not torch.equal(words(changed)[:, :t], before[:, :t]):
                return True
    return False


@right("leaks_future")
def by_the_largest_difference(model, tokens):
    """The largest difference against a tolerance."""
    before = seeded(model, tokens)
    for t in range(1, tokens.shape[1]):
        changed = tokens.clone()
        changed[:, t] = (changed[:, t] + 1) % before.shape[-1]
        if (seeded(model, changed)[:, :t] - before[:, :t]).abs().max() > 1e-6:
            return True
    return False


@right("leaks_future")
def unless_all_are_close(model, tokens):
    """not (difference < tolerance).all()."""
    before = seeded(model, tokens)
    for t in range(1, tokens.shape[1]):
        changed = tokens.clone()
        changed[:, t] = (changed[:, t] + 1) % before.shape[-1]
        if not ((seeded(model, changed)[:, :t] - before[:, :t]).abs() < 1e-6).all():
            return True
    return False


@right("leaks_future")
def without_a_seed(model, tokens):
    """As short as it can be."""
    before = model(tokens)
    for t in range(1, tokens.shape[1]):
        changed = tokens.clone()
        changed[:, t] = (changed[:, t] + 1) % before.shape[-1]
        if not torch.allclose(model(changed)[:, :t], before[:, :t], equal_nan=True):
            return True
    return False


@right("leaks_future")
def by_prefixes(model, tokens):
    """Prefixes against the whole: what is not there cannot be seen."""
    before = seeded(model, tokens)
    for t in range(1, tokens.shape[1]):
        after = seeded(model, tokens[:, :t])
        if not torch.allclose(after, before[:, :t], atol=1e-5, equal_nan=True):
            return True
    return False


@right("leaks_future")
def all_changed_copies_in_one_batch(model, tokens):
    """One call for all of them."""
    B, L = tokens.shape
    copies = tokens.repeat(L, 1, 1)  # (L, B, L)
    for t in range(L):
        copies[t, :, t] = torch.where(copies[t, :, t] == 0, 1, 0)
    logits = model(torch.cat([tokens, copies.flatten(0, 1)]))
    before, after = logits[:B], logits[B:].unflatten(0, (L, B))
    return any(not torch.equal(after[t][:, :t], before[:, :t]) for t in range(1, L))


@right("leaks_future")
def in_eval_mode(model, tokens):
    """Evaluation mode, as for all measuring, and back."""
    training = getattr(model, "training", False)
    if training:
        model.eval()
    verdict = one_token_at_a_time(model, tokens)
    if training:
        model.train()
    return verdict


@wrong("leaks_future", "Your code stopped", "model(changed)", "IndexError", "ids must be from 0")
def beyond_the_vocabulary(model, tokens):
    """tokens + 1 without % V."""
    before = model(tokens)
    for t in range(1, tokens.shape[1]):
        changed = tokens.clone()
        changed[:, t] += 1
        if not torch.allclose(model(changed)[:, :t], before[:, :t]):
            return True
    return False


@wrong("leaks_future", "Your code stopped", "TypeError", "ids must be whole numbers")
def by_the_gradient_of_the_ids(model, tokens):
    """Ids have no gradient; the detector of the lesson starts behind the embedding."""
    x = tokens.float().requires_grad_()
    logits = model(x)
    (gradient,) = torch.autograd.grad(logits[:, 0].sum(), x)
    return bool(gradient[:, 1:].any())


@wrong("leaks_future", "should return True (there is a leak) or False")
def the_number(model, tokens):
    """The size of the leak in the place of a verdict."""
    before, changed = seeded(model, tokens), tokens.clone()
    changed[:, -1] = (changed[:, -1] + 1) % before.shape[-1]
    return (seeded(model, changed) - before)[:, :-1].abs().max()


@wrong("leaks_future", "None", "return")
def no_return(model, tokens):
    """The last line is forgotten."""
    if one_token_at_a_time(model, tokens):
        return True


@wrong("leaks_future", "changed its argument tokens")
def changes_the_tokens(model, tokens):
    """No clone."""
    before = seeded(model, tokens)
    tokens[:, -1] = (tokens[:, -1] + 1) % before.shape[-1]
    return not torch.allclose(seeded(model, tokens)[:, :-1], before[:, :-1])


@right("leaks_future")
def by_a_random_mixture(model, tokens):
    direction = torch.randn(1000, generator=torch.Generator().manual_seed(3))

    def mixed(logits):
        return logits.float() @ direction[: logits.shape[-1]]

    return moved(model, tokens, lambda a, b: not torch.allclose(mixed(a), mixed(b), atol=1e-6))


@right("leaks_future")
def by_one_log_probability(model, tokens):
    def first(logits):
        return logits.float().log_softmax(-1)[..., 0]

    return moved(model, tokens, lambda a, b: not torch.allclose(first(a), first(b), atol=1e-6))


@wrong("leaks_future", "Your code stopped")
def stacked_without_a_future(model, tokens):
    """torch.stack of an empty list, when there is one token."""
    before = seeded(model, tokens)
    found = []
    for t in range(1, tokens.shape[1]):
        changed = tokens.clone()
        changed[:, t] = (changed[:, t] + 1) % before.shape[-1]
        same = torch.allclose(seeded(model, changed)[:, :t], before[:, :t], equal_nan=True)
        found.append(torch.tensor(not same))
    return torch.stack(found).any()


def moved(model, tokens, differ, new=lambda ids, V: (ids + 1) % V):
    """Change one token after the other; `differ` compares the logits before it."""
    before = model(tokens)
    for t in range(1, tokens.shape[1]):
        changed = tokens.clone()
        changed[:, t] = new(changed[:, t], before.shape[-1])
        if differ(model(changed)[:, :t], before[:, :t]):
            return True
    return False


@right("leaks_future")
def by_the_probabilities(model, tokens):
    """What is added to all logits alike changes no prediction, and may count as none."""
    return moved(model, tokens, lambda a, b: not torch.allclose(a.softmax(-1), b.softmax(-1)))


@wrong("leaks_future", "Your code stopped", "ids must be from 0 to V − 1 = 1")
def with_ten_words(model, tokens):
    """The vocabulary's size, typed in."""
    before = model(tokens)
    for t in range(1, tokens.shape[1]):
        changed = tokens.clone()
        changed[:, t] = (changed[:, t] + 1) % 10
        after = model(changed)
        if not torch.allclose(after[:, :t], before[:, :t], atol=1e-6):
            return True
    return False


@wrong("leaks_future", "changed the mode of model", "was = model.training")
def left_in_train_mode(model, tokens):
    """Whatever it finds: the model comes back in another mode."""
    model.train()
    return moved(model, tokens, lambda a, b: not torch.allclose(a, b, atol=1e-6))


@right("leaks_future")
def bit_by_bit(model, tokens):
    return moved(model, tokens, lambda a, b: not torch.equal(a, b))


@right("leaks_future")
def by_nearly_a_thousandth(model, tokens):
    return moved(model, tokens, lambda a, b: (a - b).abs().max() >= 1e-3)


# ---- RepairedSelfAttention


def projected(module, x):
    return module.w_q(x), module.w_k(x), module.w_v(x)


@right("RepairedSelfAttention")
class WithScaledDotProductAttention(Given):
    def forward(self, x, tokens):
        L = tokens.shape[1]
        past = torch.ones(L, L, dtype=torch.bool, device=x.device).tril()
        mask = past & (tokens != self.pad_id).unsqueeze(1)
        return F.scaled_dot_product_attention(*projected(self, x), attn_mask=mask)


@right("RepairedSelfAttention")
class WithAnAddedMask(Given):
    def forward(self, x, tokens):
        q, k, v = projected(self, x)
        position = torch.arange(tokens.shape[1])
        shut = (position > position[:, None]) | (tokens == self.pad_id)[:, None]
        bias = torch.zeros(shut.shape, dtype=x.dtype).masked_fill(shut, -math.inf)
        return (torch.einsum("bqd,bkd->bqk", q, k) / x.shape[-1] ** 0.5 + bias).softmax(-1) @ v


@right("RepairedSelfAttention")
class QueryByQuery(Given):
    def forward(self, x, tokens):
        q, k, v = projected(self, x)
        outputs = []
        for b in range(len(x)):
            for i in range(x.shape[1]):
                seen = [j for j in range(i + 1) if tokens[b, j] != self.pad_id]
                weights = (k[b, seen] @ q[b, i] / math.sqrt(x.shape[-1])).softmax(0)
                outputs.append(weights @ v[b, seen])
        return torch.stack(outputs).view(x.shape)


@right("RepairedSelfAttention")
class WithTheLowestNumber(Given):
    def forward(self, x, tokens):
        q, k, v = projected(self, x)
        real = (tokens != self.pad_id)[:, None].expand(-1, x.shape[1], -1)
        low = torch.finfo(x.dtype).min
        scores = (q @ k.mT / math.sqrt(x.shape[-1])).masked_fill(~real.tril(), low)
        return scores.softmax(-1) @ v


def bugged(fill=-math.inf, only_in_training=False, real=None, past=None):
    """Return a forward with these bugs; `real` and `past` make other masks."""

    def forward(self, x, tokens):
        q, k, v = projected(self, x)
        L = x.shape[1]
        mask = real(tokens, self.pad_id) if real else (tokens != self.pad_id)[:, None, :]
        if self.training or not only_in_training:
            mask = mask & (past(L) if past else torch.ones(L, L).bool().tril())
        scores = (q @ k.transpose(-2, -1) / math.sqrt(x.shape[-1])).masked_fill(~mask, fill)
        return scores.softmax(-1) @ v

    return forward


@wrong("RepairedSelfAttention", "NaN", "nothing left")
class WithoutTheDiagonal(Given):
    """tril(-1): the first row has nothing left."""

    forward = bugged(past=lambda L: torch.ones(L, L).bool().tril(-1))


@right("RepairedSelfAttention")
class FilledWithABillion(Given):
    """What was meant; it does not fit into float16, which nobody asks for here."""

    forward = bugged(-1e9)


@wrong("RepairedSelfAttention", "NaN", "only keys masked")
class QueriesMasked(Given):
    """Queries of pads are masked too: rows with nothing left."""

    forward = bugged(
        real=lambda tokens, pad_id: (tokens != pad_id)[:, None, :] & (tokens != pad_id)[..., None]
    )


@wrong("RepairedSelfAttention", "keep `__init__` as it was given")
class OneLinearMore(Given):
    """An output projection is added."""

    def __init__(self, d_model, pad_id):
        super().__init__(d_model, pad_id)
        self.w_o = nn.Linear(d_model, d_model, bias=False)

    forward = bugged()


class InSteps(Given):
    """The solution in steps, each of which an answer can replace."""

    def mask(self, tokens):
        past = torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool).tril()
        return (tokens != self.pad_id)[:, None] & past

    def weigh(self, x, tokens):
        scores = self.w_q(x) @ self.w_k(x).mT / math.sqrt(x.shape[-1])
        return scores.masked_fill(~self.mask(tokens), -math.inf).softmax(-1)

    def forward(self, x, tokens):
        return self.weigh(x, tokens) @ self.w_v(x)


@wrong("RepairedSelfAttention", "changed the mode of self")
class SwitchesToTraining(InSteps):
    """A mask that is made in training only is repaired by always being in training."""

    def forward(self, x, tokens):
        return super().forward(x, tokens) if self.train() else None


@wrong("RepairedSelfAttention", "after one with other numbers", "begin anew")
class MaskOfTheFirstCall(InSteps):
    """Made once and kept."""

    def mask(self, tokens):
        if getattr(self, "kept", tokens).shape[-1] != tokens.shape[-1] or not hasattr(self, "kept"):
            self.kept = super().mask(tokens)
        return self.kept


@wrong("RepairedSelfAttention", "cut off from the weights")
class WithoutGradients(InSteps):
    """no_grad, as around a validation loss."""

    def forward(self, x, tokens):
        with torch.no_grad():
            return super().forward(x, tokens)


@wrong("RepairedSelfAttention", "No gradient comes through to x")
class InputDetached(InSteps):
    """The three layers learn, and nothing below them."""

    def forward(self, x, tokens):
        return super().forward(x.detach(), tokens)


@wrong("RepairedSelfAttention", "w_q.weight is the same parameter as w_k.weight")
class OneLayerForQueriesAndKeys(InSteps):
    """One layer under two names."""

    def __init__(self, d_model, pad_id):
        super().__init__(d_model, pad_id)
        self.w_k = self.w_q


@wrong("RepairedSelfAttention", "has shape", "axes of length 1")
class Squeezed(InSteps):
    """squeeze() after a batch of one was tried out in the notebook."""

    def forward(self, x, tokens):
        return super().forward(x, tokens).squeeze()


@wrong("RepairedSelfAttention", "Your code stopped", "520")
class WithAMaskOfEight(InSteps):
    """A buffer of the size that the example needed."""

    def mask(self, tokens):
        L = tokens.shape[1]
        past = torch.ones(8, 8, dtype=torch.bool).tril()[:L, :L]
        return (tokens != self.pad_id)[:, None] & past


@right("RepairedSelfAttention")
class PrefixByPrefix(Given):
    def forward(self, x, tokens):
        outputs = []
        for i in range(x.shape[1]):
            past, real = x[:, : i + 1], tokens[:, : i + 1] != self.pad_id
            scores = (self.w_q(x[:, i : i + 1]) * self.w_k(past)).sum(-1) / x.shape[-1] ** 0.5
            weights = scores.masked_fill(~real, -1e30).softmax(1)
            outputs.append((weights[..., None] * self.w_v(past)).sum(1))
        return torch.stack(outputs, 1)


def hiding(mask_the_scores):
    """The forward pass of a module that hides what is forbidden in another way."""

    def forward(self, x, tokens):
        scores = self.w_q(x) @ self.w_k(x).mT / math.sqrt(x.shape[-1])
        past = torch.ones(scores.shape[-2:]).bool().tril()
        mask = (tokens != self.pad_id)[:, None] & past
        return mask_the_scores(scores, mask).softmax(-1) @ self.w_v(x)

    return forward


@wrong("RepairedSelfAttention", "Some scores are 0 and not masked")
class AsksTheScores(Given):
    """Multiplied by the mask, then `scores == 0`: a pad's vector of zeros has such scores."""

    forward = hiding(
        lambda scores, mask: (scores * mask).masked_fill(scores * mask == 0, -math.inf)
    )


@right("RepairedSelfAttention")
class FilledWithMinus1e9(Given):
    forward = hiding(lambda scores, mask: scores.masked_fill(~mask, -1e9))


@right("RepairedSelfAttention")
class FilledWithTheSmallestNumber(Given):
    forward = hiding(lambda scores, mask: scores.masked_fill(~mask, torch.finfo(scores.dtype).min))


@right("RepairedSelfAttention")
class DividedAgainAfterTheMask(Given):
    def forward(self, x, tokens):
        scores = self.w_q(x) @ self.w_k(x).mT / math.sqrt(x.shape[-1])
        past = torch.ones(scores.shape[-2:]).bool().tril()
        weights = scores.softmax(-1) * ((tokens != self.pad_id)[:, None] & past)
        return weights / weights.sum(-1, keepdim=True) @ self.w_v(x)


@wrong("RepairedSelfAttention", "Your code stopped", "after a shorter text", "Is a mask kept")
class WithACausalMaskOfTheFirstLength(Given):
    """Made once and cut to size: a longer text finds it too small."""

    def forward(self, x, tokens):
        q, k, v = projected(self, x)
        L = x.shape[1]
        if not hasattr(self, "past"):
            self.past = torch.ones(L, L, dtype=torch.bool).tril()
        mask = (tokens != self.pad_id)[:, None] & self.past[:L, :L]
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


@wrong("masked_softmax", "fill before exp")
def where_behind_exp(scores, mask):
    """Right forward; backward 0 · inf is NaN."""
    top = scores.masked_fill(~mask, -math.inf).amax(-1, keepdim=True).detach()
    top = top.masked_fill(top == -math.inf, 0)
    exp = torch.where(mask, (scores - top).exp(), 0.0)
    total = exp.sum(-1, keepdim=True)
    return exp / total.masked_fill(total == 0, 1)


@wrong("masked_softmax", "exactly 0")
def clamped_weights(scores, mask):
    """So that a logarithm stays finite."""
    weights = scores.masked_fill(~mask, -math.inf).softmax(-1).masked_fill(~mask, 0)
    return weights.clamp(min=1e-9)


# ---- Masks of a fixed size, and numbers that are not low enough

PAST_OF_512 = torch.ones(512, 512, dtype=torch.bool).tril()


@wrong("causal_mask", "has shape (512, 512)")
def causal_mask_of_512(length):
    """Made once, as long as the longest text of the data."""
    return PAST_OF_512[:length, :length]


@wrong("decoder_mask", "must match", "512")
def decoder_mask_of_512(tokens, pad_id):
    """The same, and joined with the padding."""
    L = tokens.shape[1]
    return (tokens != pad_id)[:, None, None] & PAST_OF_512[:L, :L]


@wrong("masked_softmax", "1,000 is subtracted from forbidden scores", "higher by more")
def thousand_subtracted(scores, mask):
    """Enough for all scores that one has seen."""
    return (scores - 1000 * (~mask).to(scores.dtype)).softmax(-1).masked_fill(~mask, 0)


def masked_by_hand(change, past=None):
    """Return a module in which `change` makes weights from scores and a mask."""

    class ByHand(Given):
        def forward(self, x, tokens):
            q, k, v = projected(self, x)
            L = x.shape[1]
            before = torch.ones(L, L).tril() > 0 if past is None else past[:L, :L]
            mask = (tokens != self.pad_id)[:, None] & before
            return change(q @ k.mT / math.sqrt(x.shape[-1]), mask) @ v

    return ByHand


def filled_with(number):
    return lambda scores, mask: scores.masked_fill(~mask, number).softmax(-1)


def maximum_first(scores, mask):
    exp = (scores - scores.amax(-1, keepdim=True)).exp() * mask
    return exp / exp.sum(-1, keepdim=True)


@right("RepairedSelfAttention")
class MaximumBeforeTheMask(masked_by_hand(maximum_first)):
    """The lesson's other route: weights to 0, and divided again."""


@wrong("RepairedSelfAttention", "must match", "512")
class MaskOf512(masked_by_hand(filled_with(-math.inf), PAST_OF_512)):
    """Made once, as long as the longest text of the data."""


@right("RepairedSelfAttention")
class BillionSubtracted(masked_by_hand(lambda s, m: (s - 1e9 * ~m).softmax(-1))):
    pass


@right("RepairedSelfAttention")
class MaximumBehindTheMask(
    masked_by_hand(lambda s, m: maximum_first(s.masked_fill(~m, -math.inf), m))
):
    pass
