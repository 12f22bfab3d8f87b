from functools import partial

import pytest
import torch

from elmo_tasks.elmo.inference import cpu_lstm as lone_lstm
from elmo_tasks.elmo.inference.cpu_lstm import SingleSequenceLstm, run_batch
from elmo_tasks.elmo.inference.packed_weights import pack
from tests.elmo.inference.layers import (
    SIZES,
    assert_near,
    frozen_layers,
    model_result,
    random_inputs,
    random_stack,
)
from tests.elmo.inference.precisions import PRECISIONS

LIMITS = {"end to end": 1 << 30, "one by one": 0}


@pytest.fixture(params=LIMITS)
def kind(request, monkeypatch):
    """How the weights of both directions lie."""
    monkeypatch.setattr(lone_lstm, "MAX_JOINT", LIMITS[request.param])


def run(stack, length, precision="float32"):
    inputs, index, state = random_inputs(stack, torch.tensor([length]))
    lone = SingleSequenceLstm(frozen_layers(stack, precision), partial(pack, precision=precision))
    return lone(inputs[index], state, skip=stack.use_skip_connections)


@pytest.mark.usefixtures("kind")
@pytest.mark.parametrize("length", [1, 2, 23])
@pytest.mark.parametrize("changes", SIZES)
def test_equals_the_model(changes, length):
    stack, lengths = random_stack(**changes), torch.tensor([length])
    found = run(stack, length)
    inputs, index, state = random_inputs(stack, lengths)
    assert_near(found, model_result(stack, inputs, index, lengths, state))


@pytest.mark.parametrize("length", [4, 23])
def test_a_long_sequence_in_blocks(length, monkeypatch):
    monkeypatch.setattr(lone_lstm, "STEPS_AT_ONCE", 4)
    stack, lengths = random_stack(), torch.tensor([length])
    inputs, index, state = random_inputs(stack, lengths)
    assert_near(run(stack, length), model_result(stack, inputs, index, lengths, state))


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(
    "changes", [{}, {"dim": 32, "projection_dim": 32}, {"dim": 1024, "projection_dim": 128}]
)
@pytest.mark.usefixtures("kind")
def test_rounds_as_the_kernel_for_batches(changes, precision, threads):
    stack, lengths = random_stack(**changes), torch.tensor([9])
    outputs, state = run(stack, 9, precision)
    torch.set_num_threads(1)
    inputs, index, before = random_inputs(stack, lengths)
    directions = frozen_layers(stack, precision)
    expected, after = run_batch(directions, inputs, index, lengths, before, skip=True)
    for part, exact in zip((*outputs, *state), (*expected, *after), strict=True):
        assert torch.equal(part, exact)
