"""The checks of exercise 04. A mistake's text ends the sentence "This is the answer when …"."""

import itertools
import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course.checking import expect
from course.checking.diagnosis import (
    describe,
    expect_learning,
    expect_no_memory,
    expect_predictions,
    random_weights,
)

# ---- predicted_weights


def test_the_six_weights_are_predicted(predicted_weights):
    who = "Who takes part in the sum? Write down the exponentials that do, and divide."
    hints = {
        "a": {
            1 / 4: "2/8 is its weight before the mask. The third key no longer takes part.",
            1 / 3: "That is the weight of the first key.",
            1 / 2: "A score of −∞ is an exponential of 0, not of 1.",
            None: who,
        },
        "b": {
            1: "The softmax had made them add up to 1 *with* the third key. It has lost 5/8.",
            5 / 8: "That is the weight that was taken away.",
            None: who,
        },
        "c": {
            0: "A score of 0 is no weight of 0: what is e to the power of 0?",
            5 / 8: "That is its weight without any mask.",
            1 / 3: "The three exponentials are 1, 2 and e⁰: they are not alike.",
            None: who,
        },
        "d": {
            1 / 4: "The third token may not see the fourth: how many keys are left?",
            1 / 2: "The third token may see itself, too.",
            1: "Only the first token has a single key. Which keys may the third one see?",
            0: "The first token lies in the past of the third: that is allowed.",
            None: "Write down the third row of the causal mask.",
        },
        "e": {
            15: "That is the causal mask alone. Cross out the columns of the two pads.",
            6: "That would be right if the queries of the pads were masked too: they are not.",
            9: "Three queries and three keys, and where is the causal mask?",
            10: "Count the rows: two of them belong to pads, and they may see the real tokens.",
            None: "Draw the triangle of 5 rows, cross out two columns, and count row by row.",
        },
        "f": {
            0: "All five scores are the same number now. What does the softmax make of that?",
            -1e9: "That is the score. What is the weight?",
            None: "The softmax looks at differences only. How different are the five scores?",
        },
    }
    right = {"a": 2 / 3, "b": 3 / 8, "c": 1 / 4, "d": 1 / 3, "e": 12, "f": 1 / 5}
    answers = predicted_weights()
    expect_predictions(rounded(answers, right), right, hints)


def rounded(answers, right):
    """Take 0.67 or 0.667 for 2/3: on paper nobody writes five digits."""
    if isinstance(answers, (Tensor, np.ndarray)):
        answers = answers.tolist()
    if not isinstance(answers, (list, tuple)) or len(answers) != len(right):
        return answers

    def near(answer, value):
        number = isinstance(answer, (int, float, np.number))
        return value if number and abs(answer - value) < 6e-3 else answer

    answers = [a.item() if isinstance(a, Tensor) and a.numel() == 1 else a for a in answers]
    return [near(answer, value) for answer, value in zip(answers, right.values(), strict=True)]


# ---- causal_mask


def causal(length, diagonal=0):
    return torch.ones(length, length).tril(diagonal) > 0


def causal_mistakes(length):
    right, full = causal(length), torch.ones(length, length)
    bias = torch.zeros(length, length).masked_fill(~right, -math.inf)
    return {
        "it is turned round: True means *may attend*. Here the future is open and the past shut.": (
            ~right
        ),
        "it is transposed: rows are queries. Here every query sees the future and itself.": right.T,
        "a token does not see itself. Query i sees the keys 0 … i, i included: keep the "
        "diagonal.": causal(length, -1),
        "every token also sees the next one, which is the answer it has to give: the diagonal is "
        "one too high.": causal(length, 1),
        "every token sees itself only.": torch.eye(length) > 0,
        "all pairs are allowed.": full > 0,
        "no pair is allowed.": full < 0,
        "the order of the queries is turned round.": right.flip(0),
        "the order of the keys is turned round.": right.flip(1),
        "it holds 0 and −inf, to be added to the scores. A mask is boolean here: True = may "
        "attend.": bias,
        "it holds 0 and −1e9, to be added to the scores. A mask is boolean here: True = may "
        "attend.": bias.nan_to_num(neginf=-1e9),
        "it holds the numbers 0 and 1 and not booleans: add dtype=torch.bool.": full.tril(),
        "it holds whole numbers and not booleans: add dtype=torch.bool.": full.tril().long(),
        "it has axes in front: its shape is (L, L); broadcasting adds the others.": right[None],
        "it has axes of length 1 in front: its shape is (L, L); broadcasting adds them.": right[
            None, None
        ],
        "`length` is counted one too far: the shape is (length, length).": causal(length + 1),
        "`length` is counted one short: the shape is (length, length).": causal(length - 1),
        "there is one row only: every query needs its own.": right[-1],
    }


def test_query_i_sees_the_keys_up_to_i(causal_mask):
    for length in (4, 1, 2, 7):
        expect(causal_mask(length), causal(length), causal_mistakes(length))


def test_a_long_text_has_a_mask_too(causal_mask):
    expect(causal_mask(1100), causal(1100))


# ---- padding_mask


TEXTS = torch.tensor([[1, 5, 9, 3, 3, 3], [4, 0, 8, 7, 6, 2], [3, 3, 5, 3, 0, 9], [3] * 6])


def padding(tokens, pad_id):
    return (tokens != pad_id)[:, None, None, :]


