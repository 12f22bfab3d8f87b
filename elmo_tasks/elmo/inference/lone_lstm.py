"""The stacked biLSTM over one sequence, on a CPU: both directions step by step together, a row each."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch

from elmo_tasks.elmo.inference.batch_lstm import Directions
from elmo_tasks.elmo.inference.lstm_layer import FrozenLstmLayer, Pack, half_output
from elmo_tasks.elmo.inference.packed_weights import PackedWeight
from elmo_tasks.elmo.inference.sigmoid import sigmoid
from elmo_tasks.elmo.model.lstm import LstmState

LARGEST_JOINT = 1 << 20
"""Numbers of a recurrent weight, up to which a copy of both directions' lies end to end."""

STEPS_AT_ONCE = 1024
"""Steps whose inputs are projected in one product, so that memory hardly grows with a long sequence."""

EachRow = Callable[[torch.Tensor], torch.Tensor]
"""The product of each row with the weight of its own direction: `(2, in)` to `(2, out)`."""


class LoneLstm:
    """
    What `run_batch` computes for one sequence, in fewer computations: what is not a product is done for both
    directions at once. Large weights are multiplied one by one, since reading them is all that takes time;
    small ones in one call for both directions, where what a row gives with the weight of the other direction
    is left out. All products are those of batches, so that they round alike.

    # Parameters

    directions : the layers of both directions, from the lowest.
    pack : puts a weight into the form in which it is multiplied with.
    """

    def __init__(self, directions: Directions, pack: Pack) -> None:
        self._layers = [LoneLayer(pair, pack) for pair in zip(*directions, strict=True)]

    def __call__(
        self, inputs: torch.Tensor, state: LstmState, *, skip: bool
    ) -> tuple[list[torch.Tensor], LstmState]:
        """
        *Shape:* `inputs` `(steps, projection_dim)`. Returns the output of each layer, `(steps, 2
        projection_dim)`, and the state behind the last step.
        """
        # Of each direction in its order: (2, steps, projection_dim)
        inputs = torch.stack([inputs, inputs.flip(0)])
        outputs, states = [], []
        for number, layer in enumerate(self._layers):
            # (2, projection_dim), (2, dim)
            output, *after = layer(inputs, state.hidden[number, :, 0], state.cell[number, :, 0])
            inputs = output + inputs if number and skip else output
            outputs.append(torch.cat([inputs[0], inputs[1].flip(0)], dim=1))
            states.append(after)
        hidden, cell = (torch.stack(parts).unsqueeze(2) for parts in zip(*states, strict=True))
        return outputs, LstmState(hidden, cell)


class LoneLayer:
    """
    One layer of `LoneLstm`.

    # Parameters

    pair : the layer forward and backward.
    pack : puts a weight into the form in which it is multiplied with.
    """

    def __init__(self, pair: Sequence[FrozenLstmLayer], pack: Pack) -> None:
        self._pair = pair
        recurrent = [layer.recurrent for layer in pair]
        projections = [layer.projection for layer in pair if layer.projection is not None]
        small = recurrent[0].numel <= LARGEST_JOINT
        each_row = partial(_end_to_end, pack=pack) if small else _one_by_one
        self._recurrent = each_row(recurrent)
        self._projection = each_row(projections) if projections else None

    def __call__(
        self, inputs: torch.Tensor, hidden: torch.Tensor, cell: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """*Shape:* `(2, steps, projection_dim)`, `(2, projection_dim)` and `(2, dim)`, to the same."""
        cell_clip, proj_clip = self._pair[0].cell_clip, self._pair[0].proj_clip
        doubled_cell = cell * 2
        outputs = []
        for step_gates, four_gates in self._gates(inputs):
            sigmoid(step_gates.add_(self._recurrent(hidden)), in_place=True)
            half = half_output(four_gates, doubled_cell, cell_clip)
            if self._projection is None:
                hidden = half.mul_(2)
            else:
                hidden = self._projection(half)
                hidden = hidden.clamp(-proj_clip, proj_clip) if proj_clip else hidden.contiguous()
            outputs.append(hidden)
        return torch.stack(outputs, dim=1), hidden, doubled_cell / 2

    def _gates(self, inputs: torch.Tensor) -> Iterator[tuple[torch.Tensor, tuple[torch.Tensor, ...]]]:
        """What the inputs give to the gates of each step, `(2, 4 dim)`, and to the four, `(2, dim)` each."""
        forward, backward = self._pair
        for block in inputs.split(STEPS_AT_ONCE, dim=1):
            # (steps, 2, 4 dim)
            gates = torch.stack([forward.project_inputs(block[0]), backward.project_inputs(block[1])], dim=1)
            # Views that are made together take a tenth of the time.
            of_each = zip(*(gate.unbind() for gate in gates.chunk(4, dim=2)), strict=True)
            yield from zip(gates.unbind(), of_each, strict=True)


def _one_by_one(pair: list[PackedWeight]) -> EachRow:
    forward, backward = pair
    return lambda rows: torch.cat([forward(rows[:1]), backward(rows[1:])])


def _end_to_end(pair: list[PackedWeight], pack: Pack) -> EachRow:
    joint = pack(torch.cat([weight.dense() for weight in pair]))
    # Of (2, 2 out) the first half of the first row, and the second half of the second
    return lambda rows: joint(rows).view(4, -1)[::3]
