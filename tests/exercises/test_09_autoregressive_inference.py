"""The checks of exercise 09. A mistake's text ends the sentence "This is the answer when …"."""

import math
import random
import time
from collections.abc import Iterable

import torch
from torch import Tensor

import transformer_lab as lab
from course.checking import CheckFailed, close, expect
from course.checking.diagnosis import describe, expect_predictions, random_weights


def expect_all(cases):
    """Fail at the first wrong answer of `cases`: (answer, expected, mistakes, more for `expect`).

    One answer may look like a mistake by chance. So the mistake is named that gives the most
    answers, and only if it gives more than half of them.
    """
    tried = []
    try:
        tried.extend(cases)  # keeps what came before an error
    except Exception:
        if all(close(answer, expected) for answer, expected, *_ in tried):
            raise
    for case in tried:
        answer, expected, mistakes, more = case
        if not close(answer, expected):
            here = [text for text in mistakes if gives(text, case, impossible=False)]
            fits = {text: sum(gives(text, each) for each in tried) for text in here}
            best = max(fits, key=fits.get, default="")
            likely = {best.strip(): answer} if 2 * fits.get(best, 0) > len(tried) else {}
            expect(answer, expected, likely, **more)


def gives(text, case, impossible=True):
    """Return whether a mistake gives the answer of a case; `impossible` if it cannot be made."""
    answer, _, mistakes, _ = case
    try:
        made = mistakes.get(text, answer)
        return close(answer, made() if callable(made) else made)
    except Exception:
        return impossible


# ---- predicted_search


def test_the_search_is_predicted(predicted_search):
    one_pass = "Each pass reads everything again. How many does the first read, how many the last?"
    hints = {
        "a": {
            0.2: "That is before the end sign: its chance belongs to the product.",
            0.5: "That is the first sign alone. Multiply along the whole way.",
            0.15: "After a, the largest chance is not that of the end.",
            0.1125: "Greedy takes the largest of each row.",
            0.32: "That is another sentence, which begins worse. Greedy cannot know.",
            1.4: "Chances along a way are multiplied, not added.",
            10: "A probability is a number from 0 to 1, not a percentage.",
            None: "Take the largest of each row and multiply, down to the end sign.",
        },
        "b": {
            0.1: "There is a sentence that begins with less than 0.5 and is better.",
            0.15: "There is a better one. What does the row of b promise?",
            0.8: "That is its last sign alone; the first has a chance, too.",
            0.4: "That is its first sign alone; it has to end.",
            None: "List the sentences of at most two words with their products.",
        },
        "c": {
            4: "That is with a cache.",
            16: "The first pass reads one token only, not four.",
            6: "In the last pass it reads four.",
            15: "Four signs are written, and BOS is read in the first pass: 1 token.",
            14: "BOS is read in the first pass: it starts with 1 token and ends with 4.",
            None: one_pass,
        },
        "d": {
            1: "One alone has 0.5. That does not reach 0.7: what crosses the line belongs to it.",
            3: "Two of them already reach it.",
            4: "Add up from the largest and stop as soon as 0.7 is reached.",
            0: "The set is never empty.",
            None: "It is a whole number of signs. Add up from the largest.",
        },
        "e": {
            0.75: "That is temperature 1.",
            0.25: "That is the other sign, or temperature turned round.",
            1.5: "Logits are divided, not chances; and a chance is at most 1.",
            0.5625: "They must add up to 1 again.",
            0.1: "That is the other sign.",
            0.6339745962: "That is temperature 2: dividing by 0.5 doubles the logits.",
            0.634: "That is temperature 2: dividing by 0.5 doubles the logits.",
            0.63: "That is temperature 2: dividing by 0.5 doubles the logits.",
            None: "Divide the logits ln 0.75 and ln 0.25 by 0.5, then softmax.",
        },
    }
    expect_predictions(predicted_search(), {"a": 0.1, "b": 0.32, "c": 10, "d": 2, "e": 0.9}, hints)


# ---- A small language whose next token depends on everything that was written


class Tree:
    """Log-probabilities of the next of V tokens after each prefix, drawn when first asked for."""

    def __init__(self, seed, V=5, bos=1, eos=2, spread=1.3, end=0.0):
        self.seed, self.V, self.bos, self.eos = seed, V, bos, eos
        self.spread, self.end, self.rows = spread, end, {}

    def __call__(self, prefix: Iterable[int]) -> list[float]:
        key = tuple(prefix)
        if key not in self.rows:
            draw = random.Random(f"{self.seed} {key}")
            row = [draw.gauss(0, self.spread) for _ in range(self.V)]
            row[self.eos] += self.end * len(key)  # the longer, the more the end is probable
            total = math.log(sum(map(math.exp, row)))
            self.rows[key] = torch.tensor([x - total for x in row]).tolist()  # as float32
        return self.rows[key]

    def stepper(self, one_only: bool):
        """Return the function `step` that a learner gets."""

        def step(tokens):
            wanted = "(1, L)" if one_only else "(N, L)"
            kind = f"step was called with {describe(tokens)}"
            assert isinstance(tokens, Tensor), f"{kind}; it takes a tensor of ids, {wanted}."
            assert tokens.ndim == 2 and tokens.numel() > 0, f"{kind}; its shape should be {wanted}."
            assert len(tokens) == 1 or not one_only, f"{kind}; its shape should be {wanted}."
            whole = not tokens.is_floating_point() and tokens.dtype != torch.bool
            assert whole, f"step was called with {tokens.dtype}; ids are whole numbers."
            known = int(tokens.min()) >= 0 and int(tokens.max()) < self.V
            assert known, f"step was called with ids outside 0 … {self.V - 1}: {tokens.tolist()}."
            assert tokens.shape[1] <= 60, (
                "step was called with more than 60 tokens, over any max_length: does the loop end?"
            )
            return torch.tensor([self(row) for row in tokens.tolist()])

        return step


def argmax(row):
    return max(range(len(row)), key=row.__getitem__)


# ---- greedy_decode


def greedy(tree, limit, seen=lambda ids: ids, pick=argmax, start=None, end=None):
    """Greedy decoding; the keywords are there to be set wrong."""
    ids = [tree.bos if start is None else start]
    while len(ids) < limit and (len(ids) == 1 or ids[-1] != (tree.eos if end is None else end)):
        ids.append(pick(tree(seen(ids))))
    return ids


