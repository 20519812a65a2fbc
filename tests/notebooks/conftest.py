"""What several tests of the notebooks need."""

import functools
import importlib.util
import os
from pathlib import Path

import pytest

from course.checking.notebooks import read_cells


@pytest.fixture(scope="session")
def maker():
    """The script that makes the exercises, as a module."""
    file = Path(__file__).resolve().parents[2] / "solutions" / "make_exercises.py"
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pytest_collection_modifyitems(items):
    """Skip the notebooks that read the captions of Multi30k, which are not part of the course."""
    if "TRANSFORMER_LAB_DATA" in os.environ:
        return
    for item in items:
        followed = getattr(item, "callspec", None) and item.callspec.params.get("notebook")
        path = item.path if item.path.suffix == ".ipynb" else followed
        if path and reads_captions(path):
            item.add_marker(
                pytest.mark.skip(
                    reason=f"lesson {path.stem[:2]} was not run: it needs the Multi30k files"
                )
            )


@functools.cache
def reads_captions(notebook: Path) -> bool:
    """Return whether a code cell calls what reads the captions, in the notebook or in its path."""
    path = notebook.parents[1] / notebook.name  # from which the evidence may take code
    notebooks = [notebook, path] if notebook.parent.name == "evidence" else [notebook]
    cells = [cell for each in notebooks for cell in read_cells(each)]
    codes = [source for kind, source in cells if kind == "code"]
    return any(name in source for name in ("load_multi30k", "caption_letters") for source in codes)
