"""Lessons as a reader sees them: the widgets answer, and pictures follow.

That every cell runs is what nbval shows; here only those run that a widget needs.
"""

import pytest

pytestmark = pytest.mark.timeout(600)  # a shared machine can be slow


def test_lesson_02_runs_and_its_slider_redraws_its_picture(open_notebook):
    lesson = open_notebook("notebooks/evidence/02_scaled_dot_product_attention.ipynb")
    lesson.screenshot("opened")
    lookup = "temperature=slider"
    lesson.run_through(lookup, seconds=100)
    assert lesson.errors() == []
    lesson.screenshot_pages("page")

    first = lesson.picture(lookup)
    lesson.screenshot("temperature_1", lookup)
    lesson.slide(lookup, "temperature", 0.95)
    hot = lesson.sees_new_picture(lookup, first)
    lesson.screenshot("temperature_hot", lookup)
    lesson.slide(lookup, "temperature", 0.05)
    lesson.sees_new_picture(lookup, hot)
    lesson.screenshot("temperature_cold", lookup)
    assert lesson.errors() == []


def test_lesson_00_translates_the_date_that_is_typed(open_notebook):
    short = {'"steps": 600, "checkpoint_every": 25': '"steps": 20, "checkpoint_every": 5'}
    lesson = open_notebook("notebooks/00_start_here.ipynb", short)
    dates = "date=field"
    lesson.clear()
    cells = ("import date_pairs", "zoom(1", "def draw", "SETTINGS =", "def look_at")
    for part in (*cells, dates):
        lesson.run(part)
    assert lesson.errors() == []

    first = lesson.picture(dates)
    lesson.screenshot("date_given", dates)
    lesson.fill(dates, "a date:", "SUNDAY, 2 MAY 1954")
    lesson.sees(dates, "SUNDAY, 2 MAY 1954 →")
    second = lesson.sees_new_picture(dates, first)
    lesson.screenshot("date_typed", dates)
    lesson.fill(dates, "a date:", "3 Mar 1987")
    assert lesson.sees_new_picture(dates, second) == first
    lesson.fill(dates, "a date:", "friday " * 20)
    lesson.sees(dates, "a sentence of 141 tokens is longer")
    assert lesson.errors() == []


def test_lesson_08_draws_its_curve_while_it_trains(open_notebook):
    lesson = open_notebook("notebooks/08_teacher_forcing.ipynb")
    lesson.run_through("STEPS = 800", seconds=300)
    training = "with LivePlot("
    lesson.start(training)
    picture = lesson.picture(training, seconds=300)
    lesson.screenshot("training", training)
    for _ in range(2):
        picture = lesson.sees_new_picture(training, picture, idle=False)
    lesson.screenshot("training_goes_on", training)
    assert lesson.errors() == []
    lesson.interrupt()


def test_lesson_09_translates_the_caption_that_is_typed(open_notebook):
    lesson = open_notebook("notebooks/evidence/09_autoregressive_inference.ipynb")
    captions = "text=field"
    lesson.clear()
    for part in ("import ipywidgets", "def ids_of", "def penalty", captions):
        lesson.run(part)
    assert lesson.errors() == []
    lesson.screenshot("caption_given", captions)
    lesson.fill(captions, "caption", "Two dogs run through the snow.")
    lesson.sees(captions, "Zwei Hunde laufen durch den Schnee.")
    lesson.screenshot("caption_typed", captions)
    assert lesson.errors() == []
