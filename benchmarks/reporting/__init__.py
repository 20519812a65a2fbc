"""How a measurement is timed, what it says about itself, and how the READMEs are written."""
