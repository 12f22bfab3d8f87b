import itertools

import pytest
import torch

from elmo_tasks.coref.mentions import attended_spans, best_without_crossing, candidate_spans
from tests.coref.reference import crosses


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
    # Wide apart, so that nothing but a softmax of each span by itself is finite
    scores = (100 * torch.randn(9, dtype=torch.double)).requires_grad_()
    spans = candidate_spans(torch.tensor([5, 4]), 4)
    found = attended_spans(vectors, scores, spans, 4)
    expected = torch.stack([scores[i : j + 1].softmax(0) @ vectors[i : j + 1] for i, j in spans.tolist()])
    torch.testing.assert_close(found, expected)
    weights = torch.randn_like(found)
    gradients = (torch.autograd.grad((out * weights).sum(), (vectors, scores)) for out in (found, expected))
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


def test_attention_under_autocast():
    vectors, scores, spans = (
        torch.randn(4, 5).bfloat16(),
        torch.randn(4),
        candidate_spans(torch.tensor([4]), 2),
    )
    found = attended_spans(vectors, scores, spans, 2)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(
        found.float(), attended_spans(vectors.float(), scores, spans, 2), atol=0.02, rtol=0
    )


def greedy(spans, scores, most):
    taken = []
    for place in sorted(range(len(spans)), key=lambda place: -scores[place]):
        if len(taken) < most and not any(crosses(spans[place], spans[t]) for t in taken):
            taken.append(place)
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
            taken = [spans[place].tolist() for place in found]
            assert not any(crosses(*pair) for pair in itertools.combinations(taken, 2))


def test_equal_scores_are_taken_in_the_order_of_the_text():
    spans = torch.tensor([[0, 1], [1, 2], [2, 3]])
    assert best_without_crossing(spans, torch.zeros(3), 3).tolist() == [0, 2]
