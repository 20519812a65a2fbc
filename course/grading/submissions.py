"""Whose notebook is which lesson: the usual shapes of a folder of submissions.

    submissions/STUDENT/02_scaled_dot_product_attention.ipynb       a folder for each student
    submissions/STUDENT_02b_exercises_scaled_dot_product_attention.ipynb       flat
    submitted/STUDENT/ASSIGNMENT/NOTEBOOK.ipynb                     nbgrader
    submissions/Student Name_123_assignsubmission_file_/….ipynb     Moodle, and the same flat
    submissions/namestudent_LATE_123_456_….ipynb                    Canvas

A notebook is recognised by what it contains; its name serves only where it cannot be read.
"""

import ast
import hashlib
import json
import os
import re
import stat
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from course.checking.course import check_files
from course.checking.notebooks import parse_cell, read_cells
from course.grading.students import EMAIL, Student, in_class, missing

LARGEST = 20 * 2**20  # bytes; a notebook without pictures has some hundred thousand
MOST_CELLS, MOST_CODE = 2000, 100_000  # cells, and characters in them; a lesson has 6,000 of code
# IPython reads a cell anew for each of its magic lines: this many characters take some seconds.
MOST_READ, MAGIC = 1_000_000, re.compile(r"^\s*[%!?,;/]|=[ \t]*[%!]|\?[ \t]*$", re.MULTILINE)
LONGEST_WORD = 1000  # characters, beside a magic line
DEEPEST = 6  # folders
MOST_NOTES = 20  # of a student; more are counted
UNREADABLE, NO_NOTEBOOK = "unreadable", "no notebook"
AGAIN = "save it again, then hand it in once more"
SEND = "Hand in the file that JupyterLab saves, with the ending .ipynb"
EMPTY = f"empty: nothing was saved in this file. Open the notebook and {AGAIN}"
NBGRADERS = ("source", "release", "submitted", "autograded", "feedback")
NOTEBOOK = re.compile(r"\.ipynb(\.txt|\.json)?$", re.IGNORECASE)  # browsers add an ending
MOODLE = re.compile(
    r"^(?P<student>.+?)_(?P<id>\d+)_assignsubmission_(?:file|onlinetext)(?:_(?P<file>.*))?$"
)
IN_WORK = re.compile(r"(?<!\d)(\d\d)b_exercises_")  # 02b_exercises_x is 02_x in a learner's work/
CANVAS = re.compile(r"^(?P<student>[^_]+?)(?:_LATE)?_(?P<id>\d+)_\d+_(?P<file>.+)$")
COPY = re.compile(r"( ?\(\d+\)|[ -]copy\d*|-\d+| - copy)+$", re.IGNORECASE)


NOBODY = Student("")


@dataclass(frozen=True)
class Lesson:
    """A lesson that is graded: its name as "02_…", its tasks' names, the first line of its text."""

    name: str
    names: tuple[str, ...]
    title: str


@dataclass
class Submission:
    """What a student has handed in for a lesson; `problem` says why there is nothing to run."""

    student: str
    lesson: str
    path: Path | None = None
    cells: list[tuple[str, str]] = field(default_factory=list)
    problem: str = ""
    flags: list[str] = field(default_factory=list)
    digest: str = ""
    who: Student = NOBODY


@dataclass
class _File:
    path: Path
    student: Student
    stem: str  # without the student's name, so far as it was recognised
    lesson: str | None = None
    cells: list[tuple[str, str]] = field(default_factory=list)
    problem: str = ""
    digest: str = ""


