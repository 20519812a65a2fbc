"""Answers to exercise 15, wrong and right."""

import numpy as np
import torch
from catalogue import right, wrong

# ---- predicted_machines


NUMBERS = (3.5, 32, 18, 0.2, 25, 6)


@right("predicted_machines")
def as_a_list():
    return list(NUMBERS)


@right("predicted_machines")
def as_a_tensor():
    return torch.tensor(NUMBERS, dtype=torch.float64)


@right("predicted_machines")
def in_a_tuple():
    return tuple(np.array(NUMBERS))


@right("predicted_machines")
def rounded_on_paper():
    return [3.5, 32, 18, 0.2, 25, 6.0]


def but(**changes):
    return list((dict(zip("abcdef", NUMBERS, strict=True)) | changes).values())


@wrong("predicted_machines", "a is not 3.", "mean of the means")
def mean_of_two_means():
    """The bug of the last task."""
    return but(a=3)


@wrong("predicted_machines", "b is not 8", "weights alone")
def weights_alone():
    """As on disk."""
    return but(b=8)


@wrong("predicted_machines", "b is not 24", "two moments")
def one_moment():
    """As with momentum."""
    return but(b=24)


@wrong("predicted_machines", "b is not 32000000000", "A gigabyte")
def in_bytes():
    """Right, but for the unit."""
    return but(b=32_000_000_000)


@wrong("predicted_machines", "c is not 4", "*all* weights")
def all_divided_by_eight():
    """Everything is sharded."""
    return but(c=4)


@wrong("predicted_machines", "c is not 16", "eighth of the moments")
def no_moments():
    """They are somewhere else."""
    return but(c=16)


@wrong("predicted_machines", "d is not 0.25", "all the minutes")
def waiting_over_working():
    """3 / 12."""
    return but(d=3 / 12)


@wrong("predicted_machines", "d is not 0.8", "in which it works")
def share_of_work():
    """The rest of it."""
    return but(d=0.8)


@wrong("predicted_machines", "d is not 0.75", "fills and empties")
def one_at_a_time():
    """As if the batch were not cut."""
    return but(d=0.75)


@wrong("predicted_machines", "e is not 30", "counted before")
def width_times_layers():
    """5 · 6."""
    return but(e=30)


@wrong("predicted_machines", "e is not 24", "itself")
def without_itself():
    """4 · 6."""
    return but(e=24)


@wrong("predicted_machines", "f is not 10", "without the exchange")
def nothing_to_exchange():
    """10."""
    return but(f=10)


@wrong("predicted_machines", "f is not 1", "time of ten")
def the_time():
    """In seconds."""
    return but(f=1)


@wrong("predicted_machines", "f is not 6.4", "nothing to exchange")
def the_one_exchanges_too():
    """6.4 / 1."""
    return but(f=6.4)


# ---- accumulate_gradients


@right("accumulate_gradients")
def divide_at_the_end(model, batches, loss_fn):
    model.zero_grad()
    losses, tokens = 0, 0
    for batch in batches:
        loss, count = loss_fn(model, batch)
        loss.backward()
        losses, tokens = losses + loss.detach(), tokens + count
    with torch.no_grad():
        for p in model.parameters():
            if p.grad is not None:
                p.grad.div_(tokens)
    return (losses / tokens).item()


@right("accumulate_gradients")
def count_first(model, batches, loss_fn):
    with torch.no_grad():
        tokens = sum(loss_fn(model, batch)[1] for batch in batches)
    for p in model.parameters():
        p.grad = None
    mean = 0.0
    for batch in batches:
        loss = loss_fn(model, batch)[0] / tokens
        loss.backward()
        mean += float(loss)
    return mean


@right("accumulate_gradients")
def one_large_graph(model, batches, loss_fn):
    losses, counts = zip(*(loss_fn(model, batch) for batch in batches), strict=True)
    loss = sum(losses) / sum(counts)
    model.zero_grad(set_to_none=False)
    loss.backward()
    return loss.item()


@right("accumulate_gradients")
def with_autograd_grad(model, batches, loss_fn):
    wanted = [p for p in model.parameters() if p.requires_grad]
    total, tokens, grads = 0.0, 0, [torch.zeros_like(p) for p in wanted]
    for batch in batches:
        loss, count = loss_fn(model, batch)
        for sum_, g in zip(
            grads, torch.autograd.grad(loss, wanted, allow_unused=True), strict=True
        ):
            if g is not None:
                sum_ += g
        total, tokens = total + loss.item(), tokens + count
    for p, g in zip(wanted, grads, strict=True):
        p.grad = g / tokens
    return np.float64(total / tokens)


