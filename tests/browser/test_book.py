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
EXERCISES = sorted(path.stem for path in (ROOT / "exercises").glob("*.ipynb"))
WIDE, TELEPHONE = {"width": 1280, "height": 850}, {"width": 375, "height": 740}
CPU_SECONDS = 120
SERIOUS = ("serious", "critical")
OF_COLOUR = ("color-contrast", "link-in-text-block")
KINDS = ("requests", "errors", "broken", "cut code", "axe", "text at 200 %", "telephone")
KINDS += ("telephone, text at 200 %", "colours, light", "colours, dark")

# Runs axe-core with these rules, or without, and gives what it found in the words that a person
# needs. The thousand strokes of a formula are left out: they are hidden from readers of screens,
# who are given its MathML.
AXE = """async ([serious, rules, enabled]) => {
    const where = {exclude: [["mjx-container > svg[aria-hidden='true']"]]};
    const these = enabled ? {runOnly: rules}
        : {rules: Object.fromEntries(rules.map((id) => [id, {enabled}]))};
    const {violations} = await axe.run(where, {
        preload: false, resultTypes: ["violations"], ...these,
    });
    return violations.filter(({impact}) => serious.includes(impact)).flatMap(({id, nodes}) =>
        nodes.map(({html}) => `${id}: ${html.slice(0, 150)}`));
}"""
# Colours take axe-core a minute on a long lesson, whose code has ten thousand words in a dozen
# colours: of those that have the same classes and the same ground, the two longest stay.
FEWER = """() => {
    const kind = (it) => it && [it.tagName, ...["class", "style"].map((a) => it.getAttribute(a))];
    const ground = (it) => {
        const {backgroundColor} = getComputedStyle(it);
        const clear = backgroundColor === "rgba(0, 0, 0, 0)" && it.parentElement;
        return clear ? ground(it.parentElement) : backgroundColor;
    };
    const leaves = [...document.querySelectorAll("body *")].filter((it) => !it.children.length);
    const alike = Map.groupBy(leaves, (it) => {
        const above = it.parentElement;
        return JSON.stringify([it, above, above.parentElement].map(kind).concat(ground(it)));
    });
    const longest = (one, other) => other.textContent.length - one.textContent.length;
    for (const them of alike.values())
        them.sort(longest).slice(2).forEach((it) => it.remove());
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
# Code has a hundred columns at most: on an ordinary screen all of it is seen.
CUT = """() => [...document.querySelectorAll("div.cell_input pre")].filter((it) =>
    it.scrollWidth > it.clientWidth + 1).map((it) => it.innerText.slice(0, 150))"""
# What a reader should not see: formulas in red, pictures that are missing or without words.
BROKEN = """() => [
    ...document.querySelectorAll("mjx-merror, [data-mjx-error], .problematic, .stderr"),
    ...[...document.images].filter((it) => !it.complete || !it.naturalWidth || !it.alt),
].map((it) => it.outerHTML.slice(0, 150))"""


@pytest.fixture(scope="module")
def maker():
    """The program that makes the book, as a module."""
    file = ROOT / "teaching" / "book" / "make.py"
    spec = importlib.util.spec_from_file_location("make_book", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def made(maker, tmp_path_factory):
    """The folder of a new book, and the seconds that two cores worked on it."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    html = maker.make(tmp_path_factory.mktemp("book"), repository="owner/name")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return html, seconds


@pytest.fixture(scope="module")
def book(made):
    return made[0]


