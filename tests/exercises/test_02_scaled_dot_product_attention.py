"""The checks of exercise 02. A mistake's text ends the sentence "This is the answer when …"."""

import itertools
import math

import numpy as np
import torch
import torch.nn.functional as F

from course.checking import expect
from course.checking.diagnosis import expect_no_memory, expect_predictions

HIDDEN = "exp overflows, and the NaN that comes of it is replaced by 0. Subtract the maximum first."
OVERFLOW = (
    "exp of a large number is inf, and inf/inf is NaN. Subtract the largest score of each softmax "
    "first: the result is the same."
)

MAXIMUM = "Is it the maximum that you subtract?"
UNDERFLOW = (
    "exp of a number far below 0 is 0, and 0/0 is NaN. Subtract the largest number, whatever its "
    "sign: then one of the exps is 1."
)
MASKED_NAN = (
    "−inf stands in the wrong place. Fill it into the scores where the mask is False, before the "
    "softmax: do not multiply by it, and do not put it into the weights."
)

TOO_LOW = (
    "The number that is filled in where the mask is False does not fit into float16, whose lowest "
    "is −65,504. Fill with −math.inf, or with torch.finfo(scores.dtype).min."
)
INFINITE = (
    "In float16 a number such as −1e9 is −inf; 0 · (−inf) and −inf − (−inf) are NaN. Fill −inf "
    "into the scores where the mask is False, with masked_fill or torch.where, and take the "
    "softmax over all keys at once; or fill with torch.finfo(scores.dtype).min."
)
OTHER_DTYPE = (
    "With float16 and a mask two dtypes meet. A tensor that is made for the mask needs the scores' "
    "own: dtype=scores.dtype. Does a product with the mask make float32 of the scores?"
)


def row_sums(dim=-1):
    """Say what the weights along `dim` add up to, if it is not 1."""

    def hint(weights):
        sums = weights.sum(dim).flatten()
        worst = sums[(sums - 1).abs().argmax()].item()
        return (
            "" if abs(worst - 1) < 1e-2 else f"Some weights along dim={dim} add up to {worst:.3g}."
        )

    return hint


# ---- predicted_outputs


def test_the_five_look_ups_are_predicted(predicted_outputs):
    weights = "Write down the scores, then the weights, then the average."
    hints = {
        "a": {
            0: "A query of zeros still gets an answer: all scores are 0. Which weights are these?",
            60: "No key wins when all scores are equal. Which weights does the softmax give?",
            None: weights,
        },
        "b": {
            60: "The third dot product is negative, and exp makes it the smallest of all.",
            None: "The scores are about 707, 0 and −707. What does the softmax make of them?",
        },
        "c": {
            10: "The two weights that are left must still add up to 1.",
            30: "A masked key has weight 0, not an equal share.",
            None: weights,
        },
        "d": {
            30: "Each entry has a weight of its own, also one that is there twice.",
            None: weights,
        },
        "e": {
            60: "Each value moves with its key. Does the order of the pairs matter?",
            None: weights,
        },
    }
    right = {"a": 30, "b": 0, "c": 15, "d": 37.5, "e": 0}
    expect_predictions(predicted_outputs(), right, hints)


# ---- stable_softmax


def normalised(x, dim):
    return x / x.sum(dim, keepdim=True)


def softmax_mistakes(x, dim):
    exp, top = x.exp(), x.amax(dim, True)
    others = [axis for axis in range(x.ndim) if axis != dim % x.ndim and x.shape[dim] > 1]
    no_keepdim = "`keepdim=True` is missing in the"
    return {
        "`dim` is ignored: the softmax runs over the last axis.": lambda: F.softmax(x, -1),
        "`dim` is ignored: the softmax runs over the first axis.": lambda: F.softmax(x, 0),
        **{
            f"the softmax runs over axis {axis}, and not over dim={dim}.": F.softmax(x, axis)
            for axis in others
            if 0 < axis < x.ndim - 1
        },
        "the sum runs over the whole tensor. Sum along `dim`.": lambda: exp / exp.sum(),
        "the maximum is subtracted, and the sum runs over the whole tensor. Sum along `dim`.": (
            lambda: (x - top).exp() / (x - top).exp().sum()
        ),
        f"{no_keepdim} sum: a row is divided by another row's.": lambda: exp / exp.sum(dim),
        f"{no_keepdim} sum: a row is divided by the sum of another.": (
            lambda: (x - top).exp() / (x - top).exp().sum(dim)
        ),
        f"{no_keepdim} maximum: a row loses the maximum of another.": (
            lambda: normalised((x - x.amax(dim)).exp(), dim)
        ),
        f"{no_keepdim} maximum and in the sum.": (
            lambda: (x - x.amax(dim)).exp() / (x - x.amax(dim)).exp().sum(dim)
        ),
        **{
            f"the maximum is taken along axis {axis}, and the sum along dim={dim}.": (
                normalised((x - x.amax(axis, True)).exp(), dim)
            )
            for axis in others
        },
        "the division by the sum is missing.": lambda: exp,
        "the maximum is subtracted, but the division by the sum is missing.": (
            lambda: (x - top).exp()
        ),
        "exp is missing: the numbers are divided by their sum.": lambda: normalised(x, dim),
        "exp is missing after the shift.": lambda: normalised(x - top, dim),
        "the logarithm is returned (log-softmax).": lambda: F.log_softmax(x, dim),
        "the numbers are divided by the largest one before exp. Subtract it.": (
            lambda: F.softmax(x / top, dim)
        ),
        "the largest number gets the smallest weight: a sign is wrong.": lambda: F.softmax(-x, dim),
        "a power of 2 is used, not of e.": lambda: F.softmax(x * math.log(2), dim),
        "squares are used, not powers of e.": lambda: normalised(x**2, dim),
        "absolute values are taken; a negative number gets a small weight.": (
            lambda: F.softmax(x.abs(), dim)
        ),
        "each number goes through a sigmoid alone; softmax compares them.": lambda: x.sigmoid(),
        "the mean stands for the sum: the weights do not add up to 1.": (
            lambda: F.softmax(x, dim) * x.shape[dim]
        ),
        "the softmax is taken twice.": lambda: F.softmax(F.softmax(x, dim), dim),
    }


