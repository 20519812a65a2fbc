"""What grading is made of: whose notebook is which, what is striking, what is written."""

import csv
import json
import os

import pytest

from transformer_lab.checking import course_folder, read_cells
from transformer_lab.checking.progress import tasks_in
from transformer_lab.grading import find_submissions, look, points_of, similar_pairs
from transformer_lab.grading.grade import _known_by, _lesson
from transformer_lab.grading.marks import Row, page_names, write_marks
from transformer_lab.grading.rubric import rubric
from transformer_lab.grading.similarity import THRESHOLDS, likeness, runs_of, thresholds

LESSONS = [_known_by(_lesson(number)) for number in ("01", "02")]
FIRST, SECOND = (lesson.name for lesson in LESSONS)


def exercise(lesson):
    return (course_folder() / "exercises" / f"{lesson}.ipynb").read_text("utf-8")


def hand_in(folder, *names, text=None):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(exercise(SECOND) if text is None else text, "utf-8")


def found_in(folder, lessons=LESSONS[1:], **options):
    submissions, notes = find_submissions(folder, lessons, **options)
    return {(each.student, each.lesson): each for each in submissions}, notes


# ---- Whose notebook is which


@pytest.mark.parametrize(
    ("names", "students"),
    [
        ((f"anna/{SECOND}.ipynb", f"ben/deep/er/{SECOND}.ipynb"), ["anna", "ben"]),
        ((f"anna_{SECOND}.ipynb", f"{SECOND}-ben.ipynb"), ["anna", "ben"]),
        ((f"anna_{SECOND} (1).ipynb",), ["anna"]),
        (
            (f"submitted/anna/{SECOND}/{SECOND}.ipynb", f"submitted/ben/x/{SECOND}.ipynb"),
            ["anna", "ben"],
        ),
        ((f"Anna Ash_4711_assignsubmission_file_/{SECOND}.ipynb",), ["Anna Ash"]),
        ((f"Anna Ash_4711_assignsubmission_file_{SECOND}.ipynb",), ["Anna Ash"]),
        (
            (f"ashanna_LATE_1234_56789_{SECOND}-1.ipynb", f"benb_1235_56780_{SECOND}.ipynb"),
            ["ashanna", "benb"],
        ),
        (("anna.ipynb", "ben.ipynb"), ["anna", "ben"]),
        (("anna/.ipynb_checkpoints/x.ipynb", f"anna/{SECOND}.ipynb", ".git/x.ipynb"), ["anna"]),
    ],
)
def test_the_usual_shapes_are_found(tmp_path, names, students):
    hand_in(tmp_path, *names)
    found, _ = found_in(tmp_path)
    assert sorted(student for student, _ in found) == students
    assert all(each.cells and not each.problem for each in found.values())


def test_a_lesson_is_recognised_by_what_it_contains_and_that_is_reported(tmp_path):
    hand_in(tmp_path, f"anna/{FIRST}.ipynb")  # this is lesson 02 under the name of lesson 01
    hand_in(tmp_path, "anna/homework.ipynb", text=exercise(FIRST))
    found, _ = found_in(tmp_path, LESSONS)
    assert found["anna", FIRST].path.name == "homework.ipynb"
    assert found["anna", SECOND].path.name == f"{FIRST}.ipynb"
    assert "was recognised as" in found["anna", SECOND].flags[0]


def test_of_two_copies_the_one_with_the_right_name_counts_and_the_other_is_reported(tmp_path):
    hand_in(tmp_path, f"anna/{SECOND}.ipynb", f"anna/{SECOND} (1).ipynb")
    found, _ = found_in(tmp_path)
    assert found["anna", SECOND].path.name == f"{SECOND}.ipynb"
    assert f"anna/{SECOND} (1).ipynb was not taken" in found["anna", SECOND].flags


