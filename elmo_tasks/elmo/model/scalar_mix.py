"""Equation (1) of Peters et al. 2018: one vector a token from all layers of the biLM."""

from functools import reduce
from typing import Literal

import torch
from torch import nn
from torch.nn import functional as F

from elmo_tasks.common.values import checked

LayerChoice = Literal["all", "top"]
Weights = Literal["trainable", "frozen", "function"]


class ScalarMix(nn.Module):
    """
    `gamma * sum_j s_j h_j`, with `s = softmax(w)`.

    # Parameters

    num_layers : the layers of the biLM, with the token layer.
    dim : size of a layer's vector.
    layers : `all`, or `top` for the last layer alone (which has no weights).
    weights : `trainable` (the paper's w, zero at first: an average), `frozen` (w drawn once from a normal
        distribution, never changed), or `function`: `w_j = v_j . h_j + b_j`, computed at each token from the
        layers themselves, v and b learned, zero at first.
    gamma : learn a scale, 1 at first; without it the scale is 1.
    layer_norm : first normalise each layer at each token over its own features (mean 0, variance 1, no
        learned parameters), so that a token's vector never depends on the other sentences of a batch.

    # Raises
    `ElmoError`: unknown `layers` or `weights`.
    """

    scores: torch.Tensor

    @checked
    def __init__(
        self,
        *,
        num_layers: int,
        dim: int,
        layers: LayerChoice = "all",
        weights: Weights = "trainable",
        gamma: bool = True,
        layer_norm: bool = False,
    ) -> None:
        super().__init__()
        self.top = layers == "top"
        self.function = weights == "function" and not self.top
        self.layer_norm = layer_norm
        self.gamma = nn.Parameter(torch.ones(())) if gamma else None
        if not self.top:
            if weights == "frozen":
                self.register_buffer("scores", torch.randn(num_layers))
            else:
                self.scores = nn.Parameter(torch.zeros(num_layers))
        if self.function:
            self.projections = nn.Parameter(torch.zeros(num_layers, dim))

    def forward(self, layers: torch.Tensor) -> torch.Tensor:
        """*Shape:* `(num_layers, ..., dim)` to `(..., dim)`."""
        if self.top:
            layers = layers[-1:]
        if self.layer_norm:
            layers = F.layer_norm(layers, layers.shape[-1:])
        # One layer at a time: a product with all of them would take as much memory as they do.
        weighted = (
            weight * layer for weight, layer in zip(self._normalised_weights(layers), layers, strict=True)
        )
        mixed = reduce(torch.add, weighted)
        return mixed if self.gamma is None else self.gamma * mixed

    def _normalised_weights(self, layers: torch.Tensor) -> torch.Tensor:
        """
        Returns the normalised weights of the layers. *Shape:* `(num_layers, ..., dim)` to `(num_layers, ...,
        1)`, or to `(1,)` with `top`.
        """
        if self.top:
            return layers.new_ones(1)
        # (num_layers, 1, ..., 1)
        scores = self.scores.view(-1, *[1] * (layers.dim() - 1))
        if self.function:
            # (num_layers, ..., 1)
            scores = scores + torch.einsum("l...d,ld->l...", layers, self.projections).unsqueeze(-1)
        return scores.softmax(dim=0)

    def squared_norm(self) -> torch.Tensor:
        """Returns `||w||^2` of the learned weights (for `function`: of v and b); 0 if none is learned."""
        learned = [p for name, p in self.named_parameters() if name != "gamma"]
        if not learned:
            return torch.zeros(())
        return torch.stack([parameter.square().sum() for parameter in learned]).sum()
