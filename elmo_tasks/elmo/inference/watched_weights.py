"""
A frozen biLM of weights that anyone may write to, as they are now.

PyTorch counts what is written into a parameter, but not what is written through `parameter.data`, by NumPy,
or by another process into the same memory. So the weights themselves are compared, by checksums.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from elmo_tasks.common.machine import SHARED
from elmo_tasks.elmo.inference.frozen_bilm import FrozenBiLm

WIDTH = 64
"""
A checksum is the sum of so many words of 64 bits that stand side by side, which PyTorch reads at the speed
of the memory. Rows of a matrix are seldom shorter, so that rows that change places are noticed.
"""


class WatchedWeights:
    """Keeps the frozen biLM of some weights as long as these stay as they are. Threads may share it."""

    def __init__(self) -> None:
        self._made: tuple[FrozenBiLm, list[Any], torch.Tensor] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy makes a frozen biLM of its own weights."""
        return WatchedWeights, ()

    def forget(self) -> None:
        """Gives the memory of the frozen biLM back."""
        self._made = None

    def frozen(self, weights: Iterable[torch.Tensor], make: Callable[[], FrozenBiLm]) -> FrozenBiLm:
        """
        Returns the frozen biLM, made anew if a value of `weights` is another one than before. The weights are
        read once, at the speed of the memory.
        """
        tensors = [weight.detach() for weight in weights]
        kinds = [(tensor.device, tensor.dtype, tensor.shape) for tensor in tensors]
        sums = torch.cat([part for tensor in tensors for part in checksums(tensor)])
        with SHARED:
            # Once, since another thread may empty it
            made = self._made
            if made is None or made[1] != kinds or not torch.equal(made[2], sums):
                frozen = make()
                frozen.prepare()
                self._made = made = frozen, kinds, sums
            return made[0]


def checksums(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """
    Yields sums of the bits of a tensor, on its device, that change with each of its values and with their
    order.

    *Shape:* any, to `(sums,)`, int64.
    """
    values = tensor.contiguous().view(-1)
    if values.data_ptr() % 8:
        values = values.clone()
    octets = values.view(torch.uint8)
    whole = len(octets) // 8 * 8
    words = octets[:whole].view(torch.int64)
    # A bias is short, and is compared whole.
    summed = len(words) // WIDTH * WIDTH if tensor.dim() > 1 else 0
    yield words[:summed].view(-1, WIDTH).sum(dim=1)
    yield words[summed:]
    yield octets[whole:].long()
