"""The stacked biLSTM of a frozen biLM on a CPU: with packed weights, without padding, and in place."""

from collections.abc import Sequence

import torch

from elmo_tasks.common.equal_rows import LONE_ROWS, SAMPLE_ROWS
from elmo_tasks.common.machine import num_threads, run_in_two_threads
from elmo_tasks.elmo.inference.cell import INPUT_ROWS, Directions, PackedLayer
from elmo_tasks.elmo.inference.layout import PackedSteps
from elmo_tasks.elmo.inference.lone_sentence import (
    MAX_THREADS,
    LoneLayer,
    both_threads,
    lone_layers,
    run_lone,
)
from elmo_tasks.elmo.model.lstm import LstmState

DISTINCT_SHARE = 0.8
"""Below this share of distinct inputs, each is projected once."""


def run_direction(
    layers: Sequence[PackedLayer],
    inputs: torch.Tensor,
    index: torch.Tensor,
    batch_sizes: list[int],
    last: torch.Tensor,
    hidden: torch.Tensor,
    cell: torch.Tensor,
    *,
    skip: bool,
    threads: int,
) -> tuple[list[torch.Tensor], torch.Tensor, torch.Tensor]:
    """
    *Shape:* distinct `inputs` `(inputs, projection_dim)`; for each packed step the `index` of its input,
    `(steps,)`; the `last` packed row of each sequence, `(batch,)`; the state at the start, `hidden` `(layers,
    batch, projection_dim)` and `cell` `(layers, batch, dim)`. Returns the output of each layer, `(steps,
    projection_dim)`, packed, and the final state, in the same shapes.
    """
    input_index: torch.Tensor | None = index
    if inputs.size(0) >= DISTINCT_SHARE * index.size(0):
        inputs, input_index = inputs.index_select(0, index), None
    outputs, final_hidden, final_cell = [], [], []
    for number, layer in enumerate(layers):
        output, last_cell = layer.run(inputs, input_index, batch_sizes, hidden[number], cell[number], threads)
        inputs, input_index = output + inputs if number and skip else output, None
        outputs.append(inputs)
        final_hidden.append(output.index_select(0, last))
        final_cell.append(last_cell)
    return outputs, torch.stack(final_hidden), torch.stack(final_cell)


class CpuLstm:
    """
    See `FrozenLstm`. Each direction runs in a thread of its own with half of PyTorch's threads: an operation
    of a step is too small to be worth many. With at most two threads, a lone sentence runs in `LoneLayer`s,
    if these are small and no other lone sentence has both threads.
    """

    def __init__(self, directions: Directions, *, skip: bool) -> None:
        self._directions = directions
        self._skip = skip
        self._lone: list[LoneLayer] | None = None
        self._tried: dict[int, int] = {}
        """The largest batch that was tried, by the number of threads."""

    def __call__(
        self, inputs: torch.Tensor, index: torch.Tensor, lengths: torch.Tensor, state: LstmState
    ) -> tuple[list[torch.Tensor], LstmState]:
        steps = PackedSteps.of(lengths)
        if len(lengths) == 1 and num_threads() <= MAX_THREADS and self._lone_layers:
            with both_threads() as are_free:
                if are_free:
                    return run_lone(self._lone_layers, inputs, index, steps, state, skip=self._skip)
        self._try_rows(steps.batch_sizes[0])
        hidden, cell = (part.index_select(2, steps.order) for part in state)

        def run_one(direction: int, threads: int) -> tuple[list[torch.Tensor], torch.Tensor, torch.Tensor]:
            # A step takes less time in inference mode. What is returned is made outside of it.
            with torch.inference_mode():
                return run_direction(
                    self._directions[direction],
                    inputs,
                    index.index_select(0, steps.positions[direction]),
                    steps.batch_sizes,
                    steps.last,
                    hidden[:, direction],
                    cell[:, direction],
                    skip=self._skip,
                    threads=threads,
                )

        results = run_in_two_threads(run_one)
        outputs, *after = zip(*results, strict=True)
        inverse_order = steps.order.argsort()
        hidden, cell = (torch.stack(pair, dim=1).index_select(2, inverse_order) for pair in after)
        return [steps.unpacked(pair) for pair in zip(*outputs, strict=True)], LstmState(hidden, cell)

    @property
    def _lone_layers(self) -> list[LoneLayer]:
        # Not a `cached_property`: a fork could inherit its lock, locked. Two threads may make the same.
        if self._lone is None:
            self._lone = lone_layers(self._directions)
        return self._lone

    def _try_rows(self, batch_size: int) -> None:
        """Tries all numbers of rows of a batch together, in the threads of both directions."""
        threads, largest = num_threads(), min(batch_size, SAMPLE_ROWS)
        if largest <= self._tried.get(threads, 0):
            return

        def try_one(direction: int, _threads: int) -> None:
            # Where both directions have as many threads, what is tried in one holds in the other.
            part = slice(None) if threads > 1 and threads % 2 else slice(direction, None, 2)
            for layer in self._directions[direction]:
                for weight in (layer.recurrent, layer.projection):
                    if weight is not None:
                        weight.try_rows(range(1, largest + 1)[part])
                layer.for_input.try_rows((LONE_ROWS if largest <= 4 else INPUT_ROWS)[part], layer.bias)

        run_in_two_threads(try_one)
        self._tried[threads] = largest
