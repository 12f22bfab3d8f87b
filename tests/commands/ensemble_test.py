import json
import shutil
import tarfile
from contextlib import contextmanager

import pytest
import torch
from allennlp.commands.evaluate import evaluate_from_archive
from allennlp.common.checks import ConfigurationError
from allennlp.models.archival import archive_model, load_archive
from allennlp.predictors import Predictor

from elmo_tasks.commands.ensemble import open_members
from elmo_tasks.ner.predictor import NerPredictor
from tests.elmo.files import make_files
from tests.errors import error_of, mentions
from tests.language_model.archives import write_run as write_language_model
from tests.modules.models import ensemble_of
from tests.ner.archives import DEV, dev_batch, write_run

SENTENCE = {"tokens": ["Ana", "Silva", "flew", "to", "Lisbon", "."]}


@pytest.fixture
def runs(tmp_path):
    """The folders of two runs with one biLM, and of a third with another."""
    for name, changes in (("bilm", {}), ("other", {"projection_dim": 7})):
        make_files(tmp_path / name, **changes)
    folders = [tmp_path / "runs" / name for name in "abc"]
    for seed, (folder, bilm) in enumerate(zip(folders, ("bilm", "bilm", "other"), strict=True)):
        write_run(folder, seed=seed, bilm=tmp_path / bilm)
    return folders


@contextmanager
def changed_config(folder):
    config = json.loads((folder / "config.json").read_text())
    yield config
    (folder / "config.json").write_text(json.dumps(config))


def test_the_archive_stands_alone(elmo, runs, tmp_path, capsys):
    expected = ensemble_of(*runs)
    batch = dev_batch(expected.first, runs[0], slice(None))
    outputs = expected(**batch)
    output = tmp_path / "out/ensemble.tar.gz"
    assert elmo("ensemble", archive_model(runs[0]), *runs[1:], "--output", output) == 0
    assert capsys.readouterr().out == f"{output}: 3 members, distinct biLMs: 2\n"
    assert [file.name for file in output.parent.iterdir()] == ["ensemble.tar.gz"]
    for folder in ("runs", "bilm", "other"):
        shutil.rmtree(tmp_path / folder)

    model = load_archive(output).model.eval()
    assert torch.equal(model(**batch)["emissions"], outputs["emissions"])
    first, second, third = (member.elmo.bilm for member in model.members)
    assert first is second is not third
    with tarfile.open(output) as archive:
        archive.extract("weights.th", tmp_path)
    state = torch.load(tmp_path / "weights.th")
    stored = {weight.untyped_storage().data_ptr() for name, weight in state.items() if ".bilm." in name}
    assert len(stored) == 2 * len(first.state_dict())

    found = evaluate_from_archive(output, DEV)
    for name, value in expected.get_metrics(reset=True).items():
        assert found[name] == pytest.approx(value)
    predictor = Predictor.from_path(str(output), import_plugins=False)
    assert isinstance(predictor, NerPredictor)
    result = predictor.predict_json(SENTENCE)
    assert result["tokens"] == SENTENCE["tokens"]
    assert len(result["tags"]) == len(SENTENCE["tokens"])


def test_a_file_that_is_there_stays(elmo, runs, tmp_path, capsys):
    output = tmp_path / "ensemble.tar.gz"
    output.write_text("mine")
    assert elmo("ensemble", *runs[:2], "-o", output) == 1
    assert mentions(capsys.readouterr().err, f"error: {output} exists", "--force")
    assert elmo("ensemble", *runs[:2], runs[0] / "nothing", "-o", output, "--force") == 1
    assert output.read_text() == "mine"
    assert elmo("ensemble", *runs[:2], "-o", output, "--force") == 0
    assert len(load_archive(output).model.members) == 2
    assert not (tmp_path / "ensemble.tar.gz.partial").exists()


def test_archives_that_do_not_go_together(runs, tmp_path):
    """Other token indexers, another order of labels, no model of a task, and no whole archive."""
    first, indexer, labels = runs[0], *(tmp_path / name for name in ("indexer", "labels"))
    for folder in (indexer, labels):
        shutil.copytree(first, folder)
    with changed_config(indexer) as config:
        config["dataset_reader"]["token_indexers"]["tokens"] = {"type": "single_id"}
    names = (labels / "vocabulary/labels.txt").read_text().splitlines()
    (labels / "vocabulary/labels.txt").write_text("\n".join([names[1], names[0], *names[2:]]))
    write_language_model(tmp_path / "bilm_model")
    for folder, names_of_problem in (
        (indexer, ["dataset_reader", "'tokens'"]),
        (labels, ["'labels'"]),
        (tmp_path / "bilm_model", ["BiLmModel"]),
    ):
        message = error_of(ConfigurationError, open_members, [str(first), str(folder)])
        assert mentions(message, f"{folder}: ", *names_of_problem, str(first))
    (first / "best.th").write_bytes(b"cut off")
    with pytest.raises(ConfigurationError, match=rf"^{first}:"):
        open_members([str(first), str(labels)])


def test_archives_that_stay_where_they_are(runs, tmp_path):
    both, archives = tmp_path / "both", list(map(str, runs[:2]))
    both.mkdir()
    shutil.copy(runs[0] / "config.json", both)
    with changed_config(both) as config:
        config["model"] = {"type": "elmo_ensemble", "archives": archives}
    expected = ensemble_of(*archives)
    batch = dev_batch(expected.first, runs[0])
    found = load_archive(both).model.eval()(**batch)["emissions"]
    assert torch.equal(found, expected(**batch)["emissions"])
    with pytest.raises(ConfigurationError, match=r"best\.th"):
        load_archive(both, weights_file=str(runs[0] / "best.th"))
    with changed_config(both) as config:
        del config["dataset_reader"]["token_indexers"]["elmo"]
    with pytest.raises(ConfigurationError, match="token_indexers"):
        load_archive(both)
