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
from torch.nn import functional as F

from elmo_tasks.elmo.frozen_lstm import FrozenStep, PaddedSteps, PairedStep
from elmo_tasks.elmo.graphed import Graphed
from elmo_tasks.elmo.linear import FrozenLinear, Linear
from elmo_tasks.elmo.products import Products
from elmo_tasks.elmo.side_by_side import side_by_side
from elmo_tasks.elmo.trained_lstm import Clips, trained_layer
from elmo_tasks.elmo.weights import BiLmOptions

ROWS_AT_ONCE = 128
"""Steps, over all sequences, whose inputs are projected in one product where no gradient is wanted."""
STEPS_AT_ONCE = 8
"""In one launch on a GPU."""
LARGEST_PAIRED = 1 << 20
"""Recurrent weights of a direction, up to which both directions of a lone sequence are computed at once."""


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
    places: tuple[torch.Tensor, torch.Tensor]
    """And the other way round."""

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
        places = forward.argsort(), backward.argsort()
        return cls(order, real.sum(dim=1).tolist(), (forward, backward), places)

    def unpacked(self, packed: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        """*Shape:* of each direction `(steps, size)`, packed, to `(steps, 2 size)`, sequences end to end."""
        found = [part.index_select(0, places) for part, places in zip(packed, self.places, strict=True)]
        return torch.cat(found, dim=1)


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
        linear: FrozenLinear,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """
        With weights that stay as they are; `TrainedLayer` is what they are trained by.

        *Shape:* `inputs` `(steps, projection_dim)`, packed, or `(inputs, projection_dim)` with the `index`
        `(steps,)` of each step's; `hidden` `(batch, projection_dim)` and `memory` `(batch, dim)`,
        sequences by falling length. Returns the outputs, `(steps, projection_dim)`, packed, and the final
        state.
        """
        step = self.step(linear)
        memory = step.begin(memory)
        outputs, ended = [], []
        for gates in self.input_gates(inputs, index, batch_sizes, step):
            if len(gates) < len(hidden):
                ended.append((hidden[len(gates) :], memory[len(gates) :]))
                hidden, memory = hidden[: len(gates)], memory[: len(gates)]
            hidden, memory = step(gates, hidden, memory)
            outputs.append(hidden)
        ended.append((hidden, memory))
        last_hidden, last_memory = (torch.cat(states) for states in zip(*ended[::-1], strict=True))
        return torch.cat(outputs), last_hidden, step.end(last_memory)

    def step(self, linear: FrozenLinear) -> FrozenStep:
        return linear.derived(self, partial(FrozenStep, self, linear=linear))

    def input_gates(
        self, inputs: torch.Tensor, index: torch.Tensor | None, batch_sizes: list[int], step: FrozenStep
    ) -> Iterator[torch.Tensor]:
        """What the inputs give to the gates of each step, `(sequences, 4 dim)`, by few large products."""
        if index is not None and len(inputs) < 0.8 * len(index):
            projected = step.project_inputs(inputs)
            for of_step in index.split(batch_sizes):
                yield projected.index_select(0, of_step)
        else:
            inputs = inputs if index is None else inputs[index]
            start = 0
            for sizes in _chunks(batch_sizes):
                end = start + sum(sizes)
                yield from step.project_inputs(inputs[start:end]).split(sizes)
                start = end


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
        steps = PackedSteps.of(lengths)
        if not isinstance(linear, FrozenLinear):
            gathered = F.embedding(index[steps.rows[0]], inputs), F.embedding(index[steps.rows[1]], inputs)
            pairs, state = self.train_steps(gathered, steps, state)
            return [steps.unpacked(pair) for pair in pairs], state
        if inputs.is_cuda:
            return self._run_padded(inputs, index, steps, state, linear)
        lone = len(lengths) == 1
        if lone and self.stack(0)[0].recurrent.numel() <= LARGEST_PAIRED:
            return self._run_paired(inputs[index], state, linear)
        tasks = [
            partial(self._run_direction, direction, inputs, index, steps, state, linear)
            for direction in range(2)
        ]
        # A lone sequence does not fill a thread: there the weights are what takes time.
        forward, backward = (task() for task in tasks) if lone else side_by_side(*tasks)
        layers = [steps.unpacked(pair) for pair in zip(forward[0], backward[0], strict=True)]
        hidden, memory = (torch.stack(pair, dim=1) for pair in zip(forward[1], backward[1], strict=True))
        return layers, LstmState(hidden, memory)

    def train_steps(
        self,
        inputs: tuple[torch.Tensor, torch.Tensor],
        steps: PackedSteps,
        state: LstmState,
        dropout: float = 0.0,
        products: Products | None = None,
    ) -> tuple[list[tuple[torch.Tensor, torch.Tensor]], LstmState]:
        """
        With gradients; `dropout` is the probability with which an input of a layer is left out, `products`
        is how it multiplies, in float32 unless given.

        *Shape:* of each direction `inputs` `(steps, projection_dim)`, packed in the order in which it reads,
        to the outputs of each layer in each direction, the same, and the state behind the last steps.
        """
        # In full precision also where the rest is in mixed: a sum over many steps is what a state is.
        with torch.autocast(inputs[0].device.type, enabled=False):
            precision = state.memory.dtype
            return self._train_steps(
                (inputs[0].to(precision), inputs[1].to(precision)),
                steps,
                state,
                dropout,
                products or Products(),
            )

    def _train_steps(
        self,
        inputs: tuple[torch.Tensor, torch.Tensor],
        steps: PackedSteps,
        state: LstmState,
        dropout: float,
        products: Products,
    ) -> tuple[list[tuple[torch.Tensor, torch.Tensor]], LstmState]:
        order, in_order = steps.order, steps.order.argsort()
        layers, ended = [], []
        for layer, pair in enumerate(zip(self.stack(0), self.stack(1), strict=True)):
            inputs = F.dropout(inputs[0], dropout), F.dropout(inputs[1], dropout)
            outputs = trained_layer(
                steps.batch_sizes,
                Clips(pair[0].cell_clip, pair[0].proj_clip),
                products,
                *(
                    tensor
                    for direction, lstm in enumerate(pair)
                    for tensor in (
                        inputs[direction],
                        state.hidden[layer, direction, order],
                        state.memory[layer, direction, order],
                        *(lstm.weight, lstm.bias, lstm.projection),
                    )
                ),
            )
            forward, backward = outputs[0], outputs[3]
            if layer and self.use_skip_connections:
                forward, backward = forward + inputs[0], backward + inputs[1]
            inputs = forward, backward
            layers.append(inputs)
            ended.append([torch.stack([outputs[part], outputs[part + 3]]) for part in (1, 2)])
        hidden, memory = (torch.stack(parts)[:, :, in_order] for parts in zip(*ended, strict=True))
        return layers, LstmState(hidden, memory)

    def _run_direction(
        self,
        direction: int,
        inputs: torch.Tensor,
        index: torch.Tensor,
        steps: PackedSteps,
        state: LstmState,
        linear: FrozenLinear,
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

    def _run_padded(
        self,
        inputs: torch.Tensor,
        index: torch.Tensor,
        steps: PackedSteps,
        state: LstmState,
        linear: FrozenLinear,
    ) -> tuple[list[torch.Tensor], LstmState]:
        """
        As `forward`, for a device that takes longer to begin a computation than to do it: both directions
        and some steps at once, over all sequences that the first of these steps still has.
        """
        sizes, order = steps.batch_sizes, steps.order
        hidden, memory = state.hidden[:, :, order], state.memory[:, :, order] * 2
        # (longest, batch): which sequences reach a step
        real = torch.tensor(sizes, device=order.device).unsqueeze(1) > torch.arange(
            sizes[0], device=order.device
        )
        # (2, longest, batch, projection_dim)
        padded = torch.stack(
            [
                inputs.new_zeros(*real.shape, inputs.size(1)).masked_scatter(
                    real.unsqueeze(2), inputs[index[rows]]
                )
                for rows in steps.rows
            ]
        )
        layers = []
        for layer, pair in enumerate(zip(self.stack(0), self.stack(1), strict=True)):
            run = linear.derived(f"padded {layer}", lambda: Graphed(PaddedSteps(pair, linear=linear)))  # noqa: B023
            found = torch.zeros_like(padded)
            for start in range(0, len(sizes), STEPS_AT_ONCE):
                now, some = slice(start, start + STEPS_AT_ONCE), sizes[start]
                outputs, *ended = run(
                    *_filled(padded[:, now, :some], real[now, :some]),
                    hidden[layer, :, :some],
                    memory[layer, :, :some],
                )
                found[:, now, :some] = outputs[:, : len(sizes) - start]
                hidden[layer, :, :some], memory[layer, :, :some] = ended
            padded = found + padded if layer and self.use_skip_connections else found
            layers.append(steps.unpacked((padded[0][real], padded[1][real])))
        in_order = order.argsort()
        return layers, LstmState(hidden[:, :, in_order], memory[:, :, in_order] / 2)

    def stack(self, direction: int) -> list[ProjectedLstm]:
        """The layers of a direction, from the lowest."""
        return [cast(ProjectedLstm, lstm) for lstm in cast(nn.ModuleList, self.directions[direction])]

    def _run_paired(
        self, inputs: torch.Tensor, state: LstmState, linear: FrozenLinear
    ) -> tuple[list[torch.Tensor], LstmState]:
        """
        A lone sequence, both directions at once as two rows.

        *Shape:* `inputs` `(steps, projection_dim)`.
        """
        # Of each direction, in its order: (steps, projection_dim)
        packed = [inputs, inputs.flip(0)]
        layers, states = [], []
        for layer, pair in enumerate(zip(self.stack(0), self.stack(1), strict=True)):
            step = linear.derived(f"pair {layer}", partial(PairedStep, pair, linear=linear))
            # (2, steps, 4 dim)
            gates = torch.stack(
                [lstm.step(linear).project_inputs(rows) for lstm, rows in zip(pair, packed, strict=True)]
            )
            # (2, projection_dim), (2, dim)
            hidden, memory = state.hidden[layer, :, 0], state.memory[layer, :, 0] * 2
            outputs = []
            for of_step in gates.unbind(1):
                hidden = step(of_step, hidden, memory)
                outputs.append(hidden)
            # (2, steps, projection_dim)
            found = torch.stack(outputs, dim=1)
            if layer and self.use_skip_connections:
                found += torch.stack(packed)
            packed = list(found)
            layers.append(torch.cat([packed[0], packed[1].flip(0)], dim=1))
            states.append((hidden, memory / 2))
        last_hidden, last_memory = (torch.stack(parts).unsqueeze(2) for parts in zip(*states, strict=True))
        return layers, LstmState(last_hidden, last_memory)


def _filled(inputs: torch.Tensor, real: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """With steps behind the last one, up to the number that is always computed."""
    missing = STEPS_AT_ONCE - len(real)
    return F.pad(inputs, (0, 0, 0, 0, 0, missing)), F.pad(real, (0, 0, 0, missing))


def _chunks(batch_sizes: list[int]) -> Iterator[list[int]]:
    """Runs of steps with few rows together, so that their projected inputs take little memory."""
    chunk: list[int] = []
    for size in batch_sizes:
        if chunk and sum(chunk) + size > ROWS_AT_ONCE:
            yield chunk
            chunk = []
        chunk.append(size)
    yield chunk
