"""The set-up for real, from a fresh clone. It takes minutes and the network: pytest -m setup."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

pytestmark = [pytest.mark.setup, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """A clone of what is committed, in a folder with a space in its name."""
    folder = tmp_path_factory.mktemp("set-up") / "a new course"
    subprocess.run(["git", "clone", "-q", os.getcwd(), folder], check=True)
    return folder


@pytest.fixture
def start(clone):
    """Start make in the clone; what still runs at the end is killed."""
    started = []

    def start(*arguments):
        process = subprocess.Popen(
            ["make", *arguments],
            cwd=clone,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


def wait_until(true, seconds):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"nothing within {seconds} s"
        time.sleep(0.2)


def test_set_up_killed_half_way_is_not_taken_for_whole(clone, start):
    log = clone / ".venv.log"
    first = start("setup")
    wait_until(lambda: log.exists() and "Downloading" in log.read_text(), 300)
    os.killpg(first.pid, signal.SIGKILL)
    second = start("setup")
    wait_until(lambda: any(clone.glob(".venv/lib/*/site-packages/torch/nn")), 900)
    os.killpg(second.pid, signal.SIGKILL)
    assert not (clone / ".venv/installed").exists()
    both = [start("setup"), start("setup")]
    assert [one.wait() for one in both] == [0, 0]
    said = [one.stdout.read() for one in both]
    assert sum("Setting up" in lines for lines in said) == 1
    python = clone / ".venv/bin/python"
    subprocess.run([python, "-m", "pip", "check"], check=True)
    subprocess.run([python, "-c", "import transformer_lab"], cwd="/", check=True)


def test_second_set_up_takes_no_time(start):
    before = time.monotonic()
    assert start("setup").wait() == 0
    assert time.monotonic() - before < 2


def test_the_package_alone_trains_and_translates_and_brings_no_jupyter(clone, tmp_path):
    """Into an empty environment, without extras: what the README calls the package."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    tools = tmp_path / "venv" / "bin"
    constraints = ("-c", clone / "constraints.txt")
    subprocess.run([tools / "pip", "install", "-q", *constraints, clone], check=True)
    listed = subprocess.run([tools / "pip", "list"], capture_output=True, text=True, check=True)
    unwanted = r"(?im)^(jupyter\w*|ipykernel|ipywidgets|nbval|pytest|notebook)\b"
    assert re.findall(unwanted, listed.stdout) == []

    def call(*command):
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True
        )

    lab = tools / "transformer-lab"
    said = call(lab, "translate", "--explain", "A man is reading a book.")
    assert said.returncode == 0 and "liest" in said.stdout and "Rows are written" in said.stderr
    assert call(lab, "train", "dates", "--output", "run", "--steps", "60").returncode == 0
    scores = call(lab, "evaluate", "--run", "run", "--json")
    assert "exact_match" in scores.stdout
    drawn = call(lab, "translate", "--run", "run", "--explain", "map.png", "3 mar 1987")
    assert drawn.returncode == 0 and (tmp_path / "map.png").stat().st_size > 1000
    course = call(tools / "transformer-course", "progress")
    assert course.returncode == 1 and 'install "transformer-lab[course]"' in course.stderr


def status(address):
    try:
        return urllib.request.urlopen(address).status
    except urllib.error.HTTPError as error:
        return error.code
    except urllib.error.URLError:
        return None  # not listening yet


def test_lab_answers_with_the_first_lesson_open_to_the_token_alone(start):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    lab = start("lab", f"LAB_ARGS=--port={port} --no-browser")
    address = r"http://\S+/lab/tree/work/00a_lesson_start_here\.ipynb\?token=\w+"
    url = next(match[0] for line in lab.stdout if (match := re.search(address, line)))
    wait_until(lambda: status(url) == 200, 30)  # it says its address a moment before it listens
    page = urllib.request.urlopen(url).read().decode()
    assert '"treePath": "work/00a_lesson_start_here.ipynb"' in page
    base, token = url.split("/lab/tree/")[0], url.split("token=")[1]
    lesson = f"{base}/api/contents/work/00a_lesson_start_here.ipynb"
    assert status(f"{lesson}?token={token}") == 200
    assert status(lesson) == 403
