"""The encoder-decoder Transformer (paper, Figure 1), and how it is saved and loaded."""

import os
from dataclasses import asdict
from pathlib import Path

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from transformer_lab.attention import KVCache, MultiHeadAttention
from transformer_lab.config import PAD, ModelConfig
from transformer_lab.embedding import PositionalEncoding, TokenEmbedding
from transformer_lab.files import (
    as_folder,
    check_tensors,
    read_config,
    read_tensors,
    write_json,
    write_tensors,
)
from transformer_lab.inputs import check_floats, check_ids, check_type, describe, require
from transformer_lab.layers import DecoderLayer, EncoderLayer
from transformer_lab.masks import decoder_mask, padding_mask


class Encoder(nn.Module):
    """N encoder layers, one after the other; with pre-norm, a last LayerNorm."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        sizes = _layer_sizes(config)
        self.layers = nn.ModuleList(EncoderLayer(*sizes) for _ in range(config.num_encoder_layers))
        self.norm = nn.LayerNorm(config.d_model) if config.pre_norm else nn.Identity()

    def forward(
        self, x: Float[Tensor, "B Ls d_model"], mask: Bool[Tensor, "..."] | None = None
    ) -> Float[Tensor, "B Ls d_model"]:
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)


class Decoder(nn.Module):
    """N decoder layers, one after the other; with pre-norm, a last LayerNorm."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        sizes = _layer_sizes(config)
        self.layers = nn.ModuleList(DecoderLayer(*sizes) for _ in range(config.num_decoder_layers))
        self.norm = nn.LayerNorm(config.d_model) if config.pre_norm else nn.Identity()

    def forward(
        self,
        x: Float[Tensor, "B Lt d_model"],
        memory: Float[Tensor, "B Ls d_model"],
        target_mask: Bool[Tensor, "..."] | None = None,
        memory_mask: Bool[Tensor, "..."] | None = None,
        cache: "DecoderCache | None" = None,
    ) -> Float[Tensor, "B Lt d_model"]:
        for i, layer in enumerate(self.layers):
            x = layer(x, memory, target_mask, memory_mask, cache=cache and cache.layers[i])
        return self.norm(x)


def _layer_sizes(c: ModelConfig) -> tuple:
    check_type(c, ModelConfig, "config")
    return c.d_model, c.num_heads, c.d_ff, c.dropout, c.pre_norm, c.attention_bias


class Transformer(nn.Module):
    """Translate by attention: `encode` the source once, `decode` the target (paper, section 3).

    Token ids in, logits out; the masks are made inside, from PAD. Raises `ValueError` for ids out
    of range, sentences longer than `max_length`, and shapes that do not fit.
    """

    def __init__(self, config: ModelConfig):
        super().__init__()
        check_type(config, ModelConfig, "config")
        self.config = config
        self.source_embedding = TokenEmbedding(config.source_vocab_size, config.d_model)
        self.target_embedding = TokenEmbedding(config.target_vocab_size, config.d_model)
        self.positions = PositionalEncoding(config.d_model, config.max_length, config.dropout)
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)
        self.generator = nn.Linear(config.d_model, config.target_vocab_size, bias=False)
        self._initialise()
        if config.tie_embeddings:
            self.source_embedding.table = self.target_embedding.table
            self.generator.weight = self.target_embedding.table

    def forward(
        self, source: Int[Tensor, "B Ls"], target: Int[Tensor, "B Lt"]
    ) -> Float[Tensor, "B Lt V"]:
        """Return the logits of each next token, given the source and the target up to there."""
        memory, memory_mask = self.encode(source)
        return self.decode(target, memory, memory_mask)

    def encode(
        self, source: Int[Tensor, "B Ls"]
    ) -> tuple[Float[Tensor, "B Ls d_model"], Bool[Tensor, "B 1 1 Ls"]]:
        """Return what the decoder looks at, and the mask that hides the source's padding."""
        _check_batch(source, "source")
        mask = padding_mask(source)
        return self.encoder(self.positions(self.source_embedding(source)), mask), mask

    def decode(
        self,
        target: Int[Tensor, "B Lt"],
        memory: Float[Tensor, "B Ls d_model"],
        memory_mask: Bool[Tensor, "B 1 1 Ls"] | None = None,
        *,
        cache: "DecoderCache | None" = None,
    ) -> Float[Tensor, "B Lt V"]:
        """Return the logits that follow each target token.

        With a `cache` (from `new_cache`), `target` holds only the tokens since the last call.
        """
        return self.generator(self.decode_states(target, memory, memory_mask, cache=cache))

    def decode_states(
        self,
        target: Int[Tensor, "B Lt"],
        memory: Float[Tensor, "B Ls d_model"],
        memory_mask: Bool[Tensor, "B 1 1 Ls"] | None = None,
        *,
        cache: "DecoderCache | None" = None,
    ) -> Float[Tensor, "B Lt d_model"]:
        """Return the decoder's states, from which `generator` makes the logits."""
        _check_batch(target, "target")
        check_floats(memory, "memory", "B Ls", d_model=self.config.d_model)
        if memory.shape[0] != target.shape[0]:
            raise ValueError(
                f"source and target must hold the same number of sentences, got {len(memory)} and "
                f"{len(target)}"
            )
        offset = cache.length if cache else 0
        x = self.positions(self.target_embedding(target), offset)
        target_mask = cache.append(target) if cache else decoder_mask(target)
        return self.decoder(x, memory, target_mask, memory_mask, cache)

    def new_cache(self) -> "DecoderCache":
        """Return an empty cache for decoding step by step."""
        return DecoderCache(self.config.num_decoder_layers)

    def _initialise(self) -> None:
        # The paper does not say how the weights start. Xavier's width keeps the size of what goes
        # through a layer; tying, afterwards, gives the generator the embedding's numbers.
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)


