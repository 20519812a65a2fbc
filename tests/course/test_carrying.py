"""Answers go with their tasks into other sheets, and nothing that a learner wrote is lost."""

import itertools
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from course import workplace
from course.checking import course as course_module
from course.checking.notebooks import load_notebook
from course.stamps import STUB, source_of, stamp
from course.workplace import fill
from tests.course.imitated_course import cell, edit, kept, notebook, read, sources, update, write

ROOT = Path(__file__).resolve().parents[2]
OLD, GONE, LEFT, NEW = (
    f"{number}b_exercises_{name}.ipynb"
    for number, name in (("10", "old"), ("13", "gone"), ("13", "left"), ("14", "new"))
)
IMPORTS = "import math\n\nfrom course import check"


def stub_of(task):
    return f'def {task}():\n    """Return {task}."""\n    {STUB}'


def sheet(number, title, *tasks, given=IMPORTS, text="Write it."):
    """Return a sheet as the course hands it out, with a heading, a stub and a check for each task.

    The cell of a task has its name as its id.
    """
    cells = [cell(f"title-{title}", f"# Exercises {number} · {title}", "markdown")]
    cells.append(cell(f"given-{title}", given))
    for place, task in enumerate(tasks, 1):
        heading = f"## Task {place} · Its title: `{task}`\n\n{text}"
        cells.append(cell(f"{task}-heading", heading, "markdown"))
        cells += [cell(task, stub_of(task)), cell(f"{task}-check", f"check({task})")]
    return stamp(notebook(*cells))


@pytest.fixture
def course(tmp_path, monkeypatch):
    """The learner's work/ has sheets 10, with tasks a and b, and 13, with c and d."""
    root = tmp_path / "course"
    for folder in ("tests/exercises", "exercises"):
        (root / folder).mkdir(parents=True)
    monkeypatch.setattr(course_module, "COURSE", root / "course")
    monkeypatch.chdir(root)
    write(root / "exercises" / "10_old.ipynb", sheet(10, "Old", "a", "b"))
    write(root / "exercises" / "13_gone.ipynb", sheet(13, "Gone", "c", "d"))
    fill(root / "work")
    return root


def renew(course, **changed):
    """Make a newer course, as `git pull` does: sheets 10 with b, 13 with d, 14 with a and c."""
    (course / "exercises" / "13_gone.ipynb").unlink(missing_ok=True)
    write(course / "exercises" / "10_old.ipynb", sheet(10, "Old", "b"))
    write(course / "exercises" / "13_left.ipynb", sheet(13, "Left", "d"))
    write(course / "exercises" / "14_new.ipynb", sheet(14, "New", "a", "c", **changed))


def add(path, *cells, after=None):
    made = read(path)
    ids = [each["id"] for each in made["cells"]]
    place = ids.index(after) + 1 if after else len(ids)
    made["cells"][place:place] = cells
    write(path, made)


def answers(course, name=NEW):
    return load_notebook(course / "work" / name)


def notebooks_of(course):
    return {path.name: path.read_bytes() for path in (course / "work").rglob("*.ipynb")}


# ---- What is carried


def test_an_answer_goes_with_its_task_and_both_the_sheet_and_the_command_say_so(course, capsys):
    edit(course / "work" / OLD, a="# My way.\ndef a():\n    return 1  # the first", b="def b(): 2")
    edit(course / "work" / GONE, c="def c():\n    return 3")
    renew(course)
    assert update() == 1  # since sheet 13 is not in the course any more
    found = sources(course / "work" / NEW)
    assert found["a"] == (
        f"# From {OLD}, carried over by `transformer-course update`.\n"
        "# My way.\ndef a():\n    return 1  # the first"
    )
    assert (answers(course)["a"](), answers(course)["c"]()) == (1, 3)
    said = capsys.readouterr().out
    assert f"{NEW}:\n  yours, carried over from {OLD}: a\n" in said
    assert f"  yours, carried over from {GONE}: c\n" in said
    assert sources(course / "work" / OLD)["a"].endswith("return 1  # the first")
    assert sources(course / "work" / GONE)["c"] == "def c():\n    return 3"
    nbformat.validate(nbformat.read(course / "work" / NEW, as_version=4))


