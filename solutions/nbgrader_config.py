"""The settings of the course for nbgrader; `make_exercises.py --nbgrader` copies them into it."""

from pathlib import Path

import nbformat
from nbgrader.preprocessors import (
    CheckCellMetadata,
    ClearOutput,
    DeduplicateIds,
    NbGraderPreprocessor,
    OverwriteCells,
    OverwriteKernelspec,
)

COURSE = Path(__file__).resolve().parent


class PutBack(NbGraderPreprocessor):
    """Put back, at its place, each cell of the assignment that a hand-in has lost.

    nbgrader's own `add_missing_cells` stops at a task of which both the answer and the check are
    missing.
    """

    def preprocess(self, nb, resources):
        names = resources["nbgrader"]
        release = COURSE / "release" / names["assignment"] / f"{names['notebook']}.ipynb"
        here = 0
        for cell in nbformat.read(release, as_version=4).cells:
            name = _name(cell)
            found = [i for i, other in enumerate(nb.cells) if name and _name(other) == name]
            if name and not found:
                self.log.warning("%s was missing, and is put back", name)
                nb.cells.insert(here, cell)
            if name:
                here = (found or [here])[0] + 1
        return nb, resources


def _name(cell) -> str | None:
    return cell.metadata.get("nbgrader", {}).get("grade_id")


c = get_config()
c.CourseDirectory.course_id = "transformer_lab"
c.ClearSolutions.code_stub = {"python": 'raise NotImplementedError("not written yet")'}
c.ClearSolutions.text_stub = "*Your three sentences.*"
c.Autograde.sanitize_preprocessors = [
    *(ClearOutput, DeduplicateIds, OverwriteKernelspec),
    *(PutBack, OverwriteCells, CheckCellMetadata),
]
# Seconds for a cell. One that takes longer is interrupted and fails, and those after it still
# run; if it does not let itself be interrupted, they fail too. Other students lose nothing by it.
c.Execute.timeout = 120
c.Execute.raise_on_iopub_timeout = False
