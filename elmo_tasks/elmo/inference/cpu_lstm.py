"""
The stacked biLSTM of a frozen biLM on a CPU.

`CpuLstm` has one kernel for batches and one for a single sequence. Both compute what
`elmo.model.lstm.StackedBiLstm` computes, with packed weights, without padding, and in place, and both round
a row alike. `CudaLstm` takes their place on a GPU.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch

from elmo_tasks.common.batches import batches
from elmo_tasks.elmo.inference.packed_weights import Pack, PackedWeight, sigmoid
from elmo_tasks.elmo.model.bilm import with_bos_eos
from elmo_tasks.elmo.model.lstm import LstmState

ROWS_AT_ONCE = 128
"""The batch kernel projects the inputs of so many rows in one product."""
DISTINCT_SHARE = 0.8
"""Below this share of distinct inputs, the batch kernel projects each distinct input once."""
STEPS_AT_ONCE = 1024
"""The kernel for a single sequence projects so many inputs in one product, so that memory stays small."""
MAX_JOINT = 1 << 20
"""Up to so many numbers, the recurrent weights of both directions are packed as one matrix."""

# The layout of a batch: sequences end to end, or ordered by step


class PackedSteps(NamedTuple):
    """
    The steps of a batch, a row each: ordered by step, and longer sequences first within a step.
    """

    order: torch.Tensor
    """`(batch,)`: the sequences by falling length."""
    batch_sizes: list[int]
    """The number of sequences that reach step 0, 1, ..."""
    rows: tuple[torch.Tensor, torch.Tensor]
    """`(steps,)` for each direction: the position of each packed row in the sequences laid end to end."""
    indices: tuple[torch.Tensor, torch.Tensor]
    """`(steps,)` for each direction: the packed row of each position in the sequences laid end to end."""

    @classmethod
    def of(cls, lengths: torch.Tensor) -> "PackedSteps":
        """Orders the steps of sequences of `lengths` `(batch,)`."""
        order = lengths.argsort(descending=True, stable=True)
        # (batch,), (longest, 1)
        ordered, steps = lengths[order], torch.arange(int(lengths.max()), device=lengths.device).unsqueeze(1)
        first = (lengths.cumsum(0) - lengths)[order]
        # (longest, batch)
        real = steps < ordered
        forward = (first + steps)[real]
        backward = (first + ordered - 1 - steps)[real]
        indices = forward.argsort(), backward.argsort()
        return cls(order, real.sum(dim=1).tolist(), (forward, backward), indices)

    def unpacked(self, packed: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        """
        Lays the sequences end to end, both directions side by side.

        *Shape:* packed rows `(steps, size)` of each direction to `(steps, 2 size)`.
        """
        directions = [part.index_select(0, rows) for part, rows in zip(packed, self.indices, strict=True)]
        return torch.cat(directions, dim=1)


def steps_with_bos_eos(
    ids: torch.Tensor, lengths: torch.Tensor, bos_eos_ids: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """
    Lays sentences end to end, each between `<S>` and `</S>`.

    *Shape:* ids `(batch, tokens, *id)` of `lengths` `(batch,)`, and `bos_eos_ids` `(2, *id)`, to the ids of
    the steps, `(steps, *id)`, and a mask of the steps that are tokens, `(steps,)`.
    """
    extended = with_bos_eos(ids, lengths, bos_eos_ids)
    positions, ends = torch.arange(extended.size(1), device=ids.device), lengths.unsqueeze(1) + 1
    inside = positions <= ends
    return extended[inside], ((positions > 0) & (positions < ends))[inside]


def read_steps(
    ids: torch.Tensor, lengths: torch.Tensor, bos_eos_ids: torch.Tensor, marked: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """
    Returns the steps of `steps_with_bos_eos`, the length of each sequence, and a mask of the steps whose
    vectors are wanted: the tokens, or, with `marked`, where the ids have both marks already, all steps.
    """
    if marked:
        inside = torch.arange(ids.size(1), device=ids.device) < lengths.unsqueeze(1)
        return ids[inside], lengths, inside[inside]
    steps, is_token = steps_with_bos_eos(ids, lengths, bos_eos_ids)
    return steps, lengths + 2, is_token


def state_after_bos(run: Callable[..., Any], bos_eos_ids: torch.Tensor, start: LstmState) -> LstmState:
    """
    Computes the state after the first step of every sentence: `<S>` forward and `</S>` backward.

    *Shape:* `start` and the result are of a batch of one. `run` takes the ids of the steps, the lengths of
    the sequences and their states; the last value that it returns are the final states.
    """
    lengths = torch.ones(2, dtype=torch.long, device=start.hidden.device)
    *_, after = run(bos_eos_ids, lengths, LstmState(*(part.expand(-1, -1, 2, -1) for part in start)))
    return LstmState(*(torch.stack([part[:, 0, :1], part[:, 1, 1:]], dim=1) for part in after))


# One layer in one direction


class FrozenLstmLayer:
    """
    `ProjectedLstm` with packed weights, in few computations a step.

    `tanh x` is `2 sigmoid 2x - 1`, which takes PyTorch a quarter of the time on a CPU. So the rows of the
    candidate are doubled, and all four gates are one sigmoid. The cell is held doubled, too, and so is the
    projection, whose inputs are halved. Multiplying by two changes no rounding.

    # Parameters

    weights : `weight`, `bias` and, if it has one, `projection` of a `ProjectedLstm`.
    cell_clip, proj_clip : bounds; 0 for none.
    pack : packs a weight.
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
        """Returns the weights of the `ProjectedLstm`, by their names there."""
        scaled = torch.cat([self.for_input.dense(), self.recurrent.dense()], dim=1)
        weights = {"weight": scaled / self._scale.unsqueeze(1), "bias": self.bias / self._scale}
        if self.projection is not None:
            weights["projection"] = self.projection.dense() / 2
        return weights

    def project_inputs(self, inputs: torch.Tensor) -> torch.Tensor:
        """Computes the inputs' part of the gates. *Shape:* `(rows, projection_dim)` to `(rows, 4 dim)`."""
        return self.for_input(inputs, self.bias)

    def step(self, gates: torch.Tensor, hidden: torch.Tensor, doubled_cell: torch.Tensor) -> torch.Tensor:
        """
        Computes the next hidden state, and writes the next cell into `doubled_cell`.

        *Shape:* `gates` of `project_inputs`, `(rows, 4 dim)`, `hidden` `(rows, projection_dim)` and
        `doubled_cell` `(rows, dim)` to `(rows, projection_dim)`.
        """
        activated = sigmoid(self.recurrent(hidden, addend=gates), in_place=True)
        half = half_output(activated.chunk(4, dim=1), doubled_cell, self.cell_clip)
        if self.projection is None:
            return half.mul_(2)
        hidden = self.projection(half)
        return hidden.clamp_(-self.proj_clip, self.proj_clip) if self.proj_clip else hidden


