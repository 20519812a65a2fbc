"""Lessons on a machine with a GPU, which is imitated: nothing of the CPU meets a model there.

Following all of them takes minutes: `make test-evidence` does it.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from course.checking.notebooks import read_cells

pytestmark = pytest.mark.evidence
ROOT = Path(__file__).resolve().parents[2]
TRAINS_OR_LOADS = re.compile(r"\b(train|fit|train_step|load_run|backward)\(")


def with_models():
    """Return each notebook that trains a model or loads one, as a parameter of a test."""
    found = []
    for folder in ("notebooks", "notebooks/evidence", "solutions"):
        for path in sorted((ROOT / folder).glob("*.ipynb")):
            if any(kind == "code" and TRAINS_OR_LOADS.search(s) for kind, s in read_cells(path)):
                found.append(pytest.param(path, id=f"{path.parent.name}-{path.stem}"))
    return found


def followed(path):
    """Return how following a notebook ended, and the end of what it said."""
    command = [sys.executable, "-m", "tests.notebooks.followed", str(path)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return ended.returncode, f"{ended.stdout[-4000:]}\n{ended.stderr[-2000:]}"


@pytest.mark.parametrize("notebook", with_models())
def test_a_lesson_runs_where_there_is_a_gpu(notebook):
    code, said = followed(notebook)
    assert code == 0, said


LESSON = """
import copy
import torch
import transformer_lab as lab
from tempfile import TemporaryDirectory

folder = TemporaryDirectory()
run = lab.train("dates", folder.name, progress=False, device="cuda", steps=500, d_model=16)
many = lab.date_pairs(20, seed=8, split="test")
encode = run.tokenizer.encode_batch
sources, targets = zip(*many)
batch = lab.Batch.from_pairs(list(zip(encode(sources), encode(targets))))
---
model = lab.Transformer(run.model.config)
optimizer = torch.optim.Adam(model.parameters())


def training_step():
    lab.sequence_loss(model(batch.source, batch.target_in), batch.target_out).backward()
    optimizer.step()


for step in range(1, 100_001):
    training_step()
    if step == 50_000:
        half_trained = copy.deepcopy(model)
---
history = run.folder / "history.json"
assert run.translate("3 May 2001") == "2001-05-03" and history.exists()
{asked}
print("to the end", half_trained is not None)
"""


@pytest.mark.parametrize("forgets", [True, False])
def test_a_lesson_that_forgets_where_its_model_is_stops(tmp_path, forgets):
    """As lesson 08 did, when `train` put models of dates on a GPU."""
    to = "" if forgets else ".cuda()"
    asked = f"run.model(batch.source{to}, batch.target_in{to})"
    cells = LESSON.format(asked=asked).split("---\n")
    cells = [{"cell_type": "code", "metadata": {}, "source": cell} for cell in cells]
    path = tmp_path / "lesson.ipynb"
    path.write_text(json.dumps({"cells": cells}), "utf-8")
    code, said = followed(path)
    assert code == forgets, said
    for words in ("lesson.ipynb stops in cell 3", "Expected all tensors to be on the same device"):
        assert (words in said) == forgets
    assert ("to the end True" in said) != forgets
