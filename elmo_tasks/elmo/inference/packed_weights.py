"""
Products with a weight that stays as it is, and the sigmoid, both with the same rounding in every batch.

A weight is packed once, into the order in which a product reads it fastest. A row of a product is rounded
alike whatever rows are beside it, so that a sentence has the same vectors alone and in any batch. BLAS does
not promise that. oneDNN keeps it from two rows on, with every instruction set and any number of threads; with
AVX2 and AVX-512, also for a single row up to a length. Elsewhere a single row is multiplied together with a
row of zeros. The tests hold the products to it.

The kind of product depends on what the processor and PyTorch's build can do, never on a measurement.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache

import torch
from torch.nn import functional as F

from elmo_tasks.common.errors import ElmoError

PRECISIONS = ("float32", "bfloat16")
MIN_ROWS = 2
"""From so many rows on, oneDNN rounds each row alike on every processor."""
MAX_SINGLE_ROW = 1024
"""Up to so many numbers, oneDNN rounds a single row like one among others, with AVX2 and AVX-512."""
MIN_PLAIN_ROWS = 16
"""From so many rows on, the BLAS libraries that were tried round each row alike."""
FEW_ROWS, RECURRING_ROWS = 64, 16
"""
Beyond `FEW_ROWS`, rows of zeros fill a product up to a multiple of `RECURRING_ROWS`, since oneDNN takes 0.4
ms to compile a kernel for each new number of rows.
"""
VECTOR_WIDTH = 32
"""
PyTorch computes so many sigmoids at a time. It rounds the values that are left over, at the end of what it
gives to a thread, in another way.
"""
MIN_OF_A_THREAD = 1 << 15
"""PyTorch gives each thread at least so many values; if it takes several threads, to all equally many."""


class PackedWeight(ABC):
    """
    A weight matrix in the form in which one kind of processor multiplies with it.

    # Parameters

    weight : `(out, in)`.
    """

    _weight: torch.Tensor
    """The weight, where it is kept as it is."""

    def __init__(self, weight: torch.Tensor) -> None:
        self.numel = weight.numel()

    def __call__(
        self, inputs: torch.Tensor, bias: torch.Tensor | None = None, addend: torch.Tensor | None = None
    ) -> torch.Tensor:
        """
        Computes `inputs @ weight.T + bias + addend`.

        *Shape:* `(rows, in)`, `(out,)`, `(rows, out)` to `(rows, out)`, a new tensor.
        """
        product = self._product(inputs, bias)[: len(inputs)]
        return product if addend is None else product.add_(addend)

    @abstractmethod
    def _product(self, inputs: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        """Computes `inputs @ weight.T + bias`, in float32 or wider, and maybe further rows."""

    def dense(self) -> torch.Tensor:
        """Returns the weight as it was packed, bit for bit. *Shape:* `(out, in)`."""
        return self._weight


Pack = Callable[[torch.Tensor], PackedWeight]
"""Packs a weight: `pack` with a precision."""


def pack(weight: torch.Tensor, precision: str) -> PackedWeight:
    """
    Packs a weight for products in `precision`, on its own device.

    # Raises
    `ElmoError`: see `check_precision`.
    """
    check_precision(precision, weight.device)
    on_cpu = weight.device.type == "cpu"
    if precision == "bfloat16":
        return (OneDnnBfloat16 if on_cpu else PlainBfloat16)(weight)
    return (OneDnn if on_cpu and weight.dtype == torch.float32 and has_onednn() else Plain)(weight)


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
    single, both = (_onednn_product(inputs, packed, None, min_rows=1) for inputs in (rows[:1], rows))
    return torch.equal(single[0], both[0])


class OneDnn(PackedWeight):
    """float32 on a CPU."""

    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__(weight)
        self._packed = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous())
        single = weight.size(1) <= MAX_SINGLE_ROW and onednn_rounds_single_rows_alike()
        self._min_rows = 1 if single else MIN_ROWS

    def __call__(
        self, inputs: torch.Tensor, bias: torch.Tensor | None = None, addend: torch.Tensor | None = None
    ) -> torch.Tensor:
        if addend is not None and len(inputs) >= self._min_rows:
            return torch.ops.mkldnn._linear_pointwise.binary(inputs, addend, self._packed, bias, "add")
        return super().__call__(inputs, bias, addend)

    def _product(self, inputs: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        return _onednn_product(inputs, self._packed, bias, self._min_rows)

    def dense(self) -> torch.Tensor:
        return self._packed.to_dense()


class OneDnnBfloat16(PackedWeight):
    """bfloat16 on a CPU, with sums in float32. The bias is added in float32."""

    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__(weight)
        self._weight = weight
        self._packed = torch.ops.mkldnn._reorder_linear_weight(weight.bfloat16())

    def _product(self, inputs: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        product = _onednn_product(inputs.bfloat16(), self._packed, None, MIN_ROWS).float()
        return product if bias is None else product.add_(bias)


class Plain(PackedWeight):
    """PyTorch's own product: on other devices, for other types, and where there is no oneDNN."""

    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__(weight)
        self._weight = weight

    def _product(self, inputs: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        return F.linear(_padded(inputs, MIN_PLAIN_ROWS), self._weight, bias)


class PlainBfloat16(PackedWeight):
    """bfloat16 on other devices. The bias is added in float32."""

    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__(weight)
        self._weight = weight
        self._rounded = weight.bfloat16()

    def _product(self, inputs: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        product = F.linear(inputs.bfloat16(), self._rounded).float()
        return product if bias is None else product.add_(bias)


def _onednn_product(
    inputs: torch.Tensor, packed: torch.Tensor, bias: torch.Tensor | None, min_rows: int
) -> torch.Tensor:
    rows = len(inputs)
    if rows > FEW_ROWS:
        rows = -(-rows // RECURRING_ROWS) * RECURRING_ROWS
    padded = _padded(inputs, max(min_rows, rows))
    return torch.ops.mkldnn._linear_pointwise(padded, packed, bias, "none", [], "")


def _padded(inputs: torch.Tensor, min_rows: int) -> torch.Tensor:
    """Adds rows of zeros, so that there are at least `min_rows`."""
    missing = min_rows - len(inputs)
    return inputs if missing <= 0 else F.pad(inputs, (0, 0, 0, missing))


def sigmoid(inputs: torch.Tensor, *, in_place: bool = False) -> torch.Tensor:
    """
    Computes the sigmoid of each value, with the same rounding wherever its row stands and however many
    threads there are. With gradients, and on other devices than a CPU, it is `torch.sigmoid`.

    *Shape:* `(..., width)` to the same.
    """
    plain = inputs.requires_grad or not inputs.is_cpu
    if not plain and (filling := -inputs.size(-1) % VECTOR_WIDTH):
        cut = sigmoid(F.pad(inputs, (0, filling)), in_place=True)[..., :-filling]
        return inputs.copy_(cut) if in_place else cut.contiguous()
    whole = inputs.numel() if plain else _in_whole_vectors(inputs.numel())
    if whole == inputs.numel():
        return inputs.sigmoid_() if in_place else inputs.sigmoid()
    results = inputs if in_place else torch.empty_like(inputs)
    for part in (slice(whole), slice(whole, None)):
        torch.sigmoid(inputs.view(-1)[part], out=results.view(-1)[part])
    return results


def _in_whole_vectors(values: int) -> int:
    """Returns how many of the values, a multiple of `VECTOR_WIDTH`, threads can share in whole vectors."""
    threads = -(-values // MIN_OF_A_THREAD)
    if threads == 1 or (threads := min(torch.get_num_threads(), threads)) == 1:
        return values
    # With fewer values than this, there is one thread fewer, and each has as few as it may.
    least = (threads - 1) * MIN_OF_A_THREAD
    return max(values - values % (threads * VECTOR_WIDTH), least)
