"""Answers to exercise 07, wrong and right."""

import collections
import copy
import heapq
import itertools
import math
import re

import numpy as np
import torch
import torch.nn.functional as F
from catalogue import right, solutions, wrong
from torch import nn

import transformer_lab as lab

LESSON = "07_the_full_transformer"
Given = solutions(LESSON)["TokenEmbedding"]  # for its __init__

# ---- predicted_diary

DIARY = [(2, 1, 1, 6), (2, 3, 5, 6), (2, 5, 20), 5, 3, 480]


def but(**changes):
    """Return the right diary with other answers at some letters."""
    return [changes.get(letter, answer) for letter, answer in zip("abcdef", DIARY, strict=True)]


@right("predicted_diary")
def as_tuples():
    return DIARY


@right("predicted_diary")
def as_lists_in_a_tuple():
    return tuple(list(answer) if isinstance(answer, tuple) else answer for answer in DIARY)


@right("predicted_diary")
def as_texts():
    return ["(2, 1, 1, 6)", "2 3 5 6", "2×5×20", 5, 3, 480.0]


@right("predicted_diary")
def as_torch_sizes():
    return [*map(torch.Size, DIARY[:3]), *map(torch.tensor, DIARY[3:])]


@wrong("predicted_diary", "a is not (2, 1, 6, 6)", "one row is enough")
def a_mask_for_every_query():
    """The decoder's mask has a row for each query; the padding does not need it."""
    return but(a=(2, 1, 6, 6))


@wrong("predicted_diary", "a is not (2, 6)", "broadcast to (B, H, Lq, Lk)")
def the_mask_as_it_is_compared():
    """source != 0 has the shape of the source."""
    return but(a=(2, 6))


@wrong("predicted_diary", "a is not (2, 6, 1, 1)", "last axis belongs to the keys")
def a_mask_of_queries():
    """The axes of length 1 put behind."""
    return but(a=(2, 6, 1, 1))


@wrong("predicted_diary", "b is not (2, 3, 6, 5)", "Who asks whom?")
def the_source_asks():
    """'The source is attended to', so it comes first."""
    return but(b=(2, 3, 6, 5))


@wrong("predicted_diary", "b is not (2, 3, 5, 5)", "attention to itself")
def the_other_attention():
    """The decoder has two."""
    return but(b=(2, 3, 5, 5))


@wrong("predicted_diary", "b is not (2, 5, 6)", "weights of its own")
def heads_forgotten():
    """One table of weights for each sentence."""
    return but(b=(2, 5, 6))


@wrong("predicted_diary", "c is not (2, 5, 12)", "the decoder's states")
def the_generator_forgotten():
    """The width never changes, until the last station."""
    return but(c=(2, 5, 12))


@wrong("predicted_diary", "c is not (2, 20)", "at every target position")
def only_the_next_word():
    """At inference only the last position is read; the model computes all."""
    return but(c=(2, 20))


@wrong("predicted_diary", "d is not 3", "known from the start")
def the_source_is_causal():
    """The causal mask is thought to hold for the source."""
    return but(d=3)


@wrong("predicted_diary", "d is not 1", "not position by position")
def word_for_word():
    """The third source word changes the third target word."""
    return but(d=1)


@wrong("predicted_diary", "e is not 2", "its own token")
def itself_excluded():
    """A strict causal mask."""
    return but(e=2)


@wrong("predicted_diary", "e is not 5", "hides the third token")
def everything_moves():
    """True without the mask."""
    return but(e=5)


@wrong("predicted_diary", "f is not 720", "One stays")
def all_three_saved():
    """3 · V · d_model."""
    return but(f=720)


@wrong("predicted_diary", "f is not 240", "how many go?")
def one_saved():
    """Source and target embedding only."""
    return but(f=240)


@wrong("predicted_diary", "expected 6 answers")
def shapes_only():
    """The numbers are forgotten."""
    return DIARY[:3]


# ---- learn_bpe


def start(word):
    return [*word[:-1], word[-1] + "</w>"]


def pairs_of(words):
    pairs = collections.Counter()
    for symbols, count in words:
        for pair in itertools.pairwise(symbols):
            pairs[tuple(pair)] += count
    return pairs


def join(symbols, pair):
    """Make the pair one symbol, in a list."""
    result, i = [], 0
    while i < len(symbols):
        if i + 1 < len(symbols) and (symbols[i], symbols[i + 1]) == tuple(pair):
            result.append(symbols[i] + symbols[i + 1])
            i += 2
        else:
            result.append(symbols[i])
            i += 1
    return result


def smallest(pairs):
    return min(pairs, key=lambda pair: (-pairs[pair], pair))


