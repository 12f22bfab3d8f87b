"""Where vectors come from: the layers of a biLM here, static vectors in `static_vectors.py`."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import tee
from operator import itemgetter

import torch

from elmo_tasks.common.batches import Item, batches
from elmo_tasks.common.errors import ElmoError
from elmo_tasks.elmo import FrozenBiLm

Mix = Callable[[torch.Tensor], torch.Tensor]
"""Mixes layers `(layers, ..., dim)` to `(..., dim)`."""

POSITIONS = 4096
"""Positions that are encoded together, padding included; a longer sentence is encoded alone."""


class Encoder(ABC):
    """
    Sentences to the vectors of their tokens, of several kinds at once: the rows.

    # Parameters

    names : of the rows.
    dim : size of a vector.
    """

    def __init__(self, *, names: Sequence[str], dim: int) -> None:
        self.names = list(names)
        self.dim = dim

    @abstractmethod
    def encode(self, sentences: Iterable[Sequence[str]]) -> Iterator[torch.Tensor]:
        """
        *Shape:* of each sentence, in their order, `(rows, tokens, dim)`, on the CPU.

        Reads as many sentences ahead as are encoded together.
        """

    @abstractmethod
    def known(self, words: Sequence[str]) -> torch.Tensor:
        """Which words have a vector of their own. *Shape:* `(words,)`."""

    def occurrence(self, vectors: torch.Tensor, start: int, end: int) -> torch.Tensor:
        """
        What the tokens `[start, end)` of a sentence mean there.

        *Shape:* the sentence's vectors `(rows, tokens, dim)` to `(rows, dim)`.
        """
        return vectors[:, start:end].mean(dim=1)

    def encode_items(
        self, items: Iterable[Item], words: Callable[[Item], Sequence[str]]
    ) -> Iterator[tuple[Item, torch.Tensor]]:
        """Each item, and the vectors of its words, as `encode` gives them."""
        items, read = tee(items)
        return zip(items, self.encode(map(words, read)), strict=True)


class BiLmEncoder(Encoder):
    """
    Each layer of a biLM, the token layer first, their average, and further mixes of them.

    # Parameters

    bilm : frozen.
    mixes : by their names.
    only : the name of the one row that is wanted; `None` for all.

    # Raises
    `ElmoError`: there is no such row.
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

    def encode(self, sentences: Iterable[Sequence[str]]) -> Iterator[torch.Tensor]:
        for batch in batches(sentences, len, POSITIONS):
            yield from self._encode(batch)

    def known(self, words: Sequence[str]) -> torch.Tensor:
        """All of them, if the biLM reads characters."""
        return self._bilm.knows(words)

    @torch.no_grad()
    def _encode(self, batch: list[Sequence[str]]) -> list[torch.Tensor]:
        # (layers, sentences, longest, dim)
        layers = self._bilm.encode(self._bilm.padded_ids(batch))
        # (rows, sentences, longest, dim)
        rows = torch.stack([row(layers) for row in self._rows]).cpu()
        return [rows[:, number, : len(words)] for number, words in enumerate(batch)]


def _average(layers: torch.Tensor) -> torch.Tensor:
    return layers.mean(dim=0)
