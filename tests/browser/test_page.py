"""The model in the page: the same numbers as PyTorch's, and a page that everybody can use.

The pages are opened from their folder, without a server, as a reader does who has only the files.
"""

import json
import os
import re
import threading
from functools import cache, partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
import torch

from teaching import make as teaching
from teaching.page.make import WEIGHTS, load_script, pages, read_script
from transformer_lab.config import PAD
from transformer_lab.data import date_pairs, pad
from transformer_lab.decoding import greedy_decode
from transformer_lab.maps import attention_maps

pytestmark = [pytest.mark.book, pytest.mark.timeout(300)]

BOTH = pytest.mark.parametrize("name", ["dates", "head"])
SCHEMES = pytest.mark.parametrize("scheme", ["light", "dark"])

# Texts, and what is to be written -> for each the ids read, and for each step the logits and the
# weights (N, H, Ls); as one string, which is quicker to fetch than its numbers.
READ_AND_WRITE = """(pairs) => JSON.stringify(pairs.map(([text, target]) => {
    const source = tokenize(model, text);
    const cache = newCache(model, encode(model, source));
    return [source, target.map((token) => decodeStep(model, token, cache))];
}))"""


@pytest.fixture(scope="module")
def folder(made):
    """The folder of the pages."""
    return made / WEIGHTS.parent


@pytest.fixture
def visit(chromium, folder):
    """Open a page in a new window: `visit("dates", …)`; it must ask nobody, and raise no error."""
    contexts, wrong = [], []

    def visit(name, *, address="", **options):
        address = address or folder.as_uri()
        context = chromium.new_context(**({"viewport": {"width": 1100, "height": 1000}} | options))
        contexts.append(context)
        context.set_default_timeout(20_000)
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda line: wrong.append(line.text) if line.type == "error" else None)
        page.on("request", lambda r: None if r.url.startswith(address) else wrong.append(r.url))
        page.goto(f"{address}/{name}.html")
        return page

    yield visit
    for context in contexts:
        context.close()
    assert wrong == []


@cache
def in_page():
    return read_script(pages()[WEIGHTS])


@cache
def in_pytorch():
    return load_script(in_page())


def answer(page):
    """What stands in the row of written characters, as soon as the sentence is at its end."""
    page.wait_for_function(
        "() => document.querySelectorAll('#answer input').length === shown.steps.length"
    )
    return "".join(page.locator("#answer .pills span").all_inner_texts())


# ---- The numbers


def test_logits_and_weights_are_those_of_pytorch_on_200_dates(visit):
    model, tokenizer = in_pytorch()
    texts = [text for text, _ in date_pairs(200, seed=5, split="test")]
    sources = pad(tokenizer.encode_batch(texts))
    targets = greedy_decode(model, sources)[:, :-1]
    assert targets.shape == (200, 11) and targets.ne(PAD).all()
    with torch.no_grad():
        logits = model(sources, targets)
    maps = attention_maps(model, sources, targets)
    maps = torch.stack([w for place, w in maps.items() if "cross" in place], dim=1)  # (B, N, H, …)
    pairs = list(zip(texts, targets.tolist(), strict=True))
    answers = json.loads(visit("dates").evaluate(READ_AND_WRITE, pairs))
    for i, (ids, steps) in enumerate(answers):
        assert ids == sources[i, : len(ids)].tolist()
        came = torch.tensor([step["logits"] for step in steps])
        torch.testing.assert_close(came, logits[i], atol=1e-4, rtol=0)
        came = torch.tensor([step["weights"] for step in steps]).permute(1, 2, 0, 3)  # (N, H, …)
        torch.testing.assert_close(came, maps[i, ..., : len(ids)], atol=1e-5, rtol=0)


def test_the_stored_model_gets_its_dates_right():
    content, (model, tokenizer) = in_page(), in_pytorch()
    pairs = date_pairs(500, seed=6, split="test")
    written = greedy_decode(model, pad(tokenizer.encode_batch([text for text, _ in pairs])))
    right = np.mean(
        [tokenizer.decode(w) == iso for w, (_, iso) in zip(written, pairs, strict=True)]
    )
    assert min(right, content["exact_match"]) >= 0.99
    assert content["parameters"] == sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize("text", ["3 Mar 1987", "", "a▁b", "Zürich 😀", "１２", "\t x\u0301"])
def test_any_text_has_the_ids_of_the_package(visit, text):
    tokenizer = in_pytorch()[1]
    assert visit("dates").evaluate("(text) => tokenize(model, text)", text) == tokenizer.encode(
        text
    )


def test_every_number_of_16_bits_is_read_exactly(visit):
    bits = np.arange(2**16, dtype=np.uint16)
    bits = bits[np.isfinite(bits.view(np.float16))]
    came = visit("dates").evaluate("(bits) => bits.map(fromFloat16)", bits.tolist())
    assert np.array_equal(np.array(came), bits.view(np.float16).astype(np.float64))


