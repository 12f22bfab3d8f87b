"""A product whose rows do not depend on each other, nor on how many there are."""

import torch
from torch.nn import functional as F

FEWEST_ROWS = 16
"""BLAS takes other kernels, which add up in another order, for a few rows (below 12, where measured)."""


def linear(inputs: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """
    `inputs @ weight.T + bias`, each row rounded the same way in whatever batch it comes.

    *Shape:* `(rows, in)`, `(out, in)`, `(out,)` to `(rows, out)`.
    """
    missing = FEWEST_ROWS - len(inputs)
    if missing <= 0:
        return F.linear(inputs, weight, bias)
    return F.linear(F.pad(inputs, (0, 0, 0, missing)), weight, bias)[: len(inputs)]
