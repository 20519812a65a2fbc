"""Sixteen students hand in three lessons each: six are honest, ten were in a hurry.

Every answer is a right one of the catalogue (`tests/answers/`), so no two of the honest have the
same. What is wrong with a notebook is what its author did to it, and `lost` says what it costs.
"""

import ast
import copy
import json
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path

from course.checking import course_folder
from course.checking.progress import Task, tasks_in

sys.path.insert(0, str(Path(__file__).parents[1] / "answers"))
from catalogue import answers

LESSONS = ("02_scaled_dot_product_attention", "08_teacher_forcing", "10_trained_for_real")
DEFINITIONS = ast.FunctionDef | ast.ClassDef


def tasks_of(lesson: str) -> list[Task]:
    return tasks_in(course_folder() / "solutions" / f"{lesson}.ipynb")


def exercise(lesson: str) -> dict:
    path = course_folder() / "exercises" / f"{lesson}.ipynb"
    return json.loads(path.read_text("utf-8"))


# ---- Right answers that stand alone


@cache
def _statements(lesson: str) -> list[tuple[set[str], set[str], ast.stmt]]:
    """Return for each statement of a file of the catalogue what it binds, what it reads, and it."""
    path = course_folder() / "tests" / "answers" / f"answers_{lesson}.py"
    found = []
    for node in ast.parse(path.read_text("utf-8")).body:
        names = [each for each in ast.walk(node) if isinstance(each, ast.Name)]
        bound = {each.id for each in names if isinstance(each.ctx, ast.Store)}
        if isinstance(node, DEFINITIONS):
            node.decorator_list = [
                each for each in node.decorator_list if not _enters(ast.unparse(each))
            ]
            names = [each for each in ast.walk(node) if isinstance(each, ast.Name)]
            bound = {node.name}
        elif isinstance(node, ast.Import | ast.ImportFrom):
            bound = {each.asname or each.name.split(".")[0] for each in node.names}
        found.append((bound, {each.id for each in names}, node))
    return found


@cache
def _given(lesson: str) -> set[str]:
    """Return what the first cell of the exercise imports."""
    first = next(each for each in exercise(lesson)["cells"] if each["cell_type"] == "code")
    nodes = [node for node in ast.parse("".join(first["source"])).body if hasattr(node, "names")]
    return {each.asname or each.name.split(".")[0] for node in nodes for each in node.names}


def _enters(decorator: str) -> bool:
    return decorator.startswith(("right(", "wrong("))


class Renamed(ast.NodeTransformer):
    """The answer has the name of its task, also where it calls itself."""

    def __init__(self, old: str, new: str):
        self.old, self.new = old, new

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self.new if node.id == self.old else node.id, node.ctx)


def source_of(lesson: str, task: str, name: str) -> str | None:
    """Return an answer and what it needs as the source of a cell, None if it cannot stand alone."""
    tasks = {each for task in tasks_of(lesson) for each in task.names}
    needed, before = {name}, set()
    while needed != before:
        before = set(needed)
        needed = needed.union(*(reads for bound, reads, _ in _statements(lesson) if bound & needed))
    needed -= _given(lesson)
    parts = [node for bound, _, node in _statements(lesson) if bound & needed]
    source = "\n\n\n".join(map(ast.unparse, parts))
    if "catalogue" in source or "solutions(" in source or len(source) > 8000:
        return None  # it is made of the solution's class, or of half the file
    own = next((node for node in parts if isinstance(node, DEFINITIONS) and node.name == name), 0)
    made = {node.name for node in parts if isinstance(node, DEFINITIONS)} - {name}
    if not own or made & tasks:
        return None
    own = copy.deepcopy(own)
    own.name = task
    own = ast.fix_missing_locations(Renamed(name, task).visit(own))
    rest = [node for node in parts if getattr(node, "name", "") != name]
    return "\n\n\n".join(map(ast.unparse, [*rest, own]))


@cache
def right_answers(lesson: str) -> dict[str, list[str]]:
    """Return for each name that a lesson asks for the sources of right answers that stand alone."""
    found: dict[str, list[str]] = {name: [] for task in tasks_of(lesson) for name in task.names}
    for answer in answers():
        if answer.lesson == lesson and answer.words is None:
            source = source_of(lesson, answer.task, answer.answer.__name__)
            found[answer.task] += [source] if source else []
    return found


