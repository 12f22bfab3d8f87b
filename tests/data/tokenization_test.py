import unicodedata

import pytest
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import Tokenizer

from elmo_tasks.data.tokenization import SpacyRules, Syllables, joined, tokenizer


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


def texts(tokens):
    return [token.text for token in tokens]


def test_rules_of_a_language():
    assert texts(SpacyRules().tokenize(" It's  5%.")) == ["It", "'s", "5", "%", "."]
    assert texts(SpacyRules(language="xx").tokenize("앱 2개, 공개…")) == ["앱", "2개", ",", "공개", "…"]
    assert texts(
        Tokenizer.from_params(Params({"type": "elmo_spacy", "language": "de"})).tokenize("z.B. so")
    ) == [
        "z.B.",
        "so",
    ]
    for language in ("ko", "nowhere"):
        with pytest.raises(
            ConfigurationError, match=f"language: found '{language}', expected one of spaCy's"
        ):
            SpacyRules(language=language)


def test_syllables():
    text = "새 AI반도체, 3.5% 올라…ㅋㅋ don't"
    expected = [
        "새",
        "AI",
        "반",
        "도",
        "체",
        ",",
        "3",
        ".",
        "5",
        "%",
        "올",
        "라",
        "…",
        "ㅋㅋ",
        "don",
        "'",
        "t",
    ]
    assert texts(Syllables().tokenize(text)) == expected
    decomposed = texts(Syllables().tokenize(unicodedata.normalize("NFD", text)))
    assert [unicodedata.normalize("NFC", token) for token in decomposed] == expected
