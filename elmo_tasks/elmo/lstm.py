"""
The stacked biLSTM of the biLM: two independent directions whose layers have a projection (Sak et al.
2014, arXiv:1402.1128), bounds on cell and projection, and residual connections from the second layer on.

`torch.nn.LSTM(proj_size=...)` has neither the bounds nor the residual connections.
"""

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple, cast

import torch
from torch import nn

from elmo_tasks.elmo.linear import Linear
from elmo_tasks.elmo.side_by_side import side_by_side
from elmo_tasks.elmo.weights import BiLmOptions

ROWS_AT_ONCE = 256
"""Steps, over all sequences, whose inputs are projected in one product where no gradient is wanted."""
LARGEST_PAIRED = 1 << 20
"""Recurrent weights of a direction, up to which both directions of a lone sequence are computed at once."""
LARGEST_END_TO_END = 1 << 18
"""Up to which this is done by products with the weights of both directions end to end."""


class LstmState(NamedTuple):
    """
    What an LSTM carries from one step to the next, for all layers and both directions.

    *Shape:* `(layers, 2, batch, projection_dim)` and `(layers, 2, batch, dim)`.
    """

    hidden: torch.Tensor
    memory: torch.Tensor


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

    @classmethod
    def of(cls, lengths: torch.Tensor) -> "PackedSteps":
        """For sequences of `lengths` `(batch,)`."""
        order = lengths.argsort(descending=True, stable=True)
        # (batch,), (longest, 1)
        ordered, steps = lengths[order], torch.arange(int(lengths.max()), device=lengths.device).unsqueeze(1)
        first = (lengths.cumsum(0) - lengths)[order]
        # (longest, batch)
        real = steps < ordered
        forward = (first + steps)[real]
        backward = (first + ordered - 1 - steps)[real]
        return cls(order, real.sum(dim=1).tolist(), (forward, backward))