def greedy_mistakes(tree, limit):
    right = greedy(tree, limit)
    longer = greedy(tree, limit + 1)
    ended = right[-1] == tree.eos and len(right) > 1
    return {
        "BOS is missing: the list begins with it.": right[1:],
        "EOS is missing: it belongs to the result.": right[:-1] if ended else right,
        "BOS and EOS are taken off: both belong to the result.": (
            right[1:-1] if ended else right[1:]
        ),
        "the loop goes on after EOS. Leave it as soon as `eos_id` has been written.": (
            lambda: greedy(tree, limit, end=-1)
        ),
        "EOS is appended at the end, even if it is there or there is no room for it.": (
            [*right, tree.eos]
        ),
        "EOS is appended, but it is there already.": [*right, tree.eos] if ended else right,
        "EOS is written though the room is used up: it counts like every id.": (
            longer if longer[-1] == tree.eos else right
        ),
        "EOS is appended, but there is no room for it. A sentence that does not end in time is "
        "returned as it stands.": right if ended else [*right, tree.eos],
        "the last id is replaced by EOS. A sentence that does not end in time is returned as it "
        "stands.": [*right[:-1], tree.eos],
        "`max_length` is taken to count the tokens after BOS: BOS is one of them.": (
            lambda: greedy(tree, limit + 1)
        ),
        "the loop ends one id too early: there may be `max_length` ids, BOS among them.": (
            lambda: greedy(tree, limit - 1)
        ),
        "the loop ends two ids too early: there may be `max_length` ids, BOS among them.": (
            lambda: greedy(tree, limit - 2)
        ),
        "step gets only the newest token. It needs all that is written so far: it keeps "
        "nothing itself.": lambda: greedy(tree, limit, seen=lambda ids: ids[-1:]),
        "BOS is left out of what step gets.": (
            lambda: greedy(tree, limit, seen=lambda ids: ids[1:] or ids)
        ),
        "step gets the ids in opposite order.": lambda: greedy(tree, limit, lambda ids: ids[::-1]),
        "step gets BOS twice: the list begins with it already.": (
            lambda: greedy(tree, limit, lambda ids: [tree.bos, *ids])
        ),
        "step gets the padding as well: hand over only what is written.": (
            lambda: greedy(tree, limit, lambda ids: ids + [0] * (limit - len(ids)))
        ),
        "step gets nothing but BOS, over and over.": (
            lambda: greedy(tree, limit, lambda ids: ids[:1])
        ),
        "the least probable token is taken.": (
            lambda: greedy(tree, limit, pick=lambda row: argmax([-x for x in row]))
        ),
        "the second most probable token is taken.": (
            lambda: greedy(
                tree, limit, pick=lambda row: sorted(range(len(row)), key=row.__getitem__)[-2]
            )
        ),
        "the argmax runs over the batch, or over a single number: step returns (1, V), and the "
        "tokens are its last axis.": (lambda: greedy(tree, limit, pick=lambda row: 0)),
        "the ids lie in a list of lists: return the one sentence.": [right],
        "the list is returned after the first token.": right[:2],
        "the wrong end is sought: the loop stops at BOS, not at EOS.": (
            lambda: greedy(tree, limit, end=tree.bos)
        ),
        "`bos_id` and `eos_id` are mixed up.": (
            lambda: greedy(tree, limit, start=tree.eos, end=tree.bos)
        ),
        "EOS is taken to be 2: it is `eos_id`, another number in each call.": (
            lambda: greedy(tree, limit, end=2)
        ),
        "BOS is taken to be 1 and EOS 2: they are `bos_id` and `eos_id`, other numbers in each "
        "call.": lambda: greedy(tree, limit, start=1, end=2),
        "the list is filled up to `max_length`. Return it without padding.": (
            right + [0] * (limit - len(right))
        ),
        "the list is filled up with EOS. One is enough.": (
            right + [tree.eos] * (limit - len(right))
        ),
    }


GREEDY_TREES = (  # tree, max_length
    *((Tree(seed, 7, 1, 2, end=-1.0), limit) for seed, limit in ((6, 5), (7, 8), (8, 2))),  # no end
    *((Tree(19, 6, 2, 0, end=0.1), limit) for limit in (9, 8, 7)),  # EOS is the eighth id
    *(
        (Tree(seed, 6, bos, eos, end=0.1), 9)
        for seed, bos, eos in ((4, 1, 3), (5, 5, 1), (3, 4, 2))
    ),
    *((Tree(seed, 5, 3, 4, end=0.3), 30) for seed in (10, 12, 14)),
    (Tree(6, 7, 1, 2, end=-1.0), 40),  # a long one
)


def first_slip(answer, expected):
    """Name the first token that another one should have been, or where a list ends too early."""
    if not isinstance(answer, list):
        return {}
    for t, (came, best) in enumerate(zip(answer, expected, strict=False)):
        if t and not close(came, best):
            text = f"{describe(came)} is taken after {expected[:t]}: the most probable is {best}."
            return {text: answer}
    count = len(answer)
    text = f"the loop ends after {count} ids: EOS is not written yet, and there is room for more."
    return {text: answer} if 2 < count < len(expected) - 2 else {}


def no_tensor(answer):
    if isinstance(answer, Tensor):
        shape = tuple(answer.shape)
        raise CheckFailed(f"It returned a tensor {shape}; a plain list of ints was asked for.")


def plain_ints(answer):
    assert all(type(token) is int for token in answer), (
        "The list holds tensors or other numbers; plain ints were asked for: int(…) or .item()."
    )


def greedy_cases(greedy_decode):
    for tree, limit in GREEDY_TREES:
        given = tree.stepper(True), tree.bos, tree.eos, limit
        expected, answer = greedy(tree, limit), greedy_decode(*given)
        no_tensor(answer)
        again = answer if close(answer, expected) else greedy_decode(*given)
        if isinstance(answer, list) and not close(again, answer):
            raise CheckFailed(
                f"Twice the same call, and two answers: {describe(answer)}, then "
                f"{describe(again)}. Greedy takes the most probable token; nothing is drawn, and "
                "nothing is left over from an earlier call."
            )
        yield answer, expected, greedy_mistakes(tree, limit) | first_slip(answer, expected), {}


def test_greedy_takes_the_most_probable_token_at_each_step(greedy_decode):
    expect_all(greedy_cases(greedy_decode))


def test_greedy_writes_nothing_if_bos_fills_the_room(greedy_decode):
    tree = Tree(9, 7, 1, 2)
    answer = greedy_decode(tree.stepper(True), tree.bos, tree.eos, 1)
    text = "a token is written, though BOS alone makes `max_length` ids: compare first, then write."
    expect(answer, [tree.bos], {text: greedy(tree, 2)})


def test_greedy_ids_are_plain_ints(greedy_decode):
    tree, limit = GREEDY_TREES[0]
    answer = greedy_decode(tree.stepper(True), tree.bos, tree.eos, limit)
    assert isinstance(answer, list), "It returned a tuple; a plain list of ints was asked for."
    plain_ints(answer)


# ---- keep_top_k and keep_top_p


def distinct(*shape, seed=0, spread=1.0):
    """Logits that differ by 0.1 or more in each row, also in float16; no two rows are alike."""
    generator = torch.Generator().manual_seed(seed)
    steps = torch.rand(shape, generator=generator).argsort(-1).float()
    rows = torch.randperm(steps[..., 0].numel(), generator=generator).view(*shape[:-1], 1)
    return (0.4 * steps - 0.2 * shape[-1]) * spread + rows


def top_k(logits, k, fill=-math.inf, largest=True):
    order = logits.argsort(-1, descending=largest)
    return logits.scatter(-1, order[..., k:], fill)


def in_order(logits):
    return logits.sort(-1, descending=True).values


def k_mistakes(logits, k):
    V = logits.shape[-1]
    right = top_k(logits, k)
    kept = right > -math.inf
    flat = logits.flatten()
    borders = in_order(logits)[..., min(k, V) - 1]
    first = kept.reshape(-1, V)[0]
    return {
        "nothing is cut.": logits,
        "the cut logits are 0. That is a probability like others after the softmax: −inf.": (
            lambda: top_k(logits, k, 0.0)
        ),
        "only the largest is kept, whatever k is.": lambda: top_k(logits, 1),
        "at least one is cut: a k of V or more keeps all.": lambda: top_k(logits, min(k, V - 1)),
        "the k smallest are kept.": lambda: top_k(logits, k, largest=False),
        "the k smallest are removed, and the rest is kept.": lambda: top_k(logits, V - k),
        "the k-th largest is cut as well: it belongs to the k.": lambda: top_k(logits, k - 1),
        "one too many is kept.": lambda: top_k(logits, k + 1),
        "the k largest are removed.": lambda: logits.masked_fill(kept, -math.inf),
        "the k largest of all rows together are kept: each row has its own.": (
            lambda: top_k(flat, k).reshape(logits.shape)
        ),
        "every row is cut where the first row is: each has its own k largest.": (
            lambda: logits.masked_fill(~first, -math.inf)
        ),
        "every row is cut at the k-th largest of the first row: each has its own border.": (
            lambda: logits.masked_fill(
                logits < logits.reshape(-1, V)[0].sort(descending=True).values[k - 1], -math.inf
            )
        ),
        "one border is used for all rows, the lowest: each has its own.": (
            lambda: logits.masked_fill(logits < borders.min(), -math.inf)
        ),
        "one border is used for all rows, the highest: each has its own.": (
            lambda: logits.masked_fill(logits < borders.max(), -math.inf)
        ),
        "the k largest along the first axis are kept: the vocabulary is the last.": (
            lambda: top_k(logits.transpose(0, -1), k).transpose(0, -1)
        ),
        "the k largest along axis 1 are kept: the vocabulary is the last.": (
            lambda: top_k(logits.transpose(1, -1), k).transpose(1, -1)
        ),
        "the first k ids are kept: the largest were asked for.": (
            lambda: logits.masked_fill(torch.arange(V) >= k, -math.inf)
        ),
        "the result is sorted: every token must keep its place.": lambda: top_k(
            in_order(logits), k
        ),
        "only the k values are returned; the others stay there as −inf.": (
            lambda: logits.topk(k).values
        ),
        "the ids are returned, not the logits.": lambda: logits.topk(k).indices,
        "probabilities are returned. The logits were asked for; the softmax comes later.": (
            lambda: right.softmax(-1)
        ),
        "log-probabilities are returned, not the logits themselves.": lambda: right.log_softmax(-1),
        "log-probabilities are returned, not the logits themselves. ": (
            lambda: top_k(logits.log_softmax(-1), k)
        ),
        "the softmax is taken before the cut. Logits stay logits.": (
            lambda: top_k(logits.softmax(-1), k)
        ),
        "`argsort` is taken for the ranks. It gives the ids in order; the rank of each id is "
        "`order.argsort(-1)`.": lambda: logits.masked_fill(
            logits.argsort(-1, descending=True) >= k, -math.inf
        ),
        "the mask is returned, and not the logits.": kept,
        "a mask of 0 and −inf is returned: add the logits.": right.where(right == -math.inf, 0.0),
        **large_negative(right),
    }


