"""
One direction of an LSTM layer with gradients where it is plain: without bounds and projection, over sequences
of one length. PyTorch's own kernels are the fastest there.
"""

from typing import Any

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from elmo_tasks.elmo.inference.training_products import Loan, Products

Tensors = tuple[torch.Tensor, ...]


def plain_lstm(products: Products, inputs: torch.Tensor, *state_and_weights: torch.Tensor) -> Tensors:
    """
    *Shape:* `inputs` `(steps, batch, size)`; the hidden and the cell at the start, `(batch, size)` each; the
    `weight` and the `bias` of a `ProjectedLstm`, `(4 size, 2 size)` and `(4 size,)`. Returns the outputs, and
    the hidden and the cell at the end, of the same shapes.
    """
    onednn = inputs.device.type == "cpu" and inputs.dtype == torch.float32
    if onednn and torch.backends.mkldnn.is_available():
        return OneDnnLstm.apply(products, inputs, *state_and_weights)
    return _torch_lstm(inputs, *state_and_weights)


def _torch_lstm(
    inputs: torch.Tensor, hidden: torch.Tensor, cell: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor
) -> Tensors:
    """See `plain_lstm`."""
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


class OneDnnLstm(Function):
    """
    `apply(products, inputs, hidden, cell, weight, bias)`: `plain_lstm` by the kernel of `torch.lstm`.
    """

    @staticmethod
    def forward(ctx: Any, products: Products, *tensors: torch.Tensor) -> Tensors:
        inputs, hidden, cell, weight, bias = (tensor.detach() for tensor in tensors)
        ctx.loan = Loan(products.buffers)
        # The kernel reads a part of a matrix much more slowly than a whole one.
        halves = (
            ctx.loan.empty(part, *part.shape).copy_(part) for part in weight.split(inputs.size(2), dim=1)
        )
        arguments = inputs, *halves, bias, torch.zeros_like(bias), hidden, cell
        # Reversed, batch sizes, LSTM, size, layers, biases, both directions, batch first, training
        settings: tuple[Any, ...] = False, [], 2, hidden.size(1), 1, True, False, False, True
        with torch.enable_grad():  # Else it keeps no workspace.
            *results, workspace = torch.ops.aten.mkldnn_rnn_layer(*arguments, *settings)
        ctx.save_for_backward(*arguments, *results, workspace)
        return tuple(results)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        *saved, workspace = ctx.saved_tensors
        # As above, in another order
        settings: tuple[Any, ...] = False, 2, saved[5].size(1), 1, True, True, False, [], False
        contiguous = (gradient.contiguous() for gradient in gradients)
        grad_inputs, *grad_halves, grad_bias, _, grad_hidden, grad_cell = (
            torch.ops.aten.mkldnn_rnn_layer_backward(*saved, *contiguous, *settings, workspace)
        )
        return None, grad_inputs, grad_hidden, grad_cell, torch.cat(grad_halves, dim=1), grad_bias
