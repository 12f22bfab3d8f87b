"""An `Elmo` of ELMoForManyLangs or of NLPL's repository, from one path to the archive of a task."""

import gzip
import json
import shutil

import numpy as np
import pytest
import torch
from allennlp.commands.train import train_model
from allennlp.common import Params
from allennlp.data import Batch
from allennlp.models.archival import load_archive

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.common.files import bundled
from elmo_tasks.elmo import Elmo, ElmoTokenEmbedder
from elmo_tasks.elmo.files import DEFAULT_OPTIONS, read_frozen_bilm, read_options
from elmo_tasks.embedding import ElmoEmbedder
from tests.elmo.files import PLACED, batch, make_files, make_word_files
from tests.elmo.many_langs_files import SENTENCES, make_folder, make_zip
from tests.elmo.many_langs_reference import reference
from tests.errors import error_of


@pytest.fixture(scope="module")
def many_langs(tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp("many_langs") / "bilm")


def make_nlpl(folder, *, words=False):
    """As simple_elmo reads it: a zip, or the folder that was in it."""
    files = make_word_files(folder) if words else None
    if files is None:
        make_files(folder)
    else:
        with gzip.open(folder / "vocab.txt.gz", "wb") as file:
            file.write((folder / "vocabulary.txt").read_bytes())
    (folder / "weights.hdf5").rename(folder / "model.hdf5")
    return folder, make_zip(folder, folder.with_suffix(".zip"))


@pytest.mark.parametrize("use", [{}, {"trainable": True}, {"stateful": True}], ids=str)
def test_many_langs_in_the_block(many_langs, use):
    elmo = Elmo(weight_file=str(many_langs), weights="frozen", gamma=False, **use).eval()
    bilm = read_frozen_bilm(elmo.bilm.options, many_langs)
    ids = bilm.padded_ids(SENTENCES)
    mixed = elmo.mixes["input"](bilm.encode(ids) if not use.get("stateful") else bilm(ids)[0])
    torch.testing.assert_close(elmo(ids).input, mixed, atol=1e-6, rtol=0)


def test_carried_state_over_batches_of_the_block(many_langs):
    elmo = Elmo(weight_file=str(many_langs), layers="top", gamma=False, stateful=True)
    with reference(many_langs) as embedder:
        for words in SENTENCES * 2:
            theirs = torch.from_numpy(embedder.sents2elmo([words], output_layer=2)[0])
            ours = elmo(elmo.bilm.padded_ids([words])).input[0]
            torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)


def test_activations(many_langs, tmp_path):
    """Found again by all bits of a character: two that differ by 2^16 are two."""
    elmo = Elmo(weight_file=str(many_langs))
    kept = Elmo(weight_file=str(many_langs), activations=str(tmp_path / "kept"))
    for sentences in ([["서울"], ["a"]], [[chr(ord("a") + (1 << 16))], ["a"]], SENTENCES):
        ids = elmo.bilm.padded_ids(sentences)
        torch.testing.assert_close(kept(ids).input, elmo(ids).input, atol=1e-5, rtol=0)


def test_the_embedder_beside_the_package(many_langs):
    embedded = ElmoEmbedder(weight_file=many_langs).embed_batch(SENTENCES)
    with reference(many_langs) as embedder:
        for output_layer in (-2, -1, 0, 2):
            theirs = embedder.sents2elmo(SENTENCES, output_layer=output_layer)
            for layers, expected in zip(embedded, theirs, strict=True):
                ours = {-2: layers, -1: layers.mean(axis=0)}.get(output_layer, layers[output_layer])
                np.testing.assert_allclose(ours, expected, atol=1e-5)
            embedder.model.encoder.reset_states()


def test_a_state_dict_is_enough(many_langs):
    elmo = Elmo(weight_file=str(many_langs))
    state = elmo.state_dict()
    again = Elmo(**Elmo.block_for_archive(state, ""))
    again.load_state_dict(state)
    ids = elmo.bilm.padded_ids(SENTENCES)
    assert torch.equal(again(ids).input, elmo(ids).input)


