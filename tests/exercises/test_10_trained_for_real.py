"""The checks of exercise 10. A mistake's text ends the sentence "This is the answer when …"."""

import math
import numbers
import random
from collections import Counter
from itertools import chain
from statistics import mean

import torch
from sacrebleu.metrics import BLEU
from torch import Tensor, nn

from course.checking import CheckFailed, expect
from course.checking.diagnosis import expect_no_memory, expect_predictions

FORBIDDEN = {"corpus_bleu": ("sacrebleu.corpus_bleu", "sacrebleu.BLEU", "nltk.corpus_bleu")}

# ---- predicted_scores


def test_the_six_numbers_are_predicted(predicted_scores):
    hints = {
        "a": {
            6: "That is without clipping: each word counts at most as often as in the reference.",
            2: "The reference has two different words of these; one of them occurs twice in it.",
            8: "That is the number of words in the output.",
            None: "For each word take the smaller of its two counts: how often has the reference "
            "“a”, and how often “dog”?",
        },
        "b": {
            3: "“a dog” occurs once in the reference, so it counts once.",
            0: "Look at the first two words of both.",
            None: "Which pairs of neighbours does the reference have? For each take the smaller "
            "count.",
        },
        "c": {
            2 / 3: "That is the mean of the two sentences' precisions. Add up the counts first.",
            10: "Those are the matches. Divided by what?",
            None: "All matches of the corpus, divided by all words of its outputs.",
        },
        "d": {
            math.log(0.5): "The output is too short: the brevity penalty is missing.",
            4 * math.log(0.5) - 1: "The mean of the four is wanted, and not their product.",
            math.log(0.5) - 2: "The penalty's exponent is 1 − r/c.",
            math.log(0.5) + 1: "The penalty makes BLEU smaller.",
            math.log(0.5) - 0.5: "It is 1 − r/c, and c is the length of the outputs: 1 − 100/50.",
            math.exp(-1) / 2: "That is BLEU / 100 itself; its logarithm is wanted.",
            None: "The logarithm of a product is a sum: that of the geometric mean, and 1 − r/c.",
        },
        "e": {
            2: "That is the mean of the two means: a token of the short part would weigh more.",
            12: "That is the sum. Divide by the number of tokens.",
            6: "That is the sum of the losses divided by the number of parts.",
            None: "Add up the losses of all tokens, and divide by the number of tokens.",
        },
        "f": {
            203: "The counter is a whole number: it is taken from the last checkpoint.",
            103: "The counter is taken from the last checkpoint, and not from the first.",
            306: "The weight is averaged: only what cannot be averaged comes from the last.",
            300: "And the weight?",
            None: "The mean of 1, 2 and 6, plus the last counter.",
        },
    }
    right = {"a": 3, "b": 1, "c": 10 / 12, "d": math.log(0.5) - 1, "e": 1.5, "f": 303}
    expect_predictions(predicted_scores(), right, hints, within=6e-3)


# ---- clipped_matches


def ngrams(tokens, n):
    return Counter(tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1))


def clipped(hypothesis, reference, n):
    found = ngrams(hypothesis, n)
    return (found & ngrams(reference, n)).total(), found.total()


def unclipped(hypothesis, reference, n):
    found, allowed = ngrams(hypothesis, n), ngrams(reference, n)
    return sum(count for gram, count in found.items() if gram in allowed), found.total()


def each_once(hypothesis, reference, n):
    found = ngrams(hypothesis, n)
    return len(found.keys() & ngrams(reference, n).keys()), found.total()


def without_order(hypothesis, reference, n):
    def bags(tokens):
        return Counter(tuple(sorted(tokens[i : i + n])) for i in range(len(tokens) - n + 1))

    found = bags(hypothesis)
    return (found & bags(reference)).total(), found.total()


def glued(hypothesis, reference, n):
    def strings(tokens):
        return Counter("".join(map(str, tokens[i : i + n])) for i in range(len(tokens) - n + 1))

    found = strings(hypothesis)
    return (found & strings(reference)).total(), found.total()


def without_the_last(hypothesis, reference, n):
    found = Counter(tuple(hypothesis[i : i + n]) for i in range(len(hypothesis) - n))
    other = Counter(tuple(reference[i : i + n]) for i in range(len(reference) - n))
    return (found & other).total(), found.total()


