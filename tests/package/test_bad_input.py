"""Every public function refuses bad input in one sentence, or does something that is written down.

The run-time shape checks of the test run are off here: this is what a user sees.
"""

import copy
import inspect
import math
import sys

import jaxtyping
import pytest
import torch
from torch import Tensor, nn

import transformer_lab as lab
from transformer_lab import (
    PRESETS,
    AddNorm,
    Batch,
    Decoder,
    DecoderLayer,
    Encoder,
    EncoderLayer,
    FeedForward,
    KVCache,
    ModelConfig,
    MultiHeadAttention,
    Objective,
    PositionalEncoding,
    Preset,
    Run,
    TokenEmbedding,
    Tokenizer,
    TrainConfig,
    Transformer,
    attention_maps,
    average_checkpoints,
    batches_by_tokens,
    beam_search,
    causal_mask,
    date_pairs,
    decoder_mask,
    fit,
    greedy_decode,
    keep_top_k,
    keep_top_p,
    load,
    load_multi30k,
    load_run,
    merge_heads,
    noam_rate,
    padding_mask,
    sample,
    save,
    scaled_dot_product_attention,
    sequence_loss,
    sinusoidal_encoding,
    split_heads,
    train,
    train_step,
    train_tokenizer,
    validate,
)
from transformer_lab.cache import DecoderCache
from transformer_lab.config import EOS, PAD
from transformer_lab.support import validation

pytestmark = pytest.mark.usefixtures("without_shape_checks")

NAN = math.nan
SIZES = dict(
    source_vocab_size=9, target_vocab_size=9, d_model=8, num_heads=2, d_ff=12,
    num_encoder_layers=1, num_decoder_layers=1, dropout=0.0, max_length=10,
)  # fmt: skip
CONFIG = ModelConfig(**SIZES)
TRAINING = TrainConfig(steps=2, max_tokens=20, warmup=2)
PARTS = {"data": "dates", "model": CONFIG, "training": TRAINING}
with torch.random.fork_rng():
    MODEL = Transformer(CONFIG).eval()
    ATTENTION, ADD_NORM = MultiHeadAttention(8, 2), AddNorm(8, 0.0)
    ENCODER_LAYER, DECODER_LAYER = EncoderLayer(8, 2, 12, 0.0), DecoderLayer(8, 2, 12, 0.0)
OBJECTIVE = Objective(MODEL, TRAINING)
CHARACTERS = train_tokenizer(["abcde", "fg h"], kind="characters")
PIECES = train_tokenizer(["a red dog", "a red cat and a dog"], 40)

IDS = torch.tensor([[4, 5, 6, 2], [7, 2, 0, 0]])
TARGET = torch.tensor([[1, 4, 5, 2], [1, 6, 2, 0]])
X = torch.zeros(2, 4, 8)  # (B, L, d_model)
Q, K, V = torch.zeros(2, 3, 5, 4), torch.zeros(2, 3, 6, 4), torch.zeros(2, 3, 6, 7)
MASK = torch.ones(5, 6, dtype=torch.bool)
LOGITS = torch.zeros(2, 4, 9)
PAIRS = [([4, EOS], [5, 6, EOS]), ([7, EOS], [8, EOS])]
BATCH = Batch.from_pairs(PAIRS)
LONG = [4] * 10 + [EOS]
GOOD_PAIRS = b"".join(b"a %d\tb %d\n" % (i, i) for i in range(20))
GENERATOR = torch.Generator()


def optimizer() -> torch.optim.Optimizer:
    return torch.optim.SGD(MODEL.parameters(), lr=0.0)


def broken() -> Transformer:
    """Return a model of which one weight is no number."""
    model = copy.deepcopy(MODEL)
    with torch.no_grad():
        model.generator.weight[3, 3] = NAN
    return model


def last_word(word: int) -> Tensor:
    """Return targets that end in this id, which the decoder never reads."""
    target = TARGET.clone()
    target[0, -1] = word
    return target


def filled_cache() -> KVCache:
    cache = KVCache()
    cache.append(torch.zeros(2, 3, 4, 5), torch.zeros(2, 3, 4, 6))
    return cache


def tokens_alone() -> DecoderCache:
    """Return the cache of a decoder without layers."""
    cache = DecoderCache(0)
    cache.append(TARGET)
    return cache


def trained(data: str = "dates") -> Run:
    """Return a run with a vocabulary of nine characters."""
    return Run(None, MODEL, Tokenizer(["a", "b", "c", "d", "▁"]), data, 1)


def with_cache(target: Tensor, rows: tuple[int, ...] = (0, 1)) -> Tensor:
    memory, mask = MODEL.encode(IDS)
    cache = MODEL.new_cache()
    MODEL.decode(TARGET, memory, mask, cache=cache)
    cache.select(torch.tensor(rows))
    return MODEL.decode(target, memory[: len(target)], mask[: len(target)], cache=cache)


def pieces(count: int) -> dict:
    return {"source_vocab_size": count, "target_vocab_size": count}


def a_file(folder, content=b"text"):
    (folder / "file").write_bytes(content)
    return folder / "file"


def train_pairs(folder, content, **files):
    return train("pairs", folder / "run", data=a_file(folder, content), **files)


