"""The stacked biLSTM over a batch of sequences, on a CPU: packed steps, one direction after the other."""

from collections.abc import Iterator, Sequence

import torch

from elmo_tasks.elmo.inference.batches import batches
from elmo_tasks.elmo.inference.lstm_layer import FrozenLstmLayer
from elmo_tasks.elmo.inference.packed_steps import PackedSteps
from elmo_tasks.elmo.model.lstm import LstmState

ROWS_AT_ONCE = 128
"""Steps, over all sequences, whose inputs are projected in one product."""
DISTINCT_SHARE = 0.8
"""Below this share of distinct inputs among the steps, each distinct one is projected once."""

Directions = tuple[Sequence[FrozenLstmLayer], Sequence[FrozenLstmLayer]]
"""The layers of both directions, from the lowest."""


def run_batch(
    directions: Directions,
    inputs: torch.Tensor,
    index: torch.Tensor,
    lengths: torch.Tensor,
    state: LstmState,
    *,
    skip: bool,
) -> tuple[list[torch.Tensor], LstmState]:
    """
    *Shape:* distinct `inputs` `(inputs, projection_dim)`, the `index` of each step's, `(steps,)`, the
    sequences end to end, and their `lengths` `(batch,)`, none of them 0. Returns the output of each layer,
    `(steps, 2 projection_dim)`, and the state behind the last step of each sequence. `skip`: a layer's inputs
    are added to its outputs.
    """
    steps = PackedSteps.of(lengths)
    results = [
        _run_direction(layers, direction, inputs, index[steps.rows[direction]], steps, state, skip=skip)
        for direction, layers in enumerate(directions)
    ]
    (forward, forward_state), (backward, backward_state) = results
    outputs = [steps.unpacked(pair) for pair in zip(forward, backward, strict=True)]
    hidden, cell = (torch.stack(pair, dim=1) for pair in zip(forward_state, backward_state, strict=True))
    return outputs, LstmState(hidden, cell)


def _run_direction(
    layers: Sequence[FrozenLstmLayer],
    direction: int,
    inputs: torch.Tensor,
    index: torch.Tensor,
    steps: PackedSteps,
    state: LstmState,
    *,
    skip: bool,
) -> tuple[list[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]:
    """
    *Shape:* the output of each layer, `(steps, projection_dim)`, packed, and the final state,
    `(layers, batch, projection_dim)` and `(layers, batch, dim)`.
    """
    order, in_order = steps.order, steps.order.argsort()
    outputs, states = [], []
    for number, layer in enumerate(layers):
        hidden, cell = state.hidden[number, direction, order], state.cell[number, direction, order]
        gates = _input_gates(layer, inputs, None if number else index, steps.batch_sizes)
        output, *ended = _run_layer(layer, gates, hidden, cell)
        inputs = output + inputs if number and skip else output
        outputs.append(inputs)
        states.append([part[in_order] for part in ended])
    final_hidden, final_cell = (torch.stack(parts) for parts in zip(*states, strict=True))
    return outputs, (final_hidden, final_cell)


def _run_layer(
    layer: FrozenLstmLayer, gates: Iterator[torch.Tensor], hidden: torch.Tensor, cell: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """
    *Shape:* the gates of each step, `(rows, 4 dim)`, fewer rows from step to step, and the state of all rows
    to the outputs, `(steps, projection_dim)`, packed, and the final state of all rows.
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
    last_hidden, last_doubled_cell = (torch.cat(parts) for parts in zip(*ended[::-1], strict=True))
    return torch.cat(outputs), last_hidden, last_doubled_cell / 2


def _input_gates(
    layer: FrozenLstmLayer, inputs: torch.Tensor, index: torch.Tensor | None, batch_sizes: list[int]
) -> Iterator[torch.Tensor]:
    """What the inputs give to the gates of each step, `(rows, 4 dim)`, by few large products."""
    if index is not None and len(inputs) < DISTINCT_SHARE * len(index):
        projected = layer.project_inputs(inputs)
        for step_rows in index.split(batch_sizes):
            yield projected.index_select(0, step_rows)
        return
    inputs = inputs if index is None else inputs[index]
    start = 0
    # Steps with few rows together, so that their projected inputs take little memory
    for sizes in batches(batch_sizes, int, ROWS_AT_ONCE, padded=False):
        end = start + sum(sizes)
        yield from layer.project_inputs(inputs[start:end]).split(sizes)
        start = end
