"""
The token layers, against references that look up words one by one; `many_langs_test.py` compares with the
original of ELMoForManyLangs.
"""

import pytest
import torch

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.elmo.model import BiLm, BiLmOptions
from elmo_tasks.elmo.model.characters import unicode_ids
from elmo_tasks.elmo.model.encoders import Highway, WordEncoder, character_lookup, word_lookup
from tests.elmo.files import (
    NONEMPTY,
    SENTENCES,
    VOCABULARY,
    changed,
    frozen,
    make_word_files,
    random_bilm,
    read_bilm,
    trained,
)
from tests.errors import error_of, mentions


@pytest.fixture
def word_files(tmp_path):
    return make_word_files(tmp_path / "words")


def test_ids_of_another_kind_are_refused(unicode_bilm, word_files):
    """Ids of bytes and of Unicode characters have the same shape; those of AllenNLP have 64 bits."""
    of_bytes, of_words = random_bilm(), read_bilm(**word_files)
    of_bytes.encode(of_bytes.padded_ids([["Ann"]]).long())
    sixteen_bits, words = of_bytes.padded_ids(NONEMPTY), WordEncoder.padded_ids(NONEMPTY)
    for bilm, ids, *expected in (
        (of_bytes, words, "character_ids", "shape (4, 18)"),
        (of_bytes, unicode_bilm.padded_ids(NONEMPTY), "character_ids", "type torch.int32"),
        (of_words, sixteen_bits, "word_ids", "shape (4, 18, 50)"),
        (unicode_bilm, sixteen_bits, "unicode_ids", "type torch.int16"),
        (unicode_bilm, words, "unicode_ids", "shape (4, 18)"),
    ):
        for each in (bilm, bilm.encode, frozen(bilm).encode, trained(bilm).encode):
            assert mentions(error_of(ElmoError, each, ids), *expected)


def test_a_new_highway_carries_most_of_its_input():
    torch.manual_seed(0)
    highway = Highway(size=6)
    inputs = torch.randn(5, 6)
    carry = torch.sigmoid(highway.carry(inputs))
    # bilm-tf's carry gate weighs the transformed input.
    expected = carry * torch.relu(highway.transform(inputs)) + (1 - carry) * inputs
    torch.testing.assert_close(highway(inputs), expected)
    assert (highway.carry.bias == -2).all()


MARKS = ["<bos>", "<eos>", "<bow>", "<eow>", "<pad>", "<oov>"]
CHARACTERS = {entry: row for row, entry in enumerate([*"theca", "oov", *"so한국어", *MARKS])}
DICTIONARY = {"cat": 3, "<oov>": 1, "<pad>": 0, "한국어": 4, "a" * 60: 5, "<bos>": 2}


@pytest.fixture(scope="module")
def unicode_bilm():
    torch.manual_seed(3)
    options = changed()
    options["char_cnn"] |= {"encoding": "unicode", "n_characters": len(CHARACTERS), "n_words": 6}
    options["char_cnn"]["word_dim"] = 3
    bilm = BiLm(options=BiLmOptions.read(options))
    encoder = bilm.token_encoder
    encoder.characters.load_state_dict(character_lookup(CHARACTERS, num_rows=len(CHARACTERS)))
    encoder.words.lookup.load_state_dict(word_lookup(DICTIONARY, num_rows=6, length=50))
    return bilm


def test_rows_of_characters_and_words(unicode_bilm):
    encoder = unicode_bilm.token_encoder
    ids = torch.tensor(unicode_ids(["cat!", "<bos>"]))
    rows = [CHARACTERS[entry] for entry in ("<eow>", "c", "a", "t", "<oov>", "<bow>", "<pad>")]
    assert encoder.characters(ids)[0, :7].tolist() == rows
    assert encoder.characters(ids)[1, :3].tolist() == [CHARACTERS[e] for e in ("<eow>", "<bos>", "<bow>")]
    words = ["cat", "한국어", "dog", "a" * 60, "<bos>", "<pad>"]
    table = encoder.words.embedding[[3, 4, 1, 1, 2, 0]]
    assert torch.equal(encoder.words(torch.tensor(unicode_ids(words))), table)


@pytest.mark.parametrize("make", [frozen, trained])
def test_the_engine_equals_the_unicode_model(unicode_bilm, make):
    bilm, fast = unicode_bilm, make(unicode_bilm)
    ids = bilm.padded_ids(SENTENCES)
    torch.testing.assert_close(fast.encode(ids), bilm.encode(ids), atol=1e-5, rtol=0)
    fast.eval()
    state, reference_state = None, None
    for sentences in (NONEMPTY, SENTENCES[: len(NONEMPTY)]):
        ids = bilm.padded_ids(sentences)
        layers, state = fast(ids, state)
        expected, reference_state = bilm(ids, reference_state)
        torch.testing.assert_close(layers, expected, atol=1e-5, rtol=0)
        torch.testing.assert_close(state, reference_state, atol=1e-5, rtol=0)


def test_gradients_of_the_unicode_model(unicode_bilm):
    ids = unicode_bilm.padded_ids(SENTENCES)
    fast = trained(unicode_bilm)
    for each in (fast, unicode_bilm):
        each.zero_grad()
        each.encode(ids).square().sum().backward()
    for (name, ours), expected in zip(fast.named_parameters(), unicode_bilm.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, expected.grad, atol=1e-3, rtol=1e-3, msg=name)


def test_as_many_words_as_rows(word_files):
    encoder = read_bilm(**word_files).token_encoder
    encoder.set_vocabulary([*VOCABULARY[:-1], "until "])
    assert mentions(error_of(ElmoError, encoder.set_vocabulary, VOCABULARY[:-1]), "12 words", "13")
