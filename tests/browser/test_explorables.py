"""Explorables in a real Chromium: on a page of their own, and in a lesson in JupyterLab.

Each moves with mouse, finger and keys; what it shows is compared with PyTorch and the package. In
the book: test_book.py.
"""

import importlib.util
import json
import math
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from course.explorables import beam, explorable, reader
from course.explorables.page import HERE, HINT
from course.workplace import fill, trust
from transformer_lab import MultiHeadAttention, date_pairs, sinusoidal_encoding
from transformer_lab.config import BOS, EOS, PAD
from transformer_lab.data import pad

pytestmark = pytest.mark.timeout(600)  # a shared machine can be slow

NAMES = ("query", "clocks", "beam", "reader")
ALL = pytest.mark.parametrize("name", NAMES)
TELEPHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>An explorable</title>
<meta name="viewport" content="width=device-width, initial-scale=1"></head>
<body><main><h1>An explorable</h1>{}</main></body></html>"""
# What a finger cannot meet: handles and buttons of less than 44 pixels.
SMALL = """() => [...document.querySelectorAll("[data-explorable]")].flatMap((host) =>
    [...host.shadowRoot.querySelectorAll(".handle .target, button, .pill, input[type=range]")])
    .map((it) => [it.outerHTML.slice(0, 80), it.getBoundingClientRect()])
    .filter(([, box]) => box.width < 43.5 || box.height < 43.5).map(([it]) => it)"""
# The same for what stands in a row so that a date stays on one line: they may be narrow.
NARROW = """() => [...document.querySelectorAll("[data-explorable]")].flatMap((host) =>
    [...host.shadowRoot.querySelectorAll(".piece-choice, .head, .typed input")])
    .map((it) => [it.outerHTML.slice(0, 80), it.getBoundingClientRect()])
    .filter(([, box]) => box.width < 24 || box.height < 43.5).map(([it]) => it)"""
# What the reader writes for each text, without one head: [text, written ids, their logits].
READ_AND_WRITE = """([texts, name, head, how]) => JSON.stringify(texts.map((text) => {
    const instead = (module, h, step) => module === name && h === head
        && outputOfNone(means, 16, how, module, h, step);
    const {written} = readAndWrite(model, tokenize(model, text), instead);
    return written.map(({token, logits}) => [token, logits.map((logit) => +logit.toFixed(5))]);
}))"""
# The weights that colour a line, and its texts; without a colour it is 0.
COLOURED = """(line) => [...line.querySelectorAll(".piece")].map((piece) =>
    [piece.textContent, Number(piece.style.getPropertyValue("--w"))])"""
# How far a hand has turned from twelve, clockwise: its tip is the fourth corner of its outline.
ANGLE = """(it) => {
    const { x, y } = it.points[3];
    const middle = it.ownerSVGElement.viewBox.baseVal.width / 2;
    return Math.atan2(x - middle, middle - y);
}"""
LIGHT, DARK = "rgb(255, 255, 255)", "rgb(23, 23, 27)"


@pytest.fixture
def visit(chromium, tmp_path):
    """Open a page with nothing but an explorable: `visit("query", numbers, …)`."""
    contexts, wrong = [], []

    def visit(name, numbers=None, **options):
        file = tmp_path / f"{name}.html"
        file.write_text(PAGE.format(explorable(name, **(numbers or {})).html), "utf-8")
        context = chromium.new_context(**({"viewport": {"width": 900, "height": 800}} | options))
        contexts.append(context)
        context.set_default_timeout(20_000)
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda it: wrong.append(it.url) if "//" in it.url[8:] else None)
        page.goto(file.as_uri())
        return page

    yield visit
    for context in contexts:
        context.close()
    assert wrong == []


def becomes(app, color):
    """Wait until the explorable has this background."""
    from playwright.sync_api import expect  # not at the top: without playwright, tests are skipped

    expect(app).to_have_css("background-color", color)


def said(page):
    return page.locator(".said").first.inner_text()


def numbers_in(text):
    return [
        float(part.replace("−", "-"))
        for part in text.replace(",", " ").split()
        if part[-1:].isdigit()
    ]


# ---- A query


def test_the_query_follows_the_mouse_and_its_weights_are_the_softmax(visit, query_on):
    seen = query_on(visit("query"))
    assert seen.asked() == [1, 1]
    seen.check()
    for dx, dy, asked in ((1, -1, [2, 0]), (-4, 1, [-2, 1]), (9, -9, [3, -3])):
        seen.drag(dx, dy)
        x, y = seen.grip()
        seen.page.mouse.move(x - 15, y - 15)  # let go of, it stays
        assert seen.asked() == asked
        seen.check()
    seen.app.get_by_role("button").click()
    assert seen.asked() == [1, 1]


def test_the_query_follows_the_keys_within_its_limits(visit, query_on):
    seen = query_on(visit("query"))
    seen.page.keyboard.press("Tab")
    for key, asked in {
        "ArrowRight": [1.1, 1],
        "ArrowDown": [1.1, 0.9],
        "Shift+ArrowLeft": [0.6, 0.9],
        "Shift+ArrowUp": [0.6, 1.4],
    }.items():
        seen.page.keyboard.press(key)
        assert seen.asked() == asked
        seen.check()
    for _ in range(8):
        seen.page.keyboard.press("Shift+ArrowUp")
    assert seen.asked() == [0.6, 3]
    ring = seen.tip.locator(".ring").evaluate("(it) => getComputedStyle(it).stroke")
    assert ring not in ("none", LIGHT)  # where the focus is can be seen


def test_the_query_follows_a_finger_while_the_page_stays(visit, query_on):
    seen = query_on(visit("query", **TELEPHONE))
    top = seen.page.evaluate("scrollY")
    seen.touch(-2, -2)
    assert seen.asked() == pytest.approx([-1, -1], abs=0.051)
    seen.check()
    assert seen.page.evaluate("scrollY") == top


def test_the_temperature_divides_the_scores(visit, query_on):
    seen = query_on(visit("query"))
    slider = seen.app.get_by_label("temperature")
    slider.focus()
    for key, temperature in (("Home", 0.1), ("End", 10.0)):
        seen.page.keyboard.press(key)
        assert float(slider.get_attribute("aria-valuetext")) == temperature
        seen.check(temperature)


def test_other_words_are_looked_up_as_well(visit, query_on):
    words = ("a", "b", "c", "d")
    keys = [[1.0, -2.0], [0.5, 0.25], [-1.0, 0.0], [0.0, 2.0]]
    values = [[3.0, 0.0], [-1.0, 1.0], [0.0, 2.0], [1.0, 1.0]]
    numbers = {"words": words, "keys": keys, "values": values, "query": [0.3, -0.7]}
    seen = query_on(visit("query", numbers))
    seen.check(keys=keys, values=values)
    seen.drag(1, 1)
    seen.check(keys=keys, values=values)


# ---- Clocks


def check_clocks(page, first, apart):
    """Each clock shows two numbers of the paper's code; the angles are those of the distance."""
    codes = sinusoidal_encoding(first + apart + 1, 8)
    clocks = page.locator(".clock").all()
    shown = [number for clock in clocks for number in numbers_in(hand_of(clock))]
    torch.testing.assert_close(torch.tensor(shown), codes[first], atol=0.00501, rtol=0)
    angles = [float(clock.locator(".angle b").inner_text().strip("°")) for clock in clocks]
    expected = [math.degrees(apart * 0.1**i) % 360 for i in range(4)]
    assert angles == pytest.approx(expected, abs=0.0501)
    for rate, clock in zip((1, 0.1, 0.01, 0.001), clocks, strict=True):
        for hand, place in ((".second", first + apart), ("polygon.fill:not(.second)", first)):
            turned = clock.locator(hand).evaluate(ANGLE) - rate * place
            assert math.cos(turned) == pytest.approx(1, abs=1e-6)
    *places, product = numbers_in(said(page).replace(".", " ", 1).rstrip("."))
    assert places == [first, first + apart]
    assert product == pytest.approx(float(codes[first] @ codes[first + apart]), abs=0.00501)


