"""The checking machinery itself: what a learner is told, and what is left untouched."""

import ast
import functools
import json
import math
import random
import re

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import transformer_lab
from course.checking import (
    CannotCheck,
    CheckFailed,
    check,
    check_files,
    close,
    expect,
    load_notebook,
    read_cells,
    run_checks,
    target_folder,
    task_from,
)
from course.checking import course as course_module
from course.checking.diagnosis import (
    expect_error,
    expect_learning,
    expect_no_memory,
    expect_predictions,
    random_weights,
)
from course.checking.notebooks import load_cells
from course.checking.own_work import require_own_work
from course.checking.progress import tasks_in
from course.checking.sandbox import NOT_WRITTEN, NotWritten, is_library, run_check

EXERCISES = sorted((course_module.course_folder() / "exercises").glob("*.ipynb"))


def why(actual, expected, *arguments, **options):
    with pytest.raises(CheckFailed) as failure:
        expect(actual, expected, *arguments, **options)
    return failure.value.why


ONES = torch.ones(2, 3)
RANDOM = torch.arange(6.0).reshape(2, 3).sin() + 2


# ---- expect: what is wrong, in this order


@pytest.mark.parametrize(
    ("actual", "expected", "words"),
    [
        (None, ONES, "The result is None. Is a `return` missing?"),
        (ONES.numpy(), ONES, "is a NumPy array, expected a tensor"),
        (ONES, ONES.numpy(), "is a tensor, expected a NumPy array"),
        ([1.0], ONES, "is a list of 1, expected a tensor"),
        (torch.ones(3), ONES, "shape (3,), expected (2, 3)"),
        (torch.tensor(1.0), ONES, "shape (), expected (2, 3)"),
        (RANDOM.T, RANDOM, "axes 0 and 1 are swapped"),
        (ONES.long(), ONES, "holds torch.int64, expected torch.float32"),
        (ONES, ONES.bool(), "holds torch.float32, expected torch.bool"),
        (ONES.to(torch.complex64), ONES, "holds torch.complex64"),
        (np.array([[{}]]), ONES.numpy(), "holds object"),
        (ONES / 0 * 0, ONES, "is NaN at [0, 0]. NaN comes from 0/0"),
        (2 * RANDOM, RANDOM, "Each is 2 times what it should be"),
        (torch.stack([RANDOM[0], RANDOM[0]]), RANDOM, "The first along axis 0 is right"),
        (RANDOM + torch.eye(2, 3), RANDOM, "is 3 at [0, 0], expected 2; 2 of 6 numbers differ"),
        (torch.tensor(3.0), torch.tensor(1.0), "is 3 at [], expected 1"),
        ((ONES,), (ONES, RANDOM), "It returned a tuple of 1, expected 2 results: (a, b)"),
        (ONES, (ONES, RANDOM), "It returned a tensor, expected 2 results: (a, b)"),
        ((RANDOM, ONES), (ONES, RANDOM), "in the wrong order: return (a, b)"),
        ((ONES, None), (ONES, RANDOM), "b is None"),
        ((ONES, 2 * RANDOM), (ONES, RANDOM), "b is "),
        (7, 8, "is 7, expected 8"),
        (0.12341, 0.12342, "is 0.12341, expected 0.12342"),
        (torch.tensor(0.12336), torch.tensor(0.12342), "is 0.12336 at [], expected 0.12342"),
        ("7", 7, "is '7' (str), expected a number"),
        (float("nan"), 7, "is nan, expected 7"),
        ([(1, 2)], [(1, 3)], "is [(1, 2)], expected [(1, 3)]"),
        (torch.tensor([1, 2]), [1, 2], "is [1, 2]"),
        ({"w": ONES}, {"w": RANDOM}, "['w'] is "),
        ({"v": ONES}, {"w": ONES}, "has"),
        ([ONES], {"w": ONES}, "expected a dict"),
    ],
)
def test_a_wrong_answer_is_described(actual, expected, words):
    assert words in why(actual, expected, names=("a", "b") if isinstance(expected, tuple) else ())


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        (ONES.double(), ONES),
        (ONES.half(), ONES),
        (ONES, ONES.double()),
        (nn.Parameter(ONES), ONES),
        (ONES.expand(2, 3).T.contiguous().T, ONES),
        ([ONES, RANDOM], (ONES, RANDOM)),
        (ONES.numpy()[::-1, ::-1], ONES.numpy()),
        (ONES.numpy().astype(np.longdouble), ONES.numpy()),
        (ONES.int(), ONES.long()),
        (np.float32(0.5), 0.5),
        (torch.tensor(3), 3),
        (np.bool_(True), True),
        ([[1, 2], [3, 4]], [(1, 2), (3, 4)]),
        ({"w": ONES.double()}, {"w": ONES}),
        (torch.tensor([-torch.inf, 1]), torch.tensor([-torch.inf, 1])),
    ],
)
def test_an_answer_in_another_form_is_accepted(actual, expected):
    expect(actual, expected)
    assert close(actual, expected)


