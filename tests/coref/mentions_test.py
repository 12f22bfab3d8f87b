import pytest
import torch

from elmo_tasks.coref import spans as module
from elmo_tasks.coref.spans import (
    MentionFinder,
    attended_spans,
    candidate_spans,
)
from tests.coref.reference import reference_mentions

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
