"""Forty submissions to lesson 02: honest, careless and hostile, and what becomes of them.

A submission is the exercise with its bodies filled in from the solutions, and something changed.
"""

import copy
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from course.checking import course_folder

LESSON = "02_scaled_dot_product_attention"
TASKS = (
    *("predicted_outputs", "stable_softmax", "attend_one", "scaled_dot_product_attention"),
    *("attention_gradient", "repaired_attention"),
)
PASSED, WRONG, MISSING = "passed", "wrong", "missing"
STOPPED, ENDED, ALTERED = "out of time", "ended its process", "checker altered"
UNREADABLE = "unreadable"
RIGHT = (
    "softmax = torch.softmax(keys @ query / math.sqrt(len(query)), 0)\n    return softmax @ values"
)


def solved() -> dict:
    """Return the notebook of somebody who has solved everything."""
    path = course_folder() / "solutions" / f"{LESSON}.ipynb"
    notebook = json.loads(path.read_text("utf-8"))
    for cell in notebook["cells"]:
        lines = [line for line in cell["source"] if "### " not in line or "SOLUTION" not in line]
        cell["source"] = lines
    return notebook


def code_cell(source: str) -> dict:
    return {"cell_type": "code", "metadata": {}, "source": source, "outputs": []}


def with_cells(change: Callable[[list[dict]], list[dict]]) -> str:
    notebook = solved()
    notebook["cells"] = change(copy.deepcopy(notebook["cells"]))
    return json.dumps(notebook)


def defines(cell: dict, task: str) -> bool:
    return cell["cell_type"] == "code" and f"def {task}(" in "".join(cell["source"])


def instead(task: str, *sources: str) -> str:
    """Return a solved notebook in which other cells stand for the one that defines a task."""
    return with_cells(
        lambda cells: [
            new
            for cell in cells
            for new in (map(code_cell, sources) if defines(cell, task) else [cell])
        ]
    )


def attend(body: str, before: str = "") -> str:
    """Return a solved notebook whose `attend_one` has this body (4 spaces on further lines)."""
    return instead(
        "attend_one",
        f"import os, sys, time\n{before}\ndef attend_one(query, keys, values):\n    {body}",
    )


def also(*sources: str) -> str:
    """Return a solved notebook with more cells after the imports."""
    return with_cells(lambda cells: [*cells[:2], *map(code_cell, sources), *cells[2:]])


@dataclass
class HandIn:
    """What a student hands in: text or bytes by file name, and the states that are expected."""

    files: Mapping[str, str | bytes]
    states: tuple[str, ...]
    flags: tuple[str, ...] = ()  # words that must be in the flags
    link: tuple[str, str] | None = None
    name: str = field(default="")


def of(states: str | dict[int, str] = PASSED) -> tuple[str, ...]:
    """Return six states: all the same, or passed but for those that are given."""
    if isinstance(states, str):
        return (states,) * len(TASKS)
    return tuple(states.get(number, PASSED) for number in range(len(TASKS)))


def one(
    text: str | bytes,
    states: str | dict[int, str] = PASSED,
    *flags: str,
    file: str = f"{LESSON}.ipynb",
) -> HandIn:
    return HandIn({file: text}, of(states), flags)


