"""Every known mistake is caught, and told in its own words.

The checks hold what known mistakes give: `expect(answer, right, {"the scale is missing.": …})`.
Here each of these values is handed in as the answer. So no mistake is written a second time as a
wrong answer, and none can hide behind another one, or equal the right answer in every call.
"""

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))
from catalogue import NAMES, solutions

from course.checking import CheckFailed, check_files, checks_in, close, run_check
from course.checking.course import new_module

FILES = {file.stem.removeprefix("test_"): file for file in check_files()}


class Replay:
    """Stands in for `expect` and `expect_all` while a solution is checked."""

    def __init__(self, module):
        self.told = {}  # a mistake, and what its answer was told last: its own words if ever
        self._expect, self._expect_all = module.expect, getattr(module, "expect_all", None)
        module.expect, module.expect_all = self.expect, self.expect_all

    def expect(self, actual, expected, mistakes=None, **more):
        known = {text: _computed(mistake) for text, mistake in (mistakes or {}).items()}
        for text, answer in known.items():
            if not (self._is_named(text) or callable(answer) or close(answer, expected)):
                self.told[text] = _told(self._expect, answer, expected, known, **more)
        self._expect(actual, expected, mistakes, **more)

    def expect_all(self, cases):
        cases = [
            (answer, right, {text: _computed(each) for text, each in mistakes.items()}, more)
            for answer, right, mistakes, more in cases
        ]
        for text in {text: None for _, _, mistakes, _ in cases for text in mistakes}:
            if not self._is_named(text):
                self.told[text] = _told(self._expect_all, [_handed_in(text, *c) for c in cases])
        self._expect_all(cases)

    def _is_named(self, text):
        return self.told.setdefault(text, "nothing: it is right, or impossible, in each call") == (
            f"This is the answer when {text.strip()}"
        )

    def unnamed(self):
        return {text: told for text, told in self.told.items() if not self._is_named(text)}


def _computed(mistake):
    """Return the answer that a mistake gives, and leave the mistake if it cannot be made here."""
    with torch.random.fork_rng(devices=[]):
        try:
            return mistake() if callable(mistake) else mistake
        except Exception:
            return mistake


def _handed_in(text, answer, right, mistakes, more):
    made = mistakes.get(text, answer)
    return (answer if callable(made) else made), right, mistakes, more


def _told(expect, *given, **more):
    try:
        expect(*given, **more)
        return "nothing: it passes"
    except CheckFailed as failure:
        return failure.why.strip()


JUDGED_AT_ONCE = "noam_rate", "beam_search"  # by many calls together: see below


@pytest.mark.parametrize(("lesson", "task"), [n for n in NAMES if n[1] not in JUDGED_AT_ONCE])
def test_each_known_mistake_is_told_by_its_name(lesson, task):
    module = new_module(FILES[lesson])
    replay = Replay(module)
    for name, needs in checks_in(FILES[lesson]).items():
        if task in needs:
            run_check(getattr(module, name), {need: solutions(lesson)[need] for need in needs})
    assert not replay.unnamed()


def rates(module):
    """Yield the known mistakes of `noam_rate`, each with an answer."""
    for text in module.rate_mistakes(1, 2, 3):
        yield text, lambda *given, text=text: module.rate_mistakes(*given)[text]()


def searches(module):
    """Yield the known mistakes of `beam_search`, each with an answer for every usual way."""
    trees = module.forest()
    for text, wrong in module.BEAM_MISTAKES.items():
        for way in module.WAYS:
            yield text, _one_after_the_other(module.found_by(way | wrong, trees))
    right = [module.search(*each) for each in trees]
    after = [module.afterthoughts(each[0], ids) for each, ids in zip(trees, right, strict=True)]
    for text in after[0]:
        yield text, _one_after_the_other(each[text] for each in after)
    yield module.ONE_ALIVE, _one_after_the_other(module.greedy(each[0], each[2]) for each in trees)


def _one_after_the_other(results):
    results = iter(results)
    return lambda *_: next(results)


@pytest.mark.parametrize(
    ("lesson", "test", "answers_of"),
    [
        ("08_teacher_forcing", "test_the_rate_climbs_to_its_crest_and_falls", rates),
        ("09_autoregressive_inference", "test_beam_search_finds_the_best_hypothesis", searches),
    ],
)
def test_each_known_mistake_is_told_where_calls_are_judged_together(lesson, test, answers_of):
    module, told = new_module(FILES[lesson]), {}
    [task] = checks_in(FILES[lesson])[test]
    for text, answer in answers_of(module):
        named = f"This is the answer when {text.strip()}"
        if told.get(text) != named:
            told[text] = _told(run_check, getattr(module, test), {task: answer})
    assert not {text: why for text, why in told.items() if not why.endswith(text.strip())}
