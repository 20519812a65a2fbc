"""Answers to exercise 14, wrong and right."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from catalogue import right, wrong

# ---- predicted_growth


NUMBERS = (1.2e20, 5, 4 / 17, 1.6, 6, 2048)


@right("predicted_growth")
def as_a_list():
    return list(NUMBERS)


@right("predicted_growth")
def as_a_tensor():
    return torch.tensor(NUMBERS, dtype=torch.float64)


@right("predicted_growth")
def in_a_tuple():
    return tuple(np.array(NUMBERS))


@right("predicted_growth")
def rounded_on_paper():
    return [1.2e20, 5, 0.235, 1.6, 6, 2048]


def but(**changes):
    return list((dict(zip("abcdef", NUMBERS, strict=True)) | changes).values())


@wrong("predicted_growth", "a is not 4e+19", "forward pass")
def forward_alone():
    """2ND."""
    return but(a=4e19)


@wrong("predicted_growth", "a is not 2e+19", "costs 6")
def parameters_times_tokens():
    """ND."""
    return but(a=2e19)


@wrong("predicted_growth", "a is not 1.2e+19", "zeros")
def a_zero_too_few():
    """A slip."""
    return but(a=1.2e19)


@wrong("predicted_growth", "b is not 25", "grow by 625")
def all_of_each():
    """25 times each."""
    return but(b=25)


@wrong("predicted_growth", "b is not 12.5", "times the factor")
def divided_by_two():
    """Half for each, added up."""
    return but(b=12.5)


@wrong("predicted_growth", "c is not 0.1875", "that all tokens use")
def routed_alone():
    """3 of 16."""
    return but(c=3 / 16)


@wrong("predicted_growth", "c is not 0.25", "17 in all")
def four_of_sixteen():
    """The common one is not counted below."""
    return but(c=4 / 16)


@wrong("predicted_growth", "d is not 0.4", "E is missing")
def without_the_number_of_experts():
    """share · p alone."""
    return but(d=0.4)


@wrong("predicted_growth", "d is not 1.12", "shares are counts")
def squares_of_probabilities():
    """4 · (0.16 + 3 · 0.04)."""
    return but(d=1.12)


@wrong("predicted_growth", "e is not 8", "gate is forgotten")
def gate_forgotten():
    """The bug of the lesson."""
    return but(e=8)


@wrong("predicted_growth", "e is not 31", "mixed")
def both_experts_mixed():
    """A soft mixture."""
    return but(e=0.75 * 8 + 0.25 * 100)


@wrong("predicted_growth", "e is not 8.789", "not the score")
def gate_is_the_score():
    """Without a softmax."""
    return but(e=8 * math.log(3))


@wrong("predicted_growth", "f is not 2047", "one step")
def eleven_ones():
    """11111111111."""
    return but(f=2047)


@wrong("predicted_growth", "f is not 256", "bfloat16")
def as_in_bfloat16():
    """The other half precision."""
    return but(f=256)


# ---- training_flops


@right("training_flops")
def line_by_line(d_model, d_ff, num_layers, vocab_size, source_length, target_length):
    total = 0
    for _ in range(num_layers):
        for length in (source_length, target_length):
            total += 4 * 2 * length * d_model * d_model
            total += 2 * 2 * length * length * d_model
            total += 2 * 2 * length * d_model * d_ff
        total += 2 * 2 * target_length * d_model**2 + 2 * 2 * source_length * d_model**2
        total += 2 * 2 * target_length * source_length * d_model
    total += 2 * target_length * d_model * vocab_size
    return 3 * total


@right("training_flops")
def by_stacks(d, f, N, V, S, T):
    encoder = N * (4 * S * d * d + 2 * S * S * d + 2 * S * d * f)
    own = 4 * T * d * d + 2 * T * T * d + 2 * T * d * f
    cross = 2 * (S + T) * d * d + 2 * S * T * d
    return 6.0 * (encoder + N * (own + cross) + T * d * V)


@right("training_flops")
def of_matrices(d, f, N, V, S, T):
    def product(m, k, n):
        return 2 * m * k * n

    def attention(q, k):
        return 2 * product(q, d, d) + 2 * product(k, d, d) + product(q, d, k) + product(q, k, d)

    def network(n):
        return product(n, d, f) + product(n, f, d)

    layer = attention(S, S) + network(S) + attention(T, T) + attention(T, S) + network(T)
    return np.int64(3 * (N * layer + product(T, d, V)))


@wrong("training_flops", "cross-attention is missing")
def no_cross(d, f, N, V, S, T):
    """Two encoders."""
    own = sum(n * (4 * d * d + 2 * d * f) + 2 * n * n * d for n in (S, T))
    return 6 * (N * own + T * d * V)


# ---- top1_route


@right("top1_route")
def with_gather(x, router_weight):
    probabilities = torch.softmax(x @ router_weight, -1)
    expert = probabilities.argmax(-1)
    return expert, probabilities.gather(-1, expert[:, None]).squeeze(-1)


@right("top1_route")
def with_topk(x, router_weight):
    gate, expert = (x @ router_weight).softmax(-1).topk(1, dim=-1)
    return expert[:, 0], gate[:, 0]


@right("top1_route")
def with_logsumexp(x, router_weight):
    scores = torch.einsum("nd,de->ne", x, router_weight)
    best = scores.max(-1)
    return best.indices, (best.values - scores.logsumexp(-1)).exp()


@right("top1_route")
def token_by_token(x, router_weight):
    chosen, gates = [], []
    for token in x:
        probabilities = (token @ router_weight).softmax(0)
        chosen.append(int(probabilities.argmax()))
        gates.append(probabilities[chosen[-1]])
    return torch.tensor(chosen), torch.stack(gates)


@wrong("top1_route", "the gate is 1", "`gate / gate.detach()`")
def gate_of_one_that_learns(x, router_weight):
    """The lesson's control: the value 1 with a gradient."""
    expert, gate = with_gather(x, router_weight)
    return expert, gate / gate.detach()


