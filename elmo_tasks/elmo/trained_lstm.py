"""
One layer of the biLSTM with gradients, both directions at once.

What autograd would record of every step is written out here: each step is a few computations over both
directions, and the gradients of the weights are one product over all steps instead of a sum of small ones.
"""

from itertools import pairwise
from typing import Any, NamedTuple, cast

import torch
from torch.autograd import Function
from torch.nn import functional as F

Tensors = tuple[torch.Tensor, ...]


class Clips(NamedTuple):
    """Bounds of the absolute value; 0 for none."""

    cell: float
    projection: float


class Step(NamedTuple):
    """What the way back needs of a step of both directions."""

    gates: torch.Tensor
    """`(2, rows, 4 dim)`, behind their sigmoid or tanh, in the order i, f, candidate, o."""
    memory: torch.Tensor
    """`(2, rows, dim)`"""
    squashed: torch.Tensor
    """`(2, rows, dim)`: tanh of the memory."""
    raw: torch.Tensor
    """`(2, rows, dim)`: what is projected."""
    hidden: torch.Tensor
    """`(2, rows, projection_dim)`"""


def trained_layer(batch_sizes: list[int], clips: Clips, *tensors: Any) -> Tensors:
    """`TrainedLayer`, or PyTorch's own LSTM, which is faster, where that computes the same."""
    inputs, hidden, memory, weight, bias, projection = zip(tensors[:6], tensors[6:], strict=True)
    same_length = len(hidden[0]) == batch_sizes[0] == batch_sizes[-1]
    if any(clips) or projection[0] is not None or not same_length:
        return cast(Tensors, TrainedLayer.apply(batch_sizes, clips, *tensors))
    found: list[torch.Tensor] = []
    for rows, *start, both, shift in zip(inputs, hidden, memory, weight, bias, strict=True):
        weights = [*both.split(rows.size(1), dim=1), shift, torch.zeros_like(shift)]
        # (steps, batch, size), twice (1, batch, size)
        outputs, *ends = torch.lstm(
            rows.view(len(batch_sizes), -1, rows.size(1)),
            [part.unsqueeze(0) for part in start],
            [part.contiguous() for part in weights],
            has_biases=True,
            num_layers=1,
            dropout=0.0,
            train=True,
            bidirectional=False,
            batch_first=False,
        )
        found += [outputs.flatten(0, 1), *(end.squeeze(0) for end in ends)]
    return tuple(found)


class TrainedLayer(Function):
    """
    `apply(batch_sizes, clips, *tensors)`: of each direction the inputs, the hidden and the memory at the
    start, and the weights of a `ProjectedLstm`: `weight`, `bias`, and `projection` or `None`; to, of each
    direction, the outputs and the hidden and the memory at the end. All packed as `PackedSteps`, sequences by
    falling length.
    """

    @staticmethod
    def forward(ctx: Any, batch_sizes: list[int], clips: Clips, *tensors: Any) -> Tensors:
        inputs, hidden, memory, weight, bias, projection = zip(tensors[:6], tensors[6:], strict=True)
        start = torch.stack(hidden), torch.stack(memory)
        steps, ends = _there(batch_sizes, clips, inputs, start, weight, bias, projection)
        ctx.batch_sizes, ctx.clips, ctx.steps, ctx.start = batch_sizes, clips, steps, start
        ctx.save_for_backward(*inputs, *weight, *projection)
        return tuple(
            tensor
            for direction in range(2)
            for tensor in (
                torch.cat([step.hidden[direction] for step in steps]),
                *(end[direction].clone() for end in ends),
            )
        )

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        inputs, weight, projection = (ctx.saved_tensors[first : first + 2] for first in (0, 2, 4))
        of_outputs, *of_ends = (torch.stack(pair) for pair in zip(gradients[:3], gradients[3:], strict=True))
        of_start, of_gates, of_outputs = _back(
            ctx.batch_sizes, ctx.clips, ctx.steps, ctx.start, weight, projection, of_outputs, of_ends
        )
        # (2, steps, projection_dim), (2, steps, dim)
        before = _before(ctx.batch_sizes, ctx.start[0], [step.hidden for step in ctx.steps])
        raw = torch.cat([step.raw for step in ctx.steps], dim=1) if projection[0] is not None else None
        found: list[torch.Tensor | None] = []
        for direction in range(2):
            gates, size = of_gates[direction], inputs[direction].size(1)
            found += [
                gates @ weight[direction][:, :size],
                *(part[direction] for part in of_start),
                gates.t() @ torch.cat([inputs[direction], before[direction]], dim=1),
                gates.sum(dim=0),
                None if raw is None else of_outputs[direction].t() @ raw[direction],
            ]
        return None, None, *found


