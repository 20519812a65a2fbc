"""Answers to exercise 11, wrong and right."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from catalogue import right, wrong

# ---- predicted_looks


@right("predicted_looks")
def as_a_list():
    return [1.5, 3, 0.25, 1 / 3, 0, 5 / 6]


@right("predicted_looks")
def as_a_tensor():
    return torch.tensor([1.5, 3, 0.25, 1 / 3, 0, 5 / 6])


@right("predicted_looks")
def computed():
    step = (np.array([[1, 0], [1, 0]]) + np.eye(2)) / 2
    return (6 / 4, 20 - 16 - 1, (step @ step)[1, 1], 1 - 2 / 3, 0 + 0, 0.4 / (0.08 + 0.4))


@right("predicted_looks")
def rounded_on_paper():
    return [1.5, 3, 0.25, 0.33, 0, 0.833]


def but(**changes):
    answers = dict(zip("abcdef", (1.5, 3, 0.25, 1 / 3, 0, 5 / 6), strict=True)) | changes
    return list(answers.values())


@wrong("predicted_looks", "a is not 1.04", "divided by ln 2")
def not_in_units_of_ln_2():
    """The entropy in nats."""
    return but(a=1.5 * math.log(2))


@wrong("predicted_looks", "a is not 2", "four equal weights")
def four_keys_counted():
    """ln 4."""
    return but(a=2)


@wrong("predicted_looks", "b is not 4", "one equation more")
def the_sum_is_forgotten():
    """The null space of Vᵀ alone."""
    return but(b=4)


@wrong("predicted_looks", "b is not 17", "number of equations")
def equations_counted():
    """Equations, not what they leave."""
    return but(b=17)


@wrong("predicted_looks", "c is not 0.5", "one layer")
def one_layer_only():
    """(A + I)/2, not squared."""
    return but(c=0.5)


@wrong("predicted_looks", "c is not 0.75", "of token 0")
def the_other_share():
    """Read from the wrong column."""
    return but(c=0.75)


@wrong("predicted_looks", "d is not 0.5", "counts in neither")
def a_row_without_truth_is_wrong():
    """It lies on no true key, so it is wrong."""
    return but(d=0.5)


@wrong("predicted_looks", "d is not 0.25", "left out of the number")
def divided_by_all_rows():
    """One of four."""
    return but(d=0.25)


@wrong("predicted_looks", "d is not 0.6667", "rows that are right")
def accuracy():
    """The other share."""
    return but(d=2 / 3)


@wrong("predicted_looks", "e is not 60", "*both at once*")
def both_at_once():
    """The damage of the pair."""
    return but(e=60)


@wrong("predicted_looks", "f is not 0.2", "Multiply by the lengths")
def weight_alone():
    """What a map shows."""
    return but(f=0.2)


@wrong("predicted_looks", "f is not 0.4", "Divide by the sum")
def not_a_share():
    """0.2 · 2."""
    return but(f=0.4)


# ---- attention_entropy


@right("attention_entropy")
def with_where(weights):
    logs = torch.where(weights > 0, weights, 1.0).log()
    return -(weights * logs).sum(-1)


@right("attention_entropy")
def with_entr(weights):
    return torch.special.entr(weights).sum(-1)


@right("attention_entropy")
def with_categorical(weights):
    return torch.distributions.Categorical(probs=weights.double(), validate_args=False).entropy()


@right("attention_entropy")
def row_by_row(weights):
    rows = [
        -sum(p * math.log(p) for p in row if p > 0)
        for row in weights.reshape(-1, weights.shape[-1]).tolist()
    ]
    return torch.tensor(rows).reshape(weights.shape[:-1])


@right("attention_entropy")
def entropy_with_numpy(weights):
    w = weights.numpy().astype(np.float64)
    logs = np.log(w, out=np.zeros_like(w), where=w > 0)
    return torch.from_numpy(-(w * logs).sum(-1))


@right("attention_entropy")
def nan_to_num(weights):
    return -(weights * weights.log()).nan_to_num(0).sum(-1)


@wrong("attention_entropy", "0 · ln 0")
def entropy_with_nan(weights):
    """The formula as it stands on paper."""
    return -(weights * weights.log()).sum(-1)


@wrong("attention_entropy", "is added inside the logarithm")
def with_a_large_epsilon(weights):
    """1e-9 is too small for float16, so a larger one is taken."""
    return -(weights * (weights + 1e-3).log()).sum(-1)


@wrong("attention_entropy", "In float16, a 1e-9")
def with_an_epsilon_that_vanishes(weights):
    """The usual remedy."""
    return -(weights * (weights + 1e-9).log()).sum(-1)


@wrong("attention_entropy", "axes of length 1")
def squeezed(weights):
    """`keepdim`, and then `squeeze()` of every axis of length 1."""
    return torch.special.entr(weights).sum(-1, keepdim=True).squeeze()


@wrong("attention_entropy", "base 2")
def in_bits(weights):
    """Information theory counts in bits."""
    return torch.special.entr(weights).sum(-1) / math.log(2)


@wrong("attention_entropy", "sign is missing")
def negative_entropy(weights):
    """The minus forgotten."""
    return torch.special.xlogy(weights, weights).sum(-1)


@wrong("attention_entropy", "over the queries")
def over_queries(weights):
    """dim=-2."""
    return torch.special.entr(weights).sum(-2)


@wrong("attention_entropy", "mean over the keys")
def mean_of_terms(weights):
    """mean for sum."""
    return torch.special.entr(weights).mean(-1)


@wrong("attention_entropy", "divided by ln Lk")
def normalised_entropy(weights):
    """What the lesson advises for comparing lengths."""
    return torch.special.entr(weights).sum(-1) / math.log(weights.shape[-1])


@wrong("attention_entropy", "exponential")
def perplexity(weights):
    """Perplexity."""
    return torch.special.entr(weights).sum(-1).exp()


@wrong("attention_entropy", "softmax is taken again")
def softmax_again(weights):
    """The argument is taken for scores."""
    return torch.special.entr(weights.softmax(-1)).sum(-1)


@wrong("attention_entropy", "their mean")
def one_mean(weights):
    """A single number for a head."""
    return torch.special.entr(weights).sum(-1).mean()


@wrong("attention_entropy", "not added up")
def terms_alone(weights):
    """The sum forgotten."""
    return torch.special.entr(weights)


@wrong("attention_entropy", "axes of length 1")
def entropy_squeezed(weights):
    """squeeze(0), for a map that can be drawn."""
    return with_entr(weights).squeeze(0)


# ---- alignment_error


@right("alignment_error")
def with_indexing(weights, truth):
    hit = truth[torch.arange(len(truth)), weights.argmax(-1)]
    return 1 - hit[truth.any(-1)].float().mean()


@right("alignment_error")
def with_a_loop(weights, truth):
    wrong_rows = asked = 0
    for row, true in zip(weights.tolist(), truth.tolist(), strict=True):
        if any(true):
            asked += 1
            wrong_rows += not true[row.index(max(row))]
    return wrong_rows / asked


@right("alignment_error")
def with_one_hot(weights, truth):
    best = F.one_hot(weights.argmax(-1), truth.shape[-1]).bool()
    asked = truth.any(-1)
    return (~(best & truth).any(-1) & asked).sum().item() / asked.sum().item()


@right("alignment_error")
def alignment_with_numpy(weights, truth):
    w, t = weights.numpy(), truth.numpy()
    t, w = t[t.any(1)], w[t.any(1)]
    return float(np.mean([not row[k] for row, k in zip(t, w.argmax(1), strict=True)]))


@right("alignment_error")
def by_the_largest_true_weight(weights, truth):
    asked = truth.any(-1)
    of_truth = weights.masked_fill(~truth, -1).amax(-1)
    return (of_truth < weights.amax(-1))[asked].double().mean().item()


def hits(weights, truth):
    return truth.gather(-1, weights.argmax(-1, keepdim=True))[:, 0].double()


@wrong("alignment_error", "Your code stopped", "weights (1, 6)")
def all_axes_of_length_one_squeezed(weights, truth):
    """One query has only one row."""
    hit = truth.gather(-1, weights.argmax(-1, keepdim=True)).squeeze()
    return 1 - hit[truth.any(-1)].float().mean().item()


@wrong("alignment_error", "share of right rows")
def right_rows(weights, truth):
    """Accuracy."""
    return hits(weights, truth)[truth.any(-1)].mean().item()


@wrong("alignment_error", "counted as wrong")
def all_rows(weights, truth):
    """Rows without a truth lie on no true key."""
    return 1 - hits(weights, truth).mean().item()


@wrong("alignment_error", "divided by, too")
def all_rows_below(weights, truth):
    """The count is right, the divisor is not."""
    asked = truth.any(-1)
    return ((1 - hits(weights, truth))[asked].sum() / len(truth)).item()


@wrong("alignment_error", "not their share")
def counted(weights, truth):
    """The number."""
    return (1 - hits(weights, truth))[truth.any(-1)].sum().item()


@wrong("alignment_error", "over the queries")
def wrong_axis(weights, truth):
    """argmax over axis 0."""
    best = weights.argmax(0, keepdim=True)
    return 1 - truth.gather(0, best)[0][truth.any(0)].double().mean().item()


@wrong("alignment_error", "first true key")
def first_true_key(weights, truth):
    """truth.argmax finds the first."""
    asked = truth.any(-1)
    return (weights.argmax(-1) != truth.int().argmax(-1))[asked].double().mean().item()


@wrong("alignment_error", "rows without one are not left out")
def two_argmaxes(weights, truth):
    """The shortest: as the accuracy of a classifier."""
    return (weights.argmax(-1) != truth.int().argmax(-1)).double().mean().item()


@wrong("alignment_error", "the rows do not belong together")
def only_weights_left_out(weights, truth):
    """The rows that are asked for are numbered anew."""
    best = weights[truth.any(-1)].argmax(-1)
    return 1 - truth[torch.arange(len(best)), best].double().mean().item()


@wrong("alignment_error", "weight on false keys")
def mass_elsewhere(weights, truth):
    """The share of the weight, and not of rows."""
    return 1 - (weights * truth).sum(-1)[truth.any(-1)].double().mean().item()


@wrong("alignment_error", "smallest")
def smallest_weight(weights, truth):
    """argmin."""
    hit = truth.gather(-1, weights.argmin(-1, keepdim=True))[:, 0].double()
    return 1 - hit[truth.any(-1)].mean().item()


@wrong("alignment_error", "per cent")
def in_per_cent(weights, truth):
    """Times 100."""
    return 100 * (1 - hits(weights, truth)[truth.any(-1)].mean().item())


@wrong("alignment_error", "more than half")
def more_than_half(weights, truth):
    """Half of the weight decides."""
    mass = (weights.double() * truth).sum(-1)
    return (mass <= 0.5)[truth.any(-1)].double().mean().item()


@wrong("alignment_error", "for each row is returned")
def each_row(weights, truth):
    """No mean."""
    return 1 - hits(weights, truth)


# ---- attention_rollout


@right("attention_rollout")
def rollout_with_einsum(layers):
    length = layers[0].shape[-1]
    result = torch.eye(length, dtype=layers[0].dtype).repeat(len(layers[0]), 1, 1)
    for weights in layers:
        step = 0.5 * weights.mean(1) + 0.5 * torch.eye(length, dtype=weights.dtype)
        result = torch.einsum("bij,bjk->bik", step, result)
    return result


@right("attention_rollout")
def rollout_from_the_last(layers):
    steps = [(w.mean(1) + torch.eye(w.shape[-1], dtype=w.dtype)) / 2 for w in reversed(layers)]
    result = steps[0]
    for step in steps[1:]:
        result = result @ step
    return result


@right("attention_rollout")
def rollout_without_an_identity(layers):
    result = None
    for weights in layers:
        mean = weights.mean(dim=1)
        if result is None:
            result = mean / 2
            result.diagonal(dim1=-2, dim2=-1).add_(0.5)
        else:
            result = (mean @ result + result) / 2
    return result


@right("attention_rollout")
def rollout_normalised_again(layers):
    result = torch.eye(layers[0].shape[-1], dtype=layers[0].dtype)
    for weights in layers:
        step = weights.mean(1) + torch.eye(weights.shape[-1], dtype=weights.dtype)
        result = step / step.sum(-1, keepdim=True) @ result
    return result


@right("attention_rollout")
def rollout_with_numpy(layers):
    result = np.eye(layers[0].shape[-1])
    for weights in layers:
        result = (weights.numpy().astype(np.float64).mean(1) + np.eye(len(result[0]))) / 2 @ result
    return torch.from_numpy(result)


def carried(layers, heads=lambda w: w.mean(1), mix=lambda a, i: (a + i) / 2):
    identity = torch.eye(layers[0].shape[-1], dtype=layers[0].dtype)
    result = identity.expand(len(layers[0]), -1, -1)
    for weights in layers:
        result = mix(heads(weights), identity) @ result
    return result


@wrong("attention_rollout", "first layer is leftmost")
def in_the_wrong_order(layers):
    """result @ step, as a loop invites."""
    return carried(layers[::-1])


@wrong("attention_rollout", "no residual")
def no_residual(layers):
    """The product of the maps."""
    return carried(layers, mix=lambda a, i: a)


@wrong("attention_rollout", "nothing is halved")
def not_halved(layers):
    """A + I."""
    return carried(layers, mix=lambda a, i: a + i)


@wrong("attention_rollout", "needs its brackets")
def brackets_forgotten(layers):
    """A + I / 2."""
    return carried(layers, mix=lambda a, i: a + i / 2)


@wrong("attention_rollout", "added up, and not averaged")
def heads_added(layers):
    """sum over heads."""
    return carried(layers, heads=lambda w: w.sum(1))


@wrong("attention_rollout", "largest weight over the heads")
def largest_head(layers):
    """One of the options of a published program."""
    return carried(layers, heads=lambda w: w.amax(1))


@wrong("attention_rollout", "transposed: rows are the queries")
def each_map_transposed(layers):
    """Queries and keys exchanged."""
    return carried(layers, heads=lambda w: w.mean(1).mT)


@wrong("attention_rollout", "averaged, and not multiplied")
def averaged_layers(layers):
    """A mean over layers is another method."""
    identity = torch.eye(layers[0].shape[-1])
    return torch.stack([(w.mean(1) + identity) / 2 for w in layers]).mean(0)


@wrong("attention_rollout", "number by number")
def elementwise(layers):
    """* for @."""
    identity = torch.eye(layers[0].shape[-1])
    return torch.stack([(w.mean(1) + identity) / 2 for w in layers]).prod(0)


@wrong("attention_rollout", "added once")
def residual_at_the_end(layers):
    """The identity once."""
    return (carried(layers, mix=lambda a, i: a) + torch.eye(layers[0].shape[-1])) / 2


@wrong("attention_rollout", "result is transposed")
def transposed_result(layers):
    """Read by columns."""
    return carried(layers).mT


@wrong("attention_rollout", "average is taken at the end")
def head_by_head(layers):
    """Heads do not stay apart through W_O."""
    heads = range(layers[0].shape[1])
    return torch.stack([carried([w[:, h : h + 1] for w in layers]) for h in heads]).mean(0)


@wrong("attention_rollout", "last layer is left out")
def off_by_one(layers):
    """range(len(layers) - 1)."""
    return carried(layers[:-1]) if len(layers) > 1 else carried(layers)


@wrong("attention_rollout", "the first layer is there twice")
def first_layer_twice(layers):
    """The product begins with it, and the loop does too."""
    return carried([layers[0], *layers])


@wrong("attention_rollout", "axes of length 1")
def rollout_squeezed(layers):
    """squeeze(0), for a map that can be drawn."""
    return carried(layers).squeeze(0)


# ---- head_importance


@right("head_importance")
def with_jacobian(loss_of, num_layers, num_heads):
    ones = torch.ones(num_layers, num_heads)
    return torch.autograd.functional.jacobian(loss_of, ones).abs()


@right("head_importance")
def with_func_grad(loss_of, num_layers, num_heads):
    return torch.func.grad(loss_of)(torch.ones(num_layers, num_heads)).abs().detach()


@right("head_importance")
def with_backward_on_the_gates_only(loss_of, num_layers, num_heads):
    gates = torch.ones(num_layers, num_heads, requires_grad=True)
    loss_of(gates).backward(inputs=[gates])
    return gates.grad.abs()


@right("head_importance")
def importance_with_double_gates(loss_of, num_layers, num_heads):
    gates = torch.full((num_layers, num_heads), 1.0, dtype=torch.double).requires_grad_()
    loss = loss_of(gates)
    return torch.autograd.grad(loss, [gates])[0].detach().abs()


def slope(loss_of, num_layers, num_heads, at=1.0):
    gates = torch.full((num_layers, num_heads), at, requires_grad=True)
    return torch.autograd.grad(loss_of(gates), gates)[0]


@wrong("head_importance", "absolute value is missing")
def signed(loss_of, num_layers, num_heads):
    """The gradient itself."""
    return slope(loss_of, num_layers, num_heads)


@wrong("head_importance", "gates are 0")
def at_zero(loss_of, num_layers, num_heads):
    """zeros for ones."""
    return slope(loss_of, num_layers, num_heads, 0.0).abs()


@wrong("head_importance", "divided by their sum")
def shares(loss_of, num_layers, num_heads):
    """Shares look nicer in a figure."""
    size = slope(loss_of, num_layers, num_heads).abs()
    return size / size.sum()


@wrong("head_importance", "divided by their length")
def layer_norms(loss_of, num_layers, num_heads):
    """The published code normalises by layer."""
    size = slope(loss_of, num_layers, num_heads).abs()
    return size / size.norm(dim=-1, keepdim=True)


@wrong("head_importance", "squared")
def squares(loss_of, num_layers, num_heads):
    """Fisher information."""
    return slope(loss_of, num_layers, num_heads) ** 2


@wrong("head_importance", "one at a time")
def one_at_a_time(loss_of, num_layers, num_heads):
    """The measure that it stands for."""
    result = torch.zeros(num_layers, num_heads)
    with torch.no_grad():
        whole = loss_of(torch.ones(num_layers, num_heads))
        for layer in range(num_layers):
            for head in range(num_heads):
                gates = torch.ones(num_layers, num_heads)
                gates[layer, head] = 0
                result[layer, head] = loss_of(gates) - whole
    return result.abs()


@wrong("head_importance", "loss.backward()")
def into_every_grad(loss_of, num_layers, num_heads):
    """backward fills the model's gradients as well."""
    gates = torch.ones(num_layers, num_heads, requires_grad=True)
    loss_of(gates).backward()
    return gates.grad.abs()


