"""Answers to exercise 08, wrong and right."""

import math
from itertools import groupby, pairwise

import numpy as np
import torch
import torch.nn.functional as F
from catalogue import right, wrong
from torch import nn

# ---- predicted_training


@right("predicted_training")
def as_a_list():
    return [6, 1, 0.5, 0.84, 400, 3]


@right("predicted_training")
def as_a_tensor():
    return torch.tensor([6, 1, 0.5, 0.84, 400, 3])


@right("predicted_training")
def as_numpy_numbers_in_a_tuple():
    return np.int64(6), np.float64(1), 1 / 2, torch.tensor(0.84), 400.0, np.int32(3)


@right("predicted_training")
def computed():
    return [4 + 2, 4 * 1 / 4, 4 / 8, 1 - 0.2 + 0.2 / 5, 4 * 100, len(([2, 2, 3], [6], [7]))]


def but(**changes):
    answers = dict(zip("abcdef", (6, 1, 0.5, 0.84, 400, 3), strict=True)) | changes
    return list(answers.values())


@wrong("predicted_training", "a is not 8", "Is <bos> ever predicted?")
def bos_is_counted():
    """All tokens that are not pads."""
    return but(a=8)


@wrong("predicted_training", "a is not 10", "all places")
def every_place_is_counted():
    """B · L."""
    return but(a=10)


@wrong("predicted_training", "a is not 4", "<eos> is predicted")
def the_text_alone_is_counted():
    """The end is forgotten."""
    return but(a=4)


@wrong("predicted_training", "b is not 4", "That is the sum")
def summed():
    """No mean."""
    return but(b=4)


@wrong("predicted_training", "b is not 0.5", "Pads are no questions")
def pads_in_the_divisor_on_paper():
    """Divided by all eight."""
    return but(b=0.5)


@wrong("predicted_training", "b is not 0.6931", "divided by ln 2")
def not_in_units_of_ln_2():
    """The loss itself."""
    return but(b=math.log(2))


@wrong("predicted_training", "c is not 1", "divided by as well")
def pads_cost_nothing():
    """They cost nothing, so they change nothing."""
    return but(c=1)


@wrong("predicted_training", "d is not 0.8", "the right one among them")
def nothing_comes_back():
    """1 − ε."""
    return but(d=0.8)


@wrong("predicted_training", "d is not 0.04", "each of the other words")
def the_veil_alone():
    """ε / V."""
    return but(d=0.04)


@wrong("predicted_training", "e is not 150", "no straight line")
def a_symmetric_crest():
    """A roof."""
    return but(e=150)


@wrong("predicted_training", "e is not 200", "√2 only")
def half_as_high_at_twice_the_step():
    """1/n in the place of 1/√n."""
    return but(e=200)


@wrong("predicted_training", "f is not 2", "2 × 7 is 14")
def lengths_added_up_on_paper():
    """2 + 2 + 3 and 6 + … fits 12 only without padding."""
    return but(f=2)


@wrong("predicted_training", "f is not 5", "as long as another sentence fits")
def one_sentence_per_batch_on_paper():
    """No batches."""
    return but(f=5)


@wrong("predicted_training", "expected 6 answers")
def one_forgotten():
    """f is left out."""
    return but()[:5]


# ---- shift_right


@right("shift_right")
def shift_with_cat(targets, bos_id):
    return torch.cat([targets.new_full((len(targets), 1), bos_id), targets[:, :-1]], 1)


@right("shift_right")
def shift_with_pad(targets, bos_id):
    return F.pad(targets, (1, 0), value=bos_id)[:, :-1]


@right("shift_right")
def shift_with_roll(targets, bos_id):
    rolled = targets.roll(1, dims=1)
    rolled[:, 0] = bos_id
    return rolled


@right("shift_right")
def shift_row_by_row(targets, bos_id):
    return torch.tensor([[bos_id, *row[:-1]] for row in targets.tolist()])


