import pytest
import torch
from allennlp.modules.lstm_cell_with_projection import LstmCellWithProjection
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

from elmo_tasks.elmo.model import BiLmOptions
from elmo_tasks.elmo.model.lstm import ProjectedLstm
from tests.elmo.files import changed

LENGTHS = torch.tensor([6, 4, 1])


def made(**changes):
    torch.manual_seed(7)
    options = BiLmOptions.read(changed(**changes))
    lstm = ProjectedLstm(options=options).double()
    with torch.no_grad():
        for parameter in lstm.parameters():
            parameter.mul_(3).add_(torch.randn_like(parameter) / 4)
    inputs = torch.randn(3, 6, options.projection_dim, dtype=torch.double)
    hidden = torch.randn(3, options.projection_dim, dtype=torch.double)
    cell = torch.randn(3, options.dim, dtype=torch.double)
    return lstm, inputs, hidden, cell


@pytest.mark.parametrize("sizes", [{}, {"dim": 10, "projection_dim": 10}])
def test_equals_pytorchs_lstm_where_there_are_no_bounds(sizes):
    lstm, inputs, hidden, cell = made(cell_clip=0, proj_clip=0, **sizes)
    size, dim = hidden.size(1), cell.size(1)
    other = nn.LSTM(size, dim, batch_first=True, proj_size=size if dim != size else 0).double()
    state = {
        "weight_ih_l0": lstm.weight[:, :size],
        "weight_hh_l0": lstm.weight[:, size:],
        "bias_ih_l0": lstm.bias,
        "bias_hh_l0": torch.zeros_like(lstm.bias),
    } | ({} if lstm.projection is None else {"weight_hr_l0": lstm.projection})
    other.load_state_dict(state)
    packed = pack_padded_sequence(inputs, LENGTHS, batch_first=True)
    expected, (expected_hidden, expected_cell) = other(packed, (hidden[None], cell[None]))
    outputs, last_hidden, last_cell = lstm(inputs, LENGTHS, hidden, cell)
    packed_outputs = pack_padded_sequence(outputs, LENGTHS, batch_first=True)
    torch.testing.assert_close(packed_outputs.data, expected.data)
    torch.testing.assert_close(last_hidden, expected_hidden[0])
    torch.testing.assert_close(last_cell, expected_cell[0])


def test_equals_allennlps_layer_with_bounds():
    lstm, inputs, hidden, cell = made(cell_clip=0.4, proj_clip=0.3)
    size, dim = hidden.size(1), cell.size(1)
    theirs = LstmCellWithProjection(
        size, size, dim, memory_cell_clip_value=0.4, state_projection_clip_value=0.3
    ).double()
    for_input, recurrent = lstm.weight.split(size, dim=1)
    theirs.load_state_dict(
        {
            "input_linearity.weight": for_input,
            "state_linearity.weight": recurrent,
            "state_linearity.bias": lstm.bias,
            "state_projection.weight": lstm.projection,
        }
    )
    expected, (expected_hidden, expected_cell) = theirs(inputs, LENGTHS.tolist(), (hidden[None], cell[None]))
    outputs, last_hidden, last_cell = lstm(inputs, LENGTHS, hidden, cell)
    for row, length in enumerate(LENGTHS):
        torch.testing.assert_close(outputs[row, :length], expected[row, :length])
    torch.testing.assert_close(last_hidden, expected_hidden[0])
    torch.testing.assert_close(last_cell, expected_cell[0])
    assert outputs.abs().max() == 0.3
    assert last_cell.abs().max() == 0.4


def test_a_sequence_without_steps_keeps_its_state():
    lstm, inputs, hidden, cell = made()
    _, last_hidden, last_cell = lstm(inputs, torch.tensor([6, 0, 2]), hidden, cell)
    assert torch.equal(last_hidden[1], hidden[1])
    assert torch.equal(last_cell[1], cell[1])
    assert not torch.equal(last_hidden[2], hidden[2])
