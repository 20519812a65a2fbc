"""Sentences of your own: a file of lines "source, tab, target", read, checked, split and kept."""

import gzip
import hashlib
import io
import os
import zlib
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

from transformer_lab.support.files import read_json, write_atomically, write_json
from transformer_lab.support.validation import require

SPLITS = ("train", "val", "test")
FOLDER, SUMS = "pairs", "splits.json"  # where a run keeps its splits
MAX_BYTES = 500_000_000  # of a file, unpacked
MAX_CHARACTERS = 1000  # of one side
MOST_BAD = 0.01  # share of the lines
FEWEST_SOURCES, MOST_HELD_OUT = 10, 1000

TextPairs = list[tuple[str, str]]


def load_pairs(
    data: str | os.PathLike,
    *,
    valid: str | os.PathLike | None = None,
    test: str | os.PathLike | None = None,
    skip_bad: bool = False,
) -> tuple[dict[str, TextPairs], list[str]]:
    """Return the splits train, val and test of a file, and notes: what a person should know.

    What is not given as `valid` and `test` is split off `data`, as in `split_pairs`. The notes
    count lines that were left out and pairs that stand in two splits.
    Raises `ValueError` for a file that `read_pairs` refuses, or with too few sources to split.
    """
    require(type(skip_bad) is bool, f"skip_bad must be True or False, got {skip_bad!r:.60}")
    pairs, notes = read_pairs(data, skip_bad=skip_bad)
    given = {}
    for name, path in (("val", valid), ("test", test)):
        if path is not None:
            given[name], more = read_pairs(path, skip_bad=skip_bad)
            notes += more
    num_sources = len({source for source, _ in pairs})
    require(
        num_sources >= FEWEST_SOURCES,
        f"{data} must hold at least {FEWEST_SOURCES} different sources, got {num_sources}",
    )
    splits = split_pairs(pairs, [name for name in SPLITS[1:] if name not in given]) | given
    return {name: splits[name] for name in SPLITS}, [*notes, *_repetitions(splits)]


def split_pairs(pairs: TextPairs, held_out: list[str]) -> dict[str, TextPairs]:
    """Hold out a tenth of the sources for each name, at most 1,000; the rest is "train".

    Pairs with the same source fall into the same split, so no pair is in two. The order of the
    lines does not matter, and neither does a seed: a source is placed by its SHA-256.
    """
    sources = sorted({source for source, _ in pairs}, key=lambda s: _sha256(s.encode()))
    size = min(MOST_HELD_OUT, max(1, len(sources) // 10))
    place = {}
    for i, name in enumerate(held_out):
        place |= dict.fromkeys(sources[i * size : (i + 1) * size], name)
    splits = {name: [] for name in ("train", *held_out)}
    for pair in pairs:
        splits[place.get(pair[0], "train")].append(pair)
    return splits


def _repetitions(splits: dict[str, TextPairs]) -> Iterator[str]:
    """Say how many pairs of one split stand in another too; only given files can have them."""
    for name, other in combinations(SPLITS, 2):
        known = set(splits[name])
        count = sum(pair in known for pair in splits[other])
        if count:
            yield (
                f"{count:,} of the {len(splits[other]):,} pairs of {other} also stand in {name}: "
                f"the score on {other} says less than it seems to"
            )


# ---- Reading


def read_pairs(path: str | os.PathLike, *, skip_bad: bool = False) -> tuple[TextPairs, list[str]]:
    """Return the pairs of a file, without spaces at their ends, and notes on what was left out.

    The file is UTF-8 text, gzipped or not, with one tab in each line. A line without it, with
    more, with an empty side or one above 1,000 characters is bad. Up to 1 % of bad lines are left
    out, more only with `skip_bad`. Raises `ValueError` for a file that is missing, empty, above
    500 MB, no UTF-8 text, or has too many bad lines or none that is good.
    """
    path = _as_path(path)
    lines = _text_of(path).rstrip("\r\n").split("\n")
    pairs, bad = [], {}
    for number, line in enumerate(lines, start=1):
        sides = tuple(side.strip() for side in line.split("\t"))
        if fault := _fault_of(sides):
            bad.setdefault(fault, []).append(number)
        else:
            pairs.append(sides)
    if not bad:
        return pairs, []
    count = len(lines) - len(pairs)
    found = (
        f"every line of {path} must be a source, a tab and a target, got {count:,} of "
        f"{len(lines):,} lines that are not: {', '.join(map(_listed, bad, bad.values()))}"
    )
    require(skip_bad or count <= MOST_BAD * len(lines), f"{found}; skip_bad leaves them out")
    require(bool(pairs), f"{found}; no pair is left")
    return pairs, [f"{found}; they are left out"]


def _as_path(path: object) -> Path:
    """Return the path; `ValueError`, which says what is there, unless it leads to a file."""
    right = isinstance(path, str | os.PathLike)
    require(right, f"a file of pairs must be given as a path, got {type(path).__name__}")
    path = Path(path)
    came = "a folder" if path.is_dir() else "no file" if path.exists() else "nothing there"
    require(path.is_file(), f"{path} must be a file with a pair in each line, got {came}")
    return path


def _fault_of(sides: tuple[str, ...]) -> str:
    if len(sides) != 2:
        return "without a tab" if len(sides) < 2 else "with more than one tab"
    if not all(sides):
        return "with an empty side"
    too_long = max(map(len, sides)) > MAX_CHARACTERS
    return f"with a side above {MAX_CHARACTERS:,} characters" if too_long else ""


def _listed(fault: str, numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:5])) + (", …" if len(numbers) > 5 else "")
    return f"{len(numbers):,} {fault} (line {shown})"


