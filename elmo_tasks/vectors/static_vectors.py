"""
The ways to train static vectors, by name, with their settings.

Static word vectors, for comparison: one vector a word, whatever its context.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

import torch
from torch.nn import functional as F

from elmo_tasks.vectors.encoder import Encoder
from elmo_tasks.vectors.svd import ppmi_svd
from elmo_tasks.vectors.word2vec import skip_gram
from elmo_tasks.vectors.word_vectors import TokenizedText, WordTable

# ==== vectors.methods
_TRAINERS: dict[str, Callable[..., WordTable]] = {"word2vec": skip_gram, "svd": ppmi_svd}
_COMMON = {"dim": 100, "window": 5, "min_count": 2, "seed": 13}

DEFAULTS: dict[str, dict[str, int | float]] = {
    "word2vec": {**_COMMON, "negative": 5, "subsample": 1e-3, "epochs": 20},
    "svd": {**_COMMON, "shift": 1.0, "smoothing": 0.75, "eigenvalues": 0.5},
}
"""For each method its settings: see `skip_gram` and `ppmi_svd`."""


def train_table(method: str, sentences: TokenizedText, **settings: int | float) -> WordTable:
    """
    The vectors of a text's words.

    # Parameters

    method : one of `DEFAULTS`.
    settings : those that differ from the defaults of the method.
    """
    return _TRAINERS[method](sentences, **{**DEFAULTS[method], **settings})


# ==== vectors.static_vectors
class StaticVectors(Encoder):
    """
    One row: a table of word vectors; zero for an unknown word.

    A word is looked up as it stands, or else as the first in the table that differs only in case.

    # Parameters

    name : of the row.
    table : of equal words the first counts.
    """

    def __init__(self, *, name: str, table: WordTable) -> None:
        super().__init__(names=[name], dim=table.vectors.shape[1])
        self._words = table.words
        self._table = torch.from_numpy(table.vectors)
        last_to_first = range(len(table.words) - 1, -1, -1)
        self._rows = {table.words[row]: row for row in last_to_first}
        self._folded = {table.words[row].lower(): row for row in last_to_first}
        self._repeated = [row for row, word in enumerate(table.words) if self._rows[word] != row]

    def encode(self, sentences: Iterable[Sequence[str]]) -> Iterator[torch.Tensor]:
        for words in sentences:
            # (tokens,)
            rows = self._lookup(words)
            # (1, tokens, dim)
            yield (self._table[rows] * (rows >= 0).unsqueeze(1)).unsqueeze(0)

    def known(self, words: Sequence[str]) -> torch.Tensor:
        return self._lookup(words) >= 0

    def occurrence(self, vectors: torch.Tensor, start: int, end: int) -> torch.Tensor:
        """The mean of all other words of the sentence: the word itself has the same vector everywhere."""
        other_words = torch.cat([vectors[:, :start], vectors[:, end:]], dim=1)
        return other_words.sum(dim=1) / max(1, other_words.size(1))

    def nearest(self, word: str, count: int) -> list[tuple[str, float]]:
        """The other words of the highest cosine, and the cosine; `word` is known."""
        row = int(self._lookup([word]))
        # (words,)
        cosines = (
            self._table @ F.normalize(self._table[row], dim=0) / self._table.norm(dim=1).clamp(min=1e-12)
        )
        cosines[[row, *self._repeated]] = -torch.inf
        best, rows = cosines.topk(min(count, len(self._rows) - 1))
        return [(self._words[row], value) for row, value in zip(rows.tolist(), best.tolist(), strict=True)]

    def _lookup(self, words: Sequence[str]) -> torch.Tensor:
        """*Shape:* the rows, `(words,)`, -1 for an unknown word."""
        rows = [self._rows.get(word, self._folded.get(word.lower(), -1)) for word in words]
        return torch.tensor(rows, dtype=torch.long)
