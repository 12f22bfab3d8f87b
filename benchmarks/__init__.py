"""Measurements of the project, beside its peers: `python -m benchmarks --help`."""
