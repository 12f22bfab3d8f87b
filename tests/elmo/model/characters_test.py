"""Ids of words: the official encoding, Unicode characters, hashes."""

from hashlib import blake2b

import numpy as np
import pytest
from allennlp.data import Token, Vocabulary
from allennlp.data.token_indexers import ELMoTokenCharactersIndexer
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo_tasks.elmo.model.characters import character_ids, unicode_ids, word_ids
from tests.elmo.numpy_reference import official_ids


def allennlp_ids(words: list[str]) -> np.ndarray:
    indexed = ELMoTokenCharactersIndexer().tokens_to_indices(list(map(Token, words)), Vocabulary())
    return np.array(indexed["elmo_tokens"])


@pytest.mark.parametrize(
    "word",
    ["cat", "", "Łódź", "한국어", "😀", "é" * 24, "é" * 25, "a" * 48, "a" * 49, "x" * 500, "<S>", "</S>"],
)
def test_official_encoding(word):
    assert character_ids([word])[0].tolist() == [i + 1 for i in official_ids(word)]
    assert character_ids([word])[0].tolist() == allennlp_ids([word])[0].tolist()


@settings(deadline=None, max_examples=200)
@given(st.lists(st.text(alphabet=st.characters(), max_size=60), max_size=5))
def test_any_unicode(words):
    ids = character_ids(words)
    assert ids.shape == (len(words), 50)
    if words:
        assert 1 <= ids.min() <= ids.max() <= 261
        assert ids.tolist() == allennlp_ids(words).tolist()


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("a한", [259, 262 + 0x61, 262 + 0xD55C, 260]),
        ("", [259, 260]),
        ("<bos>", [259, 257, 260]),
        ("<eos>", [259, 258, 260]),
        ("\U0010ffff\ud800", [259, 262 + 0x10FFFF, 262 + 0xD800, 260]),
        ("<S>", [259, *(262 + ord(c) for c in "<S>"), 260]),
        ("é" * 48, [259, *[262 + 0xE9] * 48, 260]),
        ("é" * 60, [259, *[262 + 0xE9] * 48, 260]),
    ],
)
def test_unicode_ids_and_padding(word, expected):
    (ids,) = unicode_ids([word])
    assert ids.dtype == np.int32
    assert ids.tolist() == expected + [261] * (50 - len(expected))
    assert unicode_ids([]).shape == (0, 50)


def test_word_ids_are_hashes():
    ids = word_ids(["cat", "Łódź", "", "\udfff", "cat", "<S>"])
    assert ids.dtype == np.int64
    assert (ids > 0).all()
    assert len(set(ids.tolist())) == 5
    assert ids[0] == ids[4]
    assert ids[0] == int.from_bytes(blake2b(b"cat", digest_size=8).digest(), "little") % (1 << 63)
    assert word_ids([]).shape == (0,)
