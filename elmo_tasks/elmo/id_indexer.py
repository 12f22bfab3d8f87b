"""The base of the indexers whose ids need no vocabulary."""

from collections.abc import Iterable
from typing import ClassVar

import numpy as np
import torch
from allennlp.data import Token, TokenIndexer, Vocabulary

from elmo_tasks.strict_params import StrictParams
from elmo_tasks.values import NonNegativeInt

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
