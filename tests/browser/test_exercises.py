"""Exercises as a learner meets them: a stub, a wrong answer, a right one."""

import pytest

pytestmark = pytest.mark.timeout(600)  # a shared machine can be slow

NOTEBOOK = "exercises/02_scaled_dot_product_attention.ipynb"
TASKS = {  # a wrong answer, what is said to it, and a right one
    "stable_softmax": (
        "return torch.softmax(x, -1)",
        "`dim` is ignored: the softmax runs over the last axis.",
        "return torch.softmax(x, dim)",
    ),
    "attend_one": (
        "return torch.softmax(keys @ query, 0) @ values",
        "not divided by √d_k",
        "return torch.softmax(keys @ query / math.sqrt(len(query)), 0) @ values",
    ),
}


def test_an_untouched_exercise_runs_without_an_error(open_notebook):
    exercise = open_notebook(NOTEBOOK)
    exercise.screenshot("opened")
    exercise.run_all(seconds=120)
    assert exercise.errors() == []
    for task in TASKS:
        exercise.sees(f"check({task})", f"{task}: not written yet")
    exercise.screenshot_pages("page")


def test_a_wrong_answer_is_told_the_mistake_and_a_right_one_passes(open_notebook):
    exercise = open_notebook(NOTEBOOK)
    exercise.run("import math")
    for task, (wrong, diagnosis, right) in TASKS.items():
        exercise.run(f"def {task}")
        exercise.run(f"check({task})")
        exercise.sees(f"check({task})", f"{task}: not written yet")
        exercise.screenshot(f"{task}_stub", f"def {task}")

        exercise.write(f"def {task}", wrong)
        exercise.run(f"def {task}")
        exercise.run(f"check({task})")
        exercise.sees(f"check({task})", f"✗ {task}(")
        exercise.sees(f"check({task})", diagnosis)
        exercise.screenshot(f"{task}_wrong", f"def {task}")
        assert len(exercise.errors()) == 1 and "Traceback" not in exercise.errors()[0]

        exercise.write(f"def {task}", right)
        exercise.run(f"def {task}")
        exercise.run(f"check({task})")
        exercise.sees(f"check({task})", f"✓ {task}: all checks passed.")
        exercise.screenshot(f"{task}_right", f"def {task}")
        assert exercise.errors() == []
