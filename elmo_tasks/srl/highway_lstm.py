"""
A stack of LSTM layers that read alternately forward and backward, with highway connections: the encoder of He
et al. 2017 (ACL 2017, P17-1044), section 2.1.

Its backward pass is written out, so that the loop over the steps holds no other product than the recurrent
one: the projections of the inputs, and the gradients of inputs and weights, are one product over all steps of
a batch.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
from allennlp.nn.initializers import block_orthogonal
from allennlp.nn.util import get_dropout_mask
from torch import nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from elmo_tasks.common.packed_weights import PackedWeight, pack
from elmo_tasks.elmo.inference.cell import activate_, scale_candidate_, tanh_of
from elmo_tasks.elmo.inference.layout import Step, steps_in_order

GATES = 5
_pack = partial(pack, tried=False)


class HighwayLstm(nn.Module):
    """
    An LSTM with the hidden vector h = r * o * tanh(c) + (1 - r) * W x, where `o` is the output gate, `c` the
    cell, and `r` a highway gate (Zhang et al. 2016, arXiv:1510.08983) of the input `x` and the hidden vector
    of the step before. Even layers read forward, odd layers backward.

    Dropout is on the hidden vector that a step takes from the step before; a layer has one mask for all steps
    of a sequence (Gal and Ghahramani 2016, arXiv:1512.05287). The next layer reads the vector without
    dropout, as in AllenNLP's `StackedAlternatingLstm`; in the code of He et al. it reads it with dropout.
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
        # (steps, input_dim)
        steps, batch_sizes = packed.data.to(next(self.parameters()).dtype), packed.batch_sizes.tolist()
        weights = [weight for layer in self.layers for weight in (layer.weight, layer.bias, layer.highway)]
        masks = None
        if self.training and self.dropout:
            like = steps.new_empty(batch_sizes[0], self.output_dim)
            # For each layer (batch, hidden_dim)
            masks = [get_dropout_mask(self.dropout, like) for _ in self.layers]
        # In full precision also under autocast: a cell is a sum over many steps.
        with torch.autocast(inputs.device.type, enabled=False):
            # (steps, output_dim)
            outputs = _Layers.apply(batch_sizes, masks, steps, *weights)
        repacked = PackedSequence(outputs, *packed[1:])
        return pad_packed_sequence(repacked, batch_first=True, total_length=mask.size(1))[0]


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


class _Values(NamedTuple):
    """The values of a layer at all packed steps. *Shape:* `(steps, hidden_dim)` unless stated."""

    inputs: torch.Tensor
    """`(steps, input_dim)`"""
    projected: torch.Tensor
    """`W x`"""
    gates: torch.Tensor
    """`(steps, GATES * hidden_dim)`, after sigmoid or tanh."""
    previous_hidden: torch.Tensor
    """The hidden vector of the step before, after dropout."""
    cell: torch.Tensor
    tanh: torch.Tensor
    hidden: torch.Tensor


class _Layers(Function):
    """
    All layers: `apply(batch_sizes, dropout_masks, inputs, *weights)`, with the three weights of each layer.

    *Shape:* packed inputs `(steps, input_dim)`, and for each layer the dropout mask of the hidden vector that
    a step takes, `(batch, hidden_dim)`, or no masks, to `(steps, hidden_dim)`.
    """

    @staticmethod
    def forward(
        ctx: Any,
        batch_sizes: list[int],
        dropout_masks: list[torch.Tensor] | None,
        inputs: torch.Tensor,
        *weights: torch.Tensor,
    ) -> torch.Tensor:
        layers = list(_layers(weights))
        orders = [steps_in_order(batch_sizes, backward=backward) for backward in (False, True)]
        values: list[_Values] = []
        for layer, (weight, bias, highway) in enumerate(layers):
            for_input, for_hidden = _split_weight(scale_candidate_(weight.clone(), 2, gates=GATES), highway)
            scaled_bias = scale_candidate_(bias.clone(), 2, gates=GATES)
            projected, gates = _pack(highway)(inputs), _pack(for_input, scaled_bias)(inputs)
            mask = dropout_masks[layer] if dropout_masks else None
            of_steps = run_steps(orders[layer % 2], projected, gates, _pack(for_hidden), mask)
            values.append(_Values(inputs, projected, *of_steps))
            inputs = values[-1].hidden
        ctx.orders, ctx.dropout_masks, ctx.num_weights = orders, dropout_masks, len(weights)
        ctx.save_for_backward(*weights, *(tensor for layer_values in values for tensor in layer_values))
        return inputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_outputs: torch.Tensor) -> Any:
        weights, saved = ctx.saved_tensors[: ctx.num_weights], iter(ctx.saved_tensors[ctx.num_weights :])
        layers = list(_layers(weights))
        values = [_Values(*(next(saved) for _ in _Values._fields)) for _ in layers]
        # The last layer's first
        of_weights: list[torch.Tensor] = []
        for layer in reversed(range(len(layers))):
            weight, _, highway = layers[layer]
            for_input, for_hidden = _split_weight(weight, highway)
            inputs, projected, gates, previous_hidden, cell, tanh, _ = values[layer]
            # (steps, GATES * dim), (steps, dim)
            grad_gates, grad_projected = gradients_of_steps(
                *(ctx.orders[layer % 2], grad_outputs, projected, gates, cell, tanh),
                _pack(for_hidden.t()),
                ctx.dropout_masks[layer] if ctx.dropout_masks else None,
            )
            of_weights += [
                grad_projected.t() @ inputs,
                grad_gates.sum(dim=0),
                grad_gates.t() @ torch.cat([inputs, previous_hidden], dim=1),
            ]
            grad_outputs = _pack(for_input.t())(grad_gates).add_(_pack(highway.t())(grad_projected))
        return (None, None, grad_outputs, *reversed(of_weights))


