"""
The stacked biLSTM of a frozen biLM on a GPU, which takes longer to launch a computation than to do it.

So `CudaLstm` runs some steps of both directions in one launch, as a CUDA graph. The control flow of
`CudaLayer` depends on no value; sequences that have ended keep their last state.
"""

import gc
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional as F

from elmo_tasks.elmo.inference.cell import Directions, PackedLayer, half_output
from elmo_tasks.elmo.inference.layout import PackedSteps
from elmo_tasks.elmo.model.lstm import LstmState

logger = logging.getLogger(__name__)

STEPS_AT_ONCE = 8
SEQUENCES_AT_ONCE = 8
"""The number of sequences in a launch is a multiple of it, so that few kinds of launches recur."""
RECORDINGS = 64


class CudaLstm:
    """See `FrozenLstm`. Products are of the type `dtype`."""

    def __init__(self, directions: Directions, dtype: torch.dtype, *, skip: bool) -> None:
        self._skip = skip
        self._layers = [CudaGraph(CudaLayer(pair, dtype)) for pair in zip(*directions, strict=True)]

    def __call__(
        self, inputs: torch.Tensor, index: torch.Tensor, lengths: torch.Tensor, state: LstmState
    ) -> tuple[list[torch.Tensor], LstmState]:
        steps = PackedSteps.of(lengths)
        sizes, order = steps.batch_sizes, steps.order
        batch = _rounded_up(sizes[0])
        # Sequences without steps, after the others, pad each launch.
        padding = (0, 0, 0, batch - sizes[0])
        hidden = F.pad(state.hidden[:, :, order], padding)
        doubled_cell = F.pad(state.cell[:, :, order] * 2, padding)
        # (longest, batch): which sequences reach a step
        columns = torch.arange(batch, device=order.device)
        real = torch.tensor(sizes, device=order.device).unsqueeze(1) > columns
        # (2, longest, batch, projection_dim)
        padded = torch.stack(
            [
                inputs.new_zeros(*real.shape, inputs.size(1)).masked_scatter(
                    real.unsqueeze(2), inputs[index[positions]]
                )
                for positions in steps.positions
            ]
        )
        layers = []
        for layer_index, run in enumerate(self._layers):
            outputs = torch.zeros_like(padded)
            for start in range(0, len(sizes), STEPS_AT_ONCE):
                steps_now = slice(start, start + STEPS_AT_ONCE)
                missing = max(0, start + STEPS_AT_ONCE - len(sizes))
                running = _rounded_up(sizes[start])
                step_outputs, *state_now = run(
                    F.pad(padded[:, steps_now, :running], (0, 0, 0, 0, 0, missing)),
                    F.pad(real[steps_now, :running], (0, 0, 0, missing)),
                    hidden[layer_index, :, :running],
                    doubled_cell[layer_index, :, :running],
                )
                outputs[:, steps_now, :running] = step_outputs[:, : len(sizes) - start]
                hidden[layer_index, :, :running], doubled_cell[layer_index, :, :running] = state_now
            padded = outputs + padded if layer_index and self._skip else outputs
            layers.append(steps.unpacked((padded[0][real], padded[1][real])))
        inverse_order = order.argsort()
        return layers, LstmState(hidden[:, :, inverse_order], doubled_cell[:, :, inverse_order] / 2)


