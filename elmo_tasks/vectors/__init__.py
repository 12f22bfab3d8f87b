"""Word vectors: biLM layers and static tables with one interface, files of vectors, and their training."""

from elmo_tasks.vectors.text_format import WordTable, write_table
from elmo_tasks.vectors.training import DEFAULTS, ppmi_svd, skip_gram, train_table

__all__ = ["DEFAULTS", "WordTable", "ppmi_svd", "skip_gram", "train_table", "write_table"]
