"""A hub: the course once and read-only, everybody's work in a home of their own, few cores."""

import json
import os
import re
import shutil
import subprocess
import sys

import nbformat
import pytest

from benchmarks import hub
from transformer_lab.support import threads


@pytest.fixture
def quota_of(tmp_path):
    """Return a function that gives the quota of a process in `group`, with these files."""

    def quota_of(group, files):
        (tmp_path / "own").write_text(f"{group}\n")
        for name, text in files.items():
            path = tmp_path / "cgroup" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return threads.cpu_quota(tmp_path / "cgroup", tmp_path / "own")

    return quota_of


V1 = {"cpu.cfs_quota_us": "150000\n", "cpu.cfs_period_us": "100000\n"}


@pytest.mark.parametrize(
    ("group", "files", "cores"),
    [
        ("0::/", {"cpu.max": "200000 100000\n"}, 2.0),
        ("0::/", {"cpu.max": "max 100000\n"}, None),
        ("0::/", {}, None),
        # the smallest of a group's own quota and those around it
        ("0::/a/ann", {"a/cpu.max": "50000 100000", "a/ann/cpu.max": "max 100000"}, 0.5),
        ("0::/a/ann", {"a/bob/cpu.max": "50000 100000"}, None),
        ("4:cpu,cpuacct:/ann", {f"cpu/ann/{name}": text for name, text in V1.items()}, 1.5),
        # a container sees its own quota at the root, and the path that it has outside
        ("4:cpu,cpuacct:/docker/1a2b", {f"cpu/{name}": text for name, text in V1.items()}, 1.5),
        ("4:cpu:/", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        ("5:cpuset:/ann", {"cpu.max": "100000 100000"}, None),
    ],
)
def test_the_quota_is_read_from_either_kind_of_control_group(quota_of, group, files, cores):
    assert quota_of(group, files) == cores


def test_where_there_are_no_control_groups_there_is_no_quota(tmp_path):
    assert threads.cpu_quota(tmp_path, tmp_path / "nowhere") is None


@pytest.mark.parametrize(
    ("quota", "asked", "given"),
    [(None, None, 8), (0.5, None, 1), (2.9, None, 2), (64.0, None, 8), (1.0, "8", 8)],
)
def test_threads_are_as_many_as_the_quota_has_cores(monkeypatch, quota, asked, given):
    now = [8]
    monkeypatch.setattr(threads, "cpu_quota", lambda: quota)
    monkeypatch.setattr(threads.torch, "get_num_threads", lambda: now[0])
    monkeypatch.setattr(threads.torch, "set_num_threads", lambda number: now.__setitem__(0, number))
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if asked:
        monkeypatch.setenv("OMP_NUM_THREADS", asked)
    threads.limit_threads()
    assert now == [given]


@pytest.mark.parametrize(("quota", "cores"), [(None, 3), (0.5, 1), (2.9, 2), (64.0, 3)])
def test_as_many_run_at_once_as_there_are_cores_to_be_used(monkeypatch, quota, cores):
    monkeypatch.setattr(threads, "cpu_quota", lambda: quota)
    monkeypatch.setattr(threads.os, "sched_getaffinity", lambda _: {0, 2, 5}, raising=False)
    assert threads.usable_cores() == cores


# ---- Two homes and one course that nobody may write

RIGHT = "def stable_softmax(x, dim):\n    return torch.softmax(x, dim)"
WRONG = "def stable_softmax(x, dim):\n    return torch.softmax(x, -1)"
# Root may write anywhere; without its privileges it may not, as any user.
AS_ANYBODY = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []


@pytest.fixture(scope="module")
def course(handed_out, tmp_path_factory):
    """The course of a hub, which nobody may write."""
    folder = tmp_path_factory.mktemp("hub") / "course"
    shutil.copytree(handed_out, folder)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    yield folder
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755)


@pytest.fixture
def home_of(course, tmp_path):
    """Make the home of a student who copied the exercises, and answered with this code."""

    def home_of(student, answer):
        home = tmp_path / student
        shutil.copytree(course / "exercises", home / "exercises", copy_function=shutil.copyfile)
        home.joinpath("exercises").chmod(0o755)
        path = home / "exercises" / "02_scaled_dot_product_attention.ipynb"
        notebook = json.loads(path.read_text("utf-8"))
        for cell in notebook["cells"]:
            if "".join(cell["source"]).startswith("def stable_softmax"):
                cell["source"] = answer
        path.write_text(json.dumps(notebook))
        return home

    return home_of


def contents(folder):
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path: path.read_bytes() for path in files}


