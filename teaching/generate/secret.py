"""The secret of a paper: a key that the teacher makes, and numbers that nobody has without it.

A worksheet has a seed, which everybody may know: it is printed on it, and makes it again with its
key. A paper has a file of 256 random bits instead. Each of its questions is drawn with a number
that HMAC makes of these bits and of the question's label; from the paper no way leads back to them.
"""

import hmac
import os
import re
import secrets
from pathlib import Path

from course.lessons import ROOT

LEAST = 128  # bits
HOW = "make one with python teaching/make.py --new-secret FILE"


def new(path: Path) -> None:
    """Write a new secret into a file that only its owner can read."""
    outside(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_hex(32) + "\n")
    except FileExistsError:
        raise ValueError(f"{path} is there already: a paper made with it needs it") from None
    except OSError as error:
        raise ValueError(f"{path} cannot be written: {error.strerror}") from None


def read(path: Path) -> bytes:
    """Return the secret in a file.

    Raises `ValueError` if it is missing, too short, in git's reach, or readable for other people.
    """
    outside(path)
    try:
        text = path.read_text("ascii").strip()
    except (OSError, ValueError):
        raise ValueError(f"there is no secret in {path}: {HOW}") from None
    if not re.fullmatch(rf"(?:[0-9a-fA-F]{{2}}){{{LEAST // 8},}}", text):
        raise ValueError(
            f"{path} holds no secret of {LEAST} bits, which are {LEAST // 4} digits 0 to f: {HOW}"
        )
    if os.name == "posix" and path.stat().st_mode & 0o077:
        raise ValueError(f"other people of this computer can read {path}: chmod 600 {path}")
    return bytes.fromhex(text)


def outside(path: Path) -> None:
    """Raise `ValueError` if a file lies in a folder that git keeps, or in the course."""
    for folder in path.resolve().parents:
        if folder == ROOT or (folder / ".git").exists():
            raise ValueError(f"{path} lies in {folder}, which git keeps: choose a place outside")


def seed(key: bytes, label: str) -> str:
    """Return the seed of what a label names."""
    return hmac.digest(key, label.encode(), "sha256").hex()
