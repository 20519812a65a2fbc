"""A learner's own copies of the notebooks, in work/: filled up, brought up to date, never lost.

The course's notebooks stay as they are, so that `git pull` brings corrections without a conflict.
A copy knows the version that it was made from: its metadata hold a hash of each cell. So an update
can tell what the learner has changed from what the course has, cell by cell.
"""

import argparse
import copy
import os
import platform
import posixpath
import re
import subprocess
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from course.carrying import SHEET, Carried, Sheet, carry, kept_sheets_in, sheets_in
from course.checking.course import KINDS, course_folder, name_in_work, work_folder
from course.checking.notebooks import read_notebook
from course.stamps import (
    STUB,
    hash_of,
    hashes_of,
    is_filled_in,
    original_of,
    source_of,
    stamp,
    text_of,
)
from transformer_lab.support.files import remove_leftovers, write_atomically

LOOK = Path(__file__).parent / "jupyter"  # for this JupyterLab alone: nobody's own is touched
EXPLORABLE = "data-explorable="  # stands in an output that moves (course/explorables)
LINK = re.compile(r'(\]\(<?|(?:src|href)=")([^)\s":#<>]+)(?=[)\s"#>])')

# Reloading drops what is not saved. What overwrites an update keeps the older hashes, so that the
# next update merges once more.
OPEN_NOTEBOOK = """\
A notebook that is open in JupyterLab: File, Reload Notebook from Disk. If it holds text that you
have not saved: save, choose Overwrite, call `transformer-course update` once more, and reload."""


# ---- Copies


@dataclass(frozen=True)
class Original:
    """A notebook of the course, and its name in work/."""

    path: Path
    name: str


def originals() -> list[Original]:
    """Return the notebooks that a learner works in, in the order of work/."""
    root = course_folder()
    found = [
        Original(path, name_in_work(kind, path.stem))
        for kind in KINDS
        for path in (root / kind).glob("[0-9][0-9]_*.ipynb")
    ]
    if not found:
        raise ValueError(
            f"There are no lessons in {root}; call this in the course's folder, "
            "the one with notebooks/ and exercises/."
        )
    return sorted(found, key=lambda each: each.name)


def fresh(original: Original, work: Path) -> dict:
    """Return a notebook as it is copied into `work`: its links lead to where they led.

    What somebody has written into the course's own exercises comes along, as theirs.
    """
    root = course_folder()
    notebook = copy.deepcopy(read_notebook(original.path))
    made, hashes = original_of(notebook), {}
    for cell in notebook["cells"]:
        theirs = made is not None and made.get(cell["id"]) != hash_of(cell)
        place = original.path.parent.relative_to(root).as_posix()
        if cell["cell_type"] == "markdown":
            moved = _moved(source_of(cell), place, root, work)
            cell["source"] = moved.splitlines(keepends=True)
        hashes[cell["id"]] = made.get(cell["id"], "") if theirs else hash_of(cell)
    notebook["metadata"].get("language_info", {})["version"] = platform.python_version()
    return stamp(notebook, hashes)


def _moved(text: str, place: str, root: Path, work: Path) -> str:
    """Return a text whose links, written for the folder `place`, are right in work/."""
    up = Path(os.path.relpath(root, work)).as_posix()

    def moved(link: re.Match) -> str:
        target = posixpath.normpath(posixpath.join(place, unquote(link[2])))
        folder, _, name = target.rpartition("/")
        if target.startswith("../") or re.match(r"/|\w+:", link[2]):
            return link[0]
        if folder in KINDS and name.endswith(".ipynb"):
            return link[1] + name_in_work(folder, Path(name).stem)
        return f"{link[1]}{up}/{target}"

    return LINK.sub(moved, text)


def keep(path: Path, when: str) -> Path:
    """Copy a notebook into a dated folder beside it, before it is written over."""
    kept = path.parent / f"kept_{when}" / path.name
    write_atomically(kept, path.read_bytes())
    return kept


