"""Drawn scenes and what they show in words: endless, offline, and the truth is exact."""

import random
from dataclasses import dataclass
from itertools import product

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from transformer_lab.support.validation import require, require_sizes

COLORS = {
    "red": (0.85, 0.15, 0.15),
    "green": (0.15, 0.65, 0.2),
    "blue": (0.2, 0.3, 0.9),
    "yellow": (0.95, 0.8, 0.1),
}
SHAPES = ("circle", "square", "triangle")
THINGS = [f"{color} {shape}" for color, shape in product(COLORS, SHAPES)]
CELLS, CELL = 3, 8  # cells in a row or column, and pixels in each
SIDE = CELLS * CELL
FINE = 4  # steps in a pixel, down and across, by which a smooth edge is measured

# Never together in a picture of "train"; each thing is in one of them.
UNSEEN_TOGETHER = frozenset(
    map(
        frozenset,
        (
            ("green circle", "red square"),
            ("yellow circle", "blue triangle"),
            ("green square", "red triangle"),
            ("blue circle", "yellow square"),
            ("red circle", "blue square"),
            ("green triangle", "yellow triangle"),
        ),
    )
)
# Never in the right column in a picture of "train", where others may be.
UNSEEN_RIGHT = ("red square", "blue circle")
SPLITS = ("train", "test", "together", "right")


@dataclass(frozen=True)
class Scene:
    """A picture of two or three things, its caption, and where each thing is, as it is named."""

    image: Float[Tensor, "3 24 24"]
    caption: str
    pixels: Bool[Tensor, "things 24 24"]


def scenes(count: int, seed: int, *, split: str = "train", smooth: bool = False) -> list[Scene]:
    """Draw scenes such as "a green circle left of a red square and a blue triangle".

    Two things share a row ("left of") or a column ("above") of 3 × 3 cells; the left, or upper,
    one is named first. Half of the scenes have a third, in another row and column. The place
    within the cell, the size and the shade vary. `split="test"` is drawn as "train" is. In
    "together" the related things are a pair of `UNSEEN_TOGETHER`, in "right" one of them is of
    `UNSEEN_RIGHT` and stands in the right column: "train" shows neither, ever. With `smooth` a
    pixel at an edge is coloured by how much of it the thing covers, so that circles look round;
    nothing else is drawn differently. The same arguments give the same scenes. Raises `ValueError`
    for a `count` below 1 or another split.
    """
    require_sizes(count=count)
    require_sizes(seed=seed, at_least=0)
    require(split in SPLITS, f"split must be one of {SPLITS}, got {split!r}")
    rng = random.Random(f"{split} {seed}")
    found = []
    while len(found) < count:
        things, places = _things(rng), _places(rng)
        if _split_of(things, places) == ("train" if split == "test" else split):
            found.append(_draw(rng, things, places, smooth))
    return found


def _things(rng: random.Random) -> list[str]:
    return rng.sample(THINGS, rng.choice((2, 3)))


def _places(rng: random.Random) -> list[tuple[int, int]]:
    """Three places (row, column): two on a line, in reading order, and one on neither line."""
    first, second = sorted(rng.sample(range(CELLS), 2))
    line, other = rng.sample(range(CELLS), 2)
    third = CELLS - first - second  # the place on a line that neither has
    places = [(line, first), (line, second), (other, third)]
    return places if rng.random() < 0.5 else [(column, row) for row, column in places]


def _split_of(things: list[str], places: list[tuple[int, int]]) -> str | None:
    """Which split may show these; None if more than one thing about them is unseen."""
    on_the_right = [
        index
        for index, (thing, (_, column)) in enumerate(zip(things, places, strict=False))
        if thing in UNSEEN_RIGHT and column == CELLS - 1
    ]
    together = [pair for pair in UNSEEN_TOGETHER if pair <= set(things)]
    if not on_the_right and not together:
        return "train"
    if not on_the_right and together == [frozenset(things[:2])]:
        return "together"
    if len(on_the_right) == 1 and on_the_right[0] < 2 and not together:
        return "right"
    return None


def _draw(
    rng: random.Random, things: list[str], places: list[tuple[int, int]], smooth: bool
) -> Scene:
    image = torch.full((3, SIDE, SIDE), rng.uniform(0.85, 1.0))
    drawn = [_drawn(rng, *pair) for pair in zip(things, places, strict=False)]
    for thing, (inside, share) in zip(things, drawn, strict=True):
        shade = [level + rng.uniform(-0.1, 0.1) for level in COLORS[thing.split()[0]]]
        color = torch.tensor(shade)[:, None, None]
        image = image.lerp(color, share) if smooth else torch.where(inside, color, image)
    relation = "left of" if places[0][0] == places[1][0] else "above"
    caption = f"a {things[0]} {relation} a {things[1]}"
    caption += f" and a {things[2]}" if len(things) == 3 else ""
    return Scene(image.clamp(0, 1), caption, torch.stack([inside for inside, _ in drawn]))


def _drawn(
    rng: random.Random, thing: str, place: tuple[int, int]
) -> tuple[Bool[Tensor, "24 24"], Float[Tensor, "24 24"]]:
    """Return which pixels a thing covers, by their middles, and how much of each."""
    row, column = (CELL * (cell + 0.5) - 0.5 + rng.uniform(-0.7, 0.7) for cell in place)
    size, shape = rng.uniform(2.9, 3.4), thing.split()[1]
    pixels = torch.arange(SIDE)
    fine = (torch.arange(SIDE * FINE) + 0.5) / FINE - 0.5  # the same axis, in finer steps
    inside, inside_finely = (
        _covers(shape, size, axis[:, None] - row, axis[None, :] - column) for axis in (pixels, fine)
    )
    return inside, F.avg_pool2d(inside_finely[None].float(), FINE)[0]


def _covers(shape: str, size: float, down: Tensor, across: Tensor) -> Tensor:
    """Return which points lie in a shape, given how far they are from its middle."""
    if shape == "circle":
        return down**2 + across**2 <= (0.9 * size) ** 2
    if shape == "square":
        return torch.maximum(down.abs(), across.abs()) <= size
    return (down.abs() <= size) & (across.abs() <= (down + size) / 2)
