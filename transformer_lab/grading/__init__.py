"""How a class is graded: `transformer-lab grade`. One learner's check knows nothing of it.

`submissions.py` finds whose notebook is which lesson, `static_look.py` and `similarity.py` say
what a teacher may want to look at, `rubric.py` has the points, `marks.py` writes what came out,
and `grade.py` is the command. The verdicts are those of `transformer_lab.checking`. What this can
and cannot promise stands in `grading.md`.
"""

from transformer_lab.grading.marks import Row
from transformer_lab.grading.rubric import points_of
from transformer_lab.grading.similarity import similar_pairs
from transformer_lab.grading.static_look import look
from transformer_lab.grading.submissions import find_submissions

__all__ = ["Row", "find_submissions", "look", "points_of", "similar_pairs"]
