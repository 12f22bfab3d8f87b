"""
Products with a constant weight, and the sigmoid, both with the same rounding in every batch.

A weight is packed once, into the order in which a product reads it fastest. A row of a product is rounded the
same way whatever the other rows are, so that a sentence has the same vectors alone and in any batch. No
library promises that: `EqualRows` finds by trial how many rows a call of a kernel may have.

The kind of product depends on what the processor and PyTorch's build can do, never on a measurement.
"""

from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import Any

import torch
from torch.nn import functional as F

from elmo_tasks.common.equal_rows import (
    BlockRows,
    EqualRows,
    Multiply,
    in_blocks,
    padded_rows,
    sample_rows,
    sample_weight,
)
from elmo_tasks.common.errors import ElmoError
from elmo_tasks.common.machine import CACHES_LOCK, run_in_two_threads

PRECISIONS = ("float32", "bfloat16")
MIN_ROWS_ON_GPU = 16
"""The least number of rows of a product in float32 or wider on a GPU."""
VECTOR_WIDTH = 32
"""
The number of sigmoids that PyTorch computes at a time. It rounds the values that are left over, at the end of
the share of a thread, in another way.
"""
MIN_OF_A_THREAD = 1 << 15
"""PyTorch gives each thread at least this number of values, and several threads equally many."""


KernelCall = tuple[Callable[..., torch.Tensor], tuple[Any, ...]]
"""
A function, and its arguments after the inputs `(rows, in)`. It returns `(rows, out)`. A loop that calls the
function itself saves the time of a call in Python at each step.
"""


