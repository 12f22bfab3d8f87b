"""The character CNN with gradients."""

import torch
from torch.nn import functional as F

from elmo_tasks.elmo.inference.character_cnn import (
    CharacterCnn,
    Rows,
    blocks_of_like_length,
    joined_filters,
)
from elmo_tasks.elmo.inference.trained_filters import TrainedFilters, WordBlock
from elmo_tasks.elmo.inference.training_products import Product, Products
from elmo_tasks.elmo.model.character_encoder import CharacterEncoder
from elmo_tasks.elmo.model.characters import shortened

RECURRING_WORDS = 64
"""
The number of words in a product is a multiple of it, so that few sizes recur: oneDNN compiles a kernel for
each.
"""


class TrainedCharacterCnn(CharacterCnn):
    """
    `CharacterCnn` with gradients for the encoder's weights.

    # Parameters

    encoder : whose weights are trained.
    products : how it multiplies.
    """

    def __init__(self, encoder: CharacterEncoder, products: Products) -> None:
        def product(weight: torch.Tensor, bias: torch.Tensor) -> Rows:
            return lambda rows: Product.apply(products, rows, weight, bias)

        super().__init__(encoder, product)
        self._products = products
        self._weight, self._bias = joined_filters(encoder)

    def __call__(self, words: torch.Tensor) -> torch.Tensor:
        """See `CharacterCnn`."""
        words = shortened(words, self.length)
        blocks, order = blocks_of_like_length(words)
        parts = [
            WordBlock(self.filled_up(block, windows), self.outside(windows)) for block, windows in blocks
        ]
        features = TrainedFilters.apply(self._products, parts, self.embedding, self._weight, self._bias)
        filling = 0, 0, 0, -len(words) % RECURRING_WORDS
        features = F.pad(self.activation(features), filling)
        return self.projected(features, F.pad(words[order], filling))[: len(words)][order.argsort()]
