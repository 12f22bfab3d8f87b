import json

import pytest
from allennlp.predictors import Predictor

from elmo_tasks.ner import NerPredictor


@pytest.fixture(scope="module")
def predictor(trained_ner) -> NerPredictor:
    return Predictor.from_path(str(trained_ner / "model.tar.gz"))


def test_offsets_of_entities(predictor):
    assert isinstance(predictor, NerPredictor)
    text = "  Ana Silva flew to Lisbon,  said Reuters in Paris and London."
    result = predictor.predict(text)
    assert json.loads(json.dumps(result)) == result
    assert result["entities"]
    for entity in result["entities"]:
        assert text[entity["char_start"] : entity["char_end"]] == entity["text"]
        words = result["tokens"][entity["token_start"] : entity["token_end"]]
        assert "".join(words) == entity["text"].replace(" ", "")
        tags = result["tags"][entity["token_start"] : entity["token_end"]]
        assert tags == [f"B-{entity['type']}"] + [f"I-{entity['type']}"] * (len(words) - 1)
        assert 0 < entity["probability"] <= 1


def test_characters_of_tokens_are_those_of_their_text(predictor):
    words = ["Ana", "Silva", "flew", "to", "Lisbon"]
    result = predictor.predict_json({"tokens": words})
    assert result["tokens"] == words
    for entity in result["entities"]:
        assert " ".join(words)[entity["char_start"] : entity["char_end"]] == entity["text"]


def test_a_sentence_has_one_result_alone_and_in_a_batch(predictor):
    inputs = [{"sentence": s} for s in ("Ana flew.", "", "Lisbon is in Portugal .", "A " * 70)]
    for together, alone in zip(
        predictor.predict_batch_json(inputs), map(predictor.predict_json, inputs), strict=True
    ):
        assert together["tags"] == alone["tags"]
        for one, other in zip(together["entities"], alone["entities"], strict=True):
            assert one["probability"] == pytest.approx(other["probability"], abs=1e-5)


@pytest.mark.parametrize("inputs", [{"sentence": ""}, {"sentence": " \n"}, {"tokens": []}])
def test_no_words_have_no_entities(predictor, inputs):
    assert predictor.predict_json(inputs) == {"tokens": [], "tags": [], "entities": []}
