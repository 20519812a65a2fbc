"""The model in the page: the files here, the numbers of a trained model, and two still pictures."""

import base64
import functools
import io
import json
import re
from pathlib import Path

import numpy as np
import torch

from course.explorables.reader import MODEL_SCRIPT, packed_model
from transformer_lab import ModelConfig, Tokenizer, Transformer, load_run, plots
from transformer_lab.attention import scaled_dot_product_attention
from transformer_lab.runs import PRETRAINED, Run
from transformer_lab.saving import set_parameters
from transformer_lab.support.validation import require

HERE, FOLDER = Path(__file__).parent, Path("page")
WEIGHTS = FOLDER / "weights.js"
NAME = "const DATE_MODEL = "
EXAMPLE = "friday 15 february 2019"


def pages(
    lesson: str = "../../../notebooks/{}.ipynb", home: str = "../../../README.md"
) -> dict[Path, str | bytes]:
    """Return the files of the pages; `lesson` is the address of a lesson, "{}" being its name."""
    require("{}" in lesson, f"lesson must have a place for the name, {{}}, got {lesson!r}")
    made = dict(_made()) | {FOLDER / MODEL_SCRIPT.name: MODEL_SCRIPT.read_text("utf-8")}
    for path in HERE.iterdir():
        if path.suffix == ".html":
            link = re.compile(r"\.\./\.\./notebooks/(\w+)\.ipynb")
            text = link.sub(lambda found: lesson.format(found[1]), path.read_text("utf-8"))
            made[FOLDER / path.name] = text.replace('href="../../README.md"', f'href="{home}"')
        elif path.suffix in (".js", ".css"):
            made[FOLDER / path.name] = path.read_text("utf-8")
    return made


@functools.cache
def _made() -> dict[Path, str | bytes]:
    """Return what is not written by hand. The model is the first of the course's date readers."""
    run = load_run(PRETRAINED / "dates_0")
    pictures = {"dates": picture_of_dates(run), "head": picture_of_head()}
    return {WEIGHTS: script_of(run)} | {FOLDER / f"{n}.png": png for n, png in pictures.items()}


def script_of(run: Run) -> str:
    """Return weights.js for a run on dates: the parameters in 16 bits, one after the other.

    Raises `ValueError` for a model that model.js does not do.
    """
    require(run.data == "dates", f"the page's model must read dates, got {run.data}")
    content = packed_model(run)
    model, tokenizer = load_script(content)
    scores = Run(run.folder, model, tokenizer, "dates", beam=1).evaluate()["test"]
    parameters = sum(p.numel() for p in model.parameters())
    content = {"exact_match": scores["exact_match"], "parameters": parameters, **content}
    return f"{NAME}{json.dumps(content, ensure_ascii=False)};\n"


def read_script(text: str) -> dict:
    """Return what is in weights.js."""
    return json.loads(text.partition(NAME)[2].rstrip().removesuffix(";"))


def load_script(content: dict) -> tuple[Transformer, Tokenizer]:
    """Return the model and the tokenizer of the page, as PyTorch runs them."""
    numbers = np.frombuffer(base64.b64decode(content["float16"]), "<f2").astype(np.float32)
    shapes = content["shapes"]
    parts = torch.from_numpy(numbers).split([int(np.prod(shape)) for shape in shapes.values()])
    tensors = {name: part.view(shapes[name]) for name, part in zip(shapes, parts, strict=True)}
    model = Transformer(ModelConfig(**content["config"])).eval()
    set_parameters(model, tensors, WEIGHTS)
    return model, Tokenizer(content["pieces"][4:])


def picture_of_dates(run: Run) -> bytes:
    """Return what the last layer looked at while it wrote EXAMPLE, as PNG."""
    weights, written, read = run.cross_attention(EXAMPLE)
    title, axes = f"{EXAMPLE} → {run.translate(EXAMPLE)}", ("queries: written", "keys: read")
    return _png(weights[-1].mean(dim=0), written, read, title, axes)


def picture_of_head() -> bytes:
    """Return the weights of the example in head.js, as PNG."""
    source = (HERE / "head.js").read_text("utf-8")
    roles = [re.search(rf"{role}: (\[\[.*\]\])", source)[1] for role in ("query", "key", "value")]
    _, weights = scaled_dot_product_attention(*(torch.tensor(json.loads(r)).float() for r in roles))
    words = ["I", "love", "cats"]
    title, axes = "Weights: every row adds up to 1", ("queries", "keys")
    return _png(weights, words, words, title, axes)


def _png(weights, rows: list[str], columns: list[str], title: str, axes: tuple[str, str]) -> bytes:
    axis_names = dict(zip(("query_axis", "key_axis"), axes, strict=True))
    ax = plots.plot_attention(weights, rows, columns, title=title, **axis_names)
    buffer = io.BytesIO()
    ax.figure.savefig(buffer, format="png", dpi=100, metadata={"Software": None})
    return buffer.getvalue()
