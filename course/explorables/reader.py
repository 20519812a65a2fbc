"""The date reader in the page: where its heads look, and what it writes without some (lesson 11).

The model runs in the browser (`model.js`, which the pages of `teaching/page` run too), with the
weights of the first shipped date reader. A head that is switched off gives what it gives on
average; these means stand in reader.json, which `store_means` writes anew.
"""

import base64
import functools
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from course.explorables.pens import Drawing
from transformer_lab.attention import MultiHeadAttention
from transformer_lab.config import PAD
from transformer_lab.data import Batch, date_pairs
from transformer_lab.decoding import greedy_decode
from transformer_lab.maps import attention_maps
from transformer_lab.palette import FAINT, INK, QUIET, WEIGHT
from transformer_lab.runs import PRETRAINED, Run, load_run
from transformer_lab.saving import parameters_of
from transformer_lab.support.files import write_atomically
from transformer_lab.support.validation import require

TITLE = "A reader of dates, and its 24 heads"
MODEL_SCRIPT = Path(__file__).with_name("model.js")
SCRIPTS, STYLES = (MODEL_SCRIPT.name, "reader.js"), ("reader.css",)
LAYOUT = {"pre_norm": False, "tie_embeddings": True}  # what model.js does
MEANS, NUM_DATES = Path(__file__).with_suffix(".json"), 200
LONGEST = 40  # characters of a date
# The kinds of attention: their modules, what they are called, and what a row of their map is.
KINDS = {
    "encoder": ("encoder.layers.{}.self_attention", "self-attention", "At"),
    "cross": ("decoder.layers.{}.cross_attention", "cross-attention", "Writing"),
    "decoder": ("decoder.layers.{}.self_attention", "self-attention", "Writing"),
}
SHOWN = {"▁": "␣", "<unk>": "?"}  # what stands for a piece
EXAMPLES = ("friday 15 march 2019", "monday 15 april 2019", "1.11.1923", "Mar 3, 1987")
CELL, LEFT, TOP = 24, 60, 92  # the still picture, in pixels


def numbers(
    date: str = EXAMPLES[0], kind: str = "cross", layer: int = 2, head: int = 3, place: int = 7
) -> dict:
    """Return what is shown at first: a date, a head, and the row of its map at `place`.

    `kind` is "encoder", "cross" or "decoder"; layers, heads and places are counted from 1. Raises
    `ValueError` for a head that is not there, for no date, or for one that is too long.
    """
    sizes = reader().model.config
    layers = sizes.num_encoder_layers if kind == "encoder" else sizes.num_decoder_layers
    require(kind in KINDS, f"kind must be one of {[*KINDS]}, got {kind!r}")
    require(1 <= layer <= layers, f"layer must be from 1 to {layers}, got {layer}")
    require(1 <= head <= sizes.num_heads, f"head must be from 1 to {sizes.num_heads}, got {head}")
    length = f"date must have 1 to {LONGEST} characters, got {len(date)}"
    require(1 <= len(date) <= LONGEST, length)
    rows = len(maps_of(date)[0 if kind == "encoder" else 1])
    require(1 <= place <= rows, f"place must be from 1 to {rows}, got {place}")
    return {
        "date": date,
        "kind": kind,
        "layer": layer,
        "head": head,
        "place": place,
        "longest": LONGEST,
        "examples": [*EXAMPLES],
        "kinds": {name: [*texts] for name, texts in KINDS.items()},
        "shown": SHOWN,
        "means": json.loads(MEANS.read_text("utf-8")),
        "model": packed_model(reader()),
    }


@functools.cache
def reader() -> Run:
    """Return the date reader that runs in the page."""
    return load_run(PRETRAINED / "dates_0")


def maps_of(date: str) -> tuple[list[str], list[str], dict[str, Tensor]]:
    """Return the pieces read, those written, and each attention's weights, (H, Lq, Lk)."""
    model, tokenizer = reader().model, reader().tokenizer
    source = torch.tensor([tokenizer.encode(date)])
    target = greedy_decode(model, source)  # from <bos> to <eos>
    maps = attention_maps(model, source, target[:, :-1])
    read, wrote = (
        [SHOWN.get(piece, piece) for piece in tokenizer.tokens(ids.tolist())]
        for ids in (source[0], target[0, 1:])
    )
    return read, wrote, {name: weights[0] for name, weights in maps.items()}


# ---- The numbers of a model, as a page has them


def packed(tensors: Mapping[str, Tensor]) -> dict:
    """Return the shapes of named tensors, and all their numbers in 16 bits, in base64."""
    values = torch.cat([tensor.detach().flatten() for tensor in tensors.values()]).half().numpy()
    return {
        "shapes": {name: list(tensor.shape) for name, tensor in tensors.items()},
        "float16": base64.b64encode(values.astype("<f2").tobytes()).decode(),
    }


