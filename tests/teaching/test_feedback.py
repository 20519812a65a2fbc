"""What a student reads who has handed in something damaged: once, and with what to do about it."""

import json
import zipfile
from io import BytesIO

import pytest

from course.checking import course_folder, read_cells
from course.checking.notebooks import load_cells
from course.checking.progress import tasks_in
from course.grading import find_submissions
from course.grading.grade import _known_by, _lesson
from course.grading.marks import Row, write_pages
from course.grading.remarks import course_cells, missing_imports, remarks
from course.grading.submissions import Lesson

SOLUTIONS = sorted((course_folder() / "solutions").glob("[0-9][0-9]_*.ipynb"))
LESSON = "02_scaled_dot_product_attention"
WHOLE = (course_folder() / "solutions" / f"{LESSON}.ipynb").read_bytes()


def problem_of(folder, content, name=f"{LESSON}.ipynb"):
    """What is said about a file with this content."""
    (folder / "anna").mkdir(exist_ok=True)
    (folder / "anna" / name).write_bytes(content)
    submissions, _ = find_submissions(folder, [Lesson(LESSON, ("attend_one",), "# Exercises 02")])
    return submissions[0].problem


def names_in(path):
    return [name for task in tasks_in(path) for name in task.names]


def every(what):
    return pytest.mark.parametrize("path", what, ids=lambda path: path.stem)


# ---- Files that cannot be read


def test_wherever_a_file_was_cut_off_it_ends_in_the_middle(tmp_path):
    end = len(WHOLE.rstrip())
    for cut in [*range(1, 60), *range(60, end, end // 60), *range(end - 30, end)]:
        content = WHOLE[:cut].decode("utf-8", "ignore").encode()
        said = problem_of(tmp_path, content)
        assert said == (
            "damaged: the file ends in the middle. Open the notebook and save it again, then hand "
            "it in once more"
        ), cut


def test_a_file_that_was_changed_in_an_editor_is_told_from_which_line_on(tmp_path):
    lines = WHOLE.decode().splitlines(keepends=True)
    for number in range(1, len(lines) - 5, 40):
        broken = "".join([*lines[:number], "what is this\n", *lines[number:]])
        said = problem_of(tmp_path, broken.encode())
        assert f"damaged: from line {number + 1} on it is not what JupyterLab writes" in said
        assert "open the notebook in JupyterLab" in said


def zipped():
    content = BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("x.ipynb", WHOLE)
    return content.getvalue()


CONFLICT = b"<<<<<<< HEAD\n" + WHOLE + b"=======\n" + WHOLE + b">>>>>>> theirs\n"
INSIDE = WHOLE.replace(b'{\n "cells": [\n', b'{\n "cells": [\n<<<<<<< HEAD\n', 1)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty: nothing was saved"),
        (b" \n\t", "empty: nothing was saved"),
        (b"\0" * 5000, "empty: nothing was saved"),
        (zipped(), "a file of another kind"),
        (b"\x89PNG\r\n\x1a\n", "a file of another kind"),
        (b"<!doctype html><html>", "a web page"),
        (b"def attend_one(): ...", "does not begin as a notebook does"),
        (b"[]", "does not begin as a notebook does"),
        (INSIDE, "the marks of a conflict"),
        (CONFLICT, "the marks of a conflict"),
        (b"{}", "none of a notebook's cells"),
        (b'{"cells": [3]}', "none of a notebook's cells"),
        (b'{"worksheets": [], "nbformat": 3}', "its format is that of 2014"),
        (b'{"cells": ' + b"[" * 10**5 + b"]" * 10**5 + b"}", "nested too deeply"),
        (b'{"cells": 1' + b"0" * 9999 + b"}", "holds what no notebook holds"),
    ],
)
def test_what_is_no_notebook_is_named_with_what_to_do(tmp_path, content, words):
    said = problem_of(tmp_path, content)
    assert words in said
    assert "once more" in said or "Hand in the file that JupyterLab saves" in said


def test_another_kind_of_file_is_named_with_what_to_hand_in(tmp_path):
    said = problem_of(tmp_path, b"x", "answers.py")
    assert said.startswith("no notebook, but answers.py. Hand in the file that JupyterLab saves")


# ---- Notebooks that can be read


@every(SOLUTIONS)
def test_nothing_is_said_about_what_nobody_has_damaged(path):
    names = names_in(path)
    assert remarks(read_cells(path), path.stem, names) == []
    assert remarks(course_cells(path.stem), path.stem, names) == []
    assert remarks([], path.stem, names) == []


