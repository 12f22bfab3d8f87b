"""Vectors of the tokens of sentences, from the layers of a biLM or from a table of static vectors."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import tee
from operator import itemgetter

import torch
from torch.nn import functional as F

from elmo_tasks.common.batches import Item, batches
from elmo_tasks.common.errors import ElmoError
from elmo_tasks.elmo import FrozenBiLm
from elmo_tasks.vectors.text_format import WordTable

Mix = Callable[[torch.Tensor], torch.Tensor]
"""Mixes layers `(layers, ..., dim)` to `(..., dim)`."""

POSITIONS = 4096
"""The positions of a batch, padding included; a longer sentence is encoded alone."""


class Encoder(ABC):
    """
    The base of encoders, which turn sentences into several vectors of each token, the rows.

    # Parameters

    names : the names of the rows.
    dim : the size of a vector.
    """

    def __init__(self, *, names: Sequence[str], dim: int) -> None:
        self.names = list(names)
        self.dim = dim

    @abstractmethod
    def encode(self, sentences: Iterable[Sequence[str]]) -> Iterator[torch.Tensor]:
        """
        Yields the vectors of each sentence, in order. It reads ahead only the sentences of one batch.

        *Shape:* `(rows, tokens, dim)` for each sentence, on the CPU.
        """

    @abstractmethod
    def known(self, words: Sequence[str]) -> torch.Tensor:
        """Returns which words have a vector of their own. *Shape:* `(words,)`."""

    def occurrence(self, vectors: torch.Tensor, start: int, end: int) -> torch.Tensor:
        """
        Returns the meaning of the tokens `[start, end)` in their sentence: the mean of their vectors.

        *Shape:* the sentence's vectors `(rows, tokens, dim)` to `(rows, dim)`.
        """
        return vectors[:, start:end].mean(dim=1)

    def encode_items(
        self, items: Iterable[Item], words: Callable[[Item], Sequence[str]]
    ) -> Iterator[tuple[Item, torch.Tensor]]:
        """Yields each item with the vectors of its words, see `encode`."""
        items, ahead = tee(items)
        return zip(items, self.encode(map(words, ahead)), strict=True)


class BiLmEncoder(Encoder):
    """
    An encoder with a row for each layer of a biLM, the token layer first, for their average, and for given
    mixes.

    # Parameters

    bilm : the biLM, frozen.
    mixes : further mixes of the layers, by their names.
    only : the name of the only row to compute; `None` for all.

    # Raises
    `ElmoError`: there is no row `only`.
    """

    def __init__(self, *, bilm: FrozenBiLm, mixes: Mapping[str, Mix], only: str | None = None) -> None:
        self._bilm = bilm
        layers: dict[str, Mix] = {f"layer {layer}": itemgetter(layer) for layer in range(bilm.num_layers)}
        rows = layers | {"average": _average} | dict(mixes)
        if only is not None:
            if only not in rows:
                raise ElmoError(f"found {only!r}, expected one of {', '.join(rows)}")
            rows = {only: rows[only]}
        self._rows = list(rows.values())
        super().__init__(names=list(rows), dim=bilm.options.output_dim)

    @torch.no_grad()
    def encode(self, sentences: Iterable[Sequence[str]]) -> Iterator[torch.Tensor]:
        for batch in batches(sentences, len, POSITIONS):
            # (layers, sentences, longest, dim)
            layers = self._bilm.encode(self._bilm.padded_ids(batch))
            # (rows, sentences, longest, dim)
            rows = torch.stack([row(layers) for row in self._rows]).cpu()
            for number, words in enumerate(batch):
                yield rows[:, number, : len(words)]

    def known(self, words: Sequence[str]) -> torch.Tensor:
        """Returns which words the biLM knows: all of them, if it reads characters. *Shape:* `(words,)`."""
        return self._bilm.knows(words)


def _average(layers: torch.Tensor) -> torch.Tensor:
    return layers.mean(dim=0)


class StaticVectors(Encoder):
    """
    An encoder with one row, a table of word vectors: one vector per word, whatever its context. An unknown
    word has zeros.

    A word is looked up as it is spelt, or else as the first word of the table that differs only in case.

    # Parameters

    name : the name of the row.
    table : the words and vectors; the first of equal words counts.
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
        """Returns the mean of all other words: the word itself has the same vector in every sentence."""
        other_words = torch.cat([vectors[:, :start], vectors[:, end:]], dim=1)
        return other_words.sum(dim=1) / max(1, other_words.size(1))

    def nearest(self, word: str, count: int) -> list[tuple[str, float]]:
        """Returns the other words with the highest cosines to a known word, and their cosines."""
        row = int(self._lookup([word]))
        # (words,)
        cosines = (
            self._table @ F.normalize(self._table[row], dim=0) / self._table.norm(dim=1).clamp(min=1e-12)
        )
        cosines[[row, *self._repeated]] = -torch.inf
        best, rows = cosines.topk(min(count, len(self._rows) - 1))
        return [(self._words[row], value) for row, value in zip(rows.tolist(), best.tolist(), strict=True)]

    def _lookup(self, words: Sequence[str]) -> torch.Tensor:
        """Returns the row of each word in the table, -1 for an unknown word. *Shape:* `(words,)`."""
        rows = [self._rows.get(word, self._folded.get(word.lower(), -1)) for word in words]
        return torch.tensor(rows, dtype=torch.long)