def test_shapes_are_never_broadcast():
    assert not close(torch.ones(1, 3), ONES) and not close(torch.tensor(1.0), ONES)
    assert not close(torch.ones(2, 3, 1), ONES)


def test_the_known_mistake_is_named_and_only_then_the_rest():
    mistakes = {"it is 0.": 0 * ONES, "it is doubled.": lambda: 2 * ONES}
    assert why(2 * ONES, ONES, mistakes) == "This is the answer when it is doubled."
    assert "Each is 3 times" in why(3 * ONES, ONES, mistakes)


def test_a_mistake_that_these_shapes_do_not_allow_is_passed_over():
    mistakes = {"no.": lambda: ONES @ ONES, "yes.": lambda: ONES + 1}
    assert why(ONES + 1, ONES, mistakes).endswith("yes.")


def test_a_mistake_that_explains_one_of_two_results_is_named():
    mistakes = {"b is doubled.": (RANDOM, 2 * RANDOM)}
    assert "b is doubled" in why((ONES, 2 * RANDOM), (ONES, RANDOM), mistakes)


def test_a_mistake_that_explains_everything_goes_before_one_that_explains_a_part():
    mistakes = {"one.": (RANDOM, 2 * RANDOM), "both.": (3 * ONES, 2 * RANDOM)}
    assert why((3 * ONES, 2 * RANDOM), (ONES, RANDOM), mistakes).endswith("when both.")
    del mistakes["both."]
    said = why((3 * ONES, 2 * RANDOM), (ONES, RANDOM), mistakes, names=("a", "b"))
    assert said == "b is what comes out when one."


def test_only_just_wrong_is_not_taken_for_moved():
    near = torch.ones(3, 3)
    near[0, 1] += 0.0003
    assert why(near, torch.ones(3, 3)).endswith("1 of 9 numbers differ.")


def test_a_mistake_that_explains_one_of_many_results_is_not_named():
    expected = tuple(k * ONES for k in range(1, 6))
    actual, mistake = (9 * ONES, 7 * ONES, *expected[2:]), (9 * ONES, *expected[1:])
    said = why(actual, expected, {"chance.": mistake})
    assert "chance" not in said


def test_a_hint_is_added_to_numbers_that_nothing_explains_and_only_to_them():
    assert why(RANDOM, ONES, hint=lambda x: f"Sum {x.numel()}.").endswith("differ. Sum 6.")
    assert "Sum" not in why(ONES.T, ONES, hint=lambda x: "Sum")
    assert "Sum" not in why(2 * ONES, ONES, {"twice.": 2 * ONES}, hint=lambda x: "Sum")


def test_nan_is_explained_and_not_taken_for_a_mistake_that_also_gives_nan():
    bad = ONES / 0 * 0
    assert "because" in why(bad, ONES, {"something else.": bad}, nan="because")


def test_predictions_are_corrected_without_giving_the_answer_away():
    right, hints = {"a": 42, "b": (2, 3)}, {"a": {7: "seven!", None: "no"}, "b": {None: "hm"}}
    expect_predictions([42.0, [2, 3]], right, hints)
    quoted = "a is not '42'. The number is right: write it without quotation marks."
    for answers, words in (
        *(([7, 0], "a is not 7. seven!"), ([42, (3, 2)], "b is not (3, 2). hm")),
        *((["42", 0], quoted), (["7", 0], "a is not '7'. no"), (["x", 0], "a is not 'x'. no")),
    ):
        with pytest.raises(CheckFailed) as failure:
            expect_predictions(answers, right, hints)
        assert failure.value.why == words
    for answers in (None, 7, [1], "ab", object()):
        with pytest.raises(CheckFailed, match=r"expected 2 answers: \[a, b\]|a is not"):
            expect_predictions(answers, right, hints)


