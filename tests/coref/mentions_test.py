import pytest
import torch

from elmo_tasks.coref import mentions as module
from elmo_tasks.coref.mentions import MentionFinder
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
    """In few spans at once, so that there are borders."""
    monkeypatch.setattr(module, "SPANS_AT_ONCE", 11)
    built = finder(**options)
    words, context, sentences = document(lengths)
    found = built(words, context, sentences)
    spans, vectors, scores = zip(*reference_mentions(built, words, context, lengths), strict=True)
    assert found.spans.tolist() == list(map(list, spans))
    assert found.vectors.shape == (len(spans), built.output_dim)
    torch.testing.assert_close(found.vectors, torch.stack(vectors))
    torch.testing.assert_close(found.scores, torch.stack(scores))


def test_a_document_keeps_one_span_at_least():
    assert finder(spans_per_word=0.01)(*document([3, 2])).spans.shape == (1, 2)


def test_every_parameter_learns_from_vectors_and_scores():
    built = finder().requires_grad_(True)
    found = built(*document([9, 3]))
    (found.vectors.sum() + found.scores.sum()).backward()
    assert all(parameter.grad is not None for parameter in built.parameters())
    assert all(parameter.grad.isfinite().all() for parameter in built.parameters())
