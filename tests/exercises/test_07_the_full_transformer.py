"""The checks of exercise 07. A mistake's text ends the sentence "This is the answer when …"."""

import itertools
import math
import re
from collections import Counter

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import transformer_lab as lab
from course.checking import close, expect
from course.checking.diagnosis import (
    describe,
    expect_no_memory,
    expect_predictions,
    random_weights,
)

# ---- predicted_diary


def tidy(answer):
    """Return the shape (2, 5) for "(2, 5)", [2, 5] or an array of it; a number as it is."""
    if getattr(answer, "ndim", 0) == 1:
        return tuple(answer.tolist())
    if isinstance(answer, str) and re.fullmatch(r"[\d\s,x×()\[\]]+", answer):
        found = tuple(map(int, re.findall(r"\d+", answer)))
        return found if len(found) > 1 else next(iter(found), answer)
    return tuple(answer) if isinstance(answer, list | tuple) else answer


def test_the_diary_is_predicted(predicted_diary):
    weights = "Weights are (B, H, Lq, Lk): a row for each query, a column for each key."
    seen = "Which target positions see the token that has changed? And what do they see of it?"
    hints = {
        "a": {
            (2, 6): "That is the shape of the source. The mask has to broadcast to (B, H, Lq, Lk).",
            (2, 1, 6, 6): "The padding forbids keys, for every query alike: one row is enough.",
            (2, 3, 6, 6): "That is the shape of the weights. The mask is the same for all heads "
            "and queries: axes of length 1.",
            (2, 1, 6): "One axis is missing: (B, H, Lq, Lk) has four.",
            (2, 6, 1, 1): "The last axis belongs to the keys, and it is keys that are hidden.",
            (2, 1, 6, 1): "The last axis belongs to the keys, and it is keys that are hidden.",
            (2, 1, 1, 5): "The source has 6 tokens.",
            None: f"{weights} The mask is the same for all heads and all queries.",
        },
        "b": {
            (2, 3, 6, 5): "Who asks whom? Queries come from the target, keys from the memory.",
            (2, 3, 5, 5): "That is the decoder's attention to itself.",
            (2, 3, 6, 6): "That is the encoder's attention.",
            (2, 5, 6): "Every head has weights of its own.",
            (3, 5, 6): "Every sentence has weights of its own.",
            (2, 3, 5, 4): "That is a head's output: d_k features. The weights have a column for "
            "each key.",
            None: weights,
        },
        "c": {
            (2, 5, 12): "Those are the decoder's states. The generator gives a score for each "
            "word of the vocabulary.",
            (2, 6, 20): "The logits follow the target's positions.",
            (2, 20): "The model answers at every target position, not only after the last.",
            (2, 20, 5): "The vocabulary is the last axis.",
            (2, 5): "A score for each *word of the vocabulary*, at every position.",
            None: "A score for each word of the vocabulary, at every target position.",
        },
        "d": {
            1: "Attention to the memory is not position by position. Which source tokens can a "
            "target position see?",
            3: "The causal mask hides the target's future. The source is known from the start.",
            2: "The causal mask hides the target's future. The source is known from the start.",
            6: "There are 5 target positions.",
            None: seen,
        },
        "e": {
            5: "The decoder's mask hides the third token from the positions before it.",
            2: "The third position sees its own token, too.",
            1: "The positions after the third see it as well.",
            None: seen,
        },
        "f": {
            240: "Three matrices become one: how many go?",
            720: "That is all three of them. One stays.",
            40: "A matrix has V · d_model numbers.",
            0: "Without tying there are three matrices of V · d_model numbers.",
            None: "A matrix has V · d_model numbers. Three become one.",
        },
    }
    right = {"a": (2, 1, 1, 6), "b": (2, 3, 5, 6), "c": (2, 5, 20), "d": 5, "e": 3, "f": 480}
    answers = predicted_diary()
    if isinstance(answers, list | tuple):
        answers = [tidy(answer) for answer in answers]
    expect_predictions(answers, right, hints)


# ---- learn_bpe and apply_bpe


def glue(symbols, pair):
    """Make the pair one symbol, from left to right."""
    result, i = [], 0
    while i < len(symbols):
        width = 2 if tuple(symbols[i : i + 2]) == tuple(pair) else 1
        result.append("".join(symbols[i : i + width]))
        i += width
    return tuple(result)


def glue_from_the_right(symbols, pair):
    back = glue(tuple(s[::-1] for s in reversed(symbols)), tuple(s[::-1] for s in reversed(pair)))
    return tuple(s[::-1] for s in reversed(back))


def glue_once(symbols, pair):
    for i in range(len(symbols) - 1):
        if tuple(symbols[i : i + 2]) == tuple(pair):
            return (*symbols[:i], "".join(pair), *symbols[i + 2 :])
    return tuple(symbols)


def glue_with_step(symbols, pair, step, untouched=0):
    """Go on `step` symbols after a merge, the next `untouched` ones taken over unseen."""
    result, i = [], 0
    while i < len(symbols):
        if tuple(symbols[i : i + 2]) == tuple(pair):
            result += ["".join(pair), *symbols[i + 2 : i + 2 + untouched]]
            i += step + untouched
        else:
            result.append(symbols[i])
            i += 1
    return tuple(result)


def glue_in_text(symbols, pair):
    """The classic: replace in the text, which finds "e s" in "we s" as well."""
    return tuple(" ".join(symbols).replace(" ".join(pair), "".join(pair)).split(" "))


def marked(word):
    return (*word[:-1], word[-1] + "</w>")


