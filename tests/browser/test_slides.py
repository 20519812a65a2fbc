"""Slides in a real browser: nothing overflows, the keys work, paper gets them all."""

import re
from pathlib import Path

import pytest

pytestmark = [pytest.mark.book, pytest.mark.timeout(300)]

TEXTS = Path(__file__).resolve().parents[2] / "teaching" / "slides"
DECKS = sorted(path.stem for path in TEXTS.glob("[0-9][0-9].md"))

# For each slide, with its answer: what reaches out of it, or out of the part that holds it.
OVERFLOWS = """() => slides.flatMap((slide, index) => {
    go(index, true);
    const sheet = slide.getBoundingClientRect();
    const scale = sheet.width / 1280;
    const parts = [...slide.querySelectorAll(":not(.notes, .notes *)")];
    return parts.filter((part) => {
        const box = part.getBoundingClientRect();
        const outside = box.left < sheet.left || box.right > sheet.right - 20 * scale ||
            box.top < sheet.top || box.bottom > sheet.bottom - 6 * scale;
        const holds = part.matches(".stage:not(:has(math)), .fragment, .answer, pre");
        const inside = part.scrollHeight > part.clientHeight + 2 ||
            part.scrollWidth > part.clientWidth + 2;
        const tiny = part.tagName === "IMG" && box.height < 200 * scale;
        return outside || (holds && inside) || tiny;
    }).map((part) => `slide ${index + 1}: ${part.tagName} ${part.className}`);
})"""

# Words that the last row of a lecture hall cannot read; what is raised or lowered may be smaller.
SMALL = """() => slides.flatMap((slide, index) => {
    go(index, true);
    const parts = [...slide.querySelectorAll(":not(.notes, .notes *, math *)")];
    return parts.filter((part) => {
        const words = [...part.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
        return words && parseFloat(getComputedStyle(part).fontSize) < 24;
    }).map((part) => `slide ${index + 1}: ${part.textContent.slice(0, 40)}`);
})"""


@pytest.fixture
def visit(chromium, made):
    """Open the slides of a lesson; they must ask nobody, and raise no error."""
    contexts, wrong, folder = [], [], (made / "slides").as_uri()

    def visit(name, **options):
        context = chromium.new_context(**({"viewport": {"width": 1280, "height": 720}} | options))
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        allowed = (folder, "data:")
        page.on("request", lambda r: None if r.url.startswith(allowed) else wrong.append(r.url))
        page.goto(f"{folder}/{name}.html")
        page.evaluate("() => Promise.all([...document.fonts].map((font) => font.load()))")
        return page

    yield visit
    for context in contexts:
        context.close()
    assert wrong == []


@pytest.mark.parametrize("name", DECKS)
def test_every_slide_fits_shows_its_pictures_and_is_a_page_on_paper(visit, name):
    page = visit(name)
    assert page.evaluate(OVERFLOWS) == []
    assert page.evaluate(SMALL) == []
    pictures = page.locator("img").evaluate_all("(all) => all.map((p) => [p.naturalWidth, p.alt])")
    assert pictures and all(width > 0 and len(alt) > 20 for width, alt in pictures)
    assert page.locator("merror").count() == 0 and page.locator("math").count() > 5
    pdf = page.pdf(prefer_css_page_size=True, print_background=True)
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) == page.evaluate("slides.length")
    page.emulate_media(media="print")
    assert all(each.is_visible() for each in page.locator(".answer").all())
    assert not any(each.is_visible() for each in page.locator(".notes").all())


def test_formulas_have_the_font_that_is_shipped(visit):
    page = visit(DECKS[0])
    loaded = "async () => (await document.fonts.ready).check('20px \"STIX Two Math\"')"
    status = "[...document.fonts].map((face) => face.status)"
    assert page.evaluate(loaded) and page.evaluate(status) == ["loaded"]
    assert "STIX Two Math" in page.evaluate(
        "getComputedStyle(document.querySelector('math')).fontFamily"
    )