def learn(word_counts, num_merges, *, start=start, pairs_of=pairs_of, best=smallest, join=join):
    """Learn merges; every step can be replaced by a wrong one."""
    words, merges = [(start(word), count) for word, count in word_counts.items()], []
    while len(merges) < num_merges and (pairs := pairs_of(words)):
        merges.append(best(pairs))
        words = [(join(symbols, merges[-1]), count) for symbols, count in words]
    return merges


@right("learn_bpe")
def with_lists_and_a_loop(word_counts, num_merges):
    words = {word: start(word) for word in word_counts}
    merges = []
    for _ in range(num_merges):
        pairs = {}
        for word, symbols in words.items():
            for i in range(len(symbols) - 1):
                pair = (symbols[i], symbols[i + 1])
                pairs[pair] = pairs.get(pair, 0) + word_counts[word]
        if len(pairs) == 0:
            return merges
        most = max(pairs.values())
        best = sorted(pair for pair, count in pairs.items() if count == most)[0]
        words = {word: join(symbols, best) for word, symbols in words.items()}
        merges.append(best)
    return merges


@right("learn_bpe")
def with_a_regular_expression(word_counts, num_merges):
    """Sennrich's own way: a text with blanks, and blanks or ends around the pair."""
    words, merges = {" ".join(start(word)): count for word, count in word_counts.items()}, []
    for _ in range(num_merges):
        pairs = pairs_of([(text.split(" "), count) for text, count in words.items()])
        if not pairs:
            break
        best = min(pairs.items(), key=lambda item: (-item[1], item[0]))[0]
        pattern = re.compile(r"(?<!\S)" + re.escape(" ".join(best)) + r"(?!\S)")
        words = {pattern.sub("".join(best), text): count for text, count in words.items()}
        merges.append(best)
    return merges


@right("learn_bpe")
def with_a_heap(word_counts, num_merges):
    words, merges = [(start(word), count) for word, count in word_counts.items()], []
    for _ in range(num_merges):
        heap = [(-count, pair) for pair, count in pairs_of(words).items()]
        if not heap:
            break
        heapq.heapify(heap)
        merges.append(heapq.heappop(heap)[1])
        words = [(join(symbols, merges[-1]), count) for symbols, count in words]
    return merges


@right("learn_bpe")
def every_word_written_out(word_counts, num_merges):
    words = [start(word) for word, count in word_counts.items() for _ in range(count)]
    merges = []
    while len(merges) != num_merges:
        pairs = collections.Counter(
            pair for symbols in words for pair in itertools.pairwise(symbols)
        )
        if not pairs:
            break
        ordered = sorted(pairs)
        ordered.sort(key=pairs.get, reverse=True)  # stable: equals stay in alphabetical order
        merges.append(ordered[0])
        words = [join(symbols, ordered[0]) for symbols in words]
    return merges


@right("learn_bpe")
def as_lists_of_two(word_counts, num_merges):
    return [list(pair) for pair in learn(word_counts, num_merges)]


@wrong("learn_bpe", "only the first place in each word")
def first_place_only(word_counts, num_merges):
    """list.index finds one place."""

    def join_once(symbols, pair):
        for i in range(len(symbols) - 1):
            if (symbols[i], symbols[i + 1]) == pair:
                return [*symbols[:i], "".join(pair), *symbols[i + 2 :]]
        return symbols

    return learn(word_counts, num_merges, join=join_once)


@wrong("learn_bpe", "also if the word holds it twice")
def pairs_as_sets(word_counts, num_merges):
    """set(zip(...)) loses repetitions."""

    def once(words):
        pairs = collections.Counter()
        for symbols, count in words:
            for pair in set(itertools.pairwise(symbols)):
                pairs[pair] += count
        return pairs

    return learn(word_counts, num_merges, pairs_of=once)


@wrong("learn_bpe", "pairs that overlap are counted once")
def without_overlaps(word_counts, num_merges):
    """Counted like str.count, which skips what it has used."""

    def apart(words):
        pairs = collections.Counter()
        for symbols, count in words:
            i, last = 0, None
            while i < len(symbols) - 1:
                pair = (symbols[i], symbols[i + 1])
                if pair == last:
                    last = None
                else:
                    pairs[pair] += count
                    last = pair
                i += 1
        return pairs

    return learn(word_counts, num_merges, pairs_of=apart)


@wrong("learn_bpe", "Merge 1 is")
def pairs_with_counts(word_counts, num_merges):
    """most_common gives (pair, count)."""
    return [(pair, 1) for pair in learn(word_counts, num_merges)]