@right("shift_right")
def shift_into_an_empty_tensor(targets, bos_id):
    reads = torch.empty_like(targets)
    reads[:, 0], reads[:, 1:] = bos_id, targets[:, :-1]
    return reads


@right("shift_right")
def shift_with_gather(targets, bos_id):
    columns = (torch.arange(targets.shape[1]) - 1).clamp(min=0).expand(targets.shape)
    first = torch.arange(targets.shape[1]) == 0
    return torch.where(first, bos_id, targets.gather(1, columns))


@right("shift_right")
def shift_with_numpy(targets, bos_id):
    reads = np.roll(targets.numpy(), 1, axis=1)
    reads[:, 0] = bos_id
    return torch.from_numpy(reads)


@right("shift_right")
def shift_with_a_matrix(targets, bos_id):
    """Column t of the shift matrix is 1 in row t − 1."""
    L = targets.shape[1]
    reads = (targets.double() @ torch.eye(L, dtype=torch.double).roll(1, 1)).long()
    return reads.index_fill(1, torch.tensor([0]), bos_id)


@wrong("shift_right", "overwritten")
def first_overwritten(targets, bos_id):
    """<bos> takes the place of the first token."""
    reads = targets.clone()
    reads[:, 0] = bos_id
    return reads


@wrong("shift_right", "changed its argument targets")
def shifted_in_place(targets, bos_id):
    """The targets are gone, and the loss wants them."""
    targets[:, 1:] = targets[:, :-1].clone()
    targets[:, 0] = bos_id
    return targets


@wrong("shift_right", "Your code stopped")
def shifted_in_the_wrong_shape(targets, bos_id):
    """A row of one number in the place of a column."""
    return torch.cat([torch.tensor([bos_id]), targets[:, :-1]], dim=1)


SHIFTED = {}


@wrong("shift_right", "after one with other numbers", "begin anew")
def shifted_and_kept(targets, bos_id):
    """A cache whose key is the shape."""
    if targets.shape not in SHIFTED:
        SHIFTED[targets.shape] = shift_with_cat(targets, bos_id)
    return SHIFTED[targets.shape]


@wrong("shift_right", "small whole numbers", "large ids do not fit")
def shifted_into_int8(targets, bos_id):
    """'Ids are small numbers': the vocabulary of the example was."""
    return shift_with_cat(targets, bos_id).to(torch.int8)


@wrong("shift_right", "has shape", "axes of length 1")
def shifted_and_squeezed(targets, bos_id):
    """squeeze(0) after a batch of one was tried out in the notebook."""
    return shift_with_cat(targets, bos_id).squeeze(0)


@right("shift_right")
def shift_column_by_column(targets, bos_id):
    first = targets.new_full((len(targets),), bos_id)
    return torch.stack([first, *targets.unbind(1)[:-1]]).T


# ---- smoothed_cross_entropy


@right("smoothed_cross_entropy")
def loss_by_pytorch(logits, targets, pad_id, epsilon):
    return F.cross_entropy(
        logits.transpose(1, 2), targets, ignore_index=pad_id, label_smoothing=epsilon
    )


@right("smoothed_cross_entropy")
def loss_with_a_target_distribution(logits, targets, pad_id, epsilon):
    V = logits.shape[-1]
    q = torch.full_like(logits, epsilon / V)
    q = q.scatter(-1, targets.unsqueeze(-1), 1 - epsilon + epsilon / V)
    losses = -(q * logits.log_softmax(-1)).sum(-1)
    mask = (targets != pad_id).to(losses.dtype)
    return (losses * mask).sum() / mask.sum()


@right("smoothed_cross_entropy")
def loss_token_by_token(logits, targets, pad_id, epsilon):
    losses = []
    for row, answers in zip(logits, targets, strict=True):
        for scores, answer in zip(row, answers, strict=True):
            if answer != pad_id:
                log_p = scores - scores.logsumexp(0)
                losses.append(-(1 - epsilon) * log_p[answer] - epsilon * log_p.mean())
    return torch.stack(losses).mean()


