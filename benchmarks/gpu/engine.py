"""Training at the speed of a GPU: the package's objective, and a switch for each thing that helps.

`Trainer.compute` is the same step as `transformer_lab.train_step` (a test compares them), written
so that Python never waits for the device. That is what lets CUDA graphs record it.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import count

import torch
from torch import Tensor, nn

from benchmarks.reporting.timing import wait
from transformer_lab import MultiHeadAttention, Objective, TrainConfig, Transformer
from transformer_lab.config import BOS, EOS, PAD
from transformer_lab.saving import parameters_of
from transformer_lab.training.optimizer import inner_matrices
from transformer_lab.training.schedule import learning_rate

STEP = 4  # widths of batches are multiples of this, so that there are few shapes
MOMENTUM, QUINTIC, ROUNDS = 0.95, (3.4445, -4.7750, 2.0315), 5  # as in torch.optim.Muon


@dataclass(frozen=True)
class Way:
    """How a training step is carried out. Every switch changes its speed; `bfloat16`, its rounding.

    `compile_with` is torch.compile's backend.
    """

    bucketed: bool = True  # sentences of about one length together
    bfloat16: bool = True  # matrices multiplied in half the bits
    sdpa: bool = True  # attention as one kernel, its weights never written to memory
    fused_adam: bool = True  # the optimizer's step as one kernel
    compiled: bool = False  # torch.compile for each layer, and for the loss
    graphs: bool = True  # all launches of a step recorded, once for each shape
    resident: bool = True  # the sentences lie on the device
    compile_with: str = "inductor"


class Corpus:
    """Pairs of token ids as two padded tables, from which batches of few shapes are taken.

    The last row of each table is an empty sentence. It fills up batches and predicts nothing.
    """

    def __init__(self, pairs: list, max_tokens: int, *, bucketed: bool = True, device="cpu"):
        self.max_tokens, self.bucketed = max_tokens, bucketed
        longest = [max(len(source), len(target)) for source, target in pairs]
        self.widths = torch.tensor([-(-length // STEP) * STEP for length in longest])
        self.tokens = torch.tensor([len(source) + len(target) for source, target in pairs])
        width = int(self.widths.max())
        sources = [*(source for source, _ in pairs), [EOS]]
        targets = [*([BOS, *target] for _, target in pairs), [BOS]]
        self.source = _table(sources, width).to(device)
        self.target = _table(targets, width + 1).to(device)

    def epoch(self, generator: torch.Generator) -> list[tuple[int, Tensor, int]]:
        """Return each batch as (width, rows, real tokens), in a new order.

        Bucketed, the widest sentences come first and those that are left over join the next
        narrower ones, so the shapes are the same in each epoch. Otherwise a batch is any sentences.
        """
        order = torch.randperm(len(self.widths), generator=generator)
        size = self.max_tokens * len(order) // int(self.widths.sum())
        if self.bucketed:
            order = order[self.widths[order].argsort(descending=True, stable=True)]
        batches, start = [], 0
        while start < len(order):
            if self.bucketed:
                size = self.max_tokens // int(self.widths[order[start]])
            rows = order[start : start + size]
            width, tokens = int(self.widths[rows].max()), int(self.tokens[rows].sum())
            empty = rows.new_full((size - len(rows),), len(order))
            batches.append((width, torch.cat((rows, empty)), tokens))
            start += size
        drawn = torch.randperm(len(batches), generator=generator).tolist()
        return [batches[i] for i in drawn]

    def endless(self, seed: int) -> Iterator[tuple[int, Tensor, int]]:
        """Yield the batches of one epoch after the other."""
        for epoch in count():
            yield from self.epoch(torch.Generator().manual_seed(seed * 1_000_003 + epoch))

    def take(self, width: int, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return source (B, width) and target (B, width + 1) of these rows."""
        rows = rows.to(self.source.device, non_blocking=True)
        return self.source[rows, :width], self.target[rows, : width + 1]


def _table(rows: list[list[int]], width: int) -> Tensor:
    return torch.tensor([[*row, *[PAD] * (width - len(row))] for row in rows])


class PlainAttention(MultiHeadAttention):
    """The same module by the paper's equation: scores and weights are written to memory."""

    def forward(self, query, key, value, mask=None, *, cache=None, return_weights=False):
        return super().forward(query, key, value, mask, cache=cache, return_weights=True)[0]


