"""
A stack of LSTM layers that read forward and backward in turn, with highway connections: the encoder of He et
al. 2017 (ACL 2017, P17-1044), section 2.1.

Its backward pass is written out, so that the loop over the steps holds no other product than the recurrent
one: the projections of the inputs, and the gradients of inputs and weights, are one product over all steps of
a batch.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

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
"""
Input gate, forget gate, candidate, output gate and highway gate, each of the input and the hidden vector.
"""

_Step = tuple[int, int, int]
"""A packed step, the step read before it, and the number of sequences in both, which have the first rows."""


class HighwayLstm(nn.Module):
    """
    An LSTM with the hidden vector h = r * o * tanh(c) + (1 - r) * W x, where `o` is the output gate, `c` the
    cell, and `r` a highway gate (Zhang et al. 2016, arXiv:1510.08983) of the input `x` and the hidden vector
    of the step before. Even layers read forward, odd layers backward.

    # Parameters

    input_dim : size of an input vector.
    hidden_dim : size of a hidden vector, which is an output.
    num_layers : number of layers.
    dropout : probability, on the hidden vector that a step takes from the step before; a layer has one mask
        for all steps of a sequence (Gal and Ghahramani 2016, arXiv:1512.05287). The next layer reads the
        vector without dropout, as in AllenNLP's `StackedAlternatingLstm`; in the code of He et al. it reads
        it with dropout.
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
        *Shape:* `(batch, tokens, input_dim)`, `(batch, tokens)` to `(batch, tokens, output_dim)`, zero
        outside of the mask. Each sequence has at least one token.
        """
        lengths = mask.sum(dim=1).cpu()
        packed = pack_padded_sequence(inputs, lengths, batch_first=True, enforce_sorted=False)
        # In full precision also under autocast: a cell is a sum over many steps.
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
    The weights of a layer. Each gate starts with orthogonal matrices, and the forget gate with the bias 1.

    *Shape:* `weight` `(GATES * hidden_dim, input_dim + hidden_dim)`, for the input and the hidden vector;
    `bias` `(GATES * hidden_dim,)`; `highway` `(hidden_dim, input_dim)`, the W of `HighwayLstm`.
    """

    def __init__(self, *, input_dim: int, hidden_dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(GATES * hidden_dim, input_dim + hidden_dim))
        self.bias = nn.Parameter(torch.zeros(GATES * hidden_dim))
        self.highway = nn.Parameter(torch.empty(hidden_dim, input_dim))
        for part in (*self.weight.data.split([input_dim, hidden_dim], dim=1), self.highway.data):
            block_orthogonal(part, [hidden_dim, part.size(1)])
        self.bias.data.chunk(GATES)[1].fill_(1.0)


def _course(batch_sizes: list[int], *, backward: bool) -> list[_Step]:
    """Returns the steps in the order in which a layer reads them."""
    order = range(len(batch_sizes))[:: -1 if backward else 1]
    shared = [(now, before, min(batch_sizes[now], batch_sizes[before])) for before, now in pairwise(order)]
    return [(order[0], order[0], 0), *shared]


class _Values(NamedTuple):
    """The values of a layer at all packed steps or at one. *Shape:* `(steps, hidden_dim)` unless stated."""

    gates: torch.Tensor
    """`(steps, GATES * hidden_dim)`, after sigmoid or tanh."""
    straight: torch.Tensor
    """`W x`"""
    taken: torch.Tensor
    """The hidden vector of the step before, after dropout."""
    cell: torch.Tensor
    tanh: torch.Tensor
    """The tanh of the cell."""
    hidden: torch.Tensor


class _Gradients(NamedTuple):
    """The gradients at all packed steps or at one. *Shape:* as in `_Values`."""

    gates: torch.Tensor
    """The gradients of the gates before sigmoid or tanh."""
    hidden: torch.Tensor
    cell: torch.Tensor


_Tensors = TypeVar("_Tensors", _Values, _Gradients)


def _by_step(tensors: _Tensors, batch_sizes: list[int]) -> list[_Tensors]:
    steps = zip(*(tensor.split(batch_sizes) for tensor in tensors), strict=True)
    return [type(tensors)(*step) for step in steps]


class _Layer(Function):
    """
    One layer: `apply(batch_sizes, course, inputs, weight, bias, highway, dropout_mask)`.

    *Shape:* packed inputs `(steps, input_dim)`, the weights, and the dropout mask of the hidden vector that a
    step takes, `(batch, hidden_dim)` or `None`, to `(steps, hidden_dim)`.
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
        # tanh x = 2 sigmoid 2x - 1, which PyTorch computes several times as fast on a CPU. One sigmoid does
        # for all gates if the candidate's weights and bias are doubled.
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
        steps = _by_step(values, batch_sizes)
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
        grad_steps = _by_step(gradients, ctx.batch_sizes)
        steps = _by_step(values, ctx.batch_sizes)
        for now, before, shared in reversed(ctx.course):
            gates, straight, _, _, tanh, _ = steps[now]
            grad_gates, grad_hidden, grad_cell = grad_steps[now]
            # GATES times (rows, dim)
            input_gate, forget_gate, candidate, output_gate, highway_gate = gates.chunk(GATES, 1)
            # (rows, dim)
            raw, grad_raw = output_gate * tanh, grad_hidden * highway_gate
            # The slope of tanh is 1 - t^2, the slope of a sigmoid s - s^2.
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


def _times(weight: torch.Tensor) -> Callable[[torch.Tensor, torch.Tensor | None], torch.Tensor]:
    """Returns the function from rows and a bias to `rows @ weight.T + bias`, for many rows."""
    if weight.dtype == torch.float32 and weight.device.type == "cpu" and has_onednn():
        packed = torch.ops.mkldnn._reorder_linear_weight(weight)
        return lambda rows, bias: torch.ops.mkldnn._linear_pointwise(rows, packed, bias, "none", [], "")
    return lambda rows, bias: F.linear(rows, weight, bias)
