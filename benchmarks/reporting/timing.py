"""Timing by turns: what disturbs one variant in a round disturbs the others too."""

import statistics
import time
from collections.abc import Callable

import torch


def take_turns(variants: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Return the seconds that each variant took in each round; every second round runs backwards.

    Nothing is warmed up here: that is for the caller, who knows how to do it cheaply.
    """
    seconds = {name: [] for name in variants}
    for turn in range(rounds):
        for name in list(variants)[:: -1 if turn % 2 else 1]:
            start = time.perf_counter()
            variants[name]()
            seconds[name].append(time.perf_counter() - start)
    return seconds


def wait(device: torch.device) -> None:
    """Wait until a GPU has done what it was told to; it works while Python goes on."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def seconds_per_call(
    work: Callable[[], object], device: torch.device, calls: int, rounds: int = 3
) -> float:
    """Return the median over the rounds of the seconds that one call takes, after a first call."""
    work()
    seconds = []
    for _ in range(rounds):
        wait(device)
        start = time.perf_counter()
        for _ in range(calls):
            work()
        wait(device)
        seconds.append((time.perf_counter() - start) / calls)
    return statistics.median(seconds)


def row(name: str, slow: list[float], fast: list[float], **more) -> dict:
    """Return one line of the results: how many times as long `slow` takes as `fast`, by round."""
    ratios = sorted(a / b for a, b in zip(slow, fast, strict=True))
    spread = {"median": statistics.median(ratios), "low": ratios[0], "high": ratios[-1]}
    return {"name": name, "ratio": spread, **more}
