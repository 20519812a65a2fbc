"""exercises/ is what solutions/ makes, and the tasks are those that the course promises."""

import ast
import copy
import json
import re
from pathlib import Path

import pytest

from transformer_lab.checking import check_files, checks_in
from transformer_lab.checking.progress import tasks_in

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
    assert maker.drift() == [], "run: python solutions/make_exercises.py"


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
