"""
The token layer of a biLM that reads characters: a character CNN with highway layers and a projection
(Kim et al. 2016, arXiv:1508.06615; Peters et al. 2018, section 3.2).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import cast

import torch
from torch import nn
from torch.nn import functional as F

from elmo_tasks.elmo.characters import (
    BEGIN_SENTENCE,
    CHARACTERS_PER_WORD,
    END_SENTENCE,
    FILLING,
    NUM_CHARACTERS,
    character_ids,
    padded_character_ids,
)
from elmo_tasks.elmo.distinct import distinct_rows
from elmo_tasks.elmo.linear import FrozenLinear, Linear, TrainedLinear
from elmo_tasks.elmo.token_encoder import TokenEncoder
from elmo_tasks.elmo.trained_filters import WINDOWS_AT_ONCE, TrainedFilters, Words
from elmo_tasks.elmo.weights import CharacterOptions
from elmo_tasks.elmo.word_cache import WordCache

WORDS = "words"
"""The name of the word cache among what is derived from frozen weights."""


class CharacterEncoder(TokenEncoder):
    """
    Words to vectors by a CNN over their characters.

    Equal words are computed once, and cut behind their last character: the CNN is the dearest part of a
    small biLM. All convolutions are one matrix product over windows as wide as the widest filter.
    """

    reads = "character_ids"
    last_start: torch.Tensor

    def __init__(self, *, options: CharacterOptions, projection_dim: int) -> None:
        super().__init__(borders=torch.tensor(character_ids([BEGIN_SENTENCE, END_SENTENCE])))
        self.activation = {"relu": torch.relu, "tanh": torch.tanh}[options.activation]
        self.embedding = nn.Parameter(torch.empty(NUM_CHARACTERS, options.dim))
        self.convolutions = nn.ModuleList(
            nn.Conv1d(options.dim, number, width) for width, number in options.filters
        )
        self.highways = nn.ModuleList(Highway(size=options.num_filters) for _ in range(options.n_highway))
        self.projection = (
            nn.Linear(options.num_filters, projection_dim) if options.num_filters != projection_dim else None
        )
        self.widest = max(width for width, _ in options.filters)
        # (filters,): the last character at which a window of each filter starts
        last = [CHARACTERS_PER_WORD - width for width, number in options.filters for _ in range(number)]
        self.register_buffer("last_start", torch.tensor(last), persistent=False)
        nn.init.uniform_(self.embedding, -1.0, 1.0)

    def forward(self, ids: torch.Tensor, linear: Linear) -> tuple[torch.Tensor, torch.Tensor]:
        if isinstance(linear, FrozenLinear):
            cache = linear.derived(WORDS, WordCache)
            return cache.vectors(ids, lambda words: self._encode(words, linear))
        distinct, index = distinct_rows(ids)
        return self._encode(distinct, linear), index

    def present(self, ids: torch.Tensor) -> torch.Tensor:
        # A word begins with a mark, so that its first id is never 0.
        return ids[:, :, 0] != 0

    def padded_ids(self, sentences: Sequence[Sequence[str]]) -> torch.Tensor:
        return padded_character_ids(sentences)

    def _encode(self, words: torch.Tensor, linear: Linear) -> torch.Tensor:
        """*Shape:* distinct words `(words, 50)` to `(words, projection_dim)`."""
        weight, bias = linear.derived("filters", self._joined_filters)
        lengths, order = (words != FILLING).sum(dim=1).sort()
        if isinstance(linear, TrainedLinear):
            return self._encode_trained(words[order], lengths, weight, bias, linear)[order.argsort()]
        encoded = []
        for start, end, longest in _blocks(lengths.tolist()):
            features = self._features(words[order[start:end]], longest, weight, bias, linear)
            encoded.append(self._projected(features, linear))
        return torch.cat(encoded)[order.argsort()]

    def _encode_trained(
        self,
        words: torch.Tensor,
        lengths: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor,
        linear: TrainedLinear,
    ) -> torch.Tensor:
        """As `_encode`, of words by rising length, with gradients."""
        parts = []
        for start, end, longest in _blocks(lengths.tolist()):
            windows = min(longest, CHARACTERS_PER_WORD - 1) + 1
            ids = self._filled_up(words[start:end].int(), windows)
            cut = ids.size(1) > CHARACTERS_PER_WORD
            parts.append(Words(ids, self._missing(windows) if cut else None))
        features = TrainedFilters.apply(linear.products, parts, self.embedding, weight, bias)
        # So that products of few sizes recur, for each of which oneDNN compiles a kernel
        features = F.pad(self.activation(features), (0, 0, 0, -len(words) % 64))
        return self._projected(features, linear)[: len(words)]

    def _projected(self, features: torch.Tensor, linear: Linear) -> torch.Tensor:
        """*Shape:* through the highway layers, `(words, filters)` to `(words, projection_dim)`."""
        for highway in self.highways:
            features = highway(features, linear)
        if self.projection is not None:
            features = linear(features, self.projection.weight, self.projection.bias)
        return features

    def _filled_up(self, words: torch.Tensor, windows: int) -> torch.Tensor:
        """*Shape:* `(words, 50)` to `(words, windows + widest - 1)`: what so many windows see."""
        missing = windows + self.widest - 1 - CHARACTERS_PER_WORD
        return F.pad(words, (0, missing), value=FILLING)

    def _missing(self, windows: int) -> torch.Tensor:
        """*Shape:* where a filter has no window, `(windows, filters)`."""
        return torch.arange(windows, device=self.last_start.device).unsqueeze(1) > self.last_start

    def _features(
        self,
        words: torch.Tensor,
        longest: int,
        weight: torch.Tensor,
        bias: torch.Tensor,
        linear: Linear,
    ) -> torch.Tensor:
        """
        *Shape:* words `(words, 50)` of at most `longest` characters to `(words, filters)`.

        The last window kept starts behind the last character: all later ones see the same filling.
        """
        windows = min(longest, CHARACTERS_PER_WORD - 1) + 1
        words = self._filled_up(words, windows)
        # (words, width, character dim)
        characters = F.embedding(words.int(), self.embedding)
        # (words * windows, widest * character dim)
        seen = characters.unfold(1, self.widest, 1).flatten(0, 1).transpose(1, 2).flatten(1)
        # (words, windows, filters)
        features = linear(seen, weight, bias).view(len(words), windows, -1)
        if words.size(1) > CHARACTERS_PER_WORD:
            features = features.masked_fill(self._missing(windows), -torch.inf)
        return _by_row(self.activation, features.amax(dim=1))

    def _joined_filters(self) -> tuple[torch.Tensor, torch.Tensor]:
        """All filters, as wide as the widest: `(filters, widest * character dim)`, `(filters,)`."""
        cnns = [cast(nn.Conv1d, cnn) for cnn in self.convolutions]
        weights = [
            # (filters, widest, character dim)
            F.pad(cnn.weight.transpose(1, 2), (0, 0, 0, self.widest - cnn.weight.size(2)))
            for cnn in cnns
        ]
        return torch.cat(weights).flatten(1), torch.cat([cast(torch.Tensor, cnn.bias) for cnn in cnns])


class Highway(nn.Module):
    """`c * relu(W x) + (1 - c) * x` with the carry gate `c` (Srivastava et al. 2015); keeps the shape."""

    def __init__(self, *, size: int) -> None:
        super().__init__()
        self.carry = nn.Linear(size, size)
        self.transform = nn.Linear(size, size)
        # At the start most of the input is passed on, as bilm-tf trains.
        nn.init.constant_(self.carry.bias, -2.0)

    def forward(self, inputs: torch.Tensor, linear: Linear) -> torch.Tensor:
        carry = _by_row(torch.sigmoid, linear(inputs, self.carry.weight, self.carry.bias))
        transformed = linear(inputs, self.transform.weight, self.transform.bias).relu()
        return inputs + carry * (transformed - inputs)


def _by_row(function: Callable[[torch.Tensor], torch.Tensor], inputs: torch.Tensor) -> torch.Tensor:
    """
    `function` of each value, rounded the same way in whatever batch a row comes: PyTorch computes 32 values
    at a time, and rounds those that are left over in another way.
    """
    width = inputs.size(1)
    return function(F.pad(inputs, (0, -width % 32)))[:, :width] if width % 32 else function(inputs)


def _blocks(lengths: list[int]) -> Iterator[tuple[int, int, int]]:
    """Words of rising length as blocks of few windows: (first, behind the last, longest word)."""
    start = 0
    for place, length in enumerate(lengths):
        if (place + 1 - start) * (length + 1) > WINDOWS_AT_ONCE and place > start:
            yield start, place, lengths[place - 1]
            start = place
    yield start, len(lengths), lengths[-1]
