from functools import partial

import pytest
import torch

from elmo_tasks.elmo.inference.cpu_lstm import CpuLstm
from elmo_tasks.elmo.inference.packed_weights import pack
from tests.elmo.inference.layers import (
    SIZES,
    assert_near,
    frozen_layers,
    model_result,
    random_inputs,
    random_stack,
)


def cpu_lstm(stack) -> CpuLstm:
    return CpuLstm(frozen_layers(stack), partial(pack, precision="float32"), skip=stack.use_skip_connections)


@pytest.mark.parametrize("lengths", [[1], [9], [3, 11, 1]])
@pytest.mark.parametrize("changes", SIZES)
def test_equals_the_model(changes, lengths):
    stack, lengths = random_stack(**changes), torch.tensor(lengths)
    inputs, index, state = random_inputs(stack, lengths)
    found = cpu_lstm(stack)(inputs, index, lengths, state)
    assert_near(found, model_result(stack, inputs, index, lengths, state))


def test_a_sentence_alone_and_beside_another():
    stack, lengths = random_stack(), torch.tensor([9, 4])
    run = cpu_lstm(stack)
    inputs, index, state = random_inputs(stack, lengths)
    outputs, after = run(inputs, index, lengths, state)
    before = type(state)(*(part[:, :, :1] for part in state))
    alone, after_alone = run(inputs, index[:9], lengths[:1], before)
    assert all(torch.equal(one, both[:9]) for one, both in zip(alone, outputs, strict=True))
    assert all(torch.equal(one, both[:, :, :1]) for one, both in zip(after_alone, after, strict=True))