STARTS = {
    "the end of the word, </w>, is a symbol of its own. The last character carries it: w</w>.": (
        lambda word: (*word, "</w>")
    ),
    "the mark </w> is missing: the last character carries it.": tuple,
    "the beginning of the word is marked with ▁, as in the lesson. Here the end is, with </w>.": (
        lambda word: ("▁", *word)
    ),
    "the first character carries ▁, as in the lesson. Here the last one carries </w>.": (
        lambda word: (f"▁{word[0]}", *word[1:])
    ),
    "every character carries </w>. Only the last one of a word does.": (
        lambda word: tuple(f"{letter}</w>" for letter in word)
    ),
}
GLUES = {
    "only the first place in each word is merged. The pair becomes one symbol everywhere.": (
        glue_once
    ),
    "the pair is replaced in a text, symbols with blanks between: there `e s` is also found in "
    "`we s`, where the symbols are `we` and `s`. Compare whole symbols.": glue_in_text,
    "words are merged from right to left: `a a a` becomes `a aa`. Go from left to right.": (
        glue_from_the_right
    ),
    "the symbol behind each merge is skipped, so that a pair that begins there stays: go on with "
    "the very next symbol.": lambda symbols, pair: glue_with_step(symbols, pair, 2, 1),
    "the symbol behind each merged pair is lost: the next one stands two places further, not "
    "three.": lambda symbols, pair: glue_with_step(symbols, pair, 3),
    "the second symbol of each merged pair stays as well: go on two places further, not one.": (
        lambda symbols, pair: glue_with_step(symbols, pair, 1)
    ),
}


def count_pairs(words, *, weighted=True, once=False, overlapping=True):
    pairs = Counter()
    for symbols, count in words:
        found = list(itertools.pairwise(symbols))
        if not overlapping:  # a a a holds the pair once
            kept, i = [], 0
            while i < len(found):
                kept.append(found[i])
                i += 2 if found[i : i + 2] == [found[i]] * 2 else 1
            found = kept
        for pair in dict.fromkeys(found) if once else found:
            pairs[pair] += count if weighted else 1
    return pairs


def bpe(
    word_counts,
    num_merges,
    *,
    start=marked,
    glue=glue,
    best=lambda pairs: min(pairs, key=lambda pair: (-pairs[pair], pair)),
    recount=True,
    enough=1,
    **counting,
):
    """Learn merges; every step can be replaced by a wrong one."""
    words = [(start(word), count) for word, count in word_counts.items()]
    pairs, merges = count_pairs(words, **counting), []
    while len(merges) < num_merges and pairs and max(pairs.values()) >= enough:
        pair = best(pairs)
        merges.append(pair)
        words = [(glue(symbols, pair), count) for symbols, count in words]
        if recount:
            pairs = count_pairs(words, **counting)
        else:
            del pairs[pair]
    return merges


def in_one_line(word_counts, num_merges):
    """Pairs are counted across the words' borders."""
    line = tuple(s for word, count in word_counts.items() for s in marked(word) * count)
    merges = []
    for _ in range(num_merges):
        pairs = count_pairs([(line, 1)])
        merges.append(min(pairs, key=lambda pair: (-pairs[pair], pair)))
        line = glue(line, merges[-1])
    return merges


BESTS = {
    "ties go to the pair that was met first. They go to the lexicographically smallest pair.": (
        lambda pairs: max(pairs, key=pairs.get)
    ),
    "ties go to the pair that was met last. They go to the lexicographically smallest pair.": (
        lambda pairs: max(reversed(pairs), key=pairs.get)
    ),
    "ties go to the largest pair. They go to the lexicographically smallest one.": (
        lambda pairs: max(pairs, key=lambda pair: (pairs[pair], pair))
    ),
    "ties are decided by the merged text. They are decided by the pairs: `pair < other`.": (
        lambda pairs: min(pairs, key=lambda pair: (-pairs[pair], "".join(pair), pair))
    ),
    "ties go to the longest merged symbol. They go to the lexicographically smallest pair.": (
        lambda pairs: min(pairs, key=lambda pair: (-pairs[pair], -len("".join(pair)), pair))
    ),
    "the rarest pair is taken, not the most frequent.": (
        lambda pairs: min(pairs, key=lambda pair: (pairs[pair], pair))
    ),
    "the lexicographically smallest pair is taken, however rare.": min,
}


def learn_mistakes(word_counts, num_merges):
    given = word_counts, num_merges

    def merges(**wrong):
        return lambda: bpe(*given, **wrong)

    return {
        "the counts of the words are not used: a pair counts as often as its word occurs.": merges(
            weighted=False
        ),
        **{text: merges(start=start) for text, start in STARTS.items()},
        **{text: merges(best=best) for text, best in BESTS.items()},
        **{text: merges(glue=wrong) for text, wrong in GLUES.items()},
        "pairs are counted once and not again after each merge. A merge makes new neighbours.": (
            merges(recount=False)
        ),
        "a pair counts once for each word, also if the word holds it twice.": merges(once=True),
        "pairs that overlap are counted once: `a a a` holds the pair a, a twice.": merges(
            overlapping=False
        ),
        "it stops when every pair occurs only once. Go on until no pair is left.": merges(enough=2),
        "pairs are counted across the borders of words.": lambda: in_one_line(*given),
        "one merge too many is learnt.": lambda: bpe(word_counts, num_merges + 1),
        "the last merge is missing.": lambda: bpe(word_counts, num_merges - 1),
        "the merges stand in the opposite order.": lambda: bpe(*given)[::-1],
        "the merged symbols are returned. Return the pairs.": (
            lambda: ["".join(pair) for pair in bpe(*given)]
        ),
        "the pairs are returned as texts. Return tuples of two symbols.": (
            lambda: [" ".join(pair) for pair in bpe(*given)]
        ),
    }


