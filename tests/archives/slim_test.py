"""Archives without the biLM that comes with the project, and their names."""

import json
import tarfile

import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import Vocabulary
from allennlp.models.archival import archive_model

import elmo_tasks
from elmo_tasks.archives import open_archive, opening
from elmo_tasks.archives.slim import NOTE
from elmo_tasks.common.files import bundled
from elmo_tasks.pipeline.results import Entity
from tests.ner.archives import write_run

ENGLISH = bundled("pretrained/english").resolve()
TEXT = "Ana Silva flew to Lisbon."


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """The archive of a model with random weights and the biLM that comes with the project."""
    folder = tmp_path_factory.mktemp("slim") / "run"
    write_run(folder, seed=1, bilm=ENGLISH)
    archive_model(folder)
    return folder / "model.tar.gz"


@pytest.fixture(scope="module")
def slim_archive(archive, allennlp, tmp_path_factory):
    output = tmp_path_factory.mktemp("output") / "small.tar.gz"
    allennlp("elmo", "slim", archive, "-o", output)
    return output


def test_a_slim_archive_is_small_and_predicts_alike(archive, slim_archive):
    assert slim_archive.stat().st_size < archive.stat().st_size / 10
    state, slim_state = (open_archive(path).model.state_dict() for path in (archive, slim_archive))
    assert state.keys() == slim_state.keys()
    assert all(torch.equal(slim_state[name], weight) for name, weight in state.items())


def test_the_vocabulary_of_an_archive(archive, slim_archive, monkeypatch):
    """By the path of the archive, the folder of its run, and the name of one that comes with the project."""
    monkeypatch.setattr(opening, "trained_archives", lambda: {"ner": slim_archive})
    tags = open_archive(archive).model.label_names()
    for name in (archive, archive.parent, "elmo:ner"):
        found = Vocabulary.from_params(Params({"type": "from_files", "directory": str(name)}))
        assert list(found.get_token_to_index_vocabulary("labels")) == tags


def test_slim_again_and_in_half_precision(archive, slim_archive, tmp_path, allennlp):
    output = tmp_path / "half.tar.gz"
    allennlp("elmo", "slim", slim_archive, "-o", output, "--dtype", "float16")
    assert output.stat().st_size < 0.7 * slim_archive.stat().st_size
    state, half_state = (open_archive(path).model.state_dict() for path in (archive, output))
    for name, weight in state.items():
        assert half_state[name].dtype == weight.dtype
        torch.testing.assert_close(half_state[name], weight, rtol=2**-10, atol=1e-6)


def test_another_bilm_is_refused(slim_archive, tmp_path, allennlp):
    with tarfile.open(slim_archive) as tar:
        tar.extractall(tmp_path / "unpacked", filter="data")
    note = tmp_path / "unpacked" / NOTE
    note.write_text(json.dumps(json.loads(note.read_text()) | {"digest": "0", "version": "9.9"}))
    with tarfile.open(tmp_path / "other.tar.gz", "w:gz") as tar:
        for path in (tmp_path / "unpacked").iterdir():
            tar.add(path, path.name)
    with pytest.raises(ConfigurationError, match=r"other.tar.gz.*elmo_tasks 9.9"):
        open_archive(tmp_path / "other.tar.gz")

    write_run(tmp_path / "tiny", seed=1, bilm=bundled("fixtures/elmo").resolve())
    archive_model(tmp_path / "tiny")
    allennlp("elmo", "slim", tmp_path / "tiny/model.tar.gz", "-o", tmp_path / "out.tar.gz", status=1)
    (tmp_path / "text.md").write_text("no archive")
    allennlp("elmo", "slim", tmp_path / "text.md", "-o", tmp_path / "out.tar.gz", status=1)
    assert not (tmp_path / "out.tar.gz").exists()


def test_names(slim_archive, tmp_path, monkeypatch):
    monkeypatch.setattr(opening, "bundled", lambda name: tmp_path / name)
    with pytest.raises(ConfigurationError, match=r"elmo:ner.*elmo_tasks"):
        elmo_tasks.load("ner")
    folder = tmp_path / "models/elmo_tasks_models"
    folder.mkdir(parents=True)
    (folder / "ner.tar.gz").write_bytes(slim_archive.read_bytes())
    (folder / "models.json").write_text('{"ner": {"task": "persons"}}')
    found = elmo_tasks.load("ner")
    by_path = elmo_tasks.load(slim_archive)
    assert found(TEXT) == by_path.predict(TEXT) == found.predict_batch([TEXT, ""])[0]
    assert found.predict_batch([TEXT, ""])[1] == []
    for entity in found(TEXT):
        assert isinstance(entity, Entity)
        assert TEXT[entity.start : entity.end] == entity.text
    with pytest.raises(ConfigurationError, match="string for each of: sentence"):
        found(TEXT, TEXT)
    with pytest.raises(ConfigurationError, match=r"elmo:other.*elmo:ner"):
        open_archive("elmo:other")
