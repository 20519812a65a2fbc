"""As many threads as a container may use: PyTorch counts the cores of the whole machine."""

import os
from pathlib import Path

import torch

CGROUPS, OWN_GROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


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
