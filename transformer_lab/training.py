"""The training loop (paper, section 5): it knows batches and a model, and nothing of notebooks."""

import math
import os
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from itertools import count
from pathlib import Path

import torch
import torch.distributed as dist
from jaxtyping import Float, Int
from torch import Tensor, nn

from transformer_lab.config import PAD, TrainConfig
from transformer_lab.data import Batch, batches_by_tokens
from transformer_lab.files import (
    as_folder,
    check_tensors,
    held,
    read_tensors,
    remove_leftovers,
    write_tensors,
)
from transformer_lab.inputs import check_ids, check_sizes, check_type, describe, require
from transformer_lab.loss import FusedLoss, losses_and_gradient, sequence_loss
from transformer_lab.model import Transformer, load_weights, weights

Pairs = Sequence[tuple[Sequence[int], Sequence[int]]]

STATE, CHECKPOINTS = "training-state.safetensors", "checkpoints"
RECORD_EVERY = 20  # steps


def noam_rate(step: int, d_model: int, warmup: int = 4000) -> float:
    """Return d_model^−½ · min(step^−½, step · warmup^−³⁄²) (paper, 5.3, equation 3).

    Raises `ValueError` unless step, d_model and warmup are 1 or more.
    """
    check_sizes(step=step, d_model=d_model, warmup=warmup)
    return d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)


class Objective(nn.Module):
    """The model and its summed loss as one module: what is trained, compiled and distributed."""

    def __init__(self, model: Transformer, config: TrainConfig):
        super().__init__()
        check_type(model, nn.Module, "model")
        check_type(config, TrainConfig, "config")
        self.model = model
        self.label_smoothing = config.label_smoothing
        self.bfloat16 = config.precision == "bfloat16"
        self.chunk_loss = losses_and_gradient

    def forward(
        self, source: Int[Tensor, "B Ls"], target: Int[Tensor, "B Lt"]
    ) -> Float[Tensor, ""]:
        check_ids(target, "target")
        states = self.states(source, target[:, :-1]).flatten(0, 1)
        targets, weight = target[:, 1:].flatten().long(), self.model.generator.weight
        if targets.device.type == "cpu":  # a GPU would have to wait until it is known where it is
            real = targets != PAD
            states, targets = states[real], targets[real]
        return FusedLoss.apply(states, weight, targets, self.label_smoothing, self.chunk_loss)

    def states(
        self, source: Int[Tensor, "B Ls"], target_in: Int[Tensor, "B Lt"]
    ) -> Float[Tensor, "B Lt d_model"]:
        """Return the decoder's states: the part of the objective that `torch.compile` can read."""
        with torch.autocast(source.device.type, torch.bfloat16, enabled=self.bfloat16):
            states = self.model.decode_states(target_in, *self.model.encode(source))
        # The last LayerNorm gives float32; the product with all the words is the largest there is.
        return states.bfloat16() if self.bfloat16 else states


def train_step(
    objective: nn.Module, batch: Batch, optimizer: torch.optim.Optimizer, *, clip_norm: float = 0.0
) -> Float[Tensor, ""]:
    """Take one step down the gradient of the mean loss per token; return that loss.

    The batch may lie on the CPU, and best does: to count its tokens there, nothing has to wait.
    Of a data-parallel run, each process computes its share of the sentences and divides by the
    number of tokens of the whole batch, so that n processes do what one would. Raises `ValueError`
    if there is no token to predict.
    """
    check_type(batch, Batch, "batch")
    num_tokens = batch.num_tokens
    require(num_tokens > 0, "batch.target must hold a word to predict, got padding only")
    rank, size = rank_and_size()
    share = _share(batch, rank, size).to(next(objective.parameters()).device)
    optimizer.zero_grad()
    loss = objective(share.source, share.target) / num_tokens
    if loss.dim() != 0:
        raise ValueError(
            f"objective must give the summed loss, as Objective(model, config) does, got "
            f"{describe(loss)}"
        )
    (loss * size).backward()  # data-parallel gradients are means over processes; we want the sum
    if clip_norm:
        nn.utils.clip_grad_norm_(objective.parameters(), clip_norm)
    optimizer.step()
    return loss.detach()


