"""What a run must remember between steps and across an interruption, and how it is stored."""

import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from transformer_lab.config import TrainConfig
from transformer_lab.model import Transformer, parameters_of
from transformer_lab.support.files import (
    read_tensors,
    remove_leftovers,
    require_finite,
    require_tensors,
    write_tensors,
)
from transformer_lab.support.validation import require, require_type, shape_and_type
from transformer_lab.training.optimizer import remembered

STATE, CHECKPOINTS = "training-state.safetensors", "checkpoints"


@dataclass
class TrainState:
    """How far a run has come; `snapshots` are the weights at its last checkpoints, by step."""

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    history: list[dict] = field(default_factory=list)
    snapshots: dict[int, dict[str, Tensor]] = field(default_factory=dict)
    optimizer: dict[str, Tensor] = field(default_factory=dict)


def identity_of(
    model: Transformer,
    config: TrainConfig,
    pairs: Sequence,
    start: dict[str, Tensor] | None = None,
) -> dict:
    """Return what makes two runs the same run: sizes, settings, data and the weights it starts
    with, unless they are random; and not how long it is, unless the learning rate depends on it.
    """
    sizes, training = asdict(model.config), asdict(config)
    # Left out as in runs older than these settings; `steps` matters to another schedule alone.
    if model.config.activation_dropout:
        del sizes["activation_dropout"]
    if config.optimizer == "adam":
        del training["optimizer"]
    if config.schedule == "paper":
        del training["steps"], training["schedule"]
    return {
        "model": sizes,
        "training": training,
        "data": zlib.crc32(repr(list(pairs)).encode()),
        "start": None if start is None else _checksum(start),
    }


def _checksum(tensors: dict[str, Tensor]) -> int:
    from safetensors.torch import save

    return zlib.crc32(save({name: t.detach().cpu().contiguous() for name, t in tensors.items()}))


def take_snapshot(
    state: TrainState, model: Transformer, optimizer: torch.optim.Optimizer, keep: int
) -> None:
    """Put the weights and the optimizer's numbers into the state; `keep` snapshots stay.

    Raises `ValueError` if a number is NaN or infinite: a broken run ends here.
    """
    snapshot = {name: t.detach().to("cpu", copy=True) for name, t in parameters_of(model).items()}
    require_finite(snapshot, f"step {state.step}")
    state.snapshots[state.step] = snapshot
    for step in list(state.snapshots)[:-keep]:
        del state.snapshots[step]
    states = optimizer.state_dict()["state"]
    state.optimizer = {f"{i}.{name}": t for i, s in states.items() for name, t in s.items()}


def save_state(folder: Path, state: TrainState, identity: dict) -> None:
    """Write the newest snapshot, then the state that refers to it; a kill leaves old or new."""
    write_tensors(snapshot_path(folder, state.step), state.snapshots[state.step])
    notes = {
        "identity": identity,
        "snapshots": list(state.snapshots),
        "history": state.history,
    }
    write_tensors(folder / STATE, state.optimizer, notes)
    remove_outdated(folder, state)


def load_state(folder: Path, identity: dict) -> TrainState:
    """Return the state stored in `folder`, a new one if there is none.

    Raises `ValueError` if it is damaged, or belongs to a run with another identity.
    """
    path = folder / STATE
    if not path.exists():
        return TrainState()
    tensors, notes = read_tensors(path)
    try:
        theirs, steps = dict(notes["identity"]), [int(step) for step in notes["snapshots"]]
        history = [dict(record) for record in notes["history"]]
        last = history[-1]
        step, tokens, seconds = int(last["step"]), int(last["tokens"]), float(last["seconds"])
        in_order = steps == sorted({*steps}) and steps[0] > 0 and steps[-1] == step
        require(in_order, "its snapshots must rise to its last step")
    except (LookupError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{path} is not a training state: {error!r}") from None
    _require_same_run(folder, theirs, identity)
    snapshots = {step: read_tensors(snapshot_path(folder, step))[0] for step in steps}
    return TrainState(step, tokens, seconds, history, snapshots, tensors)


def remove_outdated(folder: Path, state: TrainState) -> None:
    """Delete the snapshots that the state does not name, and what killed writers have left."""
    kept = {snapshot_path(folder, step) for step in state.snapshots}
    for path in set((folder / CHECKPOINTS).glob("step-*.safetensors")) - kept:
        path.unlink(missing_ok=True)
    remove_leftovers(folder)


def load_optimizer(
    optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor], path: Path
) -> None:
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
    theirs = {"start": ours["start"]} | theirs  # a run of before does not say how it started
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