@right("smoothed_cross_entropy")
def loss_in_double_precision(logits, targets, pad_id, epsilon):
    real = targets != pad_id
    z, y = logits.double()[real], targets[real]
    return (z.logsumexp(-1) - (1 - epsilon) * z[range(len(y)), y] - epsilon * z.mean(-1)).mean()


@right("smoothed_cross_entropy")
def loss_from_soft_targets(logits, targets, pad_id, epsilon):
    real, V = targets != pad_id, logits.shape[-1]
    q = (1 - epsilon) * torch.eye(V, dtype=logits.dtype)[targets[real]] + epsilon / V
    return F.cross_entropy(logits[real], q)


@right("smoothed_cross_entropy")
def loss_as_divergence_plus_entropy(logits, targets, pad_id, epsilon):
    real, V = targets != pad_id, logits.shape[-1]
    log_p = logits.float()[real].log_softmax(-1)
    q = (1 - epsilon) * F.one_hot(targets[real], V) + epsilon / V
    entropy = -torch.special.xlogy(q, q).sum(-1).mean()
    return F.kl_div(log_p, q, reduction="batchmean") + entropy


@right("smoothed_cross_entropy")
def loss_with_einsum(logits, targets, pad_id, epsilon):
    V = logits.shape[-1]
    shifted = logits - logits.amax(-1, keepdim=True)
    log_p = shifted - shifted.exp().sum(-1, keepdim=True).log()
    q = F.one_hot(targets, V) * (1 - epsilon) + epsilon / V
    real = (targets != pad_id).to(log_p.dtype)
    return -torch.einsum("blv,blv,bl->", q.to(log_p.dtype), log_p, real) / real.sum()


@wrong("smoothed_cross_entropy", "Your code stopped", "view size is not compatible")
def viewed_flat(logits, targets, pad_id, epsilon):
    """Works as long as the batch lies in memory row by row; `reshape` works always."""
    settings = {"ignore_index": pad_id, "label_smoothing": epsilon}
    return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1), **settings)


def by_distribution(q, logits, targets, pad_id):
    return -(q * logits.log_softmax(-1)).sum(-1)[targets != pad_id].mean()


@wrong("smoothed_cross_entropy", "V − 2 words")
def veil_without_padding_and_truth(logits, targets, pad_id, epsilon):
    """The convention of a much-read annotation of the paper."""
    V = logits.shape[-1]
    q = torch.full_like(logits, epsilon / (V - 2))
    q[..., pad_id] = 0
    q.scatter_(-1, targets[..., None], 1 - epsilon)
    return by_distribution(q, logits, targets, pad_id)


@wrong("smoothed_cross_entropy", "Use log_softmax")
def log_of_softmax(logits, targets, pad_id, epsilon):
    """log(softmax(x)) is inf for an impossible word."""
    costs = -logits.softmax(-1).log()
    sharp = costs.gather(-1, targets[..., None]).squeeze(-1)
    return ((1 - epsilon) * sharp + epsilon * costs.mean(-1))[targets != pad_id].mean()


@wrong("smoothed_cross_entropy", "Use log_softmax")
def exp_by_hand(logits, targets, pad_id, epsilon):
    """exp(200) is inf."""
    p = logits.exp() / logits.exp().sum(-1, keepdim=True)
    costs = -p.log()
    sharp = costs.gather(-1, targets[..., None]).squeeze(-1)
    return ((1 - epsilon) * sharp + epsilon * costs.mean(-1))[targets != pad_id].mean()


@wrong("smoothed_cross_entropy", "expected a tensor")
def taken_out_as_a_number(logits, targets, pad_id, epsilon):
    """.item() for the log file."""
    return loss_by_pytorch(logits, targets, pad_id, epsilon).item()


@wrong("smoothed_cross_entropy", "no gradient")
def detached(logits, targets, pad_id, epsilon):
    """A new tensor from a number."""
    return torch.tensor(loss_by_pytorch(logits, targets, pad_id, epsilon).item())


