"""Questions for paper on lessons 10 to 12."""

import itertools
import math
from collections import Counter

from teaching.generate.paper.question import Question, number, question, row


@question
def q10_bleu(r):
    hypothesis, reference = r.choice(
        [
            ("the cat the cat on the mat", "the cat sat on the mat"),
            ("a man in a red a hat", "a man in a red hat"),
            ("two dogs run in snow in snow", "two dogs run in the snow"),
        ]
    )
    words = [text.split() for text in (hypothesis, reference)]
    counts = [[Counter(itertools.pairwise(w) if n == 2 else w) for w in words] for n in (1, 2)]
    matches = [sum((ours & theirs).values()) for ours, theirs in counts]
    totals = [len(words[0]), len(words[0]) - 1]
    return Question(
        "Clipped matches",
        f"Reference: *{reference}*. Output: *{hypothesis}*. (a) Clipped matches "
        "of words and of pairs, each out of how many? (b) Which output of one "
        "word has the word precision 1, and what in BLEU makes it worthless? "
        "(c) Why are the counts added up over the corpus before dividing?",
        f"(a) {matches[0]} of {totals[0]} words, {matches[1]} of {totals[1]} pairs. (b) "
        "Any word of the reference; the brevity penalty (and the pairs that it has "
        "not). (c) A mean of sentence scores weighs short sentences "
        "like long ones, and is 0 wherever a sentence has no match.",
        ((2, "words"), (2, "pairs"), (1, "shortness"), (1, "corpus")),
        {"hypothesis": hypothesis, "reference": reference},
        {"matches": matches, "totals": totals},
    )


@question
def q11_entropy(r):
    n, k = r.choice([4, 8, 16]), r.choice([2, 4])
    return Question(
        "How broad is a row",
        f"(a) The entropy, in nats, of a row of {n} equal weights; of a row with {k} "
        "equal weights and zeros; of a single 1? (b) Two rows have the same entropy, "
        "but one is 8 keys long and the other 64. Are they equally sharp for their length? "
        "(c) What is 0 · ln 0 here, and what does a program make of it?",
        f"(a) ln {n} = {number(math.log(n))}, ln {k} = {number(math.log(k))}, 0. (b) No: "
        "divide by ln of the number of keys. (c) 0; a program makes NaN, unless told.",
        ((2, "a"), (2, "b"), (1, "c")),
        {"n": n, "k": k},
        {"uniform": math.log(n), "some": math.log(k)},
    )


@question
def q11_other_weights(r):
    values = r.choice([(2, 3, 4), (0, 2, 4), (1, 3, 5)])
    middle = values[1]
    return Question(
        "Other weights, the same output",
        f"Three keys with the values {row(values)}, one number each; the weights are 1/3 "
        "each. (a) The output? (b) Two other rows of weights with the same output? (c) When "
        "is there no other row, in terms of L<sub>k</sub> "
        "and d<sub>v</sub>? (d) What follows for maps?",
        f"(a) {middle}. (b) [1/2, 0, 1/2], [0, 1, 0], and every mixture of the two. (c) "
        "If L<sub>k</sub> ≤ d<sub>v</sub> + 1 and the values are in general position. (d) The "
        "output does not determine the weights; a map alone is no explanation.",
        ((1, "a"), (2, "b"), (2, "c"), (1, "d")),
        {"values": values},
        {"output": middle},
    )


@question
def q12_prefix(r):
    prefix, length = r.choice([2, 3]), r.choice([5, 6, 7])
    allowed = prefix * prefix + sum(range(prefix + 1, length + 1))
    return Question(
        "The prefix mask",
        f"A text of {length} tokens, of which the first {prefix} are given: they see each "
        f"other, the rest sees all before it and itself. "
        f"(a) How many of the {length * length} pairs are "
        "allowed? (b) How many are with a plain causal mask? (c) Which rows differ?",
        f"(a) {prefix}² + … = {allowed}. (b) {length * (length + 1) // 2}. "
        "(c) Those of the prefix, but for its last.",
        ((2, "a"), (1, "b"), (2, "c")),
        {"prefix": prefix, "length": length},
        {"allowed": allowed, "causal": length * (length + 1) // 2},
    )


@question
def q12_patches(r):
    side, patch, channels = r.choice([(8, 4, 3), (12, 4, 3), (12, 3, 1), (16, 4, 3)])
    count, size = (side // patch) ** 2, channels * patch * patch
    return Question(
        "Patches",
        f"A picture of {side} × {side} with {channels} channel{'s' * (channels > 1)} is "
        f"cut into patches of {patch} × {patch}. (a) How many tokens, "
        "of how many numbers? (b) In which patch, counted row by "
        f"row from 0, is the pixel in row {patch}, column 0? "
        "(c) How does one see that the memory order is wrong?",
        f"(a) {count} tokens of {size}. (b) {side // patch}. (c) Lay them out as squares: the "
        "picture is torn.",
        ((2, "a"), (2, "b"), (1, "c")),
        {"side": side, "patch": patch, "channels": channels},
        {"count": count, "size": size, "index": side // patch},
    )
