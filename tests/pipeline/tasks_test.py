"""The predictors of SNLI, SST-5 and classification on tiny models: what they read, and what they return."""

import io
import json
import pickle

import pytest
import torch

from tests.forked import FORKED
from tests.pipeline.archives import predictor_of
from tests.tasks_test import INPUTS

PREMISE, HYPOTHESIS = ["Two", "boys", "do", "n't", "sleep", "."], ["Nobody", "sleeps", "."]
FILM = ["A", "warm", ",", "funny", "film", "."]
HEADLINE = ["새", "앱", ",", "보안", "강화"]
FIRST, SECOND = ["It", "'s", "here", "."], ["He", "said", '"', "no", '"', "."]
FORMS = {
    "snli": [
        {"premise": "Two boys don't sleep.", "hypothesis": "Nobody sleeps."},
        {"premise_tokens": PREMISE, "hypothesis_tokens": HYPOTHESIS},
        {"premise_tokens": PREMISE, "hypothesis": "Nobody sleeps."},
    ],
    "sst": [{"sentence": "A warm, funny film."}, {"tokens": FILM}],
    "klue_tc": [{"sentence": "새 앱, 보안 강화"}, {"tokens": HEADLINE}],
    "mrpc": [
        {"sentence1": "It's here.", "sentence2": 'He said "no".'},
        {"sentence1_tokens": FIRST, "sentence2_tokens": SECOND},
    ],
}
"""For each config one input in all its forms."""
WORDS = {
    "snli": {"premise_tokens": PREMISE, "hypothesis_tokens": HYPOTHESIS},
    "sst": {"tokens": FILM},
    "klue_tc": {"sentence1_tokens": HEADLINE},
    "mrpc": {"sentence1_tokens": FIRST, "sentence2_tokens": SECOND},
}
"""Their words in the result."""


@pytest.fixture(scope="module", params=FORMS)
def config(request):
    return request.param


def test_the_result_of_an_input_in_all_forms(config, predictor):
    first, *others = FORMS[config]
    result = predictor.predict(*first.values())
    assert json.loads(json.dumps(result)) == result
    assert {name: result[name] for name in WORDS[config]} == WORDS[config]
    assert list(result["probabilities"]) == predictor._model.labels
    assert sum(result["probabilities"].values()) == pytest.approx(1)
    assert result["label"] == max(result["probabilities"], key=result["probabilities"].get)
    assert all(predictor.predict_json(other) == result for other in others)
    if config == "snli":
        for name, rows, columns in (("premise_to_hypothesis", 6, 3), ("hypothesis_to_premise", 3, 6)):
            assert [len(row) for row in result[name]] == [columns] * rows
            assert [sum(row) for row in result[name]] == pytest.approx([1] * rows)
    if config == "sst":
        assert len(result["attention"]) == len(FILM)
        assert sum(result["attention"]) == pytest.approx(1)


ONE_OF_EACH = {config: inputs[0] for config, inputs in INPUTS.items()}


def predictions(pickled: bytes) -> str:
    return repr([pickle.loads(each).predict_json(ONE_OF_EACH[task]) for task, each in pickle.loads(pickled)])


@pytest.mark.slow
def test_a_pickled_predictor_and_model():
    predictors = {task: predictor_of(task) for task in ONE_OF_EACH}
    expected = [predictor.predict_json(ONE_OF_EACH[task]) for task, predictor in predictors.items()]
    pickled = pickle.dumps([(task, pickle.dumps(predictor)) for task, predictor in predictors.items()])
    with FORKED.Pool(1) as pool:
        assert pool.apply(predictions, (pickled,)) == repr(expected)
    for predictor, (task, content), outputs in zip(
        predictors.values(), ONE_OF_EACH.items(), expected, strict=True
    ):
        torch.save(predictor._model, file := io.BytesIO())
        file.seek(0)
        predictor._model = torch.load(file, weights_only=False)
        assert repr(predictor.predict_json(content)) == repr(outputs), task
