"""The course's figures: one look in every lesson, and axes that say who asks and who answers.

Each function returns the matplotlib Axes that it drew on, for whatever else is to be said there.
"""

import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from transformer_lab.palette import BASELINE, KEY, MASKED, QUERY, SIGNED, VALUE, WEIGHTS  # noqa: F401
from transformer_lab.support.validation import require

WIDEST = 7.8  # inches; 780 pixels

Labels = Sequence[str] | None


def plot_attention(
    weights: Any,
    query_labels: Labels = None,
    key_labels: Labels = None,
    *,
    ax: Any = None,
    title: str = "",
    query_axis: str = "queries",
    key_axis: str = "keys",
    vmax: float | int = 1.0,
):
    """Draw attention weights (Lq, Lk): a row for each query, a column for each key (paper, 3.2.1).

    With (H, Lq, Lk) every head gets a panel, and `ax` and what is returned are H Axes; `title` is
    that of a new figure. A weight of `vmax` is dark; small tables show their numbers. Raises
    `ValueError` for weights that are not numbers from 0 to 1, and for labels that do not fit their
    number.
    """
    weights = _array(weights, "weights", (2, 3), "(Lq, Lk) or (H, Lq, Lk)")
    require(
        bool(weights.min() >= 0 and weights.max() <= 1 + 1e-3),
        f"weights must be from 0 to 1, got {weights.min():.3g} to {weights.max():.3g}; for scores "
        f"use plot_scores",
    )
    labels = (query_labels, key_labels), (query_axis, key_axis)
    if weights.ndim == 2:
        return _table(weights, *labels, ax=ax, title=title, vmin=0, vmax=vmax)
    panels = _panels(weights.shape) if ax is None else np.asarray(ax).ravel()
    require(
        len(panels) == len(weights),
        f"ax must be one Axes per head, {len(weights)}, got {len(panels)}",
    )
    for head, panel in enumerate(panels):
        _table(weights[head], *labels, ax=panel, title=f"head {head}", vmin=0, vmax=vmax)
    if ax is None:
        panels[0].figure.suptitle(title, parse_math=False)
    return panels


def plot_scores(
    scores: Any,
    query_labels: Labels = None,
    key_labels: Labels = None,
    *,
    ax: Any = None,
    title: str = "",
    query_axis: str = "queries",
    key_axis: str = "keys",
):
    """Draw scores (Lq, Lk), of any size and sign: white is 0, and the two signs differ in colour.

    Raises `ValueError` for scores that are not finite, and for labels that do not fit.
    """
    scores = _array(scores, "scores", (2,), "(Lq, Lk)")
    labels = (query_labels, key_labels), (query_axis, key_axis)
    largest = max(float(np.abs(scores).max()), 1e-9)
    return _table(scores, *labels, ax=ax, title=title, vmin=-largest, vmax=largest, cmap=SIGNED)


def plot_mask(
    mask: Any,
    query_labels: Labels = None,
    key_labels: Labels = None,
    *,
    ax: Any = None,
    title: str = "",
):
    """Draw a mask (Lq, Lk): dark where a query may attend to a key, a cross where it may not.

    Leading axes of length 1 are dropped. Raises `ValueError` for any other shape or dtype.
    """
    mask = mask.detach().cpu().numpy() if isinstance(mask, Tensor) else np.asarray(mask)
    require(mask.dtype == bool, f"mask must be boolean, True = may attend, got {mask.dtype}")
    while mask.ndim > 2 and len(mask) == 1:
        mask = mask[0]
    mask = _array(mask, "mask", (2,), "(Lq, Lk) with leading axes of length 1 at most")
    labels = (query_labels, key_labels), ("queries", "keys")
    ax = _table(0.6 * mask, *labels, ax=ax, title=title, vmin=0, vmax=1, cmap=MASKED, numbers=False)
    rows, columns = np.nonzero(mask == 0)
    size = 25 * min(_cell(mask.shape), _room(ax, mask.shape[1]))
    ax.scatter(columns, rows, marker="x", color="0.45", s=size**2, linewidths=1)
    return ax


