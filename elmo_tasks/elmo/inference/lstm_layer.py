"""
One layer of the LSTM, in one direction, with weights that stay as they are: few computations a step, in
place.
"""

from collections.abc import Callable, Mapping, Sequence

import torch

from elmo_tasks.elmo.inference.packed_weights import PackedWeight
from elmo_tasks.elmo.inference.sigmoid import sigmoid

Pack = Callable[[torch.Tensor], PackedWeight]


class FrozenLstmLayer:
    """
    `ProjectedLstm` with packed weights.

    `tanh x` is `2 sigmoid 2x - 1`, which takes PyTorch a quarter of the time on a CPU; so all gates are one
    sigmoid once the rows of the candidate are doubled. The cell is held doubled too, and so is the
    projection, of half of its inputs. Multiplying by two changes no rounding.

    # Parameters

    weights : `weight`, `bias` and, if it has one, `projection` of a `ProjectedLstm`.
    cell_clip, proj_clip : bounds; 0 for none.
    pack : puts a weight into the form in which it is multiplied with.
    """

    def __init__(
        self, weights: Mapping[str, torch.Tensor], *, cell_clip: float, proj_clip: float, pack: Pack
    ) -> None:
        self.cell_clip, self.proj_clip = cell_clip, proj_clip
        self._scale = torch.ones_like(weights["bias"])
        self._scale.chunk(4)[2].fill_(2)
        self.bias = weights["bias"] * self._scale
        for_input, recurrent = (weights["weight"] * self._scale.unsqueeze(1)).chunk(2, dim=1)
        self.for_input, self.recurrent = pack(for_input), pack(recurrent)
        self.projection = pack(2 * weights["projection"]) if "projection" in weights else None

    def weights(self) -> dict[str, torch.Tensor]:
        """The weights of the `ProjectedLstm`, by their names there."""
        scaled = torch.cat([self.for_input.dense(), self.recurrent.dense()], dim=1)
        weights = {"weight": scaled / self._scale.unsqueeze(1), "bias": self.bias / self._scale}
        if self.projection is not None:
            weights["projection"] = self.projection.dense() / 2
        return weights

    def project_inputs(self, inputs: torch.Tensor) -> torch.Tensor:
        """What the inputs give to the gates. *Shape:* `(rows, projection_dim)` to `(rows, 4 dim)`."""
        return self.for_input(inputs, self.bias)

    def step(self, gates: torch.Tensor, hidden: torch.Tensor, doubled_cell: torch.Tensor) -> torch.Tensor:
        """
        *Shape:* what `project_inputs` gives, `(rows, 4 dim)`, `hidden` `(rows, projection_dim)`, and
        `doubled_cell` `(rows, dim)`, which becomes that of the next step, to the next hidden, `(rows,
        projection_dim)`.
        """
        activated = sigmoid(self.recurrent(hidden, addend=gates), in_place=True)
        return self.projected(half_output(activated.chunk(4, dim=1), doubled_cell, self.cell_clip))

    def projected(self, half: torch.Tensor) -> torch.Tensor:
        """*Shape:* what `half_output` gives, `(rows, dim)`, to `(rows, projection_dim)`."""
        if self.projection is None:
            return half.mul_(2)
        hidden = self.projection(half)
        return hidden.clamp_(-self.proj_clip, self.proj_clip) if self.proj_clip else hidden


def half_output(
    activated: Sequence[torch.Tensor], doubled_cell: torch.Tensor, cell_clip: float
) -> torch.Tensor:
    """
    Half of what the projection is of.

    *Shape:* the sigmoids of the scaled gates, four times `(rows, dim)`, and `doubled_cell` `(rows, dim)`,
    which becomes that of the next step, to `(rows, dim)`.
    """
    input_gate, forget_gate, candidate, output_gate = activated
    doubled_cell.mul_(forget_gate).addcmul_(input_gate, candidate, value=4).sub_(input_gate, alpha=2)
    if cell_clip:
        doubled_cell.clamp_(-2 * cell_clip, 2 * cell_clip)
    return sigmoid(doubled_cell).sub_(0.5).mul_(output_gate)
