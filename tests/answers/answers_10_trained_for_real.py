"""Answers to exercise 10, wrong and right."""

import math
from collections import Counter, defaultdict

import numpy as np
import sacrebleu
import torch
from catalogue import right, wrong
from sacrebleu.metrics import BLEU

# ---- predicted_scores

ANSWERS = [3, 1, 10 / 12, math.log(0.5) - 1, 1.5, 303]


def but(**changes):
    return list((dict(zip("abcdef", ANSWERS, strict=True)) | changes).values())


@right("predicted_scores")
def as_a_list():
    return ANSWERS


@right("predicted_scores")
def as_a_tensor():
    return torch.tensor(ANSWERS)


@right("predicted_scores")
def as_numpy_numbers_in_a_tuple():
    return np.int64(3), 1.0, 5 / 6, np.log(0.5) - 1, torch.tensor(1.5), 303


@right("predicted_scores")
def rounded_on_paper():
    return [3, 1, 0.83, -1.693, 1.5, 303]


@wrong("predicted_scores", "a is not 6", "without clipping")
def nothing_clipped_on_paper():
    """a, dog, a, dog, a, dog."""
    return but(a=6)


@wrong("predicted_scores", "a is not 2", "occurs twice")
def each_word_once():
    """Different words."""
    return but(a=2)


@wrong("predicted_scores", "b is not 3", "counts once")
def pairs_not_clipped():
    """a dog, three times."""
    return but(b=3)


@wrong("predicted_scores", "c is not 0.6667", "Add up the counts first")
def mean_of_two_precisions():
    """(1 + 1/3) / 2."""
    return but(c=2 / 3)


@wrong("predicted_scores", "d is not -0.6931", "penalty is missing")
def no_penalty_on_paper():
    """ln 1/2 alone."""
    return but(d=math.log(0.5))


@wrong("predicted_scores", "d is not -3.773", "not their product")
def no_fourth_root_on_paper():
    """Four logarithms added up."""
    return but(d=4 * math.log(0.5) - 1)


@wrong("predicted_scores", "d is not 0.1839", "its logarithm")
def bleu_itself():
    """Not the logarithm."""
    return but(d=math.exp(-1) / 2)


@wrong("predicted_scores", "e is not 2", "mean of the two means")
def mean_of_means_on_paper():
    """(3 + 1) / 2."""
    return but(e=2)


@wrong("predicted_scores", "e is not 12", "That is the sum")
def sum_on_paper():
    """Not divided."""
    return but(e=12)


@wrong("predicted_scores", "f is not 203", "whole number")
def counter_averaged_on_paper():
    """3 + 200."""
    return but(f=203)


@wrong("predicted_scores", "f is not 306", "The weight is averaged")
def all_from_the_last():
    """6 + 300."""
    return but(f=306)


@wrong("predicted_scores", "expected 6 answers")
def one_forgotten():
    """f is left out."""
    return but()[:5]


# ---- clipped_matches


def grams(tokens, n):
    return [tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)]


@right("clipped_matches")
def with_counters(hypothesis, reference, n):
    found, allowed = Counter(grams(hypothesis, n)), Counter(grams(reference, n))
    return sum(min(count, allowed[gram]) for gram, count in found.items()), sum(found.values())


@right("clipped_matches")
def crossed_out(hypothesis, reference, n):
    left, found, hits = grams(reference, n), grams(hypothesis, n), 0
    for gram in found:
        if gram in left:
            left.remove(gram)
            hits += 1
    return hits, len(found)


@right("clipped_matches")
def with_zip(hypothesis, reference, n):
    found, other = (
        Counter(zip(*(tokens[i:] for i in range(n)), strict=False))
        for tokens in (hypothesis, reference)
    )
    return [(found & other).total(), found.total()]


@right("clipped_matches")
def in_numpy_numbers(hypothesis, reference, n):
    found, other = grams(hypothesis, n), grams(reference, n)
    hits = np.sum([min(found.count(g), other.count(g)) for g in set(found)], dtype=np.int64)
    return hits, np.int64(len(found))


@wrong("clipped_matches", "nothing is clipped")
def plain_precision(hypothesis, reference, n):
    """Each n-gram that occurs in the reference counts."""
    other, found = set(grams(reference, n)), grams(hypothesis, n)
    return sum(gram in other for gram in found), len(found)


@wrong("clipped_matches", "each different n-gram counts once")
def with_sets(hypothesis, reference, n):
    """A set has each only once."""
    found = grams(hypothesis, n)
    return len(set(found) & set(grams(reference, n))), len(found)


@wrong("clipped_matches", "adds its smaller count twice")
def clipped_once_per_occurrence(hypothesis, reference, n):
    """The minimum is taken for each occurrence, and not for each different n-gram."""
    found, other = grams(hypothesis, n), grams(reference, n)
    return sum(min(found.count(gram), other.count(gram)) for gram in found), len(found)


@wrong("clipped_matches", "the total is that of the reference")
def recall(hypothesis, reference, n):
    """ROUGE's way."""
    other = Counter(grams(reference, n))
    return (Counter(grams(hypothesis, n)) & other).total(), other.total()