@pytest.mark.parametrize("temperature", [0.5, 1, 3])
def test_a_drawn_token_follows_the_softmax_at_this_temperature(visit, temperature):
    logits = [1.0, -2.0, 0.5, 3.0]
    drawn = visit("dates").evaluate(
        """([logits, temperature]) => Array.from({ length: 1000 }, (_, i) =>
            choose(logits, temperature, () => (i + 0.5) / 1000))""",
        [logits, temperature],
    )
    expected = torch.softmax(torch.tensor(logits) / temperature, dim=0)
    shares = torch.bincount(torch.tensor(drawn), minlength=4) / 1000
    torch.testing.assert_close(shares, expected, atol=0.0011, rtol=0)


# ---- The page of dates


def test_the_first_answer_is_there_within_a_second(visit):
    seconds = []
    for _ in range(3):  # a shared machine can be slow
        page = visit("dates")
        assert answer(page) == "2019-02-15<eos>"
        seconds.append(page.evaluate("performance.getEntriesByName('answered')[0].startTime") / 1e3)
    assert min(seconds) <= 1


def test_the_files_are_small(folder):
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 1_500_000


def test_by_keyboard_alone_a_date_is_typed_and_every_step_layer_and_head_is_reached(visit):
    page = visit("dates")
    answer(page)
    for _ in range(10):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "date":
            break
    page.keyboard.press("Control+A")
    page.keyboard.type("Mar 3, 1987")
    page.keyboard.press("Enter")
    page.wait_for_function("byId('said').textContent === 'The model wrote 1987-03-03'")
    assert answer(page) == "1987-03-03<eos>"
    seen, names = [], []
    for _ in range(20):
        page.keyboard.press("Tab")
        name = page.evaluate("document.activeElement.name")
        if name in ("step", "layer", "head"):
            names.append(name)
            seen.append(page.locator("#step").inner_text())
            page.keyboard.press("ArrowRight")  # and the focus stays where it is
            page.keyboard.press("ArrowLeft")
            page.keyboard.press("ArrowLeft")
            seen.append(page.locator("#step").inner_text())
            assert page.evaluate("document.activeElement.name") == name
    assert names == ["step", "layer", "head"]
    assert seen[0] != seen[1] and seen[2] != seen[3] and seen[4] != seen[5]


def test_the_map_shows_the_weights_of_the_chosen_layer_and_head(visit):
    page, (model, tokenizer) = visit("dates"), in_pytorch()
    text = "friday 15 february 2019"
    source = pad(tokenizer.encode_batch([text]))
    maps = attention_maps(model, source, greedy_decode(model, source)[:, :-1])
    cells = "() => [...document.querySelectorAll('.map td[title]')].map((td) => Number(td.title))"
    for layer in (0, 1):
        weights = maps[f"decoder.layers.{layer}.cross_attention"][0]
        page.locator("#layers input").nth(layer).check()
        for head, wanted in enumerate([weights.mean(dim=0), *weights]):
            page.locator("#heads input").nth(head).check()
            came = torch.tensor(page.evaluate(cells)).view(wanted.shape)
            torch.testing.assert_close(came, wanted, atol=6e-4, rtol=0)  # three digits are shown
            letters = page.locator("#letters span").first.get_attribute("title")
            assert letters == f"{wanted[page.evaluate('shown.step'), 0]:.3f}"


def test_a_hot_model_writes_many_answers_and_a_cold_one_always_the_same(visit):
    page = visit("dates")
    write = "(temperature) => { byId('temperature').value = temperature; write(false); }"
    answers = {}
    for temperature in (0, 5):
        answers[temperature] = set()
        for _ in range(8):
            page.evaluate(write, temperature)
            answers[temperature].add(answer(page))
    assert answers[0] == {"2019-02-15<eos>"} and len(answers[5]) > 4


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "Type a date first."),
        ("friday " * 20, "This has 140 characters; the model reads 63 at most"),
    ],
)
def test_what_cannot_be_read_is_refused_in_a_sentence(visit, text, words):
    page = visit("dates")
    page.fill("#date", text)
    page.click("button.main")
    assert words in page.locator("#problem").inner_text()
    assert answer(page) == "2019-02-15<eos>"  # what was there stays
    page.fill("#date", "x" * 63)
    page.click("button.main")
    assert page.locator("#problem").inner_text() == ""


# ---- The page of one head


def lesson_02():
    """Queries, keys and values of "I love cats", from the lesson's own cell."""
    notebook = teaching.ROOT / "notebooks/evidence" / "02_scaled_dot_product_attention.ipynb"
    cells = ["".join(cell["source"]) for cell in json.loads(notebook.read_text("utf-8"))["cells"]]
    (code,) = [cell for cell in cells if "W_Q = torch.tensor" in cell]
    names = {"torch": torch}
    exec(code, names)
    return {role: names[role] for role in ("query", "key", "value")}


def numbers_in(page, where):
    rows = page.locator(f"#{where} tr").all()[1:]
    cells = [
        [text.replace("−", "-") for text in row.locator("td").all_inner_texts()] for row in rows
    ]
    return torch.tensor([[float(text) for text in row] for row in cells])


