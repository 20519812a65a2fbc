"""What an import costs, which file may use which, and how long the package may grow."""

import ast
import io
import json
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest

import transformer_lab

PACKAGE = Path(transformer_lab.__file__).parent
# From the bottom up: a file may import only from files before it. First what the lessons build,
MODEL = [
    *("inputs", "config", "masks", "attention", "dropout", "embedding", "layers", "files"),
    *("model", "loss", "data", "tokenizer", "training", "decoding", "runs"),
]
# then what shows and checks it, which none of the files above may know.
AROUND = [
    *("diagrams", "plots", "notebook", "diagnosis", "watching", "checking", "progress"),
    *("cli", "__main__"),
]
ORDER = MODEL + AROUND
LATE = ("matplotlib", "babel", "sacrebleu", "tokenizers", "ipywidgets", "pytest", "beartype")


def run_python(code: str) -> str:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def imports_of(name: str) -> set[str]:
    """The course's own files that a file imports, wherever in it."""
    tree, found = ast.parse((PACKAGE / f"{name}.py").read_text()), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    parts = [module.split(".") for module in found]
    return {p[1] for p in parts if p[0] == "transformer_lab" and len(p) > 1} & set(ORDER)


def code_lines(path: Path) -> int:
    """The number of lines that are neither blank, nor comment, nor docstring."""
    source = path.read_text()
    documented = set()
    for node in ast.walk(ast.parse(source)):
        kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
        if isinstance(node, kinds) and ast.get_docstring(node) is not None:
            documented |= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    empty = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in (*empty, tokenize.ENDMARKER):
            lines |= set(range(token.start[0], token.end[0] + 1))
    return len(lines - documented)


@pytest.mark.serial
def test_import_adds_at_most_a_third_of_a_second_to_torch():
    code = (
        "import time, torch; start = time.perf_counter(); import transformer_lab; "
        "print(time.perf_counter() - start)"
    )
    assert min(float(run_python(code)) for _ in range(3)) <= 0.3


def test_import_brings_in_nothing_needed_later_and_touches_nothing(tmp_path):
    """It prints nothing, and opens no file but Python's own, no folder, process or connection."""
    code = f"""
import os, sys, json, torch, jaxtyping
os.chdir({str(tmp_path)!r})
seen = []
sys.addaudithook(lambda event, arguments: seen.append((event, str(arguments[:1]))))
import transformer_lab
kinds = ("os.mkdir", "os.remove", "os.rename", "subprocess.Popen", "os.system", "os.fork")
touched = [s for s in seen if s[0] in kinds or s[0].startswith(("socket.", "urllib."))]
opened = [name for event, name in seen if event == "open"]
touched += [name for name in opened if ".py" not in name and ".so" not in name]
print(json.dumps([touched, len(opened), list(sys.modules)]))
"""
    touched, opened, loaded = json.loads(run_python(code))
    assert touched == [] and opened > 10
    assert not set(LATE) & set(loaded)
    assert list(tmp_path.iterdir()) == []


def test_every_file_has_its_place_in_the_order():
    assert sorted(ORDER) == sorted(p.stem for p in PACKAGE.glob("*.py") if p.stem != "__init__")


@pytest.mark.parametrize("name", ORDER)
def test_dependencies_point_one_way(name):
    assert imports_of(name) <= set(ORDER[: ORDER.index(name)])


@pytest.mark.parametrize("name", [name for name in ORDER if name != "progress"])
def test_a_name_is_imported_from_the_file_that_defines_it(name):
    for node in ast.walk(ast.parse((PACKAGE / f"{name}.py").read_text())):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("transformer_lab."):
            home = (PACKAGE / f"{node.module.split('.')[1]}.py").read_text()
            borrowed = {
                a.name
                for n in ast.parse(home).body
                if isinstance(n, ast.ImportFrom)
                for a in n.names
            }
            assert not {alias.name for alias in node.names} & borrowed, node.module


def test_the_package_itself_knows_nothing_of_what_shows_and_checks_it():
    assert not imports_of("__init__") & set(AROUND)


def test_what_the_lessons_build_stays_small():
    lines = {name: code_lines(PACKAGE / f"{name}.py") for name in [*MODEL, "__init__"]}
    assert sum(lines.values()) <= 2000, lines


def test_every_public_name_exists_and_is_documented():
    for name in transformer_lab.__all__:
        value = getattr(transformer_lab, name)
        if callable(value):
            assert (value.__doc__ or "").strip(), f"{name} has no docstring"


def test_no_function_is_longer_than_40_lines():
    long = []
    for path in PACKAGE.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                body = node.body[1:] if ast.get_docstring(node) else node.body
                lines = body[-1].end_lineno - body[0].lineno + 1 if body else 0
                if lines > 40:
                    long.append(f"{path.name}: {node.name} has {lines} lines")
    assert not long
