"""The checks of exercise 06. A mistake's text ends the sentence "This is the answer when …"."""

import itertools

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import transformer_lab as lab
from course.checking import CheckFailed, close, expect
from course.checking.diagnosis import (
    CUT,
    expect_learning,
    expect_no_memory,
    expect_predictions,
    random_weights,
)

FORBIDDEN = {  # as the task says
    "LayerNorm": ("nn.LayerNorm", "F.layer_norm", "torch.native_layer_norm")
}
NEARLY_ALL = 1 - 1e-6  # a dropout that leaves nothing shows where it stands, whatever its numbers

# ---- predicted_numbers


def test_the_numbers_are_predicted(predicted_numbers):
    hints = {
        "a": {
            -1: "That is before γ and β.",
            9: "That is without γ.",
            -2: "That is without β.",
            -8: "γ and β are exchanged: the first multiplies, the second is added.",
            18: "β is added before the product with γ; it comes last.",
            12: "That is the last number. Which sign has the first?",
            9.04: "Is ε added to the root? It stands inside: √(variance + ε).",
            9.0378: "Is ε added to the root? It stands inside: √(variance + ε).",
            9.09: "Two slips: the variance divides by 3, and ε stands outside the root.",
            8.16: "The variance divides by 4, the number of features, not by 3.",
            8.1629: "The variance divides by 4, the number of features, not by 3.",
            28 / 3: "The deviation is divided by the root, and here by the variance + ε.",
            7.32: "ε is missing under the root.",
            7.3167: "ε is missing under the root.",
            None: "Mean 5. Square the four deviations, take their mean, add ε, take the root.",
        },
        "b": {
            1: "Its deviations grow by 10; by how much does its standard deviation grow?",
            3: "That is a norm with statistics over all tokens. Here each token has its own.",
            2: "Which numbers go into a token's mean and variance?",
            None: "It is a number from 0 to 3.",
        },
        "c": {
            1: "One of the three hidden numbers is negative. What does max(0, ·) do to it?",
            5: "b₂ is missing.",
            9: "Is b₁ missing? Or did the ReLU work on the token? It works on the hidden numbers, "
            "not on the token.",
            -1: "That is the second number; or the first hidden one.",
            None: "Compute the three hidden numbers x W₁ + b₁ first; then their ReLU.",
        },
        "d": {
            -1.4: "That is post-LN. In pre-LN the norm stands inside the branch.",
            0: "The sub-layers return zeros; the residual line around them is open.",
            None: "x + Sublayer(Norm(x)), and Sublayer is 0.",
        },
        "e": {
            0.001: "That is without the residual. What is the slope of x + f(x)?",
            1.3: "Those are the paths through at most one f. Others go through two, or all three.",
            0.3: "Slopes of layers on top of each other are multiplied, and x has a slope too.",
            1.1: "That is one layer.",
            1.21: "That is two layers.",
            1.001: "The slope of each layer is 1 + 0.1, and then the three are multiplied.",
            None: "The slope of one layer is 1 + 0.1.",
        },
    }
    right = {"a": 8, "b": 0, "c": 6, "d": 3, "e": 1.331}
    answers = predicted_numbers()
    if isinstance(answers, (list, tuple)) and len(answers) == len(right):
        answers = [rounded(*pair) for pair in zip(answers, right.values(), strict=True)]
    expect_predictions(answers, right, hints)


def rounded(answer, right):
    """Return the right number for one that is right as far as it is written out."""
    as_float = isinstance(answer, float) or (isinstance(answer, Tensor) and answer.ndim == 0)
    return right if as_float and abs(float(answer) - right) < 6e-4 else answer


# ---- LayerNorm


def norm(x, gamma, beta, eps):
    return F.layer_norm(x, x.shape[-1:], gamma, beta, eps)


def norm_mistakes(x, gamma, beta, eps):
    """Every wrong spread, every wrong axis, every slip with γ and β."""
    d = x.shape[-1]
    centred = x - x.mean(-1, keepdim=True)
    variance = centred.square().mean(-1, keepdim=True)
    unbiased = variance * d / (d - 1) if d > 1 else variance * torch.nan
    root = (variance + eps).sqrt()
    plain = centred / root

    def affine(y):
        return gamma * y + beta

    def over(*axes):
        mean = x.mean(axes, keepdim=True)
        return affine((x - mean) / (x.var(axes, correction=0, keepdim=True) + eps).sqrt())

    def without_keepdim():
        return affine((x - x.mean(-1)) / (x.var(-1, correction=0) + eps).sqrt())

    outside = "ε is added to the root: it stands inside, √(variance + ε)"
    by_less = "divides by d − 1: it is the mean of the squares, over d (`correction=0`)"
    return {
        f"the variance {by_less}; and {outside}.": affine(centred / (unbiased.sqrt() + eps)),
        f"{outside}.": affine(centred / (variance.sqrt() + eps)),
        f"the variance {by_less}.": affine(centred / (unbiased + eps).sqrt()),
        "ε is missing, or it is not self.eps.": affine(centred / variance.sqrt()),
        "ε is missing, and the variance divides by d − 1.": affine(centred / unbiased.sqrt()),
        "ε is squared under the root.": affine(centred / (variance + eps**2).sqrt()),
        "ε is subtracted.": affine(centred / (variance - eps).sqrt()),
        "ε is a lower limit: it is added to the variance.": (
            affine(centred / variance.clamp(min=eps).sqrt())
        ),
        "the root is taken twice: `std` is a root already. It is √(std² + ε).": (
            affine(centred / (variance.sqrt() + eps).sqrt())
        ),
        "x is added: the residual belongs to AddNorm.": x + affine(plain),
        "only the mean is divided by the root: put x − μ in brackets.": (
            gamma * x - x.mean(-1, keepdim=True) / root + beta
        ),
        "the deviations are divided by the variance + ε: take the root.": (
            affine(centred / (variance + eps))
        ),
        "the deviations are divided by the variance; it is √(variance + ε).": (
            affine(centred / variance)
        ),
        "the deviations are not divided by anything.": affine(centred),
        "the mean is not subtracted above the fraction line.": affine(x / root),
        "the mean is not subtracted at all (that is RMSNorm).": (
            affine(x / (x.square().mean(-1, keepdim=True) + eps).sqrt())
        ),
        "the variance is taken from the squares, and the mean is not subtracted in it.": (
            affine(centred / (x.square().mean(-1, keepdim=True) + eps).sqrt())
        ),
        "the squares are added up and not averaged: each token has length 1.": (
            affine(centred / (d * variance + eps).sqrt())
        ),
        "the spread is the mean of the absolute deviations.": (
            affine(centred / (centred.abs().mean(-1, keepdim=True) + eps))
        ),
        "γ and β are missing.": plain,
        "γ is missing.": plain + beta,
        "β is missing.": gamma * plain,
        "γ and β are exchanged.": beta * plain + gamma,
        "β is added before the product with γ.": gamma * (plain + beta),
        "β is subtracted.": gamma * plain - beta,
        "γ and β go in before the norm.": lambda: F.layer_norm(affine(x), (d,), None, None, eps),
        "γ is divided by.": plain / gamma + beta,
        "γ counts from 1 (γ + 1): here it is γ itself.": plain * (1 + gamma) + beta,
        "mean and variance run over the tokens; they run over the features, dim=-1.": (
            lambda: over(-2)
        ),
        "mean and variance run over dim=1; the features are dim=-1.": lambda: over(1),
        "mean and variance run over the batch; they run over the features, dim=-1.": (
            lambda: over(0)
        ),
        "mean and variance run over tokens and features: a pad would change every word. Only "
        "dim=-1.": lambda: over(-2, -1),
        "mean and variance run over batch and tokens: that is BatchNorm. Only dim=-1.": (
            lambda: over(*range(x.ndim - 1))
        ),
        "mean and variance are those of all numbers together. Only dim=-1.": (
            lambda: over(*range(x.ndim))
        ),
        "the mean has lost its axis, and is subtracted from the wrong numbers: keepdim=True.": (
            without_keepdim
        ),
        "the mean has lost its axis in the variance: keepdim=True.": (
            lambda: affine(centred / (x.var(-1, correction=0) + eps).sqrt())
        ),
    }


