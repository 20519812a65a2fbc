"""`transformer-course progress`: the learner's table."""

import argparse
import json

import pytest

from course.checking import course as course_module
from course.checking import progress
from course.checking.notebooks import read_notebook
from course.stamps import stamp

HEADING = """## Task {number} · Something: {names}

Difficulty ★★☆☆☆ · importance ★★★★★ · 15 minutes

Text."""
STUB = 'raise NotImplementedError("not written yet")'


def notebook(*sources):
    kinds = ["markdown" if source[0] == "#" else "code" for source in sources]
    cells = [
        {"cell_type": kind, "source": source} for kind, source in zip(kinds, sources, strict=True)
    ]
    return json.dumps({"cells": cells})


@pytest.fixture
def course(tmp_path, monkeypatch):
    """A course of one lesson with three tasks, solved; its exercises can be written by a test."""
    for folder in ("tests/exercises", "solutions", "exercises"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "tests" / "exercises" / "test_01_x.py").write_text(
        "def test_a(a): assert a() == 1, 'a is not 1.\\nsecond line'\n"
        "def test_b(b): assert b() == 2, 'b is not 2.'\n"
        "def test_c(c): assert c() == 3, 'c is not 3.'\n"
    )
    headings = [HEADING.format(number=1, names="`a`"), HEADING.format(number=2, names="`b`, `c`")]
    solution = ["def a(): return 1", "def b(): return 2", "def c(): return 3"]
    (tmp_path / "solutions" / "01_x.ipynb").write_text(notebook(*headings, *solution))
    monkeypatch.setattr(course_module, "course_folder", lambda: tmp_path)
    monkeypatch.setattr(progress, "course_folder", lambda: tmp_path)
    return tmp_path


def hand_in(course, *sources):
    (course / "exercises" / "01_x.ipynb").write_text(notebook(*sources))


def states(course):
    return [(task.state, task.why) for task in progress.measure("exercises")]


def test_the_solutions_are_all_passed(course, capsys):
    assert progress.progress("solutions") == 0
    assert "2 of 2 passed." in capsys.readouterr().out


def test_a_task_has_the_stars_and_minutes_of_its_heading(course):
    task = progress.measure("solutions")[1]
    assert (task.lesson, task.number, task.names) == ("01_x", 2, ("b", "c"))
    assert (task.difficulty, task.importance, task.minutes) == (2, 5, 15)


def test_each_state_is_told_from_the_others(course):
    hand_in(course, f"def a(): {STUB}", "def b(): return 2", "def c(): return 4")
    assert states(course) == [("not written yet", ""), ("wrong", "c is not 3.")]
    hand_in(course, "def a(): return 5", "def b(): return 2", f"def c(): {STUB}")
    assert states(course) == [("wrong", "a is not 1."), ("not written yet", "")]
    hand_in(course, "def a(): return b() - 1", f"def b(): {STUB}", "def c(): return 3")
    assert states(course)[0] == ("not written yet", "needs b")
    hand_in(course, "def a(): return 1", "def b(: pass", "def c(): return 3")
    assert states(course)[1][0] == "wrong" and "defines no b" in states(course)[1][1]


@pytest.mark.parametrize(
    "loop", ["def a():\n    while True: pass", "A = [x for x in iter(int, 1)]"]
)
def test_a_loop_without_end_is_stopped_and_the_other_tasks_are_checked(course, monkeypatch, loop):
    monkeypatch.setattr(progress, "PATIENCE", 2)
    hand_in(course, loop, "def b(): return 2", "def c(): return 3")
    (state, why), (other, _) = states(course)
    assert state == "out of time" and "till running after 2 seconds" in why
    assert other == ("passed" if "def" in loop else "out of time")


def test_the_table_names_the_next_task_and_the_exit_code_says_that_there_is_one(course, capsys):
    hand_in(course, "def a(): return 1", f"def b(): {STUB}", f"def c(): {STUB}")
    assert progress.progress() == 1
    table = capsys.readouterr().out
    assert "1 a" in table and "★★☆☆☆" in table and "✓ passed" in table
    assert "1 of 2 passed." in table and "About 15 min to go." in table
    assert "Next: task 2 of 01_x, b, c." in table


def test_one_lesson_is_shown_alone_and_reasons_stand_on_lines_of_their_own(course, capsys):
    (course / "tests" / "exercises" / "test_02_y.py").write_text("def test_d(d): pass\n")
    (course / "solutions" / "02_y.ipynb").write_text(
        notebook(HEADING.format(number=1, names="`d`"))
    )
    hand_in(course, "def a(): return 5", "def b(): return 2", "def c(): return 3")
    assert progress.progress("exercises", lessons=["1"]) == 1
    table = capsys.readouterr().out
    assert "02_y" not in table and "✗ wrong\n      a is not 1.\n" in table
    with pytest.raises(ValueError, match="no lesson 07; there is 01, 02"):
        progress.progress(lessons=["07"])