@every(SOLUTIONS)
def test_a_missing_import_cell_is_said_once_with_lines_that_mend_it(path):
    cells = read_cells(path)
    (where,) = (n for n, (_, source) in enumerate(cells) if "from course import check" in source)
    for text in ([], [("markdown", cells[where][1])]):
        without = [*cells[:where], *text, *cells[where + 1 :]]
        (said,) = remarks(without, path.stem, names_in(path))
        assert all(name in said.text for name in said.missing)
        assert ("which is a text now" in said.text) == bool(text)
        lines = "\n".join(line.strip() for line in said.text.splitlines()[1:])
        mended = [("code", lines), *without]
        assert missing_imports(mended, course_cells(path.stem)) == {}
        assert load_cells(mended, path.stem)["__problems__"] == []


@every(SOLUTIONS)
@pytest.mark.parametrize("kind", ["markdown", "raw"])
def test_a_task_that_became_a_text_is_said_with_its_cell(path, kind):
    cells = read_cells(path)
    for task in tasks_in(path):
        starts = tuple(f"{what} {task.names[0]}{end}" for what in ("def", "class") for end in "(:")
        (where,) = (n for n, (_, source) in enumerate(cells) if source.startswith(starts))
        changed = [*cells[:where], (kind, cells[where][1]), *cells[where + 1 :]]
        said = [each.text for each in remarks(changed, path.stem, names_in(path))]
        assert said[0].startswith(f"{task.names[0]} stands in cell {where + 1}, which is a text")


def test_a_task_that_stands_in_a_text_as_well_is_there():
    cells = [("markdown", "def attend_one(): ..."), ("code", "def attend_one(): ...")]
    assert remarks(cells, LESSON, ["attend_one"]) == []


@pytest.mark.parametrize(
    "sources",
    [
        ["def f(): return 1", "def f(): return 2"],
        ["def f(): return 1", "x = 1", "class f: pass"],
        ["def g(): return 1", "f = g", "def f(): return 2"],
        ["def f(): return 1", "def f(): return 2\ndef f(): return 3"],
        ["def f(): return 1", "# notes", "def f(): return 2", "from math import pi", "f = max"],
    ],
)
def test_of_two_definitions_it_is_said_which_one_counted(sources):
    cells = [("code", source) for source in sources]
    (said,) = remarks([("markdown", "# Title"), *cells], LESSON, ["f"])
    counted = int(said.text.split("the one in cell ")[1].split(" counts")[0])
    asked = ("code", "check(f)")  # as the engine asks
    counts = load_cells([("code", sources[counted - 2]), asked], "alone")["f"]
    whole = load_cells([*cells, asked], "whole")["f"]
    assert getattr(counts, "__name__", "") == whole.__name__ and type(counts) is type(whole)
    if hasattr(whole, "__code__"):
        assert counts.__code__.co_consts == whole.__code__.co_consts


def test_what_only_wraps_a_function_is_no_second_one():
    cells = [("code", "def f(): return 1"), ("code", "f = cached(f)")]
    assert remarks(cells, LESSON, ["f"]) == []


# ---- The page


def page(folder, rows, notes=()):
    said = {"anna": {LESSON: list(notes)}}
    given = {"warning": "", "about": "", "flagged": {}, "remarks": said}
    write_pages(folder, rows, given, [])
    return (folder / "feedback" / "anna.html").read_text("utf-8")


def test_the_page_says_once_what_all_tasks_have_in_common(tmp_path):
    lesson = _known_by(_lesson("02"))
    rows = [Row("anna", LESSON, name, "unreadable", 0, 0.0, message="So.") for name in lesson.names]
    text = page(tmp_path, rows)
    assert text.count("So.") == 1 and text.index("So.") < text.index(lesson.names[0])


def test_the_page_says_once_that_imports_are_missing(tmp_path):
    code = json.loads(WHOLE)["cells"]
    cells = [(each["cell_type"], "".join(each["source"])) for each in code]
    without = [each for each in cells if "from course import check" not in each[1]]
    rows = [
        Row(
            "anna",
            LESSON,
            f"task {n}",
            "wrong",
            0,
            0.0,
            message=f"{n}: NameError: name {name!r} is",
        )
        for n, name in enumerate(("math", "Float", "Tensor", "mine"))
    ]
    for row in rows:
        row.message += " not defined. More of it."
    text = page(tmp_path, rows, remarks(without, LESSON, ["attend_one"]))
    assert text.count("NameError") == 1  # of `mine`, which no import would give
    assert text.count("are missing") == 1 and text.count("see above") == 3