def made_norm(LayerNorm, d_model, eps, dtype=torch.float32):
    module = LayerNorm(d_model, eps).to(dtype)
    weights = random_weights(module, {"gamma": (d_model,), "beta": (d_model,)})
    return module, weights["gamma"], weights["beta"]


def check_norm(LayerNorm, x, eps=0.5):
    module, gamma, beta = made_norm(LayerNorm, x.shape[-1], eps, x.dtype)
    wide = [tensor.double() for tensor in (x, gamma, beta)]
    mistakes = {
        text: (lambda wrong=wrong: (wrong() if callable(wrong) else wrong).to(x.dtype))
        for text, wrong in norm_mistakes(*wide, eps).items()
    }
    nan = "Is it 0/0? Where all features are equal the variance is 0: ε keeps it from that."
    expect(module(x), norm(*wide, eps).to(x.dtype), mistakes, nan=nan)


def tokens_of(*shape):
    """Return tokens, each with a mean and a spread of its own."""
    x = torch.randn(shape)
    return x * (0.5 + torch.rand(*shape[:-1], 1)) + 2 * torch.randn(*shape[:-1], 1)


def test_layer_norm_begins_anew_in_each_call(LayerNorm):
    module, gamma, beta = made_norm(LayerNorm, 4, 0.5)
    given = ((tokens_of(4, 4, 4),) for _ in range(2))
    expect_no_memory(module, lambda x: norm(x, gamma, beta, 0.5), *given)


def test_gamma_starts_with_ones_and_beta_with_zeros(LayerNorm):
    module = LayerNorm(4)
    made_norm(LayerNorm, 4, 1e-5)  # says what is amiss with the names
    start = (torch.ones(4), torch.zeros(4))
    names, call = ("gamma", "beta"), "LayerNorm(4), as `__init__` was given"
    expect((module.gamma.data, module.beta.data), start, names=names, call=call)
    assert module.eps == 1e-5, (
        f"LayerNorm(4) has eps={module.eps}, but the default is 1e-05: keep `__init__` as it was "
        "given."
    )


def test_each_token_is_normalised_by_its_own_numbers(LayerNorm):
    check_norm(LayerNorm, tokens_of(2, 3, 5))
    check_norm(LayerNorm, tokens_of(4, 2, 6), eps=2.0)


def test_layer_norm_when_all_sizes_are_equal(LayerNorm):
    check_norm(LayerNorm, tokens_of(3, 3, 3))
    check_norm(LayerNorm, tokens_of(4, 4, 4))


def test_layer_norm_takes_any_axes_before_the_features(LayerNorm):
    for shape in ((4,), (3, 5), (2, 3, 4, 5), (1, 3, 4), (3, 1, 4), (2, 3, 64)):
        check_norm(LayerNorm, tokens_of(*shape))


def test_layer_norm_of_small_tokens_and_of_equal_features(LayerNorm):
    check_norm(LayerNorm, 0.001 * tokens_of(2, 3, 4), eps=1e-5)
    check_norm(LayerNorm, torch.full((2, 3, 4), 7.0))


def test_layer_norm_in_half_and_double_precision(LayerNorm):
    for dtype in (torch.float16, torch.float64):
        check_norm(LayerNorm, tokens_of(2, 3, 5).to(dtype))


def test_layer_norm_does_the_same_in_both_modes(LayerNorm):
    module, gamma, beta = made_norm(LayerNorm, 5, 0.5)
    x = tokens_of(2, 3, 5)
    for training in (True, False):
        module.train(training)
        expect(module(x), norm(x, gamma, beta, 0.5))


def gradients(answer, *inputs):
    weights = torch.linspace(-1, 1, answer.numel(), dtype=answer.dtype).view(answer.shape)
    return torch.autograd.grad((answer * weights).sum(), inputs)


def test_layer_norm_passes_the_right_gradient(LayerNorm):
    module, *_ = made_norm(LayerNorm, 5, 0.5, torch.float64)
    x = tokens_of(2, 3, 5).double().requires_grad_()
    inputs = x, module.gamma, module.beta
    answer = module(x)
    assert isinstance(answer, Tensor) and answer.requires_grad, CUT

    def with_constants(of_mean, of_variance):
        mean = of_mean.mean(-1, keepdim=True)
        variance = of_variance.var(-1, correction=0, keepdim=True)
        y = module.gamma * (x - mean) / (variance + 0.5).sqrt() + module.beta
        return lambda: gradients(y, *inputs)

    def cut(name):
        parts = {"x": x, "gamma": module.gamma, "beta": module.beta}
        parts[name] = parts[name].detach()
        return lambda: with_unused(norm(*parts.values(), 0.5), *inputs)

    mistakes = {
        "mean and variance are taken for constants: do without .detach(), .data, .item() and "
        "torch.no_grad().": with_constants(x.detach(), x.detach()),
        **{
            f"{name} is cut off: do without .detach(), .numpy(), .data, .item() and "
            "torch.no_grad().": cut(name)
            for name in ("x", "gamma", "beta")
        },
        "the mean is taken for a constant.": with_constants(x.detach(), x),
        "the variance is taken for a constant.": with_constants(x, x.detach()),
    }
    names = "The gradient of x", "The gradient of gamma", "The gradient of beta"
    expect(with_unused(answer, *inputs), with_constants(x, x)(), mistakes, names=names)
    same = torch.zeros(1, 2, 5, dtype=torch.float64, requires_grad=True)
    module(same).sum().backward()
    assert not same.grad.isnan().any(), (
        "The gradient of a token with equal features is NaN: its variance is 0, and there the root "
        "is infinitely steep. Take one root only, that of variance + ε."
    )


def with_unused(answer, *inputs):
    """Return the gradients, zeros for an input that the answer does not depend on."""
    total = answer.sum() * 0 + sum(each.sum() * 0 for each in inputs)
    weights = torch.linspace(-1, 1, answer.numel(), dtype=answer.dtype).view(answer.shape)
    return torch.autograd.grad((answer * weights).sum() + total, inputs)


# ---- FeedForward


def drop(module, p=NEARLY_ALL):
    """Set the rate of every dropout in a module."""
    for part in module.modules():
        if isinstance(part, nn.Dropout):
            part.p = p


def expect_stable(module, given, expected, mistakes):
    """`expect`, and a message of its own if two calls in evaluation mode differ."""
    answer, again = module(*given), module(*given)
    both = isinstance(answer, Tensor) and isinstance(again, Tensor)
    if both and not module.training and not close(answer, again):
        raise CheckFailed(
            "Two calls in evaluation mode gave two answers: dropout is still on. `self.dropout` "
            "knows the mode; F.dropout must be told training=self.training. (Or `forward` makes "
            "layers of its own, each time with new weights: use those of `__init__`.)",
            "two calls of the module after .eval()",
        )
    expect(answer, expected, mistakes)


def made_network(FeedForward, d_model, d_ff, dtype=torch.float32, dropout=0.5):
    module = FeedForward(d_model, d_ff, dropout).to(dtype)
    shapes = {
        "linear_1.weight": (d_ff, d_model),
        "linear_1.bias": (d_ff,),
        "linear_2.weight": (d_model, d_ff),
        "linear_2.bias": (d_model,),
    }
    weights = random_weights(module, shapes)
    return module, [weights[name] for name in shapes]


def network(x, w_1, b_1, w_2, b_2, act=F.relu):
    return F.linear(act(F.linear(x, w_1, b_1)), w_2, b_2)


ACTIVATIONS = {
    "GELU": F.gelu,
    "GELU (with tanh)": lambda h: F.gelu(h, approximate="tanh"),
    "SiLU": F.silu,
    "a leaky ReLU": F.leaky_relu,
    "ELU": F.elu,
    "ReLU6": F.relu6,
    "softplus": F.softplus,
    "tanh": torch.tanh,
    "the sigmoid": torch.sigmoid,
    "the absolute value": torch.abs,
    "the square of the ReLU": lambda h: h.relu().square(),
    "a softmax over the features": lambda h: h.softmax(-1),
}


