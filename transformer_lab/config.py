"""The sizes of a model and the settings of a training run, with the paper's names and defaults."""

from dataclasses import dataclass

from transformer_lab.inputs import is_number, require

PAD, BOS, EOS, UNK = range(4)
"""Ids of the special tokens: padding, begin of sentence, end of sentence, unknown."""
MAX_BEAM = 1000


def _require_integers(config: object, names: str, low: int, high: int) -> None:
    for name in names.split():
        value = getattr(config, name)
        require(
            type(value) is int and low <= value <= high,
            f"{name} must be a whole number from {low:,} to {high:,}, got {value!r:.60}",
        )


def _require_numbers(config: object, names: str, low: float, high: float) -> None:
    for name in names.split():
        value = getattr(config, name)
        require(
            is_number(value) and low <= value <= high,
            f"{name} must be a number from {low} to {high}, got {value!r:.60}",
        )


def _require_booleans(config: object, names: str) -> None:
    for name in names.split():
        value = getattr(config, name)
        require(type(value) is bool, f"{name} must be True or False, got {value!r:.60}")


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The sizes of an encoder-decoder Transformer (paper, sections 3 and 5.4; Table 3, row "base").

    The defaults are the paper's but for two: `tie_embeddings` is False, because the two
    vocabularies may differ, and `max_length` is ours: the paper names no limit.
    `pre_norm=False` is the paper's LayerNorm(x + Sublayer(x)); True normalises each input instead.
    `tie_embeddings=True` is the paper's one matrix for both embeddings and the last linear (3.4);
    it needs one vocabulary for both languages. The attention projections have no bias, as in the
    paper's equations, unless `attention_bias=True`.

    Raises `ValueError` for sizes that cannot work.
    """

    source_vocab_size: int
    target_vocab_size: int
    d_model: int = 512
    num_heads: int = 8
    d_ff: int = 2048
    num_encoder_layers: int = 6
    num_decoder_layers: int = 6
    dropout: float = 0.1
    max_length: int = 512
    pre_norm: bool = False
    tie_embeddings: bool = False
    attention_bias: bool = False

    def __post_init__(self):
        _require_integers(self, "source_vocab_size target_vocab_size", 4, 10_000_000)
        _require_integers(self, "d_model d_ff max_length", 1, 1_000_000)
        _require_integers(self, "num_heads", 1, 10_000)
        _require_integers(self, "num_encoder_layers num_decoder_layers", 0, 256)
        _require_numbers(self, "dropout", 0.0, 0.999)
        _require_booleans(self, "pre_norm tie_embeddings attention_bias")
        require(
            self.d_model % 2 == 0 and self.d_model % self.num_heads == 0,
            f"d_model must be even and a multiple of num_heads, got d_model={self.d_model} and "
            f"num_heads={self.num_heads}",
        )
        require(
            self.max_length * self.d_model <= 2**24,
            f"max_length × d_model must be at most 2**24 (a table of 64 MiB), "
            f"got {self.max_length:,} × {self.d_model:,}",
        )
        require(
            not self.tie_embeddings or self.source_vocab_size == self.target_vocab_size,
            f"tie_embeddings=True needs one vocabulary, got source_vocab_size="
            f"{self.source_vocab_size:,} and target_vocab_size={self.target_vocab_size:,}",
        )


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How a model is trained (paper, section 5).

    A batch holds at most `max_tokens` target tokens, padding included (5.1 has 25,000).
    The learning rate is `rate_factor` × the paper's formula with `warmup` steps (5.3).
    The weights that a run ends with are the mean of its last `average` snapshots, taken every
    `checkpoint_every` steps (6.1). `precision` is "float32" or "bfloat16".

    Raises `ValueError` for settings that cannot work.
    """

    steps: int = 100_000
    max_tokens: int = 25_000
    warmup: int = 4000
    rate_factor: float = 1.0
    label_smoothing: float = 0.1
    beta1: float = 0.9
    beta2: float = 0.98
    adam_epsilon: float = 1e-9
    weight_decay: float = 0.0
    clip_norm: float = 0.0
    checkpoint_every: int = 1000
    average: int = 5
    seed: int = 0
    precision: str = "float32"
    compile: bool = False

    def __post_init__(self):
        _require_integers(self, "steps max_tokens warmup checkpoint_every average", 1, 10**9)
        _require_integers(self, "seed", 0, 2**63 - 1)
        _require_numbers(self, "rate_factor adam_epsilon", 1e-12, 1e6)
        _require_numbers(self, "label_smoothing beta1 beta2", 0.0, 0.99999)
        _require_numbers(self, "weight_decay clip_norm", 0.0, 1e6)
        _require_booleans(self, "compile")
        require(
            self.precision in ("float32", "bfloat16"),
            f'precision must be "float32" or "bfloat16", got {self.precision!r}',
        )


