"""What nbval does not see: that lessons, solutions and exercises keep the rules of the course."""

import ast
import json
import re
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).resolve().parents[2]
LESSONS, SOLUTIONS, EXERCISES = (
    sorted((ROOT / folder).glob("*.ipynb")) for folder in ("notebooks", "solutions", "exercises")
)
CLAIMS = {
    "01": (1, 9),
    "02": (10, 24),
    "03": (25, 31),
    "04": (32, 40),
    "05": (41, 50),
    "06": (51, 57),
    "07": (58, 61),
    "08": (62, 63),
    "09": (64, 65),
}
LONGEST_CELL = 25
LINK = re.compile(r"\]\(([^)\s]+)\)|(?:src|href)=\"([^\"]+)\"")
LEAK = re.compile(
    r"/(home|Users|root|tmp|work|usr|var|opt|mnt)/|[A-Z]:\\|site-packages|ipykernel_|\w+Warning\b"
    r"|\bWARNING\b|Traceback \(most recent"
)


def of(*groups):
    """Parametrize a test over notebooks, each under its name."""
    paths = [path for group in groups for path in group]
    return pytest.mark.parametrize(
        "path", paths, ids=[f"{path.parent.name}-{path.stem}" for path in paths]
    )


def notebook(path):
    return json.loads(path.read_text("utf-8"))


def cells(path, kind):
    """Yield the sources of a notebook's cells of one kind."""
    for cell in notebook(path)["cells"]:
        if cell["cell_type"] == kind:
            yield "".join(cell["source"])


def texts_of(output):
    """Yield every text that an output holds, pictures aside."""
    for value in [output.get("text"), *output.get("data", {}).values()]:
        text = "".join(value) if isinstance(value, list) else value
        if isinstance(text, str) and len(text) < 20_000:
            yield text


@of(LESSONS, SOLUTIONS, EXERCISES)
def test_a_code_cell_is_short(path):
    for source in cells(path, "code"):
        assert len(source.splitlines()) <= LONGEST_CELL, source


def names_of_the_package():
    return {
        node.name
        for file in (ROOT / "transformer_lab").glob("*.py")
        for node in ast.parse(file.read_text("utf-8")).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name[0] != "_"
    }


@of(LESSONS)
def test_a_lesson_defines_no_name_that_the_package_has(path):
    defined = {
        node.name
        for source in cells(path, "code")
        for node in ast.walk(ast.parse(re.sub(r"^\s*[%!].*", "", source, flags=re.M)))
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }
    assert not defined & names_of_the_package()


@of(LESSONS)
def test_each_claim_of_the_lesson_is_settled_once_by_an_assert(path):
    first, last = CLAIMS.get(path.stem[:2], (1, 0))
    sections, heading = {}, None
    for cell in notebook(path)["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "code" and heading:
            sections[heading] += source
        for line in source.splitlines() if cell["cell_type"] == "markdown" else ():
            if line.startswith("#"):
                claim = re.match(r"#+ (C\d\d)\b", line)
                heading = claim[1] if claim else None
                assert heading not in sections, f"{heading} is there twice"
                sections |= {heading: ""} if heading else {}
    assert sorted(sections) == [f"C{number:02}" for number in range(first, last + 1)]
    assert all("assert" in code for code in sections.values()), sections


@of(LESSONS, SOLUTIONS, EXERCISES)
def test_every_local_link_and_figure_is_there(path):
    for source in cells(path, "markdown"):
        for link in (one or other for one, other in LINK.findall(source)):
            if not re.match(r"https?:|mailto:|#|attachment:|data:", link):
                assert (path.parent / unquote(link.split("#")[0])).exists(), link


@of(LESSONS, SOLUTIONS)
def test_stored_outputs_are_those_of_a_clean_run(path):
    code = [cell for cell in notebook(path)["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == [*range(1, len(code) + 1)]
    assert notebook(path)["metadata"]["kernelspec"]["name"] == "python3"
    for output in (output for cell in code for output in cell["outputs"]):
        assert output["output_type"] != "error" and output.get("name") != "stderr", output
        for text in texts_of(output):
            assert not LEAK.search(text), text


@of(LESSONS)
def test_the_stated_time_is_true_within_a_factor_of_two(path):
    stated = re.search(r"[Rr]uns in about (\d+) seconds", next(cells(path, "markdown")))
    assert stated, "the first cell says 'Runs in about N seconds'"
    measured = notebook(path)["metadata"]["transformer_lab"]["seconds"]
    assert measured / 2 <= int(stated[1]) <= measured * 2, measured


@of(EXERCISES)
def test_an_exercise_has_no_outputs_and_no_solution(path):
    for cell in notebook(path)["cells"]:
        assert not cell.get("outputs") and "SOLUTION" not in "".join(cell["source"])


@of(SOLUTIONS)
def test_a_solution_has_its_exercise_its_checks_and_its_answers(path):
    assert (EXERCISES and EXERCISES[0].parent / path.name).exists()
    assert (ROOT / "tests" / "exercises" / f"test_{path.stem}.py").exists()
    assert (ROOT / "tests" / "answers" / f"answers_{path.stem}.py").exists()
