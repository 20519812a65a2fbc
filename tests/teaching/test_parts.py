"""Predictions are separate: each that is right has its share of the task's points."""

import itertools

import pytest

from course.checking import CheckFailed, check_files, checks_in, load_notebook
from course.checking.child import judge
from course.checking.course import course_folder
from course.checking.diagnosis import expect_predictions
from course.checking.progress import tasks_in
from course.grading.grade import _row
from course.grading.marks import Row

SHEETS = {  # the task of predictions of each lesson, with its checks
    names[0]: file
    for file in check_files()
    for names in checks_in(file).values()
    if len(names) == 1 and names[0].startswith("predicted_")
}


def answers_to(task):
    file = SHEETS[task]
    path = course_folder() / "solutions" / f"{file.stem.removeprefix('test_')}.ipynb"
    return list(load_notebook(path)[task]())


def judged(task, answers):
    """Return what came out of a notebook whose function returns these answers."""
    return judge(SHEETS[task], {task: lambda: answers, "__problems__": []}, [task])


def test_every_sheet_begins_with_predictions():
    sheets = sorted((course_folder() / "solutions").glob("[0-9][0-9]_*.ipynb"))
    assert [tasks_in(path)[0].names for path in sheets] == [(task,) for task in SHEETS]


@pytest.mark.parametrize("task", SHEETS)
def test_each_right_prediction_counts_for_itself(task):
    answers = answers_to(task)
    assert judged(task, answers) == ("passed", "", "", 0, 0)
    for k in range(len(answers)):
        for kept in itertools.combinations(range(len(answers)), k):
            some = [each if i in kept else f"no {i}" for i, each in enumerate(answers)]
            state, why, _, right, parts = judged(task, some)
            assert (state, right, parts) == ("wrong", k, len(answers))
            first = next(i for i in range(len(answers)) if i not in kept)
            assert why.startswith(f"{'abcdef'[first]} is not 'no {first}'.")


@pytest.mark.parametrize("task", SHEETS)
def test_what_is_no_prediction_has_nothing(task):
    answers = answers_to(task)
    for junk in (None, 7, "abcde", answers[:-1], [*answers, 0], {"a": answers[0]}, [], [None] * 5):
        assert judged(task, junk)[0] == "wrong" and judged(task, junk)[3] == 0
    for same in answers:  # typed once and copied: some are right, by chance
        state, _, _, right, _ = judged(task, [same] * len(answers))
        assert state == "wrong" and right == 0


def test_the_message_is_that_of_the_first_wrong_answer():
    hints = {letter: {None: f"Hint {letter}."} for letter in "abc"}
    with pytest.raises(CheckFailed) as caught:
        expect_predictions([1, 5, 3], {"a": 1, "b": 2, "c": 3}, hints)
    assert caught.value.why == "b is not 5. Hint b." and caught.value.parts == (2, 3)


def test_points_are_rounded_to_a_tenth():
    for task in (task for file in SHEETS.values() for task in _tasks(file)[:1]):
        row = Row("anna", task.lesson, "", "wrong", 0, 0.0)
        for right in range(5):
            row.right, row.parts = right, 5
            assert abs(_row(row, task).points - task.points * right / 5) <= 0.05 + 1e-9
            assert _row(row, task).points == float(f"{_row(row, task).points:.1f}")


def _tasks(file):
    return tasks_in(course_folder() / "solutions" / f"{file.stem.removeprefix('test_')}.ipynb")
