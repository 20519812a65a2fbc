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


@wrong("attention_entropy", "In float16, a 1e-9")
def with_an_epsilon_that_vanishes(weights):
    """The usual remedy."""
    return -(weights * (weights + 1e-9).log()).sum(-1)


@wrong("attention_entropy", "axes of length 1")
def squeezed(weights):
    """`keepdim`, and then `squeeze()` of every axis of length 1."""
    return torch.special.entr(weights).sum(-1, keepdim=True).squeeze()


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


@wrong("alignment_error", "Your code stopped", "weights (1, 6)")
def all_axes_of_length_one_squeezed(weights, truth):
    """One query has only one row."""
    hit = truth.gather(-1, weights.argmax(-1, keepdim=True)).squeeze()
    return 1 - hit[truth.any(-1)].float().mean().item()


@wrong("alignment_error", "first true key")
def first_true_key(weights, truth):
    """truth.argmax finds the first."""
    asked = truth.any(-1)
    return (weights.argmax(-1) != truth.int().argmax(-1))[asked].double().mean().item()


@wrong("alignment_error", "rows without one are not left out")
def two_argmaxes(weights, truth):
    """The shortest: as the accuracy of a classifier."""
    return (weights.argmax(-1) != truth.int().argmax(-1)).double().mean().item()


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


@wrong("repaired_rollout_step", "changed its argument")
def in_place(attention, keep):
    """The other bug."""
    drop = attention.shape[-1] - keep
    attention.scatter_(-1, attention.topk(drop, -1, largest=False).indices, 0.0)
    step = (attention + eye_like(attention)) / 2
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


@right("attention_rollout")
def as_many_heads_as_there_are(layers):
    return rolled_out(lambda weights: torch.einsum("bhqk->bqk", weights / weights.shape[1]), layers)