@wrong("clipped_matches", "the total is the number of tokens")
def tokens_counted(hypothesis, reference, n):
    """len(hypothesis)."""
    return (Counter(grams(hypothesis, n)) & Counter(grams(reference, n))).total(), len(hypothesis)


@wrong("clipped_matches", "the total is the number of different n-grams")
def different_ones(hypothesis, reference, n):
    """len of a Counter is the number of its keys."""
    found = Counter(grams(hypothesis, n))
    return (found & Counter(grams(reference, n))).total(), len(found)


@wrong("clipped_matches", "the order inside of an n-gram is lost")
def sorted_ngrams(hypothesis, reference, n):
    """frozenset or sorted to make them hashable."""
    found, other = (
        Counter(tuple(sorted(g)) for g in grams(tokens, n)) for tokens in (hypothesis, reference)
    )
    return (found & other).total(), found.total()


@wrong("clipped_matches", "glued together")
def joined_without_a_space(hypothesis, reference, n):
    """ "".join."""
    found, other = (
        Counter("".join(g) for g in grams(tokens, n)) for tokens in (hypothesis, reference)
    )
    return (found & other).total(), found.total()


@wrong("clipped_matches", "text is looked for in text")
def found_in_a_string(hypothesis, reference, n):
    """str.count does not know where a word ends."""
    text = " ".join(reference)
    counts = Counter(map(" ".join, grams(hypothesis, n)))
    return sum(min(count, text.count(gram)) for gram, count in counts.items()), counts.total()


@wrong("clipped_matches", "everything is lower-cased")
def in_lower_case(hypothesis, reference, n):
    """Text is cleaned from habit."""
    sides = ([token.lower() for token in side] for side in (hypothesis, reference))
    return with_counters(*sides, n)


@wrong("clipped_matches", "the last n-gram is missing")
def range_too_short(hypothesis, reference, n):
    """range(len − n)."""
    found, other = (
        Counter(tuple(tokens[i : i + n]) for i in range(len(tokens) - n))
        for tokens in (hypothesis, reference)
    )
    return (found & other).total(), found.total()


@wrong("clipped_matches", "stumps at the end")
def range_too_long(hypothesis, reference, n):
    """range(len)."""
    found, other = (
        Counter(tuple(tokens[i : i + n]) for i in range(len(tokens)))
        for tokens in (hypothesis, reference)
    )
    return (found & other).total(), found.total()


@wrong("clipped_matches", "do not overlap")
def in_blocks(hypothesis, reference, n):
    """A step of n in the range."""
    found, other = Counter(grams(hypothesis, n)[::n]), Counter(grams(reference, n)[::n])
    return (found & other).total(), found.total()


@wrong("clipped_matches", "only n-grams at the same place")
def place_by_place(hypothesis, reference, n):
    """zip of the two lists."""
    pairs = list(zip(grams(hypothesis, n), grams(reference, n), strict=False))
    return sum(a == b for a, b in pairs), len(grams(hypothesis, n))


@wrong("clipped_matches", "returned one number, the precision")
def a_share(hypothesis, reference, n):
    """Divided too early."""
    found = Counter(grams(hypothesis, n))
    return (found & Counter(grams(reference, n))).total() / max(1, found.total())


@wrong("clipped_matches", "the two results have changed places")
def exchanged(hypothesis, reference, n):
    """(total, matches)."""
    return with_counters(hypothesis, reference, n)[::-1]


@wrong("clipped_matches", "negative for a hypothesis that is shorter")
def negative_total(hypothesis, reference, n):
    """len − n + 1 without a limit."""
    return with_counters(hypothesis, reference, n)[0], len(hypothesis) - n + 1


@wrong("clipped_matches", "all orders up to n")
def up_to_n(hypothesis, reference, n):
    """The loop of BLEU inside."""
    counts = [with_counters(hypothesis, reference, k) for k in range(1, n + 1)]
    return sum(a for a, _ in counts), sum(b for _, b in counts)


@wrong("clipped_matches", "n-grams of the *reference*")
def those_of_the_reference(hypothesis, reference, n):
    """The loop runs over the wrong sentence."""
    grams, allowed = (
        [tuple(text[i : i + n]) for i in range(len(text) - n + 1)]
        for text in (hypothesis, reference)
    )
    return sum(gram in set(grams) for gram in allowed), len(grams)


@wrong("clipped_matches", "leaves out what overlaps")
def text_in_padded_text(hypothesis, reference, n):
    """Spaces on both sides keep 'he' out of 'the', and hide every second 'a a' in 'a a a'."""
    text = f" {' '.join(reference)} "
    grams = Counter(tuple(hypothesis[i : i + n]) for i in range(len(hypothesis) - n + 1))
    counts = ((count, text.count(f" {' '.join(gram)} ")) for gram, count in grams.items())
    return sum(map(min, counts)), grams.total()


