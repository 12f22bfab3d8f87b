"""
The token layer of ELMoForManyLangs (Che et al. 2018, arXiv:1807.03121): a character CNN over Unicode
characters, and, beside its features, the vector of the word in a table.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from elmo_tasks.elmo.model.character_encoder import CharacterEncoder
from elmo_tasks.elmo.model.characters import shortened
from elmo_tasks.elmo.model.lookup import Lookup, sorted_ids
from elmo_tasks.elmo.model.options import CharacterOptions
from elmo_tasks.elmo.model.unicode_characters import (
    BEGIN_TEXT,
    END_TEXT,
    MARK_IDS,
    character_id,
    unicode_ids,
)
from elmo_tasks.elmo.model.words import row_keys

OUT_OF_VOCABULARY = "<oov>"
Dictionary = Mapping[str, int]
"""The row of each entry in its table."""


class WordTable(nn.Module):
    """Words, as their characters, to vectors of their own."""

    def __init__(self, *, number: int, dim: int) -> None:
        super().__init__()
        self.lookup = Lookup(number=number)
        self.embedding = nn.Parameter(torch.empty(number, dim))
        nn.init.uniform_(self.embedding, -1.0, 1.0)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """*Shape:* `(words, length)` to `(words, dim)`."""
        return F.embedding(self.lookup(row_keys(ids)), self.embedding)


class UnicodeEncoder(CharacterEncoder):
    """`CharacterEncoder` over the characters of a dictionary; its projection is of the word's vector, too."""

    reads = "unicode_ids"
    dtype = torch.int32
    also_dtypes = ()
    marks = BEGIN_TEXT, END_TEXT

    def __init__(self, *, options: CharacterOptions, projection_dim: int) -> None:
        super().__init__(options=options, projection_dim=projection_dim)
        sizes = options.dictionaries
        assert sizes is not None
        self.characters = Lookup(number=sizes.n_characters)
        self.embedding = nn.Parameter(torch.empty(sizes.n_characters, options.dim))
        nn.init.uniform_(self.embedding, -1.0, 1.0)
        if sizes.word_dim:
            self.words = WordTable(number=sizes.n_words, dim=sizes.word_dim)
        self.projection = nn.Linear(options.num_filters + sizes.word_dim, projection_dim)

    @staticmethod
    def ids(words: Sequence[str]) -> np.ndarray:
        return unicode_ids(words)


def character_lookup(dictionary: Dictionary, *, number: int) -> dict[str, torch.Tensor]:
    """The buffers of the `Lookup` of characters, from the entries that are a character or a mark."""
    entries = [entry for entry in dictionary if len(entry) == 1 or entry in MARK_IDS]
    ids = torch.tensor([MARK_IDS.get(entry) or character_id(entry) for entry in entries])
    return _lookup(ids, entries, dictionary, number)


def word_lookup(dictionary: Dictionary, *, number: int, length: int) -> dict[str, torch.Tensor]:
    """
    The buffers of the `Lookup` of words, as `length` characters; those that are too long to be read whole are
    not used.

    # Raises
    `ElmoError`: two words with one key.
    """
    words = [word for word in dictionary if len(word) <= length - 2]
    ids = shortened(torch.tensor(unicode_ids(words)), length)
    return _lookup(row_keys(ids), words, dictionary, number)


def _lookup(
    ids: torch.Tensor, entries: Sequence[str], dictionary: Dictionary, number: int
) -> dict[str, torch.Tensor]:
    known, order = sorted_ids(ids, entries, where="the dictionary")
    rows = torch.tensor([dictionary[entry] for entry in entries])[order]
    # As many as rows, so that the sizes say all shapes: the last again for those that are not used
    missing = number - len(known)
    return {
        "known": torch.cat([known, known[-1:].expand(missing)]),
        "rows": torch.cat([rows, rows[-1:].expand(missing)]),
        "unknown": torch.tensor(dictionary[OUT_OF_VOCABULARY]),
    }
