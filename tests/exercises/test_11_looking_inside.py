"""The checks of exercise 11. A mistake's text ends the sentence "This is the answer when …"."""

import math

import torch
from torch import Tensor, nn

from course.checking import CheckFailed, expect
from course.checking.diagnosis import describe, expect_no_memory, expect_predictions

# ---- predicted_looks


def test_the_six_numbers_are_predicted(predicted_looks):
    hints = {
        "a": {
            1.5
            * math.log(2): "That is the entropy itself; the question is for it divided by ln 2.",
            2: "That is the entropy of four equal weights. The last key has none.",
            -1.5: "Entropy is −Σ w ln w: mind the sign.",
            5: "Each term is multiplied by its weight: 1/2 · 1 + …",
            None: "−ln of 1/2 is ln 2, of 1/4 twice that. Each is multiplied by its weight.",
        },
        "b": {
            4: "The sum of the row must stay 1 as well: one equation more.",
            20: "That is how many weights there are. How many equations hold them?",
            16: "That is the number of equations for the output.",
            17: "That is the number of equations. How many dimensions do they leave?",
            None: "Each number of the output is an equation, and so is the sum.",
        },
        "c": {
            0.5: "That is after one layer. There are two.",
            0: "Without the residual. Half of each layer is the identity.",
            0.75: "That is the share that token 1 has of token 0.",
            1: "The residual of each layer is halved, and there are two layers.",
            None: "Write (A + I)/2, and square it; the question is for the last entry.",
        },
        "d": {
            0.5: "The row without a true key counts in neither number.",
            0.25: "The row without a true key is left out of the number that you divide by, too.",
            2 / 3: "That is the share of rows that are right.",
            1: "That is the number of wrong rows. Divide by the rows that have a truth.",
            None: "Only rows that have a true key can be right or wrong.",
        },
        "e": {
            60: "That is what removing *both at once* costs.",
            120: "Each alone can be removed, and all dates stay right.",
            40: "That is what is left without both.",
            None: "Read again what happens without one of them.",
        },
        "f": {
            0.2: "That is its share of the weight. Multiply by the lengths.",
            0.4: "That is its added length. Divide by the sum of both.",
            1 / 6: "That is the share of the first key.",
            20 / 21: "That is its share of the lengths. Multiply by the weights.",
            5: "That is how many times longer it is. The question is for the share of the sum.",
            None: "Weight times length for each key; then the second, divided by the sum.",
        },
    }
    right = {"a": 1.5, "b": 3, "c": 0.25, "d": 1 / 3, "e": 0, "f": 5 / 6}
    expect_predictions(predicted_looks(), right, hints, within=6e-3)


# ---- attention_entropy


def some_weights(*shape, masked=True, dtype=torch.float32):
    """Rows that add up to 1; with `masked`, some weights are exactly 0, and one row has a 1."""
    scores = 1.5 * torch.randn(shape, dtype=torch.double)
    if masked:
        scores[..., 0, 1:] = -math.inf
        scores[..., 1:, -1] = -math.inf
    return scores.softmax(dim=-1).to(dtype)


def entropy(weights):
    return -torch.special.xlogy(weights, weights).sum(dim=-1)


def entropy_mistakes(w):
    w = w.double()
    terms = -torch.special.xlogy(w, w)
    right = terms.sum(-1)
    keys = w.shape[-1]
    again = w.softmax(dim=-1)
    inside = (
        "{:g} is added inside the logarithm, and shows: take 0 where a weight is 0, and w ln w "
    )
    inside += "elsewhere."
    return {inside.format(e): -(w * (e + w).log()).sum(-1) for e in (1e-6, 1e-5, 1e-4, 1e-3)} | {
        "the logarithm is to the base 2; nats are asked for.": right / math.log(2),
        "the logarithm is to the base 10; nats are asked for.": right / math.log(10),
        "the sign is missing: entropy is −Σ w ln w.": -right,
        "the sum runs over the queries; a row's keys are the last axis.": lambda: terms.sum(-2),
        "the mean over the keys is taken, and not the sum.": right / keys,
        "the entropy is divided by ln Lk: that is a useful measure, and not the one asked "
        "for.": right / math.log(keys),
        "the exponential of the entropy is returned (the number of keys in use).": right.exp(),
        "the softmax is taken again: weights are probabilities already.": lambda: entropy(again),
        "the weights are missing: −Σ ln w is added up, zeros left out.": lambda: (
            -torch.where(w > 0, w.log(), 0).sum(-1)
        ),
        "one number comes back for all rows: their mean.": right.mean(),
        "one number comes back for all rows: their sum.": right.sum(),
        "the heads, or whatever the first axis is, are averaged first.": lambda: (
            entropy(w.mean(0)) if len(w) > 1 else None
        ),
        "1 − Σ w² is returned (Gini), and not the entropy.": 1 - (w * w).sum(-1),
        "1 is added inside the logarithm.": -(w * (1 + w).log()).sum(-1),
        "the terms are not added up.": terms,
    }


