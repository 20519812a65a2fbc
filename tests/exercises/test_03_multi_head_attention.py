"""The checks of exercise 03. A mistake's text ends the sentence "This is the answer when …"."""

import itertools
import math
import re
import unicodedata

import numpy as np
import torch
import torch.nn.functional as F

from course.checking import expect
from course.checking.diagnosis import (
    expect_learning,
    expect_no_memory,
    expect_predictions,
    random_weights,
)

# ---- predicted_letters


def tidy(answer):
    """Return "b3 b4" for "B3, b4", "b₃b₄", "b_3 b_4" or ["b3", "b4"]; anything else as it is."""
    if not isinstance(answer, str | list | tuple | np.ndarray):
        return answer
    plain = unicodedata.normalize("NFKC", str(answer)).lower()
    return " ".join(re.findall(r"[a-c][1-4]", re.sub(r"[\W_]", "", plain))) or answer


def test_the_letters_are_predicted(predicted_letters):
    in_line = "Write all twelve letters in one line, as they lie in memory, and cut it."
    hints = {
        "a": {
            "b1 b2": "These are the features of the first head. Which are left for the second?",
            "c1 c2": "That is what the wrong split gives. Every head has a row for every token.",
            "a3 a4": "That is the first row of the second head: rows are tokens.",
            None: "The second head has the same half of every token. Which half, which token?",
        },
        "b": {
            "b3 b4": "That is the right split, or the second head's first row. A reshape alone "
            "leaves the letters where they are, and the second row is asked for.",
            "a3 a4": "That is in the first head. The second head begins with the seventh letter.",
            None: in_line,
        },
        "c": {
            "b1 b2 b3 b4": "A merge with the swap gives that. Without it the first head comes "
            "whole, and then the second.",
            "b1 b2 a3 a4": "Write the rows of head 1 in one line, those of head 2 behind it; then "
            "cut after every four letters.",
            None: "Write the two heads of a in one line, one head after the other, and cut it.",
        },
        "d": {
            "c1 c2 a3 a4": "A right split gives that. Here the split moves no letter either.",
            None: "What does a reshape do to the order in memory? And a second one?",
        },
        "e": {
            1: "Token c has features in both heads.",
            3: "In a good split a head has one row for each token. How many of them belong to c?",
            4: "In a good split a head has one row for each token. How many of them belong to c?",
            6: "The rows of the tokens a and b do not change: no attention has run yet.",
            None: "Mark token c's features in both heads, and count the rows with a mark.",
        },
    }
    right = {"a": "b3 b4", "b": "c1 c2", "c": "c1 c2 a3 a4", "d": "b1 b2 b3 b4", "e": 2}
    answers = predicted_letters()
    if isinstance(answers, (list, tuple)):
        answers = [tidy(answer) for answer in answers]
    expect_predictions(answers, right, hints)


# ---- split_heads


def numbered(*shape):
    """Return a tensor whose numbers are all different, so that none can stand for another."""
    return torch.arange(1.0, math.prod(shape) + 1).view(shape)


