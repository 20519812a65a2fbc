"""What grading is made of: whose notebook is which, what is striking, what is written."""

import contextlib
import csv
import io
import json
import os
import shutil
import time
from pathlib import Path

import pytest
from IPython.core import inputtransformer2

from course.checking import course_folder, read_cells
from course.checking.child import work
from course.checking.isolation import Walls
from course.checking.judge import Outcome
from course.checking.notebooks import load_cells
from course.checking.progress import tasks_in
from course.checking.records import Judged
from course.grading import find_submissions, look, similar_pairs
from course.grading import grade as command
from course.grading.grade import _known_by, _lesson
from course.grading.marks import MOST_DIAGNOSES, Row, page_names, write_pages
from course.grading.similarity import (
    THRESHOLDS,
    likeness,
    runs_of,
    source_of,
    thresholds,
)
from course.grading.submissions import (
    MOST_CELLS,
    MOST_CODE,
    MOST_NOTES,
    _too_long,
    definitions,
)
from course.grading.tables import OF_TASKS, harmless, of_tasks
from transformer_lab.support import files

LESSONS = [_known_by(_lesson(number)) for number in ("01", "02")]
FIRST, SECOND = (lesson.name for lesson in LESSONS)


def exercise(lesson):
    return (course_folder() / "exercises" / f"{lesson}.ipynb").read_text("utf-8")


def hand_in(folder, *names, text=None):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(exercise(SECOND) if text is None else text, "utf-8")


def found_in(folder, lessons=LESSONS[1:], **options):
    submissions, notes = find_submissions(folder, lessons, **options)
    return {(each.student, each.lesson): each for each in submissions}, notes


# ---- Whose notebook is which


@pytest.mark.parametrize(
    ("names", "students"),
    [
        ((f"anna/{SECOND}.ipynb", f"ben/deep/er/{SECOND}.ipynb"), ["anna", "ben"]),
        ((f"anna_{SECOND}.ipynb", f"{SECOND}-ben.ipynb"), ["anna", "ben"]),
        ((f"anna_{SECOND} (1).ipynb",), ["anna"]),
        (
            (f"submitted/anna/{SECOND}/{SECOND}.ipynb", f"submitted/ben/x/{SECOND}.ipynb"),
            ["anna", "ben"],
        ),
        ((f"Anna Ash_4711_assignsubmission_file_/{SECOND}.ipynb",), ["Anna Ash"]),
        ((f"Anna Ash_4711_assignsubmission_file_{SECOND}.ipynb",), ["Anna Ash"]),
        (
            (f"ashanna_LATE_1234_56789_{SECOND}-1.ipynb", f"benb_1235_56780_{SECOND}.ipynb"),
            ["ashanna", "benb"],
        ),
        (("anna.ipynb", "ben.ipynb"), ["anna", "ben"]),
        (("anna/.ipynb_checkpoints/x.ipynb", f"anna/{SECOND}.ipynb", ".git/x.ipynb"), ["anna"]),
    ],
)
def test_the_usual_shapes_are_found(tmp_path, names, students):
    hand_in(tmp_path, *names)
    found, _ = found_in(tmp_path)
    assert sorted(student for student, _ in found) == students
    assert all(each.cells and not each.problem for each in found.values())


def test_a_lesson_is_recognised_by_what_it_contains_and_that_is_reported(tmp_path):
    hand_in(tmp_path, f"anna/{FIRST}.ipynb")  # this is lesson 02 under the name of lesson 01
    hand_in(tmp_path, "anna/homework.ipynb", text=exercise(FIRST))
    found, _ = found_in(tmp_path, LESSONS)
    assert found["anna", FIRST].path.name == "homework.ipynb"
    assert found["anna", SECOND].path.name == f"{FIRST}.ipynb"
    assert "was recognised as" in found["anna", SECOND].flags[0]


def test_of_two_copies_the_one_with_the_right_name_counts_and_the_other_is_reported(tmp_path):
    hand_in(tmp_path, f"anna/{SECOND}.ipynb", f"anna/{SECOND} (1).ipynb")
    found, _ = found_in(tmp_path)
    assert found["anna", SECOND].path.name == f"{SECOND}.ipynb"
    assert f"anna/{SECOND} (1).ipynb was not taken" in found["anna", SECOND].flags


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("\n" * 90_000, ""),
        ("%a\r" * 33_000, "too large: 33000 lines of magic"),
        ("a=\xa0!b\n" * 15_000, "too large: 15000 lines of magic"),
        ("a" * 99_000 + " b?\n", "too large: a word of 99000 characters"),
        ("a[0]." * 16_000 + "a b?\n", "too large: a word of 80001 characters"),
    ],
)
def test_nothing_takes_long_to_read(source, problem):
    started = time.process_time()
    assert _too_long([("code", source)]) == problem
    assert time.process_time() - started < 2


