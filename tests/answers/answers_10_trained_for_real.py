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


@wrong("clipped_matches", "returned one number, the precision")
def a_share(hypothesis, reference, n):
    """Divided too early."""
    found = Counter(grams(hypothesis, n))
    return (found & Counter(grams(reference, n))).total() / max(1, found.total())


@wrong("clipped_matches", "The same call gave two answers")
def counted_on(hypothesis, reference, n, seen=Counter()):  # noqa: B006
    """A default that is made once, and grows."""
    grams, allowed = (
        [tuple(text[i : i + n]) for i in range(len(text) - n + 1)]
        for text in (hypothesis, reference)
    )
    seen.update(grams)
    return (seen & Counter(allowed)).total(), len(grams)


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


@wrong("average_checkpoints", "counters and ids are averaged")
def counters_divided_as_whole_numbers(state_dicts):
    """sum // n for what is no float; truth values are left alone."""
    result = stacked(state_dicts)
    for name, tensor in result.items():
        if not tensor.is_floating_point() and tensor.dtype != torch.bool:
            result[name] = sum(state[name] for state in state_dicts) // len(state_dicts)
    return result


@wrong("average_checkpoints", "integer tensors come from the first")
def counters_of_the_first(state_dicts):
    """A copy of the first as a start."""
    result = dict(state_dicts[0])
    for name, tensor in result.items():
        if tensor.is_floating_point():
            result[name] = stacked(state_dicts)[name]
    return result


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


@wrong("repaired_bleu", "a BLEUScore")
def the_object(outputs, references):
    """.score is forgotten."""
    return BLEU().corpus_score(outputs, [references])
