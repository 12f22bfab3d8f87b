"""
One layer of the biLSTM with gradients, both directions at once.

It writes out what autograd would record of every step: each step is a few computations over both directions,
and the gradients of the weights are one product over all steps instead of a sum of small ones. A layer
without bounds and projection, over sequences of one length, runs on PyTorch's own LSTM, which is the fastest
there.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from elmo_tasks.elmo.inference.cuda_lstm import CudaGraph
from elmo_tasks.elmo.inference.training_products import (
    BufferPool,
    Products,
    Workspace,
    packed,
    product,
    weight_gradient,
)

Tensors = tuple[torch.Tensor, ...]


def plain_lstm(
    inputs: torch.Tensor, hidden: torch.Tensor, cell: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor
) -> Tensors:
    """
    Runs an LSTM without projections.

    *Shape:* `inputs` `(steps, batch, size)`; the hidden and the cell at the start, `(batch, size)` each; the
    `weight` and the `bias` of a `ProjectedLstm`, `(4 size, 2 size)` and `(4 size,)`. Returns the outputs, and
    the hidden and the cell at the end, of the same shapes.
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


class Clips(NamedTuple):
    """Bounds of the absolute value; 0 for none."""

    cell: float
    projection: float


class Weights(NamedTuple):
    """The weights of both directions, in the dtype of products."""

    gates: torch.Tensor
    """`(2, 4 dim, 2 projection_dim)`: for the input, and for the hidden of the step before."""
    bias: torch.Tensor
    """`(2, 4 dim)`"""
    projection: torch.Tensor | None
    """`(2, projection_dim, dim)`"""


class Steps(NamedTuple):
    """
    The values of all steps that the backward pass needs, for both directions. They are packed: the rows of a
    step follow the rows of the step before.
    """

    gate_inputs: torch.Tensor
    """`(2, steps, 2 projection_dim)`: the input and the previous hidden state, in the dtype of products."""
    gates: torch.Tensor
    """`(2, steps, 4 dim)`, after their sigmoid or tanh, in the order i, f, candidate, o."""
    cell: torch.Tensor
    """`(2, steps, dim)`"""
    tanh_cell: torch.Tensor
    """`(2, steps, dim)`: tanh of the cell."""


def trained_layer(
    batch_sizes: list[int],
    clips: Clips,
    products: Products,
    *tensors: Any,
    recorded: "RecordedLayer | None" = None,
) -> Tensors:
    """
    Runs `TrainedLayer`, or `plain_lstm`, which is faster, where that computes the same. With sequences of
    one length, `recorded` runs its passes.
    """
    inputs, hidden, cell, weight, bias, projection = zip(tensors[:6], tensors[6:], strict=True)
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


class SavedTensors(NamedTuple):
    """The tensors that the backward pass reads."""

    outputs: torch.Tensor
    """`(2, steps, projection_dim)`"""
    start: torch.Tensor
    """The cell before the first step, `(2, batch, dim)`."""
    weights: Weights
    steps: Steps


