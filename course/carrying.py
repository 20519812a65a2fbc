"""Answers go with their tasks: what a learner wrote in one sheet is carried into another.

The course may ask for a task in another lesson's sheet than before. The answer stays where the
learner wrote it, and comes a second time into the sheet that asks for it now, with what it needs:
its helpers and imports. Only a stub that nobody has touched is replaced.
"""

import ast
import builtins
import itertools
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from course.checking.notebooks import names_made, names_read, parse_cell, read_notebook
from course.stamps import NOTES, STUB, hash_of, original_of, source_of

SHEET = re.compile(r"\d\db_exercises_\w+\.ipynb")  # the names that the course gives in work/
NO_SHEET = re.compile(r"\d\d[ac]_")  # a lesson's or its evidence's: they show the answers
TITLE = re.compile(r"# Exercises \d\d · .*")
TASK = re.compile(r"^## Task \d+ · (.*)", re.MULTILINE)
CARRIED = "carried"  # where the metadata of a cell say from which sheet its code was carried
NOTE = "# From {}, carried over by `transformer-course update`{}.\n"
OLD_NOTE = re.compile(r"^# From .*, carried over by `transformer-course update`.*\n", re.MULTILINE)
REWORDED = "the text of the task has changed"
EVERYWHERE = {*dir(builtins), "display", "get_ipython"}


@dataclass(frozen=True)
class Piece:
    """A statement of a notebook, with the comments above it, or several that share a line."""

    cell: dict
    text: str
    statements: list[ast.stmt]

    @cached_property
    def makes(self) -> set[str]:
        """The names that it binds or changes."""
        return set().union(*map(names_made, self.statements))

    @cached_property
    def reads(self) -> set[str]:
        """The names of the notebook that it reads."""
        return set().union(*map(names_read, self.statements))

    def defines(self, name: str) -> bool:
        """Return whether it makes the name anew, not only changes what has it."""
        return any(_defines(statement, name) for statement in self.statements)

    @property
    def is_import(self) -> bool:
        """Whether it only imports."""
        return all(isinstance(each, ast.Import | ast.ImportFrom) for each in self.statements)


def _defines(statement: ast.stmt, name: str) -> bool:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return statement.name == name
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return any(isinstance(target, ast.Name) and target.id == name for target in targets)


def pieces_of(cell: dict) -> list[Piece]:
    """Return the statements of a cell, which together are its whole text.

    Raises `SyntaxError` or `ValueError` for what is not Python.
    """
    lines = source_of(cell).splitlines(keepends=True)
    groups: list[list[ast.stmt]] = []
    for statement in parse_cell(source_of(cell)).body:
        if groups and statement.lineno <= groups[-1][-1].end_lineno:
            groups[-1].append(statement)  # they share a line
        else:
            groups.append([statement])
    starts = [0, *(group[-1].end_lineno for group in groups)]
    starts[-1] = len(lines)
    texts = ["".join(lines[start:end]) for start, end in itertools.pairwise(starts)]
    return [Piece(cell, text, group) for text, group in zip(texts, groups, strict=True)]