@wrong("accumulate_gradients", "what stood in `.grad` before")
def never_cleared(model, batches, loss_fn):
    """No zero_grad."""
    with torch.no_grad():
        tokens = sum(loss_fn(model, batch)[1] for batch in batches)
    mean = 0.0
    for batch in batches:
        loss = loss_fn(model, batch)[0] / tokens
        loss.backward()
        mean += loss.item()
    return mean


@wrong("accumulate_gradients", "A parameter that the loss does not depend on")
def only_what_the_loss_reaches(model, batches, loss_fn):
    """`allow_unused`, and where None came back, nothing is done."""
    learning = [p for p in model.parameters() if p.requires_grad]
    parts = [loss_fn(model, batch) for batch in batches]
    loss = sum(part for part, _ in parts) / sum(count for _, count in parts)
    grads = torch.autograd.grad(loss, learning, allow_unused=True)
    for parameter, grad in zip(learning, grads, strict=True):
        if grad is not None:
            parameter.grad = grad
    return loss.item()


@wrong("accumulate_gradients", "has no gradient afterwards")
def no_backward(model, batches, loss_fn):
    """Evaluation."""
    model.zero_grad()
    with torch.no_grad():
        found = [loss_fn(model, batch) for batch in batches]
    return sum(float(loss) for loss, _ in found) / sum(count for _, count in found)


@wrong("accumulate_gradients", "the gradient is clipped")
def clips(model, batches, loss_fn):
    """As in the training loop of lesson 08."""
    mean = divide_at_the_end(model, batches, loss_fn)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    return mean


@wrong("accumulate_gradients", "The weights in table have changed")
def takes_the_step(model, batches, loss_fn):
    """The optimizer's work is done as well."""
    mean = divide_at_the_end(model, batches, loss_fn)
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    return mean


@wrong("accumulate_gradients", "Return the mean loss per token")
def returns_nothing(model, batches, loss_fn):
    """The gradients alone."""
    divide_at_the_end(model, batches, loss_fn)


@wrong("accumulate_gradients", "comes with its graph")
def returns_the_graph(model, batches, loss_fn):
    """No .item()."""
    model.zero_grad()
    losses, counts = zip(*(loss_fn(model, batch) for batch in batches), strict=True)
    loss = sum(losses) / sum(counts)
    loss.backward()
    return loss


# ---- memory_of_a_step


KINDS = ("weights", "gradients", "optimizer", "activations")


@right("memory_of_a_step")
def by_parts(num_parameters, num_layers, d_model, d_ff, tokens, bytes_each=4, recompute=False):
    P, b = num_parameters, bytes_each
    numbers = num_layers * (8 * d_model + d_ff)
    if recompute:
        numbers = num_layers * d_model + 7 * d_model + d_ff
    optimizer = 2 * 4 * P
    if b < 4:
        optimizer += 4 * P
    return dict(
        weights=b * P, gradients=b * P, optimizer=optimizer, activations=b * tokens * numbers
    )


@right("memory_of_a_step")
def summed_in_a_loop(P, N, d, f, T, b=4, again=False):
    activations = 0
    for layer in range(N):
        whole = not again or layer == 0
        activations += T * b * (8 * d + f if whole else d)
    each = {"weights": b, "gradients": b, "optimizer": 8 + 4 * (b in (1, 2))}
    return {name: P * size for name, size in each.items()} | {"activations": activations}


@right("memory_of_a_step")
def in_floats(P, N, d, f, T, b=4, again=False):
    kept = T * ([8.0 * d + f] + (N - 1) * [d if again else 8 * d + f])[0]
    kept += T * (N - 1) * (d if again else 8 * d + f)
    moments = np.float64(P) * 4 + P * 4
    copy = 0.0 if b >= 4 else 4.0 * P
    values = (float(b * P), float(b * P), moments + copy, b * kept)
    return dict(zip(KINDS[::-1], values[::-1], strict=True))


