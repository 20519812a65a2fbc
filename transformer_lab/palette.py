"""The only palette: what draws imports it, and what is styled repeats it.

To change a colour, change it here and in each style sheet and page that repeats it, which
`pytest tests/course/test_palette.py` then names. Pictures that are stored in notebooks change when
their notebook is run (`python solutions/make_exercises.py --run`).

A colour has one meaning, the same in every lesson. Readers who see no colour, or print without it,
tell things apart by lightness, line and marker: that is up to each figure.
"""

# The parts of an attention. The first three are Okabe and Ito's, which colour-blind readers tell
# apart too.
QUERY = "#0072B2"
KEY = "#D55E00"
VALUE = "#009E73"
WEIGHT = "#54278F"

# Maps from numbers to colours, by matplotlib's names.
WEIGHTS = "Purples"  # of attention alone: from white (0) to dark (1), the same in grey
SIGNED = "BrBG"  # for numbers of both signs: white is 0
MASKED = "Greys"

# What is not a part of an attention.
INK = "#1C1C20"  # text, and the line that a figure is about
PLAIN = "#444444"  # boxes and arrows without a part to play
BASELINE = "#999999"  # what a result is compared with
QUIET = "#55555C"  # remarks
FAINT = "#C9C9CF"  # frames, grids, what has been ruled out
PAPER = "#FFFFFF"
LIT = "#FFDD55"  # the part of a figure that is being talked about
GOOD = "#44A5C2"
BAD = "#882255"
SERIES = (INK, "#CC6677", "#88CCEE", "#999933")  # lines side by side, each with its own dashes

ROLE_COLORS = {"query": QUERY, "key": KEY, "value": VALUE, "weights": WEIGHT, "plain": PLAIN}
