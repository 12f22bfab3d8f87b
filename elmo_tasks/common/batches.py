"""
Which neighbours are computed together: as many as fit. Callers sort by length first, if they may.

The distinct rows of a matrix of ids, as `torch.unique(dim=0)` finds them, in a tenth of the time.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import islice, tee
from typing import TypeVar

import torch

# ==== elmo.inference.batches
Item = TypeVar("Item")


def batch_sizes(
    lengths: Iterable[int], most: int, *, padded: bool = True, least: float = 0.0
) -> Iterator[int]:
    """
    The number of items of each batch, the first as soon as the length of the item behind it is known.

    # Parameters

    lengths : of the items, in the order in which they are put into batches.
    most : positions of a batch at most; an item that is longer is a batch of its own.
    padded : a batch has as many positions as its longest item, times its items; else those of its items.
    least : no item is shorter than this part of the longest item before it in its batch.
    """
    size = longest = total = 0
    for length in lengths:
        longest, total = max(longest, length), total + length
        positions = (size + 1) * longest if padded else total
        if size and (positions > most or length < least * longest):
            yield size
            size, longest, total = 0, length, length
        size += 1
    if size:
        yield size


def batches(
    items: Iterable[Item], length: Callable[[Item], int], most: int, *, padded: bool = True
) -> Iterator[list[Item]]:
    """The items in batches, see `batch_sizes`. It reads one item ahead."""
    items, ahead = tee(items)
    for size in batch_sizes(map(length, ahead), most, padded=padded):
        yield list(islice(items, size))


# ==== elmo.inference.unique_rows
_MULTIPLIER = 0x5851F42D4C957F2D
"""The multiplier of Knuth's 64-bit linear congruential generator."""


def row_keys(rows: torch.Tensor) -> torch.Tensor:
    """
    A 64-bit key of each row, alike for rows that are.

    *Shape:* ids `(rows, columns)` to `(rows,)`, `int64`.
    """
    return (rows.long() * _powers(rows.size(1)).to(rows.device)).sum(dim=1)


@cache
def _powers(columns: int) -> torch.Tensor:
    """Powers of the multiplier, modulo 2^64, as the signed integers that PyTorch has."""
    powers = [pow(_MULTIPLIER, exponent, 1 << 64) for exponent in range(columns)]
    return torch.tensor([power - (1 << 64) if power >> 63 else power for power in powers], device="cpu")


def one_of_each(keys: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """
    *Shape:* `(rows,)` to one row for each distinct key, whichever comes last, `(distinct,)`, in the order of
    the keys; and for each row the index of its key among them, `(rows,)`.
    """
    kinds, index = keys.unique(return_inverse=True)
    rows = torch.empty_like(kinds).scatter_(0, index, torch.arange(len(keys), device=keys.device))
    return rows, index


def unique_rows(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """
    *Shape:* ids `(rows, columns)` to the distinct rows `(distinct, columns)`, in no particular order, and
    for each row its row among them `(rows,)`.

    Rows are told apart by a 64-bit key. Should two different rows ever share one, this is noticed, and
    whole rows are compared instead.
    """
    example, index = one_of_each(row_keys(rows))
    distinct = rows[example]
    if not torch.equal(distinct[index], rows):
        return rows.unique(dim=0, return_inverse=True)
    return distinct, index
