"""What a teacher may want to look at in a notebook. A flag never costs a point."""

import ast
import re
import unicodedata
from collections.abc import Collection, Iterator, Sequence

from course.grading.copies import copies
from course.grading.submissions import places_of, some_of, tree_of, which_counts

CHECKER = "course.checking"
MODULES = {
    **dict.fromkeys(("socket", "requests", "urllib", "http", "ftplib"), "the network"),
    **dict.fromkeys(("subprocess", "multiprocessing", "signal", "pty"), "other processes"),
    **dict.fromkeys(("ctypes", "gc", "cffi"), "Python's inside"),
}
NAMES = {
    **dict.fromkeys(("_exit", "abort", "kill", "fork", "system", "popen"), "processes"),
    **dict.fromkeys(
        ("_getframe", "f_globals", "f_back", "__globals__", "__code__", "__builtins__"),
        "Python's inside",
    ),
    **dict.fromkeys(("rmtree", "unlink", "rmdir"), "deleting files"),
}
SECRET = re.compile(r"solutions[/\\]|tests[/\\]|answers_\d\d|test_\d\d_")
LONGEST = 100  # characters of a flag
OWN = (
    "course",
    "transformer_lab",
    "torch",
    "numpy",
    "math",
    "builtins",
    "diagnosis",
    "sandbox",
    "np",
    "F",
)


def look(cells: Sequence[tuple[str, str]], tasks: Collection[str]) -> list[str]:
    """Return what is striking in a notebook's cells (type, source), as "cell 7: …"."""
    flags, checked, defined = [], set(), places_of(cells)
    for number, (kind, source) in enumerate(cells, 1):
        if kind != "code":
            continue
        if any(unicodedata.category(each) == "Cf" for each in source):
            flags.append(f"cell {number}: invisible characters")
        tree = tree_of(source)
        striking = dict.fromkeys(what[:LONGEST] for what in _striking(tree, tasks))
        flags += [f"cell {number}: {what}" for what in striking]
        checked |= _checked(tree)
    flags = some_of(flags)
    often = {name: where for name, where in defined.items() if name in tasks and len(where) > 1}
    flags += [which_counts(name, where) for name, where in often.items()]
    flags += some_of(copies(cells, tasks))
    return flags + [f"no check of {each}" for each in tasks if each not in checked]


def _striking(tree: ast.Module, tasks: Collection[str]) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                for each in names:
                    yield from _imported(each.name)
            case ast.ImportFrom(module=str(module), names=names):
                for each in names:
                    if each.name != "check":
                        yield from _imported(module)
                    if module.split(".")[0] in ("course", "transformer_lab") and each.name in tasks:
                        yield f"imports the answer, {each.name}"
            case ast.Attribute(attr=name) | ast.Name(id=name) if name in NAMES:
                yield f"{name}: {NAMES[name]}"
            case ast.Constant(value=str(text)) if SECRET.search(text) and len(text) < 300:
                yield f"names {text[:60]!r}"
            case ast.FunctionDef(name="check") | ast.ClassDef(name="check"):
                yield "defines check"
            case ast.Name(id="check", ctx=ast.Store()):
                yield "defines check"
            case ast.Attribute(attr=name, value=value, ctx=ast.Store()):
                if (whole := f"{_dotted(value)}.{name}").split(".")[0] in OWN:
                    yield f"changes {whole}"
            case ast.Call(func=ast.Name(id="setattr" | "exec" | "eval" | "__import__" as name)):
                yield f"calls {name}"
            case ast.ClassDef(body=body):
                if any(getattr(each, "name", "") == "__eq__" for each in body):
                    yield f"{node.name} says itself what it equals"


def _imported(module: str) -> Iterator[str]:
    if module.startswith(CHECKER):
        yield f"imports {module}"
    elif module.split(".")[0] in MODULES:
        yield f"imports {module}: {MODULES[module.split('.')[0]]}"


def _dotted(node: ast.expr) -> str:
    """Return a.b.c; nothing for what does not begin with a name."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def _checked(tree: ast.Module) -> set[str]:
    """Return the names that calls of `check` mention."""
    calls = (each for each in ast.walk(tree) if isinstance(each, ast.Call))
    mine = [each for each in calls if getattr(each.func, "id", "") == "check"]
    inside = [node for call in mine for node in ast.walk(call)]
    names = {each.id for each in inside if isinstance(each, ast.Name)}
    return names | {each.arg for each in inside if isinstance(each, ast.keyword) and each.arg}
