"""How a model learns (paper, section 5; lesson 08).

Read, in this order, `loss.py`, the objective as an equation, `schedule.py`, the learning rate,
`step.py`, one step down the gradient, and `loop.py`, which takes the steps. `checkpoints.py` keeps
what an interrupted run needs, `optimizer.py` is Adam, and Muon beside it; `fused_loss.py` computes
the same loss faster and can be left alone.
"""

from transformer_lab.training.checkpoints import CHECKPOINTS, STATE, average_checkpoints
from transformer_lab.training.loop import fit, validate
from transformer_lab.training.loss import sequence_loss
from transformer_lab.training.schedule import noam_rate
from transformer_lab.training.step import Objective, rank_and_size, train_step

__all__ = [
    "CHECKPOINTS",
    "STATE",
    "Objective",
    "average_checkpoints",
    "fit",
    "noam_rate",
    "rank_and_size",
    "sequence_loss",
    "train_step",
    "validate",
]
