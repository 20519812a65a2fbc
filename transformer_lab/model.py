"""The encoder-decoder Transformer (paper, Figure 1), and how it is saved and loaded."""

import os
from dataclasses import asdict
from pathlib import Path

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from transformer_lab.attention import MultiHeadAttention
from transformer_lab.cache import DecoderCache
from transformer_lab.config import ModelConfig
from transformer_lab.embedding import PositionalEncoding, TokenEmbedding
from transformer_lab.layers import DecoderLayer, EncoderLayer
from transformer_lab.masks import decoder_mask, padding_mask
from transformer_lab.support.files import (
    as_folder,
    read_config,
    read_tensors,
    require_tensors,
    write_json,
    write_tensors,
)
from transformer_lab.support.validation import (
    require,
    require_floats,
    require_ids,
    require_type,
    shape_and_type,
)


class Encoder(nn.Module):
    """N encoder layers, one after the other; with pre-norm, a last LayerNorm."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        sizes = _sizes_of_a_layer(config)
        layers = (EncoderLayer(**sizes) for _ in range(config.num_encoder_layers))
        self.layers = nn.ModuleList(layers)
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
        sizes = _sizes_of_a_layer(config)
        layers = (DecoderLayer(**sizes) for _ in range(config.num_decoder_layers))
        self.layers = nn.ModuleList(layers)
        self.norm = nn.LayerNorm(config.d_model) if config.pre_norm else nn.Identity()

    def forward(
        self,
        x: Float[Tensor, "B Lt d_model"],
        memory: Float[Tensor, "B Ls d_model"],
        target_mask: Bool[Tensor, "..."] | None = None,
        memory_mask: Bool[Tensor, "..."] | None = None,
        cache: DecoderCache | None = None,
    ) -> Float[Tensor, "B Lt d_model"]:
        caches = [None] * len(self.layers) if cache is None else cache.layers
        for layer, layer_cache in zip(self.layers, caches, strict=True):
            x = layer(x, memory, target_mask, memory_mask, cache=layer_cache)
        return self.norm(x)


def _sizes_of_a_layer(config: ModelConfig) -> dict:
    require_type(config, ModelConfig, "config")
    sizes = ("d_model", "num_heads", "d_ff", "dropout")
    kinds = ("pre_norm", "attention_bias", "activation_dropout")
    return {name: getattr(config, name) for name in sizes + kinds}


class Transformer(nn.Module):
    """Translate by attention: `encode` the source once, `decode` the target (paper, section 3).

    Token ids in, logits out; the masks are made inside, from PAD. Raises `ValueError` for ids out
    of range, sentences longer than `max_length`, and shapes that do not fit.
    """

    def __init__(self, config: ModelConfig):
        super().__init__()
        require_type(config, ModelConfig, "config")
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
        _require_batch(source, "source")
        mask = padding_mask(source)
        return self.encoder(self.positions(self.source_embedding(source)), mask), mask

    def decode(
        self,
        target: Int[Tensor, "B Lt"],
        memory: Float[Tensor, "B Ls d_model"],
        memory_mask: Bool[Tensor, "B 1 1 Ls"] | None = None,
        *,
        cache: DecoderCache | None = None,
    ) -> Float[Tensor, "B Lt V"]:
        """Return the logits that follow each target token.

        With a `cache` (from `new_cache`), `target` holds only the tokens since the last call; a
        call that raises an error leaves the cache as it was.
        """
        return self.generator(self.decode_states(target, memory, memory_mask, cache=cache))

    def decode_states(
        self,
        target: Int[Tensor, "B Lt"],
        memory: Float[Tensor, "B Ls d_model"],
        memory_mask: Bool[Tensor, "B 1 1 Ls"] | None = None,
        *,
        cache: DecoderCache | None = None,
    ) -> Float[Tensor, "B Lt d_model"]:
        """Return the decoder's states, from which `generator` makes the logits."""
        _require_batch(target, "target")
        require_floats(memory, "memory", "B Ls d_model", self.config.d_model)
        if memory.shape[0] != target.shape[0]:
            raise ValueError(
                f"source and target must hold the same number of sentences, got {len(memory)} and "
                f"{len(target)}"
            )
        x = self.target_embedding(target)
        if cache is None:
            return self.decoder(self.positions(x), memory, decoder_mask(target), memory_mask)
        length = cache.length
        x = self.positions(x, length)
        cache.append(target)
        try:
            return self.decoder(x, memory, cache.mask(target.shape[1]), memory_mask, cache)
        except BaseException:
            cache.cut(length)  # a layer may have kept keys of tokens that the next one refused
            raise

    def new_cache(self) -> DecoderCache:
        """Return an empty cache for decoding step by step."""
        return DecoderCache(len(self.decoder.layers))

    def _initialise(self) -> None:
        # The paper does not say how the weights start. Xavier's width keeps the size of what goes
        # through a layer; tying, afterwards, gives the generator the embedding's numbers.
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)


