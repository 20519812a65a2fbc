"""Diagrams: arrows join the boxes they name, nothing is imported early, mistakes are explained."""

import subprocess
import sys

import matplotlib
import pytest

matplotlib.use("agg")

import matplotlib.pyplot as plt
from matplotlib.colors import to_hex

from course.figures import Diagram, architecture
from course.figures.diagrams import ENDS, PARTS
from transformer_lab.palette import LIT, ROLE_COLORS


@pytest.fixture
def diagram():
    """Two boxes on one line, one inch of room between them."""
    drawing = Diagram(4, 2, title="Two boxes")
    drawing.box("left", 1, 1, width=1.0)
    drawing.box("right", 3, 1, "keys\n(Lk, d_k)", role="key", width=1.0)
    yield drawing
    plt.close("all")


def drawn_arrows(diagram: Diagram) -> list:
    """Return each arrow's path in inches, after matplotlib has laid the figure out."""
    diagram.axes.figure.canvas.draw()
    arrows = [text.arrow_patch for text in diagram.axes.texts if hasattr(text, "arrow_patch")]
    to_inches = diagram.axes.transData.inverted()
    return [to_inches.transform_path(arrow.get_path()) for arrow in arrows]


def test_one_unit_is_one_inch(diagram):
    box = diagram.axes.get_window_extent()
    dpi = diagram.axes.figure.dpi
    assert (box.width / dpi, box.height / dpi) == pytest.approx((4, 2))


def test_an_arrow_runs_from_edge_to_edge_and_not_from_centre_to_centre(diagram):
    diagram.arrow("left", "right")
    (path,) = drawn_arrows(diagram)
    extent = path.get_extents()
    assert 1.5 < extent.x0 < 1.6
    assert 2.3 < extent.x1 < 2.5


def test_an_arrow_goes_around_its_corners_and_has_one_head(diagram):
    diagram.arrow("left", "right", via=((1, 1.8), (3, 1.8)))
    paths = drawn_arrows(diagram)
    assert len(paths) == 3
    assert paths[1].vertices[:, 1] == pytest.approx(1.8)
    styles = [
        type(text.arrow_patch.get_arrowstyle()).__name__
        for text in diagram.axes.texts
        if hasattr(text, "arrow_patch")
    ]
    assert styles == ["Curve", "Curve", "CurveFilledB"]


def test_the_label_stands_on_the_longest_part(diagram):
    diagram.arrow("left", "right", "× keyᵀ", via=((1, 1.8), (3, 1.8)))
    (label,) = [text for text in diagram.axes.texts if text.get_text() == "× keyᵀ"]
    assert label.get_position() == pytest.approx((2, 1.8))


def test_a_box_shows_its_text_or_else_its_name_in_the_colour_of_its_role(diagram):
    assert {text.get_text() for text in diagram.axes.texts} == {"left", "keys\n(Lk, d_k)"}
    edges = [to_hex(patch.get_edgecolor()) for patch in diagram.axes.patches]
    assert edges == [ROLE_COLORS["plain"].lower(), ROLE_COLORS["key"].lower()]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda d: d.box("left", 2, 1), "'left' twice"),
        (lambda d: d.box("new", 2, 1, role="gate"), "role must be one of .*'gate'"),
        (lambda d: d.arrow("left", "nowhere"), r"no box 'nowhere'; there are \['left', 'right'\]"),
        (
            lambda d: d.matrix("m", 2, 1, [[1], [2, 3]]),
            r"rows of one length, got \[\[1\], \[2, 3\]\]",
        ),
        (lambda d: d.matrix("m", 2, 1, []), r"rows of one length, got \[\]"),
        (lambda d: d.matrix("left", 2, 1, [[1]]), "'left' twice"),
        (lambda d: d.matrix("m", 2, 1, [[1]], rows="ab"), "rows must be 1 texts or none, got 'ab'"),
        (lambda d: d.shares(2, 1, [0.5, 0.4], "ab"), r"shares that sum to 1, got \[0.5, 0.4\]"),
        (lambda d: d.shares(2, 1, [1.5, -0.5], "ab"), "shares that sum to 1"),
        (lambda d: d.shares(2, 1, [0.5, 0.5], "abc"), "labels must be 2 texts, got 'abc'"),
        (lambda d: Diagram(9, 1), r"width must be in \(0, 8\].*got 9 and 1"),
        (lambda d: Diagram(3, 0), "height positive, got 3 and 0"),
    ],
)
def test_mistakes_are_named(diagram, call, message):
    with pytest.raises(ValueError, match=message):
        call(diagram)


