"""The training loop (paper, section 5): it knows batches and a model, and nothing of notebooks."""

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from itertools import count
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn

from transformer_lab.config import PAD, TrainConfig
from transformer_lab.data.batches import Batch, batches_by_tokens
from transformer_lab.model import Transformer, load_parameters
from transformer_lab.support.files import as_folder, locked
from transformer_lab.support.validation import require, require_type, shown
from transformer_lab.training.checkpoints import (
    CHECKPOINTS,
    STATE,
    TrainState,
    average_checkpoints,
    identity_of,
    load_optimizer,
    load_state,
    remove_outdated,
    save_state,
    snapshot_path,
    take_snapshot,
)
from transformer_lab.training.loss import sequence_loss
from transformer_lab.training.optimizer import make_optimizer
from transformer_lab.training.schedule import learning_rate
from transformer_lab.training.step import Objective, rank_and_size, train_step

Pairs = Sequence[tuple[Sequence[int], Sequence[int]]]

RECORD_EVERY = 20  # steps


def fit(
    model: Transformer,
    train_pairs: Pairs,
    config: TrainConfig,
    *,
    valid_pairs: Pairs | None = None,
    start: dict[str, Tensor] | None = None,
    folder: str | os.PathLike | None = None,
    on_record: Callable[[list[dict]], None] | None = None,
    progress: bool = True,
) -> list[dict]:
    """Train the model for `config.steps` steps and leave it with the averaged weights.

    `start` are the parameters, by name, that a new run begins with, in place of the model's own.
    With a `folder`, snapshots and the training state are saved there every `checkpoint_every`
    steps, and a run that was interrupted goes on from the last of them as if nothing had
    happened: the batches and the dropout of a step depend on the seed and the step alone.

    Returns the history, a record every 20 steps and at checkpoints: step, loss (nats per token),
    rate, tokens (so far), seconds (so far), and at checkpoints the scores on `valid_pairs`.
    `on_record` is called with the history each time it grows.

    Raises `ValueError` if the loss stops being a number, if `start` does not fit the model, if
    `folder` holds another run (also one that started with other weights) or a longer one, or if
    another process trains in it.
    """
    require_type(model, nn.Module, "model")
    require_type(config, TrainConfig, "config")
    _lengths(train_pairs)
    if valid_pairs:
        _lengths(valid_pairs)  # else they would be refused after many steps
    folder = None if folder is None else as_folder(folder)
    is_first = rank_and_size()[0] == 0
    stores = folder is not None and is_first
    if start is not None:
        require_type(start, dict, "start")
        load_parameters(model, start, "start")
    identity = identity_of(model, config, train_pairs, start)
    with locked(folder / CHECKPOINTS) if stores else nullcontext(), torch.random.fork_rng():
        state = TrainState() if folder is None else load_state(folder, identity)
        if stores:
            remove_outdated(folder, state)  # before `_go_on` forgets what the stored state names
        optimizer = make_optimizer(model, config)
        _go_on(state, model, optimizer, config, folder)
        started = time.perf_counter() - state.seconds
        for losses in _steps(model, optimizer, state, train_pairs, config, progress and is_first):
            at_checkpoint = _is_checkpoint(state.step, config)
            record = _record(losses, state, model, config, valid_pairs if at_checkpoint else None)
            state.seconds = time.perf_counter() - started
            state.history.append(record | {"seconds": round(state.seconds, 3)})
            if on_record and is_first:
                on_record(state.history)
            if at_checkpoint:
                take_snapshot(state, model, optimizer, keep=config.average)
                if stores:
                    save_state(folder, state, identity)
    load_parameters(model, average_checkpoints(list(state.snapshots.values())), "the average")
    model.eval()
    return state.history


def _go_on(
    state: TrainState,
    model: Transformer,
    optimizer: torch.optim.Optimizer,
    config: TrainConfig,
    folder: Path | None,
) -> None:
    """Give model and optimizer the numbers of the state, if a run has stored some."""
    require(
        state.step <= config.steps,
        f"{folder} holds {state.step} steps already, got steps={config.steps}",
    )
    for step, snapshot in state.snapshots.items():  # the last one stays; all of them must fit
        load_parameters(model, snapshot, snapshot_path(folder, step))
    if state.step:
        load_optimizer(optimizer, state.optimizer, folder / STATE)
    if state.step < config.steps and state.step % config.checkpoint_every:
        del state.snapshots[state.step]  # taken where a shorter run ended; a long one takes none


