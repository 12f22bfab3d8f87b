"""Word vectors: biLM layers and static tables with one interface, files of vectors, and their training."""

from elmo_tasks.vectors.files import VectorTable, write_vectors
from elmo_tasks.vectors.training import DEFAULTS, ppmi_svd, skip_gram, train_table

__all__ = ["DEFAULTS", "VectorTable", "ppmi_svd", "skip_gram", "train_table", "write_vectors"]