def test_a_softmax_begins_anew_in_each_call(stable_softmax):
    expect_no_memory(stable_softmax, F.softmax, (torch.randn(5, 5), 1), (torch.randn(5, 5), 1))


def test_softmax_runs_along_dim_when_all_axes_are_equally_long(stable_softmax):
    x = 2 * torch.randn(3, 3, 3)  # here a wrong broadcast gives numbers, not an error
    for dim in (1, -1, 0, -2):
        right, mistakes = F.softmax(x, dim), softmax_mistakes(x, dim)
        expect(stable_softmax(x, dim), right, mistakes, hint=row_sums(dim))


def test_three_numbers_that_can_be_checked_by_hand(stable_softmax):
    x = torch.tensor([1.0, 2.0, 5.0]).log()  # exp gives 1, 2, 5 again, and their sum is 8
    expect(stable_softmax(x, 0), torch.tensor([1.0, 2.0, 5.0]) / 8, softmax_mistakes(x, 0))


def test_softmax_runs_along_dim_in_any_shape(stable_softmax):
    for shape in ((2, 5), (2, 3, 5), (2, 1, 3, 4), (1, 3, 1), (2, 1, 3)):
        x = 2 * torch.randn(shape)
        for dim in range(-len(shape), len(shape)):
            expect(stable_softmax(x, dim), F.softmax(x, dim), softmax_mistakes(x, dim))


def test_large_numbers_do_not_overflow(stable_softmax):
    mistakes = {
        "the numbers are cut off at a limit. Subtract the maximum: then nothing is lost.": (
            torch.full((3,), 1 / 3)
        ),
        "exp gives inf or 0 for every number, and no trick in the division brings them back. "
        "Subtract the maximum before exp: then one of them is 1.": torch.zeros(3),
    }
    for sign, why in ((1, OVERFLOW), (-1, UNDERFLOW)):
        x = sign * torch.tensor([1000.0, 1001.0, 1002.0])
        expect(stable_softmax(x, 0), F.softmax(x, 0), mistakes, nan=why)
    for place in range(3):  # the first, the last and the mean are not the maximum
        x = torch.tensor([200.0, 0.0, 1.0]).roll(place)
        expect(stable_softmax(x, 0), F.softmax(x, 0), nan=f"{OVERFLOW} {MAXIMUM}")


def test_each_row_is_shifted_by_its_own_maximum(stable_softmax):
    x = torch.tensor([[0.0, 1.0, 2.0], [1000.0, 1001.0, 1002.0]])
    why = "one row is far below another, and all its exps are 0. Subtract each row's own maximum."
    lost = {why: F.softmax(x, 1) * (x > 9)}
    nan = why[0].upper() + why[1:]
    expect(stable_softmax(x, 1), F.softmax(x, 1), lost, nan=nan)
    expect(stable_softmax(x.T, 0), F.softmax(x.T, 0), nan=nan)


def test_minus_infinity_gets_no_weight(stable_softmax):
    x = torch.tensor([[0.0, -math.inf, 1.0], [-math.inf, 2.0, 0.5]])
    why = f"One score is −inf, its weight is 0. {MAXIMUM}"
    expect(stable_softmax(x, -1), F.softmax(x, -1), nan=why)
    x = torch.tensor([-math.inf, -30_000.0, -30_001.0], dtype=torch.float64)
    replaced = (
        "−inf is replaced by a number such as −50 or −10,000, and the other scores are lower. "
        "Leave it as it is: exp(−inf) is 0."
    )
    expect(stable_softmax(x, 0), F.softmax(x, 0), {replaced: torch.eye(3).double()[0]}, nan=why)


def test_softmax_works_in_half_and_double_precision(stable_softmax):
    for dtype in (torch.float16, torch.float64):
        x = torch.tensor([[3.0, 11.5, 12.0], [-2.0, 0.0, 12.0]], dtype=dtype)
        expect(stable_softmax(x, -1), F.softmax(x.double(), -1).to(dtype), nan=OVERFLOW)


# ---- What attention gives, right and wrong


