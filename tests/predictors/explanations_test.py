"""What an explanation has; the commands' tests compare methods."""

import pytest

from elmo_tasks.predictors.interpretation import Explainer, can_explain
from tests.predictors.archives import predictor_of

pytestmark = pytest.mark.filterwarnings("ignore:Using a non-full backward hook:FutureWarning")


def test_shares_of_both_texts():
    predictor = predictor_of("snli")
    assert can_explain(predictor)
    content = {"premise_tokens": ["A", "dog"], "hypothesis_tokens": ["It", "runs", "."]}
    explained = Explainer(predictor, "simple-gradient")(content)
    assert explained["result"] == predictor.predict_json(content)
    ((premise, hypothesis),) = explained["explanations"]
    assert (premise["tokens"], hypothesis["tokens"]) == (["A", "dog"], ["It", "runs", "."])
    for text in (premise, hypothesis):
        assert sum(text["shares"]) == pytest.approx(1)


def test_semantic_roles_have_none():
    assert not can_explain(predictor_of("srl"))
