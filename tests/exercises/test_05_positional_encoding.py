"""The checks of exercise 05. A mistake's text ends the sentence "This is the answer when …"."""

import itertools
import math

import torch
import torch.nn.functional as F
from torch import Tensor

from course.checking import CheckFailed, expect
from course.checking.diagnosis import (
    expect_error,
    expect_learning,
    expect_no_memory,
    expect_predictions,
    random_weights,
)

# ---- predicted_positions


def test_the_positions_are_predicted(predicted_positions):
    hints = {
        "a": {
            (0, 0, 0, 0): "cos 0 is not 0.",
            (1, 0, 1, 0): "The sine stands in the even columns, 0 and 2.",
            (0, 0, 1, 1): "Sine and cosine of one hand stand next to each other.",
            (1, 1, 1, 1): "sin 0 is not 1.",
            ((0, 1, 0, 1),): "The numbers are right: a is one list of four, not a list in a list.",
            ((0, 1), (0, 1)): "The numbers are right: a is one list of four, not a list of pairs.",
            None: "Put t = 0 into the formula: sin 0, cos 0, sin 0, cos 0.",
        },
        "b": {
            512: "A pair is two numbers, and gives sin² + cos² = 1 in all.",
            1: "Each pair gives 1. How many pairs are there?",
            16: "That is its length; the dot product with itself is the length squared.",
            0: "A sum of squares is 0 only if all numbers are.",
            None: "One pair gives sin² + cos². Count the pairs.",
        },
        "c": {
            110: "From 3 to 10 it is not 10 places.",
            193: "Only the offset counts, and it is above 100 here.",
            93: "It has the same dot product, but it is not above 100.",
            None: "The dot product knows the offset only: p is as far from 100 as 10 is from 3.",
        },
        "d": {
            6: "Does anything tell the encoder that dog comes first in one of them?",
            1: "Different words have different vectors.",
            4: "Take any word: what differs for it between the two sentences, but the order?",
            5: "Take any word: what differs for it between the two sentences, but the order?",
            None: "For each word: are its two vectors different, if the order is invisible?",
        },
        "e": {
            0: "That is the bug of task 6.",
            9: "Position 9 is taken by the tenth token: positions are counted from 0.",
            11: "Positions are counted from 0: the first ten tokens have 0 to 9.",
            1: "In its call it is the first token, in the sentence it is not.",
            None: "Which positions have the ten tokens that were read?",
        },
        "f": {
            512: "Each of the 512 rows has d_model numbers.",
            0: "That holds for sinusoids. Here every number is learnt.",
            576: "Rows times columns, not plus.",
            64: "Each of the 512 positions has its own row.",
            None: "A row for each position, d_model numbers in each.",
        },
    }
    right = {"a": (0, 1, 0, 1), "b": 256, "c": 107, "d": 3, "e": 10, "f": 32768}
    answers = predicted_positions()
    if isinstance(answers, list | tuple):
        answers = [each.tolist() if hasattr(each, "tolist") else each for each in answers]
    expect_predictions(answers, right, hints)


# ---- sinusoidal_encoding