def test_a_stub_is_never_carried(course, capsys):
    edit(course / "work" / OLD, b="def b(): 2")
    renew(course)
    (course / "work" / GONE).unlink()
    assert update() == 0
    assert sources(course / "work" / NEW)["a"] == stub_of("a")
    assert sources(course / "work" / "13b_exercises_left.ipynb")["d"] == stub_of("d")
    assert "carried over" not in capsys.readouterr().out


def test_what_was_begun_and_is_no_answer_yet_comes_too(course):
    edit(course / "work" / GONE, c=f"def c():\n    x = 3\n    {STUB}")
    renew(course)
    update()
    assert "x = 3" in sources(course / "work" / NEW)["c"]


@pytest.mark.parametrize("mine", ["def a(): return 'mine'", f"def a():\n    x = 1\n    {STUB}", ""])
def test_what_a_learner_has_written_in_the_new_sheet_stays(course, mine, capsys):
    edit(course / "work" / OLD, a="def a(): return 1")
    renew(course)
    fill(course / "work")
    edit(course / "work" / NEW, a=mine)
    before = (course / "work" / NEW).read_bytes()
    update()
    assert (course / "work" / NEW).read_bytes() == before
    begun = f"  not carried over: a: begun here; what you wrote before is in {OLD}"
    assert (begun in capsys.readouterr().out) == ("x = 1" in mine)


def test_an_answer_brings_the_helpers_and_imports_that_it_uses_and_no_more(course, capsys):
    work = course / "work"
    add(
        work / GONE,
        cell("help", "import statistics as st\nFACTOR = 7\ndef unused(): pass\nprint(1 / 0)"),
        cell("more", "def helper(x):\n    return FACTOR * x  # times"),
        after="given-Gone",
    )
    edit(work / GONE, c="def c():\n    return st.mean([helper(math.pi)])\n\nassert c() > 0")
    renew(course)
    update()
    assert answers(course)["c"]() == pytest.approx(21.991, abs=1e-3)
    found = sources(work / NEW)["c"]
    assert "# times" in found and "unused" not in found and "assert" not in found
    assert "import math" not in found  # the new sheet has it
    assert "c (with FACTOR, with helper, with st)" in capsys.readouterr().out


def test_a_helper_of_two_answers_comes_once(course):
    add(course / "work" / GONE, cell("help", "def helper(): return 3"), after="given-Gone")
    edit(course / "work" / GONE, c="def c(): return helper()", d="def d(): return helper()")
    renew(course)
    write(course / "exercises" / "14_new.ipynb", sheet(14, "New", "c", "d"))
    update()
    found = answers(course)
    assert (found["c"](), found["d"]()) == (3, 3)
    text = "".join(sources(course / "work" / NEW).values())
    assert text.count("def helper") == 1


def test_an_answer_whose_helper_is_another_one_in_the_new_sheet_is_not_carried(course, capsys):
    add(course / "work" / GONE, cell("help", "def helper(): return 3"), after="given-Gone")
    edit(course / "work" / GONE, c="def c(): return helper()")
    renew(course, given="def helper(): return 4")
    update()
    assert sources(course / "work" / NEW)["c"] == stub_of("c")
    why = f"it uses helper of {GONE}, and here helper is another"
    assert f"not carried over: c: {why}" in capsys.readouterr().out


def test_what_the_course_gave_and_has_corrected_is_not_the_learners_helper(course):
    path = course / "work" / GONE
    path.unlink()
    given = f"{IMPORTS}\n\n\ndef helper():\n    return 3"
    write(course / "exercises" / "13_gone.ipynb", sheet(13, "Gone", "c", given=given))
    fill(course / "work")
    edit(path, c="def c(): return helper()")
    renew(course, given=given.replace("3", "4"))
    update()
    assert answers(course)["c"]() == 4


def test_an_answer_in_several_cells_comes_as_a_whole(course):
    stub = f"class A:\n    n = 2\n\n    def f(self):\n        {STUB}"
    old, new = sheet(13, "Gone", "A"), sheet(14, "New", "A")
    for each in (*old["cells"], *new["cells"]):
        if each["id"] == "A":
            each["source"] = stub.splitlines(True)
    write(course / "exercises" / "13_gone.ipynb", stamp(old))
    (course / "work" / GONE).unlink()
    fill(course / "work")
    parts = [cell("f", "def f(self):\n    return self.n"), cell("put", "A.f = f")]
    add(course / "work" / GONE, *parts, after="A")
    renew(course)
    write(course / "exercises" / "14_new.ipynb", stamp(new))
    update()
    assert answers(course)["A"]().f() == 2