@wrong("learn_bpe", "Your code stopped", "min(pairs", "ValueError")
def never_stops(word_counts, num_merges):
    """No pair is left, and min has nothing to choose from."""
    words, merges = [(start(word), count) for word, count in word_counts.items()], []
    for _ in range(num_merges):
        pairs = pairs_of(words)
        merges.append(min(pairs, key=lambda pair: (-pairs[pair], pair)))
        words = [(join(symbols, merges[-1]), count) for symbols, count in words]
    return merges


@wrong("learn_bpe", "changed its argument word_counts")
def the_callers_dictionary(word_counts, num_merges):
    """Symbols are kept in the dictionary that was given."""
    merges = learn(word_counts, num_merges)
    word_counts.clear()
    return merges


@wrong("learn_bpe", "None", "return")
def learnt_without_return(word_counts, num_merges):
    """The last line is the append."""
    learn(word_counts, num_merges)


def learn_into(merges, word_counts, num_merges):
    while len(merges) < num_merges:
        pairs = collections.Counter()
        for word, count in word_counts.items():
            for pair in itertools.pairwise(merge_by_merge(word, merges)):
                pairs[pair] += count
        if not pairs:
            break
        merges.append(min(pairs, key=lambda pair: (-pairs[pair], pair)))
    return merges


@wrong("learn_bpe", "an earlier call", "both gave out the same object")
def into_a_default_list(word_counts, num_merges, merges=[]):  # noqa: B006
    """A default is made once: the second call goes on with the merges of the first."""
    learn_into(merges, word_counts, num_merges if len(merges) < num_merges else len(merges) + 1)
    return merges


@wrong("learn_bpe", "after one with other numbers", "begin anew")
def merges_of_the_first_corpus(word_counts, num_merges, merges=[]):  # noqa: B006
    """A default list again: it is full when the second corpus comes."""
    return list(learn_into(merges, word_counts, num_merges))


# ---- apply_bpe


@right("apply_bpe")
def merge_by_merge(word, merges):
    symbols = start(word)
    for pair in merges:
        symbols = join(symbols, pair)
    return symbols


@right("apply_bpe")
def lowest_rank_first(word, merges):
    """As the library does it: again and again the pair that was learnt first."""
    ranks = {tuple(pair): rank for rank, pair in enumerate(merges)}
    symbols = start(word)
    while len(symbols) > 1:
        pairs = set(itertools.pairwise(symbols))
        best = min(pairs, key=lambda pair: ranks.get(pair, math.inf))
        if best not in ranks:
            break
        symbols = join(symbols, best)
    return symbols


@right("apply_bpe")
def in_place_with_del(word, merges):
    symbols = list(word)
    symbols[-1] += "</w>"
    for left, right_ in merges:
        i = 0
        while i < len(symbols) - 1:
            if symbols[i] == left and symbols[i + 1] == right_:
                symbols[i] += symbols[i + 1]
                del symbols[i + 1]
            i += 1
    return symbols


@right("apply_bpe")
def as_a_tuple(word, merges):
    return tuple(merge_by_merge(word, merges))


@right("apply_bpe")
def with_a_regular_expression_too(word, merges):
    text = " ".join(start(word))
    for pair in merges:
        pattern = r"(?<!\S)" + re.escape(" ".join(pair)) + r"(?!\S)"
        text = re.sub(pattern, lambda _, pair=pair: "".join(pair), text)
    return text.split(" ")


@wrong("apply_bpe", "the longest known piece")
def longest_match(word, merges):
    """WordPiece's rule."""
    text, known, result = word + "</w>", {a + b for a, b in merges}, []
    while text:
        one = 5 if text[1:] == "</w>" else 1
        size = next((n for n in range(len(text), one, -1) if text[:n] in known), one)
        result.append(text[:size])
        text = text[size:]
    return result


@wrong("apply_bpe", "Symbol")
def last_symbol_lost(word, merges):
    """The while loop ends one too early."""
    symbols = start(word)
    for pair in merges:
        result, i = [], 0
        while i < len(symbols) - 1:
            if (symbols[i], symbols[i + 1]) == pair:
                result.append("".join(pair))
                i += 2
            else:
                result.append(symbols[i])
                i += 1
        symbols = result or symbols
    return symbols


@wrong("apply_bpe", "Your code stopped", "IndexError")
def beyond_the_end(word, merges):
    """symbols[i + 1] at the last symbol."""
    symbols = start(word)
    for pair in merges:
        i = 0
        while i < len(symbols):
            if (symbols[i], symbols[i + 1]) == pair:
                symbols[i : i + 2] = ["".join(pair)]
            i += 1
    return symbols


CUTS = {}


