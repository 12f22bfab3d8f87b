import itertools

import pytest
import torch

from elmo_tasks.coref import mentions as module
from elmo_tasks.coref.mentions import (
    MentionFinder,
    attended_spans,
    best_without_crossing,
    candidate_spans,
)
from tests.coref.reference import crosses, reference_mentions

WORD_DIM, CONTEXT_DIM = 5, 4


def finder(**options) -> MentionFinder:
    torch.manual_seed(1)
    sizes = {"word_dim": WORD_DIM, "context_dim": CONTEXT_DIM, "feature_dim": 3, "hidden_sizes": [6, 4]}
    spans = {"max_width": 4, "spans_per_word": 0.4}
    return MentionFinder(**sizes | spans | {"dropout": 0.0} | options).requires_grad_(False)


def document(lengths: list[int]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(2)
    number = sum(lengths)
    return torch.randn(number, WORD_DIM), torch.randn(number, CONTEXT_DIM), torch.tensor(lengths)


@pytest.mark.parametrize("options", [{}, {"max_width": 1}, {"max_width": 30, "spans_per_word": 2.0}])
@pytest.mark.parametrize("lengths", [[9, 1, 7], [1], [5]])
def test_spans_are_those_of_the_paper(options, lengths, monkeypatch):
    """With few spans at once, so that there are borders."""
    monkeypatch.setattr(module, "SCORED_SPANS", 11)
    built = finder(**options)
    words, context, sentences = document(lengths)
    found = built(words, context, sentences)
    spans, vectors, scores = zip(*reference_mentions(built, words, context, lengths), strict=True)
    assert found.spans.tolist() == list(map(list, spans))
    assert found.vectors.shape == (len(spans), built.output_dim)
    torch.testing.assert_close(found.vectors, torch.stack(vectors))
    torch.testing.assert_close(found.scores, torch.stack(scores))


def test_every_parameter_learns_from_vectors_and_scores():
    built = finder().requires_grad_(True)
    found = built(*document([9, 3]))
    (found.vectors.sum() + found.scores.sum()).backward()
    assert all(parameter.grad is not None for parameter in built.parameters())
    assert all(parameter.grad.isfinite().all() for parameter in built.parameters())


@pytest.mark.parametrize("lengths", [[4, 1, 7], [1], [0, 3, 0, 2], [12]])
@pytest.mark.parametrize("width", [1, 3, 20])
def test_candidates_are_all_spans_within_sentences(lengths, width):
    expected, before = [], 0
    for length in lengths:
        tokens = range(before, before + length)
        expected += [[i, j] for i in tokens for j in tokens if i <= j < i + width]
        before += length
    assert candidate_spans(torch.tensor(lengths), width).tolist() == expected


def test_attention_is_a_softmax_over_the_tokens_of_a_span():
    torch.manual_seed(0)
    vectors = torch.randn(9, 5, dtype=torch.double, requires_grad=True)
    # Far apart, so that only a softmax of each span by itself is finite
    scores = (100 * torch.randn(9, dtype=torch.double)).requires_grad_()
    spans = candidate_spans(torch.tensor([5, 4]), 4)
    found = attended_spans(vectors, scores, spans, 4)
    expected = torch.stack([scores[i : j + 1].softmax(0) @ vectors[i : j + 1] for i, j in spans.tolist()])
    torch.testing.assert_close(found, expected)
    weights = torch.randn_like(found)
    gradients = (torch.autograd.grad((out * weights).sum(), (vectors, scores)) for out in (found, expected))
    torch.testing.assert_close(*gradients)


def test_attention_under_autocast():
    vectors, scores = torch.randn(4, 5).bfloat16(), torch.randn(4)
    spans = candidate_spans(torch.tensor([4]), 2)
    found = attended_spans(vectors, scores, spans, 2)
    assert found.dtype == torch.bfloat16
    expected = attended_spans(vectors.float(), scores, spans, 2)
    torch.testing.assert_close(found.float(), expected, atol=0.02, rtol=0)


def greedy(spans, scores, most):
    taken = []
    for index in sorted(range(len(spans)), key=lambda index: -scores[index]):
        if len(taken) < most and not any(crosses(spans[index], spans[t]) for t in taken):
            taken.append(index)
    return sorted(taken)


@pytest.mark.parametrize("most", [0, 1, 4, 12, 1000])
def test_best_without_crossing_equals_the_comparison_of_all_pairs(most):
    generator = torch.Generator().manual_seed(most)
    for lengths in ([9], [3, 6, 1], [2]):
        spans = candidate_spans(torch.tensor(lengths), 5)
        for _ in range(30):
            scores = torch.randn(len(spans), generator=generator)
            found = best_without_crossing(spans, scores, most).tolist()
            assert found == greedy(spans.tolist(), scores.tolist(), most)
            taken = [spans[index].tolist() for index in found]
            assert not any(crosses(*pair) for pair in itertools.combinations(taken, 2))


def test_equal_scores_are_taken_in_the_order_of_the_text():
    spans = torch.tensor([[0, 1], [1, 2], [2, 3]])
    assert best_without_crossing(spans, torch.zeros(3), 3).tolist() == [0, 2]
