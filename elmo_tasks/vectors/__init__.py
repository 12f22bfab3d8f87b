"""Static word vectors trained on a text: one vector a word, whatever its context."""

from elmo_tasks.vectors.static_vectors import DEFAULTS, train_table
from elmo_tasks.vectors.svd import ppmi_svd
from elmo_tasks.vectors.word2vec import skip_gram
from elmo_tasks.vectors.word_vectors import WordTable, write_table

__all__ = ["DEFAULTS", "WordTable", "ppmi_svd", "skip_gram", "train_table", "write_table"]
