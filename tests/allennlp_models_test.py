"""Our ELMo in the models of allennlp-models: each trains, and its archive alone evaluates and predicts."""

import json
import math
import shutil
from pathlib import Path

import pytest
import torch
from allennlp.commands.train import train_model
from allennlp.common import Params
from allennlp.common.util import import_module_and_submodules, prepare_environment
from allennlp.data.data_loaders import SimpleDataLoader
from allennlp.models import load_archive
from allennlp.training.util import evaluate

from elmo_tasks.paths import bundled

CONFIGS = sorted(bundled("training_configs/allennlp").resolve().glob("*.jsonnet"))

ELMO = {"options_file": "elmo/options.json", "weight_file": "elmo/weights.hdf5", "projection_dim": 256}


@pytest.fixture(scope="module", autouse=True)
def _registered():
    import_module_and_submodules("allennlp_models")


def gold_conll(folder: Path) -> dict[str, str]:
    """The fixtures of semantic roles as the reader of allennlp-models wants them."""
    paths = {}
    for part, key in (("train", "train_data_path"), ("dev", "validation_data_path")):
        (folder / part).mkdir()
        shutil.copy(bundled(f"fixtures/srl/{part}.conll"), folder / part / "part.gold_conll")
        paths[key] = str(folder / part)
    return paths


def test_the_six_of_the_paper():
    names = {path.stem for path in CONFIGS}
    assert names == {f"{model}_elmo" for model in ("crf_tagger", "esim", "bidaf", "bcn", "srl", "coref")}


@pytest.mark.parametrize("config", CONFIGS, ids=lambda path: path.stem)
def test_trains_and_predicts_from_its_archive(config, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(bundled("fixtures/elmo"), "elmo")
    name = "words" if config.stem == "bcn_elmo" else "elmo"
    block = f"model.text_field_embedder.token_embedders.{name}"
    overrides = {
        # Projected to the width of the default biLM
        **{f"{block}.{key}": value for key, value in ELMO.items()},
        "trainer.num_epochs": 1,
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
    expected, outputs = (
        trained.forward_on_instance(instances[0]),
        archive.model.forward_on_instance(instances[0]),
    )
    assert expected.keys() == outputs.keys()
    torch.testing.assert_close(outputs["loss"], expected["loss"])
