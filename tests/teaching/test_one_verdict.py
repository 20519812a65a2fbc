"""Live `check`, progress, pytest and grade say the same of one notebook.

nbgrader runs the same `check(…, graded=True)` in the notebook; `test_nbgrader.py` has its run.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "answers"))
import forty as class_
from catalogue import answers, solutions

from course.checking import check_files, checks_in, course_folder
from course.checking.child import judge
from course.checking.progress import measure
from course.grading.grade import grade

pytestmark = [pytest.mark.teaching, pytest.mark.timeout(1800)]


def attend(scale="math.sqrt(len(query))", name="attend_one"):
    """The source of an answer; it is right if `scale` is the root of the length."""
    result = f"torch.softmax(keys @ query / ({scale}), 0) @ values"
    return f"def {name}(query, keys, values):\n    return {result}"


def out_of_order():
    """Every cell has been run in an order of its own; definitions come after their checks."""

    def change(cells):
        code = [cell for cell in cells if cell["cell_type"] == "code"]
        for count, cell in enumerate(reversed(code)):
            cell["execution_count"] = count + 1
        return [code[0], *reversed(code[1:])]

    return class_.with_cells(change)


def foreign():
    notebook = class_.solved()
    notebook["metadata"] = {"kernelspec": {"name": "julia-1.9", "language": "julia"}, "colab": {}}
    error = {"output_type": "error", "ename": "NameError", "evalue": "x", "traceback": ["x"]}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"] = [error]
    return json.dumps(notebook)


CALLS_HELPER = "def attend_one(query, keys, values):\n    return helper(query, keys, values)"
HELPER, POWER = attend(name="helper"), attend("len(query) ** power")
# The cells that stand for that of attend_one, or a whole notebook; and whether it is right.
CARELESS = {
    "lower-case constant": (["root = math.sqrt", attend("root(len(query))")], True),
    "partial": (
        [
            "from functools import partial",
            f"{HELPER}\ndef general(function, *given): return function(*given)",
            "attend_one = partial(general, helper)",
        ],
        True,
    ),
    "helper above": ([HELPER, CALLS_HELPER], True),
    "helper below": ([CALLS_HELPER, HELPER], True),
    "helper deleted": ([CALLS_HELPER], False),
    "line magic": ([f"%precision 3\n!true\n{attend()}"], True),
    "cell magic": ([f"%%time\n{attend()}"], True),
    "another language": (["%%bash\necho 'x'", attend()], True),
    "shell assignment": ([f"files = !echo a\n{attend()}"], True),
    "cell deleted": ([], False),
    "second one wrong": ([attend(), attend("1")], False),
    "second one right": ([attend("1"), attend()], True),
    "out of order": (out_of_order(), True),
    "other kernel and errors in the outputs": (foreign(), True),
    "constant from a loop": (["for power in (1, 0.5): pass", POWER], True),
    "constant added to": (["power = 0", "power += 0.5", POWER], True),
    "constant overwritten below": (["power = 0.5", POWER, "power = 1"], False),
    "table filled by item": (
        ["table = {}", "table['power'] = 0.5", attend("len(query) ** table['power']")],
        True,
    ),
    "defined in an if": (
        [f"if True:\n    {attend()}".replace("\n    return", "\n        return")],
        True,
    ),
    "lambda": ([f"attend_one = lambda query, keys, values: {HELPER.split('return ')[1]}"], True),
    "a cell that fails": (["raise ValueError('unfinished')", attend()], True),
    "syntax error above it": ([f"def f(:\n\n{attend()}"], False),
    "import forgotten": ([attend("cmath.sqrt(len(query))")], False),
}
FILE = course_folder() / "tests" / "exercises" / f"test_{class_.LESSON}.py"
CHECKS = [f"{FILE}::{name}" for name, needs in checks_in(FILE).items() if "attend_one" in needs]
TEXTS = {
    name: cells if isinstance(cells, str) else class_.instead("attend_one", *cells)
    for name, (cells, _) in CARELESS.items()
}


# One of each kind is also run by pytest, whose start takes longest: each in a copy of one process.
BY_PYTEST = (
    "partial",
    "helper deleted",
    "cell magic",
    "second one wrong",
    "out of order",
    "import forgotten",
)
RUN_EACH = """
import os, sys, pytest, torch
checks, *targets = sys.argv[1:]
for target in targets:
    if not (copy := os.fork()):
        os._exit(pytest.main(["-q", *checks.split("|"), "--target", target]))
    print("status:", os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1]), flush=True)
"""


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """Folder of the submissions, and the state of `attend_one` that `grade` says, by student."""
    root = tmp_path_factory.mktemp("careless")
    class_.write(root / "in", {name: class_.one(text) for name, text in TEXTS.items()})
    assert grade(root / "in", ["02"], root / "marks", seconds=60) == 0
    rows = json.loads((root / "marks" / "marks.json").read_text("utf-8"))["rows"]
    return root / "in", {row["student"]: row for row in rows if row["task"] == "attend_one"}


@pytest.fixture(scope="module")
def by_pytest(graded):
    """Whether the checks pass when pytest runs them, by student."""
    done = subprocess.run(
        [sys.executable, "-c", RUN_EACH, "|".join(CHECKS), *(graded[0] / n for n in BY_PYTEST)],
        cwd=course_folder(),
        capture_output=True,
        text=True,
        check=True,
    )
    said = [line for line in done.stdout.splitlines() if line.startswith("status: ")]
    return {name: status == "status: 0" for name, status in zip(BY_PYTEST, said, strict=True)}


def live(text):
    """What a learner's own call of `check` says after all cells have run, and graded=True too."""
    shell = InteractiveShell()
    for cell in json.loads(text)["cells"]:
        if cell["cell_type"] == "code":
            shell.run_cell("".join(cell["source"]))
    results = [
        shell.run_cell(call).success
        for call in ("check(attend_one)", "check(attend_one, graded=True)")
    ]
    assert results[0] == results[1]
    return results[0]


@pytest.mark.parametrize("name", CARELESS)
def test_careless_notebooks_get_one_verdict(graded, by_pytest, name, capsys):
    folder, rows = graded
    right = CARELESS[name][1]
    assert live(TEXTS[name]) == right
    assert (rows[name]["state"] == "passed") == right
    (task,) = (each for each in measure(folder / name) if each.names == ("attend_one",))
    assert (task.state, task.why) == (rows[name]["state"], rows[name]["why"])
    assert by_pytest.get(name, right) == right


def test_two_definitions_are_said(graded):
    for name in ("second one wrong", "second one right"):
        first = graded[1][name]["flags"][0]
        assert first.startswith("attend_one is defined 2 times") and first.endswith("counts")


@pytest.mark.parametrize("file", check_files(), ids=lambda file: file.stem)
def test_the_catalogue_gets_from_the_engine_what_the_live_check_says(file):
    """`tests/answers/test_answers.py` holds what the live check says of each entry."""
    for answer in answers():
        if answer.lesson != file.stem.removeprefix("test_"):
            continue
        notebook = {**solutions(answer.lesson), answer.task: answer.answer}
        state, _, message, *_ = judge(file, notebook, [answer.task])
        assert (state == "passed") == (answer.words is None), answer
        assert all(words in message for words in answer.words or ()), answer
