"""
Products with a weight that stays as it is, and the sigmoid, both with the same rounding in every batch.

A weight is packed once, into the order in which a product reads it fastest. A row of a product is rounded
alike whatever rows are beside it, so that a sentence has the same vectors alone and in any batch. No library
promises that: `EqualRows` finds by trial how many rows may be multiplied at once.

The kind of product depends on what the processor and PyTorch's build can do, never on a measurement.
"""

import warnings
from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple, TypeVar

import torch
from torch.nn import functional as F

from elmo_tasks.common.equal_rows import SAMPLE_ROWS, EqualRows, in_blocks, sample_rows
from elmo_tasks.common.errors import ElmoError
from elmo_tasks.common.machine import SHARED, in_one_thread

Result = TypeVar("Result")
PRECISIONS = ("float32", "bfloat16")
MIN_ROWS_ON_GPU = 16
"""A product in float32 or wider on a GPU has at least so many rows."""
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
    trial: int
    """The index in `_trials` of what was tried with products of this kind and shape, or -1."""

    @classmethod
    def of(cls, weight: torch.Tensor, *, onednn: bool, bfloat16: bool, tried: bool = True) -> "PackedWeight":
        """Packs a weight `(out, in)`; for `tried` see `pack`."""
        packed = weight.bfloat16() if bfloat16 else weight
        trial = _trial(weight, packed.dtype, onednn) if tried and weight.device.type == "cpu" else -1
        if onednn:
            packed = torch.ops.mkldnn._reorder_linear_weight(packed.contiguous())
        return cls(packed, weight if bfloat16 else None, onednn, bfloat16, trial)

    def __call__(self, inputs: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        return product(inputs, self, bias)

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

    *Shape:* `(rows, in)`, `(out,)` to `(rows, out)`, a new tensor.
    """
    return product_by(inputs, weight, bias, block_of(weight, inputs.size(0), bias))


def product_by(
    inputs: torch.Tensor, weight: PackedWeight, bias: torch.Tensor | None, block: int
) -> torch.Tensor:
    """Computes `product` so many rows at once; if the number is negative, in one thread."""
    rows = inputs.size(0)
    inner_bias = None if weight.bfloat16 else bias
    if weight.bfloat16:
        inputs = inputs.to(torch.bfloat16)
    if block < rows:
        result = in_blocks_of(inputs, weight.packed, weight.onednn, inner_bias, block)
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


def block_of(weight: PackedWeight, rows: int, bias: torch.Tensor | None) -> int:
    """Returns the `block` of `product_by` for a product of so many rows in this thread."""
    return tried_block(weight.trial, weight.packed, weight.weight, weight.onednn, max(1, rows), bias)


# TorchScript calls Python here, to which it cannot hand a `PackedWeight`.


def in_blocks_of(
    inputs: torch.Tensor, packed: torch.Tensor, onednn: bool, bias: torch.Tensor | None, block: int
) -> torch.Tensor:
    call = partial(multiply, packed=packed, onednn=onednn, bias=bias)
    if block > 0:
        return in_blocks(call, inputs, block)
    return in_one_thread(partial(in_blocks, call, inputs, -block))


def tried_block(
    trial: int,
    packed: torch.Tensor,
    weight: torch.Tensor | None,
    onednn: bool,
    rows: int,
    bias: torch.Tensor | None,
) -> int:
    bfloat16 = packed.dtype == torch.bfloat16
    if trial < 0:
        return rows if bfloat16 else max(rows, MIN_ROWS_ON_GPU)
    make_sample = partial(sample_rows, packed.size(1), packed.dtype, weight)
    return _trials[trial][bias is not None and not bfloat16].block(rows, packed, make_sample)


_trials: list[tuple[EqualRows, EqualRows]] = []
"""Without and with a bias."""
_trial_of_kind: dict[tuple[torch.dtype, torch.Size, bool], int] = {}


def _trial(weight: torch.Tensor, dtype: torch.dtype, onednn: bool) -> int:
    """Returns the index in `_trials` for a weight whose product has factors of a type."""
    # A weight that is mostly zeros would not show how others of its shape are rounded.
    sparse = int(weight[:SAMPLE_ROWS].count_nonzero()) * 2 < weight[:SAMPLE_ROWS].numel()
    exact = dtype != torch.bfloat16
    with SHARED:
        new = len(_trials)
        index = new if sparse else _trial_of_kind.setdefault((dtype, weight.shape, onednn), new)
        if index == new:
            without, with_bias = (
                EqualRows(partial(multiply, onednn=onednn, bias=bias), exact=exact)
                for bias in (None, torch.ones(len(weight), dtype=dtype, device="cpu"))
            )
            _trials.append((without, with_bias))
        return index


Pack = Callable[[torch.Tensor], PackedWeight]
"""Packs a weight: `pack` with a precision."""


def pack(weight: torch.Tensor, precision: str, *, tried: bool = True) -> PackedWeight:
    """
    Packs a weight for products in `precision`, on its own device. Without `tried`, a row may be rounded in
    another way beside others, as in training.

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
        for in_python in (tried_block, in_blocks_of):
            torch.jit.ignore(in_python)
        script: Callable[..., Result] = torch.jit.script(function)
        return script


@cache
def onednn_has_bfloat16() -> bool:
    """Returns whether oneDNN multiplies bfloat16 with the instructions that it may use here."""
    return has_onednn() and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


@cache
def lone_row_block(precision: str) -> int:
    """
    Returns the largest block, as of `product_by`, of a lone row in a biLM of the original size, 4096_512;
    negative if one of its products is computed in one thread.
    """
    blocks = []
    for shape in ((4 * 4096, 512), (512, 4096)):
        weight = torch.randn(shape, generator=torch.Generator().manual_seed(0)) / shape[1] ** 0.5
        blocks.append(block_of(pack(weight, precision), 1, None))
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
