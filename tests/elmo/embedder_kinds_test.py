"""
`Elmo` of other biLMs, from their files to the archive of a task: of words, of ELMoForManyLangs, of NLPL's
repository, and of short words.
"""

import gzip
import json
import shutil

import numpy as np
import pytest
import torch
from allennlp.commands.train import train_model
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.models.archival import load_archive

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.common.files import bundled
from elmo_tasks.elmo import Elmo
from elmo_tasks.elmo.files import DEFAULT_OPTIONS, read_frozen_bilm, read_options
from elmo_tasks.elmo.model.encoders import WordEncoder
from elmo_tasks.embedding.embedder import ElmoEmbedder
from tests.conftest import SMALL_NER
from tests.elmo import many_langs
from tests.elmo.files import NONEMPTY, SENTENCES, WEIGHTS, batch, make_files, make_word_files
from tests.elmo.many_langs import make_folder, make_zip
from tests.elmo.numpy_reference import NumpyBiLm
from tests.errors import error_of
from tests.modules.models import indexed, tensors


@pytest.fixture
def words(tmp_path):
    return make_word_files(tmp_path / "words")


@pytest.fixture(scope="module")
def languages(tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp("many_langs") / "bilm")


def archived(run, data, count=None):
    """The model of an archive, and a batch of its data."""
    archive = load_archive(run / "model.tar.gz")
    reader = archive.dataset_reader
    instances = indexed(reader, list(reader.read(bundled(data)))[:count])
    return archive.model.eval(), tensors(instances, archive.model.vocab)


@pytest.mark.parametrize("stateful", [False, True])
def test_words(words, stateful):
    elmo, numpy_bilm = Elmo(layers="top", gamma=False, stateful=stateful, **words), NumpyBiLm(**words)
    for sentence in NONEMPTY:
        if not stateful:
            numpy_bilm.reset()
        vectors = elmo(WordEncoder.padded_ids([sentence])).input[0].detach()
        np.testing.assert_allclose(vectors, numpy_bilm(sentence)[-1], atol=1e-5)


def test_a_vocabulary_belongs_to_a_bilm_of_words_alone(words, tmp_path):
    options_file, weight_file = map(str, make_files(tmp_path / "characters"))
    characters = words | {"options_file": options_file, "weight_file": weight_file}
    assert "vocabulary_file" in error_of(ElmoError, Elmo, **characters)
    del words["vocabulary_file"]
    assert "vocabulary_file" in error_of(ElmoError, Elmo, **words)


def test_activations_of_words(words, tmp_path):
    """They are found by the words, even by words that the biLM does not tell apart."""
    pytest.importorskip("lmdb")
    elmo, kept = Elmo(**words), Elmo(activations=str(tmp_path / "kept"), **words)
    encoded, encode = [], kept.bilm.encode
    kept.bilm.encode = lambda ids, start: encoded.append(len(ids)) or encode(ids, start)
    batches = [SENTENCES, [["nowhere", "on"], ["elsewhere", "on"]], SENTENCES[::-1], [[], []]]
    for sentences in batches:
        ids = WordEncoder.padded_ids(sentences)
        torch.testing.assert_close(kept(ids).input, elmo(ids).input, atol=1e-5, rtol=0)
    assert sum(encoded) == len(NONEMPTY) + 2


def test_a_task_with_words(words, tmp_path):
    """NER learns on it, and its archive needs neither the files nor a vocabulary."""
    folder = tmp_path / "training_configs"
    shutil.copytree(bundled("training_configs"), folder)
    (tmp_path / "fixtures").symlink_to(bundled("fixtures").resolve())
    library = folder / "lib" / "elmo.libsonnet"
    library.write_text(
        library.read_text()
        .replace("local weights = {", f"local weights = {json.dumps(words)} + {{")
        .replace("../../pretrained/english/options.json", words["options_file"])
    )
    overrides = SMALL_NER | {"trainer.num_epochs": 1, "data_loader.batches_per_epoch": 2}
    params = Params.from_file(str(folder / "ner_elmo.jsonnet"), json.dumps(overrides))
    assert params["dataset_reader"]["token_indexers"]["elmo"]["type"] == "elmo_word_ids"
    trained = train_model(params, str(tmp_path / "run")).eval()
    shutil.rmtree(tmp_path / "words")
    model, inputs = archived(tmp_path / "run", "fixtures/ner/dev.conll", 4)
    for name, tensor in trained.state_dict().items():
        assert torch.equal(model.state_dict()[name], tensor)
    assert torch.equal(model(**inputs)["emissions"], trained(**inputs)["emissions"])
    # The other indexer
    inputs["tokens"]["elmo"] = {"character_ids": batch([["Yes"]])}
    assert '"elmo": {"type": "elmo_word_ids"}' in error_of(ConfigurationError, model, **inputs)