def stumps(hypothesis, reference, n):
    found, other = (
        Counter(tuple(tokens[i : i + n]) for i in range(len(tokens)))
        for tokens in (hypothesis, reference)
    )
    return (found & other).total(), found.total()


def aligned(hypothesis, reference, n):
    places = range(min(len(hypothesis), len(reference)) - n + 1)
    same = sum(hypothesis[i : i + n] == reference[i : i + n] for i in places)
    return same, max(0, len(hypothesis) - n + 1)


def apart(hypothesis, reference, n):
    """Blocks that do not overlap."""
    found, other = (
        Counter(tuple(tokens[i : i + n]) for i in range(0, len(tokens) - n + 1, n))
        for tokens in (hypothesis, reference)
    )
    return (found & other).total(), found.total()


def in_reference(hypothesis, reference, n):
    found, allowed = ngrams(hypothesis, n), ngrams(reference, n)
    return sum(count for gram, count in allowed.items() if gram in found), found.total()


def text_between_spaces(hypothesis, reference, n):
    text, found = f" {' '.join(reference)} ", ngrams(hypothesis, n)
    matches = sum(min(count, text.count(f" {' '.join(gram)} ")) for gram, count in found.items())
    return matches, found.total()


def up_to_n(hypothesis, reference, n):
    counts = [clipped(hypothesis, reference, k) for k in range(1, n + 1)]
    return sum(m for m, _ in counts), sum(t for _, t in counts)


def text_in_text(hypothesis, reference, n):
    text, found = " ".join(reference), ngrams(hypothesis, n)
    matches = sum(min(count, text.count(" ".join(gram))) for gram, count in found.items())
    return matches, found.total()


def lower_cased(hypothesis, reference, n):
    return clipped(*([token.lower() for token in side] for side in (hypothesis, reference)), n)


def without_punctuation(hypothesis, reference, n):
    return clipped(*([t for t in side if t.isalnum()] for side in (hypothesis, reference)), n)


COUNTS = {
    "punctuation is dropped: '.' is a token like the others.": without_punctuation,
    "everything is lower-cased, and punctuation dropped: 'The' and '.' are tokens as they stand.": (
        lambda h, r, n: without_punctuation(
            *([token.lower() for token in side] for side in (h, r)), n
        )
    ),
    "nothing is clipped: each n-gram counts at most as often as the reference has it.": unclipped,
    "each different n-gram counts once: it counts as often as both have it.": each_once,
    "an n-gram that occurs twice adds its smaller count twice: go through the different ones.": (
        lambda h, r, n: (
            sum(count * min(count, ngrams(r, n)[gram]) for gram, count in ngrams(h, n).items()),
            ngrams(h, n).total(),
        )
    ),
    "the total is that of the reference: the precision is about the hypothesis.": (
        lambda h, r, n: (clipped(h, r, n)[0], ngrams(r, n).total())
    ),
    "the total is the number of tokens; there are n − 1 fewer n-grams.": (
        lambda h, r, n: (clipped(h, r, n)[0], len(h))
    ),
    "the total is the number of different n-grams; each counts as often as it occurs.": (
        lambda h, r, n: (clipped(h, r, n)[0], len(ngrams(h, n)))
    ),
    "the total counts only n-grams that both have.": lambda h, r, n: clipped(h, r, n)[:1] * 2,
    "the order inside of an n-gram is lost: use tuples, not sets or sorted lists.": without_order,
    "the tokens of an n-gram are glued together: ('a', 'bc') and ('ab', 'c') become one. Use "
    "tuples.": glued,
    "text is looked for in text: 'he' is found inside of 'the'. Compare tuples of tokens.": (
        text_in_text
    ),
    "text is looked for in text: `str.count` leaves out what overlaps. Compare tuples of tokens.": (
        text_between_spaces
    ),
    "the n-grams of the *reference* that the hypothesis has are counted: an n-gram counts at most "
    "as often as the hypothesis has it, too.": in_reference,
    "everything is lower-cased: 'The' and 'the' are two tokens.": lower_cased,
    "the last n-gram is missing: there are len − n + 1.": without_the_last,
    "the stumps at the end, shorter than n, count as n-grams.": stumps,
    "only n-grams at the same place are compared; they may stand anywhere.": aligned,
    "n-grams do not overlap; one begins at every token.": apart,
    "all orders up to n are added up; only n is asked for.": up_to_n,
    "n is ignored: single tokens are counted.": lambda h, r, n: clipped(h, r, 1),
    "the two results have changed places: (matches, total).": (
        lambda h, r, n: clipped(h, r, n)[::-1]
    ),
    "the total is negative for a hypothesis that is shorter than n: it has no n-grams.": (
        lambda h, r, n: (clipped(h, r, n)[0], len(h) - n + 1)
    ),
    "the total has one n-gram too few.": (
        lambda h, r, n: (clipped(h, r, n)[0], max(0, len(h) - n))
    ),
    "the larger of the two counts is taken; it is the smaller (min, or & of two Counters).": (
        lambda h, r, n: (
            sum(max(c, ngrams(r, n)[g]) for g, c in ngrams(h, n).items() if g in ngrams(r, n)),
            ngrams(h, n).total(),
        )
    ),
    "every pair of equal n-grams counts, so that both counts are multiplied; take the smaller.": (
        lambda h, r, n: (
            sum(c * ngrams(r, n)[g] for g, c in ngrams(h, n).items()),
            ngrams(h, n).total(),
        )
    ),
}


