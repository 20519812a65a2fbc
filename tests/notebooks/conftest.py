"""What several tests of the notebooks need."""

import importlib.util
import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def maker():
    """The script that makes the exercises, as a module."""
    file = Path(__file__).resolve().parents[2] / "solutions" / "make_exercises.py"
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pytest_collection_modifyitems(items):
    """Lesson 10 needs the captions of Multi30k, which are not part of the course."""
    if "TRANSFORMER_LAB_DATA" in os.environ:
        return
    for item in items:
        if item.path.name == "10_trained_for_real.ipynb":
            item.add_marker(
                pytest.mark.skip(reason="lesson 10 was not run: it needs the Multi30k files")
            )