TASKS = ("dates", "multi30k-raw", "multi30k-tok")


@dataclass(frozen=True, kw_only=True)
class Preset:
    """A task, a model for it, and how to train and decode it.

    `data` is "dates", "multi30k-raw" or "multi30k-tok". The vocabulary sizes of `model` are what
    the tokenizer is asked for; it may find fewer pieces. `beam=1` decodes greedily.

    Raises `ValueError` for an unknown task or parts of the wrong type.
    """

    data: str
    model: ModelConfig
    training: TrainConfig
    beam: int = 1

    def __post_init__(self):
        require(self.data in TASKS, f"data must be one of {TASKS}, got {self.data!r}")
        require(
            isinstance(self.model, ModelConfig) and isinstance(self.training, TrainConfig),
            f"model must be a ModelConfig and training a TrainConfig, got "
            f"{type(self.model).__name__} and {type(self.training).__name__}",
        )
        _require_integers(self, "beam", 1, MAX_BEAM)


def _sizes(vocab_size: int, **sizes) -> ModelConfig:
    return ModelConfig(
        source_vocab_size=vocab_size, target_vocab_size=vocab_size, tie_embeddings=True, **sizes
    )


PRESETS = {
    "dates": Preset(
        data="dates",
        model=_sizes(
            100,
            d_model=64,
            num_heads=4,
            d_ff=256,
            num_encoder_layers=2,
            num_decoder_layers=2,
            dropout=0.0,
            max_length=64,
        ),
        training=TrainConfig(
            steps=2200,
            max_tokens=1000,
            warmup=150,
            rate_factor=0.35,
            label_smoothing=0.0,
            clip_norm=1.0,
            checkpoint_every=50,
            average=12,
        ),
    ),
    "multi30k": Preset(
        data="multi30k-raw",
        model=_sizes(
            4000,
            d_model=192,
            num_heads=6,
            d_ff=512,
            num_encoder_layers=3,
            num_decoder_layers=3,
            dropout=0.2,
            max_length=128,
            pre_norm=True,
        ),
        training=TrainConfig(
            steps=8000,
            max_tokens=900,
            warmup=700,
            rate_factor=0.8,
            checkpoint_every=200,
            average=8,
        ),
        beam=5,
    ),
    "multi30k-gpu": Preset(
        data="multi30k-tok",
        model=_sizes(
            10_000,
            d_model=128,
            num_heads=4,
            d_ff=256,
            num_encoder_layers=4,
            num_decoder_layers=4,
            dropout=0.3,
            max_length=128,
        ),
        training=TrainConfig(
            steps=8000,
            max_tokens=4096,
            warmup=2000,
            checkpoint_every=500,
            average=10,
            precision="bfloat16",
            compile=True,
        ),
        beam=5,
    ),
    # The paper's two models, for their size and speed: Multi30k is far too small for them, and
    # WMT14, which they were made for, is not part of the course.
    "base": Preset(data="multi30k-raw", model=_sizes(37_000), training=TrainConfig(), beam=4),
    "big": Preset(
        data="multi30k-raw",
        model=_sizes(37_000, d_model=1024, num_heads=16, d_ff=4096, dropout=0.3),
        training=TrainConfig(steps=300_000, average=20),
        beam=4,
    ),
}
