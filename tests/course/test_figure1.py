"""The small map: the named parts are lit and no others, and a newcomer can read it at its size."""

import matplotlib
import numpy as np
import pytest

matplotlib.use("agg")

import matplotlib.pyplot as plt
from matplotlib.colors import to_rgb

from course.figures import small_map, zoom
from course.figures.figure1 import BOXES
from transformer_lab.palette import FAINT, INK, LIT

DRAWINGS = {
    "map": small_map,
    "lit map": lambda: small_map("decoder"),
    "black box": lambda: zoom(1),
    "two boxes": lambda: zoom(2),
    "other words": lambda: zoom(2, "the river bank", "das Flussufer"),
    "one layer": lambda: zoom(3),
}


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def lit(drawing) -> set[str]:
    """The names of the boxes with a heavy edge, which is seen without colour, too."""
    return {name for name, (_, box) in drawing._boxes.items() if box.get_linewidth() > 1.6}


@pytest.mark.parametrize(
    ("words", "boxes"),
    [
        ("cross-attention", {"decoder layer cross-attention"}),
        ("encoder self-attention", {"encoder layer self-attention"}),
        ("decoder masked self-attention", {"decoder layer masked self-attention"}),
        ("self-attention", {box for box in BOXES if "self-attention" in box}),
        ("feed-forward", {"encoder layer feed-forward", "decoder layer feed-forward"}),
        ("add & norm", {box for box in BOXES if "norm" in box}),
        ("embedding", {"encoder embedding", "decoder embedding"}),
        ("positional encoding", {box for box in BOXES if "positional" in box}),
        ("generator", {"generator linear softmax"}),
        ("softmax", {"generator linear softmax"}),
        ("encoder", {box for box in BOXES if box.startswith("encoder")}),
        ("decoder layer", {box for box in BOXES if box.startswith("decoder layer")}),
        (["softmax", "decoder embedding"], {"generator linear softmax", "decoder embedding"}),
    ],
)
def test_words_light_the_boxes_that_have_all_of_them_and_no_others(words, boxes):
    assert lit(small_map(words)) == boxes


def test_the_map_has_the_boxes_of_the_papers_figure():
    written = [text.get_text() for text in small_map().axes.texts]
    assert (written.count("add & norm"), written.count("feed-forward")) == (5, 2)
    assert set(BOXES) == set(small_map()._boxes) and len(BOXES) == 15


def test_what_is_lit_and_what_is_pale_differ_without_colour():
    def grey(color):
        return np.dot(to_rgb(color), (0.299, 0.587, 0.114))

    drawing = small_map("generator")
    for name, (_, box) in drawing._boxes.items():
        edge = INK if name.startswith("generator") else FAINT
        assert to_rgb(box.get_edgecolor()) == to_rgb(edge)
    assert grey(FAINT) - grey(INK) > 0.6 and 1 - grey(LIT) > 0.1


def test_without_a_lit_part_nothing_is_pale():
    assert all(box.get_facecolor()[3] > 0 for _, box in small_map()._boxes.values())


@pytest.mark.parametrize("words", ["cross attention", "gate", ["encoder", "gate"]])
def test_words_that_no_box_has_are_named(words):
    with pytest.raises(
        ValueError, match=r"lit must be words of \(.*, got '(cross attention|gate)'"
    ):
        small_map(words)


@pytest.mark.parametrize("step", [0, 4])
def test_there_are_three_steps(step):
    with pytest.raises(ValueError, match=f"step must be 1, 2 or 3, got {step}"):
        zoom(step)


@pytest.mark.parametrize("name", DRAWINGS)
def test_it_can_be_read_at_its_size(name):
    """On a page of 800 px: letters of 8 points or more, inside the figure, on nothing else; what a
    box says stays inside the box, and no box lies over another."""
    drawing = DRAWINGS[name]()
    figure = drawing.axes.figure
    figure.canvas.draw()
    texts = [text for text in drawing.axes.texts if text.get_text()]
    extents = [text.get_window_extent() for text in texts]
    boxes = [box.get_window_extent() for _, box in drawing._boxes.values()]
    inside = figure.bbox
    for text, extent in zip(texts, extents, strict=True):
        assert text.get_fontsize() >= 8, text
        assert inside.x0 <= extent.x0 and extent.x1 <= inside.x1, text
        assert inside.y0 <= extent.y0 and extent.y1 <= inside.y1, text
        for box in boxes:
            within = box.x0 < extent.x0 and extent.x1 < box.x1
            within &= box.y0 < extent.y0 and extent.y1 < box.y1
            assert within or not box.overlaps(extent), text
    for group in (extents, boxes):
        for number, extent in enumerate(group):
            assert not any(extent.overlaps(other) for other in group[:number])


def test_no_wire_of_the_map_runs_through_its_words():
    drawing = small_map()
    drawing.axes.figure.canvas.draw()
    written = [text for text in drawing.axes.texts if text.get_text()]
    wires = [text.arrow_patch for text in drawing.axes.texts if hasattr(text, "arrow_patch")]
    assert len(wires) >= 30
    for wire in (wire.get_window_extent() for wire in wires):
        assert not [text for text in written if text.get_window_extent().overlaps(wire)]