def hand_of(clock):
    return clock.locator("p").nth(1).inner_text().strip("()")


def test_two_words_move_together_and_the_angles_between_their_hands_stay(visit):
    page = visit("clocks")
    check_clocks(page, 3, 2)
    angles = page.locator(".angle").all_inner_texts()
    word, apart = page.get_by_label("place of the first"), page.get_by_label("steps from")
    for position in (0, 1, 45, 300):
        word.fill(str(position))
        check_clocks(page, position, 2)
        assert page.locator(".angle").all_inner_texts() == angles
    for distance in (0, 7, 20):
        apart.fill(str(distance))
        check_clocks(page, 300, distance)


def test_a_hand_that_is_turned_takes_the_other_clocks_along(visit):
    page = visit("clocks")
    hand = page.get_by_role("slider", name="hand on clock 1")
    box = hand.locator(".fill").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    face = page.locator(".face").nth(1).bounding_box()
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(face["x"] + face["width"], face["y"] + face["height"] / 2, steps=6)
    page.mouse.up()
    check_clocks(page, 16, 2)  # a quarter turn: π/2 is 15.7 steps of 0.1
    for key, position in (("ArrowRight", 17), ("Shift+ArrowDown", 12), ("ArrowUp", 13)):
        page.keyboard.press(key)
        check_clocks(page, position, 2)
    assert hand.get_attribute("aria-valuetext") == "place 13"
    slow = page.get_by_role("slider", name="hand on clock 3")
    slow.focus()
    for _ in range(80):
        page.keyboard.press("Shift+ArrowRight")
    check_clocks(page, 300, 2)


