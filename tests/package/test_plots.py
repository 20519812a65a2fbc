"""Figures, source code shown in notebooks, and the live curve."""

import inspect
import unicodedata

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgb
from wcwidth import wcswidth

import transformer_lab.data
from course.figures import LivePlot, notebook, show_source
from transformer_lab import causal_mask, plots, scaled_dot_product_attention
from transformer_lab.plots import (
    attention_text,
    plot_attention,
    plot_history,
    plot_mask,
    plot_scores,
    readable,
)

matplotlib.use("agg")
pytestmark = pytest.mark.filterwarnings("error")

HISTORY = [
    {"step": 20, "loss": 2.0, "rate": 0.1},
    {"step": 40, "loss": 1.0, "rate": 0.2, "valid_loss": 1.5},
]


@pytest.fixture(autouse=True)
def figures_are_closed():
    import matplotlib.pyplot as plt

    yield
    plt.close("all")


def weights(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).softmax(-1)


def width_of(ax):
    ax.figure.canvas.draw()
    return ax.figure.get_figwidth() * 100


def tick_labels(axis):
    return [text.get_text() for text in axis.get_ticklabels()]


# ---- Tables of queries and keys


def test_rows_are_queries_and_columns_are_keys_in_their_colours():
    ax = plot_attention(weights(2, 3), ["a", "b"], ["c", "d", "e"], title="A message")
    assert (ax.get_ylabel(), ax.get_xlabel(), ax.get_title()) == ("queries", "keys", "A message")
    assert (ax.yaxis.label.get_color(), ax.xaxis.label.get_color()) == (plots.QUERY, plots.KEY)
    assert tick_labels(ax.yaxis) == ["a", "b"]
    assert tick_labels(ax.xaxis) == ["c", "d", "e"]
    assert np.allclose(ax.images[0].get_array(), weights(2, 3))


def test_each_head_gets_a_panel_with_both_axes_named():
    panels = plot_attention(weights(5, 4, 6), title="Five heads")
    assert [ax.get_title() for ax in panels] == [f"head {i}" for i in range(5)]
    assert all(ax.get_ylabel() == "queries" and ax.get_xlabel() == "keys" for ax in panels)
    assert len(panels[0].figure.axes) == 5
    again = plot_attention(weights(5, 4, 6), ax=panels)
    assert list(again) == list(panels)


def test_panels_may_share_an_axis_with_labels():
    words = ["a", "b", "c"]
    shared = plt.subplots(1, 2, sharey=True)[1]
    panels = plot_attention(weights(2, 3, 3), words, words, ax=shared)
    assert tick_labels(panels[0].yaxis) == words == tick_labels(panels[1].xaxis)


@pytest.mark.parametrize("keys", [20, 21, 22])
def test_panels_stand_side_by_side_where_two_fit(keys):
    panels = plot_attention(weights(8, 9, keys))
    assert {panel.get_subplotspec().colspan.start for panel in panels} == {0, 1}


def test_what_draws_on_given_axes_returns_them():
    ax = plot_attention(weights(2, 2))
    assert plot_mask(causal_mask(3), ax=ax) is ax
    assert plot_scores(-weights(3, 2), ax=ax) is ax
    assert plot_history(HISTORY, ax=ax) is ax


@pytest.mark.parametrize("shape", [(1, 1), (3, 60), (70, 3), (200, 300), (3, 9, 25)])
def test_a_figure_is_at_most_800_pixels_wide(shape):
    assert width_of(np.ravel(plot_attention(weights(*shape)))[0]) <= 800


def test_small_tables_show_their_numbers_dark_on_light_and_light_on_dark():
    ax = plot_attention([[0.9, 0.1]])
    assert [(t.get_text(), t.get_color()) for t in ax.texts] == [
        ("0.90", "white"),
        ("0.10", "black"),
    ]
    assert not plot_attention(weights(9, 9)).texts
    assert plot_scores([[-1.5, 2.0]]).texts[0].get_text() == "−1.50"