def test_a_matrix_stands_where_it_was_put_and_marks_its_row(diagram):
    diagram.matrix(
        *("K", 2, 0.5, [[1, 0.25], [-2, "x"]]),
        **{"role": "key", "rows": ["the", "bank"], "columns": "12", "lit": [1], "cell": (0.4, 0.2)},
    )
    written = {text.get_text(): text for text in diagram.axes.texts}
    assert written["1"].get_position() == pytest.approx((1.8, 0.83))  # the column's name
    assert written["0.25"].get_position() == pytest.approx((2.2, 0.6))
    assert written["−2"].get_position() == pytest.approx((1.8, 0.4))
    assert written["bank"].get_position()[1] == pytest.approx(0.4)
    bold = {text for text, drawn in written.items() if drawn.get_fontweight() == "bold"}
    assert bold == {"−2", "x"}
    cells = [
        patch for patch in diagram.axes.patches if to_hex(patch.get_facecolor()) == LIT.lower()
    ]
    assert [patch.get_y() for patch in cells] == pytest.approx([0.3, 0.3])
    diagram.arrow("left", "K")


def test_shares_are_as_long_as_they_are_large(diagram):
    diagram.shares(2, 1, [0.1, 0.65, 0.25], ["the", "river", "bank"], width=2)
    bars = [patch for patch in diagram.axes.patches if patch.get_facecolor()[3] == 1]
    assert [bar.get_width() for bar in bars] == pytest.approx([0.2, 1.3, 0.5])
    assert bars[0].get_y() > bars[1].get_y() > bars[2].get_y()
    written = {text.get_text(): text.get_position()[1] for text in diagram.axes.texts}
    assert written["65 %"] == pytest.approx(written["river"]) == pytest.approx(1)


def test_matplotlib_is_imported_only_when_something_is_drawn():
    code = "import sys, course.figures.diagrams; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def lit(drawing: Diagram) -> list[str]:
    """Return the texts of the boxes with a heavy edge, from below."""
    heavy = [patch for patch in drawing.axes.patches if patch.get_linewidth() > 2]
    boxes = {id(patch): name for name, (_, patch) in drawing._boxes.items()}
    return [boxes[id(patch)] for patch in heavy]


def test_the_architecture_lights_the_boxes_of_a_part_and_no_others():
    assert lit(architecture()) == []
    assert lit(architecture(("cross-attention",))) == ["decoder cross-attention"]
    encoder = ["self-attention", "norm 1", "feed-forward", "norm 2"]
    assert lit(architecture(("encoder layer",))) == [f"encoder {part}" for part in encoder]
    assert len(lit(architecture(("add & norm",)))) == 5
    assert all(lit(architecture((part,))) for part in PARTS)
    plt.close("all")


def test_the_architecture_has_every_end_of_every_attention_in_its_colour_and_the_memory_twice():
    drawing = architecture()
    for letter, (_, role) in ENDS.items():
        ends = [text for text in drawing.axes.texts if text.get_text() == letter]
        assert len(ends) == 3 and {text.get_color() for text in ends} == {ROLE_COLORS[role]}
    written = [text.get_text() for text in drawing.axes.texts]
    assert written.count("add & norm") == 5 and written.count("× N") == 2
    assert written.count("dropout") == 7 and "target so far (shifted right)" in written
    plt.close("all")


def test_everything_of_the_architecture_stands_inside_the_figure():
    drawing = architecture()
    inside = drawing.axes.get_window_extent()
    for shape in (*drawing.axes.patches, *drawing.axes.texts):
        extent = shape.get_window_extent()
        assert inside.x0 <= extent.x0 and extent.x1 <= inside.x1, shape
        assert inside.y0 <= extent.y0 and extent.y1 <= inside.y1, shape
    plt.close("all")


def test_the_architecture_refuses_a_part_that_it_does_not_have():
    with pytest.raises(ValueError, match=r"highlight must hold parts among .*\['decoder'\]"):
        architecture(("decoder", "generator"))
