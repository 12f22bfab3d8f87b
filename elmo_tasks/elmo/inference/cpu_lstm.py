"""The stacked biLSTM of a frozen biLM on a CPU: with packed weights, without padding, and in place."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

import torch

from elmo_tasks.common.equal_rows import LONE_ROWS, SAMPLE_ROWS, padded_rows
from elmo_tasks.common.machine import num_threads, run_in_two_threads
from elmo_tasks.elmo.inference.cell import ROWS_PER_PRODUCT, Directions, JoinedLayer, multiplied_rows
from elmo_tasks.elmo.inference.layout import PackedSteps
from elmo_tasks.elmo.model.lstm import LstmState

DISTINCT_SHARE = 0.8
"""Below this share of distinct inputs, each is projected once."""
INPUT_ROWS = sorted({padded_rows(rows) for rows in range(1, ROWS_PER_PRODUCT + 1)})
MAX_BYTES_JOINED = 1 << 23
"""The most bytes of a joined recurrent weight: larger ones take memory and save no time."""
MAX_THREADS_JOINED = 2
"""With more threads, each direction has several of its own."""
_all_threads = Lock()


class CpuLstm:
    """
    See `FrozenLstm`. Each direction runs in a thread of its own with half of PyTorch's threads: an operation
    of a step is too small to be worth many. With at most two threads, a lone sentence runs in `JoinedLayer`s,
    if these are small and no other lone sentence has both threads.
    """

    def __init__(self, directions: Directions, *, skip: bool) -> None:
        self._directions = directions
        self._skip = skip
        self._joined: list[JoinedLayer] | None = None
        self._tried: dict[int, int] = {}
        """The largest batch that was tried, by the number of threads."""

    def __call__(
        self, inputs: torch.Tensor, index: torch.Tensor, lengths: torch.Tensor, state: LstmState
    ) -> tuple[list[torch.Tensor], LstmState]:
        threads = num_threads()
        if len(lengths) == 1 and threads <= MAX_THREADS_JOINED:
            with all_threads(threads) as are_free:
                if are_free and (layers := self._joined_layers()):
                    # A step takes less time in inference mode. What is returned is made outside of it.
                    with torch.inference_mode():
                        pairs, after = self._run_lone(layers, inputs.index_select(0, index), state, threads)
                    return [torch.cat(pair, dim=1) for pair in pairs], LstmState(*map(torch.stack, after))
        steps = PackedSteps.of(lengths)
        self._try_rows(steps.batch_sizes[0], threads)
        hidden, cell = (part.index_select(2, steps.order) for part in state)

        def run_one(direction: int, threads: int) -> tuple[list[torch.Tensor], torch.Tensor, torch.Tensor]:
            with torch.inference_mode():
                before = hidden[:, direction], cell[:, direction]
                return self._run_direction(direction, inputs, index, steps, *before, threads)

        outputs, *final_state = zip(*run_in_two_threads(run_one), strict=True)
        inverse_order = steps.order.argsort()
        hidden, cell = (torch.stack(pair, dim=1).index_select(2, inverse_order) for pair in final_state)
        return [steps.unpacked(pair) for pair in zip(*outputs, strict=True)], LstmState(hidden, cell)

    def _run_direction(
        self,
        direction: int,
        inputs: torch.Tensor,
        index: torch.Tensor,
        steps: PackedSteps,
        hidden: torch.Tensor,
        cell: torch.Tensor,
        threads: int,
    ) -> tuple[list[torch.Tensor], torch.Tensor, torch.Tensor]:
        """
        *Shape:* `inputs` and `index` as in `FrozenLstm`; the state at the start, `hidden` `(layers, batch,
        projection_dim)` and `cell` `(layers, batch, dim)`. Returns the output of each layer, `(steps,
        projection_dim)`, packed, and the final state, in the same shapes.
        """
        packed_index: torch.Tensor | None = index.index_select(0, steps.positions[direction])
        if packed_index is not None and inputs.size(0) >= DISTINCT_SHARE * packed_index.size(0):
            inputs, packed_index = inputs.index_select(0, packed_index), None
        outputs, final_hidden, final_cell = [], [], []
        for number, layer in enumerate(self._directions[direction]):
            before = hidden[number], cell[number]
            output, last_cell = layer.run(inputs, packed_index, steps.batch_sizes, *before, threads)
            inputs, packed_index = output + inputs if number and self._skip else output, None
            outputs.append(inputs)
            final_hidden.append(output.index_select(0, steps.last))
            final_cell.append(last_cell)
        return outputs, torch.stack(final_hidden), torch.stack(final_cell)

    def _run_lone(
        self, layers: list[JoinedLayer], inputs: torch.Tensor, state: LstmState, threads: int
    ) -> tuple[list[tuple[torch.Tensor, torch.Tensor]], tuple[list[torch.Tensor], list[torch.Tensor]]]:
        """
        *Shape:* the `inputs` of the steps, `(steps, projection_dim)`. Returns the outputs of each layer in
        both directions, of the same shape, and the final hidden and cell of each layer, `(2, 1, ...)`.
        """
        outputs_of_layers, final_hidden, final_cell = [], [], []
        # (2, steps, projection_dim)
        pair = torch.stack([inputs, inputs.flip(0)])
        for number, layer in enumerate(layers):
            hidden, cell = (part[number, :, 0] for part in state)
            outputs, last_cell = layer.run(pair, hidden, cell, threads)
            pair = outputs + pair if number and self._skip else outputs
            outputs_of_layers.append((pair[0], pair[1].flip(0)))
            final_hidden.append(outputs[:, -1:])
            final_cell.append(last_cell.unsqueeze(1))
        return outputs_of_layers, (final_hidden, final_cell)

    def _joined_layers(self) -> list[JoinedLayer]:
        """Returns the layers of both directions, from the lowest; none if one cannot be joined."""
        # Not a `cached_property`: a fork could inherit its lock, locked. Two threads may make the same.
        if self._joined is None:
            forward, _ = self._directions
            fit = all(2 * layer.recurrent.packed.nbytes <= MAX_BYTES_JOINED for layer in forward)
            layers = map(JoinedLayer.of, zip(*self._directions, strict=True) if fit else ())
            joined = [layer for layer in layers if layer is not None]
            self._joined = joined if len(joined) == len(forward) else []
        return self._joined

    def _try_rows(self, batch_size: int, threads: int) -> None:
        """Tries all numbers of rows of a batch together, in the threads of both directions."""
        largest = min(batch_size, SAMPLE_ROWS)
        if largest <= self._tried.get(threads, 0):
            return

        numbers = sorted({multiplied_rows(rows, largest) for rows in range(1, largest + 1)})

        def try_one(direction: int, _threads: int) -> None:
            # Where both directions have as many threads, what is tried in one holds in the other.
            part = slice(None) if threads > 1 and threads % 2 else slice(direction, None, 2)
            for layer in self._directions[direction]:
                for weight in (layer.recurrent, layer.projection):
                    if weight is not None:
                        weight.try_rows(numbers[part])
                layer.for_input.try_rows((LONE_ROWS if largest <= 4 else INPUT_ROWS)[part])

        run_in_two_threads(try_one)
        self._tried[threads] = largest


@contextmanager
def all_threads(threads: int) -> Iterator[bool]:
    """Gives this thread's operations all `threads`, and yields true; false where others have several."""
    before, is_locked = torch.get_num_threads(), False
    try:
        is_locked = threads > 1 and _all_threads.acquire(blocking=False)
        if is_locked and threads != before:  # New threads begin with the number that was set last.
            torch.set_num_threads(threads)
        yield is_locked or threads == 1
    finally:
        if is_locked:
            if threads != before:
                torch.set_num_threads(before)
            _all_threads.release()
