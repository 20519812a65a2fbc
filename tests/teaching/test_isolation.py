"""What a child process can reach, by each means of isolation; and how grading is stopped."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import forty as class_

from course.checking import course_folder, isolation
from course.checking.isolation import MEANS, Walls, copy_course, walls
from course.checking.records import Canary, Judged, Loaded, Ready, decode, encode
from course.checking.sandbox import COURSE, LIBRARY
from course.grading import grade as command

PROBE = """
import json, os, socket
def works(action):
    try:
        action()
    except OSError:
        return False
    return True
print(json.dumps({
    "reads": works(lambda: open(SECRET).read()),
    "writes": works(lambda: open(NEW, "w").write("x")),
    "changes the course": works(lambda: open(COURSE + "/new", "w")),
    "connects": works(lambda: socket.create_connection(("127.0.0.1", PORT), 2)),
    "sees": sum(name.isdigit() for name in os.listdir("/proc")),
    "user": os.getuid(),
    "solutions": os.path.exists(COURSE + "/solutions") or os.path.exists(COURSE + "/tests/answers"),
    "may write": works(lambda: open("/tmp/mine", "w").write("x")),
}))
"""


def probe(around: Walls, secret: Path) -> dict:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        values = {
            "SECRET": str(secret),
            "NEW": str(secret.with_name("new")),
            "COURSE": os.path.dirname(os.path.dirname(around.checks(Path("x")).parent)),
            "PORT": server.getsockname()[1],
        }
        head = "\n".join(f"{name} = {value!r}" for name, value in values.items())
        child = around.start(("-c", head + PROBE))
        output, _ = child.process.communicate(timeout=120)
        child.kill()
    return json.loads(output)


@pytest.mark.serial
@pytest.mark.parametrize("means", ["bubblewrap", "unshare"])
def test_behind_the_walls_there_is_nothing_to_reach(tmp_path, means):
    secret = tmp_path / "secret"
    secret.write_text("theirs")
    try:
        with walls(course_folder(), (COURSE, LIBRARY), [], 2**30, means) as around:
            found = probe(around, secret)
    except ValueError:
        pytest.skip(f"{means} does not work here")
    assert found.pop("sees") <= 4
    assert (found.pop("user") != 0) or os.getuid() != 0
    assert found.pop("may write")
    assert not any(found.values())
    assert not secret.with_name("new").exists()


@pytest.mark.serial
def test_without_walls_it_is_said_loudly_and_the_teachers_files_are_refused(tmp_path, capsys):
    solution = course_folder() / "solutions" / f"{class_.LESSON}.ipynb"
    text = class_.attend(f"open({str(solution)!r}).read()\n    return values[0]")
    class_.write(tmp_path / "in", {"anna": class_.one(text)})
    command.grade(tmp_path / "in", ["02"], tmp_path / "out", isolation="none", jobs=1)
    assert "NO ISOLATION" in capsys.readouterr().err
    assert "NO ISOLATION" in (tmp_path / "out" / "class.html").read_text("utf-8")
    rows = json.loads((tmp_path / "out" / "marks.json").read_text("utf-8"))["rows"]
    assert all("no isolation" in row["flags"] for row in rows)
    assert "wanted the teacher's files" in rows[2]["flags"] and rows[2]["state"] == "wrong"
    assert "may not use the teacher's files" in rows[2]["message"]


@pytest.mark.serial
def test_a_grading_ends_no_child_of_another_one(tmp_path):
    with walls(course_folder(), (COURSE, LIBRARY), [], 2**30) as around:
        if not around._can_change_user:
            pytest.skip("only root can give each child a user of its own")
        both = [Walls(around.course, around.scratch, [], 2**30, means=around.means) for _ in "12"]
        one, other = (each.start(("-c", "print('here', flush=True); input()")) for each in both)
        try:
            assert one.process.stdout.readline() == other.process.stdout.readline() == b"here\n"
            one.kill()
            other.process.communicate(b"\n", timeout=60)
            assert other.process.returncode == 0 and one.process.returncode != 0
        finally:
            one.kill(), other.kill()


def test_without_walls_those_who_are_graded_at_once_have_folders_of_their_own(tmp_path):
    around, both = Walls(tmp_path, tmp_path, [], 2**30), threading.Barrier(2)

    def folder(_) -> Path:
        both.wait(timeout=60)
        return around.folder

    with ThreadPoolExecutor(2) as pool:
        assert len({*pool.map(folder, range(2))}) == 2


def test_a_folder_beside_a_hidden_one_is_not_the_teachers(tmp_path):
    for name in ("attention", "attention-course"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("x")
    program = f"""
