"""Words as hashes, for readers of AllenNLP."""

from allennlp.data import TokenIndexer

from elmo_tasks.elmo.id_indexer import IdIndexer
from elmo_tasks.elmo.model.words import word_ids


@TokenIndexer.register("elmo_word_ids")
class ElmoWordIndexer(IdIndexer):
    """
    Turns the words of a `TextField` into the word ids that an `Elmo` with a table of words reads.

    It needs no vocabulary. Batches hold one tensor, `word_ids`, of shape `(batch, tokens)`, `int64`, 0 behind
    the end of a sentence.
    """

    name = "word_ids"
    ids = staticmethod(word_ids)