def test_of_thousands_of_notebooks_the_first_are_read(tmp_path, monkeypatch):
    seen = []
    reader = "course.grading.submissions.read_cells"
    monkeypatch.setattr(reader, lambda path: seen.append(path) or [])
    hand_in(tmp_path, *(f"anna/{n:03}.ipynb" for n in range(230)), text="{}")
    found_in(tmp_path)
    assert len(seen) == 200


def test_of_the_whole_course_the_exercise_counts_and_not_the_lesson(tmp_path):
    cells = [
        {"cell_type": "markdown", "source": "# 02 · Scaled dot-product attention"},
        {"cell_type": "code", "source": "def attend_one(query, keys, values): return 0"},
    ]
    hand_in(tmp_path, f"anna/exercises/{SECOND}.ipynb")
    hand_in(tmp_path, f"anna/notebooks/{SECOND}.ipynb", text=json.dumps({"cells": cells}))
    found, _ = found_in(tmp_path)
    assert found["anna", SECOND].path.parent.name == "exercises"


def test_of_a_handed_in_work_the_exercises_count_and_not_what_an_update_has_kept(tmp_path):
    name = SECOND.replace("_", "b_exercises_", 1)
    hand_in(tmp_path, f"anna/work/{name}.ipynb", f"anna/work/kept_2026-11-28_15.30.12/{name}.ipynb")
    hand_in(tmp_path, f"bob_{name}.ipynb", f"carl/{name}.ipynb")
    found, _ = found_in(tmp_path)
    assert found["anna", SECOND].path.parent.name == "work"
    assert found["bob", SECOND].cells and found["carl", SECOND].flags == []  # its name is right


def test_a_folder_that_may_be_listed_and_not_entered_is_said(tmp_path, monkeypatch):
    def refuse(self):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "is_symlink", refuse)
    hand_in(tmp_path, f"anna/{SECOND}.ipynb")
    found, _ = found_in(tmp_path)
    assert not found["anna", SECOND].problem


def test_long_texts_do_not_stay_in_memory(tmp_path):
    notebook = json.loads(exercise(SECOND))
    notebook["cells"].append({"cell_type": "markdown", "source": "a" * 2_000_000})
    hand_in(tmp_path, f"anna/{SECOND}.ipynb", text=json.dumps(notebook))
    found, _ = found_in(tmp_path)
    cells = found["anna", SECOND].cells
    assert any(kind == "code" for kind, _ in cells)
    assert sum(len(source) for _, source in cells) < 100_000


def test_of_many_copies_the_last_one_counts(tmp_path):
    names = ("homework", "homework (1)", "homework (9)", "homework (10)")
    hand_in(tmp_path, *(f"anna/{name}.ipynb" for name in names))
    found, _ = found_in(tmp_path)
    assert found["anna", SECOND].path.name == "homework (10).ipynb"


def test_two_people_of_one_name_have_two_rows(tmp_path):
    for number in (4711, 4812):
        hand_in(tmp_path, f"Anna Ash_{number}_assignsubmission_file_/{SECOND}.ipynb")
    found, _ = found_in(tmp_path)
    assert [student for student, _ in found] == ["Anna Ash (4711)", "Anna Ash (4812)"]
    for each in found.values():
        assert each.cells and each.flags == ["another student has the same name"]


def test_moodle_gives_one_person_another_number_in_each_assignment(tmp_path):
    for number, lesson in ((4711, FIRST), (5003, SECOND)):
        name = f"Anna Ash_{number}_assignsubmission_file_/{lesson}.ipynb"
        hand_in(tmp_path, name, text=exercise(lesson))
    found, _ = found_in(tmp_path, LESSONS)
    assert all(found["Anna Ash", lesson].cells for lesson in (FIRST, SECOND))


def test_a_lesson_that_is_not_graded_now_makes_no_second_student(tmp_path):
    hand_in(tmp_path, f"anna_{FIRST}.ipynb", text=exercise(FIRST))
    hand_in(tmp_path, f"anna_{SECOND}.ipynb")
    found, _ = found_in(tmp_path)
    assert list(found) == [("anna", SECOND)] and not found["anna", SECOND].problem