def large_negative(right):
    """A number that is meant as −inf."""
    text = "a large negative number stands where −inf was asked for: `-math.inf`."
    finite = (-1e9, -1e4, -1e10, -1e20, -1e30, -100.0, -999.0, -1e5, -1e6, -1e8)
    lowest = torch.finfo(right.dtype).min if right.is_floating_point() else -1e9
    return {
        text + " " * i: (lambda value=value: right.masked_fill(right == -math.inf, value))
        for i, value in enumerate((*finite, lowest))
    }


def check_cuts(function, given, right, mistakes):
    nan = "0 · inf and inf − inf are NaN: do not multiply by a mask, put −inf in with `where`."
    expect_all(
        (function(logits, size), right(logits, size), mistakes(logits, size), {"nan": nan})
        for logits, size in given
    )


def check_top_k(keep_top_k, *given):
    check_cuts(keep_top_k, given, top_k, k_mistakes)


def test_top_k_keeps_the_k_largest_of_each_row(keep_top_k):
    sizes = (
        *(((4, 8), 3), ((7,), 2), ((2, 3, 5), 4), ((4, 4), 1), ((5, 5, 5), 2)),
        *(((1, 5), 2), ((1, 1, 6), 3)),
    )
    check_top_k(keep_top_k, *((distinct(*shape, seed=k), k) for shape, k in sizes))


def test_a_k_above_the_vocabulary_keeps_all(keep_top_k):
    check_top_k(keep_top_k, *((distinct(2, 5), k) for k in (5, 6, 50)))


def test_top_k_of_what_was_cut_already(keep_top_k):
    check_top_k(keep_top_k, (distinct(2, 6).masked_fill(torch.arange(6) == 2, -math.inf), 3))


def test_top_k_of_logits_that_lie_far_apart(keep_top_k):
    logits, k = distinct(3, 6, spread=500.0), 3
    if not close(keep_top_k(logits.clone(), k), top_k(logits, k)):
        raise CheckFailed(
            "It is wrong for logits that lie far apart. Are probabilities compared? Those of small "
            "logits all round to 0: compare the logits."
        )


def test_top_k_in_half_and_double_precision(keep_top_k):
    kinds = torch.float64, torch.float16
    check_top_k(keep_top_k, *((distinct(2, 7).to(dtype), 3) for dtype in kinds))


def top_p(logits, p, crossing=True, at_least=0, fill=-math.inf, mass=None, dim=-1, **order_by):
    """The right cut; the keywords are there to be set wrong."""
    weights = (logits.softmax(-1) if mass is None else mass(logits)).double()
    order = order_by.get("of", weights).argsort(-1, descending=order_by.get("descending", True))
    ordered = weights.gather(-1, order)
    reached = ordered.cumsum(dim)
    dropped = (reached - ordered >= p) if crossing else (reached > p)
    dropped[..., :at_least] = False
    return logits.masked_fill(dropped.scatter(-1, order, dropped), fill)


def unscattered(logits, p):
    """The booleans of the sorted row, used for the row as it is."""
    ordered = in_order(logits.softmax(-1))
    return logits.masked_fill(ordered.cumsum(-1) - ordered >= p, -math.inf)


def gathered(logits, p):
    """Back by `gather` with the order of the sort: that sorts a second time."""
    ordered, order = logits.softmax(-1).sort(-1, descending=True)
    return logits.masked_fill((ordered.cumsum(-1) - ordered >= p).gather(-1, order), -math.inf)


def unsorted(logits, p):
    weights = logits.softmax(-1)
    return logits.masked_fill(weights.cumsum(-1) - weights >= p, -math.inf)


def p_mistakes(logits, p):
    V = logits.shape[-1]
    weights = logits.softmax(-1)
    right = top_p(logits, p)
    kept = right > -math.inf

    def where(keep):
        return logits.masked_fill(~keep, -math.inf)

    counts = kept.sum(-1, keepdim=True)

    def as_many(counts):
        return lambda: where(logits.argsort(-1, descending=True).argsort(-1) < counts)

    def rolled():
        ordered, order = weights.sort(-1, descending=True)
        dropped = ordered.cumsum(-1).roll(1, -1) >= p
        return logits.masked_fill(dropped.scatter(-1, order, dropped), -math.inf)

    return {
        "nothing is cut. (If you add up log-probabilities: they never reach p.)": logits,
        "the token that crosses the line is cut: without it p is not reached, and the set can "
        "be empty.": lambda: top_p(logits, p, crossing=False),
        "the token that crosses the line is cut, unless it is the first: without it p is not "
        "reached.": lambda: top_p(logits, p, crossing=False, at_least=1),
        "only the most probable token is kept, whatever p is.": lambda: top_k(logits, 1),
        "the most probable token is cut where it reaches p alone: after a shift, the first of each "
        "row has to stay.": lambda: where(kept & (weights < p)),
        "one token too many is kept: the set is to be the smallest that reaches p.": (
            as_many(counts + 1)
        ),
        "every token with a probability of at least p is kept. It is the sum that has to reach "
        "p.": lambda: where(weights >= p),
        "every token with a probability of at least 1 − p is kept. It is the sum that has to "
        "reach p.": lambda: where(weights >= 1 - p),
        "the least probable tokens come first: sort with descending=True.": (
            lambda: top_p(logits, p, descending=False)
        ),
        "the row is not sorted: the ids are taken in their order.": lambda: unsorted(logits, p),
        "what was found in the sorted row is used for the unsorted one: bring it back with "
        "`scatter`.": lambda: unscattered(logits, p),
        "the way back is `gather` with the sorting order: that sorts twice. It is `scatter` (or "
        "`gather` with order.argsort(-1)).": lambda: gathered(logits, p),
        "the result is sorted: every token must keep its place.": (
            lambda: top_p(in_order(logits), p)
        ),
        "logits are added up. Take the softmax first.": (
            lambda: top_p(logits, p, mass=lambda x: x)
        ),
        "logits are added up, without their softmax, and what crosses the line is cut.": (
            lambda: top_p(logits, p, mass=lambda x: x, crossing=False)
        ),
        "`exp` is taken without dividing by the sum: probabilities add up to 1.": (
            lambda: top_p(logits, p, mass=lambda x: x.exp())
        ),
        "the logits are divided by their sum. That gives no probabilities: take the softmax.": (
            lambda: top_p(logits, p, mass=lambda x: x / x.sum(-1, keepdim=True))
        ),
        "the softmax is taken twice.": (
            lambda: top_p(logits, p, mass=lambda x: x.softmax(-1).softmax(-1))
        ),
        "1 − p is reached, not p.": lambda: top_p(logits, 1 - p),
        "the share p of the tokens is kept, not of the probability.": (
            lambda: top_k(logits, max(1, math.ceil(p * V)))
        ),
        "the set of all rows together is kept: each row has its own.": (
            lambda: top_p(logits.flatten(), p).reshape(logits.shape)
        ),
        "every row is cut where the first row is.": lambda: where(kept.reshape(-1, V)[0]),
        "every row keeps as many tokens as the first: each has its own number.": (
            as_many(counts.flatten()[0])
        ),
        "every row keeps as many tokens as the row that needs most: each has its own number.": (
            as_many(counts.max())
        ),
        "a token that one row drops is dropped in all rows.": (
            lambda: where(kept.reshape(-1, V).all(0))
        ),
        "`roll` has brought the last sum, which is 1, to the front: before the first token "
        "nothing is reached, so put 0 there.": rolled,
        "every token is kept that has at least p times the largest probability. It is the sum "
        "that has to reach p.": lambda: where(weights >= p * weights.amax(-1, keepdim=True)),
        "the softmax runs over the first axis: the vocabulary is the last.": (
            lambda: top_p(logits, p, mass=lambda x: x.softmax(0))
        ),
        "the softmax runs over the first axis: the vocabulary is the last. ": (
            lambda: top_p(logits, p, mass=lambda x: x.softmax(0), of=logits)
        ),
        "`cumsum` runs over the first axis: the vocabulary is the last.": (
            lambda: top_p(logits, p, dim=0)
        ),
        "everything runs over the first axis: the vocabulary is the last.": (
            lambda: top_p(logits.transpose(0, -1), p).transpose(0, -1)
        ),
        "the softmax runs over all rows together: each row adds up to 1.": (
            lambda: top_p(logits, p, mass=lambda x: x.flatten().softmax(0).reshape(x.shape))
        ),
        "the cut logits are 0. That is a probability like others after the softmax: −inf.": (
            lambda: top_p(logits, p, fill=0.0)
        ),
        "probabilities are returned. The logits were asked for; the softmax comes later.": (
            lambda: right.softmax(-1)
        ),
        "the probabilities of the set are returned, not its logits.": lambda: weights * kept,
        "log-probabilities are returned, not the logits themselves.": (
            lambda: where(kept).log_softmax(-1)
        ),
        "log-probabilities are returned, not the logits themselves. ": (
            lambda: weights.log().masked_fill(~kept, -math.inf)
        ),
        "the mask is returned, and not the logits.": kept,
        "a mask of 0 and −inf is returned: add the logits.": right.where(right == -math.inf, 0.0),
        "the set is removed, and the rest is kept.": lambda: where(~kept),
        **large_negative(right),
    }


