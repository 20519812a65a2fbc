"""What a notebook needs beside figures: finished code, stored results, and a live curve."""

import inspect
import io
import time
from pathlib import Path
from typing import Any

from transformer_lab.plots import plot_history
from transformer_lab.support.files import read_json
from transformer_lab.support.validation import require

RESULTS = Path("benchmarks", "results")  # of the course that a notebook belongs to


def show_source(target: Any) -> None:
    """Show a function, class or module as it stands in its file.

    Raises `ValueError` for anything that has no Python source.
    """
    try:
        source = inspect.cleandoc("\n" + inspect.getsource(target))
        file = Path(inspect.getsourcefile(inspect.unwrap(target)))
    except (TypeError, OSError):
        raise ValueError(
            f"show_source needs a function, class or module with a file, got {target!r:.60}"
        ) from None
    package = target.__name__ if inspect.ismodule(target) else target.__module__
    folders = package.split(".") if file.name == "__init__.py" else package.split(".")[:-1]
    text = f"# {Path(*folders, file.name).as_posix()}\n\n{source.rstrip()}"
    if _in_kernel():
        from IPython.display import display

        fenced = f"```python\n{text}\n```"
        display({"text/markdown": fenced, "text/plain": text}, raw=True)
    else:
        print(text)


def stored_result(name: str, made_by: str = "", folder: str | Path | None = None) -> dict | None:
    """Return what a script has stored under this name, and print where it comes from.

    It is looked for in `folder`, or else in the benchmarks/results of the course in which the
    notebook lies, however deep. Where no script has stored it yet, that is printed, with the
    command `made_by`, and None comes back. Raises `ValueError` for a file that is damaged.
    """
    path = (_results() if folder is None else Path(folder)) / name
    shown = f"{RESULTS.as_posix()}/{name}"
    if not path.exists():
        how = f"; {made_by} makes it" if made_by else ""
        print(f"[{shown} is not there yet{how}]")
        return None
    result = read_json(path)
    hardware = result.get("hardware", {})
    parts = (
        hardware.get("gpu", hardware.get("cpu")),
        f"{result['threads']} threads" if "threads" in result else None,
        f"torch {result['versions']['torch']}" if "versions" in result else None,
        result.get("date", "")[:10],
        f"commit {result['commit'][:8]}" if "commit" in result else None,
    )
    print(f"[{shown}: {', '.join(part for part in parts if part)}]")
    return result


def _results() -> Path:
    """The nearest results on the way up from here, or those beside the package."""
    above = (Path.cwd(), *Path.cwd().parents, Path(__file__).parents[2])
    folders = [folder / RESULTS for folder in above]
    return next((folder for folder in folders if folder.is_dir()), folders[-1])


class LivePlot:
    """A figure that follows a training run, and stays as one picture when it is over.

    >>> with LivePlot(steps=1000) as live:
    ...     train("dates", folder, steps=1000, on_record=live)

    `options` go to `plot_history`. It redraws at most every `seconds`; outside Jupyter it draws
    nothing.
    """

    def __init__(self, *, seconds: float | int = 1.0, **options):
        require(seconds > 0, f"seconds must be positive, got {seconds!r}")
        self.seconds, self.options = seconds, options
        self.history: list[dict] = []
        self._handle, self._drawn_at = None, 0.0

    def __call__(self, history: list[dict]) -> None:
        """Take the history so far; this is an `on_record` of `fit` and `train`."""
        self.history = history
        if time.monotonic() - self._drawn_at >= self.seconds:
            self._draw()

    def __enter__(self) -> "LivePlot":
        return self

    def __exit__(self, *_: object) -> None:
        self._draw()

    def _draw(self) -> None:
        if not (self.history and _in_kernel()):
            return
        from IPython.display import Image, display

        picture = Image(_png(self.history, self.options))
        if self._handle is None:
            self._handle = display(picture, display_id=True)
        else:
            self._handle.update(picture)
        self._drawn_at = time.monotonic()


def _png(history: list[dict], options: dict) -> bytes:
    from matplotlib.figure import Figure  # without pyplot, which would show it a second time

    figure, buffer = Figure(figsize=(6.0, 3.2), layout="constrained"), io.BytesIO()
    plot_history(history, ax=figure.subplots(), **options)
    figure.savefig(buffer, format="png", dpi=100)
    return buffer.getvalue()


def _in_kernel() -> bool:
    """Whether this is a Jupyter kernel, which can show more than text."""
    from IPython import get_ipython

    return hasattr(get_ipython(), "kernel")
