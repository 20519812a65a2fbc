"""The course for nbgrader: its metadata, and the way from assignment to marks."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from transformer_lab.checking.progress import tasks_in

ROOT = Path(__file__).resolve().parents[2]
SOLUTIONS = sorted((ROOT / "solutions").glob("[0-9][0-9]_*.ipynb"))


@pytest.fixture(scope="module")
def course(maker, tmp_path_factory):
    folder = tmp_path_factory.mktemp("course")
    assert maker.main(["--nbgrader", str(folder)]) == 0
    return folder


@pytest.mark.parametrize("solution", SOLUTIONS, ids=lambda path: path.stem)
def test_each_body_and_each_check_has_nbgraders_metadata(course, solution):
    stored = course / "source" / solution.stem / solution.name
    cells = json.loads(stored.read_text("utf-8"))["cells"]
    marked = [c["metadata"]["nbgrader"] for c in cells if "nbgrader" in c["metadata"]]
    assert len({m["grade_id"] for m in marked}) == len(marked)
    for metadata in marked:  # nbgrader's schema, version 3
        assert metadata["schema_version"] == 3 and metadata["task"] is False
        assert re.fullmatch(r"[a-zA-Z0-9_-]+", metadata["grade_id"])
        assert metadata["grade"] is metadata["locked"] is not metadata["solution"]
        assert metadata["grade"] == (metadata.get("points", 0) > 0)
    names = {name for task in tasks_in(solution) for name in task.names}
    assert {m["grade_id"] for m in marked if m["solution"]} == names
    checks = ["".join(c["source"]) for c in cells if c["metadata"].get("nbgrader", {}).get("grade")]
    assert all(", graded=True)" in check for check in checks)


@pytest.mark.skipif(importlib.util.find_spec("nbgrader") is None, reason="nbgrader is not here")
@pytest.mark.serial
def test_nbgrader_itself_makes_the_assignment_and_marks_hand_ins(course):
    lesson = "02_scaled_dot_product_attention"
    name = f"{lesson}.ipynb"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}

    def nbgrader(*arguments):
        command = [sys.executable, "-m", "nbgrader", *arguments, lesson, "--create"]
        subprocess.run(command, check=True, cwd=course, env=environment)

    nbgrader("generate_assignment")
    release = (course / "release" / lesson / name).read_text("utf-8")
    assert "SOLUTION" not in release and 'NotImplementedError(\\"not written yet\\")' in release
    solved = (ROOT / "solutions" / name).read_text("utf-8")
    bodies = {c["id"]: c["source"] for c in json.loads(solved)["cells"]}
    for student in ("nothing", "everything"):
        hand_in = json.loads(release)
        for cell in hand_in["cells"]:
            if student == "everything" and cell["metadata"].get("nbgrader", {}).get("solution"):
                cell["source"] = bodies[cell["id"]]
        folder = course / "submitted" / student / lesson
        folder.mkdir(parents=True)
        (folder / name).write_text(json.dumps(hand_in), "utf-8")
    nbgrader("autograde")

    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as book:
        marks = {s.student.id: (s.score, s.max_score) for s in book.assignment_submissions(lesson)}
    assert marks["nothing"][0] == 0
    assert marks["everything"][0] == marks["everything"][1] > 0
