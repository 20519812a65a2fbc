"""Greedy, by chance and with a beam: against slow references that can be read at a glance."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from transformer_lab import (
    KVCache,
    beam_search,
    greedy_decode,
    keep_top_k,
    keep_top_p,
    sample,
)
from transformer_lab.config import BOS, EOS, PAD

some = settings(max_examples=8)
SHARPNESS = st.sampled_from([0.05, 1.0, 3.0])  # nearly indifferent, undecided, sure


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def sources(seed: int, count: int = 4) -> torch.Tensor:
    """Sentences of different lengths, padded."""
    source = torch.randint(4, 9, (count, 6), generator=seeded(seed))
    for i in range(count):
        source[i, 1 + (seed + 2 * i) % 6 :] = PAD
    return source


def padded(tokens: torch.Tensor, length: int) -> torch.Tensor:
    return torch.nn.functional.pad(tokens, (0, length - tokens.shape[1]), value=PAD)


def log_p(model, source: torch.Tensor, sentences: list[list[int]]) -> list[float]:
    """Return log P(tokens after BOS, through EOS if it is there) of each, teacher-forced."""
    ends = [s.index(EOS) + 1 if EOS in s else len(s) for s in sentences]
    longest = max(ends)
    target = torch.tensor(
        [s[:end] + [PAD] * (longest - end) for s, end in zip(sentences, ends, strict=True)]
    )
    with torch.no_grad():
        steps = model(source.expand(len(target), -1), target[:, :-1]).log_softmax(-1)
    chosen = steps.gather(-1, target[:, 1:, None]).squeeze(-1)
    return [row[: end - 1].sum().item() for row, end in zip(chosen, ends, strict=True)]


# ------------------------------------------------------------------------------------------- greedy


def slow_greedy(model, source: torch.Tensor, max_length: int) -> list[int]:
    """Return the greedy sentence of one source: the whole model again for every token."""
    tokens = [BOS]
    while len(tokens) < max_length and tokens[-1] != EOS:
        with torch.no_grad():
            tokens.append(model(source, torch.tensor([tokens]))[0, -1].argmax().item())
    return tokens


@some
@given(seed=st.integers(0, 10**6), sharpness=SHARPNESS, use_cache=st.booleans())
def test_greedy_takes_the_most_probable_token_and_stops_at_eos(tiny, seed, sharpness, use_cache):
    model, source = tiny(seed=seed, sharpness=sharpness), sources(seed)
    tokens = greedy_decode(model, source, max_length=9, use_cache=use_cache)
    singles = [slow_greedy(model, source[i : i + 1], 9) for i in range(len(source))]
    assert tokens.tolist() == [s + [PAD] * (tokens.shape[1] - len(s)) for s in singles]
    assert tokens.shape[1] == max(map(len, singles))  # and no column of padding alone


def eager_to_end(tiny, seed: int):
    """Return a model that ends sentences at different steps, so that batches shrink."""
    model = tiny(seed=seed, sharpness=2.0)
    with torch.no_grad():
        model.generator.weight[EOS] *= 1.5
    return model


def test_sentences_end_each_on_its_own_and_padding_follows(tiny):
    lengths = set()
    for seed in range(4):
        model, source = eager_to_end(tiny, seed), sources(seed, count=12)
        for tokens in (
            greedy_decode(model, source, max_length=20),
            beam_search(model, source, beam=3, max_length=20),
            sample(model, source, generator=seeded(), max_length=20),
        ):
            assert tokens[:, 0].tolist() == [BOS] * 12
            for sentence in tokens.tolist():
                if EOS in sentence:
                    end = sentence.index(EOS)
                    assert sentence[end + 1 :] == [PAD] * (len(sentence) - end - 1)
                    lengths.add(end)
                else:
                    assert len(sentence) == 20
    assert len(lengths) > 5  # they did end at different steps


@some
@given(seed=st.integers(0, 10**6), beam=st.integers(2, 4))
def test_a_batch_decodes_as_its_sentences_one_by_one(tiny, seed, beam):
    model, source = eager_to_end(tiny, seed), sources(seed)
    together = padded(beam_search(model, source, beam=beam, max_length=12), 12)
    for i in range(len(source)):
        alone = source[i : i + 1]
        alone = alone[:, : int((alone != PAD).sum())]  # and without its padding
        assert together[i].tolist() == padded(
            beam_search(model, alone, beam=beam, max_length=12), 12
        )[0].tolist()  # fmt: skip


@pytest.mark.parametrize(
    "decode",
    [
        greedy_decode,
        lambda model, source: beam_search(model, source, beam=3),
        lambda model, source: sample(model, source, generator=seeded()),
    ],
    ids=["greedy", "beam", "sample"],
)
def test_a_model_in_training_decodes_without_dropout_and_goes_on_training(tiny, decode):
    model = tiny(dropout=0.5)
    expected = decode(model.eval(), sources(0))
    assert decode(model.train(), sources(0)).equal(expected)
    assert all(module.training for module in model.modules())
    with pytest.raises(ValueError):
        decode(model, sources(0) + 100)  # ids beyond the vocabulary
    assert model.training


def test_decoding_fills_the_models_max_length_by_default(tiny):
    model = tiny(max_length=7)
    with torch.no_grad():
        model.generator.weight[EOS] = 0
        model.decoder.layers[-1].add_norm_3.norm.weight.zero_()
        model.decoder.layers[-1].add_norm_3.norm.bias.fill_(1.0)
        model.generator.weight[5] = 1.0  # so that 5 always wins, and no sentence ends
    expected = [[BOS, 5, 5, 5, 5, 5, 5]] * 2
    assert greedy_decode(model, sources(0, 2)).tolist() == expected
    assert beam_search(model, sources(0, 2), beam=2).tolist() == expected
    assert sample(model, sources(0, 2), generator=seeded(), top_k=1).tolist() == expected


# -------------------------------------------------------------------------------------- beam search


@settings(some, max_examples=25)
@given(
    seed=st.integers(0, 10**6), sharpness=SHARPNESS, length_penalty=st.sampled_from([0.0, 0.6, 2.0])
)
def test_a_beam_of_one_is_greedy(tiny, seed, sharpness, length_penalty):
    model, source = tiny(seed=seed, sharpness=sharpness), sources(seed)
    greedy = greedy_decode(model, source, max_length=10)
    beam = beam_search(model, source, beam=1, max_length=10, length_penalty=length_penalty)
    assert beam.tolist() == greedy.tolist()


def all_sentences(V: int, max_length: int):
    """Yield every sentence: EOS at the end and nowhere else, or cut off at `max_length`."""
    others = [token for token in range(V) if token != EOS]
    for n in range(max_length - 1):
        for words in itertools.product(others, repeat=n):
            yield [BOS, *words, EOS]
    for words in itertools.product(others, repeat=max_length - 1):
        yield [BOS, *words]


@some
@given(
    seed=st.integers(0, 10**6),
    sharpness=SHARPNESS,
    length_penalty=st.sampled_from([0.0, 0.6, 1.0, 3.0]),
    max_length=st.integers(2, 5),
)
def test_a_wide_beam_finds_the_best_of_all_sentences(
    tiny, seed, sharpness, length_penalty, max_length
):
    model = tiny(seed=seed, sharpness=sharpness, target_vocab_size=4)
    source = sources(seed, count=2)
    sentences = list(all_sentences(4, max_length))
    tokens, scores = beam_search(
        model,
        source,
        beam=len(sentences),
        max_length=max_length,
        length_penalty=length_penalty,
        return_all=True,
    )
    for b in range(2):
        penalty = [((5 + len(s) - 1) / 6) ** length_penalty for s in sentences]
        reference = [
            x / p for x, p in zip(log_p(model, source[b : b + 1], sentences), penalty, strict=True)
        ]
        ranked = sorted(zip([EOS in s for s in sentences], reference, sentences, strict=True))[::-1]
        found = padded(tokens[b], max_length).tolist()
        best = ranked[0][2]
        assert found[0] == best + [PAD] * (max_length - len(best))
        assert sorted(found) == sorted(s + [PAD] * (max_length - len(s)) for s in sentences)
        expected = torch.tensor([score for _, score, _ in ranked])  # what ended comes first
        assert_close(scores[b], expected, rtol=1e-4, atol=1e-5)


@some
@given(
    seed=st.integers(0, 10**6),
    beam=st.integers(1, 5),
    length_penalty=st.sampled_from([0.0, 0.6, 2.0]),
)
def test_returned_scores_are_those_of_teacher_forcing(tiny, seed, beam, length_penalty):
    model, source = eager_to_end(tiny, seed), sources(seed, count=3)
    tokens, scores = beam_search(
        model, source, beam=beam, max_length=9, length_penalty=length_penalty, return_all=True
    )
    assert tokens.shape[:2] == scores.shape == (3, beam)
    ended = (tokens == EOS).any(dim=2)
    assert (ended[:, :-1] >= ended[:, 1:]).all()  # a prefix is no sentence: it comes last
    falling = scores.diff(dim=1) <= 0
    assert (falling | (ended[:, :-1] > ended[:, 1:])).all()
    best = beam_search(model, source, beam=beam, max_length=9, length_penalty=length_penalty)
    assert best.tolist() == tokens[:, 0].tolist()
    for b in range(3):
        sentences = tokens[b].tolist()
        expected = log_p(model, source[b : b + 1], sentences)
        for k, sentence in enumerate(sentences):
            n = sentence.index(EOS) if EOS in sentence else len(sentence) - 1
            penalised = expected[k] / ((5 + n) / 6) ** length_penalty
            assert scores[b, k].item() == pytest.approx(penalised, rel=1e-4, abs=1e-5)
    assert all(len(set(map(tuple, row))) == beam for row in tokens.tolist())


@pytest.mark.parametrize("kind", [torch.float64, torch.bfloat16])
def test_a_model_of_another_precision_decodes_too(tiny, kind):
    model, source = tiny().to(kind), sources(0)
    assert beam_search(model, source, beam=1).tolist() == greedy_decode(model, source).tolist()
    _, scores = beam_search(model, source, beam=3, return_all=True)
    assert scores.dtype == torch.float32  # in bfloat16, hypotheses would have equal scores


def test_a_beam_finds_what_greedy_misses(tiny):
    better = 0
    for seed in range(5):
        model, source = tiny(seed=seed), sources(seed)
        greedy = greedy_decode(model, source, max_length=6).tolist()
        beam = beam_search(model, source, beam=8, max_length=6, length_penalty=0.0).tolist()
        for i in range(len(source)):
            one, other = log_p(model, source[i : i + 1], [greedy[i], beam[i]])
            better += other > one + 1e-4
    assert better >= 3


# ----------------------------------------------------------------------------- top-k, top-p, chance


def naive_top_k(logits: list[float], k: int) -> list[float]:
    order = sorted(range(len(logits)), key=lambda i: (-logits[i], i))
    return [x if i in order[:k] else -math.inf for i, x in enumerate(logits)]


def naive_top_p(logits: list[float], p: float) -> list[float]:
    order = sorted(range(len(logits)), key=lambda i: (-logits[i], i))
    total = sum(math.exp(x) for x in logits)
    kept, reached = [], 0.0
    for i in order:
        if kept and reached >= p:
            break
        kept.append(i)
        reached += math.exp(logits[i]) / total
    return [x if i in kept else -math.inf for i, x in enumerate(logits)]


# Quarters, so that ties happen.
ROW = st.lists(st.integers(-12, 12).map(lambda i: i / 4), min_size=1, max_size=8)


@settings(some, max_examples=60)
@given(row=ROW, k=st.integers(1, 10))
def test_top_k_keeps_the_k_largest_and_the_lower_ids_of_equals(row, k):
    assert keep_top_k(torch.tensor(row), k).tolist() == naive_top_k(row, k)


@settings(some, max_examples=60)
@given(row=ROW, p=st.floats(0.01, 0.99))
def test_top_p_keeps_the_smallest_set_that_reaches_p(row, p):
    kept = keep_top_p(torch.tensor(row), p).tolist()
    # Where the sum meets p to within rounding, one token more or less is as good.
    near = [naive_top_p(row, p * factor) for factor in (1 - 1e-5, 1, 1 + 1e-5)]
    assert kept in near and max(kept) == max(row)


def test_top_p_at_its_ends():
    equal = torch.zeros(5)
    assert keep_top_p(equal, 1.0).tolist() == [0.0] * 5
    assert keep_top_p(equal, 1e-9).tolist() == [0.0] + [-math.inf] * 4
    sure = torch.tensor([0.0, 200.0, 0.0])
    assert keep_top_p(sure, 0.999).tolist() == [-math.inf, 200.0, -math.inf]
    assert keep_top_k(equal, 9).tolist() == [0.0] * 5


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_top_p_sums_a_large_vocabulary_exactly_enough(kind):
    logits = 3 * torch.randn(10_000, generator=seeded()).to(kind)
    assert (keep_top_p(logits, 1.0) > -math.inf).all()
    kept = logits.double().softmax(-1)[keep_top_p(logits, 0.9) > -math.inf].sum()
    assert 0.9 - 1e-4 < kept < 0.901


@pytest.mark.parametrize("shape", [(7,), (3, 7), (2, 3, 7)])
def test_top_k_and_top_p_treat_every_row_alone_and_leave_their_input(shape):
    logits = torch.randn(shape, generator=seeded())
    copy = logits.clone()
    for cut, value in ((keep_top_k, 3), (keep_top_p, 0.7)):
        expected = torch.stack([cut(row, value) for row in logits.reshape(-1, 7)])
        assert_close(cut(logits, value), expected.reshape(shape), rtol=0, atol=0)
    assert torch.equal(logits, copy)


@pytest.mark.parametrize(
    "settings_", [{}, {"temperature": 0.5}, {"temperature": 3.0}, {"top_k": 3}, {"top_p": 0.6}]
)
def test_tokens_are_drawn_as_often_as_the_model_says(tiny, settings_):
    model, count = tiny(seed=3), 4000
    source = sources(1, count=2)
    logits = model(source, torch.tensor([[BOS], [BOS]]))[:, 0] / settings_.get("temperature", 1)
    if "top_k" in settings_:
        logits = keep_top_k(logits, settings_["top_k"])
    if "top_p" in settings_:
        logits = keep_top_p(logits, settings_["top_p"])
    expected = logits.softmax(-1).detach()
    drawn = sample(
        model, source.repeat(count, 1), generator=seeded(1), max_length=2, **settings_
    )[:, 1].view(count, 2)  # fmt: skip
    for b in range(2):
        frequency = torch.bincount(drawn[:, b], minlength=9) / count
        spread = (expected[b] * (1 - expected[b]) / count).sqrt()
        assert ((frequency - expected[b]).abs() <= 4.5 * spread).all()


def test_sampling_depends_on_the_generator_alone(tiny):
    model, source = tiny(sharpness=0.3), sources(0)
    state = torch.random.get_rng_state()
    one, same, other = (
        sample(model, source, generator=seeded(seed), max_length=12).tolist() for seed in (1, 1, 2)
    )
    with torch.random.fork_rng():
        torch.manual_seed(99)
        again = sample(model, source, generator=seeded(1), max_length=12).tolist()
    greedy_decode(model, source, max_length=5)
    beam_search(model, source, max_length=5)
    assert one == same == again != other
    assert torch.equal(torch.random.get_rng_state(), state)


def test_a_cold_sample_is_greedy(tiny):
    model, source = tiny(sharpness=3.0), sources(2)
    cold = sample(model, source, generator=seeded(), temperature=1e-3, max_length=10)
    assert cold.tolist() == greedy_decode(model, source, max_length=10).tolist()


def test_decoding_leaves_the_model_as_it_was(tiny):
    model, source = tiny(), sources(0)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    for tokens in (
        greedy_decode(model, source, max_length=5),
        beam_search(model, source, max_length=5),
        sample(model, source, generator=seeded(), max_length=5),
    ):
        assert not tokens.requires_grad and tokens.dtype == torch.int64
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name])


def test_at_the_lowest_temperature_even_half_precision_takes_the_most_probable_token(tiny):
    model = tiny(sharpness=0.05).half()  # a millionth of its logits' steps is out of its range
    drawn = sample(model, sources(0), generator=seeded(), temperature=1e-6, max_length=9)
    assert torch.equal(drawn, greedy_decode(model, sources(0), max_length=9))


def test_selecting_rows_of_a_cache_copies_what_is_held_and_no_room():
    cache = KVCache()
    for _ in range(17):  # one more than the first room
        cache.append(torch.ones(2, 1, 1, 3), torch.ones(2, 1, 1, 4))
    cache.select(torch.tensor([1, 0, 1]))
    keys, values = cache.read()
    assert keys.shape == (3, 1, 17, 3) and values.shape == (3, 1, 17, 4)
    assert keys.untyped_storage().nbytes() == keys.numel() * keys.element_size()
