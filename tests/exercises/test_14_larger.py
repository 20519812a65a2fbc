"""The checks of exercise 14. A mistake's text ends the sentence "This is the answer when …"."""

import math
import numbers

import torch
import torch.nn.functional as F
from torch import Tensor

from course.checking import CheckFailed, expect
from course.checking.diagnosis import CUT, expect_no_memory, expect_predictions

OVERFLOW = "exp of a large number is inf, and inf/inf is NaN. PyTorch's own function avoids it."

UNLEARNT = "No gradient hangs on the result"
WITHOUT = (
    "Do without .detach(), .numpy(), .data, .item(), .tolist(), torch.tensor() and torch.no_grad()."
)


def gradient(answer, leaf, why, call):
    """Return the gradient of the sum of `answer`, or say why none comes through."""
    came = None
    if isinstance(answer, Tensor) and answer.requires_grad:
        (came,) = torch.autograd.grad(answer.sum(), leaf, allow_unused=True)
    if came is None:
        raise CheckFailed(why, call)
    return came


def in_dtype(mistakes, dtype):
    return {
        text: (lambda wrong=wrong: (wrong() if callable(wrong) else wrong).to(dtype))
        for text, wrong in mistakes.items()
    }

# ---- predicted_growth


def test_the_six_numbers_of_growth_are_predicted(predicted_growth):
    hints = {
        "a": {
            2e19: "That is parameters times tokens. Each pair of them costs 6 operations.",
            4e19: "That is the forward pass. Backward costs twice as much.",
            8e19: "That is the backward pass. Forward comes to it.",
            6e19: "That is with multiply-adds: a multiplication and an addition are 2 operations.",
            1.2e19: "Count the zeros again.",
            1.2e21: "Count the zeros again.",
            None: "6 · parameters · tokens.",
        },
        "b": {
            25: "Then the time would grow by 625: it is proportional to their product.",
            12.5: "Their product grows by the factor, times the factor.",
            625: "That is 25 squared. What squared is 25?",
            4: "That would be for 16 times as much.",
            25 ** (1 / 3): "Parameters and tokens are two factors, and not three.",
            None: "x · x = 25.",
        },
        "c": {
            3 / 16: "The expert that all tokens use counts, too.",
            3 / 17: "The expert that all tokens use is used by this one as well.",
            4 / 16: "The expert that all tokens use is one of those stored: 17 in all.",
            4: "That is how many a token uses. Which share of all is that?",
            4 / 20: "There are 16 others, and 1.",
            400 / 17: "As a share between 0 and 1.",
            None: "How many a token uses, divided by how many there are.",
        },
        "d": {
            0.4: "E is missing.",
            1: "That is the loss when all is even. Here one expert gets everything.",
            4: "That would be with probability 1. The router gives expert 0 only 0.4.",
            1.12: "The shares are counts: expert 0 gets every token, so its share is 1.",
            0.28: "The shares are counts: expert 0 gets every token. And E is missing.",
            None: "The share of expert 0 is 1, of the others 0.",
        },
        "e": {
            8: "The gate is forgotten: the answer is multiplied by its probability.",
            31: "That is both experts, mixed. The token goes to one of them.",
            25: "The token goes to the expert with the *larger* score.",
            100: "The token goes to the expert with the larger score, and there is a gate.",
            8 * math.log(3): "The gate is the softmax probability, and not the score.",
            0.75: "That is the gate. What does it multiply?",
            2: "The gate is 3/(3 + 1): which expert has it?",
            54: "That is the mean of both.",
            None: "The softmax of ln 3 and 0, and its larger part times 8.",
        },
        "f": {
            2047: "2048 is a 1 and eleven zeros: the last need not be stored. Go one step further.",
            2049: "2049 needs twelve binary digits.",
            1024: "1025 has eleven binary digits, so it can be stored.",
            4096: "2049 needs twelve binary digits. What becomes of it?",
            256: "That is bfloat16, which has 8 binary digits.",
            65_504: "That is where float16 ends. Before that it loses digits.",
            2**24: "That is float32, which has 24 binary digits.",
            2**16: "Eleven digits, not sixteen: the other bits are sign and exponent.",
            None: "Which is the first whole number that needs twelve binary digits?",
        },
    }
    right = {"a": 1.2e20, "b": 5, "c": 4 / 17, "d": 1.6, "e": 6, "f": 2048}
    expect_predictions(predicted_growth(), right, hints, within=6e-3)


