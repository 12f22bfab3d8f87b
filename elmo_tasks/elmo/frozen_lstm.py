"""
The steps of the biLM's LSTM with weights that stay as they are: fewer computations, over what they are given.

`FrozenStep` is for some sequences in one direction, `PairedStep` for a lone sequence in both, `PaddedSteps`
for a GPU.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import torch

from elmo_tasks.elmo.linear import FrozenLinear

if TYPE_CHECKING:
    from elmo_tasks.elmo.lstm import ProjectedLstm

LARGEST_END_TO_END = 1 << 18
"""Recurrent weights of a direction, up to which `PairedStep` lays those of both end to end."""


class ScaledWeights:
    """
    Weights with which a step takes few computations. `tanh x` is `2 sigmoid 2x - 1`, which takes PyTorch a
    quarter of the time on a CPU; so all gates are one sigmoid once the candidate's are doubled. The memory is
    doubled too, and so is the projection, of half of its inputs. Twos change no rounding.

    Each is made when it is asked for, and not kept.
    """

    def __init__(self, lstm: "ProjectedLstm") -> None:
        self._lstm = lstm
        self._scale = torch.ones_like(lstm.bias)
        self._scale.chunk(4)[2].fill_(2)

    @property
    def for_input(self) -> torch.Tensor:
        return self._lstm.for_input * self._scale.unsqueeze(1)

    @property
    def bias(self) -> torch.Tensor:
        return self._lstm.bias * self._scale

    @property
    def recurrent(self) -> torch.Tensor:
        return self._lstm.recurrent * self._scale.unsqueeze(1)

    @property
    def projection(self) -> torch.Tensor | None:
        return None if self._lstm.projection is None else 2 * self._lstm.projection


def half_output(gates: torch.Tensor, memory: torch.Tensor, bound: float) -> torch.Tensor:
    """
    With `ScaledWeights`: half of what the projection is of, `(sequences, dim)`. Computed over `gates`,
    `(sequences, 4 dim)`, and over `memory`, twice what it is, which becomes that of the next step.
    """
    # four times (sequences, dim)
    input_gate, forget_gate, candidate, output_gate = gates.sigmoid_().chunk(4, dim=1)
    memory.mul_(forget_gate).addcmul_(input_gate, candidate, value=4).sub_(input_gate, alpha=2)
    if bound:
        memory.clamp_(-2 * bound, 2 * bound)
    return memory.sigmoid().sub_(0.5).mul_(output_gate)


class FrozenStep:
    """With `ScaledWeights`, in place."""

    def __init__(self, lstm: "ProjectedLstm", *, linear: FrozenLinear) -> None:
        weights = ScaledWeights(lstm)
        self.cell_clip, self.proj_clip = lstm.cell_clip, lstm.proj_clip
        self.bias = weights.bias
        self.for_input = linear.prepared(weights.for_input)
        self.recurrent = linear.prepared(weights.recurrent)
        projection = weights.projection
        self.projection = None if projection is None else linear.prepared(projection)

    def project_inputs(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.for_input(inputs, self.bias, None)

    def begin(self, memory: torch.Tensor) -> torch.Tensor:
        return memory * 2

    def end(self, memory: torch.Tensor) -> torch.Tensor:
        return memory / 2

    def __call__(
        self, gates: torch.Tensor, hidden: torch.Tensor, memory: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        half = half_output(self.recurrent(hidden, None, gates), memory, self.cell_clip)
        if self.projection is None:
            return half.mul_(2), memory
        hidden = self.projection(half, None, None)
        return hidden.clamp_(-self.proj_clip, self.proj_clip) if self.proj_clip else hidden, memory


class PairedStep:
    """
    A step of one layer in both directions, a row in each.

    Small weights lie end to end: a product with both directions' gives each row also what it would be in the
    other one, which is left out, and rounds as in a batch. With larger ones, where reading them is what takes
    time, each row is multiplied with its own, by a product that may round the last bit in another way.
    """

    def __init__(self, pair: tuple["ProjectedLstm", "ProjectedLstm"], *, linear: FrozenLinear) -> None:
        weights = [ScaledWeights(lstm) for lstm in pair]
        self.cell_clip, self.proj_clip = pair[0].cell_clip, pair[0].proj_clip
        projections = [projection for each in weights if (projection := each.projection) is not None]
        end_to_end = pair[0].recurrent.numel() <= LARGEST_END_TO_END
        kind = partial(_end_to_end, linear) if end_to_end else _each_with_its_own
        self.recurrent = kind([each.recurrent for each in weights])
        self.projection = kind(projections) if projections else None

    def __call__(self, gates: torch.Tensor, hidden: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
        """
        *Shape:* `(2, 4 dim)`, `(2, projection_dim)`, and, twice what it is, `(2, dim)`, which becomes that of
        the next step, to the next hidden.
        """
        half = half_output(self.recurrent(hidden) + gates, memory, self.cell_clip)
        if self.projection is None:
            return half.mul_(2)
        hidden = self.projection(half)
        return hidden.clamp(-self.proj_clip, self.proj_clip) if self.proj_clip else hidden.contiguous()


def _end_to_end(linear: FrozenLinear, pair: list[torch.Tensor]) -> Callable[[torch.Tensor], torch.Tensor]:
    multiply = linear.prepared(torch.cat(pair))
    return lambda rows: _own(multiply(rows, None, None))


def _each_with_its_own(pair: list[torch.Tensor]) -> Callable[[torch.Tensor], torch.Tensor]:
    # (2, in, out): the longer side is the one that lies in a row, as it is read fastest
    weights = torch.stack(pair).transpose(1, 2)
    weights = weights.contiguous() if weights.size(2) > weights.size(1) else weights
    return lambda rows: torch.bmm(rows.unsqueeze(1), weights).squeeze(1)


def _own(product: torch.Tensor) -> torch.Tensor:
    """*Shape:* `(2, 2 n)` to `(2, n)`: the first half of the first row, the second of the second."""
    return product.view(4, -1)[::3]


class PaddedSteps:
    """Of one layer, some steps of both directions: a course of computations that depends on no value."""

    def __init__(self, pair: tuple["ProjectedLstm", "ProjectedLstm"], *, linear: FrozenLinear) -> None:
        def stacked(parts: list[torch.Tensor]) -> torch.Tensor:
            return torch.stack([part.t() for part in parts]).to(linear.dtype)

        weights = [ScaledWeights(lstm) for lstm in pair]
        self.cell_clip, self.proj_clip = pair[0].cell_clip, pair[0].proj_clip
        # (2, projection_dim, 4 dim), the same, (2, 1, 4 dim), (2, dim, projection_dim)
        self.for_input = stacked([each.for_input for each in weights])
        self.recurrent = stacked([each.recurrent for each in weights])
        self.bias = torch.stack([each.bias for each in weights]).unsqueeze(1)
        projections = [projection for each in weights if (projection := each.projection) is not None]
        self.projection = stacked(projections) if projections else None

    def __call__(
        self, inputs: torch.Tensor, real: torch.Tensor, hidden: torch.Tensor, memory: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        """
        *Shape:* `inputs` `(2, steps, batch, projection_dim)`, `real` `(steps, batch)`, `hidden`
        `(2, batch, projection_dim)`, `memory` `(2, batch, dim)`, twice what it is. Returns outputs of
        the shape of `inputs`, and the hidden and the memory behind each sequence's last real step.
        """
        # (2, steps, batch, 4 dim)
        gates = (_times(inputs.flatten(1, 2), self.for_input) + self.bias).unflatten(1, real.shape)
        outputs = []
        for step, is_real in enumerate(real.unsqueeze(2)):
            of_step, after = _times(hidden, self.recurrent) + gates[:, step], memory.clone()
            half = half_output(of_step.flatten(0, 1), after.view(-1, after.size(2)), self.cell_clip)
            half = half.view_as(memory)
            output = half * 2 if self.projection is None else _times(half, self.projection)
            if self.projection is not None and self.proj_clip:
                output = output.clamp(-self.proj_clip, self.proj_clip)
            outputs.append(output)
            hidden = torch.where(is_real, output, hidden)
            memory = torch.where(is_real, after, memory)
        return torch.stack(outputs, dim=1), hidden, memory


def _times(inputs: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """*Shape:* `(2, rows, in)` and `(2, in, out)` to `(2, rows, out)`, in the inputs' precision."""
    return torch.bmm(inputs.to(weights.dtype), weights).to(inputs.dtype)
