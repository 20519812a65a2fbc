"""What the GPU itself draws while something runs."""

import statistics
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

EVERY = 0.2  # seconds; the GPU reports a mean over the last second or so


@contextmanager
def watts(device: torch.device) -> Iterator[dict]:
    """Give a dict that at the end holds mean, highest and samples; nothing where none is told."""
    found, samples, over = {}, [], threading.Event()

    def sample() -> None:
        while not over.wait(EVERY):
            samples.append(torch.cuda.power_draw() / 1000)

    def try_to() -> None:
        try:
            sample()
        except Exception as error:  # no driver's library: all else can still be measured
            found["error"] = f"{type(error).__name__}: {error}"

    thread = threading.Thread(target=try_to, daemon=True)
    if device.type == "cuda":
        thread.start()
    try:
        yield found
    finally:
        over.set()
        if thread.ident:
            thread.join()
        if samples:
            found |= {"mean": statistics.mean(samples), "highest": max(samples)}
            found["samples"] = len(samples)