@pytest.mark.parametrize(
    ("minutes", "said"), [(40, "40 min"), (120, "2 h"), (1163, "19 h 23 min"), (0, "0 min")]
)
def test_hours_are_said_as_hours(minutes, said):
    assert progress.duration(minutes) == said


def test_json_holds_the_same_and_nothing_else(course, capsys):
    hand_in(course, "def a(): return 1", "def b(): return 0", "def c(): return 3")
    assert progress.progress(as_json=True) == 1
    first, second = json.loads(capsys.readouterr().out)
    assert first["state"] == "passed" and second["why"] == "b is not 2."
    assert second["names"] == ["b", "c"] and second["minutes"] == 15


def test_what_the_learners_code_prints_is_no_part_of_the_json(course, capsys):
    hand_in(course, "X = print('loaded')\ndef a(): print('called'); return 1")
    assert progress.progress(as_json=True) == 1
    assert json.loads(capsys.readouterr().out)[0]["state"] == "passed"


@pytest.mark.parametrize("source", ["X = sys.exit(0)\ndef a(): return X", "def a(): sys.exit(0)"])
def test_code_that_leaves_python_is_wrong_and_does_not_end_the_command(course, source):
    hand_in(course, "import sys", source)
    assert states(course)[0][0] == "wrong"


def test_the_line_that_stopped_and_its_error_are_in_the_table(course):
    hand_in(course, "def a(): return 1 / 0")
    (_, why), _ = states(course)
    assert why.startswith("Your code stopped at this line: def a(): return 1 / 0 ZeroDivision")


def test_the_headings_may_come_from_the_exercises_if_there_are_no_solutions(course):
    solution = course / "solutions" / "01_x.ipynb"
    solution.rename(course / "exercises" / "01_x.ipynb")
    assert [task.state for task in progress.measure("exercises")] == ["passed", "passed"]


def test_checks_of_a_lesson_without_exercises_are_passed_over(course):
    (course / "tests" / "exercises" / "test_00_tour.py").write_text("def test_x(x): pass\n")
    assert [task.lesson for task in progress.measure("solutions")] == ["01_x", "01_x"]


def test_a_damaged_notebook_is_a_value_error(course):
    (course / "exercises" / "01_x.ipynb").write_text('{"cells": [3]}')
    with pytest.raises(ValueError, match=r"01_x\.ipynb is not a notebook"):
        progress.progress()
    (course / "solutions" / "01_x.ipynb").write_text('{"cells": [3]}')
    hand_in(course, "def a(): return 1")
    with pytest.raises(ValueError, match=r"01_x\.ipynb is not a notebook"):
        progress.progress()


def test_a_folder_that_is_not_there_is_a_value_error(course):
    with pytest.raises(ValueError, match="no folder nowhere"):
        progress.progress("nowhere")


def test_the_options_are_target_and_json():
    parser = argparse.ArgumentParser()
    progress.add_arguments(parser)
    options = parser.parse_args(["--target", "solutions", "--json"])
    assert (options.target, options.json) == ("solutions", True)


@pytest.mark.parametrize("where", ["exercises", "."])
@pytest.mark.parametrize("target", ["exercises", "./exercises"])
def test_a_students_own_folder_comes_before_the_courses(
    course, tmp_path, monkeypatch, where, target
):
    """The course lies elsewhere, and its own exercises are solved."""
    hand_in(course, "def a(): return 1", "def b(): return 2", "def c(): return 3")
    own = tmp_path / "home" / where
    own.mkdir(parents=True)
    (own / "01_x.ipynb").write_text(notebook("def a(): return 7"))
    monkeypatch.chdir(tmp_path / "home")
    if where == "." and target != "exercises":
        pytest.skip("the folder is named, and is not there")
    assert progress.measure(target)[0].why == "a is not 1."


def test_nothing_is_started_for_an_exercise_that_nobody_has_touched(course, monkeypatch):
    path = course / "exercises" / "01_x.ipynb"
    hand_in(course, f"def a(): {STUB}", f"def b(): {STUB}", f"def c(): {STUB}")
    handed_out = read_notebook(path)
    for number, cell in enumerate(handed_out["cells"]):
        cell["id"] = f"cell-{number}"
    handed_out = stamp(handed_out)
    path.write_text(json.dumps(handed_out))
    monkeypatch.setattr(progress, "judge_notebook", None)
    assert states(course) == [("not written yet", "")] * 2
    handed_out["cells"][0]["source"] = "def a(): return 1"
    path.write_text(json.dumps(handed_out))
    with pytest.raises(TypeError):
        states(course)
