"""Vectors of texts, in Python and to HDF5. Nothing in this package needs AllenNLP."""

from elmo_tasks.embedding.embedder import ElmoEmbedder

__all__ = ["ElmoEmbedder"]