def network_mistakes(x, w_1, b_1, w_2, b_2):
    hidden, right = F.linear(x, w_1, b_1), network(x, w_1, b_1, w_2, b_2)

    def second(h):
        return F.linear(h, w_2, b_2)

    def swapped(act=F.relu):
        return F.linear(act(F.linear(x, w_2, b_2)), w_1, b_1)

    return {
        "the ReLU is missing: two linear layers on top of each other are one.": second(hidden),
        "the ReLU comes after the second linear layer; it stands between the two.": (
            second(hidden).relu()
        ),
        "there is a ReLU after the second linear layer as well.": right.relu(),
        "the ReLU is applied to the input; it stands between the two linear layers.": (
            second(F.linear(x.relu(), w_1, b_1))
        ),
        "the ReLU is applied to the input as well.": network(x.relu(), w_1, b_1, w_2, b_2),
        "the positive numbers are set to 0: max(0, ·) keeps them.": second(hidden.clamp(max=0)),
        "x is added: the residual belongs to AddNorm.": x + right,
        "x is added and the sum normalised: both belong to AddNorm.": (
            lambda: F.layer_norm(x + right, x.shape[-1:])
        ),
        "b₁ is left out.": network(x, w_1, None, w_2, b_2),
        "b₂ is left out.": network(x, w_1, b_1, w_2, None),
        "both biases are left out.": network(x, w_1, None, w_2, None),
        "b₁ is added after the ReLU.": second(F.linear(x, w_1).relu() + b_1),
        "only the first linear layer is used.": hidden.relu(),
        "the two linear layers are exchanged.": swapped,
        "the two linear layers are exchanged, and the ReLU is missing.": (
            lambda: swapped(lambda h: h)
        ),
        "the first linear layer is used twice.": lambda: network(x, w_1, b_1, w_1, b_1),
        "the second linear layer is used twice.": lambda: network(x, w_2, b_2, w_2, b_2),
        "the matrices are used without the transpose: `self.linear_1(x)` is x @ weight.T + b.": (
            lambda: network(x, w_1.T, b_1, w_2.T, b_2)
        ),
        **{
            f"{name} stands where the ReLU should, max(0, ·).": second(act(hidden))
            for name, act in ACTIVATIONS.items()
        },
    }


def check_network(FeedForward, x, d_ff):
    module, weights = made_network(FeedForward, x.shape[-1], d_ff, x.dtype)
    module.eval()
    wide = [tensor.double() for tensor in (x, *weights)]
    mistakes = {
        text: (lambda wrong=wrong: (wrong() if callable(wrong) else wrong).to(x.dtype))
        for text, wrong in network_mistakes(*wide).items()
    }
    expect_stable(module, (x,), network(*wide).to(x.dtype), mistakes)


def test_the_network_at_every_position(FeedForward):
    check_network(FeedForward, torch.randn(2, 5, 4), 7)
    for shape in ((1, 3, 4), (2, 1, 4), (2, 3, 1)):
        check_network(FeedForward, torch.randn(shape), 6)
    check_network(FeedForward, torch.randn(3, 2, 6), 4)
    check_network(FeedForward, torch.randn(5, 4), 6)
    check_network(FeedForward, 9 * torch.randn(2, 5, 4), 7)


def test_the_network_when_all_sizes_are_equal(FeedForward):
    check_network(FeedForward, torch.randn(3, 3, 3), 3)


def test_the_network_begins_anew_in_each_call(FeedForward):
    module, weights = made_network(FeedForward, 4, 4)
    x, y = torch.randn(2, 4, 4, 4)
    expect_no_memory(module.eval(), lambda x: network(x, *weights), (x,), (y,))


def test_the_network_in_half_and_double_precision(FeedForward):
    for dtype in (torch.float16, torch.float64):
        check_network(FeedForward, torch.randn(2, 5, 4).to(dtype), 7)


def test_the_network_drops_hidden_numbers_in_training_only(FeedForward):
    module, weights = made_network(FeedForward, 4, 7)
    drop(module)
    x = torch.randn(2, 5, 4)
    w_2, b_2 = weights[2:]
    right = network(x, *weights)
    dropped = F.linear(torch.zeros(2, 5, 7), w_2, b_2)
    module.eval()
    always = "dropout acts in evaluation mode too: `self.dropout(…)` knows when to stop."
    expect_stable(module, (x,), right, {always: dropped, f"{always} ": torch.zeros_like(x)})
    module.train()
    mistakes = {
        "the dropout is missing (here it drops everything, and the result did not notice).": right,
        "the dropout acts on the result: that is AddNorm's. Here it acts on the hidden numbers.": (
            torch.zeros_like(x)
        ),
        "the dropout acts on the input: here it acts on the hidden numbers.": (
            network(torch.zeros_like(x), *weights)
        ),
    }
    expect(module(x), dropped, mistakes, hint=not_all_dropped)


def expect_the_rate_that_was_given(module, given, expected, default, mistakes=None):
    """`module` was made with dropout=0, `default` without saying a rate."""

    def hint(_):
        return (
            "The module was made with dropout=0, and in training something is dropped: has "
            "`__init__` a rate of its own, here or in one of its parts? Keep it as it was given. "
            "(Or `forward` calls F.dropout with one.)"
        )

    expect(module.train()(*given), expected, mistakes, hint=hint)
    rates = {part.p for part in default.modules() if isinstance(part, nn.Dropout)}
    if not rates <= {0.1}:
        raise CheckFailed(
            f"Without a word on dropout the rates are {sorted(rates)}; the default is 0.1. Keep "
            "`__init__` as it was given.",
            type(default).__name__,
        )


def test_the_network_takes_the_rate_that_is_given(FeedForward):
    module, weights = made_network(FeedForward, 4, 7, dropout=0.0)
    x = torch.randn(2, 5, 4)
    right = network(x, *weights)
    expect_the_rate_that_was_given(module, (x,), right, FeedForward(4, 7))


def expect_new_numbers_to_be_dropped(module, *given):
    """Two calls in training drop other numbers, unless somebody sets the seed."""
    drop(module.train(), 0.5)
    assert not close(module(*given), module(*given)), (
        "Two calls in training dropped the same numbers: is a seed set in forward? It would be the "
        "same dropout in every step, and every other random number would repeat itself, too."
    )


def not_all_dropped(_):
    return "Here the rate is set so that all should be dropped: is it that of self.dropout?"


def once(_):
    return "Here the rate is 0.5: each number that may be dropped should be 0 or doubled, once."


def expect_one_mask_for_each_number(kept, may_drop):
    """`kept` says which numbers of (B, L, features) dropout has left."""
    for axis, what in enumerate(("sentences of the batch", "tokens", "features of a token")):
        some, others = (may_drop & each for each in (kept, ~kept))
        assert (some.any(axis) & others.any(axis)).any(), (
            f"Dropout is drawn once for all {what}. Each number is dropped or kept by its own "
            "draw: give self.dropout the numbers themselves."
        )


def test_the_network_drops_out_once(FeedForward):
    module, weights = made_network(FeedForward, 6, 6)
    with torch.no_grad():  # the result is the hidden numbers
        module.linear_2.weight.copy_(torch.eye(6))
        module.linear_2.bias.zero_()
    drop(module.train(), 0.5)
    x = torch.randn(4, 5, 6)
    expect_new_numbers_to_be_dropped(module, x)
    answer = module(x)
    kept = answer.ne(0) if isinstance(answer, Tensor) and answer.shape == x.shape else 0 * x
    hidden = F.linear(x, *weights[:2]).relu() * kept
    mistakes = {
        "the dropout acts twice on the hidden numbers, so each that is left is four times as "
        "large: once is enough.": 4 * hidden
    }
    expect(answer, 2 * hidden, mistakes, hint=once)
    expect_one_mask_for_each_number(kept, F.linear(x, *weights[:2]) > 0)


def test_every_layer_of_the_network_learns(FeedForward):
    module, _ = made_network(FeedForward, 4, 7, dropout=0.0)
    one, two = module.linear_1, module.linear_2
    weights = one.weight, one.bias, two.weight, two.bias
    expect_learning(module.train(), lambda x: network(x, *weights), x=torch.randn(2, 5, 4))


# ---- AddNorm