NAN_ENTROPY = "0 · ln 0 is 0 · −inf, which is NaN; here it has to be 0."
TOO_SMALL = " In float16, a 1e-9 that is added or clamped to is 0 itself."


def test_the_entropy_of_each_row(attention_entropy):
    for shape in ((2, 3, 4, 5), (4, 6), (3, 5, 5), (2, 1, 3), (1, 3, 4, 5)):
        for masked in (False, True):
            w = some_weights(*shape, masked=masked)
            expect(attention_entropy(w), entropy(w), entropy_mistakes(w), nan=NAN_ENTROPY)


def test_the_entropy_in_other_dtypes(attention_entropy):
    for dtype in (torch.float64, torch.float16):
        w = some_weights(2, 4, 5, dtype=dtype)
        right = entropy(w.double()).to(dtype)
        nan = NAN_ENTROPY if dtype == torch.float64 else NAN_ENTROPY + TOO_SMALL
        expect(attention_entropy(w), right, entropy_mistakes(w), nan=nan)


def test_each_entropy_is_computed_anew(attention_entropy):
    one, other = some_weights(2, 4, 5), some_weights(2, 4, 5)
    expect_no_memory(attention_entropy, entropy, (one,), (other,))


# ---- alignment_error


def a_map(queries, keys):
    """Weights, and a truth in which some rows have no true key and some have several."""
    weights = some_weights(queries, keys, masked=False)
    truth = torch.rand(queries, keys) < 0.4
    truth[1] = False
    truth[0, 2:4] = True
    truth[2] = True
    return weights, truth


def error_of(weights, truth):
    hit = truth.gather(-1, weights.argmax(-1, keepdim=True))[:, 0]
    return 1 - hit[truth.any(-1)].double().mean().item()


def error_variants(w, truth):
    asked = truth.any(-1)
    hit = truth.gather(-1, w.argmax(-1, keepdim=True))[:, 0].double()
    least = truth.gather(-1, w.argmin(-1, keepdim=True))[:, 0].double()
    wrong = 1 - hit
    mass = (w.double() * truth).sum(-1)
    error = wrong[asked].mean()
    return {
        "the share of right rows is returned, and not of wrong ones.": hit[asked].mean(),
        "rows without a true key are counted as wrong; leave them out.": wrong.mean(),
        "rows without a true key are counted as right; leave them out of the number that is "
        "divided by, too.": wrong[asked].sum() / len(w),
        "the number of wrong rows is returned, and not their share.": wrong[asked].sum(),
        "the number of wrong rows, those without a truth among them, is returned.": wrong.sum(),
        "the share is given in per cent.": 100 * error,
        "the largest weight is looked for over the queries; a row's keys are dim=-1.": lambda: (
            1 - truth.gather(0, w.argmax(0, keepdim=True))[0][truth.any(0)].double().mean()
        ),
        "only the first true key of a row counts: any of them is right.": (
            (w.argmax(-1) != truth.double().argmax(-1))[asked].double().mean()
        ),
        "the first true key of each row is looked for, and rows without one are not left out: any "
        "true key is right.": (w.argmax(-1) != truth.double().argmax(-1)).double().mean(),
        "rows without a true key are left out of the weights, and not of `truth`: then the rows "
        "do not belong together.": 1
        - truth[: asked.sum()].gather(-1, w[asked].argmax(-1, keepdim=True)).double().mean(),
        "only the last true key of a row counts: any of them is right.": (
            w.argmax(-1) != truth.shape[1] - 1 - truth.flip(-1).double().argmax(-1)
        )[asked]
        .double()
        .mean(),
        "the *smallest* weight of each row is looked at.": 1 - least[asked].mean(),
        "the weight on false keys is averaged; the question is where the *largest* weight lies.": (
            1 - mass[asked].mean()
        ),
        "the weight on false keys is averaged over all rows.": 1 - mass.mean(),
        "a row is right if more than half of its weight lies on true keys; the question is where "
        "the *largest* weight lies.": (mass[asked] <= 0.5).double().mean(),
        "a row is right only if the largest weight is above 1/2.": (
            1 - (hit * (w.amax(-1) > 0.5))[asked].mean()
        ),
        "single cells are compared, and not rows.": lambda: (
            ((w == w.amax(-1, keepdim=True)) != truth)[asked].double().mean()
        ),
        "one result for each row is returned.": wrong,
        "one result for each row with a truth is returned.": wrong[asked],
    }


