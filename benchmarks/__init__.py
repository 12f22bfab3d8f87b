"""What the project measures of itself, beside its peers: `python -m benchmarks --help`."""
