"""`torchrun --nproc-per-node 2 -m benchmarks.lessons.l15_sharded RUN`: each process holds a part.

A recipe with PyTorch's `fully_shard`: the paper's base model, at toy size, trained by processes
that share out its weights, its gradients and Adam's numbers.
`python -m benchmarks.lessons.l15_sharded RUN` trains it in one process, which holds everything.
What both save in RUN is the same.
"""

import argparse
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

from transformer_lab import PRESETS, Batch, Objective, Transformer, save, train_step
from transformer_lab.config import EOS
from transformer_lab.saving import parameters_of, set_parameters

STEPS = 6
ADAM = {"lr": 1e-3, "betas": (0.9, 0.98), "eps": 1e-9, "weight_decay": 0.0, "fused": True}
SIZES = {"d_model": 16, "num_heads": 2, "d_ff": 32, "dropout": 0.0, "max_length": 16}
SIZES |= {"num_encoder_layers": 2, "num_decoder_layers": 2}
VOCABULARY = {"source_vocab_size": 12, "target_vocab_size": 12}


def share_out(objective: Objective) -> None:
    """Leave each process its part of every parameter; the whole is gathered where it is used."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model, mesh = objective.states.model, init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in (*model.encoder.layers, *model.decoder.layers):
        fully_shard(layer, mesh=mesh)  # gathered for its own pass, and let go of again
    fully_shard(objective, mesh=mesh)  # and what is in no layer: the matrix of the words


def train(folder: Path) -> dict:
    """Train, and save the model; return the losses, and how many weights this process holds."""
    torch.manual_seed(0)  # all processes draw the same model
    model = Transformer(replace(PRESETS["base"].model, **SIZES, **VOCABULARY))
    objective = Objective(model, PRESETS["base"].training)
    if dist.is_initialized():
        share_out(objective)
    # Only now: Adam keeps two numbers for each that it is given.
    optimizer = torch.optim.AdamW(objective.parameters(), **ADAM)
    losses = torch.stack([train_step(objective, b, optimizer, clip_norm=1.0) for b in batches()])
    if dist.is_initialized():
        dist.all_reduce(losses)  # each process has computed its sentences' part of the loss
    save_whole(model, folder)
    return {"losses": losses.tolist(), "weights held": sum(map(held, model.parameters()))}


def batches() -> Iterator[Batch]:
    """Yield sentences to be turned round: five at a time, and one alone in the end."""
    generator = torch.Generator().manual_seed(0)
    for size in (*[5] * (STEPS - 1), 1):
        words = torch.randint(4, 12, (size, 6), generator=generator).tolist()
        yield Batch.from_pairs([([*w, EOS], [*w[::-1], EOS]) for w in words])


def save_whole(model: nn.Module, folder: Path) -> None:
    """Gather the weights, in which all processes take part; the first saves them like any other."""
    weights = dict(parameters_of(model))
    if dist.is_initialized():
        weights = {name: part.full_tensor() for name, part in weights.items()}
    if not dist.is_initialized() or dist.get_rank() == 0:
        plain = Transformer(model.config)
        set_parameters(plain, weights, "the run")
        save(plain, folder)


def held(parameter: nn.Parameter) -> int:
    """Return how many numbers of a parameter lie in this process."""
    return (parameter.to_local() if dist.is_initialized() else parameter).numel()


def main(arguments: list[str] | None = None) -> None:
    """Train with the processes that torchrun has started, or alone."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lessons.l15_sharded")
    parser.add_argument("run", type=Path, metavar="RUN", help="folder for the model")
    options = parser.parse_args(arguments)
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    print(train(options.run))
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