def half_output(
    activated: Sequence[torch.Tensor], doubled_cell: torch.Tensor, cell_clip: float
) -> torch.Tensor:
    """
    Computes `0.5 * o * tanh(c)`, half of the cell's output before the projection, and writes the next cell
    into `doubled_cell`.

    *Shape:* the sigmoids of the four scaled gates, `(rows, dim)` each, and `doubled_cell` `(rows, dim)` to
    `(rows, dim)`.
    """
    input_gate, forget_gate, candidate, output_gate = activated
    doubled_cell.mul_(forget_gate).addcmul_(input_gate, candidate, value=4).sub_(input_gate, alpha=2)
    if cell_clip:
        doubled_cell.clamp_(-2 * cell_clip, 2 * cell_clip)
    return sigmoid(doubled_cell).sub_(0.5).mul_(output_gate)


# All layers

Directions = tuple[Sequence[FrozenLstmLayer], Sequence[FrozenLstmLayer]]
"""The layers of both directions, from the lowest."""


class CpuLstm:
    """
    Runs the stacked biLSTM over sequences laid end to end.

    # Parameters

    directions : the layers of both directions, from the lowest.
    pack : packs a weight.
    skip : from the second layer on, a layer's inputs are added to its outputs.
    """

    def __init__(self, directions: Directions, pack: Pack, *, skip: bool) -> None:
        self._directions = directions
        self._layers = [_SingleSequenceLayer(pair, pack) for pair in zip(*directions, strict=True)]
        self._skip = skip

    def __call__(
        self, inputs: torch.Tensor, index: torch.Tensor, lengths: torch.Tensor, state: LstmState
    ) -> tuple[list[torch.Tensor], LstmState]:
        """
        Runs all layers, by the kernel that fits the number of sequences.

        *Shape:* distinct `inputs` `(inputs, projection_dim)`; for each step the `index` of its input,
        `(steps,)`; the `lengths` of the sequences, `(batch,)`, none of them 0. Returns the output of each
        layer, `(steps, 2 projection_dim)`, and the state after the last step of each sequence.
        """
        run = self.run_single_sequence if len(lengths) == 1 else self.run_batch
        return run(inputs, index, lengths, state)

    def run_batch(
        self, inputs: torch.Tensor, index: torch.Tensor, lengths: torch.Tensor, state: LstmState
    ) -> tuple[list[torch.Tensor], LstmState]:
        """Runs one direction after the other over packed steps."""
        steps = PackedSteps.of(lengths)
        (forward, forward_state), (backward, backward_state) = (
            self._run_direction(direction, inputs, index[steps.rows[direction]], steps, state)
            for direction in range(2)
        )
        outputs = [steps.unpacked(pair) for pair in zip(forward, backward, strict=True)]
        hidden, cell = (torch.stack(pair, dim=1) for pair in zip(forward_state, backward_state, strict=True))
        return outputs, LstmState(hidden, cell)

    def run_single_sequence(
        self, inputs: torch.Tensor, index: torch.Tensor, lengths: torch.Tensor, state: LstmState
    ) -> tuple[list[torch.Tensor], LstmState]:
        """Runs both directions together, a row each. They share all computations but the products."""
        inputs = inputs[index]
        # Each direction in its own order: (2, steps, projection_dim)
        inputs = torch.stack([inputs, inputs.flip(0)])
        outputs, final_states = [], []
        for number, layer in enumerate(self._layers):
            # (2, projection_dim), (2, dim)
            output, *final_state = layer(inputs, state.hidden[number, :, 0], state.cell[number, :, 0])
            inputs = output + inputs if number and self._skip else output
            outputs.append(torch.cat([inputs[0], inputs[1].flip(0)], dim=1))
            final_states.append(final_state)
        hidden, cell = (torch.stack(parts).unsqueeze(2) for parts in zip(*final_states, strict=True))
        return outputs, LstmState(hidden, cell)

    def _run_direction(
        self,
        direction: int,
        inputs: torch.Tensor,
        index: torch.Tensor,
        steps: PackedSteps,
        state: LstmState,
    ) -> tuple[list[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]:
        """
        *Shape:* `index` `(steps,)`, packed. Returns the output of each layer, `(steps, projection_dim)`,
        packed, and the final state, `(layers, batch, projection_dim)` and `(layers, batch, dim)`.
        """
        order, inverse_order = steps.order, steps.order.argsort()
        outputs, final_states = [], []
        for number, layer in enumerate(self._directions[direction]):
            hidden, cell = state.hidden[number, direction, order], state.cell[number, direction, order]
            gates = _input_gates(layer, inputs, None if number else index, steps.batch_sizes)
            output, *final_state = _run_layer(layer, gates, hidden, cell)
            inputs = output + inputs if number and self._skip else output
            outputs.append(inputs)
            final_states.append([part[inverse_order] for part in final_state])
        final_hidden, final_cell = (torch.stack(parts) for parts in zip(*final_states, strict=True))
        return outputs, (final_hidden, final_cell)


def _run_layer(
    layer: FrozenLstmLayer, gates: Iterator[torch.Tensor], hidden: torch.Tensor, cell: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """
    *Shape:* the inputs' gates of each step, `(rows, 4 dim)`, with fewer rows from step to step, and the state
    of all rows. Returns the outputs, `(steps, projection_dim)`, packed, and the final state of all rows.
    """
    doubled_cell = cell * 2
    outputs, ended = [], []
    for step_gates in gates:
        if len(step_gates) < len(hidden):
            ended.append((hidden[len(step_gates) :], doubled_cell[len(step_gates) :]))
            hidden, doubled_cell = hidden[: len(step_gates)], doubled_cell[: len(step_gates)]
        hidden = layer.step(step_gates, hidden, doubled_cell)
        outputs.append(hidden)
    ended.append((hidden, doubled_cell))
    final_hidden, final_doubled_cell = (torch.cat(parts) for parts in zip(*ended[::-1], strict=True))
    return torch.cat(outputs), final_hidden, final_doubled_cell / 2


def _input_gates(
    layer: FrozenLstmLayer, inputs: torch.Tensor, index: torch.Tensor | None, batch_sizes: list[int]
) -> Iterator[torch.Tensor]:
    """Yields the inputs' gates of each step, `(rows, 4 dim)`, by few large products."""
    if index is not None and len(inputs) < DISTINCT_SHARE * len(index):
        projected = layer.project_inputs(inputs)
        for step_rows in index.split(batch_sizes):
            yield projected.index_select(0, step_rows)
        return
    inputs = inputs if index is None else inputs[index]
    start = 0
    # Several steps of few rows in one product, so that their gates take little memory
    for sizes in batches(batch_sizes, int, ROWS_AT_ONCE, padded=False):
        end = start + sum(sizes)
        yield from layer.project_inputs(inputs[start:end]).split(sizes)
        start = end


class _SingleSequenceLayer:
    """One layer in both directions, `pair`."""

    def __init__(self, pair: Sequence[FrozenLstmLayer], pack: Pack) -> None:
        self._pair = pair
        recurrent = [layer.recurrent for layer in pair]
        projections = [layer.projection for layer in pair if layer.projection is not None]
        # Small weights are multiplied in one call, large ones in two: reading them is what takes time.
        joint = recurrent[0].numel <= MAX_JOINT
        product = partial(_joint_product, pack=pack) if joint else _separate_products
        self._recurrent = product(recurrent)
        self._projection = product(projections) if projections else None

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
        """Yields the inputs' gates of each step, `(2, 4 dim)`, and views of the four, `(2, dim)` each."""
        forward, backward = self._pair
        for block in inputs.split(STEPS_AT_ONCE, dim=1):
            # (steps, 2, 4 dim)
            gates = torch.stack([forward.project_inputs(block[0]), backward.project_inputs(block[1])], dim=1)
            # Views that are made together take a tenth of the time.
            four_gates = zip(*(gate.unbind() for gate in gates.chunk(4, dim=2)), strict=True)
            yield from zip(gates.unbind(), four_gates, strict=True)


_RowProduct = Callable[[torch.Tensor], torch.Tensor]
"""Multiplies each row with the weight of its own direction: `(2, in)` to `(2, out)`."""


def _separate_products(pair: list[PackedWeight]) -> _RowProduct:
    forward, backward = pair
    return lambda rows: torch.cat([forward(rows[:1]), backward(rows[1:])])


def _joint_product(pair: list[PackedWeight], pack: Pack) -> _RowProduct:
    joint = pack(torch.cat([weight.dense() for weight in pair]))
    # From (2, 2 out), the first half of the first row and the second half of the second
    return lambda rows: joint(rows).view(4, -1)[::3]