@right("memory_of_a_step")
def as_tensors_of_one(P, N, d, f, T, b=4, again=False):
    answer = by_parts(P, N, d, f, T, b, again)
    return {name: torch.tensor(value) for name, value in answer.items()}


def step_with(P, N, d, f, T, b=4, again=False, **changed):
    return by_parts(P, N, d, f, T, b, again) | changed


@wrong("memory_of_a_step", "the copy of the weights in 4 bytes is missing")
def without_a_copy(P, N, d, f, T, b=4, again=False):
    """16 bytes less for a parameter, it seems."""
    return step_with(P, N, d, f, T, b, again, optimizer=8 * P)


@wrong("memory_of_a_step", "the moments have the bytes of a weight")
def moments_in_half(P, N, d, f, T, b=4, again=False):
    """Everything in bytes_each."""
    return step_with(P, N, d, f, T, b, again, optimizer=2 * b * P)


@wrong("memory_of_a_step", "there is one moment")
def momentum(P, N, d, f, T, b=4, again=False):
    """As SGD with momentum."""
    return step_with(P, N, d, f, T, b, again, optimizer=4 * P * (1 if b >= 4 else 2))


@wrong("memory_of_a_step", "kept although they have 4 bytes or more")
def always_a_copy(P, N, d, f, T, b=4, again=False):
    """Three numbers, always."""
    return step_with(P, N, d, f, T, b, again, optimizer=12 * P)


@wrong("memory_of_a_step", "weights: numbers are counted")
def weights_in_numbers(P, N, d, f, T, b=4, again=False):
    """Not bytes."""
    return step_with(P, N, d, f, T, b, again, weights=P)


@wrong("memory_of_a_step", "gradients always have 4 bytes")
def gradients_in_full(P, N, d, f, T, b=4, again=False):
    """As some programs do."""
    return step_with(P, N, d, f, T, b, again, gradients=4 * P)


@wrong("memory_of_a_step", "recompute is not heeded")
def never_again(P, N, d, f, T, b=4, again=False):
    """The last parameter is not used."""
    return by_parts(P, N, d, f, T, b)


@wrong("memory_of_a_step", "the layer that is computed again is missing")
def inputs_alone(P, N, d, f, T, b=4, again=False):
    """Only what the forward pass leaves."""
    kept = N * d if again else N * (8 * d + f)
    return step_with(P, N, d, f, T, b, again, activations=b * T * kept)


@wrong("memory_of_a_step", "counted twice")
def input_counted_twice(P, N, d, f, T, b=4, again=False):
    """All inputs, and a layer with its own."""
    kept = N * d + 8 * d + f if again else N * (8 * d + f)
    return step_with(P, N, d, f, T, b, again, activations=b * T * kept)


@wrong("memory_of_a_step", "d_ff is left out")
def without_the_network(P, N, d, f, T, b=4, again=False):
    """The hidden layer of the network is forgotten."""
    return by_parts(P, N, d, 0, T, b, again)


@wrong("memory_of_a_step", "activations: num_layers is not used")
def one_layer(P, N, d, f, T, b=4, again=False):
    """As if there were one."""
    return by_parts(P, 1, d, f, T, b, again)


@wrong("memory_of_a_step", "activations always have 4 bytes")
def activations_in_full(P, N, d, f, T, b=4, again=False):
    """Only the weights are in bfloat16."""
    whole = by_parts(P, N, d, f, T, 4, again)["activations"]
    return step_with(P, N, d, f, T, b, again, activations=whole)


@wrong("memory_of_a_step", "expected weights, gradients, optimizer, activations")
def with_another_name(P, N, d, f, T, b=4, again=False):
    """Moments, as in the text."""
    answer = by_parts(P, N, d, f, T, b, again)
    answer["moments"] = answer.pop("optimizer")
    return answer


@wrong("memory_of_a_step", "expected a dict")
def all_together(P, N, d, f, T, b=4, again=False):
    """The sum."""
    return sum(by_parts(P, N, d, f, T, b, again).values())


@wrong("memory_of_a_step", "expected")
def in_gigabytes(P, N, d, f, T, b=4, again=False):
    """As one says it."""
    return {name: value / 1e9 for name, value in by_parts(P, N, d, f, T, b, again).items()}


# ---- repaired_shares


@right("repaired_shares")
def with_where(losses, real, size):
    clean = torch.where(real, losses, 0)
    return torch.stack([clean[rank::size].sum() for rank in range(size)]) / real.sum()