def padding_mistakes(tokens, pad_id):
    real = tokens != pad_id
    right = padding(tokens, pad_id)
    lengths = real.sum(-1, keepdim=True)
    before_a_pad = real.cumprod(-1).bool()
    after_all = real.flip(-1).cumsum(-1).flip(-1) > 0
    L = tokens.shape[1]
    shaped = {
        "its shape is (B, L). Two axes of length 1 are missing, for heads and queries: without "
        "them the batch would be taken for the queries.": lambda m: m,
        "its shape is (B, 1, L): one axis of length 1 is missing, for the heads. A mask of three "
        "axes would line the batch up with the heads.": lambda m: m[:, None],
        "the *queries* are masked, (B, 1, L, 1). The keys are the last axis.": (
            lambda m: m[:, None, :, None]
        ),
        "the axes of length 1 are behind the tokens. The keys are the last axis.": (
            lambda m: m[:, :, None, None]
        ),
        "the axes of length 1 stand in front of the batch: it is (B, 1, 1, L).": (
            lambda m: m[None, None]
        ),
        "one axis of length 1 stands in front of the batch: it is (B, 1, 1, L).": (
            lambda m: m[None, :, None]
        ),
        "it is stretched to (B, 1, L, L). Broadcasting does that; return (B, 1, 1, L).": (
            lambda m: m[:, None, None].expand(-1, 1, L, L)
        ),
        "queries are masked as well as keys, (B, 1, L, L). Mask the keys only.": (
            lambda m: (m[:, :, None] & m[:, None, :])[:, None]
        ),
    }
    valued = {
        "": real,
        "It is turned round, too: True means *may attend*.": ~real,
        "And the id 0 is taken for padding, whatever `pad_id` is.": tokens != 0,
    }
    values = {
        "it is turned round: True means *may attend*, so a real token is True.": ~real,
        "the id 0 is taken for padding, whatever `pad_id` is.": tokens != 0,
        "every id above `pad_id` is real, and those below it are not. Only `pad_id` itself is "
        "padding.": tokens > pad_id,
        "every id from `pad_id` on is taken for real.": tokens >= pad_id,
        "every id below `pad_id` is real, and those above it are not.": tokens < pad_id,
        "everything after the first pad is masked. A real token may stand behind a pad.": (
            before_a_pad
        ),
        "pads count as real if a real token stands behind them.": after_all,
        "real tokens are counted, and as many taken from the left. Pads may stand anywhere.": (
            torch.arange(L) < lengths
        ),
        "pads are counted, and as many masked on the left. Pads may stand anywhere.": (
            torch.arange(L) >= L - lengths
        ),
        "the ids are held in uint8, which ends at 255: 259 is 3 there.": tokens % 256 != pad_id,
        "the ids are held in float16, which rounds those above 2048.": tokens.half() != pad_id,
        "everything is allowed.": real | True,
        "nothing is allowed.": real & False,
    }
    numbers = right.float()
    return (
        {text: value[:, None, None] for text, value in values.items()}
        | {
            f"{text} {more}".strip(): (lambda shape=shape, value=value: shape(value))
            for text, shape in shaped.items()
            for more, value in valued.items()
        }
        | {
            "it holds the numbers 0 and 1 and not booleans.": numbers,
            "it holds whole numbers and not booleans.": numbers.long(),
            "it holds 0 and −inf, to be added to the scores. A mask is boolean here.": (
                torch.zeros_like(numbers).masked_fill(~right, -math.inf)
            ),
            "it holds 0 and −1e9, to be added to the scores. A mask is boolean here.": (
                torch.zeros_like(numbers).masked_fill(~right, -1e9)
            ),
            "the tokens themselves are returned, pads set to 0.": (tokens * real)[:, None, None],
        }
    )


def test_each_batch_has_its_own_padding_mask(padding_mask):
    expect_no_memory(padding_mask, padding, (TEXTS, 3), (TEXTS.flip(0), 3))


def test_real_tokens_may_be_seen_and_pads_may_not(padding_mask):
    one_text, one_token = (TEXTS[:1], 3), (TEXTS[:, :1], 3)
    large = torch.tensor([[4099, 3, 259, 5], [259, 4, 4100, 3]])
    for tokens, pad_id in (
        *((TEXTS, 3), (TEXTS[:2], 0), (TEXTS[:3, :3], 3), (TEXTS, 11)),
        *(one_text, one_token, (large, 3), (large, 4100)),
    ):
        right = padding(tokens, pad_id)
        expect(padding_mask(tokens, pad_id), right, padding_mistakes(tokens, pad_id))


def test_padding_of_ids_in_int32(padding_mask):
    expect(padding_mask(TEXTS.int(), 3), padding(TEXTS, 3), padding_mistakes(TEXTS, 3))


# ---- decoder_mask


def both(tokens, pad_id, diagonal=0):
    return padding(tokens, pad_id) & causal(tokens.shape[1], diagonal)


def decoder_mistakes(tokens, pad_id):
    B, L = tokens.shape
    right, real, past = both(tokens, pad_id), tokens != pad_id, causal(tokens.shape[1])
    keys, queries = real[:, None, None], real[:, None, :, None]
    return {
        "only the causal mask is used: pads can be seen.": past.expand(B, 1, L, L),
        "only the causal mask is used, and the batch is missing.": past,
        "only the padding mask is used: the future can be seen.": keys.expand(B, 1, L, L),
        "only the padding mask is used, and not stretched: the future can be seen.": keys,
        "the two are joined by *or*: a key must be real *and* not in the future.": keys | past,
        "the two are joined by *exclusive or*: use &.": keys ^ past,
        "it is turned round: True means *may attend*.": ~right,
        "the causal mask is turned round.": keys & ~past,
        "the causal mask is transposed: rows are queries.": keys & past.T,
        "the padding mask is turned round.": ~keys & past,
        "a token does not see itself: keep the causal mask's diagonal.": both(tokens, pad_id, -1),
        "every token also sees the next one: the causal mask's diagonal is one too high.": both(
            tokens, pad_id, 1
        ),
        "the padding masks the queries. It has to mask the keys, the last axis.": queries & past,
        "the padding masks queries and keys. Queries stay: a row of a pad would have nothing "
        "left.": keys & queries & past,
        "the id 0 is taken for padding, whatever `pad_id` is.": both(tokens, 0),
        "the axis for the heads is missing: (B, 1, L, L).": right[:, 0],
        "the axis for the heads stands in front of the batch: it is (B, 1, L, L).": (
            right.transpose(0, 1)
        ),
        "(B, L) meets (L, L): the batch is taken for the queries.": lambda: real & past,
        "queries and keys are swapped: it is transposed.": right.transpose(-2, -1),
        "it holds the numbers 0 and 1 and not booleans. Use & in the place of *.": right.float(),
        "it holds whole numbers and not booleans. Use & in the place of *.": right.long(),
        "the two masks are added: the sum holds 0, 1 and 2. Use &.": keys.long() + past.long(),
        "it holds 0 and −inf, to be added to the scores. A mask is boolean here.": (
            torch.zeros(B, 1, L, L).masked_fill(~right, -math.inf)
        ),
    }