def attend(query, key, value, mask=None, divisor=None, axis=-1):
    """The equation; `divisor` and `axis` are there to be set wrong."""
    divisor = math.sqrt(query.shape[-1]) if divisor is None else divisor
    scores = query @ key.transpose(-2, -1) / divisor
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    weights = F.softmax(scores, axis)
    return weights @ value, weights


AXES = {
    "softmax runs over the queries; the keys are dim=-1": -2,
    "softmax runs over axis 0; the keys are dim=-1": 0,
    "softmax runs over axis 1; the keys are dim=-1": 1,
}


def attention_mistakes(query, key, value, mask=None):
    """Wrong divisors, wrong axes, both at once, and every step gone wrong."""
    given = query, key, value, mask
    steps = steps_gone_wrong(*given) | rows_gone_wrong(*given)
    return scaled_or_summed_wrongly(*given) | steps | returned_wrongly(*given)


def scaled_or_summed_wrongly(query, key, value, mask=None, axes=AXES):
    root = math.sqrt(query.shape[-1])
    divisors = {
        "the scores are not divided by √d_k": 1.0,
        "the scores are divided by d_k, not by its square root": root**2,
        "the scores are multiplied by √d_k, not divided": 1 / root,
        "√d_v, the size of a value, is used for √d_k": math.sqrt(value.shape[-1]),
        "the root of the number of keys is used for √d_k": math.sqrt(key.shape[-2]),
        "the root of the number of queries is used for √d_k": math.sqrt(query.shape[-2]),
        "the root of len(query), the first axis, is used for √d_k": math.sqrt(len(query)),
        "the number of keys is used for √d_k": key.shape[-2],
        "the size of a value is used for √d_k": value.shape[-1],
        "d_k² is used for √d_k": root**4,
        "√d_k is cut to a whole number: use math.sqrt, not math.isqrt or int(…)": int(root),
        "`d_k ** 1 / 2` is d_k / 2: write 0.5, or put the exponent in brackets": root**2 / 2,
        "after a division `d_k ** 1 / 2` makes 2 · d_k: write `d_k ** 0.5`": 2 * root**2,
        "8 is used for √d_k: that is the root of the paper's 64, and here it is another": 8.0,
        "the fourth root of d_k is used for the square root": math.sqrt(root),
        "the length of the query is used for √d_k": query.norm(dim=-1, keepdim=True),
    }
    first = {divisor: text for text, divisor in reversed(divisors.items())}  # of those that agree
    divisors = {text: divisor for text, divisor in divisors.items() if first[divisor] == text}
    alone = [((text, divisor), ("", -1)) for text, divisor in divisors.items()]
    alone += [(("", root), axis) for axis in axes.items()]
    return {
        " and ".join(filter(None, (one, other))) + ".": (
            lambda divisor=divisor, axis=axis: attend(query, key, value, mask, divisor, axis)
        )
        for (one, divisor), (other, axis) in alone
        + list(itertools.product(divisors.items(), axes.items()))
    }


def steps_gone_wrong(query, key, value, mask=None):
    """What can go wrong with any number of queries."""
    root = math.sqrt(query.shape[-1])
    scores = query @ key.transpose(-2, -1) / root
    right = attend(query, key, value, mask)[1]

    def read(weights, values=value):
        return weights @ values, weights

    def soft(scores, values=value):
        return read(F.softmax(scores, -1), values)

    def compare(one, other):
        return soft(one @ other.transpose(-2, -1) / root)

    return {
        "softmax comes first and the division by √d_k after it: the rows do not add up to 1.": (
            lambda: read(attend(query, key, value, mask, 1)[1] / root)
        ),
        "the weights are divided by √d_k once more, after the softmax.": lambda: read(right / root),
        "the softmax is missing.": lambda: read(scores),
        "softmax and scale are missing.": lambda: read(scores * root),
        "the scores are divided by their sum; softmax takes exp first.": (
            lambda: read(normalised(scores, -1))
        ),
        "the softmax's division by the sum is missing.": lambda: read(scores.exp()),
        "softmax is taken twice.": lambda: soft(right),
        "the logarithm of the weights is taken (log-softmax).": lambda: read(right.log()),
        "the weights are multiplied by √d_k after the softmax.": lambda: read(
            attend(query, key, value, mask, 1)[1] * root
        ),
        "the scores are divided by their length; softmax takes exp and divides by the sum.": (
            lambda: read(F.normalize(scores, dim=-1))
        ),
        "each score goes through a sigmoid alone; softmax compares them.": (
            lambda: read(scores.sigmoid())
        ),
        "the best key takes all; softmax gives every key a share.": (
            lambda: read(F.one_hot(right.argmax(-1), right.shape[-1]).to(value.dtype))
        ),
        "every key gets the same weight: the scores are not used.": (
            lambda: read(torch.ones_like(right) / right.shape[-1])
        ),
        "the key is not transposed: `query @ key` fits only a square.": lambda: soft(
            query @ key / root
        ),
        "the values come first in the last product: it is weights @ value.": (
            lambda: (value @ right, right)
        ),
        "a causal mask is put in, for which nobody asked.": (
            lambda: soft(scores.masked_fill(torch.ones_like(scores).triu(1) > 0, -math.inf))
        ),
        "keys are averaged in the place of values.": lambda: read(right, key),
        "queries are averaged in the place of values.": lambda: read(right, query),
        "queries are compared with values in the place of keys.": lambda: compare(query, value),
        "keys are compared with keys: the query is not used.": lambda: compare(key, key),
        "vectors are brought to length 1 first: that is cosine similarity.": (
            lambda: soft(F.normalize(query, dim=-1) @ F.normalize(key, dim=-1).transpose(-2, -1))
        ),
        "the best key gets the smallest weight: a sign is wrong.": lambda: soft(-scores),
        "a distance is used, not a dot product.": lambda: soft(-(torch.cdist(query, key) ** 2)),
        "a scaled distance is used, not a dot product.": lambda: soft(
            -(torch.cdist(query, key) ** 2) / root
        ),
    }


