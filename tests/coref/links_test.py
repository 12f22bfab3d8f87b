import pytest
import torch

from elmo_tasks.coref.model import CorefModel, clusters_from_links
from tests.coref.tiny import Tiny


def test_links_make_clusters():
    spans = [(place, place) for place in range(7)]
    assert clusters_from_links(spans, [-1, -1, 0, 1, 2, -1, 4]) == [
        [(0, 0), (2, 2), (4, 4), (6, 6)],
        [(1, 1), (3, 3)],
    ]
    assert clusters_from_links(spans, [-1] * 7) == []


def scores_of(spans, *rows):
    """Scores with the probabilities of each span: of no antecedent, and of others by their places."""
    most = max(1, *(len(row) - 1 for row in rows))
    antecedents = torch.full((len(rows), most), -1)
    scores = torch.full((len(rows), 1 + most), -torch.inf)
    for number, (none, *others) in enumerate(rows):
        scores[number, 0] = torch.tensor(none).log()
        for place, (antecedent, probability) in enumerate(others):
            antecedents[number, place] = antecedent
            scores[number, 1 + place] = torch.tensor(probability).log()
    return {
        "window": torch.tensor([0, 9]),
        "spans": torch.tensor(spans),
        "antecedents": antecedents,
        "antecedent_scores": scores,
    }


def distributions(scores):
    spans = [tuple(span) for span in scores["spans"].tolist()]
    probabilities = scores["antecedent_scores"].softmax(1)
    return {
        span: {None: row[0].item()}
        | {spans[j]: p.item() for j, p in zip(places, row[1:], strict=True) if j >= 0}
        for span, places, row in zip(spans, scores["antecedents"].tolist(), probabilities, strict=True)
    }


def test_mean_of_members_that_kept_other_spans():
    a, b, c, d = (0, 0), (1, 2), (1, 4), (6, 6)
    one = scores_of([a, b, d], [1.0], [0.6, (0, 0.4)], [0.2, (1, 0.5), (0, 0.3)])
    other = scores_of([b, c, d], [1.0], [0.5, (0, 0.5)], [0.3, (1, 0.7)])
    mean = CorefModel.average([one, other])
    expected = {
        a: {None: 1.0},
        b: {None: 0.8, a: 0.2},
        c: {None: 0.75, b: 0.25},
        d: {None: 0.25, a: 0.15, b: 0.25, c: 0.35},
    }
    found = distributions(mean)
    assert found.keys() == expected.keys()
    for span, probabilities in expected.items():
        assert found[span] == pytest.approx(probabilities)
    assert mean["window"].tolist() == [0, 9]


def test_mean_of_members_that_are_sure_is_finite():
    scores = {
        "window": torch.tensor([0, 2]),
        "spans": torch.tensor([[0, 0], [1, 1]]),
        "antecedents": torch.tensor([[-1], [0]]),
        "antecedent_scores": torch.tensor([[0.0, -torch.inf], [0.0, -200.0]]),
    }
    mean = CorefModel.average([scores, scores])["antecedent_scores"]
    torch.testing.assert_close(mean, scores["antecedent_scores"])


def test_mean_of_one_member_twice_is_the_member():
    tiny = Tiny()
    instance = tiny.instances[3]
    scores = tiny.scores(instance)
    mean = CorefModel.average([scores, scores])
    one, twice = distributions(scores), distributions(mean)
    assert one.keys() == twice.keys()
    for span, probabilities in one.items():
        assert twice[span] == pytest.approx(probabilities, abs=1e-6)
    outputs = [tiny.model.decode(given, [instance["metadata"].metadata]) for given in (scores, mean)]
    assert outputs[0]["clusters"] == outputs[1]["clusters"]
    torch.testing.assert_close(outputs[0]["loss"], outputs[1]["loss"])
