"""What is wrong with an answer, in words: `expect`, and what it is made of.

A message has two parts: the call that was made, and the reason. The reason is the known mistake
that gives exactly this answer, if there is one; else a missing return, the type, the shape, the
dtype, NaN, or where the numbers differ most.
"""

import itertools
import math
import numbers
import operator
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

CALLS: list[tuple[str, Any]] = []  # what the running test has called, and what came back

# Relative and absolute, by the coarser of the two dtypes: any float dtype is welcome.
TOLERANCE = {"bfloat16": (5e-2, 5e-2), "float16": (1e-2, 1e-2), "float32": (1e-4, 1e-5)}
TIGHT = (1e-6, 1e-7)
NAN = "NaN comes from 0/0, inf/inf or inf − inf. Which of them can happen here?"


class MessageOnly(Exception):
    """An error that IPython shows as its message alone, without a traceback."""

    def _render_traceback_(self) -> list[str]:
        return str(self).splitlines()


class CheckFailed(MessageOnly, AssertionError):
    """An answer is wrong: `call` says what was computed, `why` what is wrong with it.

    `advice` is a sentence more. `unexplained`: numbers or sizes do not fit, and no known mistake
    says why. `parts`: how many of how many separate answers are right; (0, 0) of one that has none.
    """

    def __init__(
        self,
        why: str,
        call: str = "",
        *,
        advice: str = "",
        unexplained: bool = False,
        parts: tuple[int, int] = (0, 0),
    ):
        super().__init__("\n".join(filter(None, (f"✗ {call or why}", call and why, advice))))
        self.why, self.call, self.unexplained, self.parts = why, call, unexplained, parts


def expect(
    actual: Any,
    expected: Any,
    mistakes: Mapping[str, Any] | None = None,
    *,
    names: Sequence[str] = (),
    nan: str = NAN,
    hint: Callable[[Any], str] | None = None,
    call: str = "",
) -> None:
    """Raise `CheckFailed` unless `actual` is `expected`, and say which mistake was made.

    A key of `mistakes` ends the sentence "This is the answer when …"; its value is the answer
    that the mistake gives, or a function that computes it. `names` are those of the results,
    `nan` says why NaN would appear, `hint` adds a sentence about numbers that nothing explains,
    and `call` replaces the call that is quoted.
    """
    __tracebackhide__ = True
    if close(actual, expected):
        return
    why = _problem(actual, expected, names, nan)
    mistake = _known_mistake(actual, expected, mistakes or {}, names)
    if hint and not mistake and " differ" in why:
        why = f"{why} {hint(actual)}".strip()
    raise CheckFailed(mistake or why, call or _call(actual), unexplained=not mistake)


def expect_error(kind: type[Exception], why: str, function: Callable, *arguments: Any) -> None:
    """Raise `CheckFailed` unless the call raises such an error; `why` ends the sentence."""
    __tracebackhide__ = True
    try:
        result = function(*arguments)
    except kind:
        return
    except Exception as error:
        error.add_note(f"It should raise {kind.__name__}: {why}")
        raise
    raise CheckFailed(
        f"It returned {describe(result)}; it should raise {kind.__name__}: {why}", _call(result)
    )


