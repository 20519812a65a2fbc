"""A mistake counts once: what a task needs of another one can be the reference's.

`attend_one` may call the sheet's `stable_softmax`. If that one is wrong, missing, a loop, or ends
Python, `attend_one` fails with it, though nothing is wrong in it. So a task that has failed is
judged once more, with the reference in the place of those other failed tasks that it needs. Where
the course was handed out without solutions there is no reference: the feedback says so.
"""

import ast
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path

from course.checking.child import MISSING, WRONG
from course.checking.course import checks_in
from course.checking.judge import ENDED, STOPPED, Outcome
from course.checking.sandbox import NOT_WRITTEN
from course.grading.submissions import tree_of

Cells = Sequence[tuple[str, str]]
FAILED = (WRONG, MISSING, STOPPED, ENDED, NOT_WRITTEN)  # whoever altered the checks stays so
WITHOUT = (
    "This task needs your {}, which failed, too. It was graded without the course's solutions, so "
    "no reference could take that place: if it failed for that reason alone, ask for its points."
)


def counted_once(
    outcomes: Sequence[Outcome],
    cells: Cells,
    checks: Path,
    tasks: Sequence[Sequence[str]],
    judge_with: Callable[[Sequence[str], Sequence[str]], Outcome] | None,
) -> list[Outcome]:
    """Return the outcomes, each without what a mistake in another task has cost it.

    `judge_with(names, given)` judges the task of `names` with the reference's `given`; None if
    there is no reference, and the outcomes only say what it might have changed.
    """
    failed = [n for n, each in enumerate(outcomes) if each.state in FAILED]
    result = list(outcomes)
    for number in failed:
        own = tasks[number]
        if outcomes[number].state == NOT_WRITTEN and not outcomes[number].why:
            continue  # its own body is empty
        others = {name for n in failed if n != number for name in tasks[n]}
        if not (given := sorted(needed_by(cells, checks, own) & others)):
            continue
        if judge_with:
            result[number] = _told(judge_with(own, given), given)
        else:
            result[number] = _with_note(outcomes[number], WITHOUT.format(" and ".join(given)))
    return result


def _told(outcome: Outcome, given: Sequence[str]) -> Outcome:
    its = "its" if len(given) == 1 else "their"
    note = (
        f"Graded with the reference in the place of your {' and '.join(given)}: what is wrong "
        f"there costs {its} own points only."
    )
    return _with_note(outcome, note)


def _with_note(outcome: Outcome, note: str) -> Outcome:
    message = "\n\n".join(filter(None, (note, outcome.message or outcome.why)))
    return replace(outcome, message=message)


def needed_by(cells: Cells, checks: Path, names: Collection[str]) -> set[str]:
    """Return all names that the definitions of `names` read, and those read, and so on; and what
    the checks of `names` take beside them.
    """
    needed = set(names).union(
        *(set(each) for each in checks_in(checks).values() if {*each} & {*names})
    )
    statements = [
        (_bound(each), _read(each))
        for kind, source in cells
        if kind == "code"
        for each in tree_of(source).body
    ]
    before: set[str] = set()
    while needed != before:
        before = set(needed)
        needed = needed.union(*(reads for bound, reads in statements if bound & needed))
    return needed - set(names)


def _bound(statement: ast.stmt) -> set[str]:
    """Return the names that a statement of a notebook makes."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {statement.name}
    names = (each for each in ast.walk(statement) if isinstance(each, ast.Name))
    return {each.id for each in names if isinstance(each.ctx, ast.Store)}


def _read(statement: ast.stmt) -> set[str]:
    names = (each for each in ast.walk(statement) if isinstance(each, ast.Name))
    return {each.id for each in names if isinstance(each.ctx, ast.Load)}