@pytest.fixture(scope="module")
def pages(book):
    others = ("_static", "slides", "worksheets", "exam")  # for paper, with tests of their own
    found = sorted(path for path in book.rglob("*.html") if not set(others) & {*path.parts})
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
        note("cut code", page.evaluate(CUT))
        page.evaluate(axe)
        note("axe", page.evaluate(AXE, [SERIOUS, OF_COLOUR, False]))
        page.evaluate("document.documentElement.style.fontSize = '200%'")
        note("text at 200 %", page.evaluate(STICKS_OUT))
        page.evaluate("document.documentElement.style.fontSize = ''")
        page.set_viewport_size(TELEPHONE)
        note("telephone", page.evaluate(STICKS_OUT))
        page.evaluate("document.documentElement.style.fontSize = '200%'")
        note("telephone, text at 200 %", page.evaluate(STICKS_OUT))
        page.evaluate("document.documentElement.style.fontSize = ''")
        page.set_viewport_size(WIDE)
        page.evaluate(FEWER)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            page.evaluate(f"document.documentElement.dataset.theme = '{scheme}'")
            page.evaluate(DRAWN)
            note(f"colours, {scheme}", page.evaluate(AXE, [SERIOUS, OF_COLOUR, True]))
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


def squeezed(text: str) -> str:
    return re.sub(r"\s+", "", text)


def cells_of(folder, name) -> list[dict]:
    """Return the cells of a notebook, each source as one string."""
    cells = json.loads((ROOT / folder / f"{name}.ipynb").read_text("utf-8"))["cells"]
    return [cell | {"source": "".join(cell["source"])} for cell in cells]


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
    page = squeezed(text_of((book / "notebooks" / f"{name}.html").read_text("utf-8")))
    for cell in cells_of("notebooks", name):
        for output in cell.get("outputs", []):
            printed = "".join(output.get("text", []))
            assert squeezed(printed) in page, printed


@pytest.mark.parametrize("name", LESSONS)
def test_a_figure_is_described_in_the_words_of_its_notebook_and_leads_to_its_file(book, name):
    page = (book / "notebooks" / f"{name}.html").read_text("utf-8")
    linked = r'<a class="figure" href="([^"]+)"><img alt="([^"]+)" src="\1"'
    words = [unescape(alt) for _, alt in re.findall(linked, page)]
    drawn = [
        cell["metadata"]["alt"]
        for cell in cells_of("notebooks", name)
        if any("image/png" in output.get("data", {}) for output in cell.get("outputs", []))
    ]
    assert words == drawn and len(drawn) >= 2
    explorables = page.count('<div class="explorable"')  # each draws a still picture beside it
    assert page.count("<img ") == len(drawn) + explorables


@pytest.mark.parametrize(
    ("folder", "name"),
    [("notebooks", name) for name in LESSONS] + [("exercises", name) for name in EXERCISES],
)
def test_a_notebook_can_be_downloaded_as_it_is(book, folder, name):
    page = (book / folder / f"{name}.html").read_text("utf-8")
    (link,) = set(re.findall(rf'href="([^"]*_downloads/[^"]*/{name}\.ipynb)"', page))
    assert (book / folder / link).read_bytes() == (ROOT / folder / f"{name}.ipynb").read_bytes()


@pytest.mark.parametrize("name", EXERCISES)
def test_exercises_can_be_read_beside_their_lesson(book, name):
    lesson = (book / "notebooks" / f"{name}.html").read_text("utf-8")
    assert re.search(rf'href="\.\./exercises/{name}\.html"><span[^>]*>Exercises</span>', lesson)
    html = (book / "exercises" / f"{name}.html").read_text("utf-8")
    page, cells = squeezed(text_of(html)), cells_of("exercises", name)
    assert [cell for cell in cells if cell.get("outputs")] == []
    for cell in cells:
        assert cell["cell_type"] == "markdown" or squeezed(cell["source"]) in page
    hints = "".join(cell["source"] for cell in cells).count("<details>")
    assert html.count("<details>") == hints >= 10


def test_no_solution_is_in_the_book(book):
    solution = re.compile(r"### BEGIN SOLUTION\n(.+?)### END SOLUTION", re.DOTALL)
    for name in EXERCISES:
        page = squeezed(text_of((book / "exercises" / f"{name}.html").read_text("utf-8")))
        code = "".join(cell["source"] for cell in cells_of("solutions", name))
        answers = [squeezed(answer) for answer in solution.findall(code)]
        assert len(answers) >= 4
        assert [answer for answer in answers if answer in page] == []
    assert len(list(book.rglob("*.ipynb"))) == len(LESSONS) + len(EXERCISES)


