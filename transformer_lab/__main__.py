"""`python -m transformer_lab` is `transformer-lab`."""

import sys

from transformer_lab.cli import main

sys.exit(main())
