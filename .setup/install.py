"""Install the course into .venv: whole and stamped, or not at all. Standard library only."""

import fcntl
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import IO

VENV = Path(".venv")
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "installed"
LOG = Path(".venv.log")  # the lock as well
PIP_SETTINGS = {
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_INPUT": "1",
    "PIP_PROGRESS_BAR": "off",
    "PIP_RETRIES": "3",
    "PIP_USER": "0",
}

# What a failed step leaves in the log, and what to do about it. The first that is found is said.
TROUBLES = {
    r"No space left on device": "the disk is full: make room",
    r"Retrying \(|Could not fetch URL|(Connection|Timeout|Proxy|Resolution|Protocol)Error": (
        "the packages cannot be downloaded: connect to the internet"
        " (behind a proxy, set HTTPS_PROXY)"
    ),
    r"No matching distribution found for (\S+)": (
        "no build of {found} fits Python {python} on this machine: see Troubleshooting in README.md"
    ),
    r"(?m)^(?:ERROR|[Ee]rror): (.+)": "{found} (.venv.log has the rest): put that right",
}


def main() -> int:
    try:
        with LOG.open("a+") as log:
            wait_for_lock(log)
            if not (STAMP.is_file() and STAMP.read_bytes() == stamp() and venv_fits()):
                install(log)
    except KeyboardInterrupt:
        return complain("stopped: run the same command again")
    except (OSError, subprocess.CalledProcessError) as error:
        return complain(f"{diagnosis(str(error))}, then run the same command again")
    return 0


def wait_for_lock(log: IO[str]) -> None:
    """One set-up at a time. Each step inherits the lock, so it holds until the last step ends."""
    try:
        fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("Waiting for another make to finish the set-up.", flush=True)
        fcntl.flock(log, fcntl.LOCK_EX)


def stamp() -> bytes:
    """What .venv is good for: this folder and these lists (setup.sh compares it too)."""
    lists = [Path(name).read_bytes() for name in ("pyproject.toml", "constraints.txt")]
    return b"".join([folder(), *lists])


def folder() -> bytes:
    return os.fsencode(Path.cwd()) + b"\n"


def venv_fits() -> bool:
    """Whether .venv's Python runs, and is of the version that was named, if one was."""
    version = "import sys; print(sys.version)"
    try:
        answer = subprocess.run([PYTHON, "-c", version], capture_output=True, text=True)
    except OSError:
        return False
    named = os.environ.get("PYTHON")
    return answer.returncode == 0 and (not named or answer.stdout.strip() == sys.version)


def install(log: IO[str]) -> None:
    """Bring .venv up to date; begin anew where it is half made, moved or of another Python."""
    print("Setting up; the first time takes some minutes.", flush=True)
    log.truncate(0)
    sound = STAMP.is_file() and STAMP.read_bytes().startswith(folder()) and venv_fits()
    made_from = stamp()
    STAMP.unlink(missing_ok=True)
    if not sound:
        run(log, sys.executable, "-m", "venv", "--clear", VENV)
    pip = (PYTHON, "-m", "pip", "install", "-c", "constraints.txt")
    # With setuptools there, nothing is built apart, and what is installed needs no network again.
    run(log, *pip, "setuptools")
    run(log, *pip, "--no-build-isolation", "-e", ".[dev]")
    STAMP.write_bytes(made_from)


def run(log: IO[str], *command: str | Path) -> None:
    """Run one step into the log; a terminal shows its latest line."""
    width = shutil.get_terminal_size().columns - 1 if sys.stdout.isatty() else 0
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=os.environ | PIP_SETTINGS,
        pass_fds=[log.fileno()],
    ) as step:
        for line in step.stdout:
            log.write(line)
            log.flush()
            if width:
                print(f"\r\033[K{line.strip()[:width]}", end="", flush=True)
    if width:
        print("\r\033[K", end="", flush=True)
    if step.returncode:
        raise subprocess.CalledProcessError(step.returncode, command)


def diagnosis(error: str) -> str:
    log = LOG.read_text(errors="replace") if LOG.is_file() else ""
    text = f"{log}\n{error}"
    for pattern, advice in TROUBLES.items():
        if match := re.search(pattern, text):
            python = sys.version.split()[0]
            return advice.format(found=match[match.lastindex or 0], python=python)
    return f"{error} (.venv.log has the rest): put that right"


def complain(trouble: str) -> int:
    print(f"transformer-lab: {trouble}.", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