class DecoderCache:
    """What the decoder has computed for the tokens so far: two `KVCache`s per layer.

    It also remembers the tokens: their number is the position of the next one, and padding among
    them stays hidden.
    """

    def __init__(self, num_layers: int):
        self.layers = [(KVCache(), KVCache(fixed=True)) for _ in range(num_layers)]
        self.tokens: Tensor | None = None
        self.has_padding = False

    @property
    def length(self) -> int:
        """The number of tokens so far."""
        return 0 if self.tokens is None else self.tokens.shape[1]

    def append(self, target: Int[Tensor, "B Lt"]) -> Bool[Tensor, "..."] | None:
        """Remember new tokens; return the mask for their queries, None where all is allowed."""
        if self.tokens is not None:
            require(
                target.shape[0] == self.tokens.shape[0],
                f"the cache holds {self.tokens.shape[0]} sentences, got {target.shape[0]}",
            )
        self.tokens = target if self.tokens is None else torch.cat((self.tokens, target), dim=1)
        self.has_padding = self.has_padding or bool((target == PAD).any())
        if target.shape[1] > 1:
            return decoder_mask(self.tokens)[:, :, -target.shape[1] :]
        return padding_mask(self.tokens) if self.has_padding else None

    def select(self, rows: Tensor) -> None:
        """Keep these sentences, in this order (rows may repeat)."""
        for caches in self.layers:
            for cache in caches:
                cache.select(rows)
        if self.tokens is not None:
            self.tokens = self.tokens[rows]


def _check_batch(tokens: Tensor, name: str) -> None:
    check_ids(tokens, name)
    if tokens.numel() == 0:
        raise ValueError(f"{name} must hold at least one token, got {describe(tokens)}")


def attention_maps(
    model: Transformer, source: Int[Tensor, "B Ls"], target: Int[Tensor, "B Lt"]
) -> dict[str, Float[Tensor, "B H Lq Lk"]]:
    """Return the weights of every attention in the model, by the name of its module.

    No gradients; the model is run in the mode that it is in, so call `model.eval()` first.
    Raises `ValueError` as the model does.
    """
    check_type(model, nn.Module, "model")
    maps = {}
    handles = []
    for name, module in model.named_modules():
        if isinstance(module, MultiHeadAttention):

            def record(module, inputs, output, name=name):
                # The model asks for no weights; `forward` again, as a call would be recorded too.
                maps[name] = module.forward(*inputs, return_weights=True)[1]

            handles.append(module.register_forward_hook(record))
    try:
        with torch.no_grad():
            model(source, target)
    finally:
        for handle in handles:
            handle.remove()
    return maps


WEIGHTS, CONFIG = "weights.safetensors", "config.json"


def weights(model: nn.Module) -> dict[str, Tensor]:
    """Return the parameters by name; a matrix that is tied appears once."""
    return dict(model.named_parameters())


def load_weights(model: nn.Module, tensors: dict[str, Tensor], path: str | os.PathLike) -> None:
    """Copy `tensors`, read from `path`, into the model; `ValueError` unless all of them fit."""
    check_tensors(tensors, weights(model), Path(path))
    with torch.no_grad():
        for name, parameter in weights(model).items():
            parameter.copy_(tensors[name])


def num_parameters(c: ModelConfig) -> int:
    """Return the number of parameters of `Transformer(c)`, without making it."""
    norm = 2 * c.d_model
    attention = 4 * c.d_model * (c.d_model + c.attention_bias)
    ffn = c.d_model * c.d_ff + c.d_ff + c.d_ff * c.d_model + c.d_model
    encoder = c.num_encoder_layers * (attention + ffn + 2 * norm) + c.pre_norm * norm
    decoder = c.num_decoder_layers * (2 * attention + ffn + 3 * norm) + c.pre_norm * norm
    vocabulary = c.source_vocab_size + 2 * c.target_vocab_size
    if c.tie_embeddings:
        vocabulary = c.target_vocab_size
    return vocabulary * c.d_model + encoder + decoder


def save(model: Transformer, folder: str | os.PathLike) -> None:
    """Write `config.json` and `weights.safetensors`; each file is replaced whole or not at all.

    Raises `ValueError` if `folder` is a file.
    """
    check_type(model, Transformer, "model")
    folder = as_folder(folder)
    write_json(folder / CONFIG, asdict(model.config))
    write_tensors(folder / WEIGHTS, weights(model))


def load(folder: str | os.PathLike) -> Transformer:
    """Return the model saved in `folder`, in evaluation mode.

    Nothing in the files is executed. Raises `ValueError`, in one sentence, if they are missing,
    damaged, or do not belong together.
    """
    folder = as_folder(folder)
    config = read_config(folder / CONFIG, ModelConfig)
    tensors, _ = read_tensors(folder / WEIGHTS)
    # Before memory is taken for the model: a hostile config must not fill it.
    held, wanted = sum(t.numel() for t in tensors.values()), num_parameters(config)
    require(
        held == wanted,
        f"{folder / WEIGHTS} must hold the {wanted:,} numbers of the model in {CONFIG}, "
        f"got {held:,}",
    )
    with torch.random.fork_rng(devices=[]):  # the caller's random numbers stay as they were
        model = Transformer(config)
    load_weights(model, tensors, folder / WEIGHTS)
    return model.eval()
