"""Whether a notebook holds the solutions or code of the package, under whatever names.

Code becomes the words of its syntax tree without docstrings, annotations and the names that it
chose itself, and then all runs of eight words. What the exercise, its hints and its lesson show is
left out: everybody may write that. A notebook is like a solution if it holds most of what is left
of two tasks or more, and like a function of the package if it holds most of what is left of that.
Short answers have so little left that honest ones are not taken for copies: of the right answers of
the catalogue none is (`tests/teaching/test_copies.py`).
"""

import ast
import functools
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from course.checking.course import course_folder
from course.checking.notebooks import read_cells
from course.checking.sandbox import LIBRARY
from course.grading.similarity import Own, words_of
from course.grading.submissions import tree_of

RUN = 8  # words
LIKE = 0.7  # of the runs that are left
LEAST = 10  # runs that are left of a task's solution: with fewer it says nothing
ENOUGH, ALONE = 40, 80  # runs of all such tasks together, or of one
OF_PACKAGE = 30  # runs that are left of a function of the package
COMMENTS = 2  # of the solution, word for word
COMMENT = re.compile(r"#\s*(\w\S*(?: \S+){3,})\s*$", re.MULTILINE)  # of four words
SHOWN = re.compile(r"```python\n(.*?)```", re.DOTALL)
KINDS = ast.FunctionDef | ast.ClassDef
Cells = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Code:
    """Runs of some code: with its own names numbered, and as they are."""

    runs: frozenset
    named: frozenset

    @classmethod
    def of(cls, nodes: Iterable[ast.AST]) -> "Code":
        """Return the runs of all nodes, each for itself; of one nested too deeply, none."""
        runs, named = set(), set()
        for node in nodes:
            try:
                words = list(words_of(node))
            except (RecursionError, ValueError):
                continue
            of_node = set(zip(*(words[start:] for start in range(RUN)), strict=False))
            runs |= set(map(_numbered, of_node))
            named |= of_node
        return cls(frozenset(runs), frozenset(named))

    def manner(self, other: "Code") -> str:
        """Return whether other code, which is like this, has its names too."""
        same = len(self.named & other.named) >= LIKE * len(self.named)
        return "word for word" if same else "with other names"


def _numbered(run: tuple[str, ...]) -> tuple[str, ...]:
    numbers: dict[str, str] = {}
    return tuple(
        numbers.setdefault(word, f"name {len(numbers)}") if isinstance(word, Own) else word
        for word in run
    )


def copies(cells: Cells, tasks: Collection[str]) -> list[str]:
    """Return what the cells (type, source) of a notebook with these tasks are like, if anything."""
    lesson = _lesson_of(frozenset(tasks))
    if lesson is None:
        return []
    sources = [source for kind, source in cells if kind == "code"]
    mine = Code.of(node for source in sources for node in tree_of(source).body)
    shown, remarks = _shown(lesson)
    return [
        *_like_solutions(mine, lesson, tasks, shown),
        *_comments(sources, lesson, remarks),
        *_like_package(mine, lesson),
    ]


def _like_solutions(mine: Code, lesson: str, tasks: Collection[str], shown: Code) -> Iterator[str]:
    solutions, _ = _solutions(lesson)
    left = {name: code.runs - shown.runs for name, code in solutions.items() if name in tasks}
    like = [
        name
        for name, runs in left.items()
        if len(runs) >= LEAST and len(runs & mine.runs) >= LIKE * len(runs)
    ]
    if sum(len(left[name]) for name in like) >= (ENOUGH if len(like) > 1 else ALONE):
        for manner in ("word for word", "with other names"):
            if names := [name for name in like if solutions[name].manner(mine) == manner]:
                yield f"like solutions/{lesson}, {manner}: {', '.join(names)}"


def _comments(sources: Sequence[str], lesson: str, shown: Collection[str]) -> Iterator[str]:
    _, comments = _solutions(lesson)
    same = (comments - shown) & _comments_in(sources)
    if len(same) >= COMMENTS:
        yield f"like solutions/{lesson}: {len(same)} of its comments"


def _like_package(mine: Code, lesson: str) -> Iterator[str]:
    said = ""
    for name, left in _left_of_package(lesson).items():
        if said and name.startswith(f"{said}."):  # a method of a class that was said
            continue
        if len(left & mine.runs) >= LIKE * len(left):
            said = name
            yield f"like {name}, {_package()[name].manner(mine)}"


# ---- What it is compared with


def _notebook(folder: str, lesson: str) -> Path:
    return course_folder() / folder / f"{lesson}.ipynb"


@functools.cache
def _lesson_of(tasks: frozenset[str]) -> str | None:
    """Return the lesson whose exercises have these tasks."""
    for folder in ("exercises", "solutions"):
        for path in sorted((course_folder() / folder).glob("[0-9][0-9]_*.ipynb")):
            nodes = (node for source in _sources(path) for node in tree_of(source).body)
            if tasks <= {node.name for node in nodes if isinstance(node, KINDS)}:
                return path.stem
    return None


def _sources(path: Path) -> list[str]:
    return [source for kind, source in read_cells(path) if kind == "code"] if path.exists() else []


def _comments_in(sources: Iterable[str]) -> set[str]:
    return {found for source in sources for found in COMMENT.findall(source)}


@functools.cache
def _shown(lesson: str) -> tuple[Code, set[str]]:
    """Return what everybody may write: code and comments of the exercise, hints, and lesson."""
    places = [_notebook(each, lesson) for each in ("exercises", "notebooks", "notebooks/evidence")]
    sources = []
    for path in places:
        for kind, source in read_cells(path) if path.exists() else ():
            sources += [source] if kind == "code" else SHOWN.findall(source)
    nodes = (node for source in sources for node in tree_of(source).body)
    return Code.of(nodes), _comments_in(sources)


@functools.cache
def _solutions(lesson: str) -> tuple[dict[str, Code], set[str]]:
    """Return the solution of each task, and their comments; nothing where none were handed out."""
    sources = _sources(_notebook("solutions", lesson))
    nodes = [node for source in sources for node in tree_of(source).body]
    defined = {node.name: Code.of([node]) for node in nodes if isinstance(node, KINDS)}
    return defined, _comments_in(sources)


@functools.cache
def _package() -> dict[str, Code]:
    """Return each function, class and method of the package by its dotted name."""
    found = {}
    for path in sorted(LIBRARY.rglob("*.py")):
        module = ".".join(path.relative_to(LIBRARY.parent).with_suffix("").parts)
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, KINDS):
                found[f"{module}.{node.name}"] = Code.of([node])
            for part in node.body if isinstance(node, ast.ClassDef) else ():
                if isinstance(part, ast.FunctionDef):
                    found[f"{module}.{node.name}.{part.name}"] = Code.of([part])
    return found


@functools.cache
def _left_of_package(lesson: str) -> dict[str, frozenset]:
    """Return the runs that the lesson does not show, where they are enough to say something."""
    shown, _ = _shown(lesson)
    left = {name: code.runs - shown.runs for name, code in _package().items()}
    return {name: runs for name, runs in left.items() if len(runs) >= OF_PACKAGE}