@wrong("clipped_matches", "a *reference* that is shorter than n")
def nothing_for_a_short_reference(hypothesis, reference, n):
    """A guard for both sentences, where the total belongs to one."""
    if len(hypothesis) < n or len(reference) < n:
        return 0, 0
    return with_counters(hypothesis, reference, n)


@wrong("clipped_matches", "The same call gave two answers")
def counted_on(hypothesis, reference, n, seen=Counter()):  # noqa: B006
    """A default that is made once, and grows."""
    grams, allowed = (
        [tuple(text[i : i + n]) for i in range(len(text) - n + 1)]
        for text in (hypothesis, reference)
    )
    seen.update(grams)
    return (seen & Counter(allowed)).total(), len(grams)


@wrong("clipped_matches", "the larger of the two counts")
def larger_counts(hypothesis, reference, n):
    """max for min."""
    found, wanted = Counter(grams(hypothesis, n)), Counter(grams(reference, n))
    return sum(max(found[g], wanted[g]) for g in found if g in wanted), found.total()


@wrong("clipped_matches", "every pair of equal n-grams counts")
def every_pair_of_equals(hypothesis, reference, n):
    """Two loops and an ==, without a break."""
    found, wanted = grams(hypothesis, n), grams(reference, n)
    return sum(one == other for one in found for other in wanted), len(found)


# ---- corpus_bleu


def sums(hypotheses, references, n):
    counts = [with_counters(h, r, n) for h, r in zip(hypotheses, references, strict=True)]
    return sum(a for a, _ in counts), sum(b for _, b in counts)


def precisions_of(hypotheses, references):
    found = [sums(hypotheses, references, n) for n in (1, 2, 3, 4)]
    return [matches / total if total else 0.0 for matches, total in found]


def shortness(hypotheses, references):
    c, r = sum(map(len, hypotheses)), sum(map(len, references))
    return min(1, math.exp(1 - r / c)) if c else 0.0


@right("corpus_bleu")
def plainly(hypotheses, references):
    product = math.prod(precisions_of(hypotheses, references))
    return 100 * shortness(hypotheses, references) * product**0.25


@right("corpus_bleu")
def with_numpy(hypotheses, references):
    p = np.array(precisions_of(hypotheses, references))
    if (p == 0).any():
        return 0
    return np.float64(100) * shortness(hypotheses, references) * np.exp(np.log(p).mean())


@right("corpus_bleu")
def as_a_tensor_of_one(hypotheses, references):
    return torch.tensor(plainly(hypotheses, references), dtype=torch.float64)


@right("corpus_bleu")
def in_one_pass(hypotheses, references):
    matches, totals = defaultdict(int), defaultdict(int)
    for h, r in zip(hypotheses, references, strict=True):
        for n in range(1, 5):
            a, b = with_counters(h, r, n)
            matches[n] += a
            totals[n] += b
    if not all(matches[n] for n in range(1, 5)):
        return 0.0
    logs = sum(math.log(matches[n]) - math.log(totals[n]) for n in range(1, 5)) / 4
    return 100 * shortness(hypotheses, references) * math.exp(logs)


@wrong("corpus_bleu", "scores of the sentences are averaged")
def mean_of_sentence_scores(hypotheses, references):
    """NeMo Skills, issue 1408."""
    scores = [plainly([h], [r]) for h, r in zip(hypotheses, references, strict=True)]
    return sum(scores) / len(scores)


@wrong("corpus_bleu", "share from 0 to 1")
def without_100(hypotheses, references):
    """NLTK's scale."""
    return plainly(hypotheses, references) / 100


@wrong("corpus_bleu", "brevity penalty is missing")
def no_penalty(hypotheses, references):
    """Precision alone."""
    return 100 * math.prod(precisions_of(hypotheses, references)) ** 0.25


@wrong("corpus_bleu", "no upper limit")
def rewarded_for_length(hypotheses, references):
    """No min."""
    c, r = sum(map(len, hypotheses)), sum(map(len, references))
    if not c:
        return 0.0
    return 100 * math.exp(1 - r / c) * math.prod(precisions_of(hypotheses, references)) ** 0.25


@wrong("corpus_bleu", "c and r exchanged")
def penalty_upside_down(hypotheses, references):
    """1 − c/r."""
    c, r = sum(map(len, hypotheses)), sum(map(len, references))
    penalty = min(1, math.exp(1 - c / r))
    return 100 * penalty * math.prod(precisions_of(hypotheses, references)) ** 0.25


@wrong("corpus_bleu", "penalty is c/r")
def ratio_as_penalty(hypotheses, references):
    """c / r."""
    c, r = sum(map(len, hypotheses)), sum(map(len, references))
    return 100 * min(1, c / r) * math.prod(precisions_of(hypotheses, references)) ** 0.25


@wrong("corpus_bleu", "arithmetic mean")
def arithmetic(hypotheses, references):
    """sum / 4."""
    p = precisions_of(hypotheses, references)
    return 100 * shortness(hypotheses, references) * sum(p) / 4 * all(p)