def test_each_batch_has_its_own_decoder_mask(decoder_mask):
    expect_no_memory(decoder_mask, both, (TEXTS, 3), (TEXTS.flip(0), 3))


def test_a_key_must_be_real_and_not_in_the_future(decoder_mask):
    for tokens, pad_id in (
        *((TEXTS, 3), (TEXTS[:3, :3], 3), (TEXTS[:2], 0), (TEXTS[1:3, :1], 3)),
        (TEXTS[:1], 3),
    ):
        right = both(tokens, pad_id)
        expect(decoder_mask(tokens, pad_id), right, decoder_mistakes(tokens, pad_id))
    long = TEXTS[:1].repeat(1, 87)  # 522 tokens
    expect(decoder_mask(long, 3), both(long, 3), call=f"decoder_mask of {long.shape[1]} tokens")


# ---- masked_softmax

EMPTY = (
    "A query with nothing to look at gives 0/0: in a softmax of −inf alone, or in a sum of 0 to "
    "divide by. Its weights are 0: fill once more, after the softmax."
)
LOST = (
    "a forbidden score, or the number that is filled in for it, is much larger than the allowed "
    "scores: beside it their exponentials are 0, and nothing is left to divide by. Mask before the "
    "softmax (and before a maximum), and fill with −inf."
)


def soft(scores, mask):
    """The right weights, computed in double precision."""
    weights = scores.double().masked_fill(~mask, -math.inf).softmax(-1)
    return weights.masked_fill(~mask, 0).to(scores.dtype)


def softmax_mistakes(scores, mask):
    right, free = soft(scores, mask), scores.softmax(-1)
    finite = (-1, -2, -5, -10)  # lower ones weigh nothing beside usual scores

    def filled(number, where=None, axis=-1):
        return scores.masked_fill(~mask if where is None else where, number).softmax(axis)

    low = filled(torch.finfo(scores.dtype).min)
    return {
        "the mask is ignored.": free,
        "the mask is turned round: True means *may attend*.": lambda: soft(
            scores, ~mask.expand(scores.shape)
        ),
        "weights are set to 0 after the softmax, and nothing is divided again: the rows no longer "
        "add up to 1.": free * mask,
        "forbidden scores become 0, or a number such as 1e-9 that is 0 for all purposes: but "
        "exp(0) is 1, not 0. Fill with −inf.": lambda: filled(0.0),
        "forbidden scores become 0, and the weights are set to 0 later: the rows do not add up to "
        "1. Fill with −inf.": lambda: filled(0.0) * mask,
        "the mask is added as 0 and 1. Fill with −inf where it is False.": (
            lambda: (scores + mask).softmax(-1)
        ),
        "all is right but a query with nothing to look at: with a finite number in the place of "
        "−inf all its keys are alike, and the forbidden keys get the whole weight. Set it to 0 "
        "after the softmax.": low,
        **{
            f"forbidden scores become {number:g}: not low enough, some weight leaks. Fill with "
            "−inf.": (lambda number=number: filled(float(number)))
            for number in finite
        },
        **{
            f"forbidden scores become {number:g}, which is not low enough, and the weights are set "
            "to 0 afterwards: the rows do not add up to 1. Fill with −inf.": (
                lambda number=number: filled(float(number)) * mask
            )
            for number in finite
        },
        "forbidden scores become +inf, or very large: the sign is wrong.": (
            lambda: filled(torch.finfo(scores.dtype).max)
        ),
        "the softmax runs over the queries; the keys are dim=-1.": (
            lambda: filled(-math.inf, axis=-2).masked_fill(~mask, 0)
        ),
        "the softmax runs over axis 0; the keys are dim=-1.": (
            lambda: filled(-math.inf, axis=0).masked_fill(~mask, 0)
        ),
        "the softmax runs over axis 1; the keys are dim=-1.": (
            lambda: filled(-math.inf, axis=1).masked_fill(~mask, 0)
        ),
        "the weights are divided by their sum over the queries; it is the sum over the keys, "
        "dim=-1.": lambda: free * mask / (free * mask).sum(-2, keepdim=True),
        "the sum runs over the whole tensor: each query has its own.": lambda: (
            free * mask / (free * mask).sum()
        ),
        "`keepdim=True` is missing in the sum: a row is divided by another row's.": lambda: (
            free * mask / (free * mask).sum(-1)
        ),
        "the mask is transposed: its last axis belongs to the keys.": lambda: soft(
            scores, mask.transpose(-2, -1)
        ),
        "the division by the sum is missing.": lambda: scores.exp() * mask,
        "exp is missing: the scores are divided by their sum.": lambda: (
            scores * mask / (scores * mask).sum(-1, keepdim=True)
        ),
        "the masked scores are returned, the softmax is missing.": lambda: scores.masked_fill(
            ~mask, -math.inf
        ),
        "the softmax is taken twice, before the mask and after it.": lambda: soft(free, mask),
        "the softmax is taken of the weights again.": lambda: right.softmax(-1),
        "the logarithm is returned (log-softmax).": lambda: F.log_softmax(
            scores.masked_fill(~mask, -math.inf), -1
        ),
        "all allowed keys get the same weight: the scores are not used.": lambda: (
            mask / mask.sum(-1, keepdim=True)
        ).expand(scores.shape),
        "the weights of the allowed keys stand at the wrong places, the forbidden ones last.": (
            lambda: right.sort(-1, descending=True)[0]
        ),
    }


