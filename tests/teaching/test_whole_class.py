"""A class hands in three lessons, and everybody has the mark that they deserve (minutes).

make test-teaching
"""

import csv
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import whole_class

from course.grading.marks import page_names

pytestmark = [pytest.mark.teaching, pytest.mark.timeout(1800)]
EVERYBODY = (*whole_class.CLASS, whole_class.ABSENT)
somebody = pytest.mark.parametrize("student", EVERYBODY, ids=lambda student: student.name)


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """The folder of the marks, and how long it took."""
    root = tmp_path_factory.mktemp("class")
    whole_class.write(root / "submissions")
    (root / "class.csv").write_text(whole_class.class_list(), "utf-8")
    marks = root / "marks"
    marks.mkdir()
    (marks / "manual.csv").write_text(whole_class.points_by_hand(), "utf-8")
    lessons = [part for lesson in whole_class.LESSONS for part in ("--lesson", lesson[:2])]
    start = time.monotonic()
    done = subprocess.run(
        [
            *(sys.executable, "-m", "course", "grade", root / "submissions", *lessons),
            *("--output", marks, "--class", root / "class.csv", "--lms", "moodle"),
            *("--due", whole_class.DUE.isoformat(), "--jobs", "2"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return marks, time.monotonic() - start


def table(path):
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


@somebody
def test_everybody_has_the_right_mark(graded, student):
    expected = {each: whole_class.mark(student, each) for each in whole_class.LESSONS}
    (row,) = [row for row in table(graded[0] / "marks.csv") if row["student"] == student.name]
    assert {lesson: float(row[lesson]) for lesson in expected} == expected
    assert float(row["total"]) == pytest.approx(sum(expected.values()))
    (row,) = [row for row in table(graded[0] / "moodle.csv") if row["Full name"] == student.name]
    assert {lesson: float(row[lesson]) for lesson in expected} == expected
    assert row["Email address"] == f"{student.name.split()[1].lower()}@uni.org"


def test_the_honest_have_all_points_and_the_absent_none():
    for lesson in whole_class.LESSONS:
        most = sum(task.points for task in whole_class.tasks_of(lesson))
        assert {whole_class.mark(each, lesson) for each in whole_class.HONEST} == {most}
        assert whole_class.mark(whole_class.ABSENT, lesson) == 0


@somebody
def test_the_page_says_what_cost_points(graded, student):
    page = page_names([each.name for each in EVERYBODY])[student.name]
    text = (graded[0] / "feedback" / page).read_text("utf-8")
    assert student.said in text
    for lesson in whole_class.LESSONS:
        for task in whole_class.lost_by(student, lesson):
            assert f"✗ {', '.join(task)}: " in text


def test_who_has_copied_is_named_with_whom_and_no_honest_answer_for_a_solution(graded):
    marks = json.loads((graded[0] / "marks.json").read_text("utf-8"))
    assert ["Dana Deal", "Ora Oak"] in [sorted(pair["students"]) for pair in marks["alike"]]
    assert not any("like " in flag for row in marks["rows"] for flag in row["flags"])


def test_it_takes_ten_minutes_at_most(graded):
    assert graded[1] <= 600