@wrong("corpus_bleu", "fourth root is missing")
def no_root(hypotheses, references):
    """The product."""
    p = precisions_of(hypotheses, references)
    return 100 * shortness(hypotheses, references) * math.prod(p)


@wrong("corpus_bleu", "counted together")
def counted_together(hypotheses, references):
    """One Counter for the corpus, filled in a loop over its sentences."""
    precisions = []
    for n in (1, 2, 3, 4):
        found = Counter(gram for tokens in hypotheses for gram in grams(tokens, n))
        allowed = Counter(gram for tokens in references for gram in grams(tokens, n))
        precisions.append((found & allowed).total() / max(1, found.total()))
    return 100 * shortness(hypotheses, references) * math.prod(precisions) ** 0.25


@wrong("corpus_bleu", "1 is added to all counts")
def add_one(hypotheses, references):
    """So that no logarithm is of 0."""
    counts = [sums(hypotheses, references, n) for n in (1, 2, 3, 4)]
    precisions = [(matches + 1) / (total + 1) for matches, total in counts]
    return 100 * shortness(hypotheses, references) * math.prod(precisions) ** 0.25


@wrong("corpus_bleu", "n goes to 3 only")
def three_orders(hypotheses, references):
    """range(1, 4)."""
    p = precisions_of(hypotheses, references)[:3]
    return 100 * shortness(hypotheses, references) * math.prod(p) ** (1 / 3)


@wrong("corpus_bleu", "nothing is clipped")
def not_clipped(hypotheses, references):
    """Plain precision."""
    p = []
    for n in (1, 2, 3, 4):
        each = zip(hypotheses, references, strict=True)
        counts = [plain_precision(h, r, n) for h, r in each]
        total = sum(b for _, b in counts)
        p.append(sum(a for a, _ in counts) / total if total else 0.0)
    return 100 * shortness(hypotheses, references) * math.prod(p) ** 0.25


@wrong("corpus_bleu", "have changed places")
def roles_exchanged(hypotheses, references):
    """References first, as in NLTK."""
    return plainly(references, hypotheses)


@wrong("corpus_bleu", "all sentences are joined")
def one_text(hypotheses, references):
    """Flattened first."""
    return plainly([sum(hypotheses, [])], [sum(references, [])])  # noqa: RUF017


@wrong("corpus_bleu", "Your code stopped at this line", "math domain error")
def logarithm_of_zero(hypotheses, references):
    """No case for a precision of 0."""
    p = precisions_of(hypotheses, references)
    mean = sum(math.log(each) for each in p) / 4
    return 100 * shortness(hypotheses, references) * math.exp(mean)


@wrong("corpus_bleu", "no smoothing")
def a_tiny_number_for_zero(hypotheses, references):
    """log(p + 1e-9)."""
    p = precisions_of(hypotheses, references)
    mean = sum(math.log(max(each, 1e-9)) for each in p) / 4
    return 100 * shortness(hypotheses, references) * math.exp(mean)


@wrong("corpus_bleu", "It uses sacrebleu.BLEU")
def with_the_library(hypotheses, references):
    """Not the task."""
    lines = [" ".join(tokens) for tokens in hypotheses], [" ".join(t) for t in references]
    metric = BLEU(tokenize="none", smooth_method="none")
    return metric.corpus_score(lines[0], [lines[1]]).score


@wrong("corpus_bleu", "pairs with an empty hypothesis are left out")
def pairs_without_output_left_out(hypotheses, references):
    """`if not hypothesis: continue`, against a division by zero."""
    kept = [pair for pair in zip(hypotheses, references, strict=True) if pair[0]]
    return plainly([h for h, _ in kept], [r for _, r in kept])


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


@wrong("accumulate_gradients", "two modules share is divided twice")
def divided_module_by_module(model, batches, loss_fn):
    """A tied matrix belongs to two modules."""
    model.zero_grad()
    total = tokens = 0
    for batch in batches:
        loss, count = loss_fn(model, batch)
        loss.backward()
        total, tokens = total + loss.item(), tokens + count
    for module in model.modules():
        for parameter in module.parameters(recurse=False):
            if parameter.grad is not None:
                parameter.grad /= tokens
    return total / tokens


@wrong("accumulate_gradients", "the means are averaged")
def mean_of_means(model, batches, loss_fn):
    """What transformers and torchtune did until October 2024."""
    model.zero_grad()
    mean = 0.0
    for batch in batches:
        loss, count = loss_fn(model, batch)
        loss = loss / count / len(batches)
        loss.backward()
        mean += loss.item()
    return mean


@wrong("accumulate_gradients", "the gradient of the sum is left")
def never_divided(model, batches, loss_fn):
    """Only the returned loss is divided."""
    model.zero_grad()
    total, tokens = 0.0, 0
    for batch in batches:
        loss, count = loss_fn(model, batch)
        loss.backward()
        total, tokens = total + loss.item(), tokens + count
    return total / tokens


