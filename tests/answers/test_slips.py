"""A slip of the pen gets its own advice in every task where it can be made.

The wrong answers are made from the solutions: each has one place of its source replaced.
"""

import ast
import builtins
import copy
import inspect
import itertools
import linecache
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from catalogue import NAMES, solutions
from test_answers import GAVE_UP, message_of, with_methods

from course.checking import slips

NUMBERS = itertools.count()


def wrong_way_round(node):
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        node.left, node.right = node.right, node.left
        return True


def star(node):
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        node.op = ast.Mult()
        return True


def turned_with_the_batch(node):
    """`.transpose(-2, -1)` becomes `.T`."""
    for field, value in ast.iter_fields(node):
        if isinstance(value, ast.Call) and ast.unparse(value).endswith(".transpose(-2, -1)"):
            setattr(node, field, ast.Attribute(value.func.value, "T", ast.Load()))
            return True


def truth_of_a_tensor(node):
    """`if mask is not None` becomes `if mask`."""
    test = getattr(node, "test", None)
    if test is not None and ast.unparse(test).endswith(" is not None"):
        node.test = test.left
        return True


def pair(node):
    if isinstance(node, ast.Attribute) and node.attr in ("amax", "amin"):
        node.attr = node.attr[1:]
        return True


def printed(node):
    """The `return` at the end becomes `print(…)`."""
    body, outermost = getattr(node, "body", None), getattr(node, "col_offset", 1) == 0
    if outermost and isinstance(node, ast.FunctionDef) and isinstance(body[-1], ast.Return):
        body[-1] = ast.Expr(ast.Call(ast.Name("print", ast.Load()), [body[-1].value], []))
        return True


def misspelt(node):
    """A name of five letters or more, none of Python's own, loses its last but one."""
    known = isinstance(node, ast.Name) and not hasattr(builtins, node.id)
    if known and isinstance(node.ctx, ast.Load) and len(node.id) > 4:
        node.id = node.id[:-2] + node.id[-1]
        return True


ANY = "This is the answer when"  # or the check knows the mistake, and says more
KINDS = {
    wrong_way_round: ("The two sides of @ are the wrong way round in", ANY),
    star: ("multiplies number by number. A product of matrices is `@`.", ANY),
    turned_with_the_batch: (slips.BATCH_TURNED,),
    truth_of_a_tensor: ("is not None:`.",),
    pair: ("`x.max(dim)` gives a pair",),
    printed: (slips.PRINTED,),
    misspelt: ("Did you mean: ",),
}


def functions_of(answer) -> Iterator[FunctionType]:
    """Yield the function, or the methods that a learner writes."""
    inside = vars(answer).items() if inspect.isclass(answer) else [("answer", answer)]
    for name, function in inside:
        if inspect.isfunction(function) and not name.startswith("_"):
            yield function


def slipped(function, slip) -> Iterator[FunctionType]:
    """Yield the function with one place of it replaced, for each place where it can be."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    for place in range(len(list(ast.walk(tree.body[0])))):
        twin = copy.deepcopy(tree)
        body = [node for part in twin.body[0].body for node in ast.walk(part)]
        nodes = [twin.body[0], *body]  # not the signature
        if place < len(nodes) and slip(nodes[place]):
            yield made(twin, function.__name__, function.__globals__)


def made(tree, name, namespace):
    """Run a changed source; `linecache` knows its lines, as it does those of a notebook."""
    source, file = ast.unparse(ast.fix_missing_locations(tree)), f"<slip {next(NUMBERS)}>"
    linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
    namespace = dict(namespace)
    exec(compile(source, file, "exec"), namespace)
    return namespace[name]


def answers_with(lesson, task, slip):
    solution = solutions(lesson)[task]
    for function in functions_of(solution):
        for wrong in slipped(function, slip):
            yield with_methods(
                solution, lambda method, wrong=wrong: wrong if named(method, wrong) else method
            )


def named(one, other):
    return one.__name__ == other.__name__


WRITTEN = [each for each in NAMES if not each[1].startswith("predicted")]


@pytest.mark.parametrize("slip", KINDS, ids=lambda slip: slip.__name__)
@pytest.mark.parametrize(("lesson", "task"), WRITTEN)
def test_a_slip_gets_its_own_advice(lesson, task, slip):
    for answer in itertools.islice(answers_with(lesson, task, slip), 6):
        message = message_of(lesson, task, answer)
        assert any(words in message for words in KINDS[slip]), message
        assert not any(words in message for words in GAVE_UP)


def reads(function, name):
    """Return whether the body of a function reads a global name."""
    [definition] = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    nodes = (node for part in definition.body for node in ast.walk(part))
    return any(isinstance(node, ast.Name) and node.id == name for node in nodes)


@pytest.mark.parametrize("module", sorted(slips.IMPORTS.keys() - slips.IN_SIGNATURES.keys()))
def test_a_deleted_import_cell_is_told_so(module):
    for lesson, task in WRITTEN:
        solution = solutions(lesson)[task]
        for function in functions_of(solution):
            if not reads(function, module):
                continue
            rest = {k: v for k, v in function.__globals__.items() if k != module}
            wrong = FunctionType(function.__code__, rest, function.__name__, function.__defaults__)
            answer = with_methods(solution, lambda m, wrong=wrong: wrong if named(m, wrong) else m)
            message = message_of(lesson, task, answer)
            assert "The imports stand in the first cell" in message, (task, message)
            assert f"`{slips.IMPORTS[module]}`" in message