def expect_list(actual, expected, mistakes, what):
    """Like `expect` for lists of symbols or pairs, with the first place that differs."""
    right_kind = isinstance(actual, list | tuple) and all(
        isinstance(part, type(expected[0])) for part in actual
    )
    known = any(close(actual, answer) for answer in answers_of(mistakes))
    if close(actual, expected) or known or not right_kind or not actual:
        expect(actual, expected, mistakes)
        return
    for i, (one, other) in enumerate(itertools.zip_longest(actual, expected)):
        if one != other:
            came = "missing" if one is None else describe(one)
            wanted = "the end" if other is None else describe(other)
            before = "" if i == 0 else f" The {i} before it are right."
            raise AssertionError(f"{what} {i + 1} is {came}, expected {wanted}.{before}")


def answers_of(mistakes):
    for variant in mistakes.values():
        try:
            yield variant()
        except (ValueError, IndexError):  # this mistake cannot be made here
            continue


LESSON = {"low": 6, "lower": 3, "lowest": 2, "new": 7, "newer": 4, "newest": 9}
LESSON |= {"wide": 5, "wider": 2, "widest": 4, "slow": 3}
CORPORA = {
    # Found by a search: here each of the mistakes gives an answer of its own.
    "all mistakes differ": ({"abaa": 4, "aaaaab": 1, "babbbb": 2}, 10),
    "all cuts differ": ({"bbabbabb": 4, "aabbbbbbb": 1, "baaab": 5}, 10),
    "the words of the lesson": (LESSON, 12),
    "many equal counts": ({"ba": 2, "ab": 2, "cab": 2, "abc": 2, "bca": 2, "cc": 2}, 5),
    "one symbol again and again": ({"aaaaa": 3, "aaab": 2, "baaa": 4, "aabaab": 1}, 6),
    "symbols inside symbols": (
        {"west": 9, "wes": 7, "wet": 8, "best": 3, "es": 1, "weste": 2, "swe": 6, "thees": 2},
        9,
    ),
    "capitals, and ends of words": ({"ab": 3, "abx": 3, "aB": 3, "Ab": 3}, 5),
    "one long word": ({"mississippi": 1, "miss": 3, "sip": 2}, 7),
    "a full stop": ({"x.y": 5, "xzy": 2}, 4),
    "words of one letter": ({"a": 50, "I": 30, "at": 3, "it": 4, "tat": 1}, 3),
}


def check_learnt(learn_bpe, word_counts, num_merges):
    expect_list(
        learn_bpe(word_counts, num_merges),
        bpe(word_counts, num_merges),
        learn_mistakes(word_counts, num_merges),
        "Merge",
    )


def test_learning_begins_anew_in_each_call(learn_bpe):
    words, num_merges = CORPORA["all mistakes differ"]
    # Other letters alone: who is right about the first is right about the second.
    others = {word.replace("a", "c").replace("b", "d"): count for word, count in words.items()}
    expect_no_memory(learn_bpe, bpe, (words, num_merges), (others, num_merges))


def test_the_merges_of_a_small_corpus(learn_bpe):
    for word_counts, num_merges in CORPORA.values():
        check_learnt(learn_bpe, word_counts, num_merges)


def test_learning_stops_when_no_pair_is_left(learn_bpe):
    for word_counts in ({"low": 1, "lot": 1}, {"ab": 3, "c": 9}):
        merges = bpe(word_counts, 50)
        expect_list(learn_bpe(word_counts, 50), merges, learn_mistakes(word_counts, 50), "Merge")
    result = learn_bpe({"low": 5, "new": 4}, 0)
    assert isinstance(result, list | tuple) and len(result) == 0, (
        f"With num_merges = 0 it returned {describe(result)}, expected an empty list."
    )


# ---- apply_bpe


def by_merges(word, merges, *, start=marked, glue=glue):
    symbols = start(word)
    for pair in merges:
        symbols = glue(symbols, pair)
    return list(symbols)


def as_met(word, merges):
    """Glue whatever pair comes first in the word, whenever it was learnt."""
    symbols, known = list(marked(word)), set(merges)
    i = 0
    while i < len(symbols) - 1:
        if (symbols[i], symbols[i + 1]) in known:
            symbols[i : i + 2] = ["".join(symbols[i : i + 2])]
            i = 0
        else:
            i += 1
    return symbols


def longest_first(word, merges):
    """Take the longest known piece from the left, again and again."""
    text, known, symbols = f"{word}</w>", {"".join(pair) for pair in merges}, []
    while text:
        one = len(text) if len(text) == 5 and text.endswith("</w>") else 1
        sizes = range(len(text), one, -1)
        size = next((size for size in sizes if text[:size] in known), one)
        symbols.append(text[:size])
        text = text[size:]
    return symbols


def apply_mistakes(word, merges):
    right = by_merges(word, merges)

    def pieces(**wrong):
        return lambda: by_merges(word, merges, **wrong)

    def first_merge_only():
        for pair in merges:
            if glue(marked(word), pair) != marked(word):
                return list(glue(marked(word), pair))
        return list(marked(word))

    def until_one_does_not_fit():
        symbols = marked(word)
        for pair in merges:
            if glue(symbols, pair) == symbols:
                break
            symbols = glue(symbols, pair)
        return list(symbols)

    return {
        **{text: pieces(start=start) for text, start in STARTS.items()},
        **{text: pieces(glue=wrong) for text, wrong in GLUES.items()},
        "the merges are applied in the opposite order. Apply them as they were learnt.": (
            lambda: by_merges(word, merges[::-1])
        ),
        "the pair that comes first *in the word* is merged first. The merge that was learnt first "
        "goes first, everywhere in the word.": lambda: as_met(word, merges),
        "the longest known piece is taken from the left. Apply the merges, in order.": (
            lambda: longest_first(word, merges)
        ),
        "it stops after the first merge that fits.": first_merge_only,
        "it stops at the first merge that the word does not hold: go on with the next one.": (
            until_one_does_not_fit
        ),
        "no merge is applied.": list(marked(word)),
        "the last merge is left out.": lambda: by_merges(word, merges[:-1]),
        "the mark </w> is taken off at the end. It stays: it tells where the word ends.": (
            lambda: [s for s in (part.removesuffix("</w>") for part in right) if s]
        ),
        "the symbols are put together to one text. Return a list.": lambda: " ".join(right),
        "the symbols stand in the opposite order.": right[::-1],
    }