# ---- A beam


@pytest.mark.parametrize("width", [1, 2, 3])
def test_each_step_of_a_beam_keeps_what_python_keeps(visit, width):
    page = visit("beam")
    page.get_by_role("radio", name=str(width)).press("Space")
    page.get_by_role("radio", name=str(width)).check()
    forward, back = (page.get_by_role("button", name=name) for name in ("Next step", "One back"))
    assert back.is_disabled()
    steps = beam.search(beam.numbers()["tree"], width)
    for number, (candidates, kept) in enumerate(steps, 1):
        forward.press("Enter")
        rows = [
            row.inner_text().replace("\t", "\n").split("\n")
            for row in page.locator("tbody tr").all()
        ]
        cells = [[part for part in row if part] for row in rows]
        assert [row[0] for row in cells] == [" ".join(words) for words, _ in candidates]
        assert [row[1] for row in cells] == ["kept"] * len(kept) + ["dropped"] * (
            len(cells) - len(kept)
        )
        for row, (_, probability) in zip(cells, candidates, strict=True):
            of, log = numbers_in(row[-3] if number > 1 else row[2]), numbers_in(row[-1])
            assert of[-1] == pytest.approx(probability, abs=0.00051)
            assert log[-1] == pytest.approx(math.log(probability), abs=0.00051)
        filled = page.locator(".node.kept .word").all_text_contents()
        so_far = {words for _, best in steps[:number] for words, _ in best}
        assert sorted(filled) == sorted(words[-1] for words in so_far)
    assert forward.is_disabled()
    best = " ".join(steps[-1][1][0][0])
    assert f"It ends with “{best}”" in said(page)
    assert ("has missed “a dog barks”, 0.288" in said(page)) == (width == 1)
    back.press("Enter")
    assert "Step 2" in said(page)


# ---- The reader of dates


@contextmanager
def without(model, off, how="mean"):
    """Within, these heads, (name of the attention, head), give their mean or zero."""
    means = reader.unpacked(json.loads(reader.MEANS.read_text("utf-8")))
    handles = []
    for name, module in model.named_modules():
        if isinstance(module, MultiHeadAttention):

            def replace(w_o, inputs, name=name):
                heads, d_k = inputs[0].clone(), inputs[0].shape[-1] // 4
                steps = torch.arange(heads.shape[1]).clamp(max=len(means[name]) - 1)
                for head in (head for of, head in off if of == name):
                    part = slice(head * d_k, (head + 1) * d_k)
                    heads[..., part] = means[name][steps, part] if how == "mean" else 0.0
                return (heads,)

            handles.append(module.w_o.register_forward_pre_hook(replace))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@torch.no_grad()