def error_mistakes(w, truth):
    """The mistakes, one number each where it is one."""

    def number(variant):
        answer = variant() if callable(variant) else variant
        return answer.item() if answer.dim() == 0 else answer

    return {
        text: lambda variant=variant: number(variant)
        for text, variant in error_variants(w, truth).items()
    }


def a_telling_map(queries, keys):
    """A map on which no two mistakes give the same number."""
    while True:
        w, truth = a_map(queries, keys)
        answers = [variant() for variant in error_mistakes(w, truth).values()]
        numbers = [error_of(w, truth), *(x for x in answers if isinstance(x, float))]
        if len({round(x, 6) for x in numbers}) == len(numbers):
            return w, truth


def test_the_share_of_rows_that_look_elsewhere(alignment_error):
    for queries, keys in ((43, 6), (37, 7), (31, 31)):
        w, truth = a_telling_map(queries, keys)
        expect(alignment_error(w, truth), error_of(w, truth), error_mistakes(w, truth))


def test_an_error_of_nothing_and_of_all(alignment_error):
    w, _ = a_map(5, 6)
    best = w == w.amax(-1, keepdim=True)
    best[2] = False
    for truth in (best, best.roll(1, -1)):
        expect(alignment_error(w, truth), error_of(w, truth), error_mistakes(w, truth))
        expect(alignment_error(w[:1], truth[:1]), error_of(w[:1], truth[:1]))  # one row


def test_each_error_is_computed_anew(alignment_error):
    expect_no_memory(alignment_error, error_of, a_map(8, 5), a_map(8, 5))


# ---- attention_rollout


def rolled(layers, order=1, of_heads=lambda w: w.mean(1), mix=lambda a, i: (a + i) / 2):
    identity = torch.eye(layers[0].shape[-1], dtype=layers[0].dtype)
    result = identity.expand(len(layers[0]), -1, -1)
    for weights in layers[::order]:
        result = mix(of_heads(weights), identity) @ result
    return result