def test_an_answer_in_a_cell_of_its_own_and_two_in_one_cell_are_found(course):
    add(course / "work" / OLD, cell("own", "%%time\ndef a(): return 1"), after="a")
    edit(course / "work" / GONE, c="def d(): return 4\n\n\ndef c(): return 3", d="")
    renew(course)
    update()
    assert (answers(course)["a"](), answers(course)["c"]()) == (1, 3)
    found = sources(course / "work" / NEW)
    assert "def d" not in found["c"] and "%%time" not in found["a"]
    assert answers(course, LEFT)["d"]() == 4


def test_a_changed_text_of_the_task_is_said(course, capsys):
    edit(course / "work" / GONE, c="def c(): return 3")
    renew(course, text="Now four.")
    update()
    changed = "the text of the task has changed"
    assert f"carried over from {GONE}: c ({changed})" in capsys.readouterr().out
    assert f"update`; {changed}.\n" in sources(course / "work" / NEW)["c"]


def test_an_answer_goes_along_when_its_task_gets_another_cell_in_the_same_sheet(course):
    edit(course / "work" / OLD, a="def a(): return 1")
    made = read(course / "exercises" / "10_old.ipynb")
    for each in made["cells"]:
        each["id"] += "-2"
    write(course / "exercises" / "10_old.ipynb", stamp(made))
    assert update() == 0
    assert answers(course, OLD)["a"]() == 1


# ---- What is not the learner's answer


def test_a_renamed_answer_and_one_that_is_not_python_are_named(course, capsys):
    edit(course / "work" / OLD, a="def my_a(): return 1")
    edit(course / "work" / GONE, c="def c():\n    return (3")
    renew(course)
    update()
    found, said = sources(course / "work" / NEW), capsys.readouterr().out
    assert (found["a"], found["c"]) == (stub_of("a"), stub_of("c"))
    assert f"not carried over: a: nothing in {OLD} has this name" in said
    assert f"not carried over: c: its cell in {GONE} is not Python" in said


def test_what_another_sheet_gives_is_no_answer_though_the_learner_has_added_a_line(course):
    given = f"{IMPORTS}\n\n\ndef a():\n    return 1"
    write(course / "exercises" / "13_gone.ipynb", sheet(13, "Gone", "c", "d", given=given))
    (course / "work" / GONE).unlink()
    fill(course / "work")
    edit(course / "work" / GONE, **{"given-Gone": f"{given}\n\nprint(a())"})
    assert update() == 0
    assert sources(course / "work" / OLD)["a"] == stub_of("a")


def test_neither_solutions_nor_lessons_are_the_learners(course):
    solved = "### BEGIN SOLUTION\n    return 1\n    ### END SOLUTION"
    solutions = sheet(14, "New", "a")
    solutions["metadata"] = {}
    write(course / "work" / "14_new.ipynb", solutions)
    edit(course / "work" / "14_new.ipynb", a=f"def a():\n    {solved}")
    lesson = notebook(cell("own", "def a(): return 1"))
    for name in ("10a_lesson_old.ipynb", "my notes.ipynb"):
        write(course / "work" / name, stamp(lesson, {}))
    renew(course)
    update()
    assert sources(course / "work" / NEW)["a"] == stub_of("a")


def test_a_copy_under_a_name_of_ones_own_gives_to_other_sheets_and_not_to_its_twin(course, capsys):
    edit(course / "work" / OLD, a="def a(): return 1", b="def b(): return 2")
    shutil.copy(course / "work" / OLD, course / "work" / "10b_exercises_old-Copy1.ipynb")
    edit(course / "work" / OLD, a=stub_of("a"), b=stub_of("b"))  # to solve it once more
    renew(course)
    update()
    assert answers(course)["a"]() == 1
    assert sources(course / "work" / OLD)["b"] == stub_of("b")
    why = "10b_exercises_old-Copy1.ipynb is a copy of this sheet"
    assert f"not carried over: b: {why}" in capsys.readouterr().out