class Trainer:
    """Trains a model in a given `Way`; after `prepare`, each `take_step` is one training step."""

    def __init__(
        self,
        model: Transformer,
        pairs: list,
        config: TrainConfig,
        way: Way,
        objective: type[Objective] = Objective,
    ):
        self.model, self.config, self.way = model.train(), config, way
        self.device = next(model.parameters()).device
        precision = "bfloat16" if way.bfloat16 else "float32"
        self.objective = objective(model, replace(config, precision=precision, compile=False))
        self.corpus = Corpus(
            pairs,
            config.max_tokens,
            bucketed=way.bucketed,
            device=self.device if way.resident else "cpu",
        )
        self.batches = self.corpus.endless(config.seed)
        self.optimizers = _optimizers(model, config, way)
        self.losses = torch.zeros((), device=self.device)  # summed since they were last read
        self.step = self.tokens = self.steps_read = 0
        self.records = way.graphs and self.device.type == "cuda"
        self.recorded: dict[torch.Size, tuple] = {}  # graph, source and target by shape
        if not way.sdpa:
            for module in model.modules():
                if isinstance(module, MultiHeadAttention):
                    module.__class__ = PlainAttention
        if way.compiled:
            self._compile()

    def compute(self, source: Tensor, target: Tensor) -> None:
        """Take one step on the mean loss per token; no line of it waits for the device."""
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        loss = self.objective(source, target) / (target[:, 1:] != PAD).sum()
        loss.backward()
        if self.config.clip_norm:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip_norm)
        for optimizer in self.optimizers:
            optimizer.step()
        self.losses.add_(loss.detach())

    def prepare(self) -> float:
        """Compile and record what is to be, for every shape; leave the model as it was.

        Returns the seconds that it took. With a learning rate of 0, steps change no weight.
        """
        start = time.perf_counter()
        self._set_rate(0.0)
        shapes = {}
        for width, rows, _ in self.corpus.epoch(torch.Generator().manual_seed(0)):
            shapes.setdefault((len(rows), width), (width, rows))
        for width, rows in shapes.values():
            batch = [part.to(self.device, copy=True) for part in self.corpus.take(width, rows)]
            if self.records:
                pool = next((graph.pool() for graph, *_ in self.recorded.values()), None)
                graph = record(partial(self.compute, *batch), pool)
                self.recorded[batch[0].shape] = (graph, *batch)
            else:
                self.compute(*batch)
        for optimizer in self.optimizers:
            for state in optimizer.state.values():
                for tensor in state.values():
                    tensor.zero_()
        self.losses.zero_()
        torch.manual_seed(self.config.seed)
        wait(self.device)
        return time.perf_counter() - start

    def take_step(self) -> None:
        """Train on the next batch."""
        width, rows, tokens = next(self.batches)
        self.step += 1
        self.tokens += tokens
        self._set_rate(learning_rate(self.step, self.model.config.d_model, self.config))
        source, target = self.corpus.take(width, rows)
        if source.shape in self.recorded:
            graph, *inputs = self.recorded[source.shape]
            inputs[0].copy_(source, non_blocking=True)
            inputs[1].copy_(target, non_blocking=True)
            graph.replay()
        else:
            self.compute(
                source.to(self.device, non_blocking=True), target.to(self.device, non_blocking=True)
            )

    def mean_loss(self) -> float:
        """Return the mean of the losses since the last call; this waits for the device."""
        loss = self.losses.item() / max(1, self.step - self.steps_read)
        self.losses.zero_()
        self.steps_read = self.step
        return loss

    def snapshot(self) -> dict[str, Tensor]:
        """Return a copy of the weights, on the device."""
        return {name: tensor.detach().clone() for name, tensor in parameters_of(self.model).items()}

    def _set_rate(self, rate: float) -> None:
        for optimizer in self.optimizers:
            (group,) = optimizer.param_groups
            if isinstance(group["lr"], Tensor):  # a recorded step reads it from its place
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate

    def _compile(self) -> None:
        """Compile a layer of each kind, which serves them all, and the loss of a chunk."""
        torch.compiler.reset()  # it keeps few versions of a function, and then goes on without
        options = {"backend": self.way.compile_with, "dynamic": len(_shapes(self.corpus)) > 1}
        for layer in (*self.model.encoder.layers, *self.model.decoder.layers):
            layer.compile(**options)
        self.objective.compiled = True


