"""Layers of a biLSTM for the tests of its kernels, and the model's result."""

from functools import partial

import torch

from elmo_tasks.common.packed_weights import pack
from elmo_tasks.elmo.inference.cell import PackedLayer
from elmo_tasks.elmo.model import LstmState
from elmo_tasks.elmo.model.lstm import StackedBiLstm
from tests.elmo.files import random_bilm

SIZES = [
    {},
    {"cell_clip": 0, "proj_clip": 0, "n_layers": 1},
    # No projection
    {"dim": 32, "projection_dim": 32, "use_skip_connections": False},
    {"dim": 18, "projection_dim": 6, "n_layers": 3},
]


def random_stack(**changes) -> StackedBiLstm:
    """A stack whose bounds are reached."""
    sizes = {"dim": 64, "projection_dim": 32, "cell_clip": 0.2, "proj_clip": 0.1}
    return random_bilm(seed=2, **(sizes | changes)).lstm.requires_grad_(False)


def frozen_layers(stack: StackedBiLstm, precision: str = "float32"):
    """Packs the layers of each direction."""
    return tuple(
        [
            PackedLayer(
                {name: weight.detach() for name, weight in layer.named_parameters()},
                cell_clip=layer.cell_clip,
                proj_clip=layer.proj_clip,
                pack=partial(pack, precision=precision),
            )
            for layer in stack.layers(direction)
        ]
        for direction in range(2)
    )


def random_inputs(stack: StackedBiLstm, lengths: torch.Tensor, dtype: torch.dtype = torch.float32):
    """The parameters of a kernel: 40 distinct inputs, the index of each step's, the lengths, and a state."""
    layer, layers = stack.layers(0)[0], len(stack.layers(0))
    size, dim = layer.weight.size(1) // 2, layer.weight.size(0) // 4
    generator = torch.Generator().manual_seed(4)
    inputs = torch.randn(40, size, generator=generator, dtype=dtype)
    index = torch.randint(40, (int(lengths.sum()),), generator=generator)
    hidden, cell = (
        torch.randn(layers, 2, len(lengths), width, generator=generator, dtype=dtype) for width in (size, dim)
    )
    return inputs, index, lengths, LstmState(hidden / 10, cell)


def model_result(stack: StackedBiLstm, inputs, index, lengths, state):
    """Runs the model in float64, and lays the sequences end to end, as the kernels do."""
    stack = stack.double()
    padded = torch.zeros(len(lengths), int(lengths.max()), inputs.size(1), dtype=torch.double)
    real = torch.arange(padded.size(1)) < lengths.unsqueeze(1)
    padded[real] = inputs[index].double()
    outputs, after = stack(padded, lengths, LstmState(*(part.double() for part in state)))
    return [output[real] for output in outputs], after


def assert_near(found, expected, tolerance: float = 1e-6) -> None:
    """Compares outputs and states, as the kernels return them."""
    (outputs, state), (expected_outputs, expected_state) = found, expected
    for ours, theirs in zip((*outputs, *state), (*expected_outputs, *expected_state), strict=True):
        torch.testing.assert_close(ours.double(), theirs, atol=tolerance, rtol=1e-5)
