import pytest
from allennlp.common.checks import ConfigurationError

from elmo_tasks.modules.tokenization import joined, tokenizer


def test_words_know_their_place():
    text = "  Zoë didn't\tpay $5,\n  did she? 😀"
    tokenized = tokenizer()(text)
    assert tokenized.words == ["Zoë", "did", "n't", "pay", "$", "5", ",", "did", "she", "?", "😀"]
    assert [text[start:end] for start, end in tokenized.offsets] == tokenized.words


@pytest.mark.parametrize("text", ["", " \n\t "])
def test_nothing_but_blanks(text):
    assert tokenizer()(text).words == []


def test_joined():
    assert joined(["a", "", "bc"]) == ("a  bc", ["a", "", "bc"], [(0, 1), (2, 2), (3, 5)])
    assert joined([]) == ("", [], [])


def test_missing_model():
    with pytest.raises(ConfigurationError, match="'en_no_such' is not installed; install it with"):
        tokenizer("en_no_such")
