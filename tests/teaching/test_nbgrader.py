"""The course for nbgrader: its metadata, and the way from an assignment to a table of marks."""

import copy
import csv
import getpass
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import requires, version
from pathlib import Path

import make_exercises as maker
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from course.checking.progress import tasks_in

ROOT = Path(__file__).resolve().parents[2]
SOLUTIONS = sorted((ROOT / "solutions").glob("[0-9][0-9]_*.ipynb"))


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    folder = tmp_path_factory.mktemp("course")
    assert maker.main(["--nbgrader", str(folder)]) == 0
    return folder


def name_of(cell):
    return cell["metadata"].get("nbgrader", {}).get("grade_id", "")


@pytest.mark.parametrize("solution", SOLUTIONS, ids=lambda path: path.stem)
def test_each_cell_has_the_metadata_of_its_kind(course, solution):
    stored = course / "source" / solution.stem / solution.name
    cells = json.loads(stored.read_text("utf-8"))["cells"]
    marked = [c["metadata"]["nbgrader"] for c in cells if "nbgrader" in c["metadata"]]
    assert len({m["grade_id"] for m in marked}) == len(marked)
    for metadata in marked:  # nbgrader's schema, version 3
        assert metadata["schema_version"] == 3 and metadata["task"] is False
        assert re.fullmatch(r"[a-zA-Z0-9_-]+", metadata["grade_id"])
        assert metadata["locked"] is not metadata["solution"]
        assert metadata["grade"] == (metadata.get("points", 0) > 0)
    assert all(name_of(c) for c in cells if c["cell_type"] == "markdown")
    tasks = tasks_in(solution)
    names = {name for task in tasks for name in task.names}
    assert {m["grade_id"] for m in marked if m["solution"]} == {*names, "explain"}
    checks = [c for c in cells if name_of(c).startswith("check-")]
    assert all(c["metadata"]["nbgrader"]["locked"] for c in checks)
    for check in checks:
        first, *_, last = check["source"]
        assert first == "from course import check\n"
        assert last.endswith(", graded=True)")
    assert {name_of(c): c["metadata"]["nbgrader"]["points"] for c in checks} == {
        "-".join(["check", *t.names]): max(1, round(t.minutes * t.difficulty / 10)) for t in tasks
    }


def test_only_the_lessons_that_are_asked_for_are_written(tmp_path):
    assert maker.main(["--nbgrader", str(tmp_path), "--lesson", "02", "04-05"]) == 0
    assert [path.name[:2] for path in sorted((tmp_path / "source").iterdir())] == ["02", "04", "05"]


@pytest.mark.parametrize(
    ("lessons", "why"),
    [("77", "no lesson 77; there are 00, 01"), ("two", "named like 02"), ("00", "no exercises")],
)
def test_a_lesson_that_is_not_there_is_an_error_in_one_sentence(tmp_path, capsys, lessons, why):
    with pytest.raises(SystemExit):
        maker.main(["--nbgrader", str(tmp_path), "--lessons", lessons])
    assert why in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.teaching
def test_nbgrader_and_all_that_it_needs_are_the_pinned_versions():
    pins = [line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines()]
    pinned = {canonicalize_name(pin[0]): pin[1] for pin in pins if len(pin) == 2}
    todo, needed = ["nbgrader"], set()
    while todo:
        name = canonicalize_name(todo.pop())
        if name not in needed:
            needed.add(name)
            needs = [Requirement(line) for line in requires(name) or []]
            todo += [n.name for n in needs if not n.marker or n.marker.evaluate({"extra": ""})]
    assert {name: version(name) for name in needed} == {name: pinned[name] for name in needed}


# ---- What is put back in a hand-in


@pytest.fixture(scope="module")
def settings(course, tmp_path_factory):
    """What nbgrader_config.py defines in a course whose assignments are what `course` has."""
    from traitlets.config import Config

    folder = tmp_path_factory.mktemp("released")
    shutil.copytree(course / "source", folder / "release")
    names = {"get_config": Config, "__file__": str(folder / "nbgrader_config.py")}
    exec((course / "nbgrader_config.py").read_text("utf-8"), names)
    return names


