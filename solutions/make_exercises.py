"""Makes exercises/ from solutions/, and runs notebooks so that they can be stored.

    python solutions/make_exercises.py                  # write exercises/*.ipynb
    python solutions/make_exercises.py --check          # say which are not up to date; exit 1
    python solutions/make_exercises.py --run NOTEBOOK…  # run from a clean kernel, store outputs
    python solutions/make_exercises.py --nbgrader DIR   # write a course for nbgrader into DIR

A solution stands between `### BEGIN SOLUTION` and `### END SOLUTION`; in the exercise a line that
raises "not written yet" takes its place. Cells tagged `solution` are left out, outputs too, and
everything else stays as it is, cell ids included. Edit only solutions/, in JupyterLab or as text:

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
from pathlib import Path

from transformer_lab.checking.progress import tasks_in

HERE = Path(__file__).resolve().parent
EXERCISES = HERE.parent / "exercises"
STUB = 'raise NotImplementedError("not written yet")'
SOLUTION = re.compile(
    r"^([ \t]*)### BEGIN SOLUTION\n.*?^[ \t]*### END SOLUTION$", re.MULTILINE | re.DOTALL
)
CHECK = re.compile(r"^check\((.*)\)$", re.MULTILINE)
DEFINED = re.compile(r"^(?:def|class) (\w+)", re.MULTILINE)
METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
PICTURES = {"image/png", "image/svg+xml"}
WIDGET = "application/vnd.jupyter.widget-view+json"


def read(path: Path) -> dict:
    """Return a notebook as it is stored."""
    return json.loads(path.read_text("utf-8"))


def text_of(notebook: dict) -> str:
    """Return the one way in which a notebook is written, as Jupyter writes it."""
    return json.dumps(notebook, ensure_ascii=False, indent=1, sort_keys=True) + "\n"


def exercise(solution: dict, name: str) -> dict:
    """Return the exercise of a solution; raises `ValueError` if its markers do not pair."""
    notebook = copy.deepcopy(solution) | {"metadata": METADATA}
    notebook["cells"] = [c for c in notebook["cells"] if "solution" not in _tags(c)]
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            source = SOLUTION.sub(rf"\1{STUB}", "".join(cell["source"]))
            if "SOLUTION" in source:
                raise ValueError(f"{name}, cell {cell['id']}: BEGIN and END SOLUTION do not pair")
            cell |= {"source": _lines(source), "outputs": [], "execution_count": None}
    return notebook


def for_nbgrader(solution: dict, points: dict[str, int]) -> dict:
    """Return a solution with nbgrader's metadata: bodies to write, and check cells with points."""
    notebook = copy.deepcopy(solution) | {"metadata": METADATA}
    notebook["cells"] = [c for c in notebook["cells"] if "solution" not in _tags(c)]
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        checked = CHECK.search(source)
        if cell["cell_type"] != "code" or not (checked or "### BEGIN SOLUTION" in source):
            continue
        names = re.findall(r"\w+", checked[1] if checked else DEFINED.search(source)[1])
        cell["metadata"]["nbgrader"] = {
            "grade": bool(checked),
            "grade_id": "-".join(["check", *names] if checked else names),
            "locked": bool(checked),
            "schema_version": 3,
            "solution": not checked,
            "task": False,
        }
        if checked:
            cell["metadata"]["nbgrader"]["points"] = max(points[name] for name in names)
            # A task that is not written must fail here; in the exercises it only says so.
            cell["source"] = _lines(CHECK.sub(r"check(\1, graded=True)", source))
        cell |= {"outputs": [], "execution_count": None}
    return notebook


def run(path: Path) -> None:
    """Run a notebook from top to bottom in a fresh kernel and store it with its outputs."""
    import nbformat  # these two take a second to import, and only running needs them
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
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
    notebook.metadata = METADATA | {"transformer_lab": {"seconds": seconds}}
    notebook.nbformat_minor = 5
    path.write_text(text_of(_stored(notebook)), "utf-8")
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


def write_exercises() -> None:
    """Write the exercise of every solution."""
    EXERCISES.mkdir(exist_ok=True)
    for path in sorted(HERE.glob("*.ipynb")):
        (EXERCISES / path.name).write_text(text_of(exercise(read(path), path.name)), "utf-8")


def drift() -> list[str]:
    """Return the names of the exercises that are not what their solutions make."""
    fresh = {path.name: text_of(exercise(read(path), path.name)) for path in HERE.glob("*.ipynb")}
    stored = {path.name: path.read_text("utf-8") for path in EXERCISES.glob("*.ipynb")}
    return sorted(name for name in fresh | stored if fresh.get(name) != stored.get(name))


def write_nbgrader(folder: Path) -> None:
    """Write DIR/source/NN_name/NN_name.ipynb, and the settings that give the same stub."""
    for path in sorted(HERE.glob("*.ipynb")):
        points = {name: task.importance for task in tasks_in(path) for name in task.names}
        target = folder / "source" / path.stem / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text_of(for_nbgrader(read(path), points)), "utf-8")
    (folder / "nbgrader_config.py").write_text(
        "c = get_config()\n"
        'c.CourseDirectory.course_id = "transformer_lab"\n'
        f"c.ClearSolutions.code_stub = {{'python': {STUB!r}}}\n",
        "utf-8",
    )


def main(arguments: list[str] | None = None) -> int:
    """Do what the command line asks; return 1 if `--check` found a drift."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--check", action="store_true", help="only say what is not up to date")
    choice.add_argument("--run", nargs="+", type=Path, metavar="NOTEBOOK", help="run and store")
    choice.add_argument("--nbgrader", type=Path, metavar="DIR", help="write a course for nbgrader")
    options = parser.parse_args(arguments)
    if options.check:
        for name in drift():
            print(f"exercises/{name} is not what solutions/{name} makes", file=sys.stderr)
        return 1 if drift() else 0
    for path in options.run or []:
        run(path)
    if options.nbgrader:
        write_nbgrader(options.nbgrader)
    elif not options.run:
        write_exercises()
    return 0


if __name__ == "__main__":
    sys.exit(main())