def solved(lesson: str, number: int) -> dict:
    """Return the sheet as student `number` has filled it in: with the number-th answers."""
    notebook, right = exercise(lesson), right_answers(lesson)
    for n, (task, sources) in enumerate(right.items()):
        cell_of(notebook, task)["source"] = sources[(number + n * (number // 6)) % len(sources)]
    notebook["metadata"].pop("transformer_lab", None)
    return notebook


def cell_of(notebook: dict, task: str) -> dict:
    """Return the cell of code that defines a task."""
    start = re.compile(rf"^(def|class) {task}\b", re.MULTILINE)
    code = (cell for cell in notebook["cells"] if cell["cell_type"] == "code")
    return next(cell for cell in code if start.search("".join(cell["source"])))


def code_cell(source: str) -> dict:
    return {"cell_type": "code", "metadata": {}, "outputs": [], "source": source}


def text_cell(source: str) -> dict:
    return {"cell_type": "markdown", "metadata": {}, "source": source}


# ---- What somebody does to a notebook: each returns it, or the file's text


def nothing(notebook: dict, lesson: str) -> dict:
    return notebook


def notes(notebook: dict, lesson: str) -> dict:
    """Notes of one's own, an empty cell behind every other."""
    cells = [[cell, code_cell("")] for cell in notebook["cells"]]
    notebook["cells"] = [text_cell("# My notes\n\n$q^T k$"), *(c for pair in cells for c in pair)]
    return notebook


def experiments(notebook: dict, lesson: str) -> dict:
    """Cells in which something was tried out, also with what is not there any more."""
    tried = (
        "x = torch.randn(3, 4)\nx.softmax(-1)",
        "print(before)",
        "for i in range(3):\n    print(i)",
    )
    notebook["cells"][3:3] = map(code_cell, tried)
    return notebook


def run_out_of_order(notebook: dict, lesson: str) -> dict:
    """Numbers of cells as they were run, and an error from an earlier try."""
    error = {"output_type": "error", "ename": "NameError", "evalue": "x", "traceback": ["x"]}
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, cell in enumerate(reversed(code), 7):
        cell |= {"execution_count": number, "outputs": [error]}
    return notebook


def commented(notebook: dict, lesson: str) -> dict:
    """Remarks in another language, and blank lines at the end of each cell."""
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["source"] = f"# Überprüft, 正しい ✓\n{''.join(cell['source'])}\n\n\n"
    return notebook


def all_in_one(notebook: dict, lesson: str) -> dict:
    """All code in the first cell, as in a script."""
    code = ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "code"]
    texts = [cell for cell in notebook["cells"] if cell["cell_type"] != "code"]
    notebook["cells"] = [*texts, code_cell("\n\n".join(code))]
    return notebook


def no_imports(notebook: dict, lesson: str) -> dict:
    """The cell of the imports is gone."""
    first = next(cell for cell in notebook["cells"] if cell["cell_type"] == "code")
    notebook["cells"].remove(first)
    return notebook


def renamed(notebook: dict, lesson: str) -> dict:
    """The second task's function has another name, also in its check."""
    name = list(right_answers(lesson))[1]
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["source"] = re.sub(rf"\b{name}\b", f"my_{name}", "".join(cell["source"]))
    return notebook


def became_text(notebook: dict, lesson: str) -> dict:
    """The third task's cell is a text: somebody pressed M."""
    cell = cell_of(notebook, list(right_answers(lesson))[2])
    source = cell["source"]
    cell.clear()
    cell |= text_cell(source)
    return notebook


def defined_twice(notebook: dict, lesson: str) -> dict:
    """The third task is still there as it was given, below the answer."""
    name = list(right_answers(lesson))[2]
    given = cell_of(exercise(lesson), name)
    place = notebook["cells"].index(cell_of(notebook, name))
    notebook["cells"].insert(place + 1, given)
    return notebook


def never_run(notebook: dict, lesson: str) -> dict:
    """Saved, and not one cell was run."""
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell |= {"execution_count": None, "outputs": []}
    return notebook


def damaged(notebook: dict, lesson: str) -> str:
    """The upload ended early."""
    return json.dumps(notebook)[:-1000]


def no_check(notebook: dict, lesson: str) -> dict:
    """The cells with checks are gone."""
    notebook["cells"] = [
        c for c in notebook["cells"] if not "".join(c["source"]).startswith("check(")
    ]
    return notebook


def old_sheet(notebook: dict, lesson: str) -> dict:
    """Last year's sheet: another title, and it ends before the last task."""
    last = cell_of(notebook, list(right_answers(lesson))[-1])
    notebook["cells"] = notebook["cells"][: notebook["cells"].index(last) - 1]
    notebook["cells"][0]["source"] = "# Exercises, last year's"
    return notebook


def one_prediction_is_wrong(notebook: dict, lesson: str) -> dict:
    """The last of the predictions is a guess."""
    name = next(iter(right_answers(lesson)))
    cell = cell_of(notebook, name)
    cell["source"] += f"\n\n\nright_ones = {name}\n"
    cell["source"] = re.sub(rf"\bdef {name}\b", "def my_predictions", cell["source"])
    cell["source"] = cell["source"].replace(
        f"right_ones = {name}", f"def {name}():\n    return [*list(my_predictions())[:-1], 777]"
    )
    return notebook


@dataclass(frozen=True)
class Student:
    """Somebody in the class; `lost` are the tasks that give no points, counted from 1."""

    name: str
    does: Callable = nothing
    lost: tuple[int, ...] = ()
    file: str = "{lesson}.ipynb"
    like: str = ""  # whose answers, if not their own
    said: str = ""  # words on the page
    days: int = 0  # that the last lesson comes late
    by_hand: int = 0  # points for the first task of the first lesson


HONEST = (
    Student("Anna Ash"),
    Student("Ben Birch", notes),
    Student("Chloé Cedar", experiments, file="{lesson} (1).ipynb"),
    Student("Dana Deal", run_out_of_order),
    Student("Emil Elm", commented, file="my {lesson} final.ipynb"),
    Student("Fay Fir", all_in_one),
)
ALL = tuple(range(1, 10))
CARELESS = (
    Student("Gus Gorse", no_imports, said="The imports of "),  # `lost_by` says what that costs
    Student("Hal Hazel", renamed, lost=(2,), said="defines no stable_softmax"),
    Student("Ida Ivy", became_text, lost=(3,), said="which is a text now, so it was not run"),
    Student("Jo Juniper", defined_twice, lost=(3,), said="attend_one is defined 2 times"),
    Student("Kim Kapok", never_run, days=2, said="2 days late"),
    Student("Lee Larch", file="Untitled3.ipynb", by_hand=-1, said="could not explain it"),
    Student("Max Maple", damaged, lost=ALL, said="the file ends in the middle"),
    Student("Ned Nutmeg", no_check),
    Student("Ora Oak", like="Dana Deal"),
    Student("Pia Pine", old_sheet, lost=(-1,), said="defines no repaired_attention"),
)
GUESSER = Student("Quin Quince", one_prediction_is_wrong, said="wrong, 4 of 5 right, ")
ABSENT = Student("Zoe Zinnia", lost=ALL, said="No notebook.")
CLASS = (*HONEST, *CARELESS, GUESSER)


def hand_in(student: Student, lesson: str) -> str:
    """Return the text of the file that a student hands in."""
    names = [each.name for each in CLASS]
    notebook = solved(lesson, names.index(student.like or student.name))
    changed = student.does(notebook, lesson)
    return changed if isinstance(changed, str) else json.dumps(changed, ensure_ascii=False)


def lost_by(student: Student, lesson: str) -> set[tuple[str, ...]]:
    """Return the names of the tasks that give no points."""
    tasks = [task.names for task in tasks_of(lesson)]
    if student.does is no_imports:  # each that uses one of them
        notebook = json.loads(hand_in(student, lesson))
        used = {
            name: names_in(cell_of(notebook, name)["source"]) for each in tasks for name in each
        }
        return {each for each in tasks if any(used[name] & _given(lesson) for name in each)}
    return {each for n, each in enumerate(tasks, 1) if {n, n - len(tasks) - 1} & {*student.lost}}


def names_in(source: str) -> set[str]:
    return {each.id for each in ast.walk(ast.parse(source)) if isinstance(each, ast.Name)}


def mark(student: Student, lesson: str) -> float:
    """Return the points that a student deserves for a lesson."""
    lost, points = lost_by(student, lesson), 0.0
    for task in tasks_of(lesson):
        if task.number == 1 and student is GUESSER:
            count = {"02": 5, "08": 6, "10": 6}[lesson[:2]]
            points += round(task.points * (count - 1) / count, 1)
        elif task.names not in lost:
            points += task.points
    if lesson == LESSONS[0]:
        points += student.by_hand
    if lesson == LESSONS[-1]:
        points -= round(points * 0.1 * student.days, 2)
    return round(points, 2)


DUE = datetime(2026, 12, 1, 18)


def write(folder: Path) -> None:
    """Write what Moodle lets a teacher download, unpacked: a folder for each student and lesson."""
    for number, student in enumerate(CLASS):
        for n, lesson in enumerate(LESSONS):
            own = folder / f"{student.name}_{1000 * n + number}_assignsubmission_file_"
            own.mkdir(parents=True)
            path = own / student.file.format(lesson=lesson)
            path.write_text(hand_in(student, lesson), "utf-8")
            days = student.days if lesson == LESSONS[-1] else 0
            when = DUE + timedelta(days=days, hours=-3)
            os.utime(path, (when.timestamp(), when.timestamp()))


def class_list() -> str:
    lines = [
        f"s{number},{student.name},{student.name.split()[1].lower()}@uni.org"
        for number, student in enumerate((*CLASS, ABSENT))
    ]
    return "\n".join(["id,name,email", *lines])


def points_by_hand() -> str:
    task = tasks_of(LESSONS[0])[0].names[0]
    lines = [
        f"{student.name.split()[1].lower()}@uni.org,{task},{student.by_hand},could not explain it"
        for student in CLASS
        if student.by_hand
    ]
    return "\n".join(["student,task,points,comment", *lines])