def nucleus(*weights):
    """Return logits with these probabilities; the constant shows if they are not normalised."""
    return torch.tensor(weights).log() + 0.7


P_ROWS = (
    [0.06, 0.5, 0.1, 0.04, 0.3],
    [0.22, 0.2, 0.24, 0.18, 0.16],
    [0.03, 0.9, 0.02, 0.04, 0.01],
    [0.15, 0.08, 0.31, 0.4, 0.06],
)


def check_top_p(keep_top_p, *given):
    check_cuts(keep_top_p, given, top_p, p_mistakes)


def test_top_p_keeps_the_smallest_set_that_reaches_p(keep_top_p):
    rows = nucleus(*P_ROWS)
    shapes = (
        *(rows, rows[:2], rows[1], rows[:1], rows.reshape(2, 2, 5)),
        rows[[3, 0]][:, [4, 2, 0, 1, 3]],
    )
    # No sum comes near p, and at 1 the least probable has 0.01: rounding decides nothing here.
    sizes = 0.7, 0.45, 0.87, 1.0, 0.05, 1e-4
    check_top_p(keep_top_p, *((logits, p) for p in sizes for logits in shapes))


def test_top_p_of_what_was_cut_already(keep_top_p):
    check_top_p(keep_top_p, (nucleus(*P_ROWS).masked_fill(torch.arange(5) == 2, -math.inf), 0.7))


def test_top_p_of_large_logits(keep_top_p):
    for shift in (100.0, -200.0):
        logits = nucleus(*P_ROWS) + shift
        if not close(keep_top_p(logits.clone(), 0.7), top_p(logits, 0.7)):
            raise CheckFailed(
                f"It is wrong for large logits (all moved by {shift:.0f}, which changes no "
                "probability). exp of them is inf or 0: use `softmax`."
            )


def test_top_p_in_half_and_double_precision(keep_top_p):
    kinds = torch.float64, torch.float16
    check_top_p(keep_top_p, *((nucleus(*P_ROWS[:2]).to(dtype), 0.7) for dtype in kinds))


# ---- beam_search


def penalty(n, alpha):
    return ((5 + n) / 6) ** alpha


def log_p_of(tree, ids):
    return sum(tree(ids[:t])[ids[t]] for t in range(1, len(ids)))


def score_of(tree, ids, alpha):
    n = len(ids) - 1
    return log_p_of(tree, ids) / penalty(n, alpha)


def search(tree, beam, limit, alpha, **ways):
    """Beam search in Python numbers; `ways` do it right in other ways, or wrong."""
    return pick_best(tree, explore(tree, beam, limit, alpha, **ways), alpha, ways)


def explore(tree, beam, limit, alpha, *, live="shrink", stop=True, **wrong):
    """Return the hypotheses: those that finished, those still alive. Ways to do it right:

    "shrink": the beam best candidates, ended ones put aside; "refill": always `beam` alive ones;
    "twice": the same, and what ends among the best 2 × beam candidates has finished, too;
    "slots": ended ones keep their place in the beam. `stop`: once `beam` have ended.
    `wrong` makes mistakes.
    """
    add = wrong.get("add", lambda old, new: old + new)
    seen = wrong.get("seen", lambda ids, living: ids)
    prune = wrong.get("prune", lambda ids, total, alpha: total)
    end = None if wrong.get("extend_finished") else tree.eos
    room = limit + wrong.get("more_room", 0)
    beam = min(beam, tree.V) if wrong.get("narrow") else beam

    def best_of(candidates, count=beam):
        return sorted(candidates, key=lambda c: prune(*c, alpha), reverse=True)[:count]

    empty = [([tree.bos], -math.inf)] * (beam - 1 if wrong.get("empty_places") else 0)
    living, finished = [([tree.bos], 0.0), *empty], []
    while living and len(living[0][0]) < room and not (stop and len(finished) >= beam):
        candidates = [
            ([*ids, token], add(total, more))
            for ids, total in living
            for token, more in enumerate(tree(seen(ids, living)))
        ]
        if live == "slots":
            candidates, finished = candidates + finished, []
        count = 2 * beam if live == "twice" else beam
        count = min(count, tree.V) if wrong.get("at_most_V") else count
        best = best_of(candidates, count - (len(finished) if wrong.get("narrower") else 0))
        finished = finished + [c for c in best if c[0][-1] == end and not wrong.get("forget")]
        living = [c for c in best if c[0][-1] != end or wrong.get("both")]
        if wrong.get("old_sums"):
            living = [(ids, best[i][1]) for i, (ids, _) in enumerate(living)]
        if live in ("refill", "twice"):
            living = best_of([c for c in candidates if c[0][-1] != end])
        if wrong.get("first_ended") and finished:
            break
        if "hope" in wrong and finished and living:
            hope, n = max(total for _, total in living), len(living[0][0]) - 1
            if max(score_of(tree, ids, alpha) for ids, _ in finished) >= wrong["hope"](
                hope, n, alpha
            ):
                break
        if wrong.get("best_ended") and best[0][0][-1] == end:
            return best[:1], []
    return finished, living


def pick_best(tree, hypotheses, alpha, wrong):
    """Return the best finished hypothesis; the best that lives only if none has finished."""
    finished, living = hypotheses
    if wrong.get("only_finished") and not finished:
        return [tree.bos]
    if wrong.get("last_living") and not finished:
        return living[-1][0]
    if wrong.get("only_living") and living:
        finished = []
    every = finished + living if wrong.get("compete") else finished or living
    divide = wrong.get("penalty", penalty)
    n = wrong.get("n", lambda ids, eos: len(ids) - 1)
    sign = -1 if wrong.get("worst") else 1
    combine = wrong.get("score", lambda total, penalty: total / penalty)

    def score(hypothesis):
        ids, total = hypothesis
        return sign * combine(wrong.get("of", float)(total), divide(n(ids, tree.eos), alpha))

    return max(every, key=score)[0]


WAYS = [
    {"live": live, "stop": stop}
    for live in ("shrink", "refill", "twice", "slots")
    for stop in (True, False)
]

UNFINISHED = (
    "an unfinished prefix is returned although a sentence has finished: log P of a prefix is only "
    "an upper bound for the sentences that begin so. What lives counts only if nothing finished."
)

