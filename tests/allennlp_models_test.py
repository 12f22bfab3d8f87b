"""Our ELMo in the models of allennlp-models: each trains, and its archive alone evaluates and predicts."""

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from allennlp.commands.train import train_model
from allennlp.common import Params
from allennlp.common.util import import_module_and_submodules, prepare_environment
from allennlp.data.data_loaders import SimpleDataLoader
from allennlp.models import load_archive
from allennlp.training.util import evaluate

from elmo_tasks.common.files import bundled

CONFIGS = sorted(bundled("training_configs/allennlp").resolve().glob("*.jsonnet"))


@pytest.fixture(scope="module", autouse=True)
def _registered():
    import_module_and_submodules("allennlp_models")


def gold_conll(folder: Path) -> dict[str, str]:
    """Writes the fixtures of semantic roles as the reader of allennlp-models expects them."""
    paths = {}
    for part, key in (("train", "train_data_path"), ("dev", "validation_data_path")):
        (folder / part).mkdir()
        shutil.copy(bundled(f"fixtures/srl/{part}.conll"), folder / part / "part.gold_conll")
        paths[key] = str(folder / part)
    return paths


def test_the_six_of_the_paper():
    names = {path.stem for path in CONFIGS}
    assert names == {f"{model}_elmo" for model in ("crf_tagger", "esim", "bidaf", "bcn", "srl", "coref")}


def small(config: Path, elmo: Path) -> dict[str, Any]:
    """Overrides for one epoch with the biLM in a folder, projected to the width of the default one."""
    name = "words" if config.stem == "bcn_elmo" else "elmo"
    block = f"model.text_field_embedder.token_embedders.{name}"
    return {
        f"{block}.options_file": str(elmo / "options.json"),
        f"{block}.weight_file": str(elmo / "weights.hdf5"),
        f"{block}.projection_dim": 256,
        "trainer.num_epochs": 1,
    }


@pytest.mark.slow
def test_several_workers(allennlp, tmp_path):
    """The penalty's regularizer, and frozen weights, in a model that each of two processes has."""
    config = bundled("training_configs/allennlp/crf_tagger_elmo.jsonnet").resolve()
    overrides = {
        **small(config, bundled("fixtures/elmo").resolve()),
        "distributed": {"cuda_devices": [-1, -1]},
        "model.calculate_span_f1": False,  # AllenNLP's own measure knows one process
        "trainer.validation_metric": "+accuracy",
        "validation_data_loader": {"batch_size": 1},
    }
    folder = tmp_path / "run"
    allennlp("train", config, "-s", folder, "-o", json.dumps(overrides))
    together = json.loads((folder / "metrics.json").read_text())
    assert together["training_reg_loss"] > 0
    dev = Params.from_file(str(config))["validation_data_path"]
    archive = load_archive(folder / "model.tar.gz")
    loader = SimpleDataLoader(list(archive.validation_dataset_reader.read(dev)), batch_size=16)
    loader.index_with(archive.model.vocab)
    alone = evaluate(archive.model, loader)
    assert together["best_validation_accuracy"] == pytest.approx(alone["accuracy"], abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("config", CONFIGS, ids=lambda path: path.stem)
def test_trains_and_predicts_from_its_archive(config, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(bundled("fixtures/elmo"), "elmo")
    overrides = {
        **small(config, Path("elmo")),
        "data_loader.batches_per_epoch": 2,
        **(gold_conll(tmp_path) if config.stem == "srl_elmo" else {}),
    }
    params = Params.from_file(str(config), json.dumps(overrides))
    dev_path, metric = params["validation_data_path"], params["trainer"]["validation_metric"][1:]
    prepare_environment(params)
    trained = train_model(params, "run", return_model=True).eval()
    written = json.loads(Path("run/metrics.json").read_text())
    assert "training_reg_loss" in written
    shutil.rmtree("elmo")

    archive = load_archive("run/model.tar.gz")
    instances = list(archive.validation_dataset_reader.read(dev_path))[:4]
    loader = SimpleDataLoader(instances, batch_size=1)
    loader.index_with(archive.model.vocab)
    metrics = evaluate(archive.model, loader)
    assert math.isfinite(metrics["loss"])
    assert metric in metrics
    expected, outputs = (model.forward_on_instance(instances[0]) for model in (trained, archive.model))
    assert expected.keys() == outputs.keys()
    torch.testing.assert_close(outputs["loss"], expected["loss"])
