"""The paper's Figure 1, small, as the map of the course, and the three steps that lead to it."""

from collections.abc import Iterable
from itertools import pairwise

from course.figures.diagrams import Diagram
from transformer_lab.palette import BASELINE, FAINT, INK, LIT, PLAIN, QUIET
from transformer_lab.support.validation import require

# From below. A box is lit by words of its name; a number only tells one norm from the next.
BELOW = ("embedding", "positional encoding")
LAYERS = {
    "encoder": ("self-attention", "add & norm 1", "feed-forward", "add & norm 2"),
    "decoder": (
        *("masked self-attention", "add & norm 1", "cross-attention", "add & norm 2"),
        *("feed-forward", "add & norm 3"),
    ),
}
GENERATOR = "generator linear softmax"
BOXES = {  # by name: what it says
    **{f"{stack} {part}": part for stack in LAYERS for part in BELOW},
    **{f"{stack} layer {part}": part for stack, layer in LAYERS.items() for part in layer},
    GENERATOR: "linear, softmax",
}
TWO_LINES = {
    "positional encoding": "positional\nencoding",
    "self-attention": "self-\nattention",
    "masked self-attention": "masked self-\nattention",
}
LOW = 0.19  # inches, the height of a box with one line


def small_map(lit: str | Iterable[str] = ()) -> Diagram:
    """Draw the paper's Figure 1 small, with the parts named in `lit` coloured and the rest pale.

    A part is named by words: "cross-attention", "decoder masked self-attention", "add & norm",
    "embedding", "positional encoding", "generator", "encoder", "decoder layer". They light every
    box that has all of them. Without `lit` nothing is pale. Raises `ValueError` for words that no
    box has.
    """
    chosen = {}
    for words in (lit,) if isinstance(lit, str) else lit:
        chosen[words] = {box for box in BOXES if set(words.split()) <= set(box.split())}
        require(bool(chosen[words]), f"lit must be words of {tuple(BOXES)}, got {words!r}")
    return _SmallMap(set().union(*chosen.values()) if chosen else None)


def zoom(step: int, source: str = "friday 15 february 2019", target: str = "2019-02-15") -> Diagram:
    """Draw one of three steps into the Transformer: a black box; encoder and decoder; one layer.

    Raises `ValueError` for any other step.
    """
    require(step in (1, 2, 3), f"step must be 1, 2 or 3, got {step!r}")
    if step == 3:
        return small_map()
    drawing, y = (Diagram(7.6, 1.0), 0.5) if step == 1 else (Diagram(7.6, 1.9), 1.1)
    style = {"fontsize": 11, "parse_math": False}
    drawing.box("source", 1.15, y, source, width=2.2, height=0.5, **style)
    drawing.box("target", 6.75, y, target, width=1.5, height=0.5, **style)
    if step == 1:
        drawing.box("Transformer", 4.1, y, width=1.9, height=0.8, fontsize=13, fontweight="bold")
        path = ("source", "Transformer", "target")
    else:
        for name, x in (("encoder", 3.2), ("decoder", 5.1)):
            drawing.box(name, x, y, width=1.1, height=0.8, fontsize=13, fontweight="bold")
        path = ("source", "encoder", "decoder", "target")
        drawing.note(3.2, 1.72, "reads all of it at once", fontsize=10)
        drawing.note(5.1, 1.72, "writes piece by piece", fontsize=10)
        drawing.arrow(
            "target", "decoder", "what is written so far", via=((6.75, 0.25), (5.1, 0.25))
        )
    for start, end in pairwise(path):
        drawing.arrow(start, end)
    return drawing


class _SmallMap(Diagram):
    """Two columns of boxes, with every wire and every residual line of the paper's figure."""

    def __init__(self, lit: set[str] | None):
        super().__init__(2.8, 3.45)
        self.lit = lit
        left, right = 0.69, 2.11
        encoder, decoder = self.stack("encoder", left, -1), self.stack("decoder", right, 1)
        # The memory: from the encoder's end to the decoder's second attention.
        into = self._boxes["decoder layer cross-attention"][0][1]
        lane = ((1.4, encoder + 0.14), (1.4, into))
        self.wire((left, encoder), (left, encoder + 0.14), *lane, (right - 0.52, into))
        self.label(left, encoder + 0.25, "encoder × N")
        self.label(right - 0.08, decoder + 0.14, "decoder × N", ha="right")  # beside the wire
        top = self.part(GENERATOR, right, decoder, gap=0.22)
        self.wire((right, top), (right, top + 0.12))
        self.label(right, top + 0.2, "next piece")

    def label(self, x: float, y: float, text: str, **style) -> None:
        self.note(x, y, text, fontsize=8, color=QUIET, **style)

    def stack(self, name: str, x: float, side: int) -> float:
        """Draw encoder or decoder from below; return the height at which it ends."""
        from matplotlib.patches import FancyBboxPatch

        self.label(x, 0.08, "source" if name == "encoder" else "target so far")
        top = 0.15
        for part in BELOW:
            top = self.part(f"{name} {part}", x, top, gap=0.1)
        low, first = top + 0.08, True
        for part in LAYERS[name]:
            if "norm" not in part:
                fork = top + (0.14 if first else 0.06)
                top, first = self.part(f"{name} layer {part}", x, top, gap=fork - top + 0.07), False
            else:
                top = self.part(f"{name} layer {part}", x, top + 0.03)
                out, into = x + 0.6 * side, top - LOW / 2
                self.wire((x, fork), (out, fork), (out, into), (x + 0.52 * side, into))
        frame = (x - (0.66 if side < 0 else 0.58), low), 1.24, top + 0.07 - low
        shape = {"boxstyle": "round,pad=0,rounding_size=0.08", "fill": False, "ec": FAINT}
        self.axes.add_patch(FancyBboxPatch(*frame, zorder=0, **shape))
        return top

    def part(self, name: str, x: float, low: float, gap: float = 0) -> float:
        """Draw a box, and a wire into it over `gap` from `low` on; return the height of its top."""
        text = TWO_LINES.get(BOXES[name], BOXES[name].rstrip(" 123"))
        height = 0.32 if "\n" in text else LOW
        pale = self.lit is not None and name not in self.lit
        style = {"fontsize": 8, "linespacing": 1.0, "color": QUIET if pale else INK}
        self.box(name, x, low + gap + height / 2, text, width=1.04, height=height, **style)
        if pale:
            self._boxes[name][1].set(facecolor="none", edgecolor=FAINT, linewidth=1)
        elif self.lit:
            self._boxes[name][1].set(facecolor=LIT, edgecolor=INK, linewidth=1.8)
        if gap:
            self.wire((x, low), (x, low + gap))
        return low + gap + height

    def wire(self, *points: tuple) -> None:
        """Draw a line around corners, with a head at its end."""
        for number, (a, b) in enumerate(pairwise(points), 2):
            style = {"arrowstyle": "-|>" if number == len(points) else "-", "mutation_scale": 7}
            style |= {"color": PLAIN if self.lit is None else BASELINE, "lw": 0.9}
            self.axes.annotate("", xy=b, xytext=a, arrowprops=style | {"shrinkA": 0, "shrinkB": 0})