class LayerPasses:
    """
    The forward and the backward pass of a layer.

    # Parameters

    clips : its bounds.
    products : how it multiplies.
    """

    def __init__(self, clips: Clips, products: Products) -> None:
        self.clips, self.products = clips, products

    def forward(
        self, batch_sizes: list[int], workspace: Workspace, tensors: Sequence[Any]
    ) -> tuple[torch.Tensor, torch.Tensor, SavedTensors]:
        """
        Runs the layer on the `tensors` of `TrainedLayer`. *Shape:* hidden and cell at the end, `(2, batch,
        ...)`.
        """
        inputs, hidden, cell, weight, bias, projection = zip(tensors[:6], tensors[6:], strict=True)
        start, dtype = torch.stack(cell), self.products.dtype(weight[0])
        weights = Weights(
            _stacked(weight, workspace, dtype),
            _stacked(bias, workspace, dtype),
            _stacked(projection, workspace, dtype) if projection[0] is not None else None,
        )
        (_, gates_size, inputs_size), dim, total = weights.gates.shape, start.size(2), sum(batch_sizes)
        steps = Steps(
            workspace.empty(start, 2, total, inputs_size, dtype=dtype),
            workspace.empty(start, 2, total, gates_size),
            *(workspace.empty(start, 2, total, dim) for _ in range(2)),
        )
        for direction, part in enumerate(inputs):
            steps.gate_inputs[direction, :, : part.size(1)] = part
        outputs, last_hidden, last_cell = _forward(
            batch_sizes, self.clips, weights, steps, torch.stack(hidden), start
        )
        return last_hidden, last_cell, SavedTensors(outputs, start, weights, steps)

    def backward(
        self, batch_sizes: list[int], saved: SavedTensors, grad_results: list[torch.Tensor]
    ) -> tuple[Sequence[torch.Tensor] | torch.Tensor | None, ...]:
        """
        Computes the gradients. Those that it gets may be written over.

        *Shape:* those of the outputs, and of the hidden and the cell at the end, `(2, ...)`; to those of the
        tensors of a direction, for both directions each.
        """
        outputs, start, weights, steps = saved
        workspace = Workspace(self.products.buffers)
        (_, total, gates_size), dim = steps.gates.shape, start.size(2)
        # In the dtype of products, (2, steps, 4 dim), (2, steps, projection_dim), (2, steps, dim)
        widths = gates_size, outputs.size(2), dim
        step_buffers = grad_gates, grad_projected, unprojected = [
            workspace.empty(steps.gate_inputs, 2, total, width) for width in widths
        ]
        grad_inputs, grad_bias = _backward(
            batch_sizes, self.clips, weights, steps, outputs, start, grad_results, step_buffers
        )
        _, grad_hidden, grad_cell = grad_results

        def of_weight(grad_products: torch.Tensor, factors: torch.Tensor) -> list[torch.Tensor]:
            both = map(weight_gradient, grad_products, factors)
            return [gradient.to(start.dtype) for gradient in both]

        return (
            grad_inputs,
            grad_hidden,
            grad_cell,
            of_weight(grad_gates, steps.gate_inputs),
            grad_bias,
            None if weights.projection is None else of_weight(grad_projected, unprojected),
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

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy records anew."""
        return RecordedLayer, (self.clips, self.products)

    def forward(
        self, batch_sizes: list[int], workspace: Workspace, tensors: Sequence[Any]
    ) -> tuple[torch.Tensor, torch.Tensor, SavedTensors]:
        not_none = [tensor.detach() for tensor in tensors if tensor is not None]
        hidden, cell, outputs, start, *others = self._forward_graph(*not_none)
        weights, steps = others[:-4], others[-4:]
        return hidden, cell, SavedTensors(outputs, start, _weights(weights), Steps(*steps))

    def backward(
        self, batch_sizes: list[int], saved: SavedTensors, grad_results: list[torch.Tensor]
    ) -> tuple[Sequence[torch.Tensor] | torch.Tensor | None, ...]:
        weights = [part for part in saved.weights if part is not None]
        results = self._backward_graph(*grad_results, saved.outputs, saved.start, *saved.steps, *weights)
        return results if len(weights) == len(Weights._fields) else (*results, None)

    def _run_forward(self, *tensors: torch.Tensor) -> Tensors:
        half = len(tensors) // 2
        both = [[*part, *[None] * (6 - half)] for part in (tensors[:half], tensors[half:])]
        batch_sizes = _same_sizes(tensors[0], tensors[1])
        # The recording keeps this memory, so that it takes none from the shared buffers.
        workspace = Workspace(BufferPool())
        hidden, cell, saved = super().forward(batch_sizes, workspace, [*both[0], *both[1]])
        outputs, start, weights, steps = saved
        return hidden, cell, outputs, start, *(part for part in weights if part is not None), *steps

    def _run_backward(self, *tensors: torch.Tensor) -> Tensors:
        grad_results = [tensor.clone() for tensor in tensors[:3]]
        outputs, start = tensors[3:5]
        saved = SavedTensors(outputs, start, _weights(tensors[9:]), Steps(*tensors[5:9]))
        results = super().backward(_same_sizes(outputs[0], start[0]), saved, grad_results)
        return tuple(torch.stack(tuple(both)) for both in results if both is not None)


def _weights(parts: Sequence[torch.Tensor]) -> Weights:
    return Weights(parts[0], parts[1], parts[2] if len(parts) > 2 else None)


def _same_sizes(rows: torch.Tensor, state: torch.Tensor) -> list[int]:
    """*Shape:* `(steps, ...)` and `(batch, ...)`."""
    return [len(state)] * (len(rows) // len(state))


class TrainedLayer(Function):
    """
    `apply(passes, batch_sizes, *tensors)`: a layer with gradients.

    The tensors are, of each direction, the inputs, the hidden and the cell at the start, and the weights of a
    `ProjectedLstm`: `weight`, `bias`, and `projection` or `None`. The results are, of each direction, the
    outputs, and the hidden and the cell at the end. All are packed as `PackedSteps`, sequences by falling
    length.
    """

    @staticmethod
    def forward(ctx: Any, passes: LayerPasses, batch_sizes: list[int], *tensors: Any) -> Tensors:
        workspace = Workspace(passes.products.buffers)
        *ends, saved = passes.forward(batch_sizes, workspace, tensors)
        outputs, start, weights, steps = saved
        ctx.passes, ctx.batch_sizes = passes, batch_sizes
        ctx.weights, ctx.steps, ctx.workspace = weights, steps, workspace
        ctx.save_for_backward(outputs, start)
        return tuple(part[direction].clone() for direction in range(2) for part in (outputs, *ends))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Any) -> Any:
        outputs, start = ctx.saved_tensors
        saved = SavedTensors(outputs, start, ctx.weights, ctx.steps)
        grad_results = [torch.stack(pair) for pair in zip(gradients[:3], gradients[3:], strict=True)]
        grad_tensors = ctx.passes.backward(ctx.batch_sizes, saved, grad_results)
        of_directions = (
            None if gradient is None else gradient[direction]
            for direction in range(2)
            for gradient in grad_tensors
        )
        return None, None, *of_directions


def _forward(
    batch_sizes: list[int],
    clips: Clips,
    weights: Weights,
    steps: Steps,
    hidden: torch.Tensor,
    cell: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """
    Fills in the `steps`. *Shape:* the outputs, `(2, steps, projection_dim)`, and the hidden and the cell at
    the end, `(2, batch, ...)`.
    """
    size, dim = hidden.size(2), cell.size(2)
    outputs = cell.new_empty(2, sum(batch_sizes), size)
    last_hidden, last_cell = hidden.clone(), cell.clone()
    # tanh x is 2 sigmoid 2x - 1, which PyTorch computes several times as fast on a CPU: one sigmoid serves
    # all gates once the candidate's rows of weight and bias are doubled.
    for part in (weights.gates, weights.bias):
        part[:, 2 * dim : 3 * dim] *= 2
    on_cpu = weights.gates.device.type == "cpu"
    gate_weights = [packed(part) for part in weights.gates] if on_cpu else weights.gates
    unprojected_buffer = steps.gate_inputs.new_empty(2, batch_sizes[0], dim)
    for step, rows, next_rows in _ranges(batch_sizes):
        steps.gate_inputs[:, step, size:] = hidden[:, :rows]
        # (2, rows, 4 dim), and views of it, four times (2, rows, dim)
        gates = _multiply(steps.gate_inputs[:, step], gate_weights, weights.bias, steps.gates[:, step])
        input_gate, forget_gate, candidate, output_gate = gates.chunk(4, dim=2)
        gates.sigmoid_()
        candidate.mul_(2).sub_(1)
        # (2, rows, dim)
        before, cell = cell, steps.cell[:, step]
        torch.mul(forget_gate, before[:, :rows], out=cell).addcmul_(input_gate, candidate)
        if clips.cell:
            cell.clamp_(-clips.cell, clips.cell)
        tanh_cell = torch.mul(cell, 2, out=steps.tanh_cell[:, step]).sigmoid_().mul_(2).sub_(1)
        hidden = outputs[:, step]
        if weights.projection is None:
            torch.mul(output_gate, tanh_cell, out=hidden)
        else:
            unprojected = torch.mul(output_gate, tanh_cell, out=unprojected_buffer[:, :rows])
            _multiply(unprojected, weights.projection, None, hidden)
            if clips.projection:
                hidden.clamp_(-clips.projection, clips.projection)
        if next_rows < rows:
            last_hidden[:, next_rows:rows] = hidden[:, next_rows:]
            last_cell[:, next_rows:rows] = cell[:, next_rows:]
    weights.gates[:, 2 * dim : 3 * dim] /= 2
    return outputs, last_hidden, last_cell


def _backward(
    batch_sizes: list[int],
    clips: Clips,
    weights: Weights,
    steps: Steps,
    outputs: torch.Tensor,
    start: torch.Tensor,
    grad_results: list[torch.Tensor],
    step_buffers: list[torch.Tensor],
) -> tuple[torch.Tensor, torch.Tensor]:
    """
    Fills in `step_buffers`: the gradients of the gates before their sigmoid or tanh, those of what the
    projection gives, and what is projected. `grad_results` are the gradients of the outputs and of hidden and
    cell at the end; the last two become those at the start, in place. *Shape:* the gradients of the inputs,
    `(2, steps, projection_dim)`, and of the bias, `(2, 4 dim)`.
    """
    (grad_outputs, grad_hidden, grad_cell), (grad_gates, grad_projected, unprojected) = (
        grad_results,
        step_buffers,
    )
    size, dim, max_rows = outputs.size(2), start.size(2), batch_sizes[0]
    grad_inputs, grad_bias = torch.empty_like(outputs), start.new_zeros(2, 4 * dim)
    grad_gate_inputs_buffer = start.new_empty(2, max_rows, 2 * size)
    grad_unprojected_buffer, grad_new_cell_buffer = start.new_empty(2, 2, max_rows, dim).unbind()
    grad_step_gates_buffer = start.new_empty(2, max_rows, 4 * dim)
    ranges = list(_ranges(batch_sizes))
    earlier = [start, *(steps.cell[:, step] for step, _, _ in ranges)]
    for (step, rows, _), before in zip(ranges[::-1], earlier[-2::-1], strict=True):
        tanh_cell = steps.tanh_cell[:, step]
        _, forget_gate, _, output_gate = steps.gates[:, step].chunk(4, dim=2)
        # (2, rows, projection_dim), (2, rows, dim)
        grad_unprojected = grad_output = grad_outputs[:, step].add_(grad_hidden[:, :rows])
        if weights.projection is not None:
            if clips.projection:
                _clip_backward_(grad_output, outputs[:, step], clips.projection)
            grad_projected[:, step] = grad_output
            torch.mul(output_gate, tanh_cell, out=unprojected[:, step])
            grad_unprojected = _multiply(
                grad_projected[:, step],
                weights.projection.transpose(1, 2),
                None,
                grad_unprojected_buffer[:, :rows],
            )
        grad_new_cell = torch.mul(grad_unprojected, output_gate, out=grad_new_cell_buffer[:, :rows])
        tanh_backward_(grad_new_cell, tanh_cell).add_(grad_cell[:, :rows])
        if clips.cell:
            _clip_backward_(grad_new_cell, steps.cell[:, step], clips.cell)
        grad_step_gates = (
            grad_gates[:, step] if grad_gates.dtype == start.dtype else grad_step_gates_buffer[:, :rows]
        )
        _gate_gradients(
            steps.gates[:, step],
            tanh_cell,
            before[:, :rows],
            grad_unprojected,
            grad_new_cell,
            grad_step_gates,
        )
        grad_bias += grad_step_gates.sum(dim=1)
        if grad_step_gates.dtype != grad_gates.dtype:
            grad_gates[:, step] = grad_step_gates
        torch.mul(grad_new_cell, forget_gate, out=grad_cell[:, :rows])
        grad_gate_inputs = _multiply(
            grad_gates[:, step], weights.gates.transpose(1, 2), None, grad_gate_inputs_buffer[:, :rows]
        )
        grad_inputs[:, step] = grad_gate_inputs[..., :size]
        grad_hidden[:, :rows] = grad_gate_inputs[..., size:]
    return grad_inputs, grad_bias


def _gate_gradients(
    gates: torch.Tensor,
    tanh_cell: torch.Tensor,
    cell_before: torch.Tensor,
    grad_unprojected: torch.Tensor,
    grad_cell: torch.Tensor,
    out: torch.Tensor,
) -> None:
    """
    Writes to `out` the gradients of a step's gates before their sigmoid or tanh, from those of what is
    projected, `grad_unprojected`, and of the cell. *Shape:* `gates` and `out` `(2, rows, 4 dim)`, all others
    `(2, rows, dim)`.
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
    tanh_backward_(grad_candidate, candidate)


def _ranges(batch_sizes: list[int]) -> Iterator[tuple[slice, int, int]]:
    """Yields the packed rows of each step, their number, and that of the next step."""
    start = 0
    for rows, next_rows in zip(batch_sizes, [*batch_sizes[1:], 0], strict=True):
        yield slice(start, start + rows), rows, next_rows
        start += rows


def _stacked(parts: Tensors, workspace: Workspace, dtype: torch.dtype) -> torch.Tensor:
    """Returns the tensors of both directions as one, `(2, ...)`."""
    stacked = workspace.empty(parts[0], len(parts), *parts[0].shape, dtype=dtype)
    for target, part in zip(stacked, parts, strict=True):
        target.copy_(part)
    return stacked


def _multiply(
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
        # A GPU takes longer to begin a computation than to do it: so both directions at once
        factors = rows, weight.transpose(1, 2)
        return out.copy_(torch.bmm(*factors) if bias is None else torch.baddbmm(bias.unsqueeze(1), *factors))
    for direction in range(2):
        of_direction = None if bias is None else bias[direction]
        out[direction] = product(rows[direction], weight[direction], of_direction)
    return out


def _sigmoid_backward_(gradient: torch.Tensor, value: torch.Tensor) -> None:
    """Turns the gradient of a sigmoid into that of its input, in place; `value` is the sigmoid."""
    torch.ops.aten.sigmoid_backward.grad_input(gradient, value, grad_input=gradient)


def tanh_backward_(gradient: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Turns the gradient of a tanh into that of its input, in place; `value` is the tanh."""
    return torch.ops.aten.tanh_backward.grad_input(gradient, value, grad_input=gradient)


def _clip_backward_(gradient: torch.Tensor, value: torch.Tensor, bound: float) -> None:
    """Sets the gradient to 0, in place, where a value is at its bound."""
    torch.ops.aten.hardtanh_backward.grad_input(gradient, value, -bound, bound, grad_input=gradient)
