"""Rows measured one by one, each written at once: a script goes on where it was stopped."""

from collections.abc import Callable
from functools import partial

from benchmarks.reporting import report
from transformer_lab.support.files import read_json


def measure_rows(
    name: str,
    about: str,
    arguments: list[str] | None,
    plan: Callable,
    run: Callable | None = None,
    *,
    notes: Callable | None = None,
    table: Callable | None = None,
    into: str = "rows",
) -> None:
    """Write `name`.json: what `plan(smoke)` lists, measured one after the other.

    It lists settings, for which `run(**setting)` is called, or settings with a function each that
    is called in its place. What comes back is a row or several, and a row holds its setting too.
    Rows of a setting that the file has already are kept; those of a setting that is not planned
    any more go. `notes(smoke)` is what else the file says, `table(rows)` is printed at the end.
    """
    options = report.read_options(name, about, arguments)
    path = options.output and options.output / f"{name}.json"
    stored = read_json(path)[into] if path and path.exists() else []
    result = report.describe_run(name, smoke=options.smoke)
    result |= (notes(options.smoke) if notes else {}) | {into: []}
    for planned in plan(options.smoke):
        setting, measure = planned if run is None else (planned, partial(run, **planned))
        rows = [row for row in stored if setting.items() <= row.items()]
        stored = [row for row in stored if row not in rows]
        if not rows:
            measured = measure()
            found = measured if isinstance(measured, list) else [measured]
            rows = [setting | row for row in found]
            print(*rows, sep="\n", flush=True)
            if path:
                report.write(path, result | {into: [*result[into], *rows, *stored]})
        result[into] += rows
    if path and stored:
        report.write(path, result)
    if table:
        print(table(result[into]))
