"""Sentences of your own, split once and kept in the run; `reading.py` reads their files."""

import hashlib
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

from transformer_lab.data.reading import (
    Columns,
    Files,
    TextPairs,
    as_file,
    as_files,
    content_of,
    names_of,
    read_pairs,
)
from transformer_lab.support.files import read_json, write_atomically, write_json
from transformer_lab.support.validation import require

SPLITS = ("train", "val", "test")
FOLDER, SUMS = "pairs", "splits.json"  # where a run keeps its splits
FEWEST_SOURCES, MOST_HELD_OUT = 10, 1000


def load_pairs(
    data: Files,
    *,
    valid: Files | None = None,
    test: Files | None = None,
    columns: Columns | None = None,
    reverse: bool = False,
    skip_bad: bool = False,
) -> tuple[dict[str, TextPairs], list[str]]:
    """Return the splits train, val and test of a file, and notes: what a person should know.

    Each of `data`, `valid` and `test` is a file or two aligned ones, and is read as `read_pairs`
    does, with `columns`, `reverse` and `skip_bad`. What is not given as `valid` and `test` is split
    off `data`, as in `split_pairs`. The notes say what was left out, which columns were taken, and
    how many pairs stand in two splits.
    Raises `ValueError` for a file that `read_pairs` refuses, or with too few sources to split.
    """
    require(type(skip_bad) is bool, f"skip_bad must be True or False, got {skip_bad!r:.60}")
    how: dict = {"columns": columns, "reverse": reverse, "skip_bad": skip_bad}
    others = {"val": valid, "test": test}
    others = {name: as_files(files) for name, files in others.items() if files is not None}
    pairs, notes = read_pairs(data, **how)
    given = {}
    for name, files in others.items():
        given[name], more = read_pairs(files, **how)
        notes += more
    num_sources, name = len({source for source, _ in pairs}), names_of(as_files(data))
    require(
        num_sources >= FEWEST_SOURCES,
        f"{name} must hold at least {FEWEST_SOURCES} different sources, got {num_sources}",
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
        text, wanted = content_of(as_file(path)), sums.get(name)
        known = isinstance(wanted, dict) and wanted.get("sha256") == _sha256(text)
        require(known, f"{path} must be as the run wrote it, got another SHA-256 than in {SUMS}")
        lines = text.decode().split("\n")[:-1]
        splits[name] = [(source, target) for source, target in (line.split("\t") for line in lines)]
    return splits


def _as_text(pairs: TextPairs) -> bytes:
    return "".join(f"{source}\t{target}\n" for source, target in pairs).encode()


def _sha256(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()
