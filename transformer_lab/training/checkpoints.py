"""What a run keeps at its checkpoints, how it goes on from them, and their mean (paper, 6.1)."""

import zlib
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor

from transformer_lab.config import TrainConfig
from transformer_lab.model import Transformer
from transformer_lab.saving import parameters_of, set_parameters
from transformer_lab.support.files import (
    checksum,
    locked,
    read_tensors,
    remove_leftovers,
    require_finite,
    require_tensors,
    write_tensors,
)
from transformer_lab.support.validation import require, require_type, shape_and_type
from transformer_lab.training.optimizer import remembered
from transformer_lab.training.step import rank_and_size

STATE, CHECKPOINTS = "training-state.safetensors", "checkpoints"


class Checkpoints:
    """The weights at a run's last checkpoints, and the folder, if any, from which it can go on.

    Of several processes, the first writes; all read.
    """

    def __init__(self, folder: Path | None, identity: dict, config: TrainConfig):
        self.folder, self.identity, self.config = folder, identity, config
        self.snapshots: dict[int, dict[str, Tensor]] = {}  # by step
        self.writes = folder is not None and rank_and_size()[0] == 0

    def locked(self) -> AbstractContextManager:
        """Keep the folder for this process; `ValueError` if another one trains in it."""
        return locked(self.folder / CHECKPOINTS) if self.writes else nullcontext()

    def go_on(self, model: Transformer, optimizer: torch.optim.Optimizer) -> list[dict]:
        """Give both the numbers of the last checkpoint; return the history, empty for a new run.

        Raises `ValueError` if the folder is damaged, or holds another run or a longer one.
        """
        if self.folder is None:
            return []
        history, self.snapshots, moments = load_state(self.folder, self.identity)
        if self.writes:
            remove_outdated(self.folder, self.snapshots)
        if not history:
            return []
        step, steps = history[-1]["step"], self.config.steps
        require(step <= steps, f"{self.folder} holds {step} steps already, got steps={steps}")
        for at, snapshot in self.snapshots.items():  # all must fit; the model keeps the last
            set_parameters(model, snapshot, snapshot_path(self.folder, at))
        set_optimizer(optimizer, moments, self.folder / STATE)
        if step < steps and step % self.config.checkpoint_every:
            del self.snapshots[step]  # taken where a shorter run ended; a long one takes none
        return history

    def save(
        self, history: list[dict], model: Transformer, optimizer: torch.optim.Optimizer
    ) -> None:
        """Keep a copy of the weights, and write all that a run needs to go on from here.

        First the snapshot, then the state that refers to it: a kill leaves the old one or the new.
        Raises `ValueError` if a weight is NaN or infinite: a broken run ends here.
        """
        step = history[-1]["step"]
        snapshot = {n: p.detach().to("cpu", copy=True) for n, p in parameters_of(model).items()}
        require_finite(snapshot, f"step {step}")
        self.snapshots[step] = snapshot
        for outdated in list(self.snapshots)[: -self.config.average]:
            del self.snapshots[outdated]
        if self.writes:
            states = optimizer.state_dict()["state"]
            moments = {f"{i}.{name}": t for i, s in states.items() for name, t in s.items()}
            notes = {"identity": self.identity, "snapshots": [*self.snapshots], "history": history}
            write_tensors(snapshot_path(self.folder, step), snapshot)
            write_tensors(self.folder / STATE, moments, notes)
            remove_outdated(self.folder, self.snapshots)

    def average(self) -> dict[str, Tensor]:
        """Return the mean of the weights at the last checkpoints (paper, 6.1)."""
        return average_checkpoints([*self.snapshots.values()])


def identity_of(
    model: Transformer, config: TrainConfig, pairs: Sequence, start: dict[str, Tensor] | None = None
) -> dict:
    """Return what makes two runs the same run: sizes, settings, data and the weights it starts
    with, unless they are random; and not how long it is, unless the learning rate depends on it.
    """
    training = asdict(config)
    if config.schedule == "paper":
        del training["steps"]
    return {
        "model": asdict(model.config),
        "training": training,
        "data": zlib.crc32(repr(list(pairs)).encode()),
        "start": None if start is None else checksum(start),
    }


