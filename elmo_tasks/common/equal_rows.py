"""
In blocks of how many rows a product rounds each row alike, whatever rows are beside it.

oneDNN and BLAS choose a kernel, and with it the order in which a row adds up, by the number of rows and of
threads. They promise nothing about it, and new processors bring new kernels. So each number of rows is tried
the first time that it is asked for, on the shape that is asked for.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple
from weakref import ref

import torch
from torch.nn import functional as F

from elmo_tasks.common.machine import in_one_thread

SAMPLE_ROWS = 64
"""A trial multiplies so many different rows."""
REFERENCE_ROWS = (SAMPLE_ROWS, 32, 16, 8, 4, 2, 1)
"""The numbers of rows of which one defines how a row is rounded: of a batch of 64 sentences, if it can."""
PADDED_SIZES = (2, 16, 32, 48, 64)
"""A product of fewer rows is padded to one of these numbers if its own does not do."""
ROW_MULTIPLE = 16
"""
Beyond `SAMPLE_ROWS`, rows of zeros pad a product to a multiple of it, since oneDNN takes 0.4 ms to compile a
kernel for each new number of rows.
"""
CUT_SIZES = (256, 128, 64)
"""A product of more rows is cut into so many at once if the multiple does not do."""

Multiply = Callable[[torch.Tensor], torch.Tensor]
"""A product with one weight, as a kernel computes it: `(rows, in)` to `(rows, out)`."""


class Trial(NamedTuple):
    """The product of some rows with a weight, against which others are held."""

    weight: "ref[torch.Tensor]"
    """Packed; a trial keeps no weight in memory."""
    sample: torch.Tensor
    """`(SAMPLE_ROWS, in)`, see `sample_rows`."""
    expected: torch.Tensor
    """`(SAMPLE_ROWS, out)`"""


class EqualRows:
    """
    The numbers of rows with which the products of one kind and shape round each row alike, as far as tried.

    How a row is rounded is defined by the product of `reference` rows in one thread. Threads may share the
    object: a trial gives the same answer in each.

    # Parameters

    multiply : multiplies `(rows, in)` with a packed weight.
    exact : results show in which order they were summed; those of a type of few digits do not.
    """

    def __init__(
        self, multiply: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], *, exact: bool
    ) -> None:
        self._multiply = multiply
        self._exact = exact
        self._reference = 0
        self._trial: Trial | None = None
        self._blocks: dict[tuple[int, int], int] = {}
        """By the number of rows of a product, and of threads."""
        self._is_equal: dict[tuple[int, int], bool] = {}
        """By the number of rows that are multiplied at once, and of threads."""

    def block(self, rows: int, weight: torch.Tensor, make_sample: Callable[[], torch.Tensor]) -> int:
        """
        Returns the number of rows to multiply at once, for a product of `rows` rows in this thread; negative
        if this has to be done in one thread.

        # Parameters

        weight : packed, one of the kind and shape.
        make_sample : makes the rows of a trial with it, see `sample_rows`.
        """
        key = rows, torch.get_num_threads()
        if key not in self._blocks:
            self._blocks[key] = self._find_block(rows, weight, make_sample)
        return self._blocks[key]

    def _find_block(self, rows: int, weight: torch.Tensor, make_sample: Callable[[], torch.Tensor]) -> int:
        trial = self._trial
        if trial is None or (tried_weight := trial.weight()) is None:
            tried_weight, sample = weight, make_sample()
            reference, expected = in_one_thread(partial(self._refer, weight, sample))
            self._is_equal[reference, 1] = True
            self._reference, self._trial = reference, (trial := Trial(ref(weight), sample, expected))
        multiply = self._with(tried_weight)
        if not self._rounds_alike(self._reference, multiply, trial):
            return -self._reference
        sizes = (size for size in _sizes(rows) if self._rounds_alike(size, multiply, trial))
        return next(sizes, self._reference)

    def _with(self, weight: torch.Tensor) -> Multiply:
        return lambda rows: self._multiply(rows, weight)

    def _refer(self, weight: torch.Tensor, sample: torch.Tensor) -> tuple[int, torch.Tensor]:
        """
        Returns the first of `REFERENCE_ROWS` with which neither a row's place nor the rows beside it matter,
        and the product of the sample so many rows at once.
        """
        multiply = self._with(weight)
        shifted = torch.cat([torch.zeros_like(sample[:1]), sample[:-1]])
        for rows in (self._reference,) if self._reference else REFERENCE_ROWS:
            expected = in_blocks(multiply, sample, rows)
            # A row by itself has neither.
            if rows == 1 or torch.equal(in_blocks(multiply, shifted, rows)[1:], expected[:-1]):
                break
        return rows, expected

    def _rounds_alike(self, size: int, multiply: Multiply, trial: Trial) -> bool:
        """Returns whether the sample has the expected product in this thread, `size` rows at once."""
        key = size, torch.get_num_threads()
        if key not in self._is_equal:
            # Each of several rows at each place, where one could look alike by chance
            shifts = [0] if self._exact else [number * (size + 1) for number in range(max(2, 8 // size))]
            self._is_equal[key] = all(
                _equal(multiply, size, *(part.roll(-shift, 0) for part in (trial.sample, trial.expected)))
                for shift in shifts
            )
        return self._is_equal[key]


def _equal(multiply: Multiply, size: int, rows: torch.Tensor, expected: torch.Tensor) -> bool:
    """Multiplies the first `size` rows, repeated if they are fewer, and returns whether it is as expected."""
    inputs = rows[:size] if size <= len(rows) else rows[torch.arange(size, device="cpu") % len(rows)]
    results = multiply(inputs).split(len(rows))
    return all(torch.equal(result, expected[: len(result)]) for result in results)


def in_blocks(multiply: Multiply, inputs: torch.Tensor, block: int) -> torch.Tensor:
    """
    Multiplies exactly so many rows at once. Rows of zeros fill up the last block.

    *Shape:* `(rows, in)` to `(rows, out)`.
    """
    rows = inputs.size(0)
    if (missing := max(block - rows, -rows % block)) > 0:
        inputs = F.pad(inputs, (0, 0, 0, missing))
    return torch.cat([multiply(part) for part in inputs.split(block)])[:rows]


def sample_rows(size: int, dtype: torch.dtype, weight: torch.Tensor | None = None) -> torch.Tensor:
    """
    Makes the rows of a trial.

    A type of few digits hides in its results in which order they were summed. So with `weight` `(out, size)`,
    in such a type, each row is one whose product with an output's weights has terms that cancel each other:
    what is left is what was lost on the way. Of 64 such rows 59 to 64 show another order, of random ones 8
    to 15 (bfloat16, outputs of 2,048 to 4,096 numbers).

    *Shape:* `(SAMPLE_ROWS, size)`. The last row is the largest.
    """
    generator = torch.Generator().manual_seed(0)
    if weight is None:
        rows = torch.randn(SAMPLE_ROWS, size, generator=generator, dtype=dtype, device="cpu")
    else:
        outputs = torch.arange(SAMPLE_ROWS, device="cpu") * len(weight) // SAMPLE_ROWS
        # (SAMPLE_ROWS, size)
        weights = weight[outputs].to(dtype)
        first, second = torch.randperm(size, generator=generator, device="cpu")[: size // 2 * 2].chunk(2)
        # Powers of two, so that terms of different size are between a term and its opposite
        exponents = torch.randint(9, (SAMPLE_ROWS, len(first)), generator=generator, device="cpu")
        scale = torch.exp2(exponents.to(dtype))
        rows = torch.zeros_like(weights)
        rows[:, first], rows[:, second] = weights[:, second] * scale, -weights[:, first] * scale
    rows[-1] *= 16
    return rows


def _sizes(rows: int) -> Iterator[int]:
    """Yields the numbers of rows to multiply at once, the cheapest first."""
    if rows <= SAMPLE_ROWS:
        yield rows
        yield from (size for size in PADDED_SIZES if size > rows)
    else:
        yield -(-rows // ROW_MULTIPLE) * ROW_MULTIPLE
        yield from (size for size in CUT_SIZES if size < rows)
