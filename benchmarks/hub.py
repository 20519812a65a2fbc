"""`python -m benchmarks.hub`: memory and CPU seconds of each lesson, for whoever runs a JupyterHub.

Each lesson runs from a clean kernel in a home of its own, one after the other, with one thread and
with two. What is measured is the kernel; beside it, once, JupyterLab's server without a notebook.
CPU seconds say how much work there is, not how long it takes. Run nothing else meanwhile: threads
that wait for each other count as busy. Linux only.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from benchmarks.reporting import report

LESSONS = report.ROOT / "notebooks"
COLUMNS = ["lesson", "memory, MB", "CPU seconds, one thread", "two threads"]
# The kernel is the one child of this process, which has a process of its own for each lesson. Once
# in some hundred lessons a kernel leaves a cell unread until something else is asked (as in
# ipython/ipykernel, issue 1554).
KERNEL = """
import asyncio, json, resource, sys, nbformat
from nbclient import NotebookClient

async def ask_now_and_then(notebook):
    asyncio.get_running_loop().create_task(ask())

async def ask():
    while True:
        await asyncio.sleep(10)
        client.kc.kernel_info()

notebook = nbformat.read(sys.argv[1], as_version=4)
hook = {"on_notebook_start": ask_now_and_then}
client = NotebookClient(notebook, kernel_name="python3", timeout=600, **hook)
client.execute(cwd=".")
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps({"cpu_seconds": used.ru_utime + used.ru_stime, "memory": used.ru_maxrss * 1024}))
"""


def make_home(folder: Path) -> Path:
    """Give a student's folder what the lessons read, and return where its lessons are."""
    shutil.copytree(LESSONS, folder / "notebooks", ignore=shutil.ignore_patterns(".*"))
    shutil.copytree(report.RESULTS, folder / "benchmarks" / "results")
    return folder / "notebooks"


def start(lesson: Path, threads: int | None = None) -> subprocess.Popen:
    """Start a run of a lesson; it prints CPU seconds and peak memory in bytes of its kernel."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(report.ROOT), *sys.path])}
    environment.pop("OMP_NUM_THREADS", None)
    if threads:
        environment["OMP_NUM_THREADS"] = str(threads)
    return subprocess.Popen(
        [sys.executable, "-c", KERNEL, lesson.name],
        cwd=lesson.parent,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def measure_lesson(name: str, threads: int) -> dict:
    """Return what a lesson needs from a clean kernel; raises `RuntimeError` if it fails."""
    with tempfile.TemporaryDirectory() as folder:
        out, error = (run := start(make_home(Path(folder)) / name, threads)).communicate()
    if run.returncode:
        raise RuntimeError(f"{name} failed:\n{error}")
    return {"lesson": name, "threads": threads} | json.loads(out)


def measure_server() -> int:
    """Return the peak memory in bytes of JupyterLab's server after its first page."""
    with tempfile.TemporaryDirectory() as folder:
        flags = ["--no-browser", "--allow-root", "--ServerApp.ip=localhost"]
        command = [sys.executable, "-m", "jupyterlab", *flags, f"--ServerApp.root_dir={folder}"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
            try:
                found = (re.search(r"http://\S+/lab\?token=\w+", line) for line in server.stderr)
                _open(next(filter(None, found))[0])
                status = Path(f"/proc/{server.pid}/status").read_text()
            finally:
                server.terminate()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024


def _open(address: str) -> None:
    """Open a page of a server that says its address a moment before it listens."""
    for attempt in range(100):
        try:
            urllib.request.urlopen(address).read()
            return
        except OSError:
            if attempt == 99:
                raise
            time.sleep(0.2)


def table(rows: Sequence[dict], server: int) -> dict:
    """Return the table that is shown: a line for each lesson, one for the server."""
    lines = []
    for name in sorted({row["lesson"] for row in rows}):
        runs = {row["threads"]: row for row in rows if row["lesson"] == name}
        memory = max(row["memory"] for row in runs.values())
        seconds = [f"{runs[n]['cpu_seconds']:.0f}" if n in runs else "" for n in (1, 2)]
        lines.append([name.removesuffix(".ipynb"), f"{memory / 1e6:.0f}", *seconds])
    lines.append(["JupyterLab itself, no notebook open", f"{server / 1e6:.0f}", "", ""])
    return {"title": "What one student needs.", "columns": COLUMNS, "rows": lines}


def main(arguments: list[str] | None = None) -> None:
    """Measure the lessons one after the other; the file is written after each."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hub", description=__doc__)
    parser.add_argument("--output", type=Path, default=report.RESULTS, help="folder for the result")
    parser.add_argument("--lessons", nargs="+", metavar="NN", help="only these, such as 02")
    parser.add_argument("--threads", nargs="+", type=int, choices=(1, 2), default=(1, 2))
    options = parser.parse_args(arguments)
    names = sorted(path.name for path in LESSONS.glob("[0-9][0-9]_*.ipynb"))
    names = [name for name in names if name[:2] in (options.lessons or name[:2])]
    server, rows = measure_server(), []
    for name in names:
        for threads in options.threads:
            rows.append(measure_lesson(name, threads))
            print(rows[-1], flush=True)
            report.write(options.output / "hub.json", _result(rows, server))


def _result(rows: Sequence[dict], server: int) -> dict:
    result = report.describe_run("hub", smoke=False) | {"threads": 2, "server": server}
    return result | {"rows": rows, "tables": [table(rows, server)], "summary": [], "left_out": []}


if __name__ == "__main__":
    main()
