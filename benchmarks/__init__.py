"""Measurements of speed and accuracy for the documentation; run `python -m benchmarks.run --help` from the root."""