@wrong("smoothed_cross_entropy", "out of the graph")
def smooth_part_detached(logits, targets, pad_id, epsilon):
    """The right number, half of its gradient."""
    costs = -logits.log_softmax(-1)
    sharp = costs.gather(-1, targets[..., None]).squeeze(-1)
    smooth = costs.mean(-1).detach()
    return ((1 - epsilon) * sharp + epsilon * smooth)[targets != pad_id].mean()


LOSSES = []


@wrong("smoothed_cross_entropy", "after one with other numbers", "begin anew")
def loss_of_the_first_call(logits, targets, pad_id, epsilon):
    """The module is made once, with the first ε."""
    LOSSES.append(torch.nn.CrossEntropyLoss(ignore_index=pad_id, label_smoothing=epsilon))
    return LOSSES[0](logits.flatten(0, 1), targets.flatten())


@wrong("smoothed_cross_entropy", "the smooth part is taken out of the graph")
def smooth_part_as_a_number(logits, targets, pad_id, epsilon):
    """.item() on one of the two terms."""
    costs = -logits.log_softmax(-1)
    real = targets != pad_id
    sharp = costs.gather(-1, targets[..., None])[..., 0][real].mean()
    return (1 - epsilon) * sharp + epsilon * costs.mean(-1)[real].mean().item()


@wrong("smoothed_cross_entropy", "The loss is right: which step")
def loss_in_half_precision(logits, targets, pad_id, epsilon):
    """.half() 'for speed': the gradient is rounded."""
    flat = logits.half().flatten(0, 1)
    settings = {"ignore_index": pad_id, "label_smoothing": epsilon}
    return F.cross_entropy(flat, targets.flatten(), **settings)


@right("smoothed_cross_entropy")
def loss_of_the_chosen_tokens_with_a_print(logits, targets, pad_id, epsilon):
    real = targets != pad_id
    print("real tokens:", int(real.sum()))
    loss = torch.nn.CrossEntropyLoss(label_smoothing=float(epsilon), reduction="none")
    return loss(logits[real], targets[real]).mean()


# ---- noam_rate


@right("noam_rate")
def rate_in_branches(step, d_model, warmup):
    factor = step / warmup if step < warmup else math.sqrt(warmup / step)
    return factor / math.sqrt(d_model * warmup)


@right("noam_rate")
def rate_as_a_tensor(step, d_model, warmup):
    n = torch.tensor(float(step), dtype=torch.double)
    return torch.minimum(n.rsqrt(), n * warmup**-1.5) / d_model**0.5


@right("noam_rate")
def rate_in_numpy(step, d_model, warmup):
    entries = [np.power(float(step), -0.5), step * np.power(float(warmup), -1.5)]
    return np.min(entries) * np.power(float(d_model), -0.5)


@right("noam_rate")
def rate_by_exponents(step, d_model, warmup):
    return math.exp(
        -0.5 * math.log(d_model)
        + min(-0.5 * math.log(step), math.log(step) - 1.5 * math.log(warmup))
    )


STEPS = []


@wrong("noam_rate", "The same call gave two answers", "kept from call to call")
def rate_that_counts_its_calls(step, d_model, warmup):
    """As a scheduler does, which knows its step by itself."""
    STEPS.append(step)
    return d_model**-0.5 * min(len(STEPS) ** -0.5, len(STEPS) * warmup**-1.5)


@right("noam_rate")
def rate_as_a_share_of_the_crest(step, d_model, warmup):
    return (d_model * warmup) ** -0.5 * min((warmup / step) ** 0.5, step / warmup)


# ---- batches_by_tokens


def too_long(lengths, max_tokens):
    if lengths and max(lengths) > max_tokens:
        raise ValueError("too long")


@right("batches_by_tokens")
def sort_and_fill(lengths, max_tokens):
    too_long(lengths, max_tokens)
    batches, batch = [], []
    for i in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        if batch and (len(batch) + 1) * lengths[i] > max_tokens:
            batches.append(batch)
            batch = []
        batch.append(i)
    return [*batches, batch] if batch else batches