def answer_without(text, off, how="mean"):
    """What PyTorch writes for a text without these heads: ids with <eos>, or the first 16."""
    model, tokenizer = reader.reader().model, reader.reader().tokenizer
    source, target = torch.tensor([tokenizer.encode(text)]), [BOS]
    with without(model, off, how):
        while target[-1] != EOS and len(target) <= 16:
            target.append(model(source, torch.tensor([target]))[0, -1].argmax().item())
    return target[1:]


def heads_of_reader():
    modules = reader.reader().model.named_modules()
    names = [name for name, module in modules if isinstance(module, MultiHeadAttention)]
    return [(name, head) for name in names for head in range(4)]


@pytest.mark.parametrize("how", ["mean", "zero"])
def test_the_reader_has_the_logits_of_pytorch_on_50_dates_with_and_without_each_head(chromium, how):
    model, tokenizer = reader.reader().model, reader.reader().tokenizer
    texts, dates = zip(*date_pairs(50, seed=7, split="test"), strict=True)
    source = pad(tokenizer.encode_batch(texts))
    page = chromium.new_page()
    files = ("core.js", "model.js", "reader.js")
    page.add_script_tag(content="\n".join((HERE / file).read_text("utf-8") for file in files))
    loaded = "(it) => { self.model = loadModel(it.model); self.means = unpack(it.means); }"
    page.evaluate(loaded, reader.numbers())
    different = 0
    for name, head in [("none", 0), *heads_of_reader()]:
        came = json.loads(page.evaluate(READ_AND_WRITE, [texts, name, head, how]))
        written = pad([[token for token, _ in steps] for steps in came])
        target = torch.cat([torch.full((50, 1), BOS), written[:, :-1]], dim=1)
        with torch.no_grad(), without(model, [(name, head)], how):
            logits = model(source, target)
        real = written != PAD
        numbers = torch.tensor([row for steps in came for _, row in steps])
        torch.testing.assert_close(numbers, logits[real], atol=2e-4, rtol=0)
        assert torch.equal(logits.argmax(dim=-1)[real], written[real])
        answers = [tokenizer.decode(ids) for ids in written.tolist()]
        wrong = sum(answer != iso for answer, iso in zip(answers, dates, strict=True))
        assert name != "none" or wrong == 0
        different += wrong
    assert different > 10  # so there is something to compare
    page.close()


def lines(page):
    """What is read, and what is written: each as texts and their weights."""
    return [line.evaluate(COLOURED) for line in page.locator(".line").all()]


def written_in(page):
    return "".join(text for text, _ in lines(page)[1] if text not in ("<bos>", "<eos>"))


@pytest.mark.parametrize("place", [1, 7, 11])
def test_the_characters_have_the_weights_of_the_chosen_head(visit, place):
    page = visit("reader")
    read, wrote, maps = reader.maps_of(reader.EXAMPLES[0])
    for kind, (module, _, _) in reader.KINDS.items():
        for layer, head in ((1, 4), (2, 3)):
            page.get_by_label(f"{kind} {layer}.{head}", exact=True).check()
            row = maps[module.format(layer - 1)][head - 1, place - 1].tolist()
            queries = lines(page)[0 if kind == "encoder" else 1]
            asked = [text for text, _ in queries if text != "<bos>"][place - 1]
            page.get_by_label(f"{place}: {asked}", exact=True).check()
            seen = lines(page)
            keys = {"encoder": read, "cross": read, "decoder": ["<bos>", *wrote][:place]}[kind]
            line, other = seen[::-1] if kind == "decoder" else seen
            assert [text for text, _ in line][: len(keys)] == keys
            shown = [weight for _, weight in line]
            assert shown[: len(keys)] == pytest.approx(row[: len(keys)], abs=6e-4)
            assert not any(shown[len(keys) :]) and not any(weight for _, weight in other)
            largest = max(range(len(keys)), key=row.__getitem__)
            words = f"“{asked}”, {kind} {layer}.{head} looks at"
            key = f"place {largest + (kind != 'decoder')}: {row[largest]:.2f}"
            assert f"{words} “{keys[largest]}” ({key})" in said(page)


