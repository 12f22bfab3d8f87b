import json

import pytest
from allennlp.commands.train import train_model
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.predictors import Predictor

from elmo_tasks.common.files import bundled
from elmo_tasks.snli import SnliPredictor
from tests.conftest import TINY_ELMO

SMALL = {
    "model.hidden_size": 8,
    "model.text_field_embedder.token_embedders.tokens.embedding_dim": 8,
    "trainer.num_epochs": 1,
}


@pytest.fixture(scope="module")
def predictor(tmp_path_factory) -> SnliPredictor:
    folder = str(tmp_path_factory.mktemp("trained") / "run")
    config = str(bundled("training_configs/snli_elmo.jsonnet"))
    train_model(Params.from_file(config, json.dumps(SMALL | TINY_ELMO)), folder)
    return Predictor.from_path(folder + "/model.tar.gz")


def test_a_pair(predictor):
    assert isinstance(predictor, SnliPredictor)
    result = predictor.predict("Two boys don't sleep.", "Nobody sleeps.")
    assert json.loads(json.dumps(result)) == result
    assert list(result["probabilities"]) == ["entailment", "neutral", "contradiction"]
    assert sum(result["probabilities"].values()) == pytest.approx(1)
    assert result["label"] == max(result["probabilities"], key=result["probabilities"].get)
    assert result["premise_tokens"] == ["Two", "boys", "do", "n't", "sleep", "."]
    assert result["hypothesis_tokens"] == ["Nobody", "sleeps", "."]
    for name, rows, columns in (("premise_to_hypothesis", 6, 3), ("hypothesis_to_premise", 3, 6)):
        assert [len(row) for row in result[name]] == [columns] * rows
        assert [sum(row) for row in result[name]] == pytest.approx([1] * rows)


def test_tokens_of_one_or_both_sides(predictor):
    expected = predictor.predict("Two boys sleep.", "They rest.")
    tokens = {"premise": ["Two", "boys", "sleep", "."], "hypothesis": ["They", "rest", "."]}
    for inputs in (
        {"premise_tokens": tokens["premise"], "hypothesis_tokens": tokens["hypothesis"]},
        {"premise_tokens": tokens["premise"], "hypothesis": "They rest."},
    ):
        assert predictor.predict_json(inputs) == expected


def test_one_result_alone_and_in_a_batch(predictor):
    inputs = [json.loads(line) for line in bundled("fixtures/snli/predict.jsonl").read_text().splitlines()]
    for together, one in zip(predictor.predict_batch_json(inputs), inputs, strict=True):
        alone = predictor.predict_json(one)
        assert together["probabilities"] == pytest.approx(alone["probabilities"], abs=1e-5)


def test_nothing_to_predict(predictor):
    inputs = [
        {"premise": "Two boys.", "hypothesis": " "},
        {"premise_tokens": [], "hypothesis": "They rest."},
        {"premise": "", "hypothesis_tokens": []},
        {"premise": "Two boys.", "hypothesis": "They rest."},
    ]
    *empty, whole = predictor.predict_batch_json(inputs)
    words = [(["Two", "boys", "."], []), ([], ["They", "rest", "."]), ([], [])]
    for result, (premise, hypothesis) in zip(empty, words, strict=True):
        assert result == {
            "label": None,
            "probabilities": {},
            "premise_tokens": premise,
            "hypothesis_tokens": hypothesis,
            "premise_to_hypothesis": [],
            "hypothesis_to_premise": [],
        }
    assert list(whole) == list(empty[0])
    assert whole["label"] is not None


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (
            {"premise": "A."},
            'found the fields: "premise"; expected "hypothesis": a string, or "hypothesis_tok',
        ),
        (
            {"premise": 5, "hypothesis": "B."},
            '"premise" is 5; expected "premise": a string, or "premise_tokens"',
        ),
        ({"premise_tokens": "A", "hypothesis": "B."}, '"premise_tokens" is "A"; expected'),
        (
            {"premise_tokens": ["A", 1], "hypothesis": "B."},
            '"premise_tokens" has 1 at position 1; expected str',
        ),
    ],
)
def test_wrong_fields(predictor, inputs, message):
    with pytest.raises(ConfigurationError) as caught:
        predictor.predict_json(inputs)
    assert message in str(caught.value)
