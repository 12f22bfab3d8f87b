"""
A stack of LSTM layers that read forward and backward in turn, with highway connections: the encoder of He et
al. 2017 (ACL 2017, P17-1044), section 2.1.

What autograd would record of every step is written out here, so that of the many products only the
recurrent one is left to the loop over the steps: the projections of the inputs, and the gradients of inputs
and weights, are one product over all steps of a batch.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from allennlp.nn.initializers import block_orthogonal
from allennlp.nn.util import get_dropout_mask
from torch import nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional as F
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from elmo_tasks.elmo.inference.packed_weights import has_onednn

GATES = 5
"""Input and forget gate, candidate, output and highway gate: what is made of input and hidden together."""

Multiply = Callable[[torch.Tensor, torch.Tensor | None], torch.Tensor]
"""Rows and a bias to `rows @ weight.T + bias`."""


class HighwayLstm(nn.Module):
    """
    With `i, f, g, o` the gates and the candidate of an LSTM, `c` its cell, and `r` a highway gate (Zhang et
    al. 2016, arXiv:1510.08983), all of the input `x` and the hidden vector of the step before:

        h = r * o * tanh(c) + (1 - r) * W x

    Even layers read forward, odd ones backward.

    # Parameters

    input_dim : size of an input vector.
    hidden_dim : size of a hidden vector, which is an output.
    num_layers : of the stack.
    dropout : probability, on the hidden vector that a step takes from the one before; one mask of a layer for
        all steps of a sequence (Gal and Ghahramani 2016, arXiv:1512.05287). The next layer reads the vector
        without it, as in AllenNLP's `StackedAlternatingLstm`; in the code of He et al. it reads that with it.
    """

    def __init__(self, *, input_dim: int, hidden_dim: int, num_layers: int, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.output_dim = hidden_dim
        self.layers = nn.ModuleList(
            _Weights(input_dim=hidden_dim if layer else input_dim, hidden_dim=hidden_dim)
            for layer in range(num_layers)
        )

    def forward(self, inputs: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """
        *Shape:* `(batch, tokens, input_dim)`, `(batch, tokens)` to `(batch, tokens, output_dim)`, zero where
        the mask is. Each sequence has a token.
        """
        lengths = mask.sum(dim=1).cpu()
        packed = pack_padded_sequence(inputs, lengths, batch_first=True, enforce_sorted=False)
        # In full precision also where the rest is in mixed: a cell is a sum over many steps.
        with torch.autocast(inputs.device.type, enabled=False):
            # (steps, output_dim)
            outputs = self._run(packed.data.to(next(self.parameters()).dtype), packed.batch_sizes.tolist())
        repacked = PackedSequence(outputs, *packed[1:])
        return pad_packed_sequence(repacked, batch_first=True, total_length=mask.size(1))[0]

    def _run(self, steps: torch.Tensor, batch_sizes: list[int]) -> torch.Tensor:
        """*Shape:* packed steps of all sequences, `(steps, input_dim)` to `(steps, output_dim)`."""
        courses = _course(batch_sizes, backward=False), _course(batch_sizes, backward=True)
        for number, layer in enumerate(self.layers):
            dropout_mask = None
            if self.training and self.dropout:
                # (batch, hidden_dim)
                dropout_mask = get_dropout_mask(
                    self.dropout, steps.new_empty(batch_sizes[0], self.output_dim)
                )
            weights = layer.weight, layer.bias, layer.highway
            steps = _Layer.apply(batch_sizes, courses[number % 2], steps, *weights, dropout_mask)
        return steps


class _Weights(nn.Module):
    """
    *Shape:* `weight` `(GATES * hidden_dim, input_dim + hidden_dim)`, of the input and the hidden vector,
    `bias` `(GATES * hidden_dim,)`, `highway` `(hidden_dim, input_dim)`, which is `W`. They begin with an
    orthogonal matrix for each gate, and 1 as the bias of the forget gate.
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
    """The number of the packed step that was read before."""
    shared: int
    """How many sequences have both: the first rows of each, since longer sequences come first."""


def _course(batch_sizes: list[int], *, backward: bool) -> list[_Step]:
    """In which order a layer reads the steps."""
    order = range(len(batch_sizes))[:: -1 if backward else 1]
    return [_Step(order[0], order[0], 0)] + [
        _Step(now, before, min(batch_sizes[now], batch_sizes[before])) for before, now in pairwise(order)
    ]


class _Values(NamedTuple):
    """What a layer computes, of all packed steps or of one. *Shape:* `(steps, hidden_dim)` if not said."""

    gates: torch.Tensor
    """`(steps, GATES * hidden_dim)`, behind their sigmoid or tanh."""
    straight: torch.Tensor
    """`W x`"""
    taken: torch.Tensor
    """The hidden vector of the step before, behind its dropout."""
    cell: torch.Tensor
    tanh: torch.Tensor
    """The tanh of the cell."""
    hidden: torch.Tensor

    def by_step(self, batch_sizes: list[int]) -> list["_Values"]:
        return [_Values(*parts) for parts in zip(*(part.split(batch_sizes) for part in self), strict=True)]


class _Gradients(NamedTuple):
    """The gradients of all packed steps or of one. *Shape:* as in `_Values`."""

    gates: torch.Tensor
    """The gradients of the gates before their sigmoid or tanh."""
    hidden: torch.Tensor
    cell: torch.Tensor


