"""
The token layer of a frozen biLM: each distinct word is encoded once, and its vector cached.

`JoinedCharacterCnn` computes all filters together, also in training. `FrozenTokens` runs it with packed
weights and a `WordCache`, since text repeats itself and the character CNN takes long.
"""

import copy
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from itertools import accumulate
from typing import cast

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from elmo_tasks.common.batches import batch_sizes
from elmo_tasks.common.machine import CACHES_LOCK
from elmo_tasks.common.packed_weights import Pack, PackedWeight, sigmoid
from elmo_tasks.elmo.model.characters import PADDING_ID, shortened
from elmo_tasks.elmo.model.encoders import CharacterEncoder, Highway, WordEncoder, looked_up

WINDOWS_AT_ONCE = 1024
"""The outputs of the filters for this number of windows still fit into a processor's cache."""
WORDS_PER_PRODUCT = 512
"""The highway layers and the projection read their weights once for this number of words."""
WINDOWS_ON_GPU, WORDS_ON_GPU = 1 << 15, 1 << 14
"""The same on a GPU, which takes longer to begin a computation than to do it."""
CAPACITY = 1 << 15
"""The number of cached words; they take 64 MB for the original size."""

LinearMap = Callable[[torch.Tensor], torch.Tensor]
"""`(rows, in)` to `(rows, out)`."""
MakeLinearMap = Callable[[torch.Tensor, torch.Tensor], LinearMap]
"""Makes the product with a weight `(out, in)` and a bias `(out,)`."""


