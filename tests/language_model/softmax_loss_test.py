"""The softmaxes that use it are compared with dense ones in `softmax_test.py`."""

import math

import pytest
import torch

from elmo_tasks.elmo.inference.training_products import Products
from elmo_tasks.language_model import softmax_loss
from elmo_tasks.language_model.softmax_loss import SoftmaxLoss

ROWS, CANDIDATES, DIM = 7, 5, 3


@pytest.fixture
def tensors():
    """Vectors, weight, bias, and the logits of the true class."""
    torch.manual_seed(0)
    shapes = [(ROWS, DIM), (CANDIDATES, DIM), (CANDIDATES,), (ROWS, 1)]
    return [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]


@pytest.mark.parametrize("rows_at_once", [3, 100])
@pytest.mark.parametrize("true_is_candidate", [True, False])
def test_loss_and_gradients_are_those_of_all_logits(tensors, true_is_candidate, rows_at_once, monkeypatch):
    monkeypatch.setattr(softmax_loss, "ROWS_AT_ONCE", rows_at_once)
    vectors, weight, bias, true_logits = tensors
    indices = torch.randint(CANDIDATES, (ROWS, 1))
    mask = torch.full((ROWS, 1), -math.inf, dtype=torch.float64)
    logits = vectors @ weight.T + bias
    if true_is_candidate:
        given, true = None, logits.gather(1, indices)
    else:
        given = true = true_logits
        # Of some rows a candidate is masked, of others none
        mask[::2] = 0
    others = logits.scatter_add(1, indices, mask)
    expected = (torch.cat([true, others], dim=1).logsumexp(dim=1) - true.squeeze(1)).sum()
    loss = SoftmaxLoss.apply(Products(), vectors, weight, bias, given, indices, mask)
    torch.testing.assert_close(loss, expected)
    trained = tensors[:3] if true_is_candidate else tensors
    found = torch.autograd.grad(2 * loss, trained)
    for gradient, right in zip(found, torch.autograd.grad(2 * expected, trained), strict=True):
        torch.testing.assert_close(gradient, right)