@wrong("head_importance", "hangs on the result")
def still_attached(loss_of, num_layers, num_heads):
    """create_graph=True."""
    gates = torch.ones(num_layers, num_heads, requires_grad=True)
    return torch.autograd.grad(loss_of(gates), gates, create_graph=True)[0].abs()


@wrong("head_importance", "loss_of was called with")
def flat_gates(loss_of, num_layers, num_heads):
    """One long row of gates."""
    gates = torch.ones(num_layers * num_heads, requires_grad=True)
    return torch.autograd.grad(loss_of(gates), gates)[0].abs()


@wrong("head_importance", "for each layer")
def by_layer(loss_of, num_layers, num_heads):
    """Summed over the heads."""
    return slope(loss_of, num_layers, num_heads).abs().sum(-1)


# ---- same_output


def null_space(value):
    constraints = torch.cat([value, torch.ones_like(value[:, :1])], dim=1).T
    return torch.linalg.svd(constraints).Vh[len(constraints) :]  # (Lk − d_v − 1, Lk)


def limit(weights, direction):
    return torch.where(direction < 0, -weights / direction, torch.inf).amin(-1, keepdim=True)


@right("same_output")
def to_the_first_zero(weights, value):
    weights, value = weights.double(), value.double()
    direction = null_space(value)[0]
    return (weights + limit(weights, direction) * direction).clamp(min=0)