@wrong("accumulate_gradients", "divided by the number of batches, and not of tokens")
def divided_by_batches(model, batches, loss_fn):
    """loss / accumulation_steps."""
    model.zero_grad()
    total, tokens = 0.0, 0
    for batch in batches:
        loss, count = loss_fn(model, batch)
        (loss / len(batches)).backward()
        total, tokens = total + loss.item(), tokens + count
    return total / tokens


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


@wrong("accumulate_gradients", "what stood in `.grad` before")
def never_cleared_and_divided(model, batches, loss_fn):
    """No zero_grad, and the old numbers are divided too."""
    total, tokens = 0.0, 0
    for batch in batches:
        loss, count = loss_fn(model, batch)
        loss.backward()
        total, tokens = total + loss.item(), tokens + count
    for p in model.parameters():
        if p.grad is not None:
            p.grad /= tokens
    return total / tokens


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


@wrong("accumulate_gradients", "cleared inside of the loop")
def cleared_in_the_loop(model, batches, loss_fn):
    """zero_grad where a training loop has it."""
    total, tokens = 0.0, 0
    for batch in batches:
        model.zero_grad()
        loss, count = loss_fn(model, batch)
        loss.backward()
        total, tokens = total + loss.item(), tokens + count
    for p in model.parameters():
        if p.grad is not None:
            p.grad /= tokens
    return total / tokens


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


@wrong("accumulate_gradients", "the loss that is returned is the mean of the batches' means")
def returns_the_mean_of_means(model, batches, loss_fn):
    """Right gradients, wrong number."""
    divide_at_the_end(model, batches, loss_fn)
    found = [loss_fn(model, batch) for batch in batches]
    means = [float(loss) / count for loss, count in found if count]
    return sum(means) / len(means)


@wrong("accumulate_gradients", "the loss that is returned is the sum;")
def returns_the_sum(model, batches, loss_fn):
    """Not divided."""
    divide_at_the_end(model, batches, loss_fn)
    return sum(float(loss_fn(model, batch)[0]) for batch in batches)


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


@wrong("accumulate_gradients", "the tokens of the last batch alone")
def divided_by_the_last_count(model, batches, loss_fn):
    """`count` after the loop."""
    model.zero_grad()
    total = 0.0
    for batch in batches:
        loss, count = loss_fn(model, batch)
        loss.backward()
        total += loss.item()
    for p in model.parameters():
        if p.grad is not None:
            p.grad /= max(count, 1)
    return total / max(count, 1)


def divided_by(count, model, batches, loss_fn):
    model.zero_grad()
    total = 0.0
    for batch in batches:
        loss = loss_fn(model, batch)[0] / count
        loss.backward()
        total += loss.item()
    return total


@wrong("accumulate_gradients", "divided by the number of sentences")
def mean_over_sentences(model, batches, loss_fn):
    """len(batch) is taken for the number of its tokens."""
    return divided_by(sum(map(len, batches)), model, batches, loss_fn)


@wrong("accumulate_gradients", "divided by all places of the batches")
def mean_over_places(model, batches, loss_fn):
    """numel: <bos> and pads are counted as well."""
    return divided_by(sum(batch.numel() for batch in batches), model, batches, loss_fn)


# ---- average_checkpoints


@right("average_checkpoints")
def stacked(state_dicts):
    return {
        name: torch.stack([s[name].float() for s in state_dicts]).mean(0).to(last.dtype)
        if last.dtype in (torch.float16, torch.bfloat16)
        else (
            torch.stack([s[name] for s in state_dicts]).mean(0)
            if last.is_floating_point()
            else last.clone()
        )
        for name, last in state_dicts[-1].items()
    }


@right("average_checkpoints")
def running_sum(state_dicts):
    total = {}
    for state in state_dicts:
        for name, tensor in state.items():
            if tensor.is_floating_point():
                total[name] = total.get(name, 0) + tensor.double() / len(state_dicts)
            else:
                total[name] = tensor.clone()
    return {name: total[name].to(tensor.dtype) for name, tensor in state_dicts[0].items()}


@right("average_checkpoints")
def by_numpy(state_dicts):
    result = {name: tensor.clone() for name, tensor in state_dicts[-1].items()}
    for name, tensor in result.items():
        if torch.is_floating_point(tensor):
            mean = np.mean([s[name].double().numpy() for s in state_dicts], axis=0)
            result[name] = torch.as_tensor(mean).to(tensor.dtype)
    return result


@wrong("average_checkpoints", "['counts']")
def only_int64_and_bool_are_whole(state_dicts):
    """The two whole kinds that one has seen; there are others."""
    mean = {}
    for name, last in state_dicts[-1].items():
        if last.dtype in (torch.int64, torch.bool):
            mean[name] = last.clone()
        else:
            every = torch.stack([state[name].double() for state in state_dicts])
            mean[name] = every.mean(0).to(last.dtype)
    return mean


@wrong("average_checkpoints", "cut down to whole numbers")
def counters_averaged(state_dicts):
    """Everything is averaged and put back into its dtype."""
    return {
        name: torch.stack([s[name].double() for s in state_dicts]).mean(0).to(t.dtype)
        for name, t in state_dicts[0].items()
    }


