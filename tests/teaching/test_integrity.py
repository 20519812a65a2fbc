"""Whether it is noticed that the checks were altered, and that alone."""

import builtins
import subprocess
import sys

import pytest
import torch

from course.checking import CheckFailed, check_files, course_folder, load_notebook
from course.checking import diagnosis as words
from course.checking.child import import_what_is_lazy, judge
from course.checking.course import run_checks
from course.checking.integrity import Everything, Seal, refuses_junk
from course.checking.progress import tasks_in

SOLVED = sorted((course_folder() / "solutions").glob("[0-9][0-9]_*.ipynb"))


def checks_of(path):
    return next(file for file in check_files() if file.stem == f"test_{path.stem}")


@pytest.mark.parametrize("path", SOLVED, ids=lambda path: path.stem)
def test_the_checks_of_every_task_refuse_junk_and_stay_as_they_are(path):
    """Else an honest student would be called a forger."""
    import_what_is_lazy([checks_of(path).read_text("utf-8"), path.read_text("utf-8")])
    seal, notebook = Seal(), load_notebook(path)
    for task in tasks_in(path):
        assert judge(checks_of(path), notebook, task.names) == ("passed", "", "", 0, 0)
        assert refuses_junk(checks_of(path), notebook, task.names), task.names
    assert seal.broken() == []


SOFTMAX = ("stable_softmax",)


@pytest.mark.parametrize(
    ("module", "name", "fake"),
    [
        (words, "close", lambda *_, **__: True),
        (torch, "isclose", lambda *_, **__: torch.tensor(True)),
        (builtins, "all", lambda _: True),
        (torch.Tensor, "__eq__", lambda *_: torch.tensor(True)),
    ],
)
def test_the_seal_notices_a_patch(monkeypatch, module, name, fake):
    seal = Seal()
    with monkeypatch.context() as patch:
        patch.setattr(module, name, fake)
        found = seal.broken()
    assert any(each.endswith(name) for each in found)


def test_the_seal_notices_what_was_changed_inside_a_function(monkeypatch):
    seal = Seal()
    softmax = torch.nn.functional.softmax
    with monkeypatch.context() as patch:
        patch.setattr(softmax, "__code__", (lambda input, dim=None, *_: input).__code__)
        assert "torch.nn.functional.softmax" in seal.broken()
    assert seal.broken() == []


@pytest.mark.teaching
@pytest.mark.parametrize(
    "line",
    [
        "torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)",
        "torch.compiler.disable(len)",
        "torch.func.grad(torch.sum)(torch.ones(2))",
        "from torch.utils._python_dispatch import TorchDispatchMode\n"
        "class Mode(TorchDispatchMode):\n"
        "    def __torch_dispatch__(self, f, types, args=(), kwargs=None): return f(*args)\n"
        "with Mode(): torch.ones(2).clone()",
        "from torch import func; func.jacrev(torch.sum)(torch.ones(2))",
        "torch.utils.checkpoint.checkpoint(torch.sin, torch.ones(2), use_reentrant=False)",
        "from torch.nn.attention.bias import causal_lower_right; x = torch.ones(1, 1, 2, 2); "
        "torch.nn.functional.scaled_dot_product_attention(x, x, x, causal_lower_right(2, 2))",
    ],
)
def test_what_pytorch_does_to_itself_breaks_no_seal(line):
    program = f"""
import torch
from course.checking.child import import_what_is_lazy
from course.checking.integrity import Seal
import_what_is_lazy([{line!r}])
seal = Seal()
exec({line!r})
assert seal.broken() == [], seal.broken()
"""
    subprocess.run([sys.executable, "-c", program], check=True)  # a new one: torch does it once


def test_the_canary_alone_notices_a_checker_that_accepts_everything(monkeypatch):
    path = next(path for path in SOLVED if path.stem.startswith("02"))
    notebook = load_notebook(path)
    assert refuses_junk(checks_of(path), notebook, ("attend_one",))
    monkeypatch.setattr(words, "close", lambda *_, **__: True)
    assert not refuses_junk(checks_of(path), notebook, ("attend_one",))


def test_checks_that_were_changed_while_they_ran_fail():
    path = next(path for path in SOLVED if path.stem.startswith("02"))

    def patching(query, keys, values):
        frame = sys._getframe()
        while "test_one_query_reads_what_it_should" not in frame.f_globals and frame.f_back:
            frame.f_globals.setdefault("HIDDEN", None)
            if "OVERFLOW" in frame.f_globals:
                frame.f_globals["OVERFLOW"] = ""
            frame = frame.f_back
        return torch.softmax(keys @ query / len(query) ** 0.5, 0) @ values

    objects = load_notebook(path) | {"attend_one": patching}
    with pytest.raises(CheckFailed, match="were changed while they ran"):
        run_checks(checks_of(path), objects, ["attend_one"])


@pytest.mark.parametrize("value", [0, 1, "x", [1], None, torch.zeros(2), {"a": 1}, 0.5])
def test_what_says_that_it_equals_everything_does_not(value):
    class Text(str):
        __eq__ = Everything.__eq__
        __hash__ = str.__hash__

    class Other:
        __eq__ = Everything.__eq__
        __hash__ = object.__hash__

    class Numbers(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, arguments=(), named=None):
            return torch.tensor(True)

    for answer in (Everything(7), Text("y"), Other(), torch.ones(2).as_subclass(Numbers)):
        assert not words.close(answer, value)
        assert not words.close([answer], [value])
