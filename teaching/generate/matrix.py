"""matrix.md: outcomes, tasks and claims of each lesson, and where each section of the paper is."""

import tomllib
from pathlib import Path

from teaching.generate.course import TEACHING, lessons, tasks
from transformer_lab.checking.progress import Task

OUT = TEACHING / "matrix.md"
PAPER = TEACHING / "paper.toml"


def pages() -> dict[Path, str]:
    """Return the matrix."""
    parts = [
        "# Outcomes, tasks, claims, and the paper\n",
        "Made by `python teaching/make.py`; edit the lessons, the solutions or `paper.toml`.\n",
        "## What each lesson adds\n",
        *(_lesson(number) for number in lessons()),
        "## Where each section of the paper is\n",
        _sections(),
    ]
    return {OUT: "\n".join(parts)}


def _lesson(number: str) -> str:
    lesson, mine = lessons()[number], tasks().get(number, [])
    outcomes = "\n".join(f"- {outcome}" for outcome in lesson.outcomes)
    link = f"[{number} · {lesson.title}](../notebooks/{lesson.stem}.ipynb)"
    rows = [
        f"| {task.number} | {', '.join(f'`{name}`' for name in task.names)} | "
        f"{'★' * task.difficulty} | {task.minutes} | {points(task)} |"
        for task in mine
    ]
    table = "| task | names | difficulty | minutes | points |\n|---|---|---|---|---|\n"
    practised = table + "\n".join(rows) + "\n\n" if rows else ""
    settled = ", ".join(
        f"[{c.number}](<../notebooks/{lesson.stem}.ipynb#{c.anchor or 'Myth-or-fact?'}>) "
        f"({c.verdict})"
        for c in lesson.claims
    )
    return f"### {link}\n\n{outcomes}\n\n{practised}" + (f"Claims: {settled}\n" if settled else "")


def points(task: Task) -> int:
    """Return what a task is worth, as SYLLABUS.md says."""
    return max(1, round(task.minutes * task.difficulty / 10))


def _sections() -> str:
    rows = ["| section | title | lesson and place |", "|---|---|---|"]
    for entry in tomllib.loads(PAPER.read_text("utf-8"))["section"]:
        places = []
        for place in entry["lessons"]:
            number, where = place.split(" ", 1)
            known = number in lessons()
            link = lessons()[number].link(where) if known else ""
            places.append(f"[{place}]({link})" if known else f"{place} (to come)")
        rows.append(f"| {entry['number']} | {entry['title']} | {', '.join(places)} |")
    return "\n".join(rows) + "\n"
