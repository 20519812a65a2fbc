"""`python -m course` is `transformer-course`."""

import sys

from course.cli import main

sys.exit(main())
