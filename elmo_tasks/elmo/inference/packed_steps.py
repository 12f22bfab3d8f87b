"""Sequences as a row a step, without padding."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from elmo_tasks.elmo.model.bilm import with_bos_eos
from elmo_tasks.elmo.model.lstm import LstmState


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
        """The steps of sequences of `lengths` `(batch,)`."""
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


def marked_steps(
    ids: torch.Tensor, lengths: torch.Tensor, bos_eos_ids: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """
    *Shape:* ids `(batch, tokens, *id)` of `lengths` `(batch,)`, and `(2, *id)`, to the sentences end to end,
    each between `<S>` and `</S>`, `(steps, *id)`, and whether a step is a token, `(steps,)`.
    """
    marked = with_bos_eos(ids, lengths, bos_eos_ids)
    positions, ends = torch.arange(marked.size(1), device=ids.device), lengths.unsqueeze(1) + 1
    inside = positions <= ends
    return marked[inside], ((positions > 0) & (positions < ends))[inside]


def behind_first_mark(run: Callable[..., Any], bos_eos_ids: torch.Tensor, start: LstmState) -> LstmState:
    """
    The state behind the first mark: `<S>` forward and `</S>` backward.

    *Shape:* of a batch of one, as `start`. `run` takes the ids of steps, the lengths of the sequences and
    their states; the states behind them are the last that it returns.
    """
    lengths = torch.ones(2, dtype=torch.long, device=start.hidden.device)
    *_, after = run(bos_eos_ids, lengths, LstmState(*(part.expand(-1, -1, 2, -1) for part in start)))
    # Of the two sequences of one step, the one that each direction begins with
    return LstmState(*(torch.stack([part[:, 0, :1], part[:, 1, 1:]], dim=1) for part in after))