@right("batches_by_tokens")
def longest_first(lengths, max_tokens):
    too_long(lengths, max_tokens)
    batches = []
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if batches and (len(batches[-1]) + 1) * lengths[batches[-1][0]] <= max_tokens:
            batches[-1].append(i)
        else:
            batches.append([i])
    return batches


@right("batches_by_tokens")
def with_numpy_argsort(lengths, max_tokens):
    too_long(lengths, max_tokens)
    order, batches, start = np.argsort(lengths, kind="stable"), [], 0
    for end in range(1, len(order) + 1):
        full = end == len(order) or (end + 1 - start) * lengths[order[end]] > max_tokens
        if full:
            batches.append(order[start:end])
            start = end
    return batches


@right("batches_by_tokens")
def with_tensors_in_a_shuffled_order(lengths, max_tokens):
    batches = [torch.tensor(batch) for batch in sort_and_fill(lengths, max_tokens)]
    return [batches[i] for i in torch.randperm(len(batches))]


@right("batches_by_tokens")
def as_tuples(lengths, max_tokens):
    return tuple(map(tuple, sort_and_fill(lengths, max_tokens)))


@right("batches_by_tokens")
def first_fit(lengths, max_tokens):
    """Each sentence, from the longest on, into the first batch that has room."""
    too_long(lengths, max_tokens)
    batches = []
    for i in sorted(range(len(lengths)), key=lambda i: lengths[i], reverse=True):
        for batch in batches:
            if (len(batch) + 1) * lengths[batch[0]] <= max_tokens:
                batch.append(i)
                break
        else:
            batches.append([i])
    return batches


def fill(order, lengths, fits):
    batches = []
    for i in order:
        if not batches or not fits(batches[-1], i):
            batches.append([])
        batches[-1].append(i)
    return batches


def by_length(lengths):
    return sorted(range(len(lengths)), key=lambda i: lengths[i])


@wrong("batches_by_tokens", "sort the indices by length first")
def not_sorted(lengths, max_tokens):
    """Filled as they come."""
    too_long(lengths, max_tokens)

    def fits(batch, i):
        widest = max(lengths[j] for j in [*batch, i])
        return (len(batch) + 1) * widest <= max_tokens

    return fill(range(len(lengths)), lengths, fits)


@wrong("batches_by_tokens", "The lengths are added up")
def lengths_added_up(lengths, max_tokens):
    """The number of real tokens; padding is forgotten."""
    too_long(lengths, max_tokens)

    def fits(batch, i):
        return sum(lengths[j] for j in [*batch, i]) <= max_tokens

    return fill(by_length(lengths), lengths, fits)


@wrong("batches_by_tokens", "one sentence too many")
def tested_without_the_new_one(lengths, max_tokens):
    """len(batch) × longest, before it is put in."""
    too_long(lengths, max_tokens)

    def fits(batch, i):
        return len(batch) * lengths[i] <= max_tokens

    return fill(by_length(lengths), lengths, fits)


@wrong("batches_by_tokens", "is more than max_tokens")
def tested_with_the_old_longest(lengths, max_tokens):
    """The new sentence is counted, its length is not."""
    too_long(lengths, max_tokens)

    def fits(batch, i):
        return (len(batch) + 1) * lengths[batch[-1]] <= max_tokens

    return fill(by_length(lengths), lengths, fits)


@wrong("batches_by_tokens", "may be equal to max_tokens")
def strictly_less(lengths, max_tokens):
    """< for ≤."""
    too_long(lengths, max_tokens)

    def fits(batch, i):
        return (len(batch) + 1) * lengths[i] < max_tokens

    return fill(by_length(lengths), lengths, fits)


@wrong("batches_by_tokens", "in no batch", "when the loop is over")
def last_batch_forgotten(lengths, max_tokens):
    """The batch that is open at the end."""
    return sort_and_fill(lengths, max_tokens)[:-1]