def rows_gone_wrong(query, key, value, mask=None):
    """What shows only with several queries."""
    root = math.sqrt(query.shape[-1])
    scores = query @ key.transpose(-2, -1) / root
    shifted = scores - scores.amax(-1, keepdim=True)
    right = attend(query, key, value, mask)[1]

    def read(weights, values=value):
        return weights @ values, weights

    def soft(scores, values=value):
        return read(F.softmax(scores, -1), values)

    def compare(one, other):
        return soft(one @ other.transpose(-2, -1) / root)

    return {
        "softmax runs over all pairs at once; the weights of each query add up to 1.": (
            lambda: read(scores.flatten(-2).softmax(-1).view_as(scores))
        ),
        "the weights are divided by their sum over the queries as well.": (
            lambda: read(right / right.sum(-2, keepdim=True))
        ),
        "`keepdim=True` is missing in the softmax's sum.": (
            lambda: read(scores.exp() / scores.exp().sum(-1))
        ),
        "`keepdim=True` is missing in the softmax's sum, after the shift.": (
            lambda: read(shifted.exp() / shifted.exp().sum(-1))
        ),
        "`keepdim=True` is missing in the softmax's maximum.": (
            lambda: read(normalised((scores - scores.amax(-1)).exp(), -1))
        ),
        "the scores are transposed: row i must hold what query i asks.": (
            lambda: soft(scores.transpose(-2, -1))
        ),
        "the weights are transposed before they meet the values.": (
            lambda: (right.transpose(-2, -1) @ value, right)
        ),
        "queries are compared with queries: the key is not used.": lambda: compare(query, query),
    }


def returned_wrongly(query, key, value, mask=None):
    """What shows only in the weights."""
    root = math.sqrt(query.shape[-1])
    scores = query @ key.transpose(-2, -1) / root
    right = attend(query, key, value, mask)[1]
    return {
        "the returned weights are transposed: row i must belong to query i.": (
            lambda: (right @ value, right.transpose(-2, -1))
        ),
        "the scaled scores are returned in the place of the weights.": (
            lambda: (right @ value, scores)
        ),
        "the scores are returned in the place of the weights.": (
            lambda: (right @ value, scores * root)
        ),
    }


def mask_mistakes(query, key, value, mask):
    Lq, Lk = query.shape[-2], key.shape[-2]
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    open_weights = scores.softmax(-1)

    def read(weights):
        return weights @ value, weights

    def filled(number, where=None):
        return read(scores.masked_fill(~mask if where is None else where, number).softmax(-1))

    right = filled(-math.inf)
    return {
        "the mask is ignored.": lambda: read(open_weights),
        "the mask is turned round: True means *may attend*.": lambda: filled(-math.inf, mask),
        "weights are set to 0 after the softmax, so that the rows no longer add up to 1.": (
            lambda: read(open_weights * mask)
        ),
        "the mask is used for the returned weights and not for the output.": (
            lambda: (open_weights @ value, right[1])
        ),
        "the mask is used for the output and not for the returned weights.": (
            lambda: (right[0], open_weights)
        ),
        "the softmax is taken twice, before the mask and after it.": (
            lambda: read(open_weights.masked_fill(~mask, -math.inf).softmax(-1))
        ),
        "masked scores become 0: but exp(0) is 1, not 0. Fill with −inf.": lambda: filled(0.0),
        "the mask is added as 0 and 1. Fill with −inf where it is False.": (
            lambda: read((scores + mask).softmax(-1))
        ),
        "masked scores become +inf, or very large: the sign is wrong.": lambda: filled(1e9),
        "the mask is transposed: its last axis belongs to the keys.": (
            lambda: filled(-math.inf, ~mask.transpose(-2, -1))
        ),
        "every query may attend to the key at its own place, whatever the mask says.": (
            lambda: filled(-math.inf, ~(mask | torch.eye(Lq, Lk).bool()))
        ),
        **{
            f"masked scores become {number}: not low enough, some weight leaks. Fill with −inf.": (
                lambda number=number: filled(float(number))
            )
            for number in (-1, -2, -5, -10, 1)
        },
    }


# ---- attend_one


def overflows(query, keys):
    return (query @ keys.mT / math.sqrt(query.shape[-1])).exp().isinf().any()


