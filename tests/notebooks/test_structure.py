"""What nbval does not see: that lessons, solutions and exercises keep the rules of the course."""

import ast
import json
import re
import subprocess
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pytest
from make_exercises import made_exercises

from course.checking.notebooks import read_notebook
from course.figures import stored_result
from course.lessons import Notebook, lessons
from course.stamps import hashes_of

ROOT = Path(__file__).resolve().parents[2]
LESSONS, SOLUTIONS, EXERCISES = (
    sorted((ROOT / folder).glob("*.ipynb")) for folder in ("notebooks", "solutions", "exercises")
)
MADE = made_exercises()
EVIDENCE = sorted((ROOT / "notebooks/evidence").glob("*.ipynb"))
VERDICTS = ("fact", "myth", "depends", "answer")
FOLDED = "●●●"  # what JupyterLab shows behind the first line of a folded cell
OPENING = re.compile(
    r"^## What you will be able to do\n\n(?:- .+\n)+\n"
    r"> \*\*Time:\*\* .*\*\*Runs in about (\d+) seconds\b.*\*\*You need:\*\* .",
    re.MULTILINE,
)
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


@cache
def notebook(path):
    """Return a notebook as the course has it: what a learner has answered, or run, is not it."""
    if path in EXERCISES:
        return MADE[path.name]
    here = read_notebook(path)
    file = path.relative_to(ROOT).as_posix()
    shown = subprocess.run(["git", "show", f"HEAD:./{file}"], cwd=ROOT, capture_output=True)
    stored = here if shown.returncode else json.loads(shown.stdout)
    return stored if hashes_of(stored) == hashes_of(here) else here


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


@pytest.mark.parametrize("lesson", lessons().values(), ids=lambda lesson: lesson.name)
def test_each_claim_of_the_lesson_has_a_verdict_and_the_cell_that_settles_it(lesson):
    """A row `| C09 | claim | **fact**: … | [§6](#anchor) |`, and under that heading a cell with an
    assert; where no experiment can settle it, [1] cites a reading."""
    notebooks = [notebook for notebook in (lesson.path, lesson.evidence) if notebook]
    rows = [row for each in notebooks for row in re.findall(r"^\| C\d+ \|.*$", each.text, re.M)]
    assert len(rows) == len(lesson.claims), "a row of Myth or fact? is not as it should be"
    for claim, row in zip(lesson.claims, rows, strict=True):
        assert claim.verdict in VERDICTS, f"{claim.number} is {claim.verdict}"
        if claim.anchor is None:
            assert re.search(r"\[\d\]", row), f"{claim.number} names neither a cell nor a reading"
            continue
        settling = Notebook(claim.path).sections.get(claim.anchor)
        assert settling is not None, f"{claim.number}: there is no {claim.anchor}"
        assert any("assert" in cell for cell in settling), f"{claim.number}: no assert there"


def test_every_claim_is_settled_in_one_lesson():
    numbers = sorted(int(c.number[1:]) for lesson in lessons().values() for c in lesson.claims)
    assert numbers == [*range(1, len(numbers) + 1)] and len(numbers) >= 108


@of(LESSONS)
def test_a_lesson_opens_like_every_other(path):
    """Its title and a reason to read on; then what it teaches; then a box with what it takes."""
    first = next(cells(path, "markdown"))
    assert re.match(rf"# {path.stem[:2]} · \S", first), first[:60]
    text = "\n\n".join(cells(path, "markdown"))
    assert OPENING.search(text), "no outcomes and box as CONTRIBUTING.md has them"
    assert re.search(r"^## (.+)", text, re.MULTILINE)[1] == "What you will be able to do"


@of(LESSONS)
def test_what_is_in_short_stands_in_a_box(path):
    for source in cells(path, "markdown"):
        for line in source.splitlines():
            assert "**In short" not in line or line.startswith("> **In short.** "), line


@of(LESSONS)
def test_a_folded_cell_begins_with_a_comment_that_says_what_it_does(path):
    for cell in notebook(path)["cells"]:
        if cell["metadata"].get("jupyter", {}).get("source_hidden"):
            first = "".join(cell["source"]).partition("\n")[0]
            assert re.fullmatch(r"# [A-Z]\w*(?: [^\s=]+){2,}", first), (
                f"folded, and named {first!r}"
            )


@of(LESSONS)
def test_a_widget_says_that_its_cell_must_be_run(path):
    for source in cells(path, "code"):
        if re.search(r"\binteract(?:ive)?\(", source):
            assert source.startswith("# Run this cell: "), source


@of(LESSONS, SOLUTIONS, EXERCISES)
def test_a_text_that_tells_how_to_open_a_cell_names_the_sign_that_jupyterlab_shows(path):
    for source in cells(path, "markdown"):
        for sentence in re.findall(r"[^.]*\bclick[^.]*\.", source):
            signs = re.findall(r"`([^\w\s`]+)`", sentence)
            assert set(signs) <= {FOLDED}, sentence


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


def texts_in_code(path):
    """Yield every text in a notebook's code, and whether `stored_result` is given it."""
    for source in cells(path, "code"):
        tree = ast.parse(re.sub(r"^\s*[%!].*", "", source, flags=re.M))
        given = {
            text
            for call in ast.walk(tree)
            if isinstance(call, ast.Call) and ast.unparse(call.func).endswith("stored_result")
            for text in ast.walk(call)
        }
        for text in ast.walk(tree):
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                yield text.value, text in given


@of(LESSONS, EVIDENCE)
def test_a_result_is_quoted_from_the_file_as_it_is_now(path, capsys):
    """Each stored result comes through `stored_result`, and the line that says so is shown."""
    outputs = [output for cell in notebook(path)["cells"] for output in cell.get("outputs", ())]
    lines = [line for out in outputs for text in texts_of(out) for line in text.splitlines()]
    quoted = {}
    for line in lines:
        if line.startswith("[benchmarks/results/"):
            name, _, origin = line.removeprefix("[benchmarks/results/").partition(": ")
            quoted[name] = line
            stored_result(name, folder=ROOT / "benchmarks/results")
            assert not origin or capsys.readouterr().out.strip() == line
    for text, given in texts_in_code(path):
        if given and re.fullmatch(r"\w+\.json", text):
            assert text in quoted, f"{text} is read, and the cell does not show from where"
            assert (ROOT / "benchmarks/results" / text).exists(), text
        assert given or not re.search(r"\bbenchmarks\b", text), f"{text!r}: read by stored_result"


@of(LESSONS)
def test_the_stated_time_is_true_within_a_factor_of_two(path):
    stated = OPENING.search("\n\n".join(cells(path, "markdown")))
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