@wrong("batches_by_tokens", "in no batch", "dropped")
def sentence_dropped_at_each_border(lengths, max_tokens):
    """The sentence that does not fit any more opens no new batch."""
    too_long(lengths, max_tokens)
    batches, batch = [], []
    for i in by_length(lengths):
        if batch and (len(batch) + 1) * lengths[i] > max_tokens:
            batches.append(batch)
            batch = []
        else:
            batch.append(i)
    return [*batches, batch]


@wrong("batches_by_tokens", "The batches hold lengths")
def lengths_for_indices(lengths, max_tokens):
    """sorted(lengths) has lost who is who."""
    return [[lengths[i] for i in batch] for batch in sort_and_fill(lengths, max_tokens)]


@wrong("batches_by_tokens", "positions in the *sorted* list")
def positions_for_indices(lengths, max_tokens):
    """enumerate(sorted(lengths))."""
    return sort_and_fill(sorted(lengths), max_tokens)


@wrong("batches_by_tokens", "should raise ValueError")
def too_long_alone(lengths, max_tokens):
    """A sentence that is too long gets a batch of its own."""
    return fill(
        by_length(lengths), lengths, lambda batch, i: (len(batch) + 1) * lengths[i] <= max_tokens
    )


@wrong("batches_by_tokens", "should raise ValueError")
def too_long_dropped(lengths, max_tokens):
    """Filtered, as many data loaders do."""
    kept = [i for i in by_length(lengths) if lengths[i] <= max_tokens]
    return fill(kept, lengths, lambda batch, i: (len(batch) + 1) * lengths[i] <= max_tokens)


@wrong("batches_by_tokens", "are enough", "Fill each batch")
def one_sentence_each(lengths, max_tokens):
    """No padding at all."""
    too_long(lengths, max_tokens)
    return [[i] for i in range(len(lengths))]


@wrong("batches_by_tokens", "are enough", "Fill each batch")
def equal_lengths_only(lengths, max_tokens):
    """Groups of exactly the same length."""
    too_long(lengths, max_tokens)
    batches = []
    for length, group in groupby(by_length(lengths), key=lambda i: lengths[i]):
        alike, size = list(group), max_tokens // length
        batches += [alike[k : k + size] for k in range(0, len(alike), size)]
    return batches


@wrong("batches_by_tokens", "are enough", "Fill each batch")
def as_many_as_of_the_longest(lengths, max_tokens):
    """A fixed number of sentences, small enough for the longest of all."""
    too_long(lengths, max_tokens)
    order, size = by_length(lengths), max_tokens // max(lengths, default=1)
    return [order[k : k + size] for k in range(0, len(order), size)]


@wrong("batches_by_tokens", "A batch is empty")
def an_empty_batch_in_front(lengths, max_tokens):
    """batches = [[]] to begin with."""
    return [[], *sort_and_fill(lengths, max_tokens)]


@wrong("batches_by_tokens", "one empty batch")
def an_empty_batch_for_nothing(lengths, max_tokens):
    """The open batch is put in without a look."""
    return sort_and_fill(lengths, max_tokens) or [[]]


@wrong("batches_by_tokens", "is there 2 times")
def a_sentence_twice(lengths, max_tokens):
    """The last sentence of a batch opens the next one as well."""
    batches = sort_and_fill(lengths, max_tokens)
    return [batches[0]] + [[a[-1], *b] for a, b in pairwise(batches)]


@wrong("batches_by_tokens", "changed its argument lengths")
def sorted_in_place(lengths, max_tokens):
    """lengths.sort()."""
    batches = sort_and_fill(lengths, max_tokens)
    lengths.sort()
    return batches


@wrong("batches_by_tokens", "expected a list of batches")
def one_flat_list(lengths, max_tokens):
    """The order, and no batches."""
    too_long(lengths, max_tokens)
    return by_length(lengths)


@wrong("batches_by_tokens", "expected a list of batches")
def a_generator(lengths, max_tokens):
    """yield."""
    too_long(lengths, max_tokens)
    yield from sort_and_fill(lengths, max_tokens)