def check_applied(apply_bpe, word, merges):
    mistakes = apply_mistakes(word, merges)
    mistakes = {text: m if callable(m) else (lambda m=m: m) for text, m in mistakes.items()}
    expect_list(apply_bpe(word, merges), by_merges(word, merges), mistakes, "Symbol")


def test_a_cut_begins_anew_in_each_call(apply_bpe):
    word, names = "bbbbbbabbba", ("all cuts differ", "one symbol again and again")
    first, second = ((word, bpe(*CORPORA[name])) for name in names)
    expect_no_memory(apply_bpe, by_merges, first, second)


def test_a_word_that_every_mistake_cuts_in_its_own_way(apply_bpe):
    check_applied(apply_bpe, "bbbbbbabbba", bpe(*CORPORA["all cuts differ"]))


def test_known_words_are_cut(apply_bpe):
    for word_counts, num_merges in CORPORA.values():
        merges = bpe(word_counts, num_merges)
        for word in word_counts:
            check_applied(apply_bpe, word, merges)


def test_new_words_and_new_letters_are_cut(apply_bpe):
    new = {
        "the words of the lesson": ("slowest", "owl", "lowlow", "Übernew", "newestwidest", "ewew"),
        "many equal counts": ("abcabc", "bab", "cca"),
        "one symbol again and again": ("aaaaaaa", "baaaab", "b"),
        "symbols inside symbols": ("swest", "wess", "tees", "newest", "weswes"),
    }
    for name, words in new.items():
        merges = bpe(*CORPORA[name])
        for word in words:
            check_applied(apply_bpe, word, merges)


def test_words_of_one_letter_and_no_merges(apply_bpe):
    merges = bpe(*CORPORA["words of one letter"])
    for word in ("a", "z"):
        check_applied(apply_bpe, word, merges)
    check_applied(apply_bpe, "low", [])


def test_a_full_stop_is_a_letter_and_symbols_are_compared_whole(apply_bpe):
    check_applied(apply_bpe, "abx.bx", [(".", "b")])
    check_applied(apply_bpe, "abcd", [("b", "c"), ("ab", "c")])


# ---- TokenEmbedding


def embedding_mistakes(table, tokens):
    V, d_model = table.shape
    L = tokens.shape[1]
    rows, root = table[tokens], math.sqrt(d_model)
    return {
        "the rows are not multiplied by √d_model.": rows,
        "the rows are divided by √d_model. They are multiplied.": rows / root,
        "the rows are multiplied by d_model: it is its square root.": rows * d_model,
        "the rows are multiplied by the root of the vocabulary's size: it is √d_model.": (
            rows * math.sqrt(V)
        ),
        "the rows are multiplied by the root of the length: it is √d_model.": rows * math.sqrt(L),
        "√d_model is cut to a whole number: use math.sqrt, not math.isqrt or int(…).": (
            rows * math.isqrt(d_model)
        ),
        "the rows are multiplied by √(d_model / 2): that is the length of a position.": (
            rows * math.sqrt(d_model / 2)
        ),
        "positions are added. They come later, in a module of their own.": (
            lambda: rows * root + lab.sinusoidal_encoding(L, d_model + d_model % 2)[:, :d_model]
        ),
        "columns of the table are looked up. A token is a row.": lambda: table.T[tokens] * root,
        "batch and positions are swapped.": lambda: table[tokens.T] * root,
        "batch and positions are made one axis: keep (B, L, d_model).": rows.flatten(0, 1) * root,
        "the vectors of a sentence are added up. Each token keeps its own.": rows.sum(1) * root,
        "the row of <pad> is set to 0. The masks take care of padding.": (
            rows * root * (tokens != 0)[..., None]
        ),
        "ids count from 1: the rows are off by one. Id 0 is row 0.": (
            lambda: table[(tokens - 1)] * root
        ),
        "the rows are brought to length 1 first.": F.normalize(rows, dim=-1) * root,
        "every row is brought to length 1.": F.normalize(rows, dim=-1),
    }


def made_embedding(TokenEmbedding, V, d_model, dtype=torch.float32):
    module = TokenEmbedding(V, d_model).to(dtype)
    return module, random_weights(module, {"table": (V, d_model)})["table"]


def check_embedding(TokenEmbedding, tokens, V, d_model, dtype=torch.float32):
    module, table = made_embedding(TokenEmbedding, V, d_model, dtype)
    expected = (table[tokens].double() * math.sqrt(d_model)).to(dtype)
    expect(module(tokens), expected, embedding_mistakes(table, tokens))


TOKENS = torch.tensor([[4, 0, 9, 4, 10], [1, 2, 0, 0, 0], [7, 7, 3, 10, 5]])  # (3, 5)


def test_an_embedding_begins_anew_in_each_call(TokenEmbedding):
    module, table = made_embedding(TokenEmbedding, 4, 4)
    first, second = torch.tensor([[[3, 1], [0, 2]], [[0, 1], [2, 2]]])
    expect_no_memory(module, lambda tokens: 2 * table[tokens], (first,), (second,))


def test_the_table_starts_with_variance_one_over_d_model(TokenEmbedding):
    made_embedding(TokenEmbedding, 5, 4)  # says what is amiss with the names
    variance = TokenEmbedding(500, 16).table.detach().square().mean().item()
    assert 0.8 < 16 * variance < 1.2, (
        f"A new table with d_model = 16 has the variance {variance:.3g}, and should have 1/16: "
        "keep `__init__` as it was given."
    )


