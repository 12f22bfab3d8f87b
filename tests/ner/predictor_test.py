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