@pytest.mark.parametrize(
    ("content", "problem"),
    [("", "empty"), ("{", "damaged"), ("[]", "damaged"), ('{"cells": [3]}', "damaged")],
)
def test_what_cannot_be_read_keeps_its_place(tmp_path, content, problem):
    hand_in(tmp_path, f"anna/{SECOND}.ipynb", text=content)
    found, _ = found_in(tmp_path, LESSONS)
    assert found["anna", SECOND].problem.startswith(problem)
    assert found["anna", FIRST].problem == "no notebook"


def test_a_pipe_does_not_hang_and_a_link_is_not_followed(tmp_path):
    (tmp_path / "in" / "anna").mkdir(parents=True)
    os.mkfifo(tmp_path / "in" / "anna" / f"{SECOND}.ipynb")
    hand_in(tmp_path, "real.ipynb")
    (tmp_path / "in" / "ben").symlink_to(tmp_path)
    found, _ = found_in(tmp_path / "in")
    assert found["anna", SECOND].problem == "not a file"
    assert found["ben", SECOND].problem.startswith("a symbolic link")


def test_a_link_to_itself_is_a_link(tmp_path):
    hand_in(tmp_path, f"anna/{SECOND}.ipynb")
    (tmp_path / "ben").symlink_to("ben")
    found, _ = found_in(tmp_path)
    assert found["ben", SECOND].problem.startswith("a symbolic link")


def test_a_folder_that_cannot_be_read_is_said(tmp_path, monkeypatch):
    hand_in(tmp_path, f"anna/{SECOND}.ipynb", f"ben/{SECOND}.ipynb", f"zoe{'/x' * 9}/a.ipynb")
    scan = os.scandir

    def refusing(path):
        if "ben" in str(path):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refusing)
    found, _ = found_in(tmp_path)
    assert not found["anna", SECOND].problem
    for student in ("ben", "zoe"):
        assert found[student, SECOND].problem == "a folder that cannot be read, or lies too deep"


@pytest.mark.parametrize("ending", [".ipynb.txt", ".ipynb.json", ".IPYNB"])
def test_the_endings_that_a_browser_makes_are_taken(tmp_path, ending):
    hand_in(tmp_path, f"anna/{SECOND}{ending}", f"ben_{SECOND}{ending}")
    found, _ = found_in(tmp_path)
    assert [student for student, _ in found] == ["anna", "ben"]
    assert all(each.cells for each in found.values())


def test_who_has_handed_in_another_kind_of_file_has_a_row_that_names_it(tmp_path):
    names = f"anna/{SECOND}.py", "ben_4711_assignsubmission_file_x.zip", f"chloe_{SECOND}.py"
    hand_in(tmp_path, *names, "marks.csv", f"zoe/{SECOND}.ipynb", "zoe/notes.txt", text="x")
    found, _ = found_in(tmp_path)
    assert [student for student, _ in found] == ["anna", "ben", "chloe", "zoe"]
    for student, file in zip(("anna", "ben", "chloe"), names, strict=False):
        submission = found[student, SECOND]
        assert submission.problem.startswith(f"no notebook, but {file.removeprefix('anna/')}. Hand")
        assert submission.path is None


def test_what_lies_beside_nbgraders_folder_is_said(tmp_path):
    hand_in(tmp_path, f"submitted/anna/{SECOND}.ipynb", f"ben/{SECOND}.ipynb", "source/x.ipynb")
    found, notes = found_in(tmp_path)
    assert [student for student, _ in found] == ["anna"]
    assert notes == ["ben lies beside submitted/ and was not read"]


