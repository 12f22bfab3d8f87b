import json
import logging
import posixpath
import re
import sys
import tarfile
from collections import namedtuple
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import ClassVar

import pytest
from allennlp.common.checks import ConfigurationError

from elmo_tasks.training.callbacks import MlflowCallback
from tests.errors import mentions

CONFIG = {"model": {"type": "elmo_bilm"}, "vocabulary": {"min_count": {"*tokens": 2}}}
NAMES = {"config.json", "weights.th", "vocabulary", "vocabulary/tokens.txt", "meta.json"}
METRICS = {"epoch": 1, "validation_perplexity": 50.5, "training_duration": "0:00:01"}
Metric = namedtuple("Metric", ["key", "value", "timestamp", "step"])
Param = namedtuple("Param", ["key", "value"])


class Client:
    """A store in memory, one for each URI."""

    stores: ClassVar[dict[str, dict]] = {}

    def __init__(self, tracking_uri):
        if not tracking_uri.startswith(("sqlite:///", "http://")):
            raise OSError(f"no store {tracking_uri}")
        self.store = self.stores.setdefault(tracking_uri, {})

    def get_experiment_by_name(self, name):
        return SimpleNamespace(experiment_id=name) if name in self.store else None

    def create_experiment(self, name, artifact_location):
        self.store[name] = artifact_location
        return name

    def create_run(self, experiment_id, run_name):
        self.store["run 1"] = {"name": run_name, "logged": [], "files": {}}
        return SimpleNamespace(info=SimpleNamespace(run_id="run 1"))

    def update_run(self, run_id, status):
        self.store[run_id]["status"] = status

    set_terminated = update_run

    def log_batch(self, run_id, metrics=(), params=()):
        """As MLflow: all or nothing."""
        for item in (*metrics, *params):
            if not re.fullmatch(r"[/\w.\- ]{1,250}", item.key) or item.key != posixpath.normpath(item.key):
                raise ValueError(f"Invalid name: {item.key}")
        self.store[run_id]["logged"] += [*metrics, *params]

    def log_artifact(self, run_id, path):
        with tarfile.open(path) as archive:
            self.store[run_id]["files"] = set(archive.getnames())


@pytest.fixture
def mlflow(monkeypatch):
    module = ModuleType("mlflow")
    module.MlflowClient, Client.stores = Client, {}
    module.entities = SimpleNamespace(Metric=Metric, Param=Param)
    monkeypatch.setitem(sys.modules, "mlflow", module)
    return module


@pytest.fixture
def folder(tmp_path):
    """A serialization folder with the files of an archive, and a blank in its name."""
    run = tmp_path / "my run"
    (run / "vocabulary").mkdir(parents=True)
    (run / "config.json").write_text(json.dumps(CONFIG))
    for name in ("best.th", "meta.json", "vocabulary/tokens.txt"):
        (run / name).touch()
    return run


def test_logs_parameters_metrics_and_the_archive(mlflow, folder):
    callback = MlflowCallback(str(folder))
    callback.on_start(None)
    callback.on_epoch(None, METRICS, 1)
    callback.on_end(None, METRICS, 1)
    store = Client.stores[f"sqlite:///{folder}/mlflow.db"]
    assert store["elmo"] == f"{folder.as_uri()}/mlruns"
    run = store["run 1"]
    assert (run["name"], run["status"], run["files"]) == ("my run", "FINISHED", NAMES)
    assert {item[:2] for item in run["logged"]} == {
        ("model.type", "elmo_bilm"),
        ("vocabulary.min_count._2a_tokens", "2"),
        ("epoch", 1),
        ("validation_perplexity", 50.5),
    }
    assert all(item.step == 1 for item in run["logged"] if isinstance(item, Metric))
    # The archive for the store is removed.
    assert not list(folder.rglob("model.tar.gz"))


def test_resumes_its_run(mlflow, folder, monkeypatch):
    uri = "http://server"
    options = {"tracking_uri": uri, "experiment": "lm", "run_name": "first"}
    killed = MlflowCallback(str(folder), **options)
    killed.on_start(None)
    killed.on_epoch(None, METRICS, 0)
    killed.on_end(None)
    run = Client.stores[uri]["run 1"]
    assert (run["status"], run["files"]) == ("FAILED", {})
    resumed = MlflowCallback(str(folder), **options)
    resumed.on_start(None)
    assert run["status"] == "RUNNING"
    resumed.on_epoch(None, METRICS, 1)
    assert [item.step for item in run["logged"] if item[0] == "epoch"] == [0, 1]
    assert run["name"] == "first"
    assert Client.stores[uri]["lm"] is None
    # Another store, from the environment, does not have the run.
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///runs.db")
    MlflowCallback(str(folder)).on_start(None)
    assert Client.stores["sqlite:///runs.db"]["elmo"] == Path("mlruns").resolve().as_uri()


def test_names_that_mlflow_refuses(mlflow, folder, caplog):
    callback = MlflowCallback(str(folder))
    callback.on_start(None)
    names = ["precision-<UNK>", "precision-,", "precision-/", 'confusion-"non-fiction"-x']
    callback.on_epoch(None, dict.fromkeys(names, 0.5), 0)
    assert not caplog.records
    logged = Client.stores[f"sqlite:///{folder}/mlflow.db"]["run 1"]["logged"]
    keys = [item.key for item in logged if isinstance(item, Metric)]
    assert keys[:3] == ["precision-_3c_UNK_3e_", "precision-_2c_", "precision-_2f_"]
    assert len(set(keys)) == len(names)


def test_training_continues_without_the_server(mlflow, folder, monkeypatch, caplog):
    def log_batch(*args, **kwargs):
        raise OSError("connection lost")

    callback = MlflowCallback(str(folder))
    callback.on_start(None)
    monkeypatch.setattr(Client, "log_batch", log_batch)
    with caplog.at_level(logging.WARNING):
        callback.on_epoch(None, METRICS, 0)
    assert mentions(caplog.text, "log_batch", "connection lost")


def test_only_the_first_worker_logs(mlflow, folder):
    callback = MlflowCallback(str(folder))
    callback.on_start(None, is_primary=False)
    callback.on_epoch(None, METRICS, 0, is_primary=False)
    assert not Client.stores


def test_store_that_cannot_be_used(mlflow, folder):
    with pytest.raises(ConfigurationError, match=r"tracking_uri 'nothing://'"):
        MlflowCallback(str(folder), tracking_uri="nothing://").on_start(None)


def test_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(ConfigurationError, match=r"-c requirements/main\.lock"):
        MlflowCallback("folder")