# ---- training_flops


def parts_of(d, f, N, V, S, T):
    """Multiply-adds of one forward pass, by part."""
    return {
        "encoder projections": N * S * 4 * d * d,
        "encoder attention": N * 2 * S * S * d,
        "encoder network": N * S * 2 * d * f,
        "decoder projections": N * T * 4 * d * d,
        "decoder attention": N * 2 * T * T * d,
        "decoder network": N * T * 2 * d * f,
        "cross queries": N * 2 * T * d * d,
        "cross keys": N * 2 * S * d * d,
        "cross attention": N * 2 * T * S * d,
        "words": T * d * V,
    }


def flops_of(*sizes, factor=6, **replaced):
    return factor * sum((parts_of(*sizes) | replaced).values())


FORGOTTEN = {
    "the product with the vocabulary is missing.": ("words",),
    "the feed-forward networks are missing.": ("encoder network", "decoder network"),
    "the two products of attention, Q Kᵀ and A V, are missing everywhere.": (
        "encoder attention",
        "decoder attention",
        "cross attention",
    ),
    "cross-attention is missing: a decoder layer has two attentions.": (
        "cross queries",
        "cross keys",
        "cross attention",
    ),
    "the projections of cross-attention are missing.": ("cross queries", "cross keys"),
    "Q Kᵀ and A V of cross-attention are missing.": ("cross attention",),
    "the projections are missing everywhere.": (
        "encoder projections",
        "decoder projections",
        "cross queries",
        "cross keys",
    ),
    "the decoder's layers are missing.": (
        "decoder projections",
        "decoder attention",
        "decoder network",
        "cross queries",
        "cross keys",
        "cross attention",
    ),
    "the encoder is missing.": ("encoder projections", "encoder attention", "encoder network"),
}