def test_an_error_that_should_come_is_asked_for():
    expect_error(ValueError, "of this.", int, "x")
    with pytest.raises(CheckFailed, match=r"returned 3; it should raise ValueError: of this\."):
        expect_error(ValueError, "of this.", int, "3")


def test_parameters_are_checked_by_name_and_shape_and_then_filled():
    layer = nn.Linear(3, 2)
    weights = random_weights(layer, {"weight": (2, 3), "bias": (2,)})
    assert torch.equal(layer.weight, weights["weight"]) and weights["weight"].std() > 0.1
    for shapes in ({"weight": (2, 3)}, {"weight": (3, 2), "bias": (2,)}, {"w": (1,)}):
        with pytest.raises(CheckFailed, match="keep `__init__` as it was given"):
            random_weights(layer, shapes)
    with pytest.raises(CheckFailed, match="should be an nn"):
        random_weights(None, {})


def test_each_parameter_must_learn_and_be_its_own():
    shapes = {"0.weight": (2, 2), "1.weight": (2, 2)}

    def layers():
        return nn.Sequential(*(nn.Linear(2, 2, bias=False) for _ in range(2)))

    random_weights(layers(), shapes)
    frozen, buffer, shared = layers(), layers(), layers()
    frozen[1].weight.requires_grad_(False)
    del buffer[1].weight
    buffer[1].register_buffer("weight", torch.ones(2, 2))
    shared[1].weight = shared[0].weight
    for module, words in (
        (frozen, "1.weight cannot learn"),
        (buffer, "1.weight cannot learn"),
        (shared, "0.weight is the same parameter as 1.weight"),
    ):
        with pytest.raises(CheckFailed, match=words):
            random_weights(module, shapes)


