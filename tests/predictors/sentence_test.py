import pytest
from allennlp.common.checks import ConfigurationError

from elmo_tasks.predictors.text import SentencePredictor
from tests.predictors.fake import Counting


class Doubling(Counting, SentencePredictor):
    """Twice the number of words."""

    def read(self, json_dict):
        return self.words(json_dict).words


@pytest.fixture(scope="module")
def predictor():
    return Doubling()


def test_words_know_where_they_stand(predictor):
    text = "  Ana  didn't\tfly. "
    words = predictor.words({"sentence": text})
    assert words.text == text
    assert words.words == ["Ana", "did", "n't", "fly", "."]
    assert [text[start:end] for start, end in words.offsets] == words.words


def test_tokens_are_words_between_blanks(predictor):
    tokens = ["Ana", "", "didn't fly", "."]
    words = predictor.words({"tokens": tokens, "sentence": "another"})
    assert (words.text, words.words) == ("Ana  didn't fly .", tokens)
    assert [words.text[start:end] for start, end in words.offsets] == tokens


def test_a_sentence_is_predicted_as_its_object(predictor):
    assert predictor.predict("It rains.") == predictor.predict_json({"sentence": "It rains."})
    assert predictor.predict("It rains.") == {"doubled": 6}


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, 'found the fields: none; expected "sentence": a string, or "tokens": a list of strings'),
        ({"text": "a"}, 'found the fields: "text"; expected "sentence": a string, or "tokens"'),
        ({"sentence": 5}, '"sentence" is 5; expected "sentence": a string'),
        ({"tokens": "Ana flew"}, '"tokens" is "Ana flew"; expected "sentence": a string, or "tokens"'),
        ({"tokens": ["Ana", None]}, '"tokens" has None at position 1; expected strings'),
    ],
)
def test_wrong_fields(predictor, inputs, message):
    with pytest.raises(ConfigurationError) as caught:
        predictor.predict_json(inputs)
    assert message in str(caught.value)
