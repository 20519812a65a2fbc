"""Notebooks without a kernel: what they define is loaded, and nothing else of them is run."""

import ast
import dis
import json
import linecache
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from course.checking.diagnosis import CheckFailed
from course.checking.slips import missing_import


def load_notebook(path: str | Path, names: Iterable[str] | None = None) -> dict[str, Any]:
    """Return what a notebook defines: imports, functions, classes, UPPERCASE constants, and the
    other names that these, or a call of `check`, read, however they are made.

    With `names`, only these and what they read. Nothing else is run. What cannot be loaded (a cell
    with a syntax error, a missing import) is listed under "__problems__", and by the names that are
    lost with it under "__lost__"; the rest is there.
    Raises `ValueError` if the file is not a notebook.
    """
    path = Path(path)
    return load_cells(read_cells(path), path.stem, names)


def load_cells(
    cells: Iterable[tuple[str, str]],
    name: str,
    names: Iterable[str] | None = None,
    given: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return what the cells (type, source) of the notebook `name` define, as `load_notebook`.

    What is `given` stands from the beginning, and no statement that makes one of its names is run.
    """
    given = given or {}
    module = ModuleType(name)  # a dataclass asks the module of its class what its types are
    sys.modules.setdefault(name, module)
    namespace: dict[str, Any] = vars(module)
    namespace |= {"__problems__": [], "display": lambda *_, **__: None}  # as a notebook has it
    namespace |= given
    statements = []
    for number, (kind, source) in enumerate(cells, 1):
        if kind == "code":
            where = f"{name}.ipynb, cell {number}"
            statements += [(where, each) for each in _statements(source, where, namespace)]
    needed = _needed([statement for _, statement in statements], names)
    failed: dict[str, str] = {}
    for where, statement in statements:
        made = names_made(statement)
        if made & given.keys():
            continue
        if made & needed or (names is None and _is_definition(statement)):
            problem = _load(statement, where, namespace)
            failed |= dict.fromkeys(made or [problem], problem)
    # Of the assignments only those count that no other has made good.
    lost = {name: why for name, why in failed.items() if why and name not in namespace}
    namespace["__problems__"] += dict.fromkeys(lost.values())
    namespace["__lost__"] = lost
    return namespace


def read_cells(path: Path) -> list[tuple[str, str]]:
    """Return the type and the source of each cell; `ValueError` if the file is not a notebook."""
    cells = read_notebook(path)["cells"]
    return [(str(cell["cell_type"]), "".join(cell["source"])) for cell in cells]


def read_notebook(path: Path) -> dict:
    """Return a notebook as it is stored; `ValueError` if the file is not a notebook."""
    try:
        notebook = json.loads(path.read_text("utf-8"))
        for cell in notebook["cells"]:
            str(cell["cell_type"]), "".join(cell["source"]), dict(cell.get("metadata", {}))
        return notebook | {"metadata": dict(notebook.get("metadata", {}))}
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        raise ValueError(f"{path} is not a notebook: {error}") from None


def _statements(source: str, where: str, namespace: dict[str, Any]) -> list[ast.stmt]:
    """Return a cell's statements; note where its source stands, for messages that quote a line."""
    linecache.cache[where] = (len(source), None, source.splitlines(keepends=True), where)
    try:
        return parse_cell(source).body
    except SyntaxError as error:
        namespace["__problems__"].append(f"{where}, line {error.lineno}: {error.msg}")
    except (ValueError, MemoryError, RecursionError) as error:  # no text, or too deeply nested
        namespace["__problems__"].append(f"{where}: {type(error).__name__}: {error}")
    return []


def _load(statement: ast.stmt, where: str, namespace: dict[str, Any]) -> str:
    """Run a statement; return what went wrong, or nothing."""
    try:
        # `from __future__ import annotations` holds for all that comes after it.
        flags = getattr(namespace.get("annotations"), "compiler_flag", 0)
        exec(compile(ast.Module([statement], []), where, "exec", flags), namespace)
    except KeyboardInterrupt:  # somebody pressed Ctrl-C
        raise
    except BaseException as error:
        told = f"{where}, line {statement.lineno}: {type(error).__name__}: {error}"
        return f"{told}. {put_back}" if (put_back := missing_import(error)) else told
    return ""


# Cell magics whose text runs in the notebook itself; that of the others, as %%bash, does not.
TRANSPARENT = ("%%time", "%%capture", "%%prun")


def parse_cell(source: str) -> ast.Module:
    """Parse a cell, its magic lines as IPython reads them. Raises what `ast.parse` raises."""
    try:
        return ast.parse(source)
    except SyntaxError:
        from IPython.core.inputtransformer2 import TransformerManager

        first = next(iter(source.split(maxsplit=1)), "")  # a space of another kind is no code
        if first.startswith("%%"):
            if first not in TRANSPARENT:
                return ast.Module([], [])
            source = source.replace(source.lstrip().splitlines()[0], "", 1)
        # What `%time n = 2` makes is there afterwards, as without it.
        source = "\n".join(line.removeprefix("%time ") for line in source.split("\n"))
        try:
            return ast.parse(TransformerManager().transform_cell(source))
        except RuntimeError as error:  # IPython's, for hundreds of magic lines
            raise SyntaxError(str(error)) from None


def _is_definition(statement: ast.stmt) -> bool:
    """Imports, functions, classes, UPPERCASE = anything, name = lambda; in an if or try too."""
    if names := _assigned(statement):
        is_constant = all(name.isupper() for name in names)
        return is_constant or isinstance(statement.value, ast.Lambda)
    if isinstance(statement, ast.If | ast.Try | ast.With):
        inside = (each for each in ast.iter_child_nodes(statement) if isinstance(each, ast.stmt))
        return any(map(_is_definition, inside))
    kinds = ast.Import | ast.ImportFrom | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    return isinstance(statement, kinds)


def _assigned(statement: ast.stmt) -> list[str]:
    """Return the names that a plain assignment makes, none for any other statement."""
    if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
        return []
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    return [node.id for target in targets for node in ast.walk(target) if hasattr(node, "id")]


def names_made(statement: ast.stmt) -> set[str]:
    """Return the names that a statement binds or changes: N = 1, N += 1, T["x"] = 1, T.x = 1."""
    bound = {step.argval for step in dis.get_instructions(_code(statement)) if step.opname == STORE}
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return bound
    for node in ast.walk(statement):  # T["x"] = 1 may stand in a loop, and so may T.append(1)
        match node:
            case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store()):
                bound.add(name)
            case ast.Attribute(value=ast.Name(id=name), ctx=ast.Store()):
                bound.add(name)
            case ast.Expr(ast.Call(ast.Attribute(ast.Name(id=name), attr))):
                if attr in CHANGING or attr.endswith("_"):
                    bound.add(name)
    return bound