def split(x, heads):
    return x.unflatten(-1, (heads, x.shape[-1] // heads)).transpose(1, 2)


def merge(x):
    return x.transpose(1, 2).flatten(2)


def view_split(x, heads):
    """The mistake of the lesson: cut as the numbers lie in memory."""
    B, L, d_model = x.shape
    return x.reshape(B, heads, L, d_model // heads)


def split_mistakes(x, heads):
    B, L, d_model = x.shape
    d_k = d_model // heads
    cut = x.reshape(B, L, heads, d_k)
    return {
        "the reshape goes straight to (B, H, L, d_k): the first head gets the first tokens, "
        "whole, and nothing of the others. Cut the features first, (B, L, H, d_k), then swap "
        "tokens and heads.": lambda: view_split(x, heads),
        "tokens and heads are not swapped after the cut: the axes are (B, L, H, d_k).": cut,
        "the features are dealt out in turn: head 0 gets features 0, H, 2H, … It gets the first "
        "d_k: cut into (H, d_k), not (d_k, H).": (
            lambda: x.reshape(B, L, d_k, heads).permute(0, 3, 1, 2)
        ),
        "the features are cut into (d_k, H) and the wrong one of the two is swapped with the "
        "tokens.": lambda: x.reshape(B, L, d_k, heads).transpose(1, 2),
        "the tokens are swapped with the features before the cut, and the reshape mixes them.": (
            lambda: x.transpose(1, 2).reshape(B, heads, L, d_k)
        ),
        "the axes after the heads are (d_k, L). Swap axes 1 and 2 of (B, L, H, d_k), and leave "
        "the last.": cut.permute(0, 2, 3, 1),
        "heads and features are swapped, not heads and tokens.": cut.transpose(2, 3),
        "the heads come before the batch: stack them along axis 1.": cut.permute(2, 0, 1, 3),
        "the batch is swapped with the heads; swap the tokens with the heads.": (
            lambda: cut.transpose(0, 2)
        ),
        "the axis of the batch is swapped with that of the tokens.": lambda: cut.transpose(0, 1),
        "the heads stand in the opposite order.": split(x, heads).flip(1),
        "head h begins at feature h, and not at h · d_k: the heads overlap.": (
            lambda: torch.stack([x[..., h : h + d_k] for h in range(heads)], 1)
        ),
        "every head gets the first d_k features.": (
            lambda: x[:, None, :, :d_k].expand(B, heads, L, d_k)
        ),
        "every head gets all features: d_k = d_model / H.": (
            lambda: x[:, None].expand(B, heads, L, d_model)
        ),
        "batch and heads are one axis: keep them apart, (B, H, L, d_k).": (
            lambda: split(x, heads).flatten(0, 1) if B > 1 else None
        ),
        "the result is a list of heads: stack them along axis 1.": [*split(x, heads).unbind(1)],
    }


# B, L, H, d_k; a squeeze() shows where one of them is 1
SIZES = (
    *((2, 5, 3, 4), (3, 2, 4, 1), (2, 4, 1, 6), (3, 3, 3, 3), (1, 4, 2, 3), (2, 1, 3, 4)),
    (2, 3, 1, 1),
)


def check_split(split_heads, x, heads):
    expect(split_heads(x, heads), split(x, heads), split_mistakes(x, heads))


def test_every_head_gets_its_part_of_every_token(split_heads):
    for B, L, heads, d_k in SIZES:
        check_split(split_heads, numbered(B, L, heads * d_k), heads)


def test_split_takes_an_input_that_lies_otherwise_in_memory(split_heads):
    check_split(split_heads, numbered(2, 12, 5).transpose(1, 2), 3)


def test_split_in_half_and_double_precision(split_heads):
    for dtype in (torch.float16, torch.float64):
        x = numbered(2, 3, 8).to(dtype)
        check_split(split_heads, x, 2)
        check_dtype(split_heads(x, 2), x)


def check_dtype(answer, x):
    assert answer.dtype == x.dtype, (
        f"The input holds {x.dtype}, the result {answer.dtype}: torch.zeros and the like make "
        "float32 unless they are told dtype=x.dtype."
    )


# ---- merge_heads


def merge_mistakes(x):
    B, heads, L, d_k = x.shape
    return {
        "heads and tokens are not swapped back before the reshape: a token gets the features of "
        "its neighbours.": lambda: x.reshape(B, L, heads * d_k),
        "the features of the heads are dealt out in turn. Each head's d_k features stay "
        "together.": lambda: x.permute(0, 2, 3, 1).reshape(B, L, heads * d_k),
        "the tokens are swapped with the features, not with the heads.": (
            lambda: x.transpose(2, 3).reshape(B, L, heads * d_k)
        ),
        "the axes are reversed before the reshape: swap only tokens and heads.": (
            lambda: x.permute(0, 3, 2, 1).reshape(B, L, heads * d_k)
        ),
        "the batch is swapped as well: it stays in front.": (
            lambda: x.permute(1, 2, 0, 3).reshape(B, L, heads * d_k)
        ),
        "the heads stand in the opposite order.": merge(x.flip(1)),
        "the heads are added up. They stand side by side: H · d_k features.": lambda: x.sum(1),
        "the heads are averaged. They stand side by side: H · d_k features.": lambda: x.mean(1),
        "only the first head is kept.": lambda: x[:, 0],
        "the heads are swapped back and not put together: the axes are (B, L, H, d_k).": (
            x.transpose(1, 2)
        ),
        "the heads stand below each other, as more tokens. Put them side by side, along the last "
        "axis.": lambda: x.flatten(1, 2),
        "the features come before the tokens.": (
            lambda: x.transpose(2, 3).reshape(B, heads * d_k, L)
        ),
    }


def check_merge(merge_heads, x):
    expect(merge_heads(x), merge(x), merge_mistakes(x))


def test_merged_heads_stand_side_by_side_token_by_token(merge_heads):
    for B, L, heads, d_k in SIZES:
        check_merge(merge_heads, numbered(B, heads, L, d_k))


def test_merge_in_half_and_double_precision(merge_heads):
    for dtype in (torch.float16, torch.float64):
        x = numbered(2, 3, 5, 4).to(dtype)
        check_merge(merge_heads, x)
        check_dtype(merge_heads(x), x)


def test_each_split_and_merge_begins_anew(split_heads, merge_heads):
    x, y = torch.randn(2, 2, 7, 12)
    expect_no_memory(split_heads, split, (x, 3), (y, 3))
    expect_no_memory(merge_heads, merge, (split(x, 3),), (split(y, 3),))


# ---- count_parameters


def count_mistakes(d, heads):
    d_k = d // heads
    return {
        "one of the four matrices is missing. (Often it is W_O.)": 3 * d * d,
        "only W_O is counted.": d * d,
        "every head gets matrices as wide as the model. Those of a head are d_model × d_k.": (
            4 * heads * d * d
        ),
        "every head gets matrices as wide as the model, W_O aside. Those of a head are "
        "d_model × d_k.": 3 * heads * d * d + d * d,
        "only one head has its three matrices counted (or those of all heads are taken to be "
        "d_k × d_k: they are d_model × d_k).": 3 * d * d_k + d * d,
        "one head is counted. There are `num_heads` of them.": 4 * d * d_k,
        "a head's matrices are taken to be d_k × d_k, and shared by all heads.": (
            3 * d_k * d_k + d * d
        ),
        "every matrix is taken to be d_k × d_k.": 4 * d_k * d_k,
        "a W_O of its own is given to every head, as wide as the model.": (
            3 * d * d + heads * d * d
        ),
        "W_O is taken to be as narrow as a head: it is (h · d_v) × d_model.": 3 * d * d + d * d_k,
        "biases are counted: here there are none.": 4 * (d * d + d),
        "biases are counted for W_Q, W_K and W_V: here there are none.": 4 * d * d + 3 * d,
        "`^` is meant as a power: in Python that is **.": 4 * d ^ 2,
        "two projections in a row are counted, one for all heads and one for each. The heads' "
        "matrices are the only ones.": 7 * d * d,
        "rows are counted, not numbers: a matrix has rows × columns.": 4 * d,
        "each matrix is counted with 2 · d_model numbers: multiply rows and columns.": 8 * d,
    }


def test_the_parameters_are_counted(count_parameters):
    for d, heads in ((30, 5), (512, 8), (16, 1), (16, 16)):
        expect(count_parameters(d, heads), 4 * d * d, count_mistakes(d, heads))


# ---- MultiHeadAttention, and repaired_heads


def attend(q, k, v, mask=None, divisor=None, axis=-1):
    """Attention in each head; `divisor` and `axis` are there to be set wrong."""
    scores = q @ k.transpose(-2, -1) / (divisor or math.sqrt(q.shape[-1]))
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    return scores.softmax(axis) @ v


def multi_head(projected, out, heads, mask=None, split=split, merge=merge, **attention):
    """The whole from projected q, k, v on; every step can be replaced by a wrong one."""
    q, k, v = (split(x, heads) for x in projected)
    return out(merge(attend(q, k, v, mask, **attention)))


def flat_merge(x):
    return x.reshape(len(x), x.shape[2], -1)


def interleaved(x, heads):
    return x.unflatten(-1, (x.shape[-1] // heads, heads)).permute(0, 3, 1, 2)


UNSWAPPED = "the heads are merged without swapping heads and tokens back"
TOO_WIDE = "the scores are divided by √d_model: a head compares vectors of size d_k"
SPLITS = {
    "the heads are split by a reshape alone: each gets some tokens whole and nothing of the "
    "others. Cut the features, (B, L, H, d_k), then swap": view_split,
    "each head gets every H-th feature, not d_k neighbours": interleaved,
}
MERGES = {
    UNSWAPPED: flat_merge,
    "the features of the heads are merged in turn, not head by head": (
        lambda x: x.permute(0, 2, 3, 1).flatten(2)
    ),
    "the heads are merged after tokens and features were swapped, not heads and tokens": (
        lambda x: x.transpose(2, 3).reshape(len(x), x.shape[2], -1)
    ),
}


def wrong_steps(heads, d_model, Lk):
    """What can be replaced in `multi_head`, each with what is then said."""
    return {
        **{text: {"split": wrong} for text, wrong in SPLITS.items()},
        **{text: {"merge": wrong} for text, wrong in MERGES.items()},
        TOO_WIDE: {"divisor": math.sqrt(d_model)},
        "the scores are not divided by √d_k": {"divisor": 1.0},
        "the scores are divided by d_k, not by its square root": {"divisor": d_model / heads},
        "the scores are divided by d_model: it is √d_k": {"divisor": d_model},
        "√d_k is cut to a whole number: use math.sqrt, not math.isqrt or int(…)": {
            "divisor": math.isqrt(d_model // heads)
        },
        "after a division `d_k ** 1 / 2` makes 2 · d_k: write `d_k ** 0.5`": {
            "divisor": 2 * d_model / heads
        },
        "`d_k ** 1 / 2` is d_k / 2: write 0.5, or put the exponent in brackets": {
            "divisor": d_model / heads / 2
        },
        "the scores are divided by √H, the number of heads: it is √d_k": {
            "divisor": math.sqrt(heads)
        },
        "the scores are divided by the root of the number of keys: it is √d_k": {
            "divisor": math.sqrt(Lk)
        },
        "the softmax runs over the queries: the keys are dim=-1": {"axis": -2},
        "the softmax runs over the heads: the keys are dim=-1": {"axis": 1},
        "the softmax runs over the batch: the keys are dim=-1": {"axis": 0},
    }


def step_mistakes(projected, out, heads, mask=None):
    """Every wrong step alone, then all pairs of two."""
    steps = wrong_steps(heads, projected[0].shape[-1], projected[1].shape[1])
    alone = [((text, wrong),) for text, wrong in steps.items()]
    pairs = [p for p in itertools.combinations(steps.items(), 2) if not set(p[0][1]) & set(p[1][1])]
    return {
        "; and ".join(text for text, _ in chosen) + ".": (
            lambda chosen=chosen: multi_head(
                projected,
                out,
                heads,
                mask,
                **{k: v for _, wrong in chosen for k, v in wrong.items()},
            )
        )
        for chosen in alone + pairs
    }


def linears(weights):
    """Return the four layers as functions of x, from copies of their weights."""
    return {
        name: (lambda x, w=weights[f"{name}.weight"]: F.linear(x, w))
        for name in ("w_q", "w_k", "w_v", "w_o")
    }


def true_module(weights, heads, query, key, value, mask=None):
    w = linears(weights)
    return multi_head((w["w_q"](query), w["w_k"](key), w["w_v"](value)), w["w_o"], heads, mask)


TOO_HIGH = (
    "masked scores become a number such as −100 or −10,000, and others can be lower. Fill with "
    "−inf."
)


def module_mistakes(weights, heads, query, key, value, mask=None):
    w = linears(weights)
    w_q, w_k, w_v, w_o = w.values()
    projected = w_q(query), w_k(key), w_v(value)

    def run(q=projected[0], k=projected[1], v=projected[2], out=w_o, heads=heads, mask=mask):
        return multi_head((q, k, v), out, heads, mask)

    def mixed(q, k, v):
        return lambda: run(w_q(q), w_k(k), w_v(v))

    def cut(x):
        return x.unflatten(-1, (heads, -1))

    def weighed(weigh):
        q, k, v = (split(x, heads) for x in projected)
        return w_o(merge(weigh(q @ k.mT / math.sqrt(q.shape[-1])) @ v))

    def every():
        return mask.expand(len(query), heads, query.shape[1], key.shape[1])

    transposed = {name: weight.T for name, weight in weights.items()}
    return {
        "w_o is missing: the heads stand side by side and are not mixed.": (
            lambda: run(out=lambda x: x)
        ),
        "heads and tokens are never swapped: each token attends from head to head of its own, "
        "and meets no other token.": lambda: w_o(attend(*(cut(x) for x in projected)).flatten(2)),
        "there is one head only, as wide as the model: `num_heads` is not used.": (
            lambda: run(heads=1)
        ),
        **{
            f"there are {n} heads, and num_heads is {heads}: use the number that was given.": (
                lambda n=n: run(heads=n)
            )
            for n in (2, 4, 8)
            if n != heads and query.shape[-1] % n == 0
        },
        "w_k is missing: the keys are not projected.": lambda: run(k=key),
        "w_q is missing: the queries are not projected.": lambda: run(q=query),
        "w_v is missing: the values are not projected.": lambda: run(v=value),
        "nothing is projected but the result: w_q, w_k and w_v are missing.": (
            lambda: run(query, key, value)
        ),
        "no projection is used.": lambda: run(query, key, value, lambda x: x),
        "keys go through w_q: they have w_k.": lambda: run(k=w_q(key)),
        "values go through w_k: they have w_v.": lambda: run(v=w_k(value)),
        "queries go through w_k, keys through w_q.": lambda: run(w_k(query), w_q(key)),
        "w_q serves for queries, keys and values.": (lambda: run(w_q(query), w_q(key), w_q(value))),
        "the projections of keys and values are exchanged.": lambda: run(k=w_v(key), v=w_k(value)),
        "the matrices are used without the transpose: `self.w_q(x)` is x @ w_q.weight.T.": (
            lambda: true_module(transposed, heads, query, key, value, mask)
        ),
        **{
            f"{name}.weight is used without its transpose: `self.{name}(x)` is x @ "
            f"{name}.weight.T.": (
                lambda name=name: true_module(
                    weights | {f"{name}.weight": transposed[f"{name}.weight"]},
                    *(heads, query, key, value, mask),
                )
            )
            for name in w
        },
        "key and value are exchanged.": mixed(query, value, key),
        "values are made from `key`; `value` is not used.": mixed(query, key, key),
        "keys are made from `value`; `key` is not used.": mixed(query, value, value),
        "keys are made from `query`; `key` is not used.": mixed(query, query, value),
        "values are made from `query`; `value` is not used.": mixed(query, key, query),
        "query, key and value are all made from `query`: that is self-attention only.": mixed(
            query, query, query
        ),
        "query and key are exchanged.": mixed(key, query, value),
        "queries are made from `key`; `query` is not used.": mixed(key, key, value),
        "the query is added to the result: the residual belongs to the layer around it.": (
            lambda: run() + query
        ),
        "the mask is ignored.": lambda: run(mask=None),
        "the mask is turned round: True means *may attend*.": lambda: run(mask=~mask),
        "the mask is transposed: its last axis belongs to the keys.": (
            lambda: run(mask=mask.transpose(-2, -1))
        ),
        "masked scores become 0: but exp(0) is 1, not 0. Fill with −inf.": (
            lambda: weighed(lambda scores: (scores * mask).softmax(-1))
        ),
        "the mask is added as 0 and 1. Fill with −inf where it is False.": (
            lambda: weighed(lambda scores: (scores + mask).softmax(-1))
        ),
        TOO_HIGH: lambda: weighed(lambda scores: scores.masked_fill(~mask, -1e4).softmax(-1)),
        **{
            f"{number} is subtracted from masked scores: not enough, some weight leaks. Fill with "
            "−inf.": (
                lambda number=number: weighed(lambda scores: (scores - number * ~mask).softmax(-1))
            )
            for number in (2, 5, 10, 20)
        },
        "weights are set to 0 after the softmax, so that the rows no longer add up to 1.": (
            lambda: weighed(lambda scores: scores.softmax(-1) * mask)
        ),
        "every sentence gets the mask of sentence 0.": lambda: run(mask=every()[:1]),
        "every head gets the mask of head 0.": lambda: run(mask=every()[:, :1]),
        "only head 0 gets the mask.": (
            lambda: run(mask=every() | (torch.arange(heads) > 0)[:, None, None])
        ),
        "a causal mask is put in, for which nobody asked.": (
            lambda: run(mask=torch.ones(query.shape[1], key.shape[1]).tril() > 0)
        ),
        "w_o comes before the attention, on the values.": (
            lambda: run(v=w_o(projected[2]), out=lambda x: x)
        ),
        "the values are projected by w_o as well.": lambda: run(v=w_o(projected[2])),
        "w_o is used twice.": lambda: w_o(run()),
        **step_mistakes(projected, w_o, heads, mask),
    }


def made(MultiHeadAttention, d_model, heads, dtype=torch.float32):
    """Return a module with random weights, and copies of these."""
    module = MultiHeadAttention(d_model, heads).to(dtype)
    names = ("w_q", "w_k", "w_v", "w_o")
    return module, random_weights(module, {f"{n}.weight": (d_model, d_model) for n in names})


def check_module(MultiHeadAttention, heads, query, key, value, *mask):
    module, weights = made(MultiHeadAttention, query.shape[-1], heads, query.dtype)
    given = query, key, value, *mask
    expected = true_module(weights, heads, *given)
    expect(module(*given), expected, module_mistakes(weights, heads, *given))


def texts(*shapes):
    return [torch.randn(shape) for shape in shapes]


def test_the_module_begins_anew_in_each_call(MultiHeadAttention):
    module, weights = made(MultiHeadAttention, 10, 2)
    first, second = texts(*3 * [(2, 5, 10)]), texts(*3 * [(2, 5, 10)])
    mask = torch.arange(25).view(5, 5) % 7 > 2  # and its transpose is another

    def right(*given):
        return true_module(weights, 2, *given)

    expect_no_memory(module, right, first, second)
    module, weights = made(MultiHeadAttention, 10, 2)  # one that was never called without a mask
    expect_no_memory(module, right, [*first, mask], [*second, mask.roll(1, -1)])


def test_self_attention(MultiHeadAttention):
    for heads, d_model in ((3, 30), (3, 12)):
        (x,) = texts((2, 5, d_model))
        check_module(MultiHeadAttention, heads, x, x, x)


def test_the_module_when_all_sizes_are_equal(MultiHeadAttention):
    check_module(MultiHeadAttention, 2, *texts((2, 2, 4), (2, 2, 4), (2, 2, 4)))
    check_module(MultiHeadAttention, 3, *texts((3, 3, 9), (3, 3, 9), (3, 3, 9)))


def test_cross_attention_with_other_lengths(MultiHeadAttention):
    for B, Lq, Lk in ((2, 3, 5), (3, 5, 3), (2, 1, 4), (2, 4, 1), (1, 3, 2)):
        check_module(MultiHeadAttention, 3, *texts((B, Lq, 12), (B, Lk, 12), (B, Lk, 12)))


def test_one_head_and_as_many_as_features(MultiHeadAttention):
    for heads, d_model in ((1, 6), (6, 6), (1, 1)):
        shapes = (2, 3, d_model), (2, 4, d_model), (2, 4, d_model)
        check_module(MultiHeadAttention, heads, *texts(*shapes))


def test_a_mask_keeps_keys_away(MultiHeadAttention):
    square = torch.tensor([[1, 0, 0, 1], [0, 1, 1, 0], [1, 0, 1, 1], [0, 0, 0, 1]]).bool()
    each = torch.stack([square, square.roll(1, -1)])  # (B, L, L)
    per_head = torch.stack([each, each.flip(-1), each.roll(2, -1)], dim=1)  # (B, H, L, L)
    for mask in (square, each[:, None], each[:, None, 2:3], per_head, per_head[0]):
        query, key, value = texts((2, 4, 12), (2, 4, 12), (2, 4, 12))
        query[:, 0] = 0  # its scores are 0: the mask must be asked, and not the scores
        check_module(MultiHeadAttention, 3, query, key, value, mask)


def test_a_mask_fits_when_lengths_differ(MultiHeadAttention):
    mask = torch.tensor([[1, 1, 0, 0, 1], [0, 0, 1, 0, 0], [0, 1, 1, 1, 0]]).bool()
    for each in (mask, mask[None, None, :1]):
        check_module(MultiHeadAttention, 3, *texts((2, 3, 12), (2, 5, 12), (2, 5, 12)), each)


def test_a_mask_hides_however_low_the_other_scores_are(MultiHeadAttention):
    module, weights = made(MultiHeadAttention, 8, 2)
    weights["w_q.weight"] = torch.diag(torch.tensor([1.0, 1.0, 1.0, -100_000.0] * 2))
    weights["w_k.weight"] = torch.eye(8)
    module.load_state_dict(weights)
    x = 2.0 * torch.randint(-1, 2, (2, 4, 8))
    x[..., 3::4] = 2  # so all scores are even numbers near −200,000
    given = x, x, x, torch.ones(4, 4).tril() > 0
    mistakes = module_mistakes(weights, 2, *given)
    mistakes = {TOO_HIGH: mistakes[TOO_HIGH]} | mistakes
    expect(module(*given), true_module(weights, 2, *given), mistakes)


def test_a_mask_hides_however_high_the_masked_scores_are(MultiHeadAttention):
    module, weights = made(MultiHeadAttention, 8, 2, torch.float64)
    weights["w_q.weight"], weights["w_k.weight"] = torch.eye(8).double(), torch.eye(8).double()
    module.load_state_dict(weights)
    query, key = (text.double() for text in texts((2, 4, 8), (2, 4, 8)))
    query[..., 3::4], key[..., 3::4] = 2, 0
    key[:, -1, 3::4] = 600  # so the last key's scores are higher by 600, which float64 can weigh
    mask = torch.ones(4, 4).bool()
    mask[:, -1] = False
    why = (
        "a number such as 20 or 100 is subtracted from masked scores: they can be higher by more. "
        "Fill with −inf."
    )
    mistakes = {why: true_module(weights, 2, query, key, key)}
    given = query, key, key, mask
    expect(module(*given), true_module(weights, 2, *given), mistakes)


def test_the_mask_counts_in_both_modes(MultiHeadAttention):
    x, mask = torch.randn(2, 4, 12), torch.ones(4, 4).tril() > 0
    for mode in ("train", "eval"):
        module, weights = made(MultiHeadAttention, 12, 3)
        answer, given = module.train(mode == "train")(x, x, x, mask), (x, x, x, mask)
        asked = {
            f"the mask is ignored in {mode} mode: do without self.training.": (
                true_module(weights, 3, x, x, x)
            )
        }
        mistakes = asked | module_mistakes(weights, 3, *given)
        expect(answer, true_module(weights, 3, *given), mistakes)


def test_the_module_in_half_and_double_precision(MultiHeadAttention):
    for dtype in (torch.float64, torch.float16):
        x, memory = (text.to(dtype) for text in texts((2, 3, 12), (2, 5, 12)))
        module, weights = made(MultiHeadAttention, 12, 3, dtype)
        wide = {name: weight.double() for name, weight in weights.items()}
        expected = true_module(wide, 3, x.double(), memory.double(), memory.double()).to(dtype)
        expect(module(x, memory, memory), expected, module_mistakes(weights, 3, x, memory, memory))


def test_every_projection_learns_and_what_is_below(MultiHeadAttention):
    module, _ = made(MultiHeadAttention, 12, 3)
    query, key, value = texts((2, 3, 12), (2, 5, 12), (2, 5, 12))
    weights = dict(module.named_parameters())
    expect_learning(
        module, lambda *given: true_module(weights, 3, *given), query=query, key=key, value=value
    )


def hunt(x, w_q, w_k, w_v, w_o, heads):
    """Return what repaired_heads should give, and what its mistakes give."""
    projected = x @ w_q, x @ w_k, x @ w_v

    def out(y):
        return y @ w_o

    steps = step_mistakes(projected, out, heads)
    mistakes = {
        "both bugs are still there: look at the divisor, and at the line that brings the heads "
        "back together.": steps.pop(f"{UNSWAPPED}; and {TOO_WIDE}."),
        "one bug is left: the heads come back together without swapping heads and tokens.": (
            steps.pop(f"{UNSWAPPED}.")
        ),
        "one bug is left: the scores are divided by √d_model, but they are dot products of size "
        "d_k.": steps.pop(f"{TOO_WIDE}."),
        "w_o is missing.": lambda: multi_head(projected, lambda y: y, heads),
        "w_o is transposed: here it is x @ w.": (
            lambda: multi_head(projected, lambda y: y @ w_o.T, heads)
        ),
        "the matrices are transposed: here it is x @ w.": (
            lambda: multi_head((x @ w_q.T, x @ w_k.T, x @ w_v.T), lambda y: y @ w_o.T, heads)
        ),
        "heads and tokens are never swapped: each token attends from head to head of its own.": (
            lambda: out(attend(*(y.unflatten(-1, (heads, -1)) for y in projected)).flatten(2))
        ),
        "there is one head only: `num_heads` is not used.": lambda: multi_head(projected, out, 1),
    }
    return multi_head(projected, out, heads), mistakes | steps


def test_repaired_heads_begin_anew_in_each_call(repaired_heads):
    first, second = ((torch.randn(2, 5, 6), *torch.randn(4, 6, 6), 2) for _ in range(2))
    expect_no_memory(repaired_heads, lambda *given: hunt(*given)[0], first, second)


def test_repaired_heads_are_multi_head_attention(repaired_heads):
    sizes = (2, 15, 5, 3), (2, 12, 5, 3), (3, 9, 3, 3), (2, 4, 4, 2), (3, 8, 2, 4), (2, 6, 4, 1)
    for B, d_model, L, heads in (*sizes, (1, 6, 4, 2), (2, 6, 1, 2), (2, 1, 3, 1)):
        given = torch.randn(B, L, d_model), *torch.randn(4, d_model, d_model), heads
        expected, mistakes = hunt(*given)
        expect(repaired_heads(*given), expected, mistakes)


def test_repaired_heads_in_double_precision(repaired_heads):
    x, matrices = torch.randn(2, 5, 6).double(), torch.randn(4, 6, 6).double()
    expected, mistakes = hunt(x, *matrices, 2)
    answer = repaired_heads(x, *matrices, 2)
    expect(answer, expected, mistakes)
    check_dtype(answer, x)
