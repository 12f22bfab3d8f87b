"""The vectors of the words used last: text repeats itself, and the character CNN takes long."""

from collections import OrderedDict
from collections.abc import Callable

import numpy as np
import torch

from elmo_tasks.elmo.inference.shared_lock import SHARED

CAPACITY = 1 << 15
"""The number of words; 64 MB of vectors for the original size."""


class WordCache:
    """
    Vectors of words; the word that was used longest ago is dropped first. Threads may share it.

    # Parameters

    capacity : words that are kept.
    """

    def __init__(self, *, capacity: int = CAPACITY) -> None:
        self.capacity = capacity
        self._rows: OrderedDict[bytes, int] = OrderedDict()
        """The row of each word in the table, the word used longest ago first."""
        self._table: torch.Tensor | None = None

    def __len__(self) -> int:
        return len(self._rows)

    def vectors(
        self, words: torch.Tensor, encode: Callable[[torch.Tensor], torch.Tensor]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """
        *Shape:* character ids `(words, 50)` to the vectors of the distinct words, `(distinct words, dim)`,
        and for each word its row among them, `(words,)`. `encode` makes vectors from the ids of distinct
        words; it is asked for those that are not in the cache, while other threads may use it.
        """
        array = np.ascontiguousarray(words.cpu().numpy())
        keys: list[bytes] = array.view(f"V{array.shape[1] * array.itemsize}").ravel().tolist()
        # Of each distinct word, an index in `keys`
        example = {key: index for index, key in enumerate(keys)}
        cached, parts = self._look_up(list(example))
        if new := [key for key in example if key not in cached]:
            parts.append(encode(words[[example[key] for key in new]]))
            self._store(new, parts[-1])
        row_of = {key: row for row, key in enumerate([*cached, *new])}
        index = torch.tensor([row_of[key] for key in keys], device=words.device)
        return torch.cat(parts), index

    def _look_up(self, words: list[bytes]) -> tuple[dict[bytes, None], list[torch.Tensor]]:
        """
        The words that are in the cache, in order, and a copy of their vectors, in a list that may be empty.
        """
        with SHARED:
            cached = dict.fromkeys(word for word in words if word in self._rows)
            if not cached or self._table is None:
                return {}, []
            for word in cached:
                self._rows.move_to_end(word)
            return cached, [self._table[[self._rows[word] for word in cached]]]

    def _store(self, words: list[bytes], vectors: torch.Tensor) -> None:
        """Words that another thread has stored meanwhile get the same vectors again."""
        words, vectors = words[-self.capacity :], vectors[-self.capacity :]
        with SHARED:
            rows = [self._row_for(word) for word in words]
            self._reserve(len(self._rows), vectors)[rows] = vectors

    def _row_for(self, word: bytes) -> int:
        row = self._rows.pop(word, None)
        if row is None:
            full = len(self._rows) == self.capacity
            row = self._rows.popitem(last=False)[1] if full else len(self._rows)
        self._rows[word] = row
        return row

    def _reserve(self, rows: int, like: torch.Tensor) -> torch.Tensor:
        """The table, made twice as large where it is too small."""
        table = self._table
        if table is None or rows > len(table):
            old_rows = 0 if table is None else len(table)
            larger = like.new_empty(min(self.capacity, max(rows, 2 * old_rows, 1024)), like.size(1))
            if table is not None:
                larger[:old_rows] = table
            self._table = table = larger
        return table
