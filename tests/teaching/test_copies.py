"""Copies of solutions and of the package are named, whatever their names; honest answers not."""

import ast
import functools
import itertools
import sys
from pathlib import Path

import pytest

from course.checking import course_folder, read_cells
from course.checking.progress import tasks_in
from course.grading import look
from course.grading.copies import _left_of_package, _package, copies
from course.grading.submissions import MOST_NOTES

sys.path.insert(0, str(Path(__file__).parents[1] / "answers"))
SOLUTIONS = sorted((course_folder() / "solutions").glob("[0-9][0-9]_*.ipynb"))
every_lesson = pytest.mark.parametrize("path", SOLUTIONS, ids=lambda path: path.stem)


def names_in(path):
    return [name for task in tasks_in(path) for name in task.names]


class Renamed(ast.NodeTransformer):
    """Every name that the code makes is another, but for those that stay."""

    def __init__(self, tree, stay):
        nodes = list(ast.walk(tree))
        own = {node.arg for node in nodes if isinstance(node, ast.arg)}
        own |= {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        own |= {n.name for n in nodes if isinstance(n, ast.FunctionDef | ast.ClassDef)}
        self.own = {name for name in own - {"self", *stay} if not name.startswith("__")}

    def other(self, name):
        return f"my_{name[::-1]}" if name in self.own else name

    def visit_Name(self, node):
        return ast.Name(self.other(node.id), node.ctx)

    def visit_arg(self, node):
        return ast.arg(self.other(node.arg))

    def visit_Attribute(self, node):
        mine = isinstance(node.value, ast.Name) and node.value.id == "self"
        name = f"of_{node.attr}" if mine else node.attr
        return ast.Attribute(self.visit(node.value), name, node.ctx)

    def visit_FunctionDef(self, node):
        node.body = node.body[1:] if ast.get_docstring(node) is not None else node.body
        node.name = self.other(node.name)
        return self.generic_visit(node)

    visit_ClassDef = visit_FunctionDef


def renamed(source, stay=()):
    tree = ast.parse(source)
    return ast.unparse(ast.fix_missing_locations(Renamed(tree, stay).visit(tree)))


@every_lesson
def test_solutions_are_named_word_for_word_and_with_other_names(path):
    cells, tasks = read_cells(path), names_in(path)
    as_they_are = copies(cells, tasks)
    assert as_they_are[0].startswith(f"like solutions/{path.stem}, word for word: ")
    assert as_they_are[1].endswith("of its comments")
    others = [(kind, renamed(s, tasks) if kind == "code" else s) for kind, s in cells]
    (flag,) = copies(others, tasks)
    assert flag.startswith(f"like solutions/{path.stem}, with other names: ")
    assert flag.split(": ")[1] == as_they_are[0].split(": ")[1]  # the same tasks


def test_the_comments_of_a_solution_are_known_where_the_code_says_nothing():
    path = next(path for path in SOLUTIONS if path.stem.startswith("03"))
    code = [source for kind, source in read_cells(path) if kind == "code"]
    lines = [line for source in code for line in source.splitlines() if "  # " in line]
    alone = [("code", f"x = 1  # {line.split('  # ')[1]}") for line in lines]
    (flag,) = copies(alone, names_in(path))
    assert copies(alone[:1], names_in(path)) == []
    assert flag.startswith(f"like solutions/{path.stem}: ") and "comments" in flag


@every_lesson
def test_code_of_the_package_is_named_whatever_it_is_called(path):
    tasks = names_in(path)
    sources = {}
    for file in (course_folder() / "transformer_lab").rglob("*.py"):
        module = ".".join(file.relative_to(course_folder()).with_suffix("").parts)
        for node in ast.parse(file.read_text("utf-8")).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                sources[f"{module}.{node.name}"] = ast.unparse(node)
    enough = [name for name in sources if name in _left_of_package(path.stem)]
    assert len(enough) > 60
    for name in enough[:: len(enough) // 8]:
        for source, manner in (
            (sources[name], "word for word"),
            (renamed(sources[name]), "with other names"),
        ):
            assert f"like {name}, {manner}" in copies([("code", source)], tasks), name


def test_a_copy_costs_no_point_and_stands_among_the_flags():
    path = SOLUTIONS[1]
    flags = look(read_cells(path), names_in(path))
    assert flags[0].startswith("like solutions/")


@functools.cache
def catalogue_of(lesson):
    """Return the definitions in a lesson's file of the catalogue, by name."""
    path = course_folder() / "tests" / "answers" / f"answers_{lesson}.py"
    nodes = ast.parse(path.read_text("utf-8")).body
    return {node.name: node for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}


def test_of_a_whole_package_the_first_parts_are_named():
    files = sorted((course_folder() / "transformer_lab").rglob("*.py"))
    cells = [("code", path.read_text("utf-8")) for path in files]
    like = [flag for flag in look(cells, names_in(SOLUTIONS[0])) if flag.startswith("like ")]
    assert len(like) == MOST_NOTES


def right_answers():
    """Yield lesson, task and source of each right answer of the catalogue."""
    from catalogue import answers

    for answer in answers():
        if answer.words is None:
            node = catalogue_of(answer.lesson)[answer.answer.__name__]
            node.decorator_list = []
            yield answer.lesson, answer.task, ast.unparse(node)


def test_no_right_answer_of_the_catalogue_is_taken_for_a_copy():
    found = {}
    for lesson, task, source in right_answers():
        found.setdefault(lesson, {}).setdefault(task, []).append(source)
    count = sum(len(each) for tasks in found.values() for each in tasks.values())
    assert count > 400
    flagged = []
    for path in SOLUTIONS:
        tasks, names = found[path.stem], names_in(path)
        alone = [[source] for sources in tasks.values() for source in sources]
        # And notebooks with an answer to each task: the first ones, the second ones, …
        most = max(map(len, tasks.values()))
        turns = [itertools.islice(itertools.cycle(each), most) for each in tasks.values()]
        for sources in [*alone, *zip(*turns, strict=True)]:
            flagged += copies([("code", source) for source in sources], names)
    assert flagged == []


@every_lesson
def test_what_everybody_has_is_no_copy(path):
    tasks = names_in(path)
    for folder in ("exercises", "notebooks", "notebooks/evidence"):
        there = course_folder() / folder / path.name
        assert copies(read_cells(there) if there.exists() else [], tasks) == []


def test_a_notebook_of_no_lesson_is_like_nothing():
    assert copies([("code", "def fibonacci(n): return n")], ["fibonacci"]) == []
    assert _package()