@pytest.mark.parametrize(
    "source",
    ["\u3000", "\u00a0\n", "!ls\n" * 9, "-" * 10**5 + "1", "a\0b", "'\ud800'", "%%", "%x \ud800"],
    ids=["wide space", "no-break space", "shell", "deep", "null", "half", "magic", "half in magic"],
)
def test_a_cell_that_no_parser_takes_leaves_the_others(source, monkeypatch):
    monkeypatch.setattr(inputtransformer2, "TRANSFORM_LOOP_LIMIT", 5)  # of 500, for the shell's
    cells = [("code", source), ("code", "def attend_one(): pass")]
    assert definitions(cells) == ["attend_one"]
    assert look(cells, ["attend_one"]) == ["no check of attend_one"]
    assert "attend_one" in load_cells(cells, "a notebook")
    assert source_of(cells, ["attend_one"]).startswith("def attend_one")


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (["pass"] * (MOST_CELLS + 1), f"too large: {MOST_CELLS + 1} cells"),
        (["x = 1\n" * MOST_CODE], f"too large: {6 * MOST_CODE} characters of code"),
        (["!ls\n%who\nx?\nx = !ls\n" * 200], "too large: 800 lines of magic"),
    ],
)
def test_what_would_take_minutes_to_parse_is_too_large(tmp_path, cells, words):
    text = json.dumps({"cells": [{"cell_type": "code", "source": each} for each in cells]})
    hand_in(tmp_path, f"anna/{SECOND}.ipynb", text=text)
    found, _ = found_in(tmp_path)
    assert found["anna", SECOND].problem == words


def test_of_many_notes_about_one_student_the_first_are_kept(tmp_path):
    hand_in(tmp_path, *(f"anna/{n:03}.ipynb" for n in range(99)), text='{"cells": []}')
    hand_in(tmp_path, *(f"ben/{n:03}.ipynb" for n in range(100)))
    found, notes = found_in(tmp_path)
    assert len(notes) == MOST_NOTES + 1 and notes[-1] == "anna: and 79 more"
    assert len(found["ben", SECOND].flags) == MOST_NOTES + 1


def test_an_answer_that_is_assigned_needs_no_call_of_check():
    source = (
        "import math, torch\ndef mine(query, keys, values):\n"
        "    return torch.softmax(keys @ query / math.sqrt(len(query)), 0) @ values\n"
        "attend_one = mine"
    )
    job = {"cells": [("code", source)], "name": SECOND, "tasks": [["attend_one"]]}
    told = []
    work(job | {"checks": str(_lesson("02").checks)}, told.append)
    assert [each.state for each in told if isinstance(each, Judged)] == ["passed"]


def test_names_that_look_the_same_are_told_apart(tmp_path):
    hand_in(
        tmp_path,
        *(
            f"{name}/{SECOND}.ipynb"
            for name in ("Zo\u00e9", "Zoe\u0301", "Zo\u200b\u00e9", "ZO\u00c9")
        ),
    )
    found, _ = found_in(tmp_path)
    names = {student.casefold() for student, _ in found}
    assert len(names) == 4 and all(name.isprintable() for name in names)


def test_the_folder_of_the_marks_is_no_student(tmp_path):
    hand_in(tmp_path, f"anna/{SECOND}.ipynb", f"marks/{SECOND}.ipynb")
    found, _ = found_in(tmp_path, leave_out=[tmp_path / "marks"])
    assert [student for student, _ in found] == ["anna"]


def test_a_folder_without_anybody_is_a_value_error(tmp_path):
    with pytest.raises(ValueError, match="holds no submission"):
        found_in(tmp_path)
    with pytest.raises(ValueError, match="is not a folder"):
        found_in(tmp_path / "nowhere")


# ---- What is striking


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("from course.checking import diagnosis", "imports course.checking"),
        ("import course.checking.sandbox", "imports course.checking.sandbox"),
        ("import os\nos._exit(0)", "_exit: processes"),
        ("import ctypes", "Python's inside"),
        ("from urllib.request import urlopen", "the network"),
        ("from transformer_lab import attend_one as mine", "imports the answer, attend_one"),
        ("x = open('../solutions/02.ipynb')", "solutions/"),
        ("def check(x): pass", "defines check"),
        ("check = print", "defines check"),
        ("torch.isclose = lambda *_: True", "changes torch.isclose"),
        ("class A:\n    def __eq__(self, other): return True", "A says itself"),
        ("def attend_one(): pass\ndef attend_one(): pass", "is defined 2 times"),
        ("x = 'a\u202eb'", "invisible characters"),
        ("x = 1", "no check of attend_one"),
    ],
)
def test_a_striking_line_is_flagged(source, words):
    assert any(words in flag for flag in look([("code", source)], ["attend_one"]))


def test_flags_stay_few_and_short():
    cells = [("code", f"torch.{'a' * 10**3}{n} = 1") for n in range(1000)]
    flags = look([*cells, ("code", "check(attend_one)\ncheck = 1")], ["attend_one"])
    assert len(flags) == MOST_NOTES + 1 and flags[-1] == "and 981 more"
    assert max(map(len, flags)) < 150


