"""One palette: whoever draws takes a colour by its name, and a style sheet repeats it unchanged."""

import ast
import json
import re
from pathlib import Path

import pytest
from matplotlib.colors import to_hex

from transformer_lab import palette

ROOT = Path(palette.__file__).parents[1]
NOTEBOOKS = [
    path
    for folder in ("notebooks", "notebooks/evidence", "solutions", "exercises")
    for path in sorted((ROOT / folder).glob("*.ipynb"))
]
DRAWING = [*(ROOT / "course/figures").glob("*.py"), ROOT / "transformer_lab/plots.py"]
STYLES = [path for folder in ("teaching", "course") for path in (ROOT / folder).rglob("*.css")]
STYLES.append(ROOT / "course/grading/templates/base.html")
NAMED = {name: value for name, value in vars(palette).items() if name.isupper()}
HEX = {to_hex(value): name for name, value in NAMED.items() if str(value).startswith("#")}
HEX = {to_hex(value): "SERIES" for value in palette.SERIES} | HEX
MAPS = {value: name for name, value in NAMED.items() if value in ("Purples", "BrBG", "Greys")}


def code_of(path):
    """Return the Python of a file or notebook."""
    if path.suffix == ".py":
        return path.read_text("utf-8")
    cells = json.loads(path.read_text("utf-8"))["cells"]
    code = ("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    return re.sub(r"^\s*[%!].*", "", "\n".join(code), flags=re.MULTILINE)


def name_of(text):
    """Return the palette's name of a colour that is written out, a grey ("0.6") among them."""
    is_colour = re.fullmatch(r"#([0-9a-fA-F]{3}){1,2}|0\.\d+", text)
    return HEX.get(to_hex(text)) if is_colour else MAPS.get(text)


@pytest.mark.parametrize(
    "path", NOTEBOOKS + DRAWING, ids=lambda path: f"{path.parent.name}-{path.stem}"
)
def test_no_colour_of_the_palette_is_written_out(path):
    for text in ast.walk(ast.parse(code_of(path))):
        if isinstance(text, ast.Constant) and isinstance(text.value, str):
            name = name_of(text.value)
            assert name is None, (
                f"line {text.lineno}: {text.value!r} is transformer_lab.palette.{name}"
            )


@pytest.mark.parametrize("path", STYLES, ids=lambda path: path.stem)
def test_a_style_sheet_names_the_colours_of_the_palette_first_and_repeats_none(path):
    """Its first `:root` gives the palette's colours under the palette's names; the rest uses these
    names (for the dark it may give them other values)."""
    text = re.sub(r"/\*.*?\*/", "", path.read_text("utf-8"), flags=re.DOTALL)
    first, dark = re.search(r":root\s*{.*?}", text, re.DOTALL), r"dark\)\s*{\s*:root\s*{.*?}"
    named = re.findall(r"--([\w-]+):\s*(#\w+)", first[0] if first else "")
    for name, value in named:
        if (constant := name.upper().replace("-", "_")) in NAMED:
            assert to_hex(value) == to_hex(NAMED[constant]), f"--{name} is {NAMED[constant]}"
            text = text.replace(f"--{name}: {value}", "", 1)
    for value in re.findall(r"#[0-9a-fA-F]{6}\b", re.sub(dark, "", text, flags=re.DOTALL)):
        assert to_hex(value) not in HEX, f"{value} is --{HEX[to_hex(value)].lower()}"


def test_parts_that_stand_side_by_side_differ_without_colour_or_in_their_dashes():
    def lightness(color):
        r, g, b = (int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))
        return 0.299 * r + 0.587 * g + 0.114 * b

    assert lightness(palette.GOOD) - lightness(palette.BAD) > 0.25
    assert lightness(palette.FAINT) - lightness(palette.BASELINE) > 0.15
    assert (
        len({*palette.ROLE_COLORS.values(), palette.GOOD, palette.BAD, *palette.SERIES[1:]}) == 10
    )