def _there(
    batch_sizes: list[int],
    clips: Clips,
    inputs: Tensors,
    start: tuple[torch.Tensor, torch.Tensor],
    weight: Tensors,
    bias: Tensors,
    projection: tuple[torch.Tensor | None, ...],
) -> tuple[list[Step], tuple[torch.Tensor, torch.Tensor]]:
    """Each step, and the hidden and the memory at the end, `(2, batch, ...)`."""
    hidden, memory = start
    dim, size = memory.size(2), inputs[0].size(1)
    # tanh x is 2 sigmoid 2x - 1, which PyTorch computes several times as fast on a CPU: so one sigmoid is
    # enough for all gates once what the candidate's is of is doubled.
    doubled = slice(2 * dim, 3 * dim)
    recurrent = torch.stack([part[:, size:] for part in weight])
    recurrent[:, doubled] *= 2
    projected = []
    for of_direction in range(2):
        gates = torch.addmm(bias[of_direction], inputs[of_direction], weight[of_direction][:, :size].t())
        gates[:, doubled] *= 2
        projected.append(gates.split(batch_sizes))
    project = _stacked(projection)
    last = hidden.clone(), memory.clone()
    steps = []
    for (rows, still), *from_inputs in zip(pairwise([*batch_sizes, 0]), *projected, strict=True):
        # (2, rows, 4 dim), and views of it, four times (2, rows, dim)
        gates = _product(hidden[:, :rows], recurrent, torch.stack(from_inputs)).sigmoid_()
        input_gate, forget_gate, candidate, output_gate = gates.chunk(4, dim=2)
        candidate.mul_(2).sub_(1)
        memory = (forget_gate * memory[:, :rows]).addcmul_(input_gate, candidate)
        if clips.cell:
            memory.clamp_(-clips.cell, clips.cell)
        squashed = (memory * 2).sigmoid_().mul_(2).sub_(1)
        raw = hidden = output_gate * squashed
        if project is not None:
            hidden = _product(raw, project)
            if clips.projection:
                hidden.clamp_(-clips.projection, clips.projection)
        steps.append(Step(gates, memory, squashed, raw, hidden))
        if still < rows:
            for end, part in zip(last, (hidden, memory), strict=True):
                end[:, still:rows] = part[:, still:]
    return steps, last


def _product(rows: torch.Tensor, weight: torch.Tensor, addend: torch.Tensor | None = None) -> torch.Tensor:
    """
    *Shape:* `(2, rows, in)`, `(2, out, in)`, and `(2, rows, out)`, which may be computed over, to
    `(2, rows, out)`. Of at least 16 rows: BLAS adds up fewer in another order, see `linear.py`.
    """
    weight, missing = weight.transpose(1, 2), 16 - rows.size(1)
    if addend is not None and missing <= 0:
        return addend.baddbmm_(rows, weight)
    product = torch.bmm(F.pad(rows, (0, 0, 0, max(0, missing))), weight)[:, : rows.size(1)]
    return product.contiguous() if addend is None else product + addend


def _back(
    batch_sizes: list[int],
    clips: Clips,
    steps: list[Step],
    start: tuple[torch.Tensor, torch.Tensor],
    weight: Tensors,
    projection: tuple[torch.Tensor | None, ...],
    of_outputs: torch.Tensor,
    of_ends: list[torch.Tensor],
) -> tuple[list[torch.Tensor], torch.Tensor, torch.Tensor]:
    """
    The gradients of hidden and memory at the start, `(2, batch, ...)`, of the gates before their sigmoid or
    tanh, `(2, steps, 4 dim)`, and of what the projection gives, `(2, steps, projection_dim)`.
    """
    of_hidden, of_memory = of_ends
    dim, size = of_memory.size(2), of_hidden.size(2)
    recurrent = torch.stack([part[:, size:] for part in weight])
    project = _stacked(projection)
    of_gates, of_projected = [], []
    earlier = [start[1], *(step.memory for step in steps[:-1])]
    for step, before, rows, of_output in zip(
        *(part[::-1] for part in (steps, earlier, batch_sizes, of_outputs.split(batch_sizes, dim=1))),
        strict=True,
    ):
        input_gate, forget_gate, candidate, output_gate = step.gates.chunk(4, dim=2)
        # (2, rows, projection_dim), (2, rows, dim)
        of_raw = of_output = of_output + of_hidden[:, :rows]
        if project is not None:
            if clips.projection:
                _not_clipped(of_output, step.hidden, clips.projection)
            of_raw = torch.bmm(of_output, project)
        # The slope of tanh is 1 - tanh^2.
        of_now = of_raw * output_gate
        of_now.addcmul_(of_now * step.squashed, step.squashed, value=-1).add_(of_memory[:, :rows])
        if clips.cell:
            _not_clipped(of_now, step.memory, clips.cell)
        of_step = torch.empty_like(step.gates)
        of_input, of_forget, of_candidate, of_output_gate = of_step.chunk(4, dim=2)
        torch.mul(of_now, candidate, out=of_input)
        torch.mul(of_now, before[:, :rows], out=of_forget)
        torch.mul(of_now, input_gate, out=of_candidate)
        torch.mul(of_raw, step.squashed, out=of_output_gate)
        # That of the sigmoid is s - s^2.
        slopes = torch.addcmul(step.gates, step.gates, step.gates, value=-1)
        torch.mul(candidate, candidate, out=slopes[:, :, 2 * dim : 3 * dim]).neg_().add_(1)
        of_gates.append(of_step.mul_(slopes))
        of_projected.append(of_output)
        of_memory[:, :rows] = of_now.mul_(forget_gate)
        of_hidden[:, :rows] = torch.bmm(of_step, recurrent)
    of_outputs = torch.cat(of_projected[::-1], dim=1) if project is not None else of_outputs
    return [of_hidden, of_memory], torch.cat(of_gates[::-1], dim=1), of_outputs


def _before(batch_sizes: list[int], start: torch.Tensor, parts: list[torch.Tensor]) -> torch.Tensor:
    """*Shape:* of each step what the one before has, `(2, steps, size)`."""
    earlier = zip(batch_sizes, [start, *parts[:-1]], strict=True)
    return torch.cat([part[:, :rows] for rows, part in earlier], dim=1)


def _stacked(parts: tuple[torch.Tensor | None, ...]) -> torch.Tensor | None:
    given = [part for part in parts if part is not None]
    return torch.stack(given) if given else None


def _not_clipped(gradient: torch.Tensor, value: torch.Tensor, bound: float) -> None:
    """In place: no gradient where a value stands at its bound."""
    torch.ops.aten.hardtanh_backward.grad_input(gradient, value, -bound, bound, grad_input=gradient)