def released(settings, lesson):
    """Return a lesson's assignment, and what nbgrader says of it to a preprocessor."""
    import nbformat

    path = settings["COURSE"] / "release" / lesson / f"{lesson}.ipynb"
    resources = {"nbgrader": {"assignment": lesson, "notebook": lesson}}
    return nbformat.read(path, as_version=4), resources


def change_name(cell):
    cell.metadata.nbgrader["grade_id"] = "foo"


def change_type(cell):
    cell.cell_type = "markdown" if cell.cell_type == "code" else "code"


def lose_metadata(cell):
    cell.metadata.clear()


def lose_id_and_metadata(cell):
    cell.metadata.clear()
    cell["id"] = "other"


def break_metadata(cell):
    cell.metadata["nbgrader"] = 3


def break_format(cell):
    cell.metadata["nbgrader"] = {"grade_id": name_of(cell), "schema_version": 1, "points": 99}


DAMAGES = (change_name, change_type, lose_metadata, break_metadata, break_format)


@pytest.mark.teaching
@pytest.mark.parametrize("solution", SOLUTIONS[::4], ids=lambda path: path.stem)
def test_a_cell_that_is_damaged_is_again_what_it_was(settings, solution):
    put_back = settings["PutBack"]()
    whole, resources = released(settings, solution.stem)
    marked = [i for i, cell in enumerate(whole.cells) if "nbgrader" in cell.metadata]
    for cell in whole.cells:
        if cell.metadata.get("nbgrader", {}).get("solution"):
            cell.source += "\n# what the student wrote"
    names = [name_of(whole.cells[i]) for i in marked]

    def check(notebook, written=()):
        done, _ = put_back.preprocess(notebook, resources)
        there = [cell for cell in done.cells if "nbgrader" in cell.metadata]
        assert [name_of(cell) for cell in there] == names
        for cell, i in zip(there, marked, strict=True):
            was = whole.cells[i]
            assert (cell.metadata, cell.cell_type) == (was.metadata, was.cell_type)
            assert cell.source == was.source or i in written
        return done

    for i in marked:
        for damage in DAMAGES:
            notebook = copy.deepcopy(whole)
            damage(notebook.cells[i])
            check(notebook)
        answer = whole.cells[i].metadata.nbgrader["solution"]
        notebook = copy.deepcopy(whole)
        del notebook.cells[i]
        done = check(notebook, [i] if answer else [])
        assert len(done.cells) == len(whole.cells)
        for where in (i, i + 1):  # a copy before it or after it, and both are kept
            notebook = copy.deepcopy(whole)
            notebook.cells.insert(where, copy.deepcopy(whole.cells[i]))
            notebook.cells[where]["id"] = "copied"
            assert len(check(notebook).cells) == len(whole.cells) + 1
        if answer and whole.cells[i].cell_type == "code":
            notebook = copy.deepcopy(whole)
            lose_id_and_metadata(notebook.cells[i])
            check(notebook)
    for damage in (*DAMAGES, list.clear):  # all cells at once
        notebook = copy.deepcopy(whole)
        if damage is list.clear:
            notebook.cells.clear()
        for cell in [cell for cell in notebook.cells if "nbgrader" in cell.metadata]:
            damage(cell)
        check(notebook, marked if damage is list.clear else ())


@pytest.mark.teaching
def test_of_an_explanation_that_is_there_twice_the_written_one_counts(settings):
    notebook, resources = released(settings, SOLUTIONS[0].stem)
    i = next(i for i, cell in enumerate(notebook.cells) if name_of(cell) == "explain")
    for where in (i, i + 1):
        twice = copy.deepcopy(notebook)
        twice.cells.insert(where, copy.deepcopy(twice.cells[i]))
        twice.cells[where].source, twice.cells[where]["id"] = "Because.", "copied"
        done, _ = settings["PutBack"]().preprocess(twice, resources)
        assert [c.source for c in done.cells if name_of(c) == "explain"] == ["Because."]


# ---- nbgrader itself, from the assignment to the marks

LESSON = "01_the_bottleneck"
OF_THIS_COMPUTER = getpass.getuser()  # as the exchange calls who hands in here
SECONDS = 15  # for a cell, where the course gives two minutes
STUBBORN = """def repaired_context(*arguments):
    while True:
        try:
            while True:
                pass
        except:
            pass
"""


