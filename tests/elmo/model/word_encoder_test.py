import json

import h5py
import numpy as np
import pytest
import torch

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.elmo.model import BiLm, BiLmOptions
from elmo_tasks.elmo.model import encoders as word_encoder
from elmo_tasks.elmo.model.characters import word_ids
from elmo_tasks.elmo.model.encoders import WordEncoder
from elmo_tasks.elmo.model.weight_file import write_weights
from tests.elmo.files import SENTENCES, VOCABULARY, batch, make_files, make_word_files, read_bilm
from tests.elmo.numpy_reference import NumpyBiLm
from tests.errors import error_of


@pytest.fixture
def files(tmp_path):
    return make_word_files(tmp_path / "bilm")


def test_equals_the_step_by_step_reference(files):
    bilm, reference = read_bilm(**files), NumpyBiLm(**files)
    layers = bilm.encode(WordEncoder.padded_ids(SENTENCES))
    for row, words in enumerate(SENTENCES):
        reference.reset()
        if words:
            np.testing.assert_allclose(layers[:, row, : len(words)].detach(), reference(words), atol=1e-5)
        assert not layers[:, row, len(words) :].any()


def test_carries_the_state_like_the_original(files):
    bilm, lanes = read_bilm(**files), [NumpyBiLm(**files) for _ in range(2)]
    state = None
    for sentences in ([["the", "cat", "."], ["on"]], [["until"], ["mat", "and"]], [["x", "on"], ["The"]]):
        layers, state = bilm(WordEncoder.padded_ids(sentences), state)
        for row, (words, lane) in enumerate(zip(sentences, lanes, strict=True)):
            np.testing.assert_allclose(layers[:, row, : len(words)].detach(), lane(words), atol=1e-5)


def test_words_and_their_rows(files):
    encoder = read_bilm(**files).token_encoder
    words = ["mat", "nowhere", "", "mat", *VOCABULARY, "elsewhere"]
    rows = [VOCABULARY.index(word if word in VOCABULARY else "<UNK>") for word in words]
    assert torch.equal(encoder(torch.from_numpy(word_ids(words))), encoder.embedding[rows])


def test_gradients_reach_the_rows_that_were_read(files):
    bilm = read_bilm(**files)
    bilm.encode(WordEncoder.padded_ids([["the", "nowhere"]])).square().sum().backward()
    read = {VOCABULARY.index(word) for word in ("<S>", "</S>", "the", "<UNK>")}
    gradient = bilm.token_encoder.embedding.grad
    assert {row for row in range(len(VOCABULARY)) if gradient[row].any()} == read


def test_writes_what_it_reads(files, tmp_path):
    bilm = read_bilm(**files)
    with h5py.File(files["weight_file"]) as file:
        assert file["embedding"].shape == (len(VOCABULARY), 6)
        np.testing.assert_array_equal(file["embedding"][...], bilm.token_encoder.embedding.detach())
    (tmp_path / "options.json").write_text(json.dumps(bilm.options.to_json()))
    write_weights(tmp_path / "weights.hdf5", bilm.options, bilm.state_dict())
    again = read_bilm(tmp_path / "options.json", tmp_path / "weights.hdf5", files["vocabulary_file"])
    assert again.options == bilm.options
    for name, tensor in again.state_dict().items():
        torch.testing.assert_close(tensor, bilm.state_dict()[name], atol=1e-6, rtol=0)


def test_files_that_do_not_belong_together(files, tmp_path):
    options_file, weight_file = make_files(tmp_path / "c")
    message = error_of(ElmoError, read_bilm, files["options_file"], weight_file)
    assert "c/weights.hdf5: found char_embed of a biLM that reads characters, but the options" in message
    message = error_of(ElmoError, read_bilm, options_file, files["weight_file"])
    assert "found embedding of a biLM that reads words, but the options are of one that" in message


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (VOCABULARY[:-1], "the vocabulary has 12 words, expected 13, as the options say"),
        ([*VOCABULARY[:-1], "until "], None),
        ([word.replace("<UNK>", "unk") for word in VOCABULARY], "the vocabulary has no <UNK>"),
        ([*VOCABULARY[:-1], "cat"], "'cat' and 'cat' in the vocabulary have the same id"),
    ],
)
def test_words_to_know(files, words, expected):
    encoder = read_bilm(**files).token_encoder
    if expected is None:
        encoder.set_vocabulary(words)
    else:
        assert expected in error_of(ElmoError, encoder.set_vocabulary, words)


def test_two_words_with_one_id(files, monkeypatch):
    monkeypatch.setattr(word_encoder, "word_ids", lambda words: np.array([len(word) for word in words]))
    encoder = BiLm(options=BiLmOptions.read(files["options_file"])).token_encoder
    assert "'the' and 'cat' in the vocabulary have the same id" in error_of(
        ElmoError,
        encoder.set_vocabulary,
        ["the", "cat"] + ["x" * length for length in range(6, 14)] + ["<S>", "</S>", "<UNK>"],
    )


def test_ids_of_the_other_kind(files):
    message = error_of(ElmoError, read_bilm(**files), batch(SENTENCES))
    assert message == "the biLM reads word_ids: found ids of shape (5, 18, 50), expected ('batch', 'tokens')"