def expect_predictions(
    answers: Any,
    right: Mapping[str, Any],
    hints: Mapping[str, Mapping[Any, str]],
    *,
    within: float = 0.0,
) -> None:
    """Raise `CheckFailed` unless the answers are the right ones, without giving those away.

    `hints["a"][7]` is said of the answer 7 to question a, `hints["a"][None]` of any other.
    `within` is how far rounding on paper may lead: 0.006 takes 0.67 for 2/3. The error says how
    many of the answers are right: none, if all of them are the same.
    """
    __tracebackhide__ = True
    answers = answers.tolist() if isinstance(answers, (Tensor, np.ndarray)) else answers
    if not isinstance(answers, (list, tuple)) or len(answers) != len(right):
        wanted = f"{len(right)} answers: [{', '.join(right)}]"
        raise CheckFailed(f"It returned {_kind(answers)}, expected {wanted}.", _call(answers))

    def same(answer: Any, value: Any) -> bool:
        number = answer.item() if isinstance(answer, Tensor) and answer.ndim == 0 else answer
        real = isinstance(number, numbers.Real) and isinstance(value, numbers.Real)
        return close(answer, value) or bool(real and abs(number - value) < within)

    count = sum(map(same, answers, right.values()))
    if all(same(answer, answers[0]) for answer in answers):  # some of them would be right by chance
        count = 0
    for (letter, expected), answer in zip(right.items(), answers, strict=True):
        if not same(answer, expected):
            known = (text for wrong, text in hints[letter].items() if same(answer, wrong))
            hint = next(known, hints[letter][None])
            if isinstance(answer, str) and same(_number_in(answer), expected):
                hint = "The number is right: write it without quotation marks."
            why = f"{letter} is not {describe(answer)}. {hint}"
            raise CheckFailed(why, _call(answers), parts=(count, len(right)))