def _steps(
    model: Transformer,
    optimizer: torch.optim.Optimizer,
    state: TrainState,
    pairs: Pairs,
    config: TrainConfig,
    progress: bool,
) -> Iterator[list[Tensor]]:
    """Take the steps that are left; wherever a record is due, yield the losses since the last."""
    from tqdm.auto import tqdm

    model.train()
    objective = _data_parallel(Objective(model, config))
    batches, losses = _endless_batches(pairs, config, skip=state.step), []
    with tqdm(
        total=config.steps, initial=state.step, unit="step", mininterval=1, disable=not progress
    ) as bar:
        while state.step < config.steps:
            batch = next(batches)
            state.step += 1
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(state.step, model.config.d_model, config)
            losses.append(_take_step(objective, batch, optimizer, state.step, config))
            state.tokens += batch.num_tokens
            if state.step % RECORD_EVERY == 0 or _is_checkpoint(state.step, config):
                yield losses
                losses = []
                bar.set_postfix(loss=f"{state.history[-1]['loss']:.3f}", refresh=False)
            bar.update()


def _take_step(
    objective: nn.Module,
    batch: Batch,
    optimizer: torch.optim.Optimizer,
    step: int,
    config: TrainConfig,
) -> Tensor:
    """Train on a batch with the random numbers that belong to this step, process and seed."""
    rank, size = rank_and_size()
    torch.manual_seed((config.seed * 1_000_000_007 + step * size + rank) % 2**63)
    return train_step(objective, batch, optimizer, clip_norm=config.clip_norm)


def _data_parallel(objective: Objective) -> nn.Module:
    return nn.parallel.DistributedDataParallel(objective) if rank_and_size()[1] > 1 else objective


def _is_checkpoint(step: int, config: TrainConfig) -> bool:
    return step % config.checkpoint_every == 0 or step == config.steps


def _record(
    losses: list[Tensor],
    state: TrainState,
    model: Transformer,
    config: TrainConfig,
    valid_pairs: Pairs | None,
) -> dict:
    """Return a record of the history; `ValueError` if the loss is no number any more."""
    loss = torch.stack(losses).mean()
    if rank_and_size()[1] > 1:
        dist.all_reduce(loss)
    require(
        bool(loss.isfinite()),
        f"the loss became {loss.item()} at or before step {state.step}; a lower rate_factor, a "
        f"longer warmup or clip_norm=1 may help",
    )
    record = {
        "step": state.step,
        "loss": loss.item(),
        "rate": learning_rate(state.step, model.config.d_model, config),
    }
    if valid_pairs:
        room = max(4000, model.config.max_length + 1)  # any sentence of the model fits, with BOS
        scores = evaluate(model, valid_pairs, max_tokens=room)
        record |= {f"valid_{name}": x for name, x in scores.items()}
    return record | {"tokens": state.tokens}


@torch.no_grad()
def evaluate(model: Transformer, pairs: Pairs, *, max_tokens: int = 4000) -> dict[str, float]:
    """Return loss (nats per token, no smoothing), perplexity and accuracy, teacher-forced.

    Raises `ValueError` if there are no pairs, and as the model does.
    """
    require_type(model, nn.Module, "model")
    device = next(model.parameters()).device
    was_training = model.training
    model.eval()
    loss = correct = tokens = 0
    try:
        for batch in _batches(pairs, max_tokens):
            batch = batch.to(device)
            logits, real = model(batch.source, batch.target_in), batch.target_out != PAD
            loss += float(sequence_loss(logits, batch.target_out)) * batch.num_tokens
            correct += int((logits.argmax(dim=-1) == batch.target_out)[real].sum())
            tokens += batch.num_tokens
    finally:
        model.train(was_training)
    loss /= tokens
    return {"loss": loss, "perplexity": math.exp(min(loss, 700)), "accuracy": correct / tokens}


def _batches(pairs: Pairs, max_tokens: int) -> Iterator[Batch]:
    for indices in batches_by_tokens(_lengths(pairs), max_tokens):
        yield Batch.from_pairs([pairs[i] for i in indices])


def _lengths(pairs: Pairs) -> list[tuple[int, int]]:
    """Return target length, BOS included, and source length of each pair.

    Raises `ValueError` unless there is at least one pair, each holds two lists, and they can be
    read again.
    """
    try:
        len(pairs)
        lengths = [(len(target) + 1, len(source)) for source, target in pairs]
    except (TypeError, ValueError):
        lengths = []
    if not lengths:
        raise ValueError(
            f"pairs must be a list of (source ids, target ids), at least one, got {shown(pairs)}"
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