@right("same_output")
def by_projection(weights, value):
    weights, value = weights.double(), value.double()
    both = torch.cat([value, torch.ones(len(value), 1, dtype=torch.double)], 1)
    onto = torch.eye(len(value), dtype=torch.double) - both @ torch.linalg.pinv(both)
    direction = -onto[weights.argmax(-1)]  # away from the largest key of each row
    return weights + 0.9 * limit(weights, direction) * direction


@right("same_output")
def with_qr(weights, value):
    weights, value = weights.double(), value.double()
    both = torch.cat([torch.ones(len(value), 1, dtype=torch.double), value], 1)
    direction = torch.linalg.qr(both, mode="complete").Q[:, -1]
    return weights - 0.3 * limit(weights, -direction) * direction


@right("same_output")
def other_weights_with_numpy(weights, value):
    w, v = weights.numpy().astype(np.float64), value.numpy().astype(np.float64)
    both = np.hstack([v, np.ones((len(v), 1))])
    direction = np.linalg.svd(both.T)[2][-1]
    rows = []
    for row in w:
        falls = direction < 0
        rows.append(row + 0.5 * (row[falls] / -direction[falls]).min() * direction)
    return torch.from_numpy(np.stack(rows))


@right("same_output")
def a_random_direction_for_each_row(weights, value):
    weights, value = weights.double(), value.double()
    null = null_space(value)
    direction = torch.randn(len(weights), len(null), dtype=torch.double) @ null
    return weights + 0.5 * limit(weights, direction) * direction