@wrong("average_checkpoints", "counters and ids are averaged")
def counters_divided_as_whole_numbers(state_dicts):
    """sum // n for what is no float; truth values are left alone."""
    result = stacked(state_dicts)
    for name, tensor in result.items():
        if not tensor.is_floating_point() and tensor.dtype != torch.bool:
            result[name] = sum(state[name] for state in state_dicts) // len(state_dicts)
    return result


@wrong("average_checkpoints", "become floats")
def counters_become_floats(state_dicts):
    """No dtype is put back."""
    return {
        name: torch.stack([s[name].double() for s in state_dicts]).mean(0)
        for name in state_dicts[0]
    }


@wrong("average_checkpoints", "integer tensors come from the first")
def counters_of_the_first(state_dicts):
    """A copy of the first as a start."""
    result = dict(state_dicts[0])
    for name, tensor in result.items():
        if tensor.is_floating_point():
            result[name] = stacked(state_dicts)[name]
    return result


@wrong("average_checkpoints", "integer tensors are left out")
def counters_left_out(state_dicts):
    """Only floats."""
    return {n: t for n, t in stacked(state_dicts).items() if t.is_floating_point()}


@wrong("average_checkpoints", "added up and not divided")
def only_added(state_dicts):
    """No division."""
    result = dict(state_dicts[-1])
    for name, tensor in result.items():
        if tensor.is_floating_point():
            result[name] = sum(s[name].double() for s in state_dicts).to(tensor.dtype)
    return result


@wrong("average_checkpoints", "changed its argument")
def adds_into_the_first(state_dicts):
    """+= on the first checkpoint."""
    result = state_dicts[0]
    for state in state_dicts[1:]:
        for name in result:
            result[name] += state[name]
    return {name: tensor / len(state_dicts) for name, tensor in result.items()}


@wrong("average_checkpoints", "the last checkpoint is returned")
def the_last(state_dicts):
    """No average at all."""
    return {name: tensor.clone() for name, tensor in state_dicts[-1].items()}


@wrong("average_checkpoints", "the last one then weighs one half")
def running_mean_of_two(state_dicts):
    """(mean + new) / 2 in turn."""
    result = {name: t.double() for name, t in state_dicts[0].items()}
    for state in state_dicts[1:]:
        result = {name: (result[name] + state[name].double()) / 2 for name in state}
    return {
        name: result[name].to(t.dtype) if t.is_floating_point() else t
        for name, t in state_dicts[-1].items()
    }


@wrong("average_checkpoints", "one less than the number of checkpoints")
def one_less(state_dicts):
    """n − 1, as for a variance."""
    result = dict(state_dicts[-1])
    for name, tensor in result.items():
        if tensor.is_floating_point():
            total = sum(s[name].double() for s in state_dicts)
            result[name] = (total / max(1, len(state_dicts) - 1)).to(tensor.dtype)
    return result


@wrong("average_checkpoints", "in the checkpoints: go back to the dtype")
def stays_double(state_dicts):
    """Double precision is kept."""
    return {
        name: torch.stack([s[name].double() for s in state_dicts]).mean(0)
        if last.is_floating_point()
        else last
        for name, last in state_dicts[-1].items()
    }


@wrong("average_checkpoints", "only float32 is averaged")
def float32_only(state_dicts):
    """`dtype == torch.float32` for `is_floating_point()`."""
    found = {name: tensor.clone() for name, tensor in state_dicts[-1].items()}
    for name, tensor in found.items():
        if tensor.dtype == torch.float32:
            found[name] = torch.stack([state[name] for state in state_dicts]).mean(0)
    return found


@wrong("average_checkpoints", "1 and 63 twos")
def running_mean_in_half_precision(state_dicts):
    """Welford's step, m + (x − m) / n, in the dtype of the weights."""
    found = {name: tensor.clone() for name, tensor in state_dicts[0].items()}
    for n, state in enumerate(state_dicts[1:], start=2):
        for name, tensor in state.items():
            floating = tensor.is_floating_point()
            change = (tensor - found[name]) / n if floating else None
            found[name] = found[name] + change if floating else tensor.clone()
    return found


@wrong("average_checkpoints", "256 and 63 ones")
def summed_in_half_precision(state_dicts):
    """The sum has the dtype of the weights; each is divided first."""
    result = dict(state_dicts[-1])
    for name, tensor in result.items():
        if tensor.is_floating_point():
            total = torch.zeros_like(tensor)
            for state in state_dicts:
                total = total + state[name]
            if tensor.dtype == torch.float16:
                total = sum(s[name].float() for s in state_dicts)
            result[name] = (total / len(state_dicts)).to(tensor.dtype)
    return result


@wrong("average_checkpoints", "float16 ends at 65,504")
def overflows(state_dicts):
    """A sum in float16."""
    result = dict(state_dicts[-1])
    for name, tensor in result.items():
        if tensor.dtype == torch.float16:
            result[name] = sum(s[name] for s in state_dicts) / len(state_dicts)
        elif tensor.is_floating_point():
            result[name] = stacked(state_dicts)[name]
    return result