def test_who_puts_the_stub_back_to_solve_it_again_is_left_alone(course):
    edit(course / "work" / OLD, a="def a(): return 1")
    renew(course)
    update()
    edit(course / "work" / NEW, a=stub_of("a"))
    update()
    assert sources(course / "work" / NEW)["a"] == stub_of("a")


def test_what_is_solved_anew_in_its_own_sheet_is_not_filled_in_from_an_older_version(course):
    edit(course / "work" / OLD, b="def b(): return 2")
    renew(course)
    update()
    assert len(kept(course)) == 1
    edit(course / "work" / OLD, b=stub_of("b"))
    update()
    assert sources(course / "work" / OLD)["b"] == stub_of("b")


def test_an_answer_that_moves_twice_has_one_note(course):
    edit(course / "work" / OLD, a="def a(): return 1")
    renew(course)
    update()
    write(course / "exercises" / "15_last.ipynb", sheet(15, "Last", "a"))
    write(course / "exercises" / "14_new.ipynb", sheet(14, "New", "c"))
    (course / "work" / OLD).unlink()
    update()
    text = sources(course / "work" / "15b_exercises_last.ipynb")["a"]
    assert text.count("carried over by") == 1 and text.startswith(f"# From {NEW},")


# ---- Sheets of any age


@pytest.mark.parametrize("name", ["13b_exercises_gone.ipynb", "13_gone.ipynb", "my thirteen.ipynb"])
def test_a_sheet_without_hashes_gives_its_answers(course, name):
    """As those of version 1 were, which lay in exercises/; what it gave is not the learner's."""
    given = f"{IMPORTS}\n\n\ndef b():\n    return 2"
    old = sheet(13, "Gone", "c", "d", given=given)
    old["metadata"] = {}
    (course / "work" / GONE).unlink()
    write(course / "work" / name, old)
    edit(course / "work" / name, c="def c(): return 3")
    renew(course)
    update()
    assert answers(course)["c"]() == 3
    assert sources(course / "work" / LEFT)["d"] == stub_of("d")
    assert sources(course / "work" / OLD)["b"] == stub_of("b")


@pytest.mark.parametrize("hashes", [True, False])
def test_a_sheet_of_version_1_gives_its_answers_to_the_sheet_of_the_same_title(course, hashes):
    old = sheet(10, "Old", "a", "b")
    old["metadata"] = old["metadata"] if hashes else {}
    write(course / "work" / "10_old.ipynb", old)
    edit(course / "work" / "10_old.ipynb", a="def a(): return 1", b="def b(): return 2")
    renew(course)
    update()
    assert answers(course)["a"]() == 1 and answers(course, OLD)["b"]() == 2


def test_answers_in_the_courses_own_exercises_go_with_their_tasks_at_once(course):
    shutil.rmtree(course / "work")
    edit(course / "exercises" / "13_gone.ipynb", c="def c(): return 3")
    written = (course / "exercises" / "13_gone.ipynb").read_bytes()
    renew(course)
    (course / "exercises" / "13_gone.ipynb").write_bytes(written)  # git leaves what one wrote
    update()
    assert answers(course)["c"]() == 3


def test_an_update_of_before_answers_were_carried_is_made_good(course, monkeypatch):
    add(course / "work" / OLD, cell("help", "def helper(): return 1"), after="given-Old")
    edit(course / "work" / OLD, a="def a(): return helper()")
    renew(course)
    with monkeypatch.context() as before:
        before.setattr(workplace, "_carried", lambda *_: [])
        update()
    assert sources(course / "work" / NEW)["a"] == stub_of("a")
    update()
    assert answers(course)["a"]() == 1


@pytest.mark.parametrize("lost", ["the sheet", "its helper"])
def test_an_older_version_gives_what_is_nowhere_else(course, monkeypatch, lost):
    given = f"{IMPORTS}\n\n\ndef helper():\n    return 1"
    write(course / "exercises" / "10_old.ipynb", sheet(10, "Old", "a", "b", given=given))
    (course / "work" / OLD).unlink()
    fill(course / "work")
    edit(course / "work" / OLD, a="def a(): return helper()")
    renew(course)
    with monkeypatch.context() as before:
        before.setattr(workplace, "_carried", lambda *_: [])
        update()
    if lost == "the sheet":
        (course / "work" / OLD).unlink()
    update()
    assert answers(course)["a"]() == 1
    assert f"# From kept_{kept(course)[0].parent.name[5:]}" in sources(course / "work" / NEW)["a"]