def expect_counts(answer, hypothesis, reference, n):
    right = clipped(hypothesis, reference, n)
    mistakes = {text: mistake(hypothesis, reference, n) for text, mistake in COUNTS.items()}
    mistakes = {text: came for text, came in mistakes.items() if came != right}
    if n > len(hypothesis):
        mistakes["a hypothesis that is shorter than n has one n-gram, itself: it has none."] = (
            right[0],
            1,
        )
    if len(reference) < n <= len(hypothesis):
        mistakes = {
            "nothing is counted for a *reference* that is shorter than n: then nothing matches, "
            "and the hypothesis has its n-grams all the same.": (0, 0)
        } | mistakes
    call = f"clipped_matches({hypothesis}, {reference}, n={n})"
    came = answer(list(hypothesis), list(reference), n)
    if isinstance(came, float):
        raise CheckFailed(
            "It returned one number, the precision. Return both counts, (matches, total): BLEU "
            "adds them up over the corpus before it divides.",
            call,
        )
    expect(came, right, mistakes, names=("matches", "total"), call=call)


TELLING = list("bdaaaccddadac"), list("cabadadbcadadac")


def test_each_call_counts_anew(clipped_matches):
    hypothesis, reference = TELLING
    one, other = (hypothesis, reference, 2), (hypothesis[::-1], reference[::-1], 2)
    expect_no_memory(clipped_matches, clipped, one, other)


def test_counts_that_no_two_mistakes_share(clipped_matches):
    expect_counts(clipped_matches, *TELLING, 2)


def test_counts_that_can_be_checked_by_hand(clipped_matches):
    cat = ["the", "cat", "is", "on", "the", "mat"]
    for n in (1, 2):
        expect_counts(clipped_matches, ["the"] * 7, cat, n)
    expect_counts(clipped_matches, ["the", "cat", "sat", "on", "the", "mat"], cat, 2)
    expect_counts(clipped_matches, list("ababcab"), list("babab") + ["x"] * 4, 2)
    expect_counts(clipped_matches, ["a", "bc", "d", "ab", "c"], ["ab", "c", "d", "ab", "c"], 2)
    hypothesis, reference = ["The", "he", "at", ".", "The"], ["the", "cat", "."]
    expect_counts(clipped_matches, hypothesis, reference, 1)


def test_counts_of_random_tokens(clipped_matches):
    draw = random.Random(0)
    for length, other in ((9, 12), (13, 8), (7, 7), (4, 30)):
        hypothesis, reference = ([draw.choice("abc") for _ in range(k)] for k in (length, other))
        for n in (1, 2, 3, 4, 5):
            expect_counts(clipped_matches, hypothesis, reference, n)


def test_a_hypothesis_shorter_than_n_has_no_ngrams(clipped_matches):
    for hypothesis, n in ((["a"], 2), (["a", "b"], 4), ([], 1), (["a", "b", "c"], 4)):
        expect_counts(clipped_matches, hypothesis, ["a", "b", "c", "d", "e"], n)
    expect_counts(clipped_matches, ["a", "b", "c"], ["a"], 2)
    expect_counts(clipped_matches, ["a", "b", "c"], [], 1)