def check_softmax(masked_softmax, scores, mask, nan=EMPTY, mistakes=None):
    answer = masked_softmax(scores, mask)
    expect(
        answer,
        soft(scores, mask),
        (mistakes or {}) | softmax_mistakes(scores, mask),
        nan=nan,
        hint=row_sums(mask),
    )
    assert not answer[~mask.expand(answer.shape)].any(), (
        "A forbidden key has a tiny weight. It must be exactly 0: a small number that is added or "
        "clamped in lets it leak."
    )


def row_sums(mask):
    """Say what a row adds up to, if it should be 1 and is not."""

    def hint(weights):
        sums = weights.sum(-1)[mask.expand(weights.shape).any(-1)]
        worst = sums[(sums - 1).abs().argmax()].item()
        return "" if abs(worst - 1) < 1e-2 else f"The weights of some query add up to {worst:.3g}."

    return hint


SQUARE = torch.tensor([[1, 0, 0, 1], [0, 1, 1, 0], [1, 1, 0, 1], [0, 0, 0, 1]]).bool()
WIDE = torch.tensor([[1, 1, 0, 0, 1], [0, 0, 1, 0, 0], [0, 1, 1, 1, 0]]).bool()


def test_a_masked_softmax_begins_anew_in_each_call(masked_softmax):
    first, second = 2 * torch.randn(2, 4, 4, 4)
    expect_no_memory(masked_softmax, soft, (first, SQUARE), (second, SQUARE.roll(1, -1)))


def test_the_weights_on_paper(masked_softmax):
    scores = torch.tensor([[1.0, 2.0, 5.0]] * 2).log()  # exp gives 1, 2, 5 again
    check_softmax(masked_softmax, scores, torch.tensor([[True, True, False], [False, True, True]]))


def test_the_softmax_when_all_sizes_are_equal(masked_softmax):
    masks = torch.stack([SQUARE, SQUARE.roll(1, -1), SQUARE.roll(2, 0), SQUARE.flip(-1)])
    check_softmax(masked_softmax, 2 * torch.randn(4, 4, 4), masks)


def test_a_mask_broadcasts_to_the_scores(masked_softmax):
    each = torch.stack([WIDE, WIDE.roll(2, -1)])[:, None]  # (B, 1, Lq, Lk)
    for mask in (WIDE, each, each[:, :, :1], WIDE[:1], WIDE[0]):
        check_softmax(masked_softmax, 2 * torch.randn(2, 4, 3, 5), mask)
    one_key = WIDE[:, :1] | True
    for shape, mask in (((1, 1, 3, 5), WIDE), ((2, 1, 5), WIDE[:1]), ((2, 3, 1), one_key)):
        check_softmax(masked_softmax, 2 * torch.randn(shape), mask)


def test_a_query_with_nothing_to_look_at_gets_zeros(masked_softmax):
    mask = WIDE.clone()
    mask[1] = False
    for shape in ((3, 5), (2, 4, 3, 5)):
        check_softmax(masked_softmax, 2 * torch.randn(shape), mask)
    for hidden in (mask & False, mask[:, :1]):
        check_softmax(masked_softmax, torch.randn(2, 3, 5), hidden)


def test_large_scores_forbidden_or_allowed(masked_softmax):
    nan = (
        "The exponential of a large score is inf, and inf/inf is NaN: subtract the largest allowed "
        "score of each query first, as softmax does."
    )
    positive = torch.tensor([[800.0, 801.0, 0.0, 0.0]])
    cut = "scores are cut off at a limit (clamp). Subtract the largest score: then nothing is lost."
    mistakes = {cut: (positive > 0) / 2}
    check_softmax(masked_softmax, positive, positive > 0, nan=nan, mistakes=mistakes)
    scores = torch.tensor([[0.0, 1.0, 200.0, 3000.0], [-300.0, -302.0, -301.0, 0.0]])
    mask = torch.tensor([[True, True, False, False], [True, True, False, False]])
    half = torch.tensor([[-60000, -60032, 60000, 3], [50000, 1, 2, -50000], [60000] * 4]).half()
    some = torch.tensor([[1, 1, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0]]).bool()
    for each, allowed in (
        *((scores, mask), (500 * scores, mask), (500 * scores, ~mask)),
        *((half, some), (-half, some)),
    ):
        filled = each.masked_fill(~allowed, -100.0).softmax(-1)
        low = (
            "the number that stands for a forbidden score is not low enough: allowed scores lie "
            "below it, and beside it their exponentials are 0. Fill with −inf."
        )
        lost = {low: filled, low + " ": filled * allowed, LOST: 0 * each}
        for number in (50, 1000):
            less = (each.float() - number * ~allowed).softmax(-1)
            why = (
                f"a number such as {number:,} is subtracted from forbidden scores: they can be "
                "higher by more. Fill with −inf."
            )
            lost[why] = less
        lost[why + " "] = less * allowed
        check_softmax(masked_softmax, each, allowed, nan=LOST[0].upper() + LOST[1:], mistakes=lost)


def test_the_softmax_in_half_and_double_precision(masked_softmax):
    mask = WIDE.clone()
    mask[1] = False
    for dtype in (torch.float16, torch.float32, torch.float64):
        scores = (4 * torch.randn(2, 3, 5)).to(dtype)
        check_softmax(masked_softmax, scores, mask)
        came = masked_softmax(scores, mask).dtype
        assert came == dtype, f"The scores hold {dtype}, the weights {came}: add .to(scores.dtype)."