def test_a_slide_is_as_wide_as_the_window_allows(visit):
    page = visit(DECKS[0])
    for width, height in ((1280, 720), (1920, 1080), (1024, 768)):
        page.set_viewport_size({"width": width, "height": height})
        page.wait_for_function(
            "(width) => Math.abs(slides[now].getBoundingClientRect().width - width) <= 1", arg=width
        )


def test_the_keys_show_the_answer_then_the_next_slide_and_lead_back(visit):
    page = visit(DECKS[0])
    answer = page.locator(".now .fragment")

    def where():
        return page.evaluate("now") + 1, answer.count() > 0 and answer.is_visible()

    assert where() == (1, False)  # the first slide has no question
    seen = []
    for key in ("ArrowRight", " ", "PageDown", "ArrowLeft", "ArrowLeft", "End", "Home"):
        page.keyboard.press(key)
        seen.append(where())
    last = page.evaluate("slides.length")
    forth, back = [(2, False), (2, True), (3, False)], [(2, True), (2, False)]
    assert seen == [*forth, *back, (last, False), (1, False)]
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.id") == "2" and page.url.endswith("#2")
    notes = page.locator(".now .notes")
    assert not notes.is_visible()
    page.keyboard.press("n")
    assert notes.is_visible() and len(notes.inner_text()) > 100
    box = notes.bounding_box()
    assert box["y"] + box["height"] <= 721


def test_a_number_and_enter_lead_to_that_slide(visit):
    page = visit(DECKS[0])
    last = page.evaluate("slides.length")
    reached = []
    for keys in (["1", "8", "Enter"], ["7", "Enter"], ["9", "9", "Enter"], ["5", "Home", "Enter"]):
        for key in keys:
            page.keyboard.press(key)
        reached.append(page.evaluate("now") + 1)
    assert reached == [18, 7, last, 2]  # another key between: the number is forgotten
    page.focus("#back")
    page.keyboard.press("3")
    page.keyboard.press("Enter")  # a number wins over the button
    assert page.evaluate("now") == 2 and not page.locator(".now .fragment").is_visible()


def test_the_speakers_window_follows_and_turns_slides(visit):
    page = visit(DECKS[0])
    with page.expect_popup() as opened:
        page.keyboard.press("s")
    speaker = opened.value
    page.keyboard.press("ArrowRight")
    question = page.locator(".now h2").inner_text()
    assert speaker.locator("h2").inner_text() == f"2. {question}"
    assert len(speaker.locator("body").inner_text()) > len(question) + 200
    speaker.keyboard.press("ArrowRight")  # the answer
    speaker.keyboard.press("ArrowRight")
    assert page.evaluate("now") == 2 and speaker.locator("h2").inner_text().startswith("3. ")
    assert (
        speaker.evaluate("getComputedStyle(document.body).fontSize") == "20px"
    )  # it has the style


def test_buttons_do_what_the_keys_do(visit):
    page = visit(DECKS[0])
    page.click("#next")
    page.click("#next")
    assert page.evaluate("now") == 1 and page.locator(".now .fragment").is_visible()
    page.click("#back")
    assert not page.locator(".now .fragment").is_visible()
    page.focus("#next")
    page.keyboard.press("Enter")
    assert page.evaluate("now") == 1 and page.locator(".now .fragment").is_visible()
    page.focus("#back")
    page.keyboard.press("Enter")  # on a button it is the button's key
    assert page.evaluate("now") == 1 and not page.locator(".now .fragment").is_visible()


def test_with_scripts_off_all_slides_stand_one_below_the_other(visit):
    page = visit(DECKS[0], java_script_enabled=False)
    slides = page.locator(".slide").all()
    assert len(slides) >= 25 and all(each.is_visible() for each in slides)
    assert all(each.is_visible() for each in page.locator(".answer").all())