# ---- corpus_bleu


def bleu_of(hypotheses, references, count=clipped, shortness=None, mix=None, orders=(1, 2, 3, 4)):
    pairs = list(zip(hypotheses, references, strict=True))
    precisions = []
    for n in orders:
        counts = [count(h, r, n) for h, r in pairs]
        matches, total = sum(m for m, _ in counts), sum(t for _, t in counts)
        precisions.append(matches / total if total else 0.0)
    c, r = sum(map(len, hypotheses)), sum(map(len, references))
    if not c or not all(precisions):
        return 0.0
    shortness = shortness or (lambda c, r: math.exp(min(0, 1 - r / c)))
    mix = mix or (lambda p: math.prod(p) ** (1 / len(p)))
    return 100 * shortness(c, r) * mix(precisions)


def mean_of_sentences(hypotheses, references):
    return mean(bleu_of([h], [r]) for h, r in zip(hypotheses, references, strict=True))


def mean_precisions(hypotheses, references):
    """Each sentence's precision, then their mean."""
    precisions = []
    for n in (1, 2, 3, 4):
        counts = [clipped(h, r, n) for h, r in zip(hypotheses, references, strict=True)]
        precisions.append(mean(m / t for m, t in counts if t))
    c, r = sum(map(len, hypotheses)), sum(map(len, references))
    return 100 * math.exp(min(0, 1 - r / c)) * math.prod(precisions) ** 0.25


def one_long_sentence(hypotheses, references):
    return bleu_of([list(chain(*hypotheses))], [list(chain(*references))])


def smoothed(hypotheses, references, first=2):
    """1 is added to the counts of the orders from `first`."""
    precisions = []
    for n in (1, 2, 3, 4):
        counts = [clipped(h, r, n) for h, r in zip(hypotheses, references, strict=True)]
        matches, total = sum(m for m, _ in counts), sum(t for _, t in counts)
        precisions.append((matches + (n >= first)) / (total + (n >= first)))
    c, r = sum(map(len, hypotheses)), sum(map(len, references))
    return 100 * math.exp(min(0, 1 - r / c)) * math.prod(precisions) ** 0.25


def clipped_together(hypotheses, references):
    """n-grams stay inside of their sentences, and are matched in any reference."""
    precisions = []
    for n in (1, 2, 3, 4):
        found, other = (
            sum((ngrams(tokens, n) for tokens in side), Counter())
            for side in (hypotheses, references)
        )
        precisions.append((found & other).total() / found.total())
    c, r = sum(map(len, hypotheses)), sum(map(len, references))
    return 100 * math.exp(min(0, 1 - r / c)) * math.prod(precisions) ** 0.25


def penalty_of_each(hypotheses, references):
    each = [
        math.exp(min(0, 1 - len(r) / len(h))) for h, r in zip(hypotheses, references, strict=True)
    ]
    return bleu_of(hypotheses, references, shortness=lambda c, r: mean(each))


