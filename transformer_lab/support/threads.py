"""As many threads as a container may use, and what they do while other programs are busy."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import torch

CGROUPS, OWN_GROUPS, TIMES = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup"), Path("/proc/stat")


def limit_threads() -> None:
    """Give PyTorch no more threads than the quota has cores, unless OMP_NUM_THREADS says how many.

    With more of them, the system stops all for the rest of each period, and they wait for each
    other.
    """
    quota = cpu_quota()
    if quota is not None and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(min(torch.get_num_threads(), max(1, int(quota))))


def usable_cores() -> int:
    """Return how many cores this process may use: not those of the machine that others have."""
    allowed = getattr(os, "sched_getaffinity", None)  # Linux has it
    cores = len(allowed(0)) if allowed else os.cpu_count() or 1
    quota = cpu_quota()
    return cores if quota is None else max(1, min(cores, int(quota)))


def cpu_quota(cgroups: Path = CGROUPS, own_groups: Path = OWN_GROUPS) -> float | None:
    """Return how many cores Linux lets this process use at once, or None if all of them.

    A quota may be set for the process's own group or for any that this one is part of; the
    smallest counts. Control groups have been kept in two ways, with the quota in one file
    ("200000 100000": 0.2 s in each 0.1 s are two cores) or in two.
    """
    try:
        lines = own_groups.read_text().splitlines()
    except OSError:  # not Linux
        return None
    quotas = []
    for _, controllers, path in (line.split(":", 2) for line in lines):
        if controllers and "cpu" not in controllers.split(","):
            continue
        root = cgroups / "cpu" if controllers else cgroups
        group = root / path.strip("/")
        for folder in (group, *group.parents):
            if folder.is_relative_to(root):
                quotas.append(_quota(folder))
    return min((quota for quota in quotas if quota is not None), default=None)


def _quota(folder: Path) -> float | None:
    """Return the cores of one group, or None if it has no limit of its own."""
    try:
        text = (folder / "cpu.max").read_text()
    except OSError:
        try:
            names = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
            text = " ".join((folder / name).read_text() for name in names)
        except OSError:
            return None
    quota, period = text.split()
    return None if quota in ("max", "-1") else int(quota) / int(period)


# ---- A busy machine


@contextmanager
def sharing_cores() -> Iterator[Callable[[], str]]:
    """While other programs take a quarter of the cores, let PyTorch's threads sleep as they wait.

    They wait for each other some hundred times in a training step, by asking again and again,
    which is fastest on a quiet machine. On a busy one the system has stopped the thread that the
    others wait for, and they use up its time. The numbers that come out are the same to the bit.
    Yields a function that says in a few words how busy the machine is, and nothing if it is not.

    Needs Linux and GNU's OpenMP, as PyTorch has it there; elsewhere nothing is done or said.
    """
    taken, done = [0.0], Event()
    watcher = Thread(target=_watch, args=(taken, done), daemon=True)
    watcher.start()
    cores = usable_cores()
    try:
        yield lambda: f"{taken[0]:.1f} of {cores} cores" if _is_much(taken[0]) else ""
    finally:
        done.set()
        watcher.join()


def _watch(taken: list[float], done: Event) -> None:
    """Put into `taken`, four times a second, how many cores other programs have used since."""
    asleep, before = None, _seconds_of_others()
    while before is not None and not done.wait(0.25):
        now = _seconds_of_others()
        taken[0] = (now[0] - before[0]) / (now[1] - before[1])
        before = now
        if _is_much(taken[0]) and asleep is None:
            asleep = Event()
            Thread(target=_crowd, args=(asleep,), daemon=True).start()
        elif asleep is not None and not _is_much(taken[0]):
            asleep.set()
            asleep = None
    if asleep is not None:
        asleep.set()


def _is_much(cores: float) -> bool:
    return cores > usable_cores() / 4


def _crowd(leave: Event) -> None:
    """Work in threads of its own, and keep them: OpenMP has more of them than cores, then.

    That, and nothing else in a running program, tells GNU's OpenMP to put threads that wait to
    sleep.
    """
    torch.zeros(2**17)  # large enough to be filled by all threads
    leave.wait()


def _seconds_of_others() -> tuple[float, float] | None:
    """Return how long other programs have used this one's cores, and the time; None if unknown."""
    try:
        lines = [line.split() for line in TIMES.read_text().splitlines()]
    except OSError:  # not Linux
        return None
    own = {f"cpu{i}" for i in os.sched_getaffinity(0)}
    # user, nice, system, idle, iowait, irq, softirq, steal (proc(5)), in ticks
    ticks = [[*map(int, times[:8])] for name, *times in lines if name in own]
    busy = sum(sum(times) - times[3] - times[4] for times in ticks) / os.sysconf("SC_CLK_TCK")
    return busy - time.process_time(), time.perf_counter()