@wrong("apply_bpe", "after one with other numbers", "begin anew")
def kept_by_word(word, merges):
    """GPT-2's encoder keeps the cuts of words; here the merges are an argument."""
    if word not in CUTS:
        CUTS[word] = merge_by_merge(word, merges)
    return CUTS[word]


@right("apply_bpe")
def the_new_symbol_is_looked_at_again(word, merges):
    """It cannot be the left part of its own pair, so nothing changes."""
    symbols = [*word[:-1], word[-1] + "</w>"]
    for left, right_part in merges:
        i = 0
        while i < len(symbols) - 1:
            if (symbols[i], symbols[i + 1]) == (left, right_part):
                symbols[i : i + 2] = [left + right_part]
            else:
                i += 1
    return symbols


# ---- TokenEmbedding


@right("TokenEmbedding")
class WithFEmbedding(Given):
    def forward(self, tokens):
        return F.embedding(tokens, self.table) * self.d_model**0.5


@right("TokenEmbedding")
class WithOneHot(Given):
    def forward(self, tokens):
        chosen = F.one_hot(tokens, len(self.table)).to(self.table.dtype)
        return math.sqrt(self.d_model) * (chosen @ self.table)


@right("TokenEmbedding")
class WithIndexSelect(Given):
    def forward(self, tokens):
        rows = self.table.index_select(0, tokens.reshape(-1))
        return rows.view(*tokens.shape, -1) * np.sqrt(self.table.size(1)).item()


@right("TokenEmbedding")
class ScaledTable(Given):
    def forward(self, tokens):
        return (self.table * math.sqrt(self.d_model))[tokens]


@right("TokenEmbedding")
class WithALoop(Given):
    def forward(self, tokens):
        rows = [torch.stack([self.table[i] for i in sentence]) for sentence in tokens.tolist()]
        return torch.stack(rows) * self.d_model**0.5


@right("TokenEmbedding")
class WithGather(Given):
    def forward(self, tokens):
        B, L = tokens.shape
        index = tokens.reshape(-1, 1).expand(-1, self.d_model)
        return (
            self.table.gather(0, index)
            .reshape(B, L, -1)
            .double()
            .mul(math.sqrt(self.d_model))
            .to(self.table.dtype)
        )


@wrong("TokenEmbedding", "changed the numbers that are stored in self.table")
class ScaledInPlace(Given):
    """Multiplied where it is stored: it grows with every call."""

    def forward(self, tokens):
        self.table.data *= math.sqrt(self.d_model)
        return self.table[tokens]


@wrong("TokenEmbedding", "positions are added")
class WithPositions(Given):
    """Both of the paper's boxes at once."""

    def forward(self, tokens):
        rows = self.table[tokens] * math.sqrt(self.d_model)
        width = self.d_model + self.d_model % 2
        return rows + lab.sinusoidal_encoding(tokens.shape[1], width)[:, : self.d_model].to(rows)


@wrong("TokenEmbedding", "cut off from the table")
class DetachedRows(Given):
    """.data, from an old tutorial."""

    def forward(self, tokens):
        return self.table.data[tokens] * math.sqrt(self.d_model)


@wrong("TokenEmbedding", "The table gets a wrong gradient")
class CopiedTable(Given):
    """from_pretrained makes a parameter of its own, and the table never learns."""

    def forward(self, tokens):
        embedding = nn.Embedding.from_pretrained(self.table.data, freeze=False)
        return embedding(tokens) * math.sqrt(self.d_model)


@wrong("TokenEmbedding", "Training and evaluation")
class OnlyInTraining(Given):
    """Scaled in training only."""

    def forward(self, tokens):
        return self.table[tokens] * (math.sqrt(self.d_model) if self.training else 1)


@wrong("TokenEmbedding", "Your code stopped", "F.one_hot(tokens, len(self.table)).float()")
class OneHotInFloat32(Given):
    """.float() is float32; the table may not be."""

    def forward(self, tokens):
        return F.one_hot(tokens, len(self.table)).float() @ self.table * math.sqrt(self.d_model)


@wrong("TokenEmbedding", "keep `__init__` as it was given")
class AnotherEmbedding(Given):
    """nn.Embedding in the place of the given table."""

    def __init__(self, vocab_size, d_model):
        super().__init__(vocab_size, d_model)
        self.embedding = nn.Embedding(vocab_size, d_model)

    def forward(self, tokens):
        return self.embedding(tokens) * math.sqrt(self.d_model)


@wrong("TokenEmbedding", "another parameter in the place of self.table")
class NewTableInEachCall(Given):
    """nn.Parameter(…) in forward: the optimizer trains the table that was there before."""

    def forward(self, tokens):
        self.table = nn.Parameter(self.table.detach().clone())
        return self.table[tokens] * math.sqrt(self.d_model)


