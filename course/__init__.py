"""What runs the course: checks of exercises, progress, grading, and the figures of the lessons.

The model is in `transformer_lab`, which knows nothing of this package. A notebook needs one name:

>>> from course import check

`checking/` judges answers, `grading/` judges a class, `figures/` draws what the lessons show.
"""

from course.checking.live import check

__all__ = ["check"]
