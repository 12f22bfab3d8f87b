"""Multinomial logistic regression on vectors that are kept on disk."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

L2 = 1e-5
"""Of the penalty L2/2 ||W||^2, beside the mean negative log-likelihood, on standardised features."""
MAX_ITERATIONS = 200
TOLERANCE = 1e-4
"""Of the largest partial derivative, as scikit-learn's."""

_BLOCK = 1 << 22
"""Numbers in memory at once."""


class VectorsOnDisk:
    """Vectors of one size, written one behind the other and then read in blocks. A context manager."""

    def __init__(self, path: Path, dim: int) -> None:
        self.dim = dim
        self._file = open(path, "w+b")  # noqa: SIM115  closed by __exit__

    def append(self, vectors: torch.Tensor) -> None:
        """*Shape:* `(vectors, dim)`."""
        self._file.write(np.ascontiguousarray(vectors.numpy()).data)

    def blocks(self) -> Iterator[torch.Tensor]:
        """*Shape:* `(vectors, dim)` each, as many as `_BLOCK` holds, in the order they were written in."""
        self._file.seek(0)
        while len(block := np.fromfile(self._file, np.float32, max(1, _BLOCK // self.dim) * self.dim)):
            yield torch.from_numpy(block).view(-1, self.dim)

    def __enter__(self) -> "VectorsOnDisk":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


class LinearClassifier:
    """
    Vectors to the class of the highest score.

    *Shape:* `weight` `(classes, dim)`, `bias` `(classes,)`.
    """

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor) -> None:
        self.weight = weight
        self.bias = bias

    def __call__(self, vectors: torch.Tensor) -> torch.Tensor:
        """*Shape:* `(vectors, dim)` to `(vectors,)`."""
        return F.linear(vectors, self.weight, self.bias).argmax(dim=1)


def fit(vectors: VectorsOnDisk, classes: torch.Tensor, num_classes: int) -> LinearClassifier:
    """
    The minimum of the penalised negative log-likelihood, by L-BFGS from zero: no randomness, and nothing to
    tune. Each feature is first brought to mean 0 and deviation 1, so that all layers are treated alike.

    *Shape:* `classes` `(vectors,)`, from 0 to `num_classes - 1`.
    """
    mean, deviation = _moments(vectors)
    weight = nn.Parameter(torch.zeros(num_classes, vectors.dim))
    bias = nn.Parameter(torch.zeros(num_classes))
    optimizer = torch.optim.LBFGS(
        [weight, bias],
        max_iter=MAX_ITERATIONS,
        tolerance_grad=TOLERANCE,
        line_search_fn="strong_wolfe",
    )

    def unscaled() -> tuple[torch.Tensor, torch.Tensor]:
        """The same classifier, of vectors as they are."""
        scaled = weight / deviation
        return scaled, bias - scaled @ mean

    def loss() -> float:
        optimizer.zero_grad()
        penalty = L2 / 2 * weight.square().sum()
        penalty.backward()
        total = penalty.item()
        start = 0
        for block in vectors.blocks():
            gold = classes[start : start + len(block)]
            logits = F.linear(block, *unscaled())
            share = F.cross_entropy(logits, gold, reduction="sum") / len(classes)
            share.backward()
            total += share.item()
            start += len(block)
        return total

    optimizer.step(loss)
    return LinearClassifier(*(part.detach() for part in unscaled()))


def _moments(vectors: VectorsOnDisk) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and deviation of each feature, `(dim,)`; a deviation of 0 is given as 1."""
    count = 0
    total = torch.zeros(vectors.dim, dtype=torch.double)
    squares = torch.zeros(vectors.dim, dtype=torch.double)
    for block in vectors.blocks():
        count += len(block)
        total += block.sum(dim=0, dtype=torch.double)
        squares += block.double().square().sum(dim=0)
    mean = total / count
    deviation = (squares / count - mean.square()).clamp(min=0).sqrt()
    return mean.float(), torch.where(deviation > 1e-6, deviation, 1.0).float()
