"""
The token layer of a biLM that reads characters: a character CNN with highway layers and a projection
(Kim et al. 2016, arXiv:1508.06615; Peters et al. 2018, section 3.2).
"""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from elmo_tasks.elmo.model.characters import NUM_CHARACTERS, character_ids, shortened
from elmo_tasks.elmo.model.options import CharacterOptions
from elmo_tasks.elmo.model.token_encoder import TokenEncoder

ACTIVATIONS = {"relu": torch.relu, "tanh": torch.tanh}


class CharacterEncoder(TokenEncoder):
    """
    Takes of each filter the largest value over the word's characters; then highway layers and a projection.
    """

    reads = "character_ids"
    dtype = torch.int16
    # AllenNLP's `batch_to_ids`
    also_dtypes: ClassVar[tuple[torch.dtype, ...]] = (torch.int64,)
    characters: nn.Module
    """Ids of characters to their rows in the table."""
    words: nn.Module | None
    """Words, as their characters, to what is put beside the features of the CNN; `None` for nothing."""

    def __init__(self, *, options: CharacterOptions, projection_dim: int) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[options.activation]
        self.max_characters = options.max_characters
        self.characters, self.words = nn.Identity(), None
        self.embedding = nn.Parameter(torch.empty(NUM_CHARACTERS, options.dim))
        self.convolutions = nn.ModuleList(
            nn.Conv1d(options.dim, number, width) for width, number in options.filters
        )
        self.highways = nn.ModuleList(Highway(size=options.num_filters) for _ in range(options.n_highway))
        # The official layout leaves the projection out where the sizes agree.
        self.projection = (
            nn.Linear(options.num_filters, projection_dim) if options.num_filters != projection_dim else None
        )
        nn.init.uniform_(self.embedding, -1.0, 1.0)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        ids = shortened(ids, self.max_characters)
        # (words, character dim, max_characters)
        characters = F.embedding(self.characters(ids.long()), self.embedding).transpose(1, 2)
        # (words, filters)
        features = torch.cat([cnn(characters).amax(dim=2) for cnn in self.convolutions], dim=1)
        features = self.activation(features)
        for highway in self.highways:
            features = highway(features)
        if self.words is not None:
            features = torch.cat([self.words(ids), features], dim=1)
        return features if self.projection is None else self.projection(features)

    @staticmethod
    def present(ids: torch.Tensor) -> torch.Tensor:
        # A word begins with a mark, so that its first id is never 0.
        return ids[:, :, 0] != 0

    @staticmethod
    def ids(words: Sequence[str]) -> np.ndarray:
        return character_ids(words)


class Highway(nn.Module):
    """
    `c * relu(W x) + (1 - c) * x` (Srivastava et al. 2015) with the gate `c` that bilm-tf calls carry; keeps
    the shape.
    """

    def __init__(self, *, size: int) -> None:
        super().__init__()
        self.carry = nn.Linear(size, size)
        self.transform = nn.Linear(size, size)
        # At the start most of the input is carried on: bilm-tf adds -2 to what is let through.
        nn.init.constant_(self.carry.bias, -2.0)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        carry = torch.sigmoid(self.carry(inputs))
        return carry * torch.relu(self.transform(inputs)) + (1 - carry) * inputs