BEAM_MISTAKES = {
    "finished hypotheses are extended: what ends in EOS is put aside, and never gets a further "
    "token.": {"extend_finished": True},
    "what ends in EOS is put aside, and extended all the same: take it out of those that live.": {
        "both": True,
        "live": "shrink",
    },
    "the score is not divided by the length penalty: `alpha` is not used, or n is the same for "
    "all, or the choice is made by the sum.": {"penalty": lambda n, alpha: 1.0},
    "the score is multiplied by the length penalty.": {
        "penalty": lambda n, alpha: 1 / penalty(n, alpha)
    },
    "the score is divided by n^alpha: it is ((5 + n) / 6)^alpha.": {
        "penalty": lambda n, alpha: n**alpha
    },
    "the score is divided by n, whatever alpha is.": {"penalty": lambda n, alpha: n},
    "alpha is not the exponent of the penalty: it is left out there, or stands as a factor.": {
        "penalty": lambda n, alpha: (5 + n) / 6
    },
    "alpha is always 0.6, the paper's: take the one that is given.": {
        "penalty": lambda n, alpha: penalty(n, 0.6)
    },
    "the penalty is rounded to a whole number: `//` cuts off what / keeps.": {
        "penalty": lambda n, alpha: ((5 + n) // 6) ** alpha
    },
    "only n is divided by 6: the brackets are around 5 + n.": {
        "penalty": lambda n, alpha: (5 + n / 6) ** alpha
    },
    "the penalty is subtracted: the log-probability is divided by it.": {
        "score": lambda total, penalty: total - penalty
    },
    "the probability is divided by the penalty: it is the log-probability.": {"of": math.exp},
    "n counts BOS as well (or the 5 is a 6): it is the number of tokens after it.": {
        "n": lambda ids, eos: len(ids)
    },
    "n leaves out a token: all tokens after BOS count, EOS too.": {
        "n": lambda ids, eos: len(ids) - 2
    },
    "the worst hypothesis is returned.": {"worst": True},
    "the search ends with the first hypothesis that finishes. Others may still be better.": {
        "first_ended": True
    },
    "the search ends with the first hypothesis that finishes. Others may still be better. ": {
        "first_ended": True,
        "compete": True,
    },
    UNFINISHED: {"compete": True},
    "no hypothesis has finished before the room is used up, and what lives is not looked at: then "
    "the best of those is the answer.": {"only_finished": True},
    "nothing has finished, and not the best of those that live is returned, but the last of them, "
    "or what greedy decoding writes.": {"last_living": True},
    "the finished hypotheses are forgotten: only what lives at the end is compared.": {
        "only_living": True
    },
    "what ends in EOS is thrown away: put it aside, and compare it at the end.": {"forget": True},
    "the search ends as soon as the best candidate ends in EOS. Others may still be better.": {
        "best_ended": True
    },
    "the search ends when what lives has no better score than what has finished. It may still get "
    "one: the penalty grows with n.": {"hope": lambda total, n, alpha: total / penalty(n, alpha)},
    "the search ends when what lives has no larger sum than the score of what has finished. Its "
    "score may still be better: the penalty grows with n.": {"hope": lambda total, n, alpha: total},
    "fewer candidates are taken after some have finished: it is `beam` in every round.": {
        "narrower": True
    },
    "never more than V candidates are taken. There are V of each prefix, so a wide beam has more "
    "from the second round on.": {"at_most_V": True},
    "never more than V hypotheses are looked for: `beam` may be larger, and is not cut.": {
        "narrow": True
    },
    "candidates with log-probability −∞, from places of the beam that are still empty, are taken "
    "for hypotheses.": {"empty_places": True},
    "the sums stay where they are when finished prefixes are taken out, and belong to others "
    "then.": {"old_sums": True, "live": "shrink"},
    "the best are chosen by their score: until the end it is the sum that counts.": {
        "live": "slots",
        "prune": lambda ids, total, alpha: total / penalty(len(ids) - 1, alpha),
    },
    "log-probabilities of earlier tokens are lost: a candidate's is the sum along its way.": {
        "add": lambda old, new: new
    },
    "`max_length` is taken to count the tokens after BOS: BOS is one of them.": {"more_room": 1},
    "the search ends one token too early: there may be `max_length` ids, BOS among them.": {
        "more_room": -1
    },
    "step gets only the newest token of each prefix.": {"seen": lambda ids, living: ids[-1:]},
    "BOS is left out of what step gets.": {"seen": lambda ids, living: ids[1:] or ids},
    "the first row that step returns is used for all prefixes: each has its own.": {
        "seen": lambda ids, living: living[0][0]
    },
    "probabilities are added: it is their logarithms that add up.": {
        "add": lambda old, new: old + math.exp(new)
    },
    "the candidates are those with the smallest sums: take the largest.": {
        "prune": lambda ids, total, alpha: -total
    },
}


ONE_ALIVE = (
    "only one prefix is ever followed, as in greedy decoding: `beam` is not used, or every prefix "
    "brings only its own best token, or the search begins with several equal prefixes."
)


def wrong_beam(tree, beam, limit, alpha, wrong):
    """Return what a mistake finds, None if it finds nothing."""
    try:
        return search(tree, beam, limit, alpha, **wrong)
    except (ArithmeticError, ValueError):  # nothing to divide by, nothing to choose from
        return None


def found_by(wrong, trees):
    """Return what a mistake finds in each tree, one after the other: the first may rule it out."""
    return (wrong_beam(*each, wrong) for each in trees)


def forest():
    """Return the trees with their settings; for each of them all right ways find the same."""
    return [
        (Tree(seed, V, bos, eos, spread, end), beam, limit, alpha)
        for seed, V, bos, eos, spread, end, beam, limit, alpha in BEAM_TREES
    ]


BEAM_TREES = (  # seed, V, bos, eos, spread, end; beam, max_length, alpha
    (1, 5, 1, 4, 0.8, 0.3, 2, 4, 2.0),
    (2, 5, 1, 4, 1.3, 0.0, 4, 4, 1.0),
    (3, 5, 0, 4, 1.3, -0.2, 3, 8, 0.6),
    (4, 6, 4, 3, 1.3, 0.0, 4, 4, 0.0),
    (5, 6, 0, 3, 1.3, 0.3, 2, 8, 1.0),
    (6, 6, 2, 0, 0.8, 0.1, 2, 8, 1.5),
    (11, 6, 2, 1, 0.8, 0.0, 4, 8, 1.5),
    (44, 6, 0, 5, 1.3, -0.2, 3, 6, 1.5),
    (79, 4, 0, 3, 1.3, 0.3, 4, 6, 0.6),
    (97, 6, 2, 1, 0.8, -0.2, 3, 6, 2.0),
    (111, 4, 3, 2, 0.8, 0.3, 3, 6, 1.5),
    (134, 6, 4, 2, 1.3, 0.3, 2, 4, 2.0),
    (223, 6, 4, 0, 0.8, -0.2, 3, 4, 2.0),
    (40046, 4, 3, 0, 1.3, -0.2, 3, 6, 1.0),
    (40060, 4, 1, 3, 1.3, 0.0, 4, 4, 2.0),
    (500201, 6, 2, 5, 0.8, 0.1, 3, 5, 1.5),
    (505631, 4, 2, 1, 0.8, -0.2, 4, 4, 1.5),
    (30000, 4, 0, 3, 1.3, 0.1, 9, 4, 0.6),
    (30000, 4, 0, 3, 1.3, 0.1, 30, 4, 0.6),
    (30000, 4, 0, 3, 1.3, 0.1, 1, 6, 1.0),
    (30000, 4, 0, 3, 1.3, 0.1, 1, 5, 1.0),
    (30000, 4, 0, 3, 1.3, 0.1, 3, 2, 0.6),
    (30000, 3, 0, 2, 1.3, 0.1, 7, 3, 1.0),
    (132853, 3, 0, 1, 0.8, -0.6, 1, 4, 0.6),
    (502870, 4, 3, 1, 2.0, 0.1, 3, 4, 2.0),
    (513926, 6, 0, 1, 1.3, -0.2, 4, 5, 1.0),
    (695836, 5, 0, 4, 0.8, 0.0, 4, 6, 0.0),
    (518391, 4, 0, 2, 1.3, 0.0, 2, 4, 0.6),
    (145550, 6, 1, 5, 1.3, -0.2, 4, 8, 1.5),
    (403600, 6, 5, 0, 1.3, -0.2, 4, 5, 0.0),
    (70192, 4, 1, 2, 2.0, 0.3, 2, 6, 2.0),
    (830165, 4, 3, 1, 1.3, 0.3, 3, 3, 2.0),
    (807683, 3, 1, 2, 0.8, 0.1, 2, 4, 2.0),
    (852612, 6, 4, 0, 1.3, 0.1, 4, 5, 2.0),
    (162770, 4, 2, 1, 1.3, -0.2, 3, 4, 1.5),
    (504407, 6, 1, 2, 0.8, 0.1, 4, 8, 1.5),
    (246522, 6, 1, 5, 0.8, -0.6, 2, 6, 2.0),
    (858181, 4, 2, 3, 0.8, -0.6, 5, 3, 1.0),
    (81523, 3, 0, 1, 2.0, 0.3, 9, 6, 1.0),
    (923121, 5, 0, 1, 2.0, -0.2, 3, 6, 2.0),
    (2011974, 6, 2, 5, 0.8, 0.0, 2, 9, 1.5),
)


def afterthoughts(tree, right):
    """What can be done wrong to the right answer."""
    return {
        "BOS is missing: the list begins with it.": right[1:],
        "EOS is missing: it belongs to the result.": (
            right[:-1] if right[-1] == tree.eos and len(right) > 1 else right
        ),
        "the ids lie in a list of lists: return the one sentence.": [right],
        "EOS is appended, even if it is there or there was no room for it.": [*right, tree.eos],
    }


def test_beam_search_finds_the_best_hypothesis(beam_search):
    trees = forest()
    answers, right = [], []
    for tree, beam, limit, alpha in trees:
        expected = search(tree, beam, limit, alpha)
        answer = beam_search(tree.stepper(False), tree.bos, tree.eos, beam, limit, alpha)
        no_tensor(answer)
        nothing = answer is None or (isinstance(answer, list) and not answer)
        if nothing and expected[-1] != tree.eos:
            raise CheckFailed(
                "Nothing is returned where no hypothesis has finished before the room is used up: "
                "then the best of those that live is the answer."
            )
        if not isinstance(answer, (list, tuple)):
            expect(answer, expected)
        answers.append(answer)
        right.append(expected)
    if all(map(close, answers, right)):
        for answer in answers:
            plain_ints(answer)
        return
    known = {
        f"{text}{' ' * i}": found_by(way | wrong, trees)
        for i, way in enumerate(WAYS)  # the usual way first, with every mistake
        for text, wrong in BEAM_MISTAKES.items()
    }
    known[ONE_ALIVE] = [greedy(tree, limit) for tree, _, limit, _ in trees]
    after = [afterthoughts(each[0], ids) for each, ids in zip(trees, right, strict=True)]
    known |= {text: [each[text] for each in after] for text in after[0]}
    first = next(i for i, ids in enumerate(right) if not close(answers[i], ids))
    tree, beam, limit, alpha = trees[first]
    settings = (
        f"bos_id {tree.bos}, eos_id {tree.eos}, beam {beam}, max_length {limit}, alpha {alpha}"
    )
    call = f"beam_search(step, {settings})"
    for text, results in known.items():
        if all(map(close, answers, results)):
            expect(answers[first], right[first], {text.strip(): answers[first]}, call=call)
    raise CheckFailed(beam_difference(*trees[first], answers[first], right[first]), call)


def test_a_sentence_of_one_id_is_bos(beam_search):
    tree = Tree(7)
    answer = beam_search(tree.stepper(False), tree.bos, tree.eos, 3, 1, 0.6)
    text = "`max_length` is not kept: BOS is one of its ids."
    expect(answer, [tree.bos], {text: search(tree, 3, 2, 0.6)})


def beam_difference(tree, beam, limit, alpha, answer, expected):
    """Say what is wrong with a hypothesis that no known mistake explains."""
    text = f"The result is {describe(answer)}, expected {describe(expected)}."
    if not answer or any(not isinstance(i, int) or not 0 <= i < tree.V for i in answer):
        return f"{text} It should be a list of ids, plain ints from 0 to {tree.V - 1}."
    if answer[0] != tree.bos:
        return f"{text} It does not begin with BOS."
    if tree.eos in answer[1:-1]:
        return f"{text} It goes on after EOS: a finished hypothesis is put aside."
    if len(answer) > limit:
        return f"{text} It has more than {limit} ids."
    if answer[-1] != tree.eos and len(answer) < limit:
        return f"{text} It neither ends in EOS nor has {limit} ids: what stopped the search?"
    if answer[-1] != tree.eos and expected[-1] == tree.eos:
        return (
            f"{text} It does not end, though a right search finds a sentence that does: is an "
            "unfinished prefix preferred, or does the end never come among your candidates?"
        )
    came, best = (score_of(tree, ids, alpha) for ids in (answer, expected))
    scores = f"Its score is {came:.4f}, the other's {best:.4f}."
    found = [c for way in WAYS for part in explore(tree, beam, limit, alpha, **way) for c in part]
    if any(close(answer, ids) for ids, _ in found):
        return (
            f"{text} {scores} Both are hypotheses of a right search. Is the score wrong, or the "
            "last choice, or has the better one got lost on the way?"
        )
    return (
        f"{text} {scores} A beam of {beam} does not come to it: look at how the candidates are "
        "made, added up, and cut to the best of all together."
    )


# ---- CachedSelfAttention


def heads_of(x, heads):
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def attend(w, heads, x, *, keep=None, memory=None, **wrong):
    """Causal attention over x (B, L, d_model), one query after the other; `wrong` breaks it."""
    split, stored = wrong.get("split", heads_of), wrong.get("stored", lambda kept: kept)
    layers = {"q": "w_q", "k": "w_k", "v": "w_v"} | wrong.get("project", {})
    w = w | {"nothing": torch.eye(x.shape[-1], dtype=x.dtype)}
    past = x if memory is None else torch.cat([memory, x], 1)
    extra = past.shape[1] - x.shape[1]
    queries, keys, values = (past @ w[layers[name]].T for name in "qkv")
    rows = []
    for t in range(extra, past.shape[1]):
        seen = slice(0, t + 1) if keep is None else keep(t)
        q = split(queries[:, t : t + 1], heads)
        k, v = (stored(split(kept[:, seen], heads)) for kept in (keys, values))
        scores = q @ k.transpose(-2, -1)
        divisor = math.sqrt(scores.shape[-1]) if wrong.get("by_tokens") else wrong.get("divisor")
        scores = scores / (divisor or math.sqrt(q.shape[-1]))
        weights = scores if wrong.get("no_softmax") else scores.softmax(wrong.get("axis", -1))
        merged = (weights @ (v.flip(2) if wrong.get("backwards") else v)).transpose(1, 2).flatten(2)
        rows.append(merged if wrong.get("no_w_o") else merged @ w["w_o"].T)
    return torch.cat(rows, 1)


def again(w, heads, x):
    """Keys and values that go through their layer once more at every step."""
    rows, keys, values = [], None, None
    for t in range(x.shape[1]):
        new = x[:, t : t + 1]
        keys = new if keys is None else torch.cat([keys, new], 1)
        values = new if values is None else torch.cat([values, new], 1)
        keys, values = keys @ w["w_k"].T, values @ w["w_v"].T
        q, k, v = (heads_of(y, heads) for y in (new @ w["w_q"].T, keys, values))
        weights = (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])).softmax(-1)
        rows.append((weights @ v).transpose(1, 2).flatten(2) @ w["w_o"].T)
    return torch.cat(rows, 1)


