"""The zip for students: it holds no answer, every link leads somewhere, and it installs."""

import json
import os
import posixpath
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from functools import cache
from pathlib import Path

import handout
import make_exercises as maker
import pytest

ROOT = Path(__file__).resolve().parents[2]
BODY = re.compile(r"### BEGIN SOLUTION\n(.*?)### END SOLUTION", re.DOTALL)


def files_in(folder):
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def lines_of(text):
    """The lines without their comments; one that is a word or two could stand anywhere."""
    stripped = {re.split(r"\s*#", line)[0].strip() for line in text.splitlines()}
    return {line for line in stripped if len(line) >= 12}


def texts_in(value):
    """Every string in a piece of JSON, lists of lines joined."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list) and all(isinstance(each, str) for each in value):
        yield "".join(value)
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from texts_in(each)


def lines_in(name, content):
    text = content.decode(errors="replace")
    return lines_of("\n".join(texts_in(json.loads(text))) if name.endswith(".ipynb") else text)


def prose_of(name, text):
    if not name.endswith(".ipynb"):
        return text
    cells = json.loads(text)["cells"]
    return "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")


@cache
def answers():
    """Each line of a solution's body that no hint, lesson, check or module shows as well."""
    solutions = sorted((ROOT / "solutions").glob("*.ipynb"))
    cells = ["".join(c["source"]) for path in solutions for c in maker.read_notebook(path)["cells"]]
    bodies = "\n".join(body for cell in cells for body in BODY.findall(cell))
    shown = lines_of("\n".join(BODY.sub("", cell) for cell in cells))
    for kind in (
        "notebooks/*.ipynb",
        "tests/exercises/*.py",
        "transformer_lab/**/*.py",
        "course/**/*.py",
    ):
        for path in ROOT.glob(kind):
            shown |= lines_in(path.name, path.read_bytes())
    return lines_of(bodies) - shown


def leaks(files):
    secret = answers()
    return {name: found for name in files if (found := lines_in(name, files[name]) & secret)}


def test_no_line_of_a_solution_is_handed_out(handed_out):
    assert len(answers()) > 100
    assert leaks(files_in(handed_out)) == {}


def test_the_search_finds_a_solution_wherever_it_hides(handed_out):
    solved = (ROOT / "solutions" / "02_scaled_dot_product_attention.ipynb").read_bytes()
    answer = b"grad_scores = weights * (grad_weights - mean)  # a note\n"
    planted = {"exercises/02.ipynb": solved, "transformer_lab/notes.txt": b"x\n    " + answer}
    assert set(leaks(files_in(handed_out) | planted)) == set(planted)


def test_it_holds_the_course_and_nothing_else(handed_out):
    files = files_in(handed_out)
    tops = {"README.md", "LICENSE", "pyproject.toml", "constraints.txt"}
    assert {name for name in files if "/" not in name} == tops
    folders = {name.split("/")[0] for name in files if "/" in name}
    assert folders == {"notebooks", "exercises", "transformer_lab", "course", "benchmarks"}
    evidence = len([*(ROOT / "notebooks" / "evidence").glob("0[0-3]_*.ipynb")])
    counts = {"notebooks/": 4 + evidence, "exercises/": 3, "course/checks/": 4}
    for kind, count in counts.items():
        assert len([name for name in files if name.startswith(kind)]) == count, kind
    for name, content in files.items():
        assert "__pycache__" not in name and ".git" not in name
        if name != "course/carrying.py":  # which names the mark, to know a copy by it
            assert b"BEGIN SOLUTION" not in content, name


def test_the_readme_names_every_lesson(handed_out):
    text = (handed_out / "README.md").read_text()
    assert "{" not in text
    for path in (handed_out / "notebooks").glob("*.ipynb"):
        assert f"](notebooks/{path.name})" in text
    assert "lessons 00 to 03" in text and "02 · Scaled dot-product attention" in text


def test_every_link_and_every_result_that_a_lesson_reads_is_there(handed_out):
    files = files_in(handed_out)
    for name in [name for name in files if name.endswith((".ipynb", ".md"))]:
        text = files[name].decode()
        for target in re.findall(r"\]\(([^)\s#:]+)[)#]", prose_of(name, text)):
            path = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
            assert path in files, f"{name} links to {target}"
        if name.startswith("notebooks/"):
            wanted = set(re.findall(r"(\w+\.json)", text))
            results = {path.name for path in (ROOT / "benchmarks" / "results").iterdir()}
            assert {f"benchmarks/results/{each}" for each in wanted & results} <= set(files)
    start = files["notebooks/00_start_here.ipynb"].decode()
    assert "](01_the_bottleneck.ipynb)" in start and "04_masking.ipynb" not in start


def test_the_same_course_gives_the_same_bytes_and_an_error_leaves_the_old_file(tmp_path, capsys):
    first, second = tmp_path / "1.zip", tmp_path / "2.zip"
    for path in (first, second):
        assert maker.main(["--handout", str(path), "--lessons", "02"]) == 0
    assert first.read_bytes() == second.read_bytes()
    with pytest.raises(SystemExit):
        maker.main(["--handout", str(first), "--lessons", "77"])
    assert "no lesson 77" in capsys.readouterr().err
    assert first.read_bytes() == second.read_bytes() and zipfile.is_zipfile(first)