@right("same_output")
def in_half_precision_at_the_end(weights, value):
    return to_the_first_zero(weights, value).half()


@wrong("same_output", "compute in float64")
def in_single_precision(weights, value):
    """A model's dtype."""
    return to_the_first_zero(weights.float(), value.float()).float().double()


@wrong("same_output", "that were given")
def nothing_moved(weights, value):
    """The trivial answer."""
    return weights.clone()


@wrong("same_output", "column of ones")
def sum_forgotten(weights, value):
    """The null space of Vᵀ alone."""
    w, v = weights.double(), value.double()
    direction = torch.linalg.svd(v.T).Vh[v.shape[1]]
    direction = direction if abs(direction.sum()) > 1e-3 else torch.linalg.svd(v.T).Vh[-1]
    return w + 0.5 * limit(w, direction) * direction


@wrong("same_output", "negative weight")
def too_far(weights, value):
    """A step of fixed length."""
    return weights.double() + 5 * null_space(value.double())[0]


@wrong("same_output", "weights @ value has changed")
def rows_exchanged(weights, value):
    """Any other weights."""
    return weights.flip(-1)


@wrong("same_output", "of the way to its first zero")
def too_short(weights, value):
    """A step that is safe for all rows."""
    w, direction = weights.double(), null_space(value.double())[0]
    return w + 1e-2 * limit(w, direction) * direction


