"""Training beside other programs that keep the cores busy."""

import json
import os
import subprocess
import sys
from contextlib import nullcontext

import pytest

from transformer_lab import TrainConfig, fit
from transformer_lab.support import threads
from transformer_lab.training import loop

PAIRS = [([3 + i % 5, 2], [3 + i % 4, 2]) for i in range(40)]
CONFIG = TrainConfig(steps=20, max_tokens=100, warmup=4)

# Four busy programs on two cores, however many the machine has. How many sums of two threads are
# done in a second, and how often a thread goes to sleep meanwhile, while cores are shared and
# while not, and what comes out of both. (Which of the two is faster, and by how much, hangs on
# whom the system lets run: at worst there is a hundredfold between them, at best nothing.)
SCRIPT = """
import json, os, resource, subprocess, sys, time

os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4)]
try:
    import torch
    from transformer_lab.support.threads import sharing_cores

    torch.set_num_threads(2)
    x, y = torch.rand(2**17), torch.rand(300, 300, generator=torch.Generator().manual_seed(0))

    def sleeps_so_far():
        return resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw

    def done_in_a_second():
        start, count, sleeps = time.perf_counter(), 0, sleeps_so_far()
        while time.perf_counter() < start + 1:
            x.add_(1)
            count += 1
        return count, sleeps_so_far() - sleeps, (y @ y).softmax(1).sum(0).tolist()

    with sharing_cores() as said:
        while not said():
            time.sleep(0.1)
        *sharing, one = done_in_a_second()
        words = said()
    *alone, other = done_in_a_second()
    print(json.dumps({"sharing": sharing, "not": alone, "words": words, "same": one == other}))
finally:
    for process in busy:
        process.kill()
"""


@pytest.mark.serial
@pytest.mark.skipif(threads.usable_cores() < 2 or not threads.TIMES.exists(), reason="needs Linux")
def test_beside_busy_programs_waiting_threads_sleep_and_the_numbers_are_the_same():
    environment = os.environ | {"OMP_NUM_THREADS": "2"}
    command = [sys.executable, "-c", SCRIPT]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    seen = json.loads(result.stdout)
    (sums, sleeps), (_, sleeps_without) = seen["sharing"], seen["not"]
    assert sleeps >= sums, seen  # it was two a sum; without, no more than some 400 in the second
    assert sleeps > 5 * sleeps_without, seen
    assert seen["words"].endswith("of 2 cores") and seen["same"], seen


@pytest.mark.parametrize(
    ("taken", "words"),
    [("1.3 of 2 cores", "slow: close other programs (1.3 of 2 cores)"), ("", "")],
)
def test_the_progress_line_says_why_it_is_slow_and_what_to_do(
    taken, words, tiny, monkeypatch, capsys
):
    monkeypatch.setattr(loop, "sharing_cores", lambda: nullcontext(lambda: taken))
    fit(tiny(), PAIRS, CONFIG)
    line = capsys.readouterr().err.splitlines()[-1]
    assert words in line and ("slow" in line) == bool(taken)


def test_where_nothing_says_how_busy_the_machine_is_nothing_is_done(monkeypatch, tmp_path):
    monkeypatch.setattr(threads, "TIMES", tmp_path / "none")
    with threads.sharing_cores() as busy:
        assert busy() == ""
