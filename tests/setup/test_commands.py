"""What `make` and .ci/run do, without doing it."""

import os
import re

import pytest


def flags(result):
    assert result.returncode == 0, result.stderr
    return result.stdout.split()


@pytest.mark.parametrize(("user", "told"), [(0, True), (1000, False)])
def test_lab_allows_root_only_to_root(project, call, add, user, told):
    add("id", f"echo {user}")
    assert ("--allow-root" in flags(call("make", "-n", "lab", cwd=project))) is told


@pytest.mark.parametrize("display", [{}, {"DISPLAY": ":0"}, {"WAYLAND_DISPLAY": "wayland-0"}])
def test_lab_looks_for_a_browser_only_where_one_could_open(project, call, add, display):
    add("uname", "echo Linux")
    shown = flags(call("make", "-n", "lab", cwd=project, **display))
    assert ("--no-browser" in shown) is (not display)


def test_lab_passes_flags_on_and_keeps_the_token(project, call):
    shown = flags(call("make", "-n", "lab", "LAB_ARGS=--port=9000 --debug", cwd=project))
    assert shown[shown.index("-m") :][:3] == ["-m", "course", "lab"]
    assert shown[-2:] == ["--port=9000", "--debug"]
    assert not any("token" in flag or "password" in flag for flag in shown)


def test_make_alone_lists_every_target(root, call, add):
    add("awk", 'exec /usr/bin/env -i PATH="/usr/bin:/bin" awk "$@"')
    listed = re.findall(r"^make ([\w-]+) +\S", call("make", cwd=root).stdout, re.MULTILINE)
    targets = re.search(r"^\.PHONY: (.*)$", (root / "Makefile").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(targets[1].split())


def test_every_target_but_help_and_clean_sets_up_first(project, call):
    targets = ("lab", "test", "test-evidence", "test-teaching", "test-benchmarks", "check")
    targets += ("bench", "teaching", "book", "test-book")
    for target in targets:
        first = call("make", "-n", target, cwd=project).stdout.splitlines()[0]
        assert "setup.sh" in first, target


@pytest.fixture
def ci(project, call, add):
    """Run .ci/run from another folder with a make that says what it was given."""
    add("make", 'echo "make $* in $PWD"; echo "data: $TRANSFORMER_LAB_DATA"; cat')

    def ci(**environment):
        result = call("bash", f"{project}/.ci/run", cwd="/", **environment)
        assert result.returncode == 0, result.stderr
        return result.stdout

    return ci


def test_ci_runs_the_tests_in_the_project_with_no_input(ci, project, add):
    add("chromium", "")
    first = ("test", "test-evidence", "test-benchmarks", ".venv/teaching .venv/book")
    made = (*first, "--jobs=2 test-teaching test-book")
    assert ci() == "".join(f"make {what} in {project}\ndata: \n" for what in made)


def test_ci_names_the_shared_data_by_its_whole_path(ci, project, add):
    add("chromium", "")
    (project.parent / "shared" / "data").mkdir(parents=True)
    assert f"data: {project.parent}/shared/data\n" in ci()


def test_ci_goes_on_where_chromium_cannot_be_installed(ci, add):
    add("id", "echo 0")
    add("apt-get", "echo no network >&2; exit 100")
    shown = ci()
    assert "browser tests will be skipped" in shown
    assert "make test" in shown


def test_ci_installs_chromium_where_it_may(ci, add, tools):
    add("id", "echo 0")
    add("apt-get", f'echo "$*" >> "{tools}/asked"')
    assert "skipped" not in ci()
    assert "install -y" in (tools / "asked").read_text()


def test_ci_does_not_try_to_install_without_the_right_to(ci, add, tools):
    add("id", "echo 1000")
    add("apt-get", f'echo > "{tools}/asked"')
    ci()
    assert not (tools / "asked").exists()


def test_ci_is_executable(root):
    assert os.access(root / ".ci/run", os.X_OK)