def _text_of(path: Path) -> str:
    content = _content_of(path)
    require(bool(content.strip()), f"{path} must hold a pair in each line, got an empty file")
    came = "UTF-16" if content.startswith((b"\xff\xfe", b"\xfe\xff")) else "a binary file"
    require(b"\0" not in content, f"{path} must be UTF-8 text, got {came}")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line, byte = content.count(b"\n", 0, error.start) + 1, content[error.start]
        raise ValueError(
            f"{path} must be UTF-8 text, got the byte 0x{byte:02x} in line {line:,}"
        ) from None


def _content_of(path: Path) -> bytes:
    """Return what is in the file, unpacked if it is gzipped; at most 500 MB are read."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if content.startswith(b"\x1f\x8b"):
            content = gzip.GzipFile(fileobj=io.BytesIO(content)).read(MAX_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise ValueError(f"{path} must be a file that can be read, got: {reason}") from None
    require(len(content) <= MAX_BYTES, f"{path} must hold at most {MAX_BYTES:,} bytes, got more")
    return content


# ---- What a run keeps


def keep_splits(folder: Path, splits: dict[str, TextPairs], *, write: bool = True) -> None:
    """Write the splits into a run's folder, and last their sums, by which `kept_splits` knows them.

    Without `write`, only compare them, as all but the first of several processes do.
    Raises `ValueError` if the run was started with other ones.
    """
    texts = {name: _as_text(splits[name]) for name in SPLITS}
    sums = {name: {"pairs": len(splits[name]), "sha256": _sha256(texts[name])} for name in SPLITS}
    if holds_splits(folder):
        theirs = read_json(folder / FOLDER / SUMS)
        changed = [name for name in SPLITS if theirs.get(name) != sums[name]]
        require(
            not changed,
            f"{folder} was started with other pairs, got a file that changes {changed}; leave the "
            f"data out to go on with those in {folder / FOLDER}, or choose another folder",
        )
    if not write:
        return
    for name, text in texts.items():
        write_atomically(folder / FOLDER / f"{name}.tsv", text)
    write_json(folder / FOLDER / SUMS, sums)


def holds_splits(folder: Path) -> bool:
    """Whether a run has kept its pairs there."""
    return (folder / FOLDER / SUMS).exists()


def kept_splits(folder: Path) -> dict[str, TextPairs]:
    """Return the splits that a run has kept; `ValueError` unless they are as they were."""
    sums, splits = read_json(folder / FOLDER / SUMS), {}
    for name in SPLITS:
        path = folder / FOLDER / f"{name}.tsv"
        text, wanted = _content_of(_as_path(path)), sums.get(name)
        known = isinstance(wanted, dict) and wanted.get("sha256") == _sha256(text)
        require(known, f"{path} must be as the run wrote it, got another SHA-256 than in {SUMS}")
        splits[name] = [tuple(line.split("\t")) for line in text.decode().split("\n")[:-1]]
    return splits


def _as_text(pairs: TextPairs) -> bytes:
    return "".join(f"{source}\t{target}\n" for source, target in pairs).encode()


def _sha256(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()
