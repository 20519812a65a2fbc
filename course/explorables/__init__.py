"""Explorables: pictures that can be moved without a kernel, in JupyterLab and in the book.

`page.py`: `explorable("query")` puts one into a cell; `pens.py`: the still picture's pens. One
explorable is a pair of files: its numbers and its still picture in Python (`query.py`, `clocks.py`,
`beam.py`, `reader.py`), what moves in the JavaScript of the same name. core.js and core.css are
what all share; model.js is a whole Transformer, with which the reader writes.
"""

from course.explorables.page import explorable

__all__ = ["explorable"]
