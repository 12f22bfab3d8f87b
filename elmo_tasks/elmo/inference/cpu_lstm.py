"""
Sequences as a row a step, without padding.

One layer of the LSTM, in one direction, with weights that stay as they are: few computations a step, in
place.

The stacked biLSTM over a batch of sequences, on a CPU: packed steps, one direction after the other.

The stacked biLSTM over one sequence, on a CPU: both directions step by step together, a row each.

The stacked biLSTM on a CPU: one kernel for batches, one for a lone sentence.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch

from elmo_tasks.common.batches import batches
from elmo_tasks.elmo.inference.packed_weights import PackedWeight, sigmoid
from elmo_tasks.elmo.model.bilm import with_bos_eos
from elmo_tasks.elmo.model.lstm import LstmState


# ==== elmo.inference.packed_steps
class PackedSteps(NamedTuple):
    """
    A batch of sequences as one row a step, ordered by step, longer sequences first: no row is padding.
    """

    order: torch.Tensor
    """`(batch,)`: the sequences by falling length."""
    batch_sizes: list[int]
    """How many sequences reach step 0, 1, ..."""
    rows: tuple[torch.Tensor, torch.Tensor]
    """`(steps,)` for each direction: where a packed row is in the sequences laid end to end."""
    indices: tuple[torch.Tensor, torch.Tensor]
    """
    `(steps,)` for each direction: where a step of the sequences laid end to end is among the packed rows.
    """

    @classmethod
    def of(cls, lengths: torch.Tensor) -> "PackedSteps":
        """The steps of sequences of `lengths` `(batch,)`."""
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
        """*Shape:* of each direction `(steps, size)`, packed, to `(steps, 2 size)`, sequences end to end."""
        directions = [part.index_select(0, rows) for part, rows in zip(packed, self.indices, strict=True)]
        return torch.cat(directions, dim=1)


def marked_steps(
    ids: torch.Tensor, lengths: torch.Tensor, bos_eos_ids: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """
    *Shape:* ids `(batch, tokens, *id)` of `lengths` `(batch,)`, and `(2, *id)`, to the sentences end to end,
    each between `<S>` and `</S>`, `(steps, *id)`, and whether a step is a token, `(steps,)`.
    """
    marked = with_bos_eos(ids, lengths, bos_eos_ids)
    positions, ends = torch.arange(marked.size(1), device=ids.device), lengths.unsqueeze(1) + 1
    inside = positions <= ends
    return marked[inside], ((positions > 0) & (positions < ends))[inside]


def state_after_bos(run: Callable[..., Any], bos_eos_ids: torch.Tensor, start: LstmState) -> LstmState:
    """
    The state behind the first mark: `<S>` forward and `</S>` backward.

    *Shape:* of a batch of one, as `start`. `run` takes the ids of steps, the lengths of the sequences and
    their states; the states behind them are the last that it returns.
    """
    lengths = torch.ones(2, dtype=torch.long, device=start.hidden.device)
    *_, after = run(bos_eos_ids, lengths, LstmState(*(part.expand(-1, -1, 2, -1) for part in start)))
    # Of the two sequences of one step, the one that each direction begins with
    return LstmState(*(torch.stack([part[:, 0, :1], part[:, 1, 1:]], dim=1) for part in after))


# ==== elmo.inference.lstm_layer
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


# ==== elmo.inference.batch_lstm
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


# ==== elmo.inference.lone_lstm
MAX_JOINT = 1 << 20
"""Numbers of a recurrent weight, up to which a copy of both directions' lies end to end."""

STEPS_AT_ONCE = 1024
"""Steps whose inputs are projected in one product, so that memory hardly grows with a long sequence."""

EachRow = Callable[[torch.Tensor], torch.Tensor]
"""The product of each row with the weight of its own direction: `(2, in)` to `(2, out)`."""


class SingleSequenceLstm:
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
    One layer of `SingleSequenceLstm`.

    # Parameters

    pair : the layer forward and backward.
    pack : puts a weight into the form in which it is multiplied with.
    """

    def __init__(self, pair: Sequence[FrozenLstmLayer], pack: Pack) -> None:
        self._pair = pair
        recurrent = [layer.recurrent for layer in pair]
        projections = [layer.projection for layer in pair if layer.projection is not None]
        small = recurrent[0].numel <= MAX_JOINT
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


# ==== elmo.inference.cpu_lstm
class CpuLstm:
    """
    Runs the stacked biLSTM on a CPU: `run_batch` for several sequences, `SingleSequenceLstm` for one.

    # Parameters

    directions : the layers of both directions, from the lowest.
    pack : puts a weight into the form in which it is multiplied with.
    skip : a layer's inputs are added to its outputs, from the second layer on.
    """

    def __init__(self, directions: Directions, pack: Pack, *, skip: bool) -> None:
        self._directions = directions
        self._lone = SingleSequenceLstm(directions, pack)
        self._skip = skip

    def __call__(
        self, inputs: torch.Tensor, index: torch.Tensor, lengths: torch.Tensor, state: LstmState
    ) -> tuple[list[torch.Tensor], LstmState]:
        """
        *Shape:* distinct `inputs` `(inputs, projection_dim)`, the `index` of each step's, `(steps,)`, the
        sequences end to end, and their `lengths` `(batch,)`, none of them 0. Returns the output of each
        layer, `(steps, 2 projection_dim)`, and the state behind the last step of each sequence.
        """
        if len(lengths) == 1:
            return self._lone(inputs[index], state, skip=self._skip)
        return run_batch(self._directions, inputs, index, lengths, state, skip=self._skip)
