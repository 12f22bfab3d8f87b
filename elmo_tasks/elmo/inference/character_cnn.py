"""The character CNN over distinct words, in few computations: with packed weights, or with gradients."""

from collections.abc import Callable, Iterable
from itertools import accumulate
from typing import cast

import torch
from torch import nn
from torch.nn import functional as F

from elmo_tasks.elmo.inference.batches import batch_sizes
from elmo_tasks.elmo.inference.sigmoid import sigmoid
from elmo_tasks.elmo.model.character_encoder import CharacterEncoder, Highway
from elmo_tasks.elmo.model.characters import FILLING, shortened

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