SCORES = {
    "it is a share from 0 to 1; the result goes from 0 to 100.": (lambda h, r: bleu_of(h, r) / 100),
    "it is multiplied by 100 twice.": lambda h, r: bleu_of(h, r) * 100,
    "the scores of the sentences are averaged: add up their counts over the corpus first.": (
        mean_of_sentences
    ),
    "the precisions of the sentences are averaged: add up matches and totals over the corpus "
    "first.": mean_precisions,
    "all sentences are joined to one: then n-grams run across their borders, and a word of one "
    "sentence is matched in another.": one_long_sentence,
    "the n-grams of all sentences are counted together: a word is then matched in another "
    "sentence's reference. Clip sentence by sentence.": clipped_together,
    "nothing is clipped.": lambda h, r: bleu_of(h, r, count=unclipped),
    "each different n-gram counts once.": lambda h, r: bleu_of(h, r, count=each_once),
    "the precisions' arithmetic mean is taken, and not the geometric one.": (
        lambda h, r: bleu_of(h, r, mix=mean)
    ),
    "the four precisions are multiplied, and the fourth root is missing.": (
        lambda h, r: bleu_of(h, r, mix=math.prod)
    ),
    "the brevity penalty is missing.": lambda h, r: bleu_of(h, r, shortness=lambda c, r: 1),
    "the brevity penalty has no upper limit: long output would be rewarded. min(1, …).": (
        lambda h, r: bleu_of(h, r, shortness=lambda c, r: math.exp(1 - r / c))
    ),
    "the brevity penalty has c and r exchanged: it is 1 − r/c, r of the references.": (
        lambda h, r: bleu_of(h, r, shortness=lambda c, r: math.exp(min(0, 1 - c / r)))
    ),
    "the brevity penalty is c/r; it is e^(1 − r/c).": (
        lambda h, r: bleu_of(h, r, shortness=lambda c, r: min(1, c / r))
    ),
    "the brevity penalty is taken of each sentence; c and r are sums over the corpus.": (
        penalty_of_each
    ),
    "pairs with an empty hypothesis are left out: the words of their references belong to r.": (
        lambda h, r: bleu_of([x for x in h if x], [y for x, y in zip(h, r, strict=True) if x])
    ),
    "counts are smoothed; here they are not.": smoothed,
    "1 is added to all counts; here they are not smoothed.": lambda h, r: smoothed(h, r, 1),
    "n goes to 3 only: range(1, 4) ends before 4.": (lambda h, r: bleu_of(h, r, orders=(1, 2, 3))),
    "only single words are counted.": lambda h, r: bleu_of(h, r, orders=(1,)),
    "only 4-grams are counted.": lambda h, r: bleu_of(h, r, orders=(4,)),
    "hypotheses and references have changed places.": lambda h, r: bleu_of(r, h),
    "recall is taken: divide by the n-grams of the hypotheses.": (
        lambda h, r: bleu_of(
            h, r, count=lambda a, b, n: (clipped(a, b, n)[0], ngrams(b, n).total())
        )
    ),
    "the total is the number of tokens for each n: there are n − 1 fewer n-grams.": (
        lambda h, r: bleu_of(h, r, count=lambda a, b, n: (clipped(a, b, n)[0], len(a)))
    ),
}


TOKENS = ("a", "b", "A", "an", "and", "n", ".")  # some stand inside of others


def corpus(lengths, noise, seed, change=lambda h: h):
    """Random references, and hypotheses that replace a share `noise` of their tokens."""
    draw = random.Random(seed)
    references = [[draw.choice(TOKENS) for _ in range(length)] for length in lengths]
    hypotheses = [
        change([draw.choice(TOKENS) if draw.random() < noise else token for token in reference])
        for reference in references
    ]
    return hypotheses, references


def expect_bleu(answer, hypotheses, references):
    right = bleu_of(hypotheses, references)
    mistakes = {
        text: (lambda mistake=mistake: mistake(hypotheses, references))
        for text, mistake in SCORES.items()
    }
    came = answer([list(h) for h in hypotheses], [list(r) for r in references])
    expect(came, right, mistakes)


def test_bleu_of_a_corpus(corpus_bleu):
    for seed in range(3):
        expect_bleu(corpus_bleu, *corpus((9, 14, 6, 21), 0.2, seed))


def test_bleu_of_output_that_is_too_long(corpus_bleu):
    expect_bleu(corpus_bleu, *corpus((9, 14, 6, 21), 0.15, 4, change=lambda h: [*h, "a", "b"]))


def test_bleu_of_output_that_is_too_short(corpus_bleu):
    expect_bleu(corpus_bleu, *corpus((9, 14, 6, 21), 0.15, 3, change=lambda h: h[:-2]))


def test_a_perfect_corpus_has_100(corpus_bleu):
    _, references = corpus((9, 14, 6), 0.0, 5)
    expect_bleu(corpus_bleu, references, references)


def test_sentences_shorter_than_four_words_do_no_harm(corpus_bleu):
    hypotheses, references = corpus((9, 14), 0.1, 6)
    hypotheses[0] = hypotheses[0][:-2]  # or the penalty would be 1 without the empty one
    expect_bleu(corpus_bleu, [*hypotheses, ["a"], [], ["b"]], [*references, ["a", "b"], ["c"], []])


