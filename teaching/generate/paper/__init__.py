"""Questions for paper, with numbers by seed: for the worksheets and for the examination.

A question is a function from a random generator to a `Question`. What it was asked of stands in
`given`, what comes out in `numbers`: a test computes the second from the first in another way.
Every file here whose name begins with `lesson` adds its questions.
"""

import importlib
import pkgutil

from teaching.generate.paper.question import Question, make, names

for module in pkgutil.iter_modules(__path__, f"{__name__}."):
    importlib.import_module(module.name)

__all__ = ["Question", "make", "names"]
