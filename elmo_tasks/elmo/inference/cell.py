"""
The LSTM cell, and the layer of a frozen biLM on a CPU, written so that a step takes few computations.

`tanh x` is `2 sigmoid 2x - 1`, which PyTorch computes four times as fast on a CPU. So the candidate's rows of
the weights are doubled (`scale_candidate_`), and all gates of a step are one sigmoid. Multiplying by two
changes no rounding.

Training needs the values of the gates and of `tanh c` (`activate_`, `tanh_of`). A frozen layer needs only its
output, so it holds the doubled cell, and half of its output (`half_output`), whose projection is doubled.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Protocol

import torch

from elmo_tasks.common.packed_weights import KernelCall, Pack, PackedWeight, Sigmoid, sigmoid_of
from elmo_tasks.elmo.model.lstm import LstmState

ROWS_PER_PRODUCT = 128


def scale_candidate_(weights: torch.Tensor, factor: float, *, gates: int = 4, dim: int = 0) -> torch.Tensor:
    """
    Multiplies the part of the candidate, the third of the `gates` along `dim`, in place.

    *Shape:* any with `gates * cells` rows at `dim`, kept.
    """
    weights.chunk(gates, dim)[2].mul_(factor)
    return weights


def activate_(gates: torch.Tensor, number: int = 4) -> tuple[torch.Tensor, ...]:
    """
    Applies the sigmoid to gates whose candidate is doubled, and makes the candidate its tanh, in place.

    *Shape:* `(..., number * dim)`, to views of each gate, `(..., dim)`.
    """
    activated = gates.sigmoid_().chunk(number, dim=-1)
    activated[2].mul_(2).sub_(1)
    return activated


def tanh_of(values: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """Writes the tanh of `values` into `out`, and returns it. *Shape:* any, the same for both."""
    return torch.mul(values, 2, out=out).sigmoid_().mul_(2).sub_(1)


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
    `(1,)`: 0.5 as a tensor, which PyTorch subtracts a microsecond faster than a Python number.
    """
    input_gate, forget_gate, candidate, output_gate = activated
    doubled_cell.mul_(forget_gate).addcmul_(input_gate, candidate, value=4).sub_(input_gate, alpha=2)
    if cell_clip > 0:
        doubled_cell.clamp_(-2 * cell_clip, 2 * cell_clip)
    sigmoid(doubled_cell, out=half).sub_(one_half).mul_(output_gate)


