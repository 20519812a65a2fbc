"""work/: copies, filled up and brought up to date, and nothing that a learner wrote is lost."""

import copy
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import nbformat
import pytest

from course import cli, workplace
from course.checking import course as course_module
from course.checking import progress, target_folder
from course.stamps import STUB, original_of, stamp
from course.workplace import fill, merge
from tests.course.imitated_course import cell, edit, kept, notebook, read, sources, update, write

ROOT = Path(__file__).resolve().parents[2]
LESSON, EXERCISES = "02a_lesson_x.ipynb", "02b_exercises_x.ipynb"
TASK = f"def a():\n    {STUB}"


@pytest.fixture
def course(tmp_path, monkeypatch):
    """A course of one lesson, with evidence and exercises, in the place of ours."""
    root = tmp_path / "course"
    for folder in ("tests/exercises", "notebooks/evidence", "exercises", "benchmarks/results"):
        (root / folder).mkdir(parents=True)
    (root / "tests" / "exercises" / "test_02_x.py").write_text("def test_a(a): assert a() == 1\n")
    lesson = notebook(
        cell(
            "title",
            "# 02 · X\n[do](../exercises/02_x.ipynb), [doubt](evidence/02_x.ipynb)",
            "markdown",
        ),
        cell("run", "1 + 1"),
        cell("end", "See [numbers](../benchmarks/results/x.json).", "markdown"),
    )
    task = notebook(
        cell("intro", "# 02 · Exercises\n[read](../notebooks/02_x.ipynb#A)", "markdown"),
        cell("task", TASK),
        cell("check", "check(a)"),
    )
    evidence = notebook(cell("see", "[numbers](../../benchmarks/results/x.json)", "markdown"))
    write(root / "notebooks" / "02_x.ipynb", lesson)
    write(root / "exercises" / "02_x.ipynb", stamp(task))
    write(root / "notebooks" / "evidence" / "02_x.ipynb", evidence)
    monkeypatch.setattr(course_module, "COURSE", root / "course")
    monkeypatch.chdir(root)
    fill(root / "work")
    return root


def correct(course, kind="exercises", add=(), **changed):
    """Correct a notebook of the course, as `git pull` does."""
    path = course / kind / "02_x.ipynb"
    edit(path, **changed)
    made = read(path)
    made["cells"] += add
    write(path, stamp(made) if kind == "exercises" else made)


# ---- Copies


def test_lesson_exercises_and_evidence_lie_side_by_side_under_names_that_differ_early(course):
    names = sorted(path.name for path in (course / "work").iterdir())
    assert names == [LESSON, EXERCISES, "02c_evidence_x.ipynb"]
    assert len({name[:12] for name in names}) == 3


def test_links_lead_from_the_copy_to_where_they_led(course):
    lesson, work = sources(course / "work" / LESSON), course / "work"
    assert f"[do]({EXERCISES}), [doubt](02c_evidence_x.ipynb)" in lesson["title"]
    assert "(../benchmarks/results/x.json)" in lesson["end"]
    assert f"[read]({LESSON}#A)" in sources(work / EXERCISES)["intro"]
    assert "(../benchmarks/results/x.json)" in sources(work / "02c_evidence_x.ipynb")["see"]


def test_every_local_link_of_the_courses_own_copies_leads_somewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    work = tmp_path / "work"
    assert len(fill(work)) >= 27
    for path in work.glob("*.ipynb"):
        nbformat.validate(nbformat.read(path, as_version=4))
        text = "\n".join(sources(path).values())
        for link in re.findall(r"\]\(([^)\s#]+)", text):
            if not re.match(r"\w+:", link) and ("/" in link or link.endswith(".ipynb")):
                assert (work / unquote(link)).exists(), f"{path.name}: {link}"