def test_without_a_match_of_some_n_bleu_is_0(corpus_bleu):
    reference = ["a", "b", "c", "d", "e", "f"]
    for hypothesis in ("a b c x e f", "x y z", "a", "f e d c b a", ""):
        came = corpus_bleu([hypothesis.split()], [list(reference)])
        if isinstance(came, float) and came > 0:
            raise CheckFailed(
                f"It returned {came:.4g}. One of the four n has no match here, so the geometric "
                "mean is 0: no smoothing, and no n left out.",
                f"corpus_bleu([{hypothesis.split()}], [{reference}])",
            )
        expect(came, 0.0, call=f"corpus_bleu([{hypothesis.split()}], [{reference}])")


def test_bleu_is_that_of_sacrebleu(corpus_bleu):
    hypotheses, references = corpus((12, 18, 7, 25), 0.2, 7)
    metric = BLEU(tokenize="none", smooth_method="none")
    lines = ([" ".join(tokens) for tokens in side] for side in (hypotheses, references))
    outputs, truths = lines
    expect(corpus_bleu(hypotheses, references), metric.corpus_score(outputs, [truths]).score)


# ---- average_checkpoints


def states(count=3, dtype=torch.float32):
    found = []
    for step in range(count):
        found.append(
            {
                "weight": (torch.randn(3, 4) * 2).to(dtype),
                "norm.running_mean": torch.randn(4).to(dtype),
                "norm.num_batches_tracked": torch.tensor(100 * (step + 1) + 7 * step**2),
                "seen": torch.tensor([step == 0, step != 1, step == count - 1]),
                "ids": torch.randint(0, 9, (2, 3)),
                "counts": torch.randint(0, 9, (5,), dtype=torch.int32),
            }
        )
    return found


def averaged(found, whole=lambda tensors: tensors[-1].clone(), floats=None):
    floats = floats or (
        lambda tensors: torch.stack([t.double() for t in tensors]).mean(0).to(tensors[0].dtype)
    )
    return {
        name: (floats if found[0][name].is_floating_point() else whole)(
            [state[name] for state in found]
        )
        for name in found[0]
    }


def mean_as_floats(tensors):
    return torch.stack([t.double() for t in tensors]).mean(0)


def mean_cut_down(tensors):
    return mean_as_floats(tensors).to(tensors[0].dtype)


def in_turn(tensors):
    """A running mean of the last two: (a + b) / 2, then with c, and so on."""
    found = tensors[0].double()
    for tensor in tensors[1:]:
        found = (found + tensor.double()) / 2
    return found.to(tensors[0].dtype)


def average_mistakes(found):
    def summed(tensors):
        return torch.stack([t.double() for t in tensors]).sum(0).to(tensors[0].dtype)

    def less(tensors):
        return (torch.stack([t.double() for t in tensors]).sum(0) / (len(tensors) - 1)).to(
            tensors[0].dtype
        )

    only_float32 = "only float32 is averaged: float64 and the half precisions are floating, too."
    is_float32 = torch.float32 in {tensor.dtype for tensor in found[0].values()}
    return ({} if is_float32 else {only_float32: found[-1]}) | {
        "integer tensors are averaged as well, and cut down to whole numbers: a counter, an id or "
        "a truth value has no mean. Take the last.": averaged(found, whole=mean_cut_down),
        "counters and ids are averaged as well, and cut down to whole numbers: they have no mean. "
        "Take the last.": averaged(
            found,
            whole=lambda tensors: (
                tensors[-1] if tensors[0].dtype == torch.bool else mean_cut_down(tensors)
            ),
        ),
        "integer tensors are averaged as well, and become floats: take the last.": averaged(
            found, whole=mean_as_floats
        ),
        "integer tensors come from the first checkpoint: take the last.": averaged(
            found, whole=lambda tensors: tensors[0]
        ),
        "integer tensors are added up: take the last.": averaged(
            found, whole=lambda tensors: torch.stack(tensors).sum(0).to(tensors[0].dtype)
        ),
        "integer tensors are left out: they belong to the checkpoint.": {
            name: value
            for name, value in averaged(found).items()
            if found[0][name].is_floating_point()
        },
        "the weights are added up and not divided.": averaged(found, floats=summed),
        "the sum is divided by one less than the number of checkpoints.": averaged(
            found, floats=less
        ),
        "the last checkpoint is returned: nothing is averaged.": found[-1],
        "the first checkpoint is returned: nothing is averaged.": found[0],
        "the mean of the first and the last is taken: what about those between?": averaged(
            [found[0], found[-1]]
        ),
        "one checkpoint after the other is averaged with what was there: the last one then weighs "
        "one half.": averaged(found, floats=in_turn),
        "the last checkpoint is left out.": averaged(found[:-1]) if len(found) > 1 else found[0],
        "the median is taken.": averaged(
            found, floats=lambda tensors: torch.stack(tensors).median(0).values
        ),
    }