def find_submissions(
    folder: Path,
    lessons: Sequence[Lesson],
    leave_out: Sequence[Path] = (),
    people: Sequence[Student] = (),
) -> tuple[list[Submission], list[str]]:
    """Return a submission for each student and lesson, and what was found beside them.

    `people` are the class; who of them has handed in nothing has submissions that say so.
    Raises `ValueError` if there is no student in the folder.
    """
    if not folder.is_dir():
        raise ValueError(f"{folder} is not a folder of submissions")
    root = folder / "submitted" if (folder / "submitted").is_dir() else folder
    notes = _beside(folder) if root != folder else []
    files: dict[Student, list[_File]] = defaultdict(list)
    for path, student, stem in _walk(root, lessons, leave_out):
        found = files[student]
        if path is not None:
            file, most = _File(path, student, stem), 10 * MOST_NOTES
            many = len(found) >= most and NOTEBOOK.search(path.name)
            file.problem = f"not read: there are more than {most} files" if many else ""
            found.append(file if many else _read(file, lessons))
    if not files:
        raise ValueError(f"{folder} holds no submission: neither a folder nor a notebook")
    found, unknown = _in_class(files, people) if people else (_apart(files), {})
    if absent := missing(people, found):
        notes.append(f"nothing came from {', '.join(visible(each.name) for each in absent)}")
    found |= dict.fromkeys(absent, ())
    shown, submissions = _shown_names(found), []
    for student in sorted(found, key=lambda each: shown[each][0]):
        name, flags = shown[student]
        mine, odd = _of_student(name, found[student], lessons, root)
        odd = some_of(unknown.get(student, []) + odd)
        for each in mine:
            each.who, each.flags = student, flags + each.flags + odd
        submissions += mine
        notes += [f"{name}: {note}" for note in odd]
    return submissions, notes


def _walk(
    root: Path, lessons: Sequence[Lesson], leave_out: Sequence[Path]
) -> Iterator[tuple[Path | None, Student, str]]:
    """Yield (notebook, student, rest of its name); (None, student, "") for a student's folder."""
    hidden = {os.path.realpath(each) for each in leave_out}
    for entry in _entries(root):
        path, stem = Path(entry.path), _stem(entry.name)
        if entry.name.startswith("__") or os.path.realpath(path) in hidden:
            continue
        if entry.is_dir(follow_symlinks=False):
            student = _student_of_folder(entry.name)
            yield None, student, ""
            found = list(_files_in(path))
            notebooks = [file for file in found if NOTEBOOK.search(file.name)]
            odd = [file for file in found if os.path.islink(file) or os.path.isdir(file)]
            for file in dict.fromkeys(notebooks + odd) if notebooks else found:
                yield file, student, _stem(file.name)
        elif entry.is_symlink() or NOTEBOOK.search(entry.name) or _is_hand_in(stem, lessons):
            yield path, *_student_of_file(stem, lessons)


def _files_in(folder: Path, depth: int = 0) -> Iterator[Path]:
    """Yield the files in a folder and those below; of a folder that cannot be read, itself."""
    try:
        entries = _entries(folder) if depth <= DEEPEST else None
    except OSError:
        entries = None
    if entries is None:
        yield folder
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _files_in(Path(entry.path), depth + 1)
        else:
            yield Path(entry.path)


def _entries(folder: Path) -> list[os.DirEntry]:
    """Return what lies in a folder, in order, but for .ipynb_checkpoints and the like."""
    with os.scandir(folder) as entries:
        return sorted((e for e in entries if not e.name.startswith(".")), key=lambda e: e.name)


def _is_hand_in(stem: str, lessons: Sequence[Lesson]) -> bool:
    """Return whether a flat file is a student's, though it is no notebook."""
    return bool(MOODLE.match(stem) or CANVAS.match(stem)) or any(x.name in stem for x in lessons)


def _beside(folder: Path) -> list[str]:
    """Return what lies beside nbgrader's submitted/ and does not belong there."""
    return [
        f"{visible(each.name)} lies beside submitted/ and was not read"
        for each in _entries(folder)
        if each.name not in NBGRADERS and (each.is_dir() or NOTEBOOK.search(each.name))
    ]


def _stem(name: str) -> str:
    stem = NOTEBOOK.sub("", name) if NOTEBOOK.search(name) else Path(name).stem
    return IN_WORK.sub(r"\1_", stem)


def _student_of_folder(name: str) -> Student:
    moodle = MOODLE.match(name)
    return Student(moodle["student"], number=moodle["id"]) if moodle else _plain(name)


def _plain(name: str) -> Student:
    address = EMAIL.search(name)
    return Student(name, email=address[0] if address else "")


