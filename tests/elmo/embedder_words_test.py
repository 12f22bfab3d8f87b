"""An `Elmo` that reads words, from its files to the archive of a task."""

import json
import shutil

import numpy as np
import pytest
import torch
from allennlp.commands.train import train_model
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import Batch
from allennlp.models.archival import load_archive

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.common.files import bundled
from elmo_tasks.elmo import BiLmOptions, Elmo
from elmo_tasks.elmo.files import read_frozen_bilm
from elmo_tasks.elmo.model.encoders import WordEncoder
from tests.conftest import SMALL_NER
from tests.elmo.files import PLACED, SENTENCES, batch, make_files, make_word_files
from tests.elmo.numpy_reference import NumpyBiLm
from tests.errors import error_of


@pytest.fixture
def files(tmp_path):
    return make_word_files(tmp_path / "bilm")


@pytest.mark.parametrize("stateful", [False, True])
def test_elmo(files, stateful):
    elmo, reference = Elmo(layers="top", gamma=False, stateful=stateful, **files), NumpyBiLm(**files)
    for words in PLACED:
        if not stateful:
            reference.reset()
        vectors = elmo(WordEncoder.padded_ids([words])).input[0].detach()
        np.testing.assert_allclose(vectors, reference(words)[-1], atol=1e-5)


def test_ids_of_the_other_kind(files):
    message = error_of(ElmoError, Elmo(**files), batch(SENTENCES))
    assert message == (
        "the biLM reads word_ids: found ids of shape (5, 18, 50), expected ('batch', 'tokens')"
    )
    message = error_of(ElmoError, Elmo(), WordEncoder.padded_ids(SENTENCES))
    assert "reads character_ids: found ids of shape (5, 18), expected ('batch', 'tokens', 50)" in message


def test_files_that_do_not_belong_together(files, tmp_path):
    def read(options_file, *others, **more):
        return read_frozen_bilm(BiLmOptions.read(options_file), *others, **more)

    characters = dict(zip(("options_file", "weight_file"), map(str, make_files(tmp_path / "c")), strict=True))
    for make in (read, Elmo):
        message = error_of(ElmoError, make, **files | {"weight_file": characters["weight_file"]})
        assert "c/weights.hdf5: found char_embed of a biLM that reads characters, but the options" in message
        message = error_of(ElmoError, make, **characters | {"weight_file": files["weight_file"]})
        assert "found embedding of a biLM that reads words, but the options are of one that" in message
        message = error_of(ElmoError, make, **characters, vocabulary_file=files["vocabulary_file"])
        assert "found a vocabulary_file, " in message
        assert "expected none: the biLM reads characters" in message
    del files["vocabulary_file"]
    for make in (read, Elmo):
        assert "the biLM reads words, expected also its vocabulary_file" in error_of(ElmoError, make, **files)


def test_activations(files, tmp_path):
    """Found again by the words, also of those that the biLM does not tell apart."""
    elmo, kept = Elmo(**files), Elmo(activations=str(tmp_path / "kept"), **files)
    encoded, encode = [], kept.bilm.encode
    kept.bilm.encode = lambda ids, start: encoded.append(len(ids)) or encode(ids, start)
    batches = [SENTENCES, [["nowhere", "on"], ["elsewhere", "on"]], SENTENCES[::-1], [[], []]]
    for sentences in batches:
        ids = WordEncoder.padded_ids(sentences)
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
    message = error_of(ConfigurationError, archive.model, **tensors)
    assert (
        'of another kind: character_ids; expected in both also "elmo": {"type": "elmo_word_ids"}' in message
    )


@pytest.mark.parametrize("trainable", [False, True])
def test_random_weights_have_the_words_of_the_vocabulary(files, trainable):
    elmo = Elmo(**files | {"weight_file": None}, trainable=trainable)
    known = elmo.bilm.state_dict()["token_encoder.known"]
    assert torch.equal(known, Elmo(**files).bilm.state_dict()["token_encoder.known"])