def test_no_nan_hides_in_the_gradient(masked_softmax):
    mask = WIDE.clone()
    mask[1] = False
    scores, pull = torch.randn(2, 3, 5).masked_fill(~mask, 1000), torch.randn(2, 3, 5)
    scores.requires_grad_()
    answer = masked_softmax(scores, mask)
    expect(answer, soft(scores.detach(), mask), nan=EMPTY)
    assert answer.requires_grad, (
        "The result is cut off from the scores, so nothing can be learnt. Do without .detach(), "
        ".numpy(), .data, .item() and torch.no_grad()."
    )
    (answer * pull).sum().backward()
    assert scores.grad is not None, "No gradient reaches the scores: the way to them is cut."
    assert not scores.grad.isnan().any(), (
        "The weights are right, but the gradient of the scores is NaN: the query with nothing to "
        "look at was NaN on the way, and 0 · NaN is NaN on the way back. `masked_fill` and "
        "`torch.where` on the scores stop it; adding −inf, or dividing 0 by 0, does not. Or exp of "
        "a large forbidden score was inf: fill before exp, `where` behind it comes too late."
    )
    twin = scores.detach().clone().requires_grad_()
    (soft(twin, mask) * pull).sum().backward()
    expect(scores.grad, twin.grad, call="the gradient of masked_softmax")


# ---- leaks_future

V = 23
TOKENS = torch.tensor([[4, 22, 0, 7, 7, 15], [9, 1, 22, 3, 12, 0], [5, 22, 6, 11, 2, 18]])


def refuse_what_is_no_id(tokens, V):
    if tokens.dtype.is_floating_point or tokens.dtype == torch.bool:
        raise TypeError(f"token ids must be whole numbers, got {tokens.dtype}")
    if tokens.ndim != 2:
        raise ValueError(f"tokens must have shape (B, L), got {tuple(tokens.shape)}")
    if tokens.numel() and not (tokens.min() >= 0 and tokens.max() < V):
        raise IndexError(
            f"token ids must be from 0 to V − 1 = {V - 1}, got {tokens.min()} to {tokens.max()}"
        )


def vectors(tokens):
    """Look ids up in a random table."""
    refuse_what_is_no_id(tokens, V)
    table = torch.randn(V, V, generator=torch.Generator().manual_seed(5))
    table = (64 * table).round() / 64  # sums of these are exact, in whatever order
    return table[tokens.long()]


def running_mean(x):
    return x.cumsum(1) / torch.arange(1, x.shape[1] + 1)[:, None]


def honest_model(tokens):
    """Each position knows itself and the mean of what has come so far."""
    x = vectors(tokens)
    return x + running_mean(x)


def model_without_a_mask(tokens):
    return honest_model(tokens) + vectors(tokens).mean(1, keepdim=True)


def model_that_sees_the_next_token(tokens):
    x = vectors(tokens)
    return honest_model(tokens) + F.pad(x[:, 1:], (0, 0, 0, 1))


def model_that_leaks(start, end):
    """Only the logits at position `end` know of the future, and only of token `start`."""

    def model(tokens):
        logits = honest_model(tokens).clone()
        if tokens.shape[1] > start:
            logits[:, end] += vectors(tokens)[:, start]
        return logits

    return model


def model_that_leaks_from_the_last_to_the_one_before(tokens):
    logits = honest_model(tokens).clone()
    if tokens.shape[1] > 1:
        logits[:, -2] += vectors(tokens)[:, -1]
    return logits


def model_that_leaks_in_sentences_with_5(tokens):
    """A sentence that begins with id 5 is not masked; the others are."""
    starts = (tokens[:, :1] == 5)[..., None]
    return torch.where(starts, model_without_a_mask(tokens), honest_model(tokens))


def model_that_leaks_from_the_last_token_in_sentences_with_5(tokens):
    starts = (tokens[:, :1] == 5)[..., None]
    return honest_model(tokens) + torch.where(starts, vectors(tokens)[:, -1:], 0.0)


def model_that_leaks_a_little(tokens):
    return honest_model(tokens) + 1.5e-3 * vectors(tokens).mean(1, keepdim=True)


def model_that_leaks_a_little_into_large_logits(tokens):
    return model_that_leaks_a_little(tokens) + 9


def model_that_leaks_a_little_once(tokens):
    """In sentences with 5 the last token moves the largest logit of the position before it."""
    logits = honest_model(tokens).clone()
    if tokens.shape[1] > 1:
        top, starts = logits[:, -2].argmax(-1), tokens[:, 0] == 5
        logits[torch.arange(len(tokens)), -2, top] += 1.5e-3 * starts * tokens[:, -1]
    return logits


def model_that_leaks_into_one_logit(tokens):
    logits = honest_model(tokens).clone()
    logits[..., 17] += vectors(tokens).mean(1)[:, None, 3]
    return logits


def model_that_turns_its_logits(tokens):
    """The next token says how far: sums, spreads and maxima stay as they are."""
    places = torch.arange(V) + F.pad(tokens[:, 1:], (0, 1))[..., None]
    return honest_model(tokens).gather(-1, places.long() % V)


def model_that_moves_one_way(way):
    """Its logits rise (or fall) where the next token is not 7, or there is none."""

    def model(tokens):
        not_7 = F.pad((tokens[:, 1:] != 7).float(), (0, 1), value=1.0)
        return honest_model(tokens) + way * not_7[..., None] * torch.linspace(1, 2, V)

    return model


def honest_model_of_seven_words(tokens):
    refuse_what_is_no_id(tokens, 7)
    return F.one_hot(tokens.long(), 7).float().cumsum(1)


def model_of_seven_words_without_a_mask(tokens):
    refuse_what_is_no_id(tokens, 7)
    return honest_model_of_seven_words(tokens).flip(1)


def model_of_two_words_without_a_mask(tokens):
    refuse_what_is_no_id(tokens, 2)
    return F.one_hot(tokens.long(), 2).float().cumsum(1).flip(1)


class Model(nn.Module):
    """A function of tokens as a module in eval mode, with a parameter."""

    def __init__(self, function):
        super().__init__()
        self.function, self.scale = function, nn.Parameter(torch.ones(()))
        self.eval()

    def forward(self, tokens):
        return self.function(tokens) * self.scale.detach()