@pytest.mark.parametrize("name", LESSONS)
def test_chinese_is_called_chinese(book, name):
    page = (book / "notebooks" / f"{name}.html").read_text("utf-8")
    prose = re.sub(r"<pre>.*?</pre>", "", page.partition("<article")[2], flags=re.DOTALL)
    unnamed = re.sub(r'<span lang="zh">[^<]+</span>', "", prose)
    assert re.findall(r"[\u4e00-\u9fff]+", text_of(unnamed)) == []


@pytest.mark.parametrize(
    ("number", "page"), [("00", "dates"), ("02", "head"), ("08", "dates"), ("09", "dates")]
)
def test_a_lesson_leads_to_the_page_in_which_its_model_runs_and_from_there_home(book, number, page):
    (lesson,) = (book / "notebooks").glob(f"{number}_*.html")
    assert f'<a href="../teaching/made/page/{page}.html">' in lesson.read_text("utf-8")
    model = (book / "teaching" / "made" / "page" / f"{page}.html").read_text("utf-8")
    assert '<a href="../../../index.html">Transformer Lab</a>' in model


def test_it_leads_to_slides_worksheets_and_the_quiz(book):
    page = (book / "teaching" / "made" / "index.html").read_text("utf-8")
    for name in LESSONS:
        assert f'<a href="slides/{name[:2]}.html">slides</a>' in page
    assert {"worksheets/01_key.html", "exam/questions.html", "quiz/claims.gift"} <= {
        link for link in re.findall(r'<a href="([^"]+)"', page)
    }


@pytest.mark.parametrize("name", LESSONS)
def test_a_lesson_has_a_pdf_of_several_pages(book, chromium, name):
    printed = (book / "pdf" / f"{name}.pdf").read_bytes()
    assert printed.startswith(b"%PDF")
    assert len(re.findall(rb"/Type\s*/Page\b", printed)) >= 5


def test_all_lessons_are_in_one_volume_with_their_titles(book):
    from pypdf import PdfReader

    volume = PdfReader(book / "pdf" / "transformer-lab.pdf")
    titles = [part.title[:2] for part in volume.outline if not isinstance(part, list)]
    assert titles == [name[:2] for name in LESSONS]
    assert 'href="pdf/transformer-lab.pdf"' in (book / "index.html").read_text("utf-8")


def test_the_book_for_students_has_neither_teaching_nor_papers(maker, tmp_path):
    html = maker.make(tmp_path, pdf=False, students=True)
    pages = {path.relative_to(html).as_posix() for path in html.rglob("*.html")}
    assert not [page for page in pages if re.search("exam|worksheet|slides|PLAN|grading", page)]
    assert {f"notebooks/{name}.html" for name in LESSONS} <= pages
    assert "teaching/made/page/dates.html" in pages and "hans/index.html" in pages


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


def test_the_first_page_says_where_the_course_is_and_how_it_starts(book, maker):
    html = (book / "index.html").read_text("utf-8")
    page = text_of(html)
    assert 'href="https://github.com/owner/name"' in html
    commands = re.findall(r"^make \w+ +# .+$", page, re.MULTILINE)
    assert len(commands) == 2
    assert "\n".join(commands) in (ROOT / "README.md").read_text("utf-8")
    source = (ROOT / "teaching" / "book" / "pages" / "index.md").read_text("utf-8")
    assert "the folder that this book was built from." in maker.first_page(
        source, pdf=False, repository=""
    )


# ---- What a reader does