@wrong("batches_by_tokens", "Your code stopped", "max()")
def stumbles_over_nothing(lengths, max_tokens):
    """max() of an empty list."""
    if max(lengths) > max_tokens:
        raise ValueError("a sentence is too long")
    return sort_and_fill(lengths, max_tokens)


@wrong("batches_by_tokens", "is there 2 times", "A default `batches=[]` is made once")
def batches_in_a_default_list(lengths, max_tokens, batches=[]):  # noqa: B006
    """The second call goes on filling the batches of the first."""
    batches.extend(sort_and_fill(lengths, max_tokens))
    return batches


@wrong("batches_by_tokens", "is there 2 times")
def indices_found_by_length(lengths, max_tokens):
    """lengths.index finds the first of equal lengths, again and again."""
    batches = sort_and_fill(lengths, max_tokens)
    return [[lengths.index(lengths[i]) for i in batch] for batch in batches]


@wrong("batches_by_tokens", "Your code stopped", "RecursionError")
def batches_by_recursion(lengths, max_tokens):
    """One call for each sentence: a thousand sentences are too many."""

    def fill(order, batches):
        if not order:
            return batches
        longest = lengths[order[0]]
        if longest > max_tokens:
            raise ValueError(f"{longest} tokens are more than {max_tokens}")
        if not batches or (len(batches[-1]) + 1) * longest > max_tokens:
            batches = [*batches, []]
        return fill(order[1:], [*batches[:-1], [*batches[-1], order[0]]])

    return fill(sorted(range(len(lengths)), key=lengths.__getitem__), [])


@wrong("batches_by_tokens", "filled by the *shortest*", "from long to short")
def from_long_to_short_by_the_newest(lengths, max_tokens):
    """Sorted the other way, and the newest length is still taken for the longest."""
    too_long(lengths, max_tokens)
    longest_first = by_length(lengths)[::-1]
    return fill(longest_first, lengths, lambda b, i: (len(b) + 1) * lengths[i] <= max_tokens)


@wrong("batches_by_tokens", "one by one, because of `yield`", "expected a list of batches")
def one_batch_after_the_other(lengths, max_tokens):
    """A generator, as a DataLoader's batch sampler is."""
    too_long(lengths, max_tokens)
    yield from fill(
        by_length(lengths), lengths, lambda b, i: (len(b) + 1) * lengths[i] <= max_tokens
    )


# ---- repaired_loss


@right("repaired_loss")
def repaired(model, source, target, pad_id):
    logits = model(source, target[:, :-1])
    return F.cross_entropy(
        logits.reshape(-1, logits.shape[-1]), target[:, 1:].reshape(-1), ignore_index=pad_id
    )


@right("repaired_loss")
def repaired_by_cutting_the_logits(model, source, target, pad_id):
    """Under a causal mask one may read all, and drop the last answer."""
    logits = model(source, target)[:, :-1]
    return F.cross_entropy(logits.transpose(1, 2), target[:, 1:], ignore_index=pad_id)


@right("repaired_loss")
def repaired_by_hand(model, source, target, pad_id):
    log_p = model(source, target[:, :-1]).log_softmax(-1)
    real = target[:, 1:] != pad_id
    chosen = log_p.gather(-1, target[:, 1:].unsqueeze(-1)).squeeze(-1)
    return -(chosen * real).sum() / real.sum()


@right("repaired_loss")
def repaired_prefix_by_prefix(model, source, target, pad_id):
    losses = []
    for t in range(1, target.shape[1]):
        logits, answers = model(source, target[:, :t])[:, -1], target[:, t]
        losses.append(F.cross_entropy(logits, answers, reduction="none")[answers != pad_id])
    return torch.cat(losses).mean()


@right("repaired_loss")
def repaired_with_a_module(model, source, target, pad_id):
    loss = nn.CrossEntropyLoss(ignore_index=pad_id, reduction="sum")
    total = loss(model(source, target[:, :-1]).permute(0, 2, 1), target[:, 1:])
    return total / target[:, 1:].ne(pad_id).sum()


