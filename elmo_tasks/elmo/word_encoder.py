"""The token layer of a biLM that reads words: a table of their vectors."""

from collections.abc import Sequence

import torch
from allennlp.common.checks import ConfigurationError
from torch import nn
from torch.nn import functional as F

from elmo_tasks.elmo.linear import Linear
from elmo_tasks.elmo.token_encoder import TokenEncoder
from elmo_tasks.elmo.weights import WordOptions
from elmo_tasks.elmo.words import BEGIN_SENTENCE, END_SENTENCE, MARKERS, UNKNOWN, padded_word_ids, word_ids


class WordEncoder(TokenEncoder):
    """
    Words to the rows of a table; all words that it does not know to the row of `<UNK>`.

    `know` says which words it knows; they are part of its state dict.
    """

    reads = "word_ids"
    known: torch.Tensor
    """`(words,)`: the ids of the known words, rising."""
    rows: torch.Tensor
    """`(words,)`: the row of each in the table."""
    unknown: torch.Tensor
    """`()`: the row of `<UNK>`."""

    def __init__(self, *, options: WordOptions, projection_dim: int) -> None:
        super().__init__(borders=torch.from_numpy(word_ids([BEGIN_SENTENCE, END_SENTENCE])))
        self.embedding = nn.Parameter(torch.empty(options.n_tokens, projection_dim))
        self.register_buffer("known", torch.zeros(options.n_tokens, dtype=torch.long))
        self.register_buffer("rows", torch.zeros(options.n_tokens, dtype=torch.long))
        self.register_buffer("unknown", torch.tensor(0))
        nn.init.xavier_uniform_(self.embedding)

    @torch.no_grad()
    def know(self, words: Sequence[str]) -> None:
        """
        From now on, `words` are the words of the table's rows.

        # Raises
        `ConfigurationError`: not as many words as rows, none of the `MARKERS`, or two words with one id.
        """
        if len(words) != len(self.rows):
            raise ConfigurationError(
                f"the vocabulary has {len(words):,} words, expected {len(self.rows):,}, as the options say"
            )
        for marker in MARKERS:
            if marker not in words:
                raise ConfigurationError(f"the vocabulary has no {marker}, expected {', '.join(MARKERS)}")
        known, rows = torch.from_numpy(word_ids(words)).sort(stable=True)
        for place in (known[1:] == known[:-1]).nonzero()[:1, 0].tolist():
            one, other = (words[row] for row in rows[place : place + 2].tolist())
            raise ConfigurationError(f"{one!r} and {other!r} in the vocabulary have the same id")
        self.known.copy_(known)
        self.rows.copy_(rows)
        self.unknown.fill_(words.index(UNKNOWN))

    def forward(self, ids: torch.Tensor, linear: Linear) -> tuple[torch.Tensor, torch.Tensor]:
        places = torch.searchsorted(self.known, ids).clamp(max=len(self.known) - 1)
        # (words,)
        rows = torch.where(self.known[places] == ids, self.rows[places], self.unknown)
        distinct, index = rows.unique(return_inverse=True)
        return F.embedding(distinct, self.embedding), index

    def present(self, ids: torch.Tensor) -> torch.Tensor:
        return ids != 0

    def padded_ids(self, sentences: Sequence[Sequence[str]]) -> torch.Tensor:
        return padded_word_ids(sentences)
