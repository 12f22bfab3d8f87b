"""The parts of the model, by their definitions: attention, windows, answer spans, the score of no answer."""

from itertools import product

import numpy as np
import pytest
import torch

from elmo_tasks.squad.model import (
    BidirectionalAttention,
    NoAnswerHead,
    SelfAttention,
    Windows,
    best_spans,
    span_scores,
)
from tests.modules.numpy_reference import softmax

DIM = 5
LENGTHS, WORDS = (6, 3, 1), (2, 4, 1)


def mask_of(*lengths: int) -> torch.Tensor:
    return torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)


def similarity(left: np.ndarray, right: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """By the definition: for each pair the product with `[x; y; x * y]`."""
    return np.array([[weights @ np.concatenate([x, y, x * y]) for y in right] for x in left])


def passage_and_question():
    torch.manual_seed(0)
    # Padding holds what would disturb, and real scores may be far below 0.
    return 3 * torch.randn(3, max(LENGTHS), DIM), 3 * torch.randn(3, max(WORDS), DIM)


def test_bidirectional_attention_by_hand():
    passage, question = passage_and_question()
    layer = BidirectionalAttention(dim=DIM)
    outputs, attention = layer(passage, question, mask_of(*LENGTHS), mask_of(*WORDS))
    assert outputs.shape == (3, max(LENGTHS), layer.output_dim)
    weights = layer.similarity.weights.detach().numpy().reshape(-1)
    for row, (tokens, words) in enumerate(zip(LENGTHS, WORDS, strict=True)):
        h, q = passage[row, :tokens].numpy(), question[row, :words].numpy()
        scores = similarity(h, q, weights)
        to_question = softmax(scores)
        c = to_question @ q
        attended_passage = softmax(scores.max(axis=1)) @ h
        expected = np.concatenate([h, c, h * c, attended_passage * c], axis=1)
        np.testing.assert_allclose(outputs[row, :tokens].detach(), expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(attention[row, :tokens, :words].detach(), to_question, atol=1e-5)
        assert not attention[row, :, words:].any()


def test_self_attention_by_hand():
    passage, _ = passage_and_question()
    layer = SelfAttention(dim=DIM)
    outputs, attention = layer(passage, mask_of(*LENGTHS))
    weights = layer.similarity.weights.detach().numpy().reshape(-1)
    for row, tokens in enumerate(LENGTHS):
        h = passage[row, :tokens].numpy()
        scores = similarity(h, h, weights)
        np.fill_diagonal(scores, -np.inf)
        # A token that is alone attends to nothing.
        to_others = softmax(scores) if tokens > 1 else np.zeros((1, 1))
        c = to_others @ h
        expected = np.concatenate([h, c, h * c], axis=1)
        np.testing.assert_allclose(outputs[row, :tokens].detach(), expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(attention[row, :tokens, :tokens].detach(), to_others, atol=1e-5)
        assert not attention[row].diagonal().any()
        assert not attention[row, :, tokens:].any()


def test_a_row_of_padding_leaves_the_gradients_finite():
    """Such as a window after the end of a passage."""
    passage, question = (part.requires_grad_() for part in passage_and_question())
    mask = mask_of(*LENGTHS)
    mask[2] = False
    outputs, _ = BidirectionalAttention(dim=DIM)(passage, question, mask, mask_of(*WORDS))
    to_itself, _ = SelfAttention(dim=DIM)(passage, mask)
    (outputs.sum() + to_itself.sum()).backward()
    assert all(tensor.isfinite().all() for tensor in (outputs, passage.grad, question.grad))


SIZE, OVERLAP = 10, 4
STEP = SIZE - OVERLAP


@pytest.mark.parametrize("length", [1, 9, 10, 11, 15, 16, 17, 40])
def test_a_token_has_the_window_with_the_most_context(length):
    windows = Windows(mask_of(length), size=SIZE, overlap=OVERLAP)
    tokens = torch.arange(length).unsqueeze(0)
    split = windows.split(tokens + 1)
    # All tokens, each window with an overlap of the one before it
    assert set(split.flatten().tolist()) - {0} == set(range(1, length + 1))
    assert split.shape == (1, windows.count, windows.size)
    assert (windows.count == 1) == (length <= SIZE)
    assert torch.equal(windows.join(split, torch.tensor([0])), tokens + 1)

    def context(window: int, token: int) -> int:
        """The tokens to the nearer end of the window that is not one of the passage."""
        start, end = window * STEP, window * STEP + SIZE
        if not start <= token < end:
            return -1
        before = token - start if start > 0 else length
        after = end - 1 - token if end < length else length
        return min(before, after)

    for token in range(length):
        contexts = [context(window, token) for window in range(windows.count)]
        chosen = windows.of_token[0, token].item()
        assert contexts[chosen] >= max(contexts) - 1
        assert windows.first[0, token] == chosen * STEP * (windows.count > 1)


@pytest.mark.parametrize(("lengths", "longest"), [([7, 3, 1], 4), ([5, 5], 17), ([2], 1)])
def test_the_best_spans_are_those_of_brute_force(lengths, longest):
    torch.manual_seed(0)
    mask = mask_of(*lengths)
    start, end = (torch.randn(mask.shape).masked_fill(~mask, -torch.inf) for _ in range(2))
    scores = span_scores(start, end, longest=longest)
    best, spans_found = best_spans(scores, 1000)
    for row, length in enumerate(lengths):
        spans = {
            (first, last): (start[row, first] + end[row, last]).item()
            for first, last in product(range(length), repeat=2)
            if first <= last < first + longest
        }
        expected = sorted(spans, key=spans.get, reverse=True)
        assert [tuple(span) for span in spans_found[row, : len(spans)].tolist()] == expected
        assert best[row, : len(spans)].tolist() == pytest.approx([spans[span] for span in expected])
        assert (best[row, len(spans) :] == -torch.inf).all()
    assert torch.equal(best_spans(scores, 1)[1], spans_found[:, :1])


HEAD_LENGTHS = (4, 1, 6)


def head_and_inputs() -> tuple[NoAnswerHead, list[torch.Tensor]]:
    """Layers, log probabilities of starts and ends, and the mask, of passages that are padded."""
    torch.manual_seed(1)
    head = NoAnswerHead(dim=5, start_dim=3, end_dim=2)
    mask = mask_of(*HEAD_LENGTHS)
    layers = [torch.randn(*mask.shape, size) for size in (5, 3, 2)]
    scores = [torch.randn(mask.shape).masked_fill(~mask, -torch.inf).log_softmax(1) for _ in range(2)]
    return head, [*layers, *scores, mask]


def test_no_answer_by_hand():
    """Clark and Gardner 2017, section 3.3, one passage after the other, without its padding."""
    head, inputs = head_and_inputs()
    scores = head(*inputs)
    assert scores.shape == (len(HEAD_LENGTHS),)
    merged, starts, ends, start, end, mask = inputs
    for row, length in enumerate(HEAD_LENGTHS):
        attention = torch.stack([head.attention(token)[0] for token in merged[row, :length]]).exp()
        summaries = (
            sum(weight * token for weight, token in zip(weights[:length], layer[row], strict=False))
            for weights, layer in (
                (attention / attention.sum(), merged),
                (start[row].exp(), starts),
                (end[row].exp(), ends),
            )
        )
        hidden = head.hidden(torch.cat(list(summaries))).clamp(min=0)
        torch.testing.assert_close(scores[row], head.output(hidden)[0])
    scores.sum().backward()
    for layer in (merged, starts, ends):
        layer[~mask] = 1e3
    torch.testing.assert_close(head(*inputs), scores)
    # A number that all tokens have in common changes no softmax.
    learned = [part.grad for name, part in head.named_parameters() if name != "attention.bias"]
    assert all(gradient.isfinite().all() and gradient.any() for gradient in learned)