# What is called, the words for what was expected, and the words for what came.
BAD = {
    "scaled_dot_product_attention": [
        (lambda: scaled_dot_product_attention([1.0], K, V), "query must be floating-point", "list"),
        (lambda: scaled_dot_product_attention(Q[0, 0, 0], K, V), "(..., Lq, d_k)", "(4,)"),
        (lambda: scaled_dot_product_attention(Q, K.long(), V), "floating-point", "torch.int64"),
        (lambda: scaled_dot_product_attention(Q, K, None), "value must be", "NoneType"),
        (lambda: scaled_dot_product_attention(Q, V, V), "same last axis (d_k)", "4 and 7"),
        (lambda: scaled_dot_product_attention(Q, K, V[:, :, :5]), "Lk", "(2, 3, 5, 7)"),
        (lambda: scaled_dot_product_attention(Q[:1], K, V), "leading axes", "(1, 3, 5, 4)"),
        (lambda: scaled_dot_product_attention(Q, K, V, MASK.float()), "boolean", "torch.float32"),
        (lambda: scaled_dot_product_attention(Q, K, V, [True]), "mask must be boolean", "list"),
        (lambda: scaled_dot_product_attention(Q, K, V, MASK.T), "(2, 3, 5, 6)", "(6, 5)"),
        (lambda: scaled_dot_product_attention(Q, K, V, MASK.expand(1, 1, 1, 5, 6)), "to", "1, 5"),
        (lambda: scaled_dot_product_attention(Q.double(), K, V), "the same type", "torch.float64"),
        (lambda: scaled_dot_product_attention(Q, K.to("meta"), V), "on one device", "meta"),
    ],
    "MultiHeadAttention": [
        (lambda: MultiHeadAttention(8, 3), "must divide d_model=8", "num_heads=3"),
        (lambda: MultiHeadAttention(8.0, 2), "d_model must be a whole number", "8.0"),
        (lambda: MultiHeadAttention(8, "2"), "num_heads must be a whole number", "'2'"),
        (lambda: ATTENTION(X, X, X[:, :3]), "same length", "(2, 2, 3, 4)"),
        (lambda: ATTENTION(X, X[:1], X[:1]), "same leading axes", "(1, 2, 4, 4)"),
        (lambda: ATTENTION(X, X, X, MASK), "(2, 2, 4, 4)", "(5, 6)"),
        (lambda: ATTENTION(X, X, X, torch.ones(4, 4)), "boolean", "torch.float32"),
    ],
    "KVCache": [
        (lambda: KVCache().read(), "holds keys and values", "none yet"),
        (lambda: KVCache().append(X, X), "(B, H, L, d_k)", "(2, 4, 8)"),
        (lambda: KVCache().append(K, V[:, :, :5]), "(2, 3, 6, 7)", "(2, 3, 5, 7)"),
        (lambda: filled_cache().append(K[:1], V[:1]), "(2, 3, 6, 5)", "(1, 3, 6, 4)"),
        (lambda: filled_cache().append(torch.zeros(2, 3, 1, 5).double(), V), "32", "float64"),
    ],
    "causal_mask": [
        (lambda: causal_mask(-1), "whole number from 0", "-1"),
        (lambda: causal_mask(2.0), "whole number", "2.0"),
        (lambda: causal_mask("3"), "whole number", "'3'"),
        (lambda: causal_mask(X), "whole number", "shape (2, 4, 8)"),
    ],
    "padding_mask": [
        (lambda: padding_mask([[1]]), "tokens must be a tensor of shape (B, L)", "list"),
        (lambda: padding_mask(IDS[0]), "(B, L)", "(4,)"),
        (lambda: padding_mask(IDS.float()), "integer ids", "torch.float32"),
        (lambda: padding_mask(IDS > 1), "integer ids", "torch.bool"),
    ],
    "decoder_mask": [
        (lambda: decoder_mask(None), "tokens must be a tensor of shape (B, L)", "NoneType"),
        (lambda: decoder_mask(IDS[None]), "(B, L)", "(1, 2, 4)"),
        (lambda: decoder_mask(X[0]), "integer ids", "torch.float32"),
    ],
    "sinusoidal_encoding": [
        (lambda: sinusoidal_encoding(-1, 8), "length must be", "-1"),
        (lambda: sinusoidal_encoding(3, 7), "d_model must be even", "7"),
        (lambda: sinusoidal_encoding(3, "8"), "d_model must be a whole", "'8'"),
        (lambda: sinusoidal_encoding(3.0, 8), "length must be", "3.0"),
    ],
    "PositionalEncoding": [
        (lambda: PositionalEncoding(7), "d_model must be even", "7"),
        (lambda: PositionalEncoding(8, -1), "length must be", "-1"),
        (lambda: PositionalEncoding(8, 10, 2.0), "between 0 and 1", "2.0"),
        (lambda: PositionalEncoding(8, 10, NAN), "between 0 and 1", "nan"),
        (lambda: MODEL.positions(torch.zeros(1, 11, 8)), "max_length=10", "11 tokens"),
        (lambda: MODEL.positions(X, offset=7), "max_length=10", "11 tokens"),
        (lambda: MODEL.positions(X, offset=-1), "offset must be a whole number from 0", "-1"),
        (lambda: MODEL.positions(X, offset="1"), "offset must be a whole number", "'1'"),
    ],
    "TokenEmbedding": [
        (lambda: TokenEmbedding(0, 8), "vocab_size must be a whole number from 1", "0"),
        (lambda: TokenEmbedding(9, "8"), "d_model must be a whole number", "'8'"),
    ],
    "FeedForward": [
        (lambda: FeedForward(8, 0), "d_ff must be a whole number from 1", "0"),
        (lambda: FeedForward(None, 12), "d_model must be a whole number", "None"),
        (lambda: FeedForward(8, 12, -0.5), "between 0 and 1", "-0.5"),
        (lambda: FeedForward(8, 12, "0.1"), "between 0 and 1", "'0.1'"),
    ],
    "AddNorm": [
        (lambda: AddNorm(-8), "d_model must be a whole number from 1", "-8"),
        (lambda: AddNorm(8, None), "between 0 and 1", "None"),
    ],
    "EncoderLayer": [
        (lambda: EncoderLayer(8, 3, 12), "must divide d_model=8", "num_heads=3"),
        (lambda: ENCODER_LAYER(X, MASK), "(2, 2, 4, 4)", "(5, 6)"),
    ],
    "DecoderLayer": [
        (lambda: DecoderLayer(8, 2, "12"), "d_ff must be a whole number", "'12'"),
        (lambda: DECODER_LAYER(X, X[:1]), "leading axes", "(1, 2, 4, 4)"),
        (lambda: DECODER_LAYER(X, X, MASK), "(2, 2, 4, 4)", "(5, 6)"),
        (lambda: DECODER_LAYER(X, X, None, MASK), "(2, 2, 4, 4)", "(5, 6)"),
    ],
    "Encoder": [
        (lambda: Encoder(None), "config must be a ModelConfig", "NoneType"),
    ],
    "Decoder": [
        (lambda: Decoder("base"), "config must be a ModelConfig", "str"),
    ],
    "ModelConfig": [
        (lambda: ModelConfig(**SIZES | {"d_model": 9}), "even and a multiple of num_heads", "=9"),
        (lambda: ModelConfig(**SIZES | {"num_heads": 3}), "multiple of num_heads", "num_heads=3"),
        (lambda: ModelConfig(**SIZES | {"d_ff": 0}), "d_ff must be a whole number from 1", "0"),
        (lambda: ModelConfig(**SIZES | {"d_ff": "12"}), "d_ff must be a whole number", "'12'"),
        (lambda: ModelConfig(**SIZES | {"d_ff": X}), "d_ff must be a whole number", "(2, 4, 8)"),
        (lambda: ModelConfig(**SIZES | {"dropout": 1}), "dropout must be a number from 0.0", "1"),
        (lambda: ModelConfig(**SIZES | {"dropout": NAN}), "dropout must be a number", "nan"),
        (lambda: ModelConfig(**SIZES | {"pre_norm": 1}), "pre_norm must be True or False", "1"),
        (lambda: ModelConfig(**SIZES | {"source_vocab_size": 3}), "from 4", "3"),
        (lambda: ModelConfig(**SIZES | {"max_length": 10**6, "d_model": 512}), "2**24", "000,000"),
        (
            lambda: ModelConfig(**SIZES | {"tie_embeddings": True, "target_vocab_size": 8}),
            "needs one vocabulary",
            "target_vocab_size=8",
        ),
    ],
    "TrainConfig": [
        (lambda: TrainConfig(steps=0), "steps must be a whole number from 1", "0"),
        (lambda: TrainConfig(max_tokens=2.5), "max_tokens must be a whole number", "2.5"),
        (lambda: TrainConfig(seed=-1), "seed must be a whole number from 0", "-1"),
        (lambda: TrainConfig(label_smoothing=1.0), "label_smoothing must be a number", "1.0"),
        (lambda: TrainConfig(beta1=None), "beta1 must be a number", "None"),
        (lambda: TrainConfig(clip_norm=True), "clip_norm must be a number", "True"),
        (lambda: TrainConfig(compile="yes"), "compile must be True or False", "'yes'"),
        (lambda: TrainConfig(precision="float16"), '"float32" or "bfloat16"', "'float16'"),
        (lambda: TrainConfig(optimizer="sgd"), '"adam" or "muon"', "'sgd'"),
    ],
    "Preset": [
        (lambda: Preset(data="wmt", model=CONFIG, training=TRAINING), "data must be one of", "wmt"),
        (lambda: Preset(data="dates", model=None, training=TRAINING), "ModelConfig", "NoneType"),
        (lambda: Preset(data="dates", model=CONFIG, training={}), "a TrainConfig", "dict"),
        (lambda: Preset(**PARTS, beam=0), "beam must", "0"),
        (lambda: Preset(**PARTS, length_penalty=-1), "length_penalty", "-1"),
    ],
    "Transformer": [
        (lambda: Transformer({}), "config must be a ModelConfig", "dict"),
        (lambda: MODEL([[1]], TARGET), "source must be a tensor of shape (B, L)", "list"),
        (lambda: MODEL(IDS, None), "target must be a tensor of shape (B, L)", "NoneType"),
        (lambda: MODEL(IDS[0], TARGET), "source must be", "(4,)"),
        (lambda: MODEL(IDS, X), "target must be", "(2, 4, 8)"),
        (lambda: MODEL(IDS.float(), TARGET), "source must hold integer ids", "torch.float32"),
        (lambda: MODEL(IDS[:0], TARGET[:0]), "source must hold at least one", "(0, 4)"),
        (lambda: MODEL(IDS, TARGET[:, :0]), "target must hold at least one", "(2, 0)"),
        (lambda: MODEL(IDS, TARGET[:1]), "same number of sentences", "2 and 1"),
        (lambda: MODEL(IDS + 3, TARGET), "from 0 to 8", "3 to 10"),
        (lambda: MODEL(IDS, TARGET - 1), "from 0 to 8", "-1 to 5"),
        (lambda: MODEL(IDS.repeat(1, 3), TARGET), "max_length=10", "12 tokens"),
        (lambda: MODEL(IDS, TARGET.repeat(1, 3)), "max_length=10", "12 tokens"),
        (lambda: MODEL.encode("a"), "source must be", "str"),
        (lambda: MODEL.decode(TARGET, None), "memory must be", "NoneType"),
        (lambda: MODEL.decode(TARGET, X[..., :6]), "memory must be", "(2, 4, 6)"),
        (lambda: MODEL.decode(TARGET, X, MASK), "must broadcast to the scores", "(5, 6)"),
        (lambda: MODEL.decode(TARGET, X, X), "mask must be boolean", "torch.float32"),
        (lambda: with_cache(TARGET[:1, :1]), "2 sentences", "got 1"),
        (lambda: with_cache(TARGET.repeat(1, 2)), "max_length=10", "12 tokens"),
    ],
    "attention_maps": [
        (lambda: attention_maps(None, IDS, TARGET), "model must be", "NoneType"),
        (lambda: attention_maps(MODEL, IDS[0], TARGET), "source must be", "(4,)"),
    ],
    "save": [
        (lambda folder: save(None, folder), "model must be a Transformer", "NoneType"),
        (lambda: save(MODEL, None), "folder must be a path", "NoneType"),
        (lambda folder: save(MODEL, a_file(folder)), "must be a folder", "a file"),
    ],
    "load": [
        (lambda: load(3), "folder must be a path", "int"),
        (lambda folder: load(folder / "nowhere"), "config.json is missing", "nowhere"),
        (lambda folder: load(a_file(folder)), "must be a folder", "a file"),
    ],
    "sequence_loss": [
        (lambda: sequence_loss([0.0], IDS), "logits must be floating-point", "list"),
        (lambda: sequence_loss(IDS, IDS), "logits must be floating-point", "torch.int64"),
        (lambda: sequence_loss(LOGITS, IDS[:, :3]), "shape (2, 4)", "(2, 3)"),
        (lambda: sequence_loss(LOGITS, IDS.float()), "integer ids", "torch.float32"),
        (lambda: sequence_loss(LOGITS, IDS.short()), "integer ids", "torch.int16"),
        (lambda: sequence_loss(LOGITS, None), "targets must be", "NoneType"),
        (lambda: sequence_loss(LOGITS, IDS + 3), "from 0 to 8", "3 to 10"),
        (lambda: sequence_loss(LOGITS, IDS - 3), "from 0 to 8", "-3 to 4"),
        (lambda: sequence_loss(LOGITS, IDS * 0), "must hold a word", "padding"),
        (lambda: sequence_loss(LOGITS, IDS, 1.0), "from 0 to below 1", "1.0"),
        (lambda: sequence_loss(LOGITS, IDS, "0.1"), "from 0 to below 1", "'0.1'"),
        (lambda: sequence_loss(LOGITS, IDS, X), "from 0 to below 1", "shape (2, 4, 8)"),
    ],
    "noam_rate": [
        (lambda: noam_rate(0, 512), "step must be a whole number from 1", "0"),
        (lambda: noam_rate(1, 0), "d_model must be a whole number from 1", "0"),
        (lambda: noam_rate(1, 512, -1), "warmup must be a whole number from 1", "-1"),
        (lambda: noam_rate("1", 512), "step must be a whole number", "'1'"),
    ],
    "Objective": [
        (lambda: Objective(None, TRAINING), "model must be", "NoneType"),
        (lambda: Objective(MODEL, None), "config must be a TrainConfig", "NoneType"),
        (lambda: OBJECTIVE(IDS[0], TARGET), "source must be", "(4,)"),
        (lambda: OBJECTIVE(IDS, TARGET[:, :1]), "at least one token", "(2, 0)"),
        (lambda: OBJECTIVE(IDS, TARGET + 4), "from 0 to 8", "10"),
        (lambda: OBJECTIVE(IDS, last_word(9)), "ids from 0 to 8", "9"),
        (lambda: OBJECTIVE(IDS, last_word(-1)), "ids from 0 to 8", "-1"),
    ],
    "train_step": [
        (lambda: train_step(OBJECTIVE, PAIRS, optimizer()), "batch must be a Batch", "list"),
        (
            lambda: train_step(OBJECTIVE, Batch(IDS, TARGET * 0), optimizer()),
            "a word to predict",
            "padding only",
        ),
        (lambda: train_step(None, BATCH, optimizer()), "objective must be", "NoneType"),
        (lambda: train_step(OBJECTIVE, BATCH, None), "optimizer must be", "NoneType"),
        (lambda: train_step(OBJECTIVE, BATCH, optimizer(), clip_norm=-1), "clip_norm must", "-1"),
        (lambda: train_step(OBJECTIVE, BATCH, optimizer(), clip_norm=NAN), "clip_norm", "nan"),
    ],
    "validate": [
        (lambda: validate(None, PAIRS), "model must be", "NoneType"),
        (lambda: validate(MODEL, []), "pairs must be a list", "[]"),
        (lambda: validate(MODEL, None), "pairs must be a list", "None"),
        (lambda: validate(MODEL, [1, 2]), "(source ids, target ids)", "[1, 2]"),
        (lambda: validate(MODEL, [("a", "b")]), "whole numbers", "'a'"),
        (lambda: validate(MODEL, [([11, 2], [4, 2])]), "from 0 to 8", "11"),
        (lambda: validate(MODEL, [([4, 2], [11, 2])]), "from 0 to 8", "11"),
        (lambda: validate(MODEL, [(LONG, [4, 2])]), "max_length=10", "11 tokens"),
        (lambda: validate(MODEL, PAIRS, max_tokens=3), "max_tokens=3", "4"),
        (lambda: validate(MODEL, PAIRS, max_tokens="9"), "max_tokens must be a whole", "'9'"),
        (lambda: validate(MODEL, iter(PAIRS)), "pairs must be a list", "iterator"),
    ],
    "fit": [
        (lambda: fit(None, PAIRS, TRAINING), "model must be", "NoneType"),
        (lambda: fit(MODEL, PAIRS, None), "config must be a TrainConfig", "NoneType"),
        (lambda: fit(MODEL, PAIRS, TRAINING, start=3), "start must be a dict", "int"),
        (lambda: fit(MODEL, PAIRS, TRAINING, start={}), "start lacks", "tensors"),
        (lambda: fit(MODEL, [], TRAINING), "pairs must be a list", "[]"),
        (lambda: fit(MODEL, [[4]], TRAINING), "pairs must be a list", "[[4]]"),
        (lambda: fit(MODEL, None, TRAINING), "pairs must be a list", "None"),
        (lambda: fit(MODEL, iter(PAIRS), TRAINING), "pairs must be a list", "iterator"),
        (lambda: fit(MODEL, PAIRS, TRAINING, valid_pairs=iter(PAIRS)), "pairs must", "iterator"),
        (lambda: fit(MODEL, [([4, 2], [9])], TRAINING), "ids from 0 to 8", "9"),
        (lambda: fit(MODEL, [(LONG, [4, 2])], TRAINING), "max_length=10", "11 tokens"),
        (lambda: fit(MODEL, [([4, 2], [9, 2])], TRAINING), "from 0 to 8", "9"),
        (lambda: fit(MODEL, [([4, 2], [4] * 20)], TRAINING), "max_tokens=20", "21"),
        (lambda folder: fit(MODEL, PAIRS, TRAINING, folder=a_file(folder)), "a folder", "a file"),
        (lambda: fit(MODEL, PAIRS, TRAINING, folder=7), "folder must be a path", "int"),
        (lambda: fit(MODEL, PAIRS, TRAINING, on_record=7), "on_record must be a function", "7"),
    ],
    "average_checkpoints": [
        (lambda: average_checkpoints([]), "at least one", "[]"),
        (lambda: average_checkpoints(None), "must be a list", "None"),
        (lambda: average_checkpoints([X]), "checkpoint 0 must be a dict", "(2, 4, 8)"),
        (lambda: average_checkpoints([{"a": X}, {"b": X}]), "what checkpoint 0 holds", "'b'"),
        (lambda: average_checkpoints([{"a": X}, {"a": X[0]}]), "checkpoint 0 holds", "(4, 8)"),
        (lambda: average_checkpoints([{"a": 1.0}]), "a must be a Tensor", "float"),
    ],
    "greedy_decode": [
        (lambda: greedy_decode(None, IDS), "model must be", "NoneType"),
        (lambda: greedy_decode(MODEL, [[4]]), "source must be", "list"),
        (lambda: greedy_decode(MODEL, IDS[:0]), "source must hold at least one", "(0, 4)"),
        (lambda: greedy_decode(MODEL, IDS + 3), "from 0 to 8", "3 to 10"),
        (lambda: greedy_decode(MODEL, IDS.repeat(1, 3)), "max_length=10", "12 tokens"),
        (lambda: greedy_decode(MODEL, IDS, max_length=1), "from 2 to the model's 10", "1"),
        (lambda: greedy_decode(MODEL, IDS, max_length=11), "from 2 to the model's 10", "11"),
        (lambda: greedy_decode(MODEL, IDS, max_length="5"), "from 2 to", "'5'"),
        (lambda: greedy_decode(broken(), IDS), "logits must be numbers", "NaN"),
    ],
    "sample": [
        (lambda: sample(MODEL, IDS, generator=None), "generator must be a Generator", "NoneType"),
        (lambda: sample(MODEL, IDS, generator=7), "generator must be a Generator", "int"),
        (lambda: sample(MODEL, IDS, generator=GENERATOR, temperature=0), "temperature must", "0"),
        (lambda: sample(MODEL, IDS, generator=GENERATOR, temperature=NAN), "temperature", "nan"),
        (lambda: sample(MODEL, IDS, generator=GENERATOR, top_k=0), "k must be a whole", "0"),
        (lambda: sample(MODEL, IDS, generator=GENERATOR, top_p=0.0), "p must be above 0", "0.0"),
        (lambda: sample(MODEL, IDS[0], generator=GENERATOR), "source must be", "(4,)"),
        (lambda: sample(MODEL, IDS, generator=GENERATOR, max_length=0), "from 2 to", "0"),
        (lambda: sample(broken(), IDS, generator=GENERATOR), "logits must be numbers", "NaN"),
    ],
    "keep_top_k": [
        (lambda: keep_top_k([1.0], 1), "logits must be floating-point", "list"),
        (lambda: keep_top_k(torch.tensor(1.0), 1), "(..., V)", "()"),
        (lambda: keep_top_k(LOGITS, 0), "k must be a whole number from 1", "0"),
        (lambda: keep_top_k(LOGITS, 2.0), "k must be a whole number from 1", "2.0"),
    ],
    "keep_top_p": [
        (lambda: keep_top_p(IDS, 0.5), "logits must be floating-point", "torch.int64"),
        (lambda: keep_top_p(LOGITS, 0.0), "above 0 and at most 1", "0.0"),
        (lambda: keep_top_p(LOGITS, 1.1), "above 0 and at most 1", "1.1"),
        (lambda: keep_top_p(LOGITS, NAN), "above 0 and at most 1", "nan"),
        (lambda: keep_top_p(LOGITS, "0.5"), "above 0 and at most 1", "'0.5'"),
        (lambda: keep_top_p(LOGITS, X), "above 0 and at most 1", "shape (2, 4, 8)"),
    ],
    "beam_search": [
        (lambda: beam_search(None, IDS), "model must be", "NoneType"),
        (lambda: beam_search(MODEL, IDS.float()), "source must hold integer ids", "torch.float32"),
        (lambda: beam_search(MODEL, IDS[:0]), "source must hold at least one", "(0, 4)"),
        (lambda: beam_search(MODEL, IDS, beam=0), "beam must be a whole number from 1", "0"),
        (lambda: beam_search(MODEL, IDS, beam="5"), "beam must be a whole number", "'5'"),
        (lambda: beam_search(MODEL, IDS, length_penalty=-1), "a number from 0", "-1"),
        (lambda: beam_search(MODEL, IDS, length_penalty=NAN), "a number from 0", "nan"),
        (lambda: beam_search(MODEL, IDS, length_penalty=1000), "a number from 0", "1000"),
        (lambda: beam_search(MODEL, IDS, beam=10**12), "beam must be at most 1,000", "10000000"),
        (lambda: beam_search(MODEL, IDS, max_length=1), "from 2 to the model's 10", "1"),
        (lambda: beam_search(broken(), IDS), "logits must be numbers", "NaN"),
    ],
    "Batch": [
        (lambda: Batch([[1]], IDS), "source must be", "list"),
        (lambda: Batch(IDS, IDS.float()), "target must hold integer ids", "torch.float32"),
        (lambda: Batch(IDS, IDS[:1]), "same number of sentences", "2 and 1"),
        (lambda: Batch(IDS[:0], IDS[:0]), "at least one", "0 and 0"),
        (lambda: Batch.from_pairs([]), "at least one pair", "none"),
        (lambda: Batch.from_pairs(None), "pairs must be a list", "NoneType"),
        (lambda: Batch.from_pairs(iter(PAIRS)), "pairs must be a list", "iterator"),
        (lambda: Batch.from_pairs([7]), "pair 0 must be two lists", "7"),
        (lambda: Batch.from_pairs([(["a"], [2])]), "whole numbers", "'a'"),
        (lambda: Batch.from_pairs([([], [2])]), "at least EOS", "[]"),
    ],
    "batches_by_tokens": [
        (lambda: batches_by_tokens([3, 9], 8), "from 1 to max_tokens=8", "9 for sentence 1"),
        (lambda: batches_by_tokens([0], 8), "from 1 to max_tokens=8", "0"),
        (lambda: batches_by_tokens(None, 8), "lengths must be a list", "None"),
        (lambda: batches_by_tokens(["a"], 8), "lengths must be a list", "['a']"),
        (lambda: batches_by_tokens([3, (3, 4)], 8), "lengths must be a list", "(3, 4)"),
        (lambda: batches_by_tokens([3], "8"), "max_tokens must be a whole number", "'8'"),
        (lambda: batches_by_tokens([3], 8, generator=7), "generator must be a Generator", "int"),
    ],
    "date_pairs": [
        (lambda: date_pairs(0, 1), "count must be a whole number from 1", "0"),
        (lambda: date_pairs(1, "x"), "seed must be a whole number", "'x'"),
        (lambda: date_pairs(1, 1, split="val"), '"train" or "test"', "'val'"),
        (lambda: date_pairs(1, 1, locale="xx_nowhere"), "CLDR name", "'xx_nowhere'"),
    ],
    "load_multi30k": [
        (lambda: load_multi30k("zip"), '"raw" or "tok"', "'zip'"),
        (lambda folder: load_multi30k("raw", folder / "nowhere"), "folder", "nowhere"),
        (lambda folder: load_multi30k("raw", a_file(folder)), "data folder", "which is a file"),
        (lambda: load_multi30k(["raw"]), '"raw" or "tok"', "['raw']"),
        (lambda: load_multi30k("raw", 7), "folder must be a path", "int"),
    ],
    "Tokenizer": [
        (lambda: CHARACTERS.encode(None), "text must be a string", "NoneType"),
        (lambda: CHARACTERS.encode_batch("abc"), "texts must be a list of strings", "str"),
        (lambda: PIECES.encode(["a"]), "text must be a string", "list"),
        (lambda: CHARACTERS.decode([99]), "every id must be from 0", "99"),
        (lambda: CHARACTERS.decode([-1]), "every id must be from 0", "-1"),
        (lambda: CHARACTERS.decode(None), "flat list of whole numbers", "None"),
        (lambda: CHARACTERS.decode(IDS), "flat list of whole numbers", "[[4"),
        (lambda: CHARACTERS.tokens([4.5]), "flat list of whole numbers", "4.5"),
        (lambda folder: Tokenizer.load(folder / "no.json"), "missing", "no.json"),
        (lambda: Tokenizer.load(7), "path must be a path", "int"),
        (lambda: CHARACTERS.save(None), "path must be a path", "NoneType"),
    ],
    "train_tokenizer": [
        (lambda: train_tokenizer([]), "texts must hold some words", "none"),
        (lambda: train_tokenizer([""]), "texts must hold some words", "none"),
        (lambda: train_tokenizer("abc"), "texts must be a list of strings", "str"),
        (lambda: train_tokenizer([1]), "text must be a string", "int"),
        (lambda: train_tokenizer(["ab"], 3), "vocab_size must be a whole number", "3"),
        (lambda: train_tokenizer(["ab"], 10**12), "vocab_size must be a whole number", "10000"),
        (lambda: train_tokenizer(["ab"], kind="word"), '"bpe" or "characters"', "'word'"),
        (lambda: train_tokenizer(["ab"], 50, kind="characters"), "no vocab_size", "50"),
    ],
    "train": [
        (lambda folder: train("date", folder), "got 'date'", "did you mean dates?"),
        (lambda folder: train(None, folder), "preset must be a Preset", "NoneType"),
        (lambda folder: train("dates", folder, stepps=3), "setting stepps", "did you mean steps?"),
        (lambda folder: train("dates", folder, steps=0), "steps must be a whole number", "0"),
        (lambda: train("dates", None), "folder must be a path", "NoneType"),
        (lambda folder: train("dates", a_file(folder)), "must be a folder", "a file"),
        (lambda folder: train("dates", a_file(folder).parent), "new, empty or an earlier", "file"),
        (lambda folder: train("dates", folder, data="x"), "go with the preset pairs", "'dates'"),
        (lambda folder: train("dates", folder, skip_bad=True), "with the preset pairs", "'dates'"),
        (lambda folder: train("dates", folder, more_pairs=[("a",)]), "pairs of texts", "('a',)"),
        (lambda folder: train("dates", folder, more_pairs="ab"), "pairs of texts", "'a'"),
        (lambda folder: train("dates", folder, more_pairs=3), "pairs of texts", "3"),
        (lambda folder: train("dates", folder, device="gpu"), "device must be one that", "'gpu'"),
        (lambda folder: train("dates", folder, device=3), "device must be one that", "3"),
        (lambda folder: train("dates", folder, on_note=3), "on_note must be a function", "3"),
        (lambda folder: train("dates", folder, on_record="x"), "on_record must be a", "'x'"),
        (lambda folder: train("dates", folder, start="x"), "start must be a Run or None", "'x'"),
        (lambda folder: train("dates", folder, start=trained()), "with d_ff=256", "got 12"),
        (lambda folder: train("dates", folder, **pieces(50)), "in characters", "50"),
        (
            lambda folder: train("multi30k", folder, tie_embeddings=False, source_vocab_size=50),
            *("share one vocabulary", "'source_vocab_size': 50, 'target_vocab_size': 4000"),
        ),
        (
            lambda folder: train("multi30k", folder, start=trained(), **pieces(50)),
            *("that of start, of 9 pieces", "50"),
        ),
        (lambda: train("multi30k", None), "folder must be a path", "NoneType"),
        (lambda folder: train("multi30k", folder, start="nonsense"), "a Run or None", "nonsense"),
        (lambda folder: train("multi30k", folder, start=trained()), "with d_ff=512", "got 12"),
        (lambda folder: train("multi30k", folder, steps=0), "steps must be a whole", "0"),
        (lambda folder: train("multi30k", folder, d_model=7), "even and a multiple", "d_model=7"),
        (lambda folder: train("multi30k", folder, depth=7), "has a setting", "depth"),
        (lambda folder: train("multi30k", folder, valid="x"), "with the preset pairs", "multi30k"),
        (lambda folder: train("multi30k", folder, more_pairs=[3]), "pairs of texts", "3"),
        (lambda folder: train("multi30k", folder, device="gpu"), "must be one that", "'gpu'"),
        (lambda folder: train("multi30k", folder, on_record=3), "must be a function", "3"),
        (lambda folder: train_pairs(folder, GOOD_PAIRS, steps=0), "steps must be a whole", "0"),
        (lambda folder: train_pairs(folder, GOOD_PAIRS, depth=7), "has a setting", "depth"),
        (lambda folder: train_pairs(folder, GOOD_PAIRS, start=3), "start must be a Run", "3"),
        (lambda folder: train_pairs(folder, GOOD_PAIRS, on_note=3), "must be a function", "3"),
        (lambda folder: train_pairs(folder, GOOD_PAIRS, valid=3), "given as a path", "int"),
        (lambda folder: train("pairs", folder), "needs data=FILE, a file with", "none"),
        (lambda folder: train("pairs", folder, test="x"), "needs data=FILE, a file", "got test"),
        (lambda folder: train("pairs", folder, data=3), "must be given as a path", "int"),
        (lambda folder: train("pairs", folder, data=folder), "must be a file with", "a folder"),
        (lambda folder: train("pairs", folder, data=folder / "x"), "must be a file", "nothing"),
        (lambda folder: train_pairs(folder, b""), "a pair in each line", "an empty file"),
        (lambda folder: train_pairs(folder, b" \n\n"), "a pair in each line", "an empty file"),
        (lambda folder: train_pairs(folder, b"a\0b"), "must be UTF-8 text", "a binary file"),
        (lambda folder: train_pairs(folder, b"\xff\xfea\0"), "must be UTF-8 text", "UTF-16"),
        (lambda folder: train_pairs(folder, b"a\tb\n\xfc\t"), "UTF-8 text", "0xfc in line 2"),
        (lambda folder: train_pairs(folder, b"\x1f\x8b\0"), "a file that can be read", "ended"),
        (lambda folder: train_pairs(folder, b"a\tb"), "at least 10 different sources", "1"),
        (lambda folder: train_pairs(folder, b"a\tb\n" * 99), "10 different sources", "1"),
        (lambda folder: train_pairs(folder, b"a b\n"), "a tab and a target", "without a tab (line"),
        (lambda folder: train_pairs(folder, b"a\tb\tc"), "a tab and", "more than one tab (line 1"),
        (lambda folder: train_pairs(folder, b"a\t"), "a tab and a target", "empty side (line 1"),
        (lambda folder: train_pairs(folder, GOOD_PAIRS, skip_bad=3), "True or False", "3"),
        (lambda folder: train_pairs(folder, GOOD_PAIRS, reverse=3), "True or False", "3"),
        (lambda folder: train_pairs(folder, GOOD_PAIRS, columns=3), "two different numbers", "3"),
        (lambda folder: train_pairs(folder, GOOD_PAIRS, columns=(1, None)), "two diff", "None"),
        (lambda folder: train_pairs(folder, GOOD_PAIRS, columns=(1, 2.5)), "two diff", "2.5"),
        (lambda folder: train_pairs(folder, GOOD_PAIRS, columns="2"), "such as 2,4", "'2'"),
        (lambda folder: train("pairs", folder, data=[]), "from one file, or from two", "0"),
        (lambda folder: train("pairs", folder, data=[3]), "must be given as a path", "int"),
        (lambda folder: train("dates", folder, columns="1,2"), "with the preset pairs", "dates"),
        (lambda folder: train("dates", folder, reverse=True), "with the preset pairs", "dates"),
        (lambda folder: train_pairs(folder, GOOD_PAIRS, valid="x"), "x must be a file", "nothing"),
        (lambda folder: train_pairs(folder, GOOD_PAIRS, test=folder), "must be a file", "a folder"),
    ],
    "Run": [
        (lambda: trained().translate(None), "texts must be a list of strings", "NoneType"),
        (lambda: trained().translate([3]), "text must be a string", "int"),
        (lambda: trained().translate("abcdabcdab"), "max_length=10", "11 tokens"),
        (lambda: trained().translate("ab", beam=0), "beam must be a whole number from 1", "0"),
        (lambda: trained().translate("ab", beam="3"), "beam must be a whole number", "'3'"),
        (lambda: trained().translate("ab", beam=True), "beam must be a whole number", "True"),
        (lambda: trained().translate("ab", beam=1, length_penalty=-1), "length_penalty must", "-1"),
        (lambda: trained("multi30k-raw").evaluate(beam=0), "beam must be a whole number", "0"),
        (lambda: trained("multi30k-raw").evaluate(length_penalty=-1), "length_penalty", "-1"),
        (lambda: trained().cross_attention("ab", beam=0), "beam must be a whole number", "0"),
        (lambda: trained().cross_attention(3), "text must be a string", "int"),
        (lambda: Run.from_model(MODEL, "abc"), "tokenizer must have", "str without vocab_size"),
        (lambda: trained().translate("ab", max_length=0), "from 2 to the model's 10", "0"),
        (lambda: trained().translate("ab", max_length=11), "from 2 to the model's 10", "11"),
    ],
    "load_run": [
        (lambda: load_run(None), "folder must be a path", "NoneType"),
        (lambda folder: load_run(folder / "nowhere"), "metrics.json is missing", "nowhere"),
        (lambda: load_run(tokenizer=["a"]), "tokenizer must have vocab_size", "list without"),
    ],
}  # fmt: skip
CASES = [
    pytest.param(*case, id=f"{name}-{i}")
    for name, cases in BAD.items()
    for i, case in enumerate(cases)
]