@pytest.mark.parametrize(
    ("content", "problem"),
    [("", "empty"), ("{", "damaged"), ("[]", "damaged"), ('{"cells": [3]}', "damaged")],
)
def test_what_cannot_be_read_keeps_its_place(tmp_path, content, problem):
    hand_in(tmp_path, f"anna/{SECOND}.ipynb", text=content)
    found, _ = found_in(tmp_path, LESSONS)
    assert found["anna", SECOND].problem.startswith(problem)
    assert found["anna", FIRST].problem == "no notebook"


def test_a_pipe_does_not_hang_and_a_link_is_not_followed(tmp_path):
    (tmp_path / "in" / "anna").mkdir(parents=True)
    os.mkfifo(tmp_path / "in" / "anna" / f"{SECOND}.ipynb")
    hand_in(tmp_path, "real.ipynb")
    (tmp_path / "in" / "ben").symlink_to(tmp_path)
    found, _ = found_in(tmp_path / "in")
    assert found["anna", SECOND].problem == "not a file"
    assert found["ben", SECOND].problem.startswith("a symbolic link")


def test_names_that_look_the_same_are_told_apart(tmp_path):
    hand_in(
        tmp_path,
        *(
            f"{name}/{SECOND}.ipynb"
            for name in ("Zo\u00e9", "Zoe\u0301", "Zo\u200b\u00e9", "ZO\u00c9")
        ),
    )
    found, _ = found_in(tmp_path)
    names = {student.casefold() for student, _ in found}
    assert len(names) == 4 and all(name.isprintable() for name in names)


def test_the_folder_of_the_marks_is_no_student(tmp_path):
    hand_in(tmp_path, f"anna/{SECOND}.ipynb", f"marks/{SECOND}.ipynb")
    found, _ = found_in(tmp_path, leave_out=[tmp_path / "marks"])
    assert [student for student, _ in found] == ["anna"]


def test_a_folder_without_anybody_is_a_value_error(tmp_path):
    with pytest.raises(ValueError, match="holds no submission"):
        found_in(tmp_path)
    with pytest.raises(ValueError, match="is not a folder"):
        found_in(tmp_path / "nowhere")


# ---- What is striking


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("from transformer_lab.checking import diagnosis", "imports transformer_lab.checking"),
        ("import transformer_lab.checking.sandbox", "imports transformer_lab.checking.sandbox"),
        ("import os\nos._exit(0)", "_exit: processes"),
        ("import ctypes", "Python's inside"),
        ("from urllib.request import urlopen", "the network"),
        ("from transformer_lab import attend_one as mine", "imports the answer, attend_one"),
        ("x = open('../solutions/02.ipynb')", "solutions/"),
        ("def check(x): pass", "defines check"),
        ("check = print", "defines check"),
        ("torch.isclose = lambda *_: True", "changes torch.isclose"),
        ("class A:\n    def __eq__(self, other): return True", "A says itself"),
        ("def attend_one(): pass\ndef attend_one(): pass", "is defined 2 times"),
        ("x = 'a\u202eb'", "invisible characters"),
        ("x = 1", "no check of attend_one"),
    ],
)
def test_a_striking_line_is_flagged(source, words):
    assert any(words in flag for flag in look([("code", source)], ["attend_one"]))


@pytest.mark.parametrize(
    "lesson", [path.stem for path in course_folder().glob("exercises/*.ipynb")]
)
def test_nothing_in_the_courses_own_notebooks_is_striking(lesson):
    for folder in ("exercises", "solutions"):
        path = course_folder() / folder / f"{lesson}.ipynb"
        names = [name for task in tasks_in(path) for name in task.names]
        assert look(read_cells(path), names) == []


# ---- Likeness

