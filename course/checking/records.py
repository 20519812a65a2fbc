"""What a child process tells its parent: one line of JSON for each record, and no other line.

A line carries the token that the parent gave to the child, so that what a learner's code writes
into the pipe is not taken for a record.
"""

import json
from dataclasses import asdict, dataclass, fields

LONGEST = 20_000  # characters of a message; the rest of a longer one is cut off
MOST, LONGEST_OF_MANY = 50, 1000  # items of a list, and characters of each


@dataclass(frozen=True)
class Ready:
    """Everything is imported, and nothing of the learner's has run."""


@dataclass(frozen=True)
class Loaded:
    """The notebook's definitions are loaded; `problems` says which are not, and why."""

    problems: list


@dataclass(frozen=True)
class Started:
    """The checks of a task begin; `task` counts the tasks of the job from 0."""

    task: int


@dataclass(frozen=True)
class Judged:
    """What came out: the state, `why` in a line, and all that the learner is told.

    Of a wrong answer with separate parts, `right` of `parts` are right.
    """

    task: int
    state: str
    why: str
    message: str
    right: int = 0
    parts: int = 0


@dataclass(frozen=True)
class Canary:
    """Whether the checks still refuse junk; `altered` names what is not as it was at the start."""

    task: int
    refused: bool
    altered: list


@dataclass(frozen=True)
class Noticed:
    """The learner's code did something that its teacher may want to know of."""

    what: str


@dataclass(frozen=True)
class End:
    """Every task of the job was judged."""


Record = Ready | Loaded | Started | Judged | Canary | Noticed | End
KINDS = {kind.__name__: kind for kind in (Ready, Loaded, Started, Judged, Canary, Noticed, End)}


def encode(record: Record, token: str) -> bytes:
    """Return the line of a record."""
    values = {name: _cut(value) for name, value in asdict(record).items()}
    return (json.dumps({"token": token, "kind": type(record).__name__} | values) + "\n").encode()


def _cut(value: int | str | list) -> int | str | list:
    if isinstance(value, list):
        return [each[:LONGEST_OF_MANY] for each in value[:MOST]]
    return value[:LONGEST] if isinstance(value, str) else value


def decode(line: bytes, token: str) -> Record:
    """Return the record of a line; `ValueError` if `encode` did not write it with this token."""
    try:
        values = json.loads(line)
        if values.pop("token") != token:
            raise ValueError("another token")
        kind = KINDS[values.pop("kind")]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise ValueError(f"this is no record: {line[:60]!r}") from None
    types = {each.name: each.type for each in fields(kind)}
    if {name: type(value) for name, value in values.items()} != types:
        raise ValueError(f"this is no {kind.__name__}: {line[:60]!r}")
    return kind(**values)
