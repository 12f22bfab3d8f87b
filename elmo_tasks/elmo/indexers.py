"""
The base of the indexers whose ids need no vocabulary.

Words as characters, for readers of AllenNLP.

Words as Unicode characters, for readers of AllenNLP.

Words as hashes, for readers of AllenNLP.
"""

from collections.abc import Iterable
from typing import ClassVar

import numpy as np
import torch
from allennlp.data import Token, TokenIndexer, Vocabulary

from elmo_tasks.common.strict_params import StrictParams
from elmo_tasks.common.values import NonNegativeInt
from elmo_tasks.elmo.model.characters import character_ids, unicode_ids, word_ids

# ==== elmo.id_indexer
ELMO_INDEXER = "elmo"
"""The name of ELMo's token indexer in every reader's `token_indexers`."""
Ids = dict[str, np.ndarray]


class IdIndexer(StrictParams, TokenIndexer):
    """
    Turns the words of a `TextField` into one tensor of ids, 0 behind the end of a sentence.

    # Parameters

    token_min_padding_length : a sentence of fewer words is padded to so many, as by other indexers beside it.
    """

    name: ClassVar[str]
    """Of the tensor in a batch."""

    def __init__(self, *, token_min_padding_length: NonNegativeInt = 0) -> None:
        super().__init__(token_min_padding_length)

    @staticmethod
    def ids(words: Iterable[str]) -> np.ndarray:
        """*Shape:* `(words, *id)`."""
        raise NotImplementedError

    def count_vocab_items(self, token: Token, counter: dict[str, dict[str, int]]) -> None:
        pass

    def tokens_to_indices(self, tokens: list[Token], vocabulary: Vocabulary) -> Ids:
        return {self.name: self.ids(token.text or "" for token in tokens)}

    def get_empty_token_list(self) -> Ids:
        return {self.name: self.ids([])}

    def as_padded_tensor_dict(self, tokens: Ids, padding_lengths: dict[str, int]) -> dict[str, torch.Tensor]:
        ids = tokens[self.name][: padding_lengths[self.name]]
        padded = np.zeros((padding_lengths[self.name], *ids.shape[1:]), dtype=ids.dtype)
        padded[: len(ids)] = ids
        return {self.name: torch.from_numpy(padded)}


# ==== elmo.character_indexer
@TokenIndexer.register("elmo_character_ids")
class ElmoCharacterIndexer(IdIndexer):
    """
    Turns the words of a `TextField` into the character ids that `Elmo` reads.

    It needs no vocabulary: the encoding is fixed. Batches hold one tensor, `character_ids`, of shape
    `(batch, tokens, 50)`, `int16`, 0 behind the end of a sentence.
    """

    name = "character_ids"
    ids = staticmethod(character_ids)


# ==== elmo.unicode_indexer
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


# ==== elmo.word_indexer
@TokenIndexer.register("elmo_word_ids")
class ElmoWordIndexer(IdIndexer):
    """
    Turns the words of a `TextField` into the word ids that an `Elmo` with a table of words reads.

    It needs no vocabulary. Batches hold one tensor, `word_ids`, of shape `(batch, tokens)`, `int64`, 0 behind
    the end of a sentence.
    """

    name = "word_ids"
    ids = staticmethod(word_ids)
