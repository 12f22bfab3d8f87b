import pickle
import unicodedata
from concurrent.futures import ThreadPoolExecutor

import pytest
import spacy
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader
from allennlp.data.tokenizers import CharacterTokenizer

from elmo_tasks.data import tokenization as module
from elmo_tasks.data.reader import join_words
from elmo_tasks.data.text_stream import SentenceSplitter
from elmo_tasks.data.tokenization import SpacyRules, Syllables, tokenizer


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("  Zoë didn't\tpay $5,\n  did she? 😀", "Zoë did n't pay $ 5 , did she ? 😀"),
        ("", ""),
        (" \n\t ", ""),
    ],
)
def test_words_and_their_offsets(text, words):
    tokenized = tokenizer()(text)
    assert tokenized.words == [text[start:end] for start, end in tokenized.offsets] == words.split()


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        (None, "z. B. 3,5 % 東京都 、 it 's"),
        ("en", "z. B. 3,5 % 東京都 、 it 's"),
        ("de", "z.B. 3,5 % 東京都 、 it's"),
        ("characters", "z . B . 3 , 5 % 東 京 都 、 i t ' s"),
        ("whitespace", "z.B. 3,5% 東京都、 it's"),
        ("elmo_syllables", "z . B . 3 , 5 % 東京都 、 it ' s"),
        ("just_spaces", "z.B. 3,5% 東京都、 it's"),
        ({"type": "elmo_spacy", "language": "de"}, "z.B. 3,5 % 東京都 、 it's"),
        ({"type": "character"}, "z . B . 3 , 5 % 東 京 都 、 i t ' s"),
    ],
)
def test_choices(choice, words):
    text = " z.B. 3,5%  東京都、 it's"
    found = DatasetReader.from_params(Params({"type": "elmo_snli", "tokenizer": choice})).split(text)
    assert found.words == [text[start:end] for start, end in found.offsets] == words.split()


def test_a_tokenizer_of_other_words():
    with pytest.raises(ConfigurationError, match="makes 't' of 'ns'"):
        tokenizer(CharacterTokenizer(lowercase_characters=True))("It rains")


def test_joined():
    assert join_words(["a", "", "bc"]) == ("a  bc", ["a", "", "bc"], [(0, 1), (2, 2), (3, 5)])
    assert join_words([]) == ("", [], [])


@pytest.mark.parametrize("sign", ["=", "_", "'s"])
def test_no_long_run_of_signs_goes_to_the_rules_at_once(sign):
    """Their time grows with its square, and no other thread runs meanwhile."""
    text = f"Look: {sign * 5000} {sign * 5000} {sign * 100} " * 2
    lengths, rules = [], spacy.blank("en").tokenizer
    doc = module.PiecewiseRules(lambda piece: lengths.append(len(piece)) or rules(piece))(text)
    assert max(lengths) <= 1000 + module.MAX_RUN
    assert doc.text == text
    found = tokenizer()(text)
    assert [text[start:end] for start, end in found.offsets] == found.words
    assert "".join(found.words) == text.replace(" ", "")


def texts(tokens):
    return [token.text for token in tokens]


@pytest.mark.parametrize("language", ["ko", "nowhere"])
def test_a_language_without_rules(language):
    with pytest.raises(ConfigurationError, match=f"language: .*'{language}'"):
        SpacyRules(language=language)


def test_syllables():
    text = "새 AI반도체, 3.5% 올라…ㅋㅋ don't"
    expected = "새 AI 반 도 체 , 3 . 5 % 올 라 … ㅋㅋ don ' t"
    assert " ".join(texts(Syllables().tokenize(text))) == expected
    decomposed = " ".join(texts(Syllables().tokenize(unicodedata.normalize("NFD", text))))
    assert unicodedata.normalize("NFC", decomposed) == expected


def new_words(number):
    """A text of words that no other one has."""
    return " ".join(f"{number}word{i} Said{number},{i}." for i in range(50))


@pytest.fixture
def made(monkeypatch):
    """The pipelines that spaCy makes, and a limit of a few hundred words for each."""
    made, blank = [], spacy.blank
    monkeypatch.setattr(spacy, "blank", lambda language: made.append(blank(language)) or made[-1])
    monkeypatch.setattr(module, "MAX_STRINGS", 2_000)
    module.shared_pipeline.cache_clear()
    yield made
    module.shared_pipeline.cache_clear()


def sentences():
    splitter = SentenceSplitter("en")
    return lambda text: list(splitter([text]))


@pytest.mark.slow
@pytest.mark.parametrize("make", [tokenizer, lambda: SpacyRules().tokenize, sentences])
def test_memory_does_not_grow_with_the_words(made, make):
    read = make()
    strings = [len(made[0].vocab.strings)]
    for number in range(60):
        read(new_words(number))
        strings.append(len(made[-1].vocab.strings))
    assert len(made) > 2
    assert max(strings) <= strings[0] + module.MAX_STRINGS + (strings[2] - strings[1])


@pytest.mark.slow
def test_threads_share_a_tokenizer(made):
    texts = [new_words(number) for number in range(60)]
    expected = list(map(tokenizer(), texts))
    made.clear()
    shared = tokenizer()
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(shared, texts)) == expected
    assert len(made) > 2


def test_rules_for_a_spawned_process():
    rules = SpacyRules(language="de")
    spawned = pickle.loads(pickle.dumps(rules))
    text = "z.B. so, 5% oder geht's?"
    assert texts(spawned.tokenize(text)) == texts(rules.tokenize(text))
