"""The settings of the course for nbgrader; `make_exercises.py --nbgrader` copies them into it."""

import copy
import re
from pathlib import Path

import nbformat
from nbgrader.plugins import FileNameCollectorPlugin
from nbgrader.preprocessors import (
    CheckCellMetadata,
    ClearOutput,
    NbGraderPreprocessor,
    OverwriteCells,
    OverwriteKernelspec,
)

from course.grading.submissions import CANVAS, COPY, IN_WORK, MOODLE

COURSE = Path(__file__).resolve().parent


class PutBack(NbGraderPreprocessor):
    """Make the cells of the assignment again what they were, but for what was to be written.

    A cell that is missing comes back at its place; of a cell that is there twice one stays a cell
    of the assignment, and the other runs as a cell of the student's own; a name, a type or points
    that were changed are put right. What was done is in the log. nbgrader's own preprocessors end
    at some of these, and then nobody after this student is marked.
    """

    def preprocess(self, nb, resources):
        names = resources["nbgrader"]
        release = COURSE / "release" / names["assignment"] / f"{names['notebook']}.ipynb"
        given = {_name(c): c for c in nbformat.read(release, as_version=4).cells if _name(c)}
        place = self._places(nb.cells, given)
        for i, cell in enumerate(nb.cells):
            if i not in place.values() and cell.metadata.pop("nbgrader", None) is not None:
                self.log.warning("cell %s has the name of another, or of none: left alone", i + 1)
        cells, here = list(nb.cells), 0
        for name, i in place.items():
            cells[i] = self._mended(given[name], cells[i])
        for name, original in given.items():
            if name not in place:
                self.log.warning("%s was missing, and is put back", name)
                cells.insert(here, original)
            here = next(i for i, cell in enumerate(cells) if _name(cell) == name) + 1
        nb.cells = cells
        return nb, resources

    def _places(self, cells, given):
        """Return where each cell of the assignment is: by its name, its id, or what it defines."""
        place = {}
        for fits in (_has_name, _has_id, _defines):
            for name, original in given.items():
                taken = place.values()
                found = [
                    i for i, c in enumerate(cells) if i not in taken and fits(c, name, original)
                ]
                if name not in place and found:
                    # Rather what was written in, then the one that was always there, then the last.
                    place[name] = max(found, key=lambda i: _rank(cells[i], original, i))
                    if len(found) > 1:
                        self.log.warning("%s is there %s times", name, len(found))
                    if fits is not _has_name:
                        self.log.warning("%s had lost its name", name)
        return place

    def _mended(self, original, cell):
        """Return the cell as it was given, with what the student has written."""
        if cell.cell_type != original.cell_type:
            self.log.warning("%s had become a %s cell", _name(original), cell.cell_type)
        mended = copy.deepcopy(original)
        if original.metadata.nbgrader.solution:
            mended.source = cell.source
        return mended


class FromLms(FileNameCollectorPlugin):
    """Take a lesson's notebook of each student out of what Moodle or Canvas lets one download.

    A student is called as there, by name and number: Anna Ash_4711. Of several copies one counts,
    the one with the lesson's own name, else the last; nbgrader alone would stop there.
    """

    def collect(self, submitted_file):
        app, path = self.parent, Path(submitted_file)
        lesson = app.coursedir.assignment_id
        root = Path(app._format_collect_path(app.extracted_directory))
        student, _ = _of_lms(path, root)
        copies = [
            (stem == lesson, COPY.sub("", stem), len(stem), stem, file)
            for file in root.rglob("*.ipynb")
            for who, stem in [_of_lms(file, root)]
            if who == student is not None and _may_be(stem, lesson)
        ]
        if not copies or path != max(copies)[-1]:
            return None
        return {"student_id": student, "file_id": lesson}


def _of_lms(path, root):
    """Return the student's name and number, and the rest of the file's name."""
    for part in path.relative_to(root).parts:
        stem = part.removesuffix(".ipynb")
        if found := MOODLE.match(stem) or CANVAS.match(stem):
            who = f"{found['student']}_{found['id']}"
            return who, IN_WORK.sub(r"\1_", found["file"] or path.stem)
    return None, path.stem


def _may_be(stem, lesson):
    """Return whether a name is not that of another lesson."""
    numbers = re.findall(r"(?<!\d)(\d\d)_", stem)
    return not numbers or lesson[:2] in numbers


def _has_name(cell, name, _):
    return _name(cell) == name


def _has_id(cell, _, original):
    return cell.get("id") == original.id


def _defines(cell, name, original):
    solution = original.metadata.nbgrader.solution and original.cell_type == "code"
    return solution and re.search(rf"^(def|class) {name}\b", cell.source, re.MULTILINE)


def _rank(cell, original, index):
    return cell.source != original.source, cell.get("id") == original.id, index


def _name(cell) -> str | None:
    marked = cell.metadata.get("nbgrader")
    return marked.get("grade_id") if isinstance(marked, dict) else None


c = get_config()
c.CourseDirectory.course_id = "transformer_lab"
c.ZipCollectApp.collector_plugin = FromLms
c.ClearSolutions.code_stub = {"python": 'raise NotImplementedError("not written yet")'}
c.ClearSolutions.text_stub = "*Your three sentences.*"
c.Autograde.sanitize_preprocessors = [
    *(PutBack, ClearOutput, OverwriteKernelspec, OverwriteCells, CheckCellMetadata),
]
# Seconds for a cell. One that takes longer is interrupted and fails, and those after it still
# run; if it does not let itself be interrupted, they fail too. Other students lose nothing by it.
c.Execute.timeout = 120
c.Execute.raise_on_iopub_timeout = False