@wrong("same_output", "of the way to its first zero")
def one_limit_for_all(weights, value):
    """The smallest limit of all rows."""
    w, direction = weights.double(), null_space(value.double())[0]
    return w + limit(w, direction).min() * direction


@wrong("same_output", "weights @ value has changed")
def uniform(weights, value):
    """1 / Lk."""
    return torch.full_like(weights, 1 / weights.shape[-1])


@wrong("same_output", "adds up to")
def clamped(weights, value):
    """Negative weights set to 0."""
    return (weights.double() + 5 * null_space(value.double())[0]).clamp(min=0)


@wrong("same_output", "weights @ value has changed")
def clamped_and_normalised(weights, value):
    """... and the rows divided by their sums."""
    other = (weights.double() + 5 * null_space(value.double())[0]).clamp(min=0)
    return other / other.sum(-1, keepdim=True)


@wrong("same_output", "weights @ value has changed")
def a_zero_sum_direction(weights, value):
    """Only the sum is kept."""
    w = weights.double()
    direction = torch.linspace(-1, 1, w.shape[-1], dtype=torch.double)
    return w + 0.5 * limit(w, direction) * direction


@wrong("same_output", "adds up to")
def the_row_space(weights, value):
    """The first rows of Vh span what must be kept."""
    v = value.double()
    constraints = torch.cat([v, torch.ones_like(v[:, :1])], dim=1).T
    direction = torch.linalg.svd(constraints).Vh[0]
    w = weights.double()
    return w + 0.5 * torch.minimum(limit(w, direction), limit(w, -direction)) * direction


