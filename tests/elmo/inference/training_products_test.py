import sys

import pytest
import torch

from elmo_tasks.elmo.inference import training_products as module
from elmo_tasks.elmo.inference.training_products import (
    BufferPool,
    Product,
    Products,
    Workspace,
    trains_in_bfloat16,
)
from tests.elmo.threads import at_once

TOLERANCE = {"float32": 1e-5, "bfloat16": 2e-2}
"""The error of a product of random numbers, as a share of its standard deviation; bfloat16 has 8 bits."""
PRECISIONS = [
    "float32",
    pytest.param("bfloat16", marks=pytest.mark.skipif(not trains_in_bfloat16(), reason="no bfloat16 here")),
]


def some(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("rows", [1, 37])
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("onednn", [True, False])
def test_equals_autograd_in_double_precision(precision, rows, onednn, monkeypatch):
    products = Products(precision)
    if not onednn:
        monkeypatch.setattr(module, "_onednn_dtypes", frozenset)
    factors = [some(rows, 48), some(32, 48, seed=1), some(32, seed=2)]
    of_result = some(rows, 32, seed=3)
    found = [part.clone().requires_grad_() for part in factors]
    expected = [part.double().requires_grad_() for part in factors]
    results = Product.apply(products, *found), torch.nn.functional.linear(*expected)
    for result in results:
        result.backward(of_result.to(result.dtype))
    pairs = [results, *((a.grad, b.grad) for a, b in zip(found, expected, strict=True))]
    for ours, theirs in pairs:
        assert ours.dtype == torch.float32
        assert (ours - theirs).abs().max() <= 4 * TOLERANCE[precision] * max(1, theirs.std(correction=0))


def test_memory_is_lent_to_one_thread_alone():
    buffers, like = BufferPool(), torch.zeros(())

    def use() -> int:
        broken = 0
        for number in range(2000):
            workspace = Workspace(buffers)
            part = workspace.empty(like, 8)
            part.fill_(number)
            other = workspace.empty(like, 8)
            other.fill_(-number)
            broken += not (part == number).all()
        return broken

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        assert at_once(*[use] * 8) == [0] * 8
    finally:
        sys.setswitchinterval(interval)
