"""The contract on rows, with kernels that break it in made-up ways."""

from functools import partial

import pytest
import torch

from elmo_tasks.common import packed_weights
from elmo_tasks.common.equal_rows import EqualRows
from elmo_tasks.common.packed_weights import pack
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
        # So that it does not depend on what rounds in it
        exact = (exact * 2**30).round() / 2**30
        rounding = torch.as_tensor(KERNELS[name](inputs), dtype=torch.double).expand(len(inputs))
        return (exact * (1 + rounding.unsqueeze(1) / 1000)).to(inputs.dtype)

    return multiply


def made_of(multiply):
    """Stands in for `packed_weights.kernel_call`."""
    return lambda *weight: (multiply, weight)


def with_kernel(monkeypatch, name):
    """Makes all products those of a kernel, of which nothing is known yet."""
    monkeypatch.setattr(packed_weights, "kernel_call", made_of(kernel(name)))
    monkeypatch.setattr(packed_weights, "has_onednn", lambda: False)
    monkeypatch.setattr(packed_weights, "_equal_rows_by_shape", {})


def equal_rows(multiply, outputs=40, size=24, dtype=torch.float32):
    return EqualRows(lambda weight: partial(multiply, packed=weight), outputs=outputs, size=size, dtype=dtype)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("name", KERNELS)
def test_a_row_has_the_same_product_in_any_number_of_rows(name, bias, threads, monkeypatch):
    with_kernel(monkeypatch, name)
    inputs = torch.randn(max(ROWS), 24)
    weight = pack(torch.randn(40, 24), torch.randn(40) if bias else None)
    torch.set_num_threads(1)
    whole = weight(inputs)
    torch.set_num_threads(threads)
    for rows in ROWS:
        for part in (slice(rows), slice(-rows, None)):
            assert torch.equal(weight(inputs[part]), whole[part]), rows


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
    one_by_one, together = (equal_rows(kernel(name)) for _ in range(2))
    together.try_rows(expected)
    for tried in (one_by_one, together):
        assert {rows: tried.block(rows) for rows in expected} == expected


def test_rows_that_depend_on_the_number_of_threads_are_computed_in_one(threads):
    block = equal_rows(kernel("by the number of threads")).block(5)
    assert block == (5 if threads == 1 else -64)


def in_order(order):
    """Makes a kernel that adds the terms in the order that `order` makes of them, `(rows, outputs, size)`."""

    def multiply(inputs, packed, rows_with_another_order):
        terms = inputs.float().unsqueeze(1) * packed.float()
        results = []
        for each in (terms, order(terms)):
            total = torch.zeros(each.shape[:2])
            for i in range(each.size(2)):
                total += each[:, :, i]
            results.append(total.to(inputs.dtype))
        plain, other = results
        return torch.where(rows_with_another_order(inputs).unsqueeze(1), other, plain)

    return multiply


ORDERS = {
    "backward": lambda terms: terms.flip(2),
    "each pair the other way round": lambda terms: terms.unflatten(2, (-1, 2)).flip(3).flatten(2),
    "pairs first": lambda terms: terms.unflatten(2, (-1, 2)).sum(3),
    "lanes of 16": lambda terms: terms.unflatten(2, (-1, 16)).transpose(2, 3).flatten(2),
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(64, 32), (512, 112), (128, 128), (16, 512)])
def test_a_trial_shows_in_which_order_terms_are_added(shape, dtype, order):
    """Of all rows, or of the last one alone; what bfloat16 rounds to is mostly the same in any order."""
    outputs, size = shape
    multiply = in_order(ORDERS[order])
    few = equal_rows(
        partial(multiply, rows_with_another_order=lambda rows: torch.full([len(rows)], len(rows) < 8)),
        *(outputs, size, dtype),
    )
    last = equal_rows(
        partial(
            multiply,
            rows_with_another_order=lambda rows: (places(rows) == len(rows) - 1) & (len(rows) % 16 > 0),
        ),
        *(outputs, size, dtype),
    )
    assert [few.block(rows) for rows in (1, 2, 7, 8)] == [16, 16, 16, 8]
    assert [last.block(rows) for rows in (1, 7, 16, 33, 63)] == [16, 16, 16, 48, 64]


def test_what_a_weight_holds_does_not_matter_for_others_of_its_shape(monkeypatch):
    with_kernel(monkeypatch, "one row by another kernel")
    for value in (0.0, 1.0, torch.nan):
        pack(torch.full((40, 24), value))(torch.randn(1, 24))
    weight, inputs = pack(torch.randn(40, 24)), torch.randn(3, 24)
    assert torch.equal(weight(inputs[:1]), weight(inputs)[:1])
    assert len(packed_weights._equal_rows_by_shape) == 1


@pytest.mark.parametrize("name", KERNELS)
def test_eight_threads_that_ask_first(name, monkeypatch):
    with_kernel(monkeypatch, name)
    weight, inputs = pack(torch.randn(40, 24)), torch.randn(64, 24)
    results = at_once(*(partial(weight, inputs[:rows]) for rows in (1, 2, 3, 5, 17, 33, 50, 64)))
    whole = weight(inputs)
    assert all(torch.equal(result, whole[: len(result)]) for result in results)
