"""The vectors of the words met last: text repeats itself, and the character CNN is dear."""

from collections import OrderedDict
from collections.abc import Callable

import numpy as np
import torch

WORDS_REMEMBERED = 1 << 15
"""64 MB of vectors for the original size."""


class WordCache:
    """
    Words to vectors, least recently used words out first.

    # Parameters

    capacity : words to remember.
    """

    def __init__(self, *, capacity: int = WORDS_REMEMBERED) -> None:
        self.capacity = capacity
        self._places: OrderedDict[bytes, int] = OrderedDict()
        """Of each word in the table, the word used longest ago first."""
        self._table: torch.Tensor | None = None

    def __len__(self) -> int:
        return len(self._places)

    def vectors(
        self, words: torch.Tensor, encode: Callable[[torch.Tensor], torch.Tensor]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """
        *Shape:* character ids `(words, 50)` to the vectors of the distinct words, `(distinct words, dim)`,
        and for each word its place among them, `(words,)`. `encode` makes vectors from the ids of distinct
        words; it is asked for those that are not remembered.
        """
        array = np.ascontiguousarray(words.cpu().numpy())
        keys: list[bytes] = array.view(f"V{array.shape[1] * array.itemsize}").ravel().tolist()
        # Of each distinct word, a place in `keys`
        example = {key: place for place, key in enumerate(keys)}
        known = [key for key in example if key in self._places]
        new = [key for key in example if key not in self._places]
        parts = []
        if known:
            assert self._table is not None
            parts.append(self._table[[self._places[key] for key in known]])
            for key in known:
                self._places.move_to_end(key)
        if new:
            parts.append(encode(words[[example[key] for key in new]]))
            self._remember(new, parts[-1])
        position = {key: place for place, key in enumerate(known + new)}
        index = torch.tensor([position[key] for key in keys], device=words.device)
        return torch.cat(parts), index

    def _remember(self, words: list[bytes], vectors: torch.Tensor) -> None:
        words, vectors = words[-self.capacity :], vectors[-self.capacity :]
        places = []
        for word in words:
            full = len(self._places) == self.capacity
            place = self._places.popitem(last=False)[1] if full else len(self._places)
            self._places[word] = place
            places.append(place)
        self._reserve(len(self._places), vectors)
        assert self._table is not None
        self._table[places] = vectors

    def _reserve(self, rows: int, like: torch.Tensor) -> None:
        """Doubles the table where it is too small."""
        have = 0 if self._table is None else len(self._table)
        if rows <= have:
            return
        larger = like.new_empty(min(self.capacity, max(rows, 2 * have, 1024)), like.size(1))
        if self._table is not None:
            larger[:have] = self._table
        self._table = larger