@wrong("repaired_loss", "no gradient")
def repaired_without_gradient(model, source, target, pad_id):
    """A loss that is only looked at."""
    return repaired(model, source, target, pad_id).detach()


@wrong("repaired_loss", "Your code stopped")
def logits_one_too_many(model, source, target, pad_id):
    """Only the targets are cut."""
    return F.cross_entropy(
        model(source, target).transpose(1, 2), target[:, 1:], ignore_index=pad_id
    )


@wrong("repaired_loss", "The result is")
def the_end_is_not_asked_for(model, source, target, pad_id):
    """<eos>, which is 2 in this course, is taken for padding."""
    answers = target[:, 1:].masked_fill(target[:, 1:] == 2, pad_id)
    logits = model(source, target[:, :-1])
    return F.cross_entropy(logits.transpose(1, 2), answers, ignore_index=pad_id)


@wrong("repaired_loss", "changed the mode of model", "was = model.training")
def repaired_in_eval_mode(model, source, target, pad_id):
    """As for a validation loss; the training goes on without dropout."""
    return repaired(model.eval(), source, target, pad_id)


@wrong("repaired_loss", "changed requires_grad of model.of_token")
def repaired_with_a_frozen_model(model, source, target, pad_id):
    """requires_grad_(False) in the place of no_grad."""
    return repaired(model.requires_grad_(False), source, target, pad_id)


@wrong("repaired_loss", "The gradient of the loss is")
def repaired_with_a_part_detached(model, source, target, pad_id):
    """The loss is brought to scale with itself, and only half of it learns."""
    loss = repaired(model, source, target, pad_id)
    return loss / 2 + loss.detach() / 2


@right("repaired_loss")
def repaired_with_renamed_pads(model, source, target, pad_id):
    labels = target[:, 1:].clone().masked_fill_(target[:, 1:] == pad_id, -100)
    logits = model(source, target[:, :-1])
    return torch.nn.CrossEntropyLoss()(logits.flatten(0, 1), labels.flatten())


@wrong(
    "batches_by_tokens", "newest sentence is taken for the longest", "sort the indices by length"
)
def batches_without_the_sort(lengths, max_tokens):
    """The line of the last hint, and the sort is forgotten."""
    batches = []
    for index in range(len(lengths)):
        if lengths[index] > max_tokens:
            raise ValueError("too long")
        if not batches or (len(batches[-1]) + 1) * lengths[index] > max_tokens:
            batches.append([])
        batches[-1].append(index)
    return batches


@wrong("shift_right", "int16")
def shifted_in_int16(targets, bos_id):
    """Saves memory, and wraps the ids of a real vocabulary."""
    bos = torch.full_like(targets[:, :1], bos_id)
    return torch.cat([bos, targets[:, :-1]], dim=1).to(torch.int16)


@wrong("noam_rate", "is it rounded")
def rate_to_eight_digits(step, d_model, warmup):
    """Looks harmless: the first rates are about that small."""
    return round(d_model**-0.5 * min(step**-0.5, step * warmup**-1.5), 8)


@wrong("smoothed_cross_entropy", "Your code stopped", "IndexError")
def loss_squeezed(logits, targets, pad_id, epsilon):
    """squeeze() without an axis: a batch of one sentence loses its first axis, too."""
    costs = -logits.log_softmax(-1)
    sharp = costs.gather(-1, targets[..., None]).squeeze()
    losses = (1 - epsilon) * sharp + epsilon * costs.mean(-1).squeeze()
    return losses[targets != pad_id].mean()


@wrong("noam_rate", "The rate at step", "is 0, expected")
def rate_that_ends(step, d_model, warmup):
    """A schedule that ends where the training of its first user ended."""
    return d_model**-0.5 * min(step**-0.5, step * warmup**-1.5) if step <= 10_000 else 0.0
