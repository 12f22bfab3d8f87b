"""Training that starts from weights or from an archive."""

import json
import shutil

import pytest
import torch
from allennlp.commands.evaluate import evaluate_from_archive
from allennlp.commands.train import train_model
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Vocabulary
from allennlp.models import Model
from allennlp.models.archival import archive_model, load_archive

h5py = pytest.importorskip("h5py")

from elmo_tasks.commands.bilm import write_bilm
from elmo_tasks.common.files import bundled
from elmo_tasks.language_model.model import words_by_class
from tests.elmo.files import VOCABULARY, make_files, read_bilm
from tests.language_model.archives import READER, TEXT, perplexity_of_files, write_run, write_words

FULL, ADAPTIVE = {"type": "full"}, {"type": "adaptive", "cutoffs": [4], "div_value": 2.0}


@pytest.fixture
def text(tmp_path):
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")
    return str(tmp_path / "text.txt")


def exported(folder, input="characters"):
    """The folder of an exported biLM with its softmax."""
    model = write_run(folder / "run", input=input)
    (folder / "out").mkdir()
    words = words_by_class(model.vocab)
    write_bilm(folder / "out", model.bilm, model.softmax, words, dtype="float32")
    return folder / "out"


def start(folder, words=None, softmax=FULL):
    """A model from the files of an export."""
    words = words or str(folder / "vocab.txt")
    vocab = Vocabulary.from_params(Params({"type": "elmo_words", "words_file": words}))
    files = {"options_file": str(folder / "options.json"), "weight_file": str(folder / "weights.hdf5")}
    return Model.from_params(Params({"type": "elmo_bilm", "softmax": dict(softmax), **files}), vocab=vocab)


def run_config(folder, text, **changes):
    """Trains on the text, in short blocks."""
    config = {
        "dataset_reader": dict(READER),
        "train_data_path": text,
        "validation_data_path": text,
        "data_loader": {"batch_size": 1, "max_instances_in_memory": 1, "quiet": True},
        "trainer": {"optimizer": {"type": "adam", "lr": 0.01}, "num_epochs": 1},
        **changes,
    }
    return train_model(Params(config), str(folder))


@pytest.mark.parametrize("input", ["words", "characters"])
def test_words_that_are_counted_anew(tmp_path, text, input):
    """They stand in another order, even if they are as many."""
    out = exported(tmp_path, input)
    reader = DatasetReader.from_params(Params({**READER, "input": input}))
    counted = Vocabulary.from_instances(reader.read(text))
    files = {"options_file": str(out / "options.json"), "weight_file": str(out / "weights.hdf5")}
    with pytest.raises(ConfigurationError, match=r"weights\.hdf5 .*elmo_words"):
        Model.from_params(Params({"type": "elmo_bilm", "softmax": dict(FULL), **files}), vocab=counted)


def evaluated(archive, text):
    return evaluate_from_archive(str(archive), text)["perplexity"]


@pytest.mark.parametrize("input", ["characters", "words"])
def test_starts_where_the_exported_model_was(tmp_path, text, input):
    """A run from its export that learns nothing is as good as it; its archive needs none of the files."""
    out = exported(tmp_path, input)
    expected = evaluated(archive_model(tmp_path / "run"), text)
    run_config(
        tmp_path / "again",
        text,
        dataset_reader=READER | {"input": input},
        vocabulary={"type": "elmo_words", "words_file": str(out / "vocab.txt")},
        model={
            "type": "elmo_bilm",
            "options_file": str(out / "options.json"),
            "weight_file": str(out / "weights.hdf5"),
            "softmax": {"type": "sampled", "num_samples": 4},
        },
        trainer={"optimizer": {"type": "adam", "lr": 0.0}, "num_epochs": 1},
    )
    shutil.rmtree(out)
    assert evaluated(tmp_path / "again/model.tar.gz", text) == pytest.approx(expected, rel=1e-6)
    assert not load_archive(tmp_path / "again/model.tar.gz").model.softmax_is_new


