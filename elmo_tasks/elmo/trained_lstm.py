"""
One layer of the biLSTM with gradients, both directions at once.

What autograd would record of every step is written out here: each step works in place on what it leaves for
the way back, and the gradients of the weights are one product over all steps instead of a sum of small ones.
"""

from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple

import torch
from torch.autograd import Function

from elmo_tasks.elmo.linear import prepared
from elmo_tasks.elmo.side_by_side import side_by_side

Tensors = tuple[torch.Tensor, ...]


class LstmWeights(NamedTuple):
    """Of one layer in one direction; the gates are in the order i, f, candidate, o."""

    weight: torch.Tensor
    """`(4 dim, 2 projection_dim)`: for the input, and for the hidden of the step before."""
    bias: torch.Tensor
    """`(4 dim,)`"""
    projection: torch.Tensor | None
    """`(projection_dim, dim)`"""


class Saved(NamedTuple):
    """What the way back needs of the way there, packed."""

    inputs: torch.Tensor
    """`(steps, projection_dim)`"""
    memory: torch.Tensor
    """`(steps, dim)`"""
    squashed: torch.Tensor
    """`(steps, dim)`: tanh of the memory."""
    raw: torch.Tensor
    """`(steps, dim)`: what is projected."""
    outputs: torch.Tensor
    """`(steps, projection_dim)`"""
    hidden: torch.Tensor
    """`(batch, projection_dim)`: at the start."""
    start: torch.Tensor
    """`(batch, dim)`: the memory at the start."""


class There(NamedTuple):
    """Of the way there, what is saved."""

    saved: Saved
    gates: list[torch.Tensor]
    """Of each step, `(rows, 4 dim)`, behind their sigmoid or tanh."""

    def results(self, last: list[int]) -> Tensors:
        """The outputs, and the hidden and the memory at the end: the rows `last`, see `_last_rows`."""
        saved = self.saved
        hidden, memory = torch.cat([saved.hidden, saved.outputs]), torch.cat([saved.start, saved.memory])
        return saved.outputs, hidden[last], memory[last]


class Clips(NamedTuple):
    """Bounds of the absolute value; 0 for none."""

    cell: float
    projection: float


class TrainedLayer(Function):
    """
    `apply(batch_sizes, clips, *tensors)`: of each direction the inputs, the hidden and the memory at the
    start, and its three `LstmWeights`; to, of each direction, the outputs and the hidden and the memory at
    the end. All packed as `PackedSteps`, sequences by falling length.
    """

    @staticmethod
    def forward(ctx: Any, batch_sizes: list[int], clips: Clips, *tensors: Any) -> Tensors:
        halves = tensors[:6], tensors[6:]
        forward, backward = side_by_side(
            *(partial(_there, batch_sizes, clips, LstmWeights(*half[3:]), *half[:3]) for half in halves)
        )
        ctx.batch_sizes, ctx.clips, ctx.gates = batch_sizes, clips, (forward.gates, backward.gates)
        ctx.save_for_backward(*forward.saved, *backward.saved, *halves[0][3:], *halves[1][3:])
        last = _last_rows(batch_sizes, len(halves[0][1]))
        return *forward.results(last), *backward.results(last)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        found, number = ctx.saved_tensors, len(Saved._fields)
        saved, weights = found[: 2 * number], found[2 * number :]
        forward, backward = side_by_side(
            *(
                partial(
                    _back,
                    ctx.batch_sizes,
                    ctx.clips,
                    LstmWeights(*weights[3 * half : 3 * half + 3]),
                    Saved(*saved[number * half : number * (half + 1)]),
                    ctx.gates[half],
                    *gradients[3 * half : 3 * half + 3],
                )
                for half in range(2)
            )
        )
        return None, None, *forward, *backward


def _last_rows(batch_sizes: list[int], batch: int) -> list[int]:
    """For each sequence, the row of its end among those of the starts and, below them, of all steps."""
    last, first = list(range(batch)), batch
    for size in batch_sizes:
        last[:size] = range(first, first + size)
        first += size
    return last


def _rows_before(batch_sizes: list[int], batch: int) -> torch.Tensor:
    """*Shape:* `(steps,)`: for each step the row of the one before, counted in the same way."""
    firsts = [0, *accumulate([batch, *batch_sizes])]
    return torch.cat(
        [torch.arange(first, first + size) for first, size in zip(firsts, batch_sizes, strict=False)]
    )


