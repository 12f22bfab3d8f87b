"""A biLM that reads words, from its files to the archive of a task."""

import json
import shutil

import h5py
import numpy as np
import pytest
import torch
from allennlp.commands.train import train_model
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import Batch
from allennlp.models.archival import load_archive

from elmo_tasks.elmo import BiLm, BiLmOptions, Elmo, word_encoder
from elmo_tasks.elmo.linear import Linear
from elmo_tasks.elmo.weights import write_weights
from elmo_tasks.elmo.words import padded_word_ids, word_ids
from elmo_tasks.paths import bundled
from tests.conftest import SMALL_NER
from tests.elmo.files import SENTENCES, VOCABULARY, batch, make_files, make_word_files
from tests.elmo.numpy_reference import NumpyBiLm

PLACED = [words for words in SENTENCES if words]


@pytest.fixture
def files(tmp_path):
    return make_word_files(tmp_path / "bilm")


def error_of(function, *arguments, **options):
    with pytest.raises(ConfigurationError) as caught:
        function(*arguments, **options)
    return str(caught.value)


@pytest.mark.parametrize("trainable", [False, True])
def test_equals_the_step_by_step_reference(files, trainable):
    bilm, reference = BiLm.read(**files).requires_grad_(trainable), NumpyBiLm(**files)
    layers = bilm.encode(padded_word_ids(SENTENCES))
    assert layers.requires_grad == trainable
    for row, words in enumerate(SENTENCES):
        reference.reset()
        if words:
            np.testing.assert_allclose(layers[:, row, : len(words)].detach(), reference(words), atol=1e-5)
        assert not layers[:, row, len(words) :].any()


def test_carries_the_state_like_the_original(files):
    bilm, lanes = BiLm.read(**files), [NumpyBiLm(**files) for _ in range(2)]
    state = None
    for sentences in ([["the", "cat", "."], ["on"]], [["until"], ["mat", "and"]], [["x", "on"], ["The"]]):
        layers, state = bilm(padded_word_ids(sentences), state)
        for row, (words, lane) in enumerate(zip(sentences, lanes, strict=True)):
            np.testing.assert_allclose(layers[:, row, : len(words)].detach(), lane(words), atol=1e-5)


def test_words_and_their_rows(files):
    encoder = BiLm.read(**files).token_encoder
    words = ["mat", "nowhere", "", "mat", *VOCABULARY, "elsewhere"]
    vectors, index = encoder(torch.from_numpy(word_ids(words)), Linear())
    rows = [VOCABULARY.index(word if word in VOCABULARY else "<UNK>") for word in words]
    assert torch.equal(vectors[index], encoder.embedding[rows])
    assert len(vectors) == len(VOCABULARY)


def test_other_words_are_noticed(files):
    """What was remembered of a frozen biLM is of the words that it knew."""
    bilm = BiLm.read(**files).requires_grad_(False)
    before, digest = bilm.encode(padded_word_ids(SENTENCES)), bilm.digest()
    # <S> and </S> change places: only where a sentence starts
    other = [{"<S>": "</S>", "</S>": "<S>"}.get(word, word) for word in VOCABULARY]
    bilm.token_encoder.know(other)
    after = bilm.encode(padded_word_ids(SENTENCES))
    assert torch.equal(before[0], after[0])
    assert not torch.allclose(before[1:], after[1:], atol=1e-3)
    assert bilm.digest() != digest


def test_gradients_reach_the_rows_that_were_read(files):
    bilm = BiLm.read(**files)
    bilm.encode(padded_word_ids([["the", "nowhere"]])).square().sum().backward()
    read = {VOCABULARY.index(word) for word in ("<S>", "</S>", "the", "<UNK>")}
    gradient = bilm.token_encoder.embedding.grad
    assert {row for row in range(len(VOCABULARY)) if gradient[row].any()} == read


def test_writes_what_it_reads(files, tmp_path):
    bilm = BiLm.read(**files)
    with h5py.File(files["weight_file"]) as file:
        assert file["embedding"].shape == (len(VOCABULARY), 6)
        np.testing.assert_array_equal(file["embedding"][...], bilm.token_encoder.embedding.detach())
    (tmp_path / "options.json").write_text(json.dumps(bilm.options.to_json()))
    write_weights(tmp_path / "weights.hdf5", bilm.options, bilm.state_dict())
    again = BiLm.read(tmp_path / "options.json", tmp_path / "weights.hdf5", files["vocabulary_file"])
    assert again.options == bilm.options
    for name, tensor in again.state_dict().items():
        torch.testing.assert_close(tensor, bilm.state_dict()[name], atol=1e-6, rtol=0)


def test_char_cnn_decides_what_is_read(files, tmp_path):
    """bilm-tf trains on characters with n_tokens_vocab, too."""
    options_file, _ = make_files(tmp_path / "characters")
    options = json.loads(options_file.read_text())
    assert BiLmOptions.read(options | {"n_tokens_vocab": 800_000}) == BiLmOptions.read(options)
    del options["char_cnn"]
    message = error_of(BiLmOptions.from_json, options, where="train.jsonnet")
    assert message.startswith("train.jsonnet: found neither char_cnn nor n_tokens_vocab, expected char_cnn")
    message = error_of(BiLmOptions.read, options | {"n_tokens_vocab": 0})
    assert "n_tokens_vocab is 0, expected a positive number" in message


