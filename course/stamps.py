"""Which version a notebook came from: its metadata hold a hash of each cell as it was handed out.

So one can tell what a learner has changed from what the course has, cell by cell.
"""

import hashlib
import json

NOTES, ORIGINAL = "transformer_lab", "original"  # where a notebook's metadata hold the hashes
STUB = 'raise NotImplementedError("not written yet")'


def text_of(notebook: dict) -> str:
    """Return the one way in which a notebook is written, as Jupyter writes it."""
    return json.dumps(notebook, ensure_ascii=False, indent=1, sort_keys=True) + "\n"


def source_of(cell: dict) -> str:
    """Return what stands in a cell."""
    return "".join(cell["source"])


def hash_of(cell: dict) -> str:
    """Return what tells a cell from one that somebody has changed; outputs do not count."""
    written = [cell["cell_type"], source_of(cell), cell.get("attachments", {})]
    return hashlib.sha256(json.dumps(written, sort_keys=True).encode()).hexdigest()[:12]


def hashes_of(notebook: dict) -> dict[str | None, str]:
    """Return the hash of each cell by its id."""
    return {cell.get("id"): hash_of(cell) for cell in notebook["cells"]}


def stamp(notebook: dict, hashes: dict[str, str] | None = None) -> dict:
    """Return the notebook with the hashes of its cells, or these, in its metadata."""
    hashes = hashes_of(notebook) if hashes is None else hashes
    notes = notebook["metadata"].get(NOTES, {})
    notes = notes | {ORIGINAL: " ".join(f"{name}:{value}" for name, value in hashes.items())}
    return notebook | {"metadata": notebook["metadata"] | {NOTES: notes}}


def original_of(notebook: dict) -> dict[str, str] | None:
    """Return the hash of each cell, by its id, in the version that a notebook came from.

    None if the metadata do not say it, or not legibly.
    """
    notes = notebook["metadata"].get(NOTES)
    text = notes.get(ORIGINAL) if isinstance(notes, dict) else None
    pairs = [pair.split(":", 1) for pair in text.split()] if isinstance(text, str) else [[]]
    return dict(pairs) if all(len(pair) == 2 for pair in pairs) else None


def is_filled_in(notebook: dict) -> bool:
    """Return whether somebody has written in it since it was made; running it does not count."""
    made = original_of(notebook)
    return made is not None and made != hashes_of(notebook)