@pytest.fixture(scope="module")
def nbgrader(course):
    """Run nbgrader in the course, with a place of its own where assignments are fetched from."""
    exchange = course / "exchange"
    exchange.mkdir()
    exchange.chmod(0o777)
    programs = Path(sys.executable).parent  # nbgrader calls alembic by its name
    environment = os.environ | {
        "PATH": os.pathsep.join([str(programs), os.environ["PATH"]]),
        "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
        "JUPYTER_CONFIG_DIR": str(course / "config"),
        "JUPYTER_DATA_DIR": str(course / "data"),
    }

    def call(*arguments, folder=course, status=0):
        command = [sys.executable, "-m", "nbgrader", *arguments, f"--Exchange.root={exchange}"]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        assert done.returncode == status, done.stderr
        return done.stderr

    return call


FAKE = "def check(*objects, **named):\n    print('✓ all checks passed.')"
MARKS = {"predicted_contexts": 2, "additive_scores": 3, "context_vector": 1}
MARKS |= {"repaired_context": 6}


def hand_ins(release):
    """Return by student a notebook, and the tasks that it must get no marks for."""
    solved = {
        c["id"]: c for c in maker.read_notebook(ROOT / "solutions" / f"{LESSON}.ipynb")["cells"]
    }

    def right(**changed):
        notebook = json.loads(json.dumps(release))
        for cell in notebook["cells"]:
            if cell["metadata"].get("nbgrader", {}).get("solution"):
                cell["source"] = solved.get(cell["id"], {"source": "Because. So. Hence."})["source"]
            cell["source"] = changed.get(name_of(cell).replace("-", "_"), cell["source"])
        return notebook

    def without(*names):
        notebook = right()
        notebook["cells"] = [c for c in notebook["cells"] if name_of(c) not in names]
        return notebook

    def marked(change):
        """Return the right one with each cell of the assignment changed into some cells."""
        notebook = right()
        notebook["cells"] = [
            new for c in notebook["cells"] for new in (change(c) if name_of(c) else [c])
        ]
        return notebook

    def renamed(cell):
        cell["metadata"]["nbgrader"] |= {"grade_id": f"{cell['id']}-2", "points": 99}
        return [cell]

    def retyped(cell):
        kind = "markdown" if cell["cell_type"] == "code" else "code"
        only_code = {"outputs": [], "execution_count": None} if kind == "code" else {}
        same = {name: cell[name] for name in ("id", "metadata", "source")}
        return [{"cell_type": kind, **same, **only_code}]

    context = "def context_vector(weights, values):\n    "
    redefined = json.loads(json.dumps(release))
    place = [name_of(cell) for cell in redefined["cells"]].index("imports") + 1
    code = {"cell_type": "code", "id": "mine", "outputs": [], "execution_count": None}
    redefined["cells"].insert(place, code | {"metadata": {}, "source": FAKE})
    return {
        OF_THIS_COMPUTER: (right(), set()),
        "Anna Ash_4711": (marked(lambda c: [c, c | {"id": f"{c['id']}-2"}]), set()),
        "Anna Ash_4812": (marked(renamed), set()),
        "a_cut": (None, set(MARKS)),
        "a_retyped": (marked(retyped), set()),
        "wrong": (right(context_vector=f"{context}return values.sum(1)"), {"context_vector"}),
        "stub": (release, set(MARKS)),
        "redefined": (redefined, set(MARKS)),
        "endless": (right(context_vector=f"{context}while True: pass"), {"context_vector"}),
        "stubborn": (right(repaired_context=STUBBORN), {"repaired_context"}),
        "deleted": (without("imports", "check-context_vector"), set()),
        "deleted_both": (without("context_vector", "check-context_vector"), {"context_vector"}),
        "rewritten": (
            right(context_vector=f"{context}return 0", check_context_vector="print('passed')"),
            {"context_vector"},
        ),
    }


