"""Whether a slide shows what a lab asks for, under these names or others."""

import io
import json
import keyword
import re
import tokenize

from course.lessons import ROOT

BODY = re.compile(r"### BEGIN SOLUTION\n(.*?)### END SOLUTION", re.DOTALL)
SHORT = 12  # tokens; a line such as `B, H, L, d_k = x.shape` is anybody's


def shape(line):
    """A line's tokens, with `_` for each name that is its author's choice; () if it is short."""
    tokens, after = [], ""
    try:
        for token in tokenize.generate_tokens(io.StringIO(line.strip()).readline):
            if token.type == tokenize.COMMENT or not token.string.strip():
                continue
            free = token.type == tokenize.NAME and after != "." and not keyword.iskeyword(token[1])
            tokens.append("_" if free else token.string)
            after = token.string
    except tokenize.TokenError:  # a line with an open bracket
        pass
    return tuple(tokens) if len(tokens) >= SHORT else ()


def answers(stem):
    """The shapes of the lines of each body in a lesson's solutions, and their task."""
    found = {}
    path = ROOT / "solutions" / f"{stem}.ipynb"
    for cell in json.loads(path.read_text("utf-8"))["cells"] if path.exists() else []:
        source = "".join(cell["source"])
        for body in BODY.findall(source) if cell["cell_type"] == "code" else []:
            task = re.search(r"^(?:def|class) (\w+)", source, re.MULTILINE)[1]
            for line in body.splitlines() if not task.startswith("predicted_") else []:
                if shape(line):
                    found[shape(line)] = task
    return found


def leaks(slides, lesson):
    """The number of each slide whose code has a line of an answer, with the task."""
    secret = answers(lesson.name)
    found = set()
    for number, slide in enumerate(slides, 2):
        for cell in slide.cells("code"):
            name, _, span = cell.partition(":")
            lines = lesson.source(name).splitlines()
            if span:
                first, last = map(int, span.split("-"))
                lines = lines[first - 1 : last]
            found |= {(number, secret[s]) for line in lines if (s := shape(line)) in secret}
    return found
