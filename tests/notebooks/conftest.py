"""What several tests of the notebooks need."""

import importlib.util
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
