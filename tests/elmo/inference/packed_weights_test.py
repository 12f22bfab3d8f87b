import gc
import weakref
from functools import partial

import pytest
import torch

from elmo_tasks.common.packed_weights import (
    PackedWeight,
    has_onednn,
    onednn_has_bfloat16,
    pack,
    sigmoid,
    sigmoid_of,
)
from tests.elmo.inference.precisions import PRECISIONS

SIZES = [(48, 16), (4096, 128), (128, 1024), (512, 2048), (100, 37)]
"""`(out, in)`"""
ROWS = (1, 2, 3, 5, 12, 16, 17, 64, 65, 100, 299)
SIGMOID_ROWS = (1, 2, 7, 8, 9, 15, 16, 17, 23, 31, 40, 79)
"""PyTorch gives eight rows of 4,096 numbers to one thread."""
KINDS = {
    precision: [
        pytest.param(
            partial(PackedWeight, onednn=onednn, dtype=getattr(torch, precision)),
            marks=pytest.mark.skipif(onednn and not has(), reason="not here"),
            id=f"{precision}-onednn{onednn}",
        )
        for onednn in (True, False)
    ]
    for precision, has in (("float32", has_onednn), ("bfloat16", onednn_has_bfloat16))
}


def product(
    seed: int, size: tuple[int, int], rows: int = 300
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Inputs, weight and bias."""
    generator = torch.Generator().manual_seed(seed)
    outputs, inputs = size
    shapes = ((rows, inputs), size, (outputs,))
    made = [torch.randn(shape, generator=generator) for shape in shapes]
    return made[0], made[1] * inputs**-0.5, made[2]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_rows_do_not_depend_on_the_rows_beside_them(size, precision, threads):
    """Nor on the number of threads: the whole is computed by one."""
    inputs, weight, bias = product(1, size)
    packed = pack(weight, bias, precision=precision)
    torch.set_num_threads(1)
    whole = packed(inputs)
    torch.set_num_threads(threads)
    for rows in ROWS:
        for part in (slice(rows), slice(-rows, None)):
            assert torch.equal(packed(inputs[part]), whole[part]), rows


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", KINDS["float32"])
def test_is_the_product(size, kind):
    inputs, weight, bias = product(2, size)
    expected = inputs.double() @ weight.double().t()
    for packed, term in ((kind(weight), torch.zeros(1)), (kind(weight, bias), bias)):
        for rows in (1, 300):
            found = packed(inputs[:rows])
            torch.testing.assert_close(found.double(), expected[:rows] + term, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", [*KINDS["float32"], *KINDS["bfloat16"]])
def test_dense_is_the_weight_bit_by_bit(size, kind):
    _, weight, _ = product(5, size)
    # Values that rounding or a scale would lose
    weight[0, 0], weight[1, 0], weight[2, 0] = 0.0, -0.0, torch.finfo(torch.float).tiny / 8
    expected = weight.clone()
    packed = kind(weight)
    packed(torch.ones(3, size[1]))
    assert torch.equal(packed.dense().view(torch.int32), expected.view(torch.int32))


@pytest.mark.parametrize("kind", KINDS["bfloat16"])
@pytest.mark.parametrize("rows", [1, 70])
def test_bfloat16_is_near(kind, rows):
    """Factors are rounded, and the sum, but the bias is not."""
    inputs, weight, bias = product(6, (512, 256), rows)
    found = kind(weight, bias)(inputs)
    assert found.dtype == torch.float32
    assert 0 < (found - inputs @ weight.t() - bias).abs().max() < 0.02


# The sigmoid: each value is rounded alike, wherever it stands and however many threads there are


some_threads = pytest.mark.parametrize("threads", [1, 2, 3, 5, 7, 16], indirect=True)


@some_threads
@pytest.mark.parametrize("width", [1, 33, 100, 4096, 4100])
def test_a_row_is_rounded_alike_in_any_batch(width, threads):
    values = torch.randn(max(SIGMOID_ROWS), width, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(sigmoid(values), values.sigmoid())
    expected = torch.cat([sigmoid(row) for row in values.split(1)])
    for rows in SIGMOID_ROWS:
        assert torch.equal(sigmoid(values[:rows]), expected[:rows])
        in_place = values[:rows].clone()
        sigmoid_of(in_place, threads)(in_place, out=in_place)
        assert torch.equal(in_place, expected[:rows])


@pytest.mark.parametrize("rows", [3, 65])
def test_a_weight_is_freed_with_its_products(rows):
    weight = pack(torch.randn(40, 24))
    weight.for_rows(rows)
    freed = weakref.ref(weight.packed)
    gc.disable()
    try:
        del weight
        assert freed() is None
    finally:
        gc.enable()