def one_query_mistakes(query, keys, values):
    """What goes wrong with a single query only, then the mistakes of attention."""
    given = query[None], keys, values
    many = scaled_or_summed_wrongly(*given, axes={}) | steps_gone_wrong(*given)
    weights = attend(query[None], keys, values)[1][0]
    return {
        "softmax runs over an axis of length 1, so that every weight is 1. The keys of a column "
        "(Lk, 1) are dim=0, those of a row (1, Lk) are dim=1.": values.sum(0),
        **{text: lambda answer=answer: answer()[0][0] for text, answer in many.items()},
        **({HIDDEN: 0 * values[0]} if overflows(query, keys) else {}),
        "the weights are returned; they still have to average the values.": weights,
        "the output keeps an axis of length 1: one query asked, so its shape is (d_v,).": (
            (weights @ values)[None]
        ),
        "the weighted values are not summed over the keys.": weights[:, None] * values,
        "the sum runs over the features of a value; it must run over the keys.": (
            (weights[:, None] * values).sum(1)
        ),
        "weights and values meet the wrong way: it is weights @ values, not values @ weights.": (
            lambda: values @ weights
        ),
        "only the last key's share is kept: the shares of all keys have to be added up.": (
            weights[-1] * values[-1]
        ),
        "the mean over the keys is taken; the weights already add up to 1, so take the sum.": (
            weights @ values / len(keys)
        ),
    }


def one_query(keys=5, d_k=6, d_v=3):
    return 2 * torch.randn(d_k), torch.randn(keys, d_k), torch.randn(keys, d_v)


def check_one_query(attend_one, *given, nan=OVERFLOW):
    expected = attend(given[0][None], *given[1:])[0][0]
    expect(attend_one(*given), expected, one_query_mistakes(*given), nan=nan)


def test_a_query_knows_nothing_of_the_one_before(attend_one):
    def right(query, keys, values):
        return attend(query[None], keys, values)[0][0]

    first, second = one_query(4, 4, 4), one_query(4, 4, 4)
    expect_no_memory(attend_one, right, first, second)


def test_one_query_when_all_sizes_are_equal(attend_one):
    check_one_query(attend_one, torch.randn(5), torch.randn(5, 5), torch.randn(5, 5))


def test_one_query_on_paper(attend_one):
    query = torch.tensor([2.0, 0.0, 0.0, 0.0])  # √d_k = 2, so the scaled scores are 0, 1 and 2
    keys = torch.tensor([[0.0, 1, 0, 0], [1, 0, 1, 0], [2, 0, 0, 1]])
    values = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    exps = torch.tensor([1.0, math.e, math.e**2])
    expected = torch.stack([exps[0] + exps[2], exps[1] + exps[2]]) / exps.sum()
    expect(attend_one(query, keys, values), expected, one_query_mistakes(query, keys, values))


def test_one_query_with_other_sizes(attend_one):
    for sizes in ({}, {"keys": 1}, {"d_v": 1}, {"d_k": 1}):
        check_one_query(attend_one, *one_query(**sizes))


def test_one_query_with_large_scores(attend_one):
    check_one_query(attend_one, 100 * torch.randn(6), 10 * torch.randn(5, 6), torch.randn(5, 3))


def test_one_query_with_a_single_large_score(attend_one):
    query, values = torch.tensor([2.0, 0.0, 0.0, 0.0]), torch.randn(3, 2)
    for place in range(3):  # the first, the last and the mean are not the largest
        keys = torch.randn(3, 4)
        keys[:, 0] = torch.tensor([200.0, 0.0, 1.0]).roll(place)
        check_one_query(attend_one, query, keys, values, nan=f"{OVERFLOW} {MAXIMUM}")


def test_one_query_in_half_and_double_precision(attend_one):
    for dtype in (torch.float16, torch.float64):
        given = [torch.randn(shape, dtype=dtype) for shape in ((6,), (5, 6), (5, 3))]
        expected = attend(given[0][None].double(), *(x.double() for x in given[1:]))[0][0]
        expect(attend_one(*given), expected.to(dtype), one_query_mistakes(*given), nan=OVERFLOW)


# ---- scaled_dot_product_attention


def inputs(*leading, queries=3, keys=5, d_k=6, d_v=7):
    """Random query, key and value; all sizes differ unless told otherwise."""
    shapes = ((queries, d_k), (keys, d_k), (keys, d_v))
    query, key, value = (torch.randn(*leading, *shape) for shape in shapes)
    return 1.5 * query, key, value


def square(*leading):
    """The same with equal sizes, where a wrong transpose gives numbers and not an error."""
    return inputs(*leading, queries=5, keys=5, d_k=5, d_v=5)


def check_attention(attention, *given, mistakes=None, nan=OVERFLOW):
    mistakes = (mistakes or {}) | attention_mistakes(*given)
    names = ("output", "weights")
    answer, right = attention(*given), attend(*given)
    if overflows(*given[:2]):
        mistakes |= {HIDDEN: (0 * right[0], 0 * right[1])}
    hint = row_sums()
    expect(answer, right, mistakes, names=names, nan=nan, hint=lambda both: hint(both[1]))