class Sublayer:
    """A sub-layer that mixes tokens, is not linear, not 0 at 0, and counts its calls."""

    def __init__(self):
        self.calls = 0
        self.__name__ = "sublayer"

    def __call__(self, x):
        self.calls += 1
        return self.function(x)

    @staticmethod
    def function(x):
        # what is added is not the same everywhere: a norm would take that out again
        return 2 * x.cumsum(-2).sin() + x.roll(1, -1) + torch.linspace(1, 0, x.shape[-1]).to(x)


def made_frame(AddNorm, d_model, pre_norm, dtype=torch.float32, dropout=0.5):
    module = AddNorm(d_model, dropout, pre_norm).to(dtype)
    weights = random_weights(module, {"norm.weight": (d_model,), "norm.bias": (d_model,)})
    return module, lambda x: norm(x, *(w.to(x.dtype) for w in weights.values()), 1e-5)


def frames(x, f, n):
    """Every way in which x, a sub-layer and a norm can be put together, right ones included."""
    return {
        "post": n(x + f(x)),
        "pre": x + f(n(x)),
        "the residual is missing: x is not added.": n(f(x)),
        "the residual is missing: x is not added to f(norm(x)).": f(n(x)),
        "the norm is missing.": x + f(x),
        "only the sub-layer is called: residual and norm are missing.": f(x),
        "the norm is applied to the sub-layer's result, before x is added.": x + n(f(x)),
        "the residual is taken from the normalised x: the norm stands on its line. Add the x "
        "that came in.": n(x) + f(n(x)),
        "x is normalised for the residual, and not for the sub-layer: it is the other way round "
        "in pre-LN, and in post-LN only the sum is normalised.": n(x) + f(x),
        "both inputs of the sum are normalised, and not the sum.": n(x) + n(f(x)),
        "everything is normalised: before the sub-layer and after the sum.": n(x + f(n(x))),
        "x is replaced by norm(x) at the start, and the sum is normalised again.": n(
            n(x) + f(n(x))
        ),
        "the sub-layer's input and its result are normalised.": x + n(f(n(x))),
        "the residual is missing, and the norm stands before and after the sub-layer.": n(f(n(x))),
        "the sum is normalised twice.": n(n(x + f(x))),
        "x is added twice.": n(2 * x + f(x)),
        "x is added twice, around the norm as well.": x + n(x + f(x)),
        "x is added twice, once of them normalised.": x + n(x) + f(n(x)),
        "the sub-layer is applied twice, one on top of the other.": n(x + f(f(x))),
        "the sub-layer is applied twice, and x is added only once.": x + f(f(n(x))),
        "the sub-layer's result is subtracted.": n(x - f(x)),
        "the sub-layer's result is subtracted from x.": x - f(n(x)),
        "x and the sub-layer's result are multiplied.": n(x * f(x)),
        "x and the sub-layer's result are multiplied, not added.": x * f(n(x)),
        "the sub-layer is not used.": n(x),
        "the norm's γ and β are not used: call self.norm.": F.layer_norm(x + f(x), x.shape[-1:]),
        "the mean of the two is taken; they are added.": (x + f(n(x))) / 2,
    }


POST_FOR_PRE = "pre_norm=True is not looked at: this is post-LN, norm(x + f(x))."
PRE_FOR_POST = "this is pre-LN, x + f(norm(x)), although pre_norm is False."


def check_frame(AddNorm, x, pre_norm):
    module, n = made_frame(AddNorm, x.shape[-1], pre_norm, x.dtype)
    module.eval()
    sublayer = Sublayer()
    mistakes = frames(x.double(), Sublayer.function, n)
    mistakes = {text: wrong.to(x.dtype) for text, wrong in mistakes.items()}
    post, pre = mistakes.pop("post"), mistakes.pop("pre")
    expected, other = (pre, {POST_FOR_PRE: post}) if pre_norm else (post, {PRE_FOR_POST: pre})
    expect_stable(module, (x, sublayer), expected, other | mistakes)
    assert sublayer.calls == 2, (  # the module was called twice
        f"The sub-layer was called {sublayer.calls // 2} times by one forward; call it once and "
        "keep its result: with dropout inside, two calls differ."
    )


def test_the_frame_begins_anew_in_each_call(AddNorm):
    for pre_norm in (False, True):
        module, n = made_frame(AddNorm, 4, pre_norm)
        ways = (lambda x, f, n=n: n(x + f(x))), (lambda x, f, n=n: x + f(n(x)))
        x, y = torch.randn(2, 4, 4, 4)
        f = Sublayer.function
        expect_no_memory(module.eval(), ways[pre_norm], (x, f), (y, f))


def test_the_frame_of_the_paper(AddNorm):
    for shape in ((2, 5, 4), (3, 3, 3), (3, 2, 7), (1, 5, 4), (2, 1, 4)):
        check_frame(AddNorm, torch.randn(shape), pre_norm=False)


def test_the_frame_with_the_norm_first(AddNorm):
    for shape in ((2, 5, 4), (3, 3, 3), (3, 2, 7), (1, 5, 4), (2, 1, 4)):
        check_frame(AddNorm, torch.randn(shape), pre_norm=True)


def test_the_frame_around_a_sublayer_that_returns_what_it_got(AddNorm):
    for pre_norm in (False, True):
        module, n = made_frame(AddNorm, 4, pre_norm)
        x = torch.randn(2, 5, 4)
        expect(module.eval()(x, lambda y: y), x + n(x) if pre_norm else n(2 * x))
        stored, before = x.clone(), x.clone()
        expect(module(x, lambda _, stored=stored: stored), 2 * x if pre_norm else n(2 * x))
        assert torch.equal(stored, before), (
            "The call changed the tensor that the sub-layer returned, which may still be needed: "
            "by the sub-layer, or for the gradient. Make a new one, x + …, and do without +=."
        )


def test_the_frame_takes_the_rate_that_is_given(AddNorm):
    f, x, plain = Sublayer.function, torch.randn(2, 5, 4), AddNorm(4)
    for pre_norm in (False, True):
        module, n = made_frame(AddNorm, 4, pre_norm, dropout=0.0)
        right = x + f(n(x)) if pre_norm else n(x + f(x))
        expect_the_rate_that_was_given(module, (x, f), right, plain)
    assert plain.pre_norm is False, (
        "AddNorm(4) is pre-LN, but pre_norm=False is the default: keep `__init__` as it was given."
    )


def test_the_frame_in_half_and_double_precision(AddNorm):
    for dtype, pre_norm in itertools.product((torch.float16, torch.float64), (False, True)):
        check_frame(AddNorm, torch.randn(2, 5, 4).to(dtype), pre_norm)


def test_the_frame_drops_what_the_sublayer_returns(AddNorm):
    for pre_norm in (False, True):
        module, n = made_frame(AddNorm, 4, pre_norm)
        drop(module)
        x, f = torch.randn(2, 5, 4), Sublayer.function
        zeros = torch.zeros_like(x)
        right = x + f(n(x)) if pre_norm else n(x + f(x))
        dropped = x if pre_norm else n(x)
        always = "dropout acts in evaluation mode too: `self.dropout(…)` knows when to stop."
        module.eval()
        wrong = {always: dropped, f"{always} ": zeros, f"{always}  ": n(zeros)}
        expect_stable(module, (x, Sublayer()), right, wrong)
        module.train()
        mistakes = {
            "the dropout is missing (here it drops everything, and the result did not notice).": (
                right
            ),
            "the dropout acts on the whole sum: x itself must never be dropped.": (
                zeros if pre_norm else n(zeros)
            ),
            "the dropout acts on the result: it acts on what the sub-layer returns.": zeros,
            "the dropout acts on the sub-layer's input: it acts on what it returns.": (
                x + f(zeros) if pre_norm else n(x + f(zeros))
            ),
            "the dropout acts on x, before the norm or the sub-layer see it.": (
                x + f(n(zeros)) if pre_norm else n(zeros + f(zeros))
            ),
            "x, which is added, is dropped, and the sub-layer's result is not.": (
                f(n(x)) if pre_norm else n(f(x))
            ),
        }
        expect(module(x, Sublayer()), dropped, mistakes, hint=not_all_dropped)


