"""Answers to exercise 09, wrong and right."""

import heapq
import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from catalogue import right, solutions, wrong
from torch import nn

from transformer_lab import causal_mask, scaled_dot_product_attention, sinusoidal_encoding

LESSON = "09_autoregressive_inference"
Given = solutions(LESSON)["CachedSelfAttention"]  # for its __init__

# ---- predicted_search


@right("predicted_search")
def as_numbers():
    return [0.1, 0.32, 10, 2, 0.9]


@right("predicted_search")
def computed_in_numpy():
    squares = np.array([0.75, 0.25]) ** 2
    return np.array([0.5 * 0.4 * 0.5, 0.4 * 0.8, 10, 2, squares[0] / squares.sum()])


@right("predicted_search")
def as_a_tensor():
    return torch.tensor([0.1, 0.32, 10, 2, 0.9], dtype=torch.float64)


@wrong("predicted_search", "a is not 0.2", "before the end sign")
def the_end_is_free():
    """The end sign is not felt to be a choice."""
    return [0.2, 0.32, 10, 2, 0.9]


@wrong("predicted_search", "a is not 0.32", "Greedy cannot know")
def greedy_is_thought_perfect():
    """Greedy is thought to find the best."""
    return [0.32, 0.32, 10, 2, 0.9]


@wrong("predicted_search", "a is not 0.15", "not that of the end")
def greedy_stops_early():
    """'a .' is thought to be greedy's sentence."""
    return [0.15, 0.32, 10, 2, 0.9]


@wrong("predicted_search", "b is not 0.1", "begins with less than 0.5")
def the_best_begins_best():
    """The most probable sentence is thought to begin with the most probable word."""
    return [0.1, 0.1, 10, 2, 0.9]


@wrong("predicted_search", "c is not 4", "with a cache")
def one_token_per_step():
    """The cache is taken for granted."""
    return [0.1, 0.32, 4, 2, 0.9]


@wrong("predicted_search", "c is not 16", "one token only")
def always_four():
    """Four passes over four."""
    return [0.1, 0.32, 16, 2, 0.9]


@wrong("predicted_search", "d is not 1", "crosses the line")
def crossing_cut():
    """Without the token that crosses."""
    return [0.1, 0.32, 10, 1, 0.9]


@wrong("predicted_search", "d is not 3", "already reach it")
def one_more_kept():
    """One for safety."""
    return [0.1, 0.32, 10, 3, 0.9]


@wrong("predicted_search", "e is not 0.634", "temperature 2")
def hot_for_cold():
    """Multiplied in the place of divided."""
    return [0.1, 0.32, 10, 2, 0.634]


@wrong("predicted_search", "e is not 0.5625", "add up to 1")
def not_normalised():
    """The square alone."""
    return [0.1, 0.32, 10, 2, 0.5625]


@wrong("predicted_search", "expected 5 answers")
def only_four():
    """The last one forgotten."""
    return [0.1, 0.32, 10, 2]


@wrong("predicted_search", "a is not 10", "not a percentage")
def in_percent():
    """10 % written as 10."""
    return [10, 32, 10, 2, 90]


# ---- greedy_decode


@right("greedy_decode")
def with_cat(step, bos_id, eos_id, max_length):
    tokens = torch.full((1, 1), bos_id)
    for _ in range(max_length - 1):
        tokens = torch.cat([tokens, step(tokens).argmax(dim=-1, keepdim=True)], dim=1)
        if tokens[0, -1] == eos_id:
            break
    return tokens[0].tolist()


@right("greedy_decode")
def until_the_last_is_eos(step, bos_id, eos_id, max_length):
    ids = [bos_id]
    while ids[-1] != eos_id and len(ids) < max_length:
        ids.append(int(np.argmax(step(torch.tensor([ids])).numpy())))
    return ids


@right("greedy_decode")
def recursively(step, bos_id, eos_id, max_length):
    def go_on(ids):
        if len(ids) == max_length or (len(ids) > 1 and ids[-1] == eos_id):
            return ids
        return go_on([*ids, step(torch.as_tensor(ids).view(1, -1)).topk(1).indices.item()])

    return go_on([bos_id])


@right("greedy_decode")
def into_a_buffer(step, bos_id, eos_id, max_length):
    buffer = torch.zeros(1, max_length, dtype=torch.int32)
    buffer[0, 0] = bos_id
    length = 1
    while length < max_length:
        buffer[0, length] = step(buffer[:, :length]).exp().argmax()
        length += 1
        if buffer[0, length - 1] == eos_id:
            break
    return [int(token) for token in buffer[0, :length]]


@right("greedy_decode")
def written_to_the_end_and_cut(step, bos_id, eos_id, max_length):
    ids = [bos_id]
    for _ in range(max_length - 1):
        row = step(torch.tensor([ids]))[0].tolist()
        ids.append(row.index(max(row)))
    return ids[: ids.index(eos_id, 1) + 1] if eos_id in ids[1:] else ids


def greedy_variant(
    step, bos_id, eos_id, limit, seen=lambda ids: ids, pick=lambda p: p[0].argmax(), stop=True
):
    ids = [bos_id]
    while len(ids) < limit:
        ids.append(int(pick(step(torch.tensor([seen(ids)])))))
        if stop and ids[-1] == eos_id:
            break
    return ids


@wrong("greedy_decode", "nothing is drawn")
def greedy_by_chance(step, bos_id, eos_id, max_length):
    """Sampling."""
    return greedy_variant(
        step, bos_id, eos_id, max_length, pick=lambda p: torch.multinomial(p.exp(), 1)
    )


@wrong("greedy_decode", "a tensor")
def greedy_as_a_tensor(step, bos_id, eos_id, max_length):
    """The tensor itself."""
    return torch.tensor(greedy_variant(step, bos_id, eos_id, max_length))


@wrong("greedy_decode", "holds tensors")
def greedy_of_tensors(step, bos_id, eos_id, max_length):
    """No int()."""
    return [torch.tensor(i) for i in greedy_variant(step, bos_id, eos_id, max_length)]


@wrong("greedy_decode", "its shape should be (1, L)")
def greedy_without_the_batch_axis(step, bos_id, eos_id, max_length):
    """torch.tensor(ids) in the place of torch.tensor([ids])."""
    return [bos_id, int(step(torch.tensor([bos_id])).argmax())]


@wrong("greedy_decode", "it takes a tensor of ids")
def greedy_with_a_list(step, bos_id, eos_id, max_length):
    """The list goes in as it is."""
    return [bos_id, int(step([bos_id]).argmax())]


@wrong("greedy_decode", "ids are whole numbers")
def greedy_with_floats(step, bos_id, eos_id, max_length):
    """torch.Tensor makes floats."""
    return [bos_id, int(step(torch.Tensor([[bos_id]])).argmax())]


@wrong("greedy_decode", "does the loop end")
def greedy_without_end(step, bos_id, eos_id, max_length):
    """max_length is forgotten."""
    return greedy_variant(step, bos_id, eos_id, 10**6)


@wrong("greedy_decode", "is taken after [", "the most probable is")
def greedy_without_repetition(step, bos_id, eos_id, max_length):
    """A common trick against loops, which is not greedy any more."""
    ids = [bos_id]
    while len(ids) < max_length:
        row = step(torch.tensor([ids]))[0].clone()
        row[ids] = -math.inf
        ids.append(int(row.argmax()))
        if ids[-1] == eos_id:
            break
    return ids


@wrong("greedy_decode", "The result is", "expected [")
def greedy_as_a_generator(step, bos_id, eos_id, max_length):
    """yield in the place of return."""
    yield from greedy_variant(step, bos_id, eos_id, max_length)


@wrong("greedy_decode", "the loop ends after 21 ids")
def greedy_of_twenty(step, bos_id, eos_id, max_length):
    """A second end, against a loop that never stops."""
    return greedy_variant(step, bos_id, eos_id, min(21, max_length))


@wrong("greedy_decode", "is taken after [", "the most probable is")
def greedy_with_a_window(step, bos_id, eos_id, max_length):
    """The last 16 ids, as in a model of few positions."""
    return greedy_variant(step, bos_id, eos_id, max_length, seen=lambda ids: ids[-16:])


