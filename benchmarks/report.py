"""What every result says about where it comes from, how it is written, and the table."""

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import torch

from transformer_lab.files import write_json

SEED = 0
ROOT = Path(__file__).parent.parent


def describe_run(part: str, *, smoke: bool) -> dict:
    """Return machine, threads, versions, seed and commit."""
    return {
        "part": part,
        "smoke": smoke,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "hardware": {"cpu": _cpu_name(), "cores": os.cpu_count(), "system": platform.system()},
        "threads": torch.get_num_threads(),
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformer_lab": version("transformer-lab"),
        },
        "seed": SEED,
        "commit": _commit(),
    }


def write(path: Path, result: dict) -> None:
    """Replace the file whole or not at all."""
    write_json(path, result)
    print(f"wrote {path}")


def table(rows: list[dict]) -> str:
    """Return the rows as Markdown."""
    lines = ["| measured | ratio | lowest to highest | target |", "|---|---|---|---|"]
    for row in rows:
        ratio, target = row["ratio"], row.get("target", "")
        spread = f"{ratio['low']:.2f} to {ratio['high']:.2f}"
        lines.append(f"| {row['name']} | {ratio['median']:.2f} | {spread} | {target} |")
    return "\n".join(lines)


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:  # not Linux
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _commit() -> str:
    """Return the commit, with "+" if the code differs from it; "unknown" outside git."""
    try:
        commit = _git("rev-parse", "HEAD")
        changed = _git("status", "--porcelain", "transformer_lab", "benchmarks/*.py")
        return commit + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(*arguments: str) -> str:
    return subprocess.run(
        ("git", *arguments), cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
