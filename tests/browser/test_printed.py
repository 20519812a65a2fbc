"""Worksheets on paper: two pages each, the key on one. A paper: no answer's room on two pages."""

import re

import pytest

from teaching.generate import exam, paper, worksheets

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


def test_no_question_of_a_paper_is_cut_and_nothing_is_beside_its_page(chromium):
    everything = [place.number for place in exam.PLACES]
    for n in range(3):
        made = exam.sheet(everything, 180, "A very long paper", n.to_bytes(16))
        page = chromium.new_page(viewport={"width": round(178 * 96 / 25.4), "height": 1000})
        page.emulate_media(media="print")
        for name, text in made.items():
            page.set_content(text)
            sections = page.locator("section")
            assert sections.count() == len(everything)
            high = sections.evaluate_all("all => all.map(e => e.getBoundingClientRect().height)")
            assert max(high) < (297 - 2 * 18) * 96 / 25.4, name  # a page without its margins
            if name.stem == "paper":  # the room is there, and as wide as the text
                rooms = page.locator(".room").evaluate_all("all => all.map(e => e.clientHeight)")
                assert len(rooms) == len(everything) and min(rooms) > 5 * 13 * 96 / 25.4
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
        page.close()
