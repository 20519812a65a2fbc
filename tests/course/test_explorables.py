"""Explorables: one home for their numbers, nothing asked of anybody, and a picture beside each.

What moves is tried in a browser, in tests/browser/test_explorables.py.
"""

import base64
import json
import math
import re
import tomllib
from fnmatch import fnmatch
from html import unescape
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch

from course.explorables import beam, clocks, explorable, page, query, reader
from transformer_lab.runs import PRETRAINED, load_run
from transformer_lab.saving import parameters_of

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(page.__file__).parent
ALL = pytest.mark.parametrize("name", sorted(page.EXPLORABLES))
# Other numbers than those of the lesson, and a text that only they bring into the picture.
OTHERS = {
    "query": ({"query": [0.0, 0.0]}, "weight 0.33"),
    "clocks": ({"distance": 1}, "between: 57.3°"),
    "beam": ({"tree": {(): {"yes": 0.75, "no": 0.25}}}, "0.750"),
    "reader": ({"date": "sun, apr 7, 1957"}, "sun, apr 7, 1957 → 1957-04-07"),
}


def in_script(html):
    """Return the numbers that are handed to the JavaScript."""
    return json.loads(re.search(r"^start\(.*, build, (\{.*\})\);$", html, re.MULTILINE)[1])


def in_picture(html):
    """Return the texts of the still picture."""
    svg = base64.b64decode(re.search(r"data:image/svg\+xml;base64,([\w+/=]+)", html)[1])
    return [text.text for text in ElementTree.fromstring(svg).iterfind(".//{*}text")]


@ALL
def test_script_and_picture_show_the_numbers_that_were_given(name):
    given, text = OTHERS[name]
    usual, other = explorable(name).html, explorable(name, **given).html
    numbers = page.EXPLORABLES[name].numbers
    for html, shown in ((usual, numbers()), (other, numbers(**given))):
        assert in_script(html) == json.loads(json.dumps(shown))
    assert text in in_picture(other) and text not in in_picture(usual)


def test_the_weights_in_the_picture_are_the_softmax_of_the_scores():
    asked, keys = [0.5, -2.0], [[0.0, 0.0], [2.0, 0.0], [0.5, 0.5]]
    texts = in_picture(explorable("query", query=asked, keys=keys).html)
    scores, weights = (
        [float(t.split()[1].replace("−", "-")) for t in texts if t.startswith(part)]
        for part in ("score ", "weight ")
    )
    expected = torch.tensor(keys) @ torch.tensor(asked)
    assert scores == pytest.approx(expected.tolist(), abs=0.006)
    assert weights == pytest.approx(expected.softmax(dim=0).tolist(), abs=0.006)


def test_tensors_are_taken_as_they_are():
    keys = torch.tensor([[0.0, 0.0], [2.0, 0.0], [0.5, 0.5]])
    given = explorable("query", words=("the", "river", "bank"), keys=keys, query=torch.ones(2))
    assert given.html == explorable("query").html


def test_the_angles_between_the_hands_are_those_of_the_distance_alone():
    for position in (0, 45, 300):
        shown = clocks.numbers(position=position, distance=7)
        expected = [math.degrees(7 * rate) % 360 for rate in (1, 0.1, 0.01, 0.001)]
        assert clocks.angles(shown) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("width", "kept"),
    [
        (1, ["the", "the old", "the old dog"]),
        (2, ["the", "a", "a dog", "the old", "a dog barks", "the old dog"]),
        (
            3,
            [
                "the",
                "a",
                "a dog",
                "the old",
                "the new",
                "a dog barks",
                "the old dog",
                "the new dog",
            ],
        ),
    ],
)
def test_a_beam_keeps_the_most_probable_of_all_candidates(width, kept):
    steps = beam.search(beam.numbers()["tree"], width)
    assert [" ".join(words) for _, best in steps for words, _ in best] == kept
    for words, probability in (one for candidates, _ in steps for one in candidates):
        chances = [beam.TREE[words[:i]][word] for i, word in enumerate(words)]
        assert probability == pytest.approx(math.prod(chances))


@ALL
def test_it_asks_nobody_and_is_small(name):
    html = explorable(name).html
    assert re.findall(r"\w+://[^\s\"'`<]+", html) == ["http://www.w3.org/2000/svg"]  # a name
    assert not re.search(r"\b(fetch|XMLHttpRequest|import|eval|localStorage)\b", html)
    assert len(html) < (800_000 if name == "reader" else 60_000)  # it has a whole model


@ALL
def test_without_scripts_there_is_a_picture_its_description_and_what_to_do(name):
    shown = explorable(name)
    before = shown.html.partition("<script>")[0]
    alt = unescape(re.search(r'alt="([^"]*)"', before)[1])
    assert len(alt.split()) >= 20 and alt == repr(shown)
    assert page.HINT in before


def test_what_one_writes_cannot_end_the_script():
    html = explorable("query", words=("</script>", "<b>", '"'), asker="</ScRiPt>").html
    assert html.count("</script>") == 1 and "</ScRiPt>" not in html
    assert in_script(html)["words"] == ["</script>", "<b>", '"']