def rollout_mistakes(layers):
    layers = [weights.double() for weights in layers]
    identity = torch.eye(layers[0].shape[-1], dtype=torch.double)
    means = [weights.mean(1) for weights in layers]
    half = [(a + identity) / 2 for a in means]
    product = rolled(layers, mix=lambda a, i: a)
    elementwise = torch.stack(half).prod(0)
    heads = range(layers[0].shape[1])
    per_head = torch.stack([rolled([w[:, h : h + 1] for w in layers]) for h in heads], 1)
    number = "the number of heads is written down: take axis 1 as long as it is, with .mean(1)."
    return {
        "the first layer is leftmost: a row of the last layer mixes what the layers before it put "
        "out, so the last one belongs on the left.": lambda: rolled(layers, order=-1),
        "there is no residual: half of each layer is the identity.": product,
        "the identity is added and nothing is halved: rows do not add up to 1.": (
            lambda: rolled(layers, mix=lambda a, i: a + i)
        ),
        "only the weights are halved, and not the identity.": (
            lambda: rolled(layers, mix=lambda a, i: a / 2 + i)
        ),
        "only the identity is halved, and not the weights: (A + I) / 2 needs its brackets.": (
            lambda: rolled(layers, mix=lambda a, i: a + i / 2)
        ),
        "the residual is added once, to the product, and not in each layer.": (
            (product + identity) / 2
        ),
        "the heads are added up, and not averaged.": (
            lambda: rolled(layers, of_heads=lambda w: w.sum(1))
        ),
        "the heads are added up, and rows normalised after the residual.": lambda: rolled(
            layers,
            of_heads=lambda w: w.sum(1),
            mix=lambda a, i: (a + i) / (a + i).sum(-1, keepdim=True),
        ),
        "the largest weight over the heads is taken, and not the mean.": (
            lambda: rolled(layers, of_heads=lambda w: w.amax(1))
        ),
        "the first head is taken, and not the mean of all.": (
            lambda: rolled(layers, of_heads=lambda w: w[:, 0])
        ),
        **{
            f"{number}{' ' * i}": lambda wrong=wrong: rolled(layers, of_heads=wrong)
            for i, wrong in enumerate((lambda w: w.sum(1) / 3, lambda w: w[:, :3].mean(1)))
        },
        "the weights are transposed: rows are the queries already.": (
            lambda: rolled(layers, of_heads=lambda w: w.mean(1).mT)
        ),
        "the result is transposed.": lambda: rolled(layers).mT,
        "the layers are averaged, and not multiplied.": torch.stack(half).mean(0),
        "the layers are multiplied number by number (`*`), and not as matrices (`@`).": elementwise,
        "the last layer stands alone.": half[-1],
        "the first layer stands alone.": half[0],
        "the last layer is left out.": lambda: rolled(layers[:-1]),
        "the first layer is left out.": lambda: rolled(layers[1:]),
        "the first layer is there twice: before the loop and in it.": (
            lambda: rolled([layers[0], *layers])
        ),
        "the weights of the last layer alone are averaged, without a residual.": means[-1],
        "each head is carried on by itself: the heads are averaged first.": per_head,
        "each head is carried on by itself, and the average is taken at the end: it is taken in "
        "each layer.": per_head.mean(1),
        "the mean runs over the batch; the heads are axis 1.": (
            lambda: rolled(layers, of_heads=lambda w: w.mean(0))
        ),
    }


def some_layers(count, length, dtype=torch.float32, batch=2, heads=3):
    shape = batch, heads, length, length
    return [some_weights(*shape, masked=False, dtype=dtype) for _ in range(count)]


def test_weights_are_carried_on_through_the_layers(attention_rollout):
    for count, length, batch in ((3, 4, 2), (2, 5, 2), (1, 4, 2), (2, 4, 1)):
        layers = some_layers(count, length, batch=batch)
        expect(attention_rollout(layers), rolled(layers), rollout_mistakes(layers))


def test_rollout_of_other_numbers_of_heads(attention_rollout):
    for heads in (5, 2, 1):
        layers = some_layers(2, 4, heads=heads)
        expect(attention_rollout(layers), rolled(layers), rollout_mistakes(layers))


def test_rollout_in_float64(attention_rollout):
    layers = some_layers(2, 4, torch.float64)
    expect(attention_rollout(layers), rolled(layers), rollout_mistakes(layers))


def test_rollout_leaves_the_layers_as_they_were(attention_rollout):
    layers = some_layers(2, 4)
    before = [weights.clone() for weights in layers]
    attention_rollout(layers)
    if not all(map(torch.equal, layers, before)) or len(layers) != 2:
        raise CheckFailed("The call changed the list `layers`, or a tensor in it. Make new ones.")


def test_each_rollout_begins_anew(attention_rollout):
    expect_no_memory(attention_rollout, rolled, (some_layers(2, 4),), (some_layers(2, 4),))


# ---- head_importance


