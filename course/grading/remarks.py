"""What a student is told about a notebook as a whole: once, above the tasks.

A cell of imports that is gone, a task's cell that became text, two definitions of one task: each of
them shows in several tasks, or in none, and none of these messages names the cause.
"""

import ast
import functools
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from course.checking.course import course_folder
from course.checking.notebooks import read_cells
from course.grading.submissions import places_of, tree_of, which_counts

Cells = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Remark:
    """What is said about a notebook, and the names that it lacks for want of an import."""

    text: str
    missing: frozenset[str] = frozenset()


HAND_IN = "save the notebook, and hand it in once more"
NOT_DEFINED = re.compile(r"NameError: name '(\w+)' is not defined")


def remarks(cells: Cells, lesson: str, tasks: Collection[str]) -> list[Remark]:
    """Return what is to be said about the cells (type, source) of a lesson's notebook."""
    if not cells:  # nothing was handed in, or nothing that can be read
        return []
    given = course_cells(lesson)
    found = [*_missing_imports(cells, given), *_turned_to_text(cells, tasks)]
    return found + [
        Remark(f"{which_counts(name, where)}. Delete what you do not mean.")
        for name, where in places_of(cells).items()
        if name in tasks and len(where) > 1
    ]


@functools.cache
def course_cells(lesson: str) -> Cells:
    """Return the cells of the exercise as it is given."""
    places = [course_folder() / where / f"{lesson}.ipynb" for where in ("exercises", "solutions")]
    return tuple(read_cells(next(path for path in places if path.exists())))


def _code(cells: Cells) -> list[ast.Module]:
    return [tree_of(source) for kind, source in cells if kind == "code"]


def _missing_imports(cells: Cells, given: Cells) -> Iterator[Remark]:
    """Say which of the given imports the notebook needs and has no more."""
    needed = missing_imports(cells, given)
    if not needed:
        return
    lines = "\n".join(f"    {line}" for line in dict.fromkeys(needed.values()))
    where = next((n for n, (kind, text) in enumerate(cells, 1) if _holds_imports(kind, text)), 0)
    gone = f"they stand in cell {where}, which is a text now" if where else "no code cell has them"
    yield Remark(
        f"The imports of {', '.join(needed)} are missing: {gone}. What needs them could not be "
        f"run. Put these lines into a code cell at the top, {HAND_IN}:\n{lines}",
        frozenset(needed),
    )


def missing_imports(cells: Cells, given: Cells) -> dict[str, str]:
    """Return the line that imports it for each name that is given, used, and not imported."""
    lines = {
        each.asname or each.name.split(".")[0]: ast.unparse(node)
        for tree in _code(given)
        for node in tree.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for each in node.names
    }
    nodes = [node for tree in _code(cells) for node in ast.walk(tree)]
    bound = {
        each.asname or each.name.split(".")[0]
        for node in nodes
        if isinstance(node, ast.Import | ast.ImportFrom)
        for each in node.names
    }
    bound |= {node.id for node in nodes if isinstance(node, ast.Name) and _stores(node)}
    bound |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    used = {node.id for node in nodes if isinstance(node, ast.Name) and not _stores(node)}
    lost = {name: line for name, line in lines.items() if name in used and name not in bound}
    # Without `check` alone the answers are the same, and a star may import anything.
    return {} if lost.keys() <= {"check"} or "*" in bound else lost


def _stores(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)


def _holds_imports(kind: str, text: str) -> bool:
    return kind != "code" and bool(re.search(r"^(import \w+|from \w\S* import )", text, re.M))


def _turned_to_text(cells: Cells, tasks: Collection[str]) -> Iterator[Remark]:
    """Say which task stands in a text, where nothing is run."""
    defined = places_of(cells)
    for number, (kind, source) in enumerate(cells, 1):
        if kind == "code":
            continue
        for name in tasks:
            if name not in defined and re.search(rf"^(def|class) {name}\b", source, re.M):
                yield Remark(
                    f"{name} stands in cell {number}, which is a text now, so it was not run. "
                    "Click on the cell, choose Code instead of Markdown in the list above the "
                    f"notebook (or press Esc, then Y), run it, {HAND_IN}."
                )


# ---- The page of a student


def told(rows: Sequence[Any], of_lesson: Mapping[str, Sequence[Remark]]) -> list[dict[str, Any]]:
    """Return for each lesson its name, what is said once, and its rows, each with its text.

    What all tasks would be told in the same words, and what follows from missing imports, is said
    once.
    """
    lessons = []
    for lesson in dict.fromkeys(row.lesson for row in rows):
        mine = [row for row in rows if row.lesson == lesson]
        notes = of_lesson.get(lesson, ())
        missing = frozenset().union(*(note.missing for note in notes))
        once, texts = [note.text for note in notes], [_text(row, missing) for row in mine]
        if len(mine) > 1 and texts[0] and len(set(texts)) == 1:
            once, texts = [texts[0], *once], [""] * len(mine)
        lessons.append({"name": lesson, "once": once, "rows": list(zip(mine, texts, strict=True))})
    return lessons


def _text(row: Any, missing: Collection[str]) -> str:
    text = row.message or row.why
    cause = NOT_DEFINED.search(text)
    if cause and cause[1] in missing:
        return f"It needs the import of {cause[1]}: see above."
    return text