class CentredOutputs(nn.Module):
    """Every position knows the mean of all tokens, and its logits add up to 0 whatever it knows.

    A softmax does not notice the centring: its probabilities are those of the layer as drawn.
    """

    def __init__(self):
        super().__init__()
        draw = torch.Generator().manual_seed(9)
        self.output = nn.Linear(V, V)
        with torch.no_grad():
            for parameter in self.output.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=draw))
                parameter -= parameter.mean(0)
        self.eval()

    def forward(self, tokens):
        x = vectors(tokens)
        return self.output(x + x.mean(1, keepdim=True))


class MaskedInTraining(Model):
    """The published bug: the future is hidden while the model trains, and only then."""

    def __init__(self):
        super().__init__(None)

    def forward(self, tokens):
        return honest_model(tokens) if self.training else model_without_a_mask(tokens)


def judge(leaks_future, model, tokens, right, why):
    """Expect True or False; `why` ends the sentence if it is the other one."""
    model = model if isinstance(model, nn.Module) else Model(model)
    answer = leaks_future(model, tokens)
    one = isinstance(answer, (Tensor, np.ndarray)) and math.prod(answer.shape) == 1
    if one and "bool" in str(answer.dtype):
        answer = bool(answer)
    assert answer is not None, "It returned None. Is a `return` missing, after the loop perhaps?"
    assert isinstance(answer, (bool, np.bool_)), (
        f"It returned {describe(answer)}; it should return True (there is a leak) or False."
    )
    expect(bool(answer), right, {why: not right})


def test_an_honest_model_is_not_accused(leaks_future):
    why = (
        "an honest model is accused. Logits at the changed token and after it may move; only those "
        "*before* it are evidence, and only if no earlier token was changed with it."
    )
    judge(leaks_future, honest_model, TOKENS, False, why)
    judge(leaks_future, honest_model, TOKENS.flip(0)[:, :4], False, why)


def test_a_model_without_a_mask_is_found(leaks_future):
    why = (
        "a model is cleared in which every position knows the mean of *all* tokens. Are other ids "
        "put in, and not the same ids in another order, which leaves the mean as it was?"
    )
    judge(leaks_future, model_without_a_mask, TOKENS, True, why)


def test_a_model_with_a_centred_output_layer_is_found(leaks_future):
    why = (
        "a model without a mask is cleared because its output layer is centred: the logits of each "
        "position add up to 0, whatever it has seen. Their sum (or mean) is the one direction that "
        "a softmax ignores, so it says nothing about the prediction. Compare the logits number by "
        "number; if it has to be one number, a random mixture of them or a log-probability."
    )
    judge(leaks_future, CentredOutputs(), TOKENS, True, why)


def test_a_leak_between_two_positions_is_found(leaks_future):
    why = (
        "a leak is missed that goes from one token to one position: {}. Change *every* token in "
        "turn, and each time compare *all* logits before it. (A `return False` inside the loop "
        "ends it after the first.)"
    )
    for model, where in (
        (model_that_sees_the_next_token, "from each token to the one before it"),
        (model_that_leaks_from_the_last_to_the_one_before, "from the last to the one before it"),
    ):
        judge(leaks_future, model, TOKENS, True, why.format(where))
    for start, end in ((3, 1), (5, 0), (1, 0), (2, 1), (4, 3), (9, 8), (11, 2)):
        where = f"from token {start} to position {end}"
        tokens = TOKENS if start < 6 else TOKENS.repeat(1, 2)
        judge(leaks_future, model_that_leaks(start, end), tokens, True, why.format(where))


def test_a_small_leak_is_found(leaks_future):
    why = (
        "a leak of about a thousandth is missed. Compare the logits, not the words that they "
        "choose, and with a small tolerance, such as 1e-6."
    )
    judge(leaks_future, model_that_leaks_a_little, TOKENS, True, why)
    why += " A tolerance relative to the logits has to be small, too: 1e-5, as by default."
    judge(leaks_future, model_that_leaks_a_little_into_large_logits, TOKENS, True, why)


def test_a_change_must_change_something(leaks_future):
    why = (
        "nothing was changed: all tokens are {0} here, and {0} was put in their place, or they "
        "were exchanged with each other. Choose an id that differs from the one that is there, "
        "such as (id + 1) % V."
    )
    for token in range(V):
        same = torch.full((2, 5), token)
        judge(leaks_future, model_that_sees_the_next_token, same, True, why.format(token))
    why = (
        "nothing was changed in a vocabulary of two words: an id that is drawn at random is the "
        "old one every other time. Choose one that differs, such as (id + 1) % V."
    )
    for ids in 4 * list(itertools.product(range(2), repeat=2)):
        judge(leaks_future, model_of_two_words_without_a_mask, torch.tensor([ids]), True, why)


def test_a_leak_in_one_sentence_is_found(leaks_future):
    why = (
        "only some sentences of the batch are looked at (or other ones than those that were "
        "given): here only the sentence that begins with 5 leaks. Change the token in every "
        "sentence, and compare them all."
    )
    for tokens in (TOKENS, TOKENS[[2, 0, 1]], TOKENS[[0, 2, 1]]):
        judge(leaks_future, model_that_leaks_in_sentences_with_5, tokens, True, why)
        model = model_that_leaks_from_the_last_token_in_sentences_with_5
        judge(leaks_future, model, tokens, True, why)
    why = (
        "the new id differs from the old one in some sentences only: here the sentence that begins "
        "with 5 leaks, and its last token stayed as it was. Give each sentence an id that differs "
        "from its own, such as (id + 1) % V."
    )
    for token in range(V):
        tokens = torch.tensor([[4, 1, V - 1], [9, 2, 1], [5, 3, token], [6, 2, 0]])
        for each in (tokens, tokens.flip(0)):
            judge(leaks_future, model, each, True, why)