def flops_mistakes(d, f, N, V, S, T):
    sizes = (d, f, N, V, S, T)
    parts = parts_of(*sizes)
    mistakes = {
        text: flops_of(*sizes, **{}, factor=6) - 6 * sum(parts[name] for name in names)
        for text, names in FORGOTTEN.items()
    }

    def with_parts(factor=6, **changes):
        changed = parts | {name.replace("_", " "): value for name, value in changes.items()}
        return factor * sum(changed.values())

    mistakes |= {
        "backward is missing: it costs twice what forward does.": with_parts(2),
        "backward counts once, or forward is left out: backward makes two products for each of "
        "forward's, and the step has both.": with_parts(4),
        "multiply-adds are counted: each is 2 operations.": with_parts(3),
        "multiply-adds of the forward pass alone are counted.": with_parts(1),
        "it is multiplied by 2 once too often.": with_parts(12),
        "cross-attention's keys and values are made from the target: they come from the "
        "source.": with_parts(cross_keys=N * 2 * T * d * d),
        "cross-attention's queries are made from the source: they come from the target.": (
            with_parts(cross_queries=N * 2 * S * d * d)
        ),
        "all four projections of cross-attention see source and target.": with_parts(
            cross_queries=N * 4 * T * d * d, cross_keys=N * 4 * S * d * d
        ),
        "cross-attention's W_Q or W_O is applied to the source: both belong to the target.": (
            with_parts(cross_queries=N * (S + T) * d * d)
        ),
        "cross-attention's products are target × target: they are target × source.": with_parts(
            cross_attention=N * 2 * T * T * d
        ),
        "cross-attention's products are source × source: they are target × source.": with_parts(
            cross_attention=N * 2 * S * S * d
        ),
        "the causal mask leaves out the future, T (T + 1) / 2 pairs: here it saves nothing.": (
            with_parts(decoder_attention=N * T * (T + 1) * d)
        ),
        "the causal mask halves the decoder's attention: here it saves nothing.": with_parts(
            decoder_attention=N * T * T * d
        ),
        "each attention has one product: there are two, Q Kᵀ and A V.": with_parts(
            encoder_attention=N * S * S * d,
            decoder_attention=N * T * T * d,
            cross_attention=N * T * S * d,
        ),
        "each attention has three projections: W_O is missing.": with_parts(
            encoder_projections=N * S * 3 * d * d,
            decoder_projections=N * T * 3 * d * d,
            cross_queries=N * T * d * d,
        ),
        "cross-attention has three projections: its W_Q or W_O is missing.": with_parts(
            cross_queries=N * T * d * d
        ),
        "cross-attention has three projections: its W_K or W_V is missing.": with_parts(
            cross_keys=N * S * d * d
        ),
        "a feed-forward network has one matrix: it has two.": with_parts(
            encoder_network=N * S * d * f, decoder_network=N * T * d * f
        ),
        "the product with the vocabulary is made for the source, too.": with_parts(
            words=(S + T) * d * V
        ),
        "the product with the vocabulary is made once in each layer.": with_parts(
            words=N * T * d * V
        ),
        "looking up embeddings is counted as a product: it is free.": with_parts(
            words=T * d * V + (S + T) * d * V
        ),
        "there is one layer in each stack: num_layers is ignored.": 6
        * sum(parts_of(d, f, 1, V, S, T).values()),
        "num_layers counts both stacks together: it is the number in each.": (
            3 * sum(v for name, v in parts.items() if name != "words") + 6 * parts["words"]
        ),
        "the product with the vocabulary is made at the source's length, or source and target "
        "lengths have changed places.": flops_of(d, f, N, V, T, S),
        "d_model and d_ff have changed places.": flops_of(f, d, N, V, S, T),
        "it is the rule of thumb, 6 × weights × tokens of both sides.": 6
        * (N * (12 * d * d + 4 * d * f) + d * V)
        * (S + T),
        "the attention's products are quadratic in the target length everywhere.": with_parts(
            encoder_attention=N * 2 * T * T * d, cross_attention=N * 2 * T * T * d
        ),
    }
    return mistakes


def expect_flops(answer, *sizes):
    right, came = flops_of(*sizes), answer(*sizes)
    mistakes = {text: value for text, value in flops_mistakes(*sizes).items() if value != right}
    if not isinstance(came, numbers.Real):
        expect(came, right)  # a tensor of one number is as good
        return
    names = ("d_model", "d_ff", "num_layers", "vocab_size", "source_length", "target_length")
    shown = ", ".join(f"{name} {size}" for name, size in zip(names, sizes, strict=True))
    expect(came, right, mistakes, call=f"training_flops({shown})")
    if came != right:  # close, and not equal
        raise CheckFailed(f"It returned {came:,}, expected {right:,}.", f"training_flops({shown})")


def test_operations_that_can_be_counted_by_hand(training_flops):
    expect_flops(training_flops, 6, 10, 3, 17, 5, 9)  # sizes that keep all mistakes apart
    expect_flops(training_flops, 2, 3, 1, 5, 1, 1)


def test_operations_of_larger_models(training_flops):
    for sizes in ((128, 256, 4, 10_000, 13, 17), (512, 2048, 6, 37_000, 25, 30)):
        expect_flops(training_flops, *sizes)
    expect_flops(training_flops, 64, 64, 2, 100, 900, 7)


# ---- top1_route


