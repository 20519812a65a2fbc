"""The encoder-decoder Transformer (paper, Figure 1; lesson 07)."""

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from transformer_lab.cache import DecoderCache
from transformer_lab.config import ModelConfig
from transformer_lab.embedding import PositionalEncoding, TokenEmbedding
from transformer_lab.layers import DecoderLayer, EncoderLayer
from transformer_lab.masks import decoder_mask, padding_mask
from transformer_lab.support.validation import require_floats, require_tokens, require_type


class Encoder(nn.Module):
    """N encoder layers, one after the other; with pre-norm, a last LayerNorm."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        require_type(config, ModelConfig, "config")
        self.layers = _layers(EncoderLayer, config.num_encoder_layers, config)
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
        require_type(config, ModelConfig, "config")
        self.layers = _layers(DecoderLayer, config.num_decoder_layers, config)
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


def _layers(kind: type[nn.Module], count: int, config: ModelConfig) -> nn.ModuleList:
    """Return `count` layers of a kind."""
    sizes = config.d_model, config.num_heads, config.d_ff
    rest = config.dropout, config.pre_norm, config.activation_dropout
    return nn.ModuleList(kind(*sizes, *rest) for _ in range(count))


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
        require_tokens(source, "source", self.config.source_vocab_size)
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
        require_tokens(target, "target", self.config.target_vocab_size)
        require_floats(memory, "memory", "B Ls d_model", self.config.d_model)
        if memory.shape[0] != target.shape[0]:
            raise ValueError(
                f"source and target must hold the same number of sentences, got {len(memory)} and "
                f"{len(target)}"
            )
        x = self.positions(self.target_embedding(target), 0 if cache is None else cache.length)
        if cache is None:
            return self.decoder(x, memory, decoder_mask(target), memory_mask)
        with cache.adding(target) as mask:
            return self.decoder(x, memory, mask, memory_mask, cache)

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