def test_the_numbers_of_a_table_stand_out_from_their_cells_and_are_not_small():
    shares = np.linspace(0, 1, 8)
    ax = plot_attention(shares[None])
    for share, text in zip(shares, ax.texts, strict=True):
        cell, ink = (luminance(color) for color in (ax.images[0].cmap(share), text.get_color()))
        contrast = (max(cell, ink) + 0.05) / (min(cell, ink) + 0.05)
        assert contrast >= 4.5, f"{share:.2f}"  # what WCAG 2 asks of small print
        assert text.get_fontsize() >= 8


def luminance(color) -> float:
    """Return WCAG's relative luminance."""
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(color))
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def test_blanks_and_signs_in_labels_can_be_read():
    assert [readable(x) for x in (" ", "▁", "▁dog", "a b", "\n")] == ["␣", "␣", "▁dog", "a␣b", "↵"]
    ax = plot_attention(weights(1, 3), ["$"], ["$x^2$", "▁", "<eos>"])
    ax.figure.canvas.draw()
    assert tick_labels(ax.xaxis) == ["$x^2$", "␣", "<eos>"]
    assert not any(text.get_parse_math() for text in ax.get_xticklabels())


def test_only_labels_that_are_too_long_stand_upright():
    ax = plot_attention(weights(2, 20), None, ["<eos>"] + ["x"] * 19)
    assert [text.get_rotation() for text in ax.get_xticklabels()] == [90] + [0] * 19


def test_a_mask_is_dark_where_a_query_may_attend_and_crossed_where_not():
    ax = plot_mask(causal_mask(4)[None, None])
    dark = ax.images[0].get_array() > 0.5
    assert np.array_equal(dark, causal_mask(4))
    crosses = {(int(y), int(x)) for x, y in ax.collections[0].get_offsets()}
    assert crosses == {(i, j) for i in range(4) for j in range(4) if j > i}


def test_weights_darken_steadily_in_grey():
    map = matplotlib.colormaps[plots.WEIGHTS]
    grey = [np.dot(to_rgb(map(x)), (0.299, 0.587, 0.114)) for x in np.linspace(0, 1, 20)]
    assert np.all(np.diff(grey) < 0) and grey[0] > 0.95


def test_drawing_leaves_matplotlibs_settings_alone():
    before = dict(matplotlib.rcParams)
    plot_attention(weights(3, 3)), plot_history(HISTORY)
    assert dict(matplotlib.rcParams) == before


NAN, HALF = float("nan"), [[0.5, 0.5]]


@pytest.mark.parametrize(
    ("draw", "arguments", "words"),
    [
        (plot_attention, [[0.5, 0.5]], "(Lq, Lk) or (H, Lq, Lk)"),
        (plot_attention, [weights(1, 2, 3, 4)], "(1, 2, 3, 4)"),
        (plot_attention, [[]], "not empty"),
        (plot_attention, ["weights"], "must be numbers"),
        (plot_attention, [[[0.5], [0.5, 0.5]]], "must be numbers"),
        (plot_attention, [[[NAN, 0.5]]], "NaN"),
        (plot_attention, [[[-1.0, 2.0]]], "plot_scores"),
        (plot_attention, [HALF, ["a", "b"]], "query_labels must have 1 entries, got 2"),
        (plot_attention, [HALF, ["a"], ["b"]], "key_labels must have 2 entries, got 1"),
        (plot_attention, [HALF, "a"], "list of texts"),
        (plot_mask, [[[1.0, 0.0]]], "True = may attend"),
        (plot_mask, [causal_mask(3).expand(2, 1, 3, 3)], "leading axes of length 1"),
        (plot_scores, [torch.zeros(2, 2, 2)], "(Lq, Lk)"),
        (plot_history, [[]], "at least one"),
        (plot_history, [[{"loss": 2.0}]], "records with a step"),
        (plot_history, [HISTORY, "accuracy"], "'loss', 'rate'"),
        (attention_text, [HALF, ["a"], ["b"]], "key_labels must have 2 entries"),
        (show_source, [3], "function, class or module"),
        (show_source, [len], "function, class or module"),
        (lambda: LivePlot(seconds=0), [], "seconds must be positive"),
    ],
)
def test_bad_input_is_a_value_error_that_says_what_came(draw, arguments, words):
    with pytest.raises(ValueError) as error:
        draw(*arguments)
    assert words in str(error.value)


