"""The contract on rows, with kernels that break it in made-up ways."""

import gc
from functools import partial
from weakref import ref

import pytest
import torch

from elmo_tasks.common import packed_weights
from elmo_tasks.common.equal_rows import SAMPLE_ROWS, EqualRows, sample_rows
from elmo_tasks.common.packed_weights import PackedWeight, pack
from elmo_tasks.elmo.inference import cpu_lstm
from tests.elmo.files import FILLING, NONEMPTY, batch, frozen, random_bilm
from tests.elmo.inference.precisions import PRECISIONS
from tests.elmo.threads import at_once

ROWS = (1, 2, 3, 7, 16, 17, 32, 33, 48, 50, 64, 65, 100, 300, 400)


def places(inputs):
    return torch.arange(len(inputs))


def full_tiles(inputs):
    return len(inputs) // 16 * 16


KERNELS = {
    "all rows alike": lambda inputs: 0,
    "one row by another kernel": lambda inputs: len(inputs) == 1,
    "two kernels, up to 32 rows and more": lambda inputs: len(inputs) <= 32,
    "another kernel for 34 to 320 rows": lambda inputs: 34 <= len(inputs) <= 320,
    "other rounding where no tile is full": lambda inputs: places(inputs) >= full_tiles(inputs),
    "a last row of its own": lambda inputs: places(inputs) == len(inputs) - 1,
    "each number of rows its own kernel": lambda inputs: len(inputs),
    "by place, from 64 rows on": lambda inputs: places(inputs) % 3 * (len(inputs) >= 64),
    "by place": places,
    "by the largest row of all": lambda inputs: inputs.abs().max(),
    "by the number of threads": lambda inputs: torch.get_num_threads(),
    "few rows by the number of threads": lambda inputs: torch.get_num_threads() * (len(inputs) < 16),
}
"""Each returns the kernel's rounding, one number or one of each row."""


def kernel(name):
    def multiply(inputs, packed, onednn=False, bias=None):
        dense = packed.to_dense() if packed.is_mkldnn else packed
        exact = inputs.double() @ dense.double().t() + (0 if bias is None else bias)
        rounding = torch.as_tensor(KERNELS[name](inputs), dtype=torch.double).expand(len(inputs))
        return (exact * (1 + rounding.unsqueeze(1) / 1000)).to(inputs.dtype)

    return multiply


def with_kernel(monkeypatch, name):
    """Makes all products those of a kernel, of which nothing is known yet."""
    monkeypatch.setattr(packed_weights, "multiply", kernel(name))
    monkeypatch.setattr(packed_weights, "has_onednn", lambda: False)
    monkeypatch.setattr(packed_weights, "_trials", [])
    monkeypatch.setattr(packed_weights, "_trial_of_kind", {})


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("name", KERNELS)
def test_a_row_has_the_same_product_in_any_number_of_rows(name, bias, threads, monkeypatch):
    with_kernel(monkeypatch, name)
    inputs, weight = torch.randn(max(ROWS), 24), pack(torch.randn(40, 24), "float32")
    term = torch.randn(40) if bias else None
    torch.set_num_threads(1)
    whole = weight(inputs, term)
    torch.set_num_threads(threads)
    for rows in ROWS:
        for part in (slice(rows), slice(-rows, None)):
            assert torch.equal(weight(inputs[part], term), whole[part]), rows


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", KERNELS)
def test_a_sentence_has_the_same_vectors_alone_and_in_any_batch(name, precision, threads, monkeypatch):
    with_kernel(monkeypatch, name)
    monkeypatch.setattr(cpu_lstm, "compiled", lambda function: function)
    bilm = frozen(random_bilm(**FILLING), precision)
    alone = [bilm.encode(batch([words])) for words in NONEMPTY]
    bilm.clear_word_cache()
    together = bilm.encode(batch(NONEMPTY * 20))
    for row, layers in enumerate(alone):
        assert torch.equal(together[:, row, : layers.size(2)], layers[:, 0])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("all rows alike", {1: 1, 5: 5, 64: 64, 65: 80, 1000: 1008}),
        ("one row by another kernel", {1: 2, 2: 2}),
        ("two kernels, up to 32 rows and more", {1: 48, 32: 48, 33: 33, 65: 80}),
        ("another kernel for 34 to 320 rows", {1: 48, 33: 48, 34: 34, 300: 304, 400: 256}),
        ("other rounding where no tile is full", {1: 16, 16: 16, 17: 32, 63: 64, 100: 112}),
        ("by place", {1: 1, 2: 1, 64: 1, 100: 1}),
    ],
)
def test_no_more_rows_are_padded_or_cut_than_need_be(name, expected):
    equal_rows, weight = EqualRows(kernel(name), exact=True), torch.randn(40, 24)
    make_sample = partial(sample_rows, 24, torch.float32)
    assert {rows: equal_rows.block(rows, weight, make_sample) for rows in expected} == expected


