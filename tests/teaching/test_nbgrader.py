"""The course for nbgrader: its metadata, and the way from an assignment to a table of marks."""

import csv
import json
import os
import re
import subprocess
import sys
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


# ---- nbgrader itself, from the assignment to the marks

LESSON = "01_the_bottleneck"
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

    def call(*arguments):
        command = [sys.executable, "-m", "nbgrader", *arguments, f"--Exchange.root={exchange}"]
        done = subprocess.run(command, cwd=course, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
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

    context = "def context_vector(weights, values):\n    "
    redefined = json.loads(json.dumps(release))
    place = [name_of(cell) for cell in redefined["cells"]].index("imports") + 1
    code = {"cell_type": "code", "id": "mine", "outputs": [], "execution_count": None}
    redefined["cells"].insert(place, code | {"metadata": {}, "source": FAKE})
    return {
        "right": (right(), set()),
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


@pytest.mark.teaching
def test_from_the_assignment_to_a_table_of_marks(course, nbgrader):
    nbgrader("generate_assignment", LESSON, "--create")
    nbgrader("release_assignment", LESSON)
    (released,) = (course / "exchange").glob(f"transformer_lab/outbound/{LESSON}/*.ipynb")
    text = released.read_text("utf-8")
    assert "SOLUTION" not in text and 'NotImplementedError(\\"not written yet\\")' in text
    assert "*Your three sentences.*" in text and "A vector of fixed size" not in text

    submitted = hand_ins(json.loads(text))
    for student, (notebook, _) in submitted.items():
        folder = course / "submitted" / student / LESSON
        folder.mkdir(parents=True)
        (folder / released.name).write_text(json.dumps(notebook), "utf-8")
    said = nbgrader("autograde", LESSON, f"--Execute.timeout={SECONDS}")
    assert "check-context_vector was missing, and is put back" in said
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
    assert waits == set(submitted) - {"stub", "redefined"}  # what was explained waits for a person
