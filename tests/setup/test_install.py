"""install.py leaves a whole, stamped .venv or says in one line what to do."""

import importlib.util
import subprocess
import sys

import pytest


@pytest.fixture
def installer(project, monkeypatch):
    """install.py, in `project`; its pip steps only take note of themselves in `steps`."""
    monkeypatch.chdir(project)
    monkeypatch.delenv("PYTHON", raising=False)
    spec = importlib.util.spec_from_file_location("install", project / ".setup/install.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.steps = []

    def run(log, *command):
        step = command[2]  # python -m STEP
        module.steps.append(step)
        if step == "venv":
            subprocess.run([*command[:4], "--without-pip", command[4]], check=True)

    monkeypatch.setattr(module, "run", run)
    return module


def fails(installer, monkeypatch, error):
    """Let the pip steps end in this error."""
    good = installer.run

    def run(log, *command):
        good(log, *command)
        if command[2] == "pip":
            raise error

    monkeypatch.setattr(installer, "run", run)


def test_second_set_up_does_nothing(installer):
    assert installer.main() == 0
    assert installer.steps == ["venv", "pip", "pip"]
    assert installer.main() == 0
    assert installer.steps == ["venv", "pip", "pip"]


def test_setup_sh_accepts_the_stamp_without_looking_for_a_python(installer, call, project):
    installer.main()
    result = call("sh", ".setup/setup.sh", cwd=project)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


@pytest.mark.parametrize("name", ["pyproject.toml", "constraints.txt"])
def test_changed_list_is_installed_into_the_same_venv(installer, project, call, name):
    installer.main()
    with (project / name).open("a") as file:
        file.write("# changed\n")
    assert call("sh", ".setup/setup.sh", cwd=project).returncode == 1  # it looks for a Python
    assert installer.main() == 0
    assert installer.steps == ["venv", "pip", "pip", "pip", "pip"]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), subprocess.CalledProcessError(1, "pip")])
@pytest.mark.parametrize("before", ["nothing", "an older installation"])
def test_half_made_venv_is_made_anew(installer, project, monkeypatch, capsys, error, before):
    if before != "nothing":
        installer.main()
        with (project / "constraints.txt").open("a") as file:
            file.write("# changed\n")
    with monkeypatch.context() as patch:
        fails(installer, patch, error)
        assert installer.main() == 1
    assert "run the same command again" in capsys.readouterr().err
    installer.steps.clear()
    assert installer.main() == 0
    assert installer.steps == ["venv", "pip", "pip"]


def test_moved_folder_is_set_up_anew(installer, project, monkeypatch):
    installer.main()
    moved = project.rename(project.with_name("moved"))
    monkeypatch.chdir(moved)
    installer.steps.clear()
    installer.main()
    assert installer.steps == ["venv", "pip", "pip"]


def test_venv_whose_python_has_gone_is_made_anew(installer, project, call):
    installer.main()
    (project / ".venv/bin/python").unlink()
    (project / ".venv/bin/python").symlink_to("/nowhere/python3")
    assert call("sh", ".setup/setup.sh", cwd=project).returncode == 1  # it looks for a Python
    installer.steps.clear()
    installer.main()
    assert installer.steps == ["venv", "pip", "pip"]


def test_only_a_named_python_replaces_that_of_a_whole_venv(installer, monkeypatch):
    installer.main()
    installer.steps.clear()
    monkeypatch.setattr(installer.sys, "version", "3.99.0 (another)")
    installer.main()
    assert installer.steps == []
    monkeypatch.setenv("PYTHON", "python3.99")
    installer.main()
    assert installer.steps == ["venv", "pip", "pip"]


TWO = """
import sys, time
sys.path.insert(0, ".setup")
import install
def run(log, *command):
    with open("steps", "a") as file:
        print(command[2], file=file)
    if command[2] == "venv":
        import subprocess
        subprocess.run([*command[:4], "--without-pip", command[4]], check=True)
    time.sleep(0.5)
install.run = run
sys.exit(install.main())
"""


def test_two_set_ups_at_once_install_once(project):
    both = [subprocess.Popen([sys.executable, "-c", TWO], cwd=project) for _ in range(2)]
    assert [one.wait() for one in both] == [0, 0]
    assert (project / "steps").read_text().split() == ["venv", "pip", "pip"]


@pytest.mark.parametrize(
    ("log", "advice"),
    [
        ("WARNING: Retrying (Retry(total=4)) after connection broken by ...", "to the internet"),
        ("urllib3.exceptions.ReadTimeoutError: Read timed out.", "to the internet"),
        ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device",
         "make room"),
        ("ERROR: No matching distribution found for torch==2.13.0", "torch==2.13.0 fits Python 3."),
        ("Collecting numpy\nERROR: Cannot install numpy==1 and 2\nHint", "Cannot install numpy==1"),
        ("Killed", "exit status 1"),
    ],
)  # fmt: skip
def test_what_went_wrong_is_one_line_that_says_what_to_do(
    installer, monkeypatch, capsys, log, advice
):
    error = subprocess.CalledProcessError(1, "pip")
    fails(installer, monkeypatch, error)
    monkeypatch.setattr(installer.Path, "read_text", lambda *_, **__: log)
    assert installer.main() == 1
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert advice in line
    assert "run the same command again" in line


def test_no_network_is_one_line_without_the_noise_of_pip(project):
    environment = {
        "PATH": "/usr/bin:/bin",
        "PYTHON": sys.executable,
        "PIP_CONFIG_FILE": "/dev/null",
        "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
    }
    result = subprocess.run(
        ["sh", ".setup/setup.sh"], cwd=project, env=environment, capture_output=True, text=True
    )
    assert result.returncode == 1
    assert result.stdout == "Setting up; the first time takes some minutes.\n"
    assert result.stderr.count("\n") == 1
    assert "connect to the internet" in result.stderr
    assert not (project / ".venv/installed").exists()
