"""
A stack of LSTM layers that read forward and backward in turn, with highway connections: the encoder of He et
al. 2017 (ACL 2017, P17-1044), section 2.1.

What autograd would record of every step is written out here, so that of the many products only the recurrent
one is left to the loop over the steps: the projections of the inputs, and the gradients of weights and
inputs, are one product over all steps of a batch. So is most of what is computed element by element.
"""

from itertools import pairwise
from typing import Any, NamedTuple

import torch
from allennlp.common.checks import ConfigurationError
from allennlp.nn.initializers import block_orthogonal
from allennlp.nn.util import get_dropout_mask
from torch import nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from elmo_tasks.elmo.linear import FrozenLinear, Linear, Matrix

GATES = 5
"""Input, forget, candidate, output and highway gate: what hidden and input make together, in this order."""


class HighwayLstm(nn.Module):
    """
    With `i, f, g, o` the gates and the candidate of an LSTM, `c` its memory, and a highway gate `r` (Zhang et
    al. 2016, arXiv:1510.08983), all from the inputs `x` and the hidden vector of the step before:

        h = r * o * tanh(c) + (1 - r) * W x

    Even layers read forward, odd ones backward. `W x` alone has no bias.

    # Parameters

    input_dim : size of an input vector.
    hidden_dim : size of an output vector, and of what is between the layers.
    num_layers : of the stack.
    dropout : probability, on the hidden vector that a step takes from the one before; one mask of a layer for
        all steps of a sequence (Gal and Ghahramani 2016, arXiv:1512.05287).
    """

    def __init__(self, *, input_dim: int, hidden_dim: int, num_layers: int, dropout: float) -> None:
        super().__init__()
        for name, value in (("input_dim", input_dim), ("hidden_dim", hidden_dim), ("num_layers", num_layers)):
            if value < 1:
                raise ConfigurationError(f"{name} is {value}, expected a positive number")
        if not 0 <= dropout < 1:
            raise ConfigurationError(f"dropout is {dropout}, expected a probability below 1")
        self.dropout = dropout
        self.output_dim = hidden_dim
        sizes = [input_dim] + [hidden_dim] * (num_layers - 1)
        self.layers = nn.ModuleList(_Weights(input_dim=size, hidden_dim=hidden_dim) for size in sizes)

    def forward(self, inputs: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """
        *Shape:* `(batch, tokens, input_dim)`, `(batch, tokens)` to `(batch, tokens, output_dim)`, zero where
        the mask is. Each sequence has a token.
        """
        packed = pack_padded_sequence(inputs, mask.sum(dim=1).cpu(), batch_first=True, enforce_sorted=False)
        # In full precision also where the rest is in mixed: a sum over many steps is what a memory is.
        with torch.autocast(inputs.device.type, enabled=False):
            outputs = self._run(packed.data.to(next(self.parameters()).dtype), packed.batch_sizes.tolist())
        packed = PackedSequence(outputs, *packed[1:])
        return pad_packed_sequence(packed, batch_first=True, total_length=mask.size(1))[0]

    def _run(self, steps: torch.Tensor, batch_sizes: list[int]) -> torch.Tensor:
        """*Shape:* `(steps, input_dim)` to `(steps, output_dim)`, packed."""
        directions = [_Course.of(batch_sizes, backward, steps.device) for backward in (False, True)]
        for number, layer in enumerate(self.layers):
            kept = None
            if self.training and self.dropout:
                # (batch, hidden_dim)
                kept = get_dropout_mask(self.dropout, steps.new_empty(batch_sizes[0], self.output_dim))
            steps = _Layer.apply(directions[number % 2], steps, layer.weight, layer.bias, layer.highway, kept)
        return steps


class _Weights(nn.Module):
    """
    *Shape:* `weight` `(GATES * hidden_dim, input_dim + hidden_dim)`, of the input and the hidden vector,
    `bias` `(GATES * hidden_dim,)`, `highway` `(hidden_dim, input_dim)`; for each gate orthogonal matrices,
    and 1 as the bias of the forget gate.
    """

    def __init__(self, *, input_dim: int, hidden_dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(GATES * hidden_dim, input_dim + hidden_dim))
        self.bias = nn.Parameter(torch.zeros(GATES * hidden_dim))
        self.highway = nn.Parameter(torch.empty(hidden_dim, input_dim))
        for part in (*self.weight.data.split([input_dim, hidden_dim], dim=1), self.highway.data):
            block_orthogonal(part, [hidden_dim, part.size(1)])
        self.bias.data.chunk(GATES)[1].fill_(1.0)


class _Step(NamedTuple):
    now: int
    """The number of a packed step."""
    before: int
    """That of the one that was read before."""
    shared: int
    """How many sequences both have: the first rows of each."""


class _Course(NamedTuple):
    """In which order a layer reads packed steps, where longer sequences come first."""

    batch_sizes: list[int]
    steps: list[_Step]
    before: torch.Tensor
    """`(steps,)`: for each packed row the same sequence's that was read before, or else their number."""
    sequence: torch.Tensor
    """`(steps,)`: the sequence of each packed row."""

    @classmethod
    def of(cls, batch_sizes: list[int], backward: bool, device: torch.device) -> "_Course":
        longest = len(batch_sizes)
        # (longest, batch): the packed row of a sequence's step, and after all of them where it has none
        rows = torch.full((longest + 2, batch_sizes[0]), sum(batch_sizes), dtype=torch.long)
        real = torch.arange(batch_sizes[0]) < torch.tensor(batch_sizes).unsqueeze(1)
        rows[1:-1][real] = torch.arange(sum(batch_sizes))
        before = (rows[2:] if backward else rows[:-2])[real]
        sequence = torch.arange(batch_sizes[0]).expand(longest, -1)[real]
        order = range(longest)[:: -1 if backward else 1]
        steps = [_Step(order[0], order[0], 0)] + [
            _Step(now, last, min(batch_sizes[now], batch_sizes[last])) for last, now in pairwise(order)
        ]
        return cls(batch_sizes, steps, before.to(device), sequence.to(device))

    def taken(self, rows: torch.Tensor) -> torch.Tensor:
        """*Shape:* packed rows `(steps, size)` to those of the step read before, zero where there is none."""
        return torch.cat([rows, rows.new_zeros(1, rows.size(1))]).index_select(0, self.before)


class _Layer(Function):
    """
    `apply(course, inputs, weight, bias, highway, kept)`: packed inputs `(steps, input_dim)`, the weights, and
    `(batch, hidden_dim)`, by what a hidden vector is scaled that a step takes, or `None`; to `(steps,
    hidden_dim)`.
    """

    @staticmethod
    def forward(
        ctx: Any,
        course: _Course,
        inputs: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor,
        highway: torch.Tensor,
        kept: torch.Tensor | None,
    ) -> torch.Tensor:
        dim, size = highway.shape
        # tanh x is 2 sigmoid 2x - 1, which PyTorch computes several times as fast on a CPU: so one sigmoid is
        # enough for all gates once what the candidate's is of is doubled.
        scale = torch.ones_like(bias)
        scale[2 * dim : 3 * dim] = 2
        scaled = weight * scale.unsqueeze(1)
        from_hidden = _times(scaled[:, size:])
        # (steps, GATES * dim), (steps, dim)
        gates = _times(scaled[:, :size])(inputs, bias * scale, None)
        straight = _times(highway)(inputs, None, None)
        hidden, memory, squashed = (torch.empty_like(straight) for _ in range(3))
        gates_of, straight_of, hidden_of, memory_of, squashed_of = (
            part.split(course.batch_sizes) for part in (gates, straight, hidden, memory, squashed)
        )
        for now, before, shared in course.steps:
            if shared:
                last = hidden_of[before][:shared]
                last = last if kept is None else last * kept[:shared]
                gates_of[now][:shared].add_(from_hidden(last, None, None))
            # GATES times (rows, dim)
            input_gate, forget_gate, candidate, output_gate, highway_gate = (
                gates_of[now].sigmoid_().chunk(GATES, 1)
            )
            candidate.mul_(2).sub_(1)
            # (rows, dim)
            memory_now = torch.mul(input_gate, candidate, out=memory_of[now])
            memory_now[:shared].addcmul_(forget_gate[:shared], memory_of[before][:shared])
            tanh = torch.mul(memory_now, 2, out=squashed_of[now]).sigmoid_().mul_(2).sub_(1)
            torch.lerp(straight_of[now], output_gate * tanh, highway_gate, out=hidden_of[now])
        ctx.course = course
        ctx.save_for_backward(inputs, weight, highway, kept, gates, straight, hidden, memory, squashed)
        return hidden

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_outputs: torch.Tensor) -> Any:
        course = ctx.course
        inputs, weight, highway, kept, gates, straight, hidden, memory, squashed = ctx.saved_tensors
        dim, size = highway.shape
        input_gate, forget_gate, candidate, output_gate, highway_gate = gates.chunk(GATES, 1)
        # (steps, GATES * dim): how a gate before its sigmoid or tanh acts on the memory (the first three) or
        # on the hidden vector (the others). The slope of a sigmoid is s - s^2, that of tanh 1 - t^2.
        of_gates = torch.addcmul(gates, gates, gates, value=-1)
        torch.mul(candidate, candidate, out=of_gates[:, 2 * dim : 3 * dim]).neg_().add_(1)
        raw = output_gate * squashed
        factors = (candidate, course.taken(memory), input_gate, highway_gate * squashed, raw - straight)
        for slope, factor in zip(of_gates.chunk(GATES, 1), factors, strict=True):
            slope.mul_(factor)
        # (steps, dim): how the memory acts on the hidden vector
        through = (output_gate - raw.mul_(squashed)).mul_(highway_gate)
        of_hidden, of_memory = of_outputs.clone(), torch.zeros_like(memory)
        by_memory, by_hidden = of_gates.view(-1, GATES, dim).split([3, 2], dim=1)
        of_gates_of, by_memory_of, by_hidden_of, through_of, of_hidden_of, of_memory_of, forget_of = (
            part.split(course.batch_sizes)
            for part in (of_gates, by_memory, by_hidden, through, of_hidden, of_memory, forget_gate)
        )
        to_hidden = _times(weight[:, size:].t())
        for now, before, shared in reversed(course.steps):
            of_memory_now = of_memory_of[now].addcmul_(of_hidden_of[now], through_of[now])
            by_memory_of[now].mul_(of_memory_now.unsqueeze(1))
            by_hidden_of[now].mul_(of_hidden_of[now].unsqueeze(1))
            if shared:
                of_last = to_hidden(of_gates_of[now][:shared], None, None)
                of_last = of_last if kept is None else of_last.mul_(kept[:shared])
                of_hidden_of[before][:shared].add_(of_last)
                of_memory_of[before][:shared].addcmul_(of_memory_now[:shared], forget_of[now][:shared])
        of_straight = torch.addcmul(of_hidden, of_hidden, highway_gate, value=-1)
        taken = course.taken(hidden)
        if kept is not None:
            taken *= kept.index_select(0, course.sequence)
        of_inputs = _times(weight[:, :size].t())(of_gates, None, None)
        return (
            None,
            of_inputs.add_(_times(highway.t())(of_straight, None, None)),
            of_gates.t() @ torch.cat([inputs, taken], dim=1),
            of_gates.sum(dim=0),
            of_straight.t() @ inputs,
            None,
        )


def _times(weight: torch.Tensor) -> Matrix:
    """`inputs @ weight.T + bias + addend`, with a weight that many rows are multiplied with."""
    if weight.dtype == torch.float32:
        return FrozenLinear(precision="float32").prepared(weight)
    return lambda inputs, bias, addend: Linear()(inputs, weight, bias, addend)