def _student_of_file(stem: str, lessons: Sequence[Lesson]) -> tuple[Student, str]:
    """Return the student and the rest of a flat file's name."""
    if found := MOODLE.match(stem):
        return Student(found["student"], number=found["id"]), found["file"] or ""
    if found := CANVAS.match(stem):
        return Student(found["student"], number=found["id"], canvas=True), found["file"]
    bare = COPY.sub("", stem)
    others = (file.stem.removeprefix("test_") for file in check_files())  # not graded now
    for name in (*(lesson.name for lesson in lessons), *others):
        if name in bare:
            before, after = bare.split(name, 1)
            return _plain((before + after).strip(" _-.") or stem), name
    return _plain(stem), stem


# ---- What a file contains


def _read(file: _File, lessons: Sequence[Lesson]) -> _File:
    """Fill in what the file contains, or why that cannot be said."""
    file.lesson = _lesson_by_name(file.stem, lessons)
    try:
        about = file.path.lstat()
        if stat.S_ISLNK(about.st_mode):
            file.problem = "a symbolic link, which is not followed"
        elif stat.S_ISDIR(about.st_mode):
            file.problem = "a folder that cannot be read, or lies too deep"
        elif not stat.S_ISREG(about.st_mode):
            file.problem = "not a file"
        elif not NOTEBOOK.search(file.path.name):
            file.problem = NO_NOTEBOOK
        elif about.st_size > LARGEST:
            file.problem = f"too large: {about.st_size / 1e6:.0f} MB"
        elif about.st_size == 0:
            file.problem = EMPTY
        else:
            file.digest = hashlib.sha256(file.path.read_bytes()).hexdigest()
            file.cells = read_cells(file.path)
            file.problem = _too_long(file.cells)
    except OSError as error:
        file.problem = f"cannot be read: {error.strerror}"
    except ValueError:
        file.problem = _damage(file.path.read_bytes())
    if not file.problem:
        file.lesson = recognise(file.cells, lessons, file.lesson)
    if file.problem:
        file.cells = []
    elif sum(len(kind) + len(source) for kind, source in file.cells) > 10 * MOST_CODE:
        # The text has been read, and that of many files would fill the memory.
        file.cells = [each if each[0] == "code" else ("text", "") for each in file.cells]
    return file


def _damage(content: bytes) -> str:
    """Return what is wrong with a file that is no notebook, and what its author can do."""
    if not content.strip(b"\0 \t\r\n"):
        return EMPTY
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return f"damaged: it is no text, but a file of another kind under this name. {SEND}"
    if re.search(r"^(<<<<<<<|>>>>>>>) ", text, re.MULTILINE):
        return (
            "damaged: git has written the marks of a conflict (<<<<<<<) into it. Decide for one of "
            f"the two versions, open it in JupyterLab, and {AGAIN}"
        )
    if text.lstrip()[:1] == "<":
        return f"damaged: it is a web page that shows the notebook, not the notebook itself. {SEND}"
    if text.lstrip()[:1] != "{":
        return f"damaged: it does not begin as a notebook does. {SEND}"
    try:
        notebook = json.loads(text)
    except RecursionError:
        return f"damaged: it is nested too deeply. {SEND}"
    except json.JSONDecodeError as error:
        if error.msg.startswith("Unterminated string") or error.pos >= len(text.rstrip()) - 8:
            return f"damaged: the file ends in the middle. Open the notebook and {AGAIN}"
        return (
            f"damaged: from line {error.lineno} on it is not what JupyterLab writes. Was it "
            f"changed in a text editor? Undo that, open the notebook in JupyterLab, and {AGAIN}"
        )
    except ValueError:  # a number of too many digits
        return f"damaged: it holds what no notebook holds. {SEND}"
    if "worksheets" in notebook:
        return f"damaged: its format is that of 2014. Open it in JupyterLab and {AGAIN}"
    return f"damaged: its text is none of a notebook's cells. {SEND}"


def _too_long(cells: Sequence[tuple[str, str]]) -> str:
    """Return why the cells would take too long to parse, or nothing."""
    code = [source for kind, source in cells if kind == "code"]
    size = sum(map(len, code))
    if len(cells) > MOST_CELLS:
        return f"too large: {len(cells)} cells"
    if size > MOST_CODE:
        return f"too large: {size} characters of code"
    # In lines as IPython splits them; its search for `x?` takes the square of a word's length.
    lines = [[" ".join(line.split()) for line in source.splitlines()] for source in code]
    magics = [sum(MAGIC.search(line) is not None for line in each) for each in lines]
    words = [re.findall(r"[\w*.\[\]-]+", each) for each, n in zip(code, magics, strict=True) if n]
    longest = max((len(word) for each in words for word in each), default=0)
    if longest > LONGEST_WORD:
        return f"too large: a word of {longest} characters"
    read = sum(number * len(source) for number, source in zip(magics, code, strict=True))
    return f"too large: {sum(magics)} lines of magic" if read > MOST_READ else ""


