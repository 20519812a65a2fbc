"""The pens of the lessons' drawings put things where they are told to."""

import matplotlib
import matplotlib.pyplot as plt
import pytest

from course.figures import sketch

matplotlib.use("agg")


@pytest.fixture
def ax():
    ax = sketch.canvas(4, 2, "A drawing")
    yield ax
    plt.close(ax.figure)


def test_a_unit_is_an_inch(ax):
    assert ax.get_xlim() == (0, 4) and ax.get_ylim() == (0, 2)
    assert tuple(ax.figure.get_size_inches()) == (4, 2)


def test_a_box_is_centred_and_says_its_text(ax):
    sketch.box(ax, 1, 0.5, "gave", width=0.8, height=0.4)
    (patch,), (text,) = ax.patches, ax.texts
    assert (patch.get_x(), patch.get_y()) == pytest.approx((0.6, 0.3))
    assert (text.get_text(), *text.get_position()) == ("gave", 1, 0.5)


def test_cells_go_right_and_down_from_the_corner_each_in_its_colour(ax):
    sketch.cells(ax, 1, 2, [["a1", "a2"], ["b1", "b2"]], lambda row, column: f"C{row}", cell=0.5)
    assert [text.get_text() for text in ax.texts] == ["a1", "a2", "b1", "b2"]
    assert [patch.get_xy() for patch in ax.patches] == [(1, 1.5), (1.5, 1.5), (1, 1), (1.5, 1)]
    edges = [matplotlib.colors.to_hex(patch.get_edgecolor()) for patch in ax.patches]
    assert edges[0] == edges[1] != edges[2] == edges[3]
