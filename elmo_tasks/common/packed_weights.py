"""
Products with a weight that stays as it is, and the sigmoid, both with the same rounding in every batch.

A weight is packed once, into the order in which a product reads it fastest. A row of a product is rounded the
same way whatever the other rows are, so that a sentence has the same vectors alone and in any batch. No
library promises that: `EqualRows` finds by trial how many rows a call of a kernel may have.

The kind of product depends on what the processor and PyTorch's build can do, never on a measurement.
"""

import warnings
from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import NamedTuple, TypeVar

import torch
from torch.nn import functional as F

from elmo_tasks.common.equal_rows import Block, EqualRows, Multiply, in_blocks, rounded
from elmo_tasks.common.errors import ElmoError
from elmo_tasks.common.machine import SHARED, in_two_threads

Result = TypeVar("Result")
PRECISIONS = ("float32", "bfloat16")
MIN_ROWS_ON_GPU = 16
"""The least number of rows of a product in float32 or wider on a GPU."""
VECTOR_WIDTH = 32
"""
PyTorch computes so many sigmoids at a time. It rounds the values that are left over, at the end of what it
gives to a thread, in another way.
"""
MIN_OF_A_THREAD = 1 << 15
"""PyTorch gives each thread at least so many values; if it takes several threads, to all equally many."""


