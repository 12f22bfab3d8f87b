"""Each value is rounded alike, wherever it stands and however many threads there are."""

import pytest
import torch

from elmo_tasks.elmo.inference.packed_weights import sigmoid

ROWS = (1, 2, 7, 8, 9, 15, 16, 17, 23, 31, 40, 79)
"""Of a width of 4,096 eight rows are what PyTorch gives to one thread."""


@pytest.fixture(params=[1, 2, 3, 5, 7, 16])
def number(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.mark.parametrize("width", [1, 33, 100, 4096, 4100])
def test_a_row_is_rounded_alike_in_any_batch(width, number):
    values = torch.randn(max(ROWS), width, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(sigmoid(values), values.sigmoid())
    expected = torch.cat([sigmoid(row) for row in values.split(1)])
    for rows in ROWS:
        assert torch.equal(sigmoid(values[:rows]), expected[:rows])
        in_place = values[:rows].clone()
        assert sigmoid(in_place, in_place=True) is in_place
        assert torch.equal(in_place, expected[:rows])


@pytest.mark.parametrize("width", [33, 4096])
def test_gradients_are_those_of_pytorch(width, number):
    values = torch.randn(17, width, requires_grad=True)
    (gradient,) = torch.autograd.grad(sigmoid(values).square().sum(), values)
    (expected,) = torch.autograd.grad(values.sigmoid().square().sum(), values)
    assert torch.equal(gradient, expected)
