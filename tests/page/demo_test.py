import re

import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")

from elmo_tasks.page import demo
from elmo_tasks.predictors.json_lines import JsonLinesPredictor
from elmo_tasks.serving.models import open_predictor
from tests.conftest import TINY_ELMO

SMALL = TINY_ELMO | {"trainer.num_epochs": 1, "data_loader.batches_per_epoch": 1}


def test_what_is_missing_is_trained(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(demo, "MODELS", {name: demo.MODELS[name] for name in ("snli",)})
    (tmp_path / "snli").mkdir()
    (tmp_path / "snli/half").touch()  # of a run that was killed
    archives = demo.train_missing(tmp_path, **SMALL)
    progress = re.sub(r"\d+ s", "… s", capsys.readouterr().out)
    assert progress == "training snli\n1 of 1: snli, … s\n"
    assert archives == [tmp_path / "snli/model.tar.gz"]
    assert isinstance(open_predictor(str(archives[0])), JsonLinesPredictor)
    assert demo.train_missing(tmp_path, **SMALL) == archives
    assert capsys.readouterr().out == ""


def test_every_task_has_a_model():
    assert demo.MODELS.keys() == demo.EPOCHS.keys()
    assert len(demo.MODELS) == 7
