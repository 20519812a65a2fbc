"""Makes exercises/ from solutions/, and runs notebooks so that they can be stored.

    python solutions/make_exercises.py                  # write exercises/*.ipynb
    python solutions/make_exercises.py --check          # say which are not up to date; exit 1
    python solutions/make_exercises.py --run NOTEBOOK…  # run from a clean kernel, store outputs
    python solutions/make_exercises.py --nbgrader DIR --lessons 02 04
    python solutions/make_exercises.py --handout OUT.zip --lessons 00-03

The last two make a course for nbgrader, and one to hand out: `teaching/` says how to use them.
A notebook that somebody has written in is not replaced, and nothing else is written then, but with

    python solutions/make_exercises.py --overwrite exercises/02_name.ipynb

which first copies it into a dated folder beside it.

A solution stands between `### BEGIN SOLUTION` and `### END SOLUTION`; in the exercise a line that
raises "not written yet" takes its place. Cells tagged `solution` are left out, outputs too, and
everything else stays as it is, cell ids included; one tagged `explain` as well is a question that
only `--nbgrader` asks. Edit only solutions/, in JupyterLab or as text:

    jupytext --to py:percent --output draft.py solutions/02_name.ipynb
    jupytext --to ipynb --update --output solutions/02_name.ipynb draft.py
    python solutions/make_exercises.py --run solutions/02_name.ipynb
    python solutions/make_exercises.py

`--run` serves the lessons too: it stores outputs in order, the seconds that the run took (for the
test of the stated time), the description of each picture (from the cell's metadata, "alt"), and
nothing that changes from machine to machine.
"""

import argparse
import copy
import json
import re
import sys
import time
from collections.abc import Collection
from pathlib import Path

from handout import write_handout

from course.checking.notebooks import read_notebook
from course.checking.progress import tasks_in
from course.stamps import NOTES, STUB, hashes_of, original_of, stamp, text_of
from course.workplace import keep, now
from transformer_lab.support.files import write_atomically

HERE = Path(__file__).resolve().parent
EXERCISES, LESSONS = HERE.parent / "exercises", HERE.parent / "notebooks"
SETTINGS = HERE / "nbgrader_config.py"
SOLUTION = re.compile(
    r"^([ \t]*)### BEGIN SOLUTION\n.*?^[ \t]*### END SOLUTION$", re.MULTILINE | re.DOTALL
)
CHECK = re.compile(r"^check\((.*)\)$", re.MULTILINE)
DEFINED = re.compile(r"^(?:def|class) (\w+)", re.MULTILINE)
IMPORT_OF_CHECK = "from course import check"
POINTS_OF_A_QUESTION = 2
KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
PICTURES = {"image/png", "image/svg+xml"}
WIDGET = "application/vnd.jupyter.widget-view+json"


def exercise(solution: dict, name: str) -> dict:
    """Return the exercise of a solution; raises `ValueError` if its markers do not pair."""
    notebook = copy.deepcopy(solution) | {"metadata": _metadata(solution)}
    notebook["cells"] = [c for c in notebook["cells"] if "solution" not in _tags(c)]
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            source = SOLUTION.sub(rf"\1{STUB}", "".join(cell["source"]))
            if "SOLUTION" in source:
                raise ValueError(f"{name}, cell {cell['id']}: BEGIN and END SOLUTION do not pair")
            cell |= {"source": _lines(source), "outputs": [], "execution_count": None}
    return stamp(notebook)


def _metadata(solution: dict) -> dict:
    """Return what JupyterLab writes about kernel and language, so that opening changes nothing."""
    language = solution["metadata"].get("language_info", {"name": "python"})
    return {"kernelspec": KERNEL, "language_info": language}


def for_nbgrader(solution: dict, points: dict[str, int]) -> dict:
    """Return a solution with nbgrader's metadata.

    Texts and imports are locked, bodies are to be written, check cells have the points of their
    task, and at the end comes the cell tagged `explain`, a question that a person marks.
    Raises `ValueError` if there is none.
    """
    notebook = copy.deepcopy(solution) | {"metadata": _metadata(solution)}
    cells = [c for c in notebook["cells"] if "solution" not in _tags(c)]
    for cell in cells:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            _mark(cell, f"text-{cell['id']}", locked=True)
            continue
        cell |= {"outputs": [], "execution_count": None}
        if checked := CHECK.search(source):
            names = re.findall(r"\w+", checked[1])
            worth = max(points[name] for name in names)
            _mark(cell, "-".join(["check", *names]), grade=True, locked=True, points=worth)
            # `check` is imported where it is called, so that no other of that name is; and a task
            # that is not written fails here: in the exercises it only says so.
            graded = CHECK.sub(r"check(\1, graded=True)", source)
            cell["source"] = _lines(f"{IMPORT_OF_CHECK}\n\n{graded}")
        elif "### BEGIN SOLUTION" in source:
            _mark(cell, DEFINED.search(source)[1], solution=True)
        elif IMPORT_OF_CHECK in source:
            _mark(cell, "imports", locked=True)
    asked = next((c for c in copy.deepcopy(solution)["cells"] if "explain" in _tags(c)), None)
    if asked is None:
        raise ValueError("a solution has a text tagged `explain`: a question, and what to look for")
    asked["metadata"] = {}
    _mark(asked, "explain", grade=True, solution=True, points=POINTS_OF_A_QUESTION)
    notebook["cells"] = [*cells[:-1], asked, cells[-1]]
    return stamp(notebook)