def now() -> str:
    """Return the date and the time as part of a folder's name."""
    return time.strftime("%Y-%m-%d_%H.%M.%S")


# ---- Trust


@contextmanager
def jupyters_notary() -> Iterator[Any]:
    """Give nbformat's notary, with the key and the list of whoever starts JupyterLab here."""
    from jupyter_core.paths import jupyter_data_dir  # these two take most of a second to import
    from nbformat.sign import NotebookNotary

    folder = Path(jupyter_data_dir())
    folder.mkdir(parents=True, exist_ok=True)
    with closing(NotebookNotary(data_dir=str(folder))) as notary:
        yield notary


def trust(paths: Iterable[Path]) -> None:
    """Let JupyterLab show what moves in these notebooks, which are as the course has them.

    In a notebook that it has not signed itself JupyterLab runs no script before its cell is run.
    Where Jupyter's own folder cannot be written, the notebooks stay as they are.
    """
    texts = [path.read_text("utf-8") for path in paths]
    moving = [text for text in texts if EXPLORABLE in text]
    if not moving:
        return
    with suppress(OSError, ImportError), jupyters_notary() as notary:
        import nbformat

        for text in moving:
            notary.sign(nbformat.reads(text, as_version=4))


def is_trusted(notebook: bytes) -> bool:
    """Return whether JupyterLab would run the scripts in a notebook when it is opened."""
    with suppress(OSError, ImportError), jupyters_notary() as notary:
        import nbformat

        return notary.check_signature(nbformat.reads(notebook.decode(), as_version=4))
    return False


# ---- Merging


@dataclass
class Merge:
    """A learner's notebook with the course's corrections, and what became of the cells."""

    notebook: dict
    news: list[dict] = field(default_factory=list)  # cells that the course has changed or added
    gone: int = 0  # cells that the course has left out
    mine: list[dict] = field(default_factory=list)  # cells that the learner has written
    both: list[dict] = field(default_factory=list)  # ... and the course has changed as well


def merge(mine: dict, new: dict) -> Merge:
    """Return `mine` with what the course has changed since; what its learner wrote stays.

    A cell that both have changed stays the learner's, an answer never becomes a stub again, and a
    cell that the learner has taken out stays out.
    """
    base = original_of(mine) or {}
    theirs = {cell["id"]: cell for cell in new["cells"]}
    cells = _by_id(mine["cells"], base)
    in_order = [name for name in cells if name in base] == [name for name in base if name in cells]
    order = _woven(theirs, cells) if in_order else _woven(cells, theirs)
    merged = Merge(new | {"metadata": mine["metadata"] | new["metadata"]})
    result = []
    for name in order:
        here, there, was = cells.get(name), theirs.get(name), base.get(name)
        if here is None:
            if was is None:
                result.append(there)
                merged.news.append(there)
        elif hash_of(here) != was or (there and STUB in source_of(there) and not _is_stub(here)):
            result.append(here)
            merged.mine.append(here)
            if there and hash_of(there) not in (was, hash_of(here)):
                merged.both.append(there)
        elif there is None:
            merged.gone += 1
        elif hash_of(there) == was:
            result.append(here | {"metadata": here.get("metadata", {}) | there["metadata"]})
        else:
            result.append(there)
            merged.news.append(there)
    merged.notebook["cells"] = result
    return merged


def _is_stub(cell: dict) -> bool:
    return STUB in source_of(cell)


def _by_id(cells: Iterable[dict], base: Collection[str]) -> dict[str, dict]:
    """Return the cells by their ids; one without, or with another's, is a new one of its own."""
    found: dict[str, dict] = {}
    for number, cell in enumerate(cells):
        name = cell.get("id")
        if name is None or name in found:
            name = f"own-{number}-{hash_of(cell)}"
        found[name] = cell | {"id": name}
    return found


