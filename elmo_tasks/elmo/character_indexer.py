"""Words as characters, for readers of AllenNLP."""

from typing import Any

import numpy as np
import torch
from allennlp.data import Token, TokenIndexer, Vocabulary

from elmo_tasks.elmo.model.characters import CHARACTERS_PER_WORD, character_ids
from elmo_tasks.strict_params import StrictParams


@TokenIndexer.register("elmo_character_ids")
class ElmoCharacterIndexer(StrictParams, TokenIndexer):
    """
    Turns the words of a `TextField` into the character ids that `Elmo` reads.

    It needs no vocabulary: the encoding is fixed. Batches hold one tensor, `character_ids`, of shape
    `(batch, tokens, 50)`, `int16`, 0 behind the end of a sentence.
    """

    def __init__(self) -> None:
        super().__init__()

    def count_vocab_items(self, token: Token, counter: dict[str, dict[str, int]]) -> None:
        pass

    def tokens_to_indices(self, tokens: list[Token], vocabulary: Vocabulary) -> dict[str, Any]:
        return {"character_ids": character_ids(token.text or "" for token in tokens)}

    def get_empty_token_list(self) -> dict[str, Any]:
        return {"character_ids": character_ids([])}

    def as_padded_tensor_dict(
        self, tokens: dict[str, Any], padding_lengths: dict[str, int]
    ) -> dict[str, torch.Tensor]:
        words = tokens["character_ids"]
        padded = np.zeros((padding_lengths["character_ids"], CHARACTERS_PER_WORD), dtype=np.int16)
        kept = words[: len(padded)]
        padded[: len(kept)] = kept
        return {"character_ids": torch.from_numpy(padded)}