def _there(
    batch_sizes: list[int],
    clips: Clips,
    weights: LstmWeights,
    inputs: torch.Tensor,
    hidden: torch.Tensor,
    memory: torch.Tensor,
) -> There:
    dim, size = memory.size(1), inputs.size(1)
    # tanh x is 2 sigmoid 2x - 1, which PyTorch computes several times as fast on a CPU: so one sigmoid is
    # enough for all gates once what the candidate's is of is doubled.
    recurrent_weight = weights.weight[:, size:].clone(memory_format=torch.contiguous_format)
    recurrent_weight[2 * dim : 3 * dim] *= 2
    recurrent = prepared(recurrent_weight)
    project = None if weights.projection is None else prepared(weights.projection)
    from_inputs = torch.addmm(weights.bias, inputs, weights.weight[:, :size].t())
    from_inputs[:, 2 * dim : 3 * dim] *= 2
    of_steps = []
    memories, squashed, raw = (inputs.new_empty(len(inputs), dim) for _ in range(3))
    outputs = raw if project is None else torch.empty_like(inputs)
    saved = Saved(inputs, memories, squashed, raw, outputs, hidden, memory)
    start = 0
    for rows, from_input in zip(batch_sizes, from_inputs.split(batch_sizes), strict=True):
        now = slice(start, start + rows)
        start += rows
        # (rows, 4 dim), and views of it, four times (rows, dim)
        of_step = recurrent(hidden[:rows], None, from_input).sigmoid_()
        of_steps.append(of_step)
        input_gate, forget_gate, candidate, output_gate = of_step.chunk(4, dim=1)
        candidate.mul_(2).sub_(1)
        memory = torch.mul(forget_gate, memory[:rows], out=memories[now])
        memory.addcmul_(input_gate, candidate)
        if clips.cell:
            memory.clamp_(-clips.cell, clips.cell)
        torch.mul(memory, 2, out=squashed[now]).sigmoid_().mul_(2).sub_(1)
        hidden = torch.mul(output_gate, squashed[now], out=raw[now])
        if project is not None:
            hidden = outputs[now].copy_(project(hidden, None, None))
            if clips.projection:
                hidden.clamp_(-clips.projection, clips.projection)
    return There(saved, of_steps)


def _back(
    batch_sizes: list[int],
    clips: Clips,
    weights: LstmWeights,
    saved: Saved,
    saved_gates: list[torch.Tensor],
    of_outputs: torch.Tensor,
    of_hidden: torch.Tensor,
    of_memory: torch.Tensor,
) -> tuple[torch.Tensor | None, ...]:
    """The gradients of inputs, hidden and memory at the start, and the weights."""
    dim, size = saved.memory.size(1), saved.inputs.size(1)
    for_input, recurrent = weights.weight[:, :size], weights.weight[:, size:]
    of_gates = saved.inputs.new_empty(len(saved.inputs), 4 * dim)
    of_outputs, of_hidden, of_memory = of_outputs.clone(), of_hidden.clone(), of_memory.clone()
    memories = torch.cat([saved.start, saved.memory])
    end, batch = len(of_outputs), len(saved.start)
    for step, rows in reversed(list(enumerate(batch_sizes))):
        now = slice(end - rows, end)
        end -= rows
        first_before = batch + end - batch_sizes[step - 1] if step else 0
        memory_before = memories[first_before : first_before + rows]
        gates, squashed = saved_gates[step], saved.squashed[now]
        input_gate, forget_gate, candidate, output_gate = gates.chunk(4, dim=1)
        # (rows, projection_dim), (rows, dim)
        of_raw = of_output = of_outputs[now].add_(of_hidden[:rows])
        if weights.projection is not None:
            if clips.projection:
                _not_clipped(of_output, saved.outputs[now], clips.projection)
            of_raw = of_output @ weights.projection
        # The slope of tanh is 1 - tanh^2.
        of_now = of_raw * output_gate
        of_now.addcmul_(of_now * squashed, squashed, value=-1).add_(of_memory[:rows])
        if clips.cell:
            _not_clipped(of_now, saved.memory[now], clips.cell)
        of_step = of_gates[now]
        of_input, of_forget, of_candidate, of_output_gate = of_step.chunk(4, dim=1)
        torch.mul(of_now, candidate, out=of_input)
        torch.mul(of_now, memory_before, out=of_forget)
        torch.mul(of_now, input_gate, out=of_candidate)
        torch.mul(of_raw, squashed, out=of_output_gate)
        # That of the sigmoid is s - s^2.
        slopes = torch.addcmul(gates, gates, gates, value=-1)
        torch.mul(candidate, candidate, out=slopes[:, 2 * dim : 3 * dim]).neg_().add_(1)
        of_step.mul_(slopes)
        torch.mul(of_now, forget_gate, out=of_memory[:rows])
        torch.mm(of_step, recurrent, out=of_hidden[:rows])
    hidden_before = torch.cat([saved.hidden, saved.outputs])[_rows_before(batch_sizes, batch)]
    of_weight = of_gates.t() @ torch.cat([saved.inputs, hidden_before], dim=1)
    of_projection = None if weights.projection is None else of_outputs.t() @ saved.raw
    return of_gates @ for_input, of_hidden, of_memory, of_weight, of_gates.sum(dim=0), of_projection


def _not_clipped(gradient: torch.Tensor, value: torch.Tensor, bound: float) -> None:
    """In place: no gradient where a value stands at its bound."""
    torch.ops.aten.hardtanh_backward.grad_input(gradient, value, -bound, bound, grad_input=gradient)
