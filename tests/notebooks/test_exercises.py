"""exercises/ is what solutions/ makes, and the tasks are those that the course promises."""

import ast
import copy
import json
import re
import subprocess
from pathlib import Path

import pytest

from course.checking import check_files, checks_in
from course.checking.progress import tasks_in

ROOT = Path(__file__).resolve().parents[2]
SOLUTIONS = sorted((ROOT / "solutions").glob("[0-9][0-9]_*.ipynb"))
CONTRACT = {
    "01": "additive_scores(query, keys, W_q, W_k, v) context_vector(weights, values)",
    "02": "stable_softmax(x, dim) attend_one(query, keys, values) "
    "scaled_dot_product_attention(query, key, value, mask) "
    "attention_gradient(query, key, value, grad_output)",
    "03": "split_heads(x, num_heads) merge_heads(x) MultiHeadAttention "
    "count_parameters(d_model, num_heads)",
    "04": "causal_mask(length) padding_mask(tokens, pad_id) decoder_mask(tokens, pad_id) "
    "masked_softmax(scores, mask) leaks_future(model, tokens)",
    "05": "sinusoidal_encoding(length, d_model) shift_matrix(offset, d_model) "
    "LearnedPositionalEncoding rotate(x, positions)",
    "06": "LayerNorm FeedForward AddNorm EncoderLayer DecoderLayer",
    "07": "learn_bpe(word_counts, num_merges) apply_bpe(word, merges) TokenEmbedding "
    "tie_weights(model) count_transformer_parameters(vocab_size, d_model, d_ff, num_layers)",
    "08": "shift_right(targets, bos_id) smoothed_cross_entropy(logits, targets, pad_id, epsilon) "
    "noam_rate(step, d_model, warmup) batches_by_tokens(lengths, max_tokens)",
    "09": "greedy_decode(step, bos_id, eos_id, max_length) keep_top_k(logits, k) "
    "keep_top_p(logits, p) beam_search(step, bos_id, eos_id, beam, max_length, alpha) "
    "CachedSelfAttention",
}
of_each = pytest.mark.parametrize("path", SOLUTIONS, ids=lambda path: path.stem)


