"""Which neighbours are computed together: as many as fit. Callers sort by length first, if they may."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice, tee
from typing import TypeVar

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
