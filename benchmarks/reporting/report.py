"""What every result says about where it comes from, how it is written, and the table."""

import argparse
import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

import benchmarks
from transformer_lab.runs import describe_hardware
from transformer_lab.support.files import write_json

SEED = 0
RESULTS = Path(benchmarks.__file__).parent / "results"
ROOT = RESULTS.parents[1]


def read_options(part: str, about: str, arguments: list[str] | None) -> argparse.Namespace:
    """Read --output, --threads and --smoke; toy sizes are written only where one is told to."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.lessons.{part}", description=about)
    parser.add_argument("--output", type=Path, help=f"folder for the result ({RESULTS.name}/)")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads (1)")
    parser.add_argument("--smoke", action="store_true", help="toy sizes; writes only to --output")
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    options.output = options.output or (None if options.smoke else RESULTS)
    return options


def describe_run(part: str, *, smoke: bool) -> dict:
    """Return machine, threads, versions, seed and commit."""
    cpu = describe_hardware(torch.device("cpu"))["name"]
    hardware = {"cpu": cpu, "cores": os.cpu_count(), "system": platform.system()}
    return {
        "part": part,
        "smoke": smoke,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "hardware": hardware | (_gpu() if torch.cuda.is_available() else {}),
        "threads": torch.get_num_threads(),
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformer_lab": _our_version(),
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


def tables(result: dict) -> str:
    """Return the tables of a GPU part as Markdown, what had to be left out, and the note."""
    texts = [
        f"{table['title']}\n\n{markdown(table['columns'], table['rows'])}"
        for table in result["tables"]
        if table["rows"]
    ]
    texts += [f"Left out: {line}" for line in result["left_out"]]
    texts += [result["note"]] if "note" in result else []
    return "\n\n".join(texts)


def markdown(columns: list[str], rows: list[list]) -> str:
    """Return a Markdown table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def _gpu() -> dict:
    properties = torch.cuda.get_device_properties(0)
    memory = f"{properties.total_memory / 2**30:.0f} GiB"
    return {"gpu": properties.name, "gpu_memory": memory, "cuda": torch.version.cuda}


def _our_version() -> str:
    try:
        return version("transformer-lab")
    except PackageNotFoundError:
        return "from its folder"


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
