"""
The stacked biLSTM of a frozen biLM on a CPU.

`CpuLstm` computes what `elmo.model.lstm.StackedBiLstm` computes, with packed weights, without padding, and in
place. `CudaLstm` replaces it on a GPU.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from elmo_tasks.common.equal_rows import LONE_ROWS, SAMPLE_ROWS, rounded
from elmo_tasks.common.machine import in_two_threads, num_threads
from elmo_tasks.common.packed_weights import Pack, PackedWeight, Sigmoid, sigmoid_of
from elmo_tasks.elmo.model.bilm import with_bos_eos
from elmo_tasks.elmo.model.lstm import LstmState

ROWS_AT_ONCE = 128
"""The inputs of so many rows are projected in one product."""
INPUT_ROWS = sorted({rounded(rows) for rows in range(1, ROWS_AT_ONCE + 1)})
"""The numbers of rows of such products."""
DISTINCT_SHARE = 0.8
"""Below this share of distinct inputs, each is projected once."""

# The layout of a batch: sequences end to end, or ordered by step


class PackedSteps(NamedTuple):
    """The steps of a batch, a row each: by step, and longer sequences first within a step."""

    order: torch.Tensor
    """`(batch,)`: the sequences by falling length."""
    batch_sizes: list[int]
    """The number of sequences that reach step 0, 1, ..."""
    last: torch.Tensor
    """`(batch,)`: the last packed row of each sequence in this order."""
    rows: tuple[torch.Tensor, torch.Tensor]
    """`(steps,)` for each direction: the position of each packed row in the sequences laid end to end."""
    indices: tuple[torch.Tensor, torch.Tensor]
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
        """
        Lays the sequences end to end, both directions side by side.

        *Shape:* packed rows `(steps, size)` of each direction to `(steps, 2 size)`.
        """
        directions = [part.index_select(0, rows) for part, rows in zip(packed, self.indices, strict=True)]
        return torch.cat(directions, dim=1)


def steps_with_bos_eos(
    ids: torch.Tensor, lengths: torch.Tensor, bos_eos_ids: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """
    Lays sentences end to end, each between `<S>` and `</S>`.

    *Shape:* ids `(batch, tokens, *id)` of `lengths` `(batch,)`, and `bos_eos_ids` `(2, *id)`, to the ids of
    the steps, `(steps, *id)`, and a mask of the steps that are tokens, `(steps,)`.
    """
    extended = with_bos_eos(ids, lengths, bos_eos_ids)
    positions, ends = torch.arange(extended.size(1), device=ids.device), lengths.unsqueeze(1) + 1
    inside = positions <= ends
    return extended[inside], ((positions > 0) & (positions < ends))[inside]


def read_steps(
    ids: torch.Tensor, lengths: torch.Tensor, bos_eos_ids: torch.Tensor, has_bos_eos: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """
    Returns the steps of `steps_with_bos_eos`, the length of each sequence, and a mask of the steps whose
    vectors are wanted: the tokens; or all steps with `has_bos_eos`, for ids that already have BOS and EOS.
    """
    if has_bos_eos:
        inside = torch.arange(ids.size(1), device=ids.device) < lengths.unsqueeze(1)
        return ids[inside], lengths, inside[inside]
    steps, is_token = steps_with_bos_eos(ids, lengths, bos_eos_ids)
    return steps, lengths + 2, is_token


def state_after_bos(run: Callable[..., Any], bos_eos_ids: torch.Tensor, start: LstmState) -> LstmState:
    """
    Computes the state after the first step of every sentence: `<S>` forward and `</S>` backward.

    *Shape:* `start` and the result are of a batch of one. `run` takes the ids of the steps, the lengths of
    the sequences and their states; the last value that it returns are the final states.
    """
    lengths = torch.ones(2, dtype=torch.long, device=start.hidden.device)
    *_, after = run(bos_eos_ids, lengths, LstmState(*(part.expand(-1, -1, 2, -1) for part in start)))
    return LstmState(*(torch.stack([part[:, 0, :1], part[:, 1, 1:]], dim=1) for part in after))


# One direction


class LayerWeights(NamedTuple):
    """The weights of one layer in one direction, as `FrozenLstmLayer` scales them."""

    for_input: PackedWeight
    recurrent: PackedWeight
    bias: torch.Tensor
    projection: PackedWeight | None
    cell_clip: float
    proj_clip: float


class FrozenLstmLayer:
    """
    The packed weights of a `ProjectedLstm`, scaled so that a step takes few computations.

    `tanh x` is `2 sigmoid 2x - 1`, which takes PyTorch a quarter of the time on a CPU. So the rows of the
    candidate are doubled, and all four gates are one sigmoid. The cell is held doubled, too, and so is the
    projection, whose inputs are halved. Multiplying by two changes no rounding.

    # Parameters

    weights : `weight`, `bias` and, if it has one, `projection` of a `ProjectedLstm`.
    cell_clip, proj_clip : bounds; 0 for none.
    pack : packs a weight.
    """

    def __init__(
        self, weights: Mapping[str, torch.Tensor], *, cell_clip: float, proj_clip: float, pack: Pack
    ) -> None:
        self._scale = torch.ones_like(weights["bias"])
        self._scale.chunk(4)[2].fill_(2)
        for_input, recurrent = (part * self._scale.unsqueeze(1) for part in weights["weight"].chunk(2, dim=1))
        self.packed = LayerWeights(
            pack(for_input),
            pack(recurrent),
            weights["bias"] * self._scale,
            pack(2 * weights["projection"]) if "projection" in weights else None,
            float(cell_clip),
            float(proj_clip),
        )

    def weights(self) -> dict[str, torch.Tensor]:
        """Returns the weights of the `ProjectedLstm`, by their names there."""
        packed = self.packed
        scaled = torch.cat([packed.for_input.dense(), packed.recurrent.dense()], dim=1)
        weights = {"weight": scaled / self._scale.unsqueeze(1), "bias": packed.bias / self._scale}
        if packed.projection is not None:
            weights["projection"] = packed.projection.dense() / 2
        return weights


def half_output(
    activated: Sequence[torch.Tensor],
    doubled_cell: torch.Tensor,
    cell_clip: float,
    sigmoid: Sigmoid,
    half: torch.Tensor,
    one_half: torch.Tensor,
) -> None:
    """
    Computes `0.5 * o * tanh(c)`, half of the cell's output before the projection, and writes it into `half`,
    and the next cell into `doubled_cell`.

    *Shape:* the sigmoids of the four scaled gates, `doubled_cell` and `half`, `(rows, dim)` each; `one_half`,
    the number as a tensor.
    """
    input_gate, forget_gate, candidate, output_gate = activated
    doubled_cell.mul_(forget_gate).addcmul_(input_gate, candidate, value=4).sub_(input_gate, alpha=2)
    if cell_clip > 0:
        doubled_cell.clamp_(-2 * cell_clip, 2 * cell_clip)
    sigmoid(doubled_cell, out=half).sub_(one_half).mul_(output_gate)


def run_layer(
    layer: LayerWeights,
    inputs: torch.Tensor,
    index: torch.Tensor | None,
    batch_sizes: list[int],
    hidden: torch.Tensor,
    cell: torch.Tensor,
    threads: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """
    Runs one layer over packed steps.

    *Shape:* the inputs of the steps, or distinct inputs, each of which is projected once, and the `index` of
    each step's, `(steps,)`; the state of all rows. Returns the outputs, `(steps, projection_dim)`, packed,
    and the final cells of all rows.
    """
    outputs = []
    doubled_cells = cell * 2
    projection, cell_clip, proj_clip = layer.projection, layer.cell_clip, layer.proj_clip
    dtype = layer.recurrent.dtype
    rounds = dtype != cell.dtype
    # The gates after their sigmoid, (rows, 4 dim), and half of the output, (rows, dim)
    all_activated, all_half = cell.new_empty(cell.size(0), 4 * cell.size(1)), torch.empty_like(cell)
    one_half = torch.full([1], 0.5, dtype=cell.dtype, device=cell.device)
    sigmoid, sigmoid_of_cell = sigmoid_of(all_activated, threads), sigmoid_of(all_half, threads)
    gates = _gates(layer, inputs, index, batch_sizes)
    hidden, last_rows = hidden.to(dtype), 0
    for rows in batch_sizes:
        if rows != last_rows:
            last_rows = rows
            hidden, doubled_cell = hidden[:rows], doubled_cells[:rows]
            activated, half = all_activated[:rows], all_half[:rows]
            activated_gates = activated.chunk(4, dim=1)
            times_recurrent = layer.recurrent.for_rows(rows)
            project = None if projection is None else projection.for_rows(rows)
        # As a part of the product, the sum would take oneDNN longer than on its own.
        recurrent, of_inputs = times_recurrent(hidden), next(gates)
        summed = torch.add(recurrent, of_inputs, out=activated) if rounds else recurrent.add_(of_inputs)
        sigmoid(summed, out=activated)
        half_output(activated_gates, doubled_cell, cell_clip, sigmoid_of_cell, half, one_half)
        if project is None:
            outputs.append(half * 2)
            hidden = outputs[-1].to(dtype)
        else:
            hidden = project(half.to(dtype) if rounds else half)
            if proj_clip > 0:
                hidden.clamp_(-proj_clip, proj_clip)
            outputs.append(hidden)
    return torch.cat(outputs).to(cell.dtype), doubled_cells / 2


def _gates(
    layer: LayerWeights, inputs: torch.Tensor, index: torch.Tensor | None, batch_sizes: list[int]
) -> Iterator[torch.Tensor]:
    """Yields the inputs' part of the gates of each step, `(rows, 4 dim)`. For the shapes see `run_layer`."""
    distinct = None if index is None else layer.for_input(inputs, layer.bias)
    start = step = 0
    while step < len(batch_sizes):
        # Several steps of few rows in one product, so that their gates take little memory
        sizes = batch_sizes[step : step + max(1, ROWS_AT_ONCE // batch_sizes[step])]
        part = slice(start, start + sum(sizes))
        if distinct is None or index is None:
            gates = layer.for_input(inputs[part], layer.bias)
        else:
            gates = distinct.index_select(0, index[part])
        yield from gates.split(sizes)
        start, step = part.stop, step + len(sizes)


def run_direction(
    layers: Sequence[LayerWeights],
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
    Runs the layers of one direction.

    *Shape:* distinct `inputs` `(inputs, projection_dim)`; for each packed step the `index` of its input,
    `(steps,)`; the `last` packed row of each sequence, `(batch,)`. Returns the output of each layer, `(steps,
    projection_dim)`, packed, and the final state, `(layers, batch, projection_dim)` and `(layers, batch,
    dim)`.
    """
    input_index: torch.Tensor | None = index
    if inputs.size(0) >= DISTINCT_SHARE * index.size(0):
        inputs, input_index = inputs.index_select(0, index), None
    outputs, final_hidden, final_cell = [], [], []
    for number, layer in enumerate(layers):
        output, last_cell = run_layer(
            layer, inputs, input_index, batch_sizes, hidden[number], cell[number], threads
        )
        inputs, input_index = output + inputs if number and skip else output, None
        outputs.append(inputs)
        final_hidden.append(output.index_select(0, last))
        final_cell.append(last_cell)
    return outputs, torch.stack(final_hidden), torch.stack(final_cell)


# Both directions

Directions = tuple[Sequence[FrozenLstmLayer], Sequence[FrozenLstmLayer]]
"""The layers of both directions, from the lowest."""


class CpuLstm:
    """
    Runs the stacked biLSTM over sequences laid end to end.

    Each direction runs in a thread of its own with half of PyTorch's threads: an operation of a step is too
    small to be worth many.

    # Parameters

    directions : the layers of both directions, from the lowest.
    skip : from the second layer on, a layer's inputs are added to its outputs.
    """

    def __init__(self, directions: Directions, *, skip: bool) -> None:
        self._directions = [[layer.packed for layer in layers] for layers in directions]
        self._skip = skip
        self._tried: dict[int, int] = {}
        """The largest batch that was tried, by the number of threads."""

    def __call__(
        self, inputs: torch.Tensor, index: torch.Tensor, lengths: torch.Tensor, state: LstmState
    ) -> tuple[list[torch.Tensor], LstmState]:
        """
        Runs all layers over packed steps.

        *Shape:* distinct `inputs` `(inputs, projection_dim)`; for each step the `index` of its input,
        `(steps,)`; the `lengths` of the sequences, `(batch,)`, none of them 0. Returns the output of each
        layer, `(steps, 2 projection_dim)`, and the state after the last step of each sequence.
        """
        steps = PackedSteps.of(lengths)
        self._try_rows(steps.batch_sizes[0])
        hidden, cell = (part.index_select(2, steps.order) for part in state)

        def run_one(direction: int, threads: int) -> tuple[list[torch.Tensor], torch.Tensor, torch.Tensor]:
            # A step takes less time in inference mode. What is returned is made outside of it.
            with torch.inference_mode():
                return run_direction(
                    self._directions[direction],
                    inputs,
                    index.index_select(0, steps.rows[direction]),
                    steps.batch_sizes,
                    steps.last,
                    hidden[:, direction],
                    cell[:, direction],
                    skip=self._skip,
                    threads=threads,
                )

        results = in_two_threads(run_one)
        outputs, *after = zip(*results, strict=True)
        inverse_order = steps.order.argsort()
        hidden, cell = (torch.stack(pair, dim=1).index_select(2, inverse_order) for pair in after)
        return [steps.unpacked(pair) for pair in zip(*outputs, strict=True)], LstmState(hidden, cell)

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

        in_two_threads(try_one)
        self._tried[threads] = largest