def test_filling_writes_over_nothing(course):
    edit(course / "work" / EXERCISES, task="mine")
    (course / "work" / LESSON).write_text("half a notebo")
    (course / "work" / "02c_evidence_x.ipynb").unlink()
    (course / "work" / "02c_evidence_x.ipynb").symlink_to("nowhere")
    assert fill(course / "work") == []
    assert sources(course / "work" / EXERCISES)["task"] == "mine"
    assert (course / "work" / LESSON).read_text() == "half a notebo"


def test_answers_in_the_courses_own_exercises_come_along_and_are_the_learners(course):
    (course / "work" / EXERCISES).unlink()
    path = course / "exercises" / "02_x.ipynb"
    before = path.read_text()
    edit(path, task="def a(): return 1")
    fill(course / "work")
    path.write_text(before)  # git checkout
    correct(course, intro="# 02 · Corrected")
    assert update() == 0
    found = sources(course / "work" / EXERCISES)
    assert found["task"] == "def a(): return 1" and found["intro"] == "# 02 · Corrected"


def test_lab_opens_the_first_lesson_of_work_on_this_machine_alone(course, monkeypatch):
    seen = []

    def execv(*call):
        seen.append(call)
        raise SystemExit  # as this process ends

    monkeypatch.setattr(os, "execv", execv)
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", "/mine")
    with pytest.raises(SystemExit):
        cli.main(["lab", "--port=9000"])
    flags = seen[0][1]
    assert f"--LabApp.default_url=/lab/tree/work/{LESSON}" in flags and flags[-1] == "--port=9000"
    assert f"--ServerApp.root_dir={course}" in flags and "--ServerApp.ip=localhost" in flags
    look, *others = os.environ["JUPYTER_CONFIG_PATH"].split(os.pathsep)
    assert (Path(look) / "custom.css").is_file() and others == ["/mine"]
    with pytest.raises(SystemExit):
        cli.main(["lab", "--ip=0.0.0.0"])
    assert [flag for flag in seen[1][1] if "ip=" in flag] == ["--ip=0.0.0.0"]  # Jupyter takes one


def test_where_the_course_cannot_be_written_work_is_made_here(course, tmp_path, monkeypatch):
    shutil.rmtree(course / "work")
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(home)
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert update() == 0
    assert f"[do]({EXERCISES})" in sources(home / "work" / LESSON)["title"]
    assert "(../../course/benchmarks/" in sources(home / "work" / LESSON)["end"]


# ---- Trust


MOVES = {"output_type": "display_data", "metadata": {}}
MOVES |= {"data": {"text/html": '<div data-explorable="query"><script>1</script></div>'}}


@pytest.fixture
def moving(course, tmp_path, monkeypatch):
    """A course whose lesson has something that moves, and a work/ that `lab` has filled."""
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "jupyter" / "data"))
    path = course / "notebooks" / "02_x.ipynb"
    made = read(path)
    made["cells"][1]["outputs"] = [MOVES]
    write(path, made)
    shutil.rmtree(course / "work")
    monkeypatch.setattr(os, "execv", lambda *_: sys.exit())
    with pytest.raises(SystemExit):
        cli.main(["lab"])
    return course


def test_what_moves_in_a_lesson_moves_as_soon_as_it_is_opened(moving):
    assert workplace.is_trusted((moving / "work" / LESSON).read_bytes())
    assert not workplace.is_trusted((moving / "notebooks" / "02_x.ipynb").read_bytes())
    exercises = (moving / "work" / EXERCISES).read_bytes()
    assert not workplace.is_trusted(exercises)  # nothing moves there


def test_no_other_script_is_trusted_than_the_courses(moving):
    path = moving / "work" / LESSON
    path.write_text(path.read_text().replace("<script>1", "<script>2"))
    assert not workplace.is_trusted(path.read_bytes())
    correct(moving, "notebooks", end="Corrected.")
    assert update() == 0 and "<script>2" in path.read_text()
    assert not workplace.is_trusted(path.read_bytes())