@wrong("greedy_decode", "a tuple", "a plain list of ints")
def greedy_as_a_tuple(step, bos_id, eos_id, max_length):
    """A tuple grows with `ids + (token,)`, and is returned as it is."""
    return tuple(greedy_variant(step, bos_id, eos_id, max_length))


# ---- keep_top_k


@right("keep_top_k")
def k_with_a_threshold(logits, k):
    border = logits.topk(min(k, logits.shape[-1]), dim=-1).values[..., -1:]
    return torch.where(logits < border, -torch.inf, logits)


@right("keep_top_k")
def k_scattered_into_nothing(logits, k):
    values, ids = logits.topk(min(k, logits.size(-1)))
    return torch.full_like(logits, -math.inf).scatter(-1, ids, values)


@right("keep_top_k")
def k_by_ranks(logits, k):
    ranks = (-logits).argsort(-1).argsort(-1)
    return logits.masked_fill(ranks >= k, float("-inf"))


@right("keep_top_k")
def k_row_by_row(logits, k):
    rows = logits.reshape(-1, logits.shape[-1])
    cut = rows.clone()
    for i, row in enumerate(rows.tolist()):
        for j in sorted(range(len(row)), key=row.__getitem__, reverse=True)[k:]:
            cut[i, j] = -math.inf
    return cut.view_as(logits)


@right("keep_top_k")
def k_with_kthvalue_in_float64(logits, k):
    V = logits.shape[-1]
    border = logits.double().kthvalue(max(V - k + 1, 1), dim=-1, keepdim=True).values
    return logits.masked_fill(logits.double() < border, -math.inf)


@right("keep_top_k")
def k_maxima_one_by_one(logits, k):
    cut, rest = torch.full_like(logits, -math.inf), logits.clone()
    for _ in range(min(k, logits.shape[-1])):
        value, place = rest.max(-1, keepdim=True)
        cut.scatter_(-1, place, value)
        rest.scatter_(-1, place, -math.inf)
    return cut


@wrong("keep_top_k", "sorted")
def k_sorted(logits, k):
    """The sorted values, cut."""
    ordered = logits.sort(-1, descending=True).values.clone()
    ordered[..., k:] = -math.inf
    return ordered


@wrong("keep_top_k", "out of range")
def k_without_a_limit(logits, k):
    """topk does not take more than there are."""
    return logits.masked_fill(logits < logits.topk(k).values[..., -1:], -math.inf)


@wrong("keep_top_k", "changed its argument")
def k_in_place(logits, k):
    """The caller's logits are overwritten."""
    logits[logits < logits.topk(k).values[..., -1:]] = -math.inf
    return logits


@wrong("keep_top_k", "The result is NaN", "do not multiply by a mask")
def k_multiplied(logits, k):
    """0 times −inf."""
    return logits + (k_by_ranks(logits, k) == -math.inf) * -math.inf


@wrong("keep_top_k", "axes of length 1")
def k_squeezed(logits, k):
    """squeeze, for the axis that topk has left: it takes an axis of one sentence as well."""
    return k_by_ranks(logits, k).squeeze()


@wrong("keep_top_k", "axes of length 1")
def k_squeezed_in_front(logits, k):
    """squeeze(0), as if there were always one row."""
    return k_by_ranks(logits, k).squeeze(0)


@wrong("keep_top_k", "has shape (1, 7), expected (7,)")
def k_of_flat_rows(logits, k):
    """The rows are flattened, and not brought back."""
    return k_by_ranks(logits.reshape(-1, logits.shape[-1]), k)


# ---- keep_top_p


@right("keep_top_p")
def p_shifted(logits, p):
    ordered, order = torch.sort(logits, descending=True)
    remove = F.softmax(ordered, dim=-1).cumsum(dim=-1) >= p
    remove[..., 1:] = remove[..., :-1].clone()
    remove[..., 0] = False
    return logits.masked_fill(torch.zeros_like(remove).scatter(-1, order, remove), -math.inf)


@right("keep_top_p")
def p_row_by_row(logits, p):
    cut = torch.full_like(logits, -math.inf)
    rows, out = logits.reshape(-1, logits.shape[-1]), cut.view(-1, logits.shape[-1])
    for row, new in zip(rows, out, strict=True):
        weights, reached = row.double().softmax(0).tolist(), 0.0
        for i in sorted(range(len(weights)), key=lambda i: -weights[i]):
            if reached >= p - 1e-12:
                break
            new[i] = row[i]
            reached += weights[i]
    return cut


@right("keep_top_p")
def p_with_the_inverse_order(logits, p):
    order = logits.argsort(dim=-1, descending=True)
    ordered = logits.gather(-1, order)
    weights = ordered.softmax(-1)
    ordered = torch.where(weights.cumsum(-1) - weights < p, ordered, -math.inf)
    return ordered.gather(-1, order.argsort(-1))


@right("keep_top_p")
def p_counted(logits, p):
    weights = logits.double().softmax(-1).sort(-1, descending=True).values
    count = (weights.cumsum(-1) < p - 1e-9).sum(-1, keepdim=True) + 1
    ranks = logits.argsort(-1, descending=True).argsort(-1)
    return logits.masked_fill(ranks >= count, -math.inf)


@right("keep_top_p")
def p_by_comparing_all_pairs(logits, p):
    weights = logits.softmax(-1)
    larger = weights[..., None, :] > weights[..., :, None]  # (…, mine, the other)
    before = (weights[..., None, :] * larger).sum(-1)
    return logits.masked_fill(before >= p, -math.inf)


@right("keep_top_p")
def p_from_the_tail(logits, p):
    """As a well-known library does it: from the least probable on, up to 1 − p."""
    ordered, order = logits.sort(-1, descending=False)
    remove = ordered.softmax(-1).cumsum(-1) <= 1 - p
    remove[..., -1:] = False
    return logits.masked_fill(remove.scatter(-1, order, remove), -math.inf)


@right("keep_top_p")
def p_with_the_border_on_the_other_side(logits, p):
    """> for >=: where the sum is exactly p rounding decides, so no check may."""
    weights, order = logits.softmax(-1).sort(-1, descending=True)
    remove = weights.cumsum(-1) - weights > p
    return logits.masked_fill(remove.scatter(-1, order, remove), -math.inf)


@right("keep_top_p")
def p_with_searchsorted_in_numpy(logits, p):
    cut = np.full(logits.shape, -np.inf)
    for place in np.ndindex(*logits.shape[:-1]):
        row = logits[place].double().numpy()
        weights = np.exp(row - row.max())
        order = np.argsort(-weights)
        reached = np.cumsum(weights[order]) / weights.sum()
        kept = order[: np.searchsorted(reached, p) + 1]
        cut[place][kept] = row[kept]
    return torch.from_numpy(cut).to(logits.dtype)


@right("keep_top_p")
def p_with_one_given_away(logits, p):
    """p = 1 keeps all, so nothing is computed."""
    return logits.clone() if p >= 1 else p_with_the_inverse_order(logits, p)


@wrong("keep_top_p", "unless it is the first")
def p_without_the_crossing_but_one(logits, p):
    """The same, with the first saved."""
    ordered, order = logits.softmax(-1).sort(-1, descending=True)
    remove = ordered.cumsum(-1) > p
    remove[..., 0] = False
    return logits.masked_fill(remove.scatter(-1, order, remove), -math.inf)


@wrong("keep_top_p", "The result is NaN")
def p_multiplied(logits, p):
    """0 times −inf."""
    return logits * (p_counted(logits, p) > -math.inf) + (-math.inf) * (
        p_counted(logits, p) == -math.inf
    )


def p_variant(logits, p, mass=lambda x: x.softmax(-1), sums=lambda x: x.cumsum(-1) - x):
    order = logits.argsort(-1, descending=True)
    remove = sums(mass(logits).gather(-1, order)) >= p
    return logits.masked_fill(remove.scatter(-1, order, remove), -math.inf)


@wrong("keep_top_p", "the first of each row has to stay")
def p_shifted_without_a_first(logits, p):
    """Shifted by one place, and the first left as it was."""

    def sums(weights):
        reached = weights.cumsum(-1)
        return torch.cat([reached[..., :1], reached[..., :-1]], -1)

    return p_variant(logits, p, sums=sums)


