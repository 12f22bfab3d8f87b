"""The token layer of a biLM that reads words: a table of their vectors."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from elmo_tasks.elmo.model.errors import ElmoError
from elmo_tasks.elmo.model.lookup import looked_up, register_lookup, sorted_ids
from elmo_tasks.elmo.model.options import WordOptions
from elmo_tasks.elmo.model.token_encoder import TokenEncoder
from elmo_tasks.elmo.model.words import MARKERS, UNKNOWN, word_ids


class WordEncoder(TokenEncoder):
    """
    Words to the rows of a table; all words that are not in its vocabulary to the row of `<UNK>`.

    `set_vocabulary` says which words they are; their ids are part of its state dict (`lookup.py`).
    """

    reads = "word_ids"
    dtype = torch.int64

    def __init__(self, *, options: WordOptions, projection_dim: int) -> None:
        super().__init__()
        self.embedding = nn.Parameter(torch.empty(options.n_tokens, projection_dim))
        register_lookup(self, number=options.n_tokens)
        nn.init.xavier_uniform_(self.embedding)

    @torch.no_grad()
    def set_vocabulary(self, words: Sequence[str]) -> None:
        """
        From now on, `words` are the words of the table's rows.

        # Raises
        `ElmoError`: not as many words as rows, none of the `MARKERS`, or two words with one id.
        """
        for name, part in vocabulary_rows(words, number=len(self.embedding)).items():
            self.get_buffer(name).copy_(part)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return F.embedding(looked_up(ids, self), self.embedding)

    @staticmethod
    def present(ids: torch.Tensor) -> torch.Tensor:
        return ids != 0

    @staticmethod
    def ids(words: Sequence[str]) -> np.ndarray:
        return word_ids(words)


def vocabulary_rows(words: Sequence[str], *, number: int) -> dict[str, torch.Tensor]:
    """
    The buffers of a `WordEncoder` with `number` rows whose words are `words`.

    # Raises
    `ElmoError`: see `WordEncoder.set_vocabulary`.
    """
    if len(words) != number:
        raise ElmoError(f"the vocabulary has {len(words):,} words, expected {number:,}, as the options say")
    for marker in MARKERS:
        if marker not in words:
            raise ElmoError(f"the vocabulary has no {marker}, expected {', '.join(MARKERS)}")
    known, rows = sorted_ids(torch.from_numpy(word_ids(words)), words, where="the vocabulary")
    return {"known": known, "rows": rows, "unknown": torch.tensor(words.index(UNKNOWN))}