class PackedLayer:
    """
    The packed weights of a frozen `ProjectedLstm`, scaled for `half_output`: of its `weight`, `bias` and, if
    it has one, `projection`. A clip of 0 sets no bound.
    """

    def __init__(
        self, weights: Mapping[str, torch.Tensor], *, cell_clip: float, proj_clip: float, pack: Pack
    ) -> None:
        for_input, recurrent = weights["weight"].chunk(2, dim=1)
        self.bias = scale_candidate_(weights["bias"].clone(), 2)
        # One copy at a time
        self.for_input = pack(scale_candidate_(for_input.clone(), 2), self.bias)
        self.recurrent = pack(scale_candidate_(recurrent.clone(), 2), None)
        self.projection = pack(2 * weights["projection"], None) if "projection" in weights else None
        self.cell_clip, self.proj_clip = float(cell_clip), float(proj_clip)

    def weights(self) -> dict[str, torch.Tensor]:
        scaled = torch.cat([self.for_input.dense(), self.recurrent.dense()], dim=1)
        weights = {"weight": scale_candidate_(scaled, 0.5), "bias": scale_candidate_(self.bias.clone(), 0.5)}
        if self.projection is not None:
            weights["projection"] = self.projection.dense() / 2
        return weights

    def run(
        self,
        inputs: torch.Tensor,
        index: torch.Tensor | None,
        batch_sizes: list[int],
        hidden: torch.Tensor,
        cell: torch.Tensor,
        threads: int,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """
        Runs the layer over packed steps on a CPU; see `run_steps`.

        *Shape:* `inputs` of the steps, `(steps, projection_dim)`, or distinct ones, each of which is
        projected once, and the `index` of each step's, `(steps,)`.
        """
        gates = chain.from_iterable(self._input_gates(inputs, index, batch_sizes))
        return run_steps(self, gates, batch_sizes, hidden, cell, threads)

    def _input_gates(
        self, inputs: torch.Tensor, index: torch.Tensor | None, batch_sizes: list[int]
    ) -> Iterator[Sequence[torch.Tensor]]:
        """Yields the inputs' part of the gates, `(rows, 4 dim)` for each of several steps."""
        distinct = None if index is None else self.for_input(inputs)
        start = step = 0
        while step < len(batch_sizes):
            # Several steps of few rows in one product, so that their gates take little memory
            sizes = batch_sizes[step : step + max(1, ROWS_PER_PRODUCT // batch_sizes[step])]
            part = slice(start, start + sum(sizes))
            if distinct is None or index is None:
                gates = self.for_input(inputs[part])
            else:
                gates = distinct.index_select(0, index[part])
            yield gates.split(sizes)
            start, step = part.stop, step + len(sizes)


class JoinedLayer:
    """
    One layer of both directions, for a lone sentence.

    A product of two rows takes as long as a product of one: the time to read the weights. So the states of
    both directions are the rows of one product with the weights of both. Half of its results, of a state with
    the other direction's weights, is left out. Two threads of Python would wait for each other at its global
    lock.
    """

    def __init__(
        self, pair: tuple[PackedLayer, PackedLayer], recurrent: PackedWeight, projection: PackedWeight
    ) -> None:
        self._pair = pair
        self.recurrent, self.projection = JoinedWeight(recurrent), JoinedWeight(projection)
        self.cell_clip, self.proj_clip = pair[0].cell_clip, pair[0].proj_clip

    @classmethod
    def of(cls, pair: tuple[PackedLayer, PackedLayer]) -> "JoinedLayer | None":
        """Returns the layer, or `None` if it has no projection, or would round otherwise."""
        first, second = pair
        if first.projection is None or second.projection is None:
            return None
        recurrent = first.recurrent.joined(second.recurrent)
        projection = first.projection.joined(second.projection)
        return None if recurrent is None or projection is None else cls(pair, recurrent, projection)

    def run(
        self, inputs: torch.Tensor, hidden: torch.Tensor, cell: torch.Tensor, threads: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """
        Runs the layer; see `run_steps`.

        *Shape:* the `inputs` of each direction in its order, `(2, steps, projection_dim)`, to the outputs, of
        the same shape, and the final cells, `(2, dim)`.
        """
        steps = inputs.size(1)
        gates = chain.from_iterable(self._input_gates(inputs))
        outputs, cell = run_steps(self, gates, [2] * steps, hidden, cell, threads)
        return outputs.view(steps, 2, -1).transpose(0, 1).contiguous(), cell

    def _input_gates(self, inputs: torch.Tensor) -> Iterator[Sequence[torch.Tensor]]:
        """Yields the inputs' part of the gates, `(2, 4 dim)` for each of several steps."""
        for parts in inputs.split(ROWS_PER_PRODUCT, dim=1):
            pairs = zip(self._pair, parts, strict=True)
            yield torch.stack([layer.for_input(part) for layer, part in pairs], dim=1).unbind()


class JoinedWeight:
    """The weight of both directions, `(2 out, in)`, whose product has a row for each direction's state."""

    def __init__(self, weight: PackedWeight) -> None:
        self.dtype = weight.dtype
        self._weight = weight
        self._out = weight.packed.size(0) // 2

    def for_rows(self, rows: int) -> KernelCall:
        function, arguments = self._weight.for_rows(rows)
        # Of `(2, 2 out)`, the first half of the first row and the second half of the second one
        shape, strides = (2, self._out), (3 * self._out, 1)
        return lambda states, *weight: function(states, *weight).as_strided(shape, strides), arguments


def multiplied_rows(rows: int, batch_size: int) -> int:
    """
    Returns how many rows a step of `rows` rows multiplies: an even number, or the whole batch, since oneDNN
    keeps half a megabyte or more for each number of rows.
    """
    return min(rows + rows % 2, batch_size)


def run_steps(
    layer: PackedLayer | JoinedLayer,
    input_gates: Iterable[torch.Tensor],
    batch_sizes: list[int],
    hidden: torch.Tensor,
    cell: torch.Tensor,
    threads: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """
    Runs a layer over packed steps on a CPU. Each operation has `threads` threads.

    *Shape:* the inputs' part of the gates of each step, `(rows, 4 dim)`; the state at the start, `hidden`
    `(batch, projection_dim)` and `cell` `(batch, dim)`. Returns the outputs, `(steps, projection_dim)`,
    packed, and the final cells, `(batch, dim)`.
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
    hidden, last_rows = hidden.to(dtype), 0
    for rows, of_inputs in zip(batch_sizes, input_gates, strict=True):
        if rows != last_rows:
            last_rows = rows
            # The last of them may be of sequences that have ended.
            multiplied = multiplied_rows(rows, cell.size(0))
            hidden, doubled_cell = hidden[:multiplied], doubled_cells[:rows]
            activated, half = all_activated[:rows], all_half[:rows]
            of_all = all_half[:multiplied]
            activated_gates = activated.chunk(4, dim=1)
            multiply, recurrent_weight = layer.recurrent.for_rows(multiplied)
            project, projection_weight = (None, ()) if projection is None else projection.for_rows(multiplied)
        # As a part of the product, the sum would take oneDNN longer than on its own.
        product = multiply(hidden, *recurrent_weight)
        torch.add(product if multiplied == rows else product[:rows], of_inputs, out=activated)
        sigmoid(activated, out=activated)
        half_output(activated_gates, doubled_cell, cell_clip, sigmoid_of_cell, half, one_half)
        if project is None:
            output = of_all * 2
            hidden = output.to(dtype)
        else:
            hidden = project(of_all.to(dtype) if rounds else of_all, *projection_weight)
            hidden = hidden.clamp(-proj_clip, proj_clip) if proj_clip > 0 else hidden.contiguous()
            output = hidden
        outputs.append(output if multiplied == rows else output[:rows])
    return torch.cat(outputs).to(cell.dtype), doubled_cells / 2


Directions = tuple[Sequence[PackedLayer], Sequence[PackedLayer]]
"""The layers of both directions, from the lowest."""


class FrozenLstm(Protocol):
    """
    The stacked biLSTM of a frozen biLM on one kind of processor. It computes what `StackedBiLstm` does, from
    the `Directions`; with `skip`, each layer but the first adds its inputs to its outputs.
    """

    def __call__(
        self, inputs: torch.Tensor, index: torch.Tensor, lengths: torch.Tensor, state: LstmState
    ) -> tuple[list[torch.Tensor], LstmState]:
        """
        Runs all layers over sequences that are laid end to end.

        *Shape:* distinct `inputs` `(inputs, projection_dim)`; for each step the `index` of its input,
        `(steps,)`; the `lengths` of the sequences, `(batch,)`, none of them 0. Returns the output of each
        layer, `(steps, 2 projection_dim)`, and the state after the last step of each sequence.
        """
        ...
