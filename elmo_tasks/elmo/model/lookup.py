"""
Ids to the rows of a table, all that are not known to one row.

Three buffers of a module, which are part of its state dict, say which row is whose: `known` `(rows,)`, the
ids that are known, rising; `rows` `(rows,)`, the row of each; `unknown` `()`, the row of all others.
"""

from collections.abc import Sequence

import torch
from torch import nn

from elmo_tasks.elmo.model.errors import ElmoError


def register_lookup(module: nn.Module, *, number: int) -> None:
    """Gives a module the three buffers, with zeros, for a table of `number` rows."""
    module.register_buffer("known", torch.zeros(number, dtype=torch.long))
    module.register_buffer("rows", torch.zeros(number, dtype=torch.long))
    module.register_buffer("unknown", torch.tensor(0))


def looked_up(ids: torch.Tensor, module: nn.Module) -> torch.Tensor:
    """*Shape:* ids, any, to their rows by the buffers of `module`, the same."""
    known, rows, unknown = map(module.get_buffer, ("known", "rows", "unknown"))
    ids = ids.long()
    indices = torch.searchsorted(known, ids).clamp(max=len(known) - 1)
    return torch.where(known[indices] == ids, rows[indices], unknown)


class Lookup(nn.Module):
    """
    These buffers as a module of their own.

    # Parameters

    number : rows of the table.
    """

    def __init__(self, *, number: int) -> None:
        super().__init__()
        register_lookup(self, number=number)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """*Shape:* any, kept."""
        return looked_up(ids, self)


def sorted_ids(ids: torch.Tensor, entries: Sequence[str], *, where: str) -> tuple[torch.Tensor, torch.Tensor]:
    """
    The ids of `entries`, rising, and where each was among them, both `(entries,)`.

    # Raises
    `ElmoError`, with `where`: two entries with one id.
    """
    rising, order = ids.sort(stable=True)
    for index in (rising[1:] == rising[:-1]).nonzero()[:1, 0].tolist():
        one, other = (entries[place] for place in order[index : index + 2].tolist())
        raise ElmoError(f"{one!r} and {other!r} in {where} have the same id")
    return rising, order
