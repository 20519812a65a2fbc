"""What holds for every model, whatever its weights: each is also shown in a lesson."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from transformer_lab import (
    Encoder,
    ModelConfig,
    Transformer,
    attention_maps,
    decoder_mask,
    load,
    padding_mask,
    save,
    scaled_dot_product_attention,
)
from transformer_lab.config import PAD
from transformer_lab.saving import parameters_of

some = settings(max_examples=12)  # others in each run

KINDS = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 10**6),
        "num_heads": st.sampled_from([1, 2, 4]),
        "num_encoder_layers": st.integers(0, 2),
        "num_decoder_layers": st.integers(0, 2),
        "pre_norm": st.booleans(),
        "tie_embeddings": st.booleans(),
        "activation_dropout": st.booleans(),
    }
)
SEEDS = st.integers(0, 10**6)


def draw_ids(seed: int, *shape: int, low: int = 4, high: int = 9) -> torch.Tensor:
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(seed))


def make(tiny, kind: dict, **sizes) -> Transformer:
    return tiny(source_vocab_size=9, target_vocab_size=9, **kind, **sizes)


def close(actual: torch.Tensor, expected: torch.Tensor) -> None:
    assert_close(actual, expected, rtol=1e-4, atol=1e-5)


def moved(a: torch.Tensor, b: torch.Tensor) -> bool:
    return (a - b).abs().max().item() > 1e-3


# --------------------------------------------------------------------------------------- causality


@some
@given(kind=KINDS, seed=SEEDS, t=st.integers(0, 5), train=st.booleans(), to_pad=st.booleans())
def test_no_logit_before_a_changed_token_moves(tiny, kind, seed, t, train, to_pad):
    model = make(tiny, kind).train(train)
    source, target = draw_ids(seed, 3, 4), draw_ids(seed + 1, 3, 6)
    changed = target.clone()
    changed[:, t] = PAD if to_pad else 4 + (target[:, t] - 3) % 5
    before, after = model(source, target), model(source, changed)
    assert_close(after[:, :t], before[:, :t], rtol=0, atol=0)
    assert moved(after[:, t], before[:, t])  # else the line above would say nothing


@some
@given(kind=KINDS, seed=SEEDS, t=st.integers(0, 4))
def test_the_gradient_of_a_logit_reaches_no_later_token(tiny, kind, seed, t):
    model = make(tiny, kind)
    embedded = []
    model.target_embedding.register_forward_hook(lambda *call: embedded.append(call[-1]))
    logits = model(draw_ids(seed, 2, 4), draw_ids(seed + 1, 2, 5))
    embedded[0].retain_grad()
    logits[:, t].logsumexp(-1).sum().backward()
    reached = embedded[0].grad.abs().amax(dim=(0, 2)) > 0
    assert reached[t] and not reached[t + 1 :].any()
    assert reached[:t].all() or kind["num_decoder_layers"] == 0


# ----------------------------------------------------------------------------------------- padding


@some
@given(kind=KINDS, seed=SEEDS, source_pads=st.integers(0, 3), target_pads=st.integers(0, 3))
def test_padding_moves_nothing(tiny, kind, seed, source_pads, target_pads):
    model = make(tiny, kind)
    source, target = draw_ids(seed, 3, 4), draw_ids(seed + 1, 3, 5)
    source[1, 3:], target[2, 2:] = PAD, PAD
    longer_source = torch.cat((source, source.new_full((3, source_pads), PAD)), dim=1)
    longer_target = torch.cat((target, target.new_full((3, target_pads), PAD)), dim=1)
    close(model(longer_source, longer_target)[:, :5], model(source, target))


@some
@given(kind=KINDS, seed=SEEDS)
def test_a_sentence_alone_is_the_sentence_in_a_batch(tiny, kind, seed):
    model = make(tiny, kind)
    source, target = draw_ids(seed, 4, 6), draw_ids(seed + 1, 4, 5)
    lengths = [(6, 5), (1, 3), (4, 1), (2, 5)]
    for i, (s, t) in enumerate(lengths):
        source[i, s:], target[i, t:] = PAD, PAD
    logits = model(source, target)
    for i, (s, t) in enumerate(lengths):
        close(logits[i : i + 1, :t], model(source[i : i + 1, :s], target[i : i + 1, :t]))


# ----------------------------------------------------- teacher forcing, step by step, with a cache


@settings(some, max_examples=6)
@given(kind=KINDS, seed=SEEDS, cuts=st.sets(st.integers(1, 19)), pads=st.booleans())
def test_one_pass_is_step_by_step_is_cached(tiny, kind, seed, cuts, pads):
    """Also with padding anywhere in the prefix, and with several tokens in a call of the cache."""
    model = make(tiny, kind)
    source, target = draw_ids(seed, 3, 4), draw_ids(seed + 1, 3, 20, low=0 if pads else 4)
    source[0, 2:] = PAD
    memory, mask = model.encode(source)
    logits = model.decode(target, memory, mask)
    for t in range(1, 21):
        close(model.decode(target[:, :t], memory, mask)[:, -1], logits[:, t - 1])
    for edges in (range(21), [0, *sorted(cuts), 20]):
        cache = model.new_cache()
        with torch.no_grad():
            parts = [
                model.decode(target[:, a:b], memory, mask, cache=cache)
                for a, b in itertools.pairwise(edges)
            ]
        close(torch.cat(parts, dim=1), logits)
        assert cache.length == 20


@some
@given(kind=KINDS, seed=SEEDS, rows=st.lists(st.integers(0, 2), min_size=1, max_size=5))
def test_a_cache_keeps_the_sentences_that_are_selected_in_their_new_order(tiny, kind, seed, rows):
    model = make(tiny, kind)
    source, target = draw_ids(seed, 3, 4), draw_ids(seed + 1, 3, 20, low=0)
    rows, cache = torch.tensor(rows), model.new_cache()
    memory, mask = model.encode(source)
    with torch.no_grad():
        model.decode(target[:, :13], memory, mask, cache=cache)
        cache.select(rows)
        rest = model.decode(target[rows, 13:], memory[rows], mask[rows], cache=cache)
    close(rest, model(source[rows], target[rows])[:, 13:])


@pytest.mark.usefixtures("without_shape_checks")
@pytest.mark.parametrize("read", [0, 13])
@pytest.mark.parametrize("wrong", ["mask", "last layer", "number of layers"])
def test_a_call_that_is_refused_leaves_the_cache_as_it_was(tiny, wrong, read):
    model, source, target = tiny(num_decoder_layers=2), draw_ids(0, 3, 4), draw_ids(1, 3, 20)
    memory, mask = model.encode(source)
    cache, layers = model.new_cache(), list(model.decoder.layers)
    if read:
        model.decode(target[:, :read], memory, mask, cache=cache)
    if wrong == "last layer":
        model.decoder.layers[-1] = tiny(d_model=4).decoder.layers[0]
    elif wrong == "number of layers":
        del model.decoder.layers[-1]
    padding = torch.full((3, 2), PAD)
    with pytest.raises((ValueError, RuntimeError)):
        model.decode(padding, memory, mask.float() if wrong == "mask" else mask, cache=cache)
    model.decoder.layers = torch.nn.ModuleList(layers)
    assert cache.length == read and not cache.has_padding
    rest = model.decode(target[:, read:], memory, mask, cache=cache)
    close(rest, model(source, target)[:, read:])


# ---------------------------------------------------------------------------- order and other modes


@some
@given(seed=SEEDS, order=st.permutations(range(5)), pre_norm=st.booleans())
def test_without_positions_the_encoder_does_not_know_the_order(tiny, seed, order, pre_norm):
    model, source = tiny(seed=seed, pre_norm=pre_norm), draw_ids(seed, 2, 5)
    source[1, 3:] = PAD
    x, mask = model.source_embedding(source), padding_mask(source)
    close(model.encoder(x[:, order], mask[..., order]), model.encoder(x, mask)[:, order])


def test_with_positions_the_encoder_knows_the_order(tiny):
    model, source = tiny(), draw_ids(3, 2, 5)
    assert moved(model.encode(source.flip(1))[0], model.encode(source)[0].flip(1))


@some
@given(kind=KINDS, seed=SEEDS)
def test_without_dropout_training_computes_what_evaluation_does(tiny, kind, seed):
    model = make(tiny, kind)
    source, target = draw_ids(seed, 3, 4, low=0), draw_ids(seed + 1, 3, 5, low=0)
    expected = model.eval()(source, target)
    assert_close(model.train()(source, target), expected, rtol=0, atol=0)


def test_with_dropout_training_differs_and_evaluation_does_not(tiny):
    model, plain = tiny(dropout=0.5), tiny(dropout=0.0)
    source, target = draw_ids(0, 3, 4), draw_ids(1, 3, 5)
    expected = plain(source, target)
    assert_close(model.eval()(source, target), expected, rtol=0, atol=0)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        assert moved(model.train()(source, target), expected)


@pytest.mark.parametrize("activation_dropout", [True, False])
def test_the_hidden_numbers_of_the_networks_are_dropped_if_the_settings_say_so(
    tiny, activation_dropout
):
    model = tiny(dropout=0.5, activation_dropout=activation_dropout).train()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        for stack in (model.encoder, model.decoder):
            layer, x = stack.layers[0], torch.randn(2, 3, model.config.d_model)
            network, frame = layer.feed_forward, layer.add_norm_1
            assert moved(network(x), network(x)) == activation_dropout
            assert moved(frame(x, abs), frame(x, abs))  # what a sub-layer adds, always


# -------------------------------------------------------------------------------------------- masks


@some
@given(seed=SEEDS, j=st.integers(0, 4))
def test_a_mask_forbids_keys_to_queries_and_nothing_else(seed, j):
    generator = torch.Generator().manual_seed(seed)
    q, k, v = (torch.randn(2, 3, 5, 4, generator=generator) for _ in range(3))
    mask = torch.rand(2, 3, 5, 5, generator=generator) < 0.6
    before, _ = scaled_dot_product_attention(q, k, v, mask)
    k[:, :, j] += 1
    v[:, :, j] += 1
    after, _ = scaled_dot_product_attention(q, k, v, mask)
    may = mask[..., j]
    assert_close(after[~may], before[~may], rtol=0, atol=0)
    assert ((after - before).abs().amax(-1) > 1e-4)[may].all()


@some
@given(seed=SEEDS, pads=st.integers(0, 3))
def test_every_query_may_look_somewhere_even_a_padded_one(seed, pads):
    tokens = draw_ids(seed, 3, 4)
    tokens[1, 4 - pads :] = PAD
    own, crossed = decoder_mask(tokens), padding_mask(tokens)
    assert own.shape == (3, 1, 4, 4) and crossed.shape == (3, 1, 1, 4)
    assert own.any(-1).all() and crossed.any(-1).all()
    for b, i, j in itertools.product(range(3), range(4), range(4)):
        real = bool(tokens[b, j] != PAD)
        assert bool(crossed[b, 0, 0, j]) == real
        assert bool(own[b, 0, i, j]) == (real and j <= i)


@some
@given(kind=KINDS, seed=SEEDS)
def test_attention_maps_are_the_weights_that_the_model_uses(tiny, kind, seed):
    model = make(tiny, kind)
    source, target = draw_ids(seed, 2, 4), draw_ids(seed + 1, 2, 5)
    source[1, 2:] = PAD
    before = model(source, target)
    maps = attention_maps(model, source, target)
    assert len(maps) == kind["num_encoder_layers"] + 2 * kind["num_decoder_layers"]
    for name, weights_ in maps.items():
        Lq, Lk = 4 if "encoder" in name else 5, 5 if "decoder" in name and "self" in name else 4
        assert weights_.shape == (2, kind["num_heads"], Lq, Lk)
        assert_close(weights_.sum(-1), torch.ones(weights_.shape[:-1]))
        if Lk == 4:
            assert (weights_[1, :, :, 2:] == 0).all()
        else:
            assert (weights_.triu(1) == 0).all()
    assert_close(model(source, target), before, rtol=0, atol=0)
    assert not any(module._forward_hooks for module in model.modules())


# ----------------------------------------------------------------------------------- save and load


@some
@given(kind=KINDS, seed=SEEDS)
def test_a_loaded_model_gives_the_same_logits_bit_for_bit(tiny, tmp_path_factory, kind, seed):
    model = make(tiny, kind, dropout=0.3)
    folder = tmp_path_factory.mktemp("model")
    save(model, folder)
    state = torch.random.get_rng_state()
    loaded = load(folder)
    assert torch.equal(state, torch.random.get_rng_state())
    assert loaded.config == model.config and not loaded.training
    source, target = draw_ids(seed, 3, 4), draw_ids(seed + 1, 3, 5)
    assert_close(loaded(source, target), model(source, target), rtol=0, atol=0)
    if kind["tie_embeddings"]:
        assert loaded.generator.weight is loaded.source_embedding.table
        assert loaded.generator.weight is loaded.target_embedding.table


def test_a_tied_matrix_is_stored_once(tiny, tmp_path):
    model = tiny(source_vocab_size=5000, target_vocab_size=5000, tie_embeddings=True)
    save(model, tmp_path)
    matrix = 4 * model.generator.weight.numel()
    assert matrix < (tmp_path / "weights.safetensors").stat().st_size < 1.5 * matrix


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_weights_of_another_precision_come_back_as_float32(tiny, tmp_path, dtype):
    model = tiny().to(dtype)
    save(model, tmp_path)
    for name, parameter in parameters_of(load(tmp_path)).items():
        assert parameter.dtype == torch.float32
        assert_close(parameter, parameters_of(model)[name].float(), rtol=0, atol=0)


def test_a_model_begins_with_the_sizes_of_its_config():
    config = ModelConfig(source_vocab_size=9, target_vocab_size=7, d_model=8, num_heads=2, d_ff=12)
    model = Transformer(config)
    assert isinstance(model.encoder, Encoder) and len(model.encoder.layers) == 6
    assert model(draw_ids(0, 2, 3), draw_ids(1, 2, 4, high=7)).shape == (2, 4, 7)