def test_axes_must_be_one_for_each_head():
    with pytest.raises(ValueError, match="one Axes per head, 3, got 1"):
        plot_attention(weights(3, 2, 2), ax=plot_attention(weights(2, 2)))


# ---- Histories, text


def test_a_history_is_drawn_against_its_steps_with_the_validation_values():
    ax = plot_history(HISTORY, steps=100)
    training, unseen = ax.lines
    assert training.get_xydata().tolist() == [[20, 2.0], [40, 1.0]]
    assert unseen.get_xydata().tolist() == [[40, 1.5]]
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_xlim()) == ("step", "loss", (0, 100))
    assert ax.get_title() == "loss 1 after 40 steps"
    assert plot_history(HISTORY, "rate", title="").get_title() == ""


def test_a_history_is_compared_with_levels_that_have_their_names():
    ax = plot_history(HISTORY, levels={"guessing": 50.0, "a": 0.5})
    texts = {text.get_text(): text.get_position()[1] for text in ax.texts}
    assert texts == {"guessing": 50.0, "a": 0.5}
    dashed = [line.get_ydata()[0] for line in ax.lines if line.get_linestyle() == "--"]
    assert dashed == [50.0, 0.5] and ax.get_ylim() == (0, pytest.approx(55))
    assert not plot_history(HISTORY).texts


def test_no_advice_to_draw_a_validation_value_as_training():
    with pytest.raises(ValueError, match=r"one of \['loss', 'rate'\], got 'x'"):
        plot_history(HISTORY, "x")


def test_attention_as_text_has_a_row_per_query_and_darker_blocks_for_more_weight():
    table = [[0.0, 0.2, 0.8], [1.0, 0.0, 0.0]]
    text = attention_text(table, ["x", "<eos>"], ["a", "▁", "of"])
    assert text.splitlines() == [
        "          o",
        "      a ␣ f",
        "    x   ░░▓▓",
        "<eos> ██",
    ]


LABELS = {
    "Chinese": (["▁我", "喜欢", "猫", "。", "<eos>"], ["▁我", "喜欢", "猫", "。", "<eos>"]),
    "Japanese and English": (["▁猫", "が", "<eos>"], ["▁cat", "▁the", "."]),
    "full width": (["ＡＢ", "，"], ["１", "２３"]),
    "Hebrew": (["▁שלום", "עולם", "1", "<eos>"], ["▁שלום", "▁good", "עולם", "!"]),
    "Arabic": (["▁مرحبا", "٢٠١٩", "<eos>"], ["مرحبا", "٢٠", "١", "ب"]),
    "accents in two characters": (["cafe\u0301", "te\u0302\u0301ng"], ["e\u0301", "a\u0302"]),
    "Thai": (["▁น้ำ", "ที่"], ["▁น้ำ", "ที่", "ก"]),
    "Hindi": (["▁बिल्ली", "है"], ["▁बिल्ली", "है"]),
    "emoji": (["🙂", "a"], ["🙂", "👨‍👩‍👧", "b"]),
}


@pytest.mark.parametrize(("rows", "columns"), LABELS.values(), ids=LABELS)
def test_attention_as_text_is_aligned_in_cells_of_a_terminal(rows, columns):
    table = np.eye(len(rows), len(columns))
    lines = attention_text(table, rows, columns).splitlines()
    header, body = lines[: -len(rows)], lines[-len(rows) :]
    margin = max(map(wcswidth, rows)) + 1
    for i, line in enumerate(body):
        start = line.find("█")
        assert start < 0 or wcswidth(line[:start]) == margin + 2 * i
        assert rows[i] in line
    for i, column in enumerate(columns):  # each letter in the cells of its column, read downwards
        read = ""
        for line in header:
            ends = [wcswidth(line[:n]) for n in range(len(line) + 1)]
            inside = [c for c, at in zip(line, ends, strict=False) if 0 <= at - margin - 2 * i < 2]
            read += "".join(inside)
        assert letters_alone(read) == letters_alone(column)


def letters_alone(text: str) -> list[str]:
    """Return its letters, sorted, as a mark may stand at the edge of the next cell."""
    return sorted(c for c in text if unicodedata.category(c)[0] in "LN")