def record(work: Callable[[], None], pool=None) -> torch.cuda.CUDAGraph:
    """Do the work three times, then record the launches that it makes.

    Recording executes nothing. `pool` is the memory of an earlier graph: as one is played after
    the other, and none needs what another has left, they can share it.
    """
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # what is only done the first time must not be recorded
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool):
        work()
    return graph


def _shapes(corpus: Corpus) -> set[tuple[int, int]]:
    batches = corpus.epoch(torch.Generator().manual_seed(0))
    return {(len(rows), width) for width, rows, _ in batches}


class BatchedMuon(torch.optim.Optimizer):
    """The steps of `torch.optim.Muon`, for all matrices of one shape at once.

    That is a hundred launches where there were thousands, and the rate is read from its place, so
    that a graph can record them.
    """

    @torch.no_grad()
    def step(self) -> None:
        """Take one step."""
        (group,) = self.param_groups
        of_shape = {}
        for matrix in group["params"]:
            of_shape.setdefault(matrix.shape, []).append(matrix)
            if matrix not in self.state:
                self.state[matrix]["momentum_buffer"] = torch.zeros_like(matrix)
        for shape, matrices in of_shape.items():
            gradients = [matrix.grad for matrix in matrices]
            means = [self.state[matrix]["momentum_buffer"] for matrix in matrices]
            torch._foreach_lerp_(means, gradients, 1 - MOMENTUM)
            ahead = torch.stack(gradients).lerp(torch.stack(means), MOMENTUM)
            length = 0.2 * max(shape) ** 0.5  # as long as Adam's
            kept = torch.stack(matrices) * (1 - group["lr"] * group["weight_decay"])
            changed = kept - group["lr"] * length * orthogonal(ahead).float()
            torch._foreach_copy_(matrices, changed.unbind())


def orthogonal(matrices: Tensor) -> Tensor:
    """Return (N, rows, columns) in bfloat16, with all singular values of each matrix about 1."""
    rows, columns = matrices.shape[1:]
    x = matrices.bfloat16()
    x = x.mT if rows > columns else x
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)
    a, b, c = QUINTIC
    for _ in range(ROUNDS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if rows > columns else x


def _optimizers(
    model: nn.Module, config: TrainConfig, way: Way
) -> tuple[torch.optim.Optimizer, ...]:
    """Return Adam; or Adam and, for the matrices inside the layers, Muon."""
    device = next(model.parameters()).device
    rate = torch.zeros((), device=device) if way.fused_adam else 0.0
    fast = {"fused": True, "capturable": device.type == "cuda"} if way.fused_adam else {}
    settings = {"betas": (config.beta1, config.beta2), "eps": config.adam_epsilon} | fast
    if config.optimizer == "adam":
        decay = {"weight_decay": config.weight_decay}
        return (torch.optim.AdamW(model.parameters(), lr=rate, **decay, **settings),)
    matrices = inner_matrices(model)
    inside = set(matrices)
    rest = [parameter for parameter in model.parameters() if parameter not in inside]
    muon = BatchedMuon(matrices, {"lr": rate, "weight_decay": config.weight_decay})
    return torch.optim.AdamW(rest, lr=rate, weight_decay=0.0, **settings), muon


def train(trainer: Trainer, steps: int, every: int) -> tuple[list[dict], list[dict[str, Tensor]]]:
    """Train; return, every `every` steps and at the end, a record and a snapshot of the weights.

    A record holds step, loss (mean since the last), tokens and seconds so far, without `prepare`.
    """
    history, snapshots = [], []
    wait(trainer.device)
    start = time.perf_counter()
    while trainer.step < steps:
        trainer.take_step()
        if trainer.step % every and trainer.step != steps:
            continue
        record = {"step": trainer.step, "loss": trainer.mean_loss(), "tokens": trainer.tokens}
        history.append(record | {"seconds": round(time.perf_counter() - start, 3)})
        snapshots.append(trainer.snapshot())
    return history, snapshots
