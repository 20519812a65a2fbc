"""What the lessons draw and show; figures that anybody may use are in `transformer_lab.plots`.

`diagrams.py`: boxes, arrows, small tables; `sketch.py`: pens for free drawings;
`figure1.py`: the paper's figure as a map; `notebook.py`: finished code, stored results, a live
curve.
"""

from course.figures.diagrams import Diagram, architecture
from course.figures.figure1 import small_map, zoom
from course.figures.notebook import LivePlot, show_source, stored_result
from course.figures.sketch import arrow, box, canvas, cells, label

__all__ = [
    "Diagram",
    "LivePlot",
    "architecture",
    "arrow",
    "box",
    "canvas",
    "cells",
    "label",
    "show_source",
    "small_map",
    "stored_result",
    "zoom",
]