def test_token_embedder_refuses_ids_of_bytes(many_langs):
    embedder = ElmoTokenEmbedder(weight_file=str(many_langs))
    assert "reads unicode_ids: found ids of type torch.int16" in error_of(ElmoError, embedder, batch(PLACED))


def test_options_and_words_stand_with_the_weights(many_langs, tmp_path):
    make_files(tmp_path / "c")
    message = error_of(
        ElmoError, Elmo, options_file=str(tmp_path / "c/options.json"), weight_file=str(many_langs)
    )
    assert f"{many_langs}/config.json: found options of another biLM" in message
    message = error_of(ElmoError, Elmo, weight_file=str(many_langs), vocabulary_file="words.txt")
    assert f"found a vocabulary_file, words.txt, expected none: {many_langs} has the words" in message


@pytest.mark.parametrize("words", [False, True])
def test_nlpl(tmp_path, words):
    """As from its files one by one."""
    folder, path = make_nlpl(tmp_path / "bilm", words=words)
    files = [folder / "vocabulary.txt"] if words else []
    expected = read_frozen_bilm(read_options(folder / "options.json"), folder / "model.hdf5", *files)
    for source in (path, folder, path.as_uri()):
        bilm = read_frozen_bilm(read_options(DEFAULT_OPTIONS, source), source)
        assert bilm.digest() == expected.digest()
        assert bilm.knows(["cat", "dog"]).tolist() == [True, not words]
        assert Elmo(weight_file=str(source)).bilm.digest() == expected.digest()
        assert ElmoEmbedder(weight_file=source).bilm.digest() == expected.digest()


def test_wrong_nlpl(tmp_path):
    folder, _ = make_nlpl(tmp_path / "bilm")
    (folder / "model.hdf5").unlink()
    source = make_zip(folder, tmp_path / "wrong.zip")
    assert f"{source}: weights.hdf5 or model.hdf5 is missing" in error_of(
        ElmoError, Elmo, weight_file=str(source)
    )
    (folder / "options.json").write_text("{}")
    source = make_zip(folder, tmp_path / "wrong.zip")
    message = error_of(ElmoError, Elmo, weight_file=str(source))
    assert f"{source}!options.json: found neither char_cnn nor n_tokens_vocab" in message


def test_korean_headlines(many_langs, tmp_path):
    """A classifier of KLUE-TC learns on it, and its archive needs nothing of the folder."""
    folder = shutil.copytree(many_langs, tmp_path / "bilm")
    overrides = {
        "dataset_reader.token_indexers.elmo.type": "elmo_unicode_ids",
        "model.elmo.weight_file": str(folder),
        "model.hidden_sizes": [8],
        "trainer.num_epochs": 1,
        "data_loader.batches_per_epoch": 2,
    }
    params = Params.from_file(str(bundled("training_configs/klue_tc_elmo.jsonnet")), json.dumps(overrides))
    trained = train_model(params, str(tmp_path / "run")).eval()
    shutil.rmtree(folder)
    archive = load_archive(tmp_path / "run" / "model.tar.gz")
    instances = list(archive.dataset_reader.read(bundled("fixtures/classification/klue_tc/dev.json")))
    for instance in instances:
        archive.dataset_reader.apply_token_indexers(instance)
    inputs = Batch(instances)
    inputs.index_instances(archive.model.vocab)
    tensors = inputs.as_tensor_dict()
    probabilities = archive.model.eval()(**tensors)["probabilities"]
    assert torch.equal(probabilities, trained(**tensors)["probabilities"])
    # What is read of a headline reaches the result.
    tensors["sentence1"]["elmo"]["unicode_ids"][:, 0, 1] += 1
    assert not torch.equal(archive.model(**tensors)["probabilities"], probabilities)