def test_starts_from_an_archive(tmp_path, text):
    write_run(tmp_path / "run")
    archive = archive_model(tmp_path / "run")
    vocabulary = {"type": "from_files", "directory": archive}
    model = {"type": "from_archive", "archive_file": archive}
    run_config(tmp_path / "better", text, vocabulary=vocabulary, model=model)
    better = tmp_path / "better/model.tar.gz"
    assert evaluated(better, text) < 0.9 * evaluated(archive, text)
    with pytest.raises(ConfigurationError, match=r"15 words.*13"):
        run_config(tmp_path / "wrong", text, vocabulary={}, model=model)


def test_weights_without_a_softmax(tmp_path, caplog):
    make_files(tmp_path)
    assert start(tmp_path, write_words(tmp_path / "words")).softmax_is_new
    assert f"{tmp_path / 'weights.hdf5'} holds no softmax" in caplog.text
    model = start(tmp_path, write_words(tmp_path / "words"), ADAPTIVE)
    weights = read_bilm(tmp_path / "options.json", tmp_path / "weights.hdf5").state_dict()
    assert all(torch.equal(weights[name], found) for name, found in model.bilm.state_dict().items())


def test_a_softmax_in_a_file_of_its_own(tmp_path, text):
    """As bilm-tf's authors published it: nothing is trained, and the archive gives the perplexity."""
    out = exported(tmp_path)
    expected = perplexity_of_files(out, TEXT, passage=2)
    with h5py.File(out / "weights.hdf5", "r+") as weights, h5py.File(out / "softmax.hdf5", "w") as softmax:
        weights.move("softmax", "apart")
        weights.copy("apart", softmax, "softmax")
        del weights["apart"]
    overrides = {
        "model.options_file": str(out / "options.json"),
        "model.weight_file": str(out / "weights.hdf5"),
        "model.softmax_file": str(out / "softmax.hdf5"),
        "vocabulary.words_file": str(out / "vocab.txt"),
        "dataset_reader": READER,
        "validation_dataset_reader": READER,
    }
    config = str(bundled("training_configs/bilm_official.jsonnet"))
    train_model(Params.from_file(config, json.dumps(overrides)), str(tmp_path / "official"))
    shutil.rmtree(out)
    assert evaluated(tmp_path / "official/model.tar.gz", text) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"softmax_file": "weights.hdf5"}, "weights.hdf5"),
        ({"softmax_file": "options.json"}, "options.json"),
        ({"weight_file": "."}, "folder"),
        ({"softmax_file": "x", "weight_file": None}, "softmax_file"),
        ({"options_file": None, "weight_file": None}, "options_file"),
        ({"options": {}}, "options_file"),
        ({"options": {}, "options_file": None}, "weight_file"),
    ],
)
def test_wrong_blocks(tmp_path, monkeypatch, changes, place):
    monkeypatch.chdir(tmp_path)
    make_files(tmp_path)
    vocab = Vocabulary.from_params(Params({"type": "elmo_words", "words_file": write_words(tmp_path / "w")}))
    block = {"options_file": "options.json", "weight_file": "weights.hdf5", "softmax": dict(FULL)} | changes
    with pytest.raises(ConfigurationError, match=place):
        Model.from_params(Params({"type": "elmo_bilm", **block}), vocab=vocab)


@pytest.mark.parametrize("input", ["characters", "words"])
def test_files_of_another_model(tmp_path, input):
    out = exported(tmp_path, input)
    with pytest.raises(ConfigurationError, match=r"13.*14|14.*13"):
        start(out, write_words(tmp_path / "words", [*VOCABULARY, "dog"]))
    with pytest.raises(ConfigurationError, match=r"full .*sampled"):
        start(out, softmax=ADAPTIVE)
    options = json.loads((out / "options.json").read_text())
    options["lstm"]["dim"] = 14
    (out / "options.json").write_text(json.dumps(options))
    with pytest.raises(ConfigurationError, match=r"weights\.hdf5: "):
        start(out)
