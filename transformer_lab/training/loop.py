"""The training loop (paper, section 5; lesson 08): batch, rate, step, record, checkpoint."""

import math
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count

import torch
import torch.distributed as dist
from torch import Tensor, nn

from transformer_lab.config import EOS, PAD, TrainConfig
from transformer_lab.data.batches import Batch, batches_by_tokens
from transformer_lab.model import Transformer
from transformer_lab.saving import set_parameters
from transformer_lab.support.dropout import without_dropout
from transformer_lab.support.files import as_folder
from transformer_lab.support.threads import sharing_cores
from transformer_lab.support.validation import require, require_function, require_type, shown
from transformer_lab.training.checkpoints import Checkpoints, identity_of
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
    rate, at checkpoints the scores on `valid_pairs`, tokens (so far), seconds (so far).
    `on_record` is called with the history each time it grows. Warns if targets lack EOS: a model
    writes until it writes one.

    Raises `ValueError` if the loss stops being a number, if `start` does not fit the model, if
    `folder` holds another run (also one that started with other weights) or a longer one, or if
    another process trains in it.
    """
    require_type(model, nn.Module, "model")
    require_type(config, TrainConfig, "config")
    folder = None if folder is None else as_folder(folder)
    for pairs in (train_pairs, valid_pairs) if valid_pairs else (train_pairs,):
        _lengths(pairs)  # else they would be refused after many steps
    endless = sum(EOS not in target for _, target in train_pairs)
    if endless:
        warnings.warn(
            f"{endless:,} of {len(train_pairs):,} targets have no EOS={EOS}, so the model will not "
            f"learn where to stop: end each with it, as Tokenizer.encode does",
            stacklevel=2,
        )
    if start is not None:
        require_type(start, dict, "start")
        set_parameters(model, start, "start")
    require_function(on_record, "on_record")
    rank, size = rank_and_size()
    checkpoints = Checkpoints(folder, identity_of(model, config, train_pairs, start), config)

    with (
        checkpoints.locked(),  # no other process trains in the folder
        torch.random.fork_rng(),  # the caller's random numbers stay as they were
        _sharing_cores(model) as busy,
    ):
        optimizer = make_optimizer(model, config)
        history = checkpoints.go_on(model, optimizer)
        done: dict = history[-1] if history else {"step": 0, "tokens": 0, "seconds": 0.0}
        objective = _data_parallel(Objective(model.train(), config))
        batches = _endless_batches(train_pairs, config, skip=done["step"])
        losses, tokens, started = [], done["tokens"], time.perf_counter() - done["seconds"]
        bar = _progress_bar(done["step"], config.steps, shown=progress and rank == 0)
        for step, batch in zip(bar, batches, strict=False):
            rate = learning_rate(step, model.config.d_model, config)
            for group in optimizer.param_groups:
                group["lr"] = rate
            # Another seed for each run, step and process, so that a step can be done again alone.
            torch.manual_seed((config.seed * 1_000_000_007 + step * size + rank) % 2**63)
            losses.append(train_step(objective, batch, optimizer, clip_norm=config.clip_norm))
            tokens += batch.num_tokens

            at_checkpoint = step % config.checkpoint_every == 0 or step == config.steps
            if at_checkpoint or step % RECORD_EVERY == 0:
                record = {"step": step, "loss": _mean_loss(losses, step), "rate": rate}
                if at_checkpoint and valid_pairs:
                    scores = validate(model, valid_pairs)
                    record |= {f"valid_{name}": score for name, score in scores.items()}
                seconds = round(time.perf_counter() - started, 3)
                history.append(record | {"tokens": tokens, "seconds": seconds})
                losses = []
                bar.set_postfix_str(f"loss={record['loss']:.3f}{busy()}", refresh=False)
                if on_record and rank == 0:
                    on_record(history)
            if at_checkpoint:
                checkpoints.save(history, model, optimizer)

    set_parameters(model, checkpoints.average(), "the average")
    model.eval()
    return history


def _data_parallel(objective: Objective) -> nn.Module:
    return nn.parallel.DistributedDataParallel(objective) if rank_and_size()[1] > 1 else objective


@contextmanager
def _sharing_cores(model: Transformer) -> Iterator[Callable[[], str]]:
    """Share the cores with other programs, if the model has them all to itself; say how busy."""
    alone_on_cpu = rank_and_size()[1] == 1 and next(model.parameters()).device.type == "cpu"
    if not alone_on_cpu:
        yield lambda: ""
        return
    with sharing_cores() as busy:
        yield lambda: f", slow: close other programs ({busy()})" if busy() else ""


def _progress_bar(done: int, steps: int, *, shown: bool):
    """Return an iterator over the steps that are left, which draws how far it has come."""
    from tqdm.auto import tqdm

    left, looks = range(done + 1, steps + 1), {"unit": "step", "mininterval": 1}
    return tqdm(left, initial=done, total=steps, disable=not shown or sys.stderr is None, **looks)


def _mean_loss(losses: list[Tensor], step: int) -> float:
    """Return the mean loss per token of some steps; `ValueError` if it is no number any more."""
    loss = torch.stack(losses).mean()
    if rank_and_size()[1] > 1:
        dist.all_reduce(loss)
    require(
        bool(loss.isfinite()),
        f"the loss became {loss.item()} at or before step {step}; a lower rate_factor, a longer "
        f"warmup or clip_norm=1 may help",
    )
    return loss.item()


@torch.no_grad()
def validate(
    model: Transformer, pairs: Pairs, *, max_tokens: int | None = None
) -> dict[str, float]:
    """Return loss (nats per token, no smoothing), perplexity and accuracy, teacher-forced.

    A batch holds at most `max_tokens` target tokens: unless given, 4,000, or the model's
    `max_length` if that is more. Raises `ValueError` if there are no pairs, and as the model does.
    """
    require_type(model, nn.Module, "model")
    if max_tokens is None:
        max_tokens = max(4000, model.config.max_length + 1)  # with BOS
    device = next(model.parameters()).device
    loss, correct, tokens = 0.0, 0, 0
    with without_dropout(model):
        for indices in batches_by_tokens(_lengths(pairs), max_tokens):
            batch = Batch.from_pairs([pairs[i] for i in indices]).to(device)
            logits, real = model(batch.source, batch.target_in), batch.target_out != PAD
            loss += float(sequence_loss(logits, batch.target_out)) * batch.num_tokens
            correct += int((logits.argmax(dim=-1) == batch.target_out)[real].sum())
            tokens += batch.num_tokens
    loss /= tokens
    return {"loss": loss, "perplexity": math.exp(min(loss, 700)), "accuracy": correct / tokens}


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
