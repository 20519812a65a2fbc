"""A mistake counts once, in every sheet: the dependencies are found in the reference solutions."""

import re

import pytest

from course.checking import check_files, course_folder, read_cells
from course.checking.child import MISSING, PASSED, WRONG, _given, judge
from course.checking.judge import ENDED, STOPPED, Outcome
from course.checking.notebooks import load_cells
from course.checking.progress import tasks_in
from course.checking.sandbox import NOT_WRITTEN
from course.grading.once import counted_once, needed_by

CHECKS = {file.stem.removeprefix("test_"): file for file in check_files()}
CELLS, TASKS = {}, {}
for path in sorted((course_folder() / "solutions").glob("[0-9][0-9]_*.ipynb")):
    CELLS[path.stem] = read_cells(path)
    TASKS[path.stem] = [task.names for task in tasks_in(path)]
DEPENDENCIES = [  # (lesson, the names of the task, what it needs of another one)
    (lesson, names, other)
    for lesson, tasks in TASKS.items()
    for names in tasks
    for other in sorted(needed_by(CELLS[lesson], CHECKS[lesson], names))
    if other in {name for task in tasks if task != names for name in task}
]
BODIES = {
    "wrong": "return args[0]",
    "stopped": "raise RuntimeError('stopped')",
    "not written": "raise NotImplementedError",
    "loop": "while True: pass",
    "end of Python": "import os; os._exit(3)",
}


def broken(lesson, name, how):
    """The cells of the solution, with another `name`."""
    body = "" if how == "missing" else f"def {name}(*args, **_):\n    {BODIES[how]}"
    return [
        (
            kind,
            re.sub(rf"^(def|class) {name}\b.*?(?=^\S|\Z)", f"{body}\n", source, flags=re.M | re.S),
        )
        for kind, source in CELLS[lesson]
    ]


def judged(lesson, cells, names, given=()):
    job = {"given": given, "reference": CELLS[lesson], "name": lesson}
    return Outcome(*judge(CHECKS[lesson], load_cells(cells, lesson, given=_given(job)), names))


def test_the_dependencies_that_a_reader_sees_are_found():
    assert ("02_scaled_dot_product_attention", ("attend_one",), "stable_softmax") in DEPENDENCIES
    assert ("03_multi_head_attention", ("MultiHeadAttention",), "merge_heads") in DEPENDENCIES
    assert ("12_beyond_translation", ("patchify",), "unpatchify") in DEPENDENCIES  # by its check


@pytest.mark.parametrize("how", ["missing", *BODIES])
@pytest.mark.parametrize(("lesson", "names", "needs"), DEPENDENCIES)
def test_what_a_task_needs_costs_it_nothing(lesson, names, needs, how):
    cells, tasks = broken(lesson, needs, how), TASKS[lesson]
    own, other = tasks.index(names), next(n for n, task in enumerate(tasks) if needs in task)
    failed = {own: Outcome(STOPPED), other: Outcome(ENDED)}
    outcomes = [failed.get(number, Outcome(PASSED)) for number in range(len(tasks))]

    def judge_with(task, given):
        assert needs not in task or names[0] in given  # unpatchify needs patchify, too
        return judged(lesson, cells, task, given) if task == names else Outcome(WRONG)

    after = counted_once(outcomes, cells, CHECKS[lesson], tasks, judge_with)
    assert after[own].state == PASSED and after[other].state != PASSED
    assert f"your {needs}" in after[own].message or f" and {needs}" in after[own].message
    assert "costs its own points only" in after[own].message or "their own" in after[own].message


def test_who_has_a_mistake_of_his_own_keeps_it_and_is_told_that_one():
    lesson = "02_scaled_dot_product_attention"
    source = (
        "def attend_one(query, keys, values):\n    return stable_softmax(keys @ query, 0) @ values"
    )
    cells = [*broken(lesson, "stable_softmax", "stopped"), ("code", source)]
    tasks = [("stable_softmax",), ("attend_one",)]
    outcomes = [judged(lesson, cells, names) for names in tasks]
    after = counted_once(
        outcomes, cells, CHECKS[lesson], tasks, lambda *task: judged(lesson, cells, *task)
    )
    assert [each.state for each in after] == [WRONG, WRONG]
    assert "in the place of your stable_softmax" in after[1].message
    assert (
        "√d_k" in after[1].message or "sqrt" in after[1].message
    )  # what is wrong in its own lines


def never(own, given):
    raise AssertionError(f"{own} was judged again")


@pytest.mark.parametrize("state", [MISSING, WRONG, NOT_WRITTEN])
def test_nothing_is_judged_again_where_nothing_else_has_failed(state):
    lesson = "02_scaled_dot_product_attention"
    outcomes = [Outcome(PASSED), Outcome(state, "own")]
    tasks = [("stable_softmax",), ("attend_one",)]
    assert counted_once(outcomes, CELLS[lesson], CHECKS[lesson], tasks, never) == outcomes


def test_a_body_that_is_empty_is_not_tried_again():
    lesson = "02_scaled_dot_product_attention"
    outcomes = [Outcome(WRONG, "own"), Outcome(NOT_WRITTEN)]
    tasks = [("stable_softmax",), ("attend_one",)]
    assert counted_once(outcomes, CELLS[lesson], CHECKS[lesson], tasks, never) == outcomes


def test_without_a_reference_the_message_says_so_and_the_state_stays():
    lesson = "02_scaled_dot_product_attention"
    tasks = [("stable_softmax",), ("attend_one",)]
    outcomes = [Outcome(WRONG, "one", "all of one"), Outcome(WRONG, "two", "all of two")]
    first, second = counted_once(outcomes, CELLS[lesson], CHECKS[lesson], tasks, None)
    assert first == outcomes[0] and (second.state, second.why) == (WRONG, "two")
    assert "This task needs your stable_softmax, which failed, too." in second.message
    assert "graded without the course's solutions" in second.message
    assert second.message.endswith("all of two")


def test_each_other_task_that_is_needed_is_named():
    lesson = "03_multi_head_attention"
    tasks = [("split_heads",), ("merge_heads",), ("MultiHeadAttention",)]
    outcomes = [Outcome(WRONG, "own") for _ in tasks]
    after = counted_once(outcomes, CELLS[lesson], CHECKS[lesson], tasks, None)
    assert after[2].message.startswith("This task needs your merge_heads and split_heads, which")
    assert after[2].message.endswith("\n\nown")
    again = counted_once(outcomes, CELLS[lesson], CHECKS[lesson], tasks, lambda *_: Outcome(PASSED))
    assert (
        again[2].state == PASSED and "wrong there costs their own points only" in again[2].message
    )
    one = counted_once(
        outcomes[1:], CELLS[lesson], CHECKS[lesson], tasks[1:], lambda *_: outcomes[0]
    )
    assert "your merge_heads: what is wrong there costs its own points only." in one[1].message


def test_what_stands_in_a_text_needs_nothing():
    lesson = "02_scaled_dot_product_attention"
    line = "attend_one = stable_softmax"
    for kind, needs in (("code", True), ("markdown", False)):
        found = needed_by([(kind, line)], CHECKS[lesson], ("attend_one",))
        assert ("stable_softmax" in found) == needs
