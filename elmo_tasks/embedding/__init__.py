"""Vectors of texts, in Python and to HDF5. Nothing in this package needs AllenNLP."""
