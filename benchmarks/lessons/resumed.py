"""Rows measured one by one, each written at once: a script goes on where it was stopped."""

from collections.abc import Callable

from benchmarks.reporting import report
from transformer_lab.support.files import read_json


def measure_rows(
    name: str, about: str, arguments: list[str] | None, plan: Callable, run: Callable
) -> None:
    """Write `name`.json: a row for each setting that `plan(smoke)` lists, by `run(**setting)`.

    A row holds its setting and what `run` returns. Rows that the file has already are kept.
    """
    options = report.read_options(name, about, arguments)
    result = report.describe_run(name, smoke=options.smoke) | {"rows": []}
    path = options.output and options.output / f"{name}.json"
    if path and path.exists():
        result["rows"] = read_json(path)["rows"]
    for setting in plan(options.smoke):
        if any(setting.items() <= row.items() for row in result["rows"]):
            continue
        result["rows"].append(setting | run(**setting))
        print(result["rows"][-1], flush=True)
        if path:
            report.write(path, result)