def _require_batch(tokens: Tensor, name: str) -> None:
    require_ids(tokens, name)
    if tokens.numel() == 0:
        raise ValueError(f"{name} must hold at least one token, got {shape_and_type(tokens)}")


def attention_maps(
    model: Transformer, source: Int[Tensor, "B Ls"], target: Int[Tensor, "B Lt"]
) -> dict[str, Float[Tensor, "B H Lq Lk"]]:
    """Return the weights of every attention in the model, by the name of its module.

    No gradients; the model is run in the mode that it is in, so call `model.eval()` first.
    Raises `ValueError` as the model does.
    """
    require_type(model, nn.Module, "model")
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


WEIGHTS_FILE, CONFIG_FILE = "weights.safetensors", "config.json"


def parameters_of(model: nn.Module) -> dict[str, Tensor]:
    """Return the parameters by name; a matrix that is tied appears once."""
    return dict(model.named_parameters())


def load_parameters(model: nn.Module, tensors: dict[str, Tensor], where: Path | str) -> None:
    """Copy `tensors`, found `where` an error says, into the model; `ValueError` unless all fit."""
    require_tensors(tensors, parameters_of(model), where)
    with torch.no_grad():
        for name, parameter in parameters_of(model).items():
            parameter.copy_(tensors[name])


def num_parameters(config: ModelConfig) -> int:
    """Return the number of parameters of `Transformer(config)`, without making one."""
    # Counted, not looked up in a model on the device "meta": that imports sympy and torch._dynamo,
    # which takes longer than to load the model and translate a sentence with it.
    d_model, d_ff = config.d_model, config.d_ff
    sources, targets = config.source_vocab_size, config.target_vocab_size
    embeddings_and_generator = targets if config.tie_embeddings else sources + targets + targets
    bias = d_model if config.attention_bias else 0
    attention = 4 * (d_model * d_model + bias)
    feed_forward = (d_model * d_ff + d_ff) + (d_ff * d_model + d_model)
    norm = 2 * d_model
    return (
        embeddings_and_generator * d_model
        + config.num_encoder_layers * (attention + feed_forward + 2 * norm)
        + config.num_decoder_layers * (2 * attention + feed_forward + 3 * norm)
        + (2 * norm if config.pre_norm else 0)
    )


def save(model: Transformer, folder: str | os.PathLike) -> None:
    """Write `config.json` and `weights.safetensors`; each file is replaced whole or not at all.

    Raises `ValueError` if `folder` is a file.
    """
    require_type(model, Transformer, "model")
    folder = as_folder(folder)
    write_json(folder / CONFIG_FILE, asdict(model.config))
    write_tensors(folder / WEIGHTS_FILE, parameters_of(model))


def load(folder: str | os.PathLike) -> Transformer:
    """Return the model saved in `folder`, in evaluation mode.

    Nothing in the files is executed. Raises `ValueError`, in one sentence, if they are missing,
    damaged, or do not belong together.
    """
    folder = as_folder(folder)
    config = read_config(folder / CONFIG_FILE, ModelConfig)
    tensors, _ = read_tensors(folder / WEIGHTS_FILE)
    # Before memory is taken for the model: a hostile config must not fill it.
    came, wanted = sum(t.numel() for t in tensors.values()), num_parameters(config)
    require(
        came == wanted,
        f"{folder / WEIGHTS_FILE} must hold the {wanted:,} numbers of the model in {CONFIG_FILE}, "
        f"got {came:,}",
    )
    with torch.random.fork_rng(devices=[]):  # the caller's random numbers stay as they were
        model = Transformer(config)
    load_parameters(model, tensors, folder / WEIGHTS_FILE)
    return model.eval()
