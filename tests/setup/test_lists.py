"""pyproject.toml, constraints.txt and environment.yml cannot disagree; no list names a machine."""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from itertools import chain

import pytest
import yaml
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name as canonical
from packaging.version import Version

# Other systems and other Pythons need a few packages more or less.
where_pinned = pytest.mark.skipif(
    (sys.platform, sys.version_info[:2]) != ("linux", (3, 11)),
    reason="constraints.txt was made on Linux with Python 3.11",
)

OWN = "transformer-lab["  # one extra brings another

# What a GPU build of torch brings besides; torch says which versions it takes.
OF_CUDA = ("cuda-", "nvidia-", "triton")


@pytest.fixture
def pyproject(root):
    return tomllib.loads((root / "pyproject.toml").read_text())


@pytest.fixture
def pins(root):
    """The lines of constraints.txt, comments left out."""
    lines = (root / "constraints.txt").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


@pytest.fixture
def pinned(pins):
    return {canonical(name): version for name, version in (pin.split("==") for pin in pins)}


@pytest.fixture
def declared(pyproject):
    extras = pyproject["project"]["optional-dependencies"].values()
    lines = [*pyproject["project"]["dependencies"], *chain(*extras)]
    return [Requirement(line) for line in lines if not line.startswith(OWN)]


@pytest.fixture
def present(pyproject):
    """What is declared and must be here; `make setup` leaves out what only some targets need."""
    project = pyproject["project"]
    found = [Requirement(line) for line in project["dependencies"]]
    for extra, lines in project["optional-dependencies"].items():
        requirements = [Requirement(line) for line in lines if not line.startswith(OWN)]
        if extra in ("course", "dev") or all(
            installed(requirement.name) for requirement in requirements
        ):
            found += requirements
    return found


def installed(name):
    try:
        return bool(version(name))
    except PackageNotFoundError:
        return False


def test_constraints_are_plain_and_name_each_package_once(pins):
    assert [pin for pin in pins if not re.fullmatch(r"[\w.-]+==[0-9][0-9.]*(post\d+)?", pin)] == []
    names = [canonical(pin.split("==")[0]) for pin in pins]
    assert sorted(names) == sorted(set(names))


def test_each_declared_package_is_pinned_to_a_version_that_is_allowed(declared, pinned):
    for requirement in declared:
        assert Version(pinned[requirement.name]) in requirement.specifier, requirement


def test_each_package_is_declared_once_with_a_lower_bound_alone(declared):
    names = [canonical(requirement.name) for requirement in declared]
    assert sorted(names) == sorted(set(names))
    for requirement in declared:
        bounds = ["<", ">="] if requirement.name == "ipykernel" else [">="]  # why: pyproject.toml
        assert sorted(s.operator for s in requirement.specifier) == bounds, requirement


def needed_by(requirement):
    """What a package needs here, with the extras that were asked for."""
    for line in requires(requirement.name) or []:
        need = Requirement(line)
        settings = [default_environment() | {"extra": e} for e in ("", *requirement.extras)]
        if need.marker is None or any(need.marker.evaluate(s) for s in settings):
            yield need


@where_pinned
def test_all_that_is_needed_is_pinned_and_nothing_else(present, pinned):
    needed, todo = set(), [*present, Requirement("setuptools")]
    while todo:
        requirement = todo.pop()
        name = canonical(requirement.name)
        if (name, str(requirement.extras)) in needed or name.startswith(OF_CUDA):
            continue
        assert name in pinned, f"constraints.txt lacks {name}"
        needed.add((name, str(requirement.extras)))
        todo.extend(needed_by(requirement))
    unneeded = set(pinned) - {name for name, _ in needed}
    assert sorted(filter(installed, unneeded)) == []


@where_pinned
def test_what_is_installed_is_what_is_pinned(pinned):
    here = {name: version(name).split("+")[0] for name in filter(installed, pinned)}
    assert here.items() <= pinned.items()


@where_pinned
def test_pinned_versions_install_on_the_lowest_python(pyproject, pinned):
    lowest = pyproject["project"]["requires-python"].removeprefix(">=") + ".0"
    here = filter(installed, pinned)
    bounds = {name: metadata(name).get("Requires-Python", "") for name in here}
    assert {n: b for n, b in bounds.items() if lowest not in SpecifierSet(b)} == {}


def test_conda_takes_its_packages_from_the_other_two_lists(root, pyproject):
    environment = yaml.safe_load((root / "environment.yml").read_text())
    python, pip, packages = environment["dependencies"]
    assert pip == "pip"
    assert packages == {"pip": ["-c constraints.txt", "-e .[dev]"]}
    name, number = python.split("=")
    assert name == "python"
    assert number in SpecifierSet(pyproject["project"]["requires-python"])
    assert set(environment) == {"name", "channels", "dependencies"}


def test_setup_asks_for_the_python_that_the_package_requires(root, pyproject):
    lowest = pyproject["project"]["requires-python"].removeprefix(">=")
    assert f"needs Python {lowest} or newer" in (root / ".setup/setup.sh").read_text()
    assert f"({lowest.replace('.', ', ')})" in (root / ".setup/setup.sh").read_text()
    assert f"Python {lowest} or newer" in (root / "README.md").read_text()


HOSTS = r"(?:pypi|pythonhosted|download\.pytorch|conda\.anaconda|registry\.npmjs)\.org"
MACHINES = r"(?<![\w.~$}/-])/(?:home/\w|Users/\w|root/|work/|opt/|tmp/dev\b)"


def test_no_committed_file_names_a_registry_or_a_folder_of_one_machine(root):
    listing = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True)
    if listing.returncode:
        pytest.skip("this copy has no git history that says which files are the project's")
    found = []
    for name in listing.stdout.splitlines():
        file = root / name
        if not file.is_file() or b"\0" in (data := file.read_bytes())[:8000]:
            continue
        text = data.decode(errors="replace")
        found += [f"{name}: {match[0]}" for match in re.finditer(f"{HOSTS}|{MACHINES}", text)]
    assert found == []
