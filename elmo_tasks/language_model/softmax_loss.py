"""The loss of a softmax over many classes, and its gradients, some rows at a time."""

from typing import Any

import torch
from torch.autograd.function import once_differentiable

from elmo_tasks.elmo.inference.training_products import Products, product, weight_gradient

ROWS_AT_ONCE = 256
"""The number of rows whose logits are in memory together."""


class SoftmaxLoss(torch.autograd.Function):
    """
    The sum over the rows of `logsumexp(logits of the true class and of all others) - true logit`.

    The others are the candidates, except the one that is masked. *Shape:* `vectors` `(rows, dim)`, `weight`
    `(candidates, dim)`, `bias` `(candidates,)`. `true_logits` `(rows, 1)`, or `None`: the true class is a
    candidate. `indices` `(rows, 1)`: a candidate, to whose logit `mask` `(rows, 1)`, 0 or -inf, is added.
    """

    @staticmethod
    def forward(
        ctx: Any,
        products: Products,
        vectors: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor,
        true_logits: torch.Tensor | None,
        indices: torch.Tensor,
        mask: torch.Tensor,
    ) -> torch.Tensor:
        gradients = [
            torch.zeros_like(tensor) if needed and tensor is not None else None
            for tensor, needed in zip(
                (vectors, weight, bias, true_logits), ctx.needs_input_grad[1:], strict=False
            )
        ]
        grad_vectors, grad_weight, grad_bias, grad_true_logits = gradients
        losses = vectors.new_empty(len(vectors), 1)
        rounded, rounded_weight = (part.to(products.dtype(part)) for part in (vectors, weight))
        for start in range(0, len(vectors), ROWS_AT_ONCE):
            rows = slice(start, start + ROWS_AT_ONCE)
            # (rows, candidates), from here in place to the gradient times `total`
            logits = _logits(rounded[rows], rounded_weight, bias)
            # (rows, 1)
            true = logits.gather(1, indices[rows]) if true_logits is None else true_logits[rows]
            logits.scatter_add_(1, indices[rows], mask[rows])
            top = torch.maximum(logits.amax(dim=1, keepdim=True), true)
            sum_of_others = logits.sub_(top).exp_().sum(dim=1, keepdim=True)
            total = sum_of_others + (true - top).exp_()
            losses[rows] = total.log() + top - true
            if true_logits is None:
                logits.scatter_(1, indices[rows], -sum_of_others)
            scaled = logits.to(rounded.dtype)
            if grad_vectors is not None:
                torch.div(product(scaled, rounded_weight.t()), total, out=grad_vectors[rows])
            if grad_weight is not None:
                grad_weight += weight_gradient(scaled, (vectors[rows] / total).to(scaled.dtype))
            if grad_bias is not None:
                grad_bias += torch.mv(logits.t(), 1 / total.squeeze(1))
            if grad_true_logits is not None:
                torch.div(sum_of_others, -total, out=grad_true_logits[rows])
        ctx.save_for_backward(*gradients)
        return losses.sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, scale: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        scaled = (None if gradient is None else gradient * scale for gradient in ctx.saved_tensors)
        return None, *scaled, None, None


def _logits(vectors: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """In the dtype of `bias`, which is never rounded: it may be large."""
    if vectors.dtype == bias.dtype:
        return product(vectors, weight, bias)
    return product(vectors, weight).to(bias.dtype).add_(bias)