def run_at(course, folder, *arguments):
    """Run Python as somebody whose kernel or terminal is in `folder`."""
    environment = os.environ | {"PYTHONPATH": str(course)}
    command = [*AS_ANYBODY, sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


@pytest.mark.teaching
def test_each_student_is_told_of_work_in_their_own_home(course, home_of):
    before = contents(course)
    homes = {"ann": home_of("ann", RIGHT), "bob": home_of("bob", WRONG)}
    told = {}
    for student, home in homes.items():
        done = run_at(course, home, "-m", "course", "progress", "--json")
        states = {task["names"][0]: task["state"] for task in json.loads(done.stdout)}
        answer = {"ann": RIGHT, "bob": WRONG}[student]
        code = f"import torch\nfrom course import check\n{answer}\n"
        live = run_at(course, home / "exercises", "-c", code + "check(stable_softmax)")
        told[student] = (states["stable_softmax"], "all checks passed" in live.stdout)
    assert told == {"ann": ("passed", True), "bob": ("wrong", False)}

    train = "import transformer_lab as lab; lab.train('dates', '../runs/dates', steps=2, average=1)"
    done = run_at(course, homes["ann"] / "exercises", "-c", train)
    assert done.returncode == 0, done.stderr
    assert (homes["ann"] / "runs" / "dates" / "config.json").exists()
    assert {path.name for path in homes["bob"].iterdir()} == {"exercises"}
    assert contents(course) == before


@pytest.mark.teaching
def test_who_has_no_copy_is_told_how_to_make_one(course, tmp_path):
    home = tmp_path / "carl"
    home.mkdir()
    for folder in (course, course / "exercises", home):
        done = run_at(course, folder, "-m", "course", "progress")
        assert done.returncode == 2, done.stdout
        assert f"{course / 'exercises'} belongs to the course" in done.stderr
    (advice,) = re.findall(r"`transformer-course (.*?)`", done.stderr)
    done = run_at(course, home, "-m", "course", advice)
    assert done.returncode == 0, done.stderr
    done = run_at(course, home, "-m", "course", "progress")
    assert done.returncode == 1 and re.search(r"\b0 of \d+ passed", done.stdout)
    assert len(list((home / "work").iterdir())) == len(list(course.rglob("*.ipynb")))
    for path in (home / "work").iterdir():
        assert path.stat().st_mode & 0o200, f"{path.name} cannot be saved"


# ---- What the lessons need


def test_the_table_has_a_line_for_each_lesson_and_one_for_the_server():
    def row(name, threads, seconds, memory):
        return {"lesson": name, "threads": threads, "cpu_seconds": seconds, "memory": memory}

    rows = [row("01_b.ipynb", 1, 9.6, 5e8), row("00_a.ipynb", 1, 1.4, 4e8)]
    rows.append(row("00_a.ipynb", 2, 2.6, 4.4e8))
    assert hub.table(rows, server=9.4e7)["rows"] == [
        ["00_a", "440", "1", "3"],
        ["01_b", "500", "10", ""],
        ["JupyterLab itself, no notebook open", "94", "", ""],
    ]


@pytest.mark.teaching
def test_what_a_lesson_needs_is_measured_in_its_kernel(tmp_path, monkeypatch):
    cells = [
        "import os\nassert os.environ['OMP_NUM_THREADS'] == '1'",
        "import time\nhuge = bytearray(300_000_000)\nstart = time.process_time()",
        "while time.process_time() < start + 2:\n    pass",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
    nbformat.write(notebook, tmp_path / "00_a.ipynb")
    monkeypatch.setattr(hub, "LESSONS", tmp_path)
    used = hub.measure_lesson("00_a.ipynb", threads=1)
    assert 2 <= used["cpu_seconds"] <= 12
    assert 300e6 <= used["memory"] <= 500e6
    with pytest.raises(RuntimeError, match=r"00_a\.ipynb failed:\n(.|\n)*AssertionError"):
        hub.measure_lesson("00_a.ipynb", threads=2)


FOUR = ("00", "02", "07", "09")  # they train, draw, load a translator, write


@pytest.mark.teaching
@pytest.mark.timeout(3600)
def test_four_lessons_at_once_do_not_fail(tmp_path):
    """Four students, each in another lesson and with one thread, on the cores of this machine."""
    names = [path.name for path in hub.LESSONS.glob("[0-9][0-9]_*.ipynb") if path.name[:2] in FOUR]
    homes = {name: hub.make_home(tmp_path / name[:2]) for name in names}
    runs = {name: hub.start(homes[name] / name, threads=1) for name in names}
    for run in runs.values():
        os.setpriority(os.PRIO_PROCESS, run.pid, 10)  # other tests may run beside them
    errors = {name: run.communicate()[1] for name, run in runs.items()}
    assert {name: errors[name] for name, run in runs.items() if run.returncode} == {}
