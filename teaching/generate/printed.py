"""Pages to print: one HTML file that needs nothing else, A4, black on white."""

import html

import mistune

STYLE = """
@page { size: A4; margin: 18mm 16mm; }
body { font: 10.5pt/1.4 "Noto Serif", Georgia, serif; color: #000; background: #fff; }
body { margin: 0 auto; max-width: 178mm; }
h1 { font-size: 15pt; margin: 0 0 2mm; }
h2 { font-size: 11.5pt; margin: 5mm 0 1mm; }
p { margin: 1mm 0; }
.who { display: flex; justify-content: space-between; border-bottom: 0.3mm solid #000; }
.points { float: right; font-weight: normal; }
section { break-inside: avoid; }
.sheet { break-before: page; }
.room { border: 0.2mm solid #999; margin-top: 2mm; }
table { border-collapse: collapse; margin: 2mm 0; }
td, th { border: 0.2mm solid #777; padding: 0.5mm 2.5mm; }
.credit, code { font-size: 9.5pt; }
@media screen {
  body { padding: 8mm; }
  .sheet { border-top: 0.5mm dashed #777; margin-top: 8mm; padding-top: 8mm; }
}
"""
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
    return _markdown(text)


def asked(n: int | str, question, room: int = 0) -> str:
    """Return a question with its points, and `room` millimetres to write in."""
    space = f'<div class="room" style="height: {room}mm"></div>\n' if room else ""
    return (
        f'<section>\n<h2>{n}. {html.escape(question.title)} <span class="points">'
        f"{question.points} points</span></h2>\n{markdown(question.text)}{space}</section>\n"
    )


def answered(n: int | str, question) -> str:
    """Return the answer to a question, and what gets how many points."""
    credit = "; ".join(f"{points} for {what}" for points, what in question.credit)
    return (
        f'<section>\n<h2>{n}. {html.escape(question.title)} <span class="points">'
        f"{question.points} points</span></h2>\n{markdown(question.answer)}"
        f'<p class="credit">Points: {html.escape(credit)}.</p>\n</section>\n'
    )
