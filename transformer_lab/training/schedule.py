"""The learning rate of each step (paper, 5.3). Another schedule goes here."""

from transformer_lab.config import TrainConfig
from transformer_lab.support.validation import require_sizes


def learning_rate(step: int, d_model: int, config: TrainConfig) -> float:
    """Return the rate of a step, from 1: the paper's, times `config.rate_factor`."""
    return config.rate_factor * noam_rate(step, d_model, config.warmup)


def noam_rate(step: int, d_model: int, warmup: int = 4000) -> float:
    """Return d_model^−½ · min(step^−½, step · warmup^−³⁄²) (paper, 5.3, equation 3).

    Raises `ValueError` unless step, d_model and warmup are 1 or more.
    """
    require_sizes(step=step, d_model=d_model, warmup=warmup)
    return d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)
