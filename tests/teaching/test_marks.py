"""What a gradebook gets: who is who, tables, points by hand, and what lateness costs."""

import csv
import io
import os
import re
from dataclasses import replace
from datetime import datetime

import pytest

from course.grading import by_hand, find_submissions
from course.grading import grade as command
from course.grading.by_hand import late, read_due, read_manual, with_points_by_hand
from course.grading.grade import _known_by, _lesson
from course.grading.marks import Row, write_pages
from course.grading.students import Student, read_class
from course.grading.submissions import Submission
from course.grading.tables import for_lms, marks_of, of_marks, of_tasks

ONE, TWO = "01_the_bottleneck", "02_scaled_dot_product_attention"
ANN = Student("Ann Lee", "s1", "ann@uni.org", "A", 1, "77", canvas=True)
OTHER = Student("Ann Lee", "s2", "lee@uni.org", "B")
WHO = {"Ann Lee (s1)": ANN, "Ann Lee (s2)": OTHER}
POSSIBLE = {"f": 5, "g, h": 10}


def rows():
    return [
        Row(student, lesson, task, "passed", points, 0.5, possible=POSSIBLE[task])
        for student in WHO
        for lesson, task, points in ((ONE, "f", 5), (TWO, "g, h", 8))
    ]


def table(data, encoding="utf-8"):
    return list(csv.DictReader(io.StringIO(data.decode(encoding), newline="")))


def written(folder, text, name="manual.csv"):
    (folder / name).write_text(text, "utf-8")
    return folder / name


# ---- Who is who


def test_two_of_one_name_have_two_rows_and_who_is_missing_has_one(tmp_path):
    people = read_class(
        written(tmp_path, "Name;ID;E-Mail\nAnn Lee;s1;a@b.org\nAnn Lee;s2;\nBo;s3;\n", "list.csv")
    )
    handed_in = tmp_path / "in"
    for folder in ("Ann Lee s1", "Ann Lee s2"):
        (handed_in / folder).mkdir(parents=True)
        (handed_in / folder / f"{TWO}.ipynb").write_text("{}", "utf-8")
    lesson = _known_by(_lesson("02"))
    found, _ = find_submissions(handed_in, [lesson], (), people)
    assert sorted(each.who.id for each in found) == ["s1", "s2", "s3"]
    assert len({each.student for each in found}) == 3
    assert [each.who.name for each in found if each.path is None] == ["Bo"]


@pytest.mark.parametrize(
    ("text", "came", "expected"),
    [
        ("name,email\nAnn,a@b\n", "no id", "expected id, name"),
        ("id,name\n1,Ann\n1,Bo\n", "the id 1 stands in line 2", "another one for every student"),
        ("id,name\n1,\n", "the name is empty", "every student needs one"),
        ("id,name,extra days\n1,Ann,two\n", "'two'", "whole number of extra days"),
    ],
)
def test_a_class_list_is_refused_in_one_sentence(tmp_path, text, came, expected):
    with pytest.raises(ValueError, match=re.escape(came)) as error:
        read_class(written(tmp_path, text, "list.csv"))
    assert came in str(error.value) and expected in str(error.value)


# ---- Tables


def test_marks_have_a_row_a_student_and_tasks_a_row_a_task():
    marks = table(of_marks(marks_of(rows(), WHO, {})), "utf-8-sig")
    assert [(row["id"], row["email"], row["group"]) for row in marks] == [
        ("s1", "ann@uni.org", "A"),
        ("s2", "lee@uni.org", "B"),
    ]
    assert {(row[ONE], row[TWO], row["total"], row["possible"]) for row in marks} == {
        ("5", "8", "13", "15")
    }
    assert len(table(of_tasks(rows(), WHO), "utf-8-sig")) == 4


def test_moodle_finds_each_student_and_takes_each_grade():
    read = table(for_lms("moodle", marks_of(rows(), WHO, {}), {ONE: 5, TWO: 10}))
    by_address = {row["Email address"]: row for row in read}
    by_number = {row["ID number"]: row for row in read}
    assert set(by_address) == {"ann@uni.org", "lee@uni.org"} and set(by_number) == {"s1", "s2"}
    assert [float(row[each]) for row in read for each in (ONE, TWO)] == [5, 8, 5, 8]


def test_moodle_gets_no_row_that_could_go_to_the_student_above():
    first, *others = marks_of(rows(), WHO, {})
    nobody = replace(others[0], who=replace(others[0].who, email=""))
    read = table(for_lms("moodle", [first, nobody], {ONE: 5, TWO: 10}))
    assert [row["ID number"] for row in read] == [first.who.id]


def test_canvas_takes_each_further_column_for_an_assignment_with_possible_points():
    data = for_lms("canvas", marks_of(rows(), WHO, {}), {ONE: 5, TWO: 10})
    read = table(data)
    known = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section"]
    assert [*read[0]] == [*known, ONE, TWO]  # a total would become an assignment
    assert read[0]["Student"] == "Points Possible" and [read[0][ONE], read[0][TWO]] == ["5", "10"]
    assert not any(read[0][each] for each in known[1:])
    assert [(row["ID"], row["SIS User ID"]) for row in read[1:]] == [("77", "s1"), ("", "s2")]
    assert all(float(row[each]) <= float(read[0][each]) for row in read[1:] for each in (ONE, TWO))


