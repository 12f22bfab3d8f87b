import pytest
import torch

from elmo_tasks.elmo.inference.cpu_lstm import half_output
from tests.elmo.inference.layers import SIZES, frozen_layers, random_inputs, random_stack
from tests.elmo.inference.precisions import PRECISIONS


@pytest.mark.parametrize("changes", SIZES)
def test_a_step_is_one_of_the_model(changes):
    stack = random_stack(**changes)
    inputs, _, state = random_inputs(stack, torch.tensor([1] * 40))
    for direction, layers in enumerate(frozen_layers(stack)):
        for number, (layer, reference) in enumerate(zip(layers, stack.layers(direction), strict=True)):
            hidden, cell = state.hidden[number, direction], state.cell[number, direction]
            for rows in (40, 1):
                doubled_cell = 2 * cell[:rows]
                found = layer.step(layer.project_inputs(inputs[:rows]), hidden[:rows], doubled_cell)
                expected, expected_cell = reference.step(inputs[:rows], hidden[:rows], cell[:rows])
                torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-5)
                torch.testing.assert_close(doubled_cell / 2, expected_cell, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("changes", SIZES)
def test_its_weights_are_those_it_was_made_of_bit_by_bit(changes, precision):
    stack = random_stack(**changes)
    for direction, layers in enumerate(frozen_layers(stack, precision)):
        for layer, reference in zip(layers, stack.layers(direction), strict=True):
            weights = layer.weights()
            assert weights.keys() == dict(reference.named_parameters()).keys()
            for name, weight in reference.named_parameters():
                assert torch.equal(weights[name], weight)


def test_half_of_an_output_from_scaled_gates():
    torch.manual_seed(0)
    gates, cell = torch.randn(5, 4 * 32), torch.randn(5, 32)
    scale = torch.ones(4 * 32)
    scale.chunk(4)[2].fill_(2)
    doubled_cell = 2 * cell
    half = half_output((gates * scale).sigmoid().chunk(4, dim=1), doubled_cell, 0.0)
    input_gate, forget_gate, candidate, output_gate = gates.double().chunk(4, dim=1)
    cell = forget_gate.sigmoid() * cell.double() + input_gate.sigmoid() * candidate.tanh()
    expected = output_gate.sigmoid() * cell.tanh()
    torch.testing.assert_close(2 * half.double(), expected, atol=5e-7, rtol=0)
    torch.testing.assert_close(doubled_cell.double() / 2, cell, atol=5e-7, rtol=0)
