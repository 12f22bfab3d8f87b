"""
The stacked biLSTM of the biLM: two independent directions whose layers have a projection (Sak et al.
2014, arXiv:1402.1128), bounds on cell and projection, and residual connections from the second layer on.

`torch.nn.LSTM(proj_size=...)` has neither the bounds nor the residual connections.
"""

import hashlib
from typing import NamedTuple, cast

import torch
from torch import nn
from torch.nn import functional as F

from elmo_tasks.elmo.model.options import BiLmOptions


class LstmState(NamedTuple):
    """
    The state of an LSTM between two steps, for all layers and both directions.

    *Shape:* `(layers, 2, batch, projection_dim)` and `(layers, 2, batch, dim)`.
    """

    hidden: torch.Tensor
    cell: torch.Tensor

    def digest(self, size: int = 16) -> str:
        hashed = hashlib.blake2b(digest_size=size)
        for part in self:
            hashed.update(part.detach().cpu().flatten().view(torch.uint8).numpy().data)
        return hashed.hexdigest()


class ProjectedLstm(nn.Module):
    """
    One layer in one direction.

    With the gates i, f, o and the candidate g, all of `[x; h]`:

        c = clip(sigmoid(f) * c + sigmoid(i) * tanh(g), cell_clip)
        h = clip(P (sigmoid(o) * tanh(c)), proj_clip)

    `weight` holds the rows of i, f, g, o, in this order; its columns belong to `x` first, then to `h`.
    The official layout leaves the projection P out where `dim` is `projection_dim`; then `h` has no bound.
    """

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
        self, inputs: torch.Tensor, lengths: torch.Tensor, hidden: torch.Tensor, cell: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """
        *Shape:* `inputs` `(batch, steps, projection_dim)`, `lengths` `(batch,)`, `hidden` `(batch,
        projection_dim)`, `cell` `(batch, dim)`. Returns the outputs, of the inputs' shape, and the state
        after the last step of each sequence.
        """
        # (steps, batch, 1)
        running = (torch.arange(inputs.size(1), device=lengths.device).unsqueeze(1) < lengths).unsqueeze(2)
        steps = inputs.transpose(0, 1)

        def run_step(
            state: tuple[torch.Tensor, torch.Tensor], step: tuple[torch.Tensor, torch.Tensor]
        ) -> tuple[tuple[torch.Tensor, torch.Tensor], torch.Tensor]:
            after = self.step(step[0], *state)
            hidden, cell = (torch.where(step[1], new, old) for new, old in zip(after, state, strict=True))
            return (hidden, cell), hidden.clone()

        if torch.compiler.is_exporting():
            # A loop of Python would be unrolled to the length of the example.
            from torch._higher_order_ops.scan import scan

            (hidden, cell), outputs = scan(
                run_step, (hidden.contiguous(), cell.contiguous()), (steps, running)
            )
            return outputs.transpose(0, 1), hidden, cell
        outputs = []
        for step in zip(steps, running, strict=True):
            (hidden, cell), output = run_step((hidden, cell), step)
            outputs.append(output)
        return torch.stack(outputs, dim=1), hidden, cell

    def step(
        self, rows: torch.Tensor, hidden: torch.Tensor, cell: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """*Shape:* rows and hidden `(batch, projection_dim)`, cell `(batch, dim)`, to hidden and cell."""
        gates = F.linear(torch.cat([rows, hidden], dim=1), self.weight, self.bias)
        # four times (batch, dim)
        input_gate, forget_gate, candidate, output_gate = gates.chunk(4, dim=1)
        cell = forget_gate.sigmoid() * cell + input_gate.sigmoid() * candidate.tanh()
        if self.cell_clip:
            cell = cell.clamp(-self.cell_clip, self.cell_clip)
        output = output_gate.sigmoid() * cell.tanh()
        if self.projection is not None:
            output = F.linear(output, self.projection)
            if self.proj_clip:
                output = output.clamp(-self.proj_clip, self.proj_clip)
        return output, cell


class StackedBiLstm(nn.Module):
    """All layers in both directions."""

    def __init__(self, *, options: BiLmOptions) -> None:
        super().__init__()
        self.use_skip_connections = options.use_skip_connections
        self.directions = nn.ModuleList(
            nn.ModuleList(ProjectedLstm(options=options) for _ in range(options.n_layers)) for _ in range(2)
        )

    def layers(self, direction: int) -> list[ProjectedLstm]:
        """Returns the layers of a direction, from the lowest; direction 0 reads forward, 1 backward."""
        return [cast(ProjectedLstm, lstm) for lstm in cast(nn.ModuleList, self.directions[direction])]

    def forward(
        self, inputs: torch.Tensor, lengths: torch.Tensor, state: LstmState
    ) -> tuple[list[torch.Tensor], LstmState]:
        """
        *Shape:* `inputs` `(batch, steps, projection_dim)`, `lengths` `(batch,)`. Returns the output of each
        layer, `(batch, steps, 2 projection_dim)`, forward and backward side by side, and the state after the
        last step of each sequence. A sequence without steps keeps its state.
        """
        outputs: list[list[torch.Tensor]] = []
        states: list[list[tuple[torch.Tensor, torch.Tensor]]] = []
        for direction in range(2):
            layer_inputs = reversed_steps(inputs, lengths) if direction else inputs
            outputs.append([])
            states.append([])
            for layer, lstm in enumerate(self.layers(direction)):
                before = state.hidden[layer, direction], state.cell[layer, direction]
                layer_outputs, hidden, cell = lstm(layer_inputs, lengths, *before)
                if layer and self.use_skip_connections:
                    layer_outputs = layer_outputs + layer_inputs
                layer_inputs = layer_outputs
                outputs[direction].append(
                    reversed_steps(layer_outputs, lengths) if direction else layer_outputs
                )
                states[direction].append((hidden, cell))
        layers = [torch.cat(pair, dim=2) for pair in zip(*outputs, strict=True)]
        # (layers, 2, batch, ...)
        hidden, cell = (
            torch.stack([torch.stack([pair[part] for pair in layer]) for layer in zip(*states, strict=True)])
            for part in range(2)
        )
        return layers, LstmState(hidden, cell)


def reversed_steps(sequences: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """Reverses each sequence. *Shape:* `(batch, steps, size)` and `(batch,)` to `(batch, steps, size)`."""
    steps = torch.arange(sequences.size(1), device=sequences.device)
    # (batch, steps): after the end of a sequence its last step again, as padding
    source = (lengths.unsqueeze(1) - 1 - steps).clamp(min=0)
    return sequences.gather(1, source.unsqueeze(2).expand_as(sequences))