@right("repaired_shares")
def with_index_add(losses, real, size):
    sentence, place = real.nonzero(as_tuple=True)
    found = torch.zeros(size, dtype=losses.dtype)
    return found.index_add(0, sentence % size, losses[sentence, place]) / len(sentence)


@wrong("repaired_shares", "NaN", "0/0")
def an_empty_sentence_beside_a_full_one(losses, real, size):
    """Empty processes are left out, and empty sentences of a process are not."""
    found = []
    for rank in range(size):
        total = losses.new_zeros(())
        if real[rank::size].any():
            for i in range(rank, len(losses), size):
                total = total + losses[i][real[i]].mean() * real[i].sum()
        found.append(total / real.sum())
    return torch.stack(found)


@wrong("repaired_shares", "No gradient hangs on the result")
def shares_with_numpy(losses, real, size):
    """What the others get is a number."""
    values, where = losses.detach().numpy().astype(np.float64), real.numpy()
    sums = [values[rank::size][where[rank::size]].sum() for rank in range(size)]
    return torch.from_numpy(np.array(sums) / where.sum())


@wrong("repaired_shares", "No gradient hangs on the result")
def sentence_by_sentence(losses, real, size):
    """Plain Python."""
    totals = [0.0] * size
    for number, (loss, there) in enumerate(zip(losses.tolist(), real.tolist(), strict=True)):
        totals[number % size] += sum(x for x, is_real in zip(loss, there, strict=True) if is_real)
    return torch.tensor(totals) / real.sum()


@wrong("repaired_shares", "No gradient hangs on the result")
def shares_by_item(losses, real, size):
    """As for a log."""
    return torch.tensor([share.item() for share in with_where(losses, real, size)])


@wrong("repaired_shares", "No gradient hangs on the result")
def shares_detached(losses, real, size):
    """What goes over the wire has no graph, so it is cut off before."""
    return with_where(losses, real, size).detach()


@right("repaired_shares")
def token_after_token(losses, real, size):
    totals = [losses.new_zeros(()) for _ in range(size)]
    for number, place in real.nonzero().tolist():
        totals[number % size] = totals[number % size] + losses[number, place]
    return torch.stack(totals) / real.sum()


@right("repaired_shares")
def with_einsum(losses, real, size):
    rows = losses.masked_fill(~real, 0).sum(1)
    mine = torch.arange(len(losses))[:, None] % size == torch.arange(size)
    return torch.einsum("b,br->r", rows, mine.to(rows.dtype)) / real.sum()


def own(losses, real, rank, size):
    return losses[rank::size][real[rank::size]].sum(), real[rank::size].sum()


@wrong("repaired_shares", "0/0")
def means_with_nan(losses, real, size):
    """A process without tokens divides by nothing."""
    parts = [own(losses, real, rank, size) for rank in range(size)]
    whole = real.sum()
    return torch.stack([loss / count * (count / whole) for loss, count in parts])


@wrong("repaired_shares", "weighted by its sentences")
def weighted_by_sentences(losses, real, size):
    """The usual weight, when a batch is counted in sentences."""
    parts = [own(losses, real, rank, size) for rank in range(size)]
    many = torch.tensor([len(losses[rank::size]) for rank in range(size)])
    return torch.stack([loss / count.clamp(min=1) for loss, count in parts]) * many / len(losses)


@wrong("repaired_shares", "do not multiply")
def multiplied_by_the_mask(losses, real, size):
    """inf · 0 is NaN."""
    clean = losses * real
    return torch.stack([clean[rank::size].sum() for rank in range(size)]) / real.sum()


@right("repaired_shares")
def filled_rank_by_rank(losses, real, size):
    result = torch.zeros(size, dtype=losses.dtype)
    for rank in range(size):
        mine = range(rank, len(losses), size)
        result[rank] = losses[mine].masked_select(real[mine]).sum() / real.count_nonzero()
    return result


@wrong("repaired_shares", "pads may stand anywhere")
def shares_by_lengths(losses, real, size):
    """The mask is turned into lengths, as if all pads stood behind the text."""
    counts = real.sum(1).tolist()
    rows = torch.stack([row[:n].sum() for row, n in zip(losses, counts, strict=True)])
    return torch.stack([rows[rank::size].sum() for rank in range(size)]) / real.sum()