@wrong("same_output", "NaN or infinity")
def divided_by_zero(weights, value):
    """No direction: 0 / 0."""
    w = weights.double()
    direction = torch.zeros(w.shape[-1], dtype=torch.double)
    return w + (w / direction).amin(-1, keepdim=True) * direction


# ---- repaired_rollout_step


def filtered(a, keep):
    return a.scatter(-1, a.topk(a.shape[-1] - keep, -1, largest=False).indices, 0.0)


def eye_like(a):
    return torch.eye(len(a), dtype=a.dtype)


@right("repaired_rollout_step")
def with_normalize(attention, keep):
    step = (filtered(attention, keep) + eye_like(attention)) / 2
    return F.normalize(step, p=1, dim=-1)


@right("repaired_rollout_step")
def with_a_threshold(attention, keep):
    least = attention.topk(keep, -1).values[:, -1:]
    kept = torch.where(attention >= least, attention, 0.0)
    step = kept + eye_like(attention)
    return step / step.sum(1, keepdim=True)


@right("repaired_rollout_step")
def with_a_copy(attention, keep):
    attention = attention.clone()
    for row in attention:
        row[row.argsort()[: len(row) - keep]] = 0
    step = (attention + eye_like(attention)) / 2
    return (step.T / step.sum(-1)).T


