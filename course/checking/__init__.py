"""How a learner's answers are checked. Nothing of the model knows of it; a learner calls `check`.

What a wrong answer is told is written in `tests/exercises/`, in the words of `diagnosis.py`;
`slips.py` has advice for what anybody mistypes in any task.
`sandbox.py` calls the code of a learner on clones, `own_work.py` notices what is not the learner's,
`course.py` finds and runs the checks, `live.py` does it in a notebook; `notebooks.py` reads a
notebook without a kernel.

A whole notebook is judged in another process: `judge.py` starts `child.py` behind the walls of
`isolation.py`, hears its `records.py`, and `integrity.py` says whether the checks were left alone.
`progress.py` makes the learner's table of it.
"""

from course.checking.course import (
    CannotCheck,
    check_files,
    checks_in,
    course_folder,
    exercise_in,
    run_checks,
    target_folder,
)
from course.checking.diagnosis import CheckFailed, close, expect
from course.checking.live import check
from course.checking.notebooks import load_notebook, read_cells, task_from
from course.checking.own_work import require_own_work
from course.checking.sandbox import NOT_WRITTEN, NotWritten, run_check

__all__ = [
    "NOT_WRITTEN",
    "CannotCheck",
    "CheckFailed",
    "NotWritten",
    "check",
    "check_files",
    "checks_in",
    "close",
    "course_folder",
    "exercise_in",
    "expect",
    "load_notebook",
    "read_cells",
    "require_own_work",
    "run_check",
    "run_checks",
    "target_folder",
    "task_from",
]