class Double(nn.Module):
    """Twice x W."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(3, 3))

    def forward(self, x):
        return 2 * x @ self.w


def test_a_module_must_pass_the_right_gradient_to_its_parameters_and_its_inputs():
    x = torch.randn(2, 3)

    def learning(module):
        expect_learning(module, lambda x: 2 * x @ module.w, x=x)

    learning(Double())
    deaf = Double()
    for forward, words in (
        (lambda x: x @ deaf.w + (x @ deaf.w).detach(), "gradient of w is .* way to it cut"),
        (lambda x: 2 * x.detach() @ deaf.w, "No gradient comes through to x"),
        (lambda x: 2 * x @ deaf.w.detach(), "w gets no gradient, so it cannot learn"),
        (lambda x: (2 * x @ deaf.w).detach(), "cut off from the weights"),
        (lambda x: 2 * x @ deaf.w.relu(), "The result is .* The module is in train mode here"),
    ):
        deaf.forward = forward
        with pytest.raises(CheckFailed, match=words):
            learning(deaf)


def test_a_call_must_not_remember_another():
    kept, calls = [], []

    def first(x):
        kept.append(x)
        return 2 * kept[0]

    def counting(x):
        calls.append(x)
        return 2 * x if len(calls) == 1 else 0 * x

    def into_one(x, out=torch.zeros(2)):  # noqa: B008
        return torch.mul(x, 2, out=out)

    pair = (torch.tensor([1.0, 2]),), (torch.tensor([3.0, 5]),)
    expect_no_memory(lambda x: 2 * x, lambda x: 2 * x, *pair)
    expect_no_memory(lambda x: 3 * x, lambda x: 2 * x, *pair)  # for other checks
    for answer, words in (
        (first, "wrong after one with other numbers"),
        (counting, "The same call gave two answers"),
        (into_one, "both gave out the same object"),
    ):
        with pytest.raises(CheckFailed, match=words):
            expect_no_memory(answer, lambda x: 2 * x, *pair)


# ---- run_check: what happens around a call


def message(test, **objects):
    with pytest.raises(CheckFailed) as failure:
        run_check(test, objects)
    return str(failure.value)


def test_the_message_names_the_call_with_its_shapes():
    def test(f):
        expect(f(torch.zeros(2, 3), torch.tensor([1.0, 2.5]), flag=True), 1)

    said = message(test, f=lambda x, y, flag: 0)
    assert said == "✗ f(x (2, 3), y [1, 2.5], flag True)\nThe result is 0, expected 1."


def test_the_call_that_gave_the_result_is_named_and_not_the_last():
    def test(f):
        first, _ = f(1), f(2)
        expect(first, 0)

    assert "f(x 1)" in message(test, f=lambda x: [x])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (ONES.to_sparse, "a sparse tensor, expected an ordinary one: .to_dense() makes it one"),
        (lambda: torch.nested.nested_tensor([ONES]), "a nested tensor, expected an ordinary one"),
        (lambda: torch.masked.masked_tensor(ONES, ONES > 0), "a MaskedTensor, expected"),
        (lambda: torch.quantize_per_tensor(ONES, 0.1, 0, torch.quint8), "a quantized tensor"),
        (lambda: (0, ONES.to("meta")), "a tensor without numbers, expected an ordinary one"),
    ],
)
def test_a_tensor_that_is_not_an_ordinary_one_is_named(make, words):
    assert f"It returned {words}" in message(lambda f: expect(f(), ONES), f=lambda: make())


@pytest.mark.parametrize(
    "value", [torch.ones(2), np.ones(2), [1, 2], {"a": torch.ones(2)}, ([1], 2)], ids=type
)
def test_an_input_that_is_changed_is_named_and_the_test_keeps_its_own(value):
    def spoil(x):
        if isinstance(x, dict):
            x["a"] += 1
        elif isinstance(x, tuple):
            x[0].append(1)
        else:
            x[0] = 9

    before = repr(value)
    assert "changed its argument x" in message(lambda f: f(value), f=spoil)
    assert repr(value) == before


def test_gradients_flow_through_the_clones():
    x = torch.ones(2, requires_grad=True)
    run_check(lambda f: f(x).backward(), {"f": lambda x: (2 * x).sum()})
    assert torch.equal(x.grad, torch.full((2,), 2.0))


def test_methods_of_a_class_are_watched_and_state_dict_is_not_touched():
    class Layer(nn.Linear):
        def forward(self, x):
            x += 1
            return x

    def test(layer):
        random_weights(layer(3, 2), {"weight": (2, 3), "bias": (2,)})
        layer(3, 2)(torch.zeros(4, 3))

    said = message(test, layer=Layer)
    assert said.startswith("✗ layer.forward(x (4, 3))") and "changed its argument x" in said


def new_parameter(module):
    module.w = nn.Parameter(module.w.detach().clone())


def one_more(module):
    module.v = nn.Parameter(torch.ones(1))


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda module: torch.set_default_dtype(torch.float64), "torch's default dtype"),
        (lambda module: torch.set_grad_enabled(False), "switched gradients on or off"),
        (lambda module: module.eval(), "changed the mode of self, train or eval"),
        (lambda module: module.part.eval(), "changed the mode of self.part, train or eval"),
        (lambda module: module.requires_grad_(False), "requires_grad of self.w: what is frozen"),
        (new_parameter, "another parameter in the place of self.w"),
        (lambda module: module.w.data.add_(2), "the numbers that are stored in self.w"),
        (one_more, "gave the module a new parameter"),
    ],
)
def test_a_call_must_leave_settings_modes_and_parameters_alone(spoil, words):
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.w, self.part = nn.Parameter(torch.ones(3)), nn.Dropout()
            self.reset()

        def reset(self):  # may change parameters: it is no forward
            self.w.data.zero_()

        def forward(self, x):
            spoil(self)
            return x

    assert words in message(lambda layer: layer()(1), layer=Layer)


def test_a_function_must_leave_the_mode_of_its_models_alone():
    models = [nn.Linear(2, 2) for _ in range(2)]
    run_check(lambda f: f(*models), {"f": lambda one, other: one.weight.data.zero_()})
    said = message(lambda f: f(*models), f=lambda one, other: other.eval())
    assert "changed the mode of other, train or eval" in said
    said = message(lambda f: f(*models), f=lambda one, other: one.requires_grad_(False))
    assert "changed requires_grad of one.weight" in said


def test_an_error_in_the_learners_code_shows_the_line_and_not_ours():
    def broken(x):
        return x.nothing

    said = message(lambda f: f(1), f=broken)
    assert "    return x.nothing\nAttributeError: " in said and "Traceback" not in said


def test_a_wrong_signature_is_said():
    said = message(lambda f: f(1, 2), f=lambda x: x)
    assert "f(x) cannot be called like this" in said and "f(1, 2)" in said


def test_a_wrong_signature_of_a_method_is_said_without_self():
    class Layer:
        def forward(self, x):
            return x

    said = message(lambda layer: layer().forward(1, 2), layer=Layer)
    assert said.startswith("✗ layer.forward(1, 2)\nlayer.forward(x) cannot be called")


def test_something_that_cannot_be_called_is_said():
    assert "f is 3; it should be a function" in message(lambda f: None, f=3)


def test_a_built_in_can_be_checked():
    run_check(lambda f: expect(f(ONES, 1), F.softmax(ONES, 1)), {"f": torch.softmax})


def test_the_learners_random_state_and_settings_are_left_as_they_were():
    def test(f):
        assert torch.is_grad_enabled() and torch.get_default_dtype() == torch.float32
        f()

    def draw():
        random.random(), np.random.rand(), torch.rand(1)
        torch.set_default_dtype(torch.float16)
        raise KeyError

    states = random.getstate(), np.random.get_state()[1].copy(), torch.get_rng_state()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.no_grad():
            message(test, f=draw)
            assert not torch.is_grad_enabled()
        assert torch.get_default_dtype() == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert random.getstate() == states[0] and (np.random.get_state()[1] == states[1]).all()
    assert torch.equal(torch.get_rng_state(), states[2])


def test_every_check_sees_the_same_numbers():
    seen = []
    for _ in range(2):
        run_check(
            lambda: seen.append((random.random(), np.random.rand(), torch.rand(1).item())), {}
        )
    assert seen[0] == seen[1]


# ---- check, on a course of its own


@pytest.fixture
def course(tmp_path, monkeypatch):
    """A course with two lessons, in the place of ours."""
    folder = tmp_path / "tests" / "exercises"
    folder.mkdir(parents=True)
    (folder / "test_01_pair.py").write_text(
        "def test_left(left): assert left(1) == 0, 'Left is one less.'\n"
        "def test_both(left, right): assert right(left(1)) == 1, 'They undo each other.'\n"
        "def test_right(right): assert right(1) == 2, 'Right is one more.'\n"
    )
    (folder / "test_02_other.py").write_text("def test_right(right): assert right(1) == 3\n")
    monkeypatch.setattr(course_module, "course_folder", lambda: tmp_path)
    return tmp_path


def left(x):
    return x - 1


def right(x):
    return x + 1


def stub(x):
    raise NotImplementedError(NOT_WRITTEN)


def test_check_runs_what_it_can_supply_and_takes_the_rest_from_the_notebook(course, capsys):
    check(left)  # `right` is in this module, which is the notebook here
    assert capsys.readouterr().out == "✓ left: all checks passed.\n"
    with pytest.raises(CheckFailed, match="They undo each other"):
        check(left, right=lambda x: 5, lesson="01")


def test_check_finds_a_function_by_its_name_in_the_notebook(course, capsys):
    exec("left = lambda x: x - 1\ncheck(left)", {"check": check})
    assert capsys.readouterr().out == "✓ left: all checks passed.\n"


def test_a_name_in_two_lessons_needs_the_lesson(course, capsys):
    with pytest.raises(CannotCheck, match="lessons 01 and 02: add lesson="):
        check(right)
    check(right, lesson="01")
    check(right, lesson="1")


def test_check_says_what_it_cannot_do(course):
    for call, words in (
        (lambda: check(), "no task without a name"),
        (lambda: check(lefd=left), "There is no task lefd. There is: left."),
        (lambda: check(left(3)), "takes a function or a class, got 2"),
        (lambda: check(left, lesson="02"), "no task left in lesson 02"),
    ):
        with pytest.raises(ValueError, match=words):
            call()


def test_a_stub_is_not_written_yet_and_fails_only_if_graded(course, capsys):
    notebook = {"check": check, "left": stub, "right": right}
    exec("check(left=left)", notebook)
    # The stub's own name is what Python knows; in a notebook it is the task's.
    assert NOT_WRITTEN in capsys.readouterr().out
    with pytest.raises(CheckFailed, match=NOT_WRITTEN):
        exec("check(left=left, graded=True)", notebook)


def test_the_other_half_of_a_pair_may_still_be_a_stub(course):
    namespace = {"NotImplementedError": NotImplementedError}
    exec(f"def right(x): raise NotImplementedError({NOT_WRITTEN!r})", namespace)
    file = course / "tests" / "exercises" / "test_01_pair.py"
    run_checks(file, {"left": left, "right": namespace["right"]}, ["left"])
    with pytest.raises(NotWritten, match=f"right: {NOT_WRITTEN}"):
        run_checks(file, {"left": left, "right": namespace["right"]}, ["right"])


def test_a_check_that_needs_more_than_there_is_says_so(course):
    file = course / "tests" / "exercises" / "test_01_pair.py"
    file.write_text("def test_both(left, right): pass\n")
    with pytest.raises(CheckFailed, match="To check left, write right too"):
        run_checks(file, {"left": left}, ["left"])


def test_without_a_course_the_error_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(course_module, "COURSE", tmp_path / "site" / "package")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="pip install -e"):
        course_module.course_folder()
    (tmp_path / "tests" / "exercises").mkdir(parents=True)
    (tmp_path / "exercises").mkdir()
    monkeypatch.chdir(tmp_path / "exercises")
    assert course_module.course_folder() == tmp_path


def test_in_ipython_a_failure_is_its_message_alone():
    lines = CheckFailed("why", "f(x)")._render_traceback_()
    assert lines == ["✗ f(x)", "why"]


# ---- own work


def borrowed(length):
    return transformer_lab.causal_mask(length)


def borrowed_inside(length):
    from transformer_lab import causal_mask as mask

    return mask(length)


def by_a_helper(length):
    return borrowed(length)


@pytest.mark.parametrize(
    "answer", [transformer_lab.causal_mask, borrowed, borrowed_inside, by_a_helper]
)
def test_the_packages_own_answer_is_not_the_learners(answer):
    with pytest.raises(CheckFailed, match=r"transformer_lab\.causal_mask itself"):
        check(causal_mask=answer)


def causal_mask(length):  # an answer may have the task's own name, and call itself
    return torch.ones(length, length).tril() > 0 if length else causal_mask(1)[:0, :0]


def test_an_answer_under_the_tasks_name_is_the_learners():
    check(causal_mask)


LN = nn.LayerNorm


def by_name(x):
    return nn.LayerNorm(4)(x)


def by_alias(x):
    return LN(4)(x)


def by_function(x):
    return torch.nn.functional.layer_norm(x, (4,))


def without(x):
    return x - x.mean()


class LayerNorm(nn.Module):  # the learner's, who names himself
    def forward(self, x):
        super().forward(x) if False else None
        return self.layer_norm(x)

    def layer_norm(self, x):
        return x - x.mean()


def test_a_task_that_says_without_means_it():
    forbidden = ("nn.LayerNorm", "F.layer_norm")
    for answer in (by_name, by_alias, by_function):
        with pytest.raises(CheckFailed, match="the task is to do without"):
            require_own_work("norm", answer, forbidden)
    require_own_work("norm", without, forbidden)
    require_own_work("norm", LayerNorm, forbidden)


def test_what_is_made_from_the_packages_answer_is_the_packages():
    inherited = type("EncoderLayer", (transformer_lab.EncoderLayer,), {})
    partial = functools.partial(transformer_lab.causal_mask)
    for task, answer in (("EncoderLayer", inherited), ("causal_mask", partial)):
        with pytest.raises(CheckFailed, match=f"transformer_lab.{task} itself"):
            require_own_work(task, answer)


@pytest.mark.parametrize("path", check_files(), ids=lambda path: path.stem)
def test_what_a_check_forbids_is_said_in_the_task(path):
    constants = {
        node.targets[0].id: node.value
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    if "FORBIDDEN" not in constants:
        pytest.skip("it forbids nothing")
    name = f"{path.stem.removeprefix('test_')}.ipynb"
    cells = read_cells(course_module.course_folder() / "solutions" / name)
    text = "".join(source for kind, source in cells if kind == "markdown")
    for names in ast.literal_eval(constants["FORBIDDEN"]).values():
        assert all(re.search(rf"without [^\n]*`{re.escape(name)}`", text) for name in names)


# ---- load_notebook


def written(folder, *sources):
    cells = [{"cell_type": "code", "source": source.splitlines(True)} for source in sources]
    path = folder / "02_x.ipynb"
    path.write_text(json.dumps({"cells": cells}))
    return path


def test_only_imports_definitions_and_constants_are_loaded(tmp_path):
    path = written(
        tmp_path,
        "%matplotlib inline\nimport math\nfrom math import pi\nx = 1 / 0\nEPS, N = 1e-3, 2",
        "!ls\ndef f(): return math.pi * N\nprint(1 / 0)\ng = lambda: f()\nF: int = 3",
        "class A:\n    size = N\nfor M in range(9): print(1 / 0)",
        "text = '''\n% not a magic\n'''\ndef modulo(a, b):\n    return (a\n        % b)",
    )
    names = load_notebook(path)
    assert names["f"]() == names["g"]() == 2 * names["pi"] and names["A"].size == 2
    assert names["EPS"] == 1e-3 and names["F"] == 3 and names["modulo"](7, 4) == 3
    assert "x" not in names and "text" not in names and names["__problems__"] == []


@pytest.mark.parametrize(
    "source",
    [
        "n = 1\nn += 1",
        "for n in range(3): pass",
        "table = {}\ntable['n'] = 2\nn = table['n']",
        "if True:\n    n = 2",
        "try:\n    import no_such_module\nexcept ImportError:\n    n = 2",
        "a, n = 1, 2",
        "n: int = 2",
        "with open(__file__ if False else '/dev/null') as file:\n    n = 2",
        "%%time\nn = 2",
        "files = !echo\nn = 2",
        "if True:\n    def n_of(): return 2\nn = n_of()",
    ],
)
def test_what_a_function_reads_is_loaded_however_it_was_made(tmp_path, source):
    names = load_notebook(written(tmp_path, source, "def f(): return n"))
    assert names["f"]() == 2


def test_an_assignment_that_failed_is_said_if_a_task_needs_it(tmp_path):
    names = load_notebook(written(tmp_path, "f = open('/nowhere')", "check(f)"))
    with pytest.raises(CheckFailed, match=r"defines no f.*cell 1, line 1: FileNotFoundError"):
        task_from(names, "f")


def test_a_cell_that_cannot_be_loaded_leaves_the_others(tmp_path):
    names = load_notebook(
        written(tmp_path, "def f(:\n    pass", "import nowhere_to_be_found", "def g(): return 1")
    )
    assert names["g"]() == 1 and len(names["__problems__"]) == 2
    with pytest.raises(CheckFailed, match=r"defines no f.*cell 1, line 1"):
        task_from(names, "f")


@pytest.mark.parametrize("path", EXERCISES, ids=lambda path: path.stem)
def test_without_its_import_cell_a_task_says_so_once_and_of_itself_alone(path):
    cells = read_cells(path)
    assert "import torch" in cells.pop(1)[1]
    names = load_cells(cells, path.stem)
    lost = {name for task in tasks_in(path) for name in task.names} - names.keys()
    assert lost
    for task in lost:
        with pytest.raises(CheckFailed) as refused:
            task_from(names, task)
        message = str(refused.value)
        assert message.count("NameError") == message.count(".ipynb") == 1, message
        assert "The imports stand in the first cell" in message, message


def test_two_notebooks_do_not_share_names(tmp_path):
    path = written(tmp_path, "N = 1\ndef f(): return N")
    one = load_notebook(path)
    other = load_notebook(written(tmp_path, "N = 2\ndef f(): return N"))
    assert (one["f"](), other["f"]()) == (1, 2)


def test_a_method_may_be_put_on_a_class_in_a_later_cell(tmp_path):
    later = "def f(self): return 1\nLayer.f = f", "check(Layer)"
    names = load_notebook(written(tmp_path, "class Layer:\n    def f(self): return 0", *later))
    assert names["Layer"]().f() == 1


@pytest.mark.parametrize(
    "source",
    [
        "t = []\nfor i in range(2): t.append(i)",
        "t = {}\nfor i in range(2): t[i] = i",
        "t = {}\nt.update(a=1, b=2)",
        "t = [1]\nif True:\n    t.append(2)",
    ],
)
def test_a_table_is_filled_as_in_the_notebook(tmp_path, source):
    assert load_notebook(written(tmp_path, source, "def f(): return len(t)"))["f"]() == 2


@pytest.mark.parametrize("first", ["from __future__ import annotations", "int = 'int'"])
def test_a_dataclass_may_name_its_types_as_text(tmp_path, first):
    later = "from dataclasses import dataclass\n@dataclass\nclass A:\n    x: int = 1"
    names = load_notebook(written(tmp_path, first, later, "def f(): return A().x"))
    assert names["__problems__"] == [] and names["f"]() == 1


def test_an_answer_may_display_something(tmp_path):
    names = load_notebook(written(tmp_path, "def f(x):\n    display(x, clear=True)\n    return x"))
    assert names["f"](3) == 3


def test_what_is_made_while_it_is_timed_is_made(tmp_path):
    assert load_notebook(written(tmp_path, "%time n = 2", "def f(): return n"))["f"]() == 2


def test_annotations_may_be_postponed_for_all_cells(tmp_path):
    later = "def f(x: Nothing) -> NothingEither: return 1"
    names = load_notebook(written(tmp_path, "from __future__ import annotations", later))
    assert names["f"](0) == 1 and not names["__problems__"]


def test_the_kind_of_a_cell_is_text_whatever_stands_there(tmp_path):
    path = tmp_path / "x.ipynb"
    path.write_text('{"cells": [{"cell_type": [[[]]], "source": "x"}]}')
    assert read_cells(path) == [("[[[]]]", "x")]


def test_an_error_in_a_loaded_function_shows_its_line(tmp_path):
    names = load_notebook(written(tmp_path, "def f(x):\n    y = x\n    return y.nothing"))
    assert "    return y.nothing\n" in message(lambda f: f(1), f=names["f"])


@pytest.mark.parametrize(
    "source",
    ["import sys\nX = sys.exit(0)", "X = '\ud800'", "X = " + "-" * 100_000 + "1"],
    ids=["exit", "half a character", "too deep"],
)
def test_no_cell_can_stop_the_others(tmp_path, source):
    names = load_notebook(written(tmp_path, source, "def g(): return 1"))
    assert names["g"]() == 1 and len(names["__problems__"]) == 1
    assert "cell 1" in names["__problems__"][0]


@pytest.mark.parametrize("folder", ["site-packages", "dist-packages"])
def test_a_library_is_one_wherever_it_was_installed(folder):
    assert is_library(f"own/lib/python3.11/{folder}/torch/functional.py")
    assert not is_library("lab/notebook.py")


def test_a_function_that_leaves_python_is_wrong():
    def leaves():
        raise SystemExit(0)

    assert "raise SystemExit(0)\nSystemExit: 0" in message(lambda f: f(), f=leaves)


@pytest.mark.parametrize(
    "text",
    [
        *("", "no json", "[]", "{}", '{"cells": 3}', '{"cells": [3]}', '{"cells": [{}]}'),
        *("[" * 200_000, '{"cells": [{"cell_type": "code"}]}'),
        '{"cells": [{"cell_type": "code", "source": null}]}',
        '{"cells": [{"cell_type": "code", "source": [[]]}]}',
    ],
    ids=lambda text: text[:50],
)
def test_a_file_that_is_no_notebook_is_a_value_error(tmp_path, text):
    path = tmp_path / "x.ipynb"
    path.write_text(text)
    with pytest.raises(ValueError, match="is not a notebook"):
        load_notebook(path)


def test_a_folder_without_exercises_is_a_value_error(tmp_path):
    for target in (tmp_path, tmp_path / "nowhere", "nowhere"):
        with pytest.raises(ValueError, match=re.escape(str(target))):
            target_folder(target)


def test_a_notebook_gives_what_its_memory_would_hold(tmp_path):
    """Lower-case constants, partials, helpers in other cells: one verdict, live and from a file."""
    path = tmp_path / "n.ipynb"
    sources = [
        "from functools import partial\nsize = base + 1\nbase = 2",
        "base = 1\nwidth = height = size = base + 1",
        "unused = 1 / 0",
        "def area(a, b): return a * b * scale()",
        "scale = lambda: factor[0]\nfactor, other = [3], 4",
        "doubled = partial(area, width)",
        "check(doubled)",
    ]
    cells = [{"cell_type": "code", "source": source} for source in sources]
    path.write_text(json.dumps({"cells": cells}))
    names = load_notebook(path)
    assert names["doubled"](5) == 30 and names["__problems__"] == []
    assert "unused" not in names


def test_with_names_only_these_and_what_they_read_are_loaded(tmp_path):
    """A parameter that bears the name of something expensive does not load it."""
    path = written(
        tmp_path,
        "import math\nrun = 1 / 0\nLONG = 1 / 0\nscale = 2",
        "def area(run): return run * scale * math.pi\ndef other(): return LONG",
    )
    names = load_notebook(path, ["area"])
    assert names["area"](1) == 2 * math.pi and names["__problems__"] == []
    assert not {"run", "LONG", "other"} & set(names)
