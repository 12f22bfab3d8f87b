import numpy as np
import pytest
import torch

from elmo_tasks.modules.attention import align, attention
from tests.modules.numpy_reference import softmax

LENGTHS = [(3, 5), (4, 1), (1, 2)]


@pytest.mark.parametrize("scaled", [False, True])
def test_both_ways_without_padding(scaled):
    torch.manual_seed(0)
    # Far below 0, where padding that counts as 0 would take everything.
    left, right = torch.rand(3, 4, 6), -60 * torch.rand(3, 5, 6)
    masks = [
        torch.tensor([[position < lengths[side] for position in range(width)] for lengths in LENGTHS])
        for side, width in enumerate((4, 5))
    ]
    found = align(left, right, *masks, scaled=scaled)
    for row, (rows, columns) in enumerate(LENGTHS):
        scores = left[row, :rows].double().numpy() @ right[row, :columns].double().numpy().T
        scores = scores / 6**0.5 if scaled else scores
        for matrix, expected in zip((found[0][row], found[1][row]), (scores, scores.T), strict=True):
            inner = matrix[: expected.shape[0], : expected.shape[1]]
            np.testing.assert_allclose(inner, softmax(expected), atol=1e-5)
            # Exactly nothing elsewhere.
            assert matrix.count_nonzero() <= inner.numel()
            torch.testing.assert_close(matrix.sum(), torch.tensor(float(expected.shape[0])))


def test_a_row_of_padding_is_0_and_has_gradients():
    scores = torch.tensor([[-800.0, -1000.0, 5.0], [1.0, 2.0, 3.0]], requires_grad=True)
    mask = torch.tensor([[True, True, False], [False, False, False]])
    weights = attention(scores, mask)
    assert torch.equal(weights, torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]))
    (weights * torch.randn(2, 3)).sum().backward()
    assert scores.grad.isfinite().all()
