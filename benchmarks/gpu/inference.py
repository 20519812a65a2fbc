"""Translating test2016: batched and cached, against no cache, against one sentence at a time."""

import copy
import time

import torch
from torch import Tensor

from benchmarks.gpu.lab import Lab
from benchmarks.reporting.report import SEED
from benchmarks.reporting.timing import wait
from transformer_lab import Run, Transformer

FEW = 25  # sentences for one at a time: it would take minutes for all of them


class Written:
    """In the place of a cache: nothing but the tokens so far."""

    def __init__(self):
        self.tokens: Tensor | None = None

    def append(self, tokens: Tensor) -> Tensor:
        """Remember new tokens; return all of them."""
        self.tokens = tokens if self.tokens is None else torch.cat((self.tokens, tokens), dim=1)
        return self.tokens

    def select(self, rows: Tensor) -> None:
        """Keep these sentences, in this order."""
        self.tokens = self.tokens[rows]


class WithoutCache(Transformer):
    """A model that, for each new token, computes every position again."""

    def new_cache(self) -> Written:
        return Written()

    def decode(self, target, memory, memory_mask=None, *, cache=None):
        return super().decode(cache.append(target), memory, memory_mask)


def without_cache(run: Run) -> Run:
    """Return the same run, with the same weights, that decodes without a cache."""
    other = copy.copy(run)
    other.model = copy.copy(run.model)
    other.model.__class__ = WithoutCache
    return other


def inference(lab: Lab) -> dict:
    """Measure sentences per second, greedily and with the beam, each way, and compare outputs."""
    run, _ = lab.trained("tok", SEED)
    sources = [source for source, _ in lab.task("tok").splits["test2016"]]
    few = sources[:: -(-len(sources) // FEW)]
    rows = []
    for method, beam in (("greedy", 1), (f"beam {run.beam}", run.beam)):
        _timed(run, few, beam)  # warm up
        outputs, fast = _timed(run, sources, beam)
        rows.append(_row(method, "batched, cached", len(sources), fast, outputs, outputs))
        if lab.has(0, f"{method} without a cache"):
            slow = _timed(without_cache(run), sources, beam)
            rows.append(_row(method, "batched, no cache", len(sources), slow[1], slow[0], outputs))
        if lab.has(0, f"{method}, one by one"):
            found = [_timed(run, [source], beam) for source in few]
            alone, seconds = [output for (output,), _ in found], sum(s for _, s in found)
            chosen = outputs[:: -(-len(sources) // FEW)]
            rows.append(_row(method, "one by one, cached", len(few), seconds, alone, chosen))
    return {"summary": [_summary(rows)], "tables": [_table(rows)], "rows": rows}


def _timed(run: Run, sources: list[str], beam: int) -> tuple[list[str], float]:
    device = next(run.model.parameters()).device
    wait(device)
    start = time.perf_counter()
    outputs = run.translate(sources, beam=beam)
    wait(device)
    return outputs, time.perf_counter() - start


def _row(method: str, way: str, count: int, seconds: float, outputs: list, expected: list) -> dict:
    return {
        "method": method,
        "way": way,
        "sentences": count,
        "seconds": seconds,
        "sentences_per_second": count / seconds,
        "equal": sum(a == b for a, b in zip(outputs, expected, strict=True)),
    }


def _summary(rows: list[dict]) -> list[str]:
    speeds = {(row["method"], row["way"]): row["sentences_per_second"] for row in rows}
    parts = []
    for method in dict.fromkeys(row["method"] for row in rows):
        mine = speeds[method, "batched, cached"]
        others = [
            f"{mine / speed:.1f} × {way}"
            for (name, way), speed in speeds.items()
            if name == method and way != "batched, cached"
        ]
        parts.append(f"{method}: {mine:,.0f} sentences/s ({', '.join(others)})")
    return ["translating test2016, GPU", "; ".join(parts), ""]


def _table(rows: list[dict]) -> dict:
    columns = ["method", "way", "sentences/s", "sentences", "of them as batched and cached"]
    cells = [
        [
            *(row["method"], row["way"], f"{row['sentences_per_second']:,.1f}"),
            *(row["sentences"], row["equal"]),
        ]
        for row in rows
    ]
    title = "Translating test2016 (tok), in float32, text to text"
    return {"title": title, "columns": columns, "rows": cells}