# ---- Nothing is lost


def test_a_second_update_changes_nothing(course, capsys):
    edit(course / "work" / OLD, a="def a(): return 1")
    edit(course / "work" / GONE, c="def c(): return 3", d="def d(): return 4")
    renew(course)
    update()
    before = notebooks_of(course)
    capsys.readouterr()
    update()
    assert notebooks_of(course) == before and "carried over" not in capsys.readouterr().out


def test_a_dry_run_says_the_same_and_writes_nothing(course, capsys):
    edit(course / "work" / OLD, a="def a(): return 1")
    write(course / "exercises" / "14_new.ipynb", sheet(14, "New", "c"))
    fill(course / "work")
    renew(course)  # which brings task a into sheet 14
    before = notebooks_of(course)
    update("--dry-run")
    would = capsys.readouterr()
    assert notebooks_of(course) == before and f"carried over from {OLD}: a" in would.out
    update()
    assert capsys.readouterr().out.startswith(would.out) and not would.err


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.write_text(path.read_text()[:300]),
        lambda path: path.write_bytes(b""),
        lambda path: write(path, read(path) | {"metadata": [1]}),
    ],
    ids=["truncated", "empty", "foreign metadata"],
)
def test_a_damaged_old_sheet_stays_and_is_named_and_the_others_give(course, spoil, capsys):
    edit(course / "work" / OLD, a="def a(): return 1")
    edit(course / "work" / GONE, c="def c(): return 3")
    spoil(course / "work" / GONE)
    before = (course / "work" / GONE).read_bytes()
    renew(course)
    update()
    assert answers(course)["a"]() == 1
    assert sources(course / "work" / NEW)["c"] == stub_of("c")
    assert (course / "work" / GONE).read_bytes() == before
    assert f"{GONE} cannot be read: no answer was taken from it." in capsys.readouterr().out


def test_a_write_protected_sheet_stays_as_it_is(course, capsys):
    edit(course / "work" / OLD, a="def a(): return 1")
    renew(course)
    fill(course / "work")
    (course / "work" / NEW).chmod(0o444)
    before = (course / "work" / NEW).read_bytes()
    update()
    assert (course / "work" / NEW).read_bytes() == before
    assert "not carried over: a: this sheet is write-protected" in capsys.readouterr().out


def test_a_sheet_that_was_there_before_is_kept_as_it_was(course):
    edit(course / "work" / OLD, a="def a(): return 1")
    renew(course)
    fill(course / "work")
    edit(course / "work" / NEW, c="def c(): return 3")
    before = read(course / "work" / NEW)
    update()
    assert [read(path) for path in kept(course) if path.name == NEW] == [before]
    assert (answers(course)["a"](), answers(course)["c"]()) == (1, 3)


def test_where_a_sheet_is_merged_and_gets_an_answer_the_one_before_both_is_kept(course):
    renew(course)
    fill(course / "work")
    edit(course / "work" / OLD, a="def a(): return 1")
    before = read(course / "work" / NEW)
    renew(course, given="import math\n\nfrom course import check  # better")
    update()
    assert [read(path) for path in kept(course) if path.name == NEW] == [before]
    assert answers(course)["a"]() == 1


def test_a_sheet_that_is_a_link_stays_one(course, tmp_path):
    edit(course / "work" / OLD, a="def a(): return 1")
    renew(course)
    fill(course / "work")
    (course / "work" / NEW).rename(tmp_path / "elsewhere.ipynb")
    (course / "work" / NEW).symlink_to(tmp_path / "elsewhere.ipynb")
    update()
    assert (course / "work" / NEW).is_symlink() and answers(course)["a"]() == 1


def test_what_is_saved_while_answers_are_carried_is_not_written_over(course, monkeypatch):
    edit(course / "work" / OLD, a="def a(): return 1")
    renew(course)
    fill(course / "work")
    keep = workplace.keep

    def saved_meanwhile(path, when):
        if path.name == NEW:
            edit(path, c="just written")
        return keep(path, when)

    monkeypatch.setattr(workplace, "keep", saved_meanwhile)
    assert update() == 2
    assert sources(course / "work" / NEW)["c"] == "just written"
    monkeypatch.setattr(workplace, "keep", keep)
    update()
    found = sources(course / "work" / NEW)
    assert "return 1" in found["a"] and found["c"] == "just written"


