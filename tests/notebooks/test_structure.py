"""What nbval does not see: that lessons, solutions and exercises keep the rules of the course."""

import ast
import json
import re
from pathlib import Path
from urllib.parse import unquote

import pytest

from transformer_lab.notebook import stored_result

ROOT = Path(__file__).resolve().parents[2]
LESSONS, SOLUTIONS, EXERCISES = (
    sorted((ROOT / folder).glob("*.ipynb")) for folder in ("notebooks", "solutions", "exercises")
)
# The claims that each lesson settles, by number.
CLAIMS = {
    "01": [*range(1, 10), 103],
    "02": [*range(10, 25), *range(70, 78)],
    "03": [*range(25, 32), *range(78, 84)],
    "04": [*range(32, 41), 84, 85],
    "05": [*range(41, 51), *range(86, 92)],
    "06": [*range(51, 58), *range(92, 98)],
    "07": [*range(58, 62), *range(98, 102)],
    "08": [62, 63, 102],
    "09": [64, 65],
    "10": [66, 104],
    "11": [67, 68],
    "12": [105],
    "13": [69, 106, 107, 108],
}
VERDICTS = ("fact", "myth", "depends", "answer")
MOST_WORDS, MOST_LINES, MOST_PREDICTIONS = 5000, 350, 5
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


def sections_of(path):
    """Return the sources of the code cells under each heading, by the heading's anchor."""
    sections, anchor = {}, ""
    for cell in notebook(path)["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "code":
            sections.setdefault(anchor, []).append(source)
        for heading in re.findall(r"^#+ (.+)$", source, re.MULTILINE):
            if cell["cell_type"] == "markdown":
                anchor = heading.strip().replace(" ", "-")  # as JupyterLab makes it
                sections.setdefault(anchor, [])
    return sections


@of(LESSONS)
def test_each_claim_of_the_lesson_has_a_verdict_and_the_cell_that_settles_it(path):
    """A row `| C09 | claim | **fact**: … | [§6](#anchor) |`, and under that heading a cell with an
    assert and the comment `# C09`; where no experiment can settle it, [1] cites a reading."""
    rows = re.findall(
        r"^\| (C\d+) \|[^|]+\| \*\*(\w+)[^|]*\*\*[^|]*\|([^|]*)\|$",
        "\n".join(cells(path, "markdown")),
        re.MULTILINE,
    )
    numbers = [f"C{number:02}" for number in CLAIMS.get(path.stem[:2], [])]
    assert [number for number, *_ in rows] == numbers
    sections = sections_of(path)
    for number, verdict, where in rows:
        assert verdict in VERDICTS, f"{number} is {verdict}"
        link = re.search(r"\]\(#([^)\s]+)\)", where)
        if link is None:
            assert re.search(r"\[\d\]", where), f"{number} names neither a cell nor a reading"
            continue
        settling = [c for c in sections[unquote(link[1])] if re.search(rf"#.*\b{number}\b", c)]
        assert any("assert" in cell for cell in settling), f"{number}: no assert under {link[1]}"


@of(LESSONS)
def test_a_lesson_is_as_short_as_a_reader_can_bear(path):
    words = sum(len(source.split()) for source in cells(path, "markdown"))
    lines = sum(
        bool(line.strip()) and line.lstrip()[0] != "#"
        for cell in notebook(path)["cells"]
        if cell["cell_type"] == "code" and not cell["metadata"].get("jupyter")
        for line in "".join(cell["source"]).splitlines()
    )
    predictions = "\n".join(cells(path, "markdown")).count("**Predict")
    assert words <= MOST_WORDS, f"{words} words"
    assert lines <= MOST_LINES, f"{lines} visible lines of code"
    assert predictions <= MOST_PREDICTIONS, f"{predictions} questions to predict"


@of(LESSONS)
def test_each_picture_says_in_a_sentence_what_is_seen(path):
    for cell in notebook(path)["cells"]:
        for output in cell.get("outputs", []):
            for kind in {"image/png", "image/svg+xml"} & set(output.get("data", {})):
                alt = output["metadata"].get(kind, {}).get("alt", "")
                assert len(alt.split()) >= 6, f"no alt text: {''.join(cell['source'])[:200]}"


@of(LESSONS, SOLUTIONS, EXERCISES)
def test_every_local_link_and_figure_is_there(path):
    for source in cells(path, "markdown"):
        for link in (one or other for one, other in LINK.findall(source)):
            if not re.match(r"https?:|mailto:|#|attachment:|data:", link):
                file = (path.parent / unquote(link.split("#")[0])).resolve()
                assert file.exists(), link
                in_book = file.suffix != ".md" or ROOT / "teaching" in file.parents
                assert in_book, f"{link}: the book has no such page"


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
def test_a_result_is_quoted_from_the_file_as_it_is_now(path, capsys):
    outputs = [output for cell in notebook(path)["cells"] for output in cell.get("outputs", ())]
    quoted = [
        line
        for output in outputs
        for text in texts_of(output)
        for line in text.splitlines()
        if line.startswith("[benchmarks/results/")
    ]
    for line in quoted:
        name, _, origin = line.removeprefix("[benchmarks/results/").partition(": ")
        if origin:
            stored_result(name, folder=ROOT / "benchmarks/results")
            assert capsys.readouterr().out.strip() == line


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
