"""
The token layer with weights that stay as they are: each distinct word is encoded once, and its vector kept.
"""

import copy
from collections.abc import Mapping
from typing import TypeVar

import torch
from torch.nn import functional as F

from elmo_tasks.elmo.inference.character_cnn import CharacterCnn, Rows
from elmo_tasks.elmo.inference.lstm_layer import Pack
from elmo_tasks.elmo.inference.packed_weights import PackedWeight
from elmo_tasks.elmo.inference.word_cache import WordCache
from elmo_tasks.elmo.model.character_encoder import CharacterEncoder
from elmo_tasks.elmo.model.lookup import looked_up
from elmo_tasks.elmo.model.word_encoder import WordEncoder

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
