import pytest
import torch

from elmo_tasks.coref import antecedents as module
from elmo_tasks.coref.antecedents import (
    AntecedentScorer,
    AntecedentSearch,
    clusters_from_links,
    mean_of_members,
)
from elmo_tasks.coref.mentions import Mentions
from tests.coref.reference import assert_scores, reference_scores
from tests.coref.tiny import Tiny

DIM = 6
ORDERS = [
    {},
    {"max_antecedents": 1},
    {"inference_order": 3},
    {"coarse_to_fine": True},
    {"coarse_to_fine": True, "inference_order": 2, "max_antecedents": 3},
]
"""Lee et al. 2017 and 2018, and what is between them."""


def scorer(**options) -> AntecedentScorer:
    """With weights that tell all parts of a pair apart."""
    sizes = {"span_dim": DIM, "feature_dim": 3, "genres": 2, "hidden_sizes": [6, 4], "dropout": 0.0}
    search = AntecedentSearch(**{"max_antecedents": 5} | options)
    torch.manual_seed(1)
    built = AntecedentScorer(search=search, **sizes).requires_grad_(False)
    for parameter in built.parameters():
        parameter.mul_(2.0)
    return built


def mentions(number: int) -> tuple[Mentions, torch.Tensor]:
    """Random ones, and their speakers, 0 for an unknown one."""
    torch.manual_seed(number)
    spans = torch.arange(number).unsqueeze(1).expand(-1, 2)
    return Mentions(spans, torch.randn(number, DIM), torch.randn(number)), torch.randint(3, (number,))


def check(built: AntecedentScorer, number: int) -> None:
    among, speakers = mentions(number)
    antecedents, scores = built(among, speakers, torch.tensor([1]))
    assert antecedents.shape == (number, max(1, min(built.max_antecedents, number - 1)))
    assert_scores(antecedents, scores, reference_scores(built, among.vectors, among.scores, speakers, 1))


@pytest.mark.parametrize("options", ORDERS)
@pytest.mark.parametrize("number", [1, 2, 17])
def test_scores_are_those_of_the_papers(options, number, monkeypatch):
    """In few spans at once, so that there are borders."""
    monkeypatch.setattr(module, "SPANS_AT_ONCE", 7)
    monkeypatch.setattr(module, "ROWS_AT_ONCE", 5)
    check(scorer(**options), number)


def test_every_distance():
    check(scorer(max_antecedents=100), 70)


@pytest.mark.parametrize("options", ORDERS)
def test_gradients_are_finite_and_reach_every_parameter(options):
    """Also where a span has fewer antecedents than others."""
    built = scorer(**options).requires_grad_(True)
    among, speakers = mentions(9)
    _, scores = built(among, speakers, torch.tensor([0]))
    scores.logsumexp(1).sum().backward()
    assert all(parameter.grad is not None for parameter in built.parameters())
    assert all(parameter.grad.isfinite().all() for parameter in built.parameters())


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
    mean = mean_of_members([one, other])
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
    mean = mean_of_members([scores, scores])["antecedent_scores"]
    torch.testing.assert_close(mean, scores["antecedent_scores"])


def test_mean_of_one_member_twice_is_the_member():
    tiny = Tiny()
    instance = tiny.instances[3]
    scores = tiny.scores(instance)
    mean = mean_of_members([scores, scores])
    one, twice = distributions(scores), distributions(mean)
    assert one.keys() == twice.keys()
    for span, probabilities in one.items():
        assert twice[span] == pytest.approx(probabilities, abs=1e-6)
    outputs = [tiny.model.decode(given, [instance["metadata"].metadata]) for given in (scores, mean)]
    assert outputs[0]["clusters"] == outputs[1]["clusters"]
    torch.testing.assert_close(outputs[0]["loss"], outputs[1]["loss"])