class Gated(nn.Module):
    """A loss that depends on gates (layers, heads) through parameters, and not linearly."""

    def __init__(self, layers, heads, dtype=torch.float32):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(layers, heads, dtype=dtype))
        self.pairs = nn.Parameter(torch.randn(layers * heads, layers * heads, dtype=dtype) / 3)
        self.shape = (layers, heads)

    def forward(self, gates):
        if not isinstance(gates, Tensor) or gates.shape != self.shape:
            raise CheckFailed(
                f"loss_of was called with {describe(gates)}; it takes the gates of all heads, a "
                f"tensor of shape (num_layers, num_heads) = {self.shape}.",
                "head_importance(loss_of, num_layers, num_heads)",
            )
        gates = gates.to(self.scale.dtype)
        flat = gates.flatten()
        return (gates * self.scale).sum() + flat @ self.pairs @ flat + (gates**3).sum() / 5


def slope_at(model, value):
    gates = torch.full(model.shape, float(value), requires_grad=True)
    return torch.autograd.grad(model(gates), gates)[0]


def importance(model, layers, heads):
    return slope_at(model, 1).abs()


def importance_mistakes(model):
    slope = slope_at(model, 1)
    ones = torch.ones(model.shape)
    drops = torch.zeros(model.shape)
    with torch.no_grad():
        for place in range(ones.numel()):
            gates = ones.clone()
            gates.view(-1)[place] = 0
            drops.view(-1)[place] = model(gates) - model(ones)
    size = slope.abs()
    return {
        "the absolute value is missing.": slope,
        "the sign is changed, and the absolute value not taken.": -slope,
        "the gates are 0: that is the slope of a model without heads. Take it at gates 1.": (
            slope_at(model, 0).abs()
        ),
        "the gates are 1/2; the whole model has gates of 1.": slope_at(model, 0.5).abs(),
        "the slope is squared.": slope**2,
        "the importances are divided by their sum.": size / size.sum(),
        "the importances are divided by the largest.": size / size.max(),
        "each layer's importances are divided by their sum.": size / size.sum(-1, keepdim=True),
        "each layer's importances are divided by their length.": (
            size / size.norm(dim=-1, keepdim=True)
        ),
        "heads are removed one at a time, and the loss's difference is taken: a good measure, and "
        "not the gradient that is asked for.": drops.abs(),
        "heads are removed one at a time, and the loss's difference is taken, with its sign.": (
            drops
        ),
        "layers and heads are exchanged.": size.T,
        "the heads are laid in one row: the shape is (num_layers, num_heads).": size.flatten(),
        "one number for each layer is returned.": size.sum(-1),
        "the ranks are returned, and not the slopes.": size.flatten()
        .argsort()
        .argsort()
        .view(model.shape)
        .float(),
    }


def test_the_slope_of_the_loss_at_gates_of_one(head_importance):
    for layers, heads in ((2, 3), (4, 2), (1, 5), (3, 3)):
        model = Gated(layers, heads)
        answer = head_importance(model, layers, heads)
        expect(
            answer,
            importance(model, layers, heads),
            importance_mistakes(model),
            call=f"head_importance(loss_of, {layers}, {heads})",
        )
        if answer.requires_grad:
            raise CheckFailed("A gradient hangs on the result: return it detached.")


def test_the_parameters_keep_their_gradients(head_importance):
    model = Gated(2, 3)
    for before in (None, 2.0):
        for parameter in model.parameters():
            parameter.grad = None if before is None else torch.full_like(parameter, before)
        head_importance(model, 2, 3)
        for parameter in model.parameters():
            grad = parameter.grad
            if not (
                grad is None if before is None else grad is not None and (grad == before).all()
            ):
                raise CheckFailed(
                    "The call changed the .grad of the model's parameters: `loss.backward()` adds "
                    "to all of them. `torch.autograd.grad(loss, gates)` returns one gradient, and "
                    "writes nowhere.",
                    "head_importance(loss_of, 2, 3)",
                )


def test_a_model_in_float64(head_importance):
    model = Gated(2, 3, torch.float64)
    expect(head_importance(model, 2, 3), importance(model, 2, 3), importance_mistakes(model))


def test_each_importance_is_computed_anew(head_importance):
    expect_no_memory(head_importance, importance, (Gated(2, 3), 2, 3), (Gated(2, 3), 2, 3))


# ---- same_output