def test_the_keyboard_leads_from_the_top_to_the_next_lesson(lesson):
    lesson.keyboard.press("Tab")
    assert lesson.evaluate("document.activeElement.innerText").startswith("Skip to main content")
    lesson.keyboard.press("Enter")
    tab_to(lesson, "a.right-next")
    assert lesson.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
    lesson.keyboard.press("Enter")
    lesson.wait_for_url(f"**/exercises/{LESSONS[2]}.html")
    assert lesson.get_attribute("a.left-prev", "href") == f"../notebooks/{LESSONS[2]}.html"
    for page in (f"notebooks/evidence/{LESSONS[2]}", f"notebooks/{LESSONS[3]}"):
        lesson.locator("a.right-next").press("Enter")
        lesson.wait_for_url(f"**/{page}.html")


def test_the_second_key_leads_to_the_contents_of_the_page(lesson):
    tab_to(lesson, "a.to-contents", most=2)
    lesson.keyboard.press("Enter")
    tab_to(lesson, "#pst-page-toc-nav a[href='#what-you-will-be-able-to-do']", most=1)


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
    assert lesson.locator("ul.search a[href*='exercises/']").count() == 0  # stubs tell nothing new


@pytest.mark.parametrize(
    ("words", "number"),
    [("causal mask", "04"), ("multi-head attention", "03"), ("beam search", "09"), ("bleu", "10")],
)
def test_the_search_names_the_lesson_of_a_topic_first(lesson, words, number):
    lesson.goto(f"{lesson.url.partition('/notebooks/')[0]}/search.html?q={words}")
    lesson.wait_for_selector("ul.search li a")
    lesson.wait_for_timeout(500)  # it lists what it finds one by one
    first = lesson.locator("ul.search li a").first.get_attribute("href")
    assert first.startswith(f"notebooks/{number}_")


def test_the_glossary_can_be_put_in_three_orders(lesson):
    lesson.goto(f"{lesson.url.partition('/notebooks/')[0]}/glossary.html")

    def words(where):
        found = lesson.locator(f"dl.glossary {where}")
        return found.evaluate_all("(all) => all.map((it) => it.firstChild.textContent)")

    english = words("dt")
    assert len(english) >= 150 and english == sorted(english, key=str.lower)
    lesson.get_by_role("button", name="简体").click()
    simplified = words("[lang=zh-Hans]:first-child")
    assert simplified.index("编码器") < simplified.index("层归一化") < simplified.index("注意力")
    assert sorted(words("dt")) == sorted(english)
    lesson.get_by_role("button", name="English").click()
    assert words("dt") == english


def test_the_navigation_opens_by_keyboard_on_a_telephone(lesson):
    lesson.set_viewport_size(TELEPHONE)
    tab_to(lesson, "button.primary-toggle")
    lesson.keyboard.press("Enter")
    tab_to(lesson, f"dialog[open] a[href='{LESSONS[4]}.html']")
    lesson.keyboard.press("Enter")
    lesson.wait_for_url(f"**/{LESSONS[4]}.html")


@pytest.mark.parametrize(
    "name",
    ["index", "glossary", "search", "teaching/PLAN", "api/index", f"exercises/{EXERCISES[3]}"],
)
def test_the_menu_of_a_telephone_lists_the_lessons_on_every_page(book, chromium, name):
    context = chromium.new_context(viewport=TELEPHONE)
    page = context.new_page()
    page.goto((book / f"{name}.html").as_uri())
    page.locator("button.primary-toggle").click()
    links = page.locator("dialog[open] nav.bd-docs-nav a").all()
    found = [Path(urlsplit(it.evaluate("it => it.href")).path) for it in links if it.is_visible()]
    lessons = [path.stem for path in found if path.parent == book / "notebooks"]
    assert [stem for stem in lessons if stem in LESSONS] == LESSONS
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_is_wider_than_a_telephone_has_a_shadow_where_there_is_more(book, chromium, scheme):
    context = chromium.new_context(viewport=TELEPHONE, color_scheme=scheme)
    page = context.new_page()
    page.goto((book / "notebooks" / f"{LESSONS[4]}.html").as_uri())
    page.wait_for_selector("pre[data-more]:visible")
    shadows = """() => ["mjx-container", "div.cell_input pre", "div.cell_output pre",
        ".pst-scrollable-table-container"].flatMap((kind) => [...document.querySelectorAll(kind)])
        .filter((it) => it.scrollWidth > it.clientWidth + 8)
        .map((it) => getComputedStyle(it).boxShadow.split("inset").length - 1)"""
    page.evaluate("document.querySelectorAll('details').forEach(it => it.open = true)")
    page.evaluate(DRAWN)
    assert set(page.evaluate(shadows)) == {1}  # also in what has just been opened
    box = page.locator("div.cell_output pre[data-more]:visible").first
    box.evaluate("(it) => { it.scrollLeft = 20 }")
    page.wait_for_function("document.querySelector('[data-more=leftright]')")
    assert 2 in page.evaluate(shadows)
    box.evaluate("(it) => { it.scrollLeft = 2000 }")
    page.wait_for_function("document.querySelector('[data-more=left]')")
    context.close()