class _Layer(Function):
    """
    `apply(batch_sizes, course, inputs, weight, bias, highway, dropout_mask)`: packed inputs `(steps,
    input_dim)`, the weights, and the dropout mask of the hidden vector that a step takes, `(batch,
    hidden_dim)`, or `None`; to `(steps, hidden_dim)`.
    """

    @staticmethod
    def forward(
        ctx: Any,
        batch_sizes: list[int],
        course: list[_Step],
        inputs: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor,
        highway: torch.Tensor,
        dropout_mask: torch.Tensor | None,
    ) -> torch.Tensor:
        dim, size = highway.shape
        # tanh x is 2 sigmoid 2x - 1, which PyTorch computes several times as fast on a CPU: so one sigmoid is
        # enough for all gates once what the candidate's is of is doubled.
        scale = torch.ones_like(bias)
        scale[2 * dim : 3 * dim] = 2
        for_input, for_hidden = (weight * scale.unsqueeze(1)).split([size, dim], dim=1)
        multiply = _times(for_hidden)
        straight = _times(highway)(inputs, None)
        values = _Values(
            _times(for_input)(inputs, bias * scale),
            straight,
            torch.zeros_like(straight),
            *(torch.empty_like(straight) for _ in range(3)),
        )
        steps = values.by_step(batch_sizes)
        for now, before, shared in course:
            gates, straight, taken, cell, tanh, hidden = steps[now]
            if shared:
                # (shared, dim)
                last = taken[:shared].copy_(steps[before].hidden[:shared])
                last = last if dropout_mask is None else last.mul_(dropout_mask[:shared])
                gates[:shared].add_(multiply(last, None))
            # GATES times (rows, dim)
            input_gate, forget_gate, candidate, output_gate, highway_gate = gates.sigmoid_().chunk(GATES, 1)
            torch.mul(input_gate, candidate.mul_(2).sub_(1), out=cell)
            cell[:shared].addcmul_(forget_gate[:shared], steps[before].cell[:shared])
            torch.mul(cell, 2, out=tanh).sigmoid_().mul_(2).sub_(1)
            torch.lerp(straight, output_gate * tanh, highway_gate, out=hidden)
        ctx.batch_sizes, ctx.course = batch_sizes, course
        ctx.save_for_backward(inputs, weight, highway, dropout_mask, *values)
        return values.hidden

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_outputs: torch.Tensor) -> Any:
        inputs, weight, highway, dropout_mask, *saved = ctx.saved_tensors
        values, size = _Values(*saved), inputs.size(1)
        for_input, for_hidden = weight[:, :size], weight[:, size:]
        multiply = _times(for_hidden.t())
        gradients = _Gradients(
            torch.empty_like(values.gates), grad_outputs.clone(), torch.zeros_like(values.cell)
        )
        grad_steps = [
            _Gradients(*parts)
            for parts in zip(*(part.split(ctx.batch_sizes) for part in gradients), strict=True)
        ]
        steps = values.by_step(ctx.batch_sizes)
        for now, before, shared in reversed(ctx.course):
            gates, straight, _, _, tanh, _ = steps[now]
            grad_gates, grad_hidden, grad_cell = grad_steps[now]
            # GATES times (rows, dim)
            input_gate, forget_gate, candidate, output_gate, highway_gate = gates.chunk(GATES, 1)
            # (rows, dim)
            raw, grad_raw = output_gate * tanh, grad_hidden * highway_gate
            # The slope of tanh is 1 - t^2, that of a sigmoid s - s^2.
            grad_cell.add_((output_gate - raw * tanh).mul_(grad_raw))
            torch.addcmul(gates, gates, gates, value=-1, out=grad_gates)
            grad_input_gate, grad_forget_gate, grad_candidate, grad_output_gate, grad_highway_gate = (
                grad_gates.chunk(GATES, 1)
            )
            grad_input_gate.mul_(candidate * grad_cell)
            grad_forget_gate[:shared].mul_(steps[before].cell[:shared] * grad_cell[:shared])
            grad_forget_gate[shared:] = 0
            torch.mul(candidate, candidate, out=grad_candidate).neg_().add_(1).mul_(input_gate * grad_cell)
            grad_output_gate.mul_(grad_raw.mul_(tanh))
            grad_highway_gate.mul_(raw.sub_(straight).mul_(grad_hidden))
            if shared:
                grad_taken = multiply(grad_gates[:shared], None)
                grad_taken = grad_taken if dropout_mask is None else grad_taken.mul_(dropout_mask[:shared])
                grad_steps[before].hidden[:shared].add_(grad_taken)
                grad_steps[before].cell[:shared].addcmul_(grad_cell[:shared], forget_gate[:shared])
        # (steps, GATES * dim), (steps, dim)
        grad_gates, highway_gate = gradients.gates, values.gates.chunk(GATES, 1)[-1]
        grad_straight = torch.addcmul(gradients.hidden, gradients.hidden, highway_gate, value=-1)
        return (
            None,
            None,
            _times(for_input.t())(grad_gates, None).add_(_times(highway.t())(grad_straight, None)),
            grad_gates.t() @ torch.cat([inputs, values.taken], dim=1),
            grad_gates.sum(dim=0),
            grad_straight.t() @ inputs,
            None,
        )


def _times(weight: torch.Tensor) -> Multiply:
    """The product with a weight, for many rows."""
    if weight.dtype == torch.float32 and weight.device.type == "cpu" and has_onednn():
        packed = torch.ops.mkldnn._reorder_linear_weight(weight)
        return lambda rows, bias: torch.ops.mkldnn._linear_pointwise(rows, packed, bias, "none", [], "")
    return lambda rows, bias: F.linear(rows, weight, bias)