@wrong("top1_route", "cut off from the weights")
def gate_without_gradient(x, router_weight):
    """The router would never learn."""
    gate, expert = (x @ router_weight).softmax(-1).detach().max(-1)
    return expert, gate


@right("top1_route")
def sorted_in_double(x, router_weight):
    scores = torch.einsum("nd,de->ne", x.double(), router_weight.double())
    best = scores.softmax(-1).sort(-1, descending=True)
    return [best.indices[:, 0], best.values[:, 0]]


@wrong("top1_route", "exp of a large number")
def route_by_exp(x, router_weight):
    """The formula of the softmax as it stands."""
    power = (x @ router_weight).exp()
    return power.argmax(-1), power.amax(-1) / power.sum(-1)


@wrong("top1_route", "cut off from the weights")
def gates_in_a_new_tensor(x, router_weight):
    """The usual answer to "does not require grad"."""
    gate, expert = (x @ router_weight).softmax(-1).max(-1)
    return expert, torch.tensor(gate.tolist(), dtype=x.dtype, requires_grad=True)


# ---- balance_loss


def shares(probabilities, expert):
    return F.one_hot(expert, probabilities.shape[-1]).to(probabilities.dtype).mean(0)


@right("balance_loss")
def with_bincount(probabilities, expert):
    N, E = probabilities.shape
    share = torch.bincount(expert, minlength=E).to(probabilities.dtype) / N
    return E * share @ probabilities.mean(0)


@right("balance_loss")
def with_a_loop(probabilities, expert):
    N, E = probabilities.shape
    total = 0
    for e in range(E):
        total = total + (expert == e).sum() / N * probabilities[:, e].sum() / N
    return E * total


@right("balance_loss")
def looked_up(probabilities, expert):
    """The mean probability of the expert that each token went to, averaged over the tokens."""
    return probabilities.shape[-1] * probabilities.mean(0)[expert].mean()