def test_files_that_do_not_belong_together(files, tmp_path):
    characters = dict(zip(("options_file", "weight_file"), make_files(tmp_path / "c"), strict=True))
    message = error_of(BiLm.read, **files | {"weight_file": characters["weight_file"]})
    assert "c/weights.hdf5: found char_embed of a biLM that reads characters, but the options" in message
    message = error_of(BiLm.read, characters["options_file"], files["weight_file"])
    assert "found embedding of a biLM that reads words, but the options are of one that" in message
    message = error_of(BiLm.read, **characters, vocabulary_file=files["vocabulary_file"])
    assert "found a vocabulary_file, " in message
    assert "expected none: the biLM reads characters" in message
    del files["vocabulary_file"]
    for read in (BiLm.read, Elmo):
        assert "the biLM reads words, expected also its vocabulary_file" in error_of(read, **files)


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
    encoder = BiLm.read(**files).token_encoder
    if expected is None:
        encoder.know(words)
    else:
        assert expected in error_of(encoder.know, words)


def test_two_words_with_one_id(files, monkeypatch):
    monkeypatch.setattr(word_encoder, "word_ids", lambda words: np.array([len(word) for word in words]))
    encoder = BiLm(options=BiLmOptions.read(files["options_file"])).token_encoder
    assert "'the' and 'cat' in the vocabulary have the same id" in error_of(
        encoder.know, ["the", "cat"] + ["x" * length for length in range(6, 14)] + ["<S>", "</S>", "<UNK>"]
    )


@pytest.mark.parametrize("stateful", [False, True])
def test_elmo(files, stateful):
    elmo, reference = Elmo(layers="top", gamma=False, stateful=stateful, **files), NumpyBiLm(**files)
    for words in PLACED:
        if not stateful:
            reference.reset()
        vectors = elmo(padded_word_ids([words])).input[0].detach()
        np.testing.assert_allclose(vectors, reference(words)[-1], atol=1e-5)


def test_ids_of_the_other_kind(files):
    message = error_of(Elmo(**files), batch(SENTENCES))
    assert message == (
        "the biLM reads word_ids: found ids of shape (5, 18, 50), expected ('batch', 'tokens')"
    )
    message = error_of(Elmo(), padded_word_ids(SENTENCES))
    assert "reads character_ids: found ids of shape (5, 18), expected ('batch', 'tokens', 50)" in message


def test_activations(files, tmp_path):
    """Found again by the words, also of those that the biLM does not tell apart."""
    elmo, kept = Elmo(**files), Elmo(activations=str(tmp_path / "kept"), **files)
    encoded, encode = [], kept.bilm.encode
    kept.bilm.encode = lambda ids, start: encoded.append(len(ids)) or encode(ids, start)
    batches = [SENTENCES, [["nowhere", "on"], ["elsewhere", "on"]], SENTENCES[::-1], [[], []]]
    for sentences in batches:
        ids = padded_word_ids(sentences)
        torch.testing.assert_close(kept(ids).input, elmo(ids).input, atol=1e-5, rtol=0)
    assert sum(encoded) == len(PLACED) + 2


def test_a_task(files, tmp_path):
    """NER learns on it, and its archive needs neither the files nor a vocabulary."""
    folder = tmp_path / "training_configs"
    shutil.copytree(bundled("training_configs"), folder)
    (tmp_path / "fixtures").symlink_to(bundled("fixtures").resolve())
    library = folder / "lib" / "elmo.libsonnet"
    library.write_text(
        library.read_text()
        .replace("local weights = {", f"local weights = {json.dumps(files)} + {{")
        .replace("../../pretrained/english/options.json", files["options_file"])
    )
    overrides = SMALL_NER | {"trainer.num_epochs": 1, "data_loader.batches_per_epoch": 2}
    params = Params.from_file(str(folder / "ner_elmo.jsonnet"), json.dumps(overrides))
    assert params["dataset_reader"]["token_indexers"]["elmo"]["type"] == "elmo_word_ids"
    trained = train_model(params, str(tmp_path / "run"))
    shutil.rmtree(tmp_path / "bilm")
    archive = load_archive(tmp_path / "run" / "model.tar.gz")
    for name, tensor in trained.state_dict().items():
        assert torch.equal(archive.model.state_dict()[name], tensor)
    instances = list(archive.dataset_reader.read(bundled("fixtures/ner/dev.conll")))[:4]
    for instance in instances:
        archive.dataset_reader.apply_token_indexers(instance)
    inputs = Batch(instances)
    inputs.index_instances(archive.model.vocab)
    tensors = inputs.as_tensor_dict()
    for model in (trained, archive.model):
        model.eval()
    assert torch.equal(archive.model(**tensors)["emissions"], trained(**tensors)["emissions"])
    # The other indexer
    tensors["tokens"]["elmo"] = {"character_ids": batch([["Yes"]])}
    message = error_of(archive.model, **tensors)
    assert 'of another kind: character_ids; expected also "elmo": {"type": "elmo_word_ids"}' in message