def _mark(cell: dict, name: str, **settings: bool | int) -> None:
    """Give a cell nbgrader's metadata; what is not set is off."""
    off = dict.fromkeys(("grade", "locked", "solution", "task"), False)
    cell["metadata"]["nbgrader"] = off | {"grade_id": name, "schema_version": 3} | settings


def run(path: Path) -> None:
    """Run a notebook from top to bottom in a fresh kernel and store it with its outputs.

    Raises `ValueError` if somebody has saved it meanwhile.
    """
    import nbformat  # these two take a second to import, and only running needs them
    from nbclient import NotebookClient

    before = path.read_bytes()
    notebook = nbformat.reads(before.decode(), as_version=4)
    client = NotebookClient(
        notebook,
        kernel_name="python3",
        timeout=900,
        coalesce_streams=True,
        record_timing=False,
        resources={"metadata": {"path": str(path.parent)}},
    )
    start = time.perf_counter()
    client.execute()
    seconds = round(time.perf_counter() - start, 1)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            # A live widget cannot be stored; its static picture stands under it.
            cell.outputs = [out for out in cell.outputs if WIDGET not in out.get("data", {})]
            _describe_pictures(cell)
    # The kernel has told its language as JupyterLab would, so opening the notebook changes nothing.
    notes = notebook.metadata.get(NOTES, {}) | {"seconds": seconds}
    notebook.metadata = _metadata(notebook) | {NOTES: notes}
    notebook.nbformat_minor = 5
    if path.read_bytes() != before:
        raise ValueError(f"{path} was saved while it ran: it stays as it is, run it once more")
    write_atomically(path, text_of(_stored(notebook)).encode())
    print(f"{path}: {seconds} s")


def _describe_pictures(cell) -> None:
    """Give each picture the cell's `alt` text (one string, or one for each picture).

    nbconvert and other publishers read the description from the picture's own metadata.
    """
    texts = cell.metadata.get("alt", [])
    texts = iter([texts] if isinstance(texts, str) else texts)
    for output in cell.outputs:
        for kind in PICTURES & set(output.get("data", {})):
            output.metadata[kind] = {**output.metadata.get(kind, {}), "alt": next(texts, "")}


def _stored(notebook) -> dict:
    """Return a notebook of nbformat's as plain JSON, its texts as lists of lines."""
    import nbformat

    return json.loads(nbformat.writes(notebook))


def _lines(source: str) -> list[str]:
    return source.splitlines(keepends=True)


def _tags(cell: dict) -> list[str]:
    return cell["metadata"].get("tags", [])


def made_exercises() -> dict[str, dict]:
    """Return the exercise of every solution, by the name of its file."""
    paths = sorted(HERE.glob("*.ipynb"))
    return {path.name: exercise(read_notebook(path), path.name) for path in paths}


def exercises() -> dict[str, str]:
    """Return the text of the exercise of every solution, by the name of its file."""
    return {name: text_of(made) for name, made in made_exercises().items()}


def drift() -> list[str]:
    """Return the names of the exercises that are not made from their solutions as these are now.

    What somebody has answered in one, or run, is no drift.
    """
    fresh = {name: original_of(made) for name, made in made_exercises().items()}
    stored = {path.name: original_of(read_notebook(path)) for path in EXERCISES.glob("*.ipynb")}
    return sorted(name for name in fresh | stored if fresh.get(name) != stored.get(name))


class Written(ValueError):
    """Somebody has written in a notebook that was to be replaced."""


