"""
A lone sentence in the stacked biLSTM of a frozen biLM on a CPU.

A product of two rows takes as long as a product of one: the time to read the weights. So the states of both
directions are the rows of one product with the weights of both. Half of its results, of a state with the
other direction's weights, is left out. Two threads of Python would wait for each other at its global lock.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import NamedTuple

import torch

from elmo_tasks.common.machine import num_threads
from elmo_tasks.common.packed_weights import PackedWeight, joined, sigmoid_of
from elmo_tasks.elmo.inference.cell import Directions, PackedLayer, half_output
from elmo_tasks.elmo.inference.layout import PackedSteps
from elmo_tasks.elmo.model.lstm import LstmState

MAX_BYTES = 1 << 23
"""The most bytes of a joined recurrent weight: larger ones take memory and save no time."""
MAX_THREADS = 2
"""With more, each direction has several threads of its own."""
_both_threads = Lock()


@contextmanager
def both_threads() -> Iterator[bool]:
    """Yields whether the caller may use all of its threads: of several callers with two threads, one may."""
    locks, is_locked = num_threads() > 1, False
    try:
        is_locked = locks and _both_threads.acquire(blocking=False)
        yield is_locked or not locks
    finally:
        if is_locked:
            _both_threads.release()


class LoneLayer(NamedTuple):
    """One layer of both directions."""

    pair: tuple[PackedLayer, PackedLayer]
    recurrent: PackedWeight
    projection: PackedWeight

    @classmethod
    def of(cls, pair: tuple[PackedLayer, PackedLayer]) -> "LoneLayer | None":
        """Returns the layer, or `None` if it has no projection, is too large, or would round otherwise."""
        first, second = pair
        if first.projection is None or second.projection is None:
            return None
        if 2 * first.recurrent.packed.nbytes > MAX_BYTES:
            return None
        recurrent = joined(first.recurrent, second.recurrent)
        projection = joined(first.projection, second.projection)
        return None if recurrent is None or projection is None else cls(pair, recurrent, projection)

    def run(
        self, inputs: torch.Tensor, hidden: torch.Tensor, cell: torch.Tensor, threads: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """
        Runs the layer. Each operation has `threads` threads.

        *Shape:* the `inputs` of each direction in its order, `(2, steps, projection_dim)`; the state at the
        start, `hidden` `(2, projection_dim)` and `cell` `(2, dim)`. Returns the outputs, of the shape of the
        inputs, and the final cells, `(2, dim)`.
        """
        dtype, (cell_clip, proj_clip) = self.recurrent.dtype, (self.pair[0].cell_clip, self.pair[0].proj_clip)
        rounds = dtype != cell.dtype
        activated, half = cell.new_empty(2, 4 * cell.size(1)), torch.empty_like(cell)
        activated_gates, doubled_cell = activated.chunk(4, dim=1), cell * 2
        one_half = torch.full([1], 0.5, dtype=cell.dtype, device=cell.device)
        sigmoid, sigmoid_of_cell = sigmoid_of(activated, threads), sigmoid_of(half, threads)
        for weight in (self.recurrent, self.projection):
            weight.try_rows([2])  # `for_rows` would try all of `LONE_ROWS`.
        times, recurrent_weight = self.recurrent.for_rows(2)
        project, projection_weight = self.projection.for_rows(2)
        sizes = [1] * inputs.size(1)
        gates = (
            layer.input_gates(steps, None, sizes) for layer, steps in zip(self.pair, inputs, strict=True)
        )
        outputs, hidden = [], hidden.to(dtype)
        for of_inputs in zip(*gates, strict=True):
            recurrent = _own(times(hidden, *recurrent_weight))
            torch.add(recurrent, torch.cat(of_inputs), out=activated)
            sigmoid(activated, out=activated)
            half_output(activated_gates, doubled_cell, cell_clip, sigmoid_of_cell, half, one_half)
            hidden = _own(project(half.to(dtype) if rounds else half, *projection_weight))
            hidden = hidden.clamp(-proj_clip, proj_clip) if proj_clip > 0 else hidden.contiguous()
            outputs.append(hidden)
        return torch.stack(outputs, dim=1).to(cell.dtype), doubled_cell / 2


def lone_layers(directions: Directions) -> list[LoneLayer]:
    """Returns the layers from the lowest; none if one of them cannot be joined."""
    layers = [LoneLayer.of(pair) for pair in zip(*directions, strict=True)]
    return [layer for layer in layers if layer is not None] if None not in layers else []


def run_lone(
    layers: Sequence[LoneLayer],
    inputs: torch.Tensor,
    index: torch.Tensor,
    steps: PackedSteps,
    state: LstmState,
    *,
    skip: bool,
) -> tuple[list[torch.Tensor], LstmState]:
    """Runs all layers over one sentence; see `FrozenLstm`."""
    results, after = [], []
    before, threads = torch.get_num_threads(), num_threads()
    try:
        if threads != before:  # New threads begin with the number that was set last.
            torch.set_num_threads(threads)
        # A step takes less time in inference mode. What is returned is made outside of it.
        with torch.inference_mode():
            # (2, steps, projection_dim)
            # Not `[]`, which would start PyTorch's threads.
            pair = torch.stack(
                [inputs.index_select(0, index.index_select(0, each)) for each in steps.positions]
            )
            for number, layer in enumerate(layers):
                hidden, cell = (part[number, :, 0] for part in state)
                outputs, last_cell = layer.run(pair, hidden, cell, threads)
                pair = outputs + pair if number and skip else outputs
                results.append(pair)
                after.append((outputs[:, -1:], last_cell.unsqueeze(1)))
    finally:
        if threads != before:
            torch.set_num_threads(before)
    hidden, cell = (torch.stack(parts) for parts in zip(*after, strict=True))
    return [steps.unpacked((forward, backward)) for forward, backward in results], LstmState(hidden, cell)


def _own(products: torch.Tensor) -> torch.Tensor:
    """
    Returns the products of each state with the weights of its own direction.

    *Shape:* `(2, 2 out)` to `(2, out)`.
    """
    return products.view(4, -1)[::3]