@pytest.mark.parametrize(
    "lesson", [path.stem for path in course_folder().glob("exercises/*.ipynb")]
)
def test_nothing_in_the_courses_own_notebooks_is_striking(lesson):
    for folder in ("exercises", "solutions"):
        path = course_folder() / folder / f"{lesson}.ipynb"
        names = [name for task in tasks_in(path) for name in task.names]
        flags = look(read_cells(path), names)
        assert [flag for flag in flags if not flag.startswith("like solutions/")] == []
        assert bool(flags) == (folder == "solutions")


# ---- Likeness

LONG = """
def attend_one(query, keys, values):
    total = torch.zeros(values.shape[1])
    weight_sum = 0.0
    for index in range(len(keys)):
        number = math.exp(float(sum(query * keys[index])) / math.sqrt(len(query)))
        weight_sum = weight_sum + number
        total = total + number * values[index]
    return total / weight_sum
"""
RENAMED = (
    LONG.replace("total", "acc").replace("number", "e").replace("index", "i").replace("keys", "K")
)
OTHER = """
def attend_one(query, keys, values):
    scores = torch.einsum("d,kd->k", query, keys) * query.numel() ** -0.5
    scores = scores - scores.max()
    weights = scores.exp() / scores.exp().sum()
    assert torch.isclose(weights.sum(), torch.tensor(1.0)), "no weights"
    return torch.einsum("k,kd->d", weights, values)
"""


def test_renamed_variables_are_the_same_answer():
    assert likeness(runs_of(LONG), runs_of(RENAMED)) == 1
    assert likeness(runs_of(LONG), runs_of(OTHER)) < 0.2


@pytest.mark.parametrize("deep", ["return " + "+".join(["1"] * 900), f"torch{'.a' * 900} = 1"])
def test_what_is_nested_too_deeply_is_not_compared(deep):
    cells = [("code", f"def attend_one(): {deep}")]
    assert source_of(cells, ["attend_one"]) == ""
    assert look(cells, ["attend_one"])[-1] == "no check of attend_one"


def test_an_answer_that_can_be_written_out_and_not_read_again_is_not_compared():
    deep = "y = " + "f(" * 101 + "1" + " for a in b)" * 101
    source = source_of([("code", f"def attend_one():\n    {deep}")], ["attend_one"])
    assert source and runs_of(source) == frozenset()


def test_a_number_that_cannot_be_written_out_is_not_compared():
    cells = [("code", f"def attend_one():\n    0x{'f' * 4000}")]
    assert source_of(cells, ["attend_one"]) == ""


def test_a_pair_is_reported_if_it_is_alike_in_two_tasks():
    both = {"anna": LONG, "ben": RENAMED, "chloé": OTHER}
    assert similar_pairs({"attend_one": both}) == []
    pairs = similar_pairs({"attend_one": both, "attention_gradient": both})
    assert [pair[:2] for pair in pairs] == [("anna", "ben")]


def test_what_everybody_writes_is_no_reason_to_ask():
    everybody = dict.fromkeys(map(str, range(20)), LONG)
    assert similar_pairs({"attend_one": everybody, "attention_gradient": everybody}) == []


def test_the_thresholds_are_those_of_the_catalogue():
    assert json.loads(THRESHOLDS.read_text("utf-8")) == thresholds()


# ---- Points, and what is written


def test_marks_are_harmless_in_a_spreadsheet_and_in_a_browser(tmp_path):
    evil = "=cmd|' /C calc'!A0<script>alert(1)</script>"
    rows = [
        Row(evil, SECOND, "f", "wrong", 0, 1.25, ["a", "b"], "<b>why</b>", "<b>all</b>", 5),
        Row("＝1;=2;-3", SECOND, "f", "passed", 5, 0.5, ["x", "=1", "y"], possible=5),
    ]
    write_pages(tmp_path, rows, {"warning": "", "about": "", "flagged": {evil: ["x"]}}, [])
    table = list(csv.reader(io.StringIO(of_tasks(rows, {}).decode("utf-8-sig"), newline="")))
    assert table[1][0] == f"'{evil}" and table[1][-2:] == ["1.2", "a; b"]
    assert table[2][0] == "'＝1;'=2;'-3" and table[2][OF_TASKS.index("flags")] == "x; '=1; y"
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) == 3
    assert not any("<script>" in page.read_text() or "<b>" in page.read_text() for page in pages)


