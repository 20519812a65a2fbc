"""The learning rate of each step (paper, 5.3; lesson 08).

Another schedule is a function here and a line in `SCHEDULES`; `config.py` lists the names that
`TrainConfig(schedule=…)` takes.
"""

from transformer_lab.config import TrainConfig
from transformer_lab.support.validation import require_sizes


def learning_rate(step: int, d_model: int, config: TrainConfig) -> float:
    """Return the rate of a step, from 1, in the schedule that `config.schedule` names."""
    return config.rate_factor * SCHEDULES[config.schedule](step, d_model, config)


def noam_rate(step: int, d_model: int, warmup: int = 4000) -> float:
    """Return d_model^−½ · min(step^−½, step · warmup^−³⁄²) (paper, 5.3, equation 3).

    Raises `ValueError` unless step, d_model and warmup are 1 or more.
    """
    require_sizes(step=step, d_model=d_model, warmup=warmup)
    return d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)


def _paper(step: int, d_model: int, config: TrainConfig) -> float:
    return noam_rate(step, d_model, config.warmup)


def _linear(step: int, d_model: int, config: TrainConfig) -> float:
    """As the paper's until the warm-up ends; from there straight down, to 0 after the last step."""
    if step <= config.warmup:
        return noam_rate(step, d_model, config.warmup)
    left = (config.steps + 1 - step) / (config.steps + 1 - config.warmup)
    return left * noam_rate(config.warmup, d_model, config.warmup)


SCHEDULES = {"paper": _paper, "linear": _linear}