def check_masked(attention, *given):
    check_attention(attention, *given, mistakes=mask_mistakes(*given), nan=MASKED_NAN)


def test_attention_begins_anew_in_each_call(scaled_dot_product_attention):
    first, second = (*square(6), MASK.roll(1, -1)), (*square(6), MASK.roll(2, -1))
    expect_no_memory(scaled_dot_product_attention, attend, first, second)


def test_attention_when_all_sizes_are_equal(scaled_dot_product_attention):
    check_attention(scaled_dot_product_attention, *square(2))


def test_attention_with_any_leading_axes(scaled_dot_product_attention):
    for leading in ((2,), (), (2, 4), (1,)):
        check_attention(scaled_dot_product_attention, *inputs(*leading))


def test_attention_of_one_query_and_to_one_key(scaled_dot_product_attention):
    for sizes in ({"queries": 1}, {"keys": 1}):
        check_attention(scaled_dot_product_attention, *inputs(2, **sizes))


MASK = (torch.arange(5) - torch.arange(5)[:, None]) % 5 < 2  # key i or i + 1 for query i
WIDE_MASK = torch.tensor([[1, 1, 0, 0, 1], [0, 0, 1, 0, 0], [0, 1, 1, 1, 0]]).bool()


def test_masked_keys_get_no_weight_and_the_rest_adds_up_to_one(scaled_dot_product_attention):
    batch = torch.stack([MASK, MASK.roll(1, -1)])
    for leading, mask in (((2,), batch), ((2,), batch[:, :1]), ((), MASK), ((2, 3), MASK)):
        query, key, value = square(*leading)
        check_masked(scaled_dot_product_attention, query, 2 * key, value, mask)


def test_a_mask_fits_when_sizes_differ(scaled_dot_product_attention):
    batch = torch.stack([WIDE_MASK, WIDE_MASK.roll(2, -1)])[:, None]
    for leading, mask in (((2,), WIDE_MASK), ((2, 4), batch), ((2, 4), batch[:, :, :1])):
        check_masked(scaled_dot_product_attention, *inputs(*leading), mask)


def test_attention_with_large_scores(scaled_dot_product_attention):
    query, key, value = inputs(2)
    check_attention(scaled_dot_product_attention, 100 * query, 10 * key, value)


def test_a_mask_hides_however_low_the_other_scores_are(scaled_dot_product_attention):
    query, key, value = inputs(2, d_k=4)
    query, key = 2 * query.round(), key.round()
    query[..., -1], key[..., -1] = -200_000, 1  # so all scores are whole numbers near −100,000
    query[:, 0] = 0  # as a pad's vector often is: all of its scores are 0
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    weights = scores.masked_fill(~WIDE_MASK, -1e4).softmax(-1)
    mistakes = {
        "masked scores become a number such as −100 or −10,000, and others can be lower. Fill with "
        "−inf.": (weights @ value, weights),
    }
    nan = "Some scores are 0 and not masked: ask the mask, and not the scores, where −inf belongs."
    given = query, key, value, WIDE_MASK
    check_attention(scaled_dot_product_attention, *given, mistakes=mistakes, nan=nan)


def test_a_mask_hides_however_high_the_masked_scores_are(scaled_dot_product_attention):
    query, key, value = inputs(2, d_k=4)
    query[..., -1], key[..., -1], key[:, -1, -1] = 12, 0, 10  # the last key's are higher by 60
    mask = torch.ones(3, 5).bool()
    mask[:, -1] = False
    given = query, key, value, mask
    scores = query @ key.transpose(-2, -1) / 2
    mistakes = {}
    for number in (20, 50):
        weights = (scores - number * ~mask).softmax(-1)
        why = f"{number} or so is subtracted from masked scores: they can be higher by more."
        mistakes[f"{why} Fill with −inf."] = weights @ value, weights
    check_attention(scaled_dot_product_attention, *given, mistakes=mistakes)
    query, key, value = query.double(), key.double(), value.double()
    key[:, -1, -1] = 100  # now they are higher by 600, which float64 can still weigh
    weights = F.one_hot(torch.full((2, 3), 4), 5).double()
    why = (
        "a number such as 100 is subtracted from masked scores: they can be higher by more. Fill "
        "with −inf."
    )
    mistakes = {why: (weights @ value, weights)}
    check_attention(scaled_dot_product_attention, query, key, value, mask, mistakes=mistakes)


def test_attention_in_half_and_double_precision(scaled_dot_product_attention):
    for dtype in (torch.float16, torch.float64):
        given = [x.to(dtype) for x in inputs(2)]
        expected = tuple(x.to(dtype) for x in attend(*(x.double() for x in given)))
        answer = scaled_dot_product_attention(*given)
        names = ("output", "weights")
        expect(answer, expected, attention_mistakes(*given), names=names, nan=OVERFLOW)


def test_a_mask_fits_into_half_and_double_precision(scaled_dot_product_attention):
    for dtype in (torch.float16, torch.float64):
        given = [x.to(dtype) for x in inputs(2)]
        wide = [x.double() for x in given]
        expected = tuple(x.to(dtype) for x in attend(*wide, WIDE_MASK))
        answer = masked_in_half_precision(scaled_dot_product_attention, *given)
        mistakes, names = mask_mistakes(*wide, WIDE_MASK), ("output", "weights")
        expect(answer, expected, mistakes, names=names, nan=INFINITE)