def expect_same_output(answer, weights, value):
    """Raise `CheckFailed` unless `answer` meets all that the task asks for."""
    call = f"same_output(weights {tuple(weights.shape)}, value {tuple(value.shape)})"
    if not isinstance(answer, Tensor) or answer.shape != weights.shape:
        expect(answer, weights, call=call)
        raise CheckFailed("It should be a tensor with the shape of the weights.", call)
    if not answer.is_floating_point():
        raise CheckFailed(f"The result holds {answer.dtype}, expected floats.", call)
    if answer.isnan().any() or answer.isinf().any():
        raise CheckFailed(
            "The result has NaN or infinity. Is the way to the first zero a division by 0? Only "
            "where the direction is negative does a weight fall.",
            call,
        )
    exact = answer.dtype == weights.dtype == torch.float64
    half = answer.dtype in (torch.float16, torch.bfloat16)
    new, old, v = (x.detach().double() for x in (answer, weights, value))
    close = 1e-9 if exact else 1e-2 if half else 1e-4
    step = new - old
    gone = (-step / old).amax(-1)  # the share of the way to the first weight of 0
    still = gone.abs() < 1e-6
    if still.all():
        raise CheckFailed("These are the weights that were given. Other ones are asked for.", call)
    sums = (new.sum(-1) - old.sum(-1)).abs()
    change = (step @ v).abs().amax(-1)
    most = max(sums.max(), change.max())
    if exact and close < most < 1e-5:
        raise CheckFailed(
            f"weights @ value, or the sum of a row, has changed by {most:.2g}. float32 is as "
            "coarse as that: compute in float64 from the first step to the last.",
            call,
        )
    if sums.max() > close:
        row = int(sums.argmax())
        where = f"Row {row} adds up to {new[row].sum():.4g}, not 1"
        if change.max() < close:
            raise CheckFailed(
                f"{where}; the output is the same. The direction must have a sum of 0 as well: put "
                "a column of ones beside `value`.",
                call,
            )
        raise CheckFailed(
            f"{where}, and the output has changed by {change.max():.3g}. The direction n must "
            "satisfy [V 1]ᵀ n = 0; and normalising or clamping afterwards leaves it.",
            call,
        )
    if change.max() > close:
        raise CheckFailed(
            f"weights @ value has changed by {change.max():.3g} in row {int(change.argmax())}. The "
            "direction n must satisfy Vᵀ n = 0: it is of the null space of Vᵀ, one number for each "
            "key.",
            call,
        )
    if new.min() < -1e-12 - 1e-6 * (not exact):
        row = int(new.amin(-1).argmin())
        raise CheckFailed(
            f"Row {row} has a negative weight, {new[row].min():.3g}. Go only until the first "
            "weight is 0; each row has a limit of its own.",
            call,
        )
    if still.any():
        raise CheckFailed(f"Row {int(still.nonzero()[0])} has not moved; every row should.", call)
    if gone.min() < 0.1 - (1e-2 if half else 1e-4):
        row = int(gone.argmin())
        raise CheckFailed(
            f"Row {row} has gone only {gone[row]:.2g} of the way to its first zero; at least a "
            "tenth is asked for, in each row by its own limit.",
            call,
        )


def test_other_weights_have_the_same_output(same_output):
    for queries, keys, width in ((4, 9, 3), (3, 6, 4), (5, 12, 2), (1, 7, 3), (6, 6, 3)):
        weights = some_weights(queries, keys, masked=False, dtype=torch.float64)
        value = torch.randn(keys, width, dtype=torch.float64)
        expect_same_output(same_output(weights, value), weights, value)


def test_rows_of_very_different_kind(same_output):
    scores = torch.randn(4, 8, dtype=torch.float64) * torch.tensor([[0.1], [1], [2], [3]])
    weights, value = scores.softmax(dim=-1), torch.randn(8, 3, dtype=torch.float64)
    expect_same_output(same_output(weights, value), weights, value)


def test_values_that_repeat_a_column(same_output):
    weights = some_weights(3, 9, masked=False, dtype=torch.float64)
    value = torch.randn(9, 3, dtype=torch.float64)
    value[:, 2] = value[:, 0]
    expect_same_output(same_output(weights, value), weights, value)


def test_same_output_from_float32(same_output):
    weights, value = some_weights(3, 8, masked=False), torch.randn(8, 3)
    expect_same_output(same_output(weights, value), weights, value)


# ---- repaired_rollout_step


