"""
Matrix products of training in a chosen precision, and buffers that are used again.

A product takes its kernel from what the processor can do, never from a measurement, so that a training that
is resumed on the same machine rounds as before.
"""

import math
import platform
from functools import cache
from typing import Any

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.common.machine import CACHES_LOCK
from elmo_tasks.common.packed_weights import check_precision, has_onednn, kernel_call, onednn_has_bfloat16


class Products:
    """
    How a training multiplies, and the buffers that it keeps from one batch to the next. With the `precision`
    `bfloat16`, factors and products are rounded to it, each product adds up in float32, and everything else
    stays in float32. float64 tensors are never rounded. A precision that neither this processor nor a GPU of
    this machine has is an `ElmoError`.
    """

    def __init__(self, precision: str = "float32") -> None:
        check_precision(precision)
        if precision == "bfloat16" and not (trains_in_bfloat16() or torch.cuda.is_available()):
            raise ElmoError(
                "precision 'bfloat16' needs a GPU, or a processor with AVX512_BF16, AMX or ARM's bfloat16",
                remedy="set precision to 'float32'",
            )
        self.precision = precision
        self.buffers = BufferPool()

    def dtype(self, like: torch.Tensor) -> torch.dtype:
        rounded = self.precision == "bfloat16" and like.dtype == torch.float32
        return torch.bfloat16 if rounded else like.dtype


class BufferPool:
    """A pool of buffers that are reused, since the first touch of a page costs more than the rest."""

    def __init__(self) -> None:
        self.free: list[torch.Tensor] = []

    def __reduce__(self) -> tuple[object, ...]:
        """A copy begins without memory."""
        return BufferPool, ()


class Workspace:
    """Tensors from a `BufferPool`, given back when the workspace is no longer referred to."""

    def __init__(self, buffers: BufferPool) -> None:
        self._buffers = buffers
        self._taken: list[torch.Tensor] = []

    def empty(self, like: torch.Tensor, *shape: int, dtype: torch.dtype | None = None) -> torch.Tensor:
        dtype = dtype or like.dtype
        if like.device.type != "cpu":
            return torch.empty(shape, dtype=dtype, device=like.device)
        size = math.prod(shape)
        buffer = self._take(size, dtype)
        if buffer is None:
            # Written to again in training, too, which an inference tensor cannot be
            with torch.inference_mode(False):
                # A power of two, so that a batch that is a little larger finds it large enough
                buffer = torch.empty(1 << (size - 1).bit_length() if size else 0, dtype=dtype)
        self._taken.append(buffer)
        return buffer[:size].view(shape)

    def _take(self, size: int, dtype: torch.dtype) -> torch.Tensor | None:
        free = self._buffers.free
        with CACHES_LOCK:
            fitting = [index for index, part in enumerate(free) if part.dtype == dtype and len(part) >= size]
            return free.pop(min(fitting, key=lambda index: len(free[index]))) if fitting else None

    def __del__(self) -> None:
        # Without the lock, which the thread in which this happens may hold: it moves no other buffer.
        self._buffers.free.extend(self._taken)


def product(inputs: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """
    Computes `inputs @ weight.T + bias` without gradients, in one dtype. *Shape:* `(rows, in)`, `(out, in)`,
    which may be a transposed view, and `(out,)` to `(rows, out)`.
    """
    onednn = inputs.device.type == "cpu" and inputs.dtype in _onednn_dtypes() and inputs.numel() > 0
    function, arguments = kernel_call(weight, onednn, bias)
    return function(inputs, *arguments)


def packed(weight: torch.Tensor) -> torch.Tensor:
    """Returns a weight of many products in the order in which `product` reads it fastest."""
    if weight.device.type == "cpu" and weight.dtype in _onednn_dtypes():
        return torch.ops.mkldnn._reorder_linear_weight(weight)
    return weight


def weight_gradient(grad_outputs: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
    """Computes `grad_outputs.T @ inputs`. *Shape:* `(rows, out)` and `(rows, in)` to `(out, in)`."""
    # The kernel makes a transposed left factor contiguous: so the narrower one is the left one.
    if grad_outputs.size(1) <= inputs.size(1):
        return product(grad_outputs.t(), inputs.t())
    return product(inputs.t(), grad_outputs.t()).t()


def trains_in_bfloat16() -> bool:
    """Returns whether this processor multiplies in bfloat16 faster than in float32."""
    if torch.bfloat16 not in _onednn_dtypes():
        return False
    fast = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return fast or platform.machine() in ("aarch64", "arm64")


@cache
def _onednn_dtypes() -> frozenset[torch.dtype]:
    """
    Returns the dtypes of the products that oneDNN computes. In float32 it is twice as fast as the MKL of
    `torch.mm` on AMD's processors with AVX-512, and as fast on Intel's; with AVX2 both are equal.
    """
    if not has_onednn():
        return frozenset()
    dtypes = set()
    if torch.backends.cpu.get_cpu_capability().startswith("AVX512"):
        dtypes.add(torch.float32)
    if onednn_has_bfloat16():
        dtypes.add(torch.bfloat16)
    return frozenset(dtypes)


class Product(Function):
    """`apply(products, inputs, weight, bias)`: `product` with gradients, in the precision of `products`."""

    @staticmethod
    def forward(
        ctx: Any, products: Products, inputs: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
    ) -> torch.Tensor:
        dtype = products.dtype(inputs)
        factors = inputs.to(dtype), weight.to(dtype)
        ctx.save_for_backward(*factors)
        result = product(*factors, None if bias is None else bias.to(dtype))
        return result.to(inputs.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_result: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        inputs, weight = ctx.saved_tensors
        rounded = grad_result.to(inputs.dtype)
        _, needs_inputs, needs_weight, needs_bias = ctx.needs_input_grad
        return (
            None,
            product(rounded, weight.t()).to(grad_result.dtype) if needs_inputs else None,
            weight_gradient(rounded, inputs).to(grad_result.dtype) if needs_weight else None,
            grad_result.sum(dim=0) if needs_bias else None,
        )