def masked_in_half_precision(attention, *given):
    """Call it with a mask; say what an error means that float16 alone brings."""
    try:
        return attention(*given, WIDE_MASK)
    except RuntimeError as error:
        assert "without overflow" not in str(error), TOO_LOW
        assert "dtype" not in str(error) and "Half" not in str(error), OTHER_DTYPE
        raise


# ---- attention_gradient


def true_gradient(query, key, value, grad_output):
    given = [torch.tensor(x, requires_grad=True) for x in (query, key, value)]
    grads = torch.autograd.grad(attend(*given)[0], given, torch.tensor(grad_output))
    return tuple(grad.numpy() for grad in grads)


def through_softmax(weights, grad):
    return weights * (grad - (weights * grad).sum(-1, keepdims=True))


def gradient(query, key, value, grad, rule=through_softmax, before=None, after=None, axis=-1):
    """The gradient in steps; rule, divisors and axis are there to be set wrong."""
    root = math.sqrt(query.shape[-1])
    weights = torch.from_numpy(query @ key.T / (before or root)).softmax(axis).numpy()
    grad_scores = rule(weights, grad @ value.T) / (after or root)
    return grad_scores @ key, grad_scores.T @ query, weights.T @ grad


SOFTMAX_MISTAKES = {  # ways to get from dW, here g, to dS
    "the gradient goes past the softmax as if it were not there: dS = dW.": lambda w, g: g,
    "the sum over the row is missing: dS = W ∘ (dW − rowsum(dW ∘ W)).": lambda w, g: w * g,
    "only the diagonal of the softmax's Jacobian is used: a weight depends on all scores of its "
    "row.": lambda w, g: w * (1 - w) * g,
    "the sum runs over the queries; it must run over the keys, axis=-1.": (
        lambda w, g: w * (g - (w * g).sum(0, keepdims=True))
    ),
    "the sum runs over the whole matrix; each row has its own.": (
        lambda w, g: w * (g - (w * g).sum())
    ),
    "`keepdims=True` is missing: each row loses the sum of another.": (
        lambda w, g: w * (g - (w * g).sum(-1))
    ),
    "the mean of dW is subtracted; it must be the mean under the weights, rowsum(dW ∘ W).": (
        lambda w, g: w * (g - g.mean(-1, keepdims=True))
    ),
    "the row's sum of dW is subtracted; it must be the sum of dW ∘ W.": (
        lambda w, g: w * (g - g.sum(-1, keepdims=True))
    ),
    "the row's mean of dW ∘ W is subtracted; it must be the sum.": (
        lambda w, g: w * (g - (w * g).mean(-1, keepdims=True))
    ),
    "the factor W in front is missing: dS = W ∘ (dW − rowsum(dW ∘ W)).": (
        lambda w, g: g - (w * g).sum(-1, keepdims=True)
    ),
    "the row's sum is added; it must be subtracted.": (
        lambda w, g: w * (g + (w * g).sum(-1, keepdims=True))
    ),
    "dW is not used, only W ∘ (1 − W).": lambda w, g: w * (1 - w),
    "dW is transposed: it is dO @ valueᵀ, one row for each query.": (
        lambda w, g: through_softmax(w, g.T)
    ),
}


def gradient_mistakes(query, key, value, grad):
    given, root = (query, key, value, grad), math.sqrt(query.shape[-1])
    d_query, d_key, d_value = gradient(*given)
    scores = query @ key.T / root
    exp = np.exp(scores - scores.max(-1, keepdims=True))
    weights = exp / exp.sum(-1, keepdims=True)
    d_scores = through_softmax(weights, grad @ value.T) / root

    def with_weights(weights):
        d_scores = through_softmax(weights, grad @ value.T) / root
        return d_scores @ key, d_scores.T @ query, weights.T @ grad

    return {
        "the gradient is not divided by √d_k on its way from the scores to query and key.": (
            lambda: gradient(*given, after=1)
        ),
        "the scale is missing, forward and backward.": lambda: gradient(*given, before=1, after=1),
        "the scale is missing where the weights are computed.": lambda: gradient(*given, before=1),
        "d_k is used for √d_k, forward and backward.": (
            lambda: gradient(*given, before=root**2, after=root**2)
        ),
        "the gradient is divided by d_k: √d_k, once, is enough.": (
            lambda: gradient(*given, after=root**2)
        ),
        "the gradient is multiplied by √d_k; the chain rule divides by it.": (
            lambda: gradient(*given, after=1 / root)
        ),
        "softmax runs over the queries; the keys are axis=-1.": lambda: gradient(*given, axis=0),
        "the weights of all pairs add up to 1; those of each query must.": (
            lambda: with_weights(np.exp(scores) / np.exp(scores).sum())
        ),
        "`keepdims=True` is missing in the softmax's sum.": (
            lambda: with_weights(exp / exp.sum(-1))
        ),
        "`keepdims=True` is missing in the softmax's maximum.": (
            lambda: with_weights(torch.from_numpy(scores - scores.max(-1)).softmax(-1).numpy())
        ),
        **{
            text: lambda rule=rule: gradient(*given, rule)
            for text, rule in SOFTMAX_MISTAKES.items()
        },
        "dW is made without a transpose: it is dO @ valueᵀ.": (
            lambda: gradient(*given, lambda w, g: through_softmax(w, grad @ value))
        ),
        "the weights are not transposed in grad_value: it is Wᵀ dO.": (
            lambda: (d_query, d_key, weights @ grad)
        ),
        "grad_value is grad_output itself; the weights pass it on: Wᵀ dO.": (d_query, d_key, grad),
        "grad_key is dS @ query; the transpose is missing: dSᵀ @ query.": (
            lambda: (d_query, d_scores @ query, d_value)
        ),
        "grad_query is dSᵀ @ key; there is no transpose in it: dS @ key.": (
            lambda: (d_scores.T @ key, d_key, d_value)
        ),
        "grad_query is made from the query; it is dS @ key.": (
            lambda: (d_scores @ query, d_key, d_value)
        ),
        "grad_key is made from the key; it is dSᵀ @ query.": (
            lambda: (d_query, d_scores.T @ key, d_value)
        ),
        "grad_output is not used: it is taken for 1 everywhere.": (
            lambda: gradient(query, key, value, np.ones_like(grad))
        ),
        "all signs are turned round.": (-d_query, -d_key, -d_value),
        "the gradient is divided by the number of queries.": (
            tuple(x / len(query) for x in (d_query, d_key, d_value))
        ),
    }


