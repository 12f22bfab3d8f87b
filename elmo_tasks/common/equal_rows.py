"""
Finds how many rows a product may have so that each row is rounded the same way, whatever the other rows are.

oneDNN and BLAS choose a kernel, and with it the order in which the terms of a row are added, by the number of
rows and of threads. They promise nothing about it, and new processors bring new kernels. So each number of
rows is tried before its first use, with a made-up weight of the same shape.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from weakref import ref

import torch
from torch.nn import functional as F

from elmo_tasks.common.machine import CACHES_LOCK, run_single_threaded

SAMPLE_ROWS = 64
"""The number of different rows in a trial."""
REFERENCE_ROWS = (SAMPLE_ROWS, 32, 16, 8, 4, 2, 1)
"""
How a row is rounded is defined by the product of 64 rows in one thread, so that batches of 64 sentences lose
nothing; or of fewer, if rows of that product depend on each other.
"""
PADDED_SIZES = (2, 16, 32, 48, 64)
"""A product of fewer rows is padded to one of these numbers if its own does not do."""
CUT_SIZES = (256, 128, 64)
"""A larger product is cut into blocks of one of these sizes if its own number of rows does not do."""
MIN_RESULTS = 512
"""The least number of results that a trial compares, since some are equal by chance."""

Multiply = Callable[[torch.Tensor], torch.Tensor]
"""A product with one weight, in one call of a kernel: `(rows, in)` to `(rows, out)`."""
BlockRows = int
"""The number of rows of each call of the kernel; negative if one thread has to make the calls."""


class EqualRows:
    """
    The numbers of rows with which products of one shape and type round each row the same way. `make_kernel`
    makes a product with the weight that it is given, `(outputs, size)`, of the type `dtype`. Threads may
    share it: a trial gives the same answer in each.
    """

    def __init__(
        self, make_kernel: Callable[[torch.Tensor], Multiply], *, outputs: int, size: int, dtype: torch.dtype
    ) -> None:
        self._make_kernel = make_kernel
        self._outputs, self._size, self._dtype = outputs, size, dtype
        self._reference = 0
        self._of_sample: Callable[[], Multiply | None] = lambda: None
        """The product with the sample weight, while a thread needs it."""
        self._blocks: dict[int, dict[int, BlockRows]] = {}
        """By the number of threads, and of rows of a product."""
        self._is_alike: dict[tuple[int, int], bool] = {}
        """By the number of rows in a call of the kernel, and of threads."""

    def block(self, rows: int) -> BlockRows:
        """Returns the size of the blocks in which this thread multiplies `rows` rows."""
        blocks = self._blocks.setdefault(torch.get_num_threads(), {})
        if rows not in blocks:
            self.try_rows(LONE_ROWS if rows in LONE_ROWS else [rows])
        return blocks[rows]

    def try_rows(self, numbers: Iterable[int]) -> None:
        """Tries products of these numbers of rows in this thread together, which takes less time."""
        blocks = self._blocks.setdefault(torch.get_num_threads(), {})
        if new := [rows for rows in numbers if rows not in blocks]:
            self._try(new, blocks)

    def _try(self, numbers: list[int], blocks: dict[int, BlockRows]) -> None:
        multiply = self._multiply()
        sample = sample_rows(self._size, self._dtype)
        self._reference, expected = run_single_threaded(partial(self._defining, multiply, sample))
        for rows in numbers:
            blocks[rows] = self._find_block(rows, multiply, sample, expected)

    def _multiply(self) -> Multiply:
        """Makes the product with the sample weight, which is large: threads that try together share it."""
        with CACHES_LOCK:
            multiply = self._of_sample()
            if multiply is None:
                # Packing frees the weight.
                multiply = self._make_kernel(sample_weight(self._outputs, self._size, self._dtype))
                self._of_sample = ref(multiply)
            return multiply

    def _defining(self, multiply: Multiply, sample: torch.Tensor) -> tuple[int, torch.Tensor]:
        """Returns which of `REFERENCE_ROWS` it is, and the product of the sample with it."""
        if self._reference:
            return self._reference, in_blocks(multiply, sample, self._reference)
        shifted = torch.cat([torch.zeros_like(sample[:1]), sample[:-1]])
        for rows in REFERENCE_ROWS:
            expected = in_blocks(multiply, sample, rows)
            # Neither the place of a row nor its neighbours matter; a single row has neither.
            if rows == 1 or torch.equal(in_blocks(multiply, shifted, rows)[1:], expected[:-1]):
                break
        return rows, expected

    def _find_block(
        self, rows: int, multiply: Multiply, sample: torch.Tensor, expected: torch.Tensor
    ) -> BlockRows:
        def rounds_alike(size: int) -> bool:
            key = size, torch.get_num_threads()
            if key not in self._is_alike:
                self._is_alike[key] = _rounds_alike(size, multiply, sample, expected)
            return self._is_alike[key]

        if not rounds_alike(self._reference):
            return -self._reference
        return next(filter(rounds_alike, _block_sizes(rows)), self._reference)


def _rounds_alike(size: int, multiply: Multiply, sample: torch.Tensor, expected: torch.Tensor) -> bool:
    """Returns whether `size` rows of the sample together have the expected product in this thread."""
    times = -(-MIN_RESULTS // (size * expected.size(1)))
    for first in range(0, min(times, SAMPLE_ROWS) * size, size):
        rows = torch.arange(first, first + size, device="cpu") % SAMPLE_ROWS
        results = multiply(sample[rows]).split(SAMPLE_ROWS)
        products = expected.roll(-first, 0) if first else expected
        if not all(torch.equal(result, products[: len(result)]) for result in results):
            return False
    return True


def in_blocks(multiply: Multiply, inputs: torch.Tensor, block: BlockRows) -> torch.Tensor:
    """
    Multiplies blocks of exactly `block` rows. Rows of zeros fill up the last one.

    *Shape:* `(rows, in)` to `(rows, out)`.
    """
    if block < 0:
        return run_single_threaded(partial(in_blocks, multiply, inputs, -block))
    rows = inputs.size(0)
    if (missing := max(block - rows, -rows % block)) > 0:
        inputs = F.pad(inputs, (0, 0, 0, missing))
    return torch.cat([multiply(part) for part in inputs.split(block)])[:rows]


def sample_weight(outputs: int, size: int, dtype: torch.dtype) -> torch.Tensor:
    """
    Makes the weight of a trial. The columns of each second output repeat after `_period(size)`.

    *Shape:* `(outputs, size)`
    """
    period = _period(size)
    weight = torch.empty(outputs, size, dtype=dtype, device="cpu")
    values = _random(outputs + size, dtype=dtype)
    for rows in (weight[1::2], weight[::2]):
        # Each row is the one before it, shifted by one: random enough, and made in next to no time
        rows.copy_(values.as_strided(rows.shape, (1, 1)))
        values = values[:period].repeat(1 + (outputs + size) // period)
    return weight


def sample_rows(size: int, dtype: torch.dtype) -> torch.Tensor:
    """
    Makes the rows of a trial. In a product with each second output of `sample_weight`, each term has its
    opposite elsewhere in the row: the sum is zero except for what rounding lost, and that depends on the
    order. In another sum, a type of few digits would hide it. The other outputs show how a sum is rounded.

    *Shape:* `(SAMPLE_ROWS, size)`. The last row is the largest.
    """
    period = _period(size)
    shape = SAMPLE_ROWS, size - period
    exponents = torch.randint(9, shape, generator=torch.Generator("cpu").manual_seed(1), device="cpu")
    # Terms of different size lose more. Powers of two are exact in each type.
    terms = _random(*shape, dtype=dtype) * torch.exp2(exponents.to(dtype))
    rows = torch.zeros(SAMPLE_ROWS, size, dtype=dtype, device="cpu")
    rows[:, : size - period], rows[:, period:] = terms, -terms
    rows[-1] *= 16
    return rows


def _period(size: int) -> int:
    """Returns a bit more than half, so that no kernel that sums up halves or quarters finds all opposites."""
    return min(size, size // 2 + size // 16 + 1)


def _random(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    generator = torch.Generator("cpu").manual_seed(0)
    return torch.randn(shape, generator=generator, dtype=torch.float32, device="cpu").to(dtype)


@cache
def padded_rows(rows: int) -> int:
    """
    Returns the number to which `rows` rows are padded, one of few: each number is tried before its use, and
    oneDNN takes 0.4 ms to compile a kernel for it.
    """
    multiple = 16 if rows > SAMPLE_ROWS else 8 if rows > 32 else 4 if rows > 2 else 1
    return rows + -rows % multiple


LONE_ROWS = sorted({padded_rows(rows) for rows in range(1, 33)})
"""Of these, the numbers of rows of a lone sentence of usual length."""


def _block_sizes(rows: int) -> Iterator[int]:
    """Yields the sizes of blocks to try, the cheapest first."""
    if rows <= SAMPLE_ROWS:
        yield rows
        yield from (size for size in PADDED_SIZES if size > rows)
    else:
        yield padded_rows(rows)
        yield from (size for size in CUT_SIZES if size < rows)
