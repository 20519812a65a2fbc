"""Lesson 10 from start to end where there is a GPU, which it then trains on."""

import time

from benchmarks.gpu.lab import Lab
from benchmarks.reporting.report import ROOT

LESSON = ROOT / "notebooks" / "10_trained_for_real.ipynb"
LINES = 40  # of what a cell prints


def lesson(lab: Lab) -> dict:
    """Run it in a kernel of its own, and keep what each cell prints; needs Jupyter."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(LESSON, as_version=4)
    if lab.smoke:
        notebook.cells = [cell for cell in notebook.cells if cell.cell_type == "code"][:2]
    settings = {"timeout": 500, "resources": {"metadata": {"path": LESSON.parent}}}
    start = time.perf_counter()
    NotebookClient(notebook, kernel_name="python3", **settings).execute()
    seconds = time.perf_counter() - start
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    printed = {i: text for i, cell in enumerate(code) if (text := _printed(cell))}
    chosen = next((text for text in printed.values() if text.startswith("trains on")), "")
    measured = "; ".join([f"all {len(code)} cells ran in {seconds:.0f} s", *chosen.splitlines()])
    return {
        "summary": [["lesson 10 from start to end, GPU", measured, "no error"]],
        "tables": [{"title": "From start to end", "columns": ["lesson 10"], "rows": [[measured]]}],
        "cells": len(code),
        "lesson_seconds": seconds,
        "printed": printed,
    }


def _printed(cell) -> str:
    texts = [output.text for output in cell.outputs if output.output_type == "stream"]
    return "\n".join("".join(texts).splitlines()[:LINES])