def test_a_date_is_typed_and_heads_are_switched_off_by_the_keyboard_alone(visit):
    page = visit("reader", reduced_motion="reduce")
    page.keyboard.press("Tab")
    page.keyboard.press("Control+A")
    page.keyboard.type("Mar 3, 1987")
    page.keyboard.press("Enter")
    assert written_in(page) == "1987-03-03"
    focused = "() => document.querySelector('[data-explorable]').shadowRoot.activeElement.ariaLabel"
    for _ in range(6):
        page.keyboard.press("Tab")
    assert page.evaluate(focused) == "7: 3"
    page.keyboard.press("ArrowRight")
    assert page.evaluate(focused) == "8: -"  # the line is drawn anew, and the focus stays
    page.keyboard.press("Tab")
    assert page.evaluate(focused) == "cross 2.3"
    off = []
    for _ in range(4):  # heads 3 and 4 of this attention, and two of the next
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        name = page.locator(".said").first.inner_text()
        assert "It is off, so nothing of this is used." in name
        page.keyboard.press("Shift+Tab")
        off.append(page.evaluate(focused))
        page.keyboard.press("ArrowRight")
    assert [name.removesuffix(", off") for name in off] == [
        "cross 2.3",
        "cross 2.4",
        "decoder 1.1",
        "decoder 1.2",
    ]
    assert page.locator(".head.off").count() == 4


def test_what_is_written_without_some_heads_is_what_pytorch_writes(visit):
    page = visit("reader", reduced_motion="reduce")
    texts, tokenizer = reader.EXAMPLES, reader.reader().tokenizer
    verdict = page.locator(".verdict")
    cross = [("decoder.layers.1.cross_attention", head) for head in range(4)]
    third = ("decoder.layers.1.self_attention", 2)
    changed = set()
    for off, how in (
        (cross[:1], "mean"),
        (cross[:2], "mean"),
        (cross, "mean"),
        ([third], "mean"),
        ([third], "zero"),
    ):
        for name, head in off:
            kind = "cross" if "cross" in name else "decoder"
            page.get_by_label(f"{kind} 2.{head + 1}", exact=True).check()
            page.get_by_role("button", name=f"Switch {kind} 2.{head + 1} off").click()
        page.get_by_role("radio", name=how).check()
        for text in texts:
            page.get_by_role("button", name=text).click()
            ids = answer_without(text, off, how)
            page.wait_for_function(  # the line is at its end
                "(end) => document.querySelector('[data-explorable]').shadowRoot"
                ".querySelectorAll('.line')[1].querySelectorAll('input').length === end",
                arg=len(ids),
            )
            answer = tokenizer.decode(ids)
            usual = tokenizer.decode(answer_without(text, []))
            end = "as before." if answer == usual else f"no longer {usual}."
            assert verdict.inner_text().endswith(f"off, and it writes {answer}, {end}")
            strange = page.locator(".piece.other").all_inner_texts()
            assert bool(strange) == (answer != usual)
            changed.add((answer != usual, how, len(off)))
        page.get_by_role("button", name="All heads on").click()
        assert verdict.inner_text() == f"All 24 heads are on: {usual}."
    assert {(True, "mean", 1), (True, "mean", 4), (True, "zero", 1), (False, "mean", 1)} <= changed