def _woven(first: Iterable[str], second: Iterable[str]) -> list[str]:
    """Return `first` with what only `second` has, each after the one that it follows there."""
    order, before = list(first), None
    known = set(order)
    for name in second:
        if name not in known:
            order.insert(order.index(before) + 1 if before is not None else 0, name)
        before = name
    return order


# ---- Commands


def fill(work: Path) -> list[str]:
    """Copy what is missing in work/, and return its names; what is there stays as it is."""
    missing = [each for each in originals() if not os.path.lexists(work / each.name)]
    for original in missing:
        write_atomically(work / original.name, text_of(fresh(original, work)).encode())
    return [each.name for each in missing]


@dataclass
class Change:
    """What an update does to a notebook of work/: why it stays, or what is written and says so."""

    name: str
    why: str = ""
    merge: Merge | None = None
    read: bytes = b""  # what was there when the merge was made


def changes(work: Path) -> Iterator[Change]:
    """Yield what the course has changed since the notebooks of work/ were copied."""
    for original in originals():
        path = work / original.name
        if not os.path.lexists(path):
            continue
        if is_filled_in(read_notebook(original.path)):
            place = original.path.relative_to(course_folder()).as_posix()
            yield Change(
                original.name,
                f"{place} is written in, so it no longer says what is new "
                f"(copy it if you need it: `git restore {place}` throws away what you wrote there)",
            )
            continue
        new = fresh(original, work)
        try:
            read = path.read_bytes()
            mine = read_notebook(path)
        except (OSError, ValueError) as error:
            reason = str(error).removeprefix(f"{path} ")
            yield Change(original.name, f"it cannot be read: {reason}")
            continue
        if original_of(mine) == original_of(new):
            continue
        if original_of(mine) is None:
            if [*map(hash_of, mine["cells"])] != [*map(hash_of, new["cells"])]:
                yield Change(original.name, "it does not say which version it was made from")
        elif path.stat().st_mode & 0o222 == 0:
            yield Change(original.name, "it is write-protected")
        else:
            yield Change(original.name, merge=merge(mine, new), read=read)
    known = {each.name for each in originals()}
    for path in sorted(work.glob("[0-9][0-9][abc]_*.ipynb")):
        if path.name not in known and original_of(_or_empty(path)) is not None:
            yield Change(path.name, "the course has no such notebook any more")


def _or_empty(path: Path) -> dict:
    try:
        return read_notebook(path)
    except ValueError:
        return {"cells": [], "metadata": {}}


def update(options: argparse.Namespace) -> int:
    """Say what the course has changed and take it over; return 0, or 1 if something stays old."""
    work, when = work_folder(), now()
    if work.is_dir():
        remove_leftovers(work)
    sheets, unreadable = sheets_in(work)  # as they are before anything changes
    would_be, stays = {}, set()
    for change in changes(work):
        print("\n".join(_told(change)))
        if change.merge is None:
            stays.add(change.name)
        elif options.dry_run:
            would_be[change.name] = change.merge.notebook
        else:
            _write(work / change.name, change.merge.notebook, change.read, when)
    copied = [] if options.dry_run else fill(work)
    trust(work / name for name in copied)
    # A new copy may hold answers from the course's own exercises, where they were written before.
    sheets += [Sheet(name, read_notebook(work / name)) for name in copied if SHEET.fullmatch(name)]
    for name in unreadable:
        if name not in stays:
            print(f"{name} cannot be read: no answer was taken from it.")
    for name, carried, read in _carried(work, would_be, stays, sheets):
        print("\n".join([f"{name}:", *carried.told()]))
        if carried.tasks and not options.dry_run:
            _write(work / name, carried.notebook, read, when if name not in copied else "")
    if options.dry_run:
        return int(bool(stays))
    rest = "The rest of it" if stays else work
    print(f"{len(copied)} new in {work}." if copied else f"{rest} is up to date.")
    if (work / f"kept_{when}").is_dir():
        print(f"What was there before is in {work / f'kept_{when}'}.")
        print(OPEN_NOTEBOOK)
    return int(bool(stays))


