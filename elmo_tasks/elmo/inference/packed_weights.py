"""
The sigmoid of rows, rounded alike in whatever batch a row comes, and by however many threads.

Products with a weight matrix that stays as it is: it is packed once into the order in which it is read
fastest.

A row of a product is rounded in the same way whatever rows are beside it, so that a sentence has the same
vectors alone and in any batch. BLAS does not promise that, and oneDNN keeps it from two rows on, with every
instruction set and any number of threads. With AVX2 and AVX-512 it keeps it for a lone row too, up to a
length; where it does not, a lone row is multiplied together with a row of zeros. The tests hold it to that.

Which product is taken depends on what the processor and PyTorch's build can do, never on a measurement.
"""

from abc import ABC, abstractmethod
from functools import cache

import torch
from torch.nn import functional as F

from elmo_tasks.common.errors import ElmoError

# ==== elmo.inference.sigmoid
VECTOR_WIDTH = 32
"""
PyTorch computes so many values at a time, and rounds those that are left over, at the end of what it gives to
a thread, in another way.
"""
MIN_OF_A_THREAD = 1 << 15
"""PyTorch gives a thread at least so many values; with more, to all threads equally many."""


def sigmoid(inputs: torch.Tensor, *, in_place: bool = False) -> torch.Tensor:
    """
    With gradients, and on other devices, as `torch.sigmoid`.

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
    """How many of the values, a multiple of `VECTOR_WIDTH`, threads can share in whole vectors."""
    threads = -(-values // MIN_OF_A_THREAD)
    if threads == 1 or (threads := min(torch.get_num_threads(), threads)) == 1:
        return values
    # With fewer than this there is one thread fewer, and each has as few as it may.
    fewest = (threads - 1) * MIN_OF_A_THREAD
    return max(values - values % (threads * VECTOR_WIDTH), fewest)


# ==== elmo.inference.packed_weights
PRECISIONS = ("float32", "bfloat16")
MIN_ROWS = 2
"""From so many rows on oneDNN rounds each row alike, whatever the processor."""
MAX_SINGLE_ROW = 1024
"""Numbers in a row, up to which oneDNN rounds a lone row like one among others, with AVX2 and AVX-512."""
MIN_PLAIN_ROWS = 16
"""The same for BLAS; not promised by any, and not kept by all."""

FEW_ROWS = 64
"""Up to so many rows, the number of rows of a product is kept."""
RECURRING_ROWS = 16
"""Beyond `FEW_ROWS`, the number of rows is a multiple of it."""


class PackedWeight(ABC):
    """
    A weight matrix in the form in which one kind of processor multiplies with it.

    # Parameters

    weight : `(out, in)`.
    """

    def __init__(self, weight: torch.Tensor) -> None:
        self.numel = weight.numel()

    def __call__(
        self, inputs: torch.Tensor, bias: torch.Tensor | None = None, addend: torch.Tensor | None = None
    ) -> torch.Tensor:
        """
        `inputs @ weight.T + bias + addend`.

        *Shape:* `(rows, in)`, `(out,)`, `(rows, out)` to `(rows, out)`, newly made.
        """
        product = self._product(inputs, bias)[: len(inputs)]
        return product if addend is None else product.add_(addend)

    @abstractmethod
    def _product(self, inputs: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        """`inputs @ weight.T + bias`, in float32 or wider; rows behind those of the inputs are left out."""

    @abstractmethod
    def dense(self) -> torch.Tensor:
        """The weight as it was packed, bit by bit. *Shape:* `(out, in)`."""


def pack(weight: torch.Tensor, precision: str) -> PackedWeight:
    """
    Packs a weight for products in `precision`, on its own device.

    # Raises
    `ElmoError`: this processor has no products of that precision.
    """
    check_precision(precision, weight.device)
    on_cpu = weight.device.type == "cpu"
    if precision == "bfloat16":
        return (OneDnnBfloat16 if on_cpu else PlainBfloat16)(weight)
    return (OneDnn if on_cpu and weight.dtype == torch.float32 and has_onednn() else Plain)(weight)


def check_precision(precision: str, device: torch.device) -> None:
    """
    # Raises
    `ElmoError`: the device has no products of that precision.
    """
    if precision == "bfloat16" and device.type == "cpu" and not onednn_has_bfloat16():
        raise ElmoError(
            "precision is 'bfloat16', but this processor has no such products, which need AVX-512: expected "
            "'float32' here, by --precision float32 or --overrides '{\"model.elmo.precision\": \"float32\"}'"
        )


@cache
def has_onednn() -> bool:
    """Whether this build of PyTorch has oneDNN's products with packed weights."""
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


