"""Cosines that are equal where only rounding tells them apart, as those of equal words without context."""

import torch

_DECIMALS = 6


def round_cosines(cosines: torch.Tensor) -> torch.Tensor:
    """*Shape:* any. Cosines to six decimals, of vectors in float32 or better."""
    return cosines.round(decimals=_DECIMALS)
