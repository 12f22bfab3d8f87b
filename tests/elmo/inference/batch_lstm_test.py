import pytest
import torch

from elmo_tasks.elmo.inference import cpu_lstm as batch_lstm
from elmo_tasks.elmo.inference.cpu_lstm import run_batch
from tests.elmo.inference.layers import (
    SIZES,
    assert_near,
    frozen_layers,
    model_result,
    random_inputs,
    random_stack,
)
from tests.elmo.inference.precisions import PRECISIONS

LENGTHS = [[3, 11, 1, 26, 11], [1, 1, 1], [4], [30, 30, 2]]


def run(stack, lengths, precision="float32"):
    inputs, index, state = random_inputs(stack, lengths)
    directions = frozen_layers(stack, precision)
    return run_batch(directions, inputs, index, lengths, state, skip=stack.use_skip_connections)


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("changes", SIZES)
def test_equals_the_model(changes, lengths):
    stack, lengths = random_stack(**changes), torch.tensor(lengths)
    inputs, index, state = random_inputs(stack, lengths)
    assert_near(run(stack, lengths), model_result(stack, inputs, index, lengths, state))


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(("name", "values"), [("ROWS_AT_ONCE", (1, 1000)), ("DISTINCT_SHARE", (0.0, 100.0))])
def test_how_many_inputs_are_projected_at_once_changes_no_bit(monkeypatch, name, values, precision):
    stack, lengths, found = random_stack(), torch.tensor(LENGTHS[0]), []
    for value in values:
        monkeypatch.setattr(batch_lstm, name, value)
        outputs, state = run(stack, lengths, precision)
        found.append([*outputs, *state])
    assert all(map(torch.equal, *found))
