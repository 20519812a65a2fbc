"""Put a trained date model into the page: its numbers (weights.js) and the two still pictures.

transformer-lab train dates --output runs/dates
python teaching/page/make.py runs/dates
"""

import argparse
import base64
import io
import json
import os
import re
import shutil
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch

from transformer_lab import ModelConfig, Tokenizer, Transformer, load_run, plots
from transformer_lab.attention import scaled_dot_product_attention
from transformer_lab.model import load_parameters, parameters_of
from transformer_lab.runs import Run
from transformer_lab.support.files import as_folder, write_atomically
from transformer_lab.support.validation import require

HERE = Path(__file__).parent
WEIGHTS = HERE / "weights.js"
NAME = "const DATE_MODEL = "
LAYOUT = {"pre_norm": False, "attention_bias": False, "tie_embeddings": True}  # what model.js does
EXAMPLE = "friday 15 february 2019"


def script_of(run: Run) -> str:
    """Return weights.js for a run on dates: the parameters in 16 bits, one after the other.

    Raises `ValueError` for a model that model.js does not do.
    """
    config, parameters = asdict(run.model.config), parameters_of(run.model)
    layout = {name: config[name] for name in LAYOUT}
    require(layout == LAYOUT, f"the page's model must have {LAYOUT}, got {layout}")
    require(run.data == "dates", f"the page's model must read dates, got {run.data}")
    numbers = torch.cat([p.detach().flatten() for p in parameters.values()]).half().numpy()
    content = {
        "config": config,
        "pieces": run.tokenizer.pieces,
        "parameters": numbers.size,
        "shapes": {name: list(p.shape) for name, p in parameters.items()},
        "float16": base64.b64encode(numbers.astype("<f2").tobytes()).decode(),
    }
    model, tokenizer = load_script(content)
    scores = Run(run.folder, model, tokenizer, "dates", beam=1).evaluate()["test"]
    content = {"exact_match": scores["exact_match"], **content}
    how = "// Made by teaching/page/make.py from a run of `transformer-lab train dates`.\n"
    return f"{how}{NAME}{json.dumps(content, ensure_ascii=False)};\n"


def read_script(path: Path = WEIGHTS) -> dict:
    """Return what is in weights.js."""
    return json.loads(path.read_text("utf-8").partition(NAME)[2].rstrip().removesuffix(";"))


def load_script(content: dict) -> tuple[Transformer, Tokenizer]:
    """Return the model and the tokenizer of the page, as PyTorch runs them."""
    numbers = np.frombuffer(base64.b64decode(content["float16"]), "<f2").astype(np.float32)
    shapes = content["shapes"]
    parts = torch.from_numpy(numbers).split([int(np.prod(shape)) for shape in shapes.values()])
    tensors = {name: part.view(shapes[name]) for name, part in zip(shapes, parts, strict=True)}
    model = Transformer(ModelConfig(**content["config"])).eval()
    load_parameters(model, tensors, WEIGHTS)
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


def copy_pages(folder: str | os.PathLike, lesson: str, home: str) -> None:
    """Copy the pages for a book whose first page is `home`, and whose lessons have the address
    `lesson`, "{}" being the name.
    """
    require("{}" in lesson, f"lesson must have a place for the name, {{}}, got {lesson!r}")
    folder = as_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for path in HERE.iterdir():
        if path.suffix == ".html":
            link = re.compile(r"\.\./\.\./notebooks/(\w+)\.ipynb")
            text = link.sub(lambda found: lesson.format(found[1]), path.read_text("utf-8"))
            text = text.replace('href="../../README.md"', f'href="{home}"')
            write_atomically(folder / path.name, text.encode())
        elif path.suffix in (".js", ".css", ".png"):
            shutil.copyfile(path, folder / path.name)


def main() -> None:
    parser = argparse.ArgumentParser(description="Put a trained date model into the page.")
    parser.add_argument("run", type=Path, help="folder of a run of `transformer-lab train dates`")
    folder = parser.parse_args().run
    try:
        run = load_run(folder)
        script = script_of(run)
    except ValueError as error:
        parser.error(str(error))
    write_atomically(WEIGHTS, script.encode())
    write_atomically(HERE / "dates.png", picture_of_dates(run))
    write_atomically(HERE / "head.png", picture_of_head())
    print(f"{read_script()['exact_match']:.2%} of the test dates right with 16 bits")


if __name__ == "__main__":
    main()