class Sheet:
    """A notebook of exercises, and what is defined in it.

    `name` is its path in work/: a name, or one in a folder kept_… of older versions.
    """

    def __init__(self, name: str, notebook: dict):
        self.name, self.notebook = name, notebook
        self.stamps = original_of(notebook)
        texts = [source_of(cell) for cell in notebook["cells"] if cell["cell_type"] == "markdown"]
        titles = [found[0] for text in texts if (found := TITLE.match(text))]
        self.text = "\n".join(map(source_of, notebook["cells"]))
        self.title = titles[0] if titles else ""
        # What is asked by the name of the task, in order.
        self.asked = {
            name: text[found.end() :]
            for text in texts
            for found in TASK.finditer(text)
            for name in re.findall(r"`(\w+)`", found[1])
        }

    @cached_property
    def pieces(self) -> list[Piece]:
        """Its statements, without those of cells that are not Python."""
        return self._parsed[0]

    @cached_property
    def broken(self) -> str:
        """The text of its cells that are not Python."""
        return "\n".join(self._parsed[1])

    @cached_property
    def _parsed(self) -> tuple[list[Piece], list[str]]:
        pieces, broken = [], []
        for cell in self.notebook["cells"]:
            if cell["cell_type"] == "code":
                try:
                    pieces += pieces_of(cell)
                except (SyntaxError, ValueError, RecursionError, MemoryError):
                    broken.append(source_of(cell))
        return pieces, broken

    def makers(self, name: str) -> list[int]:
        """Return which of its pieces bind a name or change what has it."""
        return [number for number, piece in enumerate(self.pieces) if name in piece.makes]

    def is_touched(self, cell: dict) -> bool:
        """Return whether somebody has written in a cell, as far as the hashes tell."""
        return self.stamps is not None and self.stamps.get(cell.get("id")) != hash_of(cell)

    def is_answer(self, piece: Piece, name: str) -> bool:
        """Return whether somebody wrote this piece as the answer to a task.

        The course gives a stub to whom it asks. A sheet that does not ask may define the name
        itself; then it is an answer if it stands in a cell that did not come from the course.
        """
        added = self.is_touched(piece.cell) and piece.cell.get("id") not in self.stamps
        if name not in self.asked:
            return added
        return STUB not in piece.text or self.is_touched(piece.cell)

    @property
    def made(self) -> set[str]:
        """All names that it binds or changes."""
        return set().union(*(piece.makes for piece in self.pieces))

    def code_of(self, parts: list[int]) -> list[str]:
        """Return what some of its pieces do, however they are laid out."""
        return [ast.unparse(each) for part in parts for each in self.pieces[part].statements]

    def open_stub(self, name: str) -> Piece | None:
        """Return the stub of a task, if the name stands for it in the end."""
        makers = self.makers(name)
        last = self.pieces[makers[-1]] if makers else None
        return last if last and STUB in last.text and last.defines(name) else None

    def answer(self, name: str) -> list[int]:
        """Return the pieces that are the answer to a task; none if there is no answer."""
        if name not in self.text:  # which is found sooner than by reading it as Python
            return []
        makers = self.makers(name)
        begins = [number for number in makers if self.pieces[number].defines(name)]
        for begin in reversed(begins):  # and what changes it later, as in `A.forward = forward`
            parts = [begin, *(each for each in makers if each > begin and each not in begins)]
            if any(self.is_answer(self.pieces[part], name) for part in parts):
                return parts
        return []

    def with_needs(self, parts: list[int], there: Collection[str]) -> tuple[list[int], set[str]]:
        """Return pieces and what they need of this sheet, and the names that it lacks.

        What is `there` already is not needed.
        """
        found, lacking, seen = set(parts), set(), set(there) | EVERYWHERE
        waiting = [*parts]
        while waiting:
            for name in sorted(self.pieces[waiting.pop()].reads - seen):
                seen.add(name)
                makers = [n for n in self.makers(name) if STUB not in self.pieces[n].text]
                if not makers:
                    lacking.add(name)
                waiting += set(makers) - found
                found |= set(makers)
        return sorted(found), lacking


def sheets_in(work: Path) -> tuple[list[Sheet], list[str]]:
    """Return the sheets of work/, the one that was saved last first, and what cannot be read."""
    paths = sorted(work.glob("*.ipynb"), key=lambda path: (-_saved(path), path.name))
    return _read(work, paths)


def kept_sheets_in(work: Path) -> list[Sheet]:
    """Return the older versions of sheets, the latest first, as far as they can be read."""
    return _read(work, sorted(work.glob("kept_*/*.ipynb"), reverse=True))[0]


def _read(work: Path, paths: list[Path]) -> tuple[list[Sheet], list[str]]:
    sheets, unreadable = [], []
    for path in paths:
        if not NO_SHEET.match(path.name):
            try:
                sheets.append(Sheet(path.relative_to(work).as_posix(), read_notebook(path)))
            except ValueError:
                unreadable.append(path.name)
    return [sheet for sheet in sheets if _is_learners(sheet)], unreadable


def _saved(path: Path) -> float:
    return path.stat().st_mtime if path.exists() else 0.0


def _is_learners(sheet: Sheet) -> bool:
    """Return whether it is a sheet, and not a copy of the course's solutions."""
    is_sheet = sheet.title or SHEET.fullmatch(Path(sheet.name).name)
    return bool(is_sheet) and "### BEGIN SOLUTION" not in sheet.text


# ---- Carrying


@dataclass
class Carried:
    """A sheet into which answers were carried, from where, and what was not carried, and why."""

    notebook: dict
    tasks: dict[str, list[str]] = field(default_factory=dict)  # by the sheet that they come from
    left: dict[str, list[str]] = field(default_factory=dict)  # by the reason

    def leave(self, task: str, why: str) -> None:
        """Note that the answer to a task was not carried."""
        self.left.setdefault(why, []).append(task)

    def told(self) -> Iterator[str]:
        """Yield the lines that say what was carried and what was not."""
        for source, tasks in self.tasks.items():
            yield f"  yours, carried over from {source}: {', '.join(tasks)}"
        for why, tasks in self.left.items():
            yield f"  not carried over: {', '.join(tasks)}: {why}"


