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


@wrong("sinusoidal_encoding", "should hardly move", "It is divided")
def multiplied(length, d_model):
    """t · 10000^(2i/d): the minus is lost on the way from division to product."""
    angles = torch.arange(length)[:, None] * 10000.0 ** (torch.arange(0, d_model, 2) / d_model)
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(1)


@wrong("sinusoidal_encoding", "even and odd *positions*")
def by_rows(length, d_model):
    """table[0::2], table[1::2]: the slice on the wrong axis."""
    columns = 10000.0 ** (-torch.arange(d_model) / d_model)
    table = torch.arange(length)[:, None] * columns
    table[0::2], table[1::2] = table[0::2].sin(), table[1::2].cos()
    return table


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


@wrong("shift_matrix", "all sines are thought to come first")
def for_halves(offset, d_model):
    """Made for the layout of tensor2tensor."""
    angles = offset * 10000.0 ** (-torch.arange(0, d_model, 2).double() / d_model)
    cos, sin = torch.diag(angles.cos()), torch.diag(angles.sin())
    return torch.cat((torch.cat((cos, -sin), 1), torch.cat((sin, cos), 1)))


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


@wrong("LearnedPositionalEncoding", "sinusoids are added")
class WithSinusoids(Checked):
    """The paper's code in the place of the table."""

    def add(self, x, length):
        return x + lab.sinusoidal_encoding(length, x.shape[-1]).to(x.dtype)


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


@wrong("rotate", "uses the *new* a")
def one_after_the_other(x, positions):
    """a = a cos − b sin; b = a sin + b cos: the old a is gone."""

    def change(a, b, c, s):
        a = a * c - b * s
        b = a * s + b * c
        return a, b

    return turned(x, positions, change)


@wrong("rotate", "Your code stopped", "The size of tensor a (2)")
def length_first(x, positions):
    """Written for (L, B, d)."""
    return turned(x.transpose(0, 1), positions, good_turn).transpose(0, 1)


@wrong("rotate", "cut off from x", "w_q and w_k")
def through_numpy(x, positions):
    """The numbers are right; queries and keys would never learn."""
    return torch.from_numpy(pair_by_pair(x.detach(), positions).numpy())


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


@wrong("repaired_step", "expected 3 results")
def output_only(token, keys, values, table, w_q, w_k, w_v):
    """The cache is thought to be somebody else's business."""
    return counted_before(token, keys, values, table, w_q, w_k, w_v)[0]


@wrong("repaired_step", "The right results in the wrong order")
def cache_first(token, keys, values, table, w_q, w_k, w_v):
    """(keys, values, output)."""
    output, k, v = counted_before(token, keys, values, table, w_q, w_k, w_v)
    return k, v, output


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