@wrong("average_checkpoints", "shares its memory with a checkpoint")
def counters_not_cloned(state_dicts):
    """The last checkpoint's counters are handed on as they are."""
    averaged = stacked(state_dicts)
    last = state_dicts[-1]
    return {n: t if t.is_floating_point() else last[n] for n, t in averaged.items()}


@wrong("average_checkpoints", "shares its memory with a checkpoint")
def one_checkpoint_as_it_is(state_dicts):
    """There is nothing to average in one checkpoint."""
    return state_dicts[0] if len(state_dicts) == 1 else stacked(state_dicts)


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


def without(*left_out, factor=6):
    def flops(d, f, N, V, S, T):
        parts = {
            "projections": N * (S + T) * 4 * d * d + N * 2 * (S + T) * d * d,
            "attention": N * 2 * d * (S * S + T * T + S * T),
            "network": N * (S + T) * 2 * d * f,
            "words": T * d * V,
        }
        return factor * sum(value for name, value in parts.items() if name not in left_out)

    return flops


@wrong("training_flops", "backward is missing")
def forward_alone(d, f, N, V, S, T):
    """2 per multiply-add, and no backward."""
    return without(factor=2)(d, f, N, V, S, T)


@wrong("training_flops", "backward counts once")
def backward_once(d, f, N, V, S, T):
    """Forward and backward alike."""
    return without(factor=4)(d, f, N, V, S, T)


@wrong("training_flops", "multiply-adds are counted")
def macs(d, f, N, V, S, T):
    """One operation each."""
    return without(factor=3)(d, f, N, V, S, T)


@wrong("training_flops", "product with the vocabulary is missing")
def no_vocabulary(d, f, N, V, S, T):
    """The last linear layer is forgotten."""
    return without("words")(d, f, N, V, S, T)


@wrong("training_flops", "Q Kᵀ and A V, are missing")
def no_attention(d, f, N, V, S, T):
    """The rule of thumb's omission."""
    return without("attention")(d, f, N, V, S, T)


@wrong("training_flops", "the feed-forward networks are missing")
def no_network(d, f, N, V, S, T):
    """Attention is all you count."""
    return without("network")(d, f, N, V, S, T)


@wrong("training_flops", "cross-attention is missing")
def no_cross(d, f, N, V, S, T):
    """Two encoders."""
    own = sum(n * (4 * d * d + 2 * d * f) + 2 * n * n * d for n in (S, T))
    return 6 * (N * own + T * d * V)


@wrong("training_flops", "keys and values are made from the target")
def cross_keys_of_the_target(d, f, N, V, S, T):
    """4 T d²."""
    return line_by_line(d, f, N, V, S, T) + 6 * N * 2 * (T - S) * d * d


@wrong("training_flops", "the causal mask halves")
def mask_saves(d, f, N, V, S, T):
    """Half a rectangle."""
    return line_by_line(d, f, N, V, S, T) - 6 * N * T * T * d


@wrong("training_flops", "T (T + 1) / 2 pairs")
def mask_counted_exactly(d, f, N, V, S, T):
    """Pairs that may attend."""
    return line_by_line(d, f, N, V, S, T) - 6 * N * T * (T - 1) * d


@wrong("training_flops", "target × target")
def cross_attention_as_a_square(d, f, N, V, S, T):
    """The lines of self-attention, copied."""
    return line_by_line(d, f, N, V, S, T) + 12 * N * T * (T - S) * d


@wrong("training_flops", "W_Q or W_O is applied to the source")
def cross_output_of_the_source(d, f, N, V, S, T):
    """Three projections of the source, one of the target."""
    return line_by_line(d, f, N, V, S, T) + 6 * N * (S - T) * d * d


@wrong("training_flops", "looking up embeddings is counted")
def look_up_counted(d, f, N, V, S, T):
    """A product with one-hot vectors."""
    return line_by_line(d, f, N, V, S, T) + 6 * (S + T) * d * V


@wrong("training_flops", "num_layers is ignored")
def one_layer(d, f, N, V, S, T):
    """N is never used."""
    return line_by_line(d, f, 1, V, S, T)


@wrong("training_flops", "it has two")
def one_matrix_in_the_network(d, f, N, V, S, T):
    """d · d_ff once."""
    return line_by_line(d, f, N, V, S, T) - 6 * N * (S + T) * d * f


@wrong("training_flops", "source and target lengths have changed places")
def lengths_exchanged(d, f, N, V, S, T):
    """The wrong order of arguments."""
    return line_by_line(d, f, N, V, T, S)


@wrong("training_flops", "W_O is missing")
def three_projections(d, f, N, V, S, T):
    """Q, K, V."""
    return line_by_line(d, f, N, V, S, T) - 6 * N * (S + 2 * T) * d * d


@wrong("training_flops", "cross-attention has three projections")
def cross_attention_without_w_o(d, f, N, V, S, T):
    """W_Q, W_K, W_V; the fourth is forgotten in the second attention."""
    return without()(d, f, N, V, S, T) - 6 * N * T * d * d