def plot_history(
    history: Sequence[dict],
    quantity: str = "loss",
    *,
    ax: Any = None,
    title: str | None = None,
    steps: int | None = None,
    levels: Mapping[str, float | int] | None = None,
    labels: tuple[str, str] | None = None,
    log: bool = False,
):
    """Draw a quantity of a training history against the step; dots are its validation values.

    The loss of the training steps is their objective, with dropout and label smoothing; on unseen
    data it is the plain loss. The two are named apart, as they are not one quantity. Where they
    are, `labels` can name them otherwise.

    `history` is what `fit` returns and a run keeps. `steps` is the last step of the axis, for a
    run that goes on; `levels` are dashed lines to compare with, by their names; `log` divides the
    upright axis by powers of ten. Raises `ValueError` if no record has the quantity.
    """
    listed = isinstance(history, Sequence) and len(history) > 0
    require(
        listed and all(isinstance(record, dict) and "step" in record for record in history),
        f"history must be a list of records with a step, at least one, got {history!r:.60}",
    )
    lines = [
        [(record["step"], record[name]) for record in history if name in record]
        for name in (quantity, f"valid_{quantity}")
    ]
    names = sorted({name.removeprefix("valid_") for r in history for name in r} - {"step"})
    require(any(lines), f"quantity must be one of {names}, got {quantity!r}")
    ax = ax or _new_axes(6.0, 3.2)
    styles: tuple[dict, dict] = (
        {"color": BASELINE},
        {"color": "0", "marker": "o", "markersize": 4},
    )
    # What training lowers is measured with dropout and label smoothing, and so is another quantity.
    objective = "training objective" if quantity == "loss" else "training"
    labels = labels or (objective, "unseen data")
    for points, label, style in zip(lines, labels, styles, strict=True):
        if points:
            ax.plot(*zip(*points, strict=True), label=label, **style)
    step, last = next(points[-1] for points in lines if points)
    title = f"{quantity} {last:.3g} after {step:,} steps" if title is None else title
    ax.set(xlabel="step", ylabel=quantity, xlim=(0, steps or step))
    if log:
        ax.set_yscale("log")
        ax.yaxis.set_major_formatter("{x:g}")
    else:
        ax.set_ylim(0, None)
    for name, level in (levels or {}).items():
        ax.axhline(level, color=BASELINE, linewidth=1, linestyle="--")
        ax.text(steps or step, level, name, fontsize=9, ha="right", va="bottom", parse_math=False)
        ax.set_ylim(top=max(ax.get_ylim()[1], 1.1 * level))  # so that its name is inside
    ax.set_title(title, parse_math=False)
    ax.legend(frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def attention_text(
    weights: Any, query_labels: Sequence[str], key_labels: Sequence[str], shades: str = " ░▒▓█"
) -> str:
    """Return weights (Lq, Lk) as text for a terminal: darker blocks are larger weights.

    The labels of the columns are written downwards. Rows and columns stay aligned with letters
    that are two cells wide, as Chinese ones, with accents, and with text from right to left.
    Raises `ValueError` for weights that are no table of numbers, and for labels that do not fit.
    """
    from wcwidth import iter_graphemes, ljust, rjust, width

    weights = _array(weights, "weights", (2,), "(Lq, Lk)")
    rows = [_left_to_right(row) for row in _labels(query_labels, weights.shape[0], "query_labels")]
    columns = [[*iter_graphemes(c)] for c in _labels(key_labels, weights.shape[1], "key_labels")]
    margin, depth = max(map(width, rows)), max(map(len, columns))
    columns = [[" "] * (depth - len(letters)) + letters for letters in columns]
    lines = [
        " " * (margin + 1) + "".join(ljust(_left_to_right(letter), 2) for letter in letters)
        for letters in zip(*columns, strict=True)
    ]
    for row, values in zip(rows, weights, strict=True):
        # A darker shade every 0.25, from 0.05 on: the lightest is left to what is next to nothing.
        levels = np.clip(np.ceil((values - 0.05) * 4), 0, 4).astype(int)
        lines.append(f"{rjust(row, margin)} " + "".join(2 * shades[level] for level in levels))
    return "\n".join(line.rstrip() for line in lines)


def _left_to_right(text: str) -> str:
    """Keep text from right to left, such as Hebrew, from turning round the line it stands in.

    It is read from its right, and between two marks that say: here the line runs to the right.
    """
    if any(unicodedata.bidirectional(letter) in ("R", "AL", "AN") for letter in text):
        return f"\u200e\u200f{text}\u200e"
    return text


def readable(label: str) -> str:
    """Return a piece of text with its blanks made visible: ␣ for a space, ↵ for a new line."""
    label = str(label).replace(" ", "␣").replace("\n", "↵").replace("\t", "→")
    return "␣" if label == "▁" else label


# ---- What the figures are made of


def _array(values: Any, name: str, dims: tuple[int, ...], shape: str) -> np.ndarray:
    """Return finite numbers as an array of one of these ranks, or raise `ValueError`."""
    if isinstance(values, Tensor):
        values = values.detach().cpu().double().numpy()
    try:
        values = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be numbers of shape {shape}, got {values!r:.60}") from None
    require(
        values.ndim in dims and values.size > 0,
        f"{name} must have shape {shape}, not empty, got {values.shape}",
    )
    require(bool(np.isfinite(values).all()), f"{name} must be finite, got NaN or infinity")
    return values


def _labels(labels: Labels, count: int, name: str) -> list[str]:
    listed = isinstance(labels, Sequence) and not isinstance(labels, str)
    require(listed, f"{name} must be a list of texts, got {labels!r:.60}")
    require(len(labels) == count, f"{name} must have {count} entries, got {len(labels)}")
    return [readable(label) for label in labels]


def _cell(shape: tuple[int, ...]) -> float:
    """Return the size of a cell in inches."""
    return min(0.5, 4.5 / shape[-2], (WIDEST - 1.3) / shape[-1])


def _room(ax, columns: int) -> float:
    """Return how wide a column of an Axes is, about, in inches."""
    return ax.get_position().width * ax.figure.get_figwidth() / columns


def _new_axes(width: float, height: float):
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def _panels(shape: tuple[int, int, int]):
    """Return H Axes, as many in a row as are readable."""
    import matplotlib.pyplot as plt

    heads, rows, columns = shape
    cell = min(0.3, 2.9 / columns, 4.0 / rows)
    width, height = columns * cell + 1.0, rows * cell + 1.0
    across = min(heads, int(WIDEST / width + 1e-9))  # 7.8 / 3.9 may come out just below 2
    down = -(-heads // across)
    size = (across * width, down * height + 0.4)
    axes = plt.subplots(down, across, figsize=size, layout="constrained", squeeze=False)[1].ravel()
    for spare in axes[heads:]:
        spare.remove()
    return axes[:heads]


def _table(
    values, labels, names, *, ax, title: str, vmin, vmax, cmap=WEIGHTS, numbers: bool | None = None
):
    """Draw one table of queries and keys with its title and labels."""
    rows, columns = values.shape
    cell = _cell(values.shape)
    ax = ax or _new_axes(columns * cell + 1.3, rows * cell + 1.1)
    image = ax.imshow(values, cmap=cmap, vmin=vmin, vmax=vmax, interpolation="nearest")
    if columns <= 40:
        _grid(ax, values.shape)
    _name(ax, values.shape, labels, names)
    ax.set_title(title, parse_math=False)
    if values.size <= 64 if numbers is None else numbers:
        texts = np.vectorize("{:.2f}".format)(values)
        room = 72 * min(cell, _room(ax, columns)) / max(map(len, texts.flat))
        style = {"ha": "center", "va": "center", "fontsize": max(8.0, min(10.0, 1.1 * room))}
        for (row, column), value in np.ndenumerate(values):
            grey = np.dot(image.to_rgba(value)[:3], (0.299, 0.587, 0.114))
            color = "white" if grey < 0.48 else "black"
            ax.text(column, row, texts[row, column].replace("-", "−"), color=color, **style)
    return ax


def _name(
    ax, shape: tuple[int, int], labels: tuple[Labels, Labels], names: tuple[str, str]
) -> None:
    """Name the axes, in the colours of their roles, and label the rows and columns."""
    from wcwidth import width

    ax.xaxis.tick_top()
    ax.xaxis.set_label_position("top")
    ax.set_ylabel(names[0], color=QUERY)
    ax.set_xlabel(names[1], color=KEY)
    _whole_ticks(ax)
    room = 72 * min(_cell(shape), _room(ax, shape[1]))
    size = max(5.0, min(10.0, 0.75 * room))
    for axis, what, count, given in zip(
        (ax.yaxis, ax.xaxis), ("query_labels", "key_labels"), shape, labels, strict=True
    ):
        if given is not None:
            given = _labels(given, count, what)
            axis.set_ticks(range(count), given, fontsize=size, parse_math=False)
    for text in ax.get_xticklabels() if labels[1] is not None else ():
        too_wide = 0.65 * size * width(text.get_text()) > max(room, 1.3 * size)
        text.set_rotation(90 if too_wide else 0)
    ax.tick_params(length=0)


def _grid(ax, shape: tuple[int, int]) -> None:
    ax.set_xticks(np.arange(shape[1] + 1) - 0.5, minor=True)
    ax.set_yticks(np.arange(shape[0] + 1) - 0.5, minor=True)
    ax.grid(which="minor", color="0.85", linewidth=0.5)
    ax.tick_params(which="minor", length=0)


def _whole_ticks(ax) -> None:
    from matplotlib.ticker import MaxNLocator

    for locator in (ax.xaxis.get_major_locator(), ax.yaxis.get_major_locator()):
        if isinstance(locator, MaxNLocator):  # a panel that shares its axis may have labels already
            locator.set_params(integer=True, min_n_ticks=1)