def test_the_class_page_puts_the_most_frequent_diagnosis_first(tmp_path):
    why = [
        "It is 3 at [0, 1], expected 4.",
        "Is a `return` missing?",
        "It is 7 at [2], expected 8.",
        "a is not 30.",
    ]
    rows = [Row(f"s{i}", SECOND, "f", "wrong", 0, 0.0, why=each) for i, each in enumerate(why)]
    write_pages(
        tmp_path, rows, {"warning": "LOUD", "about": "", "flagged": {}}, [("s0", "s1", {"f": 0.9})]
    )
    text = (tmp_path / "class.html").read_text("utf-8")
    assert "a is not 30." in text  # an answer, and no number that is another for everybody
    assert "f: 0 of 4 passed" in text and "LOUD" in text and "s0 and s1" in text and "90 %" in text
    first, second = text.index("It is … at […"), text.index("Is a `return` missing?")
    assert first < second and "s0, s2" in text[first:second]


def test_the_class_page_counts_who_passed_and_leaves_out_rare_diagnoses(tmp_path):
    rows = [
        Row(f"s{i}", lesson, "f", "wrong", 0.1, 0.0, why=f"Mistake {chr(65 + i)}.", possible=1)
        for i in range(MOST_DIAGNOSES + 2)
        for lesson in (FIRST, SECOND)
    ]
    rows += [Row("good", lesson, "f", "passed", 1, 0.0, possible=1) for lesson in (FIRST, SECOND)]
    write_pages(tmp_path, rows, {"warning": "", "about": "", "flagged": {}}, [])
    text = (tmp_path / "class.html").read_text("utf-8")
    first = text[text.index(FIRST) : text.index(SECOND)]
    assert "f: 1 of 9 passed" in first and "and 2 more" in first
    assert [each in first for each in ("Mistake A.", "Mistake F.", "Mistake G.")] == [
        True,
        True,
        False,
    ]
    assert "good" not in first and "2 of 2</td>" in text and "0 of 2</td>" in text
    assert "0.2 of 2</td>" in text
    page = (tmp_path / "feedback" / "good.html").read_text("utf-8")
    assert "2 of 2 tasks passed, 2 of 2 points" in page
    write_pages(tmp_path, rows[:12], {"warning": "", "about": "", "flagged": {}}, [])
    assert "more</small>" not in (tmp_path / "class.html").read_text("utf-8")


@pytest.mark.parametrize("name", ["=1+1", "a; =1+1", 'a";"=1+1', "wanted x\t=1+1"])
def test_no_part_of_a_cell_is_a_formula(name):
    assert "'=1+1" in harmless(name)


def test_no_two_pages_have_one_name():
    names = page_names(["a/b", "a_b", "A_B", "../..", "", "x" * 300, "\U0001d400" * 60])
    assert len({name.casefold() for name in names.values()}) == 7
    assert all("/" not in name and len(name) < 80 for name in names.values())
    # A file that is being written has a longer name, and no system takes more than 255 bytes.
    assert all(len(name.encode()) < 230 for name in names.values())


# ---- The command, without its children


def graded(folder, monkeypatch, why="", state="wrong", notes=(), lessons=("02",)):
    """Grade `folder`/in; the checks say of every task that it is wrong, and `why`."""

    def judge(cells, name, checks, tasks, *_):
        return [Outcome(state, why, why) for _ in tasks], [*notes]

    around = Walls(folder, folder, [], 2**30, means="bubblewrap")
    monkeypatch.setattr(command, "judge_notebook", judge)
    monkeypatch.setattr(command, "walls", lambda *_: contextlib.nullcontext(around))
    assert command.grade(folder / "in", lessons, folder / "out") == 0
    return json.loads((folder / "out" / "marks.json").read_text("utf-8"))


def test_half_a_character_in_a_message_does_not_end_the_grading(tmp_path, monkeypatch):
    hand_in(tmp_path / "in", f"anna/{SECOND}.ipynb")
    rows = graded(tmp_path, monkeypatch, "ValueError: \ud800!")["rows"]
    assert {row["message"] for row in rows} == {"ValueError: ?!"}


def test_half_a_character_in_a_forged_record_does_not_end_the_grading(tmp_path, monkeypatch):
    hand_in(tmp_path / "in", f"anna/{SECOND}.ipynb")
    rows = graded(tmp_path, monkeypatch, state="\ud800", notes=["wanted \ud800"])["rows"]
    assert all(row["state"] == "?" and "wanted ?" in row["flags"] for row in rows)


