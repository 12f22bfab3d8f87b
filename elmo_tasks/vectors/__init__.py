"""Word vectors: the layers of a biLM and static tables behind one interface, training, files."""

from elmo_tasks.vectors.text_format import WordTable, write_table
from elmo_tasks.vectors.training import DEFAULTS, ppmi_svd, skip_gram, train_table

__all__ = ["DEFAULTS", "WordTable", "ppmi_svd", "skip_gram", "train_table", "write_table"]