def test_an_update_keeps_what_jupyterlab_trusts(moving):
    correct(moving, "notebooks", end="Corrected.")
    assert update() == 0
    path = moving / "work" / LESSON
    assert sources(path)["end"] == "Corrected." and workplace.is_trusted(path.read_bytes())
    path.unlink()
    assert update() == 0 and workplace.is_trusted(path.read_bytes())  # a new copy


def test_without_a_folder_of_jupyters_work_is_filled_all_the_same(moving, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "file" / "data"))
    (moving / "work" / LESSON).unlink()
    assert update() == 0 and (moving / "work" / LESSON).is_file()


# ---- Updates


def test_a_lesson_that_was_only_run_is_replaced_and_a_dated_copy_stays(course, capsys):
    made = read(course / "work" / LESSON)
    made["cells"][1] |= {"execution_count": 3, "outputs": [{"output_type": "stream"}]}
    write(course / "work" / LESSON, made)
    assert update() == 0 and kept(course) == []  # nothing is new
    correct(course, "notebooks", run="1 + 2")
    assert update("--dry-run") == 0 and read(course / "work" / LESSON) == made
    assert update() == 0
    assert sources(course / "work" / LESSON)["run"] == "1 + 2"
    assert read(course / "work" / LESSON)["cells"][1]["outputs"] == []
    assert [read(path) for path in kept(course)] == [made]
    assert f"{LESSON}:\n  from the course: 1 + 2" in capsys.readouterr().out
    capsys.readouterr()
    assert update() == 0 and len(kept(course)) == 1


def test_answers_stay_in_their_cells_while_corrections_come_in(course):
    edit(course / "work" / EXERCISES, task="def a(): return 1")
    correct(course, intro="# 02 · Corrected", check="check(a)  # better", add=[cell("new", "2")])
    assert update() == 0
    assert [*sources(course / "work" / EXERCISES).items()] == [
        ("intro", "# 02 · Corrected"),
        ("task", "def a(): return 1"),
        ("check", "check(a)  # better"),
        ("new", "2"),
    ]
    assert [sources(path)["intro"][:16] for path in kept(course)] == ["# 02 · Exercises"]


def test_an_answer_stays_though_the_course_has_changed_its_stub_and_that_is_said(course, capsys):
    edit(course / "work" / EXERCISES, task="def a(): return 1")
    correct(course, task=f'def a():\n    "Better."\n    {STUB}')
    assert update() == 0
    assert sources(course / "work" / EXERCISES)["task"] == "def a(): return 1"
    assert (
        "yours is kept, though the course has changed it too: def a():" in capsys.readouterr().out
    )


def test_an_answer_never_becomes_a_stub_again():
    answered = stamp(notebook(cell("task", "def a(): return 1")))
    merged = merge(answered, stamp(notebook(cell("task", TASK))))
    assert "".join(merged.notebook["cells"][0]["source"]) == "def a(): return 1"


def test_own_cells_stay_where_they_were_and_deleted_ones_stay_out(course):
    path = course / "work" / LESSON
    made = read(path)
    title, _, end = made["cells"]
    picture = {"a.png": {"image/png": "iVBOR"}}
    note = cell("note", "![](attachment:a.png)", "markdown") | {"attachments": picture}
    made["cells"] = [cell("first", "0"), title, note, cell("try", "mine"), end, cell("last", "9")]
    write(path, made)
    correct(course, "notebooks", end="The end.", run="1 + 3")
    assert update() == 0
    assert [*sources(path)] == ["first", "title", "note", "try", "end", "last"]
    assert sources(path)["end"] == "The end." and read(path)["cells"][2]["attachments"] == picture


def test_a_cell_that_the_course_takes_out_goes_unless_somebody_wrote_in_it(course):
    edit(course / "work" / LESSON, end="My summary.")
    path = course / "notebooks" / "02_x.ipynb"
    write(path, notebook(read(path)["cells"][0]))
    assert update() == 0
    assert [*sources(course / "work" / LESSON)] == ["title", "end"]