@right("balance_loss")
def balance_in_double(probabilities, expert):
    wide = probabilities.double()
    share = (expert[:, None] == torch.arange(wide.shape[1])).double().mean(0)
    return (torch.einsum("e,ne->", share, wide) * wide.shape[1] / len(wide)).to(probabilities.dtype)


@right("balance_loss")
def shares_as_a_list(probabilities, expert):
    N, E = probabilities.shape
    share = torch.tensor([(expert == e).sum().item() / N for e in range(E)])
    return E * (share @ probabilities.mean(0))


@wrong("balance_loss", "No gradient hangs on the result")
def as_a_float(probabilities, expert):
    """A number to print, not to train with."""
    loss = probabilities.shape[-1] * (shares(probabilities, expert) * probabilities.mean(0)).sum()
    return torch.tensor(loss.item(), dtype=probabilities.dtype)


@right("balance_loss")
def every_pair_of_tokens(probabilities, expert):
    N, E = probabilities.shape
    went = torch.eye(E, dtype=probabilities.dtype)[expert]
    return torch.einsum("ne,me->", went, probabilities) * E / N**2


@wrong("balance_loss", "No gradient hangs on the result")
def balance_in_a_new_tensor(probabilities, expert):
    """The usual answer to "does not require grad"."""
    return torch.tensor(looked_up(probabilities, expert).item(), requires_grad=True)


# ---- repaired_balance


@right("repaired_balance")
def layer_by_layer(scores, k):
    losses = []
    for layer in scores:
        N, E = layer.shape
        chosen = layer.argsort(-1, descending=True)[:, :k]
        share = torch.bincount(chosen.flatten(), minlength=E).to(layer.dtype) / (N * k)
        losses.append(E * share @ F.softmax(layer, -1).mean(0))
    return sum(losses) / len(losses)


@right("repaired_balance")
def with_scatter(scores, k):
    E, p = scores.shape[-1], scores.softmax(-1)
    went = torch.zeros_like(scores).scatter(2, p.topk(k).indices, 1.0)
    return (went.mean(1) / k * p.mean(1)).sum(1).mul(E).mean()


@right("repaired_balance")
def with_einsum_over_pairs_of_tokens(scores, k):
    layers, N, E = scores.shape
    wide = scores.double()
    smallest = wide.topk(k, -1).values[..., -1:]
    went = (wide >= smallest).double()
    answer = torch.einsum("lne,lme->", went, wide.softmax(-1)) * E / (layers * N * N * k)
    return answer.to(scores.dtype)


@right("repaired_balance")
def token_by_token_and_choice_by_choice(scores, k):
    layers, N, E = scores.shape
    power = (scores - scores.amax(-1, keepdim=True)).exp()
    mean = (power / power.sum(-1, keepdim=True)).sum(1) / N
    total = scores.new_zeros(())
    for layer in range(layers):
        for token in range(N):
            for expert in scores[layer, token].topk(k).indices.tolist():
                total = total + mean[layer, expert]
    return E * total / (layers * N * k)


@right("repaired_balance")
def choices_in_numpy(scores, k):
    """The shares need no gradient, so NumPy may count them."""
    N, E = scores.shape[1:]
    order = np.argsort(-scores.detach().numpy(), axis=-1)[..., :k]
    share = np.stack([np.bincount(each.ravel(), minlength=E) for each in order]) / (N * k)
    share = torch.from_numpy(share).to(scores.dtype)
    return E * torch.einsum("le,le->l", share, scores.softmax(-1).mean(1)).mean()


def balance_with(scores, k, share=None, probability=None, end=lambda each: each.mean()):
    E = scores.shape[-1]
    chosen = scores.topk(k, -1).indices
    share = F.one_hot(chosen, E).to(scores.dtype).mean((1, 2)) if share is None else share
    probability = scores.softmax(-1).mean(1) if probability is None else probability
    return end(E * (share * probability).sum(-1))


