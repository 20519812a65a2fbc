"""How fast the package is, against named references; `python -m benchmarks` runs it all."""
