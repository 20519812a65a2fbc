"""Answers to exercise 05, wrong and right."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from catalogue import right, solutions, wrong
from torch import nn

import transformer_lab as lab

LESSON = "05_positional_encoding"
Given = solutions(LESSON)["LearnedPositionalEncoding"]  # for its __init__

# ---- predicted_positions

RIGHT = [[0, 1, 0, 1], 256, 107, 3, 10, 32768]


def but(letter, answer):
    """Return the right predictions with one of them replaced."""
    return [answer if each == letter else good for each, good in zip("abcdef", RIGHT, strict=True)]


@right("predicted_positions")
def as_a_list():
    return RIGHT


@right("predicted_positions")
def as_tuples_and_floats():
    return (0.0, 1.0, 0.0, 1.0), 256.0, 107, 3, 10, 512 * 64


@right("predicted_positions")
def computed_with_tensors():
    code = lab.sinusoidal_encoding(2, 4)
    return [code[0], torch.tensor(256), np.int64(107), 3, 10, 32768]


@wrong("predicted_positions", "a is not", "cos 0 is not 0")
def nothing_at_position_0():
    """Position 0 is thought to add nothing."""
    return but("a", [0, 0, 0, 0])


@wrong("predicted_positions", "a is not", "The sine stands in the even columns")
def cosines_first():
    """cos, sin: the order of a point (x, y) on the circle."""
    return but("a", [1, 0, 1, 0])


@wrong("predicted_positions", "a is not", "next to each other")
def halves_at_0():
    """All sines first, as in tensor2tensor."""
    return but("a", [0, 0, 1, 1])


@wrong("predicted_positions", "a is not", "Put t = 0")
def two_numbers_only():
    """One hand instead of two."""
    return but("a", [0, 1])


@wrong("predicted_positions", "b is not 512", "two numbers")
def every_entry_counts_1():
    """Each entry is thought to give 1."""
    return but("b", 512)


@wrong("predicted_positions", "b is not 16", "length squared")
def the_length_itself():
    """√256."""
    return but("b", 16)


@wrong("predicted_positions", "c is not 110", "not 10 places")
def the_second_position_taken_for_the_offset():
    """100 + 10."""
    return but("c", 110)


@wrong("predicted_positions", "c is not 93", "not above 100")
def to_the_other_side():
    """The cosine is even, so this has the same product."""
    return but("c", 93)


@wrong("predicted_positions", "d is not 6", "comes first")
def six_places_six_vectors():
    """As it would be with positions."""
    return but("d", 6)


@wrong("predicted_positions", "e is not 0", "the bug of task 6")
def the_bug_is_taken_for_the_rule():
    """In the call the token is the first."""
    return but("e", 0)


@wrong("predicted_positions", "e is not 11", "counted from 0")
def counted_from_1():
    """The eleventh token."""
    return but("e", 11)


@wrong("predicted_positions", "f is not 512", "d_model numbers")
def one_number_for_a_position():
    """One parameter per position."""
    return but("f", 512)


@wrong("predicted_positions", "expected 6 answers")
def one_forgotten():
    """The last is left out."""
    return RIGHT[:5]


@wrong("predicted_positions", "a is not [[0, 1, 0, 1]]", "not a list in a list")
def a_table_of_one_row():
    """The right numbers, as sinusoidal_encoding(1, 4) prints them."""
    return but("a", [[0.0, 1.0, 0.0, 1.0]])


# ---- sinusoidal_encoding


def angles_of(length, d_model):
    t = torch.arange(length, dtype=torch.float64)[:, None]
    return t / 10000 ** (torch.arange(0, d_model, 2).double() / d_model)


@right("sinusoidal_encoding")
def with_slices(length, d_model):
    table = torch.zeros(length, d_model)
    position = torch.arange(0, length, dtype=torch.float).unsqueeze(1)
    div_term = torch.exp(torch.arange(0, d_model, 2).float() * (-math.log(10000.0) / d_model))
    table[:, 0::2] = torch.sin(position * div_term)
    table[:, 1::2] = torch.cos(position * div_term)
    return table


@right("sinusoidal_encoding")
def with_two_loops(length, d_model):
    table = torch.empty(length, d_model)
    for t in range(length):
        for j in range(d_model):
            angle = t / 10000 ** (2 * (j // 2) / d_model)
            table[t, j] = math.cos(angle) if j % 2 else math.sin(angle)
    return table


@right("sinusoidal_encoding")
def with_numpy_in_double(length, d_model):
    columns = np.arange(d_model)[None, :]
    angles = np.arange(length)[:, None] / np.power(10000, (2 * (columns // 2)) / d_model)
    angles[:, 0::2] = np.sin(angles[:, 0::2])
    angles[:, 1::2] = np.cos(angles[:, 1::2])
    return torch.from_numpy(angles)


@right("sinusoidal_encoding")
def a_cosine_is_a_sine_a_quarter_later(length, d_model):
    angles = angles_of(length, d_model).repeat_interleave(2, dim=1)
    angles[:, 1::2] += math.pi / 2
    return angles.sin().float()


@right("sinusoidal_encoding")
def with_complex_numbers(length, d_model):
    angles = angles_of(length, d_model)
    tips = torch.polar(torch.ones_like(angles), math.pi / 2 - angles)  # real sin, imaginary cos
    return torch.view_as_real(tips).reshape(length, d_model)


@right("sinusoidal_encoding")
def with_einsum_and_outer(length, d_model):
    rates = torch.logspace(0, -4, d_model // 2 + 1, dtype=torch.float64)[:-1]
    angles = torch.einsum("t,i->ti", torch.arange(length).double(), rates)
    return torch.dstack((angles.sin(), angles.cos())).reshape(length, -1).float()


@right("sinusoidal_encoding")
def step_by_step_with_the_rotation(length, d_model):
    """Every row is the one before, turned."""
    turn = solutions(LESSON)["shift_matrix"](1, d_model).double()
    rows = [torch.tensor([0.0, 1.0], dtype=torch.float64).repeat(d_model // 2)]
    while len(rows) < length:
        rows.append(rows[-1] @ turn)
    return torch.stack(rows)


@wrong("sinusoidal_encoding", "sinusoidal_encoding(5, 512)")
def the_power_before_the_root(length, d_model):
    """The same number on paper; 10000 to the power of 510 is no float."""
    t = torch.arange(length, dtype=torch.float64)[:, None]
    powers = 10000.0 ** torch.arange(0, d_model, 2, dtype=torch.float64)
    angles = t / powers ** (1 / d_model)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1).float()


@wrong("sinusoidal_encoding", "all sines come first")
def sines_then_cosines(length, d_model):
    """tensor2tensor's layout, and that of many fairseq models."""
    angles = angles_of(length, d_model)
    return torch.cat((angles.sin(), angles.cos()), 1)


@wrong("sinusoidal_encoding", "sine and cosine are exchanged")
def cosine_in_front(length, d_model):
    """cos for even columns."""
    angles = angles_of(length, d_model)
    return torch.stack((angles.cos(), angles.sin()), -1).flatten(1)