@wrong("training_flops", "its W_K or W_V is missing")
def without_values_of_the_source(d, f, N, V, S, T):
    """Keys and values of the source are thought to be one."""
    return without()(d, f, N, V, S, T) - 6 * N * S * d * d


# ---- repaired_bleu


@right("repaired_bleu")
def by_function(outputs, references):
    return sacrebleu.corpus_bleu(outputs, [references]).score


@right("repaired_bleu")
def by_cached_references(outputs, references):
    return BLEU(references=[references]).corpus_score(outputs, None).score


@right("repaired_bleu")
def by_name(outputs, references):
    streams = list(zip(*([reference] for reference in references), strict=True))
    return BLEU(tokenize="13a").corpus_score(outputs, streams).score


@wrong("repaired_bleu", "nothing is smoothed")
def by_its_own_words(outputs, references):
    """sacreBLEU's tokens, and BLEU as in task 3."""
    tokenize = BLEU().tokenizer
    lines = ([tokenize(text).split() for text in side] for side in (outputs, references))
    return plainly(*lines)


@wrong("repaired_bleu", "both bugs are still there")
def unchanged(outputs, references):
    """The function as it was."""
    metric = BLEU(effective_order=True)
    return sum(metric.sentence_score(o, references).score for o in outputs) / len(outputs)


@wrong("repaired_bleu", "one bug is left: the mean of sentence scores")
def still_a_mean(outputs, references):
    """The shape is mended."""
    metric, pairs = BLEU(effective_order=True), list(zip(outputs, references, strict=True))
    return sum(metric.sentence_score(o, [r]).score for o, r in pairs) / len(pairs)


@wrong("repaired_bleu", "one bug is left: each reference is a stream")
def streams_of_one(outputs, references):
    """ragas, issue 2888."""
    return BLEU().corpus_score(outputs, [[reference] for reference in references]).score


@wrong("repaired_bleu", "handed over as it is")
def a_stream_for_each_sentence(outputs, references):
    """`sentence_score(output, references)` takes such a list."""
    return BLEU().corpus_score(outputs, references).score


@wrong("repaired_bleu", "effective order")
def effective_order_kept(outputs, references):
    """The first line of the broken function."""
    return BLEU(effective_order=True).corpus_score(outputs, [references]).score


@wrong("repaired_bleu", "intl")
def another_tokeniser(outputs, references):
    """For text with quotation marks that are not ASCII."""
    return BLEU(tokenize="intl").corpus_score(outputs, [references]).score


@wrong("repaired_bleu", "lower-cased")
def lower_case(outputs, references):
    """To be kind."""
    return BLEU(lowercase=True).corpus_score(outputs, [references]).score


@wrong("repaired_bleu", "not tokenised")
def without_tokenisation(outputs, references):
    """tokenize=none on plain text."""
    return BLEU(tokenize="none").corpus_score(outputs, [references]).score


@wrong("repaired_bleu", "changed places")
def other_way_round(outputs, references):
    """References first."""
    return BLEU().corpus_score(references, [outputs]).score


@wrong("repaired_bleu", "joined to one text")
def one_long_text(outputs, references):
    """A corpus as one string."""
    return BLEU().corpus_score([" ".join(outputs)], [[" ".join(references)]]).score


@wrong("repaired_bleu", "share from 0 to 1")
def from_0_to_1(outputs, references):
    """/ 100."""
    return BLEU().corpus_score(outputs, [references]).score / 100


@wrong("repaired_bleu", "a BLEUScore")
def the_object(outputs, references):
    """.score is forgotten."""
    return BLEU().corpus_score(outputs, [references])


@wrong("repaired_bleu", "characters are scored")
def of_characters(outputs, references):
    """tokenize=char."""
    return BLEU(tokenize="char").corpus_score(outputs, [references]).score


@wrong("clipped_matches", "nothing is counted for a *reference* that is shorter than n")
def nothing_if_one_is_empty(hypothesis, reference, n):
    """A guard for both lists, where one of them needs it."""
    if not hypothesis or not reference:
        return 0, 0
    found, other = (
        Counter(tuple(t[i : i + n]) for i in range(len(t) - n + 1)) for t in (hypothesis, reference)
    )
    return (found & other).total(), found.total()


@wrong("clipped_matches", "punctuation is dropped")
def matches_without_punctuation(hypothesis, reference, n):
    """As texts are cleaned for other tasks."""
    return counted([t for t in hypothesis if t.isalnum()], [t for t in reference if t.isalnum()], n)


@wrong("clipped_matches", "lower-cased, and punctuation dropped")
def matches_of_cleaned_texts(hypothesis, reference, n):
    """The whole cleaning."""
    hypothesis, reference = ([t.lower() for t in side] for side in (hypothesis, reference))
    return matches_without_punctuation(hypothesis, reference, n)


def counted(hypothesis, reference, n):
    found, other = (
        Counter(tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1))
        for tokens in (hypothesis, reference)
    )
    return (found & other).total(), found.total()