def forty(outside: Path, port: int) -> dict[str, HandIn]:
    """Return a submission for each student's name.

    `outside` is a folder that they try to read and to change, `port` one of this computer that
    they try to reach.
    """
    # What a learner writes among the temporary files is not reported; a course may lie there.
    in_temporary_files = course_folder().is_relative_to(tempfile.gettempdir())
    other = outside / "other" / f"{LESSON}.ipynb"
    solution = course_folder() / "solutions" / f"{LESSON}.ipynb"
    altered_until = {0: ALTERED, 1: ALTERED, 2: ALTERED}
    return (
        honest()
        | careless(outside)
        | {
            "endless loop": one(attend("while True: pass"), {2: STOPPED}),
            "bare except": one(
                attend("while True:\n        try: time.sleep(1)\n        except: pass"),
                {2: STOPPED},
            ),
            "long call in C": one(attend("return sum(range(10**14))"), {2: STOPPED}),
            "_exit": one(attend("os._exit(0)"), {2: ENDED}, "_exit"),
            "sys exit": one(attend("sys.exit(0)"), {2: WRONG}),
            "KeyboardInterrupt": one(attend("raise KeyboardInterrupt"), {2: WRONG}),
            "BaseException": one(
                attend("raise Stop", "class Stop(BaseException): pass"), {2: WRONG}
            ),
            "segfault": one(attend("import ctypes; ctypes.string_at(0)"), {2: ENDED}, "ctypes"),
            "20 GB": one(attend("return torch.ones(5 * 2**30).sum() * values[0]"), {2: WRONG}),
            "gigabytes of output": one(
                attend(f"for _ in range(256): print('x' * 2**20)\n    {RIGHT}"), PASSED
            ),
            "fork bomb": one(
                attend("while True:\n        try: os.fork()\n        except OSError: pass"),
                {2: ENDED},
                "fork",
            ),
            "threads": one(
                attend(
                    f"threading.Thread(target=lambda: time.sleep(9999)).start()\n    {RIGHT}",
                    "import threading",
                )
            ),
            "network": one(
                attend(
                    f"socket.create_connection(('127.0.0.1', {port})).send(b'!')\n    {RIGHT}",
                    "import socket",
                ),
                {2: WRONG},
                "the network",
                "wanted a network",
            ),
            "others' files": one(
                attend(
                    f"shutil.rmtree({str(outside)!r}, ignore_errors=True)\n"
                    f"    open({str(other)!r}).read()\n    {RIGHT}",
                    "import shutil",
                ),
                {2: WRONG},
                "rmtree",
            ),
            "outside": one(
                attend(f"open({str(course_folder() / 'new')!r}, 'w').write('!')\n    {RIGHT}"),
                {2: WRONG},
                *([] if in_temporary_files else ["wanted files outside"]),
            ),
            "reads solutions": one(
                instead(
                    "attend_one",
                    "from course.checking import load_notebook\n"
                    f"THEIRS = load_notebook({str(solution)!r})\nattend_one = THEIRS['attend_one']",
                ),
                {2: WRONG},
                "imports course.checking",
                "solutions/",
            ),
            "package's answer": one(
                instead(
                    "scaled_dot_product_attention",
                    "from transformer_lab import scaled_dot_product_attention",
                ),
                {3: WRONG},
                "imports the answer",
            ),
            "own check": one(
                instead(
                    "attend_one",
                    "def check(*_, **__): print('all checks passed')",
                    "def attend_one(query, keys, values): return values[0]",
                ),
                {2: WRONG},
                "defines check",
            ),
            "patches diagnosis": one(
                also(
                    "from course.checking import diagnosis\n"
                    "DONE = setattr(diagnosis, 'close', lambda *_: True)"
                ),
                ALTERED,
                "setattr",
            ),
            "patches torch": one(
                also("DONE = setattr(torch, 'isclose', lambda a, *_, **__: torch.ones(1).bool())"),
                ALTERED,
            ),
            "patches builtins": one(
                also("import builtins\nDONE = setattr(builtins, 'all', lambda *_: True)"),
                ALTERED,
            ),
            "patches the frame": one(
                attend(
                    "frame = sys._getframe()\n    while 'expect' not in frame.f_globals: "
                    "frame = frame.f_back\n"
                    "    frame.f_globals['expect'] = lambda *_, **__: None\n    return values[0]"
                ),
                altered_until,
                "_getframe",
            ),
            "equals everything": one(
                attend(
                    "return Mine(7)",
                    "class Mine(int):\n    __hash__ = int.__hash__\n"
                    "    def __eq__(self, other): return True",
                ),
                {2: WRONG},
                "says itself what it equals",
            ),
            "writes into the pipe": one(
                attend(
                    "for pipe in range(3, 20):\n        try: os.write(pipe, b'{}\\n')\n"
                    "        except OSError: pass\n    return values[0]"
                ),
                altered_until,
            ),
        }
    )


def honest() -> dict[str, HandIn]:
    """Return the submissions that deserve full points."""
    # At the first optimizer PyTorch puts functions of its own in the place of some of torch's.
    helper = (
        "torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)\n"
        "    return shared(query, keys, values)"
    )
    cells = {
        "Anna": one(json.dumps(solved())),
        "Ben": one(
            instead(
                "attend_one",
                "from functools import partial\nroot = math.sqrt\n"
                "def general(scale, query, keys, values):\n"
                "    return torch.softmax(keys @ query / scale(len(query)), 0) @ values\n"
                "attend_one = partial(general, root)",
            )
        ),
        "Chloé": one(attend(helper, f"def shared(query, keys, values):\n    {RIGHT}")),
        "Frank Foster_4711_assignsubmission_file_": one(
            json.dumps(solved()), file=f"{LESSON} (1).ipynb"
        ),
        "Gi\u200bna": one(json.dumps(solved()), PASSED, "invisible characters"),
        "Hugo": one(
            json.dumps(solved()), PASSED, "was recognised as", file="my homework final.ipynb"
        ),
    }
    return cells


def careless(outside: Path) -> dict[str, HandIn]:
    """Return the submissions of those who were in a hurry."""
    changed = with_cells(  # one check cell only says that all is well, the others are gone
        lambda cells: [
            code_cell("print('✓ attend_one: all checks passed.')")
            if "".join(c["source"]) == "check(attend_one)"
            else c
            for c in cells
            if not "".join(c["source"]).startswith("check(stable_softmax")
        ]
    )
    exercise = (course_folder() / "exercises" / f"{LESSON}.ipynb").read_text("utf-8")
    return {
        "stubs": one(exercise, "not written yet"),
        "two definitions": one(
            also("def attend_one(query, keys, values): return 0"), PASSED, "is defined 2 times"
        ),
        "changed checks": one(changed, PASSED, "no check of attend_one", "no check of stable_"),
        "missing cell": one(instead("attend_one"), {2: MISSING}),
        "syntax error": one(instead("attend_one", "def attend_one(query:"), {2: WRONG}),
        "damaged": one(json.dumps(solved())[:-40], UNREADABLE),
        "empty": one("", UNREADABLE),
        "200 MB": one(b'{"cells": [' + b" " * 200_000_000 + b"]}", UNREADABLE),
        "another course": one(
            json.dumps({"cells": [code_cell("def fibonacci(n): return n")]}),
            MISSING,
            "is no notebook of these lessons",
        ),
        "link": HandIn(
            {}, of(UNREADABLE), link=(f"{LESSON}.ipynb", str(outside / "other" / f"{LESSON}.ipynb"))
        ),
    }


def write(folder: Path, hand_ins: Mapping[str, HandIn]) -> None:
    """Write each submission into a folder of its student's name."""
    for student, hand_in in hand_ins.items():
        (folder / student).mkdir(parents=True)
        for name, content in hand_in.files.items():
            raw = content if isinstance(content, bytes) else content.encode()
            (folder / student / name).write_bytes(raw)
        if hand_in.link:
            os.symlink(hand_in.link[1], folder / student / hand_in.link[0])