from course.checking.child import _watch
told = []
_watch(told.append, "/nowhere", [{str(tmp_path / "attention")!r}], False)
open({str(tmp_path / "attention-course" / "file")!r}).close()
print(len(told))
open({str(tmp_path / "attention" / "file")!r}).close()
print(len(told))
import os
os.truncate({str(tmp_path / "attention-course" / "file")!r}, 0)
print(len(told))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.split() == ["0", "1", "2"], done.stderr


def test_what_a_child_has_left_behind_does_not_stop_the_next(tmp_path, monkeypatch):
    around = Walls(tmp_path, tmp_path, [], 2**30)
    (around.folder / "x").mkdir(parents=True)
    monkeypatch.setattr(isolation, "_remove", lambda _: None)  # as for a folder of mode 0
    around.start(("-c", "pass")).kill()
    assert not (around.folder / "x").exists()


def test_folders_deeper_than_python_deletes_do_not_end_the_class(tmp_path, monkeypatch):
    around = Walls(tmp_path, tmp_path, [], 2**30)
    around.folder.mkdir()
    monkeypatch.chdir(around.folder)
    try:
        for _ in range(1500):
            os.mkdir("x")
            os.chdir("x")
        monkeypatch.undo()
        around.start(("-c", "pass")).kill()
        assert os.listdir(around.folder) == []
    finally:  # pytest could not delete it, either
        isolation._remove(tmp_path / around.folder.name)


def test_a_course_that_was_handed_out_has_its_checks_in_the_package(tmp_path):
    package = tmp_path / "installed" / "course"
    (package / "checks").mkdir(parents=True)
    (package / "checks" / "test_01_x.py").write_text("")
    copied = copy_course(package.parent, [package], tmp_path / "copy")
    assert (copied / "tests" / "exercises" / "test_01_x.py").is_file()


@pytest.mark.skipif(os.getuid() != 0 or shutil.which("setpriv") is None, reason="needs root")
def test_a_python_that_others_may_not_reach_is_not_run_as_another_user(tmp_path, monkeypatch):
    (closed := tmp_path / "closed").mkdir(mode=0o700)
    (closed / "python").symlink_to(Path(sys.executable).resolve())
    monkeypatch.setattr(sys, "executable", str(closed / "python"))
    assert not Walls(Path("/usr"), tmp_path, [], 2**30)._can_change_user


def test_what_does_not_work_is_not_taken(monkeypatch):
    real = shutil.which
    monkeypatch.setattr(
        shutil, "which", lambda name: None if name in ("bwrap", "unshare") else real(name)
    )
    with walls(course_folder(), (COURSE, LIBRARY), [], 2**30) as around:
        assert around.means == "none" and "NO ISOLATION" in around.warning
    for means in MEANS[:2]:
        with (
            pytest.raises(ValueError, match=f"{means} does not work"),
            walls(course_folder(), (COURSE, LIBRARY), [], 2**30, means),
        ):
            pass


DEAF = """import signal
    for each in (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    while True: pass"""