class PackedWeight(NamedTuple):
    """A weight matrix in the form in which one kind of processor multiplies with it; for TorchScript, too."""

    packed: torch.Tensor
    weight: torch.Tensor | None
    """`(out, in)`: the weight as it was, where `packed` has other values."""
    onednn: bool
    bfloat16: bool
    """The factors are rounded to bfloat16; the bias is added in float32."""
    kind: int
    """The index of its shape and type in `_kinds`, or -1 if none is tried: on a GPU, and in training."""

    @classmethod
    def of(cls, weight: torch.Tensor, *, onednn: bool, bfloat16: bool, tried: bool = True) -> "PackedWeight":
        """Packs a weight `(out, in)`; for `tried` see `pack`."""
        dtype = torch.bfloat16 if bfloat16 else weight.dtype
        outputs, size = weight.shape
        kind = _kind(outputs, size, dtype, onednn) if tried and weight.device.type == "cpu" else -1
        packed = _packed(weight.to(dtype), onednn)
        return cls(packed, weight if bfloat16 else None, onednn, bfloat16, kind)

    def __call__(self, inputs: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        return product(inputs, self, bias)

    def try_rows(self, numbers: Iterable[int], bias: torch.Tensor | None = None) -> None:
        """Makes ready for products of these numbers of rows in this thread."""
        if self.kind >= 0:
            _kinds[self.kind][bias is not None and not self.bfloat16].try_rows(numbers)

    def dense(self) -> torch.Tensor:
        """Returns the weight as it was packed, bit for bit. *Shape:* `(out, in)`."""
        if self.weight is not None:
            return self.weight
        return self.packed.to_dense() if self.onednn else self.packed


def multiply(
    inputs: torch.Tensor, packed: torch.Tensor, onednn: bool, bias: torch.Tensor | None
) -> torch.Tensor:
    """Computes a product in one call of a kernel. TorchScript compiles it."""
    if onednn:
        return torch.ops.mkldnn._linear_pointwise(inputs, packed, bias, "none", [], "")
    return F.linear(inputs, packed, bias)


def product(inputs: torch.Tensor, weight: PackedWeight, bias: torch.Tensor | None) -> torch.Tensor:
    """
    Computes `inputs @ weight.T + bias`, in float32 or wider. TorchScript compiles it.

    *Shape:* contiguous inputs `(rows, in)`, and `(out,)` to `(rows, out)`, a new tensor.
    """
    return product_by(inputs, weight, bias, block_of(weight, inputs.size(0), bias, few=True))


def product_by(
    inputs: torch.Tensor, weight: PackedWeight, bias: torch.Tensor | None, block: Block
) -> torch.Tensor:
    """Computes `product` with a block that is known."""
    rows = inputs.size(0)
    inner_bias = None if weight.bfloat16 else bias
    if weight.bfloat16:
        inputs = inputs.to(torch.bfloat16)
    if block < rows:
        result = product_in_blocks(inputs, weight.packed, weight.onednn, inner_bias, block)
    else:
        if block > rows:
            inputs = F.pad(inputs, [0, 0, 0, block - rows])
        result = multiply(inputs, weight.packed, weight.onednn, inner_bias)
        if block > rows:
            result = result[:rows]
    if weight.bfloat16:
        result = result.float()
        if bias is not None:
            result.add_(bias)
    return result


def block_of(weight: PackedWeight, rows: int, bias: torch.Tensor | None, few: bool = False) -> Block:
    """
    Returns the block with which `product_by` multiplies `rows` rows in this thread. With `few`, `rows` is
    `rounded` before.
    """
    return tried_block(weight.kind, rows, bias is not None, weight.bfloat16, few)


# TorchScript calls these two in Python.


def product_in_blocks(
    inputs: torch.Tensor, packed: torch.Tensor, onednn: bool, bias: torch.Tensor | None, block: Block
) -> torch.Tensor:
    return in_blocks(lambda rows: multiply(rows, packed, onednn, bias), inputs, block)


def tried_block(kind: int, rows: int, has_bias: bool, bfloat16: bool, few: bool) -> Block:
    if kind < 0:
        return rows if bfloat16 else max(rows, MIN_ROWS_ON_GPU)
    rows = max(1, rows)
    return _kinds[kind][has_bias and not bfloat16].block(rounded(rows) if few else rows)


_kinds: list[tuple[EqualRows, EqualRows]] = []
"""Products of one shape and type, without and with a bias."""
_kind_indices: dict[tuple[int, int, torch.dtype, bool], int] = {}


def _kind(outputs: int, size: int, dtype: torch.dtype, onednn: bool) -> int:
    """Returns the index in `_kinds` of products with factors of a type."""

    def make_kernel(has_bias: bool, weight: torch.Tensor) -> Multiply:
        packed = _packed(weight, onednn)
        bias = torch.ones(outputs, dtype=dtype, device="cpu") if has_bias else None
        return lambda rows: multiply(rows, packed, onednn, bias)

    with SHARED:
        index = _kind_indices.setdefault((outputs, size, dtype, onednn), len(_kinds))
        if index == len(_kinds):
            without_bias, with_bias = (
                EqualRows(partial(make_kernel, has_bias), outputs=outputs, size=size, dtype=dtype)
                for has_bias in (False, True)
            )
            _kinds.append((without_bias, with_bias))
        return index


def _packed(weight: torch.Tensor, onednn: bool) -> torch.Tensor:
    return torch.ops.mkldnn._reorder_linear_weight(weight.contiguous()) if onednn else weight


Pack = Callable[[torch.Tensor], PackedWeight]
"""Packs a weight: `pack` with a precision."""


def pack(weight: torch.Tensor, precision: str, *, tried: bool = True) -> PackedWeight:
    """
    Packs a weight for products in `precision`, on its own device. Without `tried`, the rounding of a row may
    depend on the other rows, as in training.

    # Raises
    `ElmoError`: see `check_precision`.
    """
    check_precision(precision, weight.device)
    bfloat16 = precision == "bfloat16"
    onednn = weight.device.type == "cpu" and (bfloat16 or (weight.dtype == torch.float32 and has_onednn()))
    return PackedWeight.of(weight, onednn=onednn, bfloat16=bfloat16, tried=tried)


def check_precision(precision: str, device: torch.device) -> None:
    """
    Checks that the device has products of this precision.

    # Raises
    `ElmoError`: it has none.
    """
    if precision == "bfloat16" and device.type == "cpu" and not onednn_has_bfloat16():
        raise ElmoError(
            "precision is 'bfloat16', but this processor has no such products, which need AVX-512: expected "
            "'float32' here, by --precision float32 or --overrides '{\"model.elmo.precision\": \"float32\"}'"
        )


@cache
def has_onednn() -> bool:
    """Returns whether this build of PyTorch has oneDNN's products with packed weights."""
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


@cache
def compiled(function: Callable[..., Result]) -> Callable[..., Result]:
    """
    Compiles a function by TorchScript, so that it runs beside other threads, where PyTorch has its products;
    otherwise returns it as it is.
    """
    if not has_onednn():
        return function
    with warnings.catch_warnings():
        # It is deprecated without a successor that needs no C++ compiler.
        warnings.simplefilter("ignore", DeprecationWarning)
        for in_python in (tried_block, product_in_blocks):
            torch.jit.ignore(in_python)
        script: Callable[..., Result] = torch.jit.script(function)
        return script


@cache
def onednn_has_bfloat16() -> bool:
    """Returns whether oneDNN multiplies bfloat16 with the instructions that it may use here."""
    return has_onednn() and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def lone_row_block(precision: str) -> Block:
    """Returns the largest block of a lone row in the LSTM of the original size; or one that is negative."""
    dtype, shapes = getattr(torch, precision), ((4 * 4096, 512), (512, 4096))
    kinds = [_kind(outputs, size, dtype, has_onednn()) for outputs, size in shapes]

    def of_direction(_direction: int, _threads: int) -> list[Block]:
        return [_kinds[kind][False].block(1) for kind in kinds]

    blocks = [block for direction in in_two_threads(of_direction) for block in direction]
    return min(blocks) if min(blocks) < 0 else max(blocks)


def sigmoid(inputs: torch.Tensor) -> torch.Tensor:
    """
    Computes the sigmoid of each value, with the same rounding at every index of its row and with any
    number of threads. With gradients, and on other devices than a CPU, it is `torch.sigmoid`.

    *Shape:* `(..., width)` to the same.
    """
    if inputs.requires_grad or not inputs.is_cpu:
        return inputs.sigmoid()
    return sigmoid_into(torch.empty_like(inputs), inputs, torch.get_num_threads())


def sigmoid_into(
    results: torch.Tensor,
    inputs: torch.Tensor,
    threads: int,
    width: int = VECTOR_WIDTH,
    min_of_a_thread: int = MIN_OF_A_THREAD,
) -> torch.Tensor:
    """
    Computes the sigmoid of contiguous values on a CPU with a number of threads, and writes it into `results`,
    which may be `inputs`. TorchScript compiles it.

    *Shape:* `(..., width)` twice to the same.
    """
    padding = (width - inputs.size(-1) % width) % width
    padded = F.pad(inputs, [0, padding]) if padding > 0 else inputs
    target = padded if padding > 0 else results
    values = padded.numel()
    # PyTorch takes so many threads, with equally many values each.
    threads = min(threads, (values + min_of_a_thread - 1) // min_of_a_thread)
    if threads < 2:
        torch.sigmoid(padded, out=target)
    else:
        # With fewer values than the second number, there is one thread fewer, and each has as few as it may.
        split = max(values - values % (threads * width), (threads - 1) * min_of_a_thread)
        torch.sigmoid(padded.view(-1)[:split], out=target.view(-1)[:split])
        torch.sigmoid(padded.view(-1)[split:], out=target.view(-1)[split:])
    return results.copy_(padded[..., :-padding]) if padding > 0 else results
