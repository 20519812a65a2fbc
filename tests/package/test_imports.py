"""What an import costs, and which file may use which."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import transformer_lab

ROOT = Path(transformer_lab.__file__).parents[1]
# From the bottom up: a file may import only from files before it. First what supports the model,
SUPPORT = ["support.validation", "support.files", "support.dropout", "support.threads"]
# then what a reader reads, in this order but for the cache, which waits for lesson 09,
READ = [
    *("config", "masks", "cache", "attention", "embedding", "layers", "model"),
    *("maps", "saving", "decoding", "tokenizer"),
]
# then what the model learns from, how it learns, and the whole path,
AROUND_THE_MODEL = [
    *("data.batches", "data.dates", "data.multi30k", "data.reading", "data.pairs"),
    *("data.letters", "data.scenes", "scoring"),
    *("training.loss", "training.fused_loss", "training.schedule", "training.optimizer"),
    *("training.step", "training.checkpoints", "training.loop", "presets", "runs"),
]
# then what shows it, and the command line. None of these may know of `course`, which comes last.
SHOWN = ["palette", "plots", "support.command_line", "cli", "__main__"]
COURSE = [
    *("figures.diagrams", "figures.figure1", "figures.sketch", "figures.notebook"),
    *("explorables.pens", "explorables.query", "explorables.clocks", "explorables.beam"),
    "explorables.reader",
    "explorables.page",
    *(
        "checking.diagnosis",
        "checking.slips",
        "checking.sandbox",
        "checking.own_work",
        "checking.course",
    ),
    *("checking.notebooks", "checking.live", "checking.records", "checking.integrity"),
    *("checking.child", "checking.isolation", "checking.judge", "stamps", "checking.progress"),
    *("carrying", "workplace"),
    *("lessons", "grading.students", "grading.submissions", "grading.similarity"),
    *("grading.copies", "grading.static_look", "grading.remarks", "grading.marks"),
    *("grading.once", "grading.by_hand", "grading.tables", "grading.grade", "cli", "__main__"),
]
ORDER = [
    *(f"transformer_lab.{name}" for name in (*SUPPORT, *READ, *AROUND_THE_MODEL, *SHOWN)),
    *(f"course.{name}" for name in COURSE),
]
PACKAGES = ("transformer_lab", "course")
FOLDERS = sorted({module.rpartition(".")[0] for module in ORDER} - set(PACKAGES))
OTHERS = ("__init__.py", "jupyter_lab_config.py")  # the second is read by JupyterLab
LATE = ("matplotlib", "babel", "sacrebleu", "tokenizers", "ipywidgets", "pytest", "beartype")


def run_python(code: str) -> str:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def file_of(module: str) -> Path:
    return ROOT / f"{module.replace('.', '/')}.py"


def modules() -> list[str]:
    """Every file of both packages, however deep, by its dotted name; `__init__` files aside."""
    paths = [path.relative_to(ROOT) for name in PACKAGES for path in (ROOT / name).rglob("*.py")]
    return [".".join(path.with_suffix("").parts) for path in paths if path.name not in OTHERS]


def imports_of(file: Path) -> set[str]:
    """The files of both packages that a file imports, wherever; a folder stands for all its own."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    names = {name for name in found if name.startswith(tuple(f"{each}." for each in PACKAGES))}
    files = {module for module in ORDER for name in names if f"{name}.".startswith(f"{module}.")}
    for folder in FOLDERS:
        inside = {module for module in ORDER if module.startswith(f"{folder}.")}
        if not inside & files and any(f"{name}.".startswith(f"{folder}.") for name in names):
            files |= inside
    return files


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


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_only_gathers_its_own_names_and_says_what_its_files_are(folder):
    file = file_of(f"{folder}.__init__")
    tree = ast.parse(file.read_text())
    assert all(isinstance(node, ast.Expr | ast.ImportFrom | ast.Assign) for node in tree.body)
    own = {module for module in ORDER if module.startswith(f"{folder}.")}
    assert imports_of(file) <= own
    assert all(f"`{module.split('.')[2]}.py`" in ast.get_docstring(tree) for module in own)


@pytest.mark.parametrize("name", ORDER)
def test_a_name_is_imported_from_the_file_that_defines_it_or_from_its_package(name):
    for node in ast.walk(ast.parse(file_of(name).read_text())):
        if not (isinstance(node, ast.ImportFrom) and node.module.split(".")[0] in PACKAGES):
            continue
        home = file_of(node.module)
        if home.exists():
            borrowed = {
                alias.name
                for each in ast.parse(home.read_text()).body
                if isinstance(each, ast.ImportFrom)
                for alias in each.names
            }
            assert not {alias.name for alias in node.names} & borrowed, node.module


def test_the_package_knows_nothing_of_the_course():
    for file in (ROOT / "transformer_lab").rglob("*.py"):
        assert not [each for each in imports_of(file) if each.startswith("course.")], file
    code = "import sys, transformer_lab, transformer_lab.cli; print('course' in sys.modules)"
    assert run_python(code) == "False\n"


def test_every_public_name_exists_and_is_documented():
    for name in transformer_lab.__all__:
        value = getattr(transformer_lab, name)
        if callable(value):
            assert (value.__doc__ or "").strip(), f"{name} has no docstring"
