"""Several models that write one translation: the mean of their probabilities at each step."""

import copy

import torch
from torch import Tensor

from transformer_lab import Run, Transformer
from transformer_lab.cache import DecoderCache


class Caches:
    """Each model's cache, in the place of one."""

    def __init__(self, caches: list[DecoderCache]):
        self.caches = caches

    def select(self, rows: Tensor) -> None:
        """Keep these sentences, in this order."""
        for cache in self.caches:
            cache.select(rows)


class Ensemble(Transformer):
    """Models of one size and one vocabulary as a model that can only decode.

    What the decoder looks at is all their memories side by side, (B, Ls, models × d_model).
    """

    models: list[Transformer]

    def encode(self, source: Tensor) -> tuple[Tensor, Tensor]:
        memories, masks = zip(*(model.encode(source) for model in self.models), strict=True)
        return torch.cat(memories, dim=-1), masks[0]

    def new_cache(self) -> Caches:
        return Caches([model.new_cache() for model in self.models])

    def decode(self, target, memory, memory_mask=None, *, cache=None) -> Tensor:
        """Return the logarithms of the summed probabilities, which serve as logits."""
        memories = memory.split(self.config.d_model, dim=-1)
        parts = zip(self.models, memories, cache.caches, strict=True)
        logits = [model.decode(target, own, memory_mask, cache=kept) for model, own, kept in parts]
        return torch.stack(logits).log_softmax(dim=-1).logsumexp(dim=0)


def ensemble(runs: list[Run]) -> Run:
    """Return a run that translates with all of these; it shares their weights."""
    together = copy.copy(runs[0])
    together.model = copy.copy(runs[0].model)
    together.model.__class__ = Ensemble
    # Not as submodules: a copy shares its dictionary of them with what it was copied from.
    object.__setattr__(together.model, "models", [run.model for run in runs])
    return together
