"""
The token layer of the biLM: a character CNN with highway layers and a projection
(Kim et al. 2016, arXiv:1508.06615; Peters et al. 2018, section 3.2).
"""

import torch
from torch import nn
from torch.nn import functional as F

from elmo_tasks.elmo.characters import NUM_CHARACTERS
from elmo_tasks.elmo.distinct import distinct_rows
from elmo_tasks.elmo.linear import linear
from elmo_tasks.elmo.weights import BiLmOptions


class CharacterEncoder(nn.Module):
    """
    Words to vectors that do not depend on their context.

    *Input:* character ids `(words, 50)`. *Output:* `(words, projection_dim)`.

    Equal words are computed once: the CNN is the dearest part of a small biLM, and text repeats itself.
    """

    def __init__(self, *, options: BiLmOptions) -> None:
        super().__init__()
        self.activation = {"relu": torch.relu, "tanh": torch.tanh}[options.activation]
        self.embedding = nn.Parameter(torch.empty(NUM_CHARACTERS, options.character_dim))
        self.convolutions = nn.ModuleList(
            nn.Conv1d(options.character_dim, number, width) for width, number in options.filters
        )
        self.highways = nn.ModuleList(Highway(size=options.num_filters) for _ in range(options.n_highway))
        self.projection = (
            nn.Linear(options.num_filters, options.projection_dim)
            if options.num_filters != options.projection_dim
            else None
        )
        nn.init.uniform_(self.embedding, -1.0, 1.0)

    def forward(self, character_ids: torch.Tensor) -> torch.Tensor:
        # (distinct words, 50), (words,)
        distinct, index = distinct_rows(character_ids)
        # (distinct words, character dim, 50)
        characters = F.embedding(distinct.int(), self.embedding).transpose(1, 2)
        # (distinct words, all filters)
        pooled = torch.cat([cnn(characters).amax(dim=2) for cnn in self.convolutions], dim=1)
        words = self.activation(pooled)
        for highway in self.highways:
            words = highway(words)
        # (distinct words, projection_dim)
        if self.projection is not None:
            words = linear(words, self.projection.weight, self.projection.bias)
        return words[index]


class Highway(nn.Module):
    """`c * relu(W x) + (1 - c) * x` with the carry gate `c` (Srivastava et al. 2015); keeps the shape."""

    def __init__(self, *, size: int) -> None:
        super().__init__()
        self.carry = nn.Linear(size, size)
        self.transform = nn.Linear(size, size)
        # At the start most of the input is passed on, as bilm-tf trains.
        nn.init.constant_(self.carry.bias, -2.0)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        carry = linear(inputs, self.carry.weight, self.carry.bias).sigmoid()
        transformed = linear(inputs, self.transform.weight, self.transform.bias).relu()
        return carry * transformed + (1 - carry) * inputs