@wrong("keep_top_p", "as many tokens as the first")
def p_with_the_count_of_the_first_row(logits, p):
    """int(…) of the first row's count."""
    weights = logits.softmax(-1).sort(-1, descending=True).values
    counts = (weights.cumsum(-1) < p).sum(-1) + 1
    return k_by_ranks(logits, int(counts.flatten()[0]))


@wrong("keep_top_p", "as the row that needs most")
def p_with_the_largest_count(logits, p):
    """One number for all rows, so that the tensor stays rectangular."""
    weights = logits.softmax(-1).sort(-1, descending=True).values
    return k_by_ranks(logits, int(((weights.cumsum(-1) < p).sum(-1) + 1).max()))


@wrong("keep_top_p", "dropped in all rows")
def p_dropped_everywhere(logits, p):
    """logits[..., order[mask]]: the ids of all rows in one list."""
    cut = logits.clone()
    cut[..., (p_counted(logits, p) == -math.inf).nonzero()[:, -1]] = -math.inf
    return cut


@wrong("keep_top_p", "(logits (4, 5), p 1)", "numbers differ")
def p_of_one_keeps_nothing(logits, p):
    """The case p = 1 apart, and wrong."""
    return p_counted(logits, p) if p < 1 else torch.full_like(logits, -math.inf)


@wrong("keep_top_p", "IndexError")
def p_runs_over_the_end(logits, p):
    """while reached < p: at p = 1 rounding may never get there."""
    cut = torch.full_like(logits, -math.inf)
    rows, out = logits.reshape(-1, logits.shape[-1]), cut.view(-1, logits.shape[-1])
    for row, new in zip(rows, out, strict=True):
        weights = (0.9999 * row.softmax(0)).tolist()
        order, reached, n = row.argsort(descending=True).tolist(), 0.0, 0
        while reached < p:
            new[order[n]] = row[order[n]]
            reached, n = reached + weights[order[n]], n + 1
    return cut


@wrong("keep_top_p", "axes of length 1")
def p_squeezed(logits, p):
    """squeeze without an axis."""
    return p_shifted(logits, p).squeeze()


@wrong("keep_top_p", "axes of length 1")
def p_squeezed_in_front(logits, p):
    """squeeze(0), as if there were always one row."""
    return p_shifted(logits, p).squeeze(0)


# ---- beam_search