def _rounded_up(sequences: int) -> int:
    return -(-sequences // SEQUENCES_AT_ONCE) * SEQUENCES_AT_ONCE


class CudaLayer:
    """Runs some steps of one layer, the `pair` of its directions, with products of the type `dtype`."""

    def __init__(self, pair: Sequence[PackedLayer], dtype: torch.dtype) -> None:
        self.cell_clip, self.proj_clip = pair[0].cell_clip, pair[0].proj_clip
        # (2, projection_dim, 4 dim), the same, (2, 1, 4 dim), (2, dim, projection_dim)
        self.for_input = _both_directions([layer.for_input.dense() for layer in pair], dtype)
        self.recurrent = _both_directions([layer.recurrent.dense() for layer in pair], dtype)
        self.bias = torch.stack([layer.bias for layer in pair]).unsqueeze(1)
        self.one_half = self.bias.new_full([1], 0.5)
        projections = [layer.projection.dense() for layer in pair if layer.projection is not None]
        self.projection = _both_directions(projections, dtype) if projections else None

    def __call__(
        self, inputs: torch.Tensor, real: torch.Tensor, hidden: torch.Tensor, doubled_cell: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        """
        *Shape:* `inputs` `(2, steps, batch, projection_dim)`, `real` `(steps, batch)`, `hidden` `(2, batch,
        projection_dim)`, `doubled_cell` `(2, batch, dim)`. Returns outputs of the shape of `inputs`, and the
        hidden state and the doubled cell after each sequence's last real step.
        """
        # (2, steps, batch, 4 dim)
        gates = (_batched_product(inputs.flatten(1, 2), self.for_input) + self.bias).unflatten(1, real.shape)
        outputs = []
        for step, is_real in enumerate(real.unsqueeze(2)):
            step_gates = _batched_product(hidden, self.recurrent) + gates[:, step]
            after = doubled_cell.clone()
            gates_now, half = step_gates.sigmoid_().chunk(4, dim=2), torch.empty_like(after)
            half_output(gates_now, after, self.cell_clip, torch.sigmoid, half, self.one_half)
            output = half * 2 if self.projection is None else _batched_product(half, self.projection)
            if self.projection is not None and self.proj_clip:
                output = output.clamp(-self.proj_clip, self.proj_clip)
            outputs.append(output)
            hidden = torch.where(is_real, output, hidden)
            doubled_cell = torch.where(is_real, after, doubled_cell)
        return torch.stack(outputs, dim=1), hidden, doubled_cell


def _both_directions(weights: list[torch.Tensor], dtype: torch.dtype) -> torch.Tensor:
    """*Shape:* `(out, in)` of each direction to `(2, in, out)`."""
    return torch.stack([weight.t() for weight in weights]).to(dtype)


def _batched_product(inputs: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """*Shape:* `(2, rows, in)` and `(2, in, out)` to `(2, rows, out)`, of the inputs' type."""
    return torch.bmm(inputs.to(weights.dtype), weights).to(inputs.dtype)


class CudaGraph:
    """
    Records a function as a CUDA graph for each kind of inputs, and replays it from then on. Without CUDA, or
    after a recording that failed, it calls the function. Only one thread at a time may call it. The function
    does not change its inputs, and its control flow depends on nothing but their shapes and types. Beyond
    `capacity` recordings, the one used longest ago is dropped.
    """

    def __init__(
        self, function: Callable[..., tuple[torch.Tensor, ...]], *, capacity: int = RECORDINGS
    ) -> None:
        self.function = function
        self.capacity = capacity
        self._recordings: OrderedDict[Any, _Recording] = OrderedDict()
        self._failed = False

    def __len__(self) -> int:
        return len(self._recordings)

    def __call__(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        if self._failed or not all(tensor.is_cuda for tensor in inputs):
            return self.function(*inputs)
        kind = tuple((tensor.shape, tensor.dtype, tensor.device) for tensor in inputs)
        if kind not in self._recordings:
            try:
                self._recordings[kind] = _Recording(self.function, inputs)
            except RuntimeError as error:
                logger.warning("No CUDA graph could be recorded (%s): ELMo runs without", error)
                self._failed = True
                return self.function(*inputs)
            if len(self._recordings) > self.capacity:
                self._recordings.popitem(last=False)
        self._recordings.move_to_end(kind)
        return self._recordings[kind].replay(inputs)


class _Recording:
    def __init__(
        self, function: Callable[..., tuple[torch.Tensor, ...]], inputs: tuple[torch.Tensor, ...]
    ) -> None:
        self.inputs = [tensor.clone() for tensor in inputs]
        # The first call, which sets libraries up, must not be recorded.
        warm_up = torch.cuda.Stream()
        warm_up.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warm_up):
            function(*self.inputs)
        torch.cuda.current_stream().wait_stream(warm_up)
        self.graph = torch.cuda.CUDAGraph()
        # Collecting an earlier recording would end this one.
        enabled = gc.isenabled()
        gc.disable()
        try:
            with torch.cuda.graph(self.graph):
                self.outputs = function(*self.inputs)
        finally:
            if enabled:
                gc.enable()

    def replay(self, inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        for own, tensor in zip(self.inputs, inputs, strict=True):
            own.copy_(tensor)
        self.graph.replay()
        return tuple(output.clone() for output in self.outputs)