@wrong("TokenEmbedding", "table cannot learn", "nn.Parameter")
class TableAsABuffer(Given):
    """register_buffer, as for the sinusoids."""

    def __init__(self, vocab_size, d_model):
        super().__init__(vocab_size, d_model)
        table = self.table.detach()
        del self.table
        self.register_buffer("table", table)

    def forward(self, tokens):
        return self.table[tokens] * math.sqrt(self.d_model)


@wrong("TokenEmbedding", "has the variance", "should have 1/16")
class VarianceOne(Given):
    """nn.Embedding's own start: then √d_model makes the words far too large."""

    def __init__(self, vocab_size, d_model):
        super().__init__(vocab_size, d_model)
        self.table = nn.Parameter(torch.randn(vocab_size, d_model))

    def forward(self, tokens):
        return self.table[tokens] * math.sqrt(self.d_model)


@wrong("TokenEmbedding", "changed the mode of self")
class AlwaysInEvalMode(Given):
    """'A look-up has no mode.'"""

    def forward(self, tokens):
        self.eval()
        return self.table[tokens] * math.sqrt(self.d_model)


@wrong("TokenEmbedding", "changed the numbers that are stored in self.table")
class WithALargestNorm(Given):
    """max_norm shortens the rows where they are stored."""

    def forward(self, tokens):
        return F.embedding(tokens, self.table, max_norm=1.0) * math.sqrt(self.d_model)


@right("TokenEmbedding")
class WithSparseGradients(Given):
    def forward(self, tokens):
        return F.embedding(tokens, self.table, sparse=True) * self.d_model**0.5


# ---- tie_weights


@right("tie_weights")
def to_the_target(model):
    model.source_embedding.table = model.target_embedding.table
    model.generator.weight = model.target_embedding.table


@right("tie_weights")
def to_the_generator_and_returned(model):
    model.source_embedding.table = model.target_embedding.table = model.generator.weight
    return model


@right("tie_weights")
def with_setattr(model):
    table = model.source_embedding.table
    for module, name in ((model.target_embedding, "table"), (model.generator, "weight")):
        setattr(module, name, table)


@right("tie_weights")
def one_embedding_module(model):
    model.source_embedding = model.target_embedding
    model.generator.weight = model.source_embedding.table


@right("tie_weights")
def registered_anew(model):
    table = nn.Parameter(model.target_embedding.table.detach().clone())
    for module, name in (
        (model.source_embedding, "table"),
        (model.target_embedding, "table"),
        (model.generator, "weight"),
    ):
        delattr(module, name)
        module.register_parameter(name, table)


@right("tie_weights")
def through_private_parameters(model):
    model.generator._parameters["weight"] = model.target_embedding.table
    model.source_embedding._parameters["table"] = model.target_embedding.table


@wrong("tie_weights", "Some share their memory")
def by_data(model):
    """Stands in many repositories: one memory, three parameters."""
    model.source_embedding.table.data = model.target_embedding.table.data
    model.generator.weight.data = model.target_embedding.table.data


@wrong("tie_weights", "Some share their memory")
def by_new_parameters(model):
    """nn.Parameter(parameter) is another parameter over the same memory."""
    model.source_embedding.table = nn.Parameter(model.target_embedding.table)
    model.generator.weight = nn.Parameter(model.target_embedding.table)


@wrong("tie_weights", "are one parameter, the third is not", "share their memory")
def half_by_data(model):
    """The embeddings are tied, the generator only looks so."""
    model.source_embedding.table = model.target_embedding.table
    model.generator.weight.data = model.target_embedding.table.data


@wrong("tie_weights", "they are copies")
def by_copy(model):
    """copy_ copies numbers, once."""
    with torch.no_grad():
        model.source_embedding.table.copy_(model.target_embedding.table)
        model.generator.weight.copy_(model.target_embedding.table)


@wrong("tie_weights", "they are copies")
def by_state_dict(model):
    """load_state_dict copies, too."""
    state = model.state_dict()
    for name in ("source_embedding.table", "generator.weight"):
        state[name] = state["target_embedding.table"]
    model.load_state_dict(state)


@wrong("tie_weights", "they are copies")
def by_clone(model):
    """.clone() to be on the safe side."""
    table = model.target_embedding.table
    model.source_embedding.table = nn.Parameter(table.detach().clone())
    model.generator.weight = nn.Parameter(table.detach().clone())


