"""Words as characters, for readers of AllenNLP."""

from allennlp.data import TokenIndexer

from elmo_tasks.elmo.id_indexer import IdIndexer
from elmo_tasks.elmo.model.characters import character_ids


@TokenIndexer.register("elmo_character_ids")
class ElmoCharacterIndexer(IdIndexer):
    """
    Turns the words of a `TextField` into the character ids that `Elmo` reads.

    It needs no vocabulary: the encoding is fixed. Batches hold one tensor, `character_ids`, of shape
    `(batch, tokens, 50)`, `int16`, 0 behind the end of a sentence.
    """

    name = "character_ids"
    ids = staticmethod(character_ids)
