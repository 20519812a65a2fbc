"""The sizes of a model and the settings of a training run, with the paper's names and defaults."""

from dataclasses import Field, dataclass, field, fields
from typing import Any

from transformer_lab.support.validation import is_number, require, shown

PAD, BOS, EOS, UNK = range(4)
"""Ids of the special tokens: padding, begin of sentence, end of sentence, unknown."""


def setting(what: str, *allowed: Any, **default: Any) -> Any:
    """Return a field: what it is, in words, and its lowest and highest value (or its choices)."""
    return field(metadata={"what": what, "allowed": allowed}, **default)


def require_setting(each: Field, value: object) -> None:
    """Raise `ValueError` unless the value has the setting's type and is allowed."""
    allowed = each.metadata["allowed"]
    if each.type is bool:
        right, wanted = type(value) is bool, "True or False"
    elif each.type is str:
        right, wanted = value in allowed, " or ".join(f'"{choice}"' for choice in allowed)
    elif each.type is int:
        right = type(value) is int and allowed[0] <= value <= allowed[1]
        wanted = f"a whole number from {allowed[0]:,} to {allowed[1]:,}"
    else:
        right = is_number(value) and allowed[0] <= value <= allowed[1]
        wanted = f"a number from {allowed[0]} to {allowed[1]}"
    require(right, f"{each.name} must be {wanted}, got {shown(value)}")


def require_settings(config: Any) -> None:
    """Raise `ValueError` unless each setting has its type and a value that is allowed."""
    for each in fields(config):
        require_setting(each, getattr(config, each.name))


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The sizes of an encoder-decoder Transformer (paper, sections 3 and 5.4; Table 3, row "base").

    The defaults are the paper's but for three: `tie_embeddings` is False, because the two
    vocabularies may differ, `activation_dropout` is True, and `max_length` is ours: the paper
    names no limit.
    `pre_norm=False` is the paper's LayerNorm(x + Sublayer(x)); True normalises each input instead.
    `tie_embeddings=True` is the paper's one matrix for both embeddings and the last linear (3.4);
    it needs one vocabulary for both languages. `activation_dropout=True` drops the hidden numbers
    of the feed-forward networks too, as `nn.Transformer` does; the paper does not.

    Raises `ValueError` for sizes that cannot work.
    """

    source_vocab_size: int = setting("tokens of the source language", 4, 10_000_000)
    target_vocab_size: int = setting("tokens of the target language", 4, 10_000_000)
    d_model: int = setting("size of the vectors between the layers", 1, 1_000_000, default=512)
    num_heads: int = setting("heads of each attention, h in the paper", 1, 10_000, default=8)
    d_ff: int = setting("inner size of the feed-forward networks", 1, 1_000_000, default=2048)
    num_encoder_layers: int = setting("layers of the encoder, N in the paper", 0, 256, default=6)
    num_decoder_layers: int = setting("layers of the decoder, N in the paper", 0, 256, default=6)
    dropout: float = setting(
        "share of activations that training drops, P_drop in the paper", 0.0, 0.999, default=0.1
    )
    max_length: int = setting("longest sentence, in tokens", 1, 1_000_000, default=512)
    pre_norm: bool = setting("normalise what goes into each sub-layer", default=False)
    tie_embeddings: bool = setting(
        "one matrix for both embeddings and the output (paper, 3.4)", default=False
    )
    activation_dropout: bool = setting(
        "dropout inside the feed-forward networks too; False as in the paper", default=True
    )

    def __post_init__(self):
        require_settings(self)
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


def num_parameters(config: ModelConfig) -> int:
    """Return the number of parameters of `Transformer(config)`, without making one."""
    # Counted, not looked up in a model on the device "meta": that imports sympy and torch._dynamo,
    # which takes longer than to load the model and translate a sentence with it.
    d_model, d_ff = config.d_model, config.d_ff
    sources, targets = config.source_vocab_size, config.target_vocab_size
    embeddings_and_generator = targets if config.tie_embeddings else sources + targets + targets
    attention = 4 * d_model * d_model
    feed_forward = (d_model * d_ff + d_ff) + (d_ff * d_model + d_model)
    norm = 2 * d_model
    return (
        embeddings_and_generator * d_model
        + config.num_encoder_layers * (attention + feed_forward + 2 * norm)
        + config.num_decoder_layers * (2 * attention + feed_forward + 3 * norm)
        + (2 * norm if config.pre_norm else 0)
    )


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How a model is trained (paper, section 5).

    A batch holds at most `max_tokens` target tokens, padding included (5.1 has 25,000).
    The learning rate is `rate_factor` × the paper's formula with `warmup` steps (5.3); with
    `schedule="linear"` it falls from there in a straight line, to 0 after the last step.
    The weights that a run ends with are the mean of its last `average` snapshots, taken every
    `checkpoint_every` steps (6.1). `precision` is "float32" or "bfloat16".

    Raises `ValueError` for settings that cannot work.
    """

    steps: int = setting("number of training steps", 1, 10**9, default=100_000)
    max_tokens: int = setting("target tokens in a batch, at most", 1, 10**9, default=25_000)
    warmup: int = setting(
        "steps until the learning rate is at its highest (paper, 5.3)", 1, 10**9, default=4000
    )
    rate_factor: float = setting("multiplies the paper's learning rate", 1e-12, 1e6, default=1.0)
    schedule: str = setting(
        "after the warm-up: paper (step^-1/2, 5.3), or linear (straight down to 0 at the end)",
        *("paper", "linear"),
        default="paper",
    )
    optimizer: str = setting(
        "adam (paper, 5.3), or muon for the matrices inside the layers and Adam for the rest",
        *("adam", "muon"),
        default="adam",
    )
    label_smoothing: float = setting("epsilon_ls in the paper (5.4)", 0.0, 0.99999, default=0.1)
    beta1: float = setting("Adam's beta1", 0.0, 0.99999, default=0.9)
    beta2: float = setting("Adam's beta2", 0.0, 0.99999, default=0.98)
    adam_epsilon: float = setting("Adam's epsilon", 1e-12, 1e6, default=1e-9)
    weight_decay: float = setting(
        "decoupled weight decay, as in AdamW; with muon, of its matrices", 0.0, 1e6, default=0.0
    )
    clip_norm: float = setting("longest gradient; 0 does not clip", 0.0, 1e6, default=0.0)
    checkpoint_every: int = setting("steps between two checkpoints", 1, 10**9, default=1000)
    average: int = setting("checkpoints whose mean is the result (paper, 6.1)", 1, 10**9, default=5)
    seed: int = setting("all that is random follows from it", 0, 2**63 - 1, default=0)
    precision: str = setting("float32 or bfloat16", "float32", "bfloat16", default="float32")
    compile: bool = setting("let torch.compile make it faster", default=False)

    def __post_init__(self):
        require_settings(self)
