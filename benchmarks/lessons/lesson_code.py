"""The code of a lesson, for the scripts that run it longer or more often than the lesson does."""

from benchmarks.reporting import report
from transformer_lab.checking import load_notebook


def lesson_code(number: str, *names: str) -> dict:
    """Return `names` as lesson `number` ("03") defines them, and what they are made of.

    Raises `ValueError` if one is missing.
    """
    (path,) = (report.ROOT / "notebooks").glob(f"{number}_*.ipynb")
    found = load_notebook(path, names)
    if missing := [name for name in names if name not in found]:
        because = "".join(f"; {problem}" for problem in found["__problems__"])
        raise ValueError(f"{path.name} does not define {', '.join(missing)}{because}")
    return found