def test_it_writes_one_character_after_the_other_unless_that_is_unwanted(visit):
    for motion, first in (("no-preference", 1), ("reduce", 11)):
        page = visit("reader", reduced_motion=motion)
        count = page.get_by_role("button", name="1.11.1923").evaluate(
            "(it) => { it.click(); "
            "return it.getRootNode().querySelectorAll('.line')[1].children.length; }"
        )
        assert count == first
        page.wait_for_function(
            "document.querySelector('[data-explorable]').shadowRoot.querySelectorAll('.line')[1]"
            ".children.length === 11"
        )
        assert written_in(page) == "1923-11-01"


def test_a_finger_chooses_a_character_and_a_head(visit):
    page = visit("reader", **TELEPHONE)
    page.get_by_label("9: 1", exact=True).tap()
    assert "Writing “1”, cross 2.3 looks at" in said(page)
    page.get_by_label("encoder 2.4").tap()
    page.get_by_label("13: r", exact=True).tap()
    assert "At “r”, encoder 2.4 looks at" in said(page)
    page.get_by_role("button", name="Switch encoder 2.4 off").tap()
    assert page.locator(".head.off").count() == 1


# ---- All of them


@ALL
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_the_light_and_in_the_dark(visit, name, scheme):
    folder = importlib.util.find_spec("axe_playwright_python")
    if folder is None:
        pytest.skip("axe-playwright-python is not installed (it comes with the extra book)")
    page = visit(name, color_scheme=scheme)
    if name == "beam":
        page.get_by_role("button", name="Next step").click()
    page.evaluate(Path(folder.submodule_search_locations[0], "axe.min.js").read_text("utf-8"))
    found = page.evaluate("axe.run()")["violations"]
    assert [(each["id"], each["nodes"][0]["html"]) for each in found] == []


@ALL
def test_on_a_telephone_nothing_sticks_out_and_every_grip_has_44_pixels(visit, name):
    page = visit(name, **TELEPHONE)
    for size in ("", "200%"):
        page.evaluate("(size) => { document.documentElement.style.fontSize = size }", size)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        assert page.evaluate(SMALL) == []
        assert page.evaluate(NARROW) == []


@ALL
def test_it_is_as_dark_as_the_page_around_it(visit, name):
    app = visit(name).locator(".app")
    page = app.page
    becomes(app, LIGHT)
    page.emulate_media(color_scheme="dark")
    becomes(app, DARK)
    page.evaluate("document.documentElement.dataset.theme = 'light'")  # the book's own switch
    becomes(app, LIGHT)
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    becomes(app, DARK)
    page.evaluate("document.body.dataset.jpThemeLight = 'true'")  # JupyterLab's
    becomes(app, LIGHT)


@ALL
def test_on_paper_and_without_scripts_stands_the_picture(visit, name):
    page = visit(name)
    picture, app = page.locator("[data-explorable] > img"), page.locator(".app")
    assert app.is_visible() and not picture.is_visible()
    page.emulate_media(media="print")
    assert picture.is_visible() and not app.is_visible()
    assert not page.get_by_text(HINT).is_visible()
    page = visit(name, java_script_enabled=False)
    box = page.locator("[data-explorable] > img").bounding_box()
    assert box["width"] > 600 and page.get_by_text(HINT).is_visible()


def test_two_on_a_page_do_not_know_of_each_other(visit, tmp_path, query_on):
    page = visit("query")
    html = "".join(explorable(name).html for name in ("query", "beam", "beam"))
    (tmp_path / "query.html").write_text(PAGE.format(html), "utf-8")
    page.reload()
    beams = page.locator("[data-explorable=beam] .app")
    beams.nth(1).get_by_role("radio", name="3").check()
    assert beams.nth(0).get_by_role("radio", name="1").is_checked()
    query_on(page).check()


def test_a_script_that_is_run_elsewhere_finds_its_place(visit, query_on):
    """As in the classic notebook, which takes scripts out and runs them in the page's head."""
    page = visit("query")
    page.evaluate(
        """(html) => {
            document.querySelector("main").innerHTML = html; // this runs no script
            for (const script of document.querySelectorAll("main script")) {
                const moved = document.createElement("script");
                moved.textContent = script.textContent;
                document.head.append(moved);
            }
        }""",
        explorable("query").html + explorable("query").html,
    )
    assert page.locator(".app").count() == 2