def route(x, weight):
    gate, expert = (x @ weight).softmax(-1).max(-1)
    return expert, gate


def route_mistakes(x, weight):
    scores = x.double() @ weight.double()
    p = scores.softmax(-1)
    gate, expert = p.max(-1)
    E = p.shape[1]

    def gates(g):
        return lambda: (expert, (g() if callable(g) else g).to(x.dtype))

    worst = p.min(-1)
    over_tokens = scores.softmax(0)
    raw = scores.max(-1).values
    scaled = (scores / math.sqrt(x.shape[1])).softmax(-1).amax(-1)
    top2 = scores.topk(min(2, E), -1).values.softmax(-1)[:, 0]
    return {
        "expert and gate are exchanged: the expert comes first.": lambda: (
            gate.to(x.dtype),
            expert,
        ),
        "the gate is 1. So it always is with a softmax after the choice, of one number: take it "
        "over all experts first. (`gate / gate.detach()` is 1, too, and not the probability.)": (
            gates(torch.ones_like(gate))
        ),
        "the softmax is taken after the choice, and over the tokens. Take it over all experts "
        "first.": gates(raw.softmax(0)),
        "the gate is the score: it is its softmax probability.": gates(raw),
        "the gate goes through σ: it is a softmax over the experts.": gates(raw.sigmoid()),
        "the softmax runs over the two best experts: it runs over all.": gates(top2),
        "the softmax runs over the tokens, for the gate alone.": gates(
            over_tokens.gather(1, expert[:, None])[:, 0]
        ),
        "the softmax runs over the tokens: dim=-1 is that of the experts.": lambda: (
            over_tokens.argmax(-1),
            over_tokens.amax(-1).to(x.dtype),
        ),
        "the best token of each expert is chosen: each *token* chooses its expert.": lambda: (
            p.argmax(0),
            p.amax(0).to(x.dtype),
        ),
        "the *least* probable expert is chosen.": lambda: (worst.indices, worst.values.to(x.dtype)),
        "the softmax is taken twice.": gates(p.softmax(-1).amax(-1)),
        "the gate is the logarithm of the probability.": gates(gate.log()),
        "the scores are divided by √d: a router does not.": gates(scaled),
        "the gate is the mean probability, 1/E.": gates(torch.full_like(gate, 1 / E)),
        "the gates of all experts are returned: only the chosen one's is asked for.": gates(p),
        "router_weight is transposed.": lambda: tuple(
            each if i == 0 else each.to(x.dtype)
            for i, each in enumerate(route(x.double(), weight.double().T))
        ),
        "experts are counted from 1.": lambda: (expert + 1, gate.to(x.dtype)),
        "the axis of the experts is kept: (N,) is asked for.": lambda: (
            expert[:, None],
            gate[:, None].to(x.dtype),
        ),
    }


def tokens_and_router(N, d, E, dtype=torch.float32):
    return torch.randn(N, d).to(dtype), torch.randn(d, E).to(dtype)


def check_route(top1_route, x, weight, hint=None):
    expert, gate = route(x.double(), weight.double())
    names = "The expert", "The gate"
    given = expert, gate.to(x.dtype)
    mistakes = route_mistakes(x, weight)
    expect(top1_route(x, weight), given, mistakes, names=names, nan=OVERFLOW, hint=hint)


def test_each_token_has_its_expert_and_its_gate(top1_route):
    for sizes in ((7, 5, 3), (4, 6, 2), (5, 5, 5), (1, 3, 4)):
        check_route(top1_route, *tokens_and_router(*sizes))


def test_a_route_in_other_dtypes(top1_route):
    check_route(top1_route, *tokens_and_router(6, 4, 3, torch.float64))
    x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.5, -1.0]]).half()
    check_route(top1_route, x, torch.tensor([[1.0, -1.0, 0.0], [0.0, 2.0, -1.0]]).half())


