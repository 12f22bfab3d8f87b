"""
Products with a weight that stays as it is, and the sigmoid, both with the same rounding in every batch.

A weight is packed once, into the order in which a product reads it fastest. A row of a product is rounded
alike whatever rows are beside it, so that a sentence has the same vectors alone and in any batch. BLAS does
not promise that. oneDNN keeps it from two rows on, with every instruction set and any number of threads; with
AVX2 and AVX-512, also for a single row up to a length. Elsewhere a single row is multiplied together with a
row of zeros. The tests hold the products to it.

The kind of product depends on what the processor and PyTorch's build can do, never on a measurement.
"""

import warnings
from collections.abc import Callable
from functools import cache
from typing import NamedTuple, TypeVar

import torch
from torch.nn import functional as F

from elmo_tasks.common.errors import ElmoError

Result = TypeVar("Result")
PRECISIONS = ("float32", "bfloat16")
MIN_ROWS = 2
"""From so many rows on, oneDNN rounds each row alike on every processor."""
MAX_SINGLE_ROW = 1024
"""Up to so many numbers, oneDNN rounds a single row like one among others, with AVX2 and AVX-512."""
MIN_PLAIN_ROWS = 16
"""From so many rows on, the BLAS libraries that were tried round each row alike."""
MAX_UNPADDED_ROWS, ROW_MULTIPLE = 64, 16
"""
Beyond `MAX_UNPADDED_ROWS`, rows of zeros pad a product to a multiple of `ROW_MULTIPLE`, since oneDNN takes
0.4 ms to compile a kernel for each new number of rows.
"""
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
    min_rows: int
    """Rows of zeros pad a product to so many."""

    @classmethod
    def of(cls, weight: torch.Tensor, *, onednn: bool, bfloat16: bool) -> "PackedWeight":
        """Packs a weight `(out, in)`."""
        packed = weight.bfloat16() if bfloat16 else weight
        if onednn:
            packed = torch.ops.mkldnn._reorder_linear_weight(packed.contiguous())
            single = not bfloat16 and weight.size(1) <= MAX_SINGLE_ROW and onednn_rounds_single_rows_alike()
            min_rows = 1 if single else MIN_ROWS
        else:
            min_rows = 1 if bfloat16 else MIN_PLAIN_ROWS
        return cls(packed, weight if bfloat16 else None, onednn, bfloat16, min_rows)

    def __call__(self, inputs: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        return product(inputs, self, bias)

    def dense(self) -> torch.Tensor:
        """Returns the weight as it was packed, bit for bit. *Shape:* `(out, in)`."""
        if self.weight is not None:
            return self.weight
        return self.packed.to_dense() if self.onednn else self.packed


def product(
    inputs: torch.Tensor,
    weight: PackedWeight,
    bias: torch.Tensor | None,
    max_unpadded: int = MAX_UNPADDED_ROWS,
    multiple: int = ROW_MULTIPLE,
) -> torch.Tensor:
    """
    Computes `inputs @ weight.T + bias`, in float32 or wider. TorchScript compiles it.

    *Shape:* `(rows, in)`, `(out,)` to `(rows, out)`, a new tensor.
    """
    rows = inputs.size(0)
    missing = weight.min_rows - rows
    if weight.onednn and rows > max_unpadded:
        missing = (multiple - rows % multiple) % multiple
    if missing > 0:
        inputs = F.pad(inputs, [0, 0, 0, missing])
    if weight.bfloat16:
        inputs = inputs.to(torch.bfloat16)
    inner_bias = None if weight.bfloat16 else bias
    if weight.onednn:
        result = torch.ops.mkldnn._linear_pointwise(inputs, weight.packed, inner_bias, "none", [], "")
    else:
        result = F.linear(inputs, weight.packed, inner_bias)
    if weight.bfloat16:
        result = result.float()
        if bias is not None:
            result.add_(bias)
    return result[:rows] if missing > 0 else result


Pack = Callable[[torch.Tensor], PackedWeight]
"""Packs a weight: `pack` with a precision."""


def pack(weight: torch.Tensor, precision: str) -> PackedWeight:
    """
    Packs a weight for products in `precision`, on its own device.

    # Raises
    `ElmoError`: see `check_precision`.
    """
    check_precision(precision, weight.device)
    bfloat16 = precision == "bfloat16"
    onednn = weight.device.type == "cpu" and (bfloat16 or (weight.dtype == torch.float32 and has_onednn()))
    return PackedWeight.of(weight, onednn=onednn, bfloat16=bfloat16)


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
        script: Callable[..., Result] = torch.jit.script(function)
        return script


@cache
def onednn_has_bfloat16() -> bool:
    """Returns whether oneDNN multiplies bfloat16 with the instructions that it may use here."""
    return has_onednn() and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


@cache
def onednn_rounds_single_rows_alike() -> bool:
    """
    Returns whether oneDNN, with the instructions that it may use here, rounds a single row of up to
    `MAX_SINGLE_ROW` numbers like one among others. oneDNN has no function that says so, hence a trial.
    """
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(2048, MAX_SINGLE_ROW, generator=generator)
    rows = torch.randn(MIN_ROWS, MAX_SINGLE_ROW, generator=generator)
    packed = torch.ops.mkldnn._reorder_linear_weight(weight)
    kind = PackedWeight(packed, None, onednn=True, bfloat16=False, min_rows=1)
    return torch.equal(kind(rows[:1])[0], kind(rows)[0])


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
