"""setup.sh takes the first Python that will do, and says in one line why none did."""

import sys

import pytest


@pytest.fixture
def python(add):
    """A pretended Python: it answers as that version, and says its name instead of installing."""

    def python(name, version, has_venv=True):
        pretend = f"import sys; sys.version_info = {version}"
        if not has_venv:
            pretend += '; sys.modules["ensurepip"] = None'
        add(
            name,
            f'[ "$1" = -c ] || {{ echo "{name} runs $1"; exit 0; }}\n'
            f"exec '{sys.executable}' -c '{pretend}; exec(sys.argv[1])' \"$2\"",
        )

    return python


@pytest.fixture
def set_up(call, project):
    return lambda **environment: call("sh", ".setup/setup.sh", cwd=project, **environment)


def chosen(result):
    assert result.returncode == 0, result.stderr
    return result.stdout.split()[0]


def complaint(result):
    assert result.returncode == 1
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1, "one line, with nothing before or after it"
    return result.stderr


def test_python3_is_preferred_where_it_will_do(python, set_up):
    python("python3", (3, 11, 0))
    python("python3.14", (3, 14, 0))
    python("python3.13", (3, 13, 0))
    assert chosen(set_up()) == "python3"


def test_newer_python_is_found_beside_an_old_python3(python, set_up):
    python("python3", (3, 9, 2))
    python("python3.12", (3, 12, 1))
    assert chosen(set_up()) == "python3.12"


def test_command_that_does_not_run_is_passed_over(python, add, set_up):
    add("python3", "echo python3: command not found >&2; exit 127")
    add("python3.13", "echo use the store >&2; exit 9")
    python("python3.11", (3, 11, 4))
    assert chosen(set_up()) == "python3.11"


def test_python_without_venv_is_passed_over_for_one_with_it(python, set_up):
    python("python3", (3, 12, 3), has_venv=False)
    python("python3.11", (3, 11, 4))
    assert chosen(set_up()) == "python3.11"


def test_old_python_alone_gives_one_line_that_says_what_to_do(python, set_up):
    python("python3", (3, 9, 2))
    line = complaint(set_up())
    assert "needs Python 3.11 or newer" in line
    assert "python3 is 3.9" in line
    assert "python.org/downloads" in line


def test_no_python_gives_one_line_that_says_what_to_do(set_up):
    assert "no python3 runs" in complaint(set_up())


def test_missing_venv_module_gives_the_command_that_installs_it(python, set_up):
    python("python3", (3, 12, 3), has_venv=False)
    assert "sudo apt install python3.12-venv" in complaint(set_up())


def test_named_python_is_the_only_one_tried(python, set_up, tools):
    python("python3", (3, 12, 0))
    python("my python", (3, 11, 0))
    python("python2.7", (2, 7, 18))
    assert set_up(PYTHON=f"{tools}/my python").stdout.startswith("my python runs")
    assert "python2.7 is 2.7" in complaint(set_up(PYTHON="python2.7"))
    assert "it does not run" in complaint(set_up(PYTHON="/nowhere/python3"))


def test_it_works_from_any_folder(python, call, project, tmp_path):
    python("python3", (3, 11, 0))
    result = call("sh", f"{project}/.setup/setup.sh", cwd=tmp_path)
    assert result.stdout.strip() == "python3 runs .setup/install.py"


def test_a_shim_of_pyenv_that_refuses_is_told_as_such(add, set_up):
    add("python3", "echo 'pyenv: python3: command not found' >&2; exit 127")
    said = complaint(set_up())
    assert "python3 is pyenv's" in said and "pyenv local" in said


def test_a_python_beside_a_shim_that_refuses_is_taken(python, add, set_up):
    add("python3", "echo 'pyenv: python3: command not found' >&2; exit 127")
    python("python3.12", (3, 12, 1))
    assert chosen(set_up()) == "python3.12"