class PackedWeight:
    """
    A weight matrix `(out, in)`, with its bias, in the form in which one kind of processor multiplies.

    The kernel is chosen when the weight is packed, and the number of rows of its calls at the first product
    of a number of rows and threads. Without `tried`, the rounding of a row may depend on the other rows.
    """

    def __init__(
        self,
        weight: torch.Tensor,
        bias: torch.Tensor | None = None,
        *,
        dtype: torch.dtype,
        onednn: bool,
        tried: bool = True,
    ) -> None:
        self.dtype = dtype
        """The type of the factors; a bias is added in float32 or wider."""
        self.bias = bias
        self.packed = _reordered(weight.to(dtype), onednn)
        self._original = None if weight.dtype == dtype else weight
        self._onednn = onednn
        self._call = kernel_call(self.packed, onednn, None if dtype == torch.bfloat16 else bias)
        self._equal_rows: EqualRows | None = None
        self._min_rows = 1
        if tried and weight.device.type == "cpu":
            has_bias = bias is not None and dtype != torch.bfloat16
            self._equal_rows = _equal_rows_of(weight.size(0), weight.size(1), dtype, onednn, has_bias)
        elif tried and dtype != torch.bfloat16:
            self._min_rows = MIN_ROWS_ON_GPU
        self._by_rows: dict[tuple[int, int], KernelCall] = {}
        """`for_rows`, by the number of threads and of rows."""

    def __call__(self, inputs: torch.Tensor) -> torch.Tensor:
        """
        Computes `inputs @ weight.T + bias`, in float32 or wider.

        *Shape:* contiguous inputs `(rows, in)` to `(rows, out)`, a new tensor.
        """
        if self.dtype != torch.bfloat16:
            return self._product(inputs)
        result = self._product(inputs.bfloat16()).float()
        return result if self.bias is None else result.add_(self.bias)

    def _product(self, inputs: torch.Tensor) -> torch.Tensor:
        rows = max(inputs.size(0), self._min_rows)
        if self._equal_rows is not None:
            rows = padded_rows(rows)
        padding = rows - inputs.size(0)
        function, arguments = self.for_rows(rows)
        if not padding:
            return function(inputs, *arguments)
        return function(F.pad(inputs, [0, 0, 0, padding]), *arguments)[:-padding]

    def for_rows(self, rows: int) -> KernelCall:
        """
        Returns the product of a number of rows, one or more, in this thread. Inputs and results have the type
        of the factors.
        """
        if self._equal_rows is None:
            return self._call
        key = torch.get_num_threads(), rows
        if key not in self._by_rows:
            block = self._equal_rows.block(rows)
            function, arguments = self._call
            self._by_rows[key] = (
                self._call
                if block == rows
                else (partial(in_blocks, lambda part: function(part, *arguments), block=block), ())
            )
        return self._by_rows[key]

    def try_rows(self, numbers: Iterable[int]) -> None:
        """Makes ready for products of these numbers of rows in this thread."""
        if self._equal_rows is not None:
            self._equal_rows.try_rows(numbers)

    def dense(self) -> torch.Tensor:
        """Returns the original weight, bit for bit. *Shape:* `(out, in)`."""
        if self._original is not None:
            return self._original
        return self.packed.to_dense() if self._onednn else self.packed

    def joined(self, other: "PackedWeight") -> "PackedWeight | None":
        """
        Packs this weight and another of its shape as one, `(2 out, in)`; `None` if a row's products with it
        would be rounded in another way than with each weight.
        """
        both = torch.cat([part.dense().to(self.dtype) for part in (self, other)])
        if not _joined_is_alike(len(both) // 2, both.size(1), self.dtype, self._onednn):
            return None
        joined = PackedWeight(both, dtype=self.dtype, onednn=self._onednn)
        joined.try_rows([2])  # A product of two rows would try all of `LONE_ROWS`.
        return joined


def kernel_call(packed: torch.Tensor, onednn: bool, bias: torch.Tensor | None) -> KernelCall:
    """Returns the product with a packed weight in one call of a kernel."""
    if onednn:
        return torch.ops.mkldnn._linear_pointwise.default, (packed, bias, "none", [], "")
    return F.linear, (packed, bias)


_equal_rows_by_shape: dict[tuple[int, int, torch.dtype, bool, bool], EqualRows] = {}


def _equal_rows_of(outputs: int, size: int, dtype: torch.dtype, onednn: bool, has_bias: bool) -> EqualRows:
    """Returns what is known of products with factors of a shape and type. All such weights share it."""

    def make_kernel(weight: torch.Tensor) -> Multiply:
        bias = torch.ones(outputs, dtype=dtype, device="cpu") if has_bias else None
        function, arguments = kernel_call(_reordered(weight, onednn), onednn, bias)
        return lambda rows: function(rows, *arguments)

    with CACHES_LOCK:
        key = outputs, size, dtype, onednn, has_bias
        if key not in _equal_rows_by_shape:
            _equal_rows_by_shape[key] = EqualRows(make_kernel, outputs=outputs, size=size, dtype=dtype)
        return _equal_rows_by_shape[key]


def _reordered(weight: torch.Tensor, onednn: bool) -> torch.Tensor:
    return torch.ops.mkldnn._reorder_linear_weight(weight.contiguous()) if onednn else weight


@cache
def _joined_is_alike(outputs: int, size: int, dtype: torch.dtype, onednn: bool) -> bool:
    sample, weight = sample_rows(size, dtype), sample_weight(outputs, size, dtype)
    of_one, of_both = (
        PackedWeight(part, dtype=dtype, onednn=onednn)(sample) for part in (weight, weight.repeat(2, 1))
    )
    return torch.equal(of_one.repeat(1, 2), of_both)


Pack = Callable[[torch.Tensor, torch.Tensor | None], PackedWeight]
"""Packs a weight and its bias: `pack` with a precision."""


def pack(
    weight: torch.Tensor, bias: torch.Tensor | None = None, *, precision: str = "float32", tried: bool = True
) -> PackedWeight:
    """
    Packs a weight `(out, in)` and its bias `(out,)` for products in `precision`, on their own device; for
    errors see `check_precision`. Without `tried`, the rounding of a row may depend on the other rows, as in
    training.
    """
    check_precision(precision, weight.device)
    dtype = torch.bfloat16 if precision == "bfloat16" else weight.dtype
    has_kernel = weight.device.type == "cpu" and dtype in (torch.float32, torch.bfloat16)
    return PackedWeight(weight, bias, dtype=dtype, onednn=has_kernel and has_onednn(), tried=tried)


def check_precision(precision: str, device: torch.device | None = None) -> None:
    """Raises `ElmoError` for an unknown precision, or a device that has no such products."""
    if precision not in PRECISIONS:
        raise ElmoError(f"precision {precision!r} is not one of {', '.join(PRECISIONS)}")
    on_cpu = device is not None and device.type == "cpu"
    if precision == "bfloat16" and on_cpu and not onednn_has_bfloat16():
        raise ElmoError(
            "precision 'bfloat16' needs a processor with AVX-512",
            remedy='use --precision float32, or --overrides \'{"model.elmo.precision": "float32"}\'',
        )


@cache
def has_onednn() -> bool:
    """Returns whether this build of PyTorch has oneDNN's products with packed weights."""
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


@cache
def onednn_has_bfloat16() -> bool:
    """Returns whether oneDNN multiplies bfloat16 with the instructions that it may use here."""
    return has_onednn() and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def lone_row_block(precision: str) -> BlockRows:
    """Returns the largest block of a lone row in the LSTM of the original size; or one that is negative."""
    dtype, shapes = getattr(torch, precision), ((4 * 4096, 512), (512, 4096))
    of_shapes = [_equal_rows_of(outputs, size, dtype, has_onednn(), False) for outputs, size in shapes]

    def of_direction(_direction: int, _threads: int) -> list[BlockRows]:
        return [equal_rows.block(1) for equal_rows in of_shapes]

    blocks = [block for direction in run_in_two_threads(of_direction) for block in direction]
    return min(blocks) if min(blocks) < 0 else max(blocks)


Sigmoid = Callable[..., torch.Tensor]
"""`sigmoid(inputs, out=results)`: the sigmoid of contiguous values. Both may be the same."""


def sigmoid(inputs: torch.Tensor) -> torch.Tensor:
    """
    Computes the sigmoid of each value, with the same rounding at every index of its row and with any
    number of threads. With gradients, and on other devices than a CPU, it is `torch.sigmoid`.

    *Shape:* `(..., width)` to the same.
    """
    if inputs.requires_grad or not inputs.is_cpu:
        return inputs.sigmoid()
    return sigmoid_of(inputs, torch.get_num_threads())(inputs, out=torch.empty_like(inputs))


def sigmoid_of(like: torch.Tensor, threads: int) -> Sigmoid:
    """Returns the function `sigmoid` for values of the shape of `like`, with a number of threads."""
    width, values = like.size(-1), like.numel()
    if width % VECTOR_WIDTH == 0 and (threads == 1 or values <= MIN_OF_A_THREAD):
        return torch.sigmoid
    return partial(_sigmoid_into, threads=threads)


def _sigmoid_into(inputs: torch.Tensor, *, out: torch.Tensor, threads: int) -> torch.Tensor:
    padding = -inputs.size(-1) % VECTOR_WIDTH
    padded = F.pad(inputs, [0, padding]) if padding else inputs
    target = padded if padding else out
    values = padded.numel()
    # The number of threads that PyTorch takes, with equally many values each.
    threads = min(threads, -(-values // MIN_OF_A_THREAD))
    if threads < 2:
        torch.sigmoid(padded, out=target)
    else:
        # With fewer values than the second number, there is one thread fewer, and each has as few as it may.
        split = max(values - values % (threads * VECTOR_WIDTH), (threads - 1) * MIN_OF_A_THREAD)
        torch.sigmoid(padded.view(-1)[:split], out=target.view(-1)[:split])
        torch.sigmoid(padded.view(-1)[split:], out=target.view(-1)[split:])
    return out.copy_(padded[..., :-padding]) if padding else out
