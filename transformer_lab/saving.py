"""A model as files, and back: its parameters by name, and the sizes that they belong to."""

import os
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor, nn

from transformer_lab.config import ModelConfig, num_parameters
from transformer_lab.model import Transformer
from transformer_lab.support.files import (
    as_folder,
    read_config,
    read_tensors,
    require_tensors,
    write_json,
    write_tensors,
)
from transformer_lab.support.validation import require, require_type

WEIGHTS_FILE, CONFIG_FILE = "weights.safetensors", "config.json"


def parameters_of(model: nn.Module) -> dict[str, Tensor]:
    """Return the parameters by name; a matrix that is tied appears once."""
    return dict(model.named_parameters())


def set_parameters(model: nn.Module, tensors: dict[str, Tensor], where: Path | str) -> None:
    """Copy `tensors`, found `where` an error says, into the model; `ValueError` unless all fit."""
    require_tensors(tensors, parameters_of(model), where)
    with torch.no_grad():
        for name, parameter in parameters_of(model).items():
            parameter.copy_(tensors[name])


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
    set_parameters(model, tensors, folder / WEIGHTS_FILE)
    return model.eval()
