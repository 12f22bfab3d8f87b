import pytest
import spacy
from allennlp.common.checks import ConfigurationError

from elmo_tasks.predictors.text import TextPredictor
from tests.predictors.fake import Counting

TEXT = "Don't ask."


class Doubling(Counting, TextPredictor):
    """Twice the number of words."""

    def read(self, json_dict):
        return self._tokenize(json_dict["text"]).words


def test_the_words_of_blank_english_by_default():
    tokens = [token.text for token in spacy.blank("en")(TEXT)]
    assert Doubling().predict_json({"text": TEXT}) == {"doubled": 2 * len(tokens)}


def test_the_words_of_another_model(tmp_path):
    nlp = spacy.blank("en")
    # Every character is a word.
    nlp.tokenizer = spacy.tokenizer.Tokenizer(
        nlp.vocab, infix_finditer=spacy.util.compile_infix_regex(["."]).finditer
    )
    nlp.to_disk(tmp_path / "characters")
    found = Doubling(spacy_model=str(tmp_path / "characters")).predict_json({"text": TEXT})
    assert found == {"doubled": 2 * len(TEXT.replace(" ", ""))}


def test_a_model_that_is_not_installed():
    with pytest.raises(ConfigurationError, match="the spaCy model 'xx_none' is not installed; install it"):
        Doubling(spacy_model="xx_none")
