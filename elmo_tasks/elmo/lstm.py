"""
The stacked biLSTM of the biLM: two independent directions whose layers have a projection (Sak et al.
2014, arXiv:1402.1128), bounds on cell and projection, and residual connections from the second layer on.

`torch.nn.LSTM(proj_size=...)` has neither the bounds nor the residual connections.
"""

from typing import NamedTuple, cast

import torch
from torch import nn

from elmo_tasks.elmo.linear import linear
from elmo_tasks.elmo.weights import BiLmOptions


class LstmState(NamedTuple):
    """
    What an LSTM carries from one step to the next, for all layers and both directions.

    *Shape:* `(layers, 2, batch, projection_dim)` and `(layers, 2, batch, dim)`.
    """

    hidden: torch.Tensor
    memory: torch.Tensor


class PackedSteps(NamedTuple):
    """
    A batch of sequences as one row a real step, ordered by step, longer sequences first: no row is padding.
    """

    order: torch.Tensor
    """`(batch,)`: the sequences by falling length."""
    batch_sizes: list[int]
    """How many sequences reach step 0, 1, ..."""
    rows: tuple[torch.Tensor, torch.Tensor]
    """`(steps,)` for each direction: where in the flat `batch x tokens` a packed row comes from."""

    @classmethod
    def of(cls, lengths: torch.Tensor, width: int) -> "PackedSteps":
        """For sequences of `lengths` `(batch,)` in tensors of shape `(batch, width, ...)`."""
        order = lengths.argsort(descending=True, stable=True)
        # (batch,), (longest, 1)
        ordered, steps = lengths[order], torch.arange(width, device=lengths.device).unsqueeze(1)
        # (longest, batch)
        real = steps < ordered
        first = (order * width).expand_as(real)
        forward = (first + steps)[real]
        backward = (first + ordered - 1 - steps)[real]
        sizes = [size for size in real.sum(dim=1).tolist() if size]
        return cls(order, sizes, (forward, backward))


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

    def forward(
        self,
        inputs: torch.Tensor,
        batch_sizes: list[int],
        hidden: torch.Tensor,
        memory: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """
        *Shape:* `inputs` `(steps, projection_dim)`, packed; `hidden` `(batch, projection_dim)` and `memory`
        `(batch, dim)`, sequences by falling length. Returns the outputs, packed, and the final state.
        """
        for_input, recurrent = self.weight.split(self.weight.size(1) // 2, dim=1)
        # All steps' inputs in one product: (steps, 4 dim)
        projected = linear(inputs, for_input, self.bias)
        outputs, ended = [], []
        for gates in projected.split(batch_sizes):
            if len(gates) < len(hidden):
                ended.append((hidden[len(gates) :], memory[len(gates) :]))
                hidden, memory = hidden[: len(gates)], memory[: len(gates)]
            hidden, memory = self._step(gates + linear(hidden, recurrent), memory)
            outputs.append(hidden)
        ended.append((hidden, memory))
        last_hidden, last_memory = (torch.cat(states) for states in zip(*ended[::-1], strict=True))
        return torch.cat(outputs), last_hidden, last_memory

    def _step(self, gates: torch.Tensor, memory: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        # four times (sequences, dim)
        input_gate, forget_gate, candidate, output_gate = gates.chunk(4, dim=1)
        memory = torch.sigmoid(forget_gate) * memory + torch.sigmoid(input_gate) * candidate.tanh()
        if self.cell_clip:
            memory = memory.clamp(-self.cell_clip, self.cell_clip)
        hidden = torch.sigmoid(output_gate) * memory.tanh()
        if self.projection is not None:
            hidden = linear(hidden, self.projection)
            if self.proj_clip:
                hidden = hidden.clamp(-self.proj_clip, self.proj_clip)
        return hidden, memory


class StackedBiLstm(nn.Module):
    """All layers in both directions."""

    def __init__(self, *, options: BiLmOptions) -> None:
        super().__init__()
        self.use_skip_connections = options.use_skip_connections
        self.directions = nn.ModuleList(
            nn.ModuleList(ProjectedLstm(options=options) for _ in range(options.n_layers)) for _ in range(2)
        )

    def forward(
        self, inputs: torch.Tensor, lengths: torch.Tensor, state: LstmState
    ) -> tuple[list[torch.Tensor], LstmState]:
        """
        *Shape:* `inputs` `(batch, tokens, projection_dim)`, `lengths` `(batch,)`. Returns the output of each
        layer, `(batch, tokens, 2 projection_dim)`, zero behind the end of a sequence, and the state behind
        the last step of each sequence, unchanged for a sequence without steps.
        """
        batch, width, size = inputs.shape
        steps = PackedSteps.of(lengths, width)
        flat = inputs.reshape(-1, size)
        stacks = [cast(nn.ModuleList, stack) for stack in self.directions]
        layers: list[list[torch.Tensor]] = [[] for _ in stacks[0]]
        final_hidden, final_memory = torch.empty_like(state.hidden), torch.empty_like(state.memory)
        for direction, (stack, rows) in enumerate(zip(stacks, steps.rows, strict=True)):
            packed = flat[rows]
            for layer, lstm in enumerate(stack):
                outputs, hidden, memory = lstm(
                    packed,
                    steps.batch_sizes,
                    state.hidden[layer, direction, steps.order],
                    state.memory[layer, direction, steps.order],
                )
                final_hidden[layer, direction, steps.order] = hidden.detach()
                final_memory[layer, direction, steps.order] = memory.detach()
                packed = outputs + packed if layer and self.use_skip_connections else outputs
                layers[layer].append(packed.new_zeros(flat.shape).index_copy(0, rows, packed))
        merged = [torch.cat(pair, dim=1).view(batch, width, 2 * size) for pair in layers]
        return merged, LstmState(final_hidden, final_memory)