def expect_average(answer, found):
    came, right = answer(found), averaged(found)
    expect(came, right, average_mistakes(found))
    for name, tensor in right.items():
        if came[name].dtype != tensor.dtype:
            raise CheckFailed(
                f"{name} is {came[name].dtype}, and {tensor.dtype} in the checkpoints: go back to "
                "the dtype at the end."
            )


def test_the_mean_of_three_checkpoints(average_checkpoints):
    expect_average(average_checkpoints, states())


def test_the_mean_of_one_two_and_five(average_checkpoints):
    for count in (1, 2, 5):
        expect_average(average_checkpoints, states(count))


def test_the_dtype_stays_and_the_sum_is_precise(average_checkpoints):
    expect_average(average_checkpoints, states(dtype=torch.float64))
    expect_average(average_checkpoints, states(4, dtype=torch.bfloat16))
    large = [{"weight": torch.full((3, 2), 30_000.0, dtype=torch.float16)} for _ in range(5)]
    came = average_checkpoints(large)
    weight = came.get("weight") if isinstance(came, dict) else None
    if isinstance(weight, Tensor) and not bool(weight.isfinite().all()):
        raise CheckFailed(
            "The mean of five times 30,000 is not finite: float16 ends at 65,504, and the sum is "
            "above it. Add up in float32 or float64, and go back to the dtype at the end."
        )
    expect_average(average_checkpoints, large)
    many = [[256.0, 1.0]] + 63 * [[1.0, 2.0]]
    many = [{"weight": torch.tensor(pair, dtype=torch.bfloat16)} for pair in many]
    came = average_checkpoints(many)
    for name, found, right in zip(
        ("256 and 63 ones", "1 and 63 twos"),
        came["weight"].tolist(),
        averaged(many)["weight"].tolist(),
        strict=True,
    ):
        if abs(found / right - 1) > 0.015:
            raise CheckFailed(
                f"The mean of {name} is {found:.4g}, expected {right:.4g}: bfloat16 rounds 256 + 1 "
                "back to 256. Add up in float32 or float64."
            )


class Kept(list):
    """A list that is handed on as it is: of a plain one, an answer gets a copy."""


def places(states):
    """Return where the numbers lie."""
    return {tensor.untyped_storage().data_ptr() for state in states for tensor in state.values()}


def test_the_checkpoints_stay_as_they_are_and_the_result_is_new(average_checkpoints):
    for count in (1, 3):
        found = states(count)
        came = average_checkpoints(found)
        expect(came, averaged(found), average_mistakes(found))
        again = average_checkpoints(found)
        expect(again, averaged(found), average_mistakes(found), call="the same call again")
        came = average_checkpoints(Kept(found))
        expect(came, averaged(found), average_mistakes(found))
        for name, tensor in came.items():
            assert not places([{name: tensor}]) & places(found), (
                f"{name} of the result shares its memory with a checkpoint: whoever changes one "
                "changes both. A clone() has its own."
            )


def test_the_gradients_of_the_checkpoints_do_not_matter(average_checkpoints):
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    found = []
    for _ in range(3):
        model(torch.randn(5, 3))
        found.append({name: t.clone() for name, t in model.state_dict().items()})
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter))
    expect(average_checkpoints(found), averaged(found), average_mistakes(found))


# ---- repaired_bleu

TRUTHS = [
    "A man reads a long book in the park today.",
    "Two dogs are running on the wet beach, fast.",
    "The woman wears a red hat and a long coat.",
    "Three children play football in the street.",
]
OUTPUTS = [
    "A man reads a long book in a park.",
    "Two dogs run on the wet beach, fast.",
    "the woman wears a red hat and coat.",
    "Three children play in the street.",
]