def code_in(path):
    cells = json.loads(path.read_text("utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def test_the_exercises_are_what_the_solutions_make(maker):
    """Answers of somebody who works in them do not matter; what is committed does."""
    assert maker.drift() == [], "run: python solutions/make_exercises.py"
    for name, text in maker.exercises().items():
        file = f"exercises/{name}"
        if not subprocess.run(["git", "diff", "--quiet", "HEAD", "--", file], cwd=ROOT).returncode:
            assert (ROOT / file).read_text("utf-8") == text, file


@of_each
def test_each_task_has_a_heading_a_body_to_write_and_a_check(path):
    code = code_in(path)
    for task in tasks_in(path):
        for name in task.names:
            (body,) = (c for c in code if re.search(rf"^(def|class) {name}\b", c, re.M))
            assert "### BEGIN SOLUTION" in body, name
            assert '"""' in body, f"{name} has no docstring"
            assert any(re.search(rf"^check\(.*\b{name}\b", c, re.M) for c in code), name
    numbers = [task.number for task in tasks_in(path)]
    assert numbers == [*range(1, len(numbers) + 1)]
    assert sum("### BEGIN SOLUTION" in c for c in code) == sum(len(t.names) for t in tasks_in(path))


@of_each
def test_each_task_has_three_hints(path):
    cells = json.loads(path.read_text("utf-8"))["cells"]
    text = "".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
    for task in re.split(r"^## Task \d+ · ", text, flags=re.M)[1:]:
        hints = re.findall(r"<details><summary>Hint (\d)", task)
        assert hints == ["1", "2", "3"], task.splitlines()[0]


@of_each
def test_the_tasks_of_the_contract_are_there_with_their_signatures(path):
    promised = re.findall(r"(\w+)(?:\(([^)]*)\))?", CONTRACT.get(path.stem[:2], ""))
    tasks = {name for task in tasks_in(path) for name in task.names}
    assert {name for name, _ in promised} <= tasks
    code = "\n".join(code_in(path))
    for name, parameters in promised:
        if parameters:
            arguments = re.search(rf"^def {name}\((.*?)\)(?: ->|:\n)", code, re.M | re.S)[1]
            function = ast.parse(f"def {name}({arguments}): pass").body[0]
            assert ", ".join(a.arg for a in function.args.args) == parameters


@of_each
def test_there_is_a_prediction_and_a_bug_hunt(path):
    titles = [task.title for task in tasks_in(path)]
    assert any(title.startswith("Predict") for title in titles)
    assert any(title.startswith("Bug hunt") for title in titles)


def test_a_task_name_belongs_to_one_lesson():
    tasks = [
        {name for names in checks_in(file).values() for name in names} for file in check_files()
    ]
    assert sum(map(len, tasks)) == len(set().union(*tasks)), "check(name) must find its lesson"


# ---- The generator itself


def solution_of(*sources):
    cells = [
        {
            "cell_type": "code",
            "execution_count": 1,
            "id": f"cell{number}",
            "metadata": {},
            "outputs": [{"name": "stdout", "output_type": "stream", "text": ["hello\n"]}],
            "source": source.splitlines(keepends=True),
        }
        for number, source in enumerate(sources)
    ]
    return {"cells": cells, "metadata": {"x": 1}, "nbformat": 4, "nbformat_minor": 5}


def test_a_body_becomes_a_stub_at_its_own_indentation(maker):
    source = "class A:\n    def f(self):\n        ### BEGIN SOLUTION\n        x = 1\n\n"
    made = maker.exercise(solution_of(source + "        ### END SOLUTION"), "x")
    cell = made["cells"][0]
    assert "".join(cell["source"]) == (
        'class A:\n    def f(self):\n        raise NotImplementedError("not written yet")'
    )
    assert cell["outputs"] == [] and cell["execution_count"] is None and cell["id"] == "cell0"


def test_two_bodies_in_one_cell_are_both_removed_and_what_is_between_stays(maker):
    body = "    ### BEGIN SOLUTION\n    return 1\n    ### END SOLUTION\n"
    made = maker.exercise(solution_of(f"def f():\n{body}def g():\n{body}"), "x")
    source = "".join(made["cells"][0]["source"])
    assert source.count("not written yet") == 2 and "def g" in source and "return" not in source


@pytest.mark.parametrize("marker", ["### BEGIN SOLUTION", "### END SOLUTION"])
def test_a_marker_without_its_partner_is_an_error(maker, marker):
    with pytest.raises(ValueError, match="do not pair"):
        maker.exercise(solution_of(f"def f():\n    {marker}\n    return 1"), "x")


def test_making_twice_gives_the_same_bytes_and_leaves_the_solution_alone(maker):
    solution = solution_of("def f():\n    ### BEGIN SOLUTION\n    return 'é'\n    ### END SOLUTION")
    before = copy.deepcopy(solution)
    assert maker.text_of(maker.exercise(solution, "x")) == maker.text_of(
        maker.exercise(solution, "x")
    )
    assert solution == before


def test_a_cell_tagged_solution_is_left_out(maker):
    solution = solution_of("1 + 1", "2 + 2")
    solution["cells"][0]["metadata"]["tags"] = ["solution"]
    assert [cell["id"] for cell in maker.exercise(solution, "x")["cells"]] == ["cell1"]


# ---- Nothing that somebody has written is written over


@pytest.fixture
def folder(maker, tmp_path, monkeypatch):
    """Two solutions and their exercises, in the place of ours."""
    body = "    ### BEGIN SOLUTION\n    return 1\n    ### END SOLUTION"
    for name in ("solutions", "exercises"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(maker, "HERE", tmp_path / "solutions")
    monkeypatch.setattr(maker, "EXERCISES", tmp_path / "exercises")
    for name in ("02_x", "03_y"):
        change(tmp_path / "solutions" / f"{name}.ipynb", solution_of(f"def f():\n{body}", "f()"))
    assert maker.main([]) == 0
    return tmp_path


def change(path, notebook=None, *, source=None, **values):
    """Write a notebook; with `source` or other values, its first cell anew."""
    notebook = notebook or json.loads(path.read_text("utf-8"))
    notebook["cells"][0] |= values | ({"source": [source]} if source else {})
    path.write_text(json.dumps(notebook), "utf-8")


def test_a_solved_exercise_is_not_replaced_and_nothing_else_is_written(maker, folder, capsys):
    solved, other = folder / "exercises" / "02_x.ipynb", folder / "exercises" / "03_y.ipynb"
    change(solved, source="def f(): return 1")
    change(folder / "solutions" / "03_y.ipynb", source="# new")
    before = solved.read_bytes(), other.read_bytes()
    assert maker.main([]) == 1
    said = capsys.readouterr().err
    assert str(solved) in said and str(other) not in said and "--overwrite" in said
    assert (solved.read_bytes(), other.read_bytes()) == before
    assert maker.main(["--overwrite", str(other)]) == 1 and solved.read_bytes() == before[0]


def test_the_flag_is_refused_for_a_notebook_that_is_not_written(maker, folder, capsys):
    with pytest.raises(SystemExit):
        maker.main(["--overwrite", str(folder / "work" / "02b_exercises_x.ipynb")])
    assert "02b_exercises_x.ipynb: nothing here writes that one" in capsys.readouterr().err


def test_the_flag_that_names_it_replaces_it_and_a_dated_copy_stays(maker, folder):
    solved = folder / "exercises" / "02_x.ipynb"
    change(solved, source="def f(): return 1")
    mine = solved.read_bytes()
    assert maker.main(["--overwrite", str(solved)]) == 0
    assert "not written yet" in solved.read_text()
    (kept,) = (folder / "exercises").glob("kept_20*/02_x.ipynb")
    assert kept.read_bytes() == mine and maker.drift() == []


@pytest.mark.parametrize("spoil", ["{", "", '{"cells": [3]}'])
def test_a_damaged_exercise_is_somebodys_too(maker, folder, spoil):
    (folder / "exercises" / "02_x.ipynb").write_text(spoil)
    assert maker.main([]) == 1
    assert (folder / "exercises" / "02_x.ipynb").read_text() == spoil


def test_one_that_knows_nothing_of_its_version_is_replaced_only_if_it_says_the_same(maker, folder):
    exercise = folder / "exercises" / "02_x.ipynb"
    made = json.loads(exercise.read_text())
    change(exercise, made | {"metadata": {}}, outputs=[1])
    assert maker.main([]) == 0
    change(exercise, made | {"metadata": {}}, source="def f(): return 1")
    assert maker.main([]) == 1


def test_what_was_only_run_is_made_again_and_so_is_what_a_program_made(maker, folder):
    exercise, solution = folder / "exercises" / "02_x.ipynb", folder / "solutions" / "02_x.ipynb"
    change(exercise, execution_count=3, outputs=[{"output_type": "stream"}])
    assert maker.drift() == []
    for source in ("# once", "# twice"):  # nobody has committed the first
        change(solution, source=source)
        assert maker.drift() == ["02_x.ipynb"]
        assert maker.main([]) == 0
        assert source in exercise.read_text() and '"outputs": []' in exercise.read_text()
    assert list((folder / "exercises").glob("kept*")) == []


def test_a_source_that_a_teacher_has_changed_for_nbgrader_is_not_replaced(maker, tmp_path, capsys):
    course = ["--nbgrader", str(tmp_path), "--lesson", "02"]
    assert maker.main(course) == 0 and maker.main(course) == 0
    (source,) = tmp_path.glob("source/*/*.ipynb")
    change(source, source="A word of my own.")
    mine = source.read_bytes()
    assert maker.main(course) == 1 and source.read_bytes() == mine
    assert str(source) in capsys.readouterr().err
    assert maker.main([*course, "--overwrite", str(source)]) == 0 and source.read_bytes() != mine
    assert [path.read_bytes() for path in source.parent.glob("kept_*/*.ipynb")] == [mine]


def test_a_handout_replaces_a_zip_and_nothing_else(maker, tmp_path, capsys):
    (tmp_path / "mine.ipynb").write_text("{}")
    with pytest.raises(SystemExit):
        maker.main(["--handout", str(tmp_path / "mine.ipynb"), "--lesson", "02"])
    assert (tmp_path / "mine.ipynb").read_text() == "{}"
    assert "is no zip" in capsys.readouterr().err


def test_what_is_saved_while_a_notebook_runs_stays(maker, tmp_path):
    path = tmp_path / "n.ipynb"
    save = "from pathlib import Path\nmine = Path('n.ipynb').write_text('saved')"
    path.write_text(maker.text_of(solution_of(save)))
    with pytest.raises(SystemExit):
        maker.main(["--run", str(path)])
    assert path.read_text() == "saved"


def test_a_run_stores_what_jupyterlab_would_write_so_that_opening_changes_nothing(maker, tmp_path):
    path = tmp_path / "n.ipynb"
    path.write_text(maker.text_of(solution_of("1 + 1")))
    maker.run(path)
    language = json.loads(path.read_text())["metadata"]["language_info"]
    assert set(language) == {
        *("codemirror_mode", "file_extension", "mimetype", "name", "nbconvert_exporter"),
        *("pygments_lexer", "version"),
    }