def stopped(tmp_path, how):
    """Stop a grading in the middle; return its process, its errors, and whether nobody is left."""
    loop = class_.attend(DEAF)
    hand_ins = {"anna": class_.one(json.dumps(class_.solved())), "zoe": class_.one(loop)}
    class_.write(tmp_path / "in", hand_ins)
    line = [sys.executable, "-m", "course", "grade", str(tmp_path / "in"), "--lesson=02"]
    line += ["--output", str(tmp_path / "out"), "--jobs", "1", "--seconds", "300"]
    # A process that a shell starts in the background ignores SIGINT, and so do its children.
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        first = subprocess.Popen(line, stderr=subprocess.PIPE)
    finally:
        signal.signal(signal.SIGINT, before)
    while not (tmp_path / "out" / "marks.json").exists() and first.poll() is None:
        time.sleep(0.2)
    time.sleep(5)  # until the second one is at work, and deaf
    family = psutil.Process(first.pid).children(recursive=True)
    first.send_signal(how)
    _, errors = first.communicate(timeout=120)
    _, left = psutil.wait_procs(family, timeout=2)
    ended = family and all(each.status() == psutil.STATUS_ZOMBIE for each in left)  # unburied
    return first, errors, ended


@pytest.mark.serial
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv")
def test_a_grading_that_was_killed_leaves_nobody(tmp_path):
    first, _, nobody_is_left = stopped(tmp_path, signal.SIGKILL)
    assert first.returncode == -signal.SIGKILL and nobody_is_left


@pytest.mark.serial
def test_a_grading_that_was_stopped_leaves_nobody_and_goes_on(tmp_path):
    first, errors, nobody_is_left = stopped(tmp_path, signal.SIGINT)
    assert first.returncode == 130 and b"goes on" in errors and nobody_is_left
    marks = tmp_path / "out" / "marks.json"
    (kept,) = json.loads(marks.read_text("utf-8"))["kept"]
    shutil.copyfile(tmp_path / "in" / "anna" / f"{class_.LESSON}.ipynb", tmp_path / "x")
    shutil.move(tmp_path / "x", tmp_path / "in" / "zoe" / f"{class_.LESSON}.ipynb")
    before = json.loads(marks.read_text("utf-8"))["kept"][kept]
    assert command.grade(tmp_path / "in", ["02"], tmp_path / "out", seconds=300) == 0
    after = json.loads(marks.read_text("utf-8"))
    assert after["kept"][kept] == before  # with the same seconds: it was not graded again
    assert [row["state"] for row in after["rows"]] == ["passed"] * 12


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"lessons": ["77"]}, "there is no lesson '77'"),
        ({"jobs": 0}, "jobs must be at least 1"),
        ({"seconds": 0}, "seconds must be"),
        ({"memory": 0.1}, "memory must be"),
    ],
)
def test_a_bad_argument_is_a_value_error(tmp_path, arguments, words):
    (tmp_path / "anna").mkdir()
    with pytest.raises(ValueError, match=words):
        command.grade(tmp_path, **{"lessons": ["02"], "output": tmp_path / "out"} | arguments)


# ---- Records


@pytest.mark.parametrize("record", [Ready(), Judged(1, "passed", "", "x"), Canary(0, True, ["a"])])
def test_a_record_comes_back_as_it_was(record):
    assert decode(encode(record, "token"), "token") == record


def test_a_long_record_is_cut():
    problems = ["\U0001f600" * 10**6] * 100
    line = encode(Loaded(problems), "token")
    assert len(line) < 2**20 and decode(line, "token").problems[0] == "\U0001f600" * 1000


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{}",
        b"[1]",
        b"\xff",
        b'{"token": "token", "kind": "End", "more": 1}',
        b'{"token": "token", "kind": "Started", "task": true}',
        b'{"token": "token", "kind": "Nothing"}',
        encode(Ready(), "another"),
    ],
)
def test_what_is_no_record_is_refused(line):
    with pytest.raises(ValueError, match="this is no"):
        decode(line, "token")
