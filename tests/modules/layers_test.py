"""Attention, `BiLstm` and `CharacterCnn`, each against NumPy or PyTorch's own layers."""

import numpy as np
import pytest
import torch
from allennlp.common import Params
from allennlp.data import Vocabulary
from allennlp.modules import TokenEmbedder
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from elmo_tasks.modules.layers import BiGru, BiLstm, align, attention
from tests.modules.numpy_reference import softmax

PAIR_LENGTHS = [(3, 5), (4, 1), (1, 2)]


@pytest.mark.parametrize("scaled", [False, True])
def test_attention_both_ways_without_padding(scaled):
    torch.manual_seed(0)
    # Far below 0, where padding that counts as 0 would take everything.
    left, right = torch.rand(3, 4, 6), -60 * torch.rand(3, 5, 6)
    masks = [
        torch.tensor([[position < lengths[side] for position in range(width)] for lengths in PAIR_LENGTHS])
        for side, width in enumerate((4, 5))
    ]
    aligned = align(left, right, *masks, scaled=scaled)
    for row, (rows, columns) in enumerate(PAIR_LENGTHS):
        scores = left[row, :rows].double().numpy() @ right[row, :columns].double().numpy().T
        scores = scores / 6**0.5 if scaled else scores
        for matrix, expected in zip((aligned[0][row], aligned[1][row]), (scores, scores.T), strict=True):
            inner = matrix[: expected.shape[0], : expected.shape[1]]
            np.testing.assert_allclose(inner, softmax(expected), atol=1e-5)
            # Exactly nothing elsewhere.
            assert matrix.count_nonzero() <= inner.numel()
            torch.testing.assert_close(matrix.sum(), torch.tensor(float(expected.shape[0])))


def test_attention_of_a_row_of_padding_is_0_and_has_gradients():
    scores = torch.tensor([[-800.0, -1000.0, 5.0], [1.0, 2.0, 3.0]], requires_grad=True)
    mask = torch.tensor([[True, True, False], [False, False, False]])
    weights = attention(scores, mask)
    assert torch.equal(weights, torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]))
    (weights * torch.randn(2, 3)).sum().backward()
    assert scores.grad.isfinite().all()


LENGTHS = torch.tensor([5, 1, 3])
MASK = torch.arange(5) < LENGTHS.unsqueeze(1)


def packed_reference(ours: BiLstm, inputs: torch.Tensor) -> torch.Tensor:
    """PyTorch's bidirectional LSTM or GRU over packed sequences, with the same weights."""
    outputs = inputs
    for layer, forward_layer in enumerate(ours.forward_layers):
        sizes = outputs.size(2), forward_layer.hidden_size
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
def test_bilstm_equals_packed_sequences_in_value_and_gradient(kind):
    torch.manual_seed(0)
    ours = kind(input_dim=4, hidden_sizes=[6, 3], dropout=0.0)
    inputs = torch.randn(3, 5, 4, requires_grad=True)
    outputs, expected = ours(inputs, MASK), packed_reference(ours, inputs)
    assert outputs.shape == (3, 5, ours.output_dim)
    torch.testing.assert_close(outputs, expected)
    weights = torch.randn_like(outputs)
    (gradient,) = torch.autograd.grad((outputs * weights).sum(), inputs)
    (expected_gradient,) = torch.autograd.grad((expected * weights).sum(), inputs)
    torch.testing.assert_close(gradient, expected_gradient)
    assert not ours(torch.randn(1, 3, 4), torch.zeros(1, 3, dtype=torch.bool)).any()


def test_dropout_of_bilstm_is_one_mask_for_all_steps():
    torch.manual_seed(0)
    inputs, mask = torch.randn(1, 6, 4), torch.ones(1, 6, dtype=torch.bool)
    encoder = BiLstm(input_dim=4, hidden_sizes=[50], dropout=0.5, input_dropout=0.0).train()
    read = []
    encoder.forward_layers[0].register_forward_pre_hook(lambda layer, inputs: read.append(inputs[0]))
    dropped = encoder(inputs, mask)[0] == 0
    assert torch.equal(read[0], inputs.transpose(0, 1))
    assert dropped.any()
    assert (dropped == dropped[0]).all()


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


def character_vocabulary():
    return Vocabulary(counter={"token_characters": dict.fromkeys("abcdefg", 1)})


def character_cnn(**options):
    torch.manual_seed(0)
    settings = {"type": "elmo_character_cnn", "embedding_dim": 4, "num_filters": 5, **options}
    return TokenEmbedder.from_params(Params(settings), vocab=character_vocabulary())


THE, CAT, A, PADDING = [2, 3, 4, 0], [5, 6, 7, 8], [2, 0, 0, 0], [0, 0, 0, 0]
WORDS = torch.tensor([[THE, CAT, THE], [A, PADDING, PADDING]])


@pytest.mark.parametrize("width", [1, 3, 5])
def test_character_cnn_equals_a_convolution_word_by_word(width):
    encoder = character_cnn(width=width)
    vectors = encoder(WORDS)
    assert vectors.shape == (2, 3, encoder.get_output_dim())
    # Linear over (character, offset) as the kernel of a convolution
    kernel = encoder.filters.weight.view(5, 4, width)
    for word, vector in zip(WORDS.flatten(0, 1), vectors.flatten(0, 1), strict=True):
        letters = word[word != 0]
        if not len(letters):
            assert not vector.any()
            continue
        characters = encoder.embedding(letters).t().unsqueeze(0)
        outputs = F.conv1d(characters, kernel, encoder.filters.bias, padding=width // 2)
        torch.testing.assert_close(vector, outputs.amax(dim=2).relu()[0])


def test_character_cnn_of_a_larger_vocabulary():
    encoder, larger = character_cnn(), character_vocabulary()
    expected, weight = encoder(WORDS), encoder.embedding.weight.detach().clone()
    encoder.extend_vocab(larger)
    assert torch.equal(encoder.embedding.weight, weight)
    last = larger.add_token_to_namespace("z", "token_characters")
    encoder.extend_vocab(larger, extension_pretrained_file=None, model_path="embedder")
    assert torch.equal(encoder.embedding.weight[:-1], weight)
    assert torch.equal(encoder(WORDS), expected)
    assert encoder(torch.tensor([[[last, 0]]])).shape == (1, 1, 5)
    assert encoder.embedding.weight.requires_grad
