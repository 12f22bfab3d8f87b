"""The softmaxes that use it are compared with dense ones in `softmax_test.py`."""

import math

import pytest
import torch

from elmo_tasks.elmo.inference.training_products import Products
from elmo_tasks.language_model import softmax
from elmo_tasks.language_model.softmax import SoftmaxLoss

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
    monkeypatch.setattr(softmax, "ROWS_AT_ONCE", rows_at_once)
    vectors, weight, bias, true_logits = tensors
    indices = torch.randint(CANDIDATES, (ROWS, 1))
    mask = torch.full((ROWS, 1), -math.inf, dtype=torch.float64)
    logits = vectors @ weight.T + bias
    if true_is_candidate:
        given_logits, logits_of_true = None, logits.gather(1, indices)
    else:
        given_logits = logits_of_true = true_logits
        # Of some rows a candidate is masked, of others none
        mask[::2] = 0
    logits_of_others = logits.scatter_add(1, indices, mask)
    all_logits = torch.cat([logits_of_true, logits_of_others], dim=1)
    expected = (all_logits.logsumexp(dim=1) - logits_of_true.squeeze(1)).sum()
    loss = SoftmaxLoss.apply(Products(), vectors, weight, bias, given_logits, indices, mask)
    torch.testing.assert_close(loss, expected)
    trained = tensors[:3] if true_is_candidate else tensors
    gradients, expected_gradients = (torch.autograd.grad(2 * each, trained) for each in (loss, expected))
    for gradient, expected_gradient in zip(gradients, expected_gradients, strict=True):
        torch.testing.assert_close(gradient, expected_gradient)