def unpacked(content: Mapping) -> dict[str, Tensor]:
    """Return the tensors that `packed` was given, in 16 bits."""
    values = np.frombuffer(base64.b64decode(content["float16"]), "<f2").astype(np.float32)
    shapes = content["shapes"].values()
    parts = torch.from_numpy(values).split([int(np.prod(shape)) for shape in shapes])
    return {
        name: part.view(*shape)
        for (name, shape), part in zip(content["shapes"].items(), parts, strict=True)
    }


def packed_model(run: Run) -> dict:
    """Return what model.js loads. Raises `ValueError` for a model that it does not do."""
    config = asdict(run.model.config)
    layout = {name: config[name] for name in LAYOUT}
    require(layout == LAYOUT, f"the page's model must have {LAYOUT}, got {layout}")
    return {
        "config": config,
        "pieces": run.tokenizer.pieces,
        **packed(parameters_of(run.model)),
    }


@torch.no_grad()
def mean_outputs(run: Run) -> dict[str, Tensor]:
    """Return what the heads of each attention give on average, side by side as W_O has them.

    The mean is over dates that were not in training. In the decoder it is taken for each written
    place, (11, d_model), since what it does depends on the place; in the encoder over all places,
    (1, d_model).
    """
    pairs = date_pairs(NUM_DATES, seed=2, split="test")
    sides = [run.tokenizer.encode_batch(texts) for texts in zip(*pairs, strict=True)]
    batch = Batch.from_pairs([*zip(*sides, strict=True)])
    means, handles = {}, []
    for name, module in run.model.named_modules():
        if isinstance(module, MultiHeadAttention):

            def note(w_o, inputs, name=name):
                if name.startswith("encoder"):
                    means[name] = inputs[0][batch.source != PAD].mean(dim=0, keepdim=True)
                else:
                    means[name] = inputs[0].mean(dim=0)

            handles.append(module.w_o.register_forward_pre_hook(note))
    run.model(batch.source, batch.target_in)
    for handle in handles:
        handle.remove()
    return means


def store_means() -> None:
    """Write reader.json anew: the last digits of a mean are not the same on every machine."""
    stored = {"dates": NUM_DATES} | packed(mean_outputs(reader()))
    write_atomically(MEANS, f"{json.dumps(stored)}\n".encode())


# ---- The still picture


def picture(shown: dict) -> tuple[str, str]:
    """Return the still picture as SVG, the whole map of the head, and what is seen on it."""
    read, wrote, maps = maps_of(shown["date"])
    module, called, _ = KINDS[shown["kind"]]
    weights = maps[module.format(shown["layer"] - 1)][shown["head"] - 1]
    rows = read if shown["kind"] == "encoder" else wrote
    columns = ["begin", *wrote[:-1]] if shown["kind"] == "decoder" else read
    named = f"{shown['kind']} {shown['layer']}.{shown['head']} ({called})"
    answer = "".join(wrote[:-1])
    drawing = Drawing(max(LEFT + CELL * len(columns) + 20, 620), TOP + CELL * len(rows) + 12)
    middle = drawing.width / 2
    title = f"{shown['date']} → {answer}"
    drawing.text((middle, 20), title, size=16, anchor="middle", font_weight="bold")
    drawing.text((middle, 42), f"{named}: the darker, the larger the weight", QUIET, 13, "middle")
    for column, piece in enumerate(columns):
        drawing.text((LEFT + CELL * (column + 0.5), TOP - 8), piece, size=13, anchor="middle")
    for row, piece in enumerate(rows):
        top = TOP + CELL * row
        drawing.text((LEFT - 8, top + 17), piece, size=13, anchor="end")
        for column, weight in enumerate(weights[row].tolist()):
            corner = (LEFT + CELL * column, top)
            look = {"fill": WEIGHT, "fill_opacity": round(weight, 1), "stroke": FAINT}
            drawing.rectangle(corner, (CELL, CELL), **look)
    now = (LEFT, TOP + CELL * (shown["place"] - 1))
    drawing.rectangle(now, (CELL * len(columns), CELL), fill="none", stroke=INK, stroke_width=2)
    looks = [f"{piece} at {columns[weights[row].argmax()]}" for row, piece in enumerate(rows)]
    said = (
        f"A map of weights: the model reads {shown['date']} and writes {answer}. Each row is a "
        f"piece, each column what it can look at, in head {named}. The largest weight of each row, "
        f"from the top: {', '.join(looks)}."
    )
    return drawing.svg(), said
