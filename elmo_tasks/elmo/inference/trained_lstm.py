"""
One layer of the biLSTM with gradients, both directions together.

It writes out what autograd would record of every step: each step is a few computations over both directions,
and the gradients of the weights are one product over all steps instead of a sum of small ones. A layer
without bounds and projection, over sequences of one length, runs on PyTorch's own LSTM, which is the fastest
there.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from elmo_tasks.elmo.inference.cell import activate_, scale_candidate_, tanh_of
from elmo_tasks.elmo.inference.cuda_lstm import CudaGraph
from elmo_tasks.elmo.inference.layout import steps_in_order
from elmo_tasks.elmo.inference.training_products import (
    BufferPool,
    Products,
    Workspace,
    packed,
    product,
    weight_gradient,
)

Tensors = tuple[torch.Tensor, ...]
PER_DIRECTION = 6
"""The tensors of a direction, see `TrainedLayer`."""


class Clips(NamedTuple):
    """Bounds of the absolute value; 0 for none."""

    cell: float
    projection: float


def trained_layer(
    batch_sizes: list[int],
    clips: Clips,
    products: Products,
    *tensors: Any,
    recorded: "RecordedLayer | None" = None,
) -> Tensors:
    """Runs `plain_lstm`, which is faster, where that computes the same; `recorded` needs equal lengths."""
    inputs, hidden, cell, weight, bias, projection = _by_direction(tensors)
    same_length = len(hidden[0]) == batch_sizes[0] == batch_sizes[-1]
    rounded = products.dtype(weight[0]) != weight[0].dtype
    if any(clips) or projection[0] is not None or not same_length or rounded:
        passes = recorded if recorded is not None and same_length else LayerPasses(clips, products)
        return cast(Tensors, TrainedLayer.apply(passes, batch_sizes, *tensors))
    results: list[torch.Tensor] = []
    for rows, *state_and_weights in zip(inputs, hidden, cell, weight, bias, strict=True):
        # (steps, batch, projection_dim)
        sequences = rows.view(len(batch_sizes), -1, rows.size(1))
        outputs, *ends = plain_lstm(sequences, *state_and_weights)
        results += [outputs.flatten(0, 1), *ends]
    return tuple(results)


def plain_lstm(
    inputs: torch.Tensor, hidden: torch.Tensor, cell: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor
) -> Tensors:
    """
    Runs an LSTM without projection, of the weights of a `ProjectedLstm`. *Shape:* `inputs` `(steps, batch,
    size)`, hidden and cell `(batch, size)`, to outputs, hidden and cell of the same shapes.
    """
    weights = [*weight.split(inputs.size(2), dim=1), bias, torch.zeros_like(bias)]
    outputs, *ends = torch.lstm(
        inputs,
        [hidden.unsqueeze(0), cell.unsqueeze(0)],
        [part.contiguous() for part in weights],
        has_biases=True,
        num_layers=1,
        dropout=0.0,
        train=True,
        bidirectional=False,
        batch_first=False,
    )
    return outputs, *(end.squeeze(0) for end in ends)


class TrainedLayer(Function):
    """
    `apply(passes, batch_sizes, *tensors)`: a layer with gradients.

    The tensors are, of each direction, the inputs, the hidden and the cell at the start, and the weights of a
    `ProjectedLstm`: `weight`, `bias`, and `projection` or `None`. The results are, of each direction, the
    outputs, and the hidden and the cell at the end. All are packed as `PackedSteps`, sequences by falling
    length.
    """

    @staticmethod
    def forward(ctx: Any, passes: "LayerPasses", batch_sizes: list[int], *tensors: Any) -> Tensors:
        ctx.passes, ctx.batch_sizes = passes, batch_sizes
        ctx.workspace = Workspace(passes.products.buffers)
        last_hidden, last_cell, *saved = passes.forward(batch_sizes, ctx.workspace, tensors)
        ctx.save_for_backward(*saved)
        results = Saved(*saved).outputs, last_hidden, last_cell
        return tuple(part[direction].clone() for direction in range(2) for part in results)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Any) -> Any:
        saved = Saved(*ctx.saved_tensors)
        grad_results = [torch.stack(pair) for pair in zip(gradients[:3], gradients[3:], strict=True)]
        grad_tensors = ctx.passes.backward(ctx.batch_sizes, saved, grad_results)
        if not saved.has_projection:
            grad_tensors = *grad_tensors[:-1], (None, None)
        return None, None, *(pair[direction] for direction in range(2) for pair in grad_tensors)


class Saved(NamedTuple):
    """
    The tensors that the backward pass reads, both directions in each. Steps are packed.

    The factors of products, `gate_inputs` and the weights, have the dtype of products.
    """

    outputs: torch.Tensor
    """`(2, steps, projection_dim)`"""
    start: torch.Tensor
    """The cell before the first step, `(2, batch, dim)`."""
    weight: torch.Tensor
    """`(2, 4 dim, 2 projection_dim)`: for the input, and for the hidden of the step before."""
    projection: torch.Tensor
    """`(2, projection_dim, dim)`, or `(0,)` where the layer has none."""
    gate_inputs: torch.Tensor
    """`(2, steps, 2 projection_dim)`: the input and the previous hidden state."""
    gates: torch.Tensor
    """`(2, steps, 4 dim)`, after their sigmoid or tanh, in the order i, f, candidate, o."""
    cell: torch.Tensor
    """`(2, steps, dim)`"""
    tanh_cell: torch.Tensor
    """`(2, steps, dim)`: tanh of the cell."""

    @property
    def has_projection(self) -> bool:
        return self.projection.numel() > 0


class LayerPasses:
    """The forward and the backward pass of a layer."""

    def __init__(self, clips: Clips, products: Products) -> None:
        self.clips, self.products = clips, products

    def forward(self, batch_sizes: list[int], workspace: Workspace, tensors: Sequence[Any]) -> Tensors:
        """
        Runs the layer on the `tensors` of `TrainedLayer`.

        *Shape:* the hidden and the cell at the end, `(2, batch, ...)`, and the tensors of `Saved`.
        """
        inputs, hidden, cell, weight, bias, projection = _by_direction(tensors)
        start, dtype, total = torch.stack(cell), self.products.dtype(weight[0]), sum(batch_sizes)
        (gates_size, inputs_size), dim = weight[0].shape, start.size(2)
        saved = Saved(
            start.new_empty(2, total, hidden[0].size(1)),
            start,
            _stacked(weight, workspace, dtype),
            _stacked(projection, workspace, dtype) if projection[0] is not None else start.new_empty(0),
            workspace.empty(start, 2, total, inputs_size, dtype=dtype),
            workspace.empty(start, 2, total, gates_size),
            workspace.empty(start, 2, total, dim),
            workspace.empty(start, 2, total, dim),
        )
        for direction, part in enumerate(inputs):
            saved.gate_inputs[direction, :, : part.size(1)] = part
        ends = self._run_steps(batch_sizes, saved, torch.stack(hidden), _stacked(bias, workspace, dtype))
        return *ends, *saved

    def _run_steps(
        self, batch_sizes: list[int], saved: Saved, hidden: torch.Tensor, bias: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """
        Fills in the values of all steps. *Shape:* the hidden at the start, `(2, batch, projection_dim)`, and
        the bias, `(2, 4 dim)`, to the hidden and the cell at the end, `(2, batch, ...)`.
        """
        weight, cell, size = saved.weight, saved.start, hidden.size(2)
        last_hidden, last_cell = hidden.clone(), cell.clone()
        scale_candidate_(weight, 2, dim=1)
        scale_candidate_(bias, 2, dim=1)
        gate_weights = [packed(part) for part in weight] if weight.device.type == "cpu" else weight
        unprojected_buffer = saved.gate_inputs.new_empty(2, batch_sizes[0], cell.size(2))
        for start, end, _, _, continuing in steps_in_order(batch_sizes):
            step, rows = slice(start, end), end - start
            saved.gate_inputs[:, step, size:] = hidden[:, :rows]
            # four times (2, rows, dim)
            input_gate, forget_gate, candidate, output_gate = activate_(
                _multiply_both(saved.gate_inputs[:, step], gate_weights, bias, saved.gates[:, step])
            )
            # (2, rows, dim)
            before, cell = cell, saved.cell[:, step]
            torch.mul(forget_gate, before[:, :rows], out=cell).addcmul_(input_gate, candidate)
            if self.clips.cell:
                cell.clamp_(-self.clips.cell, self.clips.cell)
            tanh_cell = tanh_of(cell, out=saved.tanh_cell[:, step])
            hidden = saved.outputs[:, step]
            if not saved.has_projection:
                torch.mul(output_gate, tanh_cell, out=hidden)
            else:
                unprojected = torch.mul(output_gate, tanh_cell, out=unprojected_buffer[:, :rows])
                _multiply_both(unprojected, saved.projection, None, hidden)
                if self.clips.projection:
                    hidden.clamp_(-self.clips.projection, self.clips.projection)
            if continuing < rows:
                last_hidden[:, continuing:rows] = hidden[:, continuing:]
                last_cell[:, continuing:rows] = cell[:, continuing:]
        scale_candidate_(weight, 0.5, dim=1)
        return last_hidden, last_cell

    def backward(
        self, batch_sizes: list[int], saved: Saved, grad_results: list[torch.Tensor]
    ) -> tuple[Sequence[torch.Tensor] | torch.Tensor, ...]:
        """
        Computes the gradients, and may write over `grad_results`.

        *Shape:* the gradients of the outputs, and of the hidden and the cell at the end, `(2, ...)`; to the
        gradients of the tensors of `TrainedLayer`, for both directions each; `(0,)` for a missing projection.
        """
        (grad_outputs, grad_hidden, grad_cell), start = grad_results, saved.start
        workspace = Workspace(self.products.buffers)
        # In the dtype of products, (2, steps, 4 dim), (2, steps, projection_dim), (2, steps, dim)
        grad_gates, grad_projected, unprojected = (
            workspace.empty(saved.gate_inputs, *part.shape)
            for part in (saved.gates, saved.outputs, saved.cell)
        )
        size, dim, max_rows = saved.outputs.size(2), start.size(2), batch_sizes[0]
        grad_inputs, grad_bias = torch.empty_like(saved.outputs), start.new_zeros(2, 4 * dim)
        grad_gate_inputs_buffer = start.new_empty(2, max_rows, 2 * size)
        grad_unprojected_buffer, grad_new_cell_buffer = start.new_empty(2, 2, max_rows, dim).unbind()
        grad_step_gates_buffer = start.new_empty(2, max_rows, 4 * dim)
        rounds = grad_gates.dtype != start.dtype
        for first_row, end, previous, _, _ in reversed(steps_in_order(batch_sizes)):
            step, rows = slice(first_row, end), end - first_row
            # (2, rows, dim)
            before = saved.cell[:, previous : previous + rows] if first_row else start[:, :rows]
            tanh_cell = saved.tanh_cell[:, step]
            _, forget_gate, _, output_gate = saved.gates[:, step].chunk(4, dim=2)
            # (2, rows, projection_dim), (2, rows, dim)
            grad_unprojected = grad_output = grad_outputs[:, step].add_(grad_hidden[:, :rows])
            if saved.has_projection:
                if self.clips.projection:
                    _clip_backward_(grad_output, saved.outputs[:, step], self.clips.projection)
                grad_projected[:, step] = grad_output
                torch.mul(output_gate, tanh_cell, out=unprojected[:, step])
                grad_unprojected = _multiply_both(
                    grad_projected[:, step],
                    saved.projection.transpose(1, 2),
                    None,
                    grad_unprojected_buffer[:, :rows],
                )
            grad_new_cell = torch.mul(grad_unprojected, output_gate, out=grad_new_cell_buffer[:, :rows])
            _tanh_backward_(grad_new_cell, tanh_cell).add_(grad_cell[:, :rows])
            if self.clips.cell:
                _clip_backward_(grad_new_cell, saved.cell[:, step], self.clips.cell)
            grad_step_gates = grad_step_gates_buffer[:, :rows] if rounds else grad_gates[:, step]
            _gate_gradients(
                saved.gates[:, step], tanh_cell, before, grad_unprojected, grad_new_cell, grad_step_gates
            )
            grad_bias += grad_step_gates.sum(dim=1)
            if rounds:
                grad_gates[:, step] = grad_step_gates
            torch.mul(grad_new_cell, forget_gate, out=grad_cell[:, :rows])
            grad_gate_inputs = _multiply_both(
                grad_gates[:, step], saved.weight.transpose(1, 2), None, grad_gate_inputs_buffer[:, :rows]
            )
            grad_inputs[:, step] = grad_gate_inputs[..., :size]
            grad_hidden[:, :rows] = grad_gate_inputs[..., size:]

        def of_weight(grad_products: torch.Tensor, factors: torch.Tensor) -> list[torch.Tensor]:
            return [part.to(start.dtype) for part in map(weight_gradient, grad_products, factors)]

        return (
            grad_inputs,
            grad_hidden,
            grad_cell,
            of_weight(grad_gates, saved.gate_inputs),
            grad_bias,
            of_weight(grad_projected, unprojected) if saved.has_projection else saved.projection,
        )


class RecordedLayer(LayerPasses):
    """
    The passes of a layer over sequences of one length, in batches of one shape. A GPU takes longer to begin a
    computation than to do it, so there each pass is recorded as a CUDA graph. Layers of the same sizes share
    the graphs.
    """

    def __init__(self, clips: Clips, products: Products) -> None:
        super().__init__(clips, products)
        self._forward_graph = CudaGraph(self._run_forward, capacity=1)
        self._backward_graph = CudaGraph(self._run_backward, capacity=1)

    def __reduce__(self) -> tuple[object, ...]:
        """A copy makes its own recordings."""
        return RecordedLayer, (self.clips, self.products)

    def forward(self, batch_sizes: list[int], workspace: Workspace, tensors: Sequence[Any]) -> Tensors:
        return self._forward_graph(*(tensor.detach() for tensor in tensors if tensor is not None))

    def backward(
        self, batch_sizes: list[int], saved: Saved, grad_results: list[torch.Tensor]
    ) -> tuple[Sequence[torch.Tensor] | torch.Tensor, ...]:
        return self._backward_graph(*grad_results, *saved)

    def _run_forward(self, *tensors: torch.Tensor) -> Tensors:
        half = len(tensors) // 2
        missing = [None] * (PER_DIRECTION - half)
        # The recording keeps this memory, so that it takes none from the shared buffers.
        return super().forward(
            _same_sizes(tensors[0], tensors[1]),
            Workspace(BufferPool()),
            [*tensors[:half], *missing, *tensors[half:], *missing],
        )

    def _run_backward(self, *tensors: torch.Tensor) -> Tensors:
        grad_results, saved = [tensor.clone() for tensor in tensors[:3]], Saved(*tensors[3:])
        results = super().backward(_same_sizes(saved.outputs[0], saved.start[0]), saved, grad_results)
        return tuple(both if isinstance(both, torch.Tensor) else torch.stack(tuple(both)) for both in results)


def _same_sizes(rows: torch.Tensor, state: torch.Tensor) -> list[int]:
    """*Shape:* `(steps, ...)` and `(batch, ...)`."""
    return [len(state)] * (len(rows) // len(state))


def _by_direction(tensors: Sequence[Any]) -> list[tuple[Any, Any]]:
    return list(zip(tensors[:PER_DIRECTION], tensors[PER_DIRECTION:], strict=True))


def _gate_gradients(
    gates: torch.Tensor,
    tanh_cell: torch.Tensor,
    cell_before: torch.Tensor,
    grad_unprojected: torch.Tensor,
    grad_cell: torch.Tensor,
    out: torch.Tensor,
) -> None:
    """
    Writes to `out` the gradients of a step's gates before their sigmoid or tanh, from the gradients of the
    projection's inputs, `grad_unprojected`, and of the cell.

    *Shape:* `gates` and `out` `(2, rows, 4 dim)`, all others `(2, rows, dim)`.
    """
    input_gate, _, candidate, output_gate = gates.chunk(4, dim=2)
    grad_input_gate, grad_forget_gate, grad_candidate, grad_output_gate = out.chunk(4, dim=2)
    torch.mul(grad_cell, candidate, out=grad_input_gate)
    torch.mul(grad_cell, cell_before, out=grad_forget_gate)
    torch.mul(grad_cell, input_gate, out=grad_candidate)
    torch.mul(grad_unprojected, tanh_cell, out=grad_output_gate)
    two_gates = 2 * candidate.size(2)
    _sigmoid_backward_(out[..., :two_gates], gates[..., :two_gates])
    _sigmoid_backward_(grad_output_gate, output_gate)
    _tanh_backward_(grad_candidate, candidate)


def _stacked(parts: Tensors, workspace: Workspace, dtype: torch.dtype) -> torch.Tensor:
    stacked = workspace.empty(parts[0], len(parts), *parts[0].shape, dtype=dtype)
    for target, part in zip(stacked, parts, strict=True):
        target.copy_(part)
    return stacked


def _multiply_both(
    rows: torch.Tensor,
    weight: torch.Tensor | list[torch.Tensor],
    bias: torch.Tensor | None,
    out: torch.Tensor,
) -> torch.Tensor:
    """
    *Shape:* `(2, rows, in)`, `(2, out, in)` and `(2, out)` to `out`, `(2, rows, out)`, which may have another
    dtype. The weights of the two directions may be packed.
    """
    if isinstance(weight, torch.Tensor) and weight.device.type != "cpu":
        # A GPU takes longer to begin a computation than to do it: so both directions together
        factors = rows, weight.transpose(1, 2)
        return out.copy_(torch.bmm(*factors) if bias is None else torch.baddbmm(bias.unsqueeze(1), *factors))
    for direction in range(2):
        of_direction = None if bias is None else bias[direction]
        out[direction] = product(rows[direction], weight[direction], of_direction)
    return out


def _sigmoid_backward_(gradient: torch.Tensor, value: torch.Tensor) -> None:
    """Turns the gradient of a sigmoid into its input's, in place; `value` is the sigmoid."""
    torch.ops.aten.sigmoid_backward.grad_input(gradient, value, grad_input=gradient)


def _tanh_backward_(gradient: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Turns the gradient of a tanh into its input's, in place; `value` is the tanh."""
    return torch.ops.aten.tanh_backward.grad_input(gradient, value, grad_input=gradient)


def _clip_backward_(gradient: torch.Tensor, value: torch.Tensor, bound: float) -> None:
    """Sets the gradient to 0, in place, where a value is at its bound."""
    torch.ops.aten.hardtanh_backward.grad_input(gradient, value, -bound, bound, grad_input=gradient)