def test_a_figure_is_enlarged_by_a_tap_and_by_the_keyboard(lesson):
    lesson.set_viewport_size(TELEPHONE)
    figure, size = lesson.locator("a.figure").first, "(it) => [it.width, it.naturalWidth]"
    shown, own = figure.locator("img").evaluate(size)
    assert shown < own - 100
    figure.click()
    assert figure.locator("img").evaluate(size) == [own, own]
    assert lesson.evaluate(STICKS_OUT) == []
    figure.press("Enter")
    assert figure.locator("img").evaluate(size) == [shown, own]


def test_the_query_of_lesson_02_moves_in_the_book(lesson, query_on):
    seen = query_on(lesson)
    seen.drag(1, -1)
    assert seen.asked() == [2, 0]
    seen.check()
    lesson.keyboard.press("ArrowUp")
    assert seen.asked() == [2, 0.1]
    seen.check()
    for theme, color in (("dark", "rgb(23, 23, 27)"), ("light", "rgb(255, 255, 255)")):
        lesson.evaluate("(theme) => { document.documentElement.dataset.theme = theme }", theme)
        lesson.wait_for_function(
            "(color) => [...document.querySelectorAll('[data-explorable]')].every((it) => "
            "getComputedStyle(it.shadowRoot.querySelector('.app')).backgroundColor === color)",
            arg=color,
        )


def test_the_query_of_lesson_02_follows_a_finger_in_the_book(book, chromium, query_on):
    context = chromium.new_context(viewport=TELEPHONE, has_touch=True, is_mobile=True)
    page = context.new_page()
    page.goto((book / "notebooks" / f"{LESSONS[2]}.html").as_uri())
    seen = query_on(page)
    seen.touch(-2, -2)
    assert seen.asked() == pytest.approx([-1, -1], abs=0.051)
    seen.check()
    context.close()


@pytest.mark.parametrize("size", [WIDE, TELEPHONE])
def test_the_reader_of_lesson_11_reads_a_date_in_the_book(book, chromium, size):
    context = chromium.new_context(viewport=size)
    page = context.new_page()
    page.goto((book / "notebooks" / f"{LESSONS[11]}.html").as_uri())
    app = page.locator("[data-explorable=reader] .app")
    app.get_by_role("textbox").fill("1.11.1923")
    app.get_by_role("button", name="Write").click()
    app.get_by_label("cross 2.1", exact=True).check()
    app.get_by_role("button", name="Switch cross 2.1 off").click()
    words = "1 head is off, and it writes 1923-11-11, no longer 1923-11-01."
    assert app.locator(".verdict").inner_text() == words
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    context.close()


def test_code_can_be_copied(lesson):
    copied = "document.addEventListener('copy', () => { copied = document.activeElement.value })"
    lesson.evaluate(f"window.copied = ''; {copied}")
    cell = lesson.locator("div.cell_input:visible").first
    button = cell.locator("button.copybtn")
    button.press("Enter")
    assert lesson.evaluate("copied").strip() == cell.locator("pre").inner_text().strip() != ""
    lesson.wait_for_timeout(100)
    assert button.evaluate("(it) => document.activeElement === it"), "Tab goes on from the top"