def store(made: dict[Path, dict], overwrite: Collection[Path] = ()) -> None:
    """Write notebooks; one that somebody has written in only if `overwrite` names it.

    It is first copied into a dated folder beside it. Raises `Written`, and writes nothing, if one
    is there that is not named; `ValueError` if one is named that is none of them.
    """
    written = [path for path, notebook in made.items() if _is_somebodys(path, notebook)]
    named = {path.resolve() for path in overwrite}
    if strangers := named - {path.resolve() for path in made}:
        raise ValueError(
            f"--overwrite is for {next(iter(made))} and the like, got {min(strangers)}: "
            "nothing here writes that one"
        )
    if unnamed := [str(path) for path in written if path.resolve() not in named]:
        raise Written(
            "somebody has written in these notebooks, so nothing was made:\n  "
            + "\n  ".join(unnamed)
            + f"\n--overwrite {unnamed[0]} replaces one, and keeps a dated copy"
        )
    when = now()
    for path, notebook in made.items():
        if path in written:
            print(f"{path}: what was there is in {keep(path, when)}")
        write_atomically(path, text_of(notebook).encode())


def _is_somebodys(path: Path, made: dict) -> bool:
    """Return whether the notebook at `path` holds what no program has made."""
    if not path.exists():
        return False
    try:
        there = read_notebook(path)
    except ValueError:
        return True  # damaged, and of whom nobody knows
    return hashes_of(there) != (original_of(there) or original_of(made))


def write_nbgrader(folder: Path, lessons: Collection[str], overwrite: Collection[Path]) -> None:
    """Write DIR/source/NN_name/NN_name.ipynb for these lessons, and the settings."""
    made = {}
    chosen = [path for path in sorted(HERE.glob("*.ipynb")) if path.stem[:2] in lessons]
    if not chosen:
        raise ValueError(f"lesson {', '.join(lessons)} has no exercises")
    for path in chosen:
        tasks = tasks_in(path)
        points = {name: task.points for task in tasks for name in task.names}
        release = for_nbgrader(read_notebook(path), points)
        made[folder / "source" / path.stem / path.name] = release
    store(made, overwrite)
    if not (folder / SETTINGS.name).exists():  # what a teacher has set in it stays
        write_atomically(folder / SETTINGS.name, SETTINGS.read_bytes())


def lessons_of(texts: list[str] | None) -> list[str]:
    """Return the numbers that are meant, "00-03" for four of them; all of them without any.

    Raises `ValueError` for a lesson that is not there.
    """
    there = sorted(path.stem[:2] for path in LESSONS.glob("[0-9][0-9]_*.ipynb"))
    chosen = set()
    for text in texts or there:
        if not (found := re.fullmatch(r"(\d\d)(?:-(\d\d))?", text)):
            raise ValueError(f"lessons are named like 02 or 00-03, got {text!r}")
        first, last = found.groups(found[1])
        if last < first:
            raise ValueError(f"a range of lessons rises, as 00-03 does, got {text!r}")
        chosen |= {f"{number:02}" for number in range(int(first), int(last) + 1)}
    if missing := chosen - set(there):
        raise ValueError(f"no lesson {', '.join(sorted(missing))}; there are {', '.join(there)}")
    return sorted(chosen)


def main(arguments: list[str] | None = None) -> int:
    """Do what the command line asks; return 1 if `--check` found a drift, or a file stays."""
    parser = argparse.ArgumentParser(prog=Path(__file__).name, description=__doc__.splitlines()[0])
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--check", action="store_true", help="only say what is not up to date")
    choice.add_argument("--run", nargs="+", type=Path, metavar="NOTEBOOK", help="run and store")
    choice.add_argument("--nbgrader", type=Path, metavar="DIR", help="write a course for nbgrader")
    choice.add_argument("--handout", type=Path, metavar="ZIP", help="write a course to hand out")
    parser.add_argument(
        *("--lessons", "--lesson"), nargs="+", metavar="NN", help="only these, such as 02 or 00-03"
    )
    parser.add_argument(
        *("--overwrite",),
        nargs="+",
        type=Path,
        default=[],
        metavar="NOTEBOOK",
        help="replace these, though somebody has written in them; a dated copy is kept",
    )
    options = parser.parse_args(arguments)
    if options.lessons and not (options.nbgrader or options.handout):
        parser.error("--lessons goes with --nbgrader or --handout")
    if options.check:
        for name in drift():
            print(f"exercises/{name} is not what solutions/{name} makes", file=sys.stderr)
        return 1 if drift() else 0
    try:
        if options.nbgrader:
            write_nbgrader(options.nbgrader, lessons_of(options.lessons), options.overwrite)
        elif options.handout:
            write_handout(options.handout, exercises(), lessons_of(options.lessons))
        elif not options.run:
            made = made_exercises()
            store({EXERCISES / name: made[name] for name in made}, options.overwrite)
        for path in options.run or []:
            run(path)
    except Written as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 1
    except (ValueError, OSError) as error:
        parser.error(str(error))
    return 0


if __name__ == "__main__":
    sys.exit(main())