def test_a_route_with_large_scores(top1_route):
    x, weight = tokens_and_router(6, 4, 3, torch.float64)
    check_route(top1_route, 1000 * x, weight, hint=lambda _: OVERFLOW)


def test_the_router_learns_through_the_gate(top1_route):
    x, weight = tokens_and_router(6, 4, 3, torch.float64)
    weight.requires_grad_()
    answer = top1_route(x, weight)
    check_route(lambda *_: answer, x, weight.detach())
    came = gradient(answer[1], weight, CUT, "top1_route(x, router_weight)")
    (wanted,) = torch.autograd.grad(route(x, weight)[1].sum(), weight)
    expect(came, wanted, names=("The gradient of router_weight",), call="top1_route(x, …)")


def test_each_route_begins_anew(top1_route):
    expect_no_memory(top1_route, route, tokens_and_router(6, 4, 3), tokens_and_router(6, 4, 3))


# ---- balance_loss


def balance(probabilities, expert):
    E = probabilities.shape[-1]
    share = F.one_hot(expert, E).to(probabilities.dtype).mean(0)
    return E * (share * probabilities.mean(0)).sum()


def balance_mistakes(probabilities, expert):
    p = probabilities.double()
    N, E = p.shape
    mean, counts = p.mean(0), F.one_hot(expert, E).double().sum(0)
    share = counts / N
    own = F.one_hot(p.argmax(-1), E).double().mean(0)
    right = E * (share * mean).sum()
    present = counts > 0
    chosen = p.gather(1, expert[:, None])[:, 0]
    return {
        "E is missing; or the mean over the experts is taken, and not the sum.": right / E,
        "the tokens of each expert are counted, and not divided by N; or the probabilities are "
        "added up over the tokens, and not averaged.": right * N,
        "it is multiplied by N, the number of tokens, and not by E; or the counts are not divided "
        "by N and E is missing.": right * N / E,
        "neither is divided by N.": right * N * N,
        "the mean over the experts is taken: it is E times the sum.": right / E / E,
        "it is multiplied by E²: once is enough.": right * E,
        "only experts that have a token count for E: E is their number in all.": (
            right / E * present.sum()
        ),
        "the share is taken twice: the second factor is the mean probability.": (
            E * (share**2).sum()
        ),
        "the mean probability is taken twice: the first factor is the share of the tokens.": (
            E * (mean**2).sum()
        ),
        "the share comes from the largest probability: `expert` says where each token went.": (
            E * (own * mean).sum()
        ),
        "each token is multiplied with its own probability of its expert, or the probability of "
        "an expert is averaged over its own tokens alone: it is the mean over all tokens.": (
            E * chosen.mean()
        ),
        "each token is multiplied with its own probability of its expert, and E is missing.": (
            chosen.mean()
        ),
        "the logarithm of the probabilities is taken.": E * (share * mean.log()).sum(),
        "it is the entropy of the shares.": torch.special.entr(share).sum(),
        "it is the entropy of the mean probabilities.": torch.special.entr(mean).sum(),
        "1 is subtracted: the smallest value is 1 here.": right - 1,
        "the products are not added up.": E * share * mean,
        "the shares and the probabilities are added.": E * (share + mean).sum(),
        "the largest share is taken.": share.amax(),
        "it is a constant: E times the sum of the shares.": share.sum() * E,
        "it is the variance of the shares.": share.var(),
    }


def routed(N, E, absent=True):
    """Probabilities, and experts that are not always the most probable; the last has no token."""
    probabilities = (1.5 * torch.randn(N, E, dtype=torch.double)).softmax(-1).float()
    expert = torch.randint(E - absent, (N,))
    return probabilities, expert


def check_balance(balance_loss, probabilities, expert):
    expected = balance(probabilities.double(), expert).to(probabilities.dtype)
    mistakes = in_dtype(balance_mistakes(probabilities, expert), probabilities.dtype)
    expect(balance_loss(probabilities, expert), expected, mistakes)