@right("repaired_rollout_step")
def step_with_numpy(attention, keep):
    a = attention.numpy().astype(np.float64)
    for row in a:
        row[np.argsort(row)[: len(row) - keep]] = 0
    step = (a + np.eye(len(a))) / 2
    return torch.from_numpy(step / step.sum(1, keepdims=True))


@wrong("repaired_rollout_step", "each *column* is divided by the sum of a row")
def without_keepdim(attention, keep):
    """The published line."""
    step = (filtered(attention, keep) + eye_like(attention)) / 2
    return step / step.sum(-1)


@wrong("repaired_rollout_step", "changed its argument")
def in_place(attention, keep):
    """The other bug."""
    drop = attention.shape[-1] - keep
    attention.scatter_(-1, attention.topk(drop, -1, largest=False).indices, 0.0)
    step = (attention + eye_like(attention)) / 2
    return step / step.sum(-1, keepdim=True)


@wrong("repaired_rollout_step", "its own sum; it is the rows")
def columns_normalised(attention, keep):
    """dim=0."""
    step = (filtered(attention, keep) + eye_like(attention)) / 2
    return step / step.sum(0, keepdim=True)


@wrong("repaired_rollout_step", "nothing is normalised")
def not_normalised(attention, keep):
    """'The line is redundant', says a comment under the issue; not once weights are dropped."""
    return (filtered(attention, keep) + eye_like(attention)) / 2