def test_cells_in_another_order_stay_in_it(course):
    path = course / "work" / LESSON
    made = read(path)
    made["cells"].reverse()
    write(path, made)
    correct(course, "notebooks", run="1 + 3")
    assert update() == 0 and [*sources(path)] == ["end", "run", "title"]


def test_no_cell_is_lost_whatever_two_people_do():
    """Ten cells, changed, deleted, added and moved at random on both sides."""
    from random import Random

    for seed in range(300):
        random = Random(seed)
        base = stamp(notebook(*(cell(f"c{i}", f"{i}") for i in range(10))))
        mine, new = copy.deepcopy(base), copy.deepcopy(base)
        for who, made in (("mine", mine), ("new", new)):
            made["cells"] = [each for each in made["cells"] if random.random() < 0.8]
            for each in made["cells"]:
                if random.random() < 0.3:
                    each["source"] = [f"{who} {each['id']}"]
            for i in range(random.randrange(4)):
                added = cell(f"{who}{i}", f"{who} added {i}")
                made["cells"].insert(random.randrange(len(made["cells"]) + 1), added)
            if random.random() < 0.2:
                random.shuffle(made["cells"])
        merged = merge(mine, stamp(new)).notebook
        found = ["".join(each["source"]) for each in merged["cells"]]
        written = ["".join(c["source"]) for c in mine["cells"] if "mine" in "".join(c["source"])]
        assert set(written) <= set(found), seed
        ids = [each["id"] for each in merged["cells"]]
        assert len(ids) == len(set(ids)), seed
        assert original_of(merged) == original_of(stamp(new))


@pytest.mark.parametrize("ids", ["none", "double"])
def test_cells_without_ids_of_their_own_are_kept(course, ids):
    path = course / "work" / LESSON
    made = read(path)
    made["cells"].append(cell("run", "my copy"))
    for each in made["cells"] if ids == "none" else ():
        del each["id"]
    write(path, made)
    correct(course, "notebooks", end="The end.")
    assert update() == 0
    assert "my copy" in ["".join(each["source"]) for each in read(path)["cells"]]


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda path: path.write_text(path.read_text()[:200]), "is not a notebook"),
        (lambda path: path.write_text("[1]"), "is not a notebook"),
        (lambda path: path.write_bytes(b""), "is not a notebook"),
        (lambda path: path.chmod(0o444), "write-protected"),
        (lambda path: write(path, read(path) | {"metadata": {}}), "which version it was made from"),
    ],
    ids=["truncated", "foreign", "empty", "read-only", "without its metadata"],
)
def test_what_cannot_be_merged_stays_byte_for_byte_and_that_is_said(course, spoil, why, capsys):
    path = course / "work" / LESSON
    spoil(path)
    before = path.read_bytes()
    correct(course, "notebooks", run="1 + 2")
    assert update() == 1
    assert path.read_bytes() == before
    assert f"{LESSON} stays as it is: " in (said := capsys.readouterr().out) and why in said


def test_a_notebook_that_the_course_has_no_more_stays(course, capsys):
    (course / "notebooks" / "02_x.ipynb").rename(course / "notebooks" / "03_x.ipynb")
    assert update() == 1
    assert (course / "work" / LESSON).exists() and (course / "work" / "03a_lesson_x.ipynb").exists()
    assert "no such notebook any more" in capsys.readouterr().out


def test_a_folder_and_a_notebook_that_are_links_stay_links(course, tmp_path):
    (course / "work").rename(tmp_path / "cloud")
    (course / "work").symlink_to(tmp_path / "cloud")
    (tmp_path / "cloud" / LESSON).rename(tmp_path / "elsewhere.ipynb")
    (tmp_path / "cloud" / LESSON).symlink_to(tmp_path / "elsewhere.ipynb")
    correct(course, "notebooks", run="1 + 2")
    assert update() == 0
    assert (course / "work").is_symlink() and (tmp_path / "cloud" / LESSON).is_symlink()
    assert sources(tmp_path / "elsewhere.ipynb")["run"] == "1 + 2"