LONG = """
def attend_one(query, keys, values):
    total = torch.zeros(values.shape[1])
    weight_sum = 0.0
    for index in range(len(keys)):
        number = math.exp(float(sum(query * keys[index])) / math.sqrt(len(query)))
        weight_sum = weight_sum + number
        total = total + number * values[index]
    return total / weight_sum
"""
RENAMED = (
    LONG.replace("total", "acc").replace("number", "e").replace("index", "i").replace("keys", "K")
)
OTHER = """
def attend_one(query, keys, values):
    scores = torch.einsum("d,kd->k", query, keys) * query.numel() ** -0.5
    scores = scores - scores.max()
    weights = scores.exp() / scores.exp().sum()
    assert torch.isclose(weights.sum(), torch.tensor(1.0)), "no weights"
    return torch.einsum("k,kd->d", weights, values)
"""


def test_renamed_variables_are_the_same_answer():
    assert likeness(runs_of(LONG), runs_of(RENAMED)) == 1
    assert likeness(runs_of(LONG), runs_of(OTHER)) < 0.2


def test_a_pair_is_reported_if_it_is_alike_in_two_tasks():
    both = {"anna": LONG, "ben": RENAMED, "chloé": OTHER}
    assert similar_pairs({"attend_one": both}) == []
    pairs = similar_pairs({"attend_one": both, "attention_gradient": both})
    assert [pair[:2] for pair in pairs] == [("anna", "ben")]


def test_what_everybody_writes_is_no_reason_to_ask():
    everybody = dict.fromkeys(map(str, range(20)), LONG)
    assert similar_pairs({"attend_one": everybody, "attention_gradient": everybody}) == []


def test_the_thresholds_are_those_of_the_catalogue():
    assert json.loads(THRESHOLDS.read_text("utf-8")) == thresholds()


# ---- Points, and what is written


def test_the_rubric_has_every_task_and_no_other():
    paths = sorted((course_folder() / "solutions").glob("[0-9][0-9]_*.ipynb"))
    tasks = {path.stem: [", ".join(task.names) for task in tasks_in(path)] for path in paths}
    assert {lesson: list(points) for lesson, points in rubric().items()} == tasks
    with pytest.raises(ValueError, match="no points for 02_x, f"):
        points_of("02_x", ["f"])


def test_marks_are_harmless_in_a_spreadsheet_and_in_a_browser(tmp_path):
    evil = "=cmd|' /C calc'!A0<script>alert(1)</script>"
    rows = [
        Row(evil, SECOND, "f", "wrong", 0, 1.25, ["a", "b"], "<b>why</b>", "<b>all</b>", 5),
        Row("anna", SECOND, "f", "passed", 5, 0.5, possible=5),
    ]
    write_marks(tmp_path, rows, {"warning": "", "about": "", "flagged": {evil: ["x"]}}, [])
    with (tmp_path / "marks.csv").open(encoding="utf-8-sig", newline="") as file:
        table = list(csv.reader(file))
    assert table[1][0] == f"'{evil}" and table[1][5:] == ["1.2", "a; b"]
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) == 3
    assert not any("<script>" in page.read_text() or "<b>" in page.read_text() for page in pages)


def test_the_class_page_puts_the_most_frequent_diagnosis_first(tmp_path):
    why = [
        "It is 3 at [0, 1], expected 4.",
        "Is a `return` missing?",
        "It is 7 at [2], expected 8.",
    ]
    rows = [Row(f"s{i}", SECOND, "f", "wrong", 0, 0.0, why=each) for i, each in enumerate(why)]
    write_marks(
        tmp_path, rows, {"warning": "LOUD", "about": "", "flagged": {}}, [("s0", "s1", {"f": 0.9})]
    )
    text = (tmp_path / "class.html").read_text("utf-8")
    assert "f: 0 of 3 passed" in text and "LOUD" in text and "s0 and s1" in text and "90 %" in text
    first, second = text.index("It is … at […"), text.index("Is a `return` missing?")
    assert first < second and "s0, s2" in text[first:second]


def test_no_two_pages_have_one_name():
    names = page_names(["a/b", "a_b", "A_B", "../..", "", "x" * 300])
    assert len({name.casefold() for name in names.values()}) == 6
    assert all("/" not in name and len(name) < 80 for name in names.values())
