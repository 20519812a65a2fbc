"""How a class is graded: `transformer-course grade`. One learner's check knows nothing of it.

`students.py` reads a class list and `submissions.py` finds whose notebook is which lesson.
`static_look.py`, `copies.py` and `similarity.py` say what a teacher may want to look at,
`remarks.py` what a student is told about the whole notebook. `once.py` lets a mistake count once,
`by_hand.py` reads points by hand and days late, `marks.py` and `tables.py` write what came out, and
`grade.py` is the command. The verdicts are those of `course.checking`. What this can and cannot
promise stands in `grading.md`.
"""

from course.grading.marks import Row
from course.grading.similarity import similar_pairs
from course.grading.static_look import look
from course.grading.submissions import find_submissions

__all__ = ["Row", "find_submissions", "look", "similar_pairs"]