def run_steps(
    order: list[Step],
    projected: torch.Tensor,
    gates: torch.Tensor,
    for_hidden: PackedWeight,
    dropout_mask: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """
    *Shape:* `projected` `(steps, dim)`, and the part of the inputs in the gates, with a doubled candidate,
    `(steps, GATES * dim)`, which is overwritten, to `gates` and the others of `_Values`.
    """
    previous_hidden = torch.zeros_like(projected)
    cell, tanh, hidden = (torch.empty_like(projected) for _ in range(3))
    for start, end, previous_start, shared, _ in order:
        step_gates, step_cell, step_tanh = gates[start:end], cell[start:end], tanh[start:end]
        if shared > 0:
            # (shared, dim)
            previous = previous_hidden[start : start + shared].copy_(
                hidden[previous_start : previous_start + shared]
            )
            if dropout_mask is not None:
                previous.mul_(dropout_mask[:shared])
            step_gates[:shared].add_(for_hidden(previous))
        # GATES times (rows, dim)
        input_gate, forget_gate, candidate, output_gate, highway_gate = activate_(step_gates, GATES)
        torch.mul(input_gate, candidate, out=step_cell)
        if shared > 0:
            step_cell[:shared].addcmul_(forget_gate[:shared], cell[previous_start : previous_start + shared])
        tanh_of(step_cell, out=step_tanh)
        torch.lerp(projected[start:end], output_gate * step_tanh, highway_gate, out=hidden[start:end])
    return gates, previous_hidden, cell, tanh, hidden


def gradients_of_steps(
    order: list[Step],
    grad_outputs: torch.Tensor,
    projected: torch.Tensor,
    gates: torch.Tensor,
    cell: torch.Tensor,
    tanh: torch.Tensor,
    for_hidden: PackedWeight,
    dropout_mask: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """
    Returns the gradients of the gates before sigmoid or tanh, and of `projected`.

    *Shape:* `(steps, dim)` and as in `_Values` to `(steps, GATES * dim)` and `(steps, dim)`.
    """
    # The slope of tanh is 1 - t^2, the slope of a sigmoid s - s^2.
    grad_gates = torch.addcmul(gates, gates, gates, value=-1)
    grads, grad_cells = grad_outputs.clone(), torch.zeros_like(cell)
    for start, end, previous_start, shared, _ in reversed(order):
        step_tanh, grad_hidden, grad_cell = tanh[start:end], grads[start:end], grad_cells[start:end]
        # GATES times (rows, dim)
        input_gate, forget_gate, candidate, output_gate, highway_gate = gates[start:end].chunk(5, 1)
        step_grads = grad_gates[start:end]
        grad_input, grad_forget, grad_candidate, grad_output, grad_highway = step_grads.chunk(5, 1)
        # (rows, dim)
        lstm_output, grad_lstm_output = output_gate * step_tanh, grad_hidden * highway_gate
        grad_cell.add_((output_gate - lstm_output * step_tanh).mul_(grad_lstm_output))
        grad_input.mul_(candidate * grad_cell)
        grad_forget[:shared].mul_(cell[previous_start : previous_start + shared] * grad_cell[:shared])
        grad_forget[shared:].zero_()
        torch.mul(candidate, candidate, out=grad_candidate).neg_().add_(1).mul_(input_gate * grad_cell)
        grad_output.mul_(grad_lstm_output.mul_(step_tanh))
        grad_highway.mul_(lstm_output.sub_(projected[start:end]).mul_(grad_hidden))
        if shared > 0:
            grad_previous_hidden = for_hidden(step_grads[:shared])
            if dropout_mask is not None:
                grad_previous_hidden.mul_(dropout_mask[:shared])
            grads[previous_start : previous_start + shared].add_(grad_previous_hidden)
            grad_cells[previous_start : previous_start + shared].addcmul_(
                grad_cell[:shared], forget_gate[:shared]
            )
    return grad_gates, torch.addcmul(grads, grads, gates.chunk(5, 1)[4], value=-1)


def _layers(weights: tuple[torch.Tensor, ...]) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """Groups `weight`, `bias` and `highway` of each layer."""
    return zip(weights[::3], weights[1::3], weights[2::3], strict=True)


def _split_weight(weight: torch.Tensor, highway: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    dim, size = highway.shape
    for_input, for_hidden = weight.split([size, dim], dim=1)
    return for_input, for_hidden
