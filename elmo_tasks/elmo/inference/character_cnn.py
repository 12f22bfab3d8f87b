"""
The character CNN over distinct words, in few computations: with packed weights, or with gradients.

The vectors of the words used last: text repeats itself, and the character CNN takes long.

The token layer with weights that stay as they are: each distinct word is encoded once, and its vector kept.
"""

import copy
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from itertools import accumulate
from typing import TypeVar, cast

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from elmo_tasks.common.batches import batch_sizes
from elmo_tasks.common.processes import SHARED
from elmo_tasks.elmo.inference.cpu_lstm import Pack
from elmo_tasks.elmo.inference.packed_weights import PackedWeight, sigmoid
from elmo_tasks.elmo.model.characters import FILLING, shortened
from elmo_tasks.elmo.model.encoders import CharacterEncoder, Highway, WordEncoder, looked_up

# ==== elmo.inference.character_cnn
WINDOWS_AT_ONCE = 1024
"""What the filters give for so many windows still fits into a processor's cache."""

Rows = Callable[[torch.Tensor], torch.Tensor]
"""`(rows, in)` to `(rows, out)`."""
Product = Callable[[torch.Tensor, torch.Tensor], Rows]
"""Makes the product with a weight `(out, in)` and a bias `(out,)`."""


class CharacterCnn:
    """
    What `CharacterEncoder` computes. All convolutions are one product over windows as wide as the widest
    filter, and words are cut behind their last character.

    # Parameters

    encoder : whose weights are used.
    product : makes the product with a weight and a bias; it is called once for each weight.
    """

    def __init__(self, encoder: CharacterEncoder, product: Product) -> None:
        self.length = encoder.max_characters
        self.widest = max(convolution.kernel_size[0] for convolution in _convolutions(encoder))
        self.filters = product(*joined_filters(encoder))
        self.highways = [
            tuple(product(gate.weight, gate.bias) for gate in (highway.carry, highway.transform))
            for highway in cast(Iterable[Highway], encoder.highways)
        ]
        projection = encoder.projection
        self.projection = None if projection is None else product(projection.weight, projection.bias)
        self.embedding, self.activation = encoder.embedding, encoder.activation
        self.characters, self.words = encoder.characters, encoder.words
        # (filters,): the last character at which a window of each filter starts
        self.last_start = torch.cat(
            [
                torch.full((len(convolution.weight),), self.length - convolution.kernel_size[0])
                for convolution in _convolutions(encoder)
            ]
        ).to(encoder.embedding.device)

    def __call__(self, words: torch.Tensor) -> torch.Tensor:
        """
        *Shape:* character ids of distinct words `(words, 50)` to their vectors `(words, projection_dim)`.
        """
        blocks, order = blocks_of_like_length(shortened(words, self.length))
        encoded = [self.projected(self._features(block, windows), block) for block, windows in blocks]
        return torch.cat(encoded)[order.argsort()]

    def projected(self, features: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        """
        Through the highway layers. *Shape:* `(words, filters)` and ids `(words, length)` to
        `(words, projection_dim)`.
        """
        for carry, transform in self.highways:
            carried = sigmoid(carry(features))
            features = features + carried * (transform(features).relu() - features)
        if self.words is not None:
            features = torch.cat([self.words(words), features], dim=1)
        return features if self.projection is None else self.projection(features)

    def filled_up(self, words: torch.Tensor, windows: int) -> torch.Tensor:
        """
        *Shape:* ids `(words, length)` to the rows of the characters that so many windows see, `(words,
        windows + widest - 1)`.
        """
        missing = windows + self.widest - 1 - self.length
        return self.characters(F.pad(words, (0, missing), value=FILLING)).int()

    def outside(self, windows: int) -> torch.Tensor | None:
        """
        *Shape:* where a filter would end behind the last character, `(windows, filters)`; `None` for nowhere.
        """
        if windows + self.widest - 1 <= self.length:
            return None
        return torch.arange(windows, device=self.last_start.device).unsqueeze(1) > self.last_start

    def _features(self, words: torch.Tensor, windows: int) -> torch.Tensor:
        """*Shape:* words `(words, length)` that need at most `windows` windows to `(words, filters)`."""
        # (words, width, character dim)
        characters = F.embedding(self.filled_up(words, windows), self.embedding)
        # (words * windows, widest * character dim)
        seen = characters.unfold(1, self.widest, 1).flatten(0, 1).transpose(1, 2).flatten(1)
        # (words, windows, filters)
        features = self.filters(seen).view(len(words), windows, -1)
        if (outside := self.outside(windows)) is not None:
            features = features.masked_fill(outside, -torch.inf)
        return self.activation(features.amax(dim=1))


def joined_filters(encoder: CharacterEncoder) -> tuple[torch.Tensor, torch.Tensor]:
    """All filters, as wide as the widest. *Shape:* `(filters, widest * character dim)` and `(filters,)`."""
    convolutions = _convolutions(encoder)
    widest = max(convolution.kernel_size[0] for convolution in convolutions)
    weights = [
        # (filters, widest, character dim)
        F.pad(convolution.weight.transpose(1, 2), (0, 0, 0, widest - convolution.kernel_size[0]))
        for convolution in convolutions
    ]
    biases = [cast(torch.Tensor, convolution.bias) for convolution in convolutions]
    return torch.cat(weights).flatten(1), torch.cat(biases)


def blocks_of_like_length(words: torch.Tensor) -> tuple[list[tuple[torch.Tensor, int]], torch.Tensor]:
    """
    Words by their length in blocks of few windows. The last window of a word starts behind its last
    character, since all later ones see the same filling.

    *Shape:* `(words, length)` to blocks `(words of the block, length)`, each with the number of windows that
    its longest word needs, and the order of the words in them, `(words,)`.
    """
    lengths, order = (words != FILLING).sum(dim=1).sort()
    windows = (lengths + 1).tolist()
    sizes = list(batch_sizes(windows, WINDOWS_AT_ONCE))
    longest = [min(windows[end - 1], words.size(1)) for end in accumulate(sizes)]
    return list(zip(words[order].split(sizes), longest, strict=True)), order


def _convolutions(encoder: CharacterEncoder) -> list[nn.Conv1d]:
    return [cast(nn.Conv1d, convolution) for convolution in encoder.convolutions]


# ==== elmo.inference.word_cache
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


# ==== elmo.inference.token_layer
Encoder = TypeVar("Encoder", CharacterEncoder, WordEncoder)


class FrozenCharacters:
    """
    `CharacterEncoder` with packed weights and a cache of words.

    # Parameters

    blueprint : an encoder of the same sizes, whose weights are not read.
    weights : by their names in it.
    pack : puts a weight into the form in which it is multiplied with.
    """

    def __init__(self, blueprint: CharacterEncoder, weights: Mapping[str, torch.Tensor], pack: Pack) -> None:
        encoder = _with_weights(blueprint, weights)
        names = {id(parameter): name for name, parameter in encoder.named_parameters()}
        self._packed: dict[str, PackedWeight] = {}

        def product(weight: torch.Tensor, bias: torch.Tensor) -> Rows:
            packed = pack(weight.detach())
            if id(weight) in names:
                self._packed[names[id(weight)]] = packed
            return lambda rows: packed(rows, bias.detach())

        self._cnn = CharacterCnn(encoder, product)
        self._plain = {name: weight for name, weight in weights.items() if name not in self._packed}
        self.forget_words()

    def __call__(self, words: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """
        *Shape:* `(words, *id)` to the vectors of the distinct words, `(distinct words, projection_dim)`, and
        for each word its row among them, `(words,)`.
        """
        return self._words.vectors(words, self._cnn)

    def forget_words(self) -> None:
        """Empties the cache."""
        self._words = WordCache()

    def weights(self) -> dict[str, torch.Tensor]:
        """The weights by their names in the encoder."""
        return self._plain | {name: packed.dense() for name, packed in self._packed.items()}


class FrozenWords:
    """
    `WordEncoder`.

    # Parameters

    blueprint : an encoder of the same sizes, whose weights are not read.
    weights : by their names in it.
    """

    def __init__(self, blueprint: WordEncoder, weights: Mapping[str, torch.Tensor]) -> None:
        self._encoder = _with_weights(blueprint, weights)

    def __call__(self, words: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """See `FrozenCharacters`."""
        return vectors_of_distinct(words, self._encoder)

    def forget_words(self) -> None:
        """Does nothing: there is no cache."""

    def weights(self) -> dict[str, torch.Tensor]:
        """The weights by their names in the encoder."""
        return dict(self._encoder.state_dict())


def vectors_of_distinct(words: torch.Tensor, encoder: WordEncoder) -> tuple[torch.Tensor, torch.Tensor]:
    """
    *Shape:* ids of words, `(words,)`, to the vectors of the distinct words, `(distinct words,
    projection_dim)`, and for each word its row among them, `(words,)`. All words that are not known are one.
    """
    distinct, index = looked_up(words, encoder).unique(return_inverse=True)
    return F.embedding(distinct, encoder.embedding), index


def _with_weights(blueprint: Encoder, weights: Mapping[str, torch.Tensor]) -> Encoder:
    # Weights that are made within inference mode cannot require gradients.
    encoder = copy.deepcopy(blueprint).requires_grad_(False)
    encoder.load_state_dict(weights, assign=True)
    return encoder
