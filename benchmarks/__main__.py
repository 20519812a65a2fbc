"""`python -m benchmarks`: measure, write one JSON file per part, print a table."""

import argparse
from pathlib import Path

import torch

from benchmarks import decoding, training
from benchmarks.reporting import report
from benchmarks.reporting.report import RESULTS

PARTS = {"training": training.measure, "decoding": decoding.measure}


def main(arguments: list[str] | None = None) -> None:
    """Run the parts one after the other; each file is written as soon as its part is done."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", choices=PARTS, help="run this part alone")
    parser.add_argument("--output", type=Path, help=f"folder for the results ({RESULTS.name}/)")
    parser.add_argument("--threads", type=int, default=2, help="CPU threads (2)")
    parser.add_argument("--smoke", action="store_true", help="toy sizes; writes only to --output")
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    output = options.output or (None if options.smoke else RESULTS)
    rows = []
    for name in [options.only] if options.only else PARTS:
        result = report.describe_run(name, smoke=options.smoke)
        result["rows"] = PARTS[name](smoke=options.smoke)
        if output:
            report.write(output / f"{name}.json", result)
        rows += result["rows"]
    print(report.table(rows))


if __name__ == "__main__":
    main()
