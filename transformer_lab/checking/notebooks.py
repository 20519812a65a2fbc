"""Notebooks without a kernel: what they define is loaded, and nothing else of them is run."""

import ast
import json
import linecache
from pathlib import Path
from typing import Any

from transformer_lab.checking.diagnosis import CheckFailed


def load_notebook(path: str | Path) -> dict[str, Any]:
    """Return what a notebook defines: its imports, functions, classes and UPPERCASE constants.

    Nothing else is run. What cannot be loaded (a cell with a syntax error, a missing import) is
    listed under "__problems__", and the rest is there. Raises `ValueError` if the file is not a
    notebook.
    """
    path = Path(path)
    namespace: dict[str, Any] = {"__name__": path.stem, "__problems__": []}
    for number, (kind, source) in enumerate(read_cells(path), 1):
        if kind == "code":
            _load_cell(source, f"{path.name}, cell {number}", namespace)
    return namespace


def read_cells(path: Path) -> list[tuple[str, str]]:
    """Return the type and the source of each cell; `ValueError` if the file is not a notebook."""
    try:
        cells = json.loads(path.read_text("utf-8"))["cells"]
        return [(cell["cell_type"], "".join(cell["source"])) for cell in cells]
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        raise ValueError(f"{path} is not a notebook: {error}") from None


def _load_cell(source: str, where: str, namespace: dict[str, Any]) -> None:
    linecache.cache[where] = (len(source), None, source.splitlines(keepends=True), where)
    try:
        statements = _parse(source).body
    except SyntaxError as error:
        namespace["__problems__"].append(f"{where}, line {error.lineno}: {error.msg}")
        return
    except (ValueError, MemoryError, RecursionError) as error:  # no text, or too deeply nested
        namespace["__problems__"].append(f"{where}: {type(error).__name__}: {error}")
        return
    for statement in filter(_is_definition, statements):
        try:
            exec(compile(ast.Module([statement], []), where, "exec"), namespace)
        except (Exception, SystemExit) as error:
            problem = f"{where}, line {statement.lineno}: {type(error).__name__}: {error}"
            namespace["__problems__"].append(problem)


def _parse(source: str) -> ast.Module:
    """Parse a cell; only if that fails, without its magic lines."""
    try:
        return ast.parse(source)
    except SyntaxError:
        lines = source.splitlines()
        return ast.parse("\n".join("" if line.lstrip()[:1] in "%!?" else line for line in lines))


def _is_definition(statement: ast.stmt) -> bool:
    """Imports, functions, classes, UPPERCASE = anything, and name = lambda."""
    if isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        names = [node.id for target in targets for node in ast.walk(target) if hasattr(node, "id")]
        is_constant = bool(names) and all(name.isupper() for name in names)
        return is_constant or isinstance(statement.value, ast.Lambda)
    kinds = ast.Import | ast.ImportFrom | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    return isinstance(statement, kinds)


def task_from(namespace: dict[str, Any], task: str) -> Any:
    """Return what a loaded notebook defines as `task`; raises `CheckFailed` if nothing."""
    if task in namespace:
        return namespace[task]
    problems = "; ".join(namespace["__problems__"])
    because = f" Not loaded: {problems}." if problems else ""
    raise CheckFailed(f"{namespace['__name__']}.ipynb defines no {task}.{because}")
