"""The tiny exercise of lesson 00, which has no notebook in solutions/."""

import pytest

from course.checking import CheckFailed, check

PAIRS = "for p, t in zip(predictions, truths)"
WRONG = {
    f"sum(p == t {PAIRS})": "divide by how many there are",
    f"100 * sum(p == t {PAIRS}) / len(truths)": "in percent",
    f"sum(p != t {PAIRS}) / len(truths)": "the wrong ones are counted",
    f"sum(p == t {PAIRS}) // len(truths)": "rounds down",
    f"sum(a == b {PAIRS} for a, b in zip(p, t)) / sum(map(len, truths))": "single characters",
    f"sum(a == b {PAIRS} for a, b in zip(p, t)) / len(truths)": "right characters is divided",
    "len(set(predictions) & set(truths)) / len(truths)": "the order is lost",
    "predictions == truths": "pair by pair",
    "None": "`return` missing",
}
RIGHT = [
    f"sum(p == t {PAIRS}) / len(predictions)",
    f"[p == t {PAIRS}].count(True) / len(truths)",
    f"__import__('numpy').mean([p == t {PAIRS}])",
    f"__import__('torch').tensor([p == t {PAIRS}]).float().mean()",
]


def answer(body):
    return eval(f"lambda predictions, truths: {body}")


@pytest.mark.parametrize("body", WRONG)
def test_a_wrong_exact_match_is_told_why(body):
    with pytest.raises(CheckFailed) as failure:
        check(exact_match=answer(body))
    assert WRONG[body] in str(failure.value)


@pytest.mark.parametrize("body", RIGHT)
def test_a_right_exact_match_passes(body):
    check(exact_match=answer(body))
