"""The walls around a child process that runs a stranger's code.

`bubblewrap` and `unshare` build the same room: the system's and Python's folders and a copy of the
course, all to be read only; one empty folder to write in, /tmp, of limited size; no other process,
no network, no right of root. Where neither works there is no room: a process of its own with the
system's limits, and a warning that says so.
"""

import compileall
import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from threading import get_ident
from typing import Any

import psutil
from filelock import FileLock, Timeout

MEANS = ("bubblewrap", "unshare", "none")
WARNING = (
    "NO ISOLATION: neither bubblewrap nor unshare works here, so students' code can read this "
    "computer's files and reach the network. Install bubblewrap, or grade inside a container."
)
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc/ld.so.cache", "/nix/store")
DEVICES = ("null", "zero", "random", "urandom")
WRITABLE = "/tmp"
ROOM_SIZE = 64 * 2**20  # bytes that the child may write
# Of the numbers that no account has; one for each child, so that its processes can be counted.
FIRST_USER, USERS = 61184, 4096
USERS_TAKEN = Path("/run" if os.access("/run", os.W_OK) else gettempdir(), "transformer-lab-users")
MARK = "TRANSFORMER_LAB_CHILD"
CHILD = ("-P", "-m", "course.checking.child")  # -P: nothing beside it is imported

# Arguments: the new root, its size, then pairs of "bind" or "link" and what, "--", the command.
BUILD_A_ROOM = """
set -eu
umask 022
root=$1 size=$2; shift 2
mount -t tmpfs -o size=16m,mode=755 tmpfs "$root"
mkdir "$root/proc" "$root/tmp"
mount -t proc proc "$root/proc"
mount -t tmpfs -o "size=$size,mode=1777,nosuid,nodev" tmpfs "$root/tmp"
while [ "$1" != -- ]; do
    case $1 in
    bind)
        if [ -d "$2" ]; then mkdir -p "$root$3"; else
            mkdir -p "$(dirname "$root$3")"; : > "$root$3"
        fi
        mount --rbind "$2" "$root$3"
        mount -o remount,bind,ro,nosuid "$root$3" || mount -o remount,bind,ro,nosuid,nodev "$root$3"
        ;;
    link) mkdir -p "$(dirname "$root$3")"; ln -s "$2" "$root$3" ;;
    device) mkdir -p "$root/dev"; : > "$root$3"; mount --bind "$2" "$root$3" ;;
    esac
    shift 3
done
shift
mount -o remount,ro "$root"
exec chroot "$root" "$@"
"""


def copy_course(course: Path, packages: Sequence[Path], target: Path) -> Path:
    """Copy what a child may read of the course to `target`: both packages and the checks."""
    skip = shutil.ignore_patterns("__pycache__", ".*")
    for package in packages:
        shutil.copytree(package, target / package.name, ignore=skip)
    own = target / "course" / "checks"  # of a course that was handed out
    checks = own if own.is_dir() else course / "tests" / "exercises"
    shutil.copytree(checks, target / "tests" / "exercises", ignore=skip)
    compileall.compile_dir(target, quiet=2)
    for path in (target, *target.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    return target


@dataclass
class Child:
    """A process that was started, and how to be rid of it and of all that it has started."""

    process: subprocess.Popen
    mark: str
    user: int | None = None
    taken: FileLock | None = None  # holds the user's number

    def family(self) -> list[psutil.Process]:
        """Return the living processes that come from this child, itself included."""
        with suppress(psutil.NoSuchProcess):
            parent = psutil.Process(self.process.pid)
            return [parent, *parent.children(recursive=True)]
        return []

    def kill(self) -> None:
        """End them all, those too that have left the child's session."""
        try:
            self._kill_all()
        finally:
            if self.taken is not None:
                self.taken.release()
                self.user = self.taken = None  # the number may be another child's from now on

    def _kill_all(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, 9)
        self.process.kill()
        self.process.wait()
        for _ in range(100):  # one of them may be starting another
            strays = [each for each in psutil.process_iter() if self._is_ours(each)]
            for each in strays:
                with suppress(psutil.Error):
                    each.kill()
            if not strays:
                return

    def _is_ours(self, process: psutil.Process) -> bool:
        try:
            if process.status() == psutil.STATUS_ZOMBIE:
                return False
            if self.user is not None:
                return process.uids().real == self.user
            return process.environ().get(MARK) == self.mark
        except (psutil.Error, OSError):
            return False


@dataclass
class NoWalls:
    """A learner's own code on his own computer, from his own folder, in a process of its own."""

    packages: Sequence[Path]
    folder: Path
    means: str = "none"
    warning: str = ""
    limits: Mapping[str, Any] | None = None
    watch: Mapping[str, Any] | None = None

    def checks(self, file: Path) -> Path:
        """Return where the child finds a file of checks."""
        return file

    def start(self) -> Child:
        """Start a child that waits for its job."""
        homes = dict.fromkeys(str(package.parent) for package in self.packages)
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(filter(None, (*homes, os.environ.get("PYTHONPATH")))),
            "OMP_NUM_THREADS": "1",
            "MPLBACKEND": "agg",
            MARK: (mark := os.urandom(8).hex()),
        }
        return Child(_popen([sys.executable, *CHILD], environment), mark)


