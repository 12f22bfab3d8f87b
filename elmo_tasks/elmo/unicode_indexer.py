"""Words as Unicode characters, for readers of AllenNLP."""

from allennlp.data import TokenIndexer

from elmo_tasks.elmo.id_indexer import IdIndexer
from elmo_tasks.elmo.model.unicode_characters import unicode_ids


@TokenIndexer.register("elmo_unicode_ids")
class ElmoUnicodeIndexer(IdIndexer):
    """
    Turns the words of a `TextField` into the character ids that an `Elmo` with a dictionary of characters
    reads.

    It needs no dictionary: the biLM has it. Batches hold one tensor, `unicode_ids`, of shape `(batch, tokens,
    50)`, `int32`, 0 behind the end of a sentence.
    """

    name = "unicode_ids"
    ids = staticmethod(unicode_ids)