# ---- In a lesson, in JupyterLab

CELL = 'explorable("query"'


def test_in_work_lesson_02_moves_as_soon_as_it_is_opened(open_notebook, lab, query_on, monkeypatch):
    """Nothing is run: the copy that `make lab` makes is trusted."""
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(lab["folder"].parent / "data"))
    lesson = open_notebook("notebooks/02_scaled_dot_product_attention.ipynb", copy=in_work)
    seen = query_on(lesson.page)
    cell = lesson.cell(CELL)
    assert cell.locator(".jp-InputPrompt").inner_text().strip("[]: ") != "*"
    seen.drag(1, -1)
    assert seen.asked() == [2, 0]
    seen.check()
    lesson.page.keyboard.press("ArrowDown")  # and not: to the next cell
    lesson.page.keyboard.press("d")
    lesson.page.keyboard.press("d")  # and not: delete the cell
    assert seen.asked() == [2, -0.1]
    assert seen.tip.evaluate("(it) => it.getRootNode().activeElement === it")
    seen.check()
    assert lesson.page.locator(".jp-Notebook-cell").count() == len(lesson.sources)
    lesson.screenshot("query_light", CELL)
    becomes(seen.app, LIGHT)
    lesson.choose_theme("JupyterLab Dark")
    lesson.page.wait_for_function("document.body.dataset.jpThemeLight === 'false'")
    becomes(seen.app, DARK)
    lesson.screenshot("query_dark", CELL)
    lesson.choose_theme("JupyterLab Light")  # as the next test finds it
    assert lesson.errors() == []


def test_in_work_lesson_11_reads_a_date_as_soon_as_it_is_opened(open_notebook, lab, monkeypatch):
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(lab["folder"].parent / "data"))
    lesson = open_notebook("notebooks/11_looking_inside.ipynb", copy=in_work)
    app = lesson.page.locator("[data-explorable=reader] .app")
    app.get_by_role("textbox").fill("1.11.192")
    for key in ("d", "d", "Backspace", "Backspace", "3", "Enter"):  # and not: delete the cell
        lesson.page.keyboard.press(key)
    lesson.page.wait_for_function("(it) => it.textContent.includes('1923-11-01')", arg=verdict(app))
    app.get_by_label("cross 2.1", exact=True).check()
    app.get_by_role("button", name="Switch cross 2.1 off").click()
    words = "1 head is off, and it writes 1923-11-11, no longer 1923-11-01."
    assert app.locator(".verdict").inner_text() == words
    assert lesson.page.locator(".jp-Notebook-cell").count() == len(lesson.sources)
    lesson.screenshot("reader_light", 'explorable("reader"')
    lesson.choose_theme("JupyterLab Dark")
    becomes(app, DARK)
    lesson.screenshot("reader_dark", 'explorable("reader"')
    lesson.choose_theme("JupyterLab Light")
    assert lesson.errors() == []


def verdict(app):
    return app.locator(".verdict").element_handle()


def test_an_untrusted_lesson_shows_the_picture_and_moves_once_its_cell_is_run(
    open_notebook, query_on
):
    lesson = open_notebook("notebooks/02_scaled_dot_product_attention.ipynb")
    picture = lesson.cell(CELL).locator("img")
    assert picture.is_visible() and len(picture.get_attribute("alt")) > 100
    assert HINT in lesson.cell(CELL).inner_text()
    lesson.screenshot("query_untrusted", CELL)
    lesson.run_through(CELL, seconds=200)
    seen = query_on(lesson.page)
    seen.drag(1, -1)
    assert seen.asked() == [2, 0]
    seen.check()
    assert lesson.errors() == []


def in_work(file):
    """Put the copy of a lesson that a learner has in the place of the course's own."""
    work = file.parents[1] / "work"
    fill(work)
    copy = work / f"{file.stem[:2]}a_lesson_{file.stem[3:]}.ipynb"
    trust([copy])
    return copy