def _lesson_by_name(stem: str, lessons: Sequence[Lesson]) -> str | None:
    fitting = [each.name for each in lessons if each.name in stem]
    fitting += [each.name for each in lessons if re.search(rf"(?<!\d){each.name[:2]}_", stem)]
    return fitting[0] if fitting else None


def recognise(
    cells: Sequence[tuple[str, str]], lessons: Sequence[Lesson], named: str | None = None
) -> str | None:
    """Return the lesson whose title and tasks the cells hold most of; `named` if two are equal."""
    text = "\n".join(source for kind, source in cells if kind == "markdown")
    defined = set(definitions(cells))
    score = {
        each.name: 2 * (each.title in text) + len(defined & set(each.names)) for each in lessons
    }
    best = max(score.values(), default=0)
    fitting = [name for name, value in score.items() if value == best > 0]
    return named if named in fitting else next(iter(fitting), None)


def definitions(cells: Sequence[tuple[str, str]]) -> list[str]:
    """Return the names of the functions and classes that cells define, as often as they do."""
    found = []
    for kind, source in cells:
        if kind == "code":
            kinds = ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef
            found += [each.name for each in tree_of(source).body if isinstance(each, kinds)]
    return found


def places_of(cells: Sequence[tuple[str, str]]) -> dict[str, list[int]]:
    """Return for each name the numbers of the cells that define it, as often as they do.

    `f = partial(g)` defines f; `f = cached(f)` only wraps what is there.
    """
    places: dict[str, list[int]] = {}
    for number, (kind, source) in enumerate(cells, 1):
        for each in tree_of(source).body if kind == "code" else ():
            match each:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    places.setdefault(name, []).append(number)
                case ast.ClassDef(name=name):
                    places.setdefault(name, []).append(number)
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    if name not in {getattr(node, "id", "") for node in ast.walk(value)}:
                        places.setdefault(name, []).append(number)
    return places


def which_counts(name: str, places: Sequence[int]) -> str:
    """Say how often a name is defined, where, and which definition counts."""
    times = f"{len(places)} times"
    if len(set(places)) == 1:
        return f"{name} is defined {times}, in cell {places[0]}: the last one counts"
    where = ", ".join(map(str, places[:-1]))
    return (
        f"{name} is defined {times}, in cells {where} and {places[-1]}: "
        f"the one in cell {places[-1]} counts"
    )


def tree_of(source: str) -> ast.Module:
    """Parse a cell; one that cannot be parsed, whatever the parser or IPython says, is empty."""
    try:
        return parse_cell(source)
    except Exception:
        return ast.Module([], [])


# ---- Whose files are whose


def _in_class(
    files: Mapping[Student, list[_File]], people: Sequence[Student]
) -> tuple[dict[Student, list[_File]], dict[Student, list[str]]]:
    """Return the files by student of the class list, and what is to be said of the others."""
    found: dict[Student, list[_File]] = {}
    by_id: dict[str, Student] = {}
    unknown: dict[Student, list[str]] = {}
    for student, mine in files.items():
        known, why = in_class(student, people)
        if why:
            unknown[known] = [why]
        else:
            known = by_id.setdefault(known.id, known)
        found[known] = found.get(known, []) + mine
    return found, unknown


def _apart(files: Mapping[Student, list[_File]]) -> dict[Student, list[_File]]:
    """Return the files by student, where one name may have several of Moodle's numbers."""
    found: dict[Student, list[_File]] = {}
    names = defaultdict(list)
    for student in files:
        names[student.name, student.canvas or not student.number].append(student)
    for (_, sure), same in names.items():
        lessons = [each for student in same for each in {file.lesson for file in files[student]}]
        if sure or len(set(lessons)) < len(lessons):  # one lesson twice: two people
            found |= {student: files[student] for student in same}
        else:
            found[same[0]] = [file for student in same for file in files[student]]
    return found


# ---- Which file counts


