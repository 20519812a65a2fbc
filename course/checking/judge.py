"""Judges a notebook in child processes and says why one was stopped; runs none of its code itself.

A task counts as passed if the child said so, then failed a junk answer, and found its own checks
as they were. A task during which the child ended, or was stopped, is marked so, and the next task
gets a new child.
"""

import json
import os
import secrets
import select
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from course.checking.isolation import Child, NoWalls, Walls
from course.checking.records import (
    Canary,
    End,
    Judged,
    Loaded,
    Noticed,
    Ready,
    Record,
    Started,
    decode,
)

STOPPED, ENDED, ALTERED = "out of time", "ended its process", "checker altered"
STARTING = 120  # seconds that the imports may take on a busy computer
GLANCE = 0.2  # seconds between two looks at what the child uses
LONGEST_REPORT = 2**20  # bytes of records
FORGED = "Its code wrote into the pipe of the checks."


@dataclass(frozen=True)
class Limits:
    """What one task may use."""

    seconds: int = 60
    memory: int | None = None  # bytes, of all its processes together
    processes: int = 32


@dataclass
class Outcome:
    """What came out of a task: `why` is a line, `message` all that its author is told.

    Of a wrong answer with separate parts, `right` of `parts` are right.
    """

    state: str
    why: str = ""
    message: str = ""
    right: int = 0
    parts: int = 0
    seconds: float = 0.0


class Interrupted(Exception):
    """Somebody asked for the end; what was under way has no outcome."""


@dataclass
class _Report:
    """What one child has said, and how it ended."""

    outcomes: dict[int, Outcome] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    ready: bool = False
    problems: list[str] | None = None  # None: it has not come so far as to load the notebook
    under_way: int | None = None
    ended: bool = False
    altered: str = ""
    cause: tuple[str, str] | None = None
    since: float = field(default_factory=time.monotonic)
    patience: int = STARTING


def judge_notebook(
    cells: Sequence[tuple[str, str]],
    name: str,
    checks: Path,
    tasks: Sequence[Sequence[str]],
    walls: Walls | NoWalls,
    limits: Limits,
    stop: threading.Event | None = None,
    given: Sequence[str] = (),
    reference: Sequence[tuple[str, str]] = (),
) -> tuple[list[Outcome], list[str]]:
    """Return the outcome of each task, and what else was noticed.

    `cells` are the notebook's (type, source), `tasks` the names that each task asks for, `checks`
    the lesson's file of checks. In place of what the notebook has as `given` stands what the cells
    of `reference` define. Raises `Interrupted` once `stop` is set,
    `ChildProcessError` if a child cannot even start.
    """
    outcomes: dict[int, Outcome] = {}
    notes: list[str] = []
    while len(outcomes) < len(tasks):
        first = len(outcomes)
        job = {
            "token": secrets.token_hex(16),
            "checks": str(walls.checks(checks)),
            "cells": list(cells),
            "name": name,
            "tasks": [list(names) for names in tasks[first:]],
            "given": list(given),
            "reference": list(reference),
            "folder": str(walls.folder),
            "limits": walls.limits,
            "watch": walls.watch,
        }
        report = _Report()
        child = walls.start()
        try:
            _send(child, job)
            _follow(child, job["token"], report, limits, stop or threading.Event())
        finally:
            child.kill()
        if not report.ready and not report.altered:
            raise ChildProcessError(
                f"The child process could not start: {' '.join(map(str, child.process.args))}"
            )
        if report.cause is None and not report.ended:
            report.cause = (ENDED, _how_it_ended(child.process.returncode))
        found = _settled(report, len(tasks) - first)
        outcomes |= {first + number: outcome for number, outcome in found.items()}
        notes += report.notes
    return [outcomes[number] for number in range(len(tasks))], sorted(set(notes))


def _send(child: Child, job: dict) -> None:
    try:
        with child.process.stdin as pipe:
            pipe.write(json.dumps(job).encode())
    except BrokenPipeError:  # it died first; what it says, or does not say, tells the rest
        pass