class FrozenTokens:
    """
    The token layer with packed `weights` and a cache of words; a table of words needs neither. The
    `blueprint` is an encoder of the same sizes, whose weights are not read.
    """

    def __init__(
        self, blueprint: CharacterEncoder | WordEncoder, weights: Mapping[str, torch.Tensor], pack: Pack
    ) -> None:
        # Weights that are made within inference mode cannot require gradients.
        encoder = copy.deepcopy(blueprint).requires_grad_(False)
        encoder.load_state_dict(weights, assign=True)
        names = {id(parameter): name for name, parameter in encoder.named_parameters()}
        self._packed: dict[str, PackedWeight] = {}

        def product(weight: torch.Tensor, bias: torch.Tensor) -> PackedWeight:
            packed = pack(weight.detach(), bias.detach())
            if id(weight) in names:
                self._packed[names[id(weight)]] = packed
            return packed

        # What holds an encoder of characters would hold its unpacked weights.
        self._table = encoder if isinstance(encoder, WordEncoder) else None
        if isinstance(encoder, CharacterEncoder):
            self._cnn = JoinedCharacterCnn(encoder, product)
        self._plain = {name: weight for name, weight in weights.items() if name not in self._packed}
        self.clear_word_cache()

    def __call__(self, words: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """
        *Shape:* `(words, *id)` to the vectors of the distinct words, `(distinct words, projection_dim)`, and
        the row of each word among them, `(words,)`.
        """
        if self._table is not None:
            return vectors_of_distinct(words, self._table)
        return self._cache.vectors(words, self._cnn)

    def clear_word_cache(self) -> None:
        self._cache = WordCache()

    def weights(self) -> dict[str, torch.Tensor]:
        return self._plain | {name: packed.dense() for name, packed in self._packed.items()}


def vectors_of_distinct(words: torch.Tensor, encoder: WordEncoder) -> tuple[torch.Tensor, torch.Tensor]:
    """
    Looks words up, of which all unknown ones count as one. *Shape:* ids `(words,)` to the distinct vectors
    `(distinct words, projection_dim)`, and the row of each word among them, `(words,)`.
    """
    distinct, index = looked_up(words, encoder).unique(return_inverse=True)
    return F.embedding(distinct, encoder.embedding), index


class JoinedCharacterCnn:
    """
    The `encoder` in few computations. All convolutions are one product over windows as wide as the widest
    filter, and words are cut after their last character. `product` is called once for each weight.
    """

    def __init__(self, encoder: CharacterEncoder, product: MakeLinearMap) -> None:
        self.length = encoder.max_characters
        widths = [convolution.kernel_size[0] for convolution in _convolutions(encoder)]
        self.widest = max(widths)
        self.filters = product(*joined_filters(encoder))
        self.highways = [
            tuple(product(linear.weight, linear.bias) for linear in (highway.carry, highway.transform))
            for highway in cast(Iterable[Highway], encoder.highways)
        ]
        projection = encoder.projection
        self.projection = None if projection is None else product(projection.weight, projection.bias)
        self.embedding, self.activation = encoder.embedding, encoder.activation
        self.characters, self.words = encoder.characters, encoder.words
        # (filters,): the last character at which a window of each filter starts
        counts = torch.tensor([len(convolution.weight) for convolution in _convolutions(encoder)])
        last_starts = self.length - torch.tensor(widths).repeat_interleave(counts)
        self.last_start = last_starts.to(encoder.embedding.device)

    def __call__(self, words: torch.Tensor) -> torch.Tensor:
        """Encodes distinct words. *Shape:* `(words, 50)` to `(words, projection_dim)`."""
        blocks, order = blocks_by_length(shortened(words, self.length))
        # (words, filters): more words than in a block, since the highway layers have large weights
        features = torch.cat([self._features(block, windows) for block, windows in blocks])
        cut = torch.cat([block for block, _ in blocks])
        at_once = WORDS_ON_GPU if cut.is_cuda else WORDS_PER_PRODUCT
        parts = zip(features.split(at_once), cut.split(at_once), strict=True)
        return torch.cat([self.projected(*part) for part in parts])[order.argsort()]

    def _features(self, words: torch.Tensor, windows: int) -> torch.Tensor:
        """*Shape:* words `(words, length)` that need at most `windows` windows to `(words, filters)`."""
        # (words, windows + widest - 1, character dim)
        characters = F.embedding(self.characters_in(words, windows), self.embedding)
        # (words * windows, widest * character dim)
        inputs = characters.unfold(1, self.widest, 1).flatten(0, 1).transpose(1, 2).flatten(1)
        # (words, windows, filters)
        features = self.filters(inputs).view(len(words), windows, -1)
        if (outside := self.outside(windows)) is not None:
            features = features.masked_fill(outside, -torch.inf)
        return self.activation(features.amax(dim=1))

    def characters_in(self, words: torch.Tensor, windows: int) -> torch.Tensor:
        """*Shape:* ids `(words, length)` to rows of the table, `(words, windows + widest - 1)`."""
        missing = windows + self.widest - 1 - self.length
        return self.characters(F.pad(words, (0, missing), value=PADDING_ID)).int()

    def outside(self, windows: int) -> torch.Tensor | None:
        """*Shape:* `(windows, filters)`: where a filter ends after the last character; `None` for nowhere."""
        if windows + self.widest - 1 <= self.length:
            return None
        return torch.arange(windows, device=self.last_start.device).unsqueeze(1) > self.last_start

    def projected(self, features: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        """*Shape:* `(words, filters)` and ids `(words, length)` to `(words, projection_dim)`."""
        for carry, transform in self.highways:
            carried = sigmoid(carry(features))
            features = features + carried * (transform(features).relu() - features)
        if self.words is not None:
            features = torch.cat([self.words(words), features], dim=1)
        return features if self.projection is None else self.projection(features)


def joined_filters(encoder: CharacterEncoder) -> tuple[torch.Tensor, torch.Tensor]:
    """Pads all filters to the widest. *Shape:* `(filters, widest * character dim)`, `(filters,)`."""
    convolutions = _convolutions(encoder)
    widest = max(convolution.kernel_size[0] for convolution in convolutions)
    weights = [
        # (filters, widest, character dim)
        F.pad(convolution.weight.transpose(1, 2), (0, 0, 0, widest - convolution.kernel_size[0]))
        for convolution in convolutions
    ]
    biases = [cast(torch.Tensor, convolution.bias) for convolution in convolutions]
    return torch.cat(weights).flatten(1), torch.cat(biases)


def blocks_by_length(words: torch.Tensor) -> tuple[list[tuple[torch.Tensor, int]], torch.Tensor]:
    """
    Splits words into blocks of few windows, by length. The last window of a word starts after its last
    character, since all later windows hold the same padding.

    *Shape:* `(words, length)` to blocks `(words of the block, length)`, each with the number of windows that
    its longest word needs, and the order of the words in them, `(words,)`.
    """
    lengths, order = (words != PADDING_ID).sum(dim=1).sort()
    windows = (lengths + 1).tolist()
    sizes = list(batch_sizes(windows, WINDOWS_ON_GPU if words.is_cuda else WINDOWS_AT_ONCE))
    longest = [min(windows[end - 1], words.size(1)) for end in accumulate(sizes)]
    return list(zip(words[order].split(sizes), longest, strict=True)), order


def _convolutions(encoder: CharacterEncoder) -> list[nn.Conv1d]:
    return [cast(nn.Conv1d, convolution) for convolution in encoder.convolutions]


class WordCache:
    """The vectors of the words used last, `capacity` at most. Threads may share it."""

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
        Takes vectors from the cache, or from `encode`, which reads distinct words. *Shape:* `(words, 50)` to
        the distinct vectors `(distinct words, dim)`, and the row of each word among them, `(words,)`.
        """
        array = np.ascontiguousarray(words.cpu().numpy())
        keys: list[bytes] = array.view(f"V{array.shape[1] * array.itemsize}").ravel().tolist()
        # For each distinct word, an index in `keys`
        example = {key: index for index, key in enumerate(keys)}
        cached, parts = self._look_up(list(example))
        if new := [key for key in example if key not in cached]:
            parts.append(encode(words[[example[key] for key in new]]))
            self._store(new, parts[-1])
        row_of = {key: row for row, key in enumerate([*cached, *new])}
        index = torch.tensor([row_of[key] for key in keys], device=words.device)
        return parts[0] if len(parts) == 1 else torch.cat(parts), index

    def _look_up(self, words: list[bytes]) -> tuple[dict[bytes, None], list[torch.Tensor]]:
        """Returns the cached words, in order, and a list with a copy of their vectors, if there are any."""
        with CACHES_LOCK:
            cached = dict.fromkeys(word for word in words if word in self._rows)
            if not cached or self._table is None:
                return {}, []
            for word in cached:
                self._rows.move_to_end(word)
            rows = torch.tensor([self._rows[word] for word in cached], device=self._table.device)
            return cached, [self._table.index_select(0, rows)]

    def _store(self, words: list[bytes], vectors: torch.Tensor) -> None:
        """Stores vectors; a word that another thread has just stored gets the same vector again."""
        words, vectors = words[-self.capacity :], vectors[-self.capacity :]
        with CACHES_LOCK:
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
        """Returns the table, at least twice as large if it was too small."""
        table = self._table
        if table is None or rows > len(table):
            old_rows = 0 if table is None else len(table)
            larger = like.new_empty(min(self.capacity, max(rows, 2 * old_rows, 1024)), like.size(1))
            if table is not None:
                larger[:old_rows] = table
            self._table = table = larger
        return table