@wrong("sinusoidal_encoding", "the exponent counts 2 twice")
def twice_2i(length, d_model):
    """for i in range(0, d_model, 2): … 10000 ** (2 * i / d_model): published many times over."""
    table = torch.zeros(length, d_model)
    for t in range(length):
        for i in range(0, d_model, 2):
            table[t, i] = math.sin(t / 10000 ** (2 * i / d_model))
            table[t, i + 1] = math.cos(t / 10000 ** (2 * i / d_model))
    return table


@wrong("sinusoidal_encoding", "every column has a rate of its own")
def own_rates(length, d_model):
    """sin with i, cos with i + 1 in the exponent."""
    table = torch.zeros(length, d_model)
    for t in range(length):
        for i in range(0, d_model, 2):
            table[t, i] = math.sin(t / 10000 ** (i / d_model))
            table[t, i + 1] = math.cos(t / 10000 ** ((i + 1) / d_model))
    return table


@wrong("sinusoidal_encoding", "the exponent is i/d_model")
def half_the_exponent(length, d_model):
    """The 2 of 2i is lost when i counts pairs."""
    angles = torch.arange(length)[:, None] / 10000 ** (torch.arange(d_model // 2) / d_model)
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(1)


@wrong("sinusoidal_encoding", "The first hand has i = 0")
def pairs_from_1(length, d_model):
    """C43: notes that count k from 1 to d/2."""
    i = torch.arange(1, d_model // 2 + 1)
    angles = torch.arange(length)[:, None] / 10000 ** (2 * i / d_model)
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(1)


@wrong("sinusoidal_encoding", "Is the exponent rounded down")
def integer_division(length, d_model):
    """2 * i // d_model is 0 for every i."""
    i = torch.arange(d_model // 2)
    angles = torch.arange(length)[:, None] / 10000 ** (2 * i // d_model)
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(1)


@wrong("sinusoidal_encoding", "d_model/2 − 1")
def timescales_to_the_end(length, d_model):
    """tensor2tensor: log(10000) / (num_timescales − 1)."""
    i = torch.arange(d_model // 2)
    angles = torch.arange(length)[:, None] / 10000 ** (i / max(d_model // 2 - 1, 1))
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(1)


@wrong("sinusoidal_encoding", "should hardly move", "It is divided")
def multiplied(length, d_model):
    """t · 10000^(2i/d): the minus is lost on the way from division to product."""
    angles = torch.arange(length)[:, None] * 10000.0 ** (torch.arange(0, d_model, 2) / d_model)
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(1)


@wrong("sinusoidal_encoding", "the logarithm of 10,000 is missing")
def without_the_logarithm(length, d_model):
    """exp(−2i/d): the trick with exp and log, half remembered."""
    angles = torch.arange(length)[:, None] * torch.exp(-torch.arange(0, d_model, 2) / d_model)
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(1)


@wrong("sinusoidal_encoding", "the base is 1,000")
def one_zero_less(length, d_model):
    """A zero is lost."""
    angles = torch.arange(length)[:, None] / 1000 ** (torch.arange(0, d_model, 2) / d_model)
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(1)


@wrong("sinusoidal_encoding", "positions are counted from 1")
def positions_from_1(length, d_model):
    """range(1, length + 1)."""
    return with_slices(length + 1, d_model)[1:]


@wrong("sinusoidal_encoding", "even and odd *positions*")
def by_rows(length, d_model):
    """table[0::2], table[1::2]: the slice on the wrong axis."""
    columns = 10000.0 ** (-torch.arange(d_model) / d_model)
    table = torch.arange(length)[:, None] * columns
    table[0::2], table[1::2] = table[0::2].sin(), table[1::2].cos()
    return table


@wrong("sinusoidal_encoding", "both columns of a pair are sines")
def sines_only(length, d_model):
    """Copied, and the second line not changed."""
    return angles_of(length, d_model).sin().repeat_interleave(2, 1)


@wrong("sinusoidal_encoding", "the angles are returned")
def angles_only(length, d_model):
    """Stopped half-way."""
    return angles_of(length, d_model).repeat_interleave(2, 1)


@wrong("sinusoidal_encoding", "only the sines are there")
def half_the_width(length, d_model):
    """No cosines."""
    return angles_of(length, d_model).sin()


@wrong("sinusoidal_encoding", "taken for degrees")
def in_degrees(length, d_model):
    """A pocket calculator's setting."""
    angles = torch.deg2rad(angles_of(length, d_model))
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(1)


@wrong("sinusoidal_encoding", "has shape (1, 7, 12)")
def with_a_batch_axis(length, d_model):
    """The annotated code's pe.unsqueeze(0), ready to be added to a batch."""
    return with_slices(length, d_model)[None]


@wrong("sinusoidal_encoding", "axes 0 and 1 are swapped")
def as_columns(length, d_model):
    """A column for each position."""
    return with_slices(length, d_model).T


@wrong("sinusoidal_encoding", "expected a tensor")
def as_an_array(length, d_model):
    """NumPy to the end."""
    return with_slices(length, d_model).numpy()


def two_loops(length, d_model, fill):
    table = torch.zeros(length, d_model)
    for t in range(length):
        fill(table[t], t)
    return table


@wrong("sinusoidal_encoding", "every column has a rate of its own, and the exponent counts 2 twice")
def two_times_the_column(length, d_model):
    """A much-copied loop: i runs over the even columns, and the exponents are 2i and 2(i + 1)."""

    def fill(row, t):
        for i in range(0, d_model, 2):
            row[i] = math.sin(t / 10000 ** (2 * i / d_model))
            row[i + 1] = math.cos(t / 10000 ** (2 * (i + 1) / d_model))

    return two_loops(length, d_model, fill)


@wrong("sinusoidal_encoding", "even and odd *positions*")
def by_rows_with_the_rates_of_pairs(length, d_model):
    """Asks `t % 2` where it should ask for the column."""

    def fill(row, t):
        for i in range(d_model):
            angle = t / 10000 ** (2 * (i // 2) / d_model)
            row[i] = math.sin(angle) if t % 2 == 0 else math.cos(angle)

    return two_loops(length, d_model, fill)


@wrong("sinusoidal_encoding", "the cosines are missing")
def only_even_columns(length, d_model):
    """The line for the odd columns is forgotten."""
    table = torch.zeros(length, d_model)
    table[:, 0::2] = angles_of(length, d_model).sin()
    return table


@wrong("sinusoidal_encoding", "only the first row is filled")
def return_in_the_loop(length, d_model):
    """`return` indented by one step too many."""
    table = torch.zeros(length, d_model)
    for t in range(length):
        table[t] = with_slices(length, d_model)[t]
        return table


@wrong("sinusoidal_encoding", "an axis of their own", ".flatten(1)")
def stacked_only(length, d_model):
    """torch.stack without the flatten."""
    angles = angles_of(length, d_model)
    return torch.stack((angles.sin(), angles.cos()), -1)


@wrong("sinusoidal_encoding", "multiplied with 2π")
def with_full_turns(length, d_model):
    """A wave is a full turn, thinks the reader of section 3.5."""
    angles = 2 * math.pi * angles_of(length, d_model)
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(1)


@wrong("sinusoidal_encoding", "the logarithm is that to the base 10")
def with_log10(length, d_model):
    """exp and log10 do not undo each other."""
    rates = torch.exp(-torch.arange(0, d_model, 2) * math.log10(10000.0) / d_model)
    angles = torch.arange(length)[:, None] * rates
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(1)


@wrong("sinusoidal_encoding", "Each is 0.4082 times what it should be.")
def of_length_one(length, d_model):
    """Normalised rows; a word about fast hands would lead astray."""
    table = with_slices(length, d_model)
    return table / table.norm(dim=1, keepdim=True)


@wrong("sinusoidal_encoding", "(512, 6), expected (1100, 6)")
def cut_out_of_512_rows(length, d_model):
    """A table of the length that the first model had."""
    return lab.sinusoidal_encoding(512, d_model)[:length]


@wrong("sinusoidal_encoding", "counted in half precision")
def positions_in_bfloat16(length, d_model):
    """The position's dtype is that of the model, and the model is in bfloat16."""
    rates = 10000.0 ** (-torch.arange(0, d_model, 2) / d_model)
    angles = torch.arange(length).bfloat16().float()[:, None] * rates
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(1)


@wrong("sinusoidal_encoding", "torch's default dtype")
def with_another_default_dtype(length, d_model):
    """Changed for the angles, and left so for everything."""
    torch.set_default_dtype(torch.float64)
    return lab.sinusoidal_encoding(length, d_model)


@right("sinusoidal_encoding")
def column_by_column(length, d_model):
    columns = []
    for column in range(d_model):
        wave, pair = (math.cos if column % 2 else math.sin), column - column % 2
        rate = math.exp(-pair * math.log(10000) / d_model)
        columns.append([wave(t * rate) for t in range(length)])
    return torch.tensor(columns).T


@wrong("sinusoidal_encoding", "(5000, 2), expected (6000, 2)")
def cut_from_a_table_of_5000(length, d_model):
    """max_len=5000, as in PyTorch's tutorial and the Annotated Transformer."""
    angles = angles_of(5000, d_model)
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(1)[:length].float()


# ---- shift_matrix


def turning(offset, d_model, block, rate=lambda i, d: 10000 ** (-2 * i / d)):
    """Put block(cos, sin) along the diagonal."""
    matrix = torch.zeros(d_model, d_model)
    for i in range(d_model // 2):
        angle = offset * rate(i, d_model)
        entries = block(math.cos(angle), math.sin(angle))
        matrix[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = torch.tensor(entries)
    return matrix


def good_block(c, s):
    return [[c, -s], [s, c]]


@right("shift_matrix")
def with_block_diag(offset, d_model):
    angles = offset * 10000.0 ** (-torch.arange(0, d_model, 2) / d_model)
    return torch.block_diag(*(torch.tensor(good_block(a.cos(), a.sin())) for a in angles))


@right("shift_matrix")
def with_numpy_and_kronecker(offset, d_model):
    angles = offset / 10000 ** (np.arange(0, d_model, 2) / d_model)
    same, swapped = np.eye(2), np.array([[0, -1], [1, 0]])
    turned = np.kron(np.diag(np.cos(angles)), same) + np.kron(np.diag(np.sin(angles)), swapped)
    return torch.tensor(turned)


@right("shift_matrix")
def with_diagonals(offset, d_model):
    angles = offset * 10000.0 ** (-torch.arange(0, d_model, 2).double() / d_model)
    beside = torch.zeros(d_model - 1, dtype=torch.float64)
    beside[::2] = angles.sin()
    cosines = torch.diag(angles.cos().repeat_interleave(2))
    return cosines + torch.diag(beside, -1) - torch.diag(beside, 1)


@right("shift_matrix")
def one_step_many_times(offset, d_model):
    return torch.linalg.matrix_power(turning(1, d_model, good_block).double(), offset)


@right("shift_matrix")
def as_a_matrix_exponential(offset, d_model):
    rates = 10000.0 ** (-torch.arange(0, d_model, 2).double() / d_model)
    generator = torch.block_diag(*(r * torch.tensor([[0.0, -1.0], [1.0, 0.0]]) for r in rates))
    return torch.matrix_exp(offset * generator)


@right("shift_matrix")
def from_the_code_of_the_offset(offset, d_model):
    """PE(|k|) holds all sines and cosines that are needed."""
    code = lab.sinusoidal_encoding(abs(offset) + 1, d_model)[-1]
    sin, cos = code[0::2] * (1 if offset >= 0 else -1), code[1::2]
    return torch.block_diag(
        *(torch.tensor(good_block(c, s)) for c, s in zip(cos, sin, strict=True))
    )


@right("shift_matrix")
def fitted_in_double(offset, d_model):
    """Least squares over thousands of positions: no algebra, and the same matrix."""
    code = angles_of(5000, d_model)
    code = torch.stack((code.sin(), code.cos()), -1).flatten(1)
    first = max(0, -offset)
    here, there = code[first : first + 4900], code[first + offset : first + offset + 4900]
    return torch.linalg.lstsq(here, there).solution.float()


@wrong("shift_matrix", "the matrix is transposed")
def for_columns(offset, d_model):
    """The matrix as many texts print it, [[cos, sin], [−sin, cos]], for columns (sin, cos)."""
    return turning(offset, d_model, lambda c, s: [[c, s], [-s, c]])


@wrong("shift_matrix", "a minus is missing")
def without_the_minus(offset, d_model):
    """cos(a + b) with a plus."""
    return turning(offset, d_model, lambda c, s: [[c, s], [s, c]])


@wrong("shift_matrix", "both sines are negative")
def two_minuses(offset, d_model):
    """Both rules are given a minus."""
    return turning(offset, d_model, lambda c, s: [[c, -s], [-s, c]])


@wrong("shift_matrix", "sines and cosines are exchanged within the block")
def exchanged_in_the_block(offset, d_model):
    """[[sin, −cos], [cos, sin]]."""
    return turning(offset, d_model, lambda c, s: [[s, -c], [c, s]])


@wrong("shift_matrix", "all sines are thought to come first")
def for_halves(offset, d_model):
    """Made for the layout of tensor2tensor."""
    angles = offset * 10000.0 ** (-torch.arange(0, d_model, 2).double() / d_model)
    cos, sin = torch.diag(angles.cos()), torch.diag(angles.sin())
    return torch.cat((torch.cat((cos, -sin), 1), torch.cat((sin, cos), 1)))


@wrong("shift_matrix", "the rates ω_i are missing")
def the_same_angle_everywhere(offset, d_model):
    """One block, repeated."""
    return turning(offset, d_model, good_block, rate=lambda i, d: 1.0)


@wrong("shift_matrix", "`offset` is not used")
def one_step_only(offset, d_model):
    """The angle ω_i alone."""
    return turning(1, d_model, good_block)


@wrong("shift_matrix", "one step too far")
def off_by_one(offset, d_model):
    """offset + 1."""
    return turning(offset + 1, d_model, good_block)


@wrong("shift_matrix", "the exponent counts 2 twice")
def shifted_with_4i(offset, d_model):
    """The mistake of task 2, again."""
    return turning(offset, d_model, good_block, rate=lambda i, d: 10000 ** (-4 * i / d))


@wrong("shift_matrix", "The first hand has i = 0")
def shifted_pairs_from_1(offset, d_model):
    """C43 again."""
    return turning(offset, d_model, good_block, rate=lambda i, d: 10000 ** (-2 * (i + 1) / d))


@wrong("shift_matrix", "only the cosines on the diagonal")
def diagonal_only(offset, d_model):
    """The sines are forgotten."""
    return turning(offset, d_model, lambda c, s: [[c, 0.0], [0.0, c]])


@wrong("shift_matrix", "the blocks are returned one by one")
def a_stack_of_blocks(offset, d_model):
    """A batch of 2 × 2 matrices."""
    angles = offset * 10000.0 ** (-torch.arange(0, d_model, 2) / d_model)
    return torch.stack([torch.tensor(good_block(a.cos(), a.sin())) for a in angles])


@wrong("shift_matrix", "expected (6, 6)")
def one_block(offset, d_model):
    """The derivation's 2 × 2 matrix, and no more."""
    return torch.tensor(good_block(math.cos(offset), math.sin(offset)))


@wrong("shift_matrix", "numbers differ")
def fitted_to_a_few_positions(offset, d_model):
    """Least squares over ten positions in float32: right on these, and nowhere else."""
    code = lab.sinusoidal_encoding(10 + abs(offset), d_model)
    first = max(0, -offset)
    return torch.linalg.lstsq(code[first : first + 5], code[first + offset :][:5]).solution


@wrong("shift_matrix", "nothing is turned: it is the identity")
def only_forwards(offset, d_model):
    """One step for each in range(offset): for a negative offset there is none."""
    matrix, step = torch.eye(d_model), turning(1, d_model, good_block)
    for _ in range(offset):
        matrix = matrix @ step
    return matrix


@wrong("shift_matrix", "the sign of `offset` is lost")
def as_far_in_either_direction(offset, d_model):
    """abs(offset), because a table of codes has no negative rows."""
    return turning(abs(offset), d_model, good_block)


@wrong("shift_matrix", "none mirrors")
def a_mirror(offset, d_model):
    """The minus stands at the cosine."""
    return turning(offset, d_model, lambda c, s: [[c, s], [s, -c]])


@wrong("shift_matrix", "only the first hand is turned")
def one_block_and_ones(offset, d_model):
    """Begins with the identity, and never comes to the second pair."""
    matrix = torch.eye(d_model)
    matrix[:2, :2] = turning(offset, d_model, good_block)[:2, :2]
    return matrix


@wrong("shift_matrix", "the blocks overlap")
def blocks_at_i(offset, d_model):
    """matrix[i : i + 2], with i that counts pairs."""
    matrix, good = torch.zeros(d_model, d_model), turning(offset, d_model, good_block)
    for i in range(d_model // 2):
        matrix[i : i + 2, i : i + 2] = good[2 * i : 2 * i + 2, 2 * i : 2 * i + 2]
    return matrix


@wrong("shift_matrix", "the rest is 1")
def ones_around(offset, d_model):
    """torch.ones for torch.zeros."""
    outside = 1 - torch.block_diag(*torch.ones(d_model // 2, 2, 2))
    return turning(offset, d_model, good_block) + outside


MATRIX = torch.zeros(64, 64)


@wrong("shift_matrix", "changed what an earlier call had returned", "both gave out the same")
def written_over(offset, d_model):
    """One matrix is made at the start, and every call writes into it."""
    matrix = MATRIX[:d_model, :d_model]
    for i in range(0, d_model, 2):
        angle = offset / 10000 ** (i / d_model)
        cos, sin = math.cos(angle), math.sin(angle)
        matrix[i : i + 2, i : i + 2] = torch.tensor([[cos, -sin], [sin, cos]])
    return matrix


# ---- LearnedPositionalEncoding


class Checked(Given):
    """Raises where it should; `add` is there to be wrong."""

    def forward(self, x):
        if x.shape[1] > len(self.table):
            raise ValueError(f"{x.shape[1]} tokens, {len(self.table)} positions")
        return self.add(x, x.shape[1])

    def add(self, x, length):
        return x + self.table[:length]


@right("LearnedPositionalEncoding")
class WithASlice(Checked):
    pass


@right("LearnedPositionalEncoding")
class WithAnEmbeddingLookUp(Checked):
    def add(self, x, length):
        places = torch.arange(length, device=x.device).expand(len(x), length)
        return x + F.embedding(places, self.table)


@right("LearnedPositionalEncoding")
class WithALoopAndOneHot(Checked):
    def add(self, x, length):
        pick = F.one_hot(torch.arange(length), len(self.table)).to(self.table.dtype)
        return torch.stack([sentence + pick @ self.table for sentence in x])


@right("LearnedPositionalEncoding")
class WithIndexErrorsTurned(Given):
    def forward(self, x):
        try:
            rows = torch.stack([self.table[t] for t in range(x.size(1))])
        except IndexError as error:
            raise ValueError("too long") from error
        return torch.add(x, rows.unsqueeze(0))


@wrong("LearnedPositionalEncoding", "it should raise ValueError")
class Truncating(Given):
    """Cuts what does not fit: words are lost in silence."""

    def forward(self, x):
        x = x[:, : len(self.table)]
        return x + self.table[: x.shape[1]]


@wrong("LearnedPositionalEncoding", "it should raise ValueError")
class Repeating(Given):
    """Begins again at row 0, or stays at the last row."""

    def forward(self, x):
        return x + self.table[torch.arange(x.shape[1]) % len(self.table)]


@wrong("LearnedPositionalEncoding", "it should raise ValueError")
class LastRowForTheRest(Given):
    """clamp: the published way round an index error."""

    def forward(self, x):
        return x + self.table[torch.arange(x.shape[1]).clamp(max=len(self.table) - 1)]


@wrong("LearnedPositionalEncoding", "RuntimeError", "it should raise ValueError: row 4")
class NoCheckAtAll(Given):
    """Leaves the error to broadcasting, and with one row left there is none."""

    def forward(self, x):
        return x + self.table[: x.shape[1]]


@wrong("LearnedPositionalEncoding", "should raise ValueError", "eval mode")
class ChecksInTrainingOnly(Given):
    """'In use the length is known': as with the other safety nets of training code."""

    def forward(self, x):
        if self.training and x.shape[1] > len(self.table):
            raise ValueError("too long")
        return x[:, : len(self.table)] + self.table[: x.shape[1]]


@wrong("LearnedPositionalEncoding", "Your code stopped", "ValueError")
class RaisesTooEarly(Given):
    """>= in the place of >."""

    def forward(self, x):
        if x.shape[1] >= len(self.table):
            raise ValueError("too long")
        return x + self.table[: x.shape[1]]


@wrong("LearnedPositionalEncoding", "AssertionError (too long); it should raise ValueError")
class WithAnAssert(Given):
    """An assert is an error too, but not the one that was asked for."""

    def forward(self, x):
        assert x.shape[1] <= len(self.table), "too long"
        return x + self.table[: x.shape[1]]


@wrong("LearnedPositionalEncoding", "the rows go along the batch")
class AlongTheBatch(Checked):
    """Axis 0 taken for the tokens, as in code with the length first."""

    def add(self, x, length):
        return x + self.table[: len(x)].unsqueeze(1)


@wrong("LearnedPositionalEncoding", "every token gets row 0")
class RowZero(Checked):
    """self.table[0] for all."""

    def add(self, x, length):
        return x + self.table[0]


@wrong("LearnedPositionalEncoding", "every token gets the row of the last position")
class RowOfTheLength(Checked):
    """The length used as an index."""

    def add(self, x, length):
        return x + self.table[length - 1]


@wrong("LearnedPositionalEncoding", "the last rows of the table")
class LastRows(Checked):
    """A minus too many."""

    def add(self, x, length):
        return x + self.table[-length:]


@wrong("LearnedPositionalEncoding", "the rows are returned without x")
class WithoutX(Checked):
    """The look-up alone, as an embedding layer does."""

    def add(self, x, length):
        return self.table[:length].expand_as(x)


@wrong("LearnedPositionalEncoding", "multiplied with x")
class Multiplied(Checked):
    """A gate."""

    def add(self, x, length):
        return x * self.table[:length]


@wrong("LearnedPositionalEncoding", "appended to x")
class Appended(Checked):
    """Concatenated."""

    def add(self, x, length):
        return torch.cat((x, self.table[:length].expand_as(x)), dim=-1)


@wrong("LearnedPositionalEncoding", "scaled by √d_model")
class Scaled(Checked):
    """TokenEmbedding's factor, twice."""

    def add(self, x, length):
        return x * math.sqrt(x.shape[-1]) + self.table[:length]


@wrong("LearnedPositionalEncoding", "sinusoids are added")
class WithSinusoids(Checked):
    """The paper's code in the place of the table."""

    def add(self, x, length):
        return x + lab.sinusoidal_encoding(length, x.shape[-1]).to(x.dtype)


@wrong("LearnedPositionalEncoding", "the mean of all rows")
class MeanOfRows(Checked):
    """A reduction too many."""

    def add(self, x, length):
        return x + self.table.mean(dim=0)


@wrong("LearnedPositionalEncoding", "table gets no gradient, so it cannot learn")
class DetachedTable(Checked):
    """.data, so that the table stays as it was made."""

    def add(self, x, length):
        return x + self.table.data[:length]


@wrong("LearnedPositionalEncoding", "keep `__init__` as it was given")
class WithAnEmbedding(Given):
    """nn.Embedding in the place of the parameter: the same thing under another name."""

    def __init__(self, max_length, d_model):
        super().__init__(max_length, d_model)
        del self.table
        self.positions = nn.Embedding(max_length, d_model)


class Counting(Given):
    """The solution, with a method for what is added."""

    def rows(self, x):
        if x.shape[1] > len(self.table):
            raise ValueError("the sentence is too long")
        return self.table[: x.shape[1]]

    def forward(self, x):
        return x + self.rows(x)


@wrong("LearnedPositionalEncoding", "another parameter in the place of self.table")
class CutsItsTable(Counting):
    """The table is made as long as the sentence, for good."""

    def forward(self, x):
        self.table = nn.Parameter(self.rows(x).detach().clone())
        return x + self.table


@wrong("LearnedPositionalEncoding", "No gradient comes through to x")
class InputDetached(Counting):
    """The table learns, and no embedding below it."""

    def forward(self, x):
        return x.detach() + self.rows(x)


@wrong("LearnedPositionalEncoding", "The gradient of table is", "cut by .detach()")
class HalfAGradient(Counting):
    """A part of the table 'must not move so fast'."""

    def forward(self, x):
        return x + self.rows(x) / 2 + (self.rows(x) / 2).detach()


@wrong("LearnedPositionalEncoding", "table cannot learn", "nn.Parameter")
class TableAsABuffer(Counting):
    """As the sinusoids are kept."""

    def __init__(self, max_length, d_model):
        super().__init__(max_length, d_model)
        table = self.table.detach()
        del self.table
        self.register_buffer("table", table)


@wrong("LearnedPositionalEncoding", "The same call gave two answers", "kept from call to call")
class GoesOnCounting(Counting):
    """The next call begins where this one ended, as with a cache."""

    def rows(self, x):
        start = getattr(self, "start", 0)
        if start + x.shape[1] > len(self.table):
            start = 0
        self.start = start + x.shape[1]
        super().rows(x)
        return self.table[start : self.start]


@wrong("LearnedPositionalEncoding", "has shape", "axes of length 1")
class SqueezedForOneSentence(Counting):
    """squeeze(0) after a batch of one was tried out in the notebook."""

    def forward(self, x):
        return super().forward(x).squeeze(0)


@right("LearnedPositionalEncoding")
class WithNarrow(Given):
    def forward(self, x):
        try:
            return self.table.narrow(0, 0, x.shape[1]) + x
        except RuntimeError as error:
            raise ValueError("the sentence is too long") from error


# ---- rotate


def turned(x, positions, change, rate=lambda i, d: 10000 ** (-2 * i / d)):
    """Turn pair by pair; `change` makes the new pair."""
    d = x.shape[-1]
    result = torch.empty_like(x)
    for i in range(d // 2):
        theta = (positions * rate(i, d)).to(x.dtype)
        a, b = x[..., 2 * i], x[..., 2 * i + 1]
        result[..., 2 * i], result[..., 2 * i + 1] = change(a, b, theta.cos(), theta.sin())
    return result


def good_turn(a, b, c, s):
    return a * c - b * s, a * s + b * c


@right("rotate")
def pair_by_pair(x, positions):
    return turned(x, positions, good_turn)


@right("rotate")
def with_complex_products(x, positions):
    d = x.shape[-1]
    rates = 10000.0 ** (-torch.arange(0, d, 2).float() / d)
    turn = torch.polar(torch.ones(len(positions), d // 2), torch.outer(positions.float(), rates))
    pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * turn).flatten(-2).type_as(x)


@right("rotate")
def as_in_the_paper_of_rotary(x, positions):
    """x · cos + (−x₂, x₁, −x₄, x₃, …) · sin."""
    d = x.shape[-1]
    theta = positions[:, None] * 10000.0 ** (-torch.arange(0, d, 2) / d)
    theta = theta.repeat_interleave(2, dim=-1)
    swapped = torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).reshape(x.shape)
    return x * theta.cos() + swapped * theta.sin()


@right("rotate")
def with_a_matrix_for_each_position(x, positions):
    shift = solutions(LESSON)["shift_matrix"]
    matrices = torch.stack([shift(-int(p), x.shape[-1]) for p in positions]).to(x.dtype)
    return torch.einsum("bld,lde->ble", x, matrices)


@right("rotate")
def in_double_with_loops(x, positions):
    parts = []
    for i in range(x.shape[-1] // 2):
        theta = positions.double() * 10000 ** (-2 * i / x.shape[-1])
        pair = x[..., 2 * i : 2 * i + 2].double()
        turn = torch.stack((theta.cos(), theta.sin(), -theta.sin(), theta.cos()), -1)
        parts.append((pair.unsqueeze(-2) @ turn.view(-1, 2, 2)).squeeze(-2))
    return torch.cat(parts, dim=-1)


@right("rotate")
def all_in_the_dtype_of_x(x, positions):
    d = x.size(-1)
    rates = torch.pow(10000.0, -torch.arange(0, d, 2, dtype=x.dtype) / d)
    theta = torch.einsum("l,i->li", positions.to(x.dtype), rates)[None]
    even, odd = x.unflatten(-1, (d // 2, 2)).unbind(-1)
    out = torch.empty_like(x)
    out[..., 0::2] = even * theta.cos() - odd * theta.sin()
    out[..., 1::2] = odd * theta.cos() + even * theta.sin()
    return out


@wrong("rotate", "rotate(x (1, 2, 512)")
def turned_by_the_root_of_a_power(x, positions):
    """10000 to the power of 510 is no float."""
    d = x.shape[-1]
    powers = 10000.0 ** torch.arange(0, d, 2, dtype=torch.float64)
    angles = positions[:, None] / powers ** (1 / d)
    even, odd = x[..., 0::2].double(), x[..., 1::2].double()
    cos, sin = angles.cos(), angles.sin()
    turned = torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1)
    return turned.flatten(-2).to(x.dtype)


@wrong("rotate", "turned backwards, clockwise")
def clockwise(x, positions):
    """The direction of the clocks, and of shift_matrix."""
    return turned(x, positions, lambda a, b, c, s: (a * c + b * s, b * c - a * s))


@wrong("rotate", "halves turned against each other")
def rotate_half(x, positions):
    """rotate_half of transformers' LLaMA; Meta's own code turns neighbours."""
    d = x.shape[-1]
    theta = positions[:, None] * 10000.0 ** (-torch.arange(0, d, 2) / d)
    theta = torch.cat((theta, theta), dim=-1)
    first, second = x.chunk(2, dim=-1)
    return x * theta.cos() + torch.cat((-second, first), dim=-1) * theta.sin()


@wrong("rotate", "all first numbers of the pairs come first")
def put_back_with_cat(x, positions):
    """Taken apart with ::2, put together with cat."""
    result = turned(x, positions, good_turn)
    return torch.cat((result[..., ::2], result[..., 1::2]), dim=-1)


@wrong("rotate", "uses the *new* a")
def one_after_the_other(x, positions):
    """a = a cos − b sin; b = a sin + b cos: the old a is gone."""

    def change(a, b, c, s):
        a = a * c - b * s
        b = a * s + b * c
        return a, b

    return turned(x, positions, change)


@wrong("rotate", "the minus is missing")
def no_minus(x, positions):
    """Both formulas with a plus."""
    return turned(x, positions, lambda a, b, c, s: (a * c + b * s, a * s + b * c))


@wrong("rotate", "sine and cosine are exchanged")
def sine_for_cosine(x, positions):
    """As if the code's order, sine first, were the formula's."""
    return turned(x, positions, lambda a, b, c, s: good_turn(a, b, s, c))


@wrong("rotate", "`positions` is not used")
def positions_ignored(x, positions):
    """torch.arange(L), from the lesson's first use."""
    return turned(x, torch.arange(x.shape[1]), good_turn)


@wrong("rotate", "all hands have the rate 1")
def no_rates(x, positions):
    """Every pair by the angle t."""
    return turned(x, positions, good_turn, rate=lambda i, d: 1.0)


@wrong("rotate", "the exponent counts 2 twice")
def twice_2i_again(x, positions):
    """arange(0, d, 2), times 2."""
    return turned(x, positions, good_turn, rate=lambda i, d: 10000 ** (-4 * i / d))


@wrong("rotate", "The first hand has i = 0")
def pairs_of_x_from_1(x, positions):
    """Su et al. count θ_i from i = 1, with 2(i − 1) in the exponent; the −1 is lost."""
    return turned(x, positions, good_turn, rate=lambda i, d: 10000 ** (-2 * (i + 1) / d))


@wrong("rotate", "the code is added")
def added(x, positions):
    """What the paper does with the words."""
    d = x.shape[-1]
    theta = positions[:, None] * 10000.0 ** (-torch.arange(0, d, 2) / d)
    return x + torch.stack((theta.sin(), theta.cos()), -1).flatten(-2)


@wrong("rotate", "only multiplied with the cosine")
def cosine_only(x, positions):
    """Half of the formula."""
    return turned(x, positions, lambda a, b, c, s: (a * c, b * c))


@wrong("rotate", "positions are counted from 1")
def one_on(x, positions):
    """positions + 1."""
    return turned(x, positions + 1, good_turn)


@wrong("rotate", "Your code stopped", "The size of tensor a (2)")
def length_first(x, positions):
    """Written for (L, B, d)."""
    return turned(x.transpose(0, 1), positions, good_turn).transpose(0, 1)


@wrong("rotate", "cut off from x", "w_q and w_k")
def through_numpy(x, positions):
    """The numbers are right; queries and keys would never learn."""
    return torch.from_numpy(pair_by_pair(x.detach(), positions).numpy())


def with_layouts(x, positions, swap, repeat):
    d = x.shape[-1]
    theta = repeat(positions[:, None] * 10000.0 ** (-torch.arange(0, d, 2) / d))
    return x * theta.cos() + swap(x) * theta.sin()


def swap_halves(x):
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


def swap_neighbours(x):
    return torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).reshape(x.shape)


@wrong("rotate", "halves, repeated one behind the other: two layouts are mixed")
def neighbours_with_the_angles_of_halves(x, positions):
    """One line from the paper's layout, the other from LLaMA's."""
    return with_layouts(x, positions, swap_neighbours, lambda angles: angles.repeat(1, 2))


@wrong("rotate", "the angles are those of neighbours: two layouts are mixed")
def halves_with_the_angles_of_neighbours(x, positions):
    """The same the other way round."""
    return with_layouts(x, positions, swap_halves, lambda a: a.repeat_interleave(2, -1))


@wrong("rotate", "put back as neighbours")
def halves_in_and_neighbours_out(x, positions):
    """chunk(2) goes with cat, 0::2 goes with stack."""
    halves = with_layouts(x, positions, swap_halves, lambda angles: angles.repeat(1, 2))
    return torch.stack(halves.chunk(2, dim=-1), dim=-1).flatten(-2)


@wrong("rotate", "every column has an angle of its own")
def an_angle_for_each_column(x, positions):
    """arange(d) for arange(0, d, 2)."""
    d = x.shape[-1]
    theta = positions[:, None] * 10000.0 ** (-torch.arange(d) / d)
    return x * theta.cos() + swap_neighbours(x) * theta.sin()


@wrong("rotate", "an axis of their own", ".flatten(-2)")
def pairs_stacked_only(x, positions):
    """torch.stack without the flatten."""
    return pair_by_pair(x, positions).unflatten(-1, (-1, 2))


@wrong("rotate", "the positions are sorted")
def in_order(x, positions):
    """Order is thought to be given."""
    return pair_by_pair(x, positions.sort().values)


@wrong("rotate", "counted from the first token's")
def relative_to_the_first(x, positions):
    """Only differences count, so start at 0; keys in a cache know nothing of that."""
    return pair_by_pair(x, positions - positions[0])


def turned_pairs(a, b, positions):
    d = 2 * a.shape[-1]
    angles = positions[:, None] * 10000.0 ** (-torch.arange(0, d, 2) / d)
    cos, sin = angles.cos(), angles.sin()
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


@wrong("rotate", "The gradient of x is")
def half_of_each_pair_detached(x, positions):
    """One of the two is kept 'as it was', with .detach()."""
    return turned_pairs(x[..., 0::2], x[..., 1::2].detach(), positions)


ANGLES = {}


@wrong("rotate", "after one with other numbers", "begin anew")
def angles_kept_by_shape(x, positions):
    """LLaMA-like code keeps cos and sin by length; positions are arguments here."""
    return turned_pairs(x[..., 0::2], x[..., 1::2], ANGLES.setdefault(x.shape, positions))


@wrong("rotate", "the positions are counted from the smallest one")
def counted_from_the_smallest(x, positions):
    """Only offsets count, so the text may begin anywhere: true of the scores, not of the turn."""
    return turned_pairs(x[..., 0::2], x[..., 1::2], positions - positions.min())


@wrong("rotate", "Your code stopped", "IndexError")
def with_512_rows_of_angles(x, positions):
    """A table of the length that the first model had."""
    d = x.shape[-1]
    table = torch.arange(512)[:, None] * 10000.0 ** (-torch.arange(0, d, 2) / d)
    angles = table[positions]
    a, b = x[..., 0::2], x[..., 1::2]
    first = a * angles.cos() - b * angles.sin()
    return torch.stack((first, a * angles.sin() + b * angles.cos()), -1).flatten(-2)


@wrong("rotate", "has shape", "axes of length 1")
def squeezed_for_one_sentence(x, positions):
    """squeeze(0) after a batch of one was tried out in the notebook."""
    return turned_pairs(x[..., 0::2], x[..., 1::2], positions).squeeze(0)


@right("rotate")
def with_neighbours_swapped(x, positions):
    d = x.shape[-1]
    angles = positions[:, None] / 10000 ** (torch.arange(0, d, 2) / d)
    angles = angles.repeat_interleave(2, 1)
    swapped = torch.empty_like(x)
    swapped[..., 0::2], swapped[..., 1::2] = -x[..., 1::2], x[..., 0::2]
    return (x * angles.cos() + swapped * angles.sin()).to(x.dtype)


# ---- repaired_step


def step_at(position, token, keys, values, table, w_q, w_k, w_v):
    """A step whose token stands at `position`."""
    d_model = table.shape[1]
    x = table[token] * math.sqrt(d_model) + lab.sinusoidal_encoding(600, d_model)[position]
    keys, values = torch.cat((keys, x @ w_k), 1), torch.cat((values, x @ w_v), 1)
    return lab.scaled_dot_product_attention(x @ w_q, keys, values)[0], keys, values


@right("repaired_step")
def counted_before(token, keys, values, table, w_q, w_k, w_v):
    return step_at(keys.shape[1], token, keys, values, table, w_q, w_k, w_v)


@right("repaired_step")
def counted_after_minus_one(token, keys, values, table, w_q, w_k, w_v):
    """Room for the newest first, filled afterwards."""
    keys, values = F.pad(keys, (0, 0, 0, 1)), F.pad(values, (0, 0, 0, 1))
    t = keys.shape[1] - 1
    x = table[token[:, 0]] * table.shape[1] ** 0.5
    x = x + lab.sinusoidal_encoding(t + 1, table.shape[1])[-1]
    keys[:, t], values[:, t] = x @ w_k, x @ w_v
    scores = torch.einsum("bd,btd->bt", x @ w_q, keys) / table.shape[1] ** 0.5
    return torch.einsum("bt,btd->bd", scores.softmax(1), values)[:, None], keys, values


@right("repaired_step")
def with_the_package_s_modules(token, keys, values, table, w_q, w_k, w_v):
    positions = lab.PositionalEncoding(table.shape[1], 600, dropout=0.0)
    x = positions(F.embedding(token, table) * math.sqrt(table.shape[1]), offset=keys.shape[1])
    keys, values = torch.hstack((keys, x @ w_k)), torch.hstack((values, x @ w_v))
    return F.scaled_dot_product_attention(x @ w_q, keys, values), keys, values


@right("repaired_step")
def sentence_by_sentence(token, keys, values, table, w_q, w_k, w_v):
    results = [
        step_at(len(k), t[None], k[None], v[None], table, w_q, w_k, w_v)
        for t, k, v in zip(token, keys, values, strict=True)
    ]
    return [torch.cat(parts) for parts in zip(*results, strict=True)]


@wrong("repaired_step", "still stands at position 0")
def as_published(token, keys, values, table, w_q, w_k, w_v):
    """d2l: the positions are counted within the call."""
    return step_at(slice(0, 1), token, keys, values, table, w_q, w_k, w_v)


@wrong("repaired_step", "one too high")
def counted_after(token, keys, values, table, w_q, w_k, w_v):
    """keys.shape[1] after the cat: the first repair that comes to mind."""
    return step_at(keys.shape[1] + 1, token, keys, values, table, w_q, w_k, w_v)


@wrong("repaired_step", "one too low")
def index_of_the_last(token, keys, values, table, w_q, w_k, w_v):
    """The position of the last token in the cache."""
    return step_at(max(keys.shape[1] - 1, 0), token, keys, values, table, w_q, w_k, w_v)


@wrong("repaired_step", "stands at position 2", "5 tokens are in the cache")
def counted_along_the_batch(token, keys, values, table, w_q, w_k, w_v):
    """len(keys) is the number of sentences."""
    return step_at(len(keys), token, keys, values, table, w_q, w_k, w_v)


@wrong("repaired_step", "knows nothing of a new sentence")
def with_a_counter(token, keys, values, table, w_q, w_k, w_v):
    """A counter on the function (or module) that nobody resets."""
    with_a_counter.calls = getattr(with_a_counter, "calls", 100) + 1
    position = with_a_counter.calls % 37
    return step_at(position, token, keys, values, table, w_q, w_k, w_v)


@wrong("repaired_step", "no position is added at all")
def without_positions(token, keys, values, table, w_q, w_k, w_v):
    """The suspicious line is deleted."""
    x = table[token] * math.sqrt(table.shape[1])
    keys, values = torch.cat((keys, x @ w_k), 1), torch.cat((values, x @ w_v), 1)
    return lab.scaled_dot_product_attention(x @ w_q, keys, values)[0], keys, values


@wrong("repaired_step", "not multiplied with √d_model")
def without_the_scale(token, keys, values, table, w_q, w_k, w_v):
    """The factor is lost while the line is rewritten."""
    x = table[token] + lab.sinusoidal_encoding(600, table.shape[1])[keys.shape[1]]
    keys, values = torch.cat((keys, x @ w_k), 1), torch.cat((values, x @ w_v), 1)
    return lab.scaled_dot_product_attention(x @ w_q, keys, values)[0], keys, values


@wrong("repaired_step", "stand in front of the others")
def newest_in_front(token, keys, values, table, w_q, w_k, w_v):
    """torch.cat((new, old)): attention does not mind, the next look at the cache does."""
    output, k, v = counted_before(token, keys, values, table, w_q, w_k, w_v)
    return output, k.roll(1, 1), v.roll(1, 1)


@wrong("repaired_step", "returned as they came")
def cache_not_returned(token, keys, values, table, w_q, w_k, w_v):
    """The output is right, and the next step has forgotten this token."""
    return counted_before(token, keys, values, table, w_q, w_k, w_v)[0], keys, values


@wrong("repaired_step", "only the newest key and value are returned")
def newest_only(token, keys, values, table, w_q, w_k, w_v):
    """What was computed in this step."""
    output, k, v = counted_before(token, keys, values, table, w_q, w_k, w_v)
    return output, k[:, -1:], v[:, -1:]


@wrong("repaired_step", "expected 3 results")
def output_only(token, keys, values, table, w_q, w_k, w_v):
    """The cache is thought to be somebody else's business."""
    return counted_before(token, keys, values, table, w_q, w_k, w_v)[0]


@wrong("repaired_step", "The right results in the wrong order")
def cache_first(token, keys, values, table, w_q, w_k, w_v):
    """(keys, values, output)."""
    output, k, v = counted_before(token, keys, values, table, w_q, w_k, w_v)
    return k, v, output


@wrong("repaired_step", "added to the keys in the cache")
def positions_for_all_again(token, keys, values, table, w_q, w_k, w_v):
    """Every step adds the codes to everything that it holds."""
    again = keys + lab.sinusoidal_encoding(keys.shape[1], table.shape[1])
    return step_at(keys.shape[1], token, again, values, table, w_q, w_k, w_v)


@wrong("repaired_step", "the first t + 1 rows of the code are added")
def all_positions_at_once(token, keys, values, table, w_q, w_k, w_v):
    """code[: t + 1] is added to one token: broadcasting makes t + 1 tokens of it."""
    return step_at(slice(0, keys.shape[1] + 1), token, keys, values, table, w_q, w_k, w_v)


@wrong("repaired_step", "the first t rows of the code are added")
def all_earlier_positions(token, keys, values, table, w_q, w_k, w_v):
    """code[:t]: the slice of the bug, with another length."""
    return step_at(slice(0, keys.shape[1]), token, keys, values, table, w_q, w_k, w_v)


@wrong("repaired_step", "that of the token's id")
def position_of_the_id(token, keys, values, table, w_q, w_k, w_v):
    """code[token], as table[token]."""
    return step_at(token, token, keys, values, table, w_q, w_k, w_v)


@wrong("repaired_step", "the query is made from the token without its position")
def query_without_position(token, keys, values, table, w_q, w_k, w_v):
    """The position is added after the query was made."""
    _, k, v = counted_before(token, keys, values, table, w_q, w_k, w_v)
    query = table[token] * math.sqrt(table.shape[1]) @ w_q
    return lab.scaled_dot_product_attention(query, k, v)[0], k, v


@wrong("repaired_step", "w_k and w_v are exchanged")
def matrices_exchanged(token, keys, values, table, w_q, w_k, w_v):
    """Taken from the arguments in the wrong order."""
    return counted_before(token, keys, values, table, w_q, w_v, w_k)


@wrong("repaired_step", "the softmax runs over the one query")
def softmax_over_the_query(token, keys, values, table, w_q, w_k, w_v):
    """dim=1 was right when the scores had two axes."""
    _, k, v = counted_before(token, keys, values, table, w_q, w_k, w_v)
    return v.sum(1, keepdim=True), k, v


@wrong("repaired_step", "Your code stopped", "mat1 and mat2")
def token_squeezed(token, keys, values, table, w_q, w_k, w_v):
    """token.squeeze() takes the batch away, too, when there is one sentence."""
    t, d = keys.shape[1], table.shape[1]
    words = table[token.squeeze()] * math.sqrt(d)
    x = (words + lab.sinusoidal_encoding(t + 1, d)[t]).unsqueeze(1)
    keys, values = torch.cat((keys, x @ w_k), 1), torch.cat((values, x @ w_v), 1)
    return (x @ w_q @ keys.mT / math.sqrt(d)).softmax(-1) @ values, keys, values


@right("repaired_step")
def with_hstack_in_a_list(token, keys, values, table, w_q, w_k, w_v):
    t, d = keys.shape[1:]
    x = F.embedding(token, table) * d**0.5 + lab.sinusoidal_encoding(t + 1, d)[-1:]
    keys, values = torch.hstack((keys, x @ w_k)), torch.hstack((values, x @ w_v))
    return [F.scaled_dot_product_attention(x @ w_q, keys, values), keys, values]


def rates_of_the_paper(d_model):
    return 10000.0 ** (-torch.arange(0, d_model, 2).double() / 512)


@wrong("sinusoidal_encoding", "divided by 512")
def encoding_with_the_size_of_the_paper(length, d_model):
    """The paper's d_model, typed in."""
    angles = torch.arange(length)[:, None] * rates_of_the_paper(d_model)
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(1).float()


@wrong("rotate", "divided by 512")
def rotated_with_the_size_of_the_paper(x, positions):
    """The same."""
    angles = positions[:, None] * rates_of_the_paper(x.shape[-1]).to(x.dtype)
    even, odd, sine, cosine = x[..., 0::2], x[..., 1::2], angles.sin(), angles.cos()
    return torch.stack((even * cosine - odd * sine, even * sine + odd * cosine), -1).flatten(-2)
