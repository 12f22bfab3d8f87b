"""
The layout of a batch: sequences laid end to end, or by step.

The kernels of the LSTM read packed steps, as in `torch.nn.utils.rnn.PackedSequence`: the first steps of all
sequences, longer sequences first, then their second steps, and so on. So the rows of a step are adjacent, and
sequences that have a further step come first.
"""

from collections.abc import Callable
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
import torch

from elmo_tasks.elmo.model.bilm import with_bos_eos
from elmo_tasks.elmo.model.lstm import LstmState


class PackedSteps(NamedTuple):
    """The steps of a batch, a row each: by step, and longer sequences first within a step."""

    order: torch.Tensor
    """`(batch,)`: the sequences by falling length."""
    batch_sizes: list[int]
    """The number of sequences that reach step 0, 1, ..."""
    last: torch.Tensor
    """`(batch,)`: the last packed row of each sequence in this order."""
    positions: tuple[torch.Tensor, torch.Tensor]
    """`(steps,)` for each direction: the position of each packed row in the sequences laid end to end."""
    rows: tuple[torch.Tensor, torch.Tensor]
    """`(steps,)` for each direction: the packed row of each position in the sequences laid end to end."""

    @classmethod
    def of(cls, lengths: torch.Tensor) -> "PackedSteps":
        """Orders the steps of sequences of `lengths` `(batch,)`."""
        # NumPy takes a third of PyTorch's time for so few values.
        lengths_array = lengths.cpu().numpy()
        order = np.argsort(-lengths_array, kind="stable")
        ordered = lengths_array[order]
        steps = np.arange(ordered[0])[:, np.newaxis]
        first = (lengths_array.cumsum() - lengths_array)[order]
        # (longest, batch)
        real = steps < ordered
        batch_sizes = real.sum(axis=1)
        forward = (first + steps)[real]
        backward = (first + ordered - 1 - steps)[real]

        def to_device(array: np.ndarray) -> torch.Tensor:
            return torch.from_numpy(array).to(lengths.device)

        return cls(
            to_device(order),
            batch_sizes.tolist(),
            to_device(batch_sizes.cumsum()[ordered - 1] - batch_sizes[ordered - 1] + np.arange(len(ordered))),
            (to_device(forward), to_device(backward)),
            (to_device(forward.argsort()), to_device(backward.argsort())),
        )

    def unpacked(self, packed: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        """*Shape:* packed `(steps, size)` of each direction to `(steps, 2 size)`, laid end to end."""
        directions = [part.index_select(0, rows) for part, rows in zip(packed, self.rows, strict=True)]
        return torch.cat(directions, dim=1)


def read_steps(
    ids: torch.Tensor, lengths: torch.Tensor, bos_eos_ids: torch.Tensor, has_bos_eos: bool = False
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """
    Lays sentences end to end, each between `<S>` and `</S>`. With `has_bos_eos` the ids have both already.

    *Shape:* ids `(batch, tokens, *id)` of `lengths` `(batch,)`, and `bos_eos_ids` `(2, *id)`, to the ids of
    the steps, `(steps, *id)`, the length of each sequence, `(batch,)`, and a mask of the steps whose vectors
    are wanted, `(steps,)`: the tokens, or all steps with `has_bos_eos`.
    """
    if not has_bos_eos:
        ids, lengths = with_bos_eos(ids, lengths, bos_eos_ids), lengths + 2
    positions, ends = torch.arange(ids.size(1), device=ids.device), lengths.unsqueeze(1)
    inside = positions < ends
    wanted = inside if has_bos_eos else (positions > 0) & (positions < ends - 1)
    return ids[inside], lengths, wanted[inside]


def state_after_bos(run: Callable[..., Any], bos_eos_ids: torch.Tensor, start: LstmState) -> LstmState:
    """
    Computes the state after the first step of every sentence: `<S>` forward and `</S>` backward.

    *Shape:* `start` and the result are of a batch of one. `run` takes the ids of the steps, the lengths of
    the sequences and their states; the last value that it returns are the final states.
    """
    lengths = torch.ones(2, dtype=torch.long, device=start.hidden.device)
    *_, after = run(
        bos_eos_ids.to(lengths.device), lengths, LstmState(*(part.expand(-1, -1, 2, -1) for part in start))
    )
    return LstmState(*(torch.stack([part[:, 0, :1], part[:, 1, 1:]], dim=1) for part in after))


class Step(NamedTuple):
    """A step of packed sequences, in the order in which a layer reads the steps."""

    start: int
    """The first of its packed rows."""
    end: int
    """The packed row after its last one."""
    previous: int
    """The first packed row of the step read before it."""
    shared: int
    """The number of sequences that have both steps: the first rows of each."""
    continuing: int
    """The number of sequences that also have the step read after it."""


def steps_in_order(batch_sizes: list[int], *, backward: bool = False) -> list[Step]:
    starts = [0, *accumulate(batch_sizes)]
    order = range(len(batch_sizes))[:: -1 if backward else 1]
    shared = [min(batch_sizes[one], batch_sizes[next_one]) for one, next_one in pairwise(order)]
    neighbours = zip([order[0], *order[:-1]], [0, *shared], [*shared, 0], strict=True)
    return [
        Step(starts[index], starts[index + 1], starts[previous], *sequences)
        for index, (previous, *sequences) in zip(order, neighbours, strict=True)
    ]