def _follow(
    child: Child, token: str, report: _Report, limits: Limits, stop: threading.Event
) -> None:
    """Read the records of a child until it ends, or has to be ended."""
    pipe, unread, size, looked = child.process.stdout.fileno(), b"", 0, 0.0
    while not (report.ended or report.altered or report.cause):
        if stop.is_set():
            raise Interrupted
        gone = child.process.poll() is not None
        if select.select([pipe], [], [], 0 if gone else GLANCE / 2)[0]:
            chunk = os.read(pipe, 65536)
            size += len(chunk)
            *lines, unread = (unread + chunk).split(b"\n")
            _hear(lines, token, report, limits)
            if not chunk:
                return
        elif gone:
            return
        now = time.monotonic()
        if size > LONGEST_REPORT:
            report.altered = FORGED
        elif now - report.since > report.patience:
            text = f"It was still running after {report.patience:g} seconds, and was stopped."
            report.cause = (STOPPED, text)
        elif now - looked > GLANCE:
            looked = now
            report.cause = _too_much(child, limits)


def _hear(lines: Sequence[bytes], token: str, report: _Report, limits: Limits) -> None:
    for line in lines:
        try:
            _note(decode(line, token), report, limits)
        except ValueError:
            report.altered = FORGED
        if report.altered:  # nothing after this can be believed
            return


def _note(record: Record, report: _Report, limits: Limits) -> None:
    """Take in a record; `ValueError` if it cannot come at this moment."""
    now, number = time.monotonic(), report.under_way
    match record:
        case Noticed(what):
            report.notes.append(what)
            return
        case Ready() if not report.ready:
            report.ready, report.patience = True, limits.seconds
        case Loaded(problems) if report.ready and report.problems is None:
            report.problems = problems
        case Started(task) if number is None and task == len(report.outcomes) and report.ready:
            report.under_way = task
        case Judged(task, state, why, message, right, parts) if (
            task == number and task not in report.outcomes and 0 <= right <= max(0, parts - 1)
        ):
            seconds = now - report.since
            report.outcomes[task] = Outcome(state, why, message, right, parts, seconds)
            return
        case Canary(task, refused, altered) if task == number and task in report.outcomes:
            report.under_way = None
            if altered:
                report.altered = f"Its code changed {', '.join(map(str, altered))}."
            elif not refused:
                report.altered = "After its code had run, the checks accepted a junk answer."
        case End() if number is None:
            report.ended = True
        case _:
            raise ValueError("a record at the wrong time")
    report.since = now


def _too_much(child: Child, limits: Limits) -> tuple[str, str] | None:
    """Return what the processes use more of than they may, if they do."""
    family, memory = child.family(), 0
    for each in family:
        try:
            memory += each.memory_info().rss
        except psutil.Error:
            continue
    if len(family) > limits.processes:
        return ENDED, f"It started more than {limits.processes} processes, and was stopped."
    if limits.memory and memory > limits.memory + 2**29:  # Python and PyTorch themselves
        return (
            ENDED,
            f"It used more than {limits.memory / 2**30:.1f} GB of memory, and was stopped.",
        )
    return None


def _how_it_ended(status: int) -> str:
    number = -status if status < 0 else status - 128
    if number in set(signal.Signals):
        return f"Its code ended Python: {signal.Signals(number).name}."
    return f"Its code ended Python, with exit status {status}."


def _settled(report: _Report, count: int) -> dict[int, Outcome]:
    """Return the outcomes that a child's report settles: at least one of `count`."""
    if report.altered:
        last = max([*report.outcomes, report.under_way or 0])
        return {
            number: Outcome(ALTERED, report.altered, report.altered) for number in range(last + 1)
        }
    outcomes = dict(report.outcomes)
    if report.ended:
        missing = Outcome(ENDED, "The checks ended without a verdict.")
        return {number: outcomes.get(number, missing) for number in range(count)}
    state, why = report.cause
    seconds = time.monotonic() - report.since
    if report.problems is None:  # the next child would come no further
        why = f"While the notebook was loaded: {why[0].lower()}{why[1:]}"
        return {number: Outcome(state, why, why, seconds=seconds) for number in range(count)}
    blamed = report.under_way if report.under_way is not None else max(0, len(outcomes) - 1)
    return outcomes | {blamed: Outcome(state, why, why, seconds=seconds)}
