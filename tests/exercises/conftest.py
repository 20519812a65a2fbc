"""Gives each check the objects that its parameters name, from the notebook of its lesson.

    pytest tests/exercises                        # the solutions
    pytest tests/exercises --target work          # your own work
    pytest tests/exercises --target some/folder   # somebody's hand-in

test_02_name.py is given what 02_name.ipynb in that folder defines; in work/ it is called
02b_exercises_name.ipynb. A stub is a skip.
"""

from functools import cache
from pathlib import Path

import pytest

from course.checking import (
    NOT_WRITTEN,
    CheckFailed,
    NotWritten,
    check_files,
    checks_in,
    exercise_in,
    load_notebook,
    require_own_work,
    run_check,
    target_folder,
    task_from,
)

load = cache(load_notebook)


def pytest_addoption(parser):
    parser.addoption("--target", default="solutions", help="solutions, work or a folder")


def pytest_configure(config):
    try:
        target_folder(config.getoption("--target", "solutions"))
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None


def _fixture(task):
    @pytest.fixture(name=task)
    def live(request):
        folder = target_folder(request.config.getoption("--target", "solutions"))
        notebook = exercise_in(folder, request.path.stem.removeprefix("test_"))
        if not notebook.exists():
            pytest.skip(f"there is no {notebook.name}")
        try:
            return task_from(load(notebook), task)
        except CheckFailed as failure:
            message = str(failure)
        pytest.fail(message, pytrace=False)

    return live


for _file in check_files():
    for _task in {task for tasks in checks_in(_file).values() for task in tasks}:
        globals()[f"_{_task}"] = _fixture(_task)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Run a check as `check` runs it: same clean room, same messages, no traceback."""
    if pyfuncitem.path.parent != Path(__file__).parent:
        return None
    needs = checks_in(pyfuncitem.path)[pyfuncitem.name]
    message = skipped = ""
    try:
        run_check(pyfuncitem.obj, {name: pyfuncitem.funcargs[name] for name in needs})
        forbidden = getattr(pyfuncitem.module, "FORBIDDEN", {})
        for name in needs:
            require_own_work(name, pyfuncitem.funcargs[name], forbidden.get(name, ()))
    except NotWritten:
        skipped = NOT_WRITTEN
    except CheckFailed as failure:
        message = str(failure)
    if skipped:
        pytest.skip(skipped)
    if message:  # outside the except, or pytest would print both
        pytest.fail(message, pytrace=False)
    return True
