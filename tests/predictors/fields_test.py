import pytest
from allennlp.common.checks import ConfigurationError

from elmo_tasks.predictors.text import require_text, require_tokens


@pytest.mark.parametrize("given", [{"text": "a b"}, {"words": ["a", "b"]}])
def test_a_text_or_its_words(given):
    (value,) = given.values()
    assert require_text(given, "text", "words") == value


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, 'found the fields: none; expected "text": a string, or "words": a list of strings'),
        ({"text": 5}, '"text" is 5; expected "text": a string, or "words": a list of strings'),
        ({"text": b"a"}, '"text" is "b\'a\'"; expected "text": a string, or "words": a list of strings'),
        ({"words": "a"}, '"words" is "a"; expected "text": a string, or "words": a list of strings'),
    ],
)
def test_neither(given, message):
    with pytest.raises(ConfigurationError) as caught:
        require_text(given, "text", "words")
    assert str(caught.value) == message


def test_tokens_are_a_list_of_strings():
    assert require_tokens({"tokens": ["a", ""]}, "...") == ["a", ""]
    assert require_tokens({"words": []}, "...", "words") == []
    with pytest.raises(ConfigurationError, match='"words" has 5 at position 1; expected strings'):
        require_tokens({"words": ["a", 5]}, "...", "words")
    with pytest.raises(ConfigurationError, match='"tokens" is "a"; expected a list'):
        require_tokens({"tokens": "a"}, "a list")