def step_of(attention, keep, residual=0.5):
    drop = attention.shape[-1] - keep
    kept = attention.scatter(-1, attention.topk(drop, -1, largest=False).indices, 0.0)
    step = (1 - residual) * kept + residual * torch.eye(len(kept), dtype=kept.dtype)
    return step / step.sum(-1, keepdim=True)


def step_mistakes(attention, keep):
    a = attention.double()
    L = len(a)
    eye = torch.eye(L, dtype=torch.double)
    kept = a.scatter(-1, a.topk(L - keep, -1, largest=False).indices, 0.0)
    half = (kept + eye) / 2
    columns = a.scatter(0, a.topk(L - keep, 0, largest=False).indices, 0.0)
    largest = a.scatter(-1, a.topk(L - keep, -1).indices, 0.0)
    others = a.scatter(-1, a.topk(keep, -1, largest=False).indices, 0.0)
    flat = a.flatten().topk(L * (L - keep), largest=False).indices
    overall = a.flatten().scatter(0, flat, 0.0).view(L, L)
    fewer, more = (
        a.scatter(-1, a.topk(max(0, L - k), -1, largest=False).indices, 0.0)
        for k in (keep - 1, keep + 1)
    )
    after = (a + eye) / 2
    after = after.scatter(-1, after.topk(L - keep, -1, largest=False).indices, 0.0)

    def rows(x):
        return x / x.sum(-1, keepdim=True)

    def finished(x):
        return rows((x + eye) / 2)

    nothing_to_drop = {
        "everything is dropped where nothing is to be: with 0 to drop, `[-0:]` is the whole row.": (
            eye
        )
    }
    return (nothing_to_drop if keep == L else {}) | {
        "each *column* is divided by the sum of a row: keep the axis of the sum (keepdim=True).": (
            half / half.sum(-1)
        ),
        "each column is divided by its own sum; it is the rows that add up to 1.": (
            half / half.sum(0, keepdim=True)
        ),
        "nothing is normalised: the rows do not add up to 1.": half,
        "everything is divided by the sum of the whole map.": half / half.sum(),
        "rows are normalised before the residual is added, and then the residual has half of each "
        "row. Here it is normalised after it.": (rows(kept) + eye) / 2,
        "the residual is missing.": rows(kept),
        "the identity is added, and the weights are not filtered.": finished(a),
        "the *smallest* weights are kept.": finished(largest),
        "`keep` weights are dropped; `keep` of them are to be kept.": finished(others),
        "`keep` − 1 weights are kept: compared with the `keep`-th largest, > is too strict, and >= "
        "is right.": finished(fewer),
        "`keep` + 1 weights are kept.": finished(more),
        "the largest are chosen after the residual is added, and it is one of them.": rows(after),
        "the largest weights of each *column* are kept; a row is a query.": finished(columns),
        "the largest weights of the whole map are kept; it is so many in each row.": (
            finished(overall)
        ),
        "the largest value of each row is divided by, and not the sum.": (
            half / half.amax(-1, keepdim=True)
        ),
        "a softmax is taken over the rows.": half.softmax(-1),
        "a softmax is taken over what is kept: the zeros get weight again.": finished(
            kept.softmax(-1)
        ),
        "the map is transposed.": finished(kept).T,
        "the residual is twice as large as it should be: half of each.": rows(kept / 2 + eye),
        "all kept weights count 1.": finished((kept > 0).double()),
    }


def a_square_map(length, dtype=torch.float32):
    return some_weights(length, length, masked=False, dtype=dtype)


def test_rows_of_the_step_add_up_to_one(repaired_rollout_step):
    for length, keep in ((7, 5), (4, 1), (6, 4), (5, 5)):
        a = a_square_map(length)
        expect(repaired_rollout_step(a, keep), step_of(a, keep), step_mistakes(a, keep))


def test_a_step_in_float64(repaired_rollout_step):
    a = a_square_map(5, torch.float64)
    expect(repaired_rollout_step(a, 2), step_of(a, 2), step_mistakes(a, 2))


def test_each_step_is_computed_anew(repaired_rollout_step):
    expect_no_memory(repaired_rollout_step, step_of, (a_square_map(5), 3), (a_square_map(5), 3))
