"""A course to hand out: some lessons with their exercises, the checks and the package, in one zip.

No solutions, no answers, no history. The checks go into the package, so that they are installed
with it and found from any folder. `make_exercises.py --handout` calls this.
"""

import io
import json
import posixpath
import re
import zipfile
from collections.abc import Collection, Mapping
from pathlib import Path

from course.checking.progress import tasks_in
from course.stamps import original_of, stamp, text_of
from transformer_lab.support.files import write_atomically

ROOT = Path(__file__).resolve().parents[1]
README = Path(__file__).with_suffix(".md")
FOLDER = "transformer-lab"  # of the whole course; of some lessons, folder_of
DATE = (2017, 6, 12, 0, 0, 0)  # for all files: the same course gives the same bytes
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s:#]+)(?:#[^)\s]*)?\)")


def write_handout(out: Path, exercises: Mapping[str, str], lessons: Collection[str]) -> None:
    """Write the zip, whole or not at all; `exercises` are texts of notebooks by file name.

    Raises `ValueError` if there is a file of that name which is no zip.
    """
    if out.exists() and not zipfile.is_zipfile(out):
        raise ValueError(f"{out} is there, and is no zip: name another file")
    files, folder = handout(exercises, lessons), folder_of(lessons)
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(f"{folder}/{name}", DATE)
            entry.external_attr, entry.compress_type = 0o644 << 16, zipfile.ZIP_DEFLATED
            archive.writestr(entry, files[name])
    write_atomically(out, content.getvalue())


def folder_of(lessons: Collection[str]) -> str:
    """Return the folder in the zip, as transformer-lab-00-03.

    Each zip of a term has its own, so that what a student has written in the last one is not
    overwritten by the same exercise, unwritten.
    """
    if set(lessons) >= {path.name[:2] for path in _of(["[0-9][0-9]"], "notebooks/{}_*.ipynb")}:
        return FOLDER
    numbers = sorted(lessons)
    if len(numbers) > 1 and int(numbers[-1]) - int(numbers[0]) == len(numbers) - 1:
        numbers = [f"{numbers[0]}-{numbers[-1]}"]
    return f"{FOLDER}-{'+'.join(numbers)}"


def handout(exercises: Mapping[str, str], lessons: Collection[str]) -> dict[str, bytes]:
    """Return the files of the course by their path in it."""
    files = {
        path.relative_to(ROOT).as_posix(): path.read_bytes()
        for package in ("transformer_lab", "course")
        for path in (ROOT / package).rglob("*")
        if path.is_file() and not _is_by_product(path)
    }
    for name in ("LICENSE", "pyproject.toml", "constraints.txt"):
        files[name] = (ROOT / name).read_bytes()
    for path in _of(lessons, "tests/exercises/test_{}_*.py"):
        files[f"course/checks/{path.name}"] = path.read_bytes()
    notebooks = {f"notebooks/{path.name}": path for path in _of(lessons, "notebooks/{}_*.ipynb")}
    evidence = {
        path.relative_to(ROOT).as_posix(): path
        for path in _of(lessons, "notebooks/evidence/{}_*.ipynb")
    }
    texts = {name: path.read_text("utf-8") for name, path in {**notebooks, **evidence}.items()}
    for path in (ROOT / "benchmarks" / "results").glob("*.json"):
        if any(path.name in text for text in texts.values()):
            files[path.relative_to(ROOT).as_posix()] = path.read_bytes()
    texts |= {f"exercises/{n}": text for n, text in exercises.items() if n[:2] in lessons}
    files["README.md"] = _readme(lessons, notebooks).encode()
    there = {*files, *texts}
    return files | {name: _without_dead_links(name, texts[name], there).encode() for name in texts}


def _is_by_product(path: Path) -> bool:
    parts = path.relative_to(ROOT).parts
    return "__pycache__" in parts or any(part.startswith(".") for part in parts)


def _of(lessons: Collection[str], pattern: str) -> list[Path]:
    return [path for number in lessons for path in sorted(ROOT.glob(pattern.format(number)))]


def _without_dead_links(name: str, notebook: str, there: Collection[str]) -> str:
    """Return the notebook with the bare words of each link to a file that is not handed out."""

    def kept(link: re.Match) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(name), link[2]))
        return link[0] if target in there else link[1]

    cells = json.loads(notebook)
    for cell in cells["cells"]:
        if cell["cell_type"] == "markdown":
            cell["source"] = LINK.sub(kept, "".join(cell["source"])).splitlines(keepends=True)
    return text_of(stamp(cells) if original_of(cells) else cells)


def _readme(lessons: Collection[str], notebooks: Mapping[str, Path]) -> str:
    """Return the page that says how to begin, with a row for each lesson."""
    rows = []
    for name, path in notebooks.items():
        solution = ROOT / "solutions" / path.name
        tasks = tasks_in(solution) if solution.exists() else []
        title = re.search(r"# (\d\d · [^\"\n]+?)\\n", path.read_text("utf-8"))[1]
        work = f"{len(tasks)} tasks, about {sum(task.minutes for task in tasks)} minutes"
        link = f"[{work}](exercises/{path.name})" if tasks else "in the lesson"
        rows.append(f"| [{title}]({name}) | {link} |")
    span = f"lessons {lessons[0]} to {lessons[-1]}" if len(lessons) > 1 else f"lesson {lessons[0]}"
    text = README.read_text("utf-8")
    return text.replace("{range}", span).replace("{lessons}", "\n".join(rows))
