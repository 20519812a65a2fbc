"""What the README and CONTRIBUTING.md say is there, is there."""

import ast
import importlib
import re

import pytest

PACKAGE = "transformer_lab/README.md"
DOCUMENTS = ("README.md", "CONTRIBUTING.md", PACKAGE)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_local_links_lead_somewhere(root, name):
    page = root / name
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        other = page.parent / path if path else page
        assert other.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.+)$", other.read_text(), re.MULTILINE)
            assert anchor in {each.lower().replace(" ", "-") for each in headings}, target


def test_each_file_that_contributing_names_is_there(root):
    """By its path from the root, or from the package's folder."""
    text = (root / "CONTRIBUTING.md").read_text()
    names = set(re.findall(r"`([\w./]+(?:\.(?:py|toml|json|md)|/))`", text))
    names = {n for n in names if not re.search(r"NN|^PLAN|^draft|^build/", n)}  # patterns, or made
    places = (root, root / "transformer_lab")
    assert names
    assert [n for n in names if not any((place / n).exists() for place in places)] == []


def test_each_lesson_that_is_there_is_on_the_map(root):
    text = (root / "README.md").read_text()
    lessons = sorted(path.name for path in (root / "notebooks").glob("*.ipynb"))
    assert [name for name in lessons if f"](notebooks/{name})" not in text] == []


@pytest.mark.parametrize("name", DOCUMENTS[:2])
def test_make_targets_exist(root, name):
    makefile = (root / "Makefile").read_text()
    commands = re.findall(r"(?:^|`)(?:\S+=\S+ )*make ([^`\n#]*)", (root / name).read_text())
    targets = {word for c in commands for word in c.split() if re.fullmatch("[a-z-]+", word)}
    assert targets
    assert [t for t in sorted(targets) if not re.search(rf"^{t}:", makefile, re.MULTILINE)] == []


def test_python_lines_name_what_the_package_exports(root):
    blocks = re.findall(r"```python\n(.*?)```", (root / PACKAGE).read_text(), re.DOTALL)
    assert blocks
    for node in ast.walk(ast.parse("\n".join(blocks))):
        if isinstance(node, ast.ImportFrom):
            module = importlib.import_module(node.module)
            assert [a.name for a in node.names if not hasattr(module, a.name)] == []


def test_messages_of_the_set_up_are_in_the_troubleshooting(root):
    symptoms = re.findall(r"^\| `([^`]+)`", (root / "README.md").read_text(), re.MULTILINE)
    said = (root / ".setup/setup.sh").read_text() + (root / ".setup/install.py").read_text()
    for phrase in (
        "needs Python 3.11 or newer",
        "has no venv module",
        "the packages cannot be downloaded",
        "the disk is full",
    ):
        assert phrase in symptoms, phrase
        assert phrase in said, phrase


@pytest.mark.parametrize("name", DOCUMENTS)
def test_files_in_commands_exist(root, name):
    text = (root / name).read_text()
    files = re.findall(r"\b(?:tests|notebooks|benchmarks)/[\w/]+\.(?:py|ipynb)", text)
    assert [f for f in files if "_name." not in f and not (root / f).exists()] == []