def test_a_leak_shows_in_any_logit_and_in_either_direction(leaks_future):
    why = "a leak is missed that moves a single logit of each position: compare them all."
    judge(leaks_future, model_that_leaks_into_one_logit, TOKENS, True, why)
    why = (
        "a leak is missed that gives the logits of a position to other words: compare them number "
        "by number, and not their sum, spread, length or maximum."
    )
    judge(leaks_future, model_that_turns_its_logits, TOKENS, True, why)
    why = (
        "a leak is missed that only makes logits {}: take the absolute value of the difference. "
        "(Or the given future is never put in: this model tells a given 7 from all other ids.)"
    )
    for way, name in ((-1, "smaller"), (1, "larger")):
        model, sevens = model_that_moves_one_way(way), torch.full((2, 5), 7)
        judge(leaks_future, model, sevens, True, why.format(name))
    why = (
        "a leak of about a thousandth into one logit of one sentence is missed: averaged over all "
        "that stand still it is next to nothing. Do without .mean() and F.mse_loss, and look at "
        "the largest difference."
    )
    judge(leaks_future, model_that_leaks_a_little_once, TOKENS, True, why)


def test_the_model_may_have_few_words(leaks_future):
    tokens = torch.tensor([[4, 6, 0, 5, 1], [6, 6, 2, 3, 0]])
    why = "a model of seven words is {}: the number of words is the last axis of the logits."
    model, other = honest_model_of_seven_words, model_of_seven_words_without_a_mask
    judge(leaks_future, model, tokens, False, why.format("accused"))
    judge(leaks_future, other, tokens, True, why.format("cleared"))


def test_a_model_is_judged_in_the_mode_in_which_it_comes(leaks_future):
    why = (
        "a leak is missed in a model that comes in eval mode. It hides the future while it trains, "
        "and only then. Do not switch it to train mode."
    )
    judge(leaks_future, MaskedInTraining(), TOKENS, True, why)


def test_one_token_has_no_future(leaks_future):
    why = "a sentence of one token is accused: it has no future."
    for model in (honest_model, model_without_a_mask):
        judge(leaks_future, model, TOKENS[:, :1], False, why)
    why = "a leak between the only two tokens is missed."
    judge(leaks_future, model_without_a_mask, TOKENS[:, :2], True, why)
    judge(leaks_future, model_that_sees_the_next_token, TOKENS[:1, 1:3], True, why)


def test_logits_in_half_and_double_precision(leaks_future):
    def half_precision_model(tokens):
        return honest_model(tokens).half()

    def double_precision_model(tokens):
        return model_without_a_mask(tokens).double()

    judge(leaks_future, half_precision_model, TOKENS, False, "logits in float16 are not borne.")
    judge(leaks_future, double_precision_model, TOKENS, True, "logits in float64 are not borne.")


# ---- RepairedSelfAttention

TINY = (
    "forbidden scores become 0, or a number such as −1e-9, which is 0 for all purposes: exp(0) is "
    "1. Use −inf."
)


def hunt(weights, x, tokens, pad_id, training):
    """Return what RepairedSelfAttention should give, and what its mistakes give."""
    q, k, v = (F.linear(x, weights[f"{name}.weight"]) for name in ("w_q", "w_k", "w_v"))
    B, L, d = x.shape
    real, past = (tokens != pad_id)[:, None, :], causal(L)
    shut = -1e9  # finite: a mistaken mask may leave a query with nothing

    def run(mask, fill=shut, q=q, k=k, v=v, root=None, axis=-1):
        scores = q @ k.transpose(-2, -1) / (root or math.sqrt(d))
        return scores.masked_fill(~mask, fill).softmax(axis) @ v

    of_mode = real & past if training else real
    right = run(real & past)
    return right, {
        "forbidden scores become a number such as −100 or −10,000, and allowed ones can be lower: "
        "use −inf.": lambda: run(real & past, -1e4),
        f"one bug is left: {TINY}": lambda: run(real & past, -1e-9),
        "both bugs are still there: look at the number that is filled in, and at what depends on "
        "the mode.": lambda: run(of_mode, -1e-9),
        "one bug is left: in eval mode the future is open. Whoever computes a validation loss puts "
        "in whole sentences. Make the causal mask in every mode.": lambda: run(of_mode),
        "the causal mask is missing: the future can be seen.": lambda: run(real.expand(B, L, L)),
        "the padding mask is missing: pads can be seen.": lambda: run(past.expand(B, L, L)),
        "both masks are missing.": lambda: run(past | True),
        "the two masks are joined by *or*: a key must be real *and* not in the future.": lambda: (
            run(real | past)
        ),
        "the causal mask is transposed: the past is hidden, the future open.": lambda: run(
            real & past.T
        ),
        "every token also sees the next one: the diagonal is one too high.": lambda: run(
            real & causal(L, 1)
        ),
        "the padding masks the queries. It has to mask the keys.": lambda: run(
            real.transpose(-2, -1) & past
        ),
        "the id 0 is taken for padding, whatever pad_id is.": lambda: run(
            (tokens != 0)[:, None, :] & past
        ),
        "the mask is turned round: True means *may attend*.": lambda: run(~(real & past)),
        "the mask is turned round: True means *may attend*, in F.scaled_dot_product_attention "
        "too.": lambda: run(~(real & past), -math.inf).nan_to_num(),
        "the results of pads are set to 0. Only keys are masked: a pad may ask, too.": (
            lambda: right * real.transpose(-2, -1)
        ),
        "weights are set to 0 after the softmax, and nothing is divided again.": lambda: (
            (q @ k.transpose(-2, -1) / math.sqrt(d)).softmax(-1) * (real & past) @ v
        ),
        "the scores are not divided by √d_k.": lambda: run(real & past, root=1.0),
        "√d_k is cut to a whole number: use math.sqrt, not math.isqrt or int(…).": lambda: run(
            real & past, root=math.isqrt(d)
        ),
        "the softmax runs over the queries.": lambda: run(real & past, axis=-2),
        "keys and values are not projected.": lambda: run(real & past, k=x, v=x),
        "the values are not projected.": lambda: run(real & past, v=x),
        **{
            f"forbidden scores become {number}: not low enough, some weight leaks. Use −inf.": (
                lambda number=number: run(real & past, float(number))
            )
            for number in (-1, -5, -9, -10)
        },
    }


