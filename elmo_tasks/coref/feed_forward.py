"""What scores words, spans and pairs: feed-forward networks with ReLU and dropout, and embedded features."""

from itertools import pairwise

from torch import nn


def feed_forward(input_dim: int, hidden_sizes: list[int], dropout: float) -> nn.Sequential:
    """*Shape:* `(..., input_dim)` to scores `(..., 1)`."""
    return nn.Sequential(nn.Linear(input_dim, hidden_sizes[0]), scoring_layers(hidden_sizes, dropout))


def scoring_layers(hidden_sizes: list[int], dropout: float) -> nn.Sequential:
    """
    All that comes behind the first product, which the caller makes in parts.

    *Shape:* `(..., hidden_sizes[0])` to scores `(..., 1)`.
    """
    layers: list[nn.Module] = []
    for size, next_size in pairwise([*hidden_sizes, 1]):
        layers += [nn.ReLU(), nn.Dropout(dropout), nn.Linear(size, next_size)]
    return nn.Sequential(*layers)


def feature(number: int, dim: int) -> nn.Embedding:
    """The vectors of a feature with so many values, to be learned."""
    embedding = nn.Embedding(number, dim)
    nn.init.xavier_uniform_(embedding.weight)
    return embedding