def test_tokens_are_looked_up_and_scaled(TokenEmbedding):
    check_embedding(TokenEmbedding, TOKENS, 11, 6)


def test_the_embedding_when_sizes_are_equal(TokenEmbedding):
    check_embedding(TokenEmbedding, torch.tensor([[1, 2, 0], [2, 2, 1], [0, 1, 2]]), 3, 3)
    check_embedding(TokenEmbedding, torch.tensor([[3, 1], [0, 2]]), 4, 4)


def test_one_sentence_and_one_token(TokenEmbedding):
    check_embedding(TokenEmbedding, TOKENS[:1], 11, 6)
    check_embedding(TokenEmbedding, TOKENS[:, :1], 11, 1)


def test_the_embedding_in_half_and_double_precision(TokenEmbedding):
    for dtype in (torch.float16, torch.float64):
        check_embedding(TokenEmbedding, TOKENS, 11, 6, dtype)


def test_the_embedding_in_both_modes(TokenEmbedding):
    module, table = made_embedding(TokenEmbedding, 11, 6)
    for mode in (True, False):
        result = module.train(mode)(TOKENS)
        assert close(result, table[TOKENS] * math.sqrt(6)), (
            "Training and evaluation give different numbers. Here is no dropout, and nothing that "
            "depends on the mode."
        )


def test_a_table_that_has_changed(TokenEmbedding):
    module, table = made_embedding(TokenEmbedding, 11, 6)
    before = table[TOKENS] * math.sqrt(6)
    module(TOKENS)
    with torch.no_grad():
        module.table.neg_()  # as a step of the optimizer changes it
    old = "the rows are those of the first call: the table has changed since. Scale in each call."
    expect(module(TOKENS), -before, {old: before})


def test_the_table_learns(TokenEmbedding):
    module, _ = made_embedding(TokenEmbedding, 11, 6)
    answer = module(TOKENS)
    assert answer.requires_grad, (
        "The result is cut off from the table, so nothing can be learnt. Do without .detach(), "
        ".data, .numpy(), torch.tensor() and torch.no_grad()."
    )
    answer.sum().backward()
    counts = torch.bincount(TOKENS.flatten(), minlength=11).float()
    grad = module.table.grad
    grad = grad.to_dense() if grad is not None and grad.is_sparse else grad
    assert grad is not None and close(grad, (counts * math.sqrt(6))[:, None].expand(11, 6)), (
        "The table gets a wrong gradient: each row should get √d_model for every time that its "
        "token occurs. Is the whole way from the table to the result in PyTorch?"
    )


# ---- tie_weights

NAMES = ("source_embedding.table", "target_embedding.table", "generator.weight")


class Other(nn.Module):
    """A model with the same three matrices and something more; its generator has a bias."""

    def __init__(self, V, d_model):
        super().__init__()
        self.source_embedding = lab.TokenEmbedding(V, d_model)
        self.body = nn.Linear(d_model, d_model)
        self.target_embedding = lab.TokenEmbedding(V, d_model)
        self.generator = nn.Linear(d_model, V)

    def forward(self, source, target):
        x = self.body(self.source_embedding(source)).mean(1, keepdim=True)
        return self.generator(x + self.target_embedding(target))


def find(model, name):
    for part in name.split("."):
        model = getattr(model, part, None)
    return model


def shared(one, other):
    """Whether two tensors lie in the same memory."""
    both = isinstance(one, Tensor) and isinstance(other, Tensor)
    return both and one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()


def same(one, other):
    """Whether two tensors hold the same numbers in the same shape and dtype."""
    return one.shape == other.shape and one.dtype == other.dtype and torch.equal(one, other)


def why_not_one(model, before, result):
    """Say why the three are not one parameter."""
    three = [find(model, name) for name in NAMES]
    for name, matrix in zip(NAMES, three, strict=True):
        if matrix is None:
            return f"The model has lost {name}. Give the parameter a second name there."
        if not isinstance(matrix, nn.Parameter):
            return f"model.{name} is {describe(matrix)} now. It should still be a parameter."
    new = [name for name in model.state_dict() if name not in before]
    if new:
        return (
            f"The model has a new parameter, {new[0]}, which nobody reads. The three are "
            f"{', '.join(NAMES)}."
        )
    weight = three[2]
    for table in three[:2]:
        if same(weight, table.T) and not same(weight, table):
            return (
                "The generator has got the transposed table. nn.Linear stores (V, d_model) and "
                "transposes by itself: give it the table as it is."
            )
    couples = itertools.combinations(NAMES, 2)
    pair = next(((a, b) for a, b in couples if find(model, a) is find(model, b)), None)
    rest = f"{pair[0]} and {pair[1]} are one parameter, the third is not. " if pair else ""
    others = [(a, b) for a, b in itertools.combinations(three, 2) if a is not b]
    if any(shared(a, b) for a, b in others):
        return (
            f"{rest}Some share their memory, and are still different parameters: each has its own "
            "gradient, the optimizer moves the numbers twice, and .to(…) or .double() separates "
            "them. Assign the parameter object: no .data, no nn.Parameter(…) around it."
        )
    if all(same(a, b) for a, b in others):
        return (
            f"{rest}The numbers are equal now, but they are copies: the first training step will "
            "pull them apart. Assign the parameter object, do not copy its numbers."
        )
    if isinstance(result, nn.Module) and result is not model:
        ties = [find(result, name) for name in NAMES]
        if ties[0] is ties[1] is ties[2]:
            return "The model that you return is tied, the one that was given is not. Change that."
    if pair:
        left = next(name for name in NAMES if name not in pair)
        return f"{pair[0]} and {pair[1]} are one parameter, but {left} is still another."
    return (
        f"Nothing is tied: {', '.join(NAMES)} are still three parameters. Change the model itself; "
        f"what is returned does not matter (it was {describe(result)})."
    )