def test_the_frame_drops_out_once(AddNorm):
    for pre_norm in (False, True):
        module, n = made_frame(AddNorm, 3, pre_norm)
        drop(module.train(), 0.5)
        x, f = torch.randn(4, 5, 3), Sublayer.function
        expect_new_numbers_to_be_dropped(module, x, f)
        answer = module(x, Sublayer())
        kept = torch.tensor(list(itertools.product((0.0, 1.0), repeat=3)))  # of each token

        def nearest(factor, x=x, f=f, n=n, answer=answer, kept=kept, pre_norm=pre_norm):
            road = x[..., None, :]
            branch = factor * kept * f(n(x) if pre_norm else x)[..., None, :]
            ways = road + branch if pre_norm else n(road + branch)
            if not (isinstance(answer, Tensor) and answer.shape == x.shape):
                return x, x
            off = (ways - answer.detach()[..., None, :]).abs().sum(-1)
            best = off.argmin(-1, keepdim=True)
            return ways.take_along_dim(best[..., None], -2).squeeze(-2), kept[best.squeeze(-1)]

        twice = (
            "the dropout acts twice, so what is left of the sub-layer's result is four times as "
            "large: once is enough."
        )
        right, left = nearest(2)
        expect(answer, right, {twice: lambda each=nearest: each(4)[0]}, hint=once)
        expect_one_mask_for_each_number(left > 0, left >= 0)


def test_the_frame_drops_out_of_a_tensor_of_its_own(AddNorm):
    for pre_norm in (False, True):
        module, n = made_frame(AddNorm, 4, pre_norm)
        drop(module.train())
        x = torch.randn(2, 5, 4)
        stored, before = x.clone(), x.clone()
        right = x if pre_norm else n(x)
        expect(module(x, lambda y: y), right)  # says if x, which the sub-layer returns, has changed
        expect(module(x, lambda _, stored=stored: stored), right)
        assert torch.equal(stored, before), (
            "In train mode the call changed the tensor that the sub-layer returned, which may "
            "still be needed. Do without inplace=True: `self.dropout(…)` makes a new one."
        )


def test_the_frame_takes_a_module_and_passes_gradients(AddNorm):
    check_gradients_of_frame(AddNorm, pre_norm=False)
    check_gradients_of_frame(AddNorm, pre_norm=True)


def check_gradients_of_frame(AddNorm, pre_norm):
    module, n = made_frame(AddNorm, 4, pre_norm, dropout=0.0)
    linear, x = nn.Linear(4, 4), torch.randn(2, 5, 4, requires_grad=True)

    def framed(road, cut=lambda y: y):
        return road + cut(linear(n(x))) if pre_norm else n(road + cut(linear(x)))

    answer = module(x, linear)
    expect(answer, framed(x))
    assert answer.requires_grad, CUT
    mistakes = {
        "x is detached: the gradient must flow along the road and through the sub-layer.": (
            lambda: gradients(framed(x.detach()), x)
        ),
        "the sub-layer's input or its result is detached.": lambda: gradients(
            framed(x, Tensor.detach), x
        ),
    }
    expect(with_unused(answer, x), gradients(framed(x), x), mistakes, names=("The gradient of x",))


# ---- EncoderLayer


def made_layer(Layer, reference, d_model, heads, d_ff, dtype=torch.float32, dropout=0.5):
    """Return the learner's layer with random weights, and the package's with the same."""
    module = Layer(d_model, heads, d_ff, dropout).to(dtype)
    true = reference(d_model, heads, d_ff, 0.5).eval()
    weights = random_weights(module, {n: tuple(w.shape) for n, w in true.state_dict().items()})
    true.load_state_dict(weights)
    for name, part in module.named_modules():
        came = getattr(part, "num_heads", heads)
        assert came == heads, (
            f"{name} has {came} heads, and the layer was made with num_heads={heads}: keep "
            "`__init__` as it was given."
        )
    return module.eval(), true.to(torch.float64)


def masked(attention):
    """Return an attention as a function of (query, memory, mask) in place of four arguments."""
    return lambda query, memory, mask=None: attention(query, memory, memory, mask)


def encoder_mistakes(true, x, mask):
    attend, ffn = masked(true.self_attention), true.feed_forward
    n_1, n_2 = true.add_norm_1.norm, true.add_norm_2.norm

    def run(a=lambda x: attend(x, x, mask), f=ffn, n_1=n_1, n_2=n_2):
        y = n_1(x + a(x))
        return n_2(y + f(y))

    first, y = attend(x, x, mask), n_1(x + attend(x, x, mask))
    return {
        "the mask is ignored: pass it on to the attention.": lambda: run(lambda x: attend(x, x)),
        "the mask is turned round: True means *may attend*.": (
            lambda: run(lambda x: attend(x, x, ~mask))
        ),
        "the feed-forward network comes first: attention does.": (
            lambda: run(ffn, lambda x: attend(x, x, mask))
        ),
        "the feed-forward network comes first, each inside its own AddNorm: attention does.": (
            lambda: run(ffn, lambda x: attend(x, x, mask), n_2, n_1)
        ),
        "both sub-layers are given the layer's input, and their results are added: the second "
        "continues from the first one's.": lambda: y + n_2(x + ffn(x)),
        "attention stands in both AddNorms, and the feed-forward network in none.": (
            lambda: run(f=lambda y: attend(y, y, mask))
        ),
        "add_norm_1 serves for both sub-layers: the second has its own.": lambda: run(n_2=n_1),
        "add_norm_2 serves for both sub-layers: the first has its own.": lambda: run(n_1=n_2),
        "add_norm_1 and add_norm_2 are exchanged.": lambda: run(n_1=n_2, n_2=n_1),
        "the feed-forward network is missing.": lambda: y,
        "the attention's result is lost: the second AddNorm is given the layer's input; it "
        "continues from the first one's result.": lambda: n_2(x + ffn(x)),
        "the attention is missing, and its AddNorm has nothing to add.": (
            lambda: n_2(n_1(x) + ffn(n_1(x)))
        ),
        "residuals and norms are missing: the sub-layers stand inside AddNorms.": (
            lambda: ffn(first)
        ),
        "the residual around the attention is missing: AddNorm adds its first argument to what the "
        "sub-layer returns, so hand it x and a function.": (
            lambda: n_2(n_1(first) + ffn(n_1(first)))
        ),
        "the residual around the feed-forward network is missing.": lambda: n_2(ffn(y)),
        "both residuals are missing.": lambda: n_2(ffn(n_1(first))),
        "the norm after the attention is missing.": lambda: n_2(x + first + ffn(x + first)),
        "the norm after the feed-forward network is missing.": lambda: y + ffn(y),
        "both norms are missing.": lambda: x + first + ffn(x + first),
        "the second residual adds the layer's input: it adds the first AddNorm's result.": (
            lambda: n_2(x + ffn(y))
        ),
        "the feed-forward network reads the layer's input; it reads the first AddNorm's result.": (
            lambda: n_2(y + ffn(x))
        ),
        "both sub-layers stand inside one AddNorm: each has its own.": lambda: n_1(x + ffn(first)),
        "both sub-layers stand inside one AddNorm, the second.": lambda: n_2(x + ffn(first)),
        "x is added once more after the AddNorms.": lambda: x + run(),
        "x is added once more to the first AddNorm's result, which has the residual already.": (
            lambda: n_2((w := x + y) + ffn(w))
        ),
        "x is added once more to each AddNorm's result, which has the residual already.": (
            lambda: (w := x + y) + n_2(w + ffn(w))
        ),
        "x is added to the attention's result before AddNorm adds it again.": (
            lambda: run(lambda x: x + attend(x, x, mask))
        ),
        "x is added to the network's result before AddNorm adds it again.": (
            lambda: run(f=lambda y: y + ffn(y))
        ),
        "x is added to the results before AddNorm adds it again.": (
            lambda: run(lambda x: x + attend(x, x, mask), lambda y: y + ffn(y))
        ),
        "this is pre-LN: in the paper's layer, and in this one, the norm comes last.": (
            lambda: (z := x + attend(n_1(x), n_1(x), mask)) + ffn(n_2(z))
        ),
        "the keys and values are not what the queries are: self-attention passes the same three "
        "times.": lambda: run(lambda y: true.self_attention(y, n_1(y), n_1(y), mask)),
    }