def test_next_weeks_zip_leaves_what_was_written_alone(tmp_path):
    written = tmp_path / "transformer-lab-00-02/exercises/02_scaled_dot_product_attention.ipynb"
    for lessons in ("00-02", "00-03"):
        archive = tmp_path / "course.zip"
        assert maker.main(["--handout", str(archive), "--lessons", lessons]) == 0
        with zipfile.ZipFile(archive) as opened:
            opened.extractall(tmp_path)  # as `unzip -o` does
        if lessons == "00-02":
            written.write_text("my answers")
    assert written.read_text() == "my answers"
    assert (tmp_path / "transformer-lab-00-03/exercises" / written.name).exists()


def test_a_range_of_lessons_rises(tmp_path, capsys):
    with pytest.raises(ValueError, match="a range of lessons rises"):
        maker.lessons_of(["00", "05-03"])
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit):  # in a sentence
        maker.main(["--nbgrader", str(tmp_path / "file"), "--lesson", "02"])
    assert "error: " in capsys.readouterr().err


def test_what_a_teacher_has_set_for_nbgrader_stays(tmp_path):
    maker.main(["--nbgrader", str(tmp_path), "--lesson", "02"])
    (tmp_path / maker.SETTINGS.name).write_text("mine")
    maker.main(["--nbgrader", str(tmp_path), "--lesson", "03"])
    assert (tmp_path / maker.SETTINGS.name).read_text() == "mine"


def test_a_zip_is_named_after_its_lessons_and_the_course_after_itself():
    every = maker.lessons_of(None)
    assert handout.folder_of(every) == "transformer-lab"
    assert handout.folder_of(["03"]) == "transformer-lab-03"
    assert handout.folder_of(["02", "04"]) == "transformer-lab-02+04"
    assert handout.folder_of(["02", "03", "04"]) == "transformer-lab-02-04"


# ---- Installed, as a student installs it


@pytest.fixture(scope="module")
def installed(handed_out, tmp_path_factory):
    """Programs of an environment with the wheel of the hand-out; torch and the rest from here."""
    folder = tmp_path_factory.mktemp("a student")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    (site,) = (folder / "venv").glob("lib/python*/site-packages")
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib"))
    programs = folder / "venv" / "bin"
    pip = [sys.executable, "-m", "pip", "--python", programs / "python", "install"]
    alone = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet"]
    subprocess.run([*pip, *alone, handed_out], check=True)
    return programs


@pytest.mark.teaching
def test_installed_from_the_zip_check_and_progress_work_in_any_folder(
    installed, handed_out, tmp_path
):
    """The unzipped folder may have gone by then: the checks came with the package."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def call(*command):
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True
        )

    (tmp_path / "right.py").write_text(
        "import torch, transformer_lab\n"
        "from course import check\n"
        "print(transformer_lab.__file__)\n"
        "def stable_softmax(x, dim): return torch.softmax(x, dim)\n"
        "check(stable_softmax)\n"
        "def stable_softmax(x, dim): return torch.softmax(x, -1)\n"
        "check(stable_softmax)\n"
    )
    done = call(installed / "python", "right.py")
    where, passed = done.stdout.splitlines()
    assert Path(where).is_relative_to(installed.parent), "not the package that was installed"
    assert passed == "✓ stable_softmax: all checks passed."
    assert "This is the answer when `dim` is ignored" in done.stderr

    lost = call(installed / "transformer-course", "progress")
    assert lost.returncode == 2 and f"{tmp_path} holds no exercise" in lost.stderr
    shutil.copytree(handed_out / "exercises", tmp_path / "exercises")
    tasks = json.loads(call(installed / "transformer-course", "progress", "--json").stdout)
    assert {task["lesson"][:2] for task in tasks} == {"01", "02", "03"}
    assert {task["state"] for task in tasks} == {"not written yet"}


@pytest.mark.teaching
def test_work_moves_into_the_next_zip_and_its_answers_stay(installed, handed_out, tmp_path):
    """Also where the package is elsewhere, and the folder has only notebooks/ and exercises/."""
    course = tmp_path / "transformer-lab-00-03"
    shutil.copytree(handed_out, course)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def call(*arguments):
        command = [installed / "transformer-course", *arguments]
        done = subprocess.run(command, cwd=course, env=environment, capture_output=True, text=True)
        assert done.stderr == ""
        return done.stdout

    notebooks = [name for name in files_in(course) if name.endswith(".ipynb")]
    assert f"{len(notebooks)} new in" in call("update")
    mine = course / "work" / "02b_exercises_scaled_dot_product_attention.ipynb"
    text = mine.read_text("utf-8")
    stub = r"raise NotImplementedError(\"not written yet\")"
    at = text.index(stub, text.index("def stable_softmax"))
    mine.write_text(text[:at] + "return torch.softmax(x, dim)" + text[at + len(stub) :], "utf-8")
    (later := tmp_path / "transformer-lab-00-04").mkdir()
    for folder in ("notebooks", "exercises"):
        shutil.copytree(course / folder, later / folder)
    exercise = later / "exercises" / mine.name.replace("b_exercises", "")
    corrected = maker.read_notebook(exercise)
    corrected["cells"][0]["source"] += ["\n\nCorrected."]
    exercise.write_text(maker.text_of(maker.stamp(corrected)), "utf-8")
    (course / "work").rename(later / "work")
    course = later
    assert "Corrected" not in (later / "work" / mine.name).read_text("utf-8")
    assert "yours, and kept: 1 cells" in call("update")
    assert "Corrected." in (later / "work" / mine.name).read_text("utf-8")
    states = {
        task["names"][0]: task["state"] for task in json.loads(call("progress", "02", "--json"))
    }
    assert states["stable_softmax"] == "passed" and states["attend_one"] == "not written yet"