def test_the_balance_of_experts(balance_loss):
    for N, E in ((9, 4), (6, 3), (5, 5), (11, 2)):
        for absent in (True, False):
            check_balance(balance_loss, *routed(N, E, absent))


def test_the_balance_when_all_is_even_and_when_one_has_all(balance_loss):
    check_balance(balance_loss, torch.full((8, 4), 0.25), torch.arange(8) % 4)
    check_balance(balance_loss, torch.eye(4)[[2] * 6], torch.full((6,), 2))


def test_the_balance_has_a_gradient(balance_loss):
    probabilities, expert = routed(8, 4)
    probabilities.requires_grad_()
    answer = balance_loss(probabilities, expert)
    check_balance(lambda *_: answer, probabilities.detach(), expert)
    call = "balance_loss(probabilities, expert)"
    came = gradient(answer, probabilities, f"{UNLEARNT}, so it balances nothing. {WITHOUT}", call)
    (wanted,) = torch.autograd.grad(balance(probabilities, expert), probabilities)
    expect(came, wanted, names=("The gradient of probabilities",), call=call)


def test_each_balance_is_computed_anew(balance_loss):
    expect_no_memory(balance_loss, balance, routed(8, 4), routed(8, 4))


# ---- repaired_balance


def balance_of(scores, k):
    E = scores.shape[-1]
    share = F.one_hot(scores.topk(k, -1).indices, E).to(scores.dtype).mean((1, 2))
    return E * (share * scores.softmax(-1).mean(1)).sum(-1).mean()


def several_mistakes(scores, k):
    s = scores.double()
    N, E = s.shape[1:]
    chosen = s.topk(k, -1).indices
    hot = F.one_hot(chosen, E).double()  # (layers, N, k, E)
    share, p = hot.mean((1, 2)), s.softmax(-1)
    mean = p.mean(1)
    right = E * (share * mean).sum(-1)  # of each layer
    first = hot[:, :, 0].mean(1)
    pot = hot.mean((0, 1, 2)), p.mean((0, 1))
    among = torch.zeros_like(p).scatter(-1, chosen, s.gather(-1, chosen).softmax(-1)).mean(1)
    worst = F.one_hot(s.topk(k, -1, largest=False).indices, E).double().mean((1, 2))
    top = torch.zeros_like(p).scatter(-1, chosen, p.gather(-1, chosen)).mean(1)
    every_k = (hot * p[:, :, None]).sum(-1).mean()

    def over(dim):
        return E * (share * s.softmax(dim).mean(1)).sum(-1).mean()

    return {
        "it is E/k, whatever the router does, as before: the softmax runs over the k chosen "
        "experts, and the mean of its numbers is 1/k.": torch.tensor(E / k).double(),
        "one bug is left: the layers are thrown into one pot. Keep their axis until the end.": (
            E * (pot[0] * pot[1]).sum()
        ),
        "the softmax runs over the chosen experts alone: take it over all E, before the choice.": (
            E * (share * among).sum(-1).mean()
        ),
        "the softmax runs over the chosen experts alone, and the layers are thrown into one pot.": (
            E * (pot[0] * among.mean(0)).sum()
        ),
        "the probabilities of experts that were not chosen count as 0: they count, too.": (
            E * (share * top).sum(-1).mean()
        ),
        "the losses of the layers are added up: it is their mean.": right.sum(),
        "only the first layer counts.": right[0],
        "only the last layer counts.": right[-1],
        "the largest loss of a layer is taken: it is their mean.": right.max(),
        "one number for each layer is returned: it is their mean.": right,
        "only the first choice of each token counts: each token has k.": (
            E * (first * mean).sum(-1).mean()
        ),
        "the shares of a layer add up to k: divide by N · k choices.": k * right.mean(),
        "E is missing; or the mean over the experts is taken, and not the sum.": right.mean() / E,
        "the mean over the experts is taken, and E is missing.": right.mean() / E / E,
        "it is multiplied by E²: once is enough.": E * right.mean(),
        "the choices are counted, and not divided by N.": N * right.mean(),
        "the choices are counted, and neither divided by N nor by k.": N * k * right.mean(),
        "the share is taken twice: the second factor is the mean probability.": (
            E * share.square().sum(-1).mean()
        ),
        "the mean probability is taken twice: the first factor is the share of the choices.": (
            E * mean.square().sum(-1).mean()
        ),
        "each choice is multiplied with its own token's probability: it is the mean over all "
        "tokens.": E * every_k,
        "the softmax runs over the tokens: it is over the experts.": lambda: over(1),
        "the softmax runs over the layers: it is over the experts.": lambda: over(0),
        "the scores are averaged, without a softmax.": E * (share * s.mean(1)).sum(-1).mean(),
        "the scores go through σ: it is a softmax over the experts.": (
            E * (share * s.sigmoid().mean(1)).sum(-1).mean()
        ),
        "the mean scores go through the softmax: it is the mean of the softmax.": (
            E * (share * s.mean(1).softmax(-1)).sum(-1).mean()
        ),
        "the k *least* probable experts are chosen.": E * (worst * mean).sum(-1).mean(),
        "it is multiplied by k, and not by E.": k * right.mean() / E,
        "1 is subtracted: the smallest value is about 1 here.": right.mean() - 1,
    }


