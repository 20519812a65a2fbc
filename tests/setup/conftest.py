import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SET_UP = (".setup", ".ci", "Makefile", "pyproject.toml", "constraints.txt")


@pytest.fixture
def root():
    return ROOT


@pytest.fixture
def project(tmp_path):
    """The files of the set-up alone, in a folder with a space in its name."""
    folder = tmp_path / "my courses" / "lab"
    folder.mkdir(parents=True)
    for name in SET_UP:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, folder / name)
    return folder


@pytest.fixture
def tools(tmp_path):
    """A PATH with the few programs that the set-up needs, and no Python; add(name, script) adds."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "bash", "cat", "cmp", "dirname", "id", "uname", "make", "timeout"):
        if program := shutil.which(name):
            (folder / name).symlink_to(program)
    return folder


@pytest.fixture
def add(tools):
    def add(name: str, script: str) -> Path:
        program = tools / name
        program.unlink(missing_ok=True)
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        return program

    return add


@pytest.fixture
def call(tools):
    """Run a command with `tools` as its PATH, without the caller's settings."""

    def call(*command, cwd, **environment):
        kept = {k: v for k, v in os.environ.items() if k in ("HOME", "TMPDIR")}
        return subprocess.run(
            [shutil.which(command[0], path=str(tools)) or command[0], *command[1:]],
            cwd=cwd,
            env=kept | {"PATH": str(tools)} | environment,
            input="something typed\n",
            capture_output=True,
            text=True,
        )

    return call
