"""The book as a reader has it: built from nothing, opened from its folder, in a real Chromium.

Each page is visited once, at three sizes and in both colours; the tests then say what was seen.
`make test-book` runs them; `make test` leaves them out.
"""

import importlib.util
import json
import re
import resource
from html import unescape
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import transformer_lab

pytestmark = [pytest.mark.book, pytest.mark.timeout(1800)]  # the first test builds and visits all

ROOT = Path(__file__).resolve().parents[2]
LESSONS = sorted(path.stem for path in (ROOT / "notebooks").glob("[0-9]*.ipynb"))
WIDE, TELEPHONE = {"width": 1280, "height": 850}, {"width": 375, "height": 740}
CPU_SECONDS = 120
SERIOUS = ("serious", "critical")
OF_COLOUR = ("color-contrast", "link-in-text-block")  # the rest is the same in the dark
KINDS = ("requests", "errors", "broken", "axe, light", "axe, dark", "text at 200 %", "telephone")

# Runs axe-core, and gives what it found in the words that a person needs. The thousand strokes of
# a formula are left out: they are hidden from readers of screens, who are given its MathML.
AXE = """async ([serious, rules]) => {
    const where = {exclude: [["mjx-container > svg[aria-hidden='true']"]]};
    const {violations} = await axe.run(where, {
        preload: false, resultTypes: ["violations"], ...(rules && {runOnly: rules}),
    });
    return violations.filter(({impact}) => serious.includes(impact)).flatMap(({id, nodes}) =>
        nodes.map(({html}) => `${id}: ${html.slice(0, 150)}`));
}"""
# A cell that opens fades in, and a colour read on the way is nobody's choice.
STILL = "*, *::before, *::after { animation: none !important; transition: none !important; }"
# The second frame is drawn after whatever the page itself does when the colours change.
DRAWN = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
# Where a page has to be scrolled sideways; a table or a piece of code alone may.
STICKS_OUT = """() => {
    const whole = "html, main, .bd-content, .bd-article-container, article, article section";
    const wide = [...document.querySelectorAll(whole)].filter((it) =>
        it.clientWidth && it.scrollWidth > it.clientWidth + 1);
    return wide.slice(-1).flatMap((it) => [...it.querySelectorAll("*")].filter((inner) =>
        inner.getBoundingClientRect().right > it.getBoundingClientRect().right + 1)
        .slice(-3).concat(it).map((inner) => inner.outerHTML.slice(0, 120)));
}"""
# What a reader should not see: formulas in red, pictures that are missing or without words.
BROKEN = """() => [
    ...document.querySelectorAll("mjx-merror, [data-mjx-error], .problematic, .stderr"),
    ...[...document.images].filter((it) => !it.complete || !it.naturalWidth || !it.alt),
].map((it) => it.outerHTML.slice(0, 150))"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The folder of a new book, and the seconds that two cores worked on it."""
    file = ROOT / "teaching" / "book" / "make.py"
    spec = importlib.util.spec_from_file_location("make_book", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    html = module.make(tmp_path_factory.mktemp("book"), repository="owner/name")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return html, seconds


@pytest.fixture(scope="module")
def book(made):
    return made[0]


@pytest.fixture(scope="module")
def pages(book):
    found = sorted(path for path in book.rglob("*.html") if "_static" not in path.parts)
    assert len(found) > 2 * len(LESSONS)
    return found


@pytest.fixture(scope="module")
def axe():
    folder = importlib.util.find_spec("axe_playwright_python").submodule_search_locations[0]
    return Path(folder, "axe.min.js").read_text("utf-8")


@pytest.fixture(scope="module")
def seen(book, pages, axe, chromium):
    """Everything that is wrong with each page, by kind: {kind: {page: [faults]}}."""
    found = {}
    context = chromium.new_context(viewport=WIDE)
    for path in pages:
        page, name = context.new_page(), path.relative_to(book).as_posix()

        def note(kind, faults, name=name):
            if faults:
                found.setdefault(kind, {}).setdefault(name, []).extend(faults)

        page.on("request", lambda it, note=note: note("requests", foreign(it.url)))
        page.on("requestfailed", lambda it, note=note: note("errors", missing(it)))
        page.on("pageerror", lambda it, note=note: note("errors", [str(it)]))
        page.goto(path.as_uri())
        page.add_style_tag(content=STILL)
        page.evaluate("window.MathJax?.startup?.promise")
        page.evaluate("document.querySelectorAll('details').forEach(it => it.open = true)")
        page.evaluate(DRAWN)
        note("broken", page.evaluate(BROKEN))
        page.evaluate(axe)
        note("axe, light", page.evaluate(AXE, [SERIOUS, None]))
        page.emulate_media(color_scheme="dark")
        page.evaluate("document.documentElement.dataset.theme = 'dark'")
        page.evaluate(DRAWN)
        note("axe, dark", page.evaluate(AXE, [SERIOUS, OF_COLOUR]))
        page.evaluate("document.documentElement.style.fontSize = '200%'")
        note("text at 200 %", page.evaluate(STICKS_OUT))
        page.evaluate("document.documentElement.style.fontSize = ''")
        page.set_viewport_size(TELEPHONE)
        note("telephone", page.evaluate(STICKS_OUT))
        page.close()
    context.close()
    return found


@pytest.fixture
def lesson(book, chromium):  # the book first: it starts a Chromium of its own
    """A page with lesson 02 open, and a way to press Tab until something has the focus."""
    context = chromium.new_context(viewport=WIDE)
    page = context.new_page()
    page.goto((book / "notebooks" / f"{LESSONS[2]}.html").as_uri())
    page.evaluate("MathJax.startup.promise")
    yield page
    context.close()


def missing(request) -> list[str]:
    """Return the address of what is not there; what the closing page did not wait for may be."""
    return [] if "ERR_ABORTED" in request.failure else [f"{request.url}: {request.failure}"]


def foreign(address: str) -> list[str]:
    """Return the address if it leaves the book's folder."""
    return [] if urlsplit(address).scheme in ("file", "data", "blob") else [address]


def tab_to(page, selector, most=400):
    """Press Tab until the selected element has the focus."""
    for _ in range(most):
        page.keyboard.press("Tab")
        if page.evaluate("(s) => document.activeElement.matches(s)", selector):
            return
    pytest.fail(f"{most} times Tab never came to {selector}")


def text_of(html: str) -> str:
    return unescape(re.sub(r"<[^>]+>", "", html))


# ---- The whole book


def test_it_is_built_in_two_minutes_of_one_core(made):
    assert made[1] < CPU_SECONDS


@pytest.mark.parametrize("kind", KINDS)
def test_no_page_has_a_fault(seen, kind):
    assert seen.get(kind, {}) == {}


def test_every_internal_link_leads_somewhere(book, pages):
    text = {path: path.read_text("utf-8") for path in pages}
    anchors = {
        path: {unquote(name) for name in re.findall(r'\b(?:id|name)="([^"]+)"', html)}
        for path, html in text.items()
    }
    dead = []
    for path, html in text.items():
        for link in set(re.findall(r'\b(?:href|src)="([^"]+)"', html)):
            address = urlsplit(text_of(link))
            if address.scheme or address.netloc:
                continue
            target = (path.parent / unquote(address.path)).resolve() if address.path else path
            fragment = unquote(address.fragment)
            known = anchors.get(target, {fragment})  # a file that is no page has no anchors
            if not target.is_file() or (fragment and fragment not in known):
                dead.append((path.name, link))
    assert dead == []


# ---- What a lesson has


@pytest.mark.parametrize("name", LESSONS)
def test_a_lesson_is_there_with_all_its_outputs(book, name):
    page = text_of((book / "notebooks" / f"{name}.html").read_text("utf-8"))
    squeezed = re.sub(r"\s+", "", page)
    for cell in json.loads((ROOT / "notebooks" / f"{name}.ipynb").read_text("utf-8"))["cells"]:
        for output in cell.get("outputs", []):
            printed = "".join(output.get("text", []))
            assert re.sub(r"\s+", "", printed) in squeezed, printed


@pytest.mark.parametrize("name", LESSONS)
def test_notebook_and_exercises_can_be_downloaded_as_they_are(book, name):
    page = (book / "notebooks" / f"{name}.html").read_text("utf-8")
    links = set(re.findall(rf'href="([^"]*_downloads/[^"]*/{name}\.ipynb)"', page))
    loaded = {(book / "notebooks" / link).resolve().read_bytes() for link in links}
    files = (ROOT / folder / f"{name}.ipynb" for folder in ("notebooks", "exercises"))
    assert loaded == {file.read_bytes() for file in files if file.is_file()}


@pytest.mark.parametrize("name", LESSONS)
def test_a_lesson_has_a_pdf_of_several_pages(book, chromium, name):
    printed = (book / "pdf" / f"{name}.pdf").read_bytes()
    assert printed.startswith(b"%PDF")
    assert len(re.findall(rb"/Type\s*/Page\b", printed)) >= 5


@pytest.mark.parametrize("name", LESSONS)
def test_a_lesson_links_its_terms_once_each(book, name):
    page = (book / "notebooks" / f"{name}.html").read_text("utf-8")
    terms = re.findall(r'class="term reference internal" href="\.\./glossary\.html#([^"]+)"', page)
    assert len(terms) >= 5
    assert sorted(terms) == sorted(set(terms))


@pytest.mark.parametrize("name", LESSONS)
def test_launch_links_are_filled_in(book, name):
    page = (book / "notebooks" / f"{name}.html").read_text("utf-8")
    assert "Binder · Colab · nbgitpuller" in text_of(page)
    links = re.findall(r'href="(https://[^"]*owner[^"]*)"', page)
    assert len(links) == 3
    assert all(name in link and "{" not in link for link in links)


def test_every_public_name_is_in_the_api(book):
    described = "".join(path.read_text("utf-8") for path in (book / "api").glob("*.html"))
    ids = {
        name.rsplit(".", 1)[-1] for name in re.findall(r'id="(transformer_lab[^"]+)"', described)
    }
    constants = {"BOS", "EOS", "PAD", "PRESETS", "UNK"}
    assert set(transformer_lab.__all__) - constants - ids == set()
    assert 'Float[Tensor, "B H Lq Lk"]' in text_of(described).replace("'", '"')


# ---- What a reader does


def test_the_keyboard_leads_from_the_top_to_the_next_lesson(lesson):
    lesson.keyboard.press("Tab")
    assert lesson.evaluate("document.activeElement.innerText").startswith("Skip to main content")
    lesson.keyboard.press("Enter")
    tab_to(lesson, "a.right-next")
    assert lesson.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
    lesson.keyboard.press("Enter")
    lesson.wait_for_url(f"**/{LESSONS[3]}.html")


def test_the_keyboard_changes_the_colours(lesson):
    tab_to(lesson, ".theme-switch-button")
    lesson.keyboard.press("Enter")
    tab_to(lesson, ".theme-change-button[data-mode='dark']")
    lesson.keyboard.press("Enter")
    lesson.wait_for_function("document.documentElement.dataset.theme == 'dark'")


@pytest.mark.parametrize("words", ["saturated", "注意力", "scaled_dot_product_attention"])
def test_the_search_finds_words_without_a_server(lesson, words):
    lesson.keyboard.press("Control+k")
    lesson.keyboard.type(words)
    lesson.keyboard.press("Enter")
    lesson.wait_for_url("**/search.html?q=*")
    lesson.wait_for_selector("ul.search li a")


def test_the_navigation_opens_by_keyboard_on_a_telephone(lesson):
    lesson.set_viewport_size(TELEPHONE)
    tab_to(lesson, "button.primary-toggle")
    lesson.keyboard.press("Enter")
    tab_to(lesson, f"dialog[open] a[href='{LESSONS[4]}.html']")
    lesson.keyboard.press("Enter")
    lesson.wait_for_url(f"**/{LESSONS[4]}.html")


def test_code_can_be_copied(lesson):
    copied = "document.addEventListener('copy', () => { copied = document.activeElement.value })"
    lesson.evaluate(f"window.copied = ''; {copied}")
    lesson.locator("div.cell_input button.copybtn").first.click(force=True)
    assert "import torch" in lesson.evaluate("copied")
