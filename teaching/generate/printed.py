"""Pages to print: one HTML file that needs nothing else, A4, black on white."""

import html
import itertools
import re

import mistune

STYLE = """
@page { size: A4; margin: 18mm 16mm; @bottom-center { content: counter(page); font-size: 9pt; } }
body { font: 10.5pt/1.4 "Noto Serif", Georgia, serif; color: #000; background: #fff; }
body { margin: 0 auto; max-width: 178mm; }
h1 { font-size: 15pt; margin: 0 0 2mm; }
h2 { font-size: 11.5pt; margin: 5mm 0 1mm; }
p { margin: 1mm 0; }
.who { display: flex; justify-content: space-between; border-bottom: 0.3mm solid #000; }
.points { float: right; font-weight: normal; }
sub, sup { line-height: 0; }
section { break-inside: avoid; }
.sheet { break-before: page; }
.room { border: 0.2mm solid #999; margin-top: 2mm; }
table { border-collapse: collapse; margin: 2mm 0; }
td, th { border: 0.2mm solid #777; padding: 0.5mm 2.5mm; }
.credit, code { font-size: 9.5pt; }
.credit { margin: 1mm 0; padding-left: 5mm; }
.fill { border-bottom: 0.2mm solid #000; margin: 8mm 0; width: 100mm; }
.reached { margin: 6mm 0; }
.reached td { width: 22mm; height: 4.5mm; text-align: center; }
@media screen {
  body { padding: 8mm; }
  .sheet { border-top: 0.5mm dashed #777; margin-top: 8mm; padding-top: 8mm; }
}
"""
EXACT = (
    "Fractions, powers, roots and logarithms may stay as they are, unless decimals are asked for."
)
_markdown = mistune.create_markdown(escape=False, plugins=["table"])


def page(title: str, body: str) -> str:
    """Return a whole HTML page."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>{html.escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        f"{body}</main>\n</body>\n</html>\n"
    )


def markdown(text: str) -> str:
    """Return HTML of Markdown with formulas such as e^(s_j + c), each part on a line of its own."""
    text = re.sub(r"(?<=[.?:;,]) \(([a-g])\) ", r"<br>(\1) ", text)
    text = re.sub(r"\^(?:\(([^()]*)\)|(\w+))", lambda m: f"<sup>{m[1] or m[2]}</sup>", text)
    return _markdown(re.sub(r"(?<=\w)_(model|ff|\w)", r"<sub>\1</sub>", text))


def asked(n: int | str, question, room: int = 0) -> str:
    """Return a question with its points, and `room` millimetres to write in."""
    space = f'<div class="room" style="height: {room}mm"></div>\n' if room else ""
    return (
        f'<section>\n<h2>{n}. {html.escape(question.title)} <span class="points">'
        f"{question.points} points</span></h2>\n{markdown(question.text)}{space}</section>\n"
    )


def answered(n: int | str, question) -> str:
    """Return the answer to a question, and what gets how many points."""
    return (
        f'<section>\n<h2>{n}. {html.escape(question.title)} <span class="points">'
        f"{question.points} points</span></h2>\n{markdown(question.answer)}"
        f'<ul class="credit">\n{"".join(map(_credited, question.credit))}</ul>\n</section>\n'
    )


def _credited(entry: tuple) -> str:
    points, what, *fewer = entry
    instead = "".join(
        f" <em>Or instead, not besides: {less} for {_part(other)}.</em>" for less, other in fewer
    )
    return f"<li>{points} for {_part(what)}.{instead}</li>\n"


def _part(what: str) -> str:
    """Return what gets points; a letter that names a part of the question has its brackets."""
    return html.escape(re.sub(r"^([a-g])(?=$|[,:]| with)", r"(\1)", what))


# ---- a whole paper

RULES = (
    "Answer in the boxes; the back of a sheet is for rough work. Show how you come to a number: "
    f"one that follows rightly from a wrong one gets its points. {EXACT} One sheet of your own "
    "notes, and no computer."
)
ROOM = 14  # millimetres to write in, for each point


def paper(title: str, minutes: int, questions: list) -> str:
    """Return a paper: a first page with the points, then the questions with room for answers."""
    total = sum(question.points for question in questions)
    rows = [(n, question.points, "") for n, question in enumerate(questions, 1)]
    table = "".join(
        f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>\n"
        for row in [("Question", "Points", "Reached"), *rows, ("Sum", total, "")]
    )
    parts = [asked(n, q, ROOM * q.points) for n, q in enumerate(questions, 1)]
    return page(
        title,
        f"<h1>{html.escape(title)}</h1>\n"
        f'<p class="who"><span>{minutes} minutes</span><span>{total} points</span></p>\n'
        '<p class="fill">Name</p>\n<p class="fill">Number</p>\n'
        f'{markdown(RULES)}<table class="reached">\n{table}</table>\n'
        f'<div class="sheet">\n{"".join(parts)}</div>\n',
    )


def key(title: str, minutes: int, questions: list) -> str:
    """Return the key of a paper."""
    total = sum(question.points for question in questions)
    return page(
        f"Key · {title}",
        f"<h1>Key · {html.escape(title)}</h1>\n"
        f'<p class="who"><span>{minutes} minutes</span><span>{total} points</span></p>\n'
        f"{''.join(itertools.starmap(answered, enumerate(questions, 1)))}",
    )
