"""Training throughput on the same batches, against `nn.Transformer` with a dense loss."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.reporting.report import SEED
from benchmarks.reporting.timing import row, take_turns
from transformer_lab import Batch, ModelConfig, Objective, TrainConfig, Transformer, train_step
from transformer_lab.config import EOS, PAD, UNK
from transformer_lab.embedding import sinusoidal_encoding
from transformer_lab.support.dropout import Dropout
from transformer_lab.training.fused_loss import FusedLoss

SMOOTHING = 0.1
TARGET = "≥ 1.3"


def _config(layers: int, d_model: int, num_heads: int, d_ff: int, vocabulary: int = 10_000):
    return ModelConfig(
        source_vocab_size=vocabulary,
        target_vocab_size=vocabulary,
        num_encoder_layers=layers,
        num_decoder_layers=layers,
        d_model=d_model,
        num_heads=num_heads,
        d_ff=d_ff,
        max_length=64,
        tie_embeddings=True,
    )


SIZES = {
    "4+4 layers, d_model 128": _config(4, 128, 4, 256),
    "3+3 layers, d_model 256": _config(3, 256, 8, 1024),
}
SMOKE_SIZES = {"1+1 layers, d_model 16": _config(1, 16, 2, 32, vocabulary=50)}


class Reference(nn.Module):
    """The same model from PyTorch's own parts: `nn.Transformer`, one tied embedding, sinusoids."""

    def __init__(self, c: ModelConfig, attention_dropout: bool = True, shared_bits: bool = False):
        super().__init__()
        self.embedding = nn.Embedding(c.target_vocab_size, c.d_model)
        nn.init.normal_(self.embedding.weight, std=c.d_model**-0.5)
        self.generator = nn.Linear(c.d_model, c.target_vocab_size, bias=False)
        self.generator.weight = self.embedding.weight
        self.register_buffer("positions", sinusoidal_encoding(c.max_length, c.d_model))
        self.dropout = nn.Dropout(c.dropout)
        self.transformer = nn.Transformer(
            d_model=c.d_model,
            nhead=c.num_heads,
            num_encoder_layers=c.num_encoder_layers,
            num_decoder_layers=c.num_decoder_layers,
            dim_feedforward=c.d_ff,
            dropout=c.dropout,
            batch_first=True,
        )
        for module in self.modules():
            if isinstance(module, nn.MultiheadAttention) and not attention_dropout:
                module.dropout = 0.0
            if type(module) is nn.Dropout and shared_bits:
                module.__class__ = Dropout

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Return the decoder's states (B, Lt, d_model)."""
        Lt = target.shape[1]
        return self.transformer(
            self._embed(source),
            self._embed(target),
            tgt_mask=nn.Transformer.generate_square_subsequent_mask(Lt, dtype=torch.bool),
            src_key_padding_mask=source == PAD,
            tgt_key_padding_mask=target == PAD,
            memory_key_padding_mask=source == PAD,
            tgt_is_causal=True,
        )

    def _embed(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens) * math.sqrt(self.embedding.embedding_dim)
        return self.dropout(x + self.positions[: tokens.shape[1]])


def dense_loss(states: Tensor, generator: nn.Linear, targets: Tensor) -> Tensor:
    """Logits at all positions; padding is ignored only when the loss is added up."""
    logits = generator(states).flatten(0, 1)
    return F.cross_entropy(logits, targets.flatten(), ignore_index=PAD, label_smoothing=SMOOTHING)


def loss_of_real_tokens(states: Tensor, generator: nn.Linear, targets: Tensor) -> Tensor:
    """Logits only where there is a token to predict."""
    real = targets != PAD
    return F.cross_entropy(generator(states[real]), targets[real], label_smoothing=SMOOTHING)


def chunked_loss(states: Tensor, generator: nn.Linear, targets: Tensor) -> Tensor:
    """The package's loss: real tokens, a few at a time, loss and gradient in one pass."""
    real = targets != PAD
    loss = FusedLoss.apply(states[real], generator.weight, targets[real], SMOOTHING)
    return loss / real.sum()


def random_batches(count: int, vocabulary: int, sentences: int = 64) -> list[Batch]:
    """Return batches of random tokens whose lengths, EOS included, are 10 to 24, all as likely."""
    generator = torch.Generator().manual_seed(SEED)

    def sentence() -> list[int]:
        length = int(torch.randint(10, 25, (), generator=generator))
        ids = torch.randint(UNK + 1, vocabulary, (length - 1,), generator=generator)
        return [*ids.tolist(), EOS]

    return [
        Batch.from_pairs([(sentence(), sentence()) for _ in range(sentences)]) for _ in range(count)
    ]


def reference_training(model: Reference, loss_of, batches: list[Batch], bfloat16: bool = False):
    """Return a function that trains on all the batches as one would with PyTorch alone."""
    optimizer = _optimizer(model)
    precision = torch.autocast("cpu", torch.bfloat16, enabled=bfloat16)

    def run() -> None:
        for batch in batches:
            optimizer.zero_grad()
            with precision:
                states = model(batch.source, batch.target_in)
                loss = loss_of(states, model.generator, batch.target_out)
            loss.backward()
            optimizer.step()

    return run


def our_training(config: ModelConfig, batches: list[Batch], precision: str = "float32"):
    """Return a function that trains the package's model on all the batches."""
    settings = TrainConfig(label_smoothing=SMOOTHING, precision=precision)
    objective = Objective(Transformer(config), settings)
    optimizer = _optimizer(objective)

    def run() -> None:
        for batch in batches:
            train_step(objective, batch, optimizer)

    return run


def _optimizer(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.98), fused=True)


def measure(*, smoke: bool = False) -> list[dict]:
    """Return, for each size, the ratio to the reference as one change after the other is made."""
    rows = []
    for size, config in (SMOKE_SIZES if smoke else SIZES).items():
        batches = random_batches(2 if smoke else 4, config.target_vocab_size)
        variants = _variants(config, batches)
        for run in variants.values():
            run()  # warm up
        seconds = take_turns(variants, rounds=2 if smoke else 5)
        slow = seconds["nn.Transformer, dense loss"]
        tokens = sum(batch.num_tokens for batch in batches)
        for name, fast in seconds.items():
            if fast is not slow:
                ours = {"target": TARGET} if name.startswith("transformer_lab") else {}
                speed = {"tokens_per_second": round(tokens / min(fast)), "seconds": fast}
                rows.append(row(f"training, {size}: {name}", slow, fast, **ours, **speed))
    return rows


def _variants(config: ModelConfig, batches: list[Batch]) -> dict:
    def pytorch(loss_of, bfloat16=False, **options):
        return reference_training(Reference(config, **options), loss_of, batches, bfloat16)

    return {
        "nn.Transformer, dense loss": pytorch(dense_loss),
        "nn.Transformer, loss of real tokens": pytorch(loss_of_real_tokens),
        "the same, chunked": pytorch(chunked_loss),
        "and no dropout of attention weights": pytorch(chunked_loss, attention_dropout=False),
        "and dropout with shared bits": pytorch(
            chunked_loss, attention_dropout=False, shared_bits=True
        ),
        "transformer_lab": our_training(config, batches),
        "nn.Transformer, dense loss, bfloat16": pytorch(dense_loss, bfloat16=True),
        "transformer_lab, bfloat16": our_training(config, batches, "bfloat16"),
    }