class ProjectedLstm(nn.Module):
    """One layer in one direction over packed steps; the gates are in the order i, f, candidate, o."""

    def __init__(self, *, options: BiLmOptions) -> None:
        super().__init__()
        size, dim = options.projection_dim, options.dim
        self.cell_clip, self.proj_clip = options.cell_clip, options.proj_clip
        self.weight = nn.Parameter(torch.empty(4 * dim, 2 * size))
        self.bias = nn.Parameter(torch.zeros(4 * dim))
        self.projection = nn.Parameter(torch.empty(size, dim)) if dim != size else None
        for parameter in (self.weight, self.projection):
            if parameter is not None:
                nn.init.uniform_(parameter, -(dim**-0.5), dim**-0.5)
        nn.init.constant_(self.bias.data.chunk(4)[1], 1.0)

    @property
    def for_input(self) -> torch.Tensor:
        """*Shape:* `(4 dim, projection_dim)`."""
        return self.weight[:, : self.weight.size(1) // 2]

    @property
    def recurrent(self) -> torch.Tensor:
        """*Shape:* `(4 dim, projection_dim)`."""
        return self.weight[:, self.weight.size(1) // 2 :]

    def forward(
        self,
        inputs: torch.Tensor,
        index: torch.Tensor | None,
        batch_sizes: list[int],
        hidden: torch.Tensor,
        memory: torch.Tensor,
        linear: Linear,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """
        *Shape:* `inputs` `(steps, projection_dim)`, packed, or `(inputs, projection_dim)` with the `index`
        `(steps,)` of each step's; `hidden` `(batch, projection_dim)` and `memory` `(batch, dim)`,
        sequences by falling length. Returns the outputs, `(steps, projection_dim)`, packed, and the final
        state.
        """
        recurrent = self.recurrent
        memory = memory.clone()
        outputs, ended = [], []
        for gates in self.input_gates(inputs, index, batch_sizes, linear):
            if len(gates) < len(hidden):
                ended.append((hidden[len(gates) :], memory[len(gates) :]))
                hidden, memory = hidden[: len(gates)], memory[: len(gates)]
            cell, memory = self.cell(linear(hidden, recurrent, addend=gates), memory)
            hidden = self.clipped(cell if self.projection is None else linear(cell, self.projection))
            outputs.append(hidden)
        ended.append((hidden, memory))
        last_hidden, last_memory = (torch.cat(states) for states in zip(*ended[::-1], strict=True))
        return torch.cat(outputs), last_hidden, last_memory

    def input_gates(
        self, inputs: torch.Tensor, index: torch.Tensor | None, batch_sizes: list[int], linear: Linear
    ) -> Iterator[torch.Tensor]:
        """What the inputs give to the gates of each step, `(sequences, 4 dim)`, by few large products."""
        for_input = self.for_input
        if torch.is_grad_enabled():
            projected = linear(inputs, for_input, self.bias)
            yield from (projected if index is None else projected[index]).split(batch_sizes)
        elif index is not None:
            projected = linear(inputs, for_input, self.bias)
            for of_step in index.split(batch_sizes):
                yield projected.index_select(0, of_step)
        else:
            start = 0
            for sizes in _chunks(batch_sizes):
                end = start + sum(sizes)
                yield from linear(inputs[start:end], for_input, self.bias).split(sizes)
                start = end

    def cell(self, gates: torch.Tensor, memory: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """
        *Shape:* `(sequences, 4 dim)` and `(sequences, dim)` to the output before the projection and the next
        memory, both `(sequences, dim)`.

        Without gradients it is computed over `gates` and `memory`. Then `tanh x` is `2 sigmoid 2x - 1`, which
        takes PyTorch a quarter of the time on a CPU, and all four gates are one call.
        """
        # four times (sequences, dim)
        input_gate, forget_gate, candidate, output_gate = gates.chunk(4, dim=1)
        if torch.is_grad_enabled():
            memory = forget_gate.sigmoid() * memory + input_gate.sigmoid() * candidate.tanh()
            if self.cell_clip:
                memory = memory.clamp(-self.cell_clip, self.cell_clip)
            return output_gate.sigmoid() * memory.tanh(), memory
        candidate.mul_(2)
        gates.sigmoid_()
        memory.mul_(forget_gate).addcmul_(input_gate, candidate, value=2).sub_(input_gate)
        if self.cell_clip:
            memory.clamp_(-self.cell_clip, self.cell_clip)
        return (memory * 2).sigmoid_().mul_(output_gate).mul_(2).sub_(output_gate), memory

    def clipped(self, projected: torch.Tensor) -> torch.Tensor:
        """The bound of what a projection gave; any shape."""
        if self.projection is None or not self.proj_clip:
            return projected
        if torch.is_grad_enabled():
            return projected.clamp(-self.proj_clip, self.proj_clip)
        return projected.clamp_(-self.proj_clip, self.proj_clip)


class StackedBiLstm(nn.Module):
    """All layers in both directions."""

    def __init__(self, *, options: BiLmOptions) -> None:
        super().__init__()
        self.use_skip_connections = options.use_skip_connections
        self.directions = nn.ModuleList(
            nn.ModuleList(ProjectedLstm(options=options) for _ in range(options.n_layers)) for _ in range(2)
        )

    def forward(
        self,
        inputs: torch.Tensor,
        index: torch.Tensor,
        lengths: torch.Tensor,
        state: LstmState,
        linear: Linear,
    ) -> tuple[list[torch.Tensor], LstmState]:
        """
        *Shape:* distinct `inputs` `(inputs, projection_dim)`, the `index` of each step's, `(steps,)`, the
        sequences end to end, and their `lengths` `(batch,)`. Returns the output of each layer,
        `(steps, 2 projection_dim)`, and the state behind the last step of each sequence, unchanged for a
        sequence without steps.
        """
        if len(lengths) == 1 and self._pairs_well(linear):
            return self._run_paired(inputs[index], state, linear)
        steps = PackedSteps.of(lengths)
        tasks = [
            partial(self._run_direction, direction, inputs, index, steps, state, linear)
            for direction in range(2)
        ]
        # A lone sequence does not fill a thread: there the weights are what takes time.
        at_once = len(lengths) > 1 and not torch.is_grad_enabled() and inputs.device.type == "cpu"
        forward, backward = side_by_side(*tasks) if at_once else (task() for task in tasks)
        places = [rows.argsort() for rows in steps.rows]
        layers = [
            torch.cat(
                [packed.index_select(0, back) for packed, back in zip(pair, places, strict=True)], dim=1
            )
            for pair in zip(forward[0], backward[0], strict=True)
        ]
        hidden, memory = (torch.stack(pair, dim=1) for pair in zip(forward[1], backward[1], strict=True))
        return layers, LstmState(hidden, memory)

    def _run_direction(
        self,
        direction: int,
        inputs: torch.Tensor,
        index: torch.Tensor,
        steps: PackedSteps,
        state: LstmState,
        linear: Linear,
    ) -> tuple[list[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]:
        """
        *Shape:* the output of each layer, `(steps, projection_dim)`, packed, and the final state,
        `(layers, batch, projection_dim)` and `(layers, batch, dim)`.
        """
        order, in_order = steps.order, steps.order.argsort()
        packed = inputs
        layers, states = [], []
        for layer, lstm in enumerate(self.stack(direction)):
            outputs, *ended = lstm(
                packed,
                None if layer else index[steps.rows[direction]],
                steps.batch_sizes,
                state.hidden[layer, direction, order],
                state.memory[layer, direction, order],
                linear,
            )
            packed = outputs + packed if layer and self.use_skip_connections else outputs
            layers.append(packed)
            states.append([part[in_order] for part in ended])
        hidden, memory = (torch.stack(parts) for parts in zip(*states, strict=True))
        return layers, (hidden, memory)

    def stack(self, direction: int) -> list[ProjectedLstm]:
        """The layers of a direction, from the lowest."""
        return [cast(ProjectedLstm, lstm) for lstm in cast(nn.ModuleList, self.directions[direction])]

    def _pairs_well(self, linear: Linear) -> bool:
        """Weights that stay in a processor's cache are read faster than products are begun."""
        weight = self.stack(0)[0].recurrent
        small = weight.numel() <= LARGEST_PAIRED
        return small and linear.frozen and weight.device.type == "cpu" and not torch.is_grad_enabled()

    def _run_paired(
        self, inputs: torch.Tensor, state: LstmState, linear: Linear
    ) -> tuple[list[torch.Tensor], LstmState]:
        """
        A lone sequence, both directions at once as two rows.

        *Shape:* `inputs` `(steps, projection_dim)`.
        """
        # Of each direction, in its order: (steps, projection_dim)
        packed = [inputs, inputs.flip(0)]
        layers, states = [], []
        for layer, pair in enumerate(zip(self.stack(0), self.stack(1), strict=True)):
            weights = linear.derived(f"pair {layer}", partial(PairedWeights, pair, linear=linear))
            # (2, steps, 4 dim)
            gates = torch.stack(
                [
                    torch.cat(list(lstm.input_gates(rows, None, [len(rows)], linear)))
                    for lstm, rows in zip(pair, packed, strict=True)
                ]
            )
            # (2, projection_dim), (2, dim)
            hidden, memory = state.hidden[layer, :, 0], state.memory[layer, :, 0].clone()
            outputs = []
            for of_step in gates.unbind(1):
                cell, memory = pair[0].cell(weights.recur(hidden, of_step), memory)
                hidden = pair[0].clipped(weights.project(cell))
                outputs.append(hidden)
            # (2, steps, projection_dim)
            found = torch.stack(outputs, dim=1)
            if layer and self.use_skip_connections:
                found += torch.stack(packed)
            packed = list(found)
            layers.append(torch.cat([packed[0], packed[1].flip(0)], dim=1))
            states.append((hidden, memory))
        last_hidden, last_memory = (torch.stack(parts).unsqueeze(2) for parts in zip(*states, strict=True))
        return layers, LstmState(last_hidden, last_memory)


class PairedWeights:
    """
    Of one layer, both directions', for a row in each.

    Small ones lie end to end: a product with both gives each row also what it would be in the other
    direction, which is left out, and rounds as in a batch. With larger ones, where reading them is what takes
    time, each row is multiplied with its own, by a product that may round the last bit in another way.
    """

    def __init__(self, pair: tuple[ProjectedLstm, ProjectedLstm], *, linear: Linear) -> None:
        recurrent = torch.stack([lstm.recurrent for lstm in pair])
        projections: list[torch.Tensor] = [lstm.projection for lstm in pair if lstm.projection is not None]
        projection = torch.stack(projections) if projections else None
        self.linear = linear if recurrent[0].numel() <= LARGEST_END_TO_END else None
        if self.linear:
            # (8 dim, projection_dim), (2 projection_dim, dim)
            self.recurrent = recurrent.flatten(0, 1)
            self.projection = None if projection is None else projection.flatten(0, 1)
        else:
            # As they are read fastest: (2, projection_dim, 4 dim), (2, dim, projection_dim)
            self.recurrent = recurrent.transpose(1, 2).contiguous()
            self.projection = None if projection is None else projection.transpose(1, 2)

    def recur(self, hidden: torch.Tensor, gates: torch.Tensor) -> torch.Tensor:
        """*Shape:* `(2, projection_dim)` and `(2, 4 dim)` to `(2, 4 dim)`."""
        if self.linear:
            return _own(self.linear(hidden, self.recurrent)) + gates
        return torch.baddbmm(gates.unsqueeze(1), hidden.unsqueeze(1), self.recurrent).squeeze(1)

    def project(self, cell: torch.Tensor) -> torch.Tensor:
        """*Shape:* `(2, dim)` to `(2, projection_dim)`."""
        if self.projection is None:
            return cell
        if self.linear:
            return _own(self.linear(cell, self.projection)).contiguous()
        return torch.bmm(cell.unsqueeze(1), self.projection).squeeze(1)


def _own(product: torch.Tensor) -> torch.Tensor:
    """*Shape:* `(2, 2 n)` to `(2, n)`: the first half of the first row, the second of the second."""
    return product.view(4, -1)[::3]


def _chunks(batch_sizes: list[int]) -> Iterator[list[int]]:
    """Runs of steps with few rows together, so that their projected inputs take little memory."""
    chunk: list[int] = []
    for size in batch_sizes:
        if chunk and sum(chunk) + size > ROWS_AT_ONCE:
            yield chunk
            chunk = []
        chunk.append(size)
    yield chunk