def carry(
    name: str, notebook: dict, known: Collection[str], live: list[Sheet], kept: list[Sheet]
) -> Carried:
    """Return the sheet `name` of work/ with the answers to its tasks that stand in other sheets.

    `known` are the hashes of cells as the course hands them out: a stub with another one is not
    replaced. `live` are the sheets of work/, `kept` older versions, which are looked through last.
    """
    result, here = Carried(notebook), Sheet(name, notebook)
    others = [sheet for sheet in live if sheet.name != name]
    copies = [sheet for sheet in others if _is_copy(sheet, here)]
    others = [sheet for sheet in others if sheet not in copies]
    older = [sheet for sheet in kept if Path(sheet.name).name != name]
    for task in here.asked:
        stub = here.open_stub(task)
        if stub is None or _notes(stub.cell).get(CARRIED):
            continue  # carried once: who puts the stub back wants to solve it again
        if hash_of(stub.cell) not in known:
            begun = [sheet for sheet in (*others, *older) if sheet.answer(task)]
            for sheet in begun[:1]:
                result.leave(task, f"begun here; what you wrote before is in {sheet.name}")
        elif answers := [sheet for sheet in (*others, here, *older) if sheet.answer(task)]:
            _put(result, task, here, stub, _complete(answers, task, here))
            here = Sheet(name, result.notebook)
        else:
            for sheet in (*copies, *others):
                if why := _why_not(sheet, task):
                    result.leave(task, why)
    return result


def _is_copy(sheet: Sheet, here: Sheet) -> bool:
    """Return whether `sheet` is the learner's copy of `here`, and not one of version 1.

    Those have no hashes, or the name that they had in exercises/.
    """
    older = sheet.stamps is None or re.fullmatch(r"\d\d_\w+\.ipynb", sheet.name)
    return sheet.title == here.title and not older


def _notes(cell: dict) -> dict:
    notes = cell.get("metadata", {}).get(NOTES)
    return notes if isinstance(notes, dict) else {}


def _why_not(sheet: Sheet, task: str) -> str:
    """Return why no answer was taken from a sheet in which one might be looked for."""
    if sheet.answer(task):
        return f"{sheet.name} is a copy of this sheet"
    if re.search(rf"^(def|class) {task}\b", sheet.broken, re.MULTILINE):
        return f"its cell in {sheet.name} is not Python"
    renamed = task in sheet.asked and not sheet.makers(task)
    return f"nothing in {sheet.name} has this name" if renamed else ""


def _complete(answers: list[Sheet], task: str, here: Sheet) -> Sheet:
    """Return the first sheet, or an older version that has what the same answer needs besides."""
    first = answers[0].code_of(answers[0].answer(task))
    for sheet in answers:
        parts = sheet.answer(task)
        if sheet.code_of(parts) == first and not sheet.with_needs(parts, here.made)[1]:
            return sheet
    return answers[0]


def _put(result: Carried, task: str, here: Sheet, stub: Piece, source: Sheet) -> None:
    """Put the answer of `source`, with what it needs, in the place of the stub; or say why not."""
    answer = source.answer(task)
    parts, lacking = source.with_needs(answer, here.made)
    if other := _differing(source, parts, here):
        result.leave(task, f"it uses {other} of {source.name}, and here {other} is another")
        return
    reworded = source.asked.get(task) not in (None, here.asked[task])
    note = NOTE.format(source.name, f"; {REWORDED}" if reworded else "")
    text = note + "\n\n\n".join(_bare(source.pieces[part].text) for part in parts)
    text += "\n" * stub.text.endswith("\n")
    around = [piece for piece in here.pieces if piece.cell is stub.cell]
    whole = "".join(text if piece is stub else piece.text for piece in around)
    notes = {NOTES: _notes(stub.cell) | {CARRIED: source.name}}
    cell = stub.cell | {"source": whole.splitlines(keepends=True)}
    cell |= {"metadata": cell.get("metadata", {}) | notes, "outputs": [], "execution_count": None}
    try:
        pieces_of(cell)
    except (SyntaxError, ValueError):
        result.leave(task, f"its cell in {source.name} is not Python by itself")
        return
    cells = [cell if each is stub.cell else each for each in here.notebook["cells"]]
    result.notebook = here.notebook | {"cells": cells}
    helpers = set().union(*(source.pieces[part].makes for part in parts if part not in answer))
    remarks = [f"with {name}" for name in sorted(helpers)]
    remarks += [f"without {name}, which is not there" for name in sorted(lacking)]
    remarks += [REWORDED] * reworded
    told = f"{task} ({', '.join(remarks)})" if remarks else task
    result.tasks.setdefault(source.name, []).append(told)


def _bare(text: str) -> str:
    """Return the text of a statement without a cell's magic line, and without an older note."""
    return OLD_NOTE.sub("", re.sub(r"\A\s*%%.*\n", "", text)).strip("\n")


def _differing(source: Sheet, parts: list[int], here: Sheet) -> str:
    """Return a name that the parts use and that the learner has defined otherwise than `here`."""
    pieces = [source.pieces[part] for part in parts]
    reads = set().union(*(piece.reads for piece in pieces))
    reads -= set().union(*(piece.makes for piece in pieces), here.asked)
    for name in sorted(reads):
        theirs, ours = source.makers(name), here.makers(name)
        cells = [source.pieces[n].cell for n in theirs if not source.pieces[n].is_import]
        own = source.stamps is None or any(map(source.is_touched, cells))
        if cells and ours and own and source.code_of(theirs) != here.code_of(ours):
            return name
    return ""