def _of_student(
    student: str, files: Sequence[_File], lessons: Sequence[Lesson], root: Path
) -> tuple[list[Submission], list[str]]:
    """Return the student's submission for each lesson, and what is odd about the files."""
    other = [visible(file.path.name) for file in files if file.problem == NO_NOTEBOOK]
    files = [file for file in files if file.problem != NO_NOTEBOOK]
    odd = [
        f"{_where(file, root)} is no notebook of these lessons"
        for file in files
        if file.lesson is None and not file.problem
    ]
    lost = [file for file in files if file.lesson is None and file.problem]
    nothing = f"{NO_NOTEBOOK}, but {', '.join(some_of(other))}. {SEND}" if other else NO_NOTEBOOK
    submissions = []
    for lesson in lessons:
        mine = [file for file in files if file.lesson == lesson.name]
        if not mine and len(lessons) == 1:
            mine = lost
        if len(_ids(mine, root)) > 1:
            odd.append(f"{lesson.name} came more than once: are they two people of one name?")
        if mine:
            submissions.append(_chosen(student, lesson, mine, root))
        else:
            submissions.append(Submission(student, lesson.name, problem=nothing))
    if len(lessons) > 1:
        odd += [f"{_where(file, root)}: {file.problem}" for file in lost]
    return submissions, odd


def _ids(files: Sequence[_File], root: Path) -> set[str]:
    """Return the numbers that Moodle or Canvas gave to those who handed these in."""
    names = (file.path.relative_to(root).parts[0] for file in files)
    return {found["id"] for name in names if (found := MOODLE.match(name) or CANVAS.match(name))}


def _chosen(student: str, lesson: Lesson, files: Sequence[_File], root: Path) -> Submission:
    """Take the file that can be read and has the right name, else the last copy; report others."""

    def rank(file: _File) -> tuple:
        stem = _stem(file.path.name)
        bare = COPY.sub("", stem)
        copy = [*map(int, re.findall(r"\d+", stem.removeprefix(bare)))]  # (10) comes after (9)
        # The course's own lesson has the same file name, and may define a task's name.
        titled = any(lesson.title in text for kind, text in file.cells if kind == "markdown")
        now = not any(part.startswith("kept_") for part in file.path.parts)  # by an update
        return not file.problem, titled, now, stem == lesson.name, bare, copy, stem

    *others, taken = sorted(files, key=rank)
    flags = [f"{_where(file, root)} was not taken" for file in others]
    if not taken.problem and lesson.name != _stem(taken.path.name):
        flags.append(f"{_where(taken, root)} was recognised as {lesson.name}")
    return Submission(
        student, lesson.name, taken.path, taken.cells, taken.problem, some_of(flags), taken.digest
    )


def _where(file: _File, root: Path) -> str:
    return visible(str(file.path.relative_to(root)))


def some_of(notes: Sequence[str]) -> list[str]:
    """Return the first of many notes, and how many more there are."""
    more = len(notes) - MOST_NOTES
    return [*notes[:MOST_NOTES], *([f"and {more} more"] if more > 0 else [])]


# ---- Names


def visible(text: str) -> str:
    """Return text with each character that cannot be seen, or cannot be written, as its number."""
    text = unicodedata.normalize("NFC", text)
    return "".join(
        f"\\u{ord(each):04x}"
        if unicodedata.category(each) in ("Cc", "Cf", "Cs", "Co", "Cn")
        else each
        for each in text
    )


def _shown_names(students: Collection[Student]) -> dict[Student, tuple[str, list[str]]]:
    """Return for each student a name that differs from all others, and flags about it."""
    shown, taken = {}, set()
    often = Counter(visible(student.name).strip().casefold() for student in students)
    for student in sorted(students, key=lambda each: (each.name, each.label)):
        name, flags = visible(student.name).strip() or "(no name)", []
        if name != unicodedata.normalize("NFC", student.name):
            flags.append("invisible characters in the name")
        if often[name.casefold()] > 1:
            flags = [*flags, "another student has the same name"]
            name = f"{name} ({visible(student.label)})" if student.label else name
        base, number = name, 2
        while name.casefold() in taken:
            name, number = f"{base} ({number})", number + 1
        taken.add(name.casefold())
        shown[student] = name, flags
    return shown