def check_tied(tie_weights, model, source, target):
    before = {name: p.detach().clone() for name, p in model.state_dict().items()}
    kept = {name: p for name, p in model.named_parameters() if name not in NAMES}
    result = tie_weights(model)
    one, two, three = (find(model, name) for name in NAMES)
    tied = isinstance(one, nn.Parameter) and one is two is three
    assert tied, why_not_one(model, before, result)
    registered = dict(model.named_parameters(remove_duplicate=False))
    for name in NAMES:
        assert registered.get(name) is one, (
            f"model.{name} is the one matrix, but among the model's parameters, where the "
            "optimizer and state_dict look, there is still another one. Assign it as an attribute, "
            "model.… = …, and not through __dict__."
        )
    check_the_rest(model, before, kept)
    originals = [before[name] for name in NAMES]
    kept_one = any(same(one, original) for original in originals)
    assert kept_one or not any(same(one, original.T) for original in originals), (
        "The one matrix is transposed. It is (V, d_model): a row for each token."
    )
    assert kept_one, (
        "The one matrix has new numbers. Keep those of one of the three: they were initialised, "
        "and may even be trained."
    )
    check_that_it_learns(model, one, source, target)


def check_the_rest(model, before, kept):
    """The model has all that it had, and nothing new."""
    for name in {**before, **model.state_dict()}:
        assert name in model.state_dict(), (
            f"The model has lost {name}. Give the parameter a second name, and leave all else as "
            "it is."
        )
        assert name in before, f"The model has something new, {name}. Nothing should be added."
    for name, parameter in kept.items():
        assert find(model, name) is parameter and same(parameter.detach(), before[name]), (
            f"{name} has changed. Only the three matrices are to be tied."
        )


def check_that_it_learns(model, one, source, target):
    assert one.requires_grad, "The one matrix is frozen: requires_grad is False. It should learn."
    logits = model(source, target)
    logits.square().mean().backward()
    assert one.grad is not None and one.grad.abs().max() > 0, (
        "The one matrix gets no gradient from a loss on the logits."
    )
    with torch.no_grad():
        one.normal_()
        moved = model(source, target)
    assert (moved - logits).abs().max() > 1e-3, "The model does not use the one matrix."


def small(V, d_model, **sizes):
    config = lab.ModelConfig(
        source_vocab_size=V,
        target_vocab_size=V,
        d_model=d_model,
        num_heads=2,
        d_ff=6,
        num_encoder_layers=1,
        num_decoder_layers=1,
        max_length=8,
        dropout=0.0,
        **sizes,
    )
    return lab.Transformer(config)


SOURCE, TARGET = torch.tensor([[4, 5, 6, 0], [5, 7, 4, 6]]), torch.tensor([[1, 4, 5], [1, 6, 0]])


def test_three_matrices_become_one(tie_weights):
    check_tied(tie_weights, small(11, 4), SOURCE, TARGET)


def test_they_become_one_when_the_matrix_is_square(tie_weights):
    check_tied(tie_weights, small(8, 8), SOURCE, TARGET)


def test_another_model_whose_generator_has_a_bias(tie_weights):
    check_tied(tie_weights, Other(9, 5), SOURCE, TARGET)


def test_a_model_in_double_precision_and_evaluation(tie_weights):
    check_tied(tie_weights, small(11, 4, pre_norm=True).double().eval(), SOURCE, TARGET)


def test_a_tied_model_stays_tied(tie_weights):
    check_tied(tie_weights, small(11, 4, tie_embeddings=True), SOURCE, TARGET)


# ---- count_transformer_parameters


def count(
    V,
    d,
    d_ff,
    N,
    *,
    tables=1,
    generator_bias=False,
    attention_bias=True,
    matrices=4,
    attentions=3,
    ffn_bias=True,
    ffn_matrices=2,
    per_norm=2,
    norms=5,
    last_norms=False,
    layers=None,
):
    """Count; every keyword is there to be set wrong."""
    attention = matrices * (d * d + attention_bias * d)
    ffn = ffn_matrices * d * d_ff + ffn_bias * (d_ff + d)
    layer = attentions * attention + 2 * ffn + norms * per_norm * d
    ends = tables * V * d + generator_bias * V + last_norms * 2 * per_norm * d
    return int(ends + (N if layers is None else layers) * layer)


WRONG_COUNTS = {
    "the matrices of embeddings and generator are counted three times: they are one": {"tables": 3},
    "the table is counted twice: it is tied": {"tables": 2},
    "the table is missing": {"tables": 0},
    "the generator is given a bias": {"generator_bias": True},
    "the biases in the attentions are missing": {"attention_bias": False},
    "the biases in the feed-forward networks are missing": {"ffn_bias": False},
    "W_O is missing in the attentions: there are four matrices": {"matrices": 3},
    "the decoder's second attention is missing: 1 in the encoder's layer, 2 in the decoder's": {
        "attentions": 2
    },
    "a fourth attention is counted: 1 in the encoder's layer, 2 in the decoder's": {
        "attentions": 4
    },
    "only one of the two matrices of the feed-forward network is counted": {"ffn_matrices": 1},
    "a LayerNorm has a scale and a shift for each feature: 2 · d_model, not d_model": {
        "per_norm": 1
    },
    "the LayerNorms are missing": {"norms": 0},
    "2 · d_model are missing in each pair of layers: the decoder's third LayerNorm, or the second "
    "bias of the feed-forward networks": {"norms": 4},
    "a LayerNorm too many is counted: 2 in the encoder's layer, 3 in the decoder's": {"norms": 6},
    "a LayerNorm after each stack is counted: there is none with post-norm": {"last_norms": True},
}


