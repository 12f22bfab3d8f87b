"""Measurements of the project and its peers: `python -m benchmarks --help`."""