def routers(layers, N, E, dtype=torch.float32):
    """Scores of routers, each of which prefers other experts."""
    return (torch.randn(layers, N, E) + 1.5 * torch.randn(layers, 1, E)).to(dtype)


def check_several(repaired_balance, scores, k):
    mistakes = in_dtype(several_mistakes(scores, k), scores.dtype)
    right = balance_of(scores.double(), k).to(scores.dtype)
    expect(repaired_balance(scores, k), right, mistakes, nan=OVERFLOW)


def test_the_balance_of_several_layers(repaired_balance):
    for (layers, N, E), k in (((3, 7, 5), 2), ((2, 6, 4), 3), ((4, 5, 6), 2), ((3, 3, 3), 2)):
        check_several(repaired_balance, routers(layers, N, E), k)


def test_one_choice_one_layer_and_all_experts(repaired_balance):
    for (layers, N, E), k in (((3, 7, 5), 1), ((1, 6, 4), 2), ((2, 6, 4), 4), ((2, 1, 4), 2)):
        check_several(repaired_balance, routers(layers, N, E), k)


def test_layers_that_prefer_different_experts(repaired_balance):
    scores = torch.randn(2, 6, 4)
    scores[0, :, 0] += 9
    scores[1, :, 1] += 9
    check_several(repaired_balance, scores, 1)
    check_several(repaired_balance, scores, 2)


def test_the_balance_of_layers_in_double_and_with_large_scores(repaired_balance):
    check_several(repaired_balance, routers(3, 7, 5, torch.float64), 2)
    check_several(repaired_balance, 1000 * routers(3, 7, 5, torch.float64), 2)


def test_the_balance_of_layers_has_a_gradient(repaired_balance):
    scores = routers(3, 7, 5, torch.float64).requires_grad_()
    answer, call = repaired_balance(scores, 2), "repaired_balance(scores (3, 7, 5), 2)"
    check_several(lambda *_: answer, scores.detach(), 2)
    came = gradient(answer, scores, f"{UNLEARNT}, so it balances nothing. {WITHOUT}", call)
    (wanted,) = torch.autograd.grad(balance_of(scores, 2), scores)
    expect(came, wanted, names=("The gradient of the scores",), call=call)


def test_each_balance_of_layers_is_computed_anew(repaired_balance):
    first, second = ((routers(3, 7, 5), 2) for _ in range(2))
    expect_no_memory(repaired_balance, balance_of, first, second)