def count_mistakes(V, d, d_ff, N):
    given = V, d, d_ff, N
    encoder = 4 * (d * d + d) + 2 * d * d_ff + d_ff + d + 4 * d
    decoder = 8 * (d * d + d) + 2 * d * d_ff + d_ff + d + 6 * d
    alone = {f"{text}.": count(*given, **wrong) for text, wrong in WRONG_COUNTS.items()}
    pairs = {
        f"{one}; and {other}.": count(*given, **WRONG_COUNTS[one], **WRONG_COUNTS[other])
        for one, other in itertools.combinations(WRONG_COUNTS, 2)
        if not WRONG_COUNTS[one].keys() & WRONG_COUNTS[other].keys()
    }
    known = {
        **alone,
        "the first bias of the feed-forward networks is missing: it has d_ff numbers.": (
            count(*given) - 2 * N * d_ff
        ),
        "6 · d_model are missing in each pair of layers: the biases of two of the four layers of "
        "each attention, or three LayerNorms.": count(*given, norms=2),
        "the layers are shared out: num_layers is the number in *each* of the two stacks.": (
            V * d + N * (encoder + decoder) / 2
        ),
        "only the encoder's layers are counted.": V * d + N * encoder,
        "only the decoder's layers are counted.": V * d + N * decoder,
        "the decoder's layers are taken to be like the encoder's: they have a second attention "
        "and a third LayerNorm.": V * d + 2 * N * encoder,
        "the encoder's layers are taken to be like the decoder's: they have one attention and two "
        "LayerNorms.": V * d + 2 * N * decoder,
        "one layer on each side is counted, not num_layers.": V * d + encoder + decoder,
        "no bias is counted, neither in attention nor in the feed-forward networks.": count(
            *given, attention_bias=False, ffn_bias=False
        ),
        "neither biases nor LayerNorms are counted.": count(
            *given, attention_bias=False, ffn_bias=False, norms=0
        ),
        "a bias is counted as d_ff + d_ff, or d_model + d_model: the first has d_ff numbers, the "
        "second d_model.": count(*given) + 2 * N * (d_ff - d),
        "both biases of the feed-forward network are given d_model numbers: the first has d_ff.": (
            count(*given) - 2 * N * (d_ff - d)
        ),
        "the count is in millions. Return the number itself.": count(*given) / 1e6,
    }
    simpler = {count(*given), *known.values()}
    return known | {text: pair for text, pair in pairs.items() if pair not in simpler}


# With d_ff = 4 d_model the biases of the feed-forward networks are as many as the numbers of the
# LayerNorms, and with small numbers much else agrees. The first sizes tell the mistakes apart.
SIZES = (1009, 34, 101, 5), (37_000, 512, 2048, 6), (13, 6, 17, 1), (50, 8, 8, 3)


def test_all_parameters_are_counted(count_transformer_parameters):
    for given in SIZES:
        expect(count_transformer_parameters(*given), count(*given), count_mistakes(*given))


def test_a_model_without_layers_is_its_table(count_transformer_parameters):
    given = 100, 16, 64, 0
    expect(count_transformer_parameters(*given), 1600, count_mistakes(*given))


# ---- repaired_logits


def random_stack(d_model, heads, layers):
    stack = nn.Transformer(
        d_model, heads, layers, layers, 2 * d_model, dropout=0.0, batch_first=True
    )
    with torch.no_grad():
        for name, parameter in stack.named_parameters():
            parameter.normal_(std=0.4)
            if "norm" in name and name.endswith("weight"):
                parameter.add_(1)
    return stack


def causal(length, diagonal=1):
    """What a query must not see: True from this diagonal on."""
    return torch.ones(length, length, dtype=torch.bool).triu(diagonal)


def logits_of(stack, table, positions, source, target, *, ends=lambda s, t: s @ t.T, **change):
    """The right answer; every mask and factor can be replaced by a wrong one."""
    pads = source == 0
    scale = change.pop("scale", math.sqrt(table.shape[1]))
    places = change.pop("places", 1.0)
    masks = {
        "tgt_mask": causal(target.shape[1]),
        "src_key_padding_mask": pads,
        "memory_key_padding_mask": pads,
    } | change
    x = table[source] * scale + places * positions[: source.shape[1]]
    y = table[target] * scale + places * positions[: target.shape[1]]
    return ends(stack(x, y, **masks), table)


