"""An explorable as a page has it: numbers from Python, JavaScript beside this file, one picture.

Where scripts may run, in a notebook that JupyterLab trusts, in a cell that was just run, in the
book, the picture gives way to what can be moved. Elsewhere, and on paper, it stays. Neither a
kernel nor another host is asked for anything.
"""

import base64
import inspect
import json
from collections.abc import Callable
from html import escape
from pathlib import Path
from types import ModuleType

from course.explorables import beam, clocks, query, reader
from transformer_lab import palette
from transformer_lab.support.validation import did_you_mean, require

HERE = Path(__file__).parent
EXPLORABLES = {"query": query, "clocks": clocks, "beam": beam, "reader": reader}
# The palette's colours, by the names that core.css has for them; `second` is a second series.
COLORS = {
    name: getattr(palette, name.upper())
    for name in ("query", "key", "value", "weight", "ink", "quiet", "faint", "paper", "lit")
} | {"second": palette.SERIES[1]}
HINT = "Run the notebook up to here, and the picture can be moved."


class Explorable:
    """What a cell shows: HTML that needs no kernel, and where there is none, a sentence."""

    def __init__(self, html: str, said: str):
        self.html, self.said = html, said

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return self.said


def explorable(name: str, **numbers) -> Explorable:
    """Return a picture that can be moved with mouse, finger and keys, without a kernel.

    Make it the last line of a cell. `name` is one of

    - "query" (lesson 02): one query among `words`, with their `keys` and `values`, in the plane;
    - "clocks" (lesson 05): two words at a `distance`, as hands of clocks with these `rates`;
    - "beam" (lesson 09): a beam search in a `tree` of chances, step by step;
    - "reader" (lesson 11): the date reader with all its heads, which can be switched off; at first
      it has read a `date`, and a `head` of a `layer` colours what is looked at.

    Without `numbers` it shows those of its lesson; the function `numbers` of its module says what
    else it takes. Raises `ValueError` for an unknown name, and for numbers that cannot be shown.
    """
    known = sorted(EXPLORABLES)
    require(name in known, f"no explorable {name!r}; there are {known}{did_you_mean(name, known)}")
    module = EXPLORABLES[name]
    shown = _numbers(name, module.numbers, numbers)
    svg, said = module.picture(shown)
    return Explorable(_html(name, module, shown, svg, said), said)


def _numbers(name: str, function: Callable, given: dict) -> dict:
    takes = [*inspect.signature(function).parameters]
    unknown = sorted(set(given) - set(takes))
    require(not unknown, f"the explorable {name!r} takes {', '.join(takes)}; got {unknown}")
    return function(**given)


def _html(name: str, module: ModuleType, shown: dict, svg: str, said: str) -> str:
    colors = "\n".join(f"  --{color}: {value.lower()};" for color, value in COLORS.items())
    style = "\n".join([f".app {{\n{colors}\n}}", *_files("core.css", *module.STYLES)])
    texts = [json.dumps(text, ensure_ascii=False) for text in (module.TITLE, shown)]
    title, numbers = (text.replace("</", "<\\/") for text in texts)
    picture = base64.b64encode(svg.encode()).decode()
    scripts = "\n".join(_files("core.js", *module.SCRIPTS))
    return f"""\
<div class="explorable" data-explorable="{name}" data-lm-suppress-shortcuts="true">
<img alt="{escape(said)}" src="data:image/svg+xml;base64,{picture}">
<p>{HINT}</p>
<script>
(() => {{
"use strict";
const STYLE = `
{style}`;

{scripts}
start("{name}", STYLE, {title}, build, {numbers});
}})();
</script>
</div>
"""


def _files(*names: str) -> list[str]:
    return [(HERE / name).read_text("utf-8") for name in names]