@cache
def onednn_has_bfloat16() -> bool:
    """
    Whether oneDNN multiplies bfloat16 on this processor, with the instructions that it is allowed to use.
    """
    return has_onednn() and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


@cache
def onednn_rounds_lone_rows_alike() -> bool:
    """
    Whether oneDNN rounds a lone row of up to `MAX_SINGLE_ROW` numbers like one among others, with the
    instructions that it is allowed to use: a product tells, since no function of oneDNN's does.
    """
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(2048, MAX_SINGLE_ROW, generator=generator)
    rows = torch.randn(MIN_ROWS, MAX_SINGLE_ROW, generator=generator)
    packed = torch.ops.mkldnn._reorder_linear_weight(weight)
    lone, both = (
        torch.ops.mkldnn._linear_pointwise(inputs, packed, None, "none", [], "")
        for inputs in (rows[:1], rows)
    )
    return torch.equal(lone[0], both[0])


class OneDnn(PackedWeight):
    """float32 on a CPU."""

    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__(weight)
        self._packed = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous())
        lone = weight.size(1) <= MAX_SINGLE_ROW and onednn_rounds_lone_rows_alike()
        self._fewest_rows = 1 if lone else MIN_ROWS

    def __call__(
        self, inputs: torch.Tensor, bias: torch.Tensor | None = None, addend: torch.Tensor | None = None
    ) -> torch.Tensor:
        if addend is not None and len(inputs) >= self._fewest_rows:
            return torch.ops.mkldnn._linear_pointwise.binary(inputs, addend, self._packed, bias, "add")
        return super().__call__(inputs, bias, addend)

    def _product(self, inputs: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        rows = _filled_up(inputs, max(self._fewest_rows, _recurring(len(inputs))))
        return torch.ops.mkldnn._linear_pointwise(rows, self._packed, bias, "none", [], "")

    def dense(self) -> torch.Tensor:
        return self._packed.to_dense()


class OneDnnBfloat16(PackedWeight):
    """bfloat16 on a CPU, sums in float32."""

    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__(weight)
        self._exact = weight
        self._packed = torch.ops.mkldnn._reorder_linear_weight(weight.bfloat16())

    def _product(self, inputs: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        rows = _filled_up(inputs.bfloat16(), max(MIN_ROWS, _recurring(len(inputs))))
        product = torch.ops.mkldnn._linear_pointwise(rows, self._packed, None, "none", [], "").float()
        return product if bias is None else product.add_(bias)

    def dense(self) -> torch.Tensor:
        return self._exact


class Plain(PackedWeight):
    """PyTorch's own product: on other devices, in other types, and where there is no oneDNN."""

    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__(weight)
        self._weight = weight

    def _product(self, inputs: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        return F.linear(_filled_up(inputs, MIN_PLAIN_ROWS), self._weight, bias)

    def dense(self) -> torch.Tensor:
        return self._weight


class PlainBfloat16(PackedWeight):
    """bfloat16 on other devices."""

    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__(weight)
        self._exact = weight
        self._weight = weight.bfloat16()

    def _product(self, inputs: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        product = F.linear(inputs.bfloat16(), self._weight).float()
        return product if bias is None else product.add_(bias)

    def dense(self) -> torch.Tensor:
        return self._exact


def _recurring(rows: int) -> int:
    """A number of rows that recurs, if it is large: oneDNN compiles a kernel for each new one, in 0.4 ms."""
    return rows if rows <= FEW_ROWS else -(-rows // RECURRING_ROWS) * RECURRING_ROWS


def _filled_up(inputs: torch.Tensor, rows: int) -> torch.Tensor:
    """The inputs, and rows of zeros behind them, so that there are `rows` at least."""
    missing = rows - len(inputs)
    return inputs if missing <= 0 else F.pad(inputs, (0, 0, 0, missing))