def test_a_copy_that_an_editor_had_open_and_saved_over_gets_its_answers_again(course):
    edit(course / "work" / OLD, a="def a(): return 1")
    renew(course)
    fill(course / "work")
    opened = (course / "work" / NEW).read_bytes()
    update()
    (course / "work" / NEW).write_bytes(opened)
    edit(course / "work" / NEW, c="def c(): return 3")
    update()
    assert (answers(course)["a"](), answers(course)["c"]()) == (1, 3)


def test_wherever_the_disk_is_full_nothing_is_lost_and_the_next_update_goes_on(course, monkeypatch):
    edit(course / "work" / OLD, a="def a(): return 1")
    edit(course / "work" / GONE, c="def c(): return 3")
    renew(course)
    shutil.copytree(course / "work", course / "saved")
    for last in range(5):
        shutil.rmtree(course / "work")
        shutil.copytree(course / "saved", course / "work")
        count, write_atomically = itertools.count(), workplace.write_atomically

        def full(path, content, last=last, count=count, write_atomically=write_atomically):
            if next(count) == last:
                raise OSError(28, "No space left on device", str(path))
            write_atomically(path, content)

        with monkeypatch.context() as imitated:
            imitated.setattr(workplace, "write_atomically", full)
            assert update() == 2, last
        assert "return 1" in sources(course / "work" / OLD)["a"]
        assert "return 3" in sources(course / "work" / GONE)["c"]
        update()
        assert (answers(course)["a"](), answers(course)["c"]()) == (1, 3)


KILLED = """
import itertools, os, shutil, signal, sys
from pathlib import Path
from course import cli
from course.checking import course
course.COURSE = Path(sys.argv[1], "course")
for last in range(int(sys.argv[2])):
    shutil.rmtree("work")
    shutil.copytree("saved", "work")
    child = os.fork()
    if not child:
        count = itertools.count()
        os.fsync = lambda _: next(count) == last and os.kill(os.getpid(), signal.SIGKILL)
        cli.main(["update"])
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL, last
    shutil.move("work", f"killed_{last}")
    shutil.copytree("saved", "work")
"""


def test_wherever_an_update_is_killed_nothing_is_lost_and_the_next_goes_on(course):
    edit(course / "work" / OLD, a="def a(): return 1")
    edit(course / "work" / GONE, c="def c(): return 3")
    renew(course)
    shutil.copytree(course / "work", course / "saved")
    writes = 5  # sheet 10 kept and merged, 13 and 14 new, 14 with answers
    subprocess.run(
        [sys.executable, "-c", KILLED, course, str(writes)],
        cwd=course,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        check=True,
    )
    for last in range(writes):
        shutil.rmtree(course / "work")
        shutil.copytree(course / f"killed_{last}", course / "work")
        assert "return 1" in sources(course / "work" / OLD)["a"]
        assert "return 3" in sources(course / "work" / GONE)["c"]
        update()
        assert (answers(course)["a"](), answers(course)["c"]()) == (1, 3)
        assert list((course / "work").rglob("*.part")) == []


def test_every_answer_of_ours_would_find_its_task_in_another_sheet(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(workplace, "work_folder", lambda: tmp_path / "work")
    sheets = [each for each in workplace.originals() if "exercises" in each.name]
    monkeypatch.setattr(workplace, "originals", lambda: sheets)
    (tmp_path / "work").mkdir()
    for path in sorted((ROOT / "solutions").glob("[0-9][0-9]_*.ipynb")):
        made = read(path)
        for each in made["cells"]:
            text = re.sub(r" *### (BEGIN|END) SOLUTION\n?", "", source_of(each))
            text = re.sub(r"\A# Exercises (\d\d) · ", r"# Exercises \1 · Old ", text)
            each["source"] = text.splitlines(True)
        write(tmp_path / "work" / f"old {path.name}", made)
    update()
    said = capsys.readouterr().out
    stubs = 0
    for path in sorted((tmp_path / "work").glob("*b_exercises_*.ipynb")):
        cells = read(path)["cells"]
        stubs += sum(each["cell_type"] == "code" and STUB in source_of(each) for each in cells)
    assert stubs == 0 and "not carried" not in said and "without" not in said