def rank_and_size() -> tuple[int, int]:
    """Return this process's number and how many train together."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return 0, 1


def _share(batch: Batch, rank: int, size: int) -> Batch:
    """Return every `size`-th sentence; a process without any gets one whose target is padding."""
    if size == 1:
        return batch
    if rank < len(batch.source):
        return Batch(batch.source[rank::size], batch.target[rank::size])
    return Batch(batch.source[:1], torch.full_like(batch.target[:1], PAD))


@torch.no_grad()
def evaluate(model: Transformer, pairs: Pairs, *, max_tokens: int = 4000) -> dict[str, float]:
    """Return loss (nats per token, no smoothing), perplexity and accuracy, teacher-forced.

    Raises `ValueError` if there are no pairs, and as the model does.
    """
    check_type(model, nn.Module, "model")
    device = next(model.parameters()).device
    was_training = model.training
    model.eval()
    loss = correct = tokens = 0
    for batch in _batches(pairs, max_tokens):
        batch = batch.to(device)
        logits, real = model(batch.source, batch.target_in), batch.target_out != PAD
        loss += float(sequence_loss(logits, batch.target_out)) * batch.num_tokens
        correct += int((logits.argmax(dim=-1) == batch.target_out)[real].sum())
        tokens += batch.num_tokens
    model.train(was_training)
    loss /= tokens
    return {"loss": loss, "perplexity": math.exp(min(loss, 700)), "accuracy": correct / tokens}


def _batches(pairs: Pairs, max_tokens: int) -> Iterator[Batch]:
    for indices in batches_by_tokens(_lengths(pairs), max_tokens):
        yield Batch.from_pairs([pairs[i] for i in indices])


def _lengths(pairs: Pairs) -> list[tuple[int, int]]:
    """Return target length, BOS included, and source length: sorted by the first, then the other.

    Raises `ValueError` unless there is at least one pair, and each holds two lists.
    """
    try:
        lengths = [(len(target) + 1, len(source)) for source, target in pairs]
    except (TypeError, ValueError):
        lengths = []
    if not lengths:
        raise ValueError(
            f"pairs must be a list of (source ids, target ids), at least one, got {pairs!r:.60}"
        )
    return lengths


def _endless_batches(pairs: Pairs, config: TrainConfig, skip: int) -> Iterator[Batch]:
    """Yield batches, each epoch in a new order; start after the first `skip`."""
    lengths = _lengths(pairs)
    for epoch in count():
        generator = torch.Generator().manual_seed((config.seed * 1_000_003 + epoch) % 2**63)
        batches = batches_by_tokens(lengths, config.max_tokens, generator=generator)
        for indices in batches[skip:]:
            yield Batch.from_pairs([pairs[i] for i in indices])
        skip = max(0, skip - len(batches))


def average_checkpoints(checkpoints: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Return the mean of each tensor over the checkpoints (paper, 6.1).

    Raises `ValueError` if there are none, or if their names or shapes differ.
    """
    listed = isinstance(checkpoints, list) and len(checkpoints) > 0
    require(listed, f"checkpoints must be a list, at least one, got {checkpoints!r:.60}")
    for i, checkpoint in enumerate(checkpoints):
        check_type(checkpoint, dict, f"checkpoint {i}")
    for name, tensor in checkpoints[0].items():
        check_type(tensor, Tensor, name)
    shapes = [{name: describe(t) for name, t in c.items()} for c in checkpoints]
    for i, s in enumerate(shapes):
        differing = sorted(set(s.items()) ^ set(shapes[0].items()))[:2]
        require(not differing, f"checkpoint {i} must hold what checkpoint 0 holds, got {differing}")
    return {
        name: torch.stack([c[name].double() for c in checkpoints]).mean(0).to(tensor.dtype)
        for name, tensor in checkpoints[0].items()
    }


def fit(
    model: Transformer,
    train_pairs: Pairs,
    config: TrainConfig,
    *,
    valid_pairs: Pairs | None = None,
    folder: str | os.PathLike | None = None,
    on_record: Callable[[list[dict]], None] | None = None,
    progress: bool = True,
) -> list[dict]:
    """Train the model for `config.steps` steps and leave it with the averaged weights.

    With a `folder`, snapshots and the training state are saved there every `checkpoint_every`
    steps, and a run that was interrupted goes on from the last of them as if nothing had
    happened: the batches and the dropout of a step depend on the seed and the step alone.

    Returns the history, a record every 20 steps and at checkpoints: step, loss (nats per token),
    rate, tokens (so far), seconds (so far), and at checkpoints the scores on `valid_pairs`.
    `on_record` is called with the history each time it grows.

    Raises `ValueError` if the loss stops being a number, if `folder` holds another run or a
    longer one, or if another process trains in it.
    """
    folder = None if folder is None else as_folder(folder)
    writes = folder is not None and rank_and_size()[0] == 0
    with held(folder / CHECKPOINTS) if writes else nullcontext():
        run = TrainingRun(model, train_pairs, config, folder)
        _train(run, train_pairs, valid_pairs, on_record, progress)
    load_weights(model, average_checkpoints(list(run.snapshots.values())), "the average")
    model.eval()
    return run.history


