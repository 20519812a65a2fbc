"""The comparison of recipes at toy size: every way is trained, kept, and what it says it is."""

import json
import random

import pytest
import torch
from torch import nn

from benchmarks import recipes
from transformer_lab import BOS, EOS, PAD, UNK, runs, train, train_tokenizer

OTHER_OBJECTIVES = (
    *("the published shape", "R-Drop", "word dropout 0.1"),
    *("nothing dropped inside the networks", "BPE-dropout 0.1", "…, and German to English too"),
)


@pytest.fixture
def small(monkeypatch, captions):
    """A few captions, and six ways that train on something else each."""
    splits = {"train": captions, "val": captions[:3], "test2016": captions[:2]}
    for module in (runs, recipes):
        monkeypatch.setattr(module, "load_task", lambda *_: splits)
    monkeypatch.setattr(recipes, "TOY", recipes.TOY | recipes._pieces(60))
    ways = {name: recipes.WAYS[name] for name in OTHER_OBJECTIVES}
    monkeypatch.setattr(recipes, "WAYS", ways)


def test_every_way_is_measured_and_nothing_is_trained_twice(small, tmp_path, monkeypatch):
    options = ["--smoke", "--runs", str(tmp_path / "runs"), "--output", str(tmp_path)]
    recipes.main([*options, "--seeds", "0"])
    rows = json.loads((tmp_path / "recipes.json").read_text())["rows"]
    by_way = {row["way"]: row["valid_loss"] for row in rows}
    assert set(by_way) == set(OTHER_OBJECTIVES)
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["smoke"]
    assert len(set(by_way.values())) == len(by_way)  # not the name alone differs
    monkeypatch.setattr(recipes, "fit", None)
    train("multi30k-tok", tmp_path / "whole", progress=False, **recipes.TOY)
    recipes.main([*options, "--seeds", "0", "--tried", str(tmp_path / "whole")])
    found = json.loads((tmp_path / "recipes.json").read_text())
    assert found["rows"] == rows and found["tried"][0]["run"] == "whole"
    assert found["tried"][0]["training"]["steps"] == found["tried"][0]["step"] == 4


def test_two_answers_have_the_loss_and_the_gradients_of_its_formula():
    torch.manual_seed(0)
    N = recipes.ROWS + 5  # more than one chunk
    states = torch.randn(2 * N, 8, dtype=torch.double, requires_grad=True)
    matrix = torch.randn(50, 8, dtype=torch.double, requires_grad=True)
    targets = torch.randint(4, 50, (N,))
    p, q = (states @ matrix.T).log_softmax(-1).chunk(2)
    entropy = nn.functional.cross_entropy(
        states @ matrix.T, targets.repeat(2), label_smoothing=0.1, reduction="sum"
    )
    divergence = ((p.exp() - q.exp()) * (p - q)).sum() / 2
    expected = entropy / 2 + 5 * divergence
    loss = recipes.TwoAnswers.apply(states, matrix, targets, 0.1, 5.0)
    torch.testing.assert_close(loss, expected)
    ours, theirs = (torch.autograd.grad(x, (states, matrix)) for x in (loss, expected))
    torch.testing.assert_close(ours, theirs)


def test_compiled_once_the_two_answers_cost_the_same_at_every_size():
    def count(graph, _):
        graphs.append(graph)
        return graph

    torch.compiler.reset()
    graphs = []
    compiled = torch.compile(recipes.costs_and_gradients, backend=count, dynamic=True)
    for size in (40, 33, 64):
        logits, targets = torch.randn(2, size, 50).unbind(), torch.randint(4, 50, (size,))
        arguments = logits, targets, 0.1, 2.5, torch.float32
        eager = recipes.costs_and_gradients(*arguments)
        torch.testing.assert_close(compiled(*arguments), eager)
    assert len(graphs) == 1


def test_a_gap_is_never_in_the_place_of_padding_or_an_end():
    states = nn.Module()
    states.model = nn.Module()
    gaps = recipes.WithGaps(states, probability=1.0)
    ids = torch.tensor([[BOS, 7, 9, EOS, PAD]])
    assert gaps.with_gaps(ids).tolist() == [[BOS, UNK, UNK, EOS, PAD]]


def test_words_are_cut_as_the_tokenizer_does_and_with_dropout_in_other_ways():
    texts = ["ein mann mit hut", "eine frau mit einem hund", "zwei hunde am strand"] * 3
    tokenizer = train_tokenizer(texts, 60)
    ranks = {pair: rank for rank, pair in enumerate(tokenizer.merges)}
    for word in ("▁mann", "▁hunde", "▁strand", "▁hutmann"):
        pieces = recipes.cut(word, ranks, random.Random(0), probability=0.0)
        assert pieces == tokenizer.tokens(tokenizer.encode(word[1:]))[:-1]
    many = recipes.cut_in_many_ways(tokenizer, [(text, text) for text in texts[:3]])
    assert len(many) == 3 * recipes.WAYS_TO_CUT
    for i, (source, target) in enumerate(many):
        assert tokenizer.decode(source) == tokenizer.decode(target) == texts[i % 3]
    assert len({tuple(source) for source, _ in many}) > 6


def test_both_directions_are_the_pairs_and_the_pairs_turned_round():
    pairs = [("a man", "ein mann"), ("a dog", "ein hund")]
    tokenizer = train_tokenizer([text for pair in pairs for text in pair], 40)
    both = recipes.both_directions(tokenizer, pairs)
    assert [(tokenizer.decode(s), tokenizer.decode(t)) for s, t in both] == [
        *pairs,
        *((german, english) for english, german in pairs),
    ]
