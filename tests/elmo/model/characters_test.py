import numpy as np
import pytest
from allennlp.data import Token, Vocabulary
from allennlp.data.token_indexers import ELMoTokenCharactersIndexer
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo_tasks.elmo.model.characters import character_ids
from tests.elmo.numpy_reference import official_ids


def theirs(words: list[str]) -> np.ndarray:
    indexed = ELMoTokenCharactersIndexer().tokens_to_indices(list(map(Token, words)), Vocabulary())
    return np.array(indexed["elmo_tokens"])


@pytest.mark.parametrize(
    "word",
    [
        "cat",
        "",
        "Łódź",
        "한국어",
        "😀",
        "é" * 24,
        "é" * 25,
        "a" * 48,
        "a" * 49,
        "x" * 500,
        "<S>",
        "</S>",
    ],
)
def test_official_encoding(word):
    assert character_ids([word])[0].tolist() == [i + 1 for i in official_ids(word)]
    assert character_ids([word])[0].tolist() == theirs([word])[0].tolist()


def test_known_ids():
    ids = character_ids(["cat", ""])
    assert ids.dtype == np.int16
    assert ids[0].tolist() == [259, 100, 98, 117, 260] + [261] * 45
    assert ids[1].tolist() == [259, 260] + [261] * 48


def test_lone_surrogates_are_left_out():
    assert character_ids(["a\ud800b"]).tolist() == character_ids(["ab"]).tolist()
    assert character_ids(["\udfff"]).tolist() == character_ids([""]).tolist()


@settings(deadline=None, max_examples=200)
@given(st.lists(st.text(alphabet=st.characters(), max_size=60), max_size=5))
def test_any_unicode(words):
    ids = character_ids(words)
    assert ids.shape == (len(words), 50)
    if words:
        assert ids.min() >= 1
        assert ids.max() <= 261
        assert ids.tolist() == theirs(words).tolist()
