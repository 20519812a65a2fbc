"""How a lesson looks in JupyterLab: light and dark, on a wide screen and on a narrow one."""

import json

import pytest

pytestmark = pytest.mark.timeout(600)  # a shared machine can be slow

LESSONS = {  # each in one theme: what is measured is the same in both
    "00_start_here": "Light",
    "02_scaled_dot_product_attention": "Dark",
    "06_the_layer": "Light",
    "11_looking_inside": "Dark",
}
WIDTHS = (1440, 1024)

# The most characters on a line of the paragraphs without formulas.
LONGEST_LINE = """() => {
    const range = document.createRange();
    const lines = {};
    const texts = [...document.querySelectorAll(".jp-RenderedMarkdown > p")]
        .filter((p) => !p.querySelector("mjx-container, br"));
    for (const [which, paragraph] of texts.entries()) {
        const walker = document.createTreeWalker(paragraph, NodeFilter.SHOW_TEXT);
        for (let text; (text = walker.nextNode());)
            for (let i = 0; i < text.length; i++) {
                range.setStart(text, i);
                range.setEnd(text, i + 1);
                const line = `${which} ${Math.round(range.getBoundingClientRect().bottom / 8)}`;
                lines[line] = (lines[line] || 0) + 1;
            }
    }
    return Math.max(...Object.values(lines));
}"""

# Where things of a kind begin, counted from the notebook's left, in pixels.
LEFT_EDGES = """() => Object.fromEntries(Object.entries({
    text: ".jp-RenderedMarkdown > p",
    heading: ".jp-RenderedMarkdown > h2",
    table: ".jp-RenderedMarkdown > table",
    box: ".jp-RenderedMarkdown > blockquote",
    figure: ".jp-OutputArea-output img",
    source: ".jp-RenderedMarkdown > pre",
    printed: ".jp-OutputArea-output.jp-RenderedText > pre",
    formula: "mjx-container[display='true'] > mjx-math",
}).map(([kind, selector]) => {
    const left = document.querySelector(".jp-Notebook").getBoundingClientRect().left;
    const parts = [...document.querySelectorAll(selector)].filter((it) => it.offsetParent);
    const edges = parts.map((it) => Math.round(it.getBoundingClientRect().left - left));
    return [kind, [...new Set(edges)]];
}))"""

CUT_OFF = """() => [...document.querySelectorAll(".jp-RenderedMarkdown, mjx-container, table")]
    .filter((it) => it.scrollWidth > it.clientWidth + 1 && it.clientWidth > 0)
    .map((it) => it.innerText.slice(0, 80) || it.outerHTML.slice(0, 80))"""

BOXES = """() => [...document.querySelectorAll(".jp-RenderedMarkdown > blockquote")].map((box) => {
    const { backgroundColor, borderTopWidth } = getComputedStyle(box);
    const page = getComputedStyle(box.closest(".jp-Notebook")).backgroundColor;
    return ![page, "rgba(0, 0, 0, 0)"].includes(backgroundColor) && parseFloat(borderTopWidth) > 0;
})"""


@pytest.fixture
def theme(lab, request):
    file = lab["settings"] / "apputils-extension" / "themes.jupyterlab-settings"
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps({"theme": f"JupyterLab {request.param}"}))
    yield request.param
    file.unlink()


@pytest.mark.parametrize(("name", "theme"), LESSONS.items(), indirect=["theme"])
def test_a_lesson_is_one_column_of_readable_lines_with_boxes(open_notebook, theme, name):
    lesson = open_notebook(f"notebooks/{name}.ipynb")
    page = lesson.page
    assert page.locator("body").get_attribute("data-jp-theme-name").endswith(theme)
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        lesson.screenshot_pages(f"{theme.lower()}_{width}")
        longest = page.evaluate(LONGEST_LINE)
        assert 60 <= longest <= 92, f"{longest} characters on a line"
        edges = page.evaluate(LEFT_EDGES)
        formulas = edges.pop("formula")  # further in than the rest, and all alike
        column = [edge for each in edges.values() for edge in each]
        assert max(column) - min(column) <= 4, edges
        assert not formulas or (max(formulas) - min(formulas) <= 4 and min(formulas) > max(column))
        assert width < 1440 or page.evaluate(CUT_OFF) == []
        boxes = page.evaluate(BOXES)
        assert boxes and all(boxes)
    assert page.locator(".Toastify__toast").count() == 0  # no news, nothing to dismiss
    assert lesson.errors() == []
