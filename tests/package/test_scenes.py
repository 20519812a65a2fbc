"""Drawn scenes: the caption says what is there, and the splits keep what they promise."""

import itertools

import pytest
import torch
import torch.nn.functional as F

from transformer_lab.data import scenes
from transformer_lab.data.scenes import (
    CELL,
    CELLS,
    COLORS,
    SIDE,
    SPLITS,
    UNSEEN_RIGHT,
    UNSEEN_TOGETHER,
)


def things_of(scene):
    words = scene.caption.split()
    return [f"{a} {b}" for a, b in itertools.pairwise(words) if a in COLORS]


def cells_of(scene):
    """The cell (row, column) of each thing, by the middle of its pixels."""
    return [tuple((p.nonzero().float().mean(0) // CELL).int().tolist()) for p in scene.pixels]


@pytest.mark.parametrize("split", SPLITS)
def test_the_caption_is_what_the_pixels_show(split):
    for scene in scenes(60, 3, split=split):
        things, cells = things_of(scene), cells_of(scene)
        assert scene.image.shape == (3, SIDE, SIDE) and len(things) == len(scene.pixels)
        assert scene.image.min() >= 0 and scene.image.max() <= 1
        assert len(set(things)) == len(things) in (2, 3)
        (row, column), (other_row, other_column) = cells[:2]
        if "left of" in scene.caption:
            assert row == other_row and column < other_column
        else:
            assert "above" in scene.caption and column == other_column and row < other_row
        for third in cells[2:]:
            assert third[0] not in (row, other_row) and third[1] not in (column, other_column)
        for thing, pixels in zip(things, scene.pixels, strict=True):
            shade = torch.tensor(COLORS[thing.split()[0]])
            assert (scene.image[:, pixels].mean(1) - shade).abs().max() <= 0.1 + 1e-6


def test_no_thing_hides_another_and_the_rest_is_one_grey():
    for scene in scenes(60, 4):
        assert scene.pixels.sum(0).max() == 1
        assert scene.image[:, ~scene.pixels.any(0)].std() < 1e-6


def test_a_square_fills_its_box_a_circle_does_not_a_triangle_grows_downwards():
    for scene in scenes(100, 5):
        for thing, pixels in zip(things_of(scene), scene.pixels, strict=True):
            rows, columns = pixels.any(1), pixels.any(0)
            box = pixels[rows][:, columns]
            assert thing.endswith("square") == bool(box.all())
            if thing.endswith("triangle"):
                assert box[-1].all() and box.sum(1).diff().min() >= 0


@pytest.mark.parametrize("split", SPLITS)
def test_a_split_shows_what_it_is_for_and_nothing_else_unseen(split):
    for scene in scenes(100, 6, split=split):
        things, cells = things_of(scene), cells_of(scene)
        together = [pair for pair in UNSEEN_TOGETHER if pair <= set(things)]
        right = [
            thing
            for thing, (_, column) in zip(things, cells, strict=True)
            if thing in UNSEEN_RIGHT and column == CELLS - 1
        ]
        assert together == ([frozenset(things[:2])] if split == "together" else [])
        assert len(right) == (split == "right") and set(right) <= set(things[:2])


def test_smooth_softens_the_edges_and_changes_nothing_else():
    plain, smooth = scenes(40, 7), scenes(40, 7, smooth=True)
    for one, other in zip(plain, smooth, strict=True):
        assert one.caption == other.caption and torch.equal(one.pixels, other.pixels)
        changed = (one.image != other.image).any(0)
        around = F.max_pool2d(one.pixels.float(), 5, 1, 2).any(0)  # the tips of triangles
        inner = 1 - F.max_pool2d(F.pad(1 - one.pixels.float(), (1, 1, 1, 1), value=1), 3, 1)
        assert changed.any() and not (changed & (~around | inner.any(0).bool())).any()
        assert other.image.min() >= 0 and other.image.max() <= 1


def test_a_smooth_thing_stays_in_its_cell_too():
    for scene in scenes(100, 8, smooth=True):
        ground = scene.image[:, ~scene.pixels.any(0)].mode(dim=1).values[:, None, None]
        touched = ((scene.image - ground).abs() > 1e-4).any(0).float()
        cells = F.max_pool2d(touched[None], CELL).sum()
        assert cells == len(scene.pixels)


def test_each_thing_and_each_column_is_seen_in_training():
    seen = {
        (thing, column)
        for scene in scenes(300, 0)
        for thing, (_, column) in zip(things_of(scene), cells_of(scene), strict=True)
    }
    assert len(seen) == 12 * CELLS - len(UNSEEN_RIGHT)


def test_the_same_seed_gives_the_same_scenes_and_splits_draw_their_own():
    one, again = scenes(5, 1), scenes(5, 1)
    assert all(torch.equal(a.image, b.image) for a, b in zip(one, again, strict=True))
    assert [s.caption for s in one] != [s.caption for s in scenes(5, 2)]
    assert [s.caption for s in one] != [s.caption for s in scenes(5, 1, split="test")]


@pytest.mark.parametrize(
    "arguments, words",
    [((0, 0), "count must be a whole number from 1"), ((1, -1), "seed"), ((1, 0), "split must be")],
)
def test_bad_arguments_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        scenes(*arguments, split="all" if words.startswith("split") else "train")