def test_a_folder_that_cannot_be_written_is_one_line_and_changes_nothing(
    course, capsys, monkeypatch
):
    edit(course / "work" / EXERCISES, task="mine")
    before = (course / "work" / EXERCISES).read_bytes()
    correct(course, intro="# 02 · Corrected")

    def full(path, content):
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(workplace, "write_atomically", full)
    assert update() == 2
    assert (course / "work" / EXERCISES).read_bytes() == before
    assert capsys.readouterr().err.count("\n") == 1


def test_what_is_saved_while_the_update_runs_is_not_written_over(course, monkeypatch):
    path = course / "work" / LESSON
    correct(course, "notebooks", run="1 + 2")
    keep = workplace.keep

    def saved_meanwhile(*arguments):
        edit(path, end="just written")
        return keep(*arguments)

    monkeypatch.setattr(workplace, "keep", saved_meanwhile)
    assert update() == 2
    assert sources(path)["end"] == "just written"


def test_text_that_was_saved_over_an_update_is_merged_by_the_next(course, capsys):
    path = course / "work" / EXERCISES
    opened = path.read_text()
    correct(course, intro="# 02 · Corrected")
    assert update() == 0
    assert "choose Overwrite" in capsys.readouterr().out
    path.write_text(opened)  # as JupyterLab does with what was typed before the update
    edit(path, task="def a(): return 1")
    assert update() == 0
    assert sources(path)["task"] == "def a(): return 1"
    assert sources(path)["intro"].startswith("# 02 · Corrected")


def test_what_stays_old_is_not_called_up_to_date(course, capsys):
    edit(course / "exercises" / "02_x.ipynb", task="mine")
    assert update() == 1
    told = capsys.readouterr().out
    assert "`git restore exercises/02_x.ipynb` throws away what you wrote" in told
    assert "The rest of it is up to date." in told


def test_a_kill_in_the_middle_of_a_write_leaves_the_old_notebook_or_the_new(course):
    edit(course / "work" / EXERCISES, task="def a(): return 1")
    correct(course, intro="# 02 · Corrected")
    code = (
        "import os, signal, sys; from course.checking import course as c; from pathlib import Path;"
        f"c.COURSE = Path({str(course / 'course')!r});"
        "os.fsync = lambda file: os.kill(os.getpid(), signal.SIGKILL) if next(count) == int("
        "sys.argv[1]) else None; import itertools; count = itertools.count();"
        "from course import cli; cli.main(['update'])"
    )
    for written in range(2):  # the dated copy, then the notebook
        command = [sys.executable, "-c", code, str(written)]
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, cwd=course, env=environment, capture_output=True)
        assert done.returncode == -signal.SIGKILL, done.stderr
        assert sources(course / "work" / EXERCISES)["task"] == "def a(): return 1"
        assert sources(course / "work" / EXERCISES)["intro"].startswith("# 02 · Exercises")
    assert update() == 0
    assert sources(course / "work" / EXERCISES)["intro"] == "# 02 · Corrected"
    assert list((course / "work").rglob("*.part")) == []


def test_progress_and_checks_read_work_where_it_is(course, monkeypatch):
    (course / "solutions").mkdir()
    heading = "## Task 1 · A: `a`\n\nDifficulty ★☆☆☆☆ · importance ★☆☆☆☆ · 5 minutes"
    write(course / "solutions" / "02_x.ipynb", notebook(cell("h", heading, "markdown")))
    assert [task.state for task in progress.measure()] == ["not written yet"]
    edit(course / "work" / EXERCISES, task="def a(): return 1")
    assert [task.state for task in progress.measure()] == ["passed"]
    assert [task.state for task in progress.measure("exercises")] == ["not written yet"]
    monkeypatch.chdir(course / "work")
    assert target_folder() == course / "work"
    shutil.rmtree(course / "work")
    monkeypatch.chdir(course)
    assert target_folder() == course / "exercises"
