import pytest
import torch

from elmo_tasks.coref import spans as module
from elmo_tasks.coref.spans import AntecedentScorer, Mentions
from tests.coref.reference import assert_scores, reference_scores

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
    search = {"max_antecedents": 5, "coarse_to_fine": False, "inference_order": 1} | options
    torch.manual_seed(1)
    built = AntecedentScorer(**sizes, **search).requires_grad_(False)
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
    monkeypatch.setattr(module, "SPANS_OF_A_BLOCK", 7)
    monkeypatch.setattr(module, "COARSE_ROWS", 5)
    check(scorer(**options), number)


def test_every_distance():
    check(scorer(max_antecedents=100), 70)