def test_rows_that_depend_on_the_number_of_threads_are_computed_in_one(threads):
    equal_rows, weight = EqualRows(kernel("by the number of threads"), exact=True), torch.randn(40, 24)
    block = equal_rows.block(5, weight, partial(sample_rows, 24, torch.float32))
    assert block == (5 if threads == 1 else -64)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("outputs", "size"), [(1, 31), (8, 128), (128, 1024)])
def test_bfloat16_shows_in_which_order_a_row_is_summed(outputs, size, seed):
    """Also if there are few outputs, which would mostly be rounded to the same."""
    weight = torch.randn(outputs, size, generator=torch.Generator().manual_seed(seed)).bfloat16()

    def multiply(inputs, packed):
        order = reversed(range(size)) if len(inputs) == 1 else range(size)
        total = torch.zeros(len(inputs), outputs)
        for i in order:
            total += inputs[:, i, None].float() * packed[:, i].float()
        return total.bfloat16()

    make_sample = partial(sample_rows, size, torch.bfloat16, weight)
    assert EqualRows(multiply, exact=False).block(1, weight, make_sample) == 2


def test_a_trial_keeps_no_weight_and_goes_on_with_another():
    equal_rows = EqualRows(kernel("two kernels, up to 32 rows and more"), exact=True)
    make_sample = partial(sample_rows, 24, torch.float32)
    weight = torch.randn(40, 24)
    assert equal_rows.block(1, weight, make_sample) == 48
    gone = ref(weight)
    del weight
    gc.collect()
    assert gone() is None
    assert equal_rows.block(40, torch.randn(40, 24), make_sample) == 40


def test_a_weight_of_zeros_does_not_speak_for_others(monkeypatch):
    with_kernel(monkeypatch, "one row by another kernel")
    zeros, weight = pack(torch.zeros(40, 24), "float32"), pack(torch.randn(40, 24), "float32")
    inputs = torch.randn(3, 24)
    assert not zeros(inputs[:1]).any()
    assert torch.equal(weight(inputs[:1]), weight(inputs)[:1])


@pytest.mark.parametrize("name", KERNELS)
def test_eight_threads_that_ask_first(name, monkeypatch):
    with_kernel(monkeypatch, name)
    weight, inputs = pack(torch.randn(40, 24), "float32"), torch.randn(SAMPLE_ROWS, 24)
    results = at_once(*(partial(weight, inputs[:rows]) for rows in (1, 2, 3, 5, 17, 33, 50, 64)))
    whole = weight(inputs)
    assert all(torch.equal(result, whole[: len(result)]) for result in results)


def test_what_is_tried_is_the_kernel_that_is_used(monkeypatch):
    """With a bias and without one, and of each type: kernels of their own."""
    shapes = []

    def multiply(inputs, packed, onednn, bias):
        shapes.append((len(inputs), inputs.dtype, bias is not None))
        return kernel("all rows alike")(inputs, packed, onednn, bias)

    for bfloat16 in (False, True):
        for bias in (None, torch.randn(40)):
            with_kernel(monkeypatch, "all rows alike")
            monkeypatch.setattr(packed_weights, "multiply", multiply)
            weight = PackedWeight.of(torch.randn(40, 24), onednn=False, bfloat16=bfloat16)
            shapes.clear()
            weight(torch.randn(5, 24), bias)
            kinds = {shape[1:] for shape in shapes}
            dtype = torch.bfloat16 if bfloat16 else torch.float32
            assert kinds == {(dtype, bias is not None and not bfloat16)}
            assert {64, 5} <= {shape[0] for shape in shapes}
            shapes.clear()
            weight(torch.randn(5, 24), bias)
            assert len(shapes) == 1