def test_the_head_has_the_numbers_of_lesson_02(visit):
    page, example = visit("head"), lesson_02()
    came = page.evaluate("numbers")
    assert came == {role: x.int().tolist() for role, x in example.items()}
    query, key, value = example.values()
    for i, divisor in enumerate((1, 2, 4)):
        page.locator("#divisor input").nth(i).check()
        weights = torch.softmax(query @ key.T / divisor, dim=-1)
        torch.testing.assert_close(numbers_in(page, "scores"), query @ key.T)
        torch.testing.assert_close(numbers_in(page, "weights"), weights, atol=0.00051, rtol=0)
        torch.testing.assert_close(
            numbers_in(page, "output"), weights @ value, atol=0.00051, rtol=0
        )


def test_a_number_is_typed_stepped_and_dragged(visit):
    page = visit("head")
    field = page.get_by_label("key of love, feature 1")
    before = numbers_in(page, "scores")
    field.fill("2")  # "love" asks [2, 0, 1, 0]: its score with "love" was 2
    assert numbers_in(page, "scores")[1, 1] == 4
    field.press("ArrowUp")
    assert numbers_in(page, "scores")[1, 1].item() == pytest.approx(4.2)
    box = field.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x - 66, y, steps=5)  # eleven tenths to the left
    page.mouse.up()
    page.mouse.move(x + 12, y)  # the pointer is free again
    assert field.input_value() == "1"
    assert torch.equal(numbers_in(page, "scores"), before)
    field.fill("99")
    field.press("Tab")
    assert field.input_value() == "4"
    page.click("#reset")
    assert torch.equal(numbers_in(page, "scores"), before)


def test_a_value_is_dragged_in_the_plane_and_no_weight_moves(visit):
    page = visit("head")
    weights = numbers_in(page, "weights")
    box = page.locator("circle[data-word='2']").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    unit = page.locator("#plane").bounding_box()["width"] / 8
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + unit, y - unit, steps=4)
    page.mouse.up()
    assert page.evaluate("numbers.value[2]") == [2, 3]
    assert torch.equal(numbers_in(page, "weights"), weights)
    assert page.get_by_label("value of cats, feature 2").input_value() == "3"


# ---- Both


@BOTH
def test_with_scripts_off_there_is_a_picture(visit, name):
    page = visit(name, java_script_enabled=False)
    picture = page.locator("noscript img, img")
    assert picture.is_visible() and len(picture.get_attribute("alt")) > 60
    assert picture.bounding_box()["width"] > 200
    assert not page.locator("#app").is_visible()


@BOTH
@SCHEMES
def test_a_telephone_shows_all_without_scrolling_sideways(visit, name, scheme, tmp_path):
    page = visit(name, viewport={"width": 320, "height": 700}, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= 320


@SCHEMES
def test_letters_are_readable_on_every_shade_of_purple(visit, scheme):
    page = visit("dates", color_scheme=scheme)
    colours = page.evaluate(
        """() => Array.from({ length: 101 }, (_, i) => {
            const cell = paint(element("span", {}, "x"), i / 100);
            byId("letters").append(cell);
            const { color, backgroundColor } = getComputedStyle(cell);
            return [color, backgroundColor];
        })"""
    )
    worst = min(contrast(*map(rgb, pair)) for pair in colours)
    assert worst >= 4.5  # WCAG 2, AA


def rgb(colour):
    numbers = [float(number) for number in re.findall(r"[\d.]+", colour)[:3]]
    return [n if "srgb" in colour else n / 255 for n in numbers]


def contrast(one, other):
    def luminance(colour):
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@BOTH
def test_it_works_as_well_from_a_server(visit, folder, name):
    serve = partial(SimpleHTTPRequestHandler, directory=folder)
    with ThreadingHTTPServer(("127.0.0.1", 0), serve) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page = visit(name, address=f"http://127.0.0.1:{server.server_port}")
        page.locator("#app").wait_for()
        server.shutdown()


@BOTH
def test_every_link_leads_to_a_file(folder, name):
    place = teaching.BUILD / WEIGHTS.parent  # where they stand when `make teaching` has made them
    for link in re.findall(r'(?:href|src)="([^"#]+)"', (folder / f"{name}.html").read_text()):
        there = (folder / link).exists() or Path(os.path.normpath(place / link)).exists()
        assert link == "data:," or there, link


def test_a_copy_stands_alone_and_its_links_lead_to_the_pages_of_the_lessons(visit, tmp_path):
    copy = teaching.encoded(pages("../lessons/{}.html", "../index.html"))
    teaching.write(copy, tmp_path)
    page = visit("dates", address=(tmp_path / WEIGHTS.parent).as_uri())
    assert answer(page) == "2019-02-15<eos>"
    links = {link.get_attribute("href") for link in page.locator("a[data-lesson]").all()}
    assert "../lessons/08_teacher_forcing.html" in links and not any("ipynb" in x for x in links)
    assert page.locator("nav a").first.get_attribute("href") == "../index.html"
