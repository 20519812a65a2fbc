"""A class of forty, honest, careless and hostile, is graded from end to end (minutes).

make test-teaching
"""

import csv
import hashlib
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import forty as class_

from course.checking import course_folder
from course.checking.progress import tasks_in
from course.grading.submissions import visible

pytestmark = [pytest.mark.teaching, pytest.mark.timeout(1800)]
TOTAL = sum(
    task.points for task in tasks_in(course_folder() / "solutions" / f"{class_.LESSON}.ipynb")
)


def shown(student):
    return visible(student.split("_4711_")[0])


def digests(folder):
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink() and "__pycache__" not in path.parts
    }


def _command_of(process):
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """Everything that happened: the hand-ins, the rows by student, what was there before."""
    root = tmp_path_factory.mktemp("class")
    outside, submissions, marks = root / "outside", root / "submissions", root / "marks"
    (outside / "other").mkdir(parents=True)
    (outside / "other" / f"{class_.LESSON}.ipynb").write_text("somebody else's work")
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        hand_ins = class_.forty(outside, server.getsockname()[1])
        class_.write(submissions, hand_ins)
        watched = (outside, submissions, course_folder() / "solutions", course_folder() / "tests")
        before = [digests(each) for each in watched]
        start = time.monotonic()
        done = subprocess.run(
            [
                *(sys.executable, "-m", "course", "grade", submissions, "--lesson", "02"),
                *("--output", marks, "--jobs", "2", "--seconds", "20", "--memory", "2"),
            ],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | {"TMPDIR": str(root)},  # by this its processes are known
        )
        left = [each for each in psutil.process_iter() if str(root) in _command_of(each)]
        seconds = time.monotonic() - start
        assert done.returncode == 0, done.stderr
        with pytest.raises(BlockingIOError):  # nobody has called
            server.accept()
    rows = {}
    with (marks / "tasks.csv").open(encoding="utf-8-sig", newline="") as file:
        for row in csv.DictReader(file):
            rows.setdefault(row["student"], []).append(row)
    after = [digests(each) for each in watched]
    return {
        "hand_ins": hand_ins,
        "rows": rows,
        "marks": marks,
        "done": done,
        "seconds": seconds,
        "unchanged": before == after,
        "left": left,
    }


def test_the_forty_are_all_there_and_the_command_says_what_it_did(graded):
    assert len(graded["hand_ins"]) == 40
    assert set(graded["rows"]) == {shown(student) for student in graded["hand_ins"]}
    assert "40 students" in graded["done"].stdout and "grading: 100%" in graded["done"].stderr


@pytest.mark.parametrize("student", class_.forty(Path("outside"), 9))
def test_each_state_is_the_expected_one(graded, student):
    expected, rows = graded["hand_ins"][student], graded["rows"][shown(student)]
    assert tuple(row["state"] for row in rows) == expected.states
    for words in expected.flags:
        assert words in rows[0]["flags"]
    for row in rows:
        assert (int(row["points"]) > 0) == (row["state"] == "passed")


def test_the_honest_have_full_points(graded):
    for student in class_.honest():
        assert sum(int(row["points"]) for row in graded["rows"][shown(student)]) == TOTAL


def test_nothing_outside_changed_and_nobody_is_left(graded):
    assert graded["unchanged"]
    assert not (course_folder() / "new").exists()
    assert graded["left"] == []


def test_every_student_has_a_page_that_needs_no_other_file(graded):
    pages = list((graded["marks"] / "feedback").glob("*.html"))
    assert len(pages) == 40
    for page in (*pages, graded["marks"] / "class.html"):
        text = page.read_text("utf-8")
        assert "<script" not in text and "src=" not in text and "http" not in text.split("<pre>")[0]
    own = (graded["marks"] / "feedback" / "Anna.html").read_text("utf-8")
    assert "6 of 6 tasks passed" in own


def test_the_class_page_says_which_task_failed_how_often_and_why(graded):
    text = (graded["marks"] / "class.html").read_text("utf-8")
    wrong = sum(
        hand_in.states[class_.TASKS.index("attend_one")] != "passed"
        for hand_in in graded["hand_ins"].values()
    )
    assert f"attend_one: {40 - wrong} of 40 passed" in text
    assert "out of time: It was still running after 20 seconds" in text


def test_a_second_run_grades_nothing_again(graded):
    marks = json.loads((graded["marks"] / "marks.json").read_text("utf-8"))
    assert len(marks["rows"]) == 240 and len(marks["kept"]) == 40


def test_it_takes_ten_minutes_at_most(graded):
    assert graded["seconds"] <= 600