def test_activations_of_many_langs(languages, tmp_path):
    """They are found by all bits of a character: two that differ by 2^16 are two."""
    pytest.importorskip("lmdb")
    elmo = Elmo(weight_file=str(languages))
    kept = Elmo(weight_file=str(languages), activations=str(tmp_path / "kept"))
    for sentences in ([["서울"], ["a"]], [[chr(ord("a") + (1 << 16))], ["a"]], many_langs.SENTENCES):
        ids = elmo.padded_ids(sentences)
        torch.testing.assert_close(kept(ids).input, elmo(ids).input, atol=1e-5, rtol=0)


def test_a_folder_of_many_langs_needs_no_other_file(languages, tmp_path):
    options_file, _ = make_files(tmp_path / "c")
    message = error_of(ElmoError, Elmo, options_file=str(options_file), weight_file=str(languages))
    assert message.startswith(f"{languages}/config.json: ")
    message = error_of(ElmoError, Elmo, weight_file=str(languages), vocabulary_file="words.txt")
    assert "words.txt" in message


def test_many_langs_built_again_from_its_state_dict(languages):
    elmo = Elmo(weight_file=str(languages))
    state = {f"elmo.{name}": tensor for name, tensor in elmo.state_dict().items()}
    again = Elmo(**Elmo.block_for_archive(state, "elmo."))
    again.load_state_dict(elmo.state_dict())
    ids = elmo.padded_ids(many_langs.SENTENCES)
    assert torch.equal(again(ids).input, elmo(ids).input)


def make_nlpl(folder, *, words=False):
    """As simple_elmo reads it: a zip, or the folder that was in it."""
    if words:
        make_word_files(folder)
        with gzip.open(folder / "vocab.txt.gz", "wb") as file:
            file.write((folder / "vocabulary.txt").read_bytes())
    else:
        make_files(folder)
    (folder / WEIGHTS).rename(folder / "model.hdf5")
    return folder, make_zip(folder, folder.with_suffix(".zip"))


@pytest.mark.parametrize("of_words", [False, True])
def test_nlpl(tmp_path, of_words):
    folder, path = make_nlpl(tmp_path / "bilm", words=of_words)
    files = [folder / "vocabulary.txt"] if of_words else []
    expected = read_frozen_bilm(read_options(folder / "options.json"), folder / "model.hdf5", *files)
    for source in (path, folder, path.as_uri()):
        bilm = read_frozen_bilm(read_options(DEFAULT_OPTIONS, source), source)
        assert bilm.digest() == expected.digest()
        assert bilm.knows(["cat", "dog"]).tolist() == [True, not of_words]
        assert Elmo(weight_file=str(source)).bilm.digest() == expected.digest()
        assert ElmoEmbedder(weight_file=source).bilm.digest() == expected.digest()


def test_wrong_nlpl(tmp_path):
    folder, _ = make_nlpl(tmp_path / "bilm")
    (folder / "model.hdf5").unlink()
    source = make_zip(folder, tmp_path / "wrong.zip")
    message = error_of(ElmoError, Elmo, weight_file=str(source))
    assert message == f"{source}: weights.hdf5 or model.hdf5 or weights.safetensors is missing"
    (folder / "options.json").write_text("{}")
    source = make_zip(folder, tmp_path / "wrong.zip")
    message = error_of(ElmoError, Elmo, weight_file=str(source))
    assert message.startswith(f"{source}!options.json: ")