def interleaved(x, heads):
    return x.unflatten(-1, (-1, heads)).permute(0, 3, 1, 2)


def reshaped(x, heads):
    return x.reshape(len(x), heads, x.shape[1], -1)


def cache_mistakes(w, heads, x, before=None):
    """`before` is the sequence that was there before the reset."""

    def run(**wrong):
        return lambda: attend(w, heads, x, **wrong)

    d_model = x.shape[-1]
    left_over = {}
    if before is not None and len(before) == len(x):
        left_over = {
            "the sequence before `reset()` is still there: reset must forget keys and values.": (
                run(memory=before)
            ),
            "the last token before `reset()` is still there.": run(memory=before[:, -1:]),
        }
    return {
        **left_over,
        "the newest token attends to itself alone: keys and values of the earlier ones are not "
        "kept, or not used.": run(keep=lambda t: slice(t, t + 1)),
        "the newest token is not among the keys: put it there first, it attends to itself too.": (
            run(keep=lambda t: slice(0, max(t, 1)))
        ),
        "only the first token is seen. Are the later ones not kept? Or does a causal mask of one "
        "row (is_causal=True) hide them? The newest token may see all. Or is the state of the "
        "first token returned?": run(keep=lambda t: slice(0, 1)),
        "only the last two tokens are kept.": run(keep=lambda t: slice(max(t - 1, 0), t + 1)),
        "the first token is lost.": run(keep=lambda t: slice(min(t, 1), t + 1)),
        "w_o is missing: the heads stand side by side and are not mixed.": run(no_w_o=True),
        "the scores are not divided by √d_k.": run(divisor=1.0),
        "the scores are divided by √d_model: a head compares vectors of size d_k.": run(
            divisor=math.sqrt(d_model)
        ),
        "the scores are divided by d_k, not by its root.": run(divisor=d_model / heads),
        "the scores are divided by the root of the number of tokens: it is √d_k.": run(
            by_tokens=True
        ),
        "there is one head only, as wide as the model.": lambda: attend(w, 1, x),
        "each head gets every H-th feature, not d_k neighbours.": run(split=interleaved),
        "the heads are cut by `reshape` or `view` alone: that mixes tokens and features. Split the "
        "last axis, then swap axes 1 and 2.": run(split=reshaped),
        "the softmax is missing.": run(no_softmax=True),
        "the softmax runs over the queries. There is one, so every weight is 1.": run(axis=-2),
        "the softmax runs over the heads.": run(axis=1),
        "the softmax runs over the batch.": run(axis=0),
        "new keys are put in front and new values behind (or the other way): they no longer "
        "belong together.": run(backwards=True),
        "the kept keys and values go through their layers again at every step: keep either "
        "the tokens or what the layers made of them.": lambda: again(w, heads, x),
        "keys and values are mixed up.": run(project={"k": "w_v", "v": "w_k"}),
        "keys and values are kept in float16.": run(stored=lambda kept: kept.half().to(x.dtype)),
        "positions are added: they belong to the embedding.": (
            lambda: attend(w, heads, x + lab.sinusoidal_encoding(x.shape[1], d_model))
        ),
        "keys are the tokens themselves: w_k is missing.": run(project={"k": "nothing"}),
        "values are the tokens themselves: w_v is missing.": run(project={"v": "nothing"}),
        "keys are made by w_q.": run(project={"k": "w_q"}),
        "values are made by w_k.": run(project={"v": "w_k"}),
        "queries are made by w_k.": run(project={"q": "w_k"}),
        "the matrices are used without the transpose: `self.w_q(x)` is x @ w_q.weight.T.": (
            lambda: attend({name: m.T for name, m in w.items()}, heads, x)
        ),
        "the token itself is added: the residual belongs to the layer around it.": (
            lambda: attend(w, heads, x) + x
        ),
        "the mean over all tokens so far is returned.": (
            lambda: attend(w, heads, x).cumsum(1) / torch.arange(1, x.shape[1] + 1)[:, None]
        ),
    }


