import json

import pytest
import spacy
from allennlp.predictors import Predictor

from elmo_tasks import load
from elmo_tasks.ner.predictor import NerPredictor


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


@pytest.mark.parametrize(
    "lines",
    [
        ["The meeting was attended by Maria Ortega", "\n \r\nTom Silva spoke first."],
        ["Guests:", "\r\nMaria Ortega", "\r\nTom Silva", "\r\nThey came on Monday."],
        ["Ana Silva\t", "Leeds\n", "Tom Costa\t", "Lisbon\n"],
        ["- Ana Silva, director of finance\n", "- tom silva, head of research."],
        ["Nguyen\u2028", "Tran\u2029", "A new page\n\f", "Le"],
        ["The firm was founded by Maria\nOrtega in New\nYork. It grew.\n\n", "- Tom\nsilva"],
        [" Wrapped prose that has no end but is as long as a line in a mail of\nAna Silva"],
        [""],
    ],
)
def test_no_entity_crosses_a_paragraph_or_an_item(predictor, lines):
    result = predictor.predict("".join(lines))
    alone = [predictor.predict(line) for line in lines]
    assert result["tags"] == [tag for each in alone for tag in each["tags"]]
    texts = [entity["text"] for each in alone for entity in each["entities"]]
    assert [entity["text"] for entity in result["entities"]] == texts


def test_items_end_sentences_of_other_tasks(predictor, trained_ner):
    text = "Ana met Tom in Leeds and\n\nLisbon wins\nPeople of Paris saw Maria"
    starts = load("srl").predictor.read({"sentence": text}).starts
    assert starts == [0, 6, 8]
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo_ner", config={"archive": str(trained_ner)})
    expected = [entity["text"] for entity in predictor.predict(text)["entities"]]
    assert [entity.text for entity in nlp(text).ents] == expected