def through_the_exchange(course, nbgrader, notebook):
    """Fetch the assignment as a student does, hand it in, and collect it."""
    home = course / "home of a student"
    home.mkdir()
    nbgrader("fetch_assignment", LESSON, "--course", "transformer_lab", folder=home)
    (home / LESSON / f"{LESSON}.ipynb").write_text(json.dumps(notebook), "utf-8")
    nbgrader("submit", LESSON, "--course", "transformer_lab", folder=home)
    nbgrader("collect", LESSON)
    assert (course / "submitted" / OF_THIS_COMPUTER / LESSON / f"{LESSON}.ipynb").exists()


def from_moodle(course, nbgrader, submitted):
    """Collect a zip as Moodle makes it: with two people of one name, copies, and other files."""
    archive = course / "downloaded" / LESSON / "archive"
    archive.mkdir(parents=True)
    name, other = "01b_exercises_the_bottleneck", "02b_exercises_scaled_dot_product_attention"
    old = json.dumps({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    with zipfile.ZipFile(archive / "Course-Exercises 01-77.zip", "w") as download:
        for student in ("Anna Ash_4711", "Anna Ash_4812"):
            folder = f"{student}_assignsubmission_file"
            download.writestr(f"{folder}/{name} (9).ipynb", old)
            download.writestr(f"{folder}/{name} (10).ipynb", json.dumps(submitted[student][0]))
            download.writestr(f"{folder}/{other}.ipynb", old)
        download.writestr("Ben Beech_5000_assignsubmission_file/answers.py", "")
        download.writestr(f"Carl Cedar_5001_assignsubmission_file_{name}.ipynb", old)
    nbgrader("zip_collect", LESSON)
    collected = {path.name for path in (course / "submitted").iterdir()}
    assert collected == {OF_THIS_COMPUTER, "Anna Ash_4711", "Anna Ash_4812", "Carl Cedar_5001"}
    shutil.rmtree(course / "submitted" / "Carl Cedar_5001")
    for student in ("Anna Ash_4711", "Anna Ash_4812"):
        (file,) = (course / "submitted" / student / LESSON).iterdir()
        assert json.loads(file.read_text("utf-8")) == submitted[student][0]


@pytest.mark.teaching
def test_from_the_assignment_to_a_table_of_marks(course, nbgrader):
    nbgrader("generate_assignment", LESSON, "--create")
    nbgrader("release_assignment", LESSON)
    (released,) = (course / "exchange").glob(f"transformer_lab/outbound/{LESSON}/*.ipynb")
    text = released.read_text("utf-8")
    assert "SOLUTION" not in text and 'NotImplementedError(\\"not written yet\\")' in text
    assert "*Your three sentences.*" in text and "A vector of fixed size" not in text

    submitted = hand_ins(json.loads(text))
    through_the_exchange(course, nbgrader, submitted[OF_THIS_COMPUTER][0])
    from_moodle(course, nbgrader, submitted)
    for student, (notebook, _) in submitted.items():
        folder = course / "submitted" / student / LESSON
        if not folder.exists():
            folder.mkdir(parents=True)
            content = json.dumps(notebook) if notebook else text[:5000]
            (folder / released.name).write_text(content, "utf-8")
    said = nbgrader("autograde", LESSON, f"--Execute.timeout={SECONDS}", status=1)  # of a_cut
    failed = re.findall(r"error processing assignment '\w+' for student '(.+)'", said)
    assert failed == ["a_cut"]
    for words in ("was missing, and is put back", "is there 2 times", "had become a markdown cell"):
        assert f"context_vector {words}" in said
    nbgrader("export", "--to", "marks.csv")

    with (course / "marks.csv").open() as file:
        marks = {row["student_id"]: row for row in csv.DictReader(file)}
    expected = {
        student: sum(points for task, points in MARKS.items() if task not in lost)
        for student, (_, lost) in submitted.items()
    }
    assert {student: float(row["score"]) for student, row in marks.items()} == expected
    assert {float(row["max_score"]) for row in marks.values()} == {sum(MARKS.values()) + 2}

    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as book:
        waits = {s.student.id for s in book.assignment_submissions(LESSON) if s.needs_manual_grade}
    # What was explained waits for a person, and so does what could not be read.
    assert waits == set(submitted) - {"stub", "redefined"}
