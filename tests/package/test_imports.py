"""What an import costs, which file may use which, and how long the package may grow."""

import ast
import io
import json
import statistics
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest

import transformer_lab

PACKAGE = Path(transformer_lab.__file__).parent
# From the bottom up: a file may import only from files before it. First what supports the model,
SUPPORT = ["support.validation", "support.files", "support.dropout", "support.threads"]
# then what a reader reads, in this order but for the cache, which waits for lesson 09,
READ = [
    *("config", "masks", "cache", "attention", "embedding", "layers", "model"),
    *("decoding", "tokenizer"),
]
# then what the model learns from, how it learns, and the whole path,
AROUND_THE_MODEL = [
    *("data.batches", "data.dates", "data.multi30k", "data.pairs", "data.prose", "data.scenes"),
    *("training.loss", "training.fused_loss", "training.schedule", "training.optimizer"),
    *("training.step", "training.checkpoints", "training.loop", "presets", "runs"),
]
# then what shows and checks it, which none of the files above may know.
SHOWN_AND_CHECKED = [
    *("diagrams", "plots", "notebook"),
    *("checking.diagnosis", "checking.sandbox", "checking.own_work", "checking.course"),
    *("checking.notebooks", "checking.live", "checking.records", "checking.integrity"),
    *("checking.child", "checking.isolation", "checking.engine", "checking.progress"),
    *("grading.rubric", "grading.submissions", "grading.static_look", "grading.similarity"),
    *("grading.marks", "grading.grade", "cli", "__main__"),
]
ORDER = [*SUPPORT, *READ, *AROUND_THE_MODEL, *SHOWN_AND_CHECKED]
LATE = ("matplotlib", "babel", "sacrebleu", "tokenizers", "ipywidgets", "pytest", "beartype")


def run_python(code: str) -> str:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def file_of(module: str) -> Path:
    return PACKAGE / f"{module.replace('.', '/')}.py"


def modules() -> list[str]:
    """Every file of the package, however deep, by its dotted name; packages' own files aside."""
    paths = [path.relative_to(PACKAGE).with_suffix("") for path in PACKAGE.rglob("*.py")]
    return [".".join(path.parts) for path in paths if path.name != "__init__"]


def imports_of(file: Path) -> set[str]:
    """The course's own files that a file imports, wherever; a package stands for all of its own."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    names = {name.removeprefix("transformer_lab.") for name in found if "transformer_lab." in name}
    packages = {module.split(".")[0] for module in ORDER if "." in module}
    files = {module for module in ORDER for name in names if f"{name}.".startswith(f"{module}.")}
    for package in packages & {name.split(".")[0] for name in names}:
        if not any(module.startswith(f"{package}.") and module in files for module in ORDER):
            files |= {module for module in ORDER if module.startswith(f"{package}.")}
    return files


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


def test_import_adds_at_most_a_third_of_a_second_to_torch():
    code = (
        "import time, torch; start = time.process_time(); import transformer_lab; "
        "print(time.process_time() - start)"
    )
    assert any(float(run_python(code)) <= 0.3 for _ in range(3))


def test_import_brings_in_nothing_needed_later_and_touches_nothing(tmp_path):
    """It prints nothing, and opens no folder, process or connection, and no file but Python's own
    and those in which Linux says how many cores the process may use."""
    code = f"""
import os, sys, json, torch, jaxtyping
os.chdir({str(tmp_path)!r})
seen = []
sys.addaudithook(lambda event, arguments: seen.append((event, str(arguments[:1]))))
import transformer_lab
kinds = ("os.mkdir", "os.remove", "os.rename", "subprocess.Popen", "os.system", "os.fork")
touched = [s for s in seen if s[0] in kinds or s[0].startswith(("socket.", "urllib."))]
opened = [name for event, name in seen if event == "open"]
own = (".py", ".so", "/proc/self/cgroup", "/sys/fs/cgroup/")
touched += [name for name in opened if not any(part in name for part in own)]
print(json.dumps([touched, len(opened), list(sys.modules)]))
"""
    touched, opened, loaded = json.loads(run_python(code))
    assert touched == [] and opened > 10
    assert not set(LATE) & set(loaded)
    assert list(tmp_path.iterdir()) == []


def test_every_file_has_its_place_in_the_order():
    assert sorted(ORDER) == sorted(modules())


@pytest.mark.parametrize("name", ORDER)
def test_dependencies_point_one_way(name):
    assert imports_of(file_of(name)) <= set(ORDER[: ORDER.index(name)])


@pytest.mark.parametrize("package", ["support", "data", "training", "checking", "grading"])
def test_a_package_only_gathers_its_own_names_and_says_what_its_files_are(package):
    file = PACKAGE / package / "__init__.py"
    tree = ast.parse(file.read_text())
    assert all(isinstance(node, ast.Expr | ast.ImportFrom | ast.Assign) for node in tree.body)
    own = {module for module in ORDER if module.startswith(f"{package}.")}
    assert imports_of(file) <= own
    assert all(f"`{module.split('.')[1]}.py`" in ast.get_docstring(tree) for module in own)


@pytest.mark.parametrize("name", ORDER)
def test_a_name_is_imported_from_the_file_that_defines_it_or_from_its_package(name):
    for node in ast.walk(ast.parse(file_of(name).read_text())):
        if not (isinstance(node, ast.ImportFrom) and node.module.startswith("transformer_lab.")):
            continue
        home = file_of(node.module.removeprefix("transformer_lab."))
        if home.exists():
            borrowed = {
                alias.name
                for each in ast.parse(home.read_text()).body
                if isinstance(each, ast.ImportFrom)
                for alias in each.names
            }
            assert not {alias.name for alias in node.names} & borrowed, node.module


def test_the_package_itself_knows_nothing_of_what_shows_and_checks_it():
    assert not imports_of(PACKAGE / "__init__.py") & set(SHOWN_AND_CHECKED)


def test_what_a_reader_reads_stays_small():
    lines = {name: code_lines(file_of(name)) for name in READ}
    assert sum(lines.values()) <= 950, lines
    assert lines["attention"] <= 95, lines


def test_attention_is_about_attention_and_not_about_its_arguments():
    tree = ast.parse(file_of("attention").read_text())
    checks = {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr | ast.For | ast.If) and "require_" in ast.unparse(node)
        for line in range(node.lineno, node.end_lineno + 1)
    }
    assert len(checks) <= 0.15 * code_lines(file_of("attention")), checks


def test_every_public_name_exists_and_is_documented():
    for name in transformer_lab.__all__:
        value = getattr(transformer_lab, name)
        if callable(value):
            assert (value.__doc__ or "").strip(), f"{name} has no docstring"


def lengths_of_functions() -> dict[str, int]:
    """The lines of each function, without its signature and docstring."""
    lengths = {}
    for name in modules():
        for node in ast.walk(ast.parse(file_of(name).read_text())):
            if isinstance(node, ast.FunctionDef):
                body = node.body[1:] if ast.get_docstring(node) else node.body
                lines = body[-1].end_lineno - body[0].lineno + 1 if body else 0
                lengths[f"{name}.{node.name}, line {node.lineno}"] = lines
    return lengths


def test_functions_are_short():
    lengths = lengths_of_functions()
    assert not [name for name, lines in lengths.items() if lines > 40]
    assert statistics.median(lengths.values()) <= 8