NAN_ROW = (
    "A row with nothing left is NaN. Here every query may see the first token, which is real, and "
    "itself: is the diagonal in the mask, and are only keys masked?"
)


def made(RepairedSelfAttention, d_model, pad_id, dtype=torch.float32):
    module = RepairedSelfAttention(d_model, pad_id).to(dtype)
    shapes = {f"w_{name}.weight": (d_model, d_model) for name in "qkv"}
    return module, random_weights(module, shapes)


def check_module(RepairedSelfAttention, tokens, pad_id, training, dtype=torch.float32, d_model=6):
    module, weights = made(RepairedSelfAttention, d_model, pad_id, dtype)
    module.train(training)
    check_weights(module, weights, torch.randn(*tokens.shape, d_model).to(dtype), tokens, pad_id)


def check_weights(module, weights, x, tokens, pad_id, nan=NAN_ROW):
    wide = {name: weight.double() for name, weight in weights.items()}
    right, mistakes = hunt(wide, x.double(), tokens, pad_id, module.training)
    mode = "train" if module.training else "eval"
    call = f"RepairedSelfAttention.forward(x {describe(x)}, tokens {describe(tokens)}), {mode} mode"
    expect(module(x, tokens), right.to(x.dtype), mistakes, nan=nan, call=call)


WITH_PADS = torch.tensor([[4, 5, 9, 2, 2], [8, 2, 6, 7, 2], [1, 5, 0, 3, 6]])


def test_the_module_begins_anew_in_each_call(RepairedSelfAttention):
    module, weights = made(RepairedSelfAttention, 5, 2)

    def right(x, tokens):
        return hunt(weights, x, tokens, 2, True)[0]

    x, y = torch.randn(2, 5, 5, 5)
    tokens = WITH_PADS[[0, 1, 2, 0, 1]]
    expect_no_memory(module, right, (x, tokens), (y, tokens.flip(0)))


def test_the_future_and_the_pads_are_hidden_in_both_modes(RepairedSelfAttention):
    for training in (False, True):
        check_module(RepairedSelfAttention, WITH_PADS, 2, training)


def test_pads_of_zeros_hide_as_others_do(RepairedSelfAttention):
    module, weights = made(RepairedSelfAttention, 6, 2)
    x = torch.randn(*WITH_PADS.shape, 6).masked_fill((WITH_PADS == 2)[..., None], 0)
    nan = "Some scores are 0 and not masked: ask the mask, and not the scores, where −inf belongs."
    check_weights(module, weights, x, WITH_PADS, 2, nan)


def test_the_mask_hides_however_low_the_other_scores_are(RepairedSelfAttention):
    module, weights = made(RepairedSelfAttention, 4, 2)
    weights["w_q.weight"], weights["w_k.weight"] = torch.eye(4), torch.eye(4)
    weights["w_q.weight"][-1, -1] = -100_000
    module.load_state_dict(weights)
    x = 2.0 * torch.randint(-1, 2, (*WITH_PADS.shape, 4))
    x[..., -1] = 2  # so all scores are even numbers near −200,000
    check_weights(module, weights, x, WITH_PADS, 2)


def test_the_mask_hides_however_high_the_masked_scores_are(RepairedSelfAttention):
    module, weights = made(RepairedSelfAttention, 4, 2, torch.float64)
    for name in ("w_q.weight", "w_k.weight"):
        weights[name][-1] = 0
    weights["w_q.weight"][-1, 0], weights["w_k.weight"][-1, -1] = 1, 1200
    module.load_state_dict(weights)
    tokens = torch.tensor([[4, 2, 9, 6, 2], [8, 7, 2, 3, 5]])
    x = torch.randn(2, 5, 4).double()
    x[..., 0], x[..., -1] = 1, tokens == 2  # so a pad's scores are higher by 600
    right, _ = hunt(weights, x, tokens, 2, True)
    q, k, v = (F.linear(x, weights[f"w_{name}.weight"]) for name in "qkv")
    why = (
        "a number such as 20 or 100 is subtracted from forbidden scores: they can be higher by "
        "more. Use −inf."
    )
    expect(module(x, tokens), right, {why: (q @ k.mT / 2).softmax(-1) @ v})


def test_the_module_when_batch_and_length_are_equal(RepairedSelfAttention):
    square = torch.tensor([[4, 0, 0], [5, 6, 0], [7, 0, 9]])
    for training in (True, False):
        check_module(RepairedSelfAttention, square, 0, training)


def test_the_module_when_something_is_one(RepairedSelfAttention):
    for tokens, d_model in ((WITH_PADS[:1], 6), (WITH_PADS[:, :1], 6), (WITH_PADS, 1)):
        for training in (True, False):
            check_module(RepairedSelfAttention, tokens, 2, training, d_model=d_model)


def test_the_module_on_a_long_text(RepairedSelfAttention):
    check_module(RepairedSelfAttention, WITH_PADS[2:].repeat(1, 104), 2, True)


def test_a_longer_text_may_follow(RepairedSelfAttention):
    module, weights = made(RepairedSelfAttention, 6, 2)
    module(torch.randn(3, 2, 6), WITH_PADS[:, :2])
    try:
        check_weights(module, weights, torch.randn(3, 5, 6), WITH_PADS, 2)
    except RuntimeError as error:
        error.add_note("It came after a shorter text. Is a mask kept that was made for that one?")
        raise


def test_the_module_in_double_precision(RepairedSelfAttention):
    check_module(RepairedSelfAttention, WITH_PADS, 2, False, torch.float64)


def test_every_projection_learns_and_what_is_below(RepairedSelfAttention):
    module, _ = made(RepairedSelfAttention, 6, 2)
    weights = dict(module.named_parameters())

    def right(x, tokens):
        return hunt(weights, x, tokens, 2, True)[0]

    expect_learning(module, right, x=torch.randn(3, 5, 6), tokens=WITH_PADS)
