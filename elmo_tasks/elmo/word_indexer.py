"""Words as hashes, for readers of AllenNLP."""

from typing import Any

import numpy as np
import torch
from allennlp.data import Token, TokenIndexer, Vocabulary

from elmo_tasks.elmo.model.words import word_ids
from elmo_tasks.strict_params import StrictParams


@TokenIndexer.register("elmo_word_ids")
class ElmoWordIndexer(StrictParams, TokenIndexer):
    """
    Turns the words of a `TextField` into the word ids that an `Elmo` with a table of words reads.

    It needs no vocabulary. Batches hold one tensor, `word_ids`, of shape `(batch, tokens)`, `int64`, 0 behind
    the end of a sentence.
    """

    def __init__(self) -> None:
        super().__init__()

    def count_vocab_items(self, token: Token, counter: dict[str, dict[str, int]]) -> None:
        pass

    def tokens_to_indices(self, tokens: list[Token], vocabulary: Vocabulary) -> dict[str, Any]:
        return {"word_ids": word_ids(token.text or "" for token in tokens)}

    def get_empty_token_list(self) -> dict[str, Any]:
        return {"word_ids": word_ids([])}

    def as_padded_tensor_dict(
        self, tokens: dict[str, Any], padding_lengths: dict[str, int]
    ) -> dict[str, torch.Tensor]:
        words = tokens["word_ids"]
        padded = np.zeros(padding_lengths["word_ids"], dtype=np.int64)
        kept = words[: len(padded)]
        padded[: len(kept)] = kept
        return {"word_ids": torch.from_numpy(padded)}
