"""Which layers of a biLM are asked for, and whether they can be right."""

import torch

LAYERS = ("all", "top", "average")
NOT_FINITE = (
    "found vectors that are not finite, expected finite ones; "
    "the weights are damaged, or the options are of another biLM"
)


def chosen_layers(layers: torch.Tensor, which: str) -> torch.Tensor:
    """*Shape:* `(layers, ...)` to the same, or to one layer: the last (`top`), or the mean (`average`)."""
    if which == "top":
        return layers[-1:]
    return layers.mean(dim=0, keepdim=True) if which == "average" else layers


def first_not_finite(layers: torch.Tensor) -> int | None:
    """*Shape:* `(layers, sentences, longest, dim)`. The first sentence with a value that is not finite."""
    if torch.isfinite(layers).all():
        return None
    return int((~torch.isfinite(layers)).any(dim=3).any(dim=2).any(dim=0).int().argmax())