@dataclass
class Walls:
    """What is round each child of a run: a copy of the course, and the means of isolation."""

    course: Path  # the copy
    scratch: Path
    hidden: Sequence[str]
    memory: int
    processes: int = 64
    seconds: float = 3600
    means: str = "none"

    @property
    def warning(self) -> str:
        return WARNING if self.means == "none" else ""

    @property
    def folder(self) -> Path:
        """Return the folder in which this thread's child lives, as the child sees it."""
        own = self.scratch / f"home-{get_ident()}"
        return own if self.means == "none" else Path(WRITABLE)

    @property
    def limits(self) -> dict[str, Any]:
        own = 0 if os.getuid() == 0 else _processes_of_this_user()
        processes = self.processes + own
        return {"memory": self.memory, "processes": processes, "seconds": self.seconds}

    @property
    def watch(self) -> dict[str, Any]:
        return {"hidden": list(self.hidden), "refuse": self.means == "none"}

    def checks(self, file: Path) -> Path:
        """Return where the child finds a file of checks."""
        return self._course_inside / "tests" / "exercises" / file.name

    @property
    def _course_inside(self) -> Path:
        return self.course if self.means == "none" else Path("/course")

    def start(self, arguments: Sequence[str] = CHILD) -> Child:
        """Start a child that waits for its job."""
        user, taken = _take_user() if self._can_change_user else (None, None)
        mark = os.urandom(8).hex()
        environment = {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": str(self.folder),
            "TMPDIR": str(self.folder),
            "USER": "student",
            "LANG": "C.UTF-8",
            "PYTHONPATH": os.pathsep.join([str(self._course_inside), *_extra_path()]),
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": "1",
            "MPLBACKEND": "agg",
            MARK: mark,
        }
        command = [*_as_user(user), sys.executable, *arguments]
        if self.means == "bubblewrap":
            command = [*self._bubblewrap(), *command]
        elif self.means == "unshare":
            command = [*_with_parent(), *self._unshare(), *_without_rights(user), *command]
        else:
            _remove(self.folder)
            if self.folder.exists():  # it holds a folder that nobody may enter
                self.folder.rename(self.scratch / f"left-{mark}")
            self.folder.mkdir(parents=True)
            if user is not None:
                os.chown(self.folder, user, user)
        return Child(_popen(command, environment), mark, user, taken)

    @cached_property
    def _can_change_user(self) -> bool:
        if os.getuid() != 0 or shutil.which("setpriv") is None:
            return False
        if self.means != "none":
            return True
        paths = (Path(sys.executable), Path(sys.base_prefix), self.course)
        # A venv's Python may be a link out of a folder that nobody else may enter.
        above = {path for each in paths for path in (*each.parents, *each.resolve().parents)}
        return all(path.stat().st_mode & 1 for path in above)

    def _binds(self) -> Iterator[tuple[str, str, str]]:
        for name in SYSTEM:
            if os.path.islink(name):
                yield "link", os.readlink(name), name
            elif os.path.exists(name):
                yield "bind", name, name
        for name in _python_folders():
            yield "bind", name, name
        yield "bind", str(self.course), str(self._course_inside)

    def _bubblewrap(self) -> list[str]:
        options = {"bind": "--ro-bind", "link": "--symlink"}
        room = ["--perms", "1777", "--size", str(ROOM_SIZE), "--tmpfs"]
        rights = ["--unshare-user"] if os.getuid() else ["--cap-drop", "ALL", *KEPT_FOR_SETPRIV]
        return [
            *("bwrap", "--die-with-parent", "--new-session", "--unshare-pid", "--unshare-net"),
            *("--unshare-ipc", "--unshare-uts", *rights),
            *("--proc", "/proc", "--dev", "/dev", *room, "/dev/shm", *room, WRITABLE),
            *itertools.chain(*(("--perms", "755", "--dir", each) for each in self._parents())),
            *itertools.chain(*((options[how], one, two) for how, one, two in self._binds())),
            *("--remount-ro", "/dev", "--remount-ro", "/", "--"),
        ]

    def _parents(self) -> list[str]:
        """Return the folders above those that are bound, which others than root must enter too."""
        above = {str(each) for _, _, name in self._binds() for each in Path(name).parents}
        return sorted(above - {"/", WRITABLE})

    def _unshare(self) -> list[str]:
        rights = [] if os.getuid() == 0 else ["--user", "--map-root-user"]
        devices = [("device", f"/dev/{name}", f"/dev/{name}") for name in DEVICES]
        root = self.scratch / "root"
        root.mkdir(exist_ok=True)
        return [
            *("unshare", *rights, "--mount", "--pid", "--net", "--ipc", "--uts", "--fork"),
            *("--kill-child", "--", "sh", "-c", BUILD_A_ROOM, "room", str(root), str(ROOM_SIZE)),
            *itertools.chain(*self._binds(), *devices),
            "--",
        ]