def made(CachedSelfAttention, d_model, heads, dtype=torch.float32):
    module = CachedSelfAttention(d_model, heads).to(dtype)
    for method in ("reset", "step"):
        assert hasattr(module, method), f"The class has no method `{method}`: keep the names."
    names = ("w_q", "w_k", "w_v", "w_o")
    no_memory_among_the_weights(module)
    weights = random_weights(module, {f"{n}.weight": (d_model, d_model) for n in names})
    return module, {name.split(".")[0]: weight for name, weight in weights.items()}


def no_memory_among_the_weights(module):
    for name in module.state_dict():
        assert "." in name, (
            f"state_dict has `{name}`: the memory would be saved with the weights. Keep it in a "
            "plain attribute, not in an nn.Parameter; a buffer needs persistent=False. And keep "
            "`__init__` as it was given."
        )


def step_by_step(module, x, seconds=math.inf):
    """Return the states of x, one step for each token; a wrong shape is said at once."""
    states, end = [], time.process_time() + seconds
    with torch.no_grad():
        for t in range(x.shape[1]):
            state = module.step(x[:, t : t + 1])
            if not isinstance(state, Tensor) or state.shape != x[:, :1].shape:
                expect(state, x[:, :1] * math.nan)
            states.append(state.clone())
            if time.process_time() > end:
                break
    return torch.cat(states, 1)


def states_case(module, weights, heads, x, before=None):
    """Return a case for `expect_all`; `before` is what the module read before a reset."""
    given = (len(x), 1, x.shape[-1])
    call = f"CachedSelfAttention({x.shape[-1]}, {heads}), {x.shape[1]} times step(x {given})"
    expected = attend(weights, heads, x)
    more = {"call": call, "hint": lambda states: first_wrong_token(states, expected)}
    if before is not None:
        after = "Before reset() all was right: does it leave something behind?"
        more = {"call": f"{call} after reset()", "hint": lambda states: after}
    return step_by_step(module, x), expected, cache_mistakes(weights, heads, x, before), more


def right_tokens(states, expected):
    """Return how many tokens come out right before the first wrong one."""
    right = [close(*pair) for pair in zip(states.unbind(1), expected.unbind(1), strict=True)]
    return right.index(False)


def first_wrong_token(states, expected):
    count = right_tokens(states, expected)
    if count == 0:
        return (
            "Already the first token is wrong. It sees itself alone, so w_o(w_v(x)) comes out: "
            "look at values and heads, and whether empty places are among the keys."
        )
    if count == 1:
        return "The first token is right, later ones are not: look at q, k, and at what is kept."
    return f"The first {count} tokens are right: what happens to the memory then?"


def test_two_modules_with_the_same_weights_agree(CachedSelfAttention):
    (one, weights), (other, _) = (made(CachedSelfAttention, 12, 3) for _ in "12")
    other.load_state_dict(one.state_dict())
    x = torch.randn(2, 5, 12)
    first, second = step_by_step(one, x), step_by_step(other, x)
    no_memory_among_the_weights(one)
    if not close(second, first):
        why = "Nothing may be drawn: there is no dropout here."
        if close(first, attend(weights, 3, x)):
            why = (
                "They share one memory: keep it in `self`, made anew in `reset`, not in the class, "
                "a default argument or a global."
            )
        raise CheckFailed(
            f"Two modules with equal weights read the same tokens, and their states differ. {why}",
            "two CachedSelfAttention(12, 3), one after the other",
        )


def test_cached_states_are_those_of_causal_attention(CachedSelfAttention):
    expect_all(
        states_case(*made(CachedSelfAttention, d_model, heads), heads, torch.randn(B, L, d_model))
        for B, d_model, L, heads in ((2, 12, 5, 3), (1, 6, 4, 1), (3, 8, 3, 4), (2, 4, 2, 2))
    )


def sequences_after_resets(module, weights):
    before = torch.randn(2, 5, 12)
    step_by_step(module, before)
    for B, L in ((2, 4), (2, 5), (3, 2), (1, 4)):  # the same batch size first; never more tokens
        module.reset()
        x = torch.randn(B, L, 12)
        try:
            yield states_case(module, weights, 3, x, before)
        except (RuntimeError, ValueError, IndexError) as error:
            raise CheckFailed(
                f"The first batch went well; after reset() step stops with {type(error).__name__}: "
                f"{str(error)[:200]}\nIs something of it still there? reset forgets keys and "
                "values, and how many sentences there were.",
                f"CachedSelfAttention(12, 3), step(x {(B, 1, 12)}) after reset()",
            ) from None
        before = torch.cat([before, x], 1) if len(x) == len(before) else x


def test_after_a_reset_nothing_is_left(CachedSelfAttention):
    module, weights = made(CachedSelfAttention, 12, 3)
    expect_all(sequences_after_resets(module, weights))


