"""What a lesson says of itself is read from its notebooks, and from nowhere else."""

import json

import pytest

from course.checking.progress import tasks_in
from course.lessons import Lesson, Notebook

PATH = """# 99 · A lesson

> **Time:** about 75 minutes, and 40 for the exercises. **Runs in about 5 seconds.**

**What you will be able to do**

- One thing.
- Another.

## 1 · The start

| no. | claim | verdict | settled in |
|---|---|---|---|
| C01 | All is one. | **myth**: two | [§1](#1-·-The-start) |
"""
EVIDENCE = """# 99 · The evidence

## Is one enough?

## Myth or fact?

| no. | claim | verdict | settled in |
|---|---|---|---|
| C01 | All is one. | **depends on size**: two | [the start](../99_a.ipynb#1-·-The-start) |
| C02 | So there. | **fact** | [here](#Is-one-enough?) |
| C03 | And so on. | **answer**: no | [2] |
"""


def notebook(path, *cells, **metadata):
    path.parent.mkdir(parents=True, exist_ok=True)
    cells = [
        {"cell_type": "markdown" if text.startswith("#") else "code", "source": [text]}
        for text in cells
    ]
    content = {"cells": cells, "metadata": {"transformer_lab": metadata}}
    path.write_text(json.dumps(content), "utf-8")
    return Notebook(path)


def test_a_lesson_is_what_its_text_and_metadata_say(tmp_path):
    path = notebook(tmp_path / "99_a.ipynb", PATH, question="Why?", paper={"3.2": "§1, start"})
    lesson = Lesson("99_a", path, None, ())
    assert (lesson.number, lesson.title, lesson.minutes) == ("99", "A lesson", 75)
    assert lesson.outcomes == ["One thing.", "Another."]
    assert lesson.question == "Why?" and lesson.paper == {"3.2": ["§1", "start"]}
    assert [(c.number, c.verdict, c.path) for c in lesson.claims] == [("C01", "myth", path.path)]
    with pytest.raises(ValueError, match=r"99_a\.ipynb has no 'outcome' in its metadata"):
        _ = lesson.outcome


def test_claims_come_from_the_evidence_where_it_has_some(tmp_path):
    path = notebook(tmp_path / "99_a.ipynb", PATH)
    evidence = notebook(tmp_path / "evidence" / "99_a.ipynb", EVIDENCE)
    claims = Lesson("99_a", path, evidence, ()).claims
    verdicts = [("depends", "two"), ("fact", ""), ("answer", "no")]
    assert [(c.verdict, c.why) for c in claims] == verdicts
    assert [(c.path, c.anchor) for c in claims] == [
        (path.path, "1-·-The-start"),
        (evidence.path, "Is-one-enough?"),
        (evidence.path, None),
    ]
    empty = notebook(tmp_path / "evidence" / "99_b.ipynb", "# 99 · The evidence")
    assert len(Lesson("99_a", path, empty, ()).claims) == 1


def test_code_stands_under_its_heading_and_under_those_above(tmp_path):
    cells = ("# A", "one", "## B", "### C", "two", "## D", "three")
    sections = notebook(tmp_path / "99_a.ipynb", *cells).sections
    assert sections == {"A": ["one", "two", "three"], "B": ["two"], "C": ["two"], "D": ["three"]}


def test_the_points_of_a_task_come_from_its_heading(tmp_path):
    task = "## Task 1 · Add: `{}`\n\nDifficulty ★★☆☆☆ · importance ★★★★★ · {}"
    texts = [task.format("f", "20 minutes"), task.format("g", "20 minutes · 7 points")]
    notebook(tmp_path / "99_a.ipynb", *texts, task.format("h", "2 minutes"))
    assert [task.points for task in tasks_in(tmp_path / "99_a.ipynb")] == [4, 7, 1]
