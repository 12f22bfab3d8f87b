"""The base classes of predictors that read text or words, and their checks of fields."""

import pytest
import spacy
from allennlp.common.checks import ConfigurationError
from allennlp.data import Vocabulary

from elmo_tasks.predictors.text import SentencePredictor, TextPredictor, require_text, require_tokens
from elmo_tasks.sst.reader import SstReader
from tests.predictors.fake import Counting


class Texts(Counting, TextPredictor):
    """Twice the number of words."""

    def read(self, json_dict):
        return self._tokenize(json_dict["text"]).words


class Sentences(Counting, SentencePredictor):
    """Twice the number of words."""

    def read(self, json_dict):
        return super().read(json_dict).words


@pytest.fixture(scope="module")
def predictor():
    return Sentences()


def test_the_tokenizer_is_that_of_blank_english_or_of_a_model(tmp_path):
    text = "Don't ask."
    assert Texts().predict_json({"text": text}) == {"doubled": 2 * len(spacy.blank("en")(text))}
    nlp = spacy.blank("en")
    # Every character is a word.
    nlp.tokenizer = spacy.tokenizer.Tokenizer(
        nlp.vocab, infix_finditer=spacy.util.compile_infix_regex(["."]).finditer
    )
    nlp.to_disk(tmp_path / "characters")
    by_characters = Texts(spacy_model=str(tmp_path / "characters"))
    assert by_characters.predict_json({"text": text}) == {"doubled": 2 * len(text.replace(" ", ""))}
    with pytest.raises(ConfigurationError, match=r"spaCy.*'xx_none'"):
        Texts(spacy_model="xx_none")


@pytest.mark.parametrize(
    ("words", "of_the_reader", "of_the_predictor", "tokens"),
    [
        (["他", "们", "在", "NBA"], {}, {}, 7),
        (["他", "们", "在"], {}, {"tokenizer": "whitespace"}, 2),
        (["他", "们", "在"], {"tokenizer": "whitespace"}, {}, 2),
        (["他们", "在", "北京", "NBA"], {}, {}, 3),
        (["they", "are"], {"tokenizer": "characters"}, {}, 7),
    ],
)
def test_text_is_split_as_the_data_of_the_archive(words, of_the_reader, of_the_predictor, tokens):
    vocab = Vocabulary(tokens_to_add={"tokens": words})
    of = Sentences(reader=SstReader(**of_the_reader), vocab=vocab, **of_the_predictor)
    assert of.predict("他们在北京 a。") == {"doubled": 2 * tokens}


def test_words_know_their_place(predictor):
    text = "  Ana  didn't\tfly. "
    words = SentencePredictor.read(predictor, {"sentence": text})
    assert words.text == text
    assert words.words == ["Ana", "did", "n't", "fly", "."]
    assert [text[start:end] for start, end in words.offsets] == words.words


def test_tokens_are_words_between_blanks(predictor):
    tokens = ["Ana", "", "didn't fly", "."]
    words = SentencePredictor.read(predictor, {"tokens": tokens, "sentence": "another"})
    assert (words.text, words.words) == ("Ana  didn't fly .", tokens)
    assert [words.text[start:end] for start, end in words.offsets] == tokens


def test_a_sentence_is_predicted_as_its_object(predictor):
    assert predictor.predict("It rains.") == predictor.predict_json({"sentence": "It rains."})
    assert predictor.predict("It rains.") == {"doubled": 6}


@pytest.mark.parametrize("fields", [{"text": "a b"}, {"words": ["a", "b"]}, {"words": []}])
def test_a_text_or_its_words(fields):
    (value,) = fields.values()
    assert require_text(fields, "text", "words") == value
    assert require_text({"words": ("a", "b")}, "text", "words") == ["a", "b"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "found the fields: none; expected "),
        ({"a": 1, "id": 2}, 'found the fields: "a", "id"; expected '),
        ({"text": 5}, '"text" is 5; expected '),
        ({"text": b"a"}, '"text" is "b\'a\'"; expected '),
        ({"words": "a"}, '"words" is "a"; expected '),
        ({"words": ["a", 5]}, '"words" has 5 at position 1; expected strings'),
    ],
)
def test_neither(fields, message):
    with pytest.raises(ConfigurationError) as caught:
        require_text(fields, "text", "words")
    if message.endswith("expected "):
        message += '"text": a string, or "words": a list of strings'
    assert str(caught.value) == message
    with pytest.raises(ConfigurationError, match='"tokens" is "a"'):
        require_tokens({"tokens": "a"}, "a list")