@wrong("tie_weights", "generator.weight is still another")
def only_embeddings(model):
    """'Shared embeddings' are two of the three."""
    model.source_embedding.table = model.target_embedding.table


@wrong("tie_weights", "source_embedding.table is still another")
def only_the_target_side(model):
    """Press and Wolf's tying: output embedding and generator."""
    model.generator.weight = model.target_embedding.table


@wrong("tie_weights", "target_embedding.table is still another")
def the_wrong_side(model):
    """The source's table is taken for the target's."""
    model.generator.weight = model.source_embedding.table


@wrong("tie_weights", "generator.table", "nobody reads")
def another_name(model):
    """The attribute is called weight; nn.Module takes any name."""
    model.source_embedding.table = model.target_embedding.table
    model.generator.table = model.target_embedding.table


@wrong("tie_weights", "transposed table")
def with_a_transpose(model):
    """C60: the formula has a transpose."""
    model.source_embedding.table = model.target_embedding.table
    model.generator.weight = nn.Parameter(model.target_embedding.table.T)


@wrong("tie_weights", "Your code stopped", "cannot assign", "TypeError")
def a_view_of_it(model):
    """A view is a tensor, not a parameter."""
    model.source_embedding.table = model.target_embedding.table.view(-1, 1)


@wrong("tie_weights", "The model that you return is tied")
def a_tied_copy(model):
    """deepcopy first, so as not to change what was given."""
    model = copy.deepcopy(model)
    to_the_target(model)
    return model


@wrong("tie_weights", "Nothing is tied", "None")
def only_local_names(model):
    """Names in the function; the model never hears of it."""
    source, target = model.source_embedding.table, model.target_embedding.table
    source = target  # noqa: F841


@wrong("tie_weights", "has new numbers")
def a_fresh_table(model):
    """Made anew, with the standard deviation of nn.Embedding."""
    table = nn.Parameter(torch.randn_like(model.target_embedding.table))
    model.source_embedding.table = model.target_embedding.table = table
    model.generator.weight = table


@wrong("tie_weights", "has new numbers")
def the_mean_of_three(model):
    """A compromise, smaller than each of the three."""
    three = model.source_embedding.table, model.target_embedding.table, model.generator.weight
    table = nn.Parameter(torch.stack([*three]).detach().mean(0))
    model.source_embedding.table = model.target_embedding.table = table
    model.generator.weight = table


@wrong("tie_weights", "is frozen")
def frozen(model):
    """requires_grad=False 'because it is shared'."""
    table = nn.Parameter(model.target_embedding.table.detach(), requires_grad=False)
    model.source_embedding.table = model.target_embedding.table = table
    model.generator.weight = table


@wrong("tie_weights", "The model has lost generator.weight")
def the_embedding_as_generator(model):
    """The module is shared in the place of its parameter: an embedding cannot score."""
    model.source_embedding = model.generator = model.target_embedding


@wrong("tie_weights", "The model has lost generator.bias")
def a_new_generator(model):
    """A new layer: the bias of the old one is gone."""
    to_the_target(model)
    V, d_model = model.target_embedding.table.shape
    model.generator = nn.Linear(d_model, V, bias=False)
    model.generator.weight = model.target_embedding.table


@wrong("tie_weights", "It should still be a parameter")
def a_plain_tensor(model):
    """The parameter is deleted and a tensor put in its place: it never learns."""
    table = model.target_embedding.table
    del model.generator.weight
    model.generator.weight = table.detach()
    model.source_embedding.table = table


def tied(model):
    model.source_embedding.table = model.target_embedding.table
    model.generator.weight = model.target_embedding.table


@wrong("tie_weights", "changed the mode of model", "was = model.training")
def left_in_eval_mode(model):
    """eval() 'to be safe': no dropout in the training that follows."""
    model.eval()
    tied(model)


@wrong("tie_weights", "changed requires_grad of model.encoder")
def all_others_frozen(model):
    """Only the new matrix is to be trained: nobody had asked for that."""
    model.requires_grad_(False)
    tied(model)
    model.generator.weight.requires_grad_(True)


@wrong("tie_weights", "The model has lost generator.bias")
def bias_taken_away(model):
    """The package's generator has none."""
    tied(model)
    model.generator.bias = None


@right("tie_weights")
def in_one_chain_with_a_print(model):
    model.source_embedding.table = model.target_embedding.table = model.generator.weight
    print(sum(parameter.numel() for parameter in model.parameters()))


# ---- count_transformer_parameters


@right("count_transformer_parameters")
def in_one_formula(vocab_size, d_model, d_ff, num_layers):
    V, d, f, N = vocab_size, d_model, d_ff, num_layers
    return V * d + N * (12 * d * d + 4 * d * f + 2 * f + 24 * d)