@pytest.mark.parametrize("name", ["Hebrew", "Arabic"])
def test_text_from_right_to_left_does_not_turn_a_line_round(name):
    """What lies between two letters goes from left to right: a mark follows each of them."""
    rows, columns = LABELS[name]
    for line in attention_text(np.eye(len(rows), len(columns)), rows, columns).splitlines():
        kinds = [unicodedata.bidirectional(c) for c in line]
        for i, kind in enumerate(kinds):
            if kind in ("R", "AL", "AN"):
                after = next((k for k in kinds[i + 1 :] if k in ("L", "WS")), "L")
                assert after == "L", "a space before the mark would be turned"
    assert "\u200e" not in attention_text([[1.0]], ["▁猫"], ["cat"])


# ---- In a notebook


class FakeScreen:
    """Stands for IPython's display: remembers what was shown and what replaced it."""

    def __init__(self, monkeypatch):
        self.shown, self.updates = [], []
        monkeypatch.setattr(notebook, "_in_kernel", lambda: True)
        monkeypatch.setattr("IPython.display.display", self.display)

    def display(self, what, raw=False, display_id=False):
        self.shown.append(what)
        return self

    def update(self, what):
        self.updates.append(what)


@pytest.fixture
def screen(monkeypatch):
    return FakeScreen(monkeypatch)


def test_source_is_shown_as_it_stands_in_its_file(screen, capsys):
    show_source(scaled_dot_product_attention)
    (shown,) = screen.shown
    source = inspect.getsource(scaled_dot_product_attention)
    assert shown["text/plain"] == f"# transformer_lab/attention.py\n\n{source.rstrip()}"
    assert shown["text/markdown"] == f"```python\n{shown['text/plain']}\n```"
    assert capsys.readouterr().out == ""


def test_outside_a_notebook_source_is_printed(capsys):
    show_source(transformer_lab.data)
    assert capsys.readouterr().out.startswith("# transformer_lab/data/__init__.py\n\n")
    show_source(LivePlot.__call__)
    assert capsys.readouterr().out.startswith("# course/figures/notebook.py\n\ndef __call__(")


def test_a_live_plot_is_one_picture_redrawn_now_and_then_and_at_the_end(screen, monkeypatch):
    clock = iter([10.0, 10.0, 10.5, 11.5, 11.5, 12.0])
    monkeypatch.setattr(notebook.time, "monotonic", lambda: next(clock))
    drawn = []
    monkeypatch.setattr(notebook, "_png", lambda history, _: drawn.append(len(history)) or b"x")
    with LivePlot(seconds=1.0) as live:
        for count in (1, 2, 3):  # at 10.0, 10.5 and 11.5
            live(HISTORY[:1] * count)
        live.history = HISTORY[:1] * 4
    assert drawn == [1, 3, 4]
    assert len(screen.shown) == 1 and len(screen.updates) == 2


def test_a_live_plot_draws_a_png_even_if_training_was_stopped(screen):
    with pytest.raises(KeyboardInterrupt), LivePlot(steps=50) as live:
        live(HISTORY)
        raise KeyboardInterrupt
    assert screen.updates[-1].data.startswith(b"\x89PNG")


def test_a_live_plot_without_a_kernel_or_without_records_shows_nothing(screen, monkeypatch, capsys):
    with LivePlot():
        pass
    monkeypatch.setattr(notebook, "_in_kernel", lambda: False)
    with LivePlot() as live:
        live(HISTORY)
    assert screen.shown == [] and capsys.readouterr().out == ""


def test_the_loss_of_training_steps_is_named_apart_from_that_of_unseen_data():
    """With dropout and label smoothing it is another quantity."""
    labels = [text.get_text() for text in plot_history(HISTORY).get_legend().get_texts()]
    assert labels == ["training objective", "unseen data"]


def test_the_lines_of_a_history_can_be_named_and_their_axis_divided_by_tens():
    ax = plot_history(HISTORY, labels=("known", "unseen"), log=True)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["known", "unseen"]
    assert ax.get_yscale() == "log" and ax.get_ylim()[0] > 0
    assert plot_history(HISTORY).get_yscale() == "linear"
