"""
Products with a weight matrix: `Linear` for weights that are being trained, `FrozenLinear` for weights that
stay as they are.

Each rounds a row in the same way in whatever batch it comes, so that a sentence has the same vectors alone
and among others. BLAS and oneDNN do not promise that: for a few rows they take other kernels, which add up in
another order. How many rows are enough was measured, and is tested.
"""

import warnings
from collections.abc import Callable, Hashable, Sequence
from functools import cache
from time import perf_counter
from typing import Any, TypeVar

import torch
from torch.nn import functional as F

from elmo_tasks.elmo.products import Product, Products
from elmo_tasks.elmo.seen import Seen

Matrix = Callable[[torch.Tensor, torch.Tensor | None, torch.Tensor | None], torch.Tensor]
"""`(inputs, bias, addend)` to `inputs @ weight.T + bias + addend`, newly made."""


Made = TypeVar("Made")


class Linear:
    """
    What the layers of the biLM multiply with; this one with PyTorch's matrix product, through which gradients
    flow.
    """

    def __call__(
        self,
        inputs: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None = None,
        addend: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """
        `inputs @ weight.T + bias + addend`.

        *Shape:* `(rows, in)`, `(out, in)`, `(out,)`, `(rows, out)` to `(rows, out)`, newly made.
        """
        product = F.linear(_filled_up(inputs, 16), weight, bias)[: len(inputs)]
        return product if addend is None else product + addend

    def derived(self, name: Hashable, make: Callable[[], Made], *others: torch.Tensor) -> Made:
        """What `make` makes from the weights, which may be trained: so it is made each time."""
        return make()


class TrainedLinear(Linear):
    """`Linear` as fast as it can be with gradients: a row may be rounded in another way among other rows."""

    def __init__(self, products: Products) -> None:
        self.products = products

    def __call__(
        self,
        inputs: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None = None,
        addend: torch.Tensor | None = None,
    ) -> torch.Tensor:
        result = Product.apply(self.products, inputs, weight, bias)
        return result if addend is None else result + addend


class FrozenLinear(Linear):
    """
    `Linear` for weights that stay as they are: brought once into the order in which they are read fastest.

    `renew` comes before each use, and lets go of everything when a weight has changed.

    # Parameters

    precision : `float32`, `bfloat16` or `int8`.
    """

    def __init__(self, *, precision: str) -> None:
        self.precision = precision
        self.dtype = torch.float32 if precision == "float32" else torch.bfloat16
        """In which a device without packed weights multiplies."""
        self.clear()

    def __getstate__(self) -> dict[str, Any]:
        """A copy prepares its own."""
        return {"precision": self.precision}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def clear(self) -> None:
        """Lets go of all weights and of what was made from them."""
        self._weights = Seen([])
        self._matrices: dict[tuple[int, torch.Size], Matrix] = {}
        self._derived: dict[Hashable, tuple[Seen, Any]] = {}

    def renew(self, weights: Sequence[torch.Tensor]) -> None:
        """Forgets what was made of other weights than these, or before they were changed in place."""
        if not self._weights.are(weights):
            self.clear()
            self._weights = Seen(weights)

    def __call__(
        self,
        inputs: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None = None,
        addend: torch.Tensor | None = None,
    ) -> torch.Tensor:
        key = weight.data_ptr(), weight.shape
        multiply = self._matrices.get(key)
        if multiply is None:
            multiply = self._matrices[key] = self.prepared(weight.detach())
        return multiply(inputs, bias, addend)

    def derived(self, name: Hashable, make: Callable[[], Made], *others: torch.Tensor) -> Made:
        """What `make` makes from the weights, and from `others`: made once, and again when they change."""
        found = self._derived.get(name)
        if found is None or not found[0].are(others):
            found = self._derived[name] = Seen(others), make()
        return found[1]

    def forget(self, name: Hashable) -> None:
        """Lets go of what was made under this name."""
        self._derived.pop(name, None)

    def prepared(self, weight: torch.Tensor) -> Matrix:
        """The product with a weight, which need not be kept for it."""
        if weight.device.type != "cpu":
            return _plain(weight) if self.dtype == torch.float32 else _plain_bfloat16(weight)
        if self.precision == "float32":
            return _packed(weight) if onednn_is_faster() else _plain(weight)
        return {"bfloat16": _packed_bfloat16, "int8": _packed_int8}[self.precision](weight)


@cache
def onednn_is_faster() -> bool:
    """
    Whether oneDNN with a packed weight beats `torch.mm`, by a measurement of some milliseconds. Plain
    products win only if they are faster by a quarter, so that the answer, and with it the rounding, is the
    same from run to run.
    """
    if not torch.backends.mkldnn.is_available() or not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return False
    inputs, weight = torch.zeros(64, 512), torch.zeros(2048, 512)
    times = {}
    for kind in (_packed, _plain):
        multiply = kind(weight)
        times[kind] = min(_seconds(multiply, inputs) for _ in range(8))
    return times[_packed] < 1.25 * times[_plain]


def _seconds(multiply: Matrix, inputs: torch.Tensor) -> float:
    start = perf_counter()
    multiply(inputs, None, None)
    return perf_counter() - start


def _plain(weight: torch.Tensor) -> Matrix:
    linear = Linear()
    return lambda inputs, bias, addend: linear(inputs, weight, bias, addend)


def _plain_bfloat16(weight: torch.Tensor) -> Matrix:
    weight = weight.bfloat16()

    def multiply(
        inputs: torch.Tensor, bias: torch.Tensor | None, addend: torch.Tensor | None
    ) -> torch.Tensor:
        return _sum(F.linear(inputs.bfloat16(), weight).float(), bias, addend)

    return multiply


def _packed(weight: torch.Tensor) -> Matrix:
    """oneDNN: the same rounding from one row on for short rows, from two on for long ones."""
    packed = torch.ops.mkldnn._reorder_linear_weight(weight)
    product = torch.ops.mkldnn._linear_pointwise
    fewest = 1 if weight.size(1) <= 1024 else 2

    def multiply(
        inputs: torch.Tensor, bias: torch.Tensor | None, addend: torch.Tensor | None
    ) -> torch.Tensor:
        rows = len(inputs)
        if addend is not None and rows >= fewest:
            return product.binary(inputs, addend, packed, bias, "add")
        inputs = _filled_up(inputs, _round_up(rows, fewest))
        return _sum(product(inputs, packed, bias, "none", [], "")[:rows], None, addend)

    return multiply


def _packed_bfloat16(weight: torch.Tensor) -> Matrix:
    packed = torch.ops.mkldnn._reorder_linear_weight(weight.bfloat16())
    product = torch.ops.mkldnn._linear_pointwise

    def multiply(
        inputs: torch.Tensor, bias: torch.Tensor | None, addend: torch.Tensor | None
    ) -> torch.Tensor:
        rows = len(inputs)
        inputs = _filled_up(inputs.bfloat16(), _round_up(rows, 1))
        return _sum(product(inputs, packed, None, "none", [], "")[:rows].float(), bias, addend)

    return multiply


def _packed_int8(weight: torch.Tensor) -> Matrix:
    """Each output's weights have a scale of their own; the inputs of one product share theirs."""
    with warnings.catch_warnings():
        # PyTorch means to move these to another package.
        warnings.simplefilter("ignore")
        scales = weight.abs().amax(dim=1).clamp_min(1e-12).double() / 127
        zeros = torch.zeros(len(weight), dtype=torch.long)
        quantized = torch.quantize_per_channel(weight, scales, zeros, axis=0, dtype=torch.qint8)
        packed = torch.ops.quantized.linear_prepack(quantized, None)
    product = torch.ops.quantized.linear_dynamic

    def multiply(
        inputs: torch.Tensor, bias: torch.Tensor | None, addend: torch.Tensor | None
    ) -> torch.Tensor:
        return _sum(product(inputs.contiguous(), packed, False), bias, addend)

    return multiply


def _sum(product: torch.Tensor, bias: torch.Tensor | None, addend: torch.Tensor | None) -> torch.Tensor:
    for term in (bias, addend):
        if term is not None:
            product = product.add_(term)
    return product


def _round_up(rows: int, fewest: int) -> int:
    """oneDNN compiles a kernel for each new number of rows (0.4 ms): so that large ones recur."""
    return max(rows, fewest) if rows <= 64 else -(-rows // 16) * 16


def _filled_up(inputs: torch.Tensor, rows: int) -> torch.Tensor:
    missing = rows - len(inputs)
    return inputs if missing <= 0 else F.pad(inputs, (0, 0, 0, missing))
