import pytest
import torch
from allennlp.modules import augmented_lstm
from allennlp.modules.seq2seq_encoders import PytorchSeq2SeqWrapper
from allennlp.modules.stacked_alternating_lstm import StackedAlternatingLstm

from elmo_tasks.srl import highway_lstm
from elmo_tasks.srl.highway_lstm import GATES, HighwayLstm

LENGTHS = torch.tensor([5, 2, 9, 1, 7])
MASK = torch.arange(9) < LENGTHS.unsqueeze(1)


def pair(layers, dropout=0.0, input_dim=6, hidden_dim=8):
    """Ours, and AllenNLP's with the same weights, which computes one step after the other by autograd."""
    torch.manual_seed(0)
    ours = HighwayLstm(input_dim=input_dim, hidden_dim=hidden_dim, num_layers=layers, dropout=dropout)
    theirs = PytorchSeq2SeqWrapper(
        StackedAlternatingLstm(
            input_dim,
            hidden_dim,
            layers,
            recurrent_dropout_probability=dropout,
            use_input_projection_bias=False,
        )
    )
    for i, layer in enumerate(ours.layers):
        torch.nn.init.normal_(layer.bias)
        cell = getattr(theirs._module, f"layer_{i}").cell
        with torch.no_grad():
            for theirs_of, ours_of in parts(cell, layer):
                theirs_of.copy_(ours_of)
    return ours, theirs


def parts(cell, layer, of=lambda parameter: parameter.data):
    """Pairs of theirs and ours."""
    size = layer.highway.size(1)
    weight = of(layer.weight)
    from_input = torch.cat([weight[:, :size], of(layer.highway)])
    return [
        (of(cell.input_linearity.weight), from_input),
        (of(cell.state_linearity.weight), weight[:, size:]),
        (of(cell.state_linearity.bias), of(layer.bias)),
    ]


def assert_equal(ours, theirs, inputs, mask=MASK):
    """In value and gradient, of inputs and of weights."""
    results = []
    for encoder in (ours, theirs):
        given = inputs.clone().requires_grad_()
        outputs = encoder(given, mask)
        (outputs * torch.linspace(-1, 1, outputs.numel()).view_as(outputs)).sum().backward()
        results.append((outputs, given.grad))
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    for i, layer in enumerate(ours.layers):
        cell = getattr(theirs._module, f"layer_{i}").cell
        for expected, found in parts(cell, layer, lambda parameter: parameter.grad):
            torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("layers", [1, 5])
def test_equals_allennlps_in_value_and_gradient(layers):
    assert_equal(*pair(layers), torch.randn(5, 9, 6))


def test_equals_it_with_dropout(monkeypatch):
    """With the same masks, sequences by falling length, one for each layer."""
    ours, theirs = pair(3, dropout=0.5)
    for module in (augmented_lstm, highway_lstm):
        generator = torch.Generator().manual_seed(1)

        def mask(probability, like, generator=generator):
            return torch.bernoulli(torch.full_like(like, 1 - probability), generator=generator) / (
                1 - probability
            )

        monkeypatch.setattr(module, "get_dropout_mask", mask)
    inputs = torch.randn(5, 9, 6)
    assert_equal(ours.train(), theirs.train(), inputs)
    without = ours.eval()(inputs, MASK)
    torch.testing.assert_close(without, theirs.eval()(inputs, MASK))
    assert not torch.allclose(without, ours.train()(inputs, MASK))


def test_how_it_begins():
    """Orthogonal matrices, no bias but that of the forget gate."""
    (layer,) = HighwayLstm(input_dim=4, hidden_dim=4, num_layers=1, dropout=0.0).layers
    assert layer.bias.tolist() == [0.0] * 4 + [1.0] * 4 + [0.0] * 12
    matrices = [part for half in layer.weight.split(4, dim=1) for part in half.split(4)]
    assert len(matrices) == 2 * GATES
    for matrix in (*matrices, layer.highway):
        torch.testing.assert_close(matrix @ matrix.t(), torch.eye(4), atol=1e-5, rtol=0)
