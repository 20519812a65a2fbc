"""Worksheets on paper: two pages each, the key on one, nothing beside the page."""

import re

import pytest

from teaching.generate import paper, worksheets

LESSONS = sorted({name[:2] for name in paper.names()})


@pytest.mark.parametrize("lesson", LESSONS)
@pytest.mark.parametrize("seed", [0, 1])
def test_a_worksheet_has_two_pages_and_its_key_one(chromium, lesson, seed):
    made = {path.stem: text for path, text in worksheets.pages(seed).items()}
    page = chromium.new_page()
    for name, pages in ((lesson, 2), (f"{lesson}_key", 1)):
        page.set_content(made[name])
        printed = page.pdf(prefer_css_page_size=True)
        assert len(re.findall(rb"/Type\s*/Page\b", printed)) == pages
        page.set_viewport_size({"width": 360, "height": 800})
        wide = "document.documentElement.scrollWidth"
        assert page.evaluate(wide) <= 360  # readable on a telephone as well
    page.close()
