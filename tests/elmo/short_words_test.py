"""A biLM that reads at most 20 characters of a word, from its training to the archive of a task."""

import json
import shutil

import numpy as np
import pytest
import torch
from allennlp.commands.evaluate import evaluate_from_archive
from allennlp.commands.train import train_model
from allennlp.common import Params
from allennlp.models.archival import archive_model, load_archive

from elmo_tasks.commands.export import read_trained, write_bilm
from elmo_tasks.common.files import bundled
from elmo_tasks.elmo import Elmo
from tests.elmo.files import batch
from tests.elmo.numpy_reference import NumpyBiLm
from tests.language_model.archives import TEXT, perplexity_of_files
from tests.ner.archives import dev_batch, write_run

SIZES = {"n_layers": 1, "dim": 8, "projection_dim": 4}
CHARACTERS = {"filters": [[1, 4], [3, 4]], "max_characters_per_token": 20}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The run of the pre-training, and its biLM as `allennlp elmo export` writes it."""
    folder = tmp_path_factory.mktemp("short")
    overrides = {
        **{f"model.options.lstm.{key}": value for key, value in SIZES.items()},
        **{f"model.options.char_cnn.{key}": value for key, value in CHARACTERS.items()},
        "trainer.num_epochs": 1,
        "data_loader.batches_per_epoch": 2,
        "trainer.callbacks": [],
    }
    config = Params.from_file(str(bundled("training_configs/bilm.jsonnet")), json.dumps(overrides))
    train_model(config, folder / "run")
    (folder / "elmo").mkdir()
    bilm, softmax, words = read_trained(str(folder / "run/model.tar.gz"))
    write_bilm(folder / "elmo", bilm, softmax, words, dtype="float32")
    return folder


def test_perplexity_is_that_of_the_files(trained, tmp_path):
    text = f"{'a' * 18} {'a' * 19} {'a' * 70}\n{TEXT}"
    (tmp_path / "text.txt").write_text(text, encoding="utf-8")
    options = json.loads((trained / "elmo/options.json").read_text())
    assert options["char_cnn"]["max_characters_per_token"] == 20
    metrics = evaluate_from_archive(trained / "run/model.tar.gz", str(tmp_path / "text.txt"))
    expected = perplexity_of_files(trained / "elmo", text, passage=64)
    assert metrics["perplexity"] == pytest.approx(expected, rel=1e-5)


def test_vectors_are_those_of_the_files(trained):
    files = trained / "elmo/options.json", trained / "elmo/weights.hdf5"
    words = ["b" * 17 + "c", "b" * 18, "b" * 18 + "c", "b" * 60, "한국어를공부하자"]
    elmo = Elmo(options_file=str(files[0]), weight_file=str(files[1])).eval()
    vectors = elmo(batch([words])).input
    np.testing.assert_allclose(vectors[0].detach(), NumpyBiLm(*files)(words).mean(axis=0), atol=1e-6)
    alone = [elmo.bilm.encode(batch([[word]]))[0, 0, 0] for word in words]
    assert torch.equal(alone[1], alone[2])
    assert torch.equal(alone[1], alone[3])
    assert not torch.equal(alone[0], alone[1])


@pytest.mark.parametrize("trainable", [False, True])
def test_an_archive_of_a_task_stands_alone(trained, tmp_path, trainable):
    files = shutil.copytree(trained / "elmo", tmp_path / "elmo")
    model = write_run(tmp_path / "run", seed=1, bilm=files, trainable=trainable)
    archive = archive_model(tmp_path / "run")
    shutil.rmtree(files)
    again = load_archive(archive).model.eval()
    assert again.elmo.bilm.options.tokens.max_characters == 20
    tensors = dev_batch(model, tmp_path / "run")
    torch.testing.assert_close(again(**tensors)["loss"], model(**tensors)["loss"])
