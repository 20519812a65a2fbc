"""The code of a lesson, for the scripts that run it longer or more often than the lesson does."""

from benchmarks.reporting import report
from course.checking import load_notebook


def lesson_code(number: str, *names: str) -> dict:
    """Return `names` as lesson `number` ("03") defines them, and what they are made of.

    All of them come from one notebook: the evidence if it has them, or else the lesson itself.
    Raises `ValueError` if one is missing.
    """
    lessons = report.ROOT / "notebooks"
    problems = []
    for path in (*lessons.glob(f"evidence/{number}_*.ipynb"), *lessons.glob(f"{number}_*.ipynb")):
        found = load_notebook(path, names)
        missing = [name for name in names if name not in found]
        if not missing:
            return found
        because = "".join(f"; {problem}" for problem in found["__problems__"])
        problems.append(f"{path.name} does not define {', '.join(missing)}{because}")
    raise ValueError("; ".join(problems) or f"there is no lesson {number}")