def text_mistakes(outputs, references):
    plain, sentence = BLEU(), BLEU(effective_order=True)
    pairs = list(zip(outputs, references, strict=True))
    return {
        "nothing is changed: both bugs are still there.": mean(
            sentence.sentence_score(output, references).score for output in outputs
        ),
        "`references` is handed over as it is: each sentence is taken for a stream, and each "
        "of its letters for a reference. One stream: [references].": (
            lambda: plain.corpus_score(outputs, references).score
        ),
        "one bug is left: the mean of sentence scores is no corpus score. Use `corpus_score`.": (
            mean(sentence.sentence_score(o, [r]).score for o, r in pairs)
        ),
        "the mean of sentence scores is taken, without effective order: it is no corpus score.": (
            mean(plain.corpus_score([o], [[r]]).score for o, r in pairs)
        ),
        "one bug is left: each reference is a stream of its own, so that only the first output is "
        "scored, with all references as alternatives. One stream: [references].": (
            lambda: plain.corpus_score(outputs, [[reference] for reference in references]).score
        ),
        "the first output alone is scored.": plain.corpus_score(
            outputs[:1], [references[:1]]
        ).score,
        "all outputs are joined to one text: then n-grams run across sentences.": (
            plain.corpus_score([" ".join(outputs)], [[" ".join(references)]]).score
        ),
        "everything is lower-cased: the score is cased.": BLEU(lowercase=True)
        .corpus_score(outputs, [references])
        .score,
        "text is not tokenised: sacreBLEU's default is 13a.": BLEU(tokenize="none")
        .corpus_score(outputs, [references])
        .score,
        "another tokeniser is taken, intl: sacreBLEU's default is 13a.": BLEU(tokenize="intl")
        .corpus_score(outputs, [references])
        .score,
        "the effective order is taken: that is for single sentences. BLEU() is without it.": (
            sentence.corpus_score(outputs, [references]).score
        ),
        "nothing is smoothed: sacreBLEU's default does it where an n has no match.": (
            BLEU(smooth_method="none").corpus_score(outputs, [references]).score
        ),
        "smoothing is not sacreBLEU's default: leave `smooth_method` alone.": (
            BLEU(smooth_method="floor").corpus_score(outputs, [references]).score
        ),
        "characters are scored, and not words.": BLEU(tokenize="char")
        .corpus_score(outputs, [references])
        .score,
        "outputs and references have changed places.": plain.corpus_score(
            references, [outputs]
        ).score,
        "it is a share from 0 to 1; sacreBLEU's score goes to 100.": (
            plain.corpus_score(outputs, [references]).score / 100
        ),
        "every reference is an alternative for every output.": (
            lambda: (
                plain.corpus_score(
                    outputs, [[reference] * len(outputs) for reference in references]
                ).score
            )
        ),
    }


def expect_text_bleu(answer, outputs, references):
    came = answer(list(outputs), list(references))
    if type(came).__name__ == "BLEUScore":
        raise CheckFailed("It returned a BLEUScore; return its number, `.score`.")
    right = BLEU().corpus_score(outputs, [references]).score
    expect(came, right, text_mistakes(outputs, references))


def test_the_score_of_a_small_test_set(repaired_bleu):
    expect_text_bleu(repaired_bleu, OUTPUTS, TRUTHS)


def test_references_belong_to_their_outputs(repaired_bleu):
    expect_text_bleu(repaired_bleu, [OUTPUTS[i] for i in (0, 1, 3, 2)], TRUTHS)


def test_a_test_set_of_two(repaired_bleu):
    expect_text_bleu(repaired_bleu, OUTPUTS[1:3], TRUTHS[1:3])


def test_the_defaults_stay_as_they_are(repaired_bleu):
    outputs = ["She says „hello“ to him.", "", "He waits.", "He waits."]
    truths = ["She says „hello“ to the man.", "No one is there.", "He waits.", "He waits here."]
    expect_text_bleu(repaired_bleu, outputs, truths)
    expect_text_bleu(repaired_bleu, ["A dog runs on grass"], ["A dog runs in the grass"])
    expect_text_bleu(repaired_bleu, ["A dog", "Two men run"], ["A dog sleeps", "Two men run"])
