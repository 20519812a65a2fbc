"""Which answers of two students are more alike than answers written apart use to be.

An answer becomes the words of its syntax tree's nodes, without docstrings, annotations and the
names that it chose itself. Two answers are as alike as their runs of five words are (Jaccard: the
share of all runs that both have). How alike answers can be that were written apart is known for
each task from the right answers of the catalogue, in `similarity.json`. The hints lead many to the
same lines, so two answers must also share runs that few of the class have.

    python -m course.grading.similarity        # writes it anew
"""

import ast
import itertools
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from course.checking.course import course_folder
from course.grading.submissions import tree_of

RUN = 5  # words
SHORTEST = 40  # runs: a shorter answer can be written in one way only
LOWEST, HIGHEST = 0.5, 0.97  # between these lies the threshold of every task
FEW = 0.2  # of the class, or three
RARE = 10  # such runs that two answers must share
ENOUGH = 2  # tasks in which a pair has to be alike
THRESHOLDS = Path(__file__).with_name("similarity.json")


def similar_pairs(
    answers: Mapping[str, Mapping[str, str]],
) -> list[tuple[str, str, dict[str, float]]]:
    """Return (student, student, how alike in which task), the most alike first.

    `answers[task][student]` is the source of a passed answer.
    """
    thresholds = json.loads(THRESHOLDS.read_text("utf-8"))
    found: dict[tuple[str, str], dict[str, float]] = {}
    for task, sources in answers.items():
        least = thresholds.get(task, HIGHEST)
        runs = {student: runs_of(source) for student, source in sorted(sources.items())}
        long = {student: each for student, each in runs.items() if len(each) >= SHORTEST}
        counted = Counter(run for each in runs.values() for run in each)
        rare = {run for run, count in counted.items() if count <= max(3, FEW * len(runs))}
        for (one, first), (other, second) in itertools.combinations(long.items(), 2):
            alike = likeness(first, second)
            if alike > least and len(first & second & rare) >= RARE:
                found.setdefault((one, other), {})[task] = alike
    pairs = [(*pair, tasks) for pair, tasks in found.items() if len(tasks) >= ENOUGH]
    return sorted(pairs, key=lambda each: (-len(each[2]), -sum(each[2].values())))


def likeness(one: frozenset, other: frozenset) -> float:
    """Return the share of the runs of either answer that both have."""
    return len(one & other) / max(1, len(one | other))


def source_of(cells: Sequence[tuple[str, str]], names: Sequence[str]) -> str:
    """Return the source of the last definitions of these names."""
    last: dict[str, ast.stmt] = {}
    for kind, source in cells:
        if kind == "code":
            last |= {each.name: each for each in tree_of(source).body if hasattr(each, "name")}
    try:
        return "\n\n".join(ast.unparse(last[name]) for name in names if name in last)
    except (RecursionError, ValueError):  # nested too deeply, or a number too long, to be compared
        return ""


def runs_of(source: str) -> frozenset:
    """Return all runs of words of an answer's syntax tree; its names are numbered as they come."""
    numbers: dict[str, str] = {}
    try:
        words = [
            numbers.setdefault(word, f"name {len(numbers)}") if isinstance(word, Own) else word
            for word in words_of(ast.parse(source))
        ]
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # nested too deeply
        return frozenset()
    return frozenset(zip(*(words[start:] for start in range(RUN)), strict=False))


class Own(str):
    """A word that is a name, which an author may choose."""


def words_of(node: ast.AST) -> Iterator[str]:
    """Yield a word for each node in order, without docstrings and annotations."""
    match node:
        case ast.Name(id=name) | ast.arg(arg=name):
            yield Own(name)
            return
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            yield Own(f"self.{name}")
            return
        case ast.FunctionDef() | ast.ClassDef():
            yield type(node).__name__
            body = node.body[1:] if ast.get_docstring(node) is not None else node.body
            arguments = [node.args] if isinstance(node, ast.FunctionDef) else node.bases
            for child in (*arguments, *body):
                yield from words_of(child)
            return
        case ast.AnnAssign(target=target, value=value):
            yield "Assign"
            yield from words_of(target)
            if value is not None:
                yield from words_of(value)
            return
        case ast.Attribute(attr=name):
            yield f".{name}"
        case ast.Constant(value=value):
            yield repr(value)[:30]
        case _:
            yield type(node).__name__
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.expr_context):
            yield from words_of(child)


def thresholds() -> dict[str, float]:
    """Return for each task how alike its right answers are, from `tests/answers/`."""
    answers: dict[str, list[frozenset]] = {}
    for file in sorted((course_folder() / "tests" / "answers").glob("answers_*.py")):
        for node in ast.parse(file.read_text("utf-8")).body:
            for task in _right_for(node):
                answers.setdefault(task, []).append(runs_of(ast.unparse(node)))
    return {task: _threshold(runs) for task, runs in sorted(answers.items())}


def _right_for(node: ast.stmt) -> Iterator[str]:
    for each in getattr(node, "decorator_list", []):
        if isinstance(each, ast.Call) and getattr(each.func, "id", "") == "right":
            yield each.args[0].value


def _threshold(runs: Sequence[frozenset]) -> float:
    most = max((likeness(*pair) for pair in itertools.combinations(runs, 2)), default=HIGHEST)
    return round(min(HIGHEST, max(LOWEST, most)), 3)


if __name__ == "__main__":
    THRESHOLDS.write_text(json.dumps(thresholds(), indent=1) + "\n", "utf-8")
