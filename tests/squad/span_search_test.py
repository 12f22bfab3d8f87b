from itertools import product

import pytest
import torch

from elmo_tasks.squad.model import best_spans, span_scores


@pytest.mark.parametrize(("lengths", "longest"), [([7, 3, 1], 4), ([5, 5], 17), ([2], 1)])
def test_equals_brute_force(lengths, longest):
    torch.manual_seed(0)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)
    start, end = (torch.randn(mask.shape).masked_fill(~mask, -torch.inf) for _ in range(2))
    found, places = best_spans(span_scores(start, end, longest=longest), 1000)
    for row, length in enumerate(lengths):
        spans = {
            (first, last): (start[row, first] + end[row, last]).item()
            for first, last in product(range(length), repeat=2)
            if first <= last < first + longest
        }
        expected = sorted(spans, key=spans.get, reverse=True)
        assert [tuple(place) for place in places[row, : len(spans)].tolist()] == expected
        assert found[row, : len(spans)].tolist() == pytest.approx([spans[span] for span in expected])
        assert (found[row, len(spans) :] == -torch.inf).all()


def test_only_the_best():
    scores = span_scores(torch.tensor([[0.0, 3.0, 1.0]]), torch.tensor([[0.5, 0.0, 2.0]]), longest=2)
    best, places = best_spans(scores, 2)
    assert best.tolist() == [[5.0, 3.0]]
    assert places.tolist()[0][0] == [1, 2]
