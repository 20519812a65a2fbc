"""`python -m benchmarks.gpu`: all that is measured on a GPU, one JSON file per part, tables last.

Each part stops adding measurements when its time is over, and says what it left out. With
`--search`, recipes for Multi30k that take longer are tried first, in another fifteen minutes, and
the best is trained with other seeds.
"""

import argparse
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from benchmarks.gpu import inference, lesson, numerics, quality, speed
from benchmarks.gpu.lab import RECIPES, Lab
from benchmarks.reporting import report
from benchmarks.reporting.report import RESULTS

PARTS: dict[str, tuple[Callable[[Lab], dict], float]] = {  # and the seconds that each may take
    "time_to_quality": (quality.time_to_quality, 300),
    "ladder": (quality.ladder, 110),
    "small": (quality.small, 180),
    "inference": (inference.inference, 40),
    "speed": (speed.speed, 100),
    "quality": (quality.quality, 300),
    "numerics": (numerics.numerics, 150),
    "lesson": (lesson.lesson, 300),
}
SEARCH = {"search": (quality.search, 450), "best": (quality.best, 450)}


def main(arguments: list[str] | None = None) -> int:
    """Run the parts one after the other; each file is written as soon as its part is done."""
    options = _parser().parse_args(arguments)
    if not (torch.cuda.is_available() or options.smoke):
        print("There is no CUDA GPU on this machine; --smoke runs every part at toy size on a CPU.")
        return 2
    output = options.output or (None if options.smoke else RESULTS)
    device = torch.device("cpu" if options.smoke else "cuda")
    # With a mask, cuDNN's attention can go backward to NaN (PyTorch's issue 196678), and it makes
    # a new plan for each shape; the memory-efficient kernel does neither.
    torch.backends.cuda.enable_cudnn_sdp(False)
    runs = options.runs or (None if options.smoke else Path("runs/gpu"))
    lab = Lab(device, output, options.smoke, runs, options.recipe or [])
    wanted = [*(SEARCH if options.search else []), *(options.only or PARTS)]
    parts = {name: (SEARCH | PARTS)[name] for name in wanted}
    results, failed = [], []
    ends = time.perf_counter() + sum(seconds for _, seconds in parts.values())
    for name, (measure, seconds) in parts.items():
        left = ends - time.perf_counter()  # a part before this one may have taken too long
        try:
            limit = min(seconds, left, options.seconds)
            results.append(_run(lab, name, measure, limit, options.commit))
        except Exception as error:  # the other parts may still work
            failed.append("; ".join([f"{name}: {type(error).__name__}: {error}", *lab.left_out]))
    for result in results:
        print(f"\n## {result['part']}, {result['seconds']:.0f} s\n\n{report.tables(result)}")
    if failed:
        print("\n".join(failed), file=sys.stderr)
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    names = [*SEARCH, *PARTS]
    parser.add_argument("--only", action="append", choices=names, help="this part; may be repeated")
    parser.add_argument("--search", action="store_true", help="first try recipes for Multi30k")
    parser.add_argument(
        "--recipe", action="append", choices=RECIPES, help="try only this; may be repeated"
    )
    parser.add_argument(
        "--seconds", type=float, default=math.inf, help="at most so long, each part"
    )
    parser.add_argument("--output", type=Path, help="folder for the results (benchmarks/results)")
    parser.add_argument("--runs", type=Path, help="folder for trained models (runs/gpu)")
    parser.add_argument("--commit", help="the commit, where there is no git to ask")
    parser.add_argument("--smoke", action="store_true", help="toy sizes; writes only to --output")
    return parser


def _run(lab: Lab, name: str, measure, seconds: float, commit: str | None) -> dict:
    """Measure one part, and write what it gives, or say why not."""
    start = time.perf_counter()
    lab.deadline, lab.left_out = start + seconds, []
    result = report.describe_run(name, smoke=lab.smoke)
    if commit:
        result["commit"] = commit
    print(f"{name}: at most about {seconds:.0f} s", flush=True)
    result |= measure(lab)
    result |= {"left_out": lab.left_out, "seconds": time.perf_counter() - start}
    if lab.output:
        report.write(lab.output / f"gpu_{name}.json", result)
    return result


if __name__ == "__main__":
    sys.exit(main())