def _number_in(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def random_weights(module: Any, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Tensor]:
    """Fill a module's parameters at random (std 0.5) and return copies of them by name.

    Raises `CheckFailed` unless `state_dict` has exactly these names and shapes, each a parameter
    of its own that learns: the tests put the same weights into the learner's module and into
    their own.
    """
    __tracebackhide__ = True
    if not isinstance(module, nn.Module):
        raise CheckFailed(f"It made {_kind(module)}; it should be an nn.Module.")
    state = module.state_dict()
    came = {name: tuple(weight.shape) for name, weight in state.items()}
    for name in [*shapes, *came]:
        if came.get(name) != shapes.get(name):
            raise CheckFailed(
                f"state_dict has {name} with shape {came.get(name, 'missing')}, "
                f"expected {shapes.get(name, 'none')}: keep `__init__` as it was given.",
                type(module).__name__,
            )
    parameters = dict(module.named_parameters(remove_duplicate=False))
    for name in shapes:
        own = parameters.get(name)
        twin = next((n for n in shapes if n != name and parameters.get(n) is own), None)
        what = f"is the same parameter as {twin}; it should be one of its own"
        if own is None or not own.requires_grad:
            what = "cannot learn; it should be an nn.Parameter, and not frozen"
        elif twin is None:
            continue
        why = f"{name} {what}: keep `__init__` as it was given."
        raise CheckFailed(why, type(module).__name__)
    for weight in state.values():  # they share their memory with the parameters
        weight.normal_(std=0.5)
    return {name: weight.clone() for name, weight in state.items()}


# ---- Whether a module can learn, and whether a call begins anew

CUT = (
    "The result is cut off from the weights, so nothing can be learnt. Do without .detach(), "
    ".numpy(), .data, .item() and torch.no_grad()."
)
UNTRAINED = (
    "{0} gets no gradient, so it cannot learn: the result does not depend on it, or the way to it "
    "is cut by .detach(), .numpy(), .data or torch.no_grad()."
)
UNREACHED = (
    "No gradient comes through to {0}, so what made it, a layer below or the encoder, could not "
    "learn. Do without .detach(), .numpy(), .data and torch.no_grad()."
)
KEPT = "(in an attribute, in a default such as `=[]`, under a global name)"


def expect_learning(module: nn.Module, right: Callable, **inputs: Any) -> None:
    """Raise `CheckFailed` unless each parameter and each float input gets the right gradient.

    `right` computes the result from the inputs and the module's own parameters.
    """
    __tracebackhide__ = True
    given = {
        name: value.detach().clone().requires_grad_()
        for name, value in inputs.items()
        if isinstance(value, Tensor) and value.is_floating_point()
    }
    leaves = {**dict(module.named_parameters()), **given}
    answer = module(*(inputs | given).values())
    if not isinstance(answer, Tensor) or not answer.requires_grad:
        raise CheckFailed(CUT, _call(answer))
    wanted = right(*(inputs | given).values())
    mode = f"The module is in {'train' if module.training else 'eval'} mode here."
    expect(answer, wanted, hint=lambda _: mode, call=_call(answer))
    came = _gradients(answer, leaves)
    for name in leaves:
        if not came[name].any():
            raise CheckFailed(
                (UNREACHED if name in given else UNTRAINED).format(name), _call(answer)
            )
    for name, gradient in _gradients(wanted, leaves).items():
        expect(
            came[name],
            gradient,
            names=(f"The gradient of {name}",),
            hint=lambda _: "Is a part of the way to it cut by .detach(), .data or torch.no_grad()?",
            call=_call(answer),
        )


def _gradients(answer: Tensor, leaves: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the gradient of each leaf: 0 for one that the answer does not depend on."""
    pull = torch.linspace(-1, 1, answer.numel(), dtype=answer.dtype).view(answer.shape)
    grads = torch.autograd.grad((answer * pull).sum(), list(leaves.values()), allow_unused=True)
    return {
        name: torch.zeros_like(leaf) if grad is None else grad
        for (name, leaf), grad in zip(leaves.items(), grads, strict=True)
    }


def expect_no_memory(answer: Callable, right: Callable, first: Sequence, second: Sequence) -> None:
    """Raise `CheckFailed` if a call shows what an earlier call was given.

    `first` and `second` are arguments of the same shapes. If already the call with `first` is
    wrong, nothing is said: other checks know why.
    """
    __tracebackhide__ = True
    one = answer(*first)
    was_right = close(one, right(*first))
    again = answer(*first)
    known = isinstance(one, (Tensor, np.ndarray, list, tuple, numbers.Real))
    if known and close(one, one) and not close(again, one):
        raise CheckFailed(
            "The same call gave two answers. Is something drawn at random (dropout?), or kept from "
            f"call to call {KEPT}?",
            _call(again),
        )
    if not was_right:
        return
    two = answer(*second)
    if not close(one, right(*first)):
        raise CheckFailed(
            "This call changed what an earlier call had returned: both gave out the same object. "
            "Make a new one in each call.",
            _call(two),
        )
    if not close(two, right(*second)):
        raise CheckFailed(
            "This call came out wrong after one with other numbers, which was right. Is something "
            f"kept from call to call {KEPT}? Each call has to begin anew.",
            _call(two),
        )


# ---- The known mistake


def _known_mistake(
    actual: Any, expected: Any, mistakes: Mapping[str, Any], names: Sequence[str]
) -> str | None:
    """Name the mistake that gives `actual`, or else one that gives its wrong parts, or one part."""
    if _has_nan(actual):  # too many mistakes end in NaN to tell which it was
        return None
    wrong, all_parts, one_part = _wrong_parts(actual, expected), None, None
    for text, variant in mistakes.items():
        try:
            answer = variant() if callable(variant) else variant
        except Exception:  # this mistake cannot be made with these shapes
            continue
        if close(actual, answer):
            return f"This is the answer when {text}"
        same = isinstance(answer, tuple) and len(answer) == len(expected)
        explained = [i for i in wrong if same and close(actual[i], answer[i])]
        if explained and explained == wrong:
            all_parts = all_parts or f"This is the answer when {text}"
        elif explained and len(expected) <= 4:  # one of many may be chance
            name = names[explained[0]] if names else f"Result {explained[0]}"
            one_part = one_part or f"{name} is what comes out when {text}"
    return all_parts or one_part


def _wrong_parts(actual: Any, expected: Any) -> list[int]:
    """Return which of several results are wrong; none if only their order is."""
    if not _as_many(actual, expected) or _reordered(actual, expected):
        return []
    return [i for i, part in enumerate(actual) if not close(part, expected[i])]


def _as_many(actual: Any, expected: Any) -> bool:
    several = isinstance(actual, (tuple, list)) and isinstance(expected, tuple)
    return several and len(actual) == len(expected)


def _reordered(actual: Sequence, expected: Sequence) -> bool:
    """Return whether these are the right results in another order."""
    return len(expected) <= 4 and any(
        all(map(close, order, expected)) for order in itertools.permutations(actual)
    )


def _has_nan(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return any(map(_has_nan, value))
    return isinstance(value, (Tensor, np.ndarray)) and bool((value != value).any())


# ---- Everything else that can be wrong, in the order in which it is worth saying


def _problem(actual: Any, expected: Any, names: Sequence[str], nan: str) -> str:
    """Say in a sentence how `actual` differs from `expected`."""
    name = names[0] if names else "The result"
    if actual is None:
        return f"{name} is None." + ("" if names else " Is a `return` missing?")
    if isinstance(expected, tuple):
        return _tuple_problem(actual, expected, names, nan)
    if isinstance(expected, (Tensor, np.ndarray)):
        return _array_problem(actual, expected, name, nan)
    if isinstance(expected, numbers.Real) and not isinstance(actual, (numbers.Real, np.bool_)):
        return f"{name} is {_kind(actual)}, expected a number."
    if isinstance(expected, dict):
        return _dict_problem(actual, expected, name, nan)
    if isinstance(actual, float) and isinstance(expected, numbers.Real):
        came, wanted = _apart(actual, float(expected))
        return f"{name} is {came}, expected {wanted}."
    return f"{name} is {describe(actual)}, expected {describe(expected)}."


def _tuple_problem(actual: Any, expected: tuple, names: Sequence[str], nan: str) -> str:
    names = names or [f"Result {i}" for i in range(len(expected))]
    if not _as_many(actual, expected):
        wanted = f"{len(expected)} results: ({', '.join(names)})"
        return f"It returned {_kind(actual)}, expected {wanted}."
    if _reordered(actual, expected):
        return f"The right results in the wrong order: return ({', '.join(names)})."
    first = _wrong_parts(actual, expected)[0]
    return _problem(actual[first], expected[first], (names[first],), nan)


def _dict_problem(actual: Any, expected: dict, name: str, nan: str) -> str:
    if not isinstance(actual, dict):
        return f"{name} is {_kind(actual)}, expected a dict."
    if actual.keys() != expected.keys():
        odd = sorted(map(str, actual.keys() ^ expected.keys()))[0]
        return f"{name} has {'an extra' if odd in actual else 'no'} key {odd!r}."
    key = next(key for key in expected if not close(actual[key], expected[key]))
    return _problem(actual[key], expected[key], (f"{name}[{key!r}]",), nan)


def _array_problem(actual: Any, expected: Any, name: str, nan: str) -> str:
    if not isinstance(actual, Tensor if isinstance(expected, Tensor) else np.ndarray):
        return f"{name} is {_kind(actual)}, expected {_kind(expected)}."
    if _number_kind(actual) not in ("float", "int", "bool"):
        return f"{name} holds {actual.dtype}, expected {expected.dtype}."
    a, b = _values(actual), _values(expected)
    if a.shape != b.shape:
        shapes = f"{tuple(a.shape)}, expected {tuple(b.shape)}"
        return f"{name} has shape {shapes}.{_rearranged(a, b)}"
    if _number_kind(actual) != _number_kind(expected):
        return f"{name} holds {actual.dtype}, expected {expected.dtype}."
    if isinstance(expected, Tensor) and actual.device != expected.device:
        return (
            f"{name} is on {actual.device}, its inputs are on {expected.device}: make new tensors "
            "with device=x.device."
        )
    if (a.isnan() & ~b.isnan()).any():
        return f"{name} is NaN at {list(_place(a.isnan()))}. {nan}"
    return f"{name} is {_difference(a, b, ~_equal(actual, expected))}"


def _difference(a: Tensor, b: Tensor, wrong: Tensor) -> str:
    """Say where the numbers differ most, and a pattern if there is one."""
    size = torch.where(wrong, (a - b).abs().nan_to_num(math.inf), -1)
    where = _place(size == size.max())
    came, wanted = _apart(float(a[where]), float(b[where]))
    text = f"{came} at {list(where)}, expected {wanted}"
    text += f"; {int(wrong.sum())} of {wrong.numel()} numbers differ." if where else "."
    if not a.any():
        return f"{text} Everything is 0."
    ratio = (a / b)[b.abs() > 1e-3]
    same = len(ratio) > 2 and torch.isclose(ratio, ratio[0], rtol=1e-3).all()
    if same and not math.isclose(ratio[0], 1, rel_tol=1e-3):
        return f"{text} Each is {ratio[0]:.4g} times what it should be."
    if a.ndim > 1 and wrong[1:].any() and not wrong[0].any():
        return f"{text} The first along axis 0 is right, the others are not."
    return text + _rearranged(a, b)


def _apart(one: float, other: float) -> tuple[str, str]:
    """Write two numbers with as many digits as it takes to tell them apart, at least four."""
    pairs = [(f"{one:.{digits}g}", f"{other:.{digits}g}") for digits in (4, 6, 9, 17)]
    return next((pair for pair in pairs if pair[0] != pair[1]), pairs[0])


def _rearranged(a: Tensor, b: Tensor) -> str:
    """Say whether `a` has the right numbers in another shape, or their sum over an axis."""

    def same(one: Tensor, other: Tensor) -> bool:
        return one.shape == other.shape and torch.allclose(one, other, 1e-3, 1e-4)

    if same(a, b):  # only just wrong: nothing has moved
        return ""
    for i, j in itertools.combinations(range(a.ndim), 2):
        if same(a.transpose(i, j), b):
            return f" The numbers are right, but axes {i} and {j} are swapped."
    if a.shape != b.shape and same(a.squeeze(), b.squeeze()):
        return " The numbers are right, but there are too many or too few axes of length 1."
    for axis in range(b.ndim):
        if same(a.squeeze(), b.sum(axis).squeeze()):
            return f" It is the sum of the right answer along axis {axis}."
    return ""


# ---- Whether two things are the same


def close(actual: Any, expected: Any) -> bool:
    """Return whether both have the same kind and shape, and the same numbers within tolerance.

    Any float dtype stands for any other, a list for a tuple, and a tensor of one number for it.
    """
    actual = plain(actual)
    if isinstance(expected, (Tensor, np.ndarray)):
        return (
            isinstance(actual, Tensor if isinstance(expected, Tensor) else np.ndarray)
            and actual.shape == expected.shape
            and _number_kind(actual) == _number_kind(expected)
            and (isinstance(actual, np.ndarray) or actual.device == expected.device)
            and bool(_equal(actual, expected).all())
        )
    if isinstance(expected, tuple):
        return _as_many(actual, expected) and all(map(close, actual, expected))
    if isinstance(expected, dict):
        same_keys = isinstance(actual, dict) and actual.keys() == expected.keys()
        return same_keys and all(close(actual[key], expected[key]) for key in expected)
    if isinstance(expected, numbers.Real):
        return _same_number(actual, expected)
    return not isinstance(actual, (Tensor, np.ndarray)) and _same(
        _as_lists(actual), _as_lists(expected)
    )


def plain(value: Any) -> Any:
    """Return `value`, or its numbers, text or items alone if a class of the learner's holds them.

    Such a class can say of itself that it equals everything.
    """
    if isinstance(value, (list, tuple)):
        base = list if isinstance(value, list) else tuple
        old = list(base.__iter__(value))
        new = [plain(each) for each in old]
        return value if _is_known(type(value)) and all(map(operator.is_, old, new)) else base(new)
    if _is_known(type(value)):
        return value
    if isinstance(value, Tensor):
        with torch._C.DisableTorchFunctionSubclass():
            return value.as_subclass(Tensor)
    copies = (copied(value) for base, copied in COPIED.items() if isinstance(value, base))
    return next(copies, value)


COPIED = {
    np.ndarray: np.asarray,
    int: int.__pos__,
    float: float.__pos__,
    str: str.__str__,
    dict: lambda value: dict(dict.items(value)),
}


def _is_known(kind: type) -> bool:
    """Return whether a class is Python's, NumPy's or PyTorch's own."""
    module = sys.modules.get(kind.__module__)
    is_library = kind.__module__.split(".")[0] in {*sys.stdlib_module_names, "numpy", "torch"}
    return is_library and getattr(module, kind.__name__, None) is kind


def _same(actual: Any, expected: Any) -> bool:
    if isinstance(expected, list):
        as_many = isinstance(actual, list) and len(actual) == len(expected)
        return as_many and all(map(_same, actual, expected))
    known = isinstance(expected, numbers.Real) and isinstance(actual, (numbers.Real, np.bool_))
    return (known or type(actual) is type(expected)) and bool(actual == expected)


def _equal(actual: Any, expected: Any) -> Tensor:
    dtypes = [str(array.dtype).removeprefix("torch.") for array in (actual, expected)]
    rtol, atol = max(TOLERANCE.get(dtype, TIGHT) for dtype in dtypes)
    return torch.isclose(_values(actual), _values(expected), rtol, atol, equal_nan=True)


def _same_number(actual: Any, expected: numbers.Real) -> bool:
    if isinstance(actual, (Tensor, np.ndarray)) and actual.ndim == 0:
        actual = actual.item()
    if not isinstance(actual, (numbers.Real, np.bool_)):
        return False
    return bool(actual == expected or math.isclose(actual, expected, rel_tol=1e-5, abs_tol=1e-8))


# ---- Small words


def describe(value: Any) -> str:
    """Say what a value is in a few letters: a shape, a few numbers, a name."""
    if isinstance(value, (Tensor, np.ndarray)):
        few = value.ndim < 2 and math.prod(value.shape) <= 4
        half = str(value.dtype).removeprefix("torch.") if "float16" in str(value.dtype) else ""
        return f"{describe(value.tolist()) if few else tuple(value.shape)} {half}".strip()
    if hasattr(value, "__name__"):
        return value.__name__
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        text = f"[{', '.join(map(describe, value))}]"
    elif isinstance(value, (numbers.Real, str, tuple, dict, type(None))):
        text = " ".join(repr(value).split())
    else:
        text = f"a {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."


def _kind(value: Any) -> str:
    if isinstance(value, (tuple, list, dict)):
        return f"a {type(value).__name__} of {len(value)}"
    if isinstance(value, (Tensor, np.ndarray)):
        return "a tensor" if isinstance(value, Tensor) else "a NumPy array"
    text = describe(value)
    return text if text.startswith("a ") else f"{text} ({type(value).__name__})"


def _call(result: Any) -> str:
    """Return the call that gave this result, or the last one."""
    for call, came in reversed(CALLS):
        if came is result or (isinstance(came, tuple) and any(part is result for part in came)):
            return call
    return CALLS[-1][0] if CALLS else ""


def _values(array: Any) -> Tensor:
    """Return the numbers as float64 on the CPU; a copy, because NumPy allows negative strides."""
    if isinstance(array, np.ndarray):
        return torch.from_numpy(array.astype(np.float64))
    return array.detach().to("cpu", torch.float64)


def _number_kind(array: Any) -> str:
    name = str(array.dtype).removeprefix("torch.").rstrip("0123456789")
    return {"bfloat": "float", "uint": "int", "longdouble": "float"}.get(name, name)


def _place(found: Tensor) -> tuple[int, ...]:
    return tuple(found.nonzero()[0].tolist())


def _as_lists(value: Any) -> Any:
    if isinstance(value, (Tensor, np.ndarray)):
        return value.tolist()
    return list(map(_as_lists, value)) if isinstance(value, (list, tuple)) else value
