"""
Products with a constant weight, and the sigmoid, both with the same rounding in every batch.

A weight is packed once, into the order in which a product reads it fastest. A row of a product is rounded the
same way whatever the other rows are, so that a sentence has the same vectors alone and in any batch. No
library promises that: `EqualRows` finds by trial how many rows a call of a kernel may have.

The kind of product depends on what the processor and PyTorch's build can do, never on a measurement.
"""

from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import Any, NamedTuple

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
"""A function, and its arguments after the inputs `(rows, in)`. It returns `(rows, out)`."""
EqualRowsByBias = tuple[EqualRows, EqualRows]
"""The numbers of rows for products without and with a bias."""


class PackedWeight(NamedTuple):
    """A weight matrix in the form in which one kind of processor multiplies with it."""

    packed: torch.Tensor
    weight: torch.Tensor | None
    """`(out, in)`: the original weight, where `packed` has other values."""
    onednn: bool
    bfloat16: bool
    """The factors are rounded to bfloat16; the bias is added in float32."""
    equal_rows: EqualRowsByBias | None
    """`None` on a GPU, and for training."""
    min_rows: int
    """Without `equal_rows`, a product of fewer rows is padded to this number."""
    by_rows: dict[tuple[int, int], KernelCall]
    """What `for_rows` returns, by the number of threads and of rows."""

    @classmethod
    def of(cls, weight: torch.Tensor, *, onednn: bool, bfloat16: bool, tried: bool = True) -> "PackedWeight":
        """Packs a weight `(out, in)`; for `tried` see `pack`."""
        dtype = torch.bfloat16 if bfloat16 else weight.dtype
        equal_rows, min_rows = None, 1
        if tried and weight.device.type == "cpu":
            equal_rows = _equal_rows_of(weight.size(0), weight.size(1), dtype, onednn)
        elif tried and not bfloat16:
            min_rows = MIN_ROWS_ON_GPU
        packed = _reordered(weight.to(dtype), onednn)
        return cls(packed, weight if bfloat16 else None, onednn, bfloat16, equal_rows, min_rows, {})

    def __call__(self, inputs: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        """
        Computes `inputs @ weight.T + bias`, in float32 or wider.

        *Shape:* contiguous inputs `(rows, in)`, and `(out,)` to `(rows, out)`, a new tensor.
        """
        rows = inputs.size(0)
        if self.equal_rows is not None:
            rows = padded_rows(max(1, rows))
        block = self.block(rows, bias)
        if not self.bfloat16:
            return _multiply_in_blocks(inputs, self.packed, self.onednn, bias, block)
        result = _multiply_in_blocks(inputs.bfloat16(), self.packed, self.onednn, None, block).float()
        return result if bias is None else result.add_(bias)

    @property
    def dtype(self) -> torch.dtype:
        """The type of the factors."""
        return self.packed.dtype

    def for_rows(self, rows: int) -> KernelCall:
        """
        Returns the product of a number of rows, one or more, in this thread, which saves time in a loop.
        Inputs and results have the type of the factors.
        """
        key = torch.get_num_threads(), rows
        if key not in self.by_rows:
            packed, onednn, block = self.packed, self.onednn, self.block(rows)
            self.by_rows[key] = (
                one_call(packed, onednn, None)
                if block == rows
                else (_multiply_in_blocks, (packed, onednn, None, block))
            )
        return self.by_rows[key]

    def block(self, rows: int, bias: torch.Tensor | None = None) -> BlockRows:
        """Returns the block in which this thread multiplies `rows` rows."""
        return max(rows, self.min_rows) if self.equal_rows is None else self._rows_for(bias).block(rows)

    def try_rows(self, numbers: Iterable[int], bias: torch.Tensor | None = None) -> None:
        """Makes ready for products of these numbers of rows in this thread."""
        if self.equal_rows is not None:
            self._rows_for(bias).try_rows(numbers)

    def _rows_for(self, bias: torch.Tensor | None) -> EqualRows:
        assert self.equal_rows is not None
        return self.equal_rows[bias is not None and not self.bfloat16]

    def dense(self) -> torch.Tensor:
        """Returns the original weight, bit for bit. *Shape:* `(out, in)`."""
        if self.weight is not None:
            return self.weight
        return self.packed.to_dense() if self.onednn else self.packed


def one_call(packed: torch.Tensor, onednn: bool, bias: torch.Tensor | None) -> KernelCall:
    """Returns the product with a packed weight in one call of a kernel."""
    if onednn:
        return torch.ops.mkldnn._linear_pointwise.default, (packed, bias, "none", [], "")
    return F.linear, (packed, bias)


def multiply(
    inputs: torch.Tensor, packed: torch.Tensor, onednn: bool, bias: torch.Tensor | None
) -> torch.Tensor:
    """Computes a product in one call of a kernel."""
    function, weight = one_call(packed, onednn, bias)
    return function(inputs, *weight)


def _multiply_in_blocks(
    inputs: torch.Tensor, packed: torch.Tensor, onednn: bool, bias: torch.Tensor | None, block: BlockRows
) -> torch.Tensor:
    rows = inputs.size(0)
    if block < rows:
        return in_blocks(lambda part: multiply(part, packed, onednn, bias), inputs, block)
    if block == rows:
        return multiply(inputs, packed, onednn, bias)
    padded = F.pad(inputs, [0, 0, 0, block - rows])
    return multiply(padded, packed, onednn, bias)[:rows]


_equal_rows_by_shape: dict[tuple[int, int, torch.dtype, bool], EqualRowsByBias] = {}


def _equal_rows_of(outputs: int, size: int, dtype: torch.dtype, onednn: bool) -> EqualRowsByBias:
    """Returns what is known of products with factors of a shape and type. All such weights share it."""

    def make_kernel(has_bias: bool, weight: torch.Tensor) -> Multiply:
        packed = _reordered(weight, onednn)
        bias = torch.ones(outputs, dtype=dtype, device="cpu") if has_bias else None
        return lambda rows: multiply(rows, packed, onednn, bias)

    def make_equal_rows(has_bias: bool) -> EqualRows:
        return EqualRows(partial(make_kernel, has_bias), outputs=outputs, size=size, dtype=dtype)

    with CACHES_LOCK:
        key = outputs, size, dtype, onednn
        if key not in _equal_rows_by_shape:
            _equal_rows_by_shape[key] = make_equal_rows(False), make_equal_rows(True)
        return _equal_rows_by_shape[key]


def _reordered(weight: torch.Tensor, onednn: bool) -> torch.Tensor:
    return torch.ops.mkldnn._reorder_linear_weight(weight.contiguous()) if onednn else weight


Pack = Callable[[torch.Tensor], PackedWeight]
"""Packs a weight: `pack` with a precision."""


def pack(weight: torch.Tensor, precision: str, *, tried: bool = True) -> PackedWeight:
    """
    Packs a weight for products in `precision`, on its own device; for errors see `check_precision`. Without
    `tried`, the rounding of a row may depend on the other rows, as in training.
    """
    check_precision(precision, weight.device)
    bfloat16 = precision == "bfloat16"
    onednn = weight.device.type == "cpu" and (bfloat16 or (weight.dtype == torch.float32 and has_onednn()))
    return PackedWeight.of(weight, onednn=onednn, bfloat16=bfloat16, tried=tried)


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


def joined(first: PackedWeight, second: PackedWeight) -> PackedWeight | None:
    """
    Packs two weights of one shape, `(out, in)`, as one, `(2 out, in)`; `None` if a row's products with it
    would be rounded in another way than with each weight. In bfloat16 it has no `dense`.
    """
    both = torch.cat([first.dense(), second.dense()])
    if not _joined_is_alike(*first.dense().shape, both.dtype, first.onednn, first.bfloat16):
        return None
    return PackedWeight.of(both, onednn=first.onednn, bfloat16=first.bfloat16)._replace(weight=None)


@cache
def _joined_is_alike(outputs: int, size: int, dtype: torch.dtype, onednn: bool, bfloat16: bool) -> bool:
    sample, weight = sample_rows(size, dtype), sample_weight(outputs, size, dtype)
    of_one, of_both = (
        PackedWeight.of(each, onednn=onednn, bfloat16=bfloat16)(sample)
        for each in (weight, weight.repeat(2, 1))
    )
    return torch.equal(of_one.repeat(1, 2), of_both)


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
    of_shapes = [_equal_rows_of(outputs, size, dtype, has_onednn()) for outputs, size in shapes]

    def of_direction(_direction: int, _threads: int) -> list[BlockRows]:
        return [without_bias.block(1) for without_bias, _ in of_shapes]

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
