"""Token indexers of ELMo, for readers of AllenNLP. Their ids need no vocabulary."""

from collections.abc import Iterable
from typing import ClassVar

import numpy as np
import torch
from allennlp.data import Token, TokenIndexer, Vocabulary

from elmo_tasks.common.strict_params import StrictParams
from elmo_tasks.common.values import NonNegativeInt
from elmo_tasks.elmo.model.characters import character_ids, unicode_ids, word_ids

ELMO_INDEXER = "elmo"
"""The name of ELMo's token indexer in every reader's `token_indexers`."""
Ids = dict[str, np.ndarray]


class IdIndexer(StrictParams, TokenIndexer):
    """
    Turns the words of a `TextField` into one tensor of ids, with 0 after the end of a sentence.

    # Parameters

    token_min_padding_length : shorter sentences are padded to this length, as by other indexers beside it.
    """

    name: ClassVar[str]
    """The name of the tensor in a batch."""

    def __init__(self, *, token_min_padding_length: NonNegativeInt = 0) -> None:
        super().__init__(token_min_padding_length)

    @staticmethod
    def ids(words: Iterable[str]) -> np.ndarray:
        """Returns the ids of words. *Shape:* `(words, *id)`."""
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


@TokenIndexer.register("elmo_character_ids")
class ElmoCharacterIndexer(IdIndexer):
    """
    The character ids that `Elmo` reads, by the official encoding.

    Batches hold one tensor, `character_ids`, of shape `(batch, tokens, 50)`, `int16`.
    """

    name = "character_ids"
    ids = staticmethod(character_ids)


@TokenIndexer.register("elmo_unicode_ids")
class ElmoUnicodeIndexer(IdIndexer):
    """
    The character ids that an `Elmo` with a dictionary of characters reads. The biLM holds the dictionary.

    Batches hold one tensor, `unicode_ids`, of shape `(batch, tokens, 50)`, `int32`.
    """

    name = "unicode_ids"
    ids = staticmethod(unicode_ids)


@TokenIndexer.register("elmo_word_ids")
class ElmoWordIndexer(IdIndexer):
    """
    The word ids that an `Elmo` with a table of words reads.

    Batches hold one tensor, `word_ids`, of shape `(batch, tokens)`, `int64`.
    """

    name = "word_ids"
    ids = staticmethod(word_ids)
