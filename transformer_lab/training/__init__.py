"""How a model learns (paper, section 5). Read `loss.py`, `schedule.py`, `step.py`, `loop.py`.

`loss.py` is the objective as an equation, `schedule.py` the learning rate, `step.py` one step down
the gradient, `loop.py` takes the steps, `checkpoints.py` keeps what an interrupted run needs.
`optimizer.py` is Adam, and Muon beside it; `fused_loss.py` computes the same loss faster and can be
left alone.
"""

from transformer_lab.training.checkpoints import (
    CHECKPOINTS,
    STATE,
    TrainState,
    average_checkpoints,
)
from transformer_lab.training.loop import evaluate, fit
from transformer_lab.training.loss import sequence_loss
from transformer_lab.training.schedule import noam_rate
from transformer_lab.training.step import Objective, rank_and_size, train_step

__all__ = [
    "CHECKPOINTS",
    "STATE",
    "Objective",
    "TrainState",
    "average_checkpoints",
    "evaluate",
    "fit",
    "noam_rate",
    "rank_and_size",
    "sequence_loss",
    "train_step",
]