def _remove(folder: Path) -> None:
    """Delete a folder with `rm`: rmtree calls itself for each folder in a folder."""
    subprocess.run(["rm", "-rf", "--", str(folder)], stderr=subprocess.DEVNULL, check=False)


def _take_user() -> tuple[int, FileLock]:
    """Return a number that no child on this computer has, also none of another grading, and what
    holds it: until it is released, or this process has ended.
    """
    USERS_TAKEN.mkdir(mode=0o700, exist_ok=True)
    for user in range(FIRST_USER, FIRST_USER + USERS):
        # The thread that ends a child need not be the one that has started it.
        taken = FileLock(USERS_TAKEN / str(user), timeout=0, thread_local=False)
        with suppress(Timeout):
            taken.acquire()
            return user, taken
    raise OSError(f"all of {USERS} user numbers are taken by children, see {USERS_TAKEN}")


KEPT_FOR_SETPRIV = ("--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID")


def _as_user(user: int | None) -> list[str]:
    if user is None:
        return []
    # Who becomes another user forgets that he was to die with his parent.
    changes = ("--reuid", str(user), "--regid", str(user), "--clear-groups")
    return [*_with_parent(), *changes]


def _with_parent() -> list[str]:
    """Have what follows killed by the system when its parent ends, even by kill -9."""
    return ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []


def _without_rights(user: int | None) -> list[str]:
    """Give up root's rights in a room of unshare's; another user has none."""
    none = ["setpriv", "--no-new-privs", "--inh-caps=-all", "--bounding-set=-all"]
    return none if user is None and shutil.which("setpriv") else []


def _processes_of_this_user() -> int:
    """Return how many the system has counted: the limit is on all that a user has running."""
    mine = (each for each in psutil.process_iter() if _user_of(each) == os.getuid())
    return sum(_threads_of(each) for each in mine)


def _user_of(process: psutil.Process) -> int | None:
    with suppress(psutil.Error):
        return process.uids().real
    return None


def _threads_of(process: psutil.Process) -> int:
    with suppress(psutil.Error):
        return process.num_threads()
    return 0


def _python_folders() -> list[str]:
    """Return the folders that this Python imports from, without those inside one another."""
    found = {os.path.realpath(each) for each in (sys.base_prefix, sys.prefix, *_extra_path())}
    found |= {sys.prefix, sys.base_prefix}  # by this name scripts and venvs know them
    system = tuple(f"{name}/" for name in SYSTEM)
    return sorted(
        name
        for name in found
        if not f"{name}/".startswith(system)
        and not any(name != other and name.startswith(f"{other}/") for other in found)
    )


def _extra_path() -> list[str]:
    """Return where libraries are found beside Python's own folders, as with pip's --user."""
    prefixes = (f"{sys.prefix}/", f"{sys.base_prefix}/")
    folders = [name for name in sys.path if name and os.path.isdir(name)]
    return [
        name
        for name in folders
        if not f"{name}/".startswith(prefixes) and Path(name).name.endswith("-packages")
    ]


def _popen(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen:
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
        start_new_session=True,
    )


@contextmanager
def walls(
    course: Path, packages: Sequence[Path], hidden: Sequence[Path], memory: int, means: str = "auto"
) -> Iterator[Walls]:
    """Give the best walls that work here, or those that are asked for.

    `hidden` are the teacher's folders; `memory` is in bytes. Raises `ValueError` if the `means`
    that were asked for do not work.
    """
    with TemporaryDirectory(prefix="transformer-lab-") as name:
        scratch = Path(name).resolve()
        scratch.chmod(0o755)
        copy = copy_course(course, packages, scratch / "course")
        hidden_names = [str(each.resolve()) for each in hidden]
        try:
            for each in MEANS if means == "auto" else (means,):
                found = Walls(copy, scratch, hidden_names, memory, means=each)
                if _works(found):
                    yield found
                    return
            raise ValueError(f"isolation by {means} does not work on this computer")
        finally:
            for path in (copy, *copy.rglob("*")):
                path.chmod(0o755)
            _remove(scratch)


def _works(found: Walls) -> bool:
    program = {"bubblewrap": "bwrap", "unshare": "unshare"}.get(found.means)
    if program and shutil.which(program) is None:
        return False
    try:
        child = found.start(("-c", "import json, torch; print(json.dumps('works'))"))
    except OSError:
        return False
    try:
        output, _ = child.process.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        return False
    finally:
        child.kill()
    return output.strip() == json.dumps("works").encode()