def rates_for(d, power=lambda i, d: 2 * i / d, base=10000.0):
    """Return one rate for each pair; `power` is there to be set wrong."""
    i = torch.arange(d // 2, dtype=torch.float64)
    return base ** -power(i, d)


STANDING_STILL = "all hands have the rate 1. Is the exponent rounded down, or missing?"
WRONG_RATES = {
    "the exponent counts 2 twice: `torch.arange(0, d_model, 2)` is 2i already.": {
        "power": lambda i, d: 4 * i / d
    },
    "the exponent is divided by 512, the paper's d_model. Take the d_model that is given.": {
        "power": lambda i, d: 2 * i / 512
    },
    "the exponent is i/d_model, and it should be 2i/d_model.": {"power": lambda i, d: i / d},
    "the pairs are counted from 1. The first hand has i = 0 and the rate 1.": {
        "power": lambda i, d: 2 * (i + 1) / d
    },
    "the rates are not divided but multiplied: 10000^(+2i/d_model). The exponent is negative, or "
    "t is divided by the power.": {"power": lambda i, d: -2 * i / d},
    STANDING_STILL: {"power": lambda i, d: 0 * i},
    "the last rate is exactly 1/10000, because i is divided by d_model/2 − 1. The paper divides by "
    "d_model/2, so the last rate is a little larger.": {
        "power": lambda i, d: i / max(d // 2 - 1, 1)
    },
    "the base is 1,000; it is 10,000.": {"base": 1000.0},
    "the base is 100,000; it is 10,000.": {"base": 100000.0},
    "the base is 2π · 10,000. The paper's wavelengths are 2π · 10000^(2i/d_model), the rates have "
    "no 2π.": {"base": 2 * math.pi * 10000.0},
    "the base is e: the logarithm of 10,000 is missing in the exponent.": {"base": math.e},
    "the logarithm is that to the base 10: torch.exp needs the natural one, math.log.": {
        "base": math.exp(4)
    },
}


def table_of(length, d, rates=None, start=0):
    rates = rates_for(d) if rates is None else rates
    angles = (start + torch.arange(length, dtype=torch.float64))[:, None] * rates
    return interleave(angles.sin(), angles.cos())


def interleave(a, b):
    return torch.stack((a, b), dim=-1).flatten(-2)


def encoding_mistakes(length, d):
    angles = torch.arange(length, dtype=torch.float64)[:, None] * rates_for(d)
    sine, cosine = angles.sin(), angles.cos()
    own = 10000.0 ** (-torch.arange(d).double() / d)
    columns, twice = (torch.arange(length)[:, None] * rates for rates in (own, own**2))
    even = torch.arange(d) % 2 == 0
    by_row = (torch.arange(length) % 2 == 0)[:, None]
    both = angles.repeat_interleave(2, 1)
    first = torch.arange(length)[:, None] == 0
    return {
        "all sines come first, then all cosines. The two of one hand stand next to each other: "
        "columns 2i and 2i + 1.": torch.cat((sine, cosine), 1),
        "sine and cosine are exchanged: the sine stands in the even columns.": interleave(
            cosine, sine
        ),
        "all cosines come first, then all sines. The two of one hand stand next to each other, the "
        "sine in column 2i.": torch.cat((cosine, sine), 1),
        "every column has a rate of its own, 10000^(−column/d_model). Sine and cosine of one hand "
        "have the same rate, with 2i in both exponents.": torch.where(
            even, columns.sin(), columns.cos()
        ),
        "every column has a rate of its own, and the exponent counts 2 twice: an even column is 2i "
        "already, and its cosine has the same rate.": torch.where(even, twice.sin(), twice.cos()),
        "both columns of a pair are sines. The second is the cosine.": interleave(sine, sine),
        "both columns of a pair are cosines. The first is the sine.": interleave(cosine, cosine),
        "even and odd *positions* get sine and cosine. Even and odd columns do.": torch.where(
            by_row, columns.sin(), columns.cos()
        ),
        "even and odd *positions* get sine and cosine, and even and odd columns should.": (
            torch.where(by_row, both.sin(), both.cos())
        ),
        "the cosines are missing: the odd columns are 0.": interleave(sine, 0 * cosine),
        "the sines are missing: the even columns are 0.": interleave(0 * sine, cosine),
        "only the first row is filled. Does the `return` stand inside the loop?": (
            interleave(sine, cosine) * first
        ),
        "the two of a hand stand on an axis of their own: put them into one row, .flatten(1).": (
            torch.stack((sine, cosine), dim=-1)
        ),
        "the angles are multiplied with 2π: sine and cosine take them as they are.": interleave(
            (2 * math.pi * angles).sin(), (2 * math.pi * angles).cos()
        ),
        "positions are counted from 1: PE(0) is the first row.": table_of(length, d, start=1),
        "the angles are returned, without sine and cosine.": interleave(angles, angles),
        "only the angles of the pairs are returned, without sine and cosine.": angles,
        "only the sines are there, d_model/2 columns.": sine,
        "the angles are taken for degrees. torch's and math's sine want radians, as they are.": (
            interleave(angles.deg2rad().sin(), angles.deg2rad().cos())
        ),
        "the code is scaled by √d_model. That is done to the embeddings, not to the code.": (
            table_of(length, d) * math.sqrt(d)
        ),
        **{
            text: (lambda options=options: table_of(length, d, rates_for(d, **options)))
            for text, options in WRONG_RATES.items()
        },
    }


def check_encoding(sinusoidal_encoding, length, d):
    expected = table_of(length, d).float()
    mistakes = encoding_mistakes(length, d)
    expect(sinusoidal_encoding(length, d), expected, mistakes, hint=fast_at_the_end)


def fast_at_the_end(answer):
    """Say so if the slowest hand is fast; rounding makes such angles hard to compare exactly."""
    lengths = answer[:, 0::2] ** 2 + answer[:, 1::2] ** 2  # 1, if these are hands at all
    hands = torch.allclose(lengths, torch.ones_like(lengths), atol=1e-2)
    if answer.shape[1] >= 6 and hands and (answer[:, -1] < 0.5).any():
        return (
            "The last hands should hardly move in a few steps, and here they turn fast: is t "
            "multiplied by 10000^(2i/d_model)? It is divided."
        )
    return ""


def test_the_encoding_is_the_paper_s(sinusoidal_encoding):
    for length, d in ((7, 12), (5, 6), (30, 4), (8, 8)):
        check_encoding(sinusoidal_encoding, length, d)


def test_the_encoding_of_one_position_and_of_one_pair(sinusoidal_encoding):
    for length, d in ((6, 2), (1, 10), (1, 2)):
        check_encoding(sinusoidal_encoding, length, d)


def test_a_position_has_the_same_code_in_a_longer_table(sinusoidal_encoding):
    short = sinusoidal_encoding(6, 8)
    long = sinusoidal_encoding(25, 8)
    assert isinstance(long, Tensor) and isinstance(short, Tensor)
    assert torch.allclose(long[:6], short, atol=1e-4), (
        "The first six rows depend on `length`: a position must have the same code in every text."
    )


def test_the_encoding_of_a_long_text(sinusoidal_encoding):
    right, answer = table_of(1100, 6).float(), sinusoidal_encoding(1100, 6)
    counted = torch.arange(1100).bfloat16().double()[:, None] * rates_for(6)
    mistakes = {
        "positions are counted in half precision, which knows no whole number above 256 but "
        "rounded ones. Use float32.": nearly(interleave(counted.sin(), counted.cos()), right)
    }
    expect(nearly(answer, right), right, mistakes, call="sinusoidal_encoding(1100, 6)")
    right, answer = table_of(6000, 2).float(), sinusoidal_encoding(6000, 2)
    expect(nearly(answer, right), right, call="sinusoidal_encoding(6000, 2)")
    right, answer = table_of(5, 512).float(), sinusoidal_encoding(5, 512)
    expect(nearly(answer, right), right, call="sinusoidal_encoding(5, 512)")


def nearly(answer, right):
    """Return the right numbers where the answer is near: far on, float32 rounds the angles."""
    if not isinstance(answer, Tensor) or answer.shape != right.shape:
        return answer
    return torch.where((answer - right).abs() < 5e-3, right, answer.to(right.dtype))


# ---- shift_matrix


def blocks(a, b, c, d):
    """Return the matrix with the blocks [[a, b], [c, d]] along its diagonal, one for each hand."""
    return torch.block_diag(*torch.stack((a, b, c, d), dim=-1).view(-1, 2, 2))


def shift(offset, d, rates=None):
    angles = offset * (rates_for(d) if rates is None else rates)
    cos, sin = angles.cos(), angles.sin()
    return blocks(cos, -sin, sin, cos)


def overlapping(right):
    """Return the blocks of a matrix written to i in place of 2i, one after the other."""
    wrong = torch.zeros_like(right)
    for i in range(len(right) // 2):
        wrong[i : i + 2, i : i + 2] = right[2 * i : 2 * i + 2, 2 * i : 2 * i + 2]
    return wrong


def shift_mistakes(offset, d):
    angles = offset * rates_for(d)
    cos, sin = angles.cos(), angles.sin()
    right = shift(offset, d)
    halves = torch.cat((torch.arange(0, d, 2), torch.arange(1, d, 2)))
    lost = "the sign of `offset` is lost: the matrix is that of a step forwards."
    return {
        **({lost: right.T} if offset < 0 else {}),  # forwards it is right: that came before
        "the matrix is transposed: it turns backwards, or it is made for columns, M · PE(t), or "
        "for pairs (cos, sin). Here it is PE[t] @ M with rows (sin, cos): the first column of a "
        "block is (cos, sin).": right.T,
        "a minus is missing, the block is [[cos, sin], [sin, cos]]. The upper right sine is "
        "negative: cos(a + b) = cos a cos b − sin a sin b.": blocks(cos, sin, sin, cos),
        "both sines are negative. The lower left one is not: sin(a + b) = sin a cos b + cos a "
        "sin b.": blocks(cos, -sin, -sin, cos),
        "sines and cosines are exchanged within the block. At offset 0 it must be the identity.": (
            blocks(sin, -cos, cos, sin)
        ),
        "all sines are thought to come first, then all cosines. Here the two of one hand stand "
        "next to each other, so its block does too.": right[halves][:, halves],
        "it is right for all sines first, then all cosines, and transposed: two mistakes.": (
            right[halves][:, halves].T
        ),
        "the lower right cosine is negative: each block turns, and none mirrors.": blocks(
            cos, sin, sin, -cos
        ),
        "only the first hand is turned: every pair has a block.": torch.block_diag(
            right[:2, :2], torch.eye(d - 2, dtype=torch.float64)
        ),
        "the blocks are right, and the rest is 1: it should be 0.": (
            right + (1 - blocks(*torch.ones(4, d // 2, dtype=torch.float64)))
        ),
        "the blocks overlap, block i at row and column i: it stands at 2i.": overlapping(right),
        "only the cosines on the diagonal are there: the sines stand beside it.": torch.diag(
            cos.repeat_interleave(2)
        ),
        "every hand is turned by the angle `offset` itself: the rates ω_i are missing.": shift(
            offset, d, torch.ones(d // 2, dtype=torch.float64)
        ),
        "the matrix is that of one step: `offset` is not used.": shift(1, d),
        "the matrix goes one step too far.": shift(offset + 1, d),
        "nothing is turned: it is the identity.": torch.eye(d, dtype=torch.float64),
        "the blocks are returned one by one; put them along the diagonal of one matrix "
        "(torch.block_diag).": right.unflatten(0, (-1, 2))
        .unflatten(2, (-1, 2))
        .diagonal(dim1=0, dim2=2)
        .permute(2, 0, 1),
        **{
            text: (lambda options=options: shift(offset, d, rates_for(d, **options)))
            for text, options in WRONG_RATES.items()
            if text != STANDING_STILL
        },
    }


def check_shift(shift_matrix, offset, d):
    expect(shift_matrix(offset, d), shift(offset, d).float(), shift_mistakes(offset, d))


def test_the_matrix_moves_every_position(shift_matrix):
    for offset, d in ((7, 6), (2, 8), (1, 4), (20, 10)):
        check_shift(shift_matrix, offset, d)


def test_the_matrix_moves_backwards_and_stands_still(shift_matrix):
    for offset, d in ((-3, 6), (0, 8), (5, 2)):
        check_shift(shift_matrix, offset, d)


def test_each_offset_has_a_matrix_of_its_own(shift_matrix):
    expect_no_memory(shift_matrix, lambda k, d: shift(k, d).float(), (3, 6), (4, 6))


# ---- LearnedPositionalEncoding


def learned(LearnedPositionalEncoding, max_length, d, dtype=torch.float32):
    """Return a module with random rows, and a copy of these."""
    module = LearnedPositionalEncoding(max_length, d).to(dtype)
    return module, random_weights(module, {"table": (max_length, d)})["table"]


def learned_mistakes(x, table):
    B, L, d = x.shape
    return {
        "every token gets row 0: token t gets row t.": lambda: x + table[0],
        "every token gets the row of the last position.": lambda: x + table[L - 1],
        "every token gets the last row of the table.": lambda: x + table[-1],
        "the last rows of the table are taken, not the first.": lambda: x + table[-L:],
        "the rows begin at 1: the first token stands at position 0.": lambda: x + table[1 : L + 1],
        "the rows stand in the opposite order.": lambda: x + table[:L].flip(0),
        "the rows go along the batch: every token of a sentence gets the same one. Axis 1 counts "
        "the tokens.": lambda: x + table[:B, None],
        "the rows are returned without x.": lambda: table[:L].expand(B, L, d),
        "the rows are returned without x, for one sentence.": lambda: table[:L],
        "x is returned as it came: nothing is added.": x,
        "the rows are multiplied with x. They are added.": lambda: x * table[:L],
        "the rows are subtracted.": lambda: x - table[:L],
        "the rows are added twice.": lambda: x + 2 * table[:L],
        "the mean of all rows is added to every token.": lambda: x + table.mean(0),
        "the mean of the rows is added to every token.": lambda: x + table[:L].mean(0),
        "the sum of all rows is added to every token.": lambda: x + table.sum(0),
        "x is scaled by √d_model. TokenEmbedding does that, before.": (
            lambda: x * math.sqrt(d) + table[:L]
        ),
        "the table is scaled by √d_model.": lambda: x + math.sqrt(d) * table[:L],
        "the rows are appended to x as more features. They are added.": (
            lambda: torch.cat((x, table[:L].expand(B, L, d)), -1)
        ),
        "sinusoids are added: the table is not used.": lambda: x + table_of(L, d).to(x.dtype),
        "the sum is normalised. It should be the sum alone.": (
            lambda: F.layer_norm(x + table[:L], (d,))
        ),
    }


def check_learned(LearnedPositionalEncoding, max_length, x):
    module, table = learned(LearnedPositionalEncoding, max_length, x.shape[-1], x.dtype)
    expected = x + table[: x.shape[1]]
    expect(module(x), expected, learned_mistakes(x, table))


def test_each_sentence_begins_at_row_0(LearnedPositionalEncoding):
    module, table = learned(LearnedPositionalEncoding, 16, 4)
    x, y = torch.randn(2, 4, 4, 4)
    expect_no_memory(module, lambda x: x + table[:4], (x,), (y,))


def test_row_t_is_added_to_token_t(LearnedPositionalEncoding):
    for shape in ((2, 5, 6), (3, 3, 4), (4, 2, 8), (2, 1, 3), (1, 4, 2), (2, 3, 1)):
        check_learned(LearnedPositionalEncoding, 7, torch.randn(shape))


def test_a_sentence_as_long_as_the_table_fits(LearnedPositionalEncoding):
    check_learned(LearnedPositionalEncoding, 5, torch.randn(3, 5, 4))


def test_the_learned_table_in_half_and_double_precision(LearnedPositionalEncoding):
    for dtype in (torch.float16, torch.float64):
        check_learned(LearnedPositionalEncoding, 6, torch.randn(2, 4, 6).to(dtype))


def test_evaluation_and_training_are_alike(LearnedPositionalEncoding):
    module, table = learned(LearnedPositionalEncoding, 6, 4)
    x = torch.randn(2, 3, 4)
    for mode in (module.train(), module.eval()):
        expect(mode(x), x + table[:3], learned_mistakes(x, table))


def test_a_sentence_that_is_too_long_is_an_error(LearnedPositionalEncoding):
    for training, (max_length, length) in itertools.product(
        (True, False), ((4, 5), (4, 9), (1, 2))
    ):
        module, _ = learned(LearnedPositionalEncoding, max_length, 6)
        x, mode = torch.randn(2, length, 6), "train" if training else "eval"
        why = (
            f"row {max_length} of the table does not exist, and cutting the sentence would lose "
            f"words. The module was in {mode} mode."
        )
        try:
            expect_error(ValueError, why, module.train(training), x)
        except (CheckFailed, NotImplementedError, NameError, AttributeError):
            raise
        except Exception as error:
            raise CheckFailed(
                f"It stopped with {type(error).__name__} ({error}); it should raise ValueError: "
                f"{why}",
                f"LearnedPositionalEncoding({max_length}, 6).forward(x {tuple(x.shape)})",
            ) from None


def test_the_table_can_learn_and_what_is_below(LearnedPositionalEncoding):
    module, _ = learned(LearnedPositionalEncoding, 6, 4)
    expect_learning(module, lambda x: x + module.table[:3], x=torch.randn(2, 3, 4))


# ---- rotate


def turn(x, positions, rates=None, sign=1.0):
    """Turn the pairs of x in float64; `rates` and `sign` are there to be set wrong."""
    x = x.double()
    rates = rates_for(x.shape[-1]) if rates is None else rates
    angles = positions.double()[..., None] * rates
    cos, sin = angles.cos(), sign * angles.sin()
    a, b = x[..., 0::2], x[..., 1::2]
    return interleave(a * cos - b * sin, a * sin + b * cos)


def rotate_mistakes(x, positions):
    x = x.double()
    L, d = x.shape[1:]
    angles = positions.double()[:, None] * rates_for(d)
    cos, sin = angles.cos(), angles.sin()
    a, b = x[..., 0::2], x[..., 1::2]
    first, second = x.chunk(2, dim=-1)
    own = positions.double()[:, None] * 10000.0 ** (-torch.arange(d).double() / d)
    return {
        "the pairs are turned backwards, clockwise: it is a cos θ − b sin θ, a sin θ + b cos θ.": (
            lambda: turn(x, positions, sign=-1.0)
        ),
        "the pairs are (i, i + d/2), halves turned against each other, as in transformers' code. "
        "Here a pair is two neighbours, (2i, 2i + 1).": lambda: torch.cat(
            (first * cos - second * sin, first * sin + second * cos), -1
        ),
        "the pairs are (i, i + d/2), and turned backwards. Here a pair is two neighbours, and it "
        "is a cos θ − b sin θ.": lambda: torch.cat(
            (first * cos + second * sin, second * cos - first * sin), -1
        ),
        "the pairs are (i, i + d/2), and put back as neighbours: they are neighbours before and "
        "after, (2i, 2i + 1).": lambda: interleave(
            first * cos - second * sin, first * sin + second * cos
        ),
        "the pairs are (i, i + d/2) and the angles are those of neighbours: two layouts are mixed. "
        "Here a pair is two neighbours, (2i, 2i + 1).": lambda: (
            x * cos.repeat_interleave(2, -1)
            + torch.cat((-second, first), -1) * sin.repeat_interleave(2, -1)
        ),
        "the pairs are neighbours and the angles are those of halves, repeated one behind the "
        "other: two layouts are mixed. Repeat each angle next to itself (repeat_interleave).": (
            lambda: x * cos.repeat(1, 2) + interleave(-b, a) * sin.repeat(1, 2)
        ),
        "every column has an angle of its own: a pair has one, with 2i in the exponent.": (
            lambda: x * own.cos() + interleave(-b, a) * own.sin()
        ),
        "the pairs stand on an axis of their own: put them back, .flatten(-2).": lambda: (
            torch.stack((a * cos - b * sin, a * sin + b * cos), dim=-1)
        ),
        "the positions are sorted: each token has its own.": (
            lambda: turn(x, positions.sort().values)
        ),
        "the positions are counted from the first token's.": (
            lambda: turn(x, positions - positions[0])
        ),
        "the positions are counted from the smallest one.": (
            lambda: turn(x, positions - positions.min())
        ),
        "all first numbers of the pairs come first, then all second ones. Put each pair back into "
        "its two columns.": lambda: torch.cat((a * cos - b * sin, a * sin + b * cos), -1),
        "the second formula uses the *new* a: keep the old one until both are computed.": (
            lambda: interleave(a * cos - b * sin, (a * cos - b * sin) * sin + b * cos)
        ),
        "the first formula uses the *new* b: keep the old one until both are computed.": (
            lambda: interleave(a * cos - (a * sin + b * cos) * sin, a * sin + b * cos)
        ),
        "the minus is missing: a cos θ − b sin θ.": (
            lambda: interleave(a * cos + b * sin, a * sin + b * cos)
        ),
        "the second formula has a minus: it is a sin θ + b cos θ.": (
            lambda: interleave(a * cos - b * sin, a * sin - b * cos)
        ),
        "sine and cosine are exchanged. At position 0 nothing may turn.": (
            lambda: interleave(a * sin - b * cos, a * cos + b * sin)
        ),
        "each number is only multiplied with the cosine.": lambda: interleave(a * cos, b * cos),
        "x is multiplied with the code, entry by entry: the pair (a sin θ, b cos θ).": (
            lambda: interleave(a * sin, b * cos)
        ),
        "the code is added. Rotary turns x, and adds nothing.": lambda: x + interleave(sin, cos),
        "`positions` is not used: the tokens are taken to stand at 0, 1, 2, …": (
            lambda: turn(x, torch.arange(L))
        ),
        "the positions are counted from 1.": lambda: turn(x, positions + 1),
        "x is returned as it came: nothing is turned.": x,
        "the angles go along the batch. Axis 1 counts the tokens.": (
            lambda: turn(x.transpose(0, 1), positions).transpose(0, 1)
        ),
        "every token is turned by the angles of the last position.": (
            lambda: turn(x, positions[-1:].expand(L))
        ),
        "the two numbers of a pair are exchanged in the result.": (
            lambda: interleave(a * sin + b * cos, a * cos - b * sin)
        ),
        **{
            text.replace("d_model", "d"): (
                lambda options=options: turn(x, positions, rates_for(d, **options))
            )
            for text, options in WRONG_RATES.items()
        },
    }


def check_rotate(rotate, x, positions):
    expected = turn(x, positions).to(torch.promote_types(x.dtype, torch.float16))
    if x.dtype == torch.float64:
        expected = expected.float()  # angles in float32 are welcome
    expect(rotate(x, positions), expected, rotate_mistakes(x, positions))


def test_each_call_turns_by_its_own_angles(rotate):
    x, y = torch.randn(2, 4, 4, 4)
    one, other = torch.tensor([[2, 5, 1, 9], [7, 0, 3, 4]])
    expect_no_memory(rotate, lambda *given: turn(*given).float(), (x, one), (y, other))


def test_every_pair_is_turned_by_its_angle(rotate):
    for shape in ((2, 5, 8), (3, 4, 6), (2, 3, 2), (2, 1, 12), (1, 4, 6)):
        positions = torch.tensor([3, 2, 11, 1, 20])[: shape[1]]
        check_rotate(rotate, torch.randn(shape), positions)


def test_rotate_when_all_sizes_are_equal(rotate):
    check_rotate(rotate, torch.randn(4, 4, 4), torch.tensor([2, 5, 0, 9]))


def test_positions_from_0_and_one_far_on(rotate):
    check_rotate(rotate, torch.randn(2, 6, 8), torch.arange(6))
    check_rotate(rotate, torch.randn(2, 3, 8), torch.arange(13, 16))
    x, far = torch.randn(2, 3, 8), torch.tensor([1100, 3, 1099])
    right = turn(x, far).float()
    expect(nearly(rotate(x, far), right), right, rotate_mistakes(x, far), call="rotate(x, far on)")
    check_rotate(rotate, torch.randn(1, 2, 512), torch.tensor([3, 1]))


def test_rotate_in_half_and_double_precision(rotate):
    for dtype in (torch.float16, torch.float64):
        check_rotate(rotate, torch.randn(2, 4, 6).to(dtype), torch.tensor([1, 0, 4, 2]))


def test_scores_of_turned_vectors_depend_on_the_offset(rotate):
    query, key = torch.randn(2, 1, 8), torch.randn(2, 1, 8)
    scores = []
    for start in (0, 9):
        q, k = rotate(query, torch.tensor([start + 4])), rotate(key, torch.tensor([start]))
        assert isinstance(q, Tensor) and isinstance(k, Tensor) and q.shape == k.shape
        scores.append((q * k).sum(-1))
    assert torch.allclose(*scores, atol=1e-3), (
        "A query and a key four places apart score differently at the places 4, 0 and 13, 9. Only "
        "the offset may count."
    )


def test_a_gradient_flows_through_the_rotation(rotate):
    x, positions = torch.randn(2, 3, 4, requires_grad=True), torch.tensor([2, 0, 5])
    answer, pull = rotate(x, positions), torch.randn(2, 3, 4)
    assert isinstance(answer, Tensor) and answer.requires_grad, (
        "The result is cut off from x: queries and keys come through here, and no gradient would "
        "reach w_q and w_k. Do without .detach(), .numpy(), .data and torch.no_grad()."
    )
    (answer * pull).sum().backward()
    right, names = turn(pull, -positions).float(), ("The gradient of x",)
    expect(x.grad, right, names=names, call="the gradient that comes through rotate")


# ---- repaired_step


def true_step(token, keys, values, table, w_q, w_k, w_v, **wrong):
    """Return what a step should give; the keywords are there to be set wrong."""
    d = table.shape[1]
    position = wrong.get("position", keys.shape[1])
    x = table[token].double() * wrong.get("scale", math.sqrt(d))
    code = wrong.get("rows", table_of(1, d, start=position))
    x = x + code * wrong.get("code", 1.0)
    w_q, w_k, w_v, keys, values = (each.double() for each in (w_q, w_k, w_v, keys, values))
    front = wrong.get("front", False)
    k, v = x @ w_k, x @ w_v
    keys = torch.cat((k, keys) if front else (keys, k), dim=1)
    values = torch.cat((v, values) if front else (values, v), dim=1)
    scores = x @ w_q @ keys.transpose(1, 2) / wrong.get("divisor", math.sqrt(d))
    return scores.softmax(-1) @ values, keys, values


def step_mistakes(*given):
    token, keys, _, table, *_ = given
    t, d = keys.shape[1], table.shape[1]
    far = {
        f"the token stands at position {p}. {t} tokens are in the cache, so it is {t}; a position "
        "that goes on counting from call to call knows nothing of a new sentence.": {"position": p}
        for p in range(40)
        if p not in (0, t - 1, t, t + 1)
    }
    wrong = {
        "every token still stands at position 0. How many stand before it?": {"position": 0},
        "the position is one too high: count the tokens in the cache *before* the newest is put "
        "in.": {"position": t + 1},
        "the position is one too low: the first token, with an empty cache, has position 0, the "
        "next 1.": {"position": t - 1},
        "no position is added at all.": {"code": 0.0},
        "the embedding is not multiplied with √d_model.": {"scale": 1.0},
        "the row of the code is that of the token's id, not that of its position.": {
            "rows": table_of(int(token.max()) + 1, d)[token]
        },
        "the first t rows of the code are added, and one token becomes t: take row t alone.": {
            "rows": table_of(t, d)
        },
        "the first t + 1 rows of the code are added, and one token becomes t + 1: take row t "
        "alone.": {"rows": table_of(t + 1, d)},
        "the newest key and value stand in front of the others. They come behind.": {"front": True},
        "the scores are not divided by √d_model.": {"divisor": 1.0},
        "the scores are divided by d_model, not by its square root.": {"divisor": d},
        **far,
    }
    output, all_keys, all_values = true_step(*given)
    plain, code = table[token].double() * math.sqrt(d), table_of(1, d, start=t)
    w_q, more = given[4].double(), table_of(t + 1, d)

    def attend(query, keys, values):
        return (query @ keys.mT / math.sqrt(d)).softmax(-1) @ values

    return {
        **{text: (lambda each=each: true_step(*given, **each)) for text, each in wrong.items()},
        "the query is made from the token without its position.": lambda: (
            attend(plain @ w_q, all_keys, all_values),
            all_keys,
            all_values,
        ),
        "w_k and w_v are exchanged.": lambda: true_step(*given[:4], w_q, given[6], given[5]),
        "the softmax runs over the one query, so every weight is 1: the keys are dim=-1.": (
            lambda: (all_values.sum(1, keepdim=True), all_keys, all_values)
        ),
        "keys and values are returned as they came: put the newest behind them.": (
            output,
            keys.double(),
            given[2].double(),
        ),
        "only the newest key and value are returned. The others are needed again in the next "
        "step.": (output, all_keys[:, -1:], all_values[:, -1:]),
        "keys and values are exchanged in the result.": (output, all_values, all_keys),
        "the newest token does not look at itself: append its key and value before attention.": (
            lambda: (
                attend((plain + code) @ w_q, keys.double(), given[2].double()),
                all_keys,
                all_values,
            )
        ),
        "the positions are added to the keys in the cache. They have theirs from the steps before; "
        "only the newest token gets one.": lambda: true_step(token, keys + more[:t], *given[2:]),
    }


def check_step(repaired_step, *given):
    expected = tuple(part.float() for part in true_step(*given))
    names = ("output", "keys", "values")
    expect(repaired_step(*given), expected, step_mistakes(*given), names=names)
    return expected[1:]


def decoder(vocabulary, d):
    return torch.randn(vocabulary, d) / math.sqrt(d), *(0.5 * torch.randn(3, d, d))


def test_a_step_with_tokens_in_the_cache(repaired_step):
    for B, t, d in ((2, 5, 8), (3, 2, 4), (2, 1, 6), (3, 3, 6), (2, 30, 4), (1, 3, 4)):
        token, cache = torch.randint(9, (B, 1)), torch.randn(2, B, t, d)
        check_step(repaired_step, token, *cache, *decoder(9, d))


def test_two_sentences_from_the_first_token_on(repaired_step):
    for B, d in ((2, 6), (3, 8)):  # the second must not remember the first
        weights, cache = decoder(11, d), torch.zeros(2, B, 0, d)
        for token in torch.randint(11, (4, B, 1)):
            cache = check_step(repaired_step, token, *cache, *weights)


def test_a_step_knows_only_its_arguments(repaired_step):
    def right(*given):
        return tuple(part.float() for part in true_step(*given))

    first, second = (
        (torch.randint(9, (4, 1)), *torch.randn(2, 4, 4, 4), *decoder(9, 4)) for _ in range(2)
    )
    expect_no_memory(repaired_step, right, first, second)
