"""Multinomial logistic regression on vectors that are kept on disk, by scikit-learn."""

import warnings
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F

L2 = 1e-5
"""The penalty is L2/2 ||W||^2, beside the mean negative log-likelihood, on standardised features."""
MAX_ITERATIONS = 200
TOLERANCE = 1e-4
"""The largest partial derivative at which the search ends."""


class VectorsOnDisk:
    """Vectors of one size, written one behind the other and then read. A context manager."""

    def __init__(self, path: Path, dim: int) -> None:
        self.dim = dim
        self._file = open(path, "w+b")  # noqa: SIM115  closed by __exit__

    def append(self, vectors: torch.Tensor) -> None:
        """*Shape:* `(vectors, dim)`."""
        self._file.write(np.ascontiguousarray(vectors.numpy()).data)

    def read(self) -> np.ndarray:
        """All vectors, in the order in which they were written. *Shape:* `(vectors, dim)`, float32."""
        self._file.seek(0)
        return np.fromfile(self._file, np.float32).reshape(-1, self.dim)

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

    *Shape:* `classes` `(vectors,)`, from 0 to `num_classes - 1`, each of them at least once.
    """
    if num_classes == 1:
        return LinearClassifier(torch.zeros(1, vectors.dim), torch.zeros(1))
    # These imports take half a second.
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    # In place: there is one copy of the vectors in memory.
    scaler = StandardScaler(copy=False)
    features = scaler.fit_transform(vectors.read())
    # scikit-learn has one row of weights for two classes, the difference of ours.
    penalty = L2 / 2 if num_classes == 2 else L2
    regression = LogisticRegression(C=1 / (penalty * len(classes)), tol=TOLERANCE, max_iter=MAX_ITERATIONS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # MAX_ITERATIONS is an end like any other
        regression.fit(features, classes.numpy())
    weight, bias = regression.coef_, regression.intercept_
    if num_classes == 2:
        weight, bias = np.concatenate([-weight, weight]) / 2, np.concatenate([-bias, bias]) / 2
    weight = weight / scaler.scale_
    bias = bias - weight @ scaler.mean_
    return LinearClassifier(torch.from_numpy(weight).float(), torch.from_numpy(bias).float())
