"""
The token layers, against references that look up words one by one; `many_langs_test.py` compares with the
original of ELMoForManyLangs.
"""

import numpy as np
import pytest
import torch
from allennlp.modules.elmo import _ElmoCharacterEncoder, batch_to_ids

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.elmo.model import BiLm, BiLmOptions
from elmo_tasks.elmo.model.characters import character_ids, unicode_ids, word_ids
from elmo_tasks.elmo.model.encoders import (
    Highway,
    Lookup,
    WordEncoder,
    character_lookup,
    word_lookup,
)
from tests.elmo.files import (
    NONEMPTY,
    SENTENCES,
    VARIANTS,
    VOCABULARY,
    changed,
    frozen,
    make_files,
    make_word_files,
    random_bilm,
    read_bilm,
    trained,
)
from tests.elmo.numpy_reference import NumpyBiLm
from tests.errors import error_of, mentions

WORDS = ["cat", "", "Łódź", "😀", "x" * 48, "y" * 60, "<S>", "</S>", "a"]


@pytest.fixture
def word_files(tmp_path):
    return make_word_files(tmp_path / "words")


@pytest.fixture(params=["characters", "words"])
def encoder(request, word_files):
    return (random_bilm() if request.param == "characters" else read_bilm(**word_files)).token_encoder


# All kinds


def test_where_there_are_words(encoder):
    for sentences in ([*SENTENCES, ["a", ""]], [["a"]], [[], []]):
        ids = encoder.padded_ids(sentences)
        lengths = torch.tensor([len(words) for words in sentences])
        assert ids.shape[:2] == (len(sentences), lengths.max())
        assert torch.equal(encoder.present(ids), torch.arange(ids.size(1)) < lengths.unsqueeze(1))
        for row, words in zip(ids, sentences, strict=True):
            assert row[: len(words)].tolist() == encoder.ids(words).tolist()
        assert not ids[~encoder.present(ids)].any()


def test_a_word_has_one_vector_wherever_it_stands(encoder):
    first, second = encoder.padded_ids([["cat", "on", "mat"], ["mat", "cat"]])
    vectors = encoder(torch.cat([first, second[:2]]))
    assert vectors.shape == (5, 6)
    torch.testing.assert_close(vectors[[2, 0]], vectors[[3, 4]])
    assert not torch.allclose(vectors[0], vectors[1], atol=1e-2)


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


# Characters


@pytest.mark.parametrize("changes", VARIANTS)
def test_the_character_cnn_equals_the_step_by_step_reference(tmp_path, changes):
    files = make_files(tmp_path, **changes)
    encoder, reference = read_bilm(*files).double().token_encoder, NumpyBiLm(*files)
    vectors = encoder(torch.tensor(character_ids(WORDS)))
    expected = np.stack([reference.word_vector(word) for word in WORDS])
    np.testing.assert_allclose(vectors.detach(), expected, atol=1e-7)


def test_the_character_cnn_equals_allennlps(tmp_path):
    files = make_files(tmp_path)
    ours, theirs = read_bilm(*files).double().token_encoder, _ElmoCharacterEncoder(*map(str, files)).double()
    expected = theirs(batch_to_ids([WORDS]))["token_embedding"][0, 1:-1]
    torch.testing.assert_close(ours(torch.tensor(character_ids(WORDS))), expected, atol=1e-12, rtol=1e-12)


def test_a_new_highway_carries_most_of_its_input():
    torch.manual_seed(0)
    highway = Highway(size=6)
    inputs = torch.randn(5, 6)
    carry = torch.sigmoid(highway.carry(inputs))
    # bilm-tf's carry gate weighs the transformed input.
    expected = carry * torch.relu(highway.transform(inputs)) + (1 - carry) * inputs
    torch.testing.assert_close(highway(inputs), expected)
    assert (highway.carry.bias == -2).all()


# Unicode characters

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


# Words


def test_rows_of_words(word_files):
    encoder = read_bilm(**word_files).token_encoder
    words = ["mat", "nowhere", "", "mat", *VOCABULARY, "elsewhere"]
    rows = [VOCABULARY.index(word if word in VOCABULARY else "<UNK>") for word in words]
    assert torch.equal(encoder(torch.from_numpy(word_ids(words))), encoder.embedding[rows])


def test_gradients_reach_the_rows_that_were_read(word_files):
    bilm = read_bilm(**word_files)
    bilm.encode(WordEncoder.padded_ids([["the", "nowhere"]])).square().sum().backward()
    read = {VOCABULARY.index(word) for word in ("<S>", "</S>", "the", "<UNK>")}
    gradient = bilm.token_encoder.embedding.grad
    assert {row for row in range(len(VOCABULARY)) if gradient[row].any()} == read


def test_as_many_words_as_rows(word_files):
    encoder = read_bilm(**word_files).token_encoder
    encoder.set_vocabulary([*VOCABULARY[:-1], "until "])
    assert mentions(error_of(ElmoError, encoder.set_vocabulary, VOCABULARY[:-1]), "12 words", "13")


# Lookups


def test_ids_and_their_rows():
    lookup = Lookup(num_rows=3)
    assert lookup(torch.tensor([[1, 300]])).tolist() == [[0, 0]]
    known, rows = torch.tensor([70, -5, 30]).sort()
    lookup.load_state_dict({"known": known, "rows": rows, "unknown": torch.tensor(1)})
    ids = torch.tensor([[30, 70, -5], [-6, 31, 71]], dtype=torch.int32)
    assert lookup(ids).tolist() == [[2, 0, 1], [1, 1, 1]]