def check_gradient(attention_gradient, *given):
    answer, names = attention_gradient(*given), ("grad_query", "grad_key", "grad_value")
    expect(answer, true_gradient(*given), gradient_mistakes(*given), names=names, nan=OVERFLOW)


def arrays(queries, keys, d_k, d_v, seed=2):
    rng = np.random.default_rng(seed)
    shapes = ((queries, d_k), (keys, d_k), (keys, d_v), (queries, d_v))
    return [rng.normal(size=shape) for shape in shapes]


def test_a_gradient_begins_anew_in_each_call(attention_gradient):
    first, second = arrays(6, 6, 6, 6), arrays(6, 6, 6, 6, seed=3)
    expect_no_memory(attention_gradient, true_gradient, first, second)


def test_gradient_when_all_sizes_are_equal(attention_gradient):
    check_gradient(attention_gradient, *arrays(5, 5, 5, 5))


def test_gradient_agrees_with_autograd(attention_gradient):
    for sizes in ((3, 5, 6, 7), (1, 4, 2, 3), (4, 1, 3, 2), (2, 3, 1, 1)):
        check_gradient(attention_gradient, *arrays(*sizes))


def test_gradient_with_large_scores(attention_gradient):
    query, key, value, grad = arrays(3, 5, 6, 7)
    check_gradient(attention_gradient, 300 * query, 10 * key, value, grad)


# ---- repaired_attention


def repair_mistakes(query, key, value):
    """The two bugs, alone and together; then every mistake of attention."""
    given, root = (query, key, value), math.sqrt(key.shape[-1])
    many = scaled_or_summed_wrongly(*given) | steps_gone_wrong(*given) | rows_gone_wrong(*given)
    scores = query @ key.transpose(-2, -1)
    return {
        "both bugs are still there: look at the softmax's axis and at the scale's place.": (
            lambda: scores.softmax(1) / root @ value
        ),
        "one bug is left: the softmax still comes before the scale.": (
            lambda: scores.softmax(-1) / root @ value
        ),
        "one bug is left: the softmax runs over the queries. dim=1 is the keys of one sentence, "
        "but the queries of a batch.": lambda: (scores / root).softmax(1) @ value,
        "the scale is gone: divide the scores by √d_k before the softmax.": (
            lambda: scores.softmax(-1) @ value
        ),
        "the weights are returned; they still have to average the values.": (
            lambda: attend(query, key, value)[1]
        ),
        **{
            text: lambda answer=answer: answer()[0]
            for text, answer in many.items()
            if text not in TOLD_ABOVE
        },
    }


TOLD_ABOVE = (
    "the scores are not divided by √d_k.",
    "softmax runs over axis 1; the keys are dim=-1.",
    "softmax comes first and the division by √d_k after it: the rows do not add up to 1.",
)


def test_repaired_attention_begins_anew_in_each_call(repaired_attention):
    expect_no_memory(repaired_attention, lambda *given: attend(*given)[0], square(6), square(6))


def test_repaired_attention_is_attention(repaired_attention):
    ones = inputs(1), inputs(2, queries=1), inputs(2, keys=1), inputs(2, d_v=1)
    for given in (square(2), inputs(2), inputs(), square(2, 3), inputs(2, 4), *ones):
        expect(repaired_attention(*given), attend(*given)[0], repair_mistakes(*given))


def test_repaired_attention_with_large_scores(repaired_attention):
    query, key, value = inputs(2)
    given = 100 * query, 10 * key, value
    expect(repaired_attention(*given), attend(*given)[0], repair_mistakes(*given), nan=OVERFLOW)