def test_the_same_numbers_give_the_same_bytes():
    assert explorable("query").html == explorable("query").html


def test_every_colour_is_the_palettes():
    for file in HERE.glob("*.js"):
        assert not re.search(r"#[0-9a-fA-F]{3,8}\b|rgb", file.read_text("utf-8")), file.name
    style = explorable("query").html
    for color, value in page.COLORS.items():
        assert f"--{color}: {value.lower()};" in style


def test_an_installed_course_has_every_file():
    package = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    globs = package["tool"]["setuptools"]["package-data"]["course"]
    for file in [*HERE.glob("*.js"), *HERE.glob("*.css")]:
        assert any(fnmatch(f"explorables/{file.name}", glob) for glob in globs), file.name


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("querry", {}, "no explorable 'querry'.*did you mean query?"),
        ("query", {"temperature": 2}, "takes words, query, .*; got .'temperature'."),
        ("query", {"keys": [[1, 2]]}, r"keys must have shape \(3, 2\) for 3 words, got \(1, 2\)"),
        ("query", {"query": [1, 2, 3]}, r"query must have shape \(2,\) .* got \(3,\)"),
        ("clocks", {"rates": ()}, "rates must be 1 to 8 positive numbers, got"),
        ("clocks", {"rates": (1, -1)}, "rates must be 1 to 8 positive numbers, got"),
        ("clocks", {"position": 301}, "position must be from 0 to 300, got 301"),
        ("clocks", {"distance": -1}, "distance must be from 0 to 20, got -1"),
        ("beam", {"tree": {("a",): {}}}, r"what the first word may be, under \(\), got"),
        (
            "beam",
            {"tree": {(): {"a": 0.5}}},
            r"chances after \(\) must be positive and add up to 1",
        ),
        ("beam", {"width": 4}, r"width must be one of \[1, 2, 3\], got 4"),
        ("reader", {"kind": "self"}, r"kind must be one of .'encoder', 'cross', 'decoder'., got"),
        ("reader", {"layer": 3}, "layer must be from 1 to 2, got 3"),
        ("reader", {"head": 0}, "head must be from 1 to 4, got 0"),
        ("reader", {"place": 12}, "place must be from 1 to 11, got 12"),
        ("reader", {"date": ""}, "date must have 1 to 40 characters, got 0"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(name, given, message):
    with pytest.raises(ValueError, match=message):
        explorable(name, **given)


def test_the_reader_in_the_page_is_the_shipped_one_to_the_last_bit():
    shown, run = reader.numbers(), load_run(PRETRAINED / "dates_0")
    tensors = reader.unpacked(shown["model"])
    for name, parameter in parameters_of(run.model).items():
        assert torch.equal(tensors.pop(name), parameter.detach()), name
    assert not tensors and shown["model"]["pieces"] == run.tokenizer.pieces


def test_the_stored_means_are_those_of_the_heads():
    stored = reader.unpacked(json.loads(reader.MEANS.read_text("utf-8")))
    means = reader.mean_outputs(reader.reader())
    assert {name: len(mean) for name, mean in stored.items()} == {
        f"{side}.layers.{layer}.{kind}_attention": 1 if side == "encoder" else 11
        for side, kind in (("encoder", "self"), ("decoder", "self"), ("decoder", "cross"))
        for layer in (0, 1)
    }
    for name, mean in means.items():
        torch.testing.assert_close(stored[name], mean, atol=2e-3, rtol=1e-3)


@pytest.mark.parametrize("kind", reader.KINDS)
def test_the_still_picture_has_a_row_for_each_query_and_a_column_for_each_key(kind):
    shown = reader.numbers(date="15.4.2019", kind=kind)
    svg, said = reader.picture(shown)
    cells = [it for it in ElementTree.fromstring(svg).iterfind(".//{*}rect[@fill-opacity]")]
    rows, columns = {"encoder": (10, 10), "cross": (11, 10), "decoder": (11, 11)}[kind]
    assert len(cells) == rows * columns
    _, _, maps = reader.maps_of("15.4.2019")
    weights = maps[reader.KINDS[kind][0].format(1)][2].flatten().tolist()
    drawn = [float(it.get("fill-opacity")) for it in cells]
    assert drawn == pytest.approx(weights, abs=0.0501)
    assert said.count(" at ") == rows and "writes 2019-04-15" in said


def pages_in(number):
    """Return the HTML that is stored in a lesson."""
    lesson = json.loads(next((ROOT / "notebooks").glob(f"{number}_*.ipynb")).read_text("utf-8"))
    outputs = [output for cell in lesson["cells"] for output in cell.get("outputs", ())]
    return ["".join(output.get("data", {}).get("text/html", "")) for output in outputs]


def test_what_lesson_11_has_stored_is_the_reader_of_today():
    assert explorable("reader").html in pages_in("11")


def test_without_numbers_it_shows_those_of_lesson_02():
    assert explorable("query").html in pages_in("02")
    _, weights, output = query.look_up(*(query.numbers()[n] for n in ("query", "keys", "values")))
    assert [round(w, 2) for w in weights] == [0.09, 0.67, 0.24]
    assert [round(entry, 2) for entry in output] == [1.45, 0.12]