def _write(path: Path, notebook: dict, read: bytes, when: str) -> None:
    """Write a notebook over what was `read`, and keep that, once in an update.

    Raises `ValueError` if somebody has saved it since.
    """
    if when and not (path.parent / f"kept_{when}" / path.name).exists():
        keep(path, when)
    if path.read_bytes() != read:
        raise ValueError(f"{path} was saved at this moment; call this once more")
    text = text_of(notebook)
    trusted = EXPLORABLE in text and is_trusted(read)
    write_atomically(path.resolve(), text.encode())  # a link stays a link
    if trusted:
        trust([path])


def _carried(
    work: Path, would_be: Mapping[str, dict], stays: Collection[str], sheets: list[Sheet]
) -> Iterator[tuple[str, Carried, bytes]]:
    """Yield the sheets into which answers belong that stand in other ones, with what was read.

    `would_be` are the notebooks as an update would leave them that only says what it would do.
    """
    older = kept_sheets_in(work)
    for original in originals():
        name, path = original.name, work / original.name
        if not SHEET.fullmatch(name) or name in stays:
            continue
        new = fresh(original, work)
        read = path.read_bytes() if path.exists() else b""
        mine = would_be.get(name) or (read_notebook(path) if read else new)
        known = {*hashes_of(new).values(), *(original_of(mine) or {}).values()}
        carried = carry(name, mine, known, sheets, older)
        if carried.tasks and read and path.stat().st_mode & 0o222 == 0:
            tasks = [task for tasks in carried.tasks.values() for task in tasks]
            carried = Carried(mine, left={"this sheet is write-protected": tasks})
        if carried.tasks or carried.left:
            yield name, carried, read


def _told(change: Change) -> Iterator[str]:
    """Yield the lines that say what an update does to a notebook."""
    if change.merge is None:
        yield f"{change.name} stays as it is: {change.why}."
        return
    yield f"{change.name}:"
    for cell in change.merge.news:
        yield f"  from the course: {_first_line(cell)}"
    if change.merge.gone:
        yield f"  left out by the course: {change.merge.gone} cells"
    if change.merge.mine:
        yield f"  yours, and kept: {len(change.merge.mine)} cells"
    for cell in change.merge.both:
        yield f"  yours is kept, though the course has changed it too: {_first_line(cell)}"


def _first_line(cell: dict) -> str:
    lines = [line for line in source_of(cell).splitlines() if line.strip()] or ["(empty)"]
    return lines[0][:70]


def lab(flags: list[str]) -> int:
    """Fill work/, and open JupyterLab on its first lesson."""
    work = work_folder()
    if copied := fill(work):
        trust(work / name for name in copied)
        print(f"{len(copied)} notebooks were copied into {work}. They are yours.")
    if any(change.merge for change in changes(work)):
        print("The course has corrected notebooks: `transformer-course update` takes that over.")
    settings = {
        "--ServerApp.ip": "localhost",
        "--ServerApp.root_dir": work.parent,
        "--LabApp.default_url": f"/lab/tree/{work.name}/{originals()[0].name}",
    }
    given = {flag.partition("=")[0].replace("--ip", "--ServerApp.ip") for flag in flags}
    ours = [f"{name}={settings[name]}" for name in settings if name not in given]
    command = [sys.executable, "-m", "jupyterlab", *ours, *flags]
    # So that JupyterLab's terminals find `transformer-course`, and JupyterLab the course's look.
    _put_first("PATH", Path(sys.executable).parent)
    _put_first("JUPYTER_CONFIG_PATH", LOOK)
    sys.stdout.flush()
    if os.name == "nt":  # where `exec` would leave two programs at one keyboard
        return subprocess.run(command).returncode
    os.execv(sys.executable, command)


def _put_first(variable: str, folder: Path) -> None:
    others = os.environ.get(variable)
    os.environ[variable] = f"{folder}{os.pathsep}{others}" if others else str(folder)