@right("count_transformer_parameters")
def counted_in_the_package(vocab_size, d_model, d_ff, num_layers):
    config = lab.ModelConfig(
        source_vocab_size=vocab_size,
        target_vocab_size=vocab_size,
        d_model=d_model,
        num_heads=1,
        d_ff=d_ff,
        num_encoder_layers=num_layers,
        num_decoder_layers=num_layers,
        max_length=1,
        tie_embeddings=True,
    )
    biases = 4 * d_model * 3 * num_layers  # of the attentions, which the package leaves out
    with torch.device("meta"):
        return biases + sum(p.numel() for p in lab.Transformer(config).parameters())


@right("count_transformer_parameters")
def counted_in_pytorch(vocab_size, d_model, d_ff, num_layers):
    make = {"dim_feedforward": d_ff, "device": "meta"}
    layers = (
        nn.TransformerEncoderLayer(d_model, 1, **make),
        nn.TransformerDecoderLayer(d_model, 1, **make),
    )
    each = sum(p.numel() for layer in layers for p in layer.parameters())
    return torch.tensor(vocab_size * d_model + num_layers * each)


@right("count_transformer_parameters")
def layer_by_layer(vocab_size, d_model, d_ff, num_layers):
    def linear(n, m):
        return n * m + m

    total = vocab_size * d_model
    for attentions in (1, 2):
        for _ in range(num_layers):
            total += attentions * sum(linear(d_model, d_model) for _ in "qkvo")
            total += linear(d_model, d_ff) + linear(d_ff, d_model)
            total += (attentions + 1) * (d_model + d_model)
    return float(total)


@right("count_transformer_parameters")
def sub_layer_by_sub_layer(vocab_size, d_model, d_ff, num_layers):
    """Every sub-layer brings its LayerNorm."""
    norm = 2 * d_model
    attention = 4 * d_model * (d_model + 1) + norm
    feed_forward = d_model * d_ff * 2 + d_model + d_ff + norm
    return d_model * vocab_size + num_layers * (3 * attention + 2 * feed_forward)


# ---- repaired_logits


def ends(stack, table, positions, source, target):
    scale = math.sqrt(table.shape[1])
    x = table[source] * scale + positions[: source.shape[1]]
    y = table[target] * scale + positions[: target.shape[1]]
    return x, y


def future(length):
    return torch.ones(length, length).triu(1).bool()


def logits(stack, table, positions, source, target, **change):
    pads = source == 0
    masks = {
        "tgt_mask": future(target.shape[1]),
        "src_key_padding_mask": pads,
        "memory_key_padding_mask": pads,
    } | change
    return stack(*ends(stack, table, positions, source, target), **masks) @ table.T


@right("repaired_logits")
def with_boolean_masks(stack, table, positions, source, target):
    return logits(stack, table, positions, source, target)


@right("repaired_logits")
def with_pytorchs_helper(stack, table, positions, source, target):
    mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
    return logits(stack, table, positions, source, target, tgt_mask=mask, tgt_is_causal=True)


@right("repaired_logits")
def with_the_targets_padding_too(stack, table, positions, source, target):
    return logits(stack, table, positions, source, target, tgt_key_padding_mask=target == 0)


@right("repaired_logits")
def with_a_large_negative_number(stack, table, positions, source, target):
    may = torch.ones(target.shape[1], target.shape[1]).tril()
    return logits(stack, table, positions, source, target, tgt_mask=(1 - may) * -1e9)


@right("repaired_logits")
def encoder_and_decoder_called_apart(stack, table, positions, source, target):
    x, y = ends(stack, table, positions, source, target)
    pads = source == 0
    memory = stack.encoder(x, src_key_padding_mask=pads)
    mask = future(target.shape[1])
    states = stack.decoder(y, memory, tgt_mask=mask, memory_key_padding_mask=pads)
    return F.linear(states, table)


@right("repaired_logits")
def sentence_by_sentence(stack, table, positions, source, target):
    """Without any padding mask: the pads are cut off."""
    rows = []
    for s, t in zip(source, target, strict=True):
        s = s[s != 0]
        rows.append(
            logits(stack, table, positions, s[None], t[None], memory_key_padding_mask=None)[0]
        )
    return torch.stack(rows)


@right("repaired_logits")
def in_evaluation_without_gradients(stack, table, positions, source, target):
    """PyTorch takes another way then, with nested tensors."""
    was = stack.training
    with torch.no_grad():
        answer = logits(stack.eval(), table, positions, source, target)
    stack.train(was)
    return answer


