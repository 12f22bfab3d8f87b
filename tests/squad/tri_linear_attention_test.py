import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from elmo_tasks.squad.tri_linear_attention import BidirectionalAttention, SelfAttention

DIM = 5
LENGTHS, WORDS = (6, 3, 1), (2, 4, 1)


def mask_of(lengths) -> torch.Tensor:
    return torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)


def softmax(scores: np.ndarray) -> np.ndarray:
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def similarity(left: np.ndarray, right: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """By the definition: for each pair the product with `[x; y; x * y]`."""
    return np.array([[weights @ np.concatenate([x, y, x * y]) for y in right] for x in left])


def inputs():
    torch.manual_seed(0)
    # Padding holds what would disturb, and real scores may be far below 0.
    return 3 * torch.randn(3, max(LENGTHS), DIM), 3 * torch.randn(3, max(WORDS), DIM)


def test_bidirectional_attention_by_hand():
    passage, question = inputs()
    layer = BidirectionalAttention(dim=DIM)
    outputs, attention = layer(passage, question, mask_of(LENGTHS), mask_of(WORDS))
    assert outputs.shape == (3, max(LENGTHS), layer.output_dim)
    weights = layer.similarity.weights.detach().numpy().reshape(-1)
    for row, (tokens, words) in enumerate(zip(LENGTHS, WORDS, strict=True)):
        h, q = passage[row, :tokens].numpy(), question[row, :words].numpy()
        scores = similarity(h, q, weights)
        to_question = softmax(scores)
        c = to_question @ q
        found = softmax(scores.max(axis=1)) @ h
        expected = np.concatenate([h, c, h * c, found * c], axis=1)
        np.testing.assert_allclose(outputs[row, :tokens].detach(), expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(attention[row, :tokens, :words].detach(), to_question, atol=1e-5)
        assert not attention[row, :, words:].any()


def test_self_attention_by_hand():
    passage, _ = inputs()
    layer = SelfAttention(dim=DIM)
    outputs, attention = layer(passage, mask_of(LENGTHS))
    weights = layer.similarity.weights.detach().numpy().reshape(-1)
    for row, tokens in enumerate(LENGTHS):
        h = passage[row, :tokens].numpy()
        scores = similarity(h, h, weights)
        np.fill_diagonal(scores, -np.inf)
        # A token that is alone finds nothing.
        to_others = softmax(scores) if tokens > 1 else np.zeros((1, 1))
        c = to_others @ h
        expected = np.concatenate([h, c, h * c], axis=1)
        np.testing.assert_allclose(outputs[row, :tokens].detach(), expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(attention[row, :tokens, :tokens].detach(), to_others, atol=1e-5)
        assert not attention[row].diagonal().any()
        assert not attention[row, :, tokens:].any()


class Largest(TorchDispatchMode):
    """The size of the largest tensor that any operation makes, on the way there and back."""

    numbers = 0

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        outputs = function(*arguments, **(options or {}))
        for tensor in tree_flatten(outputs)[0]:
            if isinstance(tensor, torch.Tensor):
                self.numbers = max(self.numbers, tensor.untyped_storage().nbytes() // tensor.itemsize)
        return outputs


def test_nothing_is_of_tokens_by_tokens_by_dim():
    tokens, dim = 50, 40
    passage = torch.randn(2, tokens, dim, requires_grad=True)
    layer = SelfAttention(dim=dim)
    with Largest() as largest:
        outputs, _ = layer(passage, torch.ones(2, tokens, dtype=torch.bool))
        outputs.sum().backward()
    assert 2 * tokens * tokens <= largest.numbers <= 3 * 2 * tokens * dim


def test_nan_of_no_row_spreads():
    """A row of padding alone, as a window behind the end of a passage, leaves the gradients whole."""
    passage, question = (part.requires_grad_() for part in inputs())
    mask = mask_of(LENGTHS)
    mask[2] = False
    outputs, _ = BidirectionalAttention(dim=DIM)(passage, question, mask, mask_of(WORDS))
    own, _ = SelfAttention(dim=DIM)(passage, mask)
    (outputs.sum() + own.sum()).backward()
    assert outputs.isfinite().all()
    assert passage.grad.isfinite().all()
    assert question.grad.isfinite().all()
