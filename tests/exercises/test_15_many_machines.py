"""The checks of exercise 15. A mistake's text ends the sentence "This is the answer when …"."""

import math
import numbers
from itertools import product
from statistics import mean

import torch
from torch import Tensor, nn

from course.checking import CheckFailed, expect
from course.checking.diagnosis import expect_no_memory, expect_predictions

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

# ---- predicted_machines


def test_the_six_numbers_of_many_machines_are_predicted(predicted_machines):
    hints = {
        "a": {
            3: "That is the mean of the means: a token of the first counts three times as much.",
            6: "Those are the two means, added up.",
            140: "That is the sum of all losses. Divide by the tokens.",
            2.5: "The weights are exchanged: which process has 30 tokens?",
            70: "Divide by the number of tokens, not of processes.",
            None: "Add up all losses, add up all tokens, divide.",
        },
        "b": {
            8: "Those are the weights alone.",
            16: "Weights and gradients, or the two moments: both are asked for.",
            24: "There are two moments for each parameter.",
            64: "A number in float32 has 4 bytes.",
            16e9: "That is a number of numbers, or of bytes without the last two kinds: in "
            "gigabytes it has two digits.",
            32e9 / 2**30: "That is in units of 2³⁰ bytes. Here a gigabyte has 10⁹.",
            32e9: "That is in bytes. A gigabyte has 10⁹ of them.",
            None: "Four numbers for each parameter, of 4 bytes each.",
        },
        "c": {
            4: "Each machine keeps *all* weights and gradients.",
            32: "That is one machine alone: an eighth of the moments is enough.",
            17: "There are two moments for each parameter.",
            16: "And its eighth of the moments?",
            18e9 / 2**30: "That is in units of 2³⁰ bytes. Here a gigabyte has 10⁹.",
            2: "Those are its moments. Weights and gradients come to it.",
            11: "Only the moments are divided; weights *and* gradients are kept in full.",
            10: "Only the moments are divided; weights *and* gradients are kept in full.",
            None: "16 for weights and gradients, and an eighth of 16 for the moments.",
        },
        "d": {
            3 / 12: "Divide by all the minutes, and not by those in which it works.",
            3: "Those are the minutes in which it stands still. Of how many?",
            12 / 15: "That is the share of the time in which it works.",
            0.75: "It waits only while the belt fills and empties: 3 minutes.",
            4 / 15: "The first machine begins at once: the last waits for three others.",
            4 / 12: "The first machine begins at once: the last waits for three others.",
            0: "Who has the last quarter has nothing to do in the first minute.",
            3 / 48: "Count the minutes of one machine, and not of all four.",
            20: "As a share between 0 and 1.",
            15: "Those are all minutes. In how many does one machine stand still?",
            None: "12 minutes of work for each; the last begins 3 minutes after the first.",
        },
        "e": {
            30: "Each layer adds 4 places: the place itself was counted before.",
            24: "The place itself counts, too.",
            5: "That is one layer.",
            5**6: "Without dilation the reach grows by the same amount in each layer.",
            4096: "Without dilation the reach grows by the same amount in each layer.",
            31: "Width 5 means itself and four before it.",
            None: "One layer sees 5 places, two layers 9.",
        },
        "f": {
            10: "That would be without the exchange.",
            1: "That is the time of ten machines, in seconds.",
            0.6: "That is the work of ten machines; the exchange comes to it.",
            1 / 6: "That is upside down.",
            5: "6 seconds, divided by how many?",
            6.4: "One machine has nothing to exchange.",
            15: "And how long is the exchange compared with the work?",
            None: "The time of one machine, divided by the time of ten.",
        },
    }
    right = {"a": 3.5, "b": 32, "c": 18, "d": 0.2, "e": 25, "f": 6}
    expect_predictions(predicted_machines(), right, hints, within=6e-3)


# ---- accumulate_gradients


