"""Batches: which neighbours are computed together, and which rows of a batch are the same."""

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import islice, tee
from typing import TypeVar

import torch

Item = TypeVar("Item")
_MULTIPLIER = 0x5851F42D4C957F2D
"""The multiplier of Knuth's 64-bit linear congruential generator."""


def batches(items: Iterable[Item], length: Callable[[Item], int], max_positions: int) -> Iterator[list[Item]]:
    """Yields the items in padded batches, see `batch_sizes`. It reads one item ahead."""
    items, ahead = tee(items)
    for size in batch_sizes(map(length, ahead), max_positions):
        yield list(islice(items, size))


def batch_sizes(
    lengths: Iterable[int], max_positions: int, *, padded: bool = True, min_ratio: float = 0.0
) -> Iterator[int]:
    """
    Yields the number of neighbours in each batch, as many as fit. A size comes as soon as the length of the
    next item is known.

    # Parameters

    max_positions : of a batch; a longer item is a batch of its own. They are its longest item times its
        items, or, without `padded`, the sum of its items.
    min_ratio : no item is shorter than this ratio of the longest item before it in its batch.
    """
    size = longest = total = 0
    for length in lengths:
        longest, total = max(longest, length), total + length
        positions = (size + 1) * longest if padded else total
        if size and (positions > max_positions or length < min_ratio * longest):
            yield size
            size, longest, total = 0, length, length
        size += 1
    if size:
        yield size


def unique_rows(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """
    Deduplicates rows ten times as fast as `torch.unique(dim=0)`, by 64-bit keys; rows are compared if two
    share a key. *Shape:* ids `(rows, columns)` to `(distinct, columns)`, in no particular order, and the
    index of each row, `(rows,)`.
    """
    example, index = one_of_each(row_keys(rows))
    distinct = rows[example]
    if not torch.equal(distinct[index], rows):
        return rows.unique(dim=0, return_inverse=True)
    return distinct, index


def one_of_each(keys: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """*Shape:* keys `(rows,)` to the last row of each `(distinct,)`, and the index of its key `(rows,)`."""
    kinds, index = keys.unique(return_inverse=True)
    rows = torch.empty_like(kinds).scatter_(0, index, torch.arange(len(keys), device=keys.device))
    return rows, index


def row_keys(rows: torch.Tensor) -> torch.Tensor:
    """Returns a 64-bit key of each row. *Shape:* ids `(rows, columns)` to `(rows,)`, `int64`."""
    return (rows.long() * _powers(rows.size(1)).to(rows.device)).sum(dim=1)


@cache
def _powers(columns: int) -> torch.Tensor:
    powers = [pow(_MULTIPLIER, exponent, 1 << 64) for exponent in range(columns)]
    return torch.tensor([power - (1 << 64) if power >> 63 else power for power in powers], device="cpu")
