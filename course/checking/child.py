"""The child process: loads one notebook, judges its tasks, and reports in records.

    python -m course.checking.child < job.json

Nothing that it says counts before the parent, `judge.py`, has seen a task's `Canary`. How the
process is walled in is said in `isolation.py`; what it does to itself before any code of the
learner's runs is here.
"""

import importlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
import torch

from course.checking.course import run_checks
from course.checking.diagnosis import CheckFailed
from course.checking.integrity import Seal, refuses_junk
from course.checking.notebooks import load_cells, task_from
from course.checking.records import (
    Canary,
    End,
    Judged,
    Loaded,
    Noticed,
    Ready,
    Record,
    Started,
    encode,
)
from course.checking.sandbox import NOT_WRITTEN, NotWritten

PASSED, WRONG, MISSING = "passed", "wrong", "missing"
LARGEST_FILE = 64 * 2**20  # bytes
# Where one of these is first used, PyTorch puts a function of its own in the place of another.
LAZY = (
    *("optim", "compile", "dynamo", "torch.func", "torch import func", "utils.checkpoint"),
    "attention.bias",
    "_python_dispatch",
)
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
OUTSIDE = {
    "a network": ("socket.connect", "socket.bind", "socket.sendto", "socket.getaddrinfo"),
    "another process": ("subprocess.Popen", "os.system", "os.fork", "os.exec", "os.posix_spawn"),
    "a signal": ("os.kill", "os.killpg"),
    "files outside its folder": (
        *("os.remove", "os.rename", "os.rmdir", "os.link", "os.symlink"),
        *("os.truncate", "os.chmod"),
    ),
    "ctypes": ("ctypes.dlopen",),
}


def judge(
    file: Path, namespace: Mapping[str, Any], names: Sequence[str]
) -> tuple[str, str, str, int, int]:
    """Return the state of a task, why in a line, all that a learner is told, and how many of how
    many separate parts of a wrong answer are right."""
    try:
        for name in names:
            task_from(namespace, name)
        run_checks(file, namespace, names)
    except NotWritten as stub:
        needed = "" if stub.task in names else f"needs {stub.task}"
        return NOT_WRITTEN, needed, f"{stub.task}: {NOT_WRITTEN}", 0, 0
    except CheckFailed as failure:
        deleted = not namespace.keys() >= set(names) and not namespace["__problems__"]
        why, message = _in_a_line(failure.why), str(failure)
        return MISSING if deleted else WRONG, why, message, *failure.parts
    except KeyboardInterrupt:  # nobody sits at this process
        return WRONG, "It raised KeyboardInterrupt.", "It raised KeyboardInterrupt.", 0, 0
    return PASSED, "", "", 0, 0


def _in_a_line(why: str) -> str:
    first, *others = why.splitlines() or [""]
    # "Your code stopped at this line:" says nothing without the line.
    return " ".join([first, *map(str.strip, others)]) if first[-1:] == ":" else first


def import_what_is_lazy(sources: Iterable[str]) -> None:
    """Let PyTorch do now what it would do later, after the seal, which would be broken by it."""
    if any(word in source for source in sources for word in LAZY):
        importlib.import_module("torch._dynamo")


def work(job: Mapping[str, Any], tell: Callable[[Record], None]) -> None:
    """Load the job's notebook and judge its tasks, each followed by a canary."""
    file = Path(job["checks"])
    import_what_is_lazy([file.read_text("utf-8"), *(source for _, source in job["cells"])])
    seal = Seal()
    tell(Ready())
    # An answer that is assigned, as a partial, is loaded though the notebook calls no check of it.
    asked = ", ".join(name for names in job["tasks"] for name in names)
    cells = [*job["cells"], ("code", f"check({asked})")]
    namespace = load_cells(cells, job["name"], given=_given(job))
    tell(Loaded(list(map(str, namespace["__problems__"]))))
    for number, names in enumerate(job["tasks"]):
        tell(Started(number))
        judged = Judged(number, *judge(file, namespace, names))
        tell(judged)
        earns = judged.state == PASSED or judged.right
        refused = not earns or refuses_junk(file, namespace, names)
        tell(Canary(number, refused, seal.broken()[:5]))
    tell(End())


def _given(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return the reference's objects that stand in place of the notebook's own."""
    names = job.get("given", ())
    reference = load_cells(job["reference"], f"{job['name']} (reference)", names) if names else {}
    return {name: reference[name] for name in names}


# ---- What the process does to itself first


def _limit(memory: int, processes: int, seconds: float) -> None:
    """Set what the system counts: bytes of memory, processes, processor time, size of a file."""
    import resource

    taken = psutil.Process().memory_info().vms  # by the imports, not by the learner
    for kind, most in (
        (resource.RLIMIT_AS, taken + memory),
        (resource.RLIMIT_NPROC, processes),
        (resource.RLIMIT_CPU, int(seconds)),
        (resource.RLIMIT_FSIZE, LARGEST_FILE),
        (resource.RLIMIT_NOFILE, 256),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (most, most))


def _watch(
    tell: Callable[[Record], None], folder: str, hidden: Sequence[str], refuse: bool
) -> None:
    """Report what the learner's code wants of the world outside `folder`; `refuse` it, perhaps."""
    events = {event: what for what, names in OUTSIDE.items() for event in names}
    inside, told = (f"{folder}{os.sep}", os.devnull), set()

    def hook(event: str, arguments: tuple) -> None:
        what = events.get(event)
        if event in ("open", "os.listdir", "os.scandir") and isinstance(arguments[0], str | bytes):
            path = os.path.realpath(os.fsdecode(arguments[0]))
            if any(f"{path}{os.sep}".startswith(f"{each}{os.sep}") for each in hidden):
                what = "the teacher's files"
            elif event == "open" and arguments[2] & WRITING and not path.startswith(inside):
                what = "files outside its folder"
        if what is None:
            return
        if what not in told:
            told.add(what)
            tell(Noticed(f"wanted {what}"))
        if refuse:
            raise PermissionError(f"Graded code may not use {what}.")

    sys.addaudithook(hook)


def _records_to(descriptor: int, token: str) -> Callable[[Record], None]:
    write, process, owner = os.write, os.getpid, os.getpid()  # as they are now

    def tell(record: Record) -> None:
        if process() != owner:  # the learner's code has forked, and this is its copy
            os._exit(1)
        line = encode(record, token)
        while line:
            line = line[write(descriptor, line) :]

    return tell


def main() -> None:
    """Read the job from stdin; its stdout becomes the pipe of records, and nobody else's."""
    job = json.load(sys.stdin)
    pipe, nowhere = os.dup(1), os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    tell = _records_to(pipe, job["token"])
    torch.set_num_threads(1)
    os.chdir(job["folder"])
    sys.path[:0] = [job["folder"]]
    if job["limits"]:
        _limit(**job["limits"])
    if job["watch"]:
        _watch(tell, job["folder"], **job["watch"])
    work(job, tell)
    os._exit(0)  # threads, and what the learner's code wanted to do at the end, are not waited for


if __name__ == "__main__":
    main()