class Model(nn.Module):
    """A small model with a parameter that the loss does not use, and one that is frozen."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(0.5 * torch.randn(9, 5))
        self.out = nn.Linear(5, 9)
        self.unused = nn.Parameter(torch.randn(3))
        self.frozen = nn.Parameter(torch.randn(5), requires_grad=False)

    def forward(self, tokens):
        return self.out(torch.tanh(self.table[tokens] + self.frozen))


def summed_loss(model, batch):
    """Sum of −log p of the next token over the real tokens (0 is padding), and their number."""
    logits, targets = model(batch[:, :-1]), batch[:, 1:]
    real = targets != 0
    each = -logits.log_softmax(-1).gather(-1, targets[..., None]).squeeze(-1)
    return 30 * (each * real).sum(), int(real.sum())  # so large that a clipped gradient shows


def uneven_batches():
    """Three batches with 16, 3 and 7 tokens to predict."""
    full = torch.randint(1, 9, (4, 5))
    short = torch.zeros(2, 5, dtype=torch.long)
    short[0, :3], short[1, :2] = torch.tensor([1, 5, 2]), torch.tensor([3, 7])
    middle = torch.zeros(2, 5, dtype=torch.long)
    middle[0], middle[1, :4] = torch.tensor([4, 4, 1, 8, 2]), torch.tensor([6, 2, 2, 5])
    return [full, short, middle]


NAMES = ("table", "out.weight", "out.bias")


def gradients_of(model, batches, weight=None, divide=None):
    """The gradient of Σ weight(count) · summed loss, divided by `divide(counts)`."""
    weight = weight or (lambda count: 1.0)
    parts = [summed_loss(model, batch) for batch in batches]
    counts = [count for _, count in parts]
    divisor = sum(counts) if divide is None else divide(counts)
    total = sum(weight(count) * loss for loss, count in parts if count) / divisor
    wanted = [dict(model.named_parameters())[name] for name in NAMES]
    return tuple(torch.autograd.grad(total, wanted)), float(total.detach())


def last_alone(model, batches):
    loss, count = summed_loss(model, batches[-1])
    wanted = [dict(model.named_parameters())[name] for name in NAMES]
    return tuple(g / count for g in torch.autograd.grad(loss, wanted))


def gradient_mistakes(model, batches, old):
    right, _ = gradients_of(model, batches)
    of_sum, _ = gradients_of(model, batches, divide=lambda counts: 1)
    means, _ = gradients_of(model, batches, weight=lambda n: 1 / n, divide=len)
    sums_of_means, _ = gradients_of(model, batches, weight=lambda n: 1 / n, divide=lambda c: 1)
    tokens = sum(count for _, count in (summed_loss(model, batch) for batch in batches))
    last = last_alone(model, batches)
    count = summed_loss(model, batches[-1])[1]

    def plus(one, other):
        return tuple(a + b for a, b in zip(one, other, strict=True))

    def times(factor, one):
        return tuple(factor * a for a in one)

    mistakes = {
        "each batch's mean is taken, and the means are averaged: divide the sum by all tokens, "
        "once. (Major trainers did this until 2024.)": means,
        "the means of the batches are added up: divide the sum by all tokens, once.": (
            sums_of_means
        ),
        "the gradient of the sum is left: divide it by the number of all tokens.": of_sum,
        "the sum is divided by the number of batches, and not of tokens.": (
            gradients_of(model, batches, divide=len)[0]
        ),
        "only the last batch is left: the gradients are cleared inside of the loop.": last,
        "only the last batch is left, and divided by all tokens: the gradients are cleared inside "
        "of the loop.": times(count / tokens, last),
        "only the last batch is left, not divided: the gradients are cleared inside of the "
        "loop.": times(count, last),
        "the sum is divided by the tokens of the last batch alone.": times(1 / count, of_sum),
        "the sum is divided by the number of sentences: loss_fn says how many tokens count.": (
            times(1 / sum(map(len, batches)), of_sum)
        ),
        "the sum is divided by all places of the batches: loss_fn says how many tokens count.": (
            times(1 / sum(batch.numel() for batch in batches), of_sum)
        ),
        "it is divided twice by the number of tokens.": times(1 / tokens, right),
        "it is divided by the number of tokens, and by the number of batches.": times(
            1 / len(batches), right
        ),
        "the sign is wrong.": times(-1, right),
        "the gradient is clipped to a length of 1: that is another step's business.": times(
            1 / float(torch.stack([g.norm() for g in right]).norm()), right
        ),
    }
    if old:
        mistakes |= {
            "what stood in `.grad` before is still in it: clear it first.": plus(right, old),
            "what stood in `.grad` before is divided and still in it: clear it first.": plus(
                right, times(1 / tokens, old)
            ),
            "what stood in `.grad` before is still there, and nothing else.": old,
            "what stood in `.grad` before is still in it, and the means of the batches are "
            "averaged.": plus(means, old),
        }
    return mistakes


def expect_accumulated(answer, model, batches, *, old=False, call=""):
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    parameters = dict(model.named_parameters())
    stale = []
    for name in NAMES:
        parameters[name].grad = torch.randn_like(parameters[name]) if old else None
        stale.append(parameters[name].grad.clone() if old else None)
    model.unused.grad = torch.ones(3) if old else None
    right, loss = gradients_of(model, batches)
    mistakes = gradient_mistakes(model, batches, tuple(stale) if old else ())
    came = answer(model, batches, summed_loss)
    if came is None:
        raise CheckFailed("It returned None. Return the mean loss per token, as a float.", call)
    for name, value in before.items():
        if not torch.equal(parameters[name], value):
            raise CheckFailed(
                f"The weights in {name} have changed. Leave the step to the optimizer; only "
                "`.grad` is asked for."
            )
    missing = [name for name in NAMES if parameters[name].grad is None]
    if missing:
        raise CheckFailed(
            f"{missing[0]} has no gradient afterwards. Call `loss.backward()` for each batch, and "
            "do not clear the gradients behind it."
        )
    frozen = model.frozen.grad
    if frozen is not None and bool(frozen.any()):
        raise CheckFailed("A frozen parameter has got a gradient.")
    grads = tuple(parameters[name].grad.clone() for name in NAMES)
    expect(grads, right, mistakes, names=[f"The gradient of {n}" for n in NAMES], call=call)
    if model.unused.grad is not None and bool(model.unused.grad.any()):
        raise CheckFailed(
            "A parameter that the loss does not depend on keeps the `.grad` that it had before, "
            "and the optimizer would move it. Clear the gradient of every parameter.",
            call,
        )
    return came, loss


def expect_mean_loss(came, model, batches, loss, call=""):
    parts = [summed_loss(model, batch) for batch in batches]
    sums, counts = [float(loss) for loss, _ in parts], [count for _, count in parts]
    means = [each / count for each, count in zip(sums, counts, strict=True) if count]
    if isinstance(came, Tensor) and came.dim() == 0 and came.requires_grad:
        raise CheckFailed(
            "The mean loss comes with its graph, which keeps all of the batches in memory. Return "
            "a float: `.item()`.",
            call,
        )
    mistakes = {
        "the loss that is returned is the mean of the batches' means; divide the sum by all "
        "tokens. (The gradients are right.)": mean(means),
        "the loss that is returned is the sum; divide it by the number of all tokens. (The "
        "gradients are right.)": sum(sums),
        "the loss that is returned is divided by the number of batches.": sum(sums) / len(sums),
        "the loss that is returned is that of the last batch alone.": means[-1],
        "the loss that is returned is the sum of the last batch alone.": sums[-1],
        "the loss that is returned is the sum of the batches' means.": sum(means),
        "the loss that is returned is the last batch's, divided by all tokens.": (
            sums[-1] / sum(counts)
        ),
    }
    expect(came, loss, mistakes, names=("The mean loss",), call=call)


def test_gradients_of_uneven_batches(accumulate_gradients):
    model, batches = Model(), uneven_batches()
    call = "accumulate_gradients(model, batches of 16, 3 and 7 tokens, loss_fn)"
    came, loss = expect_accumulated(accumulate_gradients, model, batches, call=call)
    expect_mean_loss(came, model, batches, loss, call)


def test_what_was_there_before_does_not_count(accumulate_gradients):
    model, batches = Model(), uneven_batches()
    call = "accumulate_gradients(model with old gradients, three batches, loss_fn)"
    came, loss = expect_accumulated(accumulate_gradients, model, batches, old=True, call=call)
    expect_mean_loss(came, model, batches, loss, call)


def test_a_batch_of_pads_alone_does_no_harm(accumulate_gradients):
    model, batches = Model(), uneven_batches()
    batches.insert(1, torch.zeros(2, 4, dtype=torch.long))
    call = "accumulate_gradients(model, four batches, one of them without a token, loss_fn)"
    came = accumulate_gradients(model, batches, summed_loss)
    if isinstance(came, float) and math.isnan(came):
        raise CheckFailed(
            "The mean loss is NaN: a batch without a token gives 0/0 if it is divided by its own "
            "number of tokens.",
            call,
        )
    came, loss = expect_accumulated(accumulate_gradients, model, batches, call=call)
    expect_mean_loss(came, model, batches, loss, call)


def test_a_parameter_that_two_modules_share(accumulate_gradients):
    model, batches = Model(), uneven_batches()
    model.out.weight = model.table
    losses, counts = zip(*(summed_loss(model, batch) for batch in batches), strict=True)
    shared = [model.table, model.out.bias]
    right = torch.autograd.grad(sum(losses) / sum(counts), shared)
    accumulate_gradients(model, batches, summed_loss)
    twice = "the gradient of a parameter that two modules share is divided twice: go through "
    expect(
        tuple(p.grad for p in shared),
        right,
        {f"{twice}`model.parameters()`, which has it once.": (right[0] / sum(counts), right[1])},
        names=("The gradient of the shared table", "The gradient of out.bias"),
        call="accumulate_gradients(model whose output layer shares the table, batches, loss_fn)",
    )


def test_one_batch_and_double_precision(accumulate_gradients):
    model = Model().double()
    came, loss = expect_accumulated(accumulate_gradients, model, uneven_batches()[2:])
    expect_mean_loss(came, model, uneven_batches()[2:], loss)


# ---- memory_of_a_step


KINDS = "weights", "gradients", "optimizer", "activations"
SIZES = "num_parameters", "num_layers", "d_model", "d_ff", "tokens", "bytes_each", "recompute"


def memory_of(P, N, d, f, T, b=4, again=False):
    one = 8 * d + f
    numbers = (N - 1) * d + one if again else N * one
    return dict(
        zip(KINDS, (b * P, b * P, 4 * P * (2 if b >= 4 else 3), b * T * numbers), strict=True)
    )


def memory_mistakes(P, N, d, f, T, b=4, again=False):
    """For each kind of memory, what a mistake makes of it."""
    one, kept = 8 * d + f, memory_of(P, N, d, f, T, b, again)["activations"]
    states = 2 if b >= 4 else 3
    in_short = {
        "the copy of the weights in 4 bytes is missing (or one of Adam's two moments): weights of "
        "fewer bytes need it.": 8 * P,
        "the moments have the bytes of a weight: they always have 4.": 2 * b * P,
        "the optimizer's numbers have the bytes of a weight: they always have 4.": states * b * P,
        "the copy of the weights has fewer than 4 bytes.": 8 * P + b * P,
    }
    of_optimizer = {
        "there is one moment: Adam has two.": 4 * P * (states - 1),
        "a copy of the weights is kept although they have 4 bytes or more.": 12 * P,
        "numbers are counted, and not bytes.": states * P,
        "the weights are counted with the optimizer.": 4 * P * states + b * P,
        "the gradients are counted with the optimizer, and the weights, too.": 4 * P * states
        + 2 * b * P,
    }
    in_full = {
        "recompute is not heeded: each layer keeps only its input.": b * T * N * one,
        "the layer that is computed again is missing: beside the inputs of all layers it lies in "
        "memory in full.": b * T * N * d,
        "the input of the layer that is computed again is counted twice.": b * T * (N * d + one),
        "one layer alone is counted: the inputs of all others are kept, too.": b * T * one,
        "the inputs of the other layers are left out, and one is counted in full; or d_model is "
        "taken once.": b * T * (one + d),
        "every layer but one keeps everything, and one its input.": b * T * ((N - 1) * one + d),
    }
    of_activations = {
        "num_layers is not used.": b * T * one,
        "the tokens are not used: each has its own numbers.": kept // T,
        "numbers are counted, and not bytes.": kept // b,
        "activations always have 4 bytes: they have bytes_each.": kept // b * 4,
        "activations always have 2 bytes: they have bytes_each.": kept // b * 2,
        "d_ff is left out.": kept // one * 8 * d if not again else b * T * ((N - 1) * d + 8 * d),
        "d_ff is counted twice.": kept + b * T * f * (1 if again else N),
        "d_ff is counted eight times, as d_model is.": kept + 7 * b * T * f * (1 if again else N),
        "d_model is counted once in a layer, and not eight times.": kept
        - 7 * b * T * d * (1 if again else N),
        "d_model and d_ff have changed places.": b
        * T
        * ((N - 1) * f + 8 * f + d if again else N * (8 * f + d)),
        "the activations have a gradient beside them: they are counted once.": 2 * kept,
        "only the inputs of the layers are kept, as with recompute.": b * T * N * d,
        "it is the number with recompute, although it is off.": b * T * ((N - 1) * d + one),
        "the weights are counted with the activations.": kept + b * P,
    }
    return {
        "weights": {
            "numbers are counted, and not bytes.": P,
            "weights always have 4 bytes: they have bytes_each.": 4 * P,
            "weights always have 2 bytes: they have bytes_each.": 2 * P,
            "the gradients are counted with the weights.": 2 * b * P,
            "the copy in 4 bytes is counted with the weights: it belongs to the optimizer.": b * P
            + 4 * P,
            "the parameters are counted once for each layer: they are those of all layers.": b
            * P
            * N,
        },
        "gradients": {
            "numbers are counted, and not bytes.": P,
            "gradients always have 4 bytes: they have bytes_each.": 4 * P,
            "gradients always have 2 bytes: they have bytes_each.": 2 * P,
            "each token has a gradient of its own: they are added up.": b * P * T,
            "the weights are counted with the gradients.": 2 * b * P,
        },
        "optimizer": (in_short if b < 4 else {}) | of_optimizer,
        "activations": (in_full if again else {}) | of_activations,
    }


def expect_memory(answer, *sizes):
    shown = ", ".join(f"{n} {s}" for n, s in zip(SIZES, sizes, strict=False))
    came, call = answer(*sizes), f"memory_of_a_step({shown})"
    if not isinstance(came, dict):
        expect(came, memory_of(*sizes), call=call)
    if came.keys() != set(KINDS):
        names = ", ".join(map(str, came)) or "nothing"
        raise CheckFailed(f"The dict has {names}; expected {', '.join(KINDS)}.", call)
    right, known = memory_of(*sizes), memory_mistakes(*sizes)
    for kind in KINDS:
        value = came[kind]
        value = value.item() if isinstance(value, Tensor) and value.ndim == 0 else value
        if not isinstance(value, numbers.Real):
            expect(value, right[kind], names=(kind,), call=call)
        mistakes = {
            f"{kind}: {text}": wrong for text, wrong in known[kind].items() if wrong != right[kind]
        }
        if value != right[kind]:  # close is not enough: bytes are counted
            expect(value, right[kind], mistakes, names=(kind,), call=call)
            raise CheckFailed(f"{kind} is {value:,}, expected {right[kind]:,}.", call)


def test_a_step_in_float32(memory_of_a_step):
    expect_memory(memory_of_a_step, 1000, 3, 7, 11, 13)
    expect_memory(memory_of_a_step, 44_000_000, 6, 512, 2048, 25_000)


def test_a_step_in_bfloat16(memory_of_a_step):
    expect_memory(memory_of_a_step, 1000, 3, 7, 11, 13, 2)
    expect_memory(memory_of_a_step, 7_000_000_000, 32, 4096, 11_008, 8192, 2)


def test_a_step_that_recomputes(memory_of_a_step):
    some = (1000, 3, 7, 11, 13), (900, 1, 5, 20, 6), (80, 4, 6, 6, 5)
    for sizes, each in product(some, (4, 2)):
        expect_memory(memory_of_a_step, *sizes, each, True)


def test_a_step_in_other_dtypes(memory_of_a_step):
    for each in (1, 8):
        expect_memory(memory_of_a_step, 1000, 3, 7, 11, 13, each)


def test_each_step_is_counted_anew(memory_of_a_step):
    def in_order(*sizes):
        came = memory_of_a_step(*sizes)
        return [came.get(kind) for kind in KINDS] if isinstance(came, dict) else came

    def right(*sizes):
        return tuple(memory_of(*sizes).values())

    expect_no_memory(in_order, right, (1000, 3, 7, 11, 13), (900, 2, 8, 10, 14))


# ---- repaired_shares


def shares_of(losses, real, size):
    return torch.stack([losses[r::size][real[r::size]].sum() for r in range(size)]) / real.sum()


def shares_mistakes(losses, real, size):
    clean = losses.double().masked_fill(~real, 0)
    B, L = losses.shape
    whole = real.sum()

    def own(rank):
        return clean[rank::size].sum(), real[rank::size].sum()

    def each(part):
        return torch.stack(
            [torch.as_tensor(part(*own(r)), dtype=torch.double) for r in range(size)]
        )

    def means(loss, count):
        return loss / count if count else loss

    right = each(lambda loss, count: loss / whole)
    chunk, first = B // size, slice(0, B // size)
    chunks = [slice(r * chunk, (r + 1) * chunk) for r in range(size)]
    tensor_split = [part.sum() for part in clean.tensor_split(size)]
    torch_chunks = [part.sum() for part in clean.chunk(size)]
    dropped = clean[: chunk * size]
    same = clean[first].sum()
    row_means = clean.sum(1) / real.sum(1).clamp(min=1)
    cut = losses.double() * (torch.arange(L) < real.sum(1, keepdim=True))
    above_0 = losses > 0
    dealt = losses[real].double()

    def by_sentences(rank):
        mean = means(*own(rank))
        return mean * len(clean[rank::size]) / B

    return {
        "nothing has changed: every process reads the same sentences, and divides by their tokens "
        "and by the number of processes.": lambda: (same / real[first].sum() / size).repeat(size),
        "each sentence is averaged first: then a token of a short one counts more.": (
            torch.stack([row_means[r::size].sum() for r in range(size)]) / B
        ),
        "each process takes the mean over its own tokens, and the means are averaged: divide by "
        "the tokens of the whole batch.": each(lambda loss, count: means(loss, count) / size),
        "each process takes the mean over its own tokens: divide by the tokens of the whole "
        "batch.": each(means),
        "nothing is divided: the sum of these is the summed loss.": right * whole,
        "it is divided by the number of processes, too: the contributions are added up.": (
            right / size
        ),
        "it is multiplied by the number of processes: that is for gradients that are averaged; "
        "here they are added up.": right * size,
        "it is divided by all places, padding among them.": right * whole / (B * L),
        "it is divided by the number of sentences.": right * whole / B,
        "it is divided by the places of each process's own sentences.": each(lambda loss, _: loss)
        / torch.tensor([len(clean[r::size]) * L for r in range(size)]).clamp(min=1),
        "every process reads the same sentences: rank takes rank, rank + size, …": lambda: (
            same / whole
        ).repeat(size),
        "every process reads the same sentences, and averages over their tokens.": lambda: (
            same / real[first].sum()
        ).repeat(size),
        "every process reads all sentences.": (clean.sum() / whole).repeat(size),
        "every process reads all sentences, and the result is divided by their number.": (
            (clean.sum() / whole / size).repeat(size)
        ),
        "the sentences are handed out in blocks: process rank takes rank, rank + size, …": (
            torch.stack(tensor_split) / whole
        ),
        "the sentences are handed out in blocks, as torch.chunk cuts them: process rank takes "
        "rank, rank + size, …": lambda: torch.stack(torch_chunks) / whole,
        "the sentences are handed out in blocks, and what is left over is read by nobody.": (
            torch.stack([clean[part].sum() for part in chunks]) / whole
        ),
        "the sentences that are left over are read by nobody.": (
            torch.stack([dropped[r::size].sum() for r in range(size)]) / whole
        ),
        "one number is returned, the sum over the processes.": right.sum(),
        "the processes are in the wrong order.": right.flip(0),
        "padded places are not left out; anything may stand there, so that `losses > 0` does not "
        "tell them.": torch.stack([losses[r::size].double().sum() for r in range(size)]) / whole,
        "each row is cut behind as many places as it has real ones: pads may stand anywhere.": (
            torch.stack([cut[r::size].sum() for r in range(size)]) / whole
        ),
        "`losses > 0` is taken for `real`: anything may stand at padded places.": (
            shares_of(losses.double(), above_0, size)
        ),
        "single tokens are dealt out, and not sentences.": (
            torch.stack([dealt[r::size].sum() for r in range(size)]) / whole
        ),
        "single tokens are dealt out, and not sentences; and `losses > 0` is taken for `real`.": (
            torch.stack([losses[above_0][r::size].double().sum() for r in range(size)]) / whole
        ),
        "the mean of each process is weighted by its sentences: weight it by its real tokens.": (
            torch.stack([by_sentences(r) for r in range(size)])
        ),
    }


def shared_batch(B, L, dtype=torch.float32, padding=300.0):
    """Losses of sentences of very different lengths; at padded places stands something large."""
    lengths = torch.randint(1, L + 1, (B,))
    real = torch.arange(L) < lengths[:, None]
    losses = (0.5 + 2 * torch.rand(B, L)).masked_fill(~real, padding)
    return losses.to(dtype), real


NAN_SHARES = (
    "0/0: a process without a real token contributes 0. Or inf · 0: choose the real places by "
    "indexing, or with torch.where, and do not multiply."
)


def check_shares(repaired_shares, losses, real, size):
    expected = shares_of(losses.double(), real, size).to(losses.dtype)
    mistakes = in_dtype(shares_mistakes(losses, real, size), losses.dtype)
    expect(repaired_shares(losses, real, size), expected, mistakes, nan=NAN_SHARES)


def test_the_contributions_of_all_processes(repaired_shares):
    for B, L, size in ((7, 5, 2), (8, 4, 4), (5, 6, 3), (3, 3, 1), (6, 6, 2)):
        check_shares(repaired_shares, *shared_batch(B, L), size)
    losses, real = torch.rand(7, 5) + 0.5, torch.rand(7, 5) < 0.5  # pads at any place
    real[:, -1] = True
    check_shares(repaired_shares, losses.masked_fill(~real, 300.0), real, 2)


def test_a_process_without_a_real_token(repaired_shares):
    losses, real = shared_batch(6, 4)
    real[1::3] = False
    check_shares(repaired_shares, losses, real, 3)
    check_shares(repaired_shares, *shared_batch(2, 4), 3)  # fewer sentences than processes
    for empty in range(4):  # beside another sentence in the same process
        losses, real = shared_batch(4, 3)
        real[empty] = False
        check_shares(repaired_shares, losses, real, 2)


def test_what_stands_at_padded_places_does_not_count(repaired_shares):
    for padding in (math.inf, math.nan, -math.inf):
        check_shares(repaired_shares, *shared_batch(6, 5, padding=padding), 2)


def test_contributions_in_float64(repaired_shares):
    check_shares(repaired_shares, *shared_batch(7, 5, torch.float64), 2)


def test_a_gradient_reaches_the_losses(repaired_shares):
    losses, real = shared_batch(7, 5)
    losses.requires_grad_()
    answer, call = repaired_shares(losses, real, 2), "repaired_shares(losses, real, 2)"
    came = gradient(answer, losses, f"{UNLEARNT}, so nothing can be learnt. {WITHOUT}", call)
    expect(came, real / real.sum(), names=("The gradient of the losses",), call=call)


def test_each_contribution_is_computed_anew(repaired_shares):
    first, second = ((*shared_batch(6, 5), 2) for _ in range(2))
    expect_no_memory(repaired_shares, shares_of, first, second)