def load_state(
    folder: Path, identity: dict
) -> tuple[list[dict], dict[int, dict[str, Tensor]], dict[str, Tensor]]:
    """Return history, snapshots and the optimizer's numbers; all empty if there are none.

    Raises `ValueError` if they are damaged, or belong to a run with another identity.
    """
    path = folder / STATE
    if not path.exists():
        return [], {}, {}
    moments, notes = read_tensors(path)
    try:
        theirs, steps = dict(notes["identity"]), [int(step) for step in notes["snapshots"]]
        history = [dict(record) for record in notes["history"]]
        for name, kind in (("step", int), ("tokens", int), ("seconds", float)):
            history[-1][name] = kind(history[-1][name])
        in_order = steps == sorted({*steps}) and steps[0] > 0 and steps[-1] == history[-1]["step"]
        require(in_order, "its snapshots must rise to its last step")
    except (LookupError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{path} is not a training state: {error!r}") from None
    _require_same_run(folder, theirs, identity)
    return history, {step: read_tensors(snapshot_path(folder, step))[0] for step in steps}, moments


def remove_outdated(folder: Path, snapshots: dict[int, dict[str, Tensor]]) -> None:
    """Delete the files of other snapshots, and what killed writers have left."""
    kept = {snapshot_path(folder, step) for step in snapshots}
    for path in set((folder / CHECKPOINTS).glob("step-*.safetensors")) - kept:
        path.unlink(missing_ok=True)
    remove_leftovers(folder)


def set_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor], path: Path) -> None:
    """Give the optimizer its numbers back; `ValueError` unless they fit.

    It has none for a parameter that no loss reaches: an encoder's, if the decoder has no layers.
    """
    reached = {name.partition(".")[0] for name in tensors}
    shapes = {
        f"{i}.{name}": torch.empty(() if name == "step" else p.shape, device="meta")
        for i, p in enumerate(optimizer.param_groups[0]["params"])
        for name in remembered(optimizer, p)
        if str(i) in reached or not reached
    }
    require_tensors(tensors, shapes, path)
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        index, part = name.split(".")
        state.setdefault(int(index), {})[part] = tensor
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": groups})


def average_checkpoints(checkpoints: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Return the mean of each tensor over the checkpoints (paper, 6.1).

    Raises `ValueError` if there are none, or if their names or shapes differ.
    """
    if not isinstance(checkpoints, list) or not checkpoints:  # to print them takes its time
        raise ValueError(f"checkpoints must be a list, at least one, got {checkpoints!r:.60}")
    for i, checkpoint in enumerate(checkpoints):
        require_type(checkpoint, dict, f"checkpoint {i}")
    for name, tensor in checkpoints[0].items():
        require_type(tensor, Tensor, name)
    shapes = [{name: shape_and_type(t) for name, t in c.items()} for c in checkpoints]
    for i, s in enumerate(shapes):
        differing = sorted(set(s.items()) ^ set(shapes[0].items()))[:2]
        require(not differing, f"checkpoint {i} must hold what checkpoint 0 holds, got {differing}")
    return {
        name: torch.stack([c[name].double() for c in checkpoints]).mean(0).to(tensor.dtype)
        for name, tensor in checkpoints[0].items()
    }


def snapshot_path(folder: Path, step: int) -> Path:
    """Return the file of the weights at a step."""
    return folder / CHECKPOINTS / f"step-{step:08d}.safetensors"


def _require_same_run(folder: Path, theirs: dict, ours: dict) -> None:
    for part in ours:
        if theirs.get(part) != ours[part]:
            differing = _first_difference(theirs.get(part), ours[part])
            raise ValueError(
                f"{folder} holds a run with other {part} settings{differing}; choose another folder"
            )


def _first_difference(theirs: object, ours: object) -> str:
    """Name the first setting that differs, and both values; nothing for a checksum of data."""
    if not (isinstance(theirs, dict) and isinstance(ours, dict)):
        return ""
    name = next(name for name in ours | theirs if theirs.get(name) != ours.get(name))
    return f" ({name} is {theirs.get(name)!r} there, got {ours.get(name)!r})"
