"""Who takes the steps: Adam, as in the paper (5.3), or Muon for the matrices inside the layers."""

from collections.abc import Sequence

import torch
from torch import nn

from transformer_lab.config import TrainConfig
from transformer_lab.support.validation import require

ADAM, MUON = ("step", "exp_avg", "exp_avg_sq"), ("momentum_buffer",)  # what each one remembers


def make_optimizer(model: nn.Module, config: TrainConfig) -> torch.optim.Optimizer:
    """Return the optimizer that `config.optimizer` names, for all parameters of the model."""
    if config.optimizer == "adam":
        return _adam(model.parameters(), config, config.weight_decay)
    return MuonAndAdam(model, config)


def remembered(optimizer: torch.optim.Optimizer, parameter: nn.Parameter) -> Sequence[str]:
    """Return the names of what the optimizer remembers of a parameter after a step."""
    return MUON if parameter in getattr(optimizer, "matrices", ()) else ADAM


class MuonAndAdam(torch.optim.Optimizer):
    """Muon [1] for the matrices inside the layers; Adam for all else, such as the embeddings.

    Muon's step is the gradient's running mean with all its singular values made about equal, so
    that no direction of a matrix is left behind; at the same rate it is as long as Adam's (as in
    [2]). `config.weight_decay` is that of the matrices.

    [1] Jordan et al. 2024, Muon: An optimizer for hidden layers in neural networks.
    [2] Liu et al. 2025, Muon is Scalable for LLM Training.
    """

    def __init__(self, model: nn.Module, config: TrainConfig):
        # "fused", as Adam is below: then `load_state_dict` puts its "step" on the GPU too.
        super().__init__(list(model.parameters()), {"lr": 0.0, "fused": True})
        matrices = inner_matrices(model)
        require(bool(matrices), 'optimizer="muon" needs a model with layers, got one without any')
        self.matrices = dict.fromkeys(matrices)
        rest = [p for p in self.param_groups[0]["params"] if p not in self.matrices]
        muon = torch.optim.Muon(
            matrices, weight_decay=config.weight_decay, adjust_lr_fn="match_rms_adamw"
        )
        self.parts = (muon, _adam(rest, config, weight_decay=0.0))
        self._share()

    def _share(self) -> None:
        """Let both parts keep what they remember here, where it is stored and loaded."""
        for part in self.parts:
            part.state = self.state

    def load_state_dict(self, state_dict: dict) -> None:
        """Take over what another one's `state_dict()` has returned."""
        super().load_state_dict(state_dict)
        self._share()

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        """Take one step at the rate of the parameter group."""
        for part in self.parts:
            part.param_groups[0]["lr"] = self.param_groups[0]["lr"]
            part.step()


def inner_matrices(model: nn.Module) -> list[nn.Parameter]:
    """Return the matrices inside the layers: those for Muon."""
    layers = [m for m in model.modules() if isinstance(m, nn.ModuleList)]
    return [p for m in layers for p in m.parameters() if p.ndim == 2]


def _adam(parameters, config: TrainConfig, weight_decay: float) -> torch.optim.Optimizer:
    return torch.optim.AdamW(
        parameters,
        betas=(config.beta1, config.beta2),
        eps=config.adam_epsilon,
        weight_decay=weight_decay,
        fused=True,
    )
