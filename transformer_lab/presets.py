"""What can be trained by name: a task, a model of a size that suits it, and how it is trained."""

from dataclasses import dataclass, replace

from transformer_lab.config import ModelConfig, TrainConfig
from transformer_lab.decoding import LENGTH_PENALTY, require_search
from transformer_lab.support.validation import require
from transformer_lab.tokenizer import smallest_vocab_size

TASKS = ("dates", "multi30k-raw", "multi30k-tok", "pairs")


@dataclass(frozen=True, kw_only=True)
class Preset:
    """A task, a model for it, and how to train and decode it.

    `data` is "dates", "multi30k-raw", "multi30k-tok" or "pairs". The vocabulary sizes of `model`
    are what the tokenizer is asked for; it may find fewer pieces. `beam=1` decodes greedily;
    `length_penalty` is the beam's.

    Raises `ValueError` for an unknown task or parts of the wrong type.
    """

    data: str
    model: ModelConfig
    training: TrainConfig
    beam: int = 1
    length_penalty: float = LENGTH_PENALTY

    def __post_init__(self):
        require(self.data in TASKS, f"data must be one of {TASKS}, got {self.data!r}")
        require(
            isinstance(self.model, ModelConfig) and isinstance(self.training, TrainConfig),
            f"model must be a ModelConfig and training a TrainConfig, got "
            f"{type(self.model).__name__} and {type(self.training).__name__}",
        )
        require_search(self.beam, self.length_penalty)


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
    # For the comparison with the published figure, 41.02 on test2016, whose run had at most as many
    # updates; one to two hours on a CPU, the first with bfloat16. results/recipes.json has what was
    # tried, on the validation set.
    "multi30k-tok": Preset(
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
            pre_norm=True,
            activation_dropout=False,
        ),
        training=TrainConfig(
            steps=8000,
            max_tokens=2000,
            warmup=300,
            rate_factor=1.6,
            schedule="linear",
            optimizer="muon",
            weight_decay=0.1,
            checkpoint_every=250,
            average=10,
        ),
        beam=5,
        length_penalty=2.0,
    ),
    # The user's own sentences; `fitted_settings` says what of this depends on them.
    "pairs": Preset(
        data="pairs",
        model=_sizes(
            100,
            d_model=64,
            num_heads=4,
            d_ff=256,
            num_encoder_layers=2,
            num_decoder_layers=2,
            dropout=0.1,
            max_length=2048,  # twice what a side of a pair may have in characters
            pre_norm=True,
        ),
        training=TrainConfig(
            steps=1500,
            max_tokens=1200,  # a pair of the greatest length must go into a batch
            warmup=150,
            rate_factor=0.35,
            label_smoothing=0.0,
            clip_norm=1.0,
            checkpoint_every=100,
            average=5,
        ),
        beam=4,
    ),
    # The paper's two models, for their size and speed: Multi30k is far too small for them, and
    # WMT14, which they were made for, is not part of the course.
    "base": Preset(
        data="multi30k-raw",
        model=_sizes(37_000, activation_dropout=False),
        training=TrainConfig(),
        beam=4,
    ),
    "big": Preset(
        data="multi30k-raw",
        model=_sizes(
            37_000,
            d_model=1024,
            num_heads=16,
            d_ff=4096,
            dropout=0.3,
            activation_dropout=False,
        ),
        training=TrainConfig(steps=300_000, average=20),
        beam=4,
    ),
}
# The recipe of the comparison, on text as a reader of German would see it.
PRESETS["multi30k-raw"] = replace(PRESETS["multi30k-tok"], data="multi30k-raw")

# What each learns, and how long that took on two cores of a CPU or, in bfloat16, on one H200.
ABOUT = {
    "dates": "dates as people write them, to 2019-02-15; a minute on two cores",
    "multi30k": "captions of photographs, English to German; 15 minutes on two cores",
    "multi30k-tok": "the same in lower-case words, as in papers; 1 to 2 hours on two cores",
    "multi30k-raw": "captions as in multi30k, with the model and the steps of multi30k-tok",
    "pairs": "sentences of your own, from a file; sizes and steps are fitted to them",
    "base": "the paper's base model, on captions: 2 hours on an H200, months on two cores",
    "big": "the paper's big model, on captions: 7 hours on an H200, years on two cores",
}

SHORT_PAIR, MANY_PAIRS = 80, 10_000  # the first in characters, both sides together
SENTENCES = {"d_model": 128, "dropout": 0.3, "warmup": 200, "rate_factor": 0.8, "steps": 1500}
MANY_SENTENCES = {
    "d_model": 192,
    "num_heads": 6,
    "d_ff": 512,
    "num_encoder_layers": 3,
    "num_decoder_layers": 3,
    "dropout": 0.2,
    "warmup": 700,
    "rate_factor": 0.8,
    "steps": 8000,
}


def fitted_settings(pairs: list[tuple[str, str]]) -> dict:
    """Return the settings of the preset "pairs" that depend on the pairs to learn from.

    Short pairs, of at most 80 characters on average with both sides together, are read character
    by character. Longer ones are read in pieces, one merge of byte-pair encoding for 2 pairs and
    at most 4,000, by a wider model with smoothed labels; from 10,000 pairs its size is that of the
    preset "multi30k".

    Measured once each, with 5,000 pairs, on 200 that were held out: numbers in words came out
    right to 85.0 % in characters, to 84.5 % with 500 merges (1,000 steps); captions reached BLEU
    0.5 in characters, 11.0 with 600 merges and 14.9 with 2,000 (700 steps, d_model 128).
    """
    texts = [text for pair in pairs for text in pair]
    size, fitted = smallest_vocab_size(texts), {}
    if sum(map(len, texts)) > SHORT_PAIR * len(pairs):
        size += min(4000, len(pairs) // 2)
        fitted = MANY_SENTENCES if len(pairs) >= MANY_PAIRS else SENTENCES
        fitted = fitted | {"label_smoothing": 0.1}
    return fitted | dict.fromkeys(("source_vocab_size", "target_vocab_size"), size)
