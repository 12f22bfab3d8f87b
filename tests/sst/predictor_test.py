import json

import pytest
from allennlp.predictors import Predictor

from elmo_tasks.sst import SstPredictor
from tests.sst.archives import write_archive


@pytest.fixture(scope="module")
def predictor(tmp_path_factory) -> SstPredictor:
    return Predictor.from_path(str(write_archive(tmp_path_factory.mktemp("archive") / "run")))


def test_is_the_models_default(predictor):
    assert isinstance(predictor, SstPredictor)


def test_a_sentence(predictor):
    result = predictor.predict("A warm, funny film.")
    assert json.loads(json.dumps(result)) == result
    assert result["tokens"] == ["A", "warm", ",", "funny", "film", "."]
    assert list(result["probabilities"]) == ["0", "1", "2", "3", "4"]
    assert sum(result["probabilities"].values()) == pytest.approx(1)
    assert result["label"] == max(result["probabilities"], key=result["probabilities"].get)
    assert len(result["attention"]) == 6
    assert sum(result["attention"]) == pytest.approx(1)


def test_tokens_have_the_result_of_their_sentence(predictor):
    words = ["A", "warm", ",", "funny", "film", "."]
    assert predictor.predict_json({"tokens": words}) == predictor.predict(" ".join(words))


def test_a_sentence_has_one_result_alone_and_in_a_batch(predictor):
    inputs = [{"sentence": s} for s in ("Dull.", "", "A warm and funny film .", "Very " * 70)]
    for together, alone in zip(
        predictor.predict_batch_json(inputs), map(predictor.predict_json, inputs), strict=True
    ):
        assert (together["tokens"], together["label"]) == (alone["tokens"], alone["label"])
        assert together["probabilities"] == pytest.approx(alone["probabilities"], abs=1e-5)
        assert together["attention"] == pytest.approx(alone["attention"], abs=1e-5)


@pytest.mark.parametrize("inputs", [{"sentence": ""}, {"sentence": " \n"}, {"tokens": []}])
def test_no_words_have_no_label(predictor, inputs):
    empty = {"tokens": [], "label": None, "probabilities": {}, "attention": []}
    assert predictor.predict_json(inputs) == empty
