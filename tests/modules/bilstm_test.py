import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from elmo_tasks.modules.bilstm import BiGru, BiLstm

LENGTHS = torch.tensor([5, 1, 3])
MASK = torch.arange(5) < LENGTHS.unsqueeze(1)


def packed_reference(ours: BiLstm, inputs: torch.Tensor) -> torch.Tensor:
    """PyTorch's bidirectional LSTM or GRU over packed sequences, with the same weights."""
    outputs = inputs
    for layer, onward in enumerate(ours.forward_layers):
        sizes = outputs.size(2), onward.hidden_size
        reference = ours.cell(*sizes, batch_first=True, bidirectional=True)
        reference.load_state_dict(
            {
                name + suffix: tensor
                for direction, suffix in (("forward_layers", ""), ("backward_layers", "_reverse"))
                for name, tensor in getattr(ours, direction)[layer].state_dict().items()
            }
        )
        packed = pack_padded_sequence(outputs, LENGTHS, batch_first=True, enforce_sorted=False)
        outputs, _ = pad_packed_sequence(reference(packed)[0], batch_first=True)
    return outputs


@pytest.mark.parametrize("kind", [BiLstm, BiGru])
def test_equals_packed_sequences_in_value_and_gradient(kind):
    torch.manual_seed(0)
    ours = kind(input_dim=4, hidden_sizes=[6, 3], dropout=0.0)
    inputs = torch.randn(3, 5, 4, requires_grad=True)
    outputs, expected = ours(inputs, MASK), packed_reference(ours, inputs)
    assert outputs.shape == (3, 5, ours.output_dim)
    torch.testing.assert_close(outputs, expected)
    weights = torch.randn_like(outputs)
    (found,) = torch.autograd.grad((outputs * weights).sum(), inputs)
    (wanted,) = torch.autograd.grad((expected * weights).sum(), inputs)
    torch.testing.assert_close(found, wanted)


def test_a_sequence_without_tokens_is_zero():
    outputs = BiLstm(input_dim=4, hidden_sizes=[2], dropout=0.0)(
        torch.randn(1, 3, 4), torch.zeros(1, 3, dtype=torch.bool)
    )
    assert not outputs.any()


def test_dropout_is_one_mask_for_all_steps():
    torch.manual_seed(0)
    outputs = BiLstm(input_dim=4, hidden_sizes=[50], dropout=0.5).train()(
        torch.randn(1, 6, 4), torch.ones(1, 6, dtype=torch.bool)
    )
    dropped = outputs[0] == 0
    assert dropped.any()
    assert (dropped == dropped[0]).all()


def test_an_input_without_dropout():
    encoder = BiLstm(input_dim=4, hidden_sizes=[50], dropout=0.5, input_dropout=0.0).train()
    read = []
    encoder.forward_layers[0].register_forward_pre_hook(lambda layer, inputs: read.append(inputs[0]))
    inputs = torch.randn(1, 6, 4)
    outputs = encoder(inputs, torch.ones(1, 6, dtype=torch.bool))
    assert torch.equal(read[0], inputs.transpose(0, 1))
    assert outputs.eq(0).any()


def test_archives_with_the_former_names_of_the_layers():
    ours, former = (BiLstm(input_dim=4, hidden_sizes=[3, 2], dropout=0.0) for _ in range(2))
    names = {"forward_layers": "onward", "backward_layers": "back"}
    state = {
        ".".join(["model", names[part], rest]): tensor
        for name, tensor in former.state_dict().items()
        for part, _, rest in [name.partition(".")]
    }
    nn.ModuleDict({"model": ours}).load_state_dict(state)
    assert all(torch.equal(tensor, former.state_dict()[name]) for name, tensor in ours.state_dict().items())