LONGEST = (
    "For a longest sentence? There is no longest sentence: let the memory grow with what is read."
)


def test_no_room_is_made_for_a_longest_sentence(CachedSelfAttention):
    """Room for 64 tokens may be kept at once, and for 512 by a store that grows when it is full."""
    module, _ = made(CachedSelfAttention, 4, 2)
    x = torch.randn(1, 1, 4)
    step_by_step(module, x)
    kept = numbers_kept(module)
    text = f"After one token it keeps {kept:,} numbers."
    assert kept <= 2 * 4 * 512, f"{text} {LONGEST}"
    if kept <= 2 * 4 * 64:
        return
    for read in range(1, kept // 4 + 1):
        try:
            step_by_step(module, x)
        except (RuntimeError, ValueError, IndexError) as error:
            why = f"{text} After {read} tokens step stops with {type(error).__name__}. {LONGEST}"
            raise CheckFailed(why) from None
        if numbers_kept(module) > kept:
            return
    raise CheckFailed(f"{text} After {read + 1} tokens it keeps no more. {LONGEST}")


def numbers_kept(module):
    return sum(tensor.numel() for tensor in tensors_in(vars(module)))


def tensors_in(value):
    """Return the tensors that `value` holds, also in lists, tuples and dicts; no parameters."""
    if isinstance(value, (dict, list, tuple)):
        parts = value.values() if isinstance(value, dict) else value
        return [tensor for part in parts for tensor in tensors_in(part)]
    return [value] if isinstance(value, Tensor) else []


def test_a_long_sequence(CachedSelfAttention):
    module, weights = made(CachedSelfAttention, 4, 2)
    x = torch.randn(1, 600, 4)
    states = step_by_step(module, x, seconds=1)  # a slow answer is read as far as it comes
    expected = attend(weights, 2, x[:, : states.shape[1]])
    call = f"CachedSelfAttention(4, 2), {states.shape[1]} times step(x (1, 1, 4))"
    expect(states, expected, hint=lambda states: first_wrong_token(states, expected), call=call)


def test_cached_states_in_half_and_double_precision(CachedSelfAttention):
    for dtype in (torch.float64, torch.float16):
        module, weights = made(CachedSelfAttention, 8, 2, dtype)
        x = torch.randn(2, 3, 8).to(dtype)
        wide = {name: weight.double() for name, weight in weights.items()}
        states = step_by_step(module, x)
        expect(states, attend(wide, 2, x.double()).to(dtype), cache_mistakes(weights, 2, x))


# ---- repaired_states


def placed(chunks, table, places, scale=None, encoding_scale=1.0):
    """Return embeddings plus the encoding of each token's place."""
    x = table[torch.cat(chunks, 1)] * (math.sqrt(table.shape[1]) if scale is None else scale)
    encoding = lab.sinusoidal_encoding(1200, table.shape[1]).to(table.dtype)
    return x + encoding[places] * encoding_scale


def causal(x, w_q, w_k, w_v, mask=None):
    allowed = lab.causal_mask(x.shape[1]) if mask is None else mask
    return lab.scaled_dot_product_attention(x @ w_q, x @ w_k, x @ w_v, allowed)[0]


def place_mistakes(chunks, table, *matrices):
    lengths = [chunk.shape[1] for chunk in chunks]
    L = sum(lengths)
    numbers = torch.arange(L)
    within = torch.cat([torch.arange(n) for n in lengths])
    starts = torch.tensor([sum(lengths[:i]) for i in range(len(lengths))]).repeat_interleave(
        torch.tensor(lengths)
    )
    piece = torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths))

    def at(places, **more):
        return lambda: causal(placed(chunks, table, places, **more), *matrices)

    right = placed(chunks, table, numbers)
    return {
        "the bug is still there: in every piece the positions begin with 0.": at(within),
        "the number of pieces is taken for the number of tokens: a prompt has many.": (
            at(piece + within)
        ),
        "the positions begin with 1: the first token of all stands at 0.": at(numbers + 1),
        "the later pieces stand one place too far: the second follows the first directly.": (
            at(numbers + (piece > 0))
        ),
        "every later piece overlaps the one before by a token: the position of its first token is "
        "the number of tokens before it.": at(numbers - (piece > 0).long()),
        "all tokens of a piece stand at the position of its first.": at(starts),
        "all tokens of a piece stand at the position of its last.": (
            at(starts + torch.tensor(lengths).repeat_interleave(torch.tensor(lengths)) - 1)
        ),
        "the offset is the length of the piece before, not of all pieces before it.": at(
            within + torch.tensor([0, *lengths[:-1]]).repeat_interleave(torch.tensor(lengths))
        ),
        "only the first piece counts: every later one begins behind it.": at(
            within + lengths[0] * (piece > 0)
        ),
        "every piece after the first is taken for one token.": at(
            within + (lengths[0] + piece - 1) * (piece > 0)
        ),
        "the count is raised too early: a piece begins where the ones before it end.": at(
            starts + torch.tensor(lengths).repeat_interleave(torch.tensor(lengths)) + within
        ),
        "sentences are counted, not tokens: tokens are axis 1.": at(
            within + piece * len(chunks[0])
        ),
        "the encoding is multiplied by √d_model as well: only the embedding is.": at(
            numbers, encoding_scale=math.sqrt(table.shape[1])
        ),
        "keys and values are mixed up.": lambda: causal(right, *(matrices[i] for i in (0, 2, 1))),
        "the first rows of the causal mask are taken: a piece stands in its last rows.": (
            lambda: causal(right, *matrices, numbers <= within[:, None])
        ),
        "no token has a position at all.": lambda: causal(
            table[torch.cat(chunks, 1)] * math.sqrt(table.shape[1]), *matrices
        ),
        "√d_model is missing: it belongs to the embedding.": at(numbers, scale=1.0),
        "the causal mask is missing: within a piece, tokens see later ones.": (
            lambda: causal(right, *matrices, pieces_mask(lengths))
        ),
        "pieces are not connected: each attends to itself alone.": (
            lambda: torch.cat([causal(part, *matrices) for part in right.split(lengths, 1)], 1)
        ),
        "the states of the last piece alone are returned.": (
            lambda: causal(right, *matrices)[:, -lengths[-1] :]
        ),
    }


def pieces_mask(lengths):
    """Every token sees all pieces so far, to the end of its own."""
    ends = torch.tensor(lengths).cumsum(0).repeat_interleave(torch.tensor(lengths))
    return torch.arange(sum(lengths)) < ends[:, None]


def chunk_cases(repaired_states):
    ways = (
        *((2, 8, (3, 1, 1, 1)), (1, 12, (1, 1, 1, 1, 1)), (3, 6, (5,)), (2, 8, (2, 3, 1))),
        *((2, 10, (4, 2, 3)), (2, 8, (1, 4)), (2, 8, (1,)), (1, 8, (500, 1, 600))),
    )
    for B, d, lengths in ways:
        table, matrices = torch.randn(9, d) / math.sqrt(d), torch.randn(3, d, d) / 2
        tokens = torch.randint(9, (B, sum(lengths)))
        chunks = list(tokens.split(lengths, dim=1))
        expected = causal(placed(chunks, table, torch.arange(sum(lengths))), *matrices)
        call = f"repaired_states with pieces of {', '.join(map(str, lengths))} tokens"
        answer = repaired_states(chunks, table, *matrices)

        def hint(states, expected=expected):
            return f"Right tokens before the first wrong one: {right_tokens(states, expected)}."

        mistakes = place_mistakes(chunks, table, *matrices)
        yield answer, expected, mistakes, {"call": call, "hint": hint}


def test_states_do_not_depend_on_how_the_tokens_come(repaired_states):
    expect_all(chunk_cases(repaired_states))


def test_states_of_a_second_text_are_those_of_a_first(repaired_states):
    table, matrices = torch.randn(9, 8) / math.sqrt(8), torch.randn(3, 8, 8) / 2
    chunks = [torch.randint(9, (2, n)) for n in (3, 1)]
    first, second = (repaired_states(chunks, table, *matrices) for _ in "12")
    if not close(second, first):
        raise CheckFailed(
            "The same call a second time gives other states: something is kept from the first "
            "one. Keys, values and the number of tokens begin anew with each call."
        )