@right("repaired_logits")
def with_a_mask_for_every_head(stack, table, positions, source, target):
    mask = future(target.shape[1]).expand(len(target) * stack.nhead, -1, -1)
    return logits(stack, table, positions, source, target, tgt_mask=mask)


@wrong("repaired_logits", "Your code stopped", "memory_key_padding_mask")
def target_padding_for_the_memory(stack, table, positions, source, target):
    """The memory's keys are source tokens: the lengths do not even fit."""
    x, y = ends(stack, table, positions, source, target)
    mask = future(target.shape[1])
    return stack(x, y, tgt_mask=mask, memory_key_padding_mask=target == 0) @ table.T


@wrong("repaired_logits", "changed the mode of stack", "was = model.training")
def left_in_eval_mode_by_the_logits(stack, *given):
    """The padding is tried out in eval mode, and the stack never comes back."""
    return logits(stack.eval(), *given)


@wrong("repaired_logits", "changed the mode of stack", "was = model.training")
def left_in_train_mode_by_the_logits(stack, *given):
    """PyTorch warns about nested tensors in eval mode only, so train mode it is."""
    return logits(stack.train(), *given)


@wrong("repaired_logits", "changed the mode of stack.encoder")
def encoder_left_in_eval_mode(stack, *given):
    """Half of the stack."""
    stack.encoder.eval()
    return logits(stack, *given)


@wrong("repaired_logits", "changed requires_grad of stack.encoder")
def stack_left_frozen(stack, *given):
    """requires_grad_(False) in the place of no_grad."""
    return logits(stack.requires_grad_(False), *given)


PADS = {}


@wrong("repaired_logits", "after one with other numbers", "begin anew")
def pads_kept_by_shape(stack, table, positions, source, target):
    """The mask is made once for each shape."""
    pads = PADS.setdefault(source.shape, source == 0)
    masks = {"src_key_padding_mask": pads, "memory_key_padding_mask": pads}
    return logits(stack, table, positions, source, target, **masks)


@wrong("repaired_logits", "has shape", "axes of length 1")
def logits_squeezed(*given):
    """squeeze(0) after a batch of one was tried out in the notebook."""
    return logits(*given).squeeze(0)


# ---- found by a tester


@wrong("apply_bpe", "Symbol 1 is")
def applied_by_an_unescaped_expression(word, merges):
    """A full stop stands for any letter."""
    text = " ".join(word) + "</w>"
    for one, other in merges:
        text = re.sub(rf"(?<!\S){one} {other}(?!\S)", one + other, text)
    return text.split()


@wrong("learn_bpe", "x.y", "Merge 3 is missing")
def bpe_by_a_pattern(word_counts, num_merges):
    """The regular expression of the paper's listing, without re.escape."""
    words = {" ".join(word) + "</w>": count for word, count in word_counts.items()}
    merges = []
    for _ in range(num_merges):
        pairs = collections.Counter()
        for text, count in words.items():
            for pair in itertools.pairwise(text.split()):
                pairs[pair] += count
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append(best)
        place = re.compile(r"(?<!\S)" + " ".join(best) + r"(?!\S)")
        words = {place.sub("".join(best), text): count for text, count in words.items()}
    return merges


# ---- Steps of the wrong width after a merge, and a tie that the optimizer does not see


def with_step(step):
    def merge(symbols, pair):
        result, i = [], 0
        while i < len(symbols):
            if tuple(symbols[i : i + 2]) == tuple(pair):
                result.append("".join(pair))
                i += step
            else:
                result.append(symbols[i])
                i += 1
        return result

    return merge


def cut_with(merge, word, merges):
    symbols = [*word[:-1], f"{word[-1]}</w>"]
    for pair in merges:
        symbols = merge(symbols, pair)
    return list(symbols)


@right("apply_bpe")
def cut_with_a_step_of_two(word, merges):
    return cut_with(with_step(2), word, merges)


@wrong("tie_weights", "among the model's parameters", "__dict__")
def through_the_dictionary(model):
    """model.… = … refuses a tensor, __dict__ takes anything: the old parameters are still there."""
    vars(model.source_embedding)["table"] = model.target_embedding.table
    vars(model.generator)["weight"] = model.target_embedding.table


@wrong("tie_weights", "among the model's parameters", "__dict__")
def one_of_them_through_the_dictionary(model):
    """The same for the generator alone."""
    model.source_embedding.table = model.target_embedding.table
    vars(model.generator)["weight"] = model.target_embedding.table


@right("tie_weights")
def through_modules_by_name(model):
    modules, table = dict(model.named_modules()), model.generator.weight
    for name in ("source_embedding", "target_embedding"):
        modules[name].register_parameter("table", table)
