"""The points of each task, from `rubric.yaml`: the one place for them, whoever grades."""

import functools
from collections.abc import Sequence
from pathlib import Path

RUBRIC = Path(__file__).with_name("rubric.yaml")


def points_of(lesson: str, names: Sequence[str]) -> int:
    """Return the points of the task that asks for these names, as ("split_heads", "merge_heads").

    `lesson` is as a notebook is called, without its ending. Raises `ValueError` if the rubric does
    not have the task.
    """
    task = ", ".join(names)
    points = rubric().get(lesson, {}).get(task)
    if not isinstance(points, int) or points < 1:
        raise ValueError(f"{RUBRIC} has no points for {lesson}, {task}; got {points!r}")
    return points


@functools.cache
def rubric() -> dict[str, dict[str, int]]:
    """Return the points of every lesson's tasks."""
    import yaml

    return yaml.safe_load(RUBRIC.read_text("utf-8"))