@right("beam_search")
def with_tensors_and_topk(step, bos_id, eos_id, beam, max_length, alpha):
    tokens, totals, ended = torch.tensor([[bos_id]]), torch.zeros(1), []
    for _ in range(max_length - 1):
        table = totals[:, None] + step(tokens)
        totals, flat = table.flatten().topk(min(beam, table.numel()))
        tokens = torch.cat([tokens[flat // table.shape[1]], flat[:, None] % table.shape[1]], 1)
        done = tokens[:, -1] == eos_id
        ended += zip(totals[done].tolist(), tokens[done].tolist(), strict=True)
        tokens, totals = tokens[~done], totals[~done]
        if len(tokens) == 0 or len(ended) >= beam:
            break
    ended = ended or list(zip(totals.tolist(), tokens.tolist(), strict=True))
    return max(ended, key=lambda pair: pair[0] / ((4 + len(pair[1])) / 6) ** alpha)[1]


@right("beam_search")
def one_prefix_at_a_time(step, bos_id, eos_id, beam, max_length, alpha):
    """Finished ones keep their place in the beam, and nothing stops early."""
    hypotheses = [((bos_id,), 0.0)]
    for _ in range(max_length - 1):
        new = []
        for ids, total in hypotheses:
            if len(ids) > 1 and ids[-1] == eos_id:
                new.append((ids, total))
                continue
            for token, more in enumerate(step(torch.tensor([ids]))[0]):
                new.append(((*ids, token), total + more.item()))
        hypotheses = heapq.nlargest(beam, new, key=lambda pair: pair[1])

    def score(pair):  # a pair of two: whether it has ended, then how good it is
        ids, total = pair
        return len(ids) > 1 and ids[-1] == eos_id, total / ((5 + len(ids) - 1) / 6) ** alpha

    return list(max(hypotheses, key=score)[0])


def refilled(step, bos_id, eos_id, beam, max_length, alpha, early=True, twice=False):
    """As the package does it: `beam` prefixes live on, whatever has ended."""
    living, ended = [(0.0, [bos_id])], []
    while living and len(living[0][1]) < max_length:
        rows = np.asarray(step(torch.tensor([ids for _, ids in living])))
        every = [
            (total + float(rows[i, token]), [*ids, token])
            for i, (total, ids) in enumerate(living)
            for token in range(rows.shape[1])
        ]
        every.sort(reverse=True)
        places = 2 * beam if twice else beam
        ended += [pair for pair in every[:places] if pair[1][-1] == eos_id]
        living = [pair for pair in every if pair[1][-1] != eos_id][:beam]
        if early and len(ended) >= beam:
            break
    return max(ended or living, key=lambda x: x[0] / ((4 + len(x[1])) / 6) ** alpha)[1]


@right("beam_search")
def always_as_many_alive(step, bos_id, eos_id, beam, max_length, alpha):
    return refilled(step, bos_id, eos_id, beam, max_length, alpha)


@right("beam_search")
def until_the_room_is_used_up(step, bos_id, eos_id, beam, max_length, alpha):
    return tuple(refilled(step, bos_id, eos_id, beam, max_length, alpha, early=False))


@right("beam_search")
def all_that_ends_among_twice_as_many(*given):
    return refilled(*given, twice=True)


@right("beam_search")
def twice_as_many_and_no_early_stop(*given):
    return refilled(*given, early=False, twice=True)


@right("beam_search")
def twice_the_candidates_on_tensors(step, bos_id, eos_id, beam, max_length, alpha):
    """The published form: topk of 2K, K of them go on, and finished ones are returned."""
    prefixes, log_p = torch.tensor([[bos_id]]), torch.zeros(1)
    finished = []
    for n in range(1, max_length):
        total = (log_p[:, None] + step(prefixes)).flatten()
        total, index = total.topk(min(2 * beam, len(total)))
        V = step(prefixes).shape[1]
        parent, token = index // V, index % V
        candidates = torch.cat([prefixes[parent], token[:, None]], dim=1)
        ended = token == eos_id
        scores = total / ((5 + n) / 6) ** alpha
        finished += [
            (scores[i].item(), candidates[i].tolist())
            for i in ended.nonzero().flatten()
            if i < beam
        ]
        go_on = (~ended).nonzero().flatten()[:beam]
        prefixes, log_p = candidates[go_on], total[go_on]
        if len(finished) >= beam or len(go_on) == 0:
            break
    return max(finished)[1] if finished else prefixes[0].tolist()


@right("beam_search")
def only_the_best_finished_are_kept(step, bos_id, eos_id, beam, max_length, alpha):
    """A heap of `beam` finished ones, and a stop only when nothing alive can do better."""
    living, finished = [(0.0, [bos_id])], []
    for n in range(1, max_length):
        every = []
        for total, ids in living:
            row = step(torch.tensor([ids]))[0].tolist()
            every += [(total + more, [*ids, token]) for token, more in enumerate(row)]
        every.sort(reverse=True)
        for total, ids in every[:beam]:
            if ids[-1] == eos_id:
                heapq.heappush(finished, (total / ((5 + n) / 6) ** alpha, ids))
        finished = heapq.nlargest(beam, finished)
        heapq.heapify(finished)
        living = [pair for pair in every if pair[1][-1] != eos_id][:beam]
        hope = living[0][0] / ((4 + max_length) / 6) ** alpha if living else -math.inf
        if finished and max(finished)[0] >= hope:
            break
    return max(finished)[1] if finished else living[0][1]


@dataclass
class Hypothesis:
    ids: tuple
    log_p: float = 0.0

    def then(self, row):
        return [Hypothesis((*self.ids, i), self.log_p + p) for i, p in enumerate(row.tolist())]

    def score(self, alpha):
        return self.log_p / math.pow((4 + len(self.ids)) / 6, alpha)


@right("beam_search")
def with_objects_and_recursion(step, bos_id, eos_id, beam, max_length, alpha):
    def rounds(living, ended):
        if not living or len(ended) >= beam or len(living[0].ids) == max_length:
            return ended or living
        rows = step(torch.tensor([h.ids for h in living], dtype=torch.int32))
        new = sorted(
            (n for h, row in zip(living, rows, strict=True) for n in h.then(row)),
            key=lambda h: -h.log_p,
        )[:beam]
        done = [h.ids[-1] == eos_id for h in new]
        return rounds(
            [h for h, end in zip(new, done, strict=True) if not end],
            ended + [h for h, end in zip(new, done, strict=True) if end],
        )

    return list(max(rounds([Hypothesis((bos_id,))], []), key=lambda h: h.score(alpha)).ids)


def beam_variant(step, bos_id, eos_id, beam, max_length, alpha, **wrong):
    living, finished = [([bos_id], 0.0)] * (beam if wrong.get("copies") else 1), []
    seen = wrong.get("seen", lambda ids: ids)
    row_of = wrong.get("row_of", lambda rows: rows)
    add = wrong.get("add", lambda old, new: old + new)
    while living and len(finished) < beam and len(living[0][0]) < max_length:
        rows = row_of(step(torch.tensor([seen(ids) for ids, _ in living])).tolist())
        candidates = [
            ([*ids, token], add(total, more))
            for (ids, total), row in zip(living, rows, strict=True)
            for token, more in heapq.nlargest(
                wrong.get("of_each", len(row)), enumerate(row), key=lambda x: x[1]
            )
            if token != wrong.get("without")
        ]
        count = beam - (len(finished) if wrong.get("narrower") else 0)
        best = sorted(candidates, key=lambda x: x[1], reverse=not wrong.get("smallest"))[:count]
        if wrong.get("best_ended") and best[0][0][-1] == eos_id:
            return best[0][0]
        if wrong.get("extend"):
            living = best
            continue
        finished += [x for x in best if x[0][-1] == eos_id]
        living = [x for x in best if x[0][-1] != eos_id or wrong.get("both")]
        if wrong.get("first_ended") and finished:
            break
    every = finished or living
    if wrong.get("compete"):
        every = finished + living
    if wrong.get("only_finished"):
        every = finished or [([bos_id], 0.0)]
    if wrong.get("only_living") and living:
        every = living
    if wrong.get("last_living") and not finished:
        return living[-1][0]
    penalty = wrong.get("penalty", lambda n: ((5 + n) / 6) ** alpha)
    n = wrong.get("n", lambda ids: len(ids) - 1)
    pick = min if wrong.get("worst") else max
    score = wrong.get("score", lambda total, penalty: total / penalty)
    return pick(every, key=lambda x: score(x[1], penalty(n(x[0]))))[0]


@wrong("beam_search", "It does not end", "is an unfinished prefix preferred")
def unfinished_by_another_score(step, bos_id, eos_id, beam, max_length, alpha):
    """The living are compared with the finished by a penalty of their own: no known mistake."""
    given = step, bos_id, eos_id, beam, max_length, alpha
    ids = beam_variant(*given, compete=True, penalty=lambda n: n**2)
    return ids if ids[-1] != eos_id else beam_variant(*given)


@wrong("beam_search", "Nothing is returned where no hypothesis has finished")
def nothing_if_nothing_ended(*given):
    """`if finished: return …`, and no word about the other case."""
    ids = beam_variant(*given, only_finished=True)
    return ids if len(ids) > 1 else None


@wrong("beam_search", "Your code stopped", "empty")
def max_of_no_finished(step, bos_id, eos_id, beam, max_length, alpha):
    """max(finished) where nothing has finished."""
    ids = beam_variant(step, bos_id, eos_id, beam, max_length, alpha, only_finished=True)
    return max([ids] if len(ids) > 1 else [])


@wrong("beam_search", "It should be a list of ids")
def beam_with_its_score(*given):
    """The score comes along."""
    return beam_variant(*given), 0.0


@wrong("beam_search", "a tensor")
def beam_as_a_tensor(*given):
    """The tensor itself."""
    return torch.tensor(beam_variant(*given))


@wrong("beam_search", "Your code stopped", "selected index k out of range")
def topk_of_more_than_there_are(step, bos_id, eos_id, beam, max_length, alpha):
    """A beam wider than the vocabulary."""
    step(torch.tensor([[bos_id]]))[0].topk(beam)
    return beam_variant(step, bos_id, eos_id, beam, max_length, alpha)


@wrong("beam_search", "until the end it is the sum that counts")
def chosen_by_score(step, bos_id, eos_id, beam, max_length, alpha):
    """Finished ones stay in the beam, and all are sorted by the score in every round."""
    hypotheses = [([bos_id], 0.0)]

    def score(pair):
        return pair[1] / ((4 + len(pair[0])) / 6) ** alpha

    for _ in range(max_length - 1):
        new = [x for x in hypotheses if x[0][-1] == eos_id and len(x[0]) > 1]
        for ids, total in (x for x in hypotheses if x not in new):
            row = step(torch.tensor([ids]))[0].tolist()
            new += [([*ids, token], total + more) for token, more in enumerate(row)]
        hypotheses = heapq.nlargest(beam, new, key=score)
    ended = [x for x in hypotheses if x[0][-1] == eos_id and len(x[0]) > 1]
    return max(ended or hypotheses, key=score)[0]


@wrong("beam_search", "what stopped the search?")
def every_end_counts(step, bos_id, eos_id, beam, max_length, alpha):
    """Every prefix may end at once: after one round as many have ended as the beam is wide."""
    room = max(max_length // 2, 1)
    return beam_variant(step, bos_id, eos_id, beam, room, alpha, compete=True)


@wrong("beam_search", "does not come to it")
def a_wider_beam(step, bos_id, eos_id, beam, max_length, alpha):
    """[: beam + 1]."""
    return beam_variant(step, bos_id, eos_id, beam + 1, max_length, alpha)


@wrong("beam_search", "Both are hypotheses of a right search")
def the_longest(*given):
    """The longest hypothesis is taken for the best."""
    return beam_variant(*given, score=lambda total, penalty: penalty)


@wrong("beam_search", "plain ints were asked for")
def beam_of_floats(*given):
    """ids and sums in one tensor of floats."""
    return [float(token) for token in beam_variant(*given)]


@wrong("beam_search", "plain ints were asked for")
def beam_of_tensors(*given):
    """list() of a tensor."""
    return list(torch.tensor(beam_variant(*given)))


@wrong("beam_search", "plain ints were asked for")
def beam_of_numpy(*given):
    """list() of an array."""
    return list(np.array(beam_variant(*given)))


@wrong("beam_search", "does the end never come among your candidates?")
def two_of_each_prefix(*given):
    """The two best tokens of each prefix, though EOS is often the third."""
    return beam_variant(*given, of_each=2)


@right("beam_search")
def with_empty_places_filtered(*given):
    """`beam` copies of BOS at 0, −∞, −∞, …: what is at −∞ is thrown away."""
    step, bos_id, eos_id, beam, max_length, alpha = given
    tokens, totals, ended = torch.full((beam, 1), bos_id), torch.full((beam,), -math.inf), []
    totals[0] = 0
    for n in range(1, max_length):
        log_p = step(tokens)
        totals, flat = (totals[:, None] + log_p).flatten().topk(min(beam, log_p.numel()))
        tokens = torch.cat([tokens[flat // log_p.shape[1]], flat[:, None] % log_p.shape[1]], 1)
        done, real = tokens[:, -1] == eos_id, totals > -math.inf
        scores = totals / ((5 + n) / 6) ** alpha
        ended += zip(scores[done & real].tolist(), tokens[done & real].tolist(), strict=True)
        tokens, totals = tokens[real & ~done], totals[real & ~done]
        if len(ended) >= beam or len(tokens) == 0:
            break
    return max(ended)[1] if ended else tokens[0].tolist()


@right("beam_search")
def as_many_of_each_prefix_as_the_beam(*given):
    """No prefix can bring more than `beam` of the best `beam` candidates."""
    return beam_variant(*given, of_each=given[3])


def stopping_by_score(hope):
    """Return a search that ends when nothing alive has more to hope for than the best finished."""

    def search(step, bos_id, eos_id, beam, max_length, alpha):
        living, finished = [(0.0, [bos_id])], []
        for n in range(1, max_length):
            rows = step(torch.tensor([ids for _, ids in living])).tolist()
            every = [
                (total + more, [*ids, token])
                for (total, ids), row in zip(living, rows, strict=True)
                for token, more in enumerate(row)
            ]
            best = sorted(every, reverse=True)[:beam]
            score = ((5 + n) / 6) ** alpha
            finished += [(total / score, ids) for total, ids in best if ids[-1] == eos_id]
            living = [pair for pair in best if pair[1][-1] != eos_id]
            if not living:
                break
            most = hope(living[0][0], n, max_length - 1, alpha)
            if finished and max(finished)[0] >= most:
                break
        return max(finished)[1] if finished else living[0][1]

    return search


@right("beam_search")
def stopping_when_no_length_can_help(*given):
    """The best that can still come: a certain rest, and the largest penalty there is."""
    return stopping_by_score(lambda total, n, longest, alpha: total / ((5 + longest) / 6) ** alpha)(
        *given
    )


# ---- CachedSelfAttention


def cut(x, heads):
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


@right("CachedSelfAttention")
class WithConcatenatedTensors(Given):
    def reset(self):
        self.keys = self.values = None

    def step(self, x):
        B = len(x)
        q, k, v = (w(x).view(B, self.num_heads, 1, -1) for w in (self.w_q, self.w_k, self.w_v))
        self.keys = k if self.keys is None else torch.cat((self.keys, k), 2)
        self.values = v if self.values is None else torch.cat((self.values, v), 2)
        heads = F.scaled_dot_product_attention(q, self.keys, self.values)
        return self.w_o(heads.view(B, 1, -1))


@right("CachedSelfAttention")
class WithPairsInFront(Given):
    """The newest first: attention does not care for the order of its pairs."""

    def reset(self):
        self.kept = ()

    def step(self, x):
        q, k, v = (cut(w(x), self.num_heads) for w in (self.w_q, self.w_k, self.w_v))
        old = self.kept or (k[:, :, :0], v[:, :, :0])
        self.kept = torch.cat([k, old[0]], 2), torch.cat([v, old[1]], 2)
        heads, _ = scaled_dot_product_attention(q, *self.kept)
        return self.w_o(heads.transpose(1, 2).flatten(2))


@right("CachedSelfAttention")
class WithTheTokensThemselves(Given):
    """It keeps the tokens and projects them anew: slow, and right."""

    def reset(self):
        self.tokens = []

    def step(self, x):
        self.tokens.append(x)
        past = torch.cat(self.tokens, 1)
        q, k, v = (cut(w(past), self.num_heads) for w in (self.w_q, self.w_k, self.w_v))
        heads = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.w_o(heads.transpose(1, 2).flatten(2))[:, -1:]


@right("CachedSelfAttention")
class WithADoublingStore(Given):
    def reset(self):
        self.length, self.store = 0, None

    def step(self, x):
        k, v = self.w_k(x), self.w_v(x)
        if self.store is None:
            self.store = x.new_empty(2, len(x), 4, x.shape[-1])
        if self.length == self.store.shape[2]:
            self.store = torch.cat([self.store, torch.empty_like(self.store)], 2)
        self.store[:, :, self.length] = torch.stack([k[:, 0], v[:, 0]])
        self.length += 1
        k, v = (cut(y, self.num_heads) for y in self.store[:, :, : self.length])
        heads, _ = scaled_dot_product_attention(cut(self.w_q(x), self.num_heads), k, v)
        return self.w_o(heads.transpose(1, 2).flatten(2))


@right("CachedSelfAttention")
class WithEinsumAndRunningSums(Given):
    """Numerator and denominator of each head, from lists."""

    def reset(self):
        self.k_list, self.v_list = [], []

    def step(self, x):
        h = self.num_heads
        q, k, v = (w(x)[:, 0].unflatten(-1, (h, -1)) for w in (self.w_q, self.w_k, self.w_v))
        self.k_list.append(k)
        self.v_list.append(v)
        keys, values = torch.stack(self.k_list), torch.stack(self.v_list)
        scores = torch.einsum("bhd,lbhd->lbh", q, keys) / q.shape[-1] ** 0.5
        mixed = torch.einsum("lbh,lbhd->bhd", scores.softmax(0), values)
        return self.w_o(mixed.flatten(1))[:, None]


@right("CachedSelfAttention")
class WithQueriesThatGoToTheTokens(Given):
    """w_k goes into the query and w_v behind the mixture, so that the tokens can be kept."""

    def reset(self):
        self.tokens = []

    def step(self, x):
        self.tokens.append(x)
        past, h = torch.cat(self.tokens, 1), self.num_heads
        w_k, w_v = (w.weight.unflatten(0, (h, -1)) for w in (self.w_k, self.w_v))
        asked = torch.einsum("bhd,hde->bhe", self.w_q(x)[:, 0].unflatten(-1, (h, -1)), w_k)
        scores = torch.einsum("bhe,bte->bht", asked, past) / w_k.shape[1] ** 0.5
        mixed = torch.einsum("bht,bte->bhe", scores.softmax(-1), past)
        return self.w_o(torch.einsum("bhe,hde->bhd", mixed, w_v).flatten(1)[:, None])


@right("CachedSelfAttention")
class WithAMaskedStore(Given):
    """A store of blocks; it attends over all places, and a mask hides the empty ones."""

    def reset(self):
        self.length, self.store = 0, None

    def step(self, x):
        new = torch.stack([cut(w(x), self.num_heads) for w in (self.w_k, self.w_v)])
        if self.store is None or self.length == self.store.shape[3]:
            room = torch.zeros_like(new).repeat(1, 1, 1, 64, 1)
            self.store = room if self.store is None else torch.cat([self.store, room], 3)
        self.store[:, :, :, self.length] = new[:, :, :, 0]
        self.length += 1
        here = torch.arange(self.store.shape[3], device=x.device) < self.length
        q = cut(self.w_q(x), self.num_heads)
        heads = F.scaled_dot_product_attention(q, *self.store, attn_mask=here.expand(1, -1))
        return self.w_o(heads.transpose(1, 2).flatten(2))


@right("CachedSelfAttention")
class WithBuffersThatAreNotSaved(Given):
    def reset(self):
        for name in ("keys", "values"):
            self.register_buffer(name, None, persistent=False)

    @torch.inference_mode()
    def step(self, x):
        q, k, v = (cut(w(x), self.num_heads) for w in (self.w_q, self.w_k, self.w_v))
        self.keys = k if self.keys is None else torch.cat([self.keys, k], 2)
        self.values = v if self.values is None else torch.cat([self.values, v], 2)
        heads, _ = scaled_dot_product_attention(q, self.keys, self.values)
        return self.w_o(heads.transpose(1, 2).flatten(2))


@right("CachedSelfAttention")
class WithABookForEachSentence(Given):
    def reset(self):
        self.books = {}

    def step(self, x):
        states = []
        for number, token in enumerate(x):
            keys, values = self.books.setdefault(number, ([], []))
            keys.append(self.w_k(token)), values.append(self.w_v(token))
            q, k, v = (
                cut(y[None], self.num_heads)
                for y in (self.w_q(token), torch.cat(keys), torch.cat(values))
            )
            heads, _ = scaled_dot_product_attention(q, k, v)
            states.append(self.w_o(heads.transpose(1, 2).flatten(2)))
        return torch.cat(states)


@right("CachedSelfAttention")
class WithALoopOverTheTokens(Given):
    """Weighted one by one: so slow that the check does not read the long sentence to its end."""

    def reset(self):
        self.pairs = []

    def step(self, x):
        parts = (w(x).view(len(x), self.num_heads, -1) for w in (self.w_q, self.w_k, self.w_v))
        q, *pair = parts
        self.pairs.append(pair)
        scores = [(q * k).sum(-1) / q.shape[-1] ** 0.5 for k, _ in self.pairs]
        weights = torch.stack(scores).softmax(0)
        heads = sum(w[..., None] * v for w, (_, v) in zip(weights, self.pairs, strict=True))
        return self.w_o(heads.view(len(x), 1, -1))


class Parts(Given):
    """The solution in steps, each of which an answer can replace."""

    def reset(self):
        self.past = []

    def split(self, x):
        return cut(x, self.num_heads)

    def project(self, x):
        return self.w_q(x), self.w_k(x), self.w_v(x)

    def keep(self, pairs):
        return pairs

    def attend(self, q, k, v):
        return scaled_dot_product_attention(q, k, v)[0]

    def out(self, heads):
        return self.w_o(heads.transpose(1, 2).flatten(2))

    def step(self, x):
        q, k, v = map(self.split, self.project(x))
        self.past.append((k, v))
        k, v = (torch.cat(parts, 2) for parts in zip(*self.keep(self.past), strict=True))
        return self.out(self.attend(q, k, v))


@wrong("CachedSelfAttention", "the sequence before `reset()` is still there")
class ResetForgotten(Parts):
    """`pass`, or reset written for another attribute."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.past = []

    def reset(self):
        pass


@wrong("CachedSelfAttention", "attends to itself alone")
class NothingKept(Parts):
    """The cache is filled and not read."""

    def keep(self, pairs):
        return pairs[-1:]


@wrong("CachedSelfAttention", "not among the keys")
class NewestLeftOut(Parts):
    """Read first, then append."""

    def keep(self, pairs):
        return pairs[:-1] or pairs


@wrong("CachedSelfAttention", "only the first token is seen", "not kept")
class FirstOnly(Parts):
    """As in cross-attention: filled once, never added to."""

    def keep(self, pairs):
        return pairs[:1]


@wrong("CachedSelfAttention", "only the last two")
class LastTwo(Parts):
    """The cache is overwritten by the newest token."""

    def keep(self, pairs):
        return pairs[-2:]


@wrong("CachedSelfAttention", "w_o is missing")
class NoOutputLayer(Parts):
    """The last projection forgotten."""

    def out(self, heads):
        return heads.transpose(1, 2).flatten(2)


@wrong("CachedSelfAttention", "not divided by √d_k")
class NotScaled(Parts):
    """The root forgotten."""

    def attend(self, q, k, v):
        return (q @ k.transpose(-2, -1)).softmax(-1) @ v


@wrong("CachedSelfAttention", "divided by √d_model")
class ScaledByTheModel(Parts):
    """d_model for d_k."""

    def attend(self, q, k, v):
        d_model = self.w_q.in_features
        return (q @ k.transpose(-2, -1) / d_model**0.5).softmax(-1) @ v


@wrong("CachedSelfAttention", "root of the number of tokens")
class ScaledByTheTokens(Parts):
    """The size of the wrong axis under the root."""

    def attend(self, q, k, v):
        return (q @ k.transpose(-2, -1) / k.shape[-2] ** 0.5).softmax(-1) @ v


@wrong("CachedSelfAttention", "one head only")
class OneHead(Parts):
    """num_heads not used."""

    def split(self, x):
        return cut(x, 1)


@wrong("CachedSelfAttention", "every H-th feature")
class Interleaved(Parts):
    """The two new axes in the wrong order."""

    def split(self, x):
        return x.unflatten(-1, (-1, self.num_heads)).permute(0, 3, 1, 2)


@wrong("CachedSelfAttention", "runs over the queries")
class SoftmaxOverQueries(Parts):
    """dim=-2."""

    def attend(self, q, k, v):
        return (q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5).softmax(-2) @ v


@wrong("CachedSelfAttention", "new keys are put in front")
class KeysInFront(Given):
    """torch.cat((new, old)) for the one, (old, new) for the other."""

    def reset(self):
        self.k = self.v = None

    def step(self, x):
        q, k, v = (cut(w(x), self.num_heads) for w in (self.w_q, self.w_k, self.w_v))
        self.k = k if self.k is None else torch.cat((k, self.k), 2)
        self.v = v if self.v is None else torch.cat((self.v, v), 2)
        heads, _ = scaled_dot_product_attention(q, self.k, self.v)
        return self.w_o(heads.transpose(1, 2).flatten(2))


@wrong("CachedSelfAttention", "go through their layers again")
class ProjectedAgain(Given):
    """What came out of the layer is put into it again."""

    def reset(self):
        self.k = self.v = None

    def step(self, x):
        self.k = self.w_k(x if self.k is None else torch.cat((self.k, x), 1))
        self.v = self.w_v(x if self.v is None else torch.cat((self.v, x), 1))
        q, k, v = (cut(y, self.num_heads) for y in (self.w_q(x), self.k, self.v))
        heads, _ = scaled_dot_product_attention(q, k, v)
        return self.w_o(heads.transpose(1, 2).flatten(2))


@wrong("CachedSelfAttention", "They share one memory")
class MemoryOfTheClass(Parts):
    """A list in the class belongs to all modules."""

    everything = dict()  # noqa: RUF012

    def reset(self):
        self.everything.clear()

    def step(self, x):
        self.past = self.everything.setdefault("past", [])
        return super().step(x)


@wrong("CachedSelfAttention", "the residual belongs to the layer")
class WithResidual(Parts):
    """x + …"""

    def step(self, x):
        return x + super().step(x)


@wrong("CachedSelfAttention", "has shape (2, 2, 12), expected (2, 1, 12)")
class AllStates(WithTheTokensThemselves):
    """The whole sequence is returned."""

    def step(self, x):
        self.tokens.append(x)
        past = torch.cat(self.tokens, 1)
        q, k, v = (cut(w(past), self.num_heads) for w in (self.w_q, self.w_k, self.w_v))
        heads = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.w_o(heads.transpose(1, 2).flatten(2))


@wrong("CachedSelfAttention", "state_dict has `store`", "keep `__init__` as it was given")
class StoreInTheStateDict(Given):
    """A buffer of fixed size, saved with the weights."""

    def __init__(self, d_model, num_heads):
        super().__init__(d_model, num_heads)
        self.register_buffer("store", torch.zeros(2, 1, 64, d_model))


@wrong("CachedSelfAttention", "after reset() step stops with RuntimeError", "still there?")
class ResetKeepsTheValues(Parts):
    """Only half is forgotten."""

    def reset(self):
        self.k = None
        self.v = getattr(self, "v", None)

    def step(self, x):
        q, k, v = map(self.split, self.project(x))
        self.k = k if self.k is None else torch.cat((self.k, k), 2)
        self.v = v if self.v is None else torch.cat((self.v, v), 2)
        return self.out((q @ self.k.mT / q.shape[-1] ** 0.5).softmax(-1) @ self.v)


class WithAFirstStore(Given):
    """It has room for `first` tokens, and twice as many when they are used up."""

    first = 256

    def reset(self):
        self.length, self.store = 0, None

    def step(self, x):
        if self.store is None:
            self.store = x.new_zeros(2, len(x), self.first, x.shape[-1])
        if self.length == self.store.shape[2]:
            self.grow()
        self.store[:, :, self.length] = torch.stack([self.w_k(x)[:, 0], self.w_v(x)[:, 0]])
        self.length += 1
        k, v = (cut(y, self.num_heads) for y in self.store[:, :, : self.length])
        heads, _ = scaled_dot_product_attention(cut(self.w_q(x), self.num_heads), k, v)
        return self.w_o(heads.transpose(1, 2).flatten(2))

    def grow(self):
        self.store = torch.cat([self.store, torch.zeros_like(self.store)], 2)


@right("CachedSelfAttention")
class WithADoublingStoreOf256(WithAFirstStore):
    pass


@right("CachedSelfAttention")
class WithADoublingStoreOf500(WithAFirstStore):
    first = 500


@wrong("CachedSelfAttention", "There is no longest sentence", "After 300 tokens step stops")
class StoreOf300(WithAFirstStore):
    """A store as long as the longest sentence of the data."""

    first, grow = 300, lambda self: None


@wrong("CachedSelfAttention", "There is no longest sentence", "it keeps no more")
class RingOf100(WithAFirstStore):
    """When the store is full, the oldest tokens are overwritten."""

    first = 100

    def grow(self):
        self.length = 0


@wrong("CachedSelfAttention", "There is no longest sentence")
class RoomForHundred(Given):
    """A store that ends."""

    def reset(self):
        self.length, self.store = 0, None

    def step(self, x):
        if self.store is None:
            self.store = x.new_zeros(100, 2, len(x), x.shape[-1])
        self.store[self.length] = torch.stack([self.w_k(x)[:, 0], self.w_v(x)[:, 0]])
        self.length += 1
        k, v = (cut(y.transpose(0, 1), self.num_heads) for y in self.store[: self.length].unbind(1))
        heads, _ = scaled_dot_product_attention(cut(self.w_q(x), self.num_heads), k, v)
        return self.w_o(heads.transpose(1, 2).flatten(2))


@wrong("CachedSelfAttention", "They share one memory", "default argument")
class MemoryInADefault(Parts):
    """A default argument is made once, for all modules."""

    def reset(self, past=[]):  # noqa: B006
        past.clear()
        self.past = past


@wrong("CachedSelfAttention", "does it leave something behind?")
class ResetOfTheLength(Given):
    """The length is set to 0, and the tensors still hold the old tokens in front."""

    def reset(self):
        self.length = 0

    def step(self, x):
        q, k, v = (cut(w(x), self.num_heads) for w in (self.w_q, self.w_k, self.w_v))
        old = getattr(self, "kept", None)
        fits = old is not None and old.shape[1] == len(x)
        self.kept = torch.cat([old, torch.stack([k, v])], 3) if fits else torch.stack([k, v])
        self.length += 1
        heads, _ = scaled_dot_product_attention(q, *self.kept[:, :, :, : self.length])
        return self.w_o(heads.transpose(1, 2).flatten(2))


@wrong("CachedSelfAttention", "state_dict has `keys`", "persistent=False")
class MemoryThatIsSaved(Given):
    """register_buffer, as one does for a mask."""

    def reset(self):
        self.register_buffer("keys", None)
        self.values = None

    def step(self, x):
        q, k, v = (cut(w(x), self.num_heads) for w in (self.w_q, self.w_k, self.w_v))
        self.keys = k if self.keys is None else torch.cat([self.keys, k], 2)
        self.values = v if self.values is None else torch.cat([self.values, v], 2)
        heads, _ = scaled_dot_product_attention(q, self.keys, self.values)
        return self.w_o(heads.transpose(1, 2).flatten(2))


@wrong("CachedSelfAttention", "no method `step`")
class ForwardInsteadOfStep(nn.Module):
    """forward, as in every other class of the course."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        for name in ("w_q", "w_k", "w_v", "w_o"):
            setattr(self, name, nn.Linear(d_model, d_model, bias=False))
        self.reset()

    def reset(self):
        self.past = []

    def forward(self, x):
        return x


@wrong("CachedSelfAttention", "there is no dropout here")
class WithDropout(Parts):
    """Dropout on the weights; and nobody calls eval()."""

    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, dropout_p=0.2)


@wrong("CachedSelfAttention", "keys and values are mixed up")
class PairsTurnedRound(Parts):
    """(value, key) in one place, (key, value) in the other."""

    def keep(self, pairs):
        return [pair[::-1] for pair in pairs]


@wrong("CachedSelfAttention", "the softmax is missing")
class WithoutSoftmax(Parts):
    """Scores for weights."""

    def attend(self, q, k, v):
        return q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5 @ v


@wrong("CachedSelfAttention", "keys are the tokens themselves")
class KeysWithoutLayer(Parts):
    """One of four layers forgotten."""

    def project(self, x):
        return self.w_q(x), x, self.w_v(x)


@wrong("CachedSelfAttention", "values are the tokens themselves")
class ValuesWithoutLayer(Parts):
    """One of four layers forgotten."""

    def project(self, x):
        return self.w_q(x), self.w_k(x), x


@wrong("CachedSelfAttention", "kept in float16")
class HalfPrecision(Parts):
    """Kept at half the memory, which nobody asked for."""

    def keep(self, pairs):
        return [tuple(y.half().to(y.dtype) for y in pair) for pair in pairs]


@wrong("CachedSelfAttention", "positions are added")
class WithPositions(Parts):
    """The bug of the textbook, mended in the wrong place."""

    def step(self, x):
        t = len(self.past)
        return super().step(x + sinusoidal_encoding(t + 1, x.shape[-1])[t:])


@wrong("CachedSelfAttention", "`reshape` or `view` alone")
class CutByReshape(Given):
    """Kept as (B, t, d_model), and cut into heads without transpose: right for one token."""

    def reset(self):
        self.past = []

    def step(self, x):
        self.past.append((self.w_k(x), self.w_v(x)))
        k, v = (
            y.reshape(len(x), self.num_heads, len(self.past), -1)
            for y in (torch.cat(parts, 1) for parts in zip(*self.past, strict=True))
        )
        heads, _ = scaled_dot_product_attention(cut(self.w_q(x), self.num_heads), k, v)
        return self.w_o(heads.transpose(1, 2).flatten(2))


@wrong("CachedSelfAttention", "The first 32 tokens are right", "what happens to the memory")
class WindowOf32(Parts):
    """Only the newest are kept, as later models do; here there is no longest sentence."""

    def keep(self, pairs):
        return pairs[-32:]


@wrong("CachedSelfAttention", "Already the first token is wrong", "empty places")
class EmptyPlacesAreSeen(Given):
    """A store of zeros; zeros as keys still get a weight."""

    def reset(self):
        self.length, self.store = 0, None

    def step(self, x):
        new = torch.stack([cut(w(x), self.num_heads) for w in (self.w_k, self.w_v)])
        if self.store is None:
            self.store = torch.zeros_like(new).repeat(1, 1, 1, 512, 1)
        self.store[:, :, :, self.length] = new[:, :, :, 0]
        self.length += 1
        heads, _ = scaled_dot_product_attention(cut(self.w_q(x), self.num_heads), *self.store)
        return self.w_o(heads.transpose(1, 2).flatten(2))


@wrong("CachedSelfAttention", "The first token is right, later ones are not")
class WhatComesOutIsKept(Given):
    """The outputs are kept in the place of the tokens: a diary of the wrong thing."""

    def reset(self):
        self.outputs = []

    def step(self, x):
        past = torch.cat([*self.outputs, x], 1)
        q, k, v = (cut(y, self.num_heads) for y in (self.w_q(x), self.w_k(past), self.w_v(past)))
        heads, _ = scaled_dot_product_attention(q, k, v)
        self.outputs.append(self.w_o(heads.transpose(1, 2).flatten(2)))
        return self.outputs[-1]


@wrong("CachedSelfAttention", "only the first token is seen", "is_causal=True")
class CausalForOneQuery(Parts):
    """is_causal=True with one query: PyTorch's triangle begins at the upper left."""

    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


@wrong("CachedSelfAttention", "There is no longest sentence")
class StoreOf1024(Parts):
    """Room for as many tokens as anybody will ever need, each kind in a tensor of its own."""

    def reset(self):
        self.length, self.keys, self.values = 0, None, None

    def step(self, x):
        q, k, v = map(self.split, self.project(x))
        if self.keys is None:
            self.keys, self.values = (y.new_zeros(*y.shape[:2], 1024, y.shape[3]) for y in (k, v))
        self.keys[:, :, self.length], self.values[:, :, self.length] = k[:, :, 0], v[:, :, 0]
        self.length += 1
        kept = (y[:, :, : self.length] for y in (self.keys, self.values))
        return self.out(self.attend(q, *kept))


@wrong("CachedSelfAttention", "There is no longest sentence")
class StoreOf5000(Parts):
    """The same with both in one tensor, in a list."""

    def reset(self):
        self.length, self.stores = 0, []

    def step(self, x):
        q, k, v = map(self.split, self.project(x))
        if not self.stores:
            self.stores.append(k.new_zeros(5000, 2, *k.shape))
        self.stores[0][self.length] = torch.stack([k, v])
        self.length += 1
        k, v = self.stores[0][: self.length].transpose(0, 1)
        return self.out(self.attend(q, *(y[:, :, :, 0].movedim(0, 2) for y in (k, v))))


@wrong("CachedSelfAttention", "Or is the state of the first token returned?")
class StateOfTheFirst(AllStates):
    """All states are computed, and [:, :1] of them is returned in the place of [:, -1:]."""

    def step(self, x):
        return super().step(x)[:, :1]


# ---- repaired_states


def run_chunks(chunks, table, w_q, w_k, w_v, place, scale=None, masked=True):
    """The solution; `place(start, n, piece)` gives the positions of a piece."""
    d_model = table.shape[1]
    encoding = sinusoidal_encoding(600 + 2 * sum(c.shape[1] for c in chunks), d_model)
    keys, values, states, seen = [], [], [], 0
    for piece, tokens in enumerate(chunks):
        n = tokens.shape[1]
        x = table[tokens] * (scale or math.sqrt(d_model)) + encoding[place(seen, n, piece)]
        seen += n
        keys.append(x @ w_k)
        values.append(x @ w_v)
        k, v = torch.cat(keys, 1), torch.cat(values, 1)
        mask = causal_mask(seen)[-n:] if masked else None
        states.append(scaled_dot_product_attention(x @ w_q, k, v, mask)[0])
    return torch.cat(states, 1)


@right("repaired_states")
def with_a_slice_of_a_table(*given):
    return run_chunks(*given, place=lambda start, n, piece: slice(start, start + n))


@right("repaired_states")
def all_at_once(chunks, table, w_q, w_k, w_v):
    tokens = torch.cat(chunks, 1)
    x = table[tokens] * table.shape[1] ** 0.5
    x = x + sinusoidal_encoding(tokens.shape[1], table.shape[1])
    return F.scaled_dot_product_attention(x @ w_q, x @ w_k, x @ w_v, is_causal=True)


@right("repaired_states")
def token_by_token_in_float64(chunks, table, w_q, w_k, w_v):
    singles = [token[:, None] for chunk in chunks for token in chunk.unbind(1)]
    table, w_q, w_k, w_v = (m.double() for m in (table, w_q, w_k, w_v))
    seen = []
    states = []
    for t, token in enumerate(singles):
        x = table[token] * math.sqrt(table.shape[1]) + sinusoidal_encoding(t + 1, table.shape[1])[t]
        seen.append(x)
        past = torch.cat(seen, 1)
        scores = (x @ w_q) @ (past @ w_k).mT / math.sqrt(table.shape[1])
        states.append(scores.softmax(-1) @ (past @ w_v))
    return torch.cat(states, 1)


@wrong("repaired_states", "pieces are not connected")
def pieces_alone(chunks, *rest):
    """The cache thrown away with the bug."""
    ends = np.cumsum([chunk.shape[1] for chunk in chunks])
    return torch.cat(
        [
            run_chunks(
                [chunk], *rest, place=lambda _, n, piece, end=end: slice(int(end) - n, int(end))
            )
            for chunk, end in zip(chunks, ends, strict=True)
        ],
        1,
    )


@wrong("repaired_states", "only the first piece counts")
def prompt_only(*given):
    """The prompt's length, for all that follows."""
    n_first = given[0][0].shape[1]

    def place(start, n, piece):
        return slice(n_first * (piece > 0), n_first * (piece > 0) + n)

    return run_chunks(*given, place=place)


@wrong("repaired_states", "taken for one token")
def one_token_for_each_piece(*given):
    """The prompt, and then one token at a time: as in the example, and not in general."""
    n_first = given[0][0].shape[1]

    def place(start, n, piece):
        begin = (n_first + piece - 1) * (piece > 0)
        return slice(begin, begin + n)

    return run_chunks(*given, place=place)


@wrong("repaired_states", "Right tokens before the first wrong one: 3")
def keys_and_values_counted(*given):
    """Both lists are counted."""
    return run_chunks(*given, place=lambda start, n, piece: slice(2 * start, 2 * start + n))


class Memory(nn.Module):
    seen = 0


@wrong("repaired_states", "The same call a second time", "begin anew")
def counted_in_a_global(chunks, table, w_q, w_k, w_v):
    """The number of tokens is kept from one call to the next."""
    key = tuple(chunk.shape for chunk in chunks)
    start = getattr(Memory, "last", None) == key and len(chunks) == 2 and len(chunks[0]) == 2
    Memory.last = key
    return run_chunks(
        chunks, table, w_q, w_k, w_v, place=lambda s, n, piece: slice(s + start, s + n + start)
    )


@wrong("CachedSelfAttention", "There is no longest sentence")
class StoreOf512(nn.Module):
    """The cache has room for as many tokens as anybody will ever need."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        linears = (nn.Linear(d_model, d_model, bias=False) for _ in range(4))
        self.w_q, self.w_k, self.w_v, self.w_o = linears
        self.reset()

    def reset(self):
        self.length, self.store = 0, None

    def step(self, x):
        def split(y):
            return y.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

        if self.store is None:
            self.store = x.new_zeros(512, 2, len(x), x.shape[-1])
        self.store[self.length] = torch.stack([self.w_k(x)[:, 0], self.w_v(x)[:, 0]])
        self.length += 1
        k, v = (split(y.transpose(0, 1)) for y in self.store[: self.length].unbind(1))
        heads, _ = scaled_dot_product_attention(split(self.w_q(x)), k, v)
        return self.w_o(heads.transpose(1, 2).flatten(2))


def states_with(chunks, table, matrices, encoding, root):
    seen, keys, values, states = 0, [], [], []
    w_q, w_k, w_v = matrices
    for tokens in chunks:
        n = tokens.shape[1]
        x = table[tokens] * root + encoding[seen : seen + n]
        seen += n
        keys.append(x @ w_k)
        values.append(x @ w_v)
        k, v = torch.cat(keys, dim=1), torch.cat(values, dim=1)
        states.append(scaled_dot_product_attention(x @ w_q, k, v, causal_mask(seen)[-n:])[0])
    return torch.cat(states, dim=1)


@wrong("repaired_states", "size of tensor")
def states_of_width_8(chunks, table, w_q, w_k, w_v):
    """The 8 of the example, typed in."""
    encoding = sinusoidal_encoding(200, 8)
    return states_with(chunks, table, (w_q, w_k, w_v), encoding, math.sqrt(8))


@wrong("repaired_states", "size of tensor")
def states_of_a_hundred_places(chunks, table, w_q, w_k, w_v):
    """A table of positions that is long enough for the example."""
    d = table.shape[1]
    return states_with(chunks, table, (w_q, w_k, w_v), sinusoidal_encoding(100, d), math.sqrt(d))


@wrong("keep_top_k", "far apart")
def top_k_of_probabilities(logits, k):
    """The border is a probability: those of small logits are all 0."""
    p = logits.softmax(dim=-1)
    border = p.topk(min(k, logits.shape[-1]), dim=-1).values[..., -1:]
    return logits.masked_fill(p < border, -math.inf)


@wrong("keep_top_p", "large")
def top_p_with_exp(logits, p):
    """A softmax by hand, which overflows."""
    weights = logits.exp() / logits.exp().sum(dim=-1, keepdim=True)
    weights, order = weights.sort(dim=-1, descending=True)
    dropped = weights.cumsum(dim=-1) - weights >= p
    return logits.masked_fill(dropped.scatter(-1, order, dropped), -math.inf)


@wrong("repaired_states", "size of tensor")
def states_of_512_places(chunks, table, w_q, w_k, w_v):
    """A longer table of positions, made once."""
    d = table.shape[1]
    return states_with(chunks, table, (w_q, w_k, w_v), sinusoidal_encoding(512, d), math.sqrt(d))


@wrong("repaired_states", "size of tensor")
def states_of_1000_places(chunks, table, w_q, w_k, w_v):
    """A table of positions for as many tokens as anybody will ever need."""
    d = table.shape[1]
    return states_with(chunks, table, (w_q, w_k, w_v), sinusoidal_encoding(1000, d), math.sqrt(d))


@wrong("repaired_states", "has shape (2, 8), expected (2, 1, 8)", "axes of length 1")
def states_squeezed(*given):
    """squeeze(1), for the tokens that come alone."""
    return run_chunks(*given, place=lambda start, n, piece: slice(start, start + n)).squeeze(1)