def in_dtype(mistakes, dtype):
    """Return the mistakes as functions that compute when asked, in `dtype`."""
    return {text: (lambda wrong=wrong: wrong().to(dtype)) for text, wrong in mistakes.items()}


def check_encoder(EncoderLayer, heads, x, mask=None):
    module, true = made_layer(EncoderLayer, lab.EncoderLayer, x.shape[-1], heads, 11, x.dtype)
    given = (x,) if mask is None else (x, mask)
    mistakes = in_dtype(encoder_mistakes(true, x.double(), mask), x.dtype)
    expect_stable(module, given, true(x.double(), mask).to(x.dtype), mistakes)


def some_keys(B, L):
    """Return a mask (B, 1, 1, L) that hides other keys in each sentence."""
    return (torch.arange(L) + torch.arange(B)[:, None])[:, None, None] % 3 != 2


def check_memory(Layer, reference, first, second):
    module, true = made_layer(Layer, reference, 4, 2, 11)

    def right(*given):
        return true(*(x.double() if x.is_floating_point() else x for x in given)).float()

    expect_no_memory(module, right, first, second)


def test_the_encoder_layer_begins_anew_in_each_call(EncoderLayer):
    x, y = torch.randn(2, 4, 4, 4)
    mask = some_keys(4, 4)
    check_memory(EncoderLayer, lab.EncoderLayer, (x,), (y,))
    check_memory(EncoderLayer, lab.EncoderLayer, (x, mask), (y, mask.roll(1, 0)))


def test_the_encoder_layer(EncoderLayer):
    check_encoder(EncoderLayer, 2, torch.randn(3, 5, 8))
    check_encoder(EncoderLayer, 3, torch.randn(2, 4, 6))
    check_encoder(EncoderLayer, 2, torch.randn(4, 4, 4))
    for shape in ((1, 4, 8), (3, 1, 8)):
        check_encoder(EncoderLayer, 4, torch.randn(shape))


def test_the_encoder_layer_with_a_mask(EncoderLayer):
    check_encoder(EncoderLayer, 2, torch.randn(3, 5, 8), some_keys(3, 5))
    check_encoder(EncoderLayer, 2, torch.randn(2, 4, 6), lab.causal_mask(4))


def test_the_encoder_layer_in_half_and_double_precision(EncoderLayer):
    for dtype in (torch.float16, torch.float64):
        check_encoder(EncoderLayer, 2, torch.randn(2, 4, 8).to(dtype), some_keys(2, 4))


NO_DROPOUT = "does not drop out in training: call {}(x, sub-layer) as a whole, not only its norm."


def test_the_encoder_layer_in_training(EncoderLayer):
    module, true = made_layer(EncoderLayer, lab.EncoderLayer, 8, 2, 11)
    drop(module.train(), 1.0)
    drop(true.train(), 1.0)
    x = torch.randn(3, 5, 8)
    attend, ffn, wide = masked(true.self_attention), true.feed_forward, x.double()
    n_1, n_2 = true.add_norm_1.norm, true.add_norm_2.norm
    first, second = ("add_norm_1", "add_norm_2")
    y = n_1(wide + attend(wide, wide))
    mistakes = {
        f"{first} and {second} do not drop out in training: call {first}(x, sub-layer) as a "
        "whole, not only its norm.": lambda: n_2(y + ffn(y)),
        f"{first} {NO_DROPOUT.format(first)}": lambda: n_2(y),
        f"{second} {NO_DROPOUT.format(second)}": lambda: n_2(n_1(wide) + ffn(n_1(wide))),
    }
    expect(module(x), n_2(n_1(wide)).float(), in_dtype(mistakes, torch.float32))


def expect_dropout_in_the_parts_alone(module, true, *given):
    """Let one dropout after the other drop everything, and the others nothing."""
    expect_new_numbers_to_be_dropped(module, *given)
    theirs = dict(true.train().named_modules())
    for name, part in module.named_modules():
        if not isinstance(part, nn.Dropout):
            continue
        for layer in (module, true):
            drop(layer, 0.0)
        part.p = theirs.get(name, nn.Dropout()).p = 1.0

        def hint(_, name=name):
            return (
                f"Here self.{name} alone drops, and it drops everything. The parts do all the "
                "dropout that there is, AddNorm's on what its sub-layer returns: is there more?"
            )

        right = true(*(each.double() for each in given)).float()
        expect(module(*given), right, hint=hint)


def test_the_encoder_layer_takes_the_rate_that_is_given(EncoderLayer):
    module, true = made_layer(EncoderLayer, lab.EncoderLayer, 8, 2, 11, dropout=0.0)
    given = torch.randn(3, 5, 8), some_keys(3, 5)
    wide = given[0].double(), given[1]
    mistakes = in_dtype(encoder_mistakes(true, *wide), torch.float32)
    plain = EncoderLayer(8, 2, 11)
    expect_the_rate_that_was_given(module, given, true(*wide).float(), plain, mistakes)
    expect_dropout_in_the_parts_alone(module, true, given[0])


def test_every_part_of_the_encoder_layer_learns(EncoderLayer):
    module, true = made_layer(EncoderLayer, lab.EncoderLayer, 8, 2, 11, dropout=0.0)
    expect_learning(module.train(), with_weights_of(module, true), x=torch.randn(3, 5, 8))


def with_weights_of(module, true):
    """Return the package's layer as a function that computes with the learner's parameters."""
    weights = dict(module.named_parameters())
    return lambda *given: torch.func.functional_call(true.float(), weights, given)


# ---- DecoderLayer