CHANGING = ("add", "append", "extend", "insert", "setdefault", "sort", "update")


STORE, READS = "STORE_NAME", ("LOAD_NAME", "LOAD_GLOBAL")


def _needed(statements: list[ast.stmt], names: Iterable[str] | None) -> set[str]:
    """Return what definitions and calls of `check` read, and what that is made of; or `names`, and
    what those are made of.
    """
    needed, before = set(names or ()), None
    seeds = [names is None and (_is_definition(s) or _checks(s)) for s in statements]
    parts = [
        (seed, names_made(s), names_read(s)) for seed, s in zip(seeds, statements, strict=True)
    ]
    while needed != before:
        before = set(needed)
        for reads, made, names in parts:
            if reads or made & needed:
                needed |= names
    return needed


def names_read(statement: ast.stmt) -> set[str]:
    """Return the names of the notebook that a statement, and the functions in it, read."""
    return _read(_code(statement))


def _code(statement: ast.stmt) -> CodeType:
    try:
        return compile(ast.Module([statement], []), "", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # as `return` outside a function
        return compile("", "", "exec")


def _read(code: CodeType) -> set[str]:
    names = {step.argval for step in dis.get_instructions(code) if step.opname in READS}
    return names.union(*(_read(each) for each in code.co_consts if isinstance(each, CodeType)))


def _checks(statement: ast.stmt) -> bool:
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and getattr(call.func, "id", None) == "check"


def task_from(namespace: dict[str, Any], task: str) -> Any:
    """Return what a loaded notebook defines as `task`; raises `CheckFailed` if nothing."""
    if task in namespace:
        return namespace[task]
    file, lost = f"{namespace['__name__']}.ipynb", namespace["__lost__"]
    problems = [lost[task]] if task in lost else namespace["__problems__"]
    told = "; ".join(problem.removeprefix(f"{file}, ") for problem in problems).rstrip(".")
    because = f" Not loaded: {told}." if told else ""
    raise CheckFailed(f"{file} defines no {task}.{because}")
