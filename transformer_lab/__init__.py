"""Transformer Lab: the model of *Attention Is All You Need*, small and clear.

The model, and all that trains and uses it, can be imported from here:

>>> from transformer_lab import ModelConfig, Transformer, greedy_decode

Figures are in `transformer_lab.plots`. To read the source, start with config, masks, attention,
embedding, layers, model; README.md has the rest of the order.
"""

from transformer_lab.attention import (
    MultiHeadAttention,
    merge_heads,
    scaled_dot_product_attention,
    split_heads,
)
from transformer_lab.cache import KVCache
from transformer_lab.config import BOS, EOS, PAD, UNK, ModelConfig, TrainConfig
from transformer_lab.data import Batch, batches_by_tokens, date_pairs, load_multi30k
from transformer_lab.decoding import beam_search, greedy_decode, keep_top_k, keep_top_p, sample
from transformer_lab.embedding import PositionalEncoding, TokenEmbedding, sinusoidal_encoding
from transformer_lab.layers import AddNorm, DecoderLayer, EncoderLayer, FeedForward
from transformer_lab.maps import attention_maps
from transformer_lab.masks import causal_mask, decoder_mask, padding_mask
from transformer_lab.model import Decoder, Encoder, Transformer
from transformer_lab.presets import PRESETS, Preset
from transformer_lab.runs import Run, load_run, train
from transformer_lab.saving import load, save
from transformer_lab.support.threads import limit_threads
from transformer_lab.tokenizer import Tokenizer, train_tokenizer
from transformer_lab.training import (
    Objective,
    average_checkpoints,
    fit,
    noam_rate,
    sequence_loss,
    train_step,
    validate,
)

__all__ = [
    "BOS",
    "EOS",
    "PAD",
    "PRESETS",
    "UNK",
    "AddNorm",
    "Batch",
    "Decoder",
    "DecoderLayer",
    "Encoder",
    "EncoderLayer",
    "FeedForward",
    "KVCache",
    "ModelConfig",
    "MultiHeadAttention",
    "Objective",
    "PositionalEncoding",
    "Preset",
    "Run",
    "TokenEmbedding",
    "Tokenizer",
    "TrainConfig",
    "Transformer",
    "attention_maps",
    "average_checkpoints",
    "batches_by_tokens",
    "beam_search",
    "causal_mask",
    "date_pairs",
    "decoder_mask",
    "fit",
    "greedy_decode",
    "keep_top_k",
    "keep_top_p",
    "load",
    "load_multi30k",
    "load_run",
    "merge_heads",
    "noam_rate",
    "padding_mask",
    "sample",
    "save",
    "scaled_dot_product_attention",
    "sequence_loss",
    "sinusoidal_encoding",
    "split_heads",
    "train",
    "train_step",
    "train_tokenizer",
    "validate",
]

limit_threads()