def _train(run: "TrainingRun", train_pairs: Pairs, valid_pairs, on_record, progress: bool) -> None:
    """Take the steps that are left, with records and checkpoints."""
    from tqdm.auto import tqdm

    config = run.config
    batches = _endless_batches(train_pairs, config, skip=run.step)
    quiet = not (progress and run.is_main)
    bar = tqdm(total=config.steps, initial=run.step, unit="step", mininterval=1, disable=quiet)
    with torch.random.fork_rng(), bar:
        while run.step < config.steps:
            run.take_step(next(batches))
            at_checkpoint = run.step % config.checkpoint_every == 0 or run.step == config.steps
            if at_checkpoint or run.step % RECORD_EVERY == 0:
                run.record(valid_pairs if at_checkpoint else None)
                bar.set_postfix(loss=f"{run.history[-1]['loss']:.3f}", refresh=False)
                if on_record and run.is_main:
                    on_record(run.history)
            if at_checkpoint:
                run.save_checkpoint()
            bar.update()


class TrainingRun:
    """What a run must remember between steps, and across an interruption."""

    def __init__(self, model: Transformer, pairs: Pairs, config: TrainConfig, folder: Path | None):
        check_type(model, nn.Module, "model")
        check_type(config, TrainConfig, "config")
        self.model, self.config, self.folder = model, config, folder
        self.rank, self.size = rank_and_size()
        self.is_main = self.rank == 0
        self.step = self.tokens = 0
        self.seconds = 0.0
        self.losses: list[Tensor] = []  # since the last record
        self.history: list[dict] = []
        self.snapshots: dict[int, dict[str, Tensor]] = {}  # the weights at the last checkpoints
        self.identity = {
            "model": asdict(model.config),
            "training": {name: v for name, v in asdict(config).items() if name != "steps"},
            "data": zlib.crc32(repr(pairs).encode()),
        }
        self.optimizer = torch.optim.AdamW(
            model.parameters(),
            betas=(config.beta1, config.beta2),
            eps=config.adam_epsilon,
            weight_decay=config.weight_decay,
            fused=True,
        )
        if folder and (folder / STATE).exists():
            self._restore()
        if folder and self.is_main:
            remove_leftovers(folder)
        self.objective = _engine(Objective(model, config), config, self.size)
        self.started = time.perf_counter() - self.seconds
        model.train()

    def take_step(self, batch: Batch) -> None:
        """Set the learning rate and the random numbers of this step, then train on the batch."""
        self.step += 1
        seed = self.config.seed * 1_000_000_007 + self.step * self.size + self.rank
        torch.manual_seed(seed % 2**63)
        for group in self.optimizer.param_groups:
            group["lr"] = self._rate()
        self.tokens += batch.num_tokens
        self.losses.append(
            train_step(self.objective, batch, self.optimizer, clip_norm=self.config.clip_norm)
        )

    def _rate(self) -> float:
        rate = noam_rate(self.step, self.model.config.d_model, self.config.warmup)
        return self.config.rate_factor * rate

    def record(self, valid_pairs: Pairs | None) -> None:
        """Add a record to the history; `ValueError` if the loss is no number any more."""
        loss = torch.stack(self.losses).mean()
        self.losses = []
        if self.size > 1:
            dist.all_reduce(loss)
        require(
            bool(loss.isfinite()),
            f"the loss became {loss.item()} at or before step {self.step}; a lower rate_factor, a "
            f"longer warmup or clip_norm=1 may help",
        )
        record = {"step": self.step, "loss": loss.item(), "rate": self._rate()}
        if valid_pairs:
            scores = evaluate(self.model, valid_pairs)
            record |= {f"valid_{name}": score for name, score in scores.items()}
        self.seconds = time.perf_counter() - self.started
        self.history.append(record | {"tokens": self.tokens, "seconds": round(self.seconds, 3)})

    def save_checkpoint(self) -> None:
        """Keep the weights; with a folder, write them, then the state that refers to them."""
        snapshot = {name: t.detach().cpu().clone() for name, t in weights(self.model).items()}
        check_tensors(snapshot, snapshot, f"step {self.step}")  # a broken run ends here
        self.snapshots[self.step] = snapshot
        for step in list(self.snapshots)[: -self.config.average]:
            del self.snapshots[step]
        if not (self.folder and self.is_main):
            return
        write_tensors(self._path(self.step), snapshot)
        notes = {
            "identity": self.identity,
            "snapshots": list(self.snapshots),
            "history": self.history,
        }
        write_tensors(self.folder / STATE, self._optimizer_tensors(), notes)
        self._remove_outdated()

    def _remove_outdated(self) -> None:
        kept = {self._path(step) for step in self.snapshots}
        for path in set(self._path(self.step).parent.glob("step-*.safetensors")) - kept:
            path.unlink(missing_ok=True)

    def _path(self, step: int) -> Path:
        return self.folder / CHECKPOINTS / f"step-{step:08d}.safetensors"

    def _optimizer_tensors(self) -> dict[str, Tensor]:
        states = self.optimizer.state_dict()["state"]
        return {f"{i}.{name}": t for i, state in states.items() for name, t in state.items()}

    def _restore(self) -> None:
        path = self.folder / STATE
        tensors, notes = read_tensors(path)
        try:
            identity, steps = dict(notes["identity"]), [int(s) for s in notes["snapshots"]]
            self.history = [dict(record) for record in notes["history"]]
            last = self.history[-1]
            self.step, self.tokens = int(last["step"]), int(last["tokens"])
            self.seconds = float(last["seconds"])
            in_order = steps == sorted({*steps}) and steps[0] > 0 and steps[-1] == self.step
            require(in_order, "its snapshots must rise to its last step")
        except (LookupError, TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"{path} is not a training state: {error!r}") from None
        for part, ours in self.identity.items():
            if identity.get(part) != ours:
                differing = _first_difference(identity.get(part), ours)
                raise ValueError(
                    f"{self.folder} holds a run with other {part} settings{differing}; "
                    f"choose another folder"
                )
        require(
            self.step <= self.config.steps,
            f"{self.folder} holds {self.step} steps already, got steps={self.config.steps}",
        )
        for step in steps:
            self.snapshots[step], _ = read_tensors(self._path(step))
            load_weights(self.model, self.snapshots[step], self._path(step))
        if self.is_main:
            self._remove_outdated()
        if self.step < self.config.steps and self.step % self.config.checkpoint_every:
            del self.snapshots[self.step]  # taken where a shorter run ended; a long one takes none
        self._restore_optimizer(tensors, path)

    def _restore_optimizer(self, tensors: dict[str, Tensor], path: Path) -> None:
        shapes = {
            f"{i}.{name}": torch.empty(() if name == "step" else p.shape, device="meta")
            for i, p in enumerate(self.optimizer.param_groups[0]["params"])
            for name in ("step", "exp_avg", "exp_avg_sq")
        }
        check_tensors(tensors, shapes, path)
        state: dict[int, dict[str, Tensor]] = {}
        for name, tensor in tensors.items():
            index, part = name.split(".")
            state.setdefault(int(index), {})[part] = tensor
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": state, "param_groups": groups})


def _first_difference(held: object, ours: object) -> str:
    """Name the first setting that differs, and both values; nothing for a checksum of data."""
    if not (isinstance(held, dict) and isinstance(ours, dict)):
        return ""
    name = next(name for name in ours | held if held.get(name) != ours.get(name))
    return f" ({name} is {held.get(name)!r} there, got {ours.get(name)!r})"


def _engine(objective: Objective, config: TrainConfig, size: int) -> nn.Module:
    """Compile the objective and make it data-parallel, as far as that is asked for."""
    if config.compile:  # for batches of any size
        objective.states = torch.compile(objective.states, dynamic=True)
        if next(objective.parameters()).is_cuda:  # fewer passes over the logits
            objective.chunk_loss = torch.compile(losses_and_gradient, dynamic=True)
    return nn.parallel.DistributedDataParallel(objective) if size > 1 else objective
