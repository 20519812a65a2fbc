"""From a trained model to sentences: greedy, by chance, or with a beam; batched and cached.

Lesson 09 has greedy decoding in ten lines, for one sentence and without a cache.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from transformer_lab.config import BOS, EOS, PAD
from transformer_lab.model import Transformer
from transformer_lab.support.dropout import without_dropout
from transformer_lab.support.validation import (
    is_number,
    require,
    require_floats,
    require_sizes,
    require_type,
    shown,
)

LENGTH_PENALTY = 0.6  # the paper's (6.1)
MAX_BEAM, MAX_LENGTH_PENALTY = 1000, 10


def require_search(beam: Any, length_penalty: Any) -> None:
    """Raise `ValueError` unless a beam can have this width and this length penalty."""
    require_sizes(beam=beam)
    require(beam <= MAX_BEAM, f"beam must be at most {MAX_BEAM:,}, got {beam}")
    in_range = is_number(length_penalty) and 0 <= length_penalty <= MAX_LENGTH_PENALTY
    wanted = f"length_penalty must be a number from 0 to {MAX_LENGTH_PENALTY}"
    require(in_range, f"{wanted}, got {shown(length_penalty)}")


def greedy_decode(
    model: Transformer,
    source: Int[Tensor, "B Ls"],
    *,
    max_length: int | None = None,
    use_cache: bool = True,
) -> Int[Tensor, "B L"]:
    """Write the most probable token at each step, until EOS or `max_length` tokens with BOS.

    Returns token ids that start with BOS, with PAD after EOS. Nothing is dropped out, also while
    the model is in training. Raises `ValueError` for a `max_length` below 2 or above the model's.
    """
    return _generate(model, source, lambda logits: logits.argmax(dim=-1), max_length, use_cache)


def sample(
    model: Transformer,
    source: Int[Tensor, "B Ls"],
    *,
    generator: torch.Generator,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    max_length: int | None = None,
) -> Int[Tensor, "B L"]:
    """Draw each token from softmax(logits / temperature), cut to `top_k` and `top_p` if given.

    Returns what `greedy_decode` returns; raises `ValueError` for settings out of range.
    """
    require_type(generator, torch.Generator, "generator")
    require(
        is_number(temperature) and temperature >= 1e-6,
        f"temperature must be a number from 1e-6, got {shown(temperature)}",
    )

    def choose(logits: Tensor) -> Tensor:
        # The softmax stays the same, and the largest logit, now 0, finite at any temperature.
        logits = (logits - logits.amax(dim=-1, keepdim=True)) / temperature
        if top_k is not None:
            logits = keep_top_k(logits, top_k)
        if top_p is not None:
            logits = keep_top_p(logits, top_p)
        shares = logits.softmax(dim=-1).to(generator.device)  # which need not be the model's
        return torch.multinomial(shares, 1, generator=generator).squeeze(-1).to(logits.device)

    return _generate(model, source, choose, max_length, use_cache=True)


def _generate(
    model: Transformer,
    source: Int[Tensor, "B Ls"],
    choose: Callable[[Tensor], Tensor],
    max_length: int | None,
    use_cache: bool,
) -> Int[Tensor, "B L"]:
    """Append `choose(logits)` to every sentence until all have ended, or are `max_length` long."""
    max_length = _valid_max_length(model, max_length)
    with torch.inference_mode(), without_dropout(model):
        going_on = _GoingOn(model, source, use_cache)
        written = source.new_full((len(source), max_length), PAD, dtype=torch.int64)
        written[:, 0] = BOS
        for length in range(1, max_length):
            token = choose(going_on.logits(written[:, :length]))
            written[going_on.rows, length] = token
            going_on.drop(token == EOS)
            if len(going_on.rows) == 0:
                break
    # A copy made out here, as PyTorch trains on nothing that was made in inference mode.
    return written[:, : length + 1].clone()


class _GoingOn:
    """The sentences of a batch that have not ended: their rows, and what the decoder reads."""

    def __init__(self, model: Transformer, source: Int[Tensor, "B Ls"], use_cache: bool):
        self.model = model
        self.memory, self.memory_mask = model.encode(source)
        self.cache = model.new_cache() if use_cache else None
        self.rows = torch.arange(len(source), device=source.device)

    def logits(self, written: Int[Tensor, "B L"]) -> Float[Tensor, "rows V"]:
        """Return the logits of the next token; a cache has read all but the last one already."""
        new = written[self.rows] if self.cache is None else written[self.rows, -1:]
        logits = self.model.decode(new, self.memory, self.memory_mask, cache=self.cache)[:, -1]
        return _without_nan(logits)

    def drop(self, ended: Bool[Tensor, "rows"]) -> None:
        """Go on without these."""
        if not ended.any():
            return
        stay = (~ended).nonzero().squeeze(1)
        self.rows = self.rows[stay]
        self.memory, self.memory_mask = self.memory[stay], self.memory_mask[stay]
        if self.cache is not None:
            self.cache.select(stay)


def _without_nan(logits: Float[Tensor, "rows V"]) -> Float[Tensor, "rows V"]:
    """Return the logits; `ValueError` if there is a NaN, of which any choice would be wrong."""
    broken = bool(logits.amax(dim=-1).isnan().any())
    require(not broken, "the model's logits must be numbers, got NaN: its weights may be broken")
    return logits


def keep_top_k(logits: Float[Tensor, "*B V"], k: int) -> Float[Tensor, "*B V"]:
    """Set all but the k largest logits to −inf; among equals, the lower ids stay.

    Raises `ValueError` unless k is a whole number from 1.
    """
    require_floats(logits, "logits", "... V")
    require_sizes(k=k)
    order = logits.argsort(dim=-1, descending=True, stable=True)
    return logits.scatter(-1, order[..., k:], -math.inf)


def keep_top_p(logits: Float[Tensor, "*B V"], p: float) -> Float[Tensor, "*B V"]:
    """Keep the smallest set of most probable tokens that reaches probability p; −inf elsewhere.

    The set is never empty. Raises `ValueError` unless 0 < p ≤ 1.
    """
    require_floats(logits, "logits", "... V")
    require(is_number(p) and 0 < p <= 1, f"p must be above 0 and at most 1, got {shown(p)}")
    if p == 1:
        return logits.clone()  # the rounded sum may reach 1 before its end
    ordered, order = logits.sort(dim=-1, descending=True, stable=True)
    probabilities = ordered.softmax(dim=-1, dtype=torch.float32)
    before = probabilities.cumsum(dim=-1) - probabilities  # reached without this token
    beyond = before >= p
    beyond[..., 0] = False  # never empty, even where p is so small that float32 makes it 0
    return torch.empty_like(logits).scatter(-1, order, ordered.masked_fill(beyond, -math.inf))


@torch.no_grad()
def beam_search(
    model: Transformer,
    source: Int[Tensor, "B Ls"],
    *,
    beam: int = 5,
    max_length: int | None = None,
    length_penalty: float = LENGTH_PENALTY,
    return_all: bool = False,
) -> Int[Tensor, "B L"] | tuple[Int[Tensor, "B K L"], Float[Tensor, "B K"]]:
    """Follow the `beam` best prefixes at once; return the best sentence by penalised score.

    score = log P / ((5 + n) / 6)^length_penalty, with n tokens after BOS (Wu et al., 2016,
    equation 14, where it is α; paper, 6.1: beam 4, α = 0.6). A sentence is done when `beam`
    hypotheses have ended.

    Returns (B, L) ids as `greedy_decode`; with `return_all`, (B, beam, L) from best to worst and
    their scores (B, beam), −inf where there are fewer. Raises `ValueError` for settings out of
    range.
    """
    max_length = _valid_max_length(model, max_length)
    require_search(beam, length_penalty)
    with without_dropout(model):
        memory, memory_mask = model.encode(source)
        search = _Beams(len(source), beam, max_length, length_penalty, source.device)
        cache = model.new_cache()
        rows = search.rows()  # the alive beams' rows in memory and cache
        memory, memory_mask = memory[rows], memory_mask[rows]
        for step in range(1, max_length):
            newest = search.alive[search.open][:, :, step - 1].reshape(-1, 1)
            logits = _without_nan(model.decode(newest, memory, memory_mask, cache=cache)[:, -1])
            rows = search.extend(step, logits.log_softmax(dim=-1, dtype=torch.float32))
            if len(rows) == 0:
                break
            cache.select(rows)
            memory, memory_mask = memory[rows], memory_mask[rows]
    tokens, scores = search.best(step)
    return (tokens, scores) if return_all else tokens[:, 0]


def _valid_max_length(model: Transformer, max_length: int | None) -> int:
    require_type(model, nn.Module, "model")
    limit = model.config.max_length
    max_length = limit if max_length is None else max_length
    require(
        type(max_length) is int and 2 <= max_length <= limit,
        f"max_length must be from 2 to the model's {limit}, got {shown(max_length)}",
    )
    return max_length


class _Beams:
    """The hypotheses of B sentences: K alive and up to K ended ones each, as tensors (B, K, …)."""

    def __init__(
        self, B: int, K: int, max_length: int, length_penalty: float, device: torch.device
    ):
        self.K, self.length_penalty = K, length_penalty
        self.open = torch.arange(B, device=device)  # the sentences that are not done
        self.alive = torch.full((B, K, max_length), PAD, device=device)
        self.alive[:, :, 0] = BOS
        self.alive_log_p = torch.full((B, K), -math.inf, device=device)
        self.alive_log_p[:, 0] = 0.0  # at first there is one prefix, not K copies
        self.ended = self.alive.clone()
        self.ended_score = torch.full((B, K), -math.inf, device=device)

    def rows(self) -> Tensor:
        """Return the sentence of each alive hypothesis, (B × K)."""
        return self.open.repeat_interleave(self.K)

    def score(self, log_p: Tensor, n: int) -> Tensor:
        """Return the penalised score of hypotheses of n tokens after BOS."""
        return log_p / ((5 + n) / 6) ** self.length_penalty

    def extend(self, step: int, log_p: Float[Tensor, "rows V"]) -> Int[Tensor, "alive"]:
        """Write the token at `step`; return, for each prefix that goes on, the row it came from."""
        S, K, V = len(self.open), self.K, log_p.shape[-1]
        total = (self.alive_log_p[self.open].view(S * K, 1) + log_p).view(S, K * V)
        # Each prefix can end in one way only, so among the best 2K at least K go on.
        total, index = total.topk(2 * K)
        parent, token = index // V, index % V
        tokens = _pick(self.alive[self.open], parent)
        tokens[:, :, step] = token
        ended = token == EOS
        self._end(
            self.open, tokens[:, :K], total[:, :K].masked_fill(~ended[:, :K], -math.inf), step
        )

        log_p, best = total.masked_fill(ended, -math.inf).topk(K)
        self.alive[self.open], self.alive_log_p[self.open] = _pick(tokens, best), log_p
        rows = torch.arange(S, device=index.device)[:, None] * K + parent.gather(1, best)
        full = (self.ended_score[self.open] > -math.inf).all(dim=1)
        dead = (log_p == -math.inf).all(dim=1)
        self.open = self.open[~(full | dead)]
        return rows[~(full | dead)].flatten()

    def _end(self, sentences: Tensor, tokens: Tensor, log_p: Tensor, n: int) -> None:
        """Put hypotheses of n tokens after BOS among the ended ones and keep the K best."""
        score = torch.cat((self.ended_score[sentences], self.score(log_p, n)), dim=1)
        tokens = torch.cat((self.ended[sentences], tokens), dim=1)
        score, best = score.topk(self.K)
        self.ended[sentences], self.ended_score[sentences] = _pick(tokens, best), score

    def best(self, step: int) -> tuple[Int[Tensor, "B K L"], Float[Tensor, "B K"]]:
        """Return tokens and scores from best to worst; what ran out of room comes after what ended.

        P(prefix) is not the probability of a sentence, so the two are not compared by it.
        """
        # A search that is over has no use for its prefixes.
        unfinished = torch.full_like(self.alive_log_p, -math.inf)
        unfinished[self.open] = self.score(self.alive_log_p[self.open], step)
        unfinished, order = unfinished.sort(dim=1, descending=True)
        num_ended = (self.ended_score > -math.inf).sum(dim=1, keepdim=True)
        place = torch.arange(self.K, device=order.device)
        index = torch.where(place < num_ended, place, self.K + (place - num_ended).clamp(min=0))
        tokens = torch.cat((self.ended, _pick(self.alive, order)), dim=1)
        scores = torch.cat((self.ended_score, unfinished), dim=1)
        return _pick(tokens, index)[:, :, : step + 1], scores.gather(1, index)


def _pick(tokens: Int[Tensor, "S N L"], index: Int[Tensor, "S M"]) -> Int[Tensor, "S M L"]:
    return tokens.gather(1, index[..., None].expand(-1, -1, tokens.shape[-1]))
