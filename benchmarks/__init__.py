"""What the documents say of speed and accuracy, measured: `python -m benchmarks.run --help`, from the root."""
