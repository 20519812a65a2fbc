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
from course.grading.by_hand import ByHand, late, read_due, read_manual, with_points_by_hand
from course.grading.grade import _known_by, _lesson
from course.grading.marks import Row, write_pages
from course.grading.students import Student, in_class, read_class
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
        ("name,email\nAnn,a@b\n", "the columns name, email and no id", "expected id, name"),
        ("", "has the columns (none) and no id", "expected id, name"),
        ("id,name\n1,Ann\n1,Bo\n", "the id 1 stands in line 2", "another one for every student"),
        ("id,name\n1,\n", "the name is empty", "every student needs one"),
        ("id,name,extra days\n1,Ann,two\n", "'two'", "whole number of extra days"),
    ],
)
def test_a_class_list_is_refused_in_one_sentence(tmp_path, text, came, expected):
    with pytest.raises(ValueError, match=re.escape(came)) as error:
        read_class(written(tmp_path, text, "list.csv"))
    assert came in str(error.value) and expected in str(error.value)


SAME = "several in the class list have this name: write the id beside it"
CLASS = (ANN, OTHER, Student("José Díaz Sá", "s3"), Student("Bo", "77", "bo@uni.org"))


@pytest.mark.parametrize(
    ("name", "number", "expected"),
    [
        ("Ann Lee", "s2", "s2"),  # the number in the file's name is the id
        ("Ann Lee", "12", SAME),
        ("Ann Lee s1", "", "s1"),
        ("ann lee_S1", "", "s1"),
        ("Ann Lee s12", "", "not in the class list"),
        ("Ann Lee (ann@uni.org)", "", "s1"),
        ("s1 other@uni.org", "", "not in the class list"),  # an address says more than a word
        ("LEE", "", "s2"),  # the first part of the address
        ("Jose\u0301 Di\u0301az Sa\u0301", "", "s3"),
        ("Sá, José Díaz", "", "s3"),
        ("DíazSáJosé", "", "s3"),
        ("Díaz José Sá", "", "not in the class list"),
        ("somebody", "77", "77"),
        ("somebody", "", "not in the class list"),
    ],
)
def test_who_of_the_class_it_is(name, number, expected):
    found = Student(name, number=number, canvas=True)
    person, why = in_class(found, CLASS)
    assert (why or person.id) == expected
    own = next((each for each in CLASS if each.id == expected), found)
    assert person == replace(own, number=number, canvas=True)


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
        ("s1,f,-5.5", "got -5.5 points", "to add or to take away"),
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


def test_all_points_of_a_task_can_be_taken_away_or_given(tmp_path):
    path = written(tmp_path, "student,task,points\ns1,f,-5\ns2,g,2\n")
    added = with_points_by_hand(rows(), read_manual(path, WHO, POSSIBLE))
    assert [row.points for row in added] == [0, 8, 5, 10]
    assert [row.possible for row in added] == [5, 10] * 2


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
    for seconds, days in (
        (-3 * 86_400, 0),
        (0, 0),
        (1, 1),
        (86_400, 1),
        (86_400.5, 2),
        (30 * 86_400, 30),
    ):
        os.utime(path, (due.timestamp() + seconds,) * 2)
        assert late(ann, due) == (days, min(1.0, max(0, days - 2) / 10)), seconds
    marks = marks_of(rows(), WHO, {("Ann Lee (s1)", TWO): (4, 0.2)})
    assert marks[0].lessons == {ONE: 5, TWO: 6.4} and marks[1].lessons[TWO] == 8
    assert table(of_marks(marks), "utf-8-sig")[0]["days late"] == "02: 4 (−1.6)"


def test_canvas_says_late_in_the_name_of_a_file_and_that_is_a_day_at_least(tmp_path):
    path = written(tmp_path, "", "leeann_LATE_77_901_x.ipynb")
    due = datetime(2026, 12, 1, 18)
    os.utime(path, (due.timestamp() - 60,) * 2)  # as it was unpacked
    bo = Submission("Bo", TWO, path, who=Student("Bo"))
    assert late(bo, due) == (1, 0.1) and late(bo, None) == (0, 0.0)
    os.utime(path, (due.timestamp() + 2 * 86_400,) * 2)
    assert late(bo, due) == (2, 0.2)
    assert late(Submission("Bo", TWO, problem="no notebook"), due) == (0, 0.0)


def test_the_rubric_is_the_courses_and_without_it_each_day_costs_ten_percent(tmp_path, monkeypatch):
    rules = by_hand.rubric()
    assert {"free_days", "percent_a_day"} == set(rules["late"]) and "manual" in rules
    criteria = len(rules["manual"]["criteria"])
    read = by_hand._points_for_reading()
    assert read == dict.fromkeys(rules["manual"]["tasks"].values(), 2 * criteria)
    monkeypatch.setattr(by_hand, "course_folder", lambda: tmp_path)
    assert by_hand.rubric() == {} and by_hand._points_for_reading() == {}
    path = written(tmp_path, "", "x.ipynb")
    due = datetime(2026, 12, 1, 18)
    os.utime(path, (due.timestamp() + 2 * 86_400,) * 2)
    assert late(Submission("Bo", TWO, path, who=Student("Bo")), due) == (2, 0.2)


def test_what_lateness_costs_is_rounded_to_a_hundredth_and_is_never_said_of_who_was_in_time():
    third = [replace(row, points=row.points / 3) for row in rows()]
    marks = marks_of(third, WHO, {("Ann Lee (s1)", TWO): (1, 1 / 7), ("Ann Lee (s2)", ONE): (0, 0)})
    assert marks[0].lessons == {ONE: 1.67, TWO: 2.29} and marks[0].late[TWO].points == 0.38
    assert marks[1].late == {}
    assert [row["total"] for row in table(of_marks(marks), "utf-8-sig")] == ["3.96", "4.34"]


def test_points_without_a_comment_and_a_comment_without_points_are_shown():
    lines = {
        ("Ann Lee (s1)", "f"): ByHand("", -2, "", 0),
        ("Ann Lee (s2)", "f"): ByHand("", 0, "so so", 0),
    }
    read = table(of_tasks(with_points_by_hand(rows(), lines), WHO), "utf-8-sig")
    assert [row["by hand"] for row in read] == ["-2", "", "0", ""]
    assert [row["comment"] for row in read] == ["", "", "so so", ""]


def test_a_share_of_the_predictions_is_a_column():
    some = [replace(row, right=4, parts=5) if row.task == "f" else row for row in rows()]
    assert [row["right"] for row in table(of_tasks(some, WHO), "utf-8-sig")] == ["4 of 5", ""] * 2


def test_a_date_is_for_all_lessons_or_for_one_and_ends_with_its_day():
    due = read_due(["2026-12-01", "2=2026-12-03T18:00"], [ONE, TWO])
    assert (due[ONE].day, due[ONE].hour, due[TWO]) == (1, 23, datetime(2026, 12, 3, 18))


@pytest.mark.parametrize("text", ["soon", "2026-13-01", "07=2026-12-01", ""])
def test_a_date_that_cannot_be_read_is_refused(text):
    expected = f"--due {text!r}: expected a date such as 2026-12-01.* such as 01=2026-12-01"
    with pytest.raises(ValueError, match=expected):
        read_due([text], [ONE, TWO])