def decoder_mistakes(true, x, memory, target_mask, memory_mask):
    own, crossed = masked(true.self_attention), masked(true.cross_attention)
    ffn = true.feed_forward
    norms = [true.add_norm_1.norm, true.add_norm_2.norm, true.add_norm_3.norm]

    def run(
        a=lambda x: own(x, x, target_mask),
        c=lambda y: crossed(y, memory, memory_mask),
        f=ffn,
        n=(0, 1, 2),
    ):
        y = norms[n[0]](x + a(x))
        z = norms[n[1]](y + c(y))
        return norms[n[2]](z + f(z))

    def pre():
        n_1, n_2, n_3 = norms
        y = x + own(n_1(x), n_1(x), target_mask)
        z = y + crossed(n_2(y), memory, memory_mask)
        return z + ffn(n_3(z))

    n_1, n_2, n_3 = norms
    y = n_1(x + own(x, x, target_mask))
    z = n_2(y + crossed(y, memory, memory_mask))
    bare = own(x, x, target_mask)
    cross = true.cross_attention
    return {
        "target_mask is ignored: a word sees those after it.": lambda: run(lambda x: own(x, x)),
        "a causal mask is put in, although target_mask is None: nothing is to be hidden.": (
            lambda: (
                run(lambda x: own(x, x, torch.ones(x.shape[1], x.shape[1]).tril() > 0))
                if target_mask is None
                else None
            )
        ),
        "a causal mask is put in beside target_mask: the caller says what is to be hidden.": (
            lambda: run(lambda x: own(x, x, target_mask & lab.causal_mask(x.shape[1])))
        ),
        "memory_mask is ignored: the source's padding is read.": (
            lambda: run(c=lambda y: crossed(y, memory))
        ),
        "both masks are ignored.": (lambda: run(lambda x: own(x, x), lambda y: crossed(y, memory))),
        "the two masks are exchanged.": (
            lambda: run(lambda x: own(x, x, memory_mask), lambda y: crossed(y, memory, target_mask))
        ),
        "memory_mask goes into the self-attention as well.": (
            lambda: run(lambda x: own(x, x, memory_mask))
        ),
        "target_mask goes into the attention to the memory as well.": (
            lambda: run(c=lambda y: crossed(y, memory, target_mask))
        ),
        "target_mask is turned round: True means *may attend*.": (
            lambda: run(lambda x: own(x, x, ~target_mask))
        ),
        "memory_mask is turned round: True means *may attend*.": (
            lambda: run(c=lambda y: crossed(y, memory, ~memory_mask))
        ),
        "the attention to the memory comes before the self-attention.": (
            lambda: run(lambda x: crossed(x, memory, memory_mask), lambda y: own(y, y, target_mask))
        ),
        "the attention to the memory comes before the self-attention, each inside its own "
        "AddNorm.": lambda: run(
            lambda x: crossed(x, memory, memory_mask), lambda y: own(y, y, target_mask), n=(1, 0, 2)
        ),
        "the feed-forward network stands between the two attentions, each inside its own AddNorm: "
        "it comes last.": lambda: run(
            c=ffn, f=lambda y: crossed(y, memory, memory_mask), n=(0, 2, 1)
        ),
        "`memory` is never read: the second attention looks at the target again.": (
            lambda: run(c=lambda y: crossed(y, y, memory_mask))
        ),
        "`memory` is never read: the second attention looks at the target again, without a "
        "mask.": lambda: run(c=lambda y: crossed(y, y)),
        "`memory` is never read: the second attention looks at the target again, under "
        "target_mask.": lambda: run(c=lambda y: crossed(y, y, target_mask)),
        "memory asks and the target answers: the query is the target, key and value are memory.": (
            lambda: run(c=lambda y: cross(memory, y, y, memory_mask))
        ),
        "the values are the target's: key and value are both memory.": (
            lambda: run(c=lambda y: cross(y, memory, y, memory_mask))
        ),
        "the keys are the target's: key and value are both memory.": (
            lambda: run(c=lambda y: cross(y, y, memory, memory_mask))
        ),
        "the first attention already looks at the memory; it looks at the target itself.": (
            lambda: run(lambda x: own(x, memory, memory_mask))
        ),
        "self_attention serves for both attentions.": (
            lambda: run(c=lambda y: own(y, memory, memory_mask))
        ),
        "cross_attention serves for both attentions.": (
            lambda: run(lambda x: crossed(x, x, target_mask))
        ),
        "self_attention and cross_attention are exchanged.": (
            lambda: run(lambda x: crossed(x, x, target_mask), lambda y: own(y, memory, memory_mask))
        ),
        "the attention to the memory is missing.": lambda: n_3(y + ffn(y)),
        "the attention to the memory is missing, and add_norm_3 unused.": (lambda: n_2(y + ffn(y))),
        "the self-attention is missing.": (
            lambda: n_3((w := n_2(x + crossed(x, memory, memory_mask))) + ffn(w))
        ),
        "the feed-forward network is missing.": lambda: z,
        "the feed-forward network stands between the two attentions; it comes last.": (
            lambda: run(c=ffn, f=lambda y: crossed(y, memory, memory_mask))
        ),
        "the feed-forward network comes first; it comes last.": lambda: run(
            ffn, lambda y: own(y, y, target_mask), lambda z: crossed(z, memory, memory_mask)
        ),
        "residuals and norms are missing: the sub-layers stand inside AddNorms.": (
            lambda: ffn(crossed(bare, memory, memory_mask))
        ),
        "the norms are missing.": (
            lambda: (w := (v := x + bare) + crossed(v, memory, memory_mask)) + ffn(w)
        ),
        "the residuals are missing.": (
            lambda: n_3(ffn(n_2(crossed(n_1(bare), memory, memory_mask))))
        ),
        "the residual around the self-attention is missing.": (
            lambda: n_3((w := n_2((v := n_1(bare)) + crossed(v, memory, memory_mask))) + ffn(w))
        ),
        "the residual around the attention to the memory is missing.": (
            lambda: n_3((w := n_2(crossed(y, memory, memory_mask))) + ffn(w))
        ),
        "the residual around the feed-forward network is missing.": lambda: n_3(ffn(z)),
        "the residual of the second AddNorm is the layer's input: it is the first one's result.": (
            lambda: n_3((w := n_2(x + crossed(y, memory, memory_mask))) + ffn(w))
        ),
        "the query of the second attention is the layer's input: it is the first AddNorm's "
        "result.": lambda: n_3((w := n_2(y + crossed(x, memory, memory_mask))) + ffn(w)),
        "the second residual is the memory: AddNorm is given the target, and the memory is only "
        "read.": lambda: n_3((w := n_2(memory + crossed(y, memory, memory_mask))) + ffn(w)),
        "the memory is normalised once more: it comes normalised from the encoder.": (
            lambda: run(c=lambda y: crossed(y, n_2(memory), memory_mask))
        ),
        "the self-attention is applied to the memory as well.": (
            lambda: run(c=lambda y: crossed(y, own(memory, memory, memory_mask), memory_mask))
        ),
        "this is pre-LN: in the paper's layer, and in this one, the norm comes last.": pre,
        **{
            f"the AddNorms are used in the order {', '.join(f'add_norm_{i + 1}' for i in order)}: "
            "each sub-layer has its own.": lambda order=order: run(n=order)
            for order in itertools.product(range(3), repeat=3)
            if order != (0, 1, 2)
        },
    }


def check_decoder(DecoderLayer, heads, x, memory, target_mask=None, memory_mask=None):
    module, true = made_layer(DecoderLayer, lab.DecoderLayer, x.shape[-1], heads, 11, x.dtype)
    masks = (target_mask, memory_mask)
    given = (x, memory) if masks == (None, None) else (x, memory, *masks)
    wide = x.double(), memory.double(), *masks
    mistakes = in_dtype(decoder_mistakes(true, *wide), x.dtype)
    expect_stable(module, given, true(*wide).to(x.dtype), mistakes)


def texts(B, Lt, Ls, d_model):
    return torch.randn(B, Lt, d_model), torch.randn(B, Ls, d_model)


def target_mask_for(B, L):
    """Return a causal mask (B, 1, L, L) that hides other keys in each sentence."""
    hidden = (torch.arange(L) + torch.arange(B)[:, None]) % 4 == 3
    hidden[:, 0] = False
    return lab.causal_mask(L) & ~hidden[:, None, None]


def test_the_decoder_layer_begins_anew_in_each_call(DecoderLayer):
    first, second = texts(4, 4, 4, 4), texts(4, 4, 4, 4)
    masks, others = ((target_mask_for(4, 4).roll(i, 0), some_keys(4, 4).roll(i, 0)) for i in (0, 1))
    check_memory(DecoderLayer, lab.DecoderLayer, first, second)
    check_memory(DecoderLayer, lab.DecoderLayer, (*first, *masks), (*second, *others))


def test_the_decoder_layer(DecoderLayer):
    for B, Lt, Ls in ((3, 4, 5), (2, 5, 3), (2, 4, 4), (4, 4, 4)):
        check_decoder(DecoderLayer, 2, *texts(B, Lt, Ls, 8))
    for B, Lt, Ls in ((1, 4, 3), (3, 1, 5), (3, 4, 1)):
        check_decoder(DecoderLayer, 4, *texts(B, Lt, Ls, 8))


def test_the_decoder_layer_with_masks(DecoderLayer):
    for B, Lt, Ls in ((3, 4, 5), (2, 6, 4), (2, 5, 5)):
        masks = target_mask_for(B, Lt), some_keys(B, Ls)
        check_decoder(DecoderLayer, 2, *texts(B, Lt, Ls, 8), *masks)


def test_the_decoder_layer_with_masks_of_other_shapes(DecoderLayer):
    each = (torch.arange(5) + torch.arange(4)[:, None]) % 3 > 0  # (Lt, Ls): every query its own
    for masks in ((some_keys(3, 4), each), (None, each.expand(3, 1, 4, 5))):
        check_decoder(DecoderLayer, 2, *texts(3, 4, 5, 8), *masks)


def test_the_decoder_layer_with_one_mask(DecoderLayer):
    check_decoder(DecoderLayer, 2, *texts(3, 4, 4, 8), target_mask_for(3, 4), None)
    check_decoder(DecoderLayer, 2, *texts(3, 4, 4, 8), None, some_keys(3, 4))


def test_the_decoder_layer_in_half_and_double_precision(DecoderLayer):
    for dtype in (torch.float16, torch.float64):
        given = (text.to(dtype) for text in texts(2, 4, 5, 8))
        check_decoder(DecoderLayer, 2, *given, lab.causal_mask(4), some_keys(2, 5))