def test_a_lesson_that_is_named_twice_is_graded_once(tmp_path, monkeypatch):
    hand_in(tmp_path / "in", f"anna/{SECOND}.ipynb")
    assert len(graded(tmp_path, monkeypatch, lessons=("2", "02"))["rows"]) == 6


def test_a_large_class_has_large_marks(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "JSON_LIMIT", 100)
    hand_in(tmp_path / "in", f"anna/{SECOND}.ipynb")
    first = graded(tmp_path, monkeypatch, "first")
    assert graded(tmp_path, monkeypatch, "second") == first  # nothing was graded again


def test_marks_beside_the_submissions_are_no_student(tmp_path, monkeypatch):
    hand_in(tmp_path / "in", f"anna/{SECOND}.ipynb")
    (tmp_path / "out").symlink_to("in")
    first = graded(tmp_path, monkeypatch)
    assert graded(tmp_path, monkeypatch)["rows"] == first["rows"]


def test_who_is_gone_is_gone_from_all_marks(tmp_path, monkeypatch):
    hand_in(tmp_path / "in", f"anna/{SECOND}.ipynb", f"ben/{SECOND}.ipynb")
    assert len(graded(tmp_path, monkeypatch)["rows"]) == 12
    (tmp_path / "in" / "ben" / f"{SECOND}.ipynb").unlink()
    (tmp_path / "in" / "ben").rmdir()
    assert {row["student"] for row in graded(tmp_path, monkeypatch)["rows"]} == {"anna"}


def test_a_course_without_solutions_grades_and_says_what_it_could_not_do(tmp_path, monkeypatch):
    for part in ("exercises", "tests"):
        shutil.copytree(course_folder() / part, tmp_path / "course" / part)
    source = "def stable_softmax(x, dim):\n    return x\n\n\n"
    source += (
        "def attend_one(query, keys, values):\n    return stable_softmax(keys @ query, 0) @ values"
    )
    notebook = json.loads(exercise(SECOND))
    notebook["cells"].append({"cell_type": "code", "metadata": {}, "outputs": [], "source": source})
    hand_in(tmp_path / "in", f"anna/{SECOND}.ipynb", text=json.dumps(notebook))
    monkeypatch.setattr(command, "course_folder", lambda: tmp_path / "course")
    rows = graded(tmp_path, monkeypatch, "no")["rows"]
    said = {row["task"]: row["message"] for row in rows}
    assert "needs your stable_softmax" in said["attend_one"]
    assert said["stable_softmax"] == "no" and {row["points"] for row in rows} == {0}
    page = (tmp_path / "out" / "feedback" / "anna.html").read_text("utf-8")
    assert "graded without the course&#39;s solutions" in page


def test_what_was_graded_is_kept_when_another_lesson_is_graded(tmp_path, monkeypatch):
    for lesson in (FIRST, SECOND):
        hand_in(tmp_path / "in", f"anna/{lesson}.ipynb", text=exercise(lesson))
    graded(tmp_path, monkeypatch, "one", lessons=("01",))
    second = graded(tmp_path, monkeypatch, "two", lessons=("02",))["rows"]
    assert {row["lesson"] for row in second} == {SECOND}
    both = graded(tmp_path, monkeypatch, "three", lessons=("01", "02"))["rows"]
    said = {row["lesson"]: row["why"] for row in both}
    assert said == {FIRST: "one", SECOND: "two"}  # nothing was run again


@pytest.mark.parametrize(
    ("package", "changed"), [("LIBRARY", "attention.py"), ("COURSE", "checking/child.py")]
)
def test_what_another_package_has_graded_is_graded_again(tmp_path, monkeypatch, package, changed):
    hand_in(tmp_path / "in", f"anna/{SECOND}.ipynb")
    weights = shutil.ignore_patterns("pretrained")
    own = getattr(command, package)
    copied = shutil.copytree(own, tmp_path / "copy" / own.name, ignore=weights)
    monkeypatch.setattr(command, package, copied)
    graded(tmp_path, monkeypatch, "first")
    with (copied / changed).open("a") as file:
        file.write("# changed")
    rows = graded(tmp_path, monkeypatch, "second")["rows"]
    assert {row["why"] for row in rows} == {"second"}