# ---- By hand


def test_points_by_hand_are_added_and_shown_to_the_student(tmp_path):
    path = written(tmp_path, 'student,task,points,comment\ns2,h,"1,5",well argued\n')
    before = path.read_bytes()
    added = with_points_by_hand(rows(), read_manual(path, WHO, POSSIBLE))
    assert [row.points for row in added] == [5, 8, 5, 9.5] and path.read_bytes() == before
    write_pages(tmp_path, added, {"warning": "", "about": "", "flagged": {}}, [])
    assert "well argued" in (tmp_path / "feedback" / "Ann_Lee_s2.html").read_text("utf-8")
    assert table(of_tasks(added, WHO), "utf-8-sig")[3]["comment"] == "well argued"


def test_a_task_that_is_read_by_hand_has_more_points_for_all(tmp_path, monkeypatch):
    monkeypatch.setattr(by_hand, "_points_for_reading", lambda: {"f": 6})
    path = written(tmp_path, "student,task,points\nann@uni.org,f,4\n")
    added = with_points_by_hand(rows(), read_manual(path, WHO, POSSIBLE))
    assert [(row.points, row.possible) for row in added if row.task == "f"] == [(9, 11), (5, 11)]


@pytest.mark.parametrize(
    ("line", "came", "expected"),
    [
        ("nobody,f,1", "nobody is 'nobody'", "expected a name"),
        ("s1,k,1", "no task 'k'", "expected one of f; g, h"),
        ("s1,f,99", "got 99 points", "expected at most 5"),
        ("s1,f,many", "'many'", "expected a number of points"),
        ("s1,f,nan", "'nan'", "expected a number of points"),
        ("s1,f,1\ns1,f,1", "points for f already", "expected one line"),
    ],
)
def test_a_line_by_hand_is_refused_in_one_sentence(tmp_path, line, came, expected):
    path = written(tmp_path, f"student,task,points\n{line}\n")
    with pytest.raises(ValueError, match=r"manual\.csv, line \d") as error:
        read_manual(path, WHO, POSSIBLE)
    assert came in str(error.value) and expected in str(error.value)


def test_both_together_are_no_more_than_the_task_has(tmp_path):
    lines = read_manual(written(tmp_path, "student,task,points\ns1,g,3\n"), WHO, POSSIBLE)
    with pytest.raises(ValueError, match=r"3 points beside 8 .* expected from 0 to 10"):
        with_points_by_hand(rows(), lines)


def test_a_task_of_a_lesson_that_is_not_graded_now_is_passed_over(tmp_path):
    path = written(tmp_path, "student,task,points\ns1,k,3\n")
    assert read_manual(path, WHO, POSSIBLE, ["k"]) == {}


def test_a_wrong_line_is_refused_before_anything_is_judged(tmp_path, monkeypatch):
    monkeypatch.setattr(command, "walls", lambda *_: pytest.fail("it has begun"))
    (tmp_path / "in" / "ann").mkdir(parents=True)
    (tmp_path / "out").mkdir()
    written(tmp_path / "out", "student,task,points\nbo,f,1\n")
    with pytest.raises(ValueError, match="nobody is 'bo'"):
        command.grade(tmp_path / "in", ["02"], tmp_path / "out")


# ---- Late


def test_a_day_late_costs_what_the_rubric_says_after_free_and_extra_days(tmp_path, monkeypatch):
    rules = {"late": {"free_days": 1, "percent_a_day": 10}}
    monkeypatch.setattr(by_hand, "rubric", lambda: rules)
    path = written(tmp_path, "", "x.ipynb")
    due = datetime(2026, 12, 1, 18)
    os.utime(path, (due.timestamp() + 3.5 * 86_400,) * 2)
    ann = Submission("Ann Lee (s1)", TWO, path, who=ANN)
    assert late(ann, due) == (4, 0.2) and late(ann, None) == (0, 0.0)
    os.utime(path, (due.timestamp(),) * 2)
    assert late(ann, due) == (0, 0.0)
    marks = marks_of(rows(), WHO, {("Ann Lee (s1)", TWO): (4, 0.2)})
    assert marks[0].lessons == {ONE: 5, TWO: 6.4} and marks[1].lessons[TWO] == 8
    assert table(of_marks(marks), "utf-8-sig")[0]["days late"] == "02: 4 (−1.6)"


def test_a_date_is_for_all_lessons_or_for_one_and_ends_with_its_day():
    due = read_due(["2026-12-01", "2=2026-12-03T18:00"], [ONE, TWO])
    assert (due[ONE].day, due[ONE].hour, due[TWO]) == (1, 23, datetime(2026, 12, 3, 18))


@pytest.mark.parametrize("text", ["soon", "2026-13-01", "07=2026-12-01", ""])
def test_a_date_that_cannot_be_read_is_refused(text):
    with pytest.raises(ValueError, match=f"--due {text!r}: expected a date such as 2026-12-01"):
        read_due([text], [ONE, TWO])
