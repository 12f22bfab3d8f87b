"""Sequences as a row a step, without padding."""

from typing import NamedTuple

import torch


class PackedSteps(NamedTuple):
    """
    A batch of sequences as one row a step, ordered by step, longer sequences first: no row is padding.
    """

    order: torch.Tensor
    """`(batch,)`: the sequences by falling length."""
    batch_sizes: list[int]
    """How many sequences reach step 0, 1, ..."""
    rows: tuple[torch.Tensor, torch.Tensor]
    """`(steps,)` for each direction: where a packed row is in the sequences laid end to end."""
    indices: tuple[torch.Tensor, torch.Tensor]
    """
    `(steps,)` for each direction: where a step of the sequences laid end to end is among the packed rows.
    """

    @classmethod
    def of(cls, lengths: torch.Tensor) -> "PackedSteps":
        """For sequences of `lengths` `(batch,)`."""
        order = lengths.argsort(descending=True, stable=True)
        # (batch,), (longest, 1)
        ordered, steps = lengths[order], torch.arange(int(lengths.max()), device=lengths.device).unsqueeze(1)
        first = (lengths.cumsum(0) - lengths)[order]
        # (longest, batch)
        real = steps < ordered
        forward = (first + steps)[real]
        backward = (first + ordered - 1 - steps)[real]
        indices = forward.argsort(), backward.argsort()
        return cls(order, real.sum(dim=1).tolist(), (forward, backward), indices)

    def unpacked(self, packed: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        """*Shape:* of each direction `(steps, size)`, packed, to `(steps, 2 size)`, sequences end to end."""
        directions = [part.index_select(0, rows) for part, rows in zip(packed, self.indices, strict=True)]
        return torch.cat(directions, dim=1)