def test_the_decoder_layer_in_training(DecoderLayer):
    module, true = made_layer(DecoderLayer, lab.DecoderLayer, 8, 2, 11)
    drop(module.train(), 1.0)
    x, memory = texts(3, 4, 5, 8)
    n_1, n_2, n_3 = (getattr(true, f"add_norm_{i}").norm for i in (1, 2, 3))
    own, crossed = masked(true.self_attention), masked(true.cross_attention)
    wide, seen = x.double(), memory.double()
    drop(true.train(), 1.0)

    def run(kept):
        y = n_1(wide + own(wide, wide) * (1 in kept))
        z = n_2(y + crossed(y, seen) * (2 in kept))
        return n_3(z + true.feed_forward(z) * (3 in kept))

    every = [kept for n in (3, 2, 1) for kept in itertools.combinations((1, 2, 3), n)]
    mistakes = {
        f"{' and '.join(f'add_norm_{i}' for i in kept)} "
        f"{NO_DROPOUT.format(f'add_norm_{kept[0]}')}": lambda kept=kept: run(kept)
        for kept in every
    }
    expect(module(x, memory), run(()).float(), in_dtype(mistakes, torch.float32))


def test_the_decoder_layer_takes_the_rate_that_is_given(DecoderLayer):
    module, true = made_layer(DecoderLayer, lab.DecoderLayer, 8, 2, 11, dropout=0.0)
    plain = DecoderLayer(8, 2, 11)
    for masks in ((target_mask_for(3, 4), some_keys(3, 5)), (None, None)):
        given = *texts(3, 4, 5, 8), *masks
        wide = given[0].double(), given[1].double(), *masks
        mistakes = in_dtype(decoder_mistakes(true, *wide), torch.float32)
        expect_the_rate_that_was_given(module, given, true(*wide).float(), plain, mistakes)
    expect_dropout_in_the_parts_alone(module, true, *given[:2])


def test_every_part_of_the_decoder_layer_learns(DecoderLayer):
    module, true = made_layer(DecoderLayer, lab.DecoderLayer, 8, 2, 11, dropout=0.0)
    x, memory = texts(3, 4, 5, 8)
    expect_learning(module.train(), with_weights_of(module, true), x=x, memory=memory)


# ---- repaired_block


def block_mistakes(x, gamma, beta, eps, f):
    """Every wrong norm in every wrong block."""
    centred = x - x.mean(-1, keepdim=True)
    biased, unbiased = (x.var(-1, correction=c, keepdim=True) for c in (0, 1))

    def normed(spread):
        return gamma * centred / spread + beta

    published = normed(unbiased.sqrt() + eps)
    good = norm(x, gamma, beta, eps)
    outside = "ε is still added to the root: it stands inside, √(variance + ε)"
    by_less = "still divides by d − 1: use `correction=0`"
    half = {
        "the norm is as published: the sum of squares is divided by d − 1, and ε is added to the "
        "root": published,
        f"in the norm {outside}": normed(biased.sqrt() + eps),
        f"in the norm the variance {by_less}": normed((unbiased + eps).sqrt()),
        "in the norm ε has gone missing, or is not the `eps` that was given": normed(biased.sqrt()),
        "in the norm ε is 1e-5, whatever `eps` says": norm(x, gamma, beta, 1e-5),
        "in the norm ε has gone missing, and the variance divides by d − 1": (
            normed(unbiased.sqrt())
        ),
        "in the norm the deviations are divided by the variance: take the root": (
            normed(biased + eps)
        ),
        "in the norm the root is taken twice: √(std² + ε)": normed((biased.sqrt() + eps).sqrt()),
        "in the norm the mean is not subtracted (that is RMSNorm)": (
            gamma * x / (x.square().mean(-1, keepdim=True) + eps).sqrt() + beta
        ),
        "in the norm γ is missing": centred / (biased + eps).sqrt() + beta,
        "in the norm γ and β are missing": centred / (biased + eps).sqrt(),
        "in the norm γ and β are missing, and ε is 1e-5": F.layer_norm(x, x.shape[-1:]),
        "in the norm β is missing": good - beta,
        "in the norm γ and β are exchanged": beta * centred / (biased + eps).sqrt() + gamma,
        "the norm runs over the tokens: features are the last axis": (
            gamma * F.layer_norm(x.mT, x.mT.shape[-1:], None, None, eps).mT + beta
        ),
        "the norm is missing: ffn gets the raw tokens": x,
    }
    road = "the residual is taken from the normalised tokens: add the x that came in"
    both = {text: n for text, n in half.items() if n is not published and n is not x}
    return {
        "both bugs are still there: look at the name `x` in the last line, and at the norm's "
        "denominator.": published + f(published),
        f"one bug is left: {road}.": good + f(good),
        **{f"one bug is left: {text}.": x + f(n) for text, n in half.items()},
        **{f"{text}; and {road}.": n + f(n) for text, n in both.items()},
        "this is post-LN, the norm of the sum: the block is x + ffn(norm(x)).": (
            norm(x + f(x), gamma, beta, eps)
        ),
        "the sum is normalised as well: the block is x + ffn(norm(x)).": (
            norm(x + f(good), gamma, beta, eps)
        ),
        "the residual is missing: x + ffn(norm(x)).": f(good),
        "both x and norm(x) are added.": x + good + f(good),
        "norm(x) is added, and ffn gets the raw x: it is the other way round.": good + f(x),
        "the norm is applied to what ffn returns: it belongs before it.": (
            x + norm(f(x), gamma, beta, eps)
        ),
        "ffn is not used.": x + good,
    }


def test_the_repaired_block_begins_anew_in_each_call(repaired_block):
    def right(x, gamma, beta, eps, f):
        return x + f(norm(x, gamma, beta, eps))

    f, affine = Sublayer.function, torch.randn(2, 2, 4)
    first, second = ((tokens_of(4, 4, 4), *each, 0.5, f) for each in affine)
    expect_no_memory(repaired_block, right, first, second)


def test_the_repaired_block(repaired_block):
    for shape, eps in (
        *(((2, 5, 4), 0.5), ((3, 2, 6), 0.1), ((3, 3, 3), 0.5), ((2, 4, 64), 0.5)),
        *(((1, 3, 4), 0.5), ((2, 1, 4), 0.5)),
    ):
        x, (gamma, beta) = tokens_of(*shape), torch.randn(2, shape[-1])
        sublayer, f = Sublayer(), Sublayer.function
        expected = x + f(norm(x, gamma, beta, eps))
        mistakes = block_mistakes(x, gamma, beta, eps, f)
        expect(repaired_block(x, gamma, beta, eps, sublayer), expected, mistakes)
        assert sublayer.calls == 1, f"ffn was called {sublayer.calls} times; call it once."


def test_the_repaired_block_leaves_what_ffn_returns_as_it_was(repaired_block):
    x, (gamma, beta) = tokens_of(2, 3, 4), torch.randn(2, 4)
    stored = torch.randn(2, 3, 4)
    before = stored.clone()
    expect(repaired_block(x, gamma, beta, 0.5, lambda _: stored), x + before)
    assert torch.equal(stored, before), (
        "The call changed the tensor that ffn returned, which may still be needed: by ffn, or for "
        "the gradient. Make a new one, x + …, and do without +=."
    )


def test_the_repaired_block_on_small_tokens(repaired_block):
    x, (gamma, beta) = 0.001 * tokens_of(2, 3, 4), torch.randn(2, 4)
    f = Sublayer.function
    expected = x + f(norm(x, gamma, beta, 1e-5))
    mistakes = block_mistakes(x, gamma, beta, 1e-5, f)
    expect(repaired_block(x, gamma, beta, 1e-5, Sublayer()), expected, mistakes)


def test_the_repaired_block_in_half_and_double_precision(repaired_block):
    for dtype in (torch.float16, torch.float64):
        x, (gamma, beta) = tokens_of(2, 3, 4).to(dtype), torch.randn(2, 4).to(dtype)
        wide = x.double(), gamma.double(), beta.double()
        f = Sublayer.function
        expected = wide[0] + f(norm(*wide, 0.5))
        mistakes = block_mistakes(*wide, 0.5, f)
        mistakes = {text: wrong.to(dtype) for text, wrong in mistakes.items()}
        expect(repaired_block(x, gamma, beta, 0.5, Sublayer()), expected.to(dtype), mistakes)