@pytest.mark.parametrize(("call", "expected", "came"), CASES)
def test_bad_input_is_refused_in_one_sentence(tmp_path, call, expected, came):
    with pytest.raises(ValueError) as caught:
        call(tmp_path) if inspect.signature(call).parameters else call()
    message = str(caught.value)
    assert expected in message and came in message.replace(expected, "", 1)
    assert "\n" not in message and len(message) < 300


PYTHON_SPEAKS = (ValueError, TypeError, AttributeError, LookupError, ArithmeticError, RuntimeError)

# ---------------------------------------------------------------- nothing is read before a refusal

EVENTS: list[str] = []


def note_what_is_touched(event: str, arguments: tuple) -> None:
    """Note files that are read, unless Python's or the system's own, and connections."""
    if event == "open" and isinstance(arguments[0], str | bytes):
        path, mode, _ = map(str, arguments)
        own = path.endswith((".py", ".pyc", ".so")) or path.startswith(("/proc/", "/sys/", "/usr/"))
        own = own or "site-packages" in path
        if not own and "w" not in mode:
            EVENTS.append(path)
    elif event in ("socket.connect", "socket.getaddrinfo", "urllib.Request"):
        EVENTS.append(event)


sys.addaudithook(note_what_is_touched)


@pytest.mark.parametrize(("call", "expected", "came"), CASES)
def test_a_bad_argument_is_refused_before_a_file_is_read(
    tmp_path, monkeypatch, call, expected, came
):
    """Unless it is the file: it has to be read, to find that it is bad."""
    monkeypatch.delenv("TRANSFORMER_LAB_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    EVENTS.clear()
    with pytest.raises(ValueError):
        call(tmp_path) if inspect.signature(call).parameters else call()
    touched, file = set(EVENTS), tmp_path / "file"
    touched.discard(str(tmp_path))  # to see whether a run can be written there reads no file
    if file.is_file() and file.read_bytes() != GOOD_PAIRS:
        touched.discard(str(file))
    assert not touched


# Inside the model no argument is checked: Python or PyTorch speaks, in words of its own. None of
# these may pass in silence.
INSIDE = [
    lambda: split_heads(X[0], 2),
    lambda: split_heads([X], 2),
    lambda: split_heads(X, 3),
    lambda: split_heads(X, 0),
    lambda: split_heads(X, 2.0),
    lambda: merge_heads(X),
    lambda: merge_heads("x"),
    lambda: ATTENTION(X[0], X, X),
    lambda: ATTENTION(X, X[..., :6], X),
    lambda: ATTENTION(X, X, X.long()),
    lambda: ATTENTION(None, X, X),
    lambda: filled_cache().select([0]),
    lambda: filled_cache().select(torch.tensor([0.0])),
    lambda: filled_cache().select(torch.tensor([0, 2])),
    lambda: filled_cache().select(torch.tensor([-1])),
    lambda: tokens_alone().select(torch.tensor([-1])),
    lambda: tokens_alone().select([0]),
    lambda: with_cache(TARGET, rows=(0, 2)),
    lambda: MODEL.positions(X[0]),
    lambda: TokenEmbedding(9, 8)(IDS + 3),
    lambda: TokenEmbedding(9, 8)(IDS - 1),
    lambda: TokenEmbedding(9, 8)(IDS.float()),
    lambda: TokenEmbedding(9, 8)(IDS.short()),
    lambda: TokenEmbedding(9, 8)([[1, 2]]),
    lambda: ENCODER_LAYER.feed_forward(X[..., :7]),
    lambda: ENCODER_LAYER.feed_forward(X.long()),
    lambda: ENCODER_LAYER.feed_forward([0.0] * 8),
    lambda: ADD_NORM(X[..., :7], nn.Identity()),
    lambda: ADD_NORM(None, nn.Identity()),
    lambda: ENCODER_LAYER(X[..., :6]),
    lambda: ENCODER_LAYER([X]),
    lambda: EncoderLayer(8, 1, 12)(X[0]),
    lambda: DECODER_LAYER(X, X[..., :6]),
    lambda: DECODER_LAYER(X, None),
    lambda: MODEL.encoder(X[0]),
    lambda: MODEL.decoder(X, X[0]),
    lambda: OBJECTIVE(IDS, [1]),
    lambda: OBJECTIVE(None, TARGET),
]


@pytest.mark.parametrize("call", INSIDE)
def test_what_is_not_checked_inside_the_model_is_refused_all_the_same(call):
    with pytest.raises(PYTHON_SPEAKS):
        call()


def test_a_forward_pass_checks_its_arguments_at_the_door_alone():
    """Of a model with 2 + 2 layers: six are for masks, which PyTorch would not refuse."""
    two = dict.fromkeys(("num_encoder_layers", "num_decoder_layers"), 2)
    with torch.random.fork_rng():
        model, calls = Transformer(ModelConfig(**SIZES | two)), []

    def note(frame, event, argument):
        if event == "call" and frame.f_code.co_filename == validation.__file__:
            calls.append(frame.f_code.co_name)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        model(IDS, TARGET)
    finally:
        sys.setprofile(before)
    assert 0 < len(calls) <= 20, calls


# Odd input that is good, and what is documented to come of it.
GOOD = {
    "a mask of one key for all": (
        lambda: ATTENTION(X, X, X, MASK[:1, :1]).shape, (2, 4, 8)),
    "no keys at all": (
        lambda: scaled_dot_product_attention(Q, K[:, :, :0], V[:, :, :0])[0].tolist(),
        torch.zeros(2, 3, 5, 7).tolist()),
    "no length": (lambda: causal_mask(0).shape, (0, 0)),
    "no positions": (lambda: sinusoidal_encoding(0, 8).shape, (0, 8)),
    "one sentence without a batch, in a frame": (
        lambda: ADD_NORM(X[0], nn.Identity()).shape, (4, 8)),
    "no tokens to embed": (lambda: TokenEmbedding(9, 8)(IDS[:0]).shape, (0, 4, 8)),
    "ids of another integer type": (
        lambda: torch.equal(MODEL(IDS.int(), TARGET.int()), MODEL(IDS, TARGET)), True),
    "int32 targets": (
        lambda: torch.equal(sequence_loss(LOGITS, IDS.int()), sequence_loss(LOGITS, IDS)), True),
    "int32 ids to decode": (
        lambda: torch.equal(greedy_decode(MODEL, IDS.int()), greedy_decode(MODEL, IDS)), True),
    "int32 ids to search": (
        lambda: torch.equal(beam_search(MODEL, IDS.int()), beam_search(MODEL, IDS)), True),
    "a sentence of padding": (lambda: bool(MODEL(IDS * 0, TARGET).isfinite().all()), True),
    "a sentence of max_length": (
        lambda: MODEL(torch.full((1, 10), 4), TARGET[:1]).shape, (1, 4, 9)),
    "more than all logits": (lambda: keep_top_k(LOGITS, 99).tolist(), LOGITS.tolist()),
    "no sentences to batch": (lambda: batches_by_tokens([], 8), []),
    "lengths that can be read once": (lambda: batches_by_tokens(iter([3, 2]), 8), [[1, 0]]),
    "an empty string to encode": (lambda: CHARACTERS.encode(""), [EOS]),
    "an empty string to encode in pieces": (lambda: PIECES.encode(""), [EOS]),
    "no ids to decode": (lambda: CHARACTERS.decode([]), ""),
    "unknown characters": (lambda: CHARACTERS.decode(CHARACTERS.encode("a語b")), "a�b"),
    "unknown characters in pieces": (lambda: PIECES.decode(PIECES.encode("a 語 dog")), "a � dog"),
    "special tokens as text": (lambda: CHARACTERS.encode("<eos>").count(EOS), 1),
    "nothing to translate": (lambda: trained().translate([]), []),
    "an empty string to translate": (lambda: type(trained().translate("")), str),
    "unknown characters to translate": (lambda: type(trained().translate("語")), str),
    "whole numbers for numbers": (lambda: beam_search(MODEL, IDS, length_penalty=0).shape[0], 2),
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_odd_input_gives_what_is_documented(name):
    call, expected = GOOD[name]
    assert call() == expected


def test_a_loss_of_nan_is_no_error_of_the_loss_itself():
    assert sequence_loss(LOGITS + NAN, IDS).isnan()  # `fit` is what stops a run


# -------------------------------------------------------------------------------- nothing forgotten

PUBLIC = {name: getattr(lab, name) for name in lab.__all__}
CALLABLE = {name: value for name, value in PUBLIC.items() if callable(value)}


def test_every_public_function_has_its_bad_input():
    assert set(BAD) | {"split_heads", "merge_heads"} == set(CALLABLE)  # these two: INSIDE


@pytest.mark.parametrize("name", CALLABLE)
def test_every_public_name_says_what_it_does_and_what_it_raises(name):
    assert CALLABLE[name].__doc__


def shown(value) -> list:
    """Return the functions of a public name: itself, or a class's public methods and forward."""
    if inspect.isfunction(value):
        return [value]
    methods = inspect.getmembers(value, inspect.isfunction)
    return [m for n, m in methods if not n.startswith("_") and m.__module__.startswith("transform")]


@pytest.mark.parametrize("name", CALLABLE)
def test_tensors_have_their_shape_in_the_signature(name):
    for function in shown(CALLABLE[name]):
        parameters = inspect.signature(function).parameters.values()
        for kind in [p.annotation for p in parameters] + [
            inspect.signature(function).return_annotation
        ]:
            assert kind is not Tensor, f"{function.__qualname__}: which shape?"
            if isinstance(kind, type) and issubclass(kind, Tensor):
                assert issubclass(kind, jaxtyping.AbstractArray)


def test_constants_are_what_they_are_documented_to_be():
    assert (lab.PAD, lab.BOS, lab.EOS, lab.UNK) == (0, 1, 2, 3) and PAD == 0
    assert all(isinstance(preset, Preset) for preset in PRESETS.values())