@wrong("repaired_rollout_step", "before the residual")
def normalised_before(attention, keep):
    """Rows first, residual afterwards."""
    kept = filtered(attention, keep)
    return (kept / kept.sum(-1, keepdim=True) + eye_like(attention)) / 2


@wrong("repaired_rollout_step", "residual is missing")
def step_without_residual(attention, keep):
    """Filter and normalise."""
    kept = filtered(attention, keep)
    return kept / kept.sum(-1, keepdim=True)


@wrong("repaired_rollout_step", "not filtered")
def not_filtered(attention, keep):
    """keep is ignored."""
    return (attention + eye_like(attention)) / 2


@wrong("repaired_rollout_step", "`keep` weights are dropped")
def keep_dropped(attention, keep):
    """topk(keep) smallest."""
    kept = attention.scatter(-1, attention.topk(keep, -1, largest=False).indices, 0.0)
    step = (kept + eye_like(attention)) / 2
    return step / step.sum(-1, keepdim=True)


@wrong("repaired_rollout_step", "*smallest* weights")
def smallest_kept(attention, keep):
    """largest=False forgotten."""
    drop = attention.shape[-1] - keep
    kept = attention.scatter(-1, attention.topk(drop, -1).indices, 0.0)
    step = (kept + eye_like(attention)) / 2
    return step / step.sum(-1, keepdim=True)


@wrong("repaired_rollout_step", "of the whole map are kept")
def over_the_whole_map(attention, keep):
    """What the published program does: it drops a share of all weights."""
    length = len(attention)
    smallest = attention.flatten().topk(length * (length - keep), largest=False).indices
    kept = attention.flatten().scatter(0, smallest, 0.0).view(length, length)
    step = (kept + eye_like(attention)) / 2
    return step / step.sum(-1, keepdim=True)


@wrong("repaired_rollout_step", "> is too strict")
def above_the_threshold(attention, keep):
    """> for >=: the last of those that are to be kept falls out."""
    kept = attention * (attention > attention.topk(keep, -1).values[:, -1:])
    return F.normalize(kept + torch.eye(len(kept)).to(kept), p=1, dim=-1)


@wrong("repaired_rollout_step", "after the residual is added")
def filtered_after_the_residual(attention, keep):
    """The lines in another order."""
    step = (attention + torch.eye(len(attention)).to(attention)) / 2
    return F.normalize(filtered(step, keep), p=1, dim=-1)


@wrong("repaired_rollout_step", "everything is dropped where nothing is to be")
def the_last_none_are_all(attention, keep):
    """[-0:] is the whole row."""
    drop = attention.shape[-1] - keep
    smallest = attention.argsort(-1, descending=True)[:, -drop:]
    kept = attention.scatter(-1, smallest, 0.0)
    return F.normalize(kept + eye_like(kept), p=1, dim=-1)


@right("same_output")
def exactly_a_tenth(weights, value):
    w, v = weights.double(), value.double()
    both = torch.cat([v, torch.ones_like(v[:, :1])], dim=1).T
    direction = torch.linalg.svd(both).Vh[-1]
    room = torch.where(direction < 0, -w / direction, torch.inf).amin(-1, keepdim=True)
    return w + 0.1 * room * direction


def rolled_out(mean, layers):
    result = identity = torch.eye(layers[0].shape[-1], dtype=layers[0].dtype)
    for weights in layers:
        result = (mean(weights) + identity) / 2 @ result
    return result


@wrong("attention_rollout", "the number of heads is written down")
def divided_by_three_heads(layers):
    """The 3 of the example, typed in."""
    return rolled_out(lambda weights: weights.sum(1) / 3, layers)


@wrong("attention_rollout", "the number of heads is written down")
def the_first_three_heads(layers):
    """Three heads have been seen."""
    return rolled_out(lambda weights: weights[:, :3].mean(1), layers)


@right("attention_rollout")
def as_many_heads_as_there_are(layers):
    return rolled_out(lambda weights: torch.einsum("bhqk->bqk", weights / weights.shape[1]), layers)
