"""Files that are whole or absent, and readers that trust nothing."""

import hashlib
import json
import os
import secrets
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import torch
from torch import Tensor

from transformer_lab.support.validation import require, shape_and_type

JSON_LIMIT = 20_000_000
FLOATS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


def as_path(path: Any, name: str = "path") -> Path:
    """Return the path; `ValueError` for anything that is none."""
    right = isinstance(path, str | os.PathLike)
    require(right, f"{name} must be a path, got {shape_and_type(path)}")
    return Path(path)


def as_folder(folder: str | os.PathLike) -> Path:
    """Return the path of a folder, which need not exist; `ValueError` if it is a file."""
    path = as_path(folder, "folder")
    require(path.is_dir() or not path.exists(), f"{path} must be a folder, and is a file")
    return path


def require_writable(path: Path) -> None:
    """Raise `ValueError` unless a file or folder can be made at `path`, whose parents may lack."""
    there = next(each for each in (path.absolute(), *path.absolute().parents) if each.exists())
    try:
        if path.is_file():
            path.open("ab").close()
        else:
            TemporaryFile(dir=there).close()
    except OSError as error:
        raise ValueError(f"{path} cannot be written: {error.strerror}") from None


def write_atomically(path: Path, content: bytes) -> None:
    """Put `content` at `path`; a reader, or a crash, finds the old file or the new."""
    path.parent.mkdir(parents=True, exist_ok=True)
    name = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with open(name, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException as error:
        name.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(path)  # "No space left on device": for which file?
        raise


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Make the folder and keep it for this process; `ValueError` if another process has it.

    The system lets go of it when the process ends, however it ends.
    """
    from filelock import FileLock, Timeout

    folder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder / ".lock", timeout=0):
            yield
    except Timeout:
        raise ValueError(f"{folder} is in use: another run writes to it at this moment") from None


def remove_leftovers(folder: Path) -> None:
    """Delete what writers that were killed have left in `folder` and its subfolders."""
    for path in (*folder.glob(".*.part"), *folder.glob("*/.*.part")):
        path.unlink(missing_ok=True)


def write_json(path: Path, value: object) -> None:
    """Write `value` as indented JSON, atomically."""
    write_atomically(path, (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode())


def read_json(path: Path) -> dict:
    """Return the JSON object in `path`; `ValueError` if it is missing, damaged or foreign."""
    # Reading a pipe or a device might never end.
    require(path.is_file(), f"{path} is missing, or not a file")
    try:
        require(path.stat().st_size <= JSON_LIMIT, f"{path} is too large to be a settings file")
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not valid JSON: {error}") from None
    require(isinstance(value, dict), f"{path} must hold a JSON object, got {type(value).__name__}")
    return value


def read_config(path: Path, config_class: type):
    """Return the dataclass stored in `path` as JSON; `ValueError` for unknown or missing fields."""
    values = read_json(path)
    unknown = sorted(set(values) - {field.name for field in fields(config_class)})
    lacks = f"{path} has settings that {config_class.__name__} lacks"
    require(not unknown, f"{lacks}: {unknown!r:.60}")
    try:
        return config_class(**values)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from None


def write_tensors(path: Path, tensors: dict[str, Tensor], notes: dict | None = None) -> None:
    """Write named tensors, and notes that JSON can hold, as one safetensors file, atomically.

    The file holds a checksum of both, by which `read_tensors` knows that nothing has changed.
    """
    from safetensors.torch import save

    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    text = json.dumps(notes or {})
    write_atomically(path, save(tensors, {"notes": text, "crc32": checksum(tensors, text)}))


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict]:
    """Return the tensors and notes of a safetensors file; `ValueError` for any other file.

    It is refused, too, if its numbers are not those that were written: by the checksum that it
    holds, or, if it holds none, by its sum in a file SHA256SUMS beside it.
    """
    from safetensors import SafetensorError, safe_open

    require(path.is_file(), f"{path} is missing, or not a file")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        text = metadata.get("notes", "{}")
        notes = json.loads(text)
        crc = metadata.get("crc32")
        whole = crc == checksum(tensors, text) if crc else _has_its_sum(path)
    except (SafetensorError, OSError, ValueError, RuntimeError) as error:
        raise ValueError(f"{path} is not a whole safetensors file: {error}") from None
    require(
        whole,
        f"{path} must hold the numbers that were written, got others (its checksum is wrong): it "
        f"was damaged or changed; copy it again from where it is whole, or train again",
    )
    return tensors, notes


def checksum(tensors: dict[str, Tensor], text: str = "") -> str:
    """Return the CRC-32 of some tensors with their names, and of a text."""
    crc = zlib.crc32(text.encode())
    for name, tensor in sorted(tensors.items()):
        crc = zlib.crc32(name.encode(), crc)
        numbers = tensor.detach().cpu().contiguous().flatten()
        crc = zlib.crc32(numbers.view(torch.uint8).numpy().data, crc)
    return f"{crc:08x}"


def _has_its_sum(path: Path) -> bool:
    """Whether the file has the sum that a SHA256SUMS beside it says, if there is one."""
    sums = path.with_name("SHA256SUMS")
    lines = sums.read_text().splitlines() if sums.is_file() else []
    wanted = [line.split()[0] for line in lines if line.split()[1:] == [path.name]]
    if not wanted:
        return True
    with path.open("rb") as file:
        return wanted == [hashlib.file_digest(file, "sha256").hexdigest()]


def require_tensors(
    tensors: dict[str, Tensor], wanted: dict[str, Tensor], where: Path | str
) -> None:
    """Raise `ValueError` unless names and shapes are those of `wanted`, and all numbers finite."""
    missing, unknown = sorted(set(wanted) - set(tensors)), sorted(set(tensors) - set(wanted))
    require(not missing, f"{where} lacks {len(missing)} tensors, the first is {missing[:1]}")
    require(not unknown, f"{where} has {len(unknown)} unknown tensors, the first is {unknown[:1]}")
    for name, tensor in tensors.items():
        shape = wanted[name].shape
        require(
            tensor.shape == shape and tensor.dtype in FLOATS,
            f"{where}: {name} must be floating-point of shape {tuple(shape)}, "
            f"got {shape_and_type(tensor)}",
        )
    require_finite(tensors, where)


def require_finite(tensors: dict[str, Tensor], where: Path | str) -> None:
    """Raise `ValueError` if any number is NaN or infinite."""
    for name, tensor in tensors.items():
        require(bool(tensor.isfinite().all()), f"{where}: {name} must be finite, got NaN or ∞")