def hunt_mistakes(stack, table, positions, source, target):
    given = stack, table, positions, source, target
    length, pads = target.shape[1], source == 0
    may = torch.ones(length, length).tril()
    added = "tgt_mask holds ones and zeros as floats, which are added to the scores"
    unhidden = "the decoder reads the source's padding, as memory_key_padding_mask is missing"
    targets = {
        added: may,
        "tgt_mask is our mask, True = may attend: for nn.Transformer True is *must not*": (
            may.bool()
        ),
        "there is no tgt_mask: every word sees the words after it": None,
        "tgt_mask hides every word from itself as well: begin above the diagonal": causal(
            length, 0
        ),
        "tgt_mask lets every word see the next one: begin right above the diagonal": causal(
            length, 2
        ),
        "tgt_mask is turned round: it hides the past, as in PyTorch 1.3.0": causal(length).T,
        "tgt_mask holds 1 above the diagonal, as a float that is added: it makes the future more "
        "likely": 1 - may,
    }
    memories = {
        unhidden: {"memory_key_padding_mask": None},
        "memory_key_padding_mask is turned round: True is *must not*": {
            "memory_key_padding_mask": ~pads
        },
        "src_key_padding_mask is missing: the encoder reads the padding": {
            "src_key_padding_mask": None
        },
        "src_key_padding_mask is turned round: True is *must not*": {"src_key_padding_mask": ~pads},
        "both padding masks of the source are turned round: True is *must not*": {
            "memory_key_padding_mask": ~pads,
            "src_key_padding_mask": ~pads,
        },
        "src_mask hides the source's later words: the encoder may read all of them": {
            "src_mask": causal(source.shape[1])
        },
        "both padding masks of the source are missing": {
            "memory_key_padding_mask": None,
            "src_key_padding_mask": None,
        },
        **{
            f"the ids up to {last} are all taken for padding: only 0 is": {
                "src_key_padding_mask": source <= last,
                "memory_key_padding_mask": source <= last,
            }
            for last in (1, 2, 3)
        },
        "the target's padding hides the memory: its keys are source tokens": {
            "memory_key_padding_mask": target == 0
        },
    }

    def run(**change):
        return lambda: logits_of(*given, **change)

    one = {f"{text}.": run(tgt_mask=mask) for text, mask in targets.items()}
    one |= {f"{text}.": run(**change) for text, change in memories.items()}
    both = {
        f"{text}; and {other}.": run(tgt_mask=mask, **change)
        for text, mask in targets.items()
        for other, change in memories.items()
    }
    return {
        "both bugs are still there: look at what is added to the scores, and at the attention to "
        "the memory.": both.pop(f"{added}; and {unhidden}."),
        f"one bug is left: {added}.": one.pop(f"{added}."),
        "one bug is left: the decoder reads the source's padding.": one.pop(f"{unhidden}."),
        **one,
        "the embeddings are not multiplied by √d_model: that was right.": run(scale=1.0),
        "the positions are missing: they were right.": run(places=0.0),
        "the logits are put through a softmax. Return logits.": run(
            ends=lambda s, t: (s @ t.T).softmax(-1)
        ),
        "the logits are put through a log-softmax. Return logits.": run(
            ends=lambda s, t: (s @ t.T).log_softmax(-1)
        ),
        "the decoder's states are returned: the last line was right.": run(ends=lambda s, t: s),
        "the logits are divided by √d_model: the last line was right.": run(
            ends=lambda s, t: s @ t.T / math.sqrt(t.shape[1])
        ),
        **both,
    }


def real(answer, target):
    """Return the answer with 0 at the target's padding, which does not count."""
    fits = isinstance(answer, Tensor) and answer.ndim == 3 and answer.shape[:2] == target.shape
    return answer.masked_fill((target == 0)[..., None], 0) if fits else answer


def check_logits(repaired_logits, heads, layers, source, target, training=True):
    d_model = 4 * heads
    stack = random_stack(d_model, heads, layers).train(training)
    table = torch.randn(20, d_model)
    given = stack, table, lab.sinusoidal_encoding(30, d_model), source, target
    answer = repaired_logits(*given)
    mistakes = hunt_mistakes(*given)
    hidden = {text: (lambda wrong=wrong: real(wrong(), target)) for text, wrong in mistakes.items()}
    nan = (
        "A query with no key that it may look at has no softmax. Which mask hides them all? In "
        "nn.Transformer True is *must not*."
    )
    expect(real(answer, target), real(logits_of(*given), target), hidden, nan=nan)


LONG = torch.tensor([[5, 6, 7, 8, 9, 4], [9, 10, 0, 0, 0, 0], [4, 11, 12, 2, 0, 0]])
WORDS = torch.tensor([[1, 11, 12, 6], [1, 13, 14, 0], [1, 15, 16, 17]])
SQUARES = torch.tensor([[[5, 6, 0], [7, 8, 9], [4, 0, 0]], [[5, 0, 0], [7, 8, 0], [4, 9, 6]]])


def test_the_logits_begin_anew_in_each_call(repaired_logits):
    stack, positions = random_stack(8, 2, 1), lab.sinusoidal_encoding(3, 8)
    first, second = (
        (stack, torch.randn(20, 8), positions, source, torch.randint(1, 20, (3, 3)))
        for source in SQUARES
    )
    expect_no_memory(repaired_logits, logits_of, first, second)


def test_the_logits_with_pads_and_without(repaired_logits):
    check_logits(repaired_logits, 2, 1, LONG, WORDS)
    check_logits(repaired_logits, 2, 2, LONG, WORDS)
    check_logits(repaired_logits, 2, 1, LONG, WORDS, training=False)
    check_logits(repaired_logits, 2, 1, LONG[:1], WORDS[:1])


def test_only_pads_are_hidden_in_the_source(repaired_logits):
    low = torch.tensor([[1, 3, 2, 0], [5, 1, 3, 2], [2, 0, 0, 0]])  # <bos>, <eos> and <unk>
    check_logits(repaired_logits, 2, 1, low, WORDS)


def test_the_logits_when_source_and_target_are_equally_long(repaired_logits):
    check_logits(repaired_logits, 2, 1, LONG[:, :4], WORDS)
    check_logits(repaired_logits, 2, 1, LONG[:2, :2], WORDS[:2, :2])


def test_the_logits_of_one_target_word(repaired_logits):
    check_logits(repaired_logits, 4, 1, LONG, WORDS[:, :1])


def test_the_past_does_not_move_with_the_future(repaired_logits):
    stack, table = random_stack(8, 2, 2), torch.randn(20, 8)
    positions = lab.sinusoidal_encoding(30, 8)
    changed = WORDS.clone()
    changed[:, -1] = 18
    one, other = (repaired_logits(stack, table, positions, LONG, t) for t in (WORDS, changed))
    assert close(other[:, :-1], one[:, :-1]), (
        "The logits of the first words move when the last target word changes."
    )
    padded = F.pad(LONG, (0, 2))
    assert close(repaired_logits(stack, table, positions, padded, WORDS)[:2], one[:2]), (
        "The logits move when pads are appended to the source."
    )
