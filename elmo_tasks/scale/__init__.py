"""Corpora on several cores and machines, by Ray. Imported only where `--engine ray` asks for it."""