@wrong("repaired_balance", "it is E/k")
def still_constant(scores, k):
    """As it was."""
    E = scores.shape[-1]
    best, chosen = scores.flatten(0, 1).topk(k, dim=-1)
    share = F.one_hot(chosen, E).to(scores.dtype).mean(dim=(0, 1))
    return E * (share * best.softmax(dim=-1).mean()).sum()


@wrong("repaired_balance", "one bug is left", "one pot")
def still_in_one_pot(scores, k):
    """One bug of two."""
    return balance_with(scores.flatten(0, 1)[None], k)


@wrong("repaired_balance", "it is E/k", "over the k chosen")
def still_over_the_chosen(scores, k):
    """The other bug of two."""
    mean = scores.topk(k, -1).values.softmax(-1).mean((1, 2))
    return balance_with(scores, k, probability=mean[:, None])


@wrong("repaired_balance", "softmax runs over the chosen experts alone")
def spread_after_the_softmax(scores, k):
    """Mixtral's weights, put where the experts are."""
    best, chosen = scores.topk(k, -1)
    p = torch.zeros_like(scores).scatter(-1, chosen, best.softmax(-1))
    return balance_with(scores, k, probability=p.mean(1))


@wrong("repaired_balance", "add up to k")
def shares_of_tokens(scores, k):
    """A token has k choices, and each counts in full."""
    went = F.one_hot(scores.topk(k, -1).indices, scores.shape[-1]).to(scores.dtype)
    return balance_with(scores, k, share=went.sum(2).mean(1))


@wrong("repaired_balance", "only the first choice")
def first_choices(scores, k):
    """argmax."""
    went = F.one_hot(scores.argmax(-1), scores.shape[-1]).to(scores.dtype)
    return balance_with(scores, k, share=went.mean(1))


@wrong("repaired_balance", "added up")
def layers_added_up(scores, k):
    """One loss more for each layer."""
    return balance_with(scores, k, end=lambda each: each.sum())


@wrong("repaired_balance", "one number for each layer")
def a_loss_for_each_layer(scores, k):
    """The last mean is forgotten."""
    return balance_with(scores, k, end=lambda each: each)


@wrong("repaired_balance", "softmax runs over the tokens")
def softmax_over_the_tokens(scores, k):
    """dim=1 is the last axis of a router of one layer."""
    return balance_with(scores, k, probability=scores.softmax(1).mean(1))


@wrong("repaired_balance", "mean of the softmax")
def softmax_of_the_mean(scores, k):
    """The two steps in the wrong order."""
    return balance_with(scores, k, probability=scores.mean(1).softmax(-1))


@wrong("repaired_balance", "E is missing")
def mean_over_experts(scores, k):
    """`mean` in the place of `sum`."""
    return balance_with(scores, k) / scores.shape[-1]


@wrong("repaired_balance", "No gradient hangs on the result")
def balance_of_layers_as_a_number(scores, k):
    """What a log shows."""
    return torch.tensor(balance_with(scores, k).item(), dtype=scores.dtype)


@wrong("repaired_balance", "No gradient hangs on the result")
def shares_that_learn_nothing(scores, k):
    """The softmax under no_grad, since the choice has no gradient either."""
    with torch.no_grad():
        return balance_with(scores, k)


@wrong("repaired_balance", "exp of a large number")
def softmax_as_it_stands(scores, k):
    """eˢ / Σ eˢ."""
    power = scores.exp()
    return balance_with(scores, k, probability=(power / power.sum(-1, keepdim=True)).mean(1))


@wrong("repaired_balance", "*least* probable")
def the_least_probable(scores, k):
    """argsort sorts from the smallest."""
    went = F.one_hot(scores.argsort(-1)[..., :k], scores.shape[-1]).to(scores.dtype)
    return balance_with(scores, k, share=went.mean((1, 2)))
